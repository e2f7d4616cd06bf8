"""Calibration: of the events given a probability σ(ln r) = 0.8, do 80% come from θ0?

Each validation event gets a partner θ such that the two are exchangeable, and the pair is put in
order, once for each parameter: θ0 is the one with the larger value. Random order would hide a
tilt of the potential, which pushes all estimates the same way.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, expit

from ..estimator.estimator import Estimator, RatioEstimator
from ..events.events import Events
from ..summary import AbstractSummarised, Summary, SummaryTable, count, shorten
from .finding import Finding, combine_p_values, list_grades, tabulate_findings
from .validation_events import Pairs, select_pairs

#: Bins of equal expected variance, at most: as many as a figure shows well.
MOST_BINS = 20
#: Expected variance of the number of events in a bin, at least, for a χ² to be one.
LEAST_VARIANCE = 10.0
#: Root mean square difference between prediction and frequency that is tolerated.
TOLERATED_DIFFERENCE = 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class CalibrationCurve(AbstractSummarised):
    """Predicted probabilities of θ0 and observed frequencies, one curve for each parameter.

    Attributes:
        predicted: mean of σ(ln r) in each bin, shape (d, bins).
        observed: fraction of events that came from θ0, shape (d, bins).
        error: binomial standard error of `observed`, were the prediction right.
        events: number of events in each bin.
        p_values: of a χ² of each curve, shape (d,).
        miscalibration: root mean square of observed − predicted over events, less what
            statistics explain, shape (d,).
        names: of the parameters by which pairs were ordered.
        finding: the verdict.
    """

    predicted: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    events: np.ndarray
    p_values: np.ndarray
    miscalibration: np.ndarray
    names: tuple[str, ...]
    finding: Finding

    def __repr__(self) -> str:
        """The largest difference and the verdict, in a line."""
        worst = int(np.argmax(self.miscalibration))
        return (
            f"CalibrationCurve(largest difference {self.miscalibration[worst]:.3f}, in "
            f"{shorten(self.names[worst])}; {list_grades([self.finding])})"
        )

    def _summarise(self) -> Summary:
        away = np.abs(self.observed - self.predicted)
        columns = {
            "ordered by": list(self.names),
            "rms difference": [f"{value:.4f}" for value in self.miscalibration],
            "largest in a bin": [f"{value:.3f}" for value in np.max(away, axis=1)],
            "p": [f"{p:.2g}" for p in self.p_values],
        }
        title = (
            f"Calibration of σ(ln r): predicted and observed frequencies in "
            f"{count(self.predicted.shape[1], 'bin')}"
        )
        return Summary(title, (tabulate_findings([self.finding]), SummaryTable(columns)))


def calibration(
    estimator: Estimator | RatioEstimator, events: Events, *, seed: int = 0
) -> CalibrationCurve:
    """The calibration curves of σ(ln r) on events that the estimator was not trained on.

    Args:
        estimator: offers a log ratio.
        events: validation events; each gets a near, middle or far partner.
        seed: of the partners.
    """
    return compute_calibration(select_pairs(estimator, events, check="calibration", seed=seed))


def compute_calibration(pairs: Pairs) -> CalibrationCurve:
    """The curves, from pairs that are already drawn."""
    variance = expit(pairs.log_ratio) * expit(-pairs.log_ratio)
    total = float(np.square(pairs.weight) @ variance / np.square(pairs.weight).mean())
    bins = int(np.clip(total // LEAST_VARIANCE, 1, MOST_BINS))
    curves = [
        _compute_curve(order * pairs.log_ratio, order, pairs.weight, bins)
        for order in pairs.larger.T
    ]
    predicted, observed, error, count, p_values, off = map(np.array, zip(*curves, strict=True))
    z = (observed - predicted) / error
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    finding = Finding(
        name="calibration",
        p_value=combine_p_values(p_values),
        size=float(off.max()),
        tolerance=TOLERATED_DIFFERENCE,
        description=(
            f"σ(ln r) = {predicted[worst]:.3f} is met by a frequency of {observed[worst]:.3f} ± "
            f"{error[worst]:.3f} where they differ most surely; typical difference "
            f"{off.max():.3f}"
        ),
    )
    return CalibrationCurve(predicted, observed, error, count, p_values, off, pairs.names, finding)


class _Curve(NamedTuple):
    """As in `CalibrationCurve`, for one parameter."""

    predicted: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    events: np.ndarray
    p_value: float
    miscalibration: float


def _compute_curve(
    log_ratio: np.ndarray, order: np.ndarray, weight: np.ndarray, bins: int
) -> _Curve:
    """From ln r of the larger θ over the smaller, and +1 where the larger is the true one."""
    differ = order != 0
    log_ratio, first, weight = log_ratio[differ], order[differ] > 0, weight[differ]
    rows = np.argsort(log_ratio, kind="stable")
    variance = np.square(weight) * expit(log_ratio) * expit(-log_ratio)
    # Bins of equal variance: where the prediction is nearly sure, few events are many.
    share = np.cumsum(variance[rows]) / variance.sum()
    index = np.empty(len(rows), int)
    index[rows] = np.minimum((share * bins * (1 - 1e-12)).astype(int), bins - 1)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(index, values, minlength=bins)

    weights, away = total(weight), total(weight * (first - expit(log_ratio)))
    spread = total(variance)
    predicted = total(weight * expit(log_ratio)) / weights
    chi2 = np.sum(np.square(away) / spread)
    excess = (np.square(away) - spread) / np.square(weights)
    off = np.sqrt(max(0.0, float(weights @ excess / weights.sum())))
    return _Curve(
        predicted=predicted,
        observed=predicted + away / weights,
        error=np.sqrt(spread) / np.abs(weights),
        events=total(np.ones(len(index))),
        p_value=float(chdtrc(bins, chi2)),
        miscalibration=off,
    )
