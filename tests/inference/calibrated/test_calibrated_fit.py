"""Calibrated fits with estimators that are wrong in a known way, against what they should give."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_normal
from inferostatic.inference.calibrated.calibrated_fit import calibrated_fit
from inferostatic.inference.calibrated.calibration import Calibration

EVENTS = 400


def shifted(theta, rng):
    """x ~ Normal(θ, 1)."""
    return theta + rng.normal(size=theta.shape)


@pytest.fixture(scope="module")
def wrong() -> ist.Estimator:
    """A score of the wrong size, off by a constant: as a likelihood it is off by many errors."""
    return exact_normal(dim=2, stretch=0.6, tilt=np.array([0.5, -0.3]))


@pytest.fixture(scope="module")
def calibration(wrong) -> Calibration:
    return Calibration(wrong, ist.simulate(shifted, wrong.prior, 20_000, seed=1))


@pytest.fixture(scope="module")
def observed() -> np.ndarray:
    return np.array([0.7, -0.4]) + np.random.default_rng(2).normal(size=(EVENTS, 2))


def test_a_wrong_score_gives_the_mean_with_its_error(wrong, calibration, observed) -> None:
    # The score is 0.6 (x − θ*) + const, whose mean response is linear: the best fit is x̄ exactly,
    # up to the error by simulation.
    result = calibrated_fit(wrong, observed, calibration)
    exact = observed.mean(axis=0)
    simulation = np.sqrt(np.diag(result.covariance - result.statistical))
    assert np.all(np.abs(result.theta - exact) < 4 * simulation)
    np.testing.assert_allclose(np.diag(result.statistical), 1 / EVENTS, rtol=0.06)
    low, high = result.interval(0.6827).T
    np.testing.assert_allclose((high - low) / 2, result.errors, rtol=0.05)
    uncalibrated = ist.maximum_likelihood(wrong, observed)
    assert np.max(np.abs(uncalibrated.theta - exact) / uncalibrated.errors) > 5


def test_more_simulation_makes_its_error_small(wrong, calibration, observed) -> None:
    result = calibrated_fit(wrong, observed, calibration, simulator=shifted, fraction=0.1, seed=3)
    assert np.all(result.simulation_fraction <= 0.1)
    np.testing.assert_allclose(result.theta, observed.mean(axis=0), atol=0.1 * 4 / np.sqrt(EVENTS))
    # Slopes of a cubic are known to 2.5 √(N/n) / width = 7% by n = 166,000 events of width 1.8 (the
    # factor is that of a uniform law in one dimension), and errors with them.
    np.testing.assert_allclose(result.errors, 1 / np.sqrt(EVENTS), rtol=3 * 0.07)
    again = calibrated_fit(wrong, observed, calibration, simulator=shifted, fraction=0.1, seed=3)
    np.testing.assert_array_equal(result.theta, again.theta)


def test_what_cannot_be_simulated_is_told(wrong, calibration, observed) -> None:
    with pytest.warns(UserWarning, match="still .* of the statistical one .wanted 0.05."):
        calibrated_fit(
            wrong,
            observed,
            calibration,
            simulator=shifted,
            fraction=0.05,
            most_events=5000,
            seed=3,
        )


@pytest.mark.slow
def test_pulls_and_p_values_of_many_data_sets() -> None:
    # Pulls of 3 parameters in 16 data sets: were they one number for each, the mean square would
    # have a standard error of √(2/16) = 0.35; the mean of 16 uniform p-values has one of 0.072.
    wrong = exact_dirichlet(low=0.5, stretch=0.7, tilt=np.array([0.3, -0.2, 0.1]))
    toy = ist.toys.Dirichlet()
    assert wrong.prior is not None
    calibration = Calibration(wrong, ist.simulate(toy, wrong.prior, 40_000, seed=5))
    pulls, p_values, lengths = [], [], []
    for number in range(16):
        rng = np.random.default_rng([7, number])
        theta = rng.uniform(1.5, 4.0, 3)
        x = toy(np.tile(theta, (300, 1)), rng)
        result = calibrated_fit(wrong, x, calibration, simulator=toy, seed=number)
        pulls.append((result.theta - theta) / result.errors)
        p_values.append(result.p_value)
        exact = np.sqrt(np.diag(np.linalg.inv(300 * toy.fisher(result.theta))))
        lengths.append(np.sqrt(np.diag(result.statistical)) / exact)
    assert np.mean(np.square(pulls)) == pytest.approx(1, abs=0.9)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.25)
    # The statistics are sufficient, so nothing is lost.
    assert np.median(lengths) == pytest.approx(1, abs=0.06)


def test_data_that_look_like_no_simulated_event_have_a_small_p_value() -> None:
    estimator = exact_dirichlet(low=0.5)
    toy = ist.toys.Dirichlet()
    assert estimator.prior is not None
    events = ist.simulate(toy, estimator.prior, 20_000, seed=6)
    rng = np.random.default_rng(7)
    # A mixture has the means of no single Dirichlet.
    x = np.concatenate(
        [toy(np.tile(point, (500, 1)), rng) for point in ([1.0, 1.0, 4.0], [4.0, 4.0, 1.0])]
    )
    assert calibrated_fit(estimator, x, events).p_value < 1e-3


def test_several_estimators_share_events(observed) -> None:
    # Each must be calibrated by its own events: they are off by opposite constants.
    several = [exact_normal(dim=2, tilt=t) for t in (0.5, -0.5)]
    prior = several[0].prior
    assert prior is not None
    events = ist.simulate(shifted, prior, 20_000, seed=8)
    result = calibrated_fit(several, observed, [events[:10_000], events[10_000:]])
    assert np.all(np.abs(result.theta - observed.mean(axis=0)) < 4 * result.errors)
    together = calibrated_fit(several, observed, events)
    np.testing.assert_allclose(together.theta, result.theta, atol=3 * result.errors.max())


def test_a_direct_score_can_be_calibrated(wrong, calibration, observed) -> None:
    direct = as_direct(ist.ScoreEstimator, wrong)
    result = calibrated_fit(direct, observed, calibration.events[0])
    whole = calibrated_fit(wrong, observed, calibration)
    np.testing.assert_allclose(result.theta, whole.theta, atol=1e-6)


def test_distances_contours_and_words(wrong, calibration, observed) -> None:
    result = calibrated_fit(wrong, observed, calibration)
    assert result.distance(result.theta) == 0
    ends = result.interval(0.95)
    for j, name in enumerate(result.names):
        point = result.theta.copy()
        point[j] = ends[j, 1]
        assert result.distance(point, [name]) == pytest.approx(3.841, abs=0.02)
    outline = result.contour("theta0", 1, 0.68, points=8)
    distances = [result.distance(point) for point in outline]
    np.testing.assert_allclose(distances, 2.279, atol=0.02)
    assert "p-value" in result.summary()
    assert "theta0 = 0." in repr(result)


def test_an_estimate_at_the_edge_is_told(wrong, calibration) -> None:
    with pytest.warns(UserWarning, match="edge of the simulated region in theta0"):
        calibrated_fit(wrong, np.full((50, 2), [3.6, 0.0]), calibration)


def test_bad_input_gets_a_sentence(wrong, calibration, observed) -> None:
    events = calibration.events[0]
    with pytest.raises(TypeError, match="needs an estimator that offers a score"):
        calibrated_fit(as_direct(ist.RatioEstimator, wrong), observed, events)
    with pytest.raises(TypeError, match="calibration takes ist.Events"):
        calibrated_fit(wrong, observed, events.x)
    with pytest.raises(ValueError, match="one set of events, or one for each estimator; got 1 est"):
        calibrated_fit(wrong, observed, [events, events])
    with pytest.raises(ValueError, match="3 observed events are too few"):
        calibrated_fit(wrong, observed[:3], calibration)
    with pytest.raises(ValueError, match="500 calibration events are too few"):
        calibrated_fit(wrong, observed, events[:500])
    other = ist.Events(x=events.x[:, :1], theta=events.theta, prior=events.prior)
    with pytest.raises(ValueError, match="must have 2 observables and 2 parameters"):
        calibrated_fit(wrong, observed, other)
    unlike = [wrong, exact_normal(dim=1)]
    with pytest.raises(ValueError, match="differ in their observables"):
        calibrated_fit(unlike, observed, events)
    with pytest.raises(ValueError, match="fraction must be positive"):
        calibrated_fit(wrong, observed, calibration, fraction=0.0)
    with pytest.raises(ValueError, match="NaN|finite"):
        calibrated_fit(wrong, np.where(observed > 2, np.nan, observed), calibration)
    result = calibrated_fit(wrong, observed, calibration)
    with pytest.raises(ValueError, match="takes two different parameters"):
        result.contour(0, 0)
    with pytest.raises(ValueError, match="must be one point of 2 parameters"):
        result.distance([1.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        result.interval(68)
