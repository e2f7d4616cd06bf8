"""Identities of score and ratio: they pass the truth and flag what is wrong in a known way."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_normal
from inferostatic.checks.held_out import hold_out
from inferostatic.checks.identities import (
    FEWEST_IN_CELL,
    bounded_difference,
    mean_ratio,
    mean_score,
    pair_identities,
)
from inferostatic.estimator.history import Region

TOY = ist.toys.Dirichlet(3)
EXACT = exact_dirichlet(low=0.5, high=5.0)
TILTED = exact_dirichlet(low=0.5, high=5.0, tilt=0.1)


def at_points(points: list[list[float]], n: int, seed: int = 1) -> ist.Events:
    theta = np.repeat(np.array(points), n, axis=0)
    x = TOY(theta, np.random.default_rng(seed))
    return ist.Events(x=x, theta=theta, theta_names=["a", "b", "c"])


# E[s] = 0.


def test_the_true_score_has_mean_zero(events: ist.Events) -> None:
    found = mean_score(EXACT, events)
    assert found.finding.grade == "good"
    assert found.finding.p_value > 0.01
    assert found.mean.shape == found.error.shape == found.theta.shape == (16, 3)
    assert np.abs(found.z).max() < 4.5
    assert found.bias < 0.05
    assert "no bias that" in found.finding.sentence
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


# Pairs.


def test_the_true_ratio_satisfies_both_identities(events: ist.Events) -> None:
    found = pair_identities(EXACT, events, seed=1)
    assert [finding.grade for finding in found.findings] == ["good", "good"]
    assert found.distances == ("near", "middle", "far")
    assert found.difference.shape == (3, 3)
    assert np.abs(found.difference / found.difference_error).max() < 4.5
    # The variance of r is infinite for far pairs: its mean is reported, and not tested.
    assert found.adequate.tolist() == [True, False, False]
    assert found.effective[0] > 0.9 > found.effective[2]


def test_a_tilt_breaks_the_bounded_identity(events: ist.Events) -> None:
    bounded = pair_identities(TILTED, events, seed=1).findings[0]
    assert (bounded.name, bounded.grade) == ("bounded identity", "wrong")


def test_a_stretch_breaks_the_mean_ratio(events: ist.Events) -> None:
    wrong = exact_dirichlet(low=0.5, high=5.0, stretch=0.3)
    found = pair_identities(wrong, events, seed=1)
    assert found.findings[1].name == "mean ratio"
    assert found.findings[1].grade == "wrong"
    assert found.mean_ratio[0] < 1


def test_identities_of_a_fixed_pair() -> None:
    rng = np.random.default_rng(2)
    theta0, theta1 = np.array([1.0, 2.0, 2.0]), np.array([1.3, 2.2, 1.8])
    x0, x1 = (TOY(np.tile(theta, (20_000, 1)), rng) for theta in (theta0, theta1))
    for est, right in ((EXACT, True), (TILTED, False)):
        at1, at0 = est.log_ratio(x1, theta0, theta1), est.log_ratio(x0, theta0, theta1)
        value, error = bounded_difference(at1, at0)
        assert (abs(value) < 4 * error) == right
        ratio = mean_ratio(at1)
        assert ratio.adequate
        assert (abs(ratio.value - 1) < 4 * ratio.error) == right


def test_the_mean_of_a_far_ratio_is_not_called_adequate_and_stays_finite() -> None:
    log_ratio = np.random.default_rng(1).normal(-200, 20, 1000)
    found = mean_ratio(log_ratio)
    assert not found.adequate
    assert np.isfinite(found.value)
    assert mean_ratio(log_ratio + 2000).value == np.inf


def test_a_normal_toy_has_known_pairs() -> None:
    """ln r of x ~ Normal(θ, 1) is linear, so E[r] = 1 has an error that is known."""
    x = np.random.default_rng(0).normal(0.0, 1.0, (50_000, 1))
    found = mean_ratio(exact_normal().log_ratio(x, [0.5], [0.0]))
    assert found.error == pytest.approx(np.sqrt((np.exp(0.25) - 1) / 50_000), rel=0.05)
    assert abs(found.value - 1) < 4 * found.error
    assert found.effective == pytest.approx(np.exp(-0.25), rel=0.05)


# The region, and misuse.


def test_events_and_partners_outside_the_region_are_left_out(events: ist.Events) -> None:
    low, high = np.full(3, 1.0), np.full(3, 4.0)
    inner = dataclasses.replace(EXACT, region=Region(low, high, np.zeros(3), np.ones(3)))
    held = hold_out(inner, events, most=10**6, seed=0, kinds=(ist.Estimator,), check="this")
    expected = np.all((events.theta >= 1) & (events.theta <= 4), axis=1)
    assert held.dropped == np.sum(~expected)
    rivals = held.rivals(1000, 3)
    assert rivals.shape == (1000, 3)
    assert rivals.min() >= 1
    assert rivals.max() <= 4
    partner, distance = held.partners(3)
    assert held.inside(partner[distance >= 0]).all()
    assert (distance < 0).any()
    assert pair_identities(inner, events).findings[0].grade == "good"
    with pytest.raises(ValueError, match="hardly any θ of the events' prior"):
        dataclasses.replace(held, low=high + 9, high=high + 9).rivals(5, 0)


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
def test_misuse_is_answered_by_a_sentence(
    est: Any, given: Any, kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        mean_score(est, given)
