"""Recalibration undoes a known distortion of the ratio, and leaves the true one alone."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_normal
from inferostatic.checks.recalibration import (
    AbstractRecalibrationMethod,
    HistogramBins,
    Isotonic,
    Recalibration,
    recalibrate,
)


@pytest.mark.parametrize("method", [Isotonic(), HistogramBins()])
def test_recalibration_undoes_a_stretch(
    normal_events: ist.Events, method: AbstractRecalibrationMethod
) -> None:
    wrong = exact_normal(dim=2, stretch=2.0)
    correct = recalibrate(wrong, normal_events, method=method)
    log_ratio = np.linspace(-6, 6, 25)
    # About 400 events a knot: the error of a logit is 0.1 in the middle and grows outwards.
    np.testing.assert_allclose(correct(log_ratio), log_ratio / 2, atol=0.45)
    np.testing.assert_allclose(correct(-log_ratio), -correct(log_ratio), atol=1e-9)
    assert correct(0.0) == pytest.approx(0, abs=1e-9)
    if isinstance(method, Isotonic):
        assert (np.diff(correct(np.linspace(-50, 50, 1000))) >= 0).all()
    assert "knots" in repr(correct)
    rms = np.sqrt(np.mean((correct(log_ratio) - log_ratio / 2) ** 2))
    assert rms < 0.2 < np.sqrt(np.mean((log_ratio / 2) ** 2))


def test_recalibration_leaves_the_truth_alone(normal_events: ist.Events) -> None:
    correct = recalibrate(exact_normal(dim=2), normal_events)
    same = recalibrate(exact_normal(dim=2), normal_events, method=Isotonic())
    np.testing.assert_array_equal(same.recalibrated, correct.recalibrated)
    log_ratio = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(correct(log_ratio), log_ratio, atol=0.4)


def test_beyond_its_knots_it_goes_on_with_slope_one() -> None:
    correct = Recalibration(np.array([-2.0, 0.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    assert correct([-300.0, -1.0, 1.0, 300.0]).tolist() == [-299.0, -0.5, 0.5, 299.0]


def test_isotonic_is_monotone_where_frequencies_are_not() -> None:
    frequency, weight = np.array([0.2, 0.5, 0.3, 0.8]), np.array([1.0, 1.0, 3.0, 1.0])
    # The violators 0.5 and 0.3 are pooled: (0.5 + 3·0.3)/4.
    np.testing.assert_allclose(Isotonic().adjust(frequency, weight), [0.2, 0.35, 0.35, 0.8])
    np.testing.assert_array_equal(HistogramBins().adjust(frequency, weight), frequency)


def test_misuse_raises(normal_events: ist.Events) -> None:
    with pytest.raises(TypeError, match=r"Isotonic\(\) or ist.checks.HistogramBins\(\); got str"):
        recalibrate(exact_normal(dim=2), normal_events, method="platt")  # pyright: ignore
    with pytest.raises(TypeError, match="recalibrate needs ist.Estimator or .*; got Score"):
        recalibrate(as_direct(ist.ScoreEstimator, exact_normal(dim=2)), normal_events)  # pyright: ignore
