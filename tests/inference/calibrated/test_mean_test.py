"""Intervals and contours from means, where the answer is an ellipse."""

import dataclasses

import numpy as np
import pytest

from inferostatic.estimator.response_model import (
    MeanResponse,
    PolynomialCoordinates,
    SmoothCovariance,
)
from inferostatic.inference.calibrated.mean_test import MeanTest
from inferostatic.inference.calibrated.observed_data import ObservedData
from inferostatic.inference.calibrated.third_moment import ThirdMoment
from inferostatic.polynomials import list_degrees

SLOPES = np.array([[2.0, 0.5], [-0.3, 1.0]])
LOW, HIGH = np.array([-5.0, -5.0]), np.array([5.0, 5.0])


def linear(variance=0.0, low=LOW, high=HIGH, events=400, mean=(0, 0), precision=(0, 0)) -> MeanTest:
    """Means SLOPES · θ of two statistics with unit scatter."""
    coordinates = PolynomialCoordinates(np.zeros(2), np.eye(2))
    degrees = list_degrees(2, 1)
    terms = len(degrees)
    coefficients = np.zeros((terms, 2))
    # The terms are 1 and √3 times each coordinate.
    for j in range(2):
        row = int(np.flatnonzero(degrees[:, j] == 1)[0])
        coefficients[row] = SLOPES[:, j] / np.sqrt(3)
    covariance = np.zeros((2, terms, terms))
    covariance[:, 0, 0] = variance
    expected = MeanResponse(coordinates, degrees, coefficients, covariance, 1000)
    still = SmoothCovariance(
        coordinates,
        list_degrees(2, 0),
        (np.zeros((1, 2, 2)),),
        np.full(2, -9),
        np.full(2, 9),
        (1.0,),
    )
    data = ObservedData(
        np.zeros((events, 1)), np.ones(events), low, high, np.array(mean), np.array(precision)
    )
    return MeanTest(SLOPES @ [0.4, -0.2], expected, still, data)


@pytest.mark.parametrize("variance", [0.0, 0.003])
def test_the_estimate_and_its_covariance(variance) -> None:
    test = linear(variance)
    theta, chi2 = test.solve(np.zeros(2))
    np.testing.assert_allclose(theta, [0.4, -0.2], atol=1e-6)
    assert chi2 == pytest.approx(0, abs=1e-8)
    exact = np.linalg.inv(SLOPES.T @ SLOPES) * (1 / 400 + variance)
    np.testing.assert_allclose(test.covariance(theta), exact, rtol=1e-6)
    np.testing.assert_allclose(
        test.covariance(theta, simulation=False), exact / (1 + 400 * variance), rtol=1e-6
    )


def test_the_ends_of_an_interval_are_a_multiple_of_the_error() -> None:
    test = linear(0.001)
    theta, _ = test.solve(np.zeros(2))
    error = np.sqrt(np.diag(test.covariance(theta)))
    for j in range(2):
        low, high = test.find_ends(j, 2.5**2, theta)
        assert (high - theta[j]) / error[j] == pytest.approx(2.5, abs=0.01)
        assert (theta[j] - low) / error[j] == pytest.approx(2.5, abs=0.01)


def test_an_interval_ends_at_the_edge() -> None:
    test = linear(high=np.array([0.41, 5.0]))
    theta, _ = test.solve(np.zeros(2))
    low, high = test.find_ends(0, 4.0, theta)
    assert high == 0.41
    assert low < 0.39


def test_fixing_all_parameters_profiles_nothing() -> None:
    test = linear()
    theta, _ = test.solve(np.zeros(2))
    away = np.array([0.03, -0.05])
    both = test.profile(theta + away, [0, 1], theta)
    inverse = np.linalg.inv(test.covariance(theta))
    assert both == pytest.approx(away @ inverse @ away, rel=1e-4)
    one = test.profile(theta + away, [0], theta)
    assert one == pytest.approx(away[0] ** 2 / test.covariance(theta)[0, 0], rel=1e-3)


def test_a_contour_is_the_ellipse() -> None:
    test = linear()
    theta, _ = test.solve(np.zeros(2))
    outline = test.trace_outline([0, 1], 6.0, theta, 12) - theta
    inverse = np.linalg.inv(test.covariance(theta))
    np.testing.assert_allclose(np.einsum("na,ab,nb->n", outline, inverse, outline), 6.0, rtol=0.01)


def test_means_that_do_not_change_give_a_large_error_and_no_failure() -> None:
    test = linear()
    mean = dataclasses.replace(test.mean, coefficients=test.mean.coefficients * [1.0, 0.0])
    flat = dataclasses.replace(test, mean=mean)
    theta, _ = flat.solve(np.zeros(2))
    errors = np.sqrt(np.diag(flat.covariance(theta)))
    assert np.isfinite(errors).all()
    assert errors.max() > 1000 * np.sqrt(np.diag(test.covariance(theta))).max()


def test_the_estimate_does_not_run_to_where_means_are_hardly_known() -> None:
    """A χ² in units of its own error is small wherever that error is large."""
    test = linear(events=10_000)
    covariance = test.mean.covariance.copy()
    steep = [int(np.flatnonzero(test.mean.degrees[:, j] == 1)[0]) for j in range(2)]
    covariance[:, steep, steep] = 1.0
    test = dataclasses.replace(test, mean=dataclasses.replace(test.mean, covariance=covariance))
    theta, chi2 = test.solve(np.array([-0.9, 0.9]))
    np.testing.assert_allclose(theta, [0.4, -0.2], atol=1e-6)
    assert chi2 == pytest.approx(0, abs=1e-8)


def test_a_constraint_is_an_independent_measurement() -> None:
    plain, (mean, precision) = linear(0.001), ((0.0, 0.1), (0.0, 900.0))
    free, _ = plain.solve(np.zeros(2))
    test = linear(0.001, mean=mean, precision=precision)
    theta, chi2 = test.solve(np.zeros(2))
    information = np.linalg.inv(plain.covariance(free))
    total = np.linalg.inv(information + np.diag(precision))
    exact = total @ (information @ free + np.array(precision) * mean)
    np.testing.assert_allclose(theta, exact, atol=1e-7)
    np.testing.assert_allclose(test.covariance(theta), total, rtol=1e-6)
    # Without the error by simulation, the weights of both measurements stay what they are.
    gain = total @ information
    rest = total @ np.diag(precision) @ total
    statistical = gain @ plain.covariance(free, simulation=False) @ gain.T + rest
    np.testing.assert_allclose(test.covariance(theta, simulation=False), statistical, rtol=1e-6)
    # The χ² that is left is that of the two measurements against each other.
    spread = plain.covariance(free)[1, 1] + 1 / 900
    assert chi2 == pytest.approx((free[1] - 0.1) ** 2 / spread, rel=1e-5)
    low, high = test.find_ends(1, 1.0, theta)
    np.testing.assert_allclose(
        [low, high], theta[1] + np.sqrt(total[1, 1]) * np.array([-1, 1]), atol=1e-4
    )


def test_a_fixed_parameter_gives_the_conditional_fit() -> None:
    plain = linear()
    free, _ = plain.solve(np.zeros(2))
    covariance = plain.covariance(free)
    test = linear(low=np.array([-5.0, -0.15]), high=np.array([5.0, -0.15]))
    theta, chi2 = test.solve(np.array([0.0, -0.15]))
    slope = covariance[0, 1] / covariance[1, 1]
    np.testing.assert_allclose(theta, [free[0] + slope * (-0.15 - free[1]), -0.15], atol=1e-7)
    conditional = covariance[0, 0] - slope * covariance[0, 1]
    np.testing.assert_allclose(
        test.covariance(theta), [[conditional, 0], [0, 0]], rtol=1e-6, atol=1e-15
    )
    assert chi2 == pytest.approx((-0.15 - free[1]) ** 2 / covariance[1, 1], rel=1e-5)
    ends = test.find_ends(0, 4.0, theta)
    np.testing.assert_allclose(
        ends, theta[0] + 2 * np.sqrt(conditional) * np.array([-1, 1]), atol=1e-4
    )
    assert test.find_ends(1, 4.0, theta) == (-0.15, -0.15)
    assert test.profile(theta, [1], theta) == 0
    assert test.profile(theta + [0.01, 0], [0, 1], theta) == pytest.approx(
        1e-4 / conditional, rel=1e-3
    )


def test_the_skewness_of_an_estimate() -> None:
    """Statistics that are exponential: θ̂ = S⁻¹ t̄ has the third moment 2 Σ (S⁻¹)³ / n²."""
    cubes = np.zeros((1, 2, 2, 2))
    cubes[0, [0, 1], [0, 1], [0, 1]] = 2.0
    third = ThirdMoment(PolynomialCoordinates(np.zeros(2), np.zeros((2, 0))), cubes)
    test = dataclasses.replace(linear(), third_moment=third)
    inverse = np.linalg.inv(SLOPES)
    for j in range(2):
        exact = 2 * np.sum(inverse[j] ** 3) / np.sum(inverse[j] ** 2) ** 1.5 / np.sqrt(400)
        assert test.skewness(np.zeros(2), j) == pytest.approx(exact, rel=1e-6)
        assert linear().skewness(np.zeros(2), j) == 0
