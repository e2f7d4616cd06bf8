"""Calibration curves, on exact and on deliberately wrong ratios."""

from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_normal
from inferostatic.checks.calibration import calibration


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


def test_a_ratio_is_needed(normal_events: ist.Events) -> None:
    with pytest.raises(TypeError, match=r"ist.Estimator or ist.RatioEstimator; got ScoreEstimator"):
        calibration(as_direct(ist.ScoreEstimator, exact_normal(dim=2)), normal_events)
