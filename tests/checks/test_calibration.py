"""Calibration curves and recalibration, on exact and on deliberately wrong ratios."""

from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_normal
from inferostatic.checks.calibration import Recalibration, calibration, recalibrate


def dirichlet(**changes: Any) -> ist.Estimator:
    return exact_dirichlet(low=0.5, high=5.0, **changes)


def test_the_true_ratio_is_calibrated(events: ist.Events) -> None:
    found = calibration(dirichlet(), events)
    assert found.finding.grade == "good"
    assert found.finding.p_value > 0.01
    assert found.predicted.shape == found.observed.shape == found.error.shape == (3, 20)
    assert np.abs((found.observed - found.predicted) / found.error).max() < 4.5
    assert found.miscalibration.max() < 0.015
    assert (np.diff(found.predicted, axis=1) > 0).all()
    # Partners are drawn for every event but for those on an edge of the region.
    assert found.events.sum(axis=1) == pytest.approx(20_000, rel=0.01)


@pytest.mark.parametrize("stretch", [0.7, 1.4])
def test_a_stretched_ratio_is_flagged(events: ist.Events, stretch: float) -> None:
    found = calibration(dirichlet(stretch=stretch), events)
    assert found.finding.grade == "wrong"
    assert found.finding.p_value < 1e-6
    # Overconfident where it is stretched: predicted probabilities are too near to 0 and 1.
    low = found.predicted < 0.3
    assert np.sign((found.observed - found.predicted)[low].mean()) == np.sign(stretch - 1)


def test_a_tilted_ratio_is_flagged_because_pairs_are_ordered(events: ist.Events) -> None:
    found = calibration(dirichlet(tilt=0.3), events)
    assert found.finding.grade == "wrong"
    # The larger θ is given too much probability everywhere.
    assert (found.observed.mean(axis=1) < found.predicted.mean(axis=1)).all()


def test_direct_ratio_estimators_are_tested_too(events: ist.Events) -> None:
    direct = as_direct(ist.RatioEstimator, dirichlet())
    np.testing.assert_array_equal(
        calibration(direct, events).observed, calibration(dirichlet(), events).observed
    )


@pytest.mark.parametrize("kind", ["isotonic", "histogram"])
def test_recalibration_undoes_a_stretch(normal_events: ist.Events, kind: str) -> None:
    wrong = exact_normal(dim=2, stretch=2.0)
    mend = recalibrate(wrong, normal_events, kind=kind)
    log_ratio = np.linspace(-6, 6, 25)
    # About 400 events a knot: the error of a logit is 0.1 in the middle and grows outwards.
    np.testing.assert_allclose(mend(log_ratio), log_ratio / 2, atol=0.45)
    np.testing.assert_allclose(mend(-log_ratio), -mend(log_ratio), atol=1e-9)
    assert mend(0.0) == pytest.approx(0, abs=1e-9)
    if kind == "isotonic":
        assert (np.diff(mend(np.linspace(-50, 50, 1000))) >= 0).all()
    assert "knots" in repr(mend)
    rms = np.sqrt(np.mean((mend(log_ratio) - log_ratio / 2) ** 2))
    assert rms < 0.2 < np.sqrt(np.mean((log_ratio / 2) ** 2))


def test_recalibration_leaves_the_truth_alone(normal_events: ist.Events) -> None:
    mend = recalibrate(exact_normal(dim=2), normal_events)
    log_ratio = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(mend(log_ratio), log_ratio, atol=0.4)


def test_beyond_its_knots_it_goes_on_with_slope_one() -> None:
    mend = Recalibration(np.array([-2.0, 0.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    assert mend([-300.0, -1.0, 1.0, 300.0]).tolist() == [-299.0, -0.5, 0.5, 299.0]


def test_kinds_are_told(normal_events: ist.Events) -> None:
    with pytest.raises(ValueError, match="one of isotonic, histogram; got 'platt'"):
        recalibrate(exact_normal(dim=2), normal_events, kind="platt")
    with pytest.raises(TypeError, match=r"ist.Estimator or ist.RatioEstimator; got ScoreEstimator"):
        calibration(as_direct(ist.ScoreEstimator, exact_normal(dim=2)), normal_events)
