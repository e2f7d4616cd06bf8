"""Constraints and the number of events beside the scores, against Poisson probabilities."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from inferostatic.inference.calibrated.observed_data import ObservedData
from inferostatic.inference.likelihood.rate import read_rate

LOW, HIGH = np.array([-1.0, -1.0, -1.0]), np.array([2.0, 2.0, 2.0])
CONSTRAINT, PRECISION = np.array([0.0, 0.4, 0.0]), np.array([0.0, 25.0, 0.0])
NONE = np.zeros(3)


def traced(theta: Any) -> Any:
    return 40 * jnp.exp(0.5 * theta[0] - 0.2 * theta[1]) + 3 * theta[2] ** 2


def expected(theta: np.ndarray) -> float:
    """The same in float64, apart from JAX."""
    return 40 * np.exp(0.5 * theta[0] - 0.2 * theta[1]) + 3 * theta[2] ** 2


def make(weight: Any, precision: np.ndarray = NONE, number: float | None = None) -> ObservedData:
    weight = np.asarray(weight, float)
    rate = read_rate(traced, LOW, HIGH)
    x = np.zeros((len(weight), 1))
    return ObservedData(x, weight, LOW, HIGH, CONSTRAINT, precision, rate, number)


def deviance(n: float, mean: float) -> float:
    """−2 ln of the ratio of Poisson(n; mean) and Poisson(n; n)."""
    return float(-2 * (stats.poisson.logpmf(n, mean) - stats.poisson.logpmf(n, n)))


def differentiate(function: Any, theta: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """By central differences, one column for each parameter."""
    each = [(function(theta + h) - function(theta - h)) / (2 * step) for h in step * np.eye(3)]
    return np.stack(each, axis=-1)


def uneven() -> np.ndarray:
    """Weights that add up to a whole number, as scipy's probabilities need."""
    weight = np.random.default_rng(1).exponential(size=90)
    return weight * 37 / weight.sum()


THETAS = [np.array([0.3, 0.1, 0.5]), np.array([-0.8, 1.2, -0.4]), np.array([1.0, -0.5, 0.2])]


@pytest.mark.parametrize("precision", [NONE, PRECISION], ids=["alone", "constrained"])
@pytest.mark.parametrize(
    ("weight", "number", "n", "unit"),
    [
        (np.ones(37), None, 37, 1.0),
        # A sum of weights has the variance of their squares.
        (uneven(), None, 37, 37 / np.sum(uneven() ** 2)),
        (np.ones(50), 12.0, 12, 1.0),
        (np.ones(50), 0.0, 0, 1.0),
        (np.array([1.0] * 45 + [-1.0] * 8), None, 37, 37 / 53),
    ],
    ids=["events", "weights", "another number", "none counted", "signs"],
)
@pytest.mark.parametrize("theta", THETAS)
def test_the_number_of_events_counts_by_its_poisson_probability(
    theta: np.ndarray, weight: Any, number: float | None, n: int, unit: float, precision: Any
) -> None:
    data, mean = make(weight, precision, number), expected(theta)
    away = np.sqrt(precision) * (CONSTRAINT - theta)
    size = unit * deviance(n, mean)
    residual = data.side_residual(theta)
    assert len(residual) == 1 + np.count_nonzero(precision)
    np.testing.assert_allclose(residual[:-1], away[precision > 0])
    np.testing.assert_allclose(residual[-1], np.sign(n - mean) * np.sqrt(size), rtol=1e-9)
    chi2, gradient = data.side_chi2(theta)
    assert chi2 == pytest.approx(size + away @ away, rel=1e-9)
    numerical = differentiate(lambda point: data.side_chi2(point)[0], theta)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5, atol=1e-5)


def test_half_weights_are_half_of_twice_as_many_events() -> None:
    """60 events of weight 1/2 with mean ν are as good as 60 with mean 2ν."""
    data, theta = make(np.full(60, 0.5)), THETAS[0]
    exact = deviance(60, 2 * expected(theta))
    assert data.side_chi2(theta)[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("weight", [np.ones(37), uneven()], ids=["events", "weights"])
def test_slopes_are_those_of_the_residual_where_the_number_is_expected(weight: Any) -> None:
    # 36.25 events of the exponential and 0.75 others.
    theta = np.array([0.4 * 0.3 + 2 * np.log(36.25 / 40), 0.3, 0.5])
    data = make(weight, PRECISION)
    numerical = -differentiate(data.side_residual, theta, step=1e-4)
    slopes = data.side_slopes(theta)
    np.testing.assert_allclose(slopes, numerical, rtol=1e-4, atol=1e-5)
    assert np.all(np.abs(slopes[1]) > 0.1)
    # Their squares are the information of constraints and number.
    slope = np.array([0.5 * 36.25, -0.2 * 36.25, 6 * 0.5])
    unit = 37 / np.sum(weight**2)
    information = np.diag(PRECISION) + unit * np.outer(slope, slope) / 37
    np.testing.assert_allclose(slopes.T @ slopes, information, rtol=1e-9)


def test_without_a_rate_only_constraints_count() -> None:
    data = ObservedData(np.zeros((5, 1)), np.ones(5), LOW, HIGH, CONSTRAINT, PRECISION)
    theta = THETAS[1]
    np.testing.assert_allclose(data.side_residual(theta), [5 * (0.4 - 1.2)])
    np.testing.assert_allclose(data.side_slopes(theta), [[0, 5, 0]])
    chi2, gradient = data.side_chi2(theta)
    assert chi2 == pytest.approx(16)
    np.testing.assert_allclose(gradient, [0, 2 * 25 * (1.2 - 0.4), 0])
