"""The information of a learned score as a statistic, against closed forms."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_estimator, exact_normal, gaussian
from inferostatic.inference.information.score_response import (
    _choose_slope_rule,
    _find_information,
    score_response,
)

TOY = ist.toys.Dirichlet(3)
THETA = np.array([1.5, 3.0, 4.0])
N = 40_000


def within(found: np.ndarray, true: np.ndarray, error: np.ndarray, sigmas: float = 4.0) -> None:
    assert np.abs(found - true).max() <= sigmas * np.max(error)
    assert (np.abs(found - true) <= sigmas * error).all()


def test_the_true_score_has_the_true_information() -> None:
    found = score_response(exact_dirichlet(), THETA, TOY, n=N, seed=1)
    within(found.information, TOY.fisher(THETA), found.information_error)
    # Relative to the truth this is an accuracy of a few percent, not a vacuous one.
    assert (np.diag(found.information_error) < 0.07 * np.diag(TOY.fisher(THETA))).all()


def test_with_many_events_it_is_known_to_a_percent() -> None:
    found = score_response(exact_normal(), [0.3], _normal, n=1_000_000, seed=1)
    assert found.information_error[0, 0] < 0.015
    within(found.information, np.eye(1), found.information_error)


@pytest.mark.slow
def test_stretched_and_tilted_scores_hold_the_same_information() -> None:
    """E[ŝŝᵀ] would be 0.49 of the truth, −E[∇²φ] 0.7 of it."""
    wrong = exact_dirichlet(stretch=0.7, tilt=0.1)
    found = score_response(wrong, THETA, TOY, n=N, seed=1)
    within(found.information, TOY.fisher(THETA), found.information_error)
    right = score_response(exact_dirichlet(), THETA, TOY, n=N, seed=1)
    # The reach follows the spread of the score, so not the same events.
    assert np.diag(found.covariance) == pytest.approx(0.49 * np.diag(right.covariance), rel=1e-4)


def test_a_score_that_lacks_an_observable_holds_less() -> None:
    """φ sees x0 in place of (x0 + x1)/√2, of two parameters that both carry θ."""
    prior = ist.Uniform([-3.0], [3.0], names=["a"])
    blind = exact_estimator(
        lambda x, theta: gaussian(x[:1], theta), prior, np.full(2, -9.0), np.full(2, 9.0)
    )

    def two(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(theta, 1, (len(theta), 2))

    found = score_response(blind, [0.5], two, n=N, seed=1)
    within(found.information, np.array([[1.0]]), found.information_error)


def test_at_the_edge_it_simulates_inside_only() -> None:
    seen = []

    def watched(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(theta)
        return rng.normal(theta)

    estimator = exact_normal(dim=2)
    high = estimator.region.theta_high
    found = score_response(estimator, high, watched, n=N, seed=1)
    assert (np.concatenate(seen) <= high).all()
    within(found.information, np.eye(2), found.information_error)


def test_stated_errors_are_the_scatter_of_noisy_jacobians() -> None:
    rng = np.random.default_rng(1)
    true = np.array([[1.0, 0.3], [-0.2, 2.0]])
    covariance = np.array([[1.5, 0.4], [0.4, 1.0]])
    roots = 0.1 * rng.standard_normal((2, 2, 2))
    noises = [root @ root.T for root in roots]
    found = []
    for _ in range(2000):
        noise = np.stack([root @ rng.standard_normal(2) for root in roots], axis=1)
        for jacobian in (true + noise, true - noise):
            found.append(_find_information(jacobian, covariance, noises)[0])
    stated = _find_information(true, covariance, noises)[1]
    # 4,000 repetitions know a standard deviation to 1.1%; second orders of the noise add a little.
    assert np.std(found, axis=0) == pytest.approx(stated, rel=0.06)
    # The noise adds nothing on average, where it would add this much.
    added = [np.trace(np.linalg.solve(covariance, noise)) for noise in noises]
    exact = true.T @ np.linalg.solve(covariance, true)
    assert np.mean(found, axis=0) == pytest.approx(exact, abs=0.15 * max(added))


def _normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(theta)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-0.3, 0.5), (0.0, 2.0), (-2.0, 0.01)])
def test_the_rule_is_exact_for_cubics(low: float, high: float) -> None:
    places, factors = _choose_slope_rule(low, high)
    assert places.min() == pytest.approx(low)
    assert places.max() == pytest.approx(high)
    values = 2 - 3 * places + 0.7 * places**2 - 5 * places**3
    assert factors @ values == pytest.approx(-3)


def test_it_names_its_parameters() -> None:
    found = score_response(exact_dirichlet(), THETA, TOY, n=2000, seed=1)
    assert "a: " in repr(found)
    assert f"{found.events:,} events" in repr(found)
