"""Calibrated fits with estimators that are wrong in a known way, against what they should give."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_estimator, exact_normal, gaussian
from inferostatic.inference.calibrated.averaged_score import AveragedScore
from inferostatic.inference.calibrated.calibrated_fit import calibrated_fit, fit_calibrated
from inferostatic.inference.calibrated.nearby_simulation import NearbySimulation
from inferostatic.inference.calibrated.observed_data import ObservedData
from inferostatic.inference.calibrated.score_calibration import ScoreCalibration
from inferostatic.inference.chi_square import chi2_quantile

EVENTS = 400


def shifted(theta, rng):
    """x ~ Normal(θ, 1)."""
    return theta + rng.normal(size=theta.shape)


@pytest.fixture(scope="module")
def wrong() -> ist.Estimator:
    """A score of the wrong size, off by a constant: as a likelihood it is off by many errors."""
    return exact_normal(dim=2, stretch=0.6, tilt=np.array([0.5, -0.3]))


@pytest.fixture(scope="module")
def calibration(wrong) -> ScoreCalibration:
    return ScoreCalibration(wrong, ist.simulate(shifted, wrong.prior, 20_000, seed=1))


@pytest.fixture(scope="module")
def observed() -> np.ndarray:
    return np.array([0.7, -0.4]) + np.random.default_rng(2).normal(size=(EVENTS, 2))


def test_a_wrong_score_gives_the_mean_with_its_error(wrong, calibration, observed) -> None:
    # The score is 0.6 (x − θ*) + const, whose mean response is linear: the best fit is x̄ exactly,
    # up to the error by simulation.
    result = calibrated_fit(wrong, observed, events=calibration)
    exact = observed.mean(axis=0)
    simulation = np.sqrt(np.diag(result.covariance - result.statistical))
    assert np.all(np.abs(result.theta - exact) < 4 * simulation)
    np.testing.assert_allclose(np.diag(result.statistical), 1 / EVENTS, rtol=0.06)
    low, high = result.interval(0.6827).T
    np.testing.assert_allclose((high - low) / 2, result.errors, rtol=0.05)
    uncalibrated = ist.maximum_likelihood(wrong, observed)
    assert np.max(np.abs(uncalibrated.theta - exact) / uncalibrated.errors) > 5


@pytest.mark.slow
def test_more_simulation_makes_its_error_small(wrong, calibration, observed) -> None:
    options = NearbySimulation(shifted, fraction=0.1)
    result = calibrated_fit(wrong, observed, events=calibration, simulator=options, seed=3)
    assert np.all(result.simulation_fraction <= 0.1)
    np.testing.assert_allclose(result.theta, observed.mean(axis=0), atol=0.1 * 4 / np.sqrt(EVENTS))
    # Slopes of a cubic are known to 2.5 √(N/n) / width = 7% by n = 166,000 events of width 1.8 (the
    # factor is that of a uniform distribution in one dimension), and errors with them.
    np.testing.assert_allclose(result.errors, 1 / np.sqrt(EVENTS), rtol=3 * 0.07)
    again = calibrated_fit(wrong, observed, events=calibration, simulator=options, seed=3)
    np.testing.assert_array_equal(result.theta, again.theta)


@pytest.mark.parametrize("kind", [ist.Estimator, ist.ScoreEstimator])
def test_a_simulator_alone_serves(wrong, observed, kind) -> None:
    # The maximum of this potential is off by many errors, and so is the zero of its score.
    estimator = wrong if kind is ist.Estimator else as_direct(kind, wrong)
    result = calibrated_fit(estimator, observed, simulator=shifted, seed=3)
    simulation = np.sqrt(np.diag(result.covariance - result.statistical))
    assert np.all(np.abs(result.theta - observed.mean(axis=0)) < 4 * simulation)
    assert np.all(result.simulation_fraction <= 0.3)


@pytest.mark.slow
def test_a_prior_lets_it_simulate_beyond_the_trained_region(wrong) -> None:
    x = np.array([3.2, 0.0]) + np.random.default_rng(2).normal(size=(EVENTS, 2))
    for prior in (ist.Uniform([-5.0, -5.0], [5.0, 5.0]), ist.Normal([0.0, 0.0], [2.0, 2.0])):
        options = NearbySimulation(shifted, prior)
        result = calibrated_fit(wrong, x, simulator=options, seed=3)
        np.testing.assert_allclose(result.theta, x.mean(axis=0), atol=0.3 * 4 / np.sqrt(EVENTS))
    with pytest.warns(UserWarning, match="edge of the simulated region in theta0"):
        calibrated_fit(wrong, x, simulator=shifted, seed=3)


def test_what_cannot_be_simulated_is_reported(wrong, calibration, observed) -> None:
    options = NearbySimulation(shifted, fraction=0.05, most_events=5000)
    with pytest.warns(UserWarning, match="still .* of the statistical one .wanted 0.05."):
        calibrated_fit(wrong, observed, events=calibration, simulator=options, seed=3)


@pytest.mark.slow
def test_squared_pulls_of_many_data_sets_add_up_to_chi_square(wrong) -> None:
    # Every fit simulates its own events, so the data sets are independent, and their squared pulls
    # add up to a χ² with 2 × 50 degrees of freedom. Few events are simulated, so that some 40%
    # of the variance is due to them: errors that lack it, or are 20% too small, fail.
    sets, squares = 50, []
    options = NearbySimulation(shifted, fraction=1.5, most_events=2500)
    for number in range(sets):
        rng = np.random.default_rng([11, number])
        theta = rng.uniform(-2, 2, 2)
        x = theta + rng.normal(size=(EVENTS, 2))
        result = calibrated_fit(wrong, x, simulator=options, seed=number)
        away = result.theta - theta
        squares.append(away @ np.linalg.solve(result.covariance, away))
    low, high = chi2_quantile(0.001, 2 * sets), chi2_quantile(0.999, 2 * sets)
    assert low < np.sum(squares) < high


@pytest.mark.slow
def test_pulls_and_p_values_of_many_data_sets() -> None:
    # Every fit simulates its own events, so the squared pulls of 3 parameters in 16 data sets add
    # up to a χ² with 48 degrees of freedom; the mean of 16 uniform p-values has an error of 0.072.
    wrong = exact_dirichlet(low=0.5, stretch=0.7, tilt=np.array([0.3, -0.2, 0.1]))
    toy = ist.toys.Dirichlet()
    assert wrong.prior is not None
    calibration = ScoreCalibration(wrong, ist.simulate(toy, wrong.prior, 40_000, seed=5))
    squares, p_values, lengths = [], [], []
    for number in range(16):
        rng = np.random.default_rng([7, number])
        theta = rng.uniform(1.5, 4.0, 3)
        x = toy(np.tile(theta, (300, 1)), rng)
        result = calibrated_fit(wrong, x, events=calibration, simulator=toy, seed=number)
        away = result.theta - theta
        squares.append(away @ np.linalg.solve(result.covariance, away))
        p_values.append(result.p_value)
        exact = np.sqrt(np.diag(np.linalg.inv(300 * toy.fisher(result.theta))))
        lengths.append(np.sqrt(np.diag(result.statistical)) / exact)
    assert chi2_quantile(0.001, 48) < np.sum(squares) < chi2_quantile(0.999, 48)
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
    found = calibrated_fit(estimator, x, events=events)
    assert found.p_value < 1e-3
    assert "not to be relied on: at the estimate the observed events are unlike" in found.summary()


def test_several_estimators_share_events(observed) -> None:
    # Each must be calibrated by its own events: they are off by opposite constants.
    several = [exact_normal(dim=2, tilt=t) for t in (0.5, -0.5)]
    prior = several[0].prior
    assert prior is not None
    events = ist.simulate(shifted, prior, 20_000, seed=8)
    result = calibrated_fit(several, observed, events=[events[:10_000], events[10_000:]])
    assert np.all(np.abs(result.theta - observed.mean(axis=0)) < 4 * result.errors)
    together = calibrated_fit(several, observed, events=events)
    np.testing.assert_allclose(together.theta, result.theta, atol=3 * result.errors.max())


def test_a_direct_score_can_be_calibrated(wrong, calibration, observed) -> None:
    direct = as_direct(ist.ScoreEstimator, wrong)
    result = calibrated_fit(direct, observed, events=calibration.events[0])
    whole = calibrated_fit(wrong, observed, events=calibration)
    np.testing.assert_allclose(result.theta, whole.theta, atol=1e-6)


def test_distances_contours_and_words(wrong, calibration, observed) -> None:
    result = calibrated_fit(wrong, observed, events=calibration)
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


def test_an_estimate_at_the_edge_is_reported(wrong, calibration) -> None:
    with pytest.warns(UserWarning, match="edge of the simulated region in theta0"):
        calibrated_fit(wrong, np.full((50, 2), [3.6, 0.0]), events=calibration)


def data_of(x, **changes) -> ObservedData:
    return dataclasses.replace(ObservedData.of_events(x, 2), **changes)


def test_a_constraint_counts_like_an_independent_measurement(wrong, calibration, observed) -> None:
    plain = calibrated_fit(wrong, observed, events=calibration)
    mean, precision = np.array([0.6, 0.0]), np.array([900.0, 0.0])
    data = data_of(observed, constraint_mean=mean, constraint_precision=precision)
    result = fit_calibrated(calibration.score, data, calibration=calibration)
    information = np.linalg.inv(plain.covariance)
    total = np.linalg.inv(information + np.diag(precision))
    exact = total @ (information @ plain.theta + precision * mean)
    # The response of 20,000 events is not exactly linear, and the errors change a little with θ.
    np.testing.assert_allclose(result.theta, exact, atol=0.05 * plain.errors.min())
    np.testing.assert_allclose(result.errors, np.sqrt(np.diag(total)), rtol=0.03)
    low, high = result.interval().T
    np.testing.assert_allclose((high - low) / 2, result.errors, rtol=0.05)
    # The same with events that are simulated near the estimate.
    simulation = NearbySimulation(shifted, fraction=0.1)
    near = fit_calibrated(AveragedScore.of(wrong), data, simulation=simulation, seed=1)
    x_mean = observed.mean(axis=0)
    exact = np.array([(EVENTS * x_mean[0] + 900 * 0.6) / (EVENTS + 900), x_mean[1]])
    np.testing.assert_allclose(near.theta, exact, atol=0.1 * 4 / np.sqrt(EVENTS))
    np.testing.assert_allclose(near.errors, [1300**-0.5, 0.05], rtol=3 * 0.07)
    # The score is 0.6 of the true one, so the errors that it promises alone are 1/0.6 of the true.
    promised = np.sqrt([1 / (0.36 * EVENTS + 900), 1 / (0.36 * EVENTS)])
    np.testing.assert_allclose(result.sensitivity, promised / result.errors, rtol=0.1)
    assert 0.001 < near.p_value <= 1


MIXING = np.array([[1.0, 0.6], [0.2, 0.8]])


def mixed(theta, rng):
    """x ~ Normal(MIXING · θ, 1), whose estimates are correlated."""
    return theta @ MIXING.T + rng.normal(size=theta.shape)


def mixed_estimator() -> ist.Estimator:
    prior = ist.Uniform([-3.0, -3.0], [3.0, 3.0])

    def potential(x, theta):
        return 0.6 * gaussian(x, jnp.asarray(MIXING) @ theta) + 0.4 * theta[0]

    return exact_estimator(potential, prior, np.full(2, -9.0), np.full(2, 9.0))


@pytest.mark.parametrize("simulated", [False, True])
def test_a_fixed_parameter_gives_the_conditional_fit(simulated) -> None:
    estimator = mixed_estimator()
    x = mixed(np.tile([0.7, -0.4], (EVENTS, 1)), np.random.default_rng(3))
    fixed = np.array([-np.inf, -0.4]), np.array([np.inf, -0.4])
    data = data_of(x, low=fixed[0], high=fixed[1])
    assert estimator.prior is not None
    if simulated:
        simulation = NearbySimulation(mixed, fraction=0.1)
        result = fit_calibrated(AveragedScore.of(estimator), data, simulation=simulation, seed=3)
    else:
        events = ist.simulate(mixed, estimator.prior, 40_000, seed=1)
        calibration = ScoreCalibration(estimator, events)
        result = fit_calibrated(calibration.score, data, calibration=calibration)
    column = MIXING[:, 0]
    exact = column @ (x.mean(axis=0) - MIXING[:, 1] * -0.4) / (column @ column)
    error = (EVENTS * column @ column) ** -0.5
    simulation_error = np.sqrt(result.covariance[0, 0] - result.statistical[0, 0])
    assert abs(result.theta[0] - exact) < 4 * simulation_error + 0.01 * error
    assert np.sqrt(result.statistical[0, 0]) == pytest.approx(error, rel=0.1)
    assert result.theta[1] == -0.4
    assert result.errors[1] == 0
    np.testing.assert_array_equal(result.interval()[1], [-0.4, -0.4])
    assert "fixed" in result.summary()
    assert 0.001 < result.p_value <= 1
    with pytest.raises(ValueError, match="two free parameters; theta1 was fixed"):
        result.contour(0, 1)
    with pytest.raises(ValueError, match=r"theta1 was fixed at -0.4 in this fit; got 0"):
        result.distance([0.7, 0.0])


@pytest.mark.parametrize("simulated", [False, True])
def test_weighted_events_count_by_their_effective_number(
    wrong, calibration, observed, simulated
) -> None:
    weight = np.random.default_rng(4).uniform(0.1, 3.0, EVENTS)
    size = weight.sum() ** 2 / (weight @ weight)
    data = data_of(observed, weight=weight)
    options = {"simulation": NearbySimulation(shifted, fraction=0.1), "seed": 1}
    result = fit_calibrated(
        calibration.score, data, **(options if simulated else {"calibration": calibration})
    )
    simulation = np.sqrt(np.diag(result.covariance - result.statistical))
    exact = weight @ observed / weight.sum()
    assert np.all(np.abs(result.theta - exact) < 4 * simulation)
    # Slopes of a local cubic are known to 7%, as above.
    rtol = 6 * 0.07 if simulated else 0.06
    np.testing.assert_allclose(np.diag(result.statistical), 1 / size, rtol=rtol)
    # A common factor of all weights changes nothing.
    if not simulated:
        again = fit_calibrated(
            calibration.score, data_of(observed, weight=7 * weight), calibration=calibration
        )
        np.testing.assert_allclose(again.theta, result.theta, atol=1e-9)


def test_a_parameter_can_be_fixed_beyond_the_trained_region(wrong) -> None:
    x = np.array([0.5, 3.4]) + np.random.default_rng(2).normal(size=(EVENTS, 2))
    data = data_of(x, low=np.array([-3.0, 3.4]), high=np.array([3.0, 3.4]))
    simulation = NearbySimulation(shifted, ist.Uniform([-5.0, -5.0], [5.0, 5.0]))
    result = fit_calibrated(AveragedScore.of(wrong), data, simulation=simulation, seed=3)
    assert result.theta[0] == pytest.approx(x[:, 0].mean(), abs=0.3 * 4 / np.sqrt(EVENTS))
    assert result.theta[1] == 3.4


def test_bounds_hold_the_estimate_without_a_warning(wrong, calibration, observed) -> None:
    low, high = np.array([-np.inf, -np.inf]), np.array([0.6, np.inf])
    data = data_of(observed, low=low, high=high)
    result = fit_calibrated(calibration.score, data, calibration=calibration)
    assert result.theta[0] == pytest.approx(0.6, abs=1e-6)
    assert result.interval()[0, 1] == pytest.approx(0.6)
    assert result.theta[1] == pytest.approx(observed[:, 1].mean(), abs=0.05)
    outside = data_of(observed, low=np.array([4.0, -1.0]), high=np.array([5.0, 1.0]))
    with pytest.raises(ValueError, match="bounds of theta0, 4 to 5, lie outside the simulated"):
        fit_calibrated(calibration.score, outside, calibration=calibration)
    both = data_of(observed, low=np.zeros(2), high=np.zeros(2))
    with pytest.raises(ValueError, match="every parameter is fixed"):
        fit_calibrated(calibration.score, both, calibration=calibration)


def test_a_likelihood_hands_over_weights_constraints_fixed_values_and_bounds(
    wrong, calibration, observed
) -> None:
    weight = np.random.default_rng(9).uniform(0.5, 1.5, len(observed))
    names = wrong.theta_names
    likelihood = ist.Likelihood(
        wrong,
        observed,
        weight=weight,
        constraints={names[0]: (0.6, 1 / 30)},
        bounds={names[0]: (0.0, 2.0)},
    )
    data = data_of(
        observed,
        weight=weight,
        low=np.array([0.0, -np.inf]),
        high=np.array([2.0, np.inf]),
        constraint_mean=np.array([0.6, 0.0]),
        constraint_precision=np.array([900.0, 0.0]),
    )
    for given, same in (
        (likelihood, data),
        (
            likelihood.fix(**{names[1]: 0.1}),
            dataclasses.replace(data, low=np.array([0.0, 0.1]), high=np.array([2.0, 0.1])),
        ),
    ):
        found = calibrated_fit(given, events=calibration)
        expected = fit_calibrated(calibration.score, same, calibration=calibration)
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6, atol=1e-15)


def test_what_a_calibrated_fit_cannot_use_is_refused(wrong, calibration, observed) -> None:
    likelihood = ist.Likelihood(wrong, observed)
    with pytest.raises(TypeError, match="leave out x"):
        calibrated_fit(likelihood, observed, events=calibration)
    with pytest.raises(ValueError, match="one channel"):
        calibrated_fit(likelihood + likelihood, events=calibration)
    with pytest.raises(TypeError, match="a likelihood, or an estimator and events x"):
        calibrated_fit(wrong, events=calibration)


def test_bad_input_gets_a_sentence(wrong, calibration, observed) -> None:
    events = calibration.events[0]
    with pytest.raises(TypeError, match="needs an estimator that offers a score"):
        calibrated_fit(as_direct(ist.RatioEstimator, wrong), observed, events=events)
    with pytest.raises(TypeError, match="calibration takes ist.Events"):
        calibrated_fit(wrong, observed, events=events.x)
    with pytest.raises(ValueError, match="one set of events, or one for each estimator; got 1 est"):
        calibrated_fit(wrong, observed, events=[events, events])
    with pytest.raises(ValueError, match="3 observed events are too few"):
        calibrated_fit(wrong, observed[:3], events=calibration)
    with pytest.raises(ValueError, match="500 calibration events are too few"):
        calibrated_fit(wrong, observed, events=events[:500])
    other = ist.Events(x=events.x[:, :1], theta=events.theta, prior=events.prior)
    with pytest.raises(ValueError, match="must have 2 observables and 2 parameters"):
        calibrated_fit(wrong, observed, events=other)
    unlike = [wrong, exact_normal(dim=1)]
    with pytest.raises(ValueError, match="differ in their observables"):
        calibrated_fit(unlike, observed, events=events)
    with pytest.raises(ValueError, match="fraction must be a finite number above 0"):
        NearbySimulation(shifted, fraction=0.0)
    with pytest.raises(ValueError, match="most_events must be at least 1"):
        NearbySimulation(shifted, most_events=0)
    with pytest.raises(TypeError, match="simulator must be a function"):
        NearbySimulation(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="prior must be a prior such as"):
        NearbySimulation(shifted, prior=(0, 1))  # pyright: ignore[reportArgumentType]
    options = NearbySimulation(shifted, prior=ist.Uniform([0.0], [1.0]))
    with pytest.raises(ValueError, match="must have 2 parameters like the estimator"):
        calibrated_fit(wrong, observed, simulator=options, seed=1)
    with pytest.raises(TypeError, match="events=…, or a simulator that makes them"):
        calibrated_fit(wrong, observed)
    with pytest.raises(TypeError, match="seed belongs to a simulator"):
        calibrated_fit(wrong, observed, events=calibration, seed=1)
    with pytest.raises(TypeError, match="needs a seed, for example seed=1"):
        calibrated_fit(wrong, observed, simulator=shifted)
    with pytest.raises(ValueError, match="was made for another estimator"):
        calibrated_fit(exact_normal(dim=2), observed, events=calibration)
    with pytest.raises(ValueError, match="at least one estimator; got an empty list"):
        calibrated_fit([], observed, simulator=shifted, seed=1)
    with pytest.raises(ValueError, match="NaN|finite"):
        calibrated_fit(wrong, np.where(observed > 2, np.nan, observed), events=calibration)
    result = calibrated_fit(wrong, observed, events=calibration)
    with pytest.raises(ValueError, match="takes two different parameters"):
        result.contour(0, 0)
    with pytest.raises(ValueError, match="must be one point with a value for each of"):
        result.distance([1.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        result.interval(68)
