"""The skewness of means, against gamma distributions."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import stats

import inferostatic as ist
from exact_estimators import exact_estimator
from inferostatic.estimator.response_model import PolynomialCoordinates
from inferostatic.inference.calibrated.third_moment import (
    from_normal,
    learn_third_moment,
    to_normal,
)


@pytest.mark.parametrize("n", [10, 40, 400])
def test_tails_are_those_of_a_mean_of_exponentials(n: int) -> None:
    skewness = 2 / np.sqrt(n)
    for z in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0):
        exact = stats.norm.ppf(stats.gamma.cdf(n + z * np.sqrt(n), n))
        assert to_normal(z, skewness) == pytest.approx(exact, abs=0.3 / n)
        assert to_normal(-z, -skewness) == pytest.approx(-exact, abs=0.3 / n)
        assert from_normal(to_normal(z, skewness), skewness) == pytest.approx(z)
    assert to_normal(1.3, 0.0) == 1.3


def test_the_moment_is_learned_as_it_changes_with_theta() -> None:
    """Values c (E − 1), E exponential, have the third moment 2 c³; c³ = 2 + θ here."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1, 1, size=(200_000, 1))
    left = np.cbrt(2 + theta) * (rng.exponential(size=(200_000, 2)) - 1)
    box = PolynomialCoordinates.of_box(np.array([-1.0]), np.array([1.0]))
    found = learn_third_moment(theta, left, box, np.ones(200_000))
    direction = np.array([1.0, -0.5])
    # The variance of a cube (E − 1)³ is 265 − 4.
    error = 3 * np.sqrt(4 * 261 / 200_000)
    for at in (-0.8, 0.0, 0.8):
        exact = 2 * (2 + at) * (1 - 0.125)
        assert found(np.array([at]), direction) == pytest.approx(exact, abs=4 * error)


def lifetime(x: Array, theta: Array) -> Array:
    return jnp.sum(-x / theta - jnp.log(theta))


def decays(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta * rng.exponential(size=theta.shape)


@pytest.mark.slow
def test_the_limit_of_a_lifetime_is_that_of_the_gamma_distribution() -> None:
    n = 30
    prior = ist.Uniform([0.2], [4.0], names=["tau"])
    estimator = exact_estimator(lifetime, prior, np.array([0.0]), np.array([60.0]))
    theta = np.random.default_rng(2).uniform(0.2, 4.0, size=(200_000, 1))
    x = decays(theta, np.random.default_rng(3))
    events = ist.Events(theta=theta, x=x, theta_names=["tau"])
    observed = decays(np.ones((n, 1)), np.random.default_rng(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = ist.CLsb(calibration=ist.ScoreCalibration(estimator, events))
        found = ist.upper_limit(estimator, observed, "tau", method, background=0.5)
    # 2 Σx/τ is a χ² with 2n degrees of freedom.
    exact = 2 * observed.sum() / stats.chi2.ppf(0.05, 2 * n)
    # Symmetric tails would need (x̄ − τ) √n / τ = −1.645.
    symmetric = observed.mean() / (1 - 1.645 / np.sqrt(n))
    assert abs(found.observed - exact) < 0.2 * (symmetric - exact)
