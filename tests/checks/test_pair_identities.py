"""Identities of the ratio: they pass the truth and flag what is wrong in a known way."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.checks.pair_identities import mean_ratio, pair_identities

TOY = ist.toys.Dirichlet(3)
EXACT = exact_dirichlet(low=0.5, high=5.0)
TILTED = exact_dirichlet(low=0.5, high=5.0, tilt=0.1)


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


def test_the_mean_ratio_of_a_fixed_pair() -> None:
    rng = np.random.default_rng(2)
    theta0, theta1 = np.array([1.0, 2.0, 2.0]), np.array([1.3, 2.2, 1.8])
    x1 = TOY(np.tile(theta1, (20_000, 1)), rng)
    for est, right in ((EXACT, True), (TILTED, False)):
        ratio = mean_ratio(est.log_ratio(x1, theta0, theta1))
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
