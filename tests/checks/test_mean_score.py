"""The mean score: zero for the truth, and the tilt of a potential that is tilted."""

from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet
from inferostatic.checks.mean_score import FEWEST_IN_CELL, mean_score

TOY = ist.toys.Dirichlet(3)
EXACT = exact_dirichlet(low=0.5, high=5.0)
TILTED = exact_dirichlet(low=0.5, high=5.0, tilt=0.1)


def at_points(points: list[list[float]], n: int, seed: int = 1) -> ist.Events:
    theta = np.repeat(np.array(points), n, axis=0)
    x = TOY(theta, np.random.default_rng(seed))
    return ist.Events(x=x, theta=theta, theta_names=["a", "b", "c"])


def test_the_true_score_has_mean_zero(events: ist.Events) -> None:
    found = mean_score(EXACT, events)
    assert found.finding.grade == "good"
    assert found.finding.p_value > 0.01
    assert found.mean.shape == found.error.shape == found.theta.shape == (16, 3)
    assert np.abs(found.z).max() < 4.5
    assert found.bias < 0.05
    assert "no bias that" in found.finding.description
    np.testing.assert_allclose(found.events, 20_000 / 16, rtol=0.01)


def test_a_tilt_is_the_mean_score(events: ist.Events) -> None:
    found = mean_score(TILTED, events)
    assert found.finding.grade == "wrong"
    assert found.finding.p_value < 1e-6
    # s + tilt: every mean is the tilt.
    z = (found.mean - 0.1) / found.error
    assert np.abs(z).max() < 4.5


def test_points_of_a_design_are_cells() -> None:
    points = [[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]
    found = mean_score(EXACT, at_points(points, FEWEST_IN_CELL))
    np.testing.assert_array_equal(found.theta, points)
    assert found.finding.grade == "good"
    wrong = mean_score(exact_dirichlet(low=0.5, high=5.0, tilt=0.2), at_points(points, 4000))
    assert wrong.finding.grade == "wrong"
    # The bias in standard errors of one event is √(tilt·I⁻¹·tilt).
    squares = [0.2**2 * np.linalg.inv(TOY.fisher(np.array(point))).sum() for point in points]
    assert wrong.bias == pytest.approx(np.sqrt(np.mean(squares)), rel=0.05)
    assert (wrong.p_values < 1e-6).all()


def test_weights_count(events: ist.Events) -> None:
    """Events of one θ said to be of another, with the ratio as their weight."""
    kept = (events.theta < 4.8).all(axis=1)
    x, theta = events.x[kept], events.theta[kept]
    weight = np.exp(EXACT.log_ratio(x, theta + 0.2, theta))
    for weights in (weight, None):
        moved = ist.Events(x=x, theta=theta + 0.2, weight=weights, theta_names=events.theta_names)
        p_value = mean_score(EXACT, moved).finding.p_value
        assert p_value < 1e-6 if weights is None else p_value > 1e-2


def test_direct_score_estimators_are_tested_too(events: ist.Events) -> None:
    direct = as_direct(ist.ScoreEstimator, EXACT)
    np.testing.assert_array_equal(mean_score(direct, events).mean, mean_score(EXACT, events).mean)


OTHER = ist.Events(x=np.zeros((200, 2)), theta=np.ones((200, 3)))

MISUSES: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "an array": (EXACT, np.zeros((5, 3)), TypeError, "needs events that .* got ndarray"),
    "few events": (
        EXACT,
        at_points([[1.0, 2.0, 2.0]], 50),
        ValueError,
        "at least 100 events within the trained region; of 50 events 50",
    ),
    "events outside": (
        EXACT,
        at_points([[7.0, 7.0, 7.0]], 200),
        ValueError,
        "of 200 events 0 lie there",
    ),
    "other columns": (EXACT, OTHER, ValueError, "has 3 columns of x .* the events 2"),
    "another order": (
        EXACT,
        ist.Events(x=np.ones((200, 3)) / 3, theta=np.ones((200, 3)), theta_names=["b", "a", "c"]),
        ValueError,
        "the order here is a, b, c",
    ),
    "a ratio": (
        as_direct(ist.RatioEstimator, EXACT),
        OTHER,
        TypeError,
        "ist.ScoreEstimator; got Ratio",
    ),
    "nothing": (None, OTHER, TypeError, "got None"),
}


@pytest.mark.parametrize(("est", "given", "kind", "match"), MISUSES.values(), ids=MISUSES)
def test_misuse_raises(est: Any, given: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        mean_score(est, given)
