"""The learned bias of results, for potentials that are wrong by a known amount.

A potential ln p + t·θ has the mean score t at every θ, so everything follows in closed form.
"""

import dataclasses
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.checks.learned_bias import compute_bias
from inferostatic.estimator.measured_mean import _find_hidden, measure_mean
from inferostatic.inference.likelihood.learned_bias import (
    CERTAIN,
    TOLERATED,
    LearnedBias,
    find_bias,
    find_covariance,
)
from inferostatic.learning.measure_bias import choose_test_rows

TOY = ist.toys.Dirichlet()
THETA = np.array([1.5, 3.0, 4.0])
TILT = (0.1, -0.05, 0.0)
BIASED = r"shifts \w+ by [+-]"


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def simulated(estimator: ist.Estimator, simulator: Any, n: int, seed: int = 1) -> ist.Events:
    assert estimator.prior is not None
    events = ist.simulate(simulator, estimator.prior, n, seed=seed, progress_bar=False)
    return ist.Events(
        theta=events.theta,
        x=events.x,
        prior=estimator.prior,
        theta_names=estimator.theta_names,
        x_names=estimator.x_names,
    )


def measured(estimator: ist.Estimator, simulator: Any, n: int, seed: int = 1) -> ist.Estimator:
    return ist.measure_bias(estimator, simulated(estimator, simulator, n, seed))


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
    unit = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found.shift - shift) < 4 * found.error * unit + 0.1 * np.abs(shift))
    bias = shift / unit
    assert np.all(np.abs(found.bias - bias) < 4 * found.error + 0.1 * np.abs(bias))
    # Some parameter is off by 0.54 or more, so it must not be called unbiased.
    assert np.abs(bias).max() > 0.5
    assert not found.unbiased
    if n == 1000:
        # b by −1.85, or a by 3.22: more than 0.3 even if the measured bias is 3 errors too small.
        assert np.any(np.abs(bias) - (CERTAIN + 3) * found.error > TOLERATED)
        assert found.verdict == "biased"


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
    # One measurement of the mean score serves both channels, so its error is not averaged out.
    np.testing.assert_allclose(two.error, one.error, rtol=1e-6)
    assert two.observed == one.observed == 400


def test_equal_weights_change_nothing(tilted: ist.Estimator) -> None:
    x = observed(4000)
    plain = find_bias(ist.Likelihood(tilted, x), THETA)
    halves, ones = (
        find_bias(ist.Likelihood(tilted, x, weight=np.full(4000, size)), THETA)
        for size in (0.5, 1.0)
    )
    assert plain is not None
    assert halves is not None
    assert ones is not None
    assert halves.observed == ones.observed == plain.observed == 4000
    for name in ("shift", "bias", "error"):
        np.testing.assert_allclose(getattr(halves, name), getattr(ones, name), rtol=1e-6)
    np.testing.assert_allclose(halves.shift, plain.shift, rtol=1e-6)
    # Standard errors from the scatter of 4000 events, in place of the curvature.
    np.testing.assert_allclose(halves.bias, plain.bias, rtol=0.1)
    np.testing.assert_allclose(halves.error, plain.error, rtol=0.1)


def test_the_bias_of_weighted_events_is_in_errors_of_their_scatter(
    tilted: ist.Estimator,
) -> None:
    x, weight = observed(500), np.random.default_rng(4).exponential(size=500)
    found = find_bias(ist.Likelihood(tilted, x, weight=weight), THETA)
    assert found is not None
    # ln p bends by the Fisher information at every x, and the learned score is s + tilt.
    inverse = np.linalg.inv(weight.sum() * TOY.fisher(THETA))
    score = np.log(x) + special.digamma(THETA.sum()) - special.digamma(THETA) + TILT
    quoted = inverse @ ((weight**2 * score.T) @ score) @ inverse
    unit = np.sqrt(np.diag(quoted))
    assert tilted.score_bias is not None
    mean, spread = tilted.score_bias(THETA)
    np.testing.assert_allclose(found.shift, weight.sum() * inverse @ mean, rtol=1e-4)
    np.testing.assert_allclose(found.bias, found.shift / unit, rtol=1e-4)
    error = weight.sum() * np.sqrt(np.diag(inverse @ spread @ inverse)) / unit
    np.testing.assert_allclose(found.error, error, rtol=1e-4)
    assert found.observed == pytest.approx(weight.sum() ** 2 / np.sum(weight**2))
    # Uneven weights make errors larger than the curvature says, which would be seen.
    assert np.all(unit > 1.1 * np.sqrt(np.diag(inverse)))


def test_the_covariance_is_the_inverse_of_curvature_and_constraints(
    exact: ist.Estimator,
) -> None:
    likelihood = ist.Likelihood(exact, observed(300), constraints={"b": (3.0, 0.1)})
    precision = 300 * TOY.fisher(THETA) + np.diag([0.0, 100.0, 0.0])
    found = find_covariance(likelihood, THETA)
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-4)
    held = find_covariance(likelihood.fix(c=4.0), THETA)
    assert np.all(held[2] == 0)
    np.testing.assert_allclose(held[:2, :2], np.linalg.inv(precision[:2, :2]), rtol=1e-4)


def test_the_scatter_takes_the_place_of_a_curvature_that_is_not_positive() -> None:
    """A potential −ln p bends up everywhere; its score scatters like the true one."""
    upside_down = exact_normal(dim=2, stretch=-1.0)
    estimator = measured(upside_down, normal, 20_000)
    x, theta = normal(np.zeros((400, 2)), np.random.default_rng(3)), np.array([0.2, -0.1])
    b = estimator.theta_names[1]
    # Its own curvature, −400, stays negative with a constraint of 100.
    constrained = ist.Likelihood(estimator, x, constraints={b: (0.0, 0.1)})
    found = find_covariance(constrained, theta)
    # The scatter of one event is known to some 2% by 20,000 events.
    np.testing.assert_allclose(np.diag(found), [1 / 400, 1 / 500], rtol=0.1)
    assert abs(found[0, 1]) < 0.1 * found[1, 1]
    # One of 1/0.03² bends one direction down and leaves the other up.
    mixed = find_covariance(ist.Likelihood(estimator, x, constraints={b: (0.0, 0.03)}), theta)
    np.testing.assert_allclose(np.diag(mixed), [1 / 400, 1 / (400 + 0.03**-2)], rtol=0.1)
    held = find_covariance(constrained.fix(**{b: -0.1}), theta)
    np.testing.assert_allclose(held, [[1 / 400, 0], [0, 0]], rtol=0.1)
    halves = ist.Likelihood(estimator, x, weight=np.full(400, 0.5))
    np.testing.assert_allclose(np.diag(find_covariance(halves, theta)), 1 / 200, rtol=0.1)
    # The number of events adds ∇ν ∇νᵀ/ν, of ν = 300 exp(a).
    number = ist.Likelihood(estimator, x, rate=lambda point: 300 * jnp.exp(point[0]))
    found = np.diag(find_covariance(number, theta))
    np.testing.assert_allclose(found, [1 / (400 + 300 * np.exp(0.2)), 1 / 400], rtol=0.1)
    unknown = find_covariance(ist.Likelihood(upside_down, x), theta)
    assert np.isnan(unknown).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_structure_finer_than_the_polynomial_counts_as_error(weighted: bool) -> None:  # noqa: FBT001
    """Means A sin(kθ) have the variance A²/2 over θ."""
    rng = np.random.default_rng(7)
    n, size = 40_000, 0.3
    theta = rng.uniform(-1, 1, size=(n, 1))
    weight = rng.uniform(0.5, 1.5, size=n) if weighted else np.ones(n)
    wave = size * np.sin(5 * np.pi * theta[:, 0])
    smooth = 0.3 * theta[:, 0] ** 2 - 0.2 * theta[:, 0]
    values = np.stack([wave, np.zeros(n)], axis=1) + rng.normal(size=(n, 2))
    # Found with an error of √(2A²v/m), 5% of it: m = 512 cells of 78 events, whose means have the
    # variance v = 1/78.
    found = _find_hidden(theta, values, weight)
    assert found[0] == pytest.approx(size**2 / 2, rel=0.15)
    assert found[1] < 0.01 * size**2
    whole = measure_mean(values + smooth[:, None], theta, weight, about_zero=True)
    assert whole is not None
    # In units of the scatter, which holds the wave too.
    assert whole.hidden[0] == pytest.approx(size**2 / 2 / (1 + size**2 / 2), rel=0.2)
    assert whole.hidden[1] < 0.01 * size**2
    mean, covariance = whole(np.array([0.1]))
    # The wave is at its height, which the polynomial does not show and the error covers.
    assert np.sqrt(covariance[0, 0]) == pytest.approx(size / np.sqrt(2), rel=0.15)
    assert abs(mean[1] - (0.3 * 0.1**2 - 0.2 * 0.1)) < 4 * np.sqrt(covariance[1, 1])
    assert np.sqrt(covariance[1, 1]) < 0.05


def test_no_structure_is_found_in_noise() -> None:
    """Every place is looked at: what is two errors large appears in most of such searches."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta, noise = rng.uniform(-1, 1, size=(20_000, 2)), rng.normal(size=(20_000, 3))
        found = _find_hidden(theta, noise, np.ones(len(theta)))
        np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize(
    ("bias", "error", "times"),
    [
        # Within two errors a bias may be 0: 2 error = 0.3 is needed of the larger error.
        ((0.1, -0.2), (0.2, 0.15), (0.4 / 0.3) ** 2),
        # 0.5 is known not to be 0, and 0.2 too much.
        ((0.5, 0.0), (0.15, 0.05), (0.3 / 0.2) ** 2),
        # So is −0.2, and 0.1 too little.
        ((0.0, -0.2), (0.02, 0.08), (0.16 / 0.1) ** 2),
    ],
)
def test_so_many_events_are_needed_to_tell(bias: Any, error: Any, times: float) -> None:
    found = LearnedBias(("a", "b"), np.zeros(2), np.array(bias), np.array(error), 100.0, 5000.0)
    assert found.verdict == "cannot be told"
    assert found.needed_events == pytest.approx(5000 * times)
    # Errors fall as one over the root of the events.
    scale = np.sqrt(found.events / found.needed_events)
    known = np.where(np.abs(found.bias) > 2 * found.error, found.bias, 0.0)
    for factor, told in ((0.99, True), (1.05, False)):
        better = dataclasses.replace(found, bias=known, error=factor * scale * found.error)
        assert (better.biased or better.unbiased) is told
        assert better.biased is (told and bool(np.any(np.abs(known) > TOLERATED)))
        assert (better.needed_events == 0) is told
    # A bias of nearly 0.3 would take any number; it is resolved to a tenth of that.
    near = dataclasses.replace(found, bias=np.array([0.301, 0]), error=np.array([0.1, 0.01]))
    assert near.needed_events == pytest.approx(5000 * (0.2 / 0.03) ** 2)


def test_an_estimator_is_trusted_until_the_bias_is_too_large() -> None:
    """Tilted by 0.1, b = 0.1 √N: 0.3 at 9 events."""
    tilted = exact_normal(tilt=0.1)
    found = compute_bias(tilted, simulated(tilted, normal, 100_000))
    assert found is not None
    assert np.all(np.abs(found.bias - 0.1) < 4 * found.error)
    assert 4 < found.trusted_events < 9
    worst = np.quantile(found.bias[:, 0] + 2 * found.error[:, 0], 0.9)
    assert found.trusted_events == int((0.3 / worst) ** 2)
    assert found.verdict(found.trusted_events) == "not biased"
    # Measured to 0.01, a bias of just 0.3 cannot be told from less, and that of 20 events can.
    assert found.verdict(9) == "cannot be told"
    assert found.verdict(20) == "biased"


@pytest.mark.slow
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


@pytest.mark.slow
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
    with pytest.warns(UserWarning, match="the members disagree by") as caught:
        ist.maximum_likelihood(
            ist.Likelihood(apart, x, constraints={apart.theta_names[0]: (0.0, 0.05)})
        )
    (told,) = [str(one.message) for one in caught if "disagree" in str(one.message)]
    assert told.startswith("the members disagree")  # whatever the events look like
    assert "Train on more events or with more members" in told
    assert "Look at the events" not in told
