"""The learned bias of results, for potentials that are wrong by a known amount.

A potential ln p + t·θ has the mean score t at every θ, so everything follows in closed form.
"""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.likelihood.learned_bias import find_bias
from inferostatic.learning.measure_bias import choose_test_rows

TOY = ist.toys.Dirichlet()
THETA = np.array([1.5, 3.0, 4.0])
TILT = (0.1, -0.05, 0.0)
BIASED = r"shifts \w+ by [+-]"


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def measured(estimator: ist.Estimator, simulator: Any, n: int, seed: int = 1) -> ist.Estimator:
    assert estimator.prior is not None
    events = ist.simulate(simulator, estimator.prior, n, seed=seed, progress_bar=False)
    events = ist.Events(
        theta=events.theta,
        x=events.x,
        prior=estimator.prior,
        theta_names=estimator.theta_names,
        x_names=estimator.x_names,
    )
    return ist.measure_bias(estimator, events)


@pytest.fixture(scope="module")
def tilted() -> ist.Estimator:
    return measured(exact_dirichlet(low=0.5, high=5.0, tilt=TILT), TOY, 100_000)


@pytest.fixture(scope="module")
def exact() -> ist.Estimator:
    return measured(exact_dirichlet(low=0.5, high=5.0), TOY, 100_000)


def observed(n: int, seed: int = 3) -> np.ndarray:
    return TOY(np.tile(THETA, (n, 1)), np.random.default_rng(seed))


def test_the_mean_score_is_measured_with_its_error(tilted: ist.Estimator) -> None:
    assert tilted.score_bias is not None
    for theta in ([1.5, 3.0, 4.0], [0.7, 0.7, 0.7], [4.5, 1.0, 2.0]):
        mean, covariance = tilted.score_bias(np.array(theta))
        pulls = (mean - TILT) / np.sqrt(np.diag(covariance))
        assert np.abs(pulls).max() < 4
        # Not so large that nothing could be seen: the tilt is 0.1.
        assert np.sqrt(covariance[0, 0]) < 0.05
        spread = tilted.score_bias.covariance(np.array(theta))
        sizes = np.linalg.eigvals(np.linalg.solve(TOY.fisher(np.array(theta)), spread)).real
        assert np.all((sizes > 0.5) & (sizes < 2))


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("n", [100, 1000])
def test_the_bias_is_that_of_the_closed_form(
    tilted: ist.Estimator,
    n: int,
    constrained: bool,  # noqa: FBT001
) -> None:
    constraints = {"b": (3.0, 0.05)} if constrained else None
    likelihood = ist.Likelihood(tilted, observed(n), constraints=constraints)
    found = find_bias(likelihood, THETA)
    assert found is not None
    precision = n * TOY.fisher(THETA) + np.diag([0.0, 400.0 * constrained, 0.0])
    covariance = np.linalg.inv(precision)
    shift = covariance @ (n * np.array(TILT))
    np.testing.assert_allclose(found.shift, shift, atol=4 * np.max(found.error * np.sqrt(shift**2)))
    bias = shift / np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found.bias - bias) < 4 * found.error + 0.1 * np.abs(bias))
    assert found.verdict == ("biased" if n == 1000 else found.verdict)


def test_the_estimate_moves_by_the_stated_shift(tilted: ist.Estimator) -> None:
    x = observed(2000)
    with pytest.warns(UserWarning, match=BIASED):
        wrong = ist.maximum_likelihood(tilted, x)
    right = ist.maximum_likelihood(exact_dirichlet(low=0.5, high=5.0), x)
    assert wrong.bias is not None
    error = wrong.bias.error * wrong.errors
    assert np.all(np.abs(wrong.theta - right.theta - wrong.bias.shift) < 3 * error + 0.01)
    assert "learned bias: biased" in wrong.summary()
    assert "not measured" in right.summary()


def test_an_exact_potential_is_not_called_biased(exact: ist.Estimator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ist.maximum_likelihood(exact, observed(50)).bias
    assert found is not None
    assert found.verdict == "not biased"
    assert found.needed_events == 0
    # Every result says so up to the trusted number of events, and none beyond.
    for factor, unbiased in ((0.98, True), (1.02, False)):
        scale = np.sqrt(factor * found.trusted_events / found.observed)
        moved = dataclasses.replace(found, bias=scale * found.bias, error=scale * found.error)
        assert moved.unbiased is unbiased


def test_few_events_cannot_tell_and_say_how_many_would() -> None:
    few = measured(exact_dirichlet(low=0.5, high=5.0), TOY, 2000)
    with pytest.warns(UserWarning, match="cannot be told with 2,000 events"):
        found = ist.maximum_likelihood(few, observed(300)).bias
    assert found is not None
    assert found.verdict == "cannot be told"
    assert found.needed_events > 10 * found.events


def test_channels_add_up(tilted: ist.Estimator) -> None:
    x = observed(400)
    both = ist.Likelihood(tilted, x[:150]) + ist.Likelihood(tilted, x[150:])
    one, two = find_bias(ist.Likelihood(tilted, x), THETA), find_bias(both, THETA)
    assert one is not None
    assert two is not None
    np.testing.assert_allclose(two.bias, one.bias, rtol=1e-6)
    # The same events measured both, so their errors add as if they were one.
    assert np.all(two.error <= one.error * (1 + 1e-9))


def test_every_verb_that_trusts_the_potential_warns_and_the_others_do_not() -> None:
    estimator = measured(exact_normal(tilt=0.5), normal, 20_000)
    x = normal(np.full((60, 1), 0.4), np.random.default_rng(5))
    reference = ist.Events(
        theta=np.zeros((600, 1)),
        x=normal(np.zeros((600, 1)), np.random.default_rng(6)),
        theta_names=estimator.theta_names,
        x_names=estimator.x_names,
    )
    verbs = {
        "maximum likelihood": lambda: ist.maximum_likelihood(estimator, x),
        "posterior": lambda: ist.posterior(estimator, x, seed=1),
        "set": lambda: ist.confidence_set(estimator, x),
        "cross entropy": lambda: ist.cross_entropy_fit(estimator, x, reference=reference),
        "limit": lambda: ist.upper_limit(estimator, x, 0, ist.CLsb(), background=0.0),
    }
    for verb in verbs.values():
        with pytest.warns(UserWarning, match="biased: the learned score shifts"):
            found = verb()
        assert found.bias.biased
        # In standard errors of 60 events.
        assert found.bias.bias[0] == pytest.approx(0.5 * np.sqrt(60), rel=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grid = {estimator.theta_names[0]: [0.0, 0.5]}
        neyman = ist.confidence_set(estimator, x, ist.Neyman(normal, toys=20), grid=grid)
    assert neyman.bias is None


@pytest.mark.parametrize("centre", [False, True])
def test_events_that_measure_the_bias_train_nothing(centre: bool) -> None:  # noqa: FBT001
    prior = ist.Uniform([-1.0], [1.0])
    events = ist.simulate(normal, prior, 5000, seed=1, progress_bar=False)
    training = ist.Training(epochs=1, batch_size=500, centre=centre, progress_bar=False)
    rows = choose_test_rows(events, ist.Potential(), training)
    assert len(rows) == 250
    x = np.array(events.x)
    x[rows] = 2 * np.median(x) - x[rows]
    changed = ist.Events(theta=events.theta, x=x, prior=prior)
    network = ist.Potential(ist.MLP((4,)), ist.Raw())
    one, two = (
        ist.fit(some, network=network, training=training, members=1, seed=2)
        for some in (events, changed)
    )
    at = events.x[:50], events.theta[:50]
    np.testing.assert_array_equal(one.score(*at), two.score(*at))
    assert one.score_bias is not None
    assert two.score_bias is not None
    assert one.score_bias(np.zeros(1))[0] != two.score_bias(np.zeros(1))[0]
    # Events that do train change the weights: the comparison above could fail.
    others = np.setdiff1d(np.arange(5000), rows)[:250]
    x = np.array(events.x)
    x[others] = 2 * np.median(x) - x[others]
    third = ist.Events(theta=events.theta, x=x, prior=prior)
    three = ist.fit(third, network=network, training=training, members=1, seed=2)
    assert not np.array_equal(one.score(*at), three.score(*at))


def test_observed_events_unlike_simulated_ones_are_reported() -> None:
    estimator = measured(exact_normal(dim=2, tilt=0.0), normal, 20_000)
    rng = np.random.default_rng(8)
    right = normal(np.zeros((200, 2)), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ist.maximum_likelihood(exact_like(estimator), right)
    assert "observed events are like simulated ones" in found.summary()
    # The same mean, another shape.
    skew = np.clip(rng.exponential(2.0, size=(3000, 2)) - 2.0, None, 6.5)
    with pytest.warns(UserWarning, match="observed events are unlike simulated ones"):
        ist.maximum_likelihood(exact_like(estimator), skew)


def exact_like(estimator: ist.Estimator) -> ist.Estimator:
    """Without a word on its bias."""
    return dataclasses.replace(estimator, score_bias=None)


def test_members_that_disagree_are_reported() -> None:
    estimator = exact_normal(members=2)
    network = dataclasses.replace(
        estimator.model.network, strength=estimator.model.network.strength * np.array([0.5, 1.5])
    )
    model = dataclasses.replace(estimator.model, network=network)
    apart = dataclasses.replace(estimator, model=model)
    x = normal(np.full((100, 1), 2.0), np.random.default_rng(2))
    # The estimate is the same by both; away from it they pull in different ways.
    with pytest.warns(UserWarning, match="the members disagree by"):
        ist.maximum_likelihood(
            ist.Likelihood(apart, x, constraints={apart.theta_names[0]: (0.0, 0.05)})
        )
