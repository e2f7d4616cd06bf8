"""Centring: the mean score at θ is 0, whatever the network made of the part that is θ's alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import legendre
from scipy.special import polygamma

import inferostatic as ist
from exact_estimators import exact_dirichlet
from inferostatic.learning import centring
from inferostatic.learning.centring import (
    DEGREES,
    _Sample,
    _Sums,
    centre_score,
    find_subtracted_score,
    gradients,
    terms_of,
    wants_centring,
)
from inferostatic.models.members import with_centring
from inferostatic.models.potential import PotentialModel
from inferostatic.models.theta_potential import ThetaPotential
from random_estimators import HIGH as HIGH2
from random_estimators import LOW as LOW2
from random_estimators import random_estimator
from random_models import random_model

LOW, HIGH = np.array([-1.0, 2.0]), np.array([3.0, 2.5])
TERMS = terms_of(2, 6)
#: Degree, gain and its standard error.
GAINS = [(1, 4.0, 1.0), (2, 7.0, 2.0), (3, 8.0, 3.0)]


def polynomial(theta: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """The same sum by NumPy's own evaluation of two-dimensional Legendre series."""
    u = 2 * (theta - LOW) / (HIGH - LOW) - 1
    table = np.zeros((7, 7))
    for term, value in zip(TERMS, coefficients, strict=True):
        table[term] = value
    return legendre.legval2d(u[:, 0], u[:, 1], table)


@pytest.fixture(scope="module")
def coefficients() -> np.ndarray:
    return np.random.default_rng(0).normal(size=len(TERMS))


def test_a_function_of_theta_is_its_series(coefficients) -> None:
    theta = np.random.default_rng(1).uniform(LOW, HIGH, (50, 2))
    function = ThetaPotential(LOW, HIGH, degrees=tuple(TERMS), coefficients=coefficients)
    found = jax.vmap(function)(jnp.asarray(theta, jnp.float32))
    np.testing.assert_allclose(found, polynomial(theta, coefficients), atol=2e-5)


def test_beyond_the_box_it_does_not_run_away(coefficients) -> None:
    function = ThetaPotential(LOW, HIGH, degrees=tuple(TERMS), coefficients=coefficients)
    far = function(jnp.array([1000.0, -50.0]))
    corner = function(jnp.array([HIGH[0], LOW[1]]))
    assert abs(far - corner) < 0.1 * np.abs(coefficients).sum()


def test_at_a_wall_the_gradient_is_whole(coefficients) -> None:
    """Not half of it, as a clip at the wall itself would have it."""
    function = ThetaPotential(LOW, HIGH, degrees=tuple(TERMS), coefficients=coefficients)
    for corner in (LOW, HIGH):
        found = jax.grad(function)(jnp.asarray(corner, jnp.float32))
        expected = gradients(corner[None], (LOW, HIGH), TERMS)[:, 0] @ coefficients
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_subtracted_score_is_the_gradient_of_the_model_also_beyond_the_box(
    coefficients,
) -> None:
    function = ThetaPotential(LOW, HIGH, degrees=tuple(TERMS), coefficients=coefficients)
    width = HIGH - LOW
    theta = np.random.default_rng(3).uniform(LOW - width / 2, HIGH + width / 2, (500, 2))
    expected = jax.vmap(jax.grad(function))(jnp.asarray(theta, jnp.float32))
    found = find_subtracted_score(function, theta)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert (found == 0).any()


def test_gradients_of_the_terms_are_those_of_finite_differences(coefficients) -> None:
    theta = np.random.default_rng(2).uniform(LOW + 0.01, HIGH - 0.01, (20, 2))
    found = gradients(theta, (LOW, HIGH), TERMS) @ coefficients
    for j in range(2):
        step = np.zeros(2)
        step[j] = 1e-5
        up, down = (polynomial(theta + sign * step, coefficients) for sign in (1, -1))
        np.testing.assert_allclose(found[j], (up - down) / 2e-5, rtol=1e-6, atol=1e-6)


def test_terms_are_nested_and_mixed_ones_are_of_lower_order() -> None:
    for lower, higher in zip(DEGREES[:-1], DEGREES[1:], strict=True):
        assert set(terms_of(3, lower)) < set(terms_of(3, higher))
    assert (16, 0, 0) in terms_of(3, 16)
    assert (1, 1, 1) in terms_of(3, 8)
    assert (4, 4, 0) not in terms_of(3, 16)
    assert terms_of(1, 2) == [(1,), (2,)]


@pytest.fixture(scope="module")
def events() -> ist.Events:
    prior = ist.Uniform([0.5] * 3, [5.4] * 3, names=["a", "b", "c"])
    return ist.simulate(ist.toys.Dirichlet(), prior, 15_000, seed=3)


def test_a_tilted_potential_is_put_right(events) -> None:
    """The tilt adds a constant to the score; what is left is the error of its estimate."""
    tilt = np.array([0.5, -0.3, 0.2])
    wrong = exact_dirichlet(low=0.5, tilt=tilt)
    right, record = centre_score(wrong, events.x, events.theta, np.ones(len(events)), seed=0)
    truth = ist.toys.Dirichlet().score(events.x, events.theta)
    before, after = (e.score(events.x, events.theta) - truth for e in (wrong, right))
    np.testing.assert_allclose(np.mean(before**2), np.mean(tilt**2), rtol=1e-3)
    # Terms times the variance of a score over the number of events, with a factor for chance.
    assert np.mean(after**2) < 4 * record.terms * np.mean(truth**2) / len(events)
    variance = polygamma(1, events.theta) - polygamma(1, events.theta.sum(axis=1))[:, None]
    expected = np.sqrt(np.mean(tilt**2 / (variance + tilt**2)))
    np.testing.assert_allclose(record.before, expected, rtol=0.1)


def test_an_exact_potential_is_hardly_touched(events) -> None:
    exact = exact_dirichlet(low=0.5)
    result, record = centre_score(exact, events.x, events.theta, np.ones(len(events)), seed=0)
    change = result.score(events.x, events.theta) - exact.score(events.x, events.theta)
    assert record.terms <= 20
    assert np.mean(change**2) < 40 * np.mean(exact.score(events.x, events.theta) ** 2) / len(events)


@pytest.mark.parametrize(("errors", "least", "most"), [(0.0, 4, 20), (3.0, 0, 1)])
def test_chance_alone_is_not_subtracted(events, monkeypatch, errors, least, most) -> None:
    """By an exact potential nothing is to be gained; by chance, something often seems to be."""
    monkeypatch.setattr(centring, "CLEARLY", errors)
    exact = exact_dirichlet(low=0.5)
    terms = []
    for first in range(0, 15_000, 750):
        part = slice(first, first + 750)
        x, theta = events.x[part], events.theta[part]
        terms.append(centre_score(exact, x, theta, np.ones(750), seed=0)[1].terms)
    # Of twenty sets a gain above 0 is found in several, one beyond three standard errors in none.
    assert least <= sum(number > 0 for number in terms) <= most


def test_what_is_not_subtracted_is_measured(events, monkeypatch) -> None:
    """How far a score is from centred does not depend on whether it can be repaired clearly."""
    tilted, ones = exact_dirichlet(low=0.5, tilt=0.3), np.ones(len(events))
    _, clear = centre_score(tilted, events.x, events.theta, ones, seed=0)
    monkeypatch.setattr(centring, "CLEARLY", np.inf)
    same, record = centre_score(tilted, events.x, events.theta, ones, seed=0)
    assert (record.terms, record.degree) == (0, 0)
    assert clear.terms > 0
    assert record.before == clear.before > 0.2
    np.testing.assert_array_equal(
        same.score(events.x[:9], events.theta[:9]), tilted.score(events.x[:9], events.theta[:9])
    )


def test_of_the_degrees_that_clearly_help_the_most_helpful_is_taken(events, monkeypatch) -> None:
    """Here degree 3 helps more than 2 and 2 more than 1, but 3 not clearly."""
    gains = {len(terms_of(3, degree)): (gain, error) for degree, gain, error in GAINS}

    def gain(_: _Sums, index: list[int]) -> float:
        return gains.get(len(index), (-1.0, 1.0))[0]

    def gain_of_events(_: _Sums, index: list[int], *__: object) -> np.ndarray:
        mean, error = gains.get(len(index), (-1.0, 1.0))
        noise = np.resize([1.0, -1.0], 2000) * error / np.sqrt(2000)
        return mean / 2000 + noise

    monkeypatch.setattr(_Sums, "gain", gain)
    monkeypatch.setattr(_Sums, "gain_of_events", gain_of_events)
    some = events[:2000]
    tilted = exact_dirichlet(low=0.5, tilt=0.3)
    _, record = centre_score(tilted, some.x, some.theta, np.ones(2000), seed=0)
    assert record.degree == 2


def test_the_gain_is_the_sum_over_events(events) -> None:
    x, theta = events.x[:3000], events.theta[:3000]
    box, terms = (theta.min(axis=0), theta.max(axis=0)), terms_of(3, 3)
    rng = np.random.default_rng(5)
    score = exact_dirichlet(low=0.5, tilt=0.3).score(x, theta)
    weights, fold = rng.uniform(0.5, 2.0, score.shape), rng.integers(0, 5, 3000)
    sample = _Sample(score, theta, weights, box, fold)
    sums = _Sums.over(sample, terms)
    index = [0, 2, 3]
    chosen = [terms[i] for i in index]
    each = sums.gain_of_events(index, sample, chosen)
    assert each.sum() == pytest.approx(sums.gain(index), rel=1e-9)
    # By how much the squares fall where B is subtracted that other folds have found.
    found = [sums.solution(index, without=number) for number in range(5)]
    slopes = gradients(theta, box, chosen)
    left = score - np.stack([(slopes[:, i] @ found[fold[i]]) for i in range(3000)])
    np.testing.assert_allclose(each, (weights * (score**2 - left**2)).sum(axis=1), atol=1e-9)


def test_events_of_weight_0_have_no_part_in_it(events) -> None:
    """As many again, made at another θ than they say, would move the mean score by far."""
    wrong = exact_dirichlet(low=0.5, tilt=0.3)
    x, theta = events.x[:5000], events.theta[:5000]
    others = ist.toys.Dirichlet()(np.tile([5.0, 0.6, 0.6], (5000, 1)), np.random.default_rng(1))
    poisoned = np.concatenate([x, others]), np.concatenate([theta, theta])
    weight = np.repeat([1.0, 0.0], 5000)
    some, _ = centre_score(wrong, *poisoned, weight, seed=0)
    truth = ist.toys.Dirichlet().score(x, theta)
    error = some.score(x, theta) - truth
    assert np.all(np.abs(error.mean(axis=0)) < 5 * truth.std(axis=0) / np.sqrt(5000))


def test_too_few_points_are_left_alone() -> None:
    wrong = exact_dirichlet(tilt=0.3)
    theta = np.repeat([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], 500, axis=0)
    x = ist.toys.Dirichlet()(theta, np.random.default_rng(0))
    assert centre_score(wrong, x, theta, np.ones(1000), seed=0)[1].terms == 0


def test_all_questions_agree_on_a_centred_potential(tmp_path) -> None:
    """Potential, its grid, score and ratio are of one function, also after saving."""
    function = ThetaPotential(
        LOW2, HIGH2, degrees=((1, 0), (0, 2), (1, 3)), coefficients=[1, 2, -1]
    )
    for network in (ist.MLP((8,)), ist.TwoTower(4, ist.MLP((4,)), ist.MLP((4,)))):
        fitted = random_estimator(ist.Potential(network))
        model = with_centring(fitted.model, function)
        moved = dataclasses.replace(fitted, model=model)
        rng = np.random.default_rng(4)
        x, theta, other = rng.uniform(-1, 1, (8, 3)), *rng.uniform(LOW2, HIGH2, (2, 8, 2))
        added = np.asarray(jax.vmap(function)(jnp.asarray(theta, jnp.float32)))
        expected = fitted.potential(x, theta) - added
        np.testing.assert_allclose(moved.potential(x, theta), expected, atol=1e-5)
        np.testing.assert_allclose(
            np.diag(moved.potential_grid(x, theta)), moved.potential(x, theta), atol=2e-5
        )
        ratio = moved.potential(x, theta) - moved.potential(x, other)
        np.testing.assert_allclose(moved.log_ratio(x, theta, other), ratio, atol=2e-5)
        slope = np.asarray(jax.vmap(jax.grad(function))(jnp.asarray(theta, jnp.float32)))
        np.testing.assert_allclose(
            moved.score(x, theta), fitted.score(x, theta) - slope, rtol=1e-5, atol=1e-5
        )
        moved.save(tmp_path / "model.isn")
        again = ist.load(tmp_path / "model.isn")
        np.testing.assert_array_equal(again.score(x, theta), moved.score(x, theta))


@pytest.mark.parametrize("network", [ist.MLP((8, 8)), ist.Residual(8, 2), ist.TwoTower(4)])
def test_a_table_of_events_each_at_points_of_its_own(network) -> None:
    """As training asks for it: an event has its own θ in every row."""
    function = ThetaPotential(LOW2, HIGH2, degrees=((1, 0), (1, 3)), coefficients=[1, -1])
    rng = np.random.default_rng(6)
    bare = random_model(ist.Potential(network), rng.uniform(-1, 1, (50, 3)), 2)
    model = with_centring(bare, function)
    x = jnp.asarray(rng.uniform(-1, 1, (4, 3)), jnp.float32)
    thetas = jnp.asarray(rng.uniform(LOW2, HIGH2, (8, 4, 2)), jnp.float32)
    expected = jax.vmap(jax.vmap(model.potential), in_axes=(None, 0))(x, thetas)
    np.testing.assert_allclose(model.potential_table(x, thetas), expected, atol=1e-4)


def test_fit_centres_on_request_and_says_so(events) -> None:
    events = events[:5000]
    training = ist.Training(epochs=2, batch_size=500, centre=True)
    fitted = ist.fit(events, network=ist.MLP((8,)), training=training, seed=1)
    assert isinstance(fitted.model, PotentialModel)
    assert fitted.model.centring is not None
    assert any("centred: the mean score at θ was" in words for words in fitted.history.choices)
    # Going on trains the network alone, and centres what came of it.
    again = ist.fit(events, start=fitted, training=training, seed=1)
    scores = again.score(events.x, events.theta)
    assert np.all(np.abs(scores.mean(axis=0)) < 0.2 * scores.std(axis=0))
    # What is subtracted belongs to the weights it was found for, and goes with them.
    plain = dataclasses.replace(training, centre=None)
    bare = ist.fit(events, start=fitted, training=plain, seed=1)
    assert isinstance(bare.model, PotentialModel)
    assert bare.model.centring is None


def test_default_fits_are_centred_unless_events_are_few() -> None:
    default = ist.Training()
    assert wants_centring(default, ist.KCE(), 500)
    assert not wants_centring(default, ist.KCE(), 499)
    assert not wants_centring(ist.Training(effort=0.1), ist.KCE(), 500)
    assert not wants_centring(default, ist.KLRE(ist.Rectangular(0.4)), 100_000)
    assert not wants_centring(ist.Training(epochs=20), ist.KCE(), 100_000)
    assert wants_centring(ist.Training(epochs=20, centre=True), ist.KCE(), 100)
    assert not wants_centring(ist.Training(centre=False), ist.KCE(), 100_000)


def test_what_cannot_be_centred_is_refused_before_training(events, monkeypatch) -> None:
    monkeypatch.setattr(
        "inferostatic.learning.train_estimator.train_members", lambda *_: pytest.fail("trained")
    )
    prior = ist.Uniform([0.5] * 3, [5.0] * 3)
    records = ist.draw(ist.CARL(), ist.toys.Dirichlet(), prior, 500, seed=1)
    with pytest.raises(ValueError, match="centre=True needs a potential and stored"):
        ist.fit(records, training=ist.Training(epochs=1, centre=True), seed=1)
    training = ist.Training(epochs=1, centre=True)
    with pytest.raises(ValueError, match="centre=True needs a potential and stored"):
        ist.fit(
            events, ist.KSE(ist.Delta(0.2)), network=ist.DirectScore(), training=training, seed=1
        )
