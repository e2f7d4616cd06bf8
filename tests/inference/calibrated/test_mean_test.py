"""Intervals and contours from means, where the answer is an ellipse."""

import dataclasses

import numpy as np
import pytest

from inferostatic.inference.calibrated.mean_test import MeanTest
from inferostatic.inference.calibrated.response_model import (
    Coordinates,
    SmoothCovariance,
    SmoothMean,
    degrees_up_to,
)

SLOPES = np.array([[2.0, 0.5], [-0.3, 1.0]])
LOW, HIGH = np.array([-5.0, -5.0]), np.array([5.0, 5.0])


def linear(variance=0.0, low=LOW, high=HIGH, events=400) -> MeanTest:
    """Means SLOPES · θ of two statistics with unit scatter."""
    coordinates = Coordinates(np.zeros(2), np.eye(2))
    exponents = degrees_up_to(2, 1)
    terms = len(exponents)
    coefficients = np.zeros((terms, 2))
    # The terms are 1 and √3 times each coordinate.
    for j in range(2):
        row = int(np.flatnonzero(exponents[:, j] == 1)[0])
        coefficients[row] = SLOPES[:, j] / np.sqrt(3)
    covariance = np.zeros((2, terms, terms))
    covariance[:, 0, 0] = variance
    mean = SmoothMean(coordinates, exponents, coefficients, covariance, 1000)
    still = SmoothCovariance(
        coordinates,
        degrees_up_to(2, 0),
        (np.zeros((1, 2, 2)),),
        np.full(2, -9),
        np.full(2, 9),
        (1.0,),
    )
    return MeanTest(SLOPES @ [0.4, -0.2], events, mean, still, low, high)


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
        low, high = test.ends(j, 2.5**2, theta)
        assert (high - theta[j]) / error[j] == pytest.approx(2.5, abs=0.01)
        assert (theta[j] - low) / error[j] == pytest.approx(2.5, abs=0.01)


def test_an_interval_ends_at_the_wall() -> None:
    test = linear(high=np.array([0.41, 5.0]))
    theta, _ = test.solve(np.zeros(2))
    low, high = test.ends(0, 4.0, theta)
    assert high == 0.41
    assert low < 0.39


def test_fixing_all_parameters_profiles_nothing() -> None:
    test = linear()
    theta, _ = test.solve(np.zeros(2))
    away = np.array([0.03, -0.05])
    both = test.profiled(theta + away, [0, 1], theta)
    inverse = np.linalg.inv(test.covariance(theta))
    assert both == pytest.approx(away @ inverse @ away, rel=1e-4)
    one = test.profiled(theta + away, [0], theta)
    assert one == pytest.approx(away[0] ** 2 / test.covariance(theta)[0, 0], rel=1e-3)


def test_a_contour_is_the_ellipse() -> None:
    test = linear()
    theta, _ = test.solve(np.zeros(2))
    outline = test.outline(0, 1, 6.0, theta, 12) - theta
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
    steep = [int(np.flatnonzero(test.mean.exponents[:, j] == 1)[0]) for j in range(2)]
    covariance[:, steep, steep] = 1.0
    test = dataclasses.replace(test, mean=dataclasses.replace(test.mean, covariance=covariance))
    theta, chi2 = test.solve(np.array([-0.9, 0.9]))
    np.testing.assert_allclose(theta, [0.4, -0.2], atol=1e-6)
    assert chi2 == pytest.approx(0, abs=1e-8)
