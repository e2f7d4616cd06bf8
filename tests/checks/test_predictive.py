"""Posterior predictive checks: the truth predicts its data, a wrong posterior does not."""

from typing import Any

import numpy as np
import pytest

from exact_estimators import exact_normal
from inferostatic.checks import predictive
from inferostatic.checks.predictive import posterior_predictive
from inferostatic.inference.posterior.posterior import Posterior, posterior


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


X = simulator(np.tile([1.0, -1.0], (50, 1)), np.random.default_rng(1))


@pytest.fixture(scope="module")
def exact() -> Posterior:
    return posterior(exact_normal(dim=2), X, seed=1)


def test_the_true_posterior_predicts_the_data(exact: Posterior) -> None:
    found = posterior_predictive(exact, X, simulator, seed=2)
    assert found.names == ("mean of x0", "mean of x1", "sd of x0", "sd of x1")
    assert found.finding.grade == "good"
    assert found.p_values.min() > 0.01
    assert found.replicated.shape == (1000, 4)
    # Mean of the data plus that of the posterior: variance 2/50.
    assert found.replicated[:, 0].std() == pytest.approx(np.sqrt(2 / 50), rel=0.1)


def test_a_tilted_posterior_does_not() -> None:
    wrong = posterior(exact_normal(dim=2, tilt=1.5), X, seed=1)
    found = posterior_predictive(wrong, X, simulator, seed=2)
    assert found.finding.grade == "wrong"
    assert (found.p_values[:2] < 0.01).all()
    assert (found.p_values[2:] > 0.01).all()


def test_a_wrong_simulator_does_not(exact: Posterior) -> None:
    def wide(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + 1.7 * rng.normal(size=theta.shape)

    found = posterior_predictive(exact, X, wide, seed=2)
    assert found.finding.grade == "wrong"
    assert "sd of" in found.finding.description


def test_one_event_and_statistics_of_the_user(exact: Posterior) -> None:
    one = posterior(exact_normal(dim=2), X[0], seed=1)
    found = posterior_predictive(one, X[0], simulator, draws=200, seed=2)
    assert found.names == ("x0", "x1")
    assert found.finding.grade == "good"
    found = posterior_predictive(
        exact, X, simulator, statistic=lambda x: x.max(), names=["largest"], draws=200, seed=2
    )
    assert found.names == ("largest",)
    assert found.observed == [X.max()]
    assert "largest stands out" in repr(found)


def test_few_draws_do_not_hide_a_large_distance(exact: Posterior) -> None:
    """With 50 draws no p-value lies below 1/51: the distance must speak."""
    found = posterior_predictive(exact, X, lambda t, rng: simulator(t, rng) + 9, draws=50, seed=2)
    assert found.p_value == pytest.approx(1 / 51)
    assert found.finding.size > 10
    assert found.finding.grade == "wrong"
    assert "p-value <0.02, the smallest that so few simulations can give" in repr(found)


def test_few_draws_of_the_truth_are_seldom_called_wrong() -> None:
    """The distance of one of n draws from the others follows Hotelling's T²."""
    rng = np.random.default_rng(3)
    grades = []
    for _ in range(2000):
        rows = rng.normal(size=(11, 4)) @ np.diag([1.0, 1e-3, 1e3, 5.0])
        found = predictive._compare(rows[0], rows[1:], ("a", "b", "c", "d"))
        grades.append(found.finding.grade)
    # 1 in 1000 is expected, and 1 in 11 to be the furthest.
    assert grades.count("wrong") <= 8
    assert abs(grades.count("notable") / 2000 - 1 / 11) < 0.03


def test_a_statistic_without_spread_is_compared_too(exact: Posterior) -> None:
    def compare(value: float) -> str:
        return posterior_predictive(
            exact, X, simulator, statistic=lambda x: [x.mean(), value if x is X else 0.1], seed=2
        ).finding.grade

    assert compare(0.1) == "good"
    assert compare(float(np.float32(0.1))) == "good"
    assert compare(0.2) == "wrong"


def test_fewer_draws_than_statistics_are_refused(exact: Posterior) -> None:
    with pytest.raises(ValueError, match="known from 6 draws at least; got draws=5"):
        posterior_predictive(exact, X, simulator, draws=5, seed=2)


@pytest.mark.parametrize(
    ("statistic", "match"),
    [
        (lambda x: np.nan, "the statistic of x has NaN"),
        (lambda x: np.nan if x is not X else 1.0, "statistic of replicated data has NaN"),
        (lambda x: np.ones(1 + (x is X)), r"as many numbers, .* got shapes \[\(1,\), \(2,\)\]"),
    ],
)
def test_a_statistic_must_be_finite_and_of_one_size(
    exact: Posterior, statistic: Any, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        posterior_predictive(exact, X, simulator, statistic=statistic, draws=9, seed=1)


def flat(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return simulator(theta, rng)[:, :1]


@pytest.mark.parametrize(
    ("arguments", "kind", "match"),
    [
        ((None, X, simulator), TypeError, "result of ist.posterior.* got None"),
        (("exact", X[:3], simulator), ValueError, "x has 3 events, .* made from 50"),
        (("exact", X * np.nan, simulator), ValueError, "x has NaN"),
        (("exact", X, flat), ValueError, "returns 1 observables, but 2 are expected here"),
        (("exact", X, 3), TypeError, "simulator must be a function"),
    ],
)
def test_misuse_raises(exact: Posterior, arguments: Any, kind: type[Exception], match: str) -> None:
    given = [exact if part is not None and isinstance(part, str) else part for part in arguments]
    with pytest.raises(kind, match=match):
        posterior_predictive(*given, draws=5, seed=1)  # pyright: ignore
