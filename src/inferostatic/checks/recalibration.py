"""Recalibration: learn from validation events how ln r should be read."""

import abc
import dataclasses
import functools

import numpy as np
from scipy.special import logit

from ..estimator.estimator import Estimator, RatioEstimator
from ..events.events import Events
from ..inputs import Input, as_floats, kind_of
from ..summary import AbstractSummarised, Summary, SummaryTable, count
from .validation_events import select_pairs

#: Events for each knot of the map: the error of its logit is then 0.1 where ln r is small.
EVENTS_PER_KNOT = 500
#: Knots, at least, so that a map has a shape.
FEWEST_KNOTS = 5
#: Knots, at most: more would follow the noise.
MOST_KNOTS = 100
#: Distance from 0 and 1 that frequencies keep, so that no logarithm is infinite.
EDGE = 1e-12
#: Knots that a summary shows, at most.
SHOWN_KNOTS = 9


class AbstractRecalibrationMethod(abc.ABC):
    """How the frequencies of θ0 in bins of ln r become the values of a map."""

    @abc.abstractmethod
    def adjust(self, frequency: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The frequencies that the map should have, shape (bins,) as given."""


@dataclasses.dataclass(frozen=True)
class Isotonic(AbstractRecalibrationMethod):
    """The monotone map that is nearest to the frequencies."""

    def adjust(self, frequency: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Isotonic regression (pool adjacent violators)."""
        from scipy.optimize import isotonic_regression

        return np.asarray(isotonic_regression(frequency, weights=weight).x)


@dataclasses.dataclass(frozen=True)
class HistogramBins(AbstractRecalibrationMethod):
    """The frequencies as they are; the map need not be monotone."""

    def adjust(self, frequency: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """No change."""
        del weight
        return frequency


@dataclasses.dataclass(frozen=True, repr=False)
class Recalibration(AbstractSummarised):
    """A map of ln r that makes σ(ln r) agree with frequencies; odd, as ln r is in its two θ.

    It corrects ratios on average over the pairs that it was learned from, not a bias that depends
    on θ (`centre` does), and what it returns no longer comes from one potential.

    Attributes:
        log_ratio: knots, increasing.
        recalibrated: values there; beyond the outermost knots the map goes on with slope 1.
    """

    log_ratio: np.ndarray
    recalibrated: np.ndarray

    def __call__(self, log_ratio: Input) -> np.ndarray | np.floating:
        """The recalibrated ln r, in the shape given."""
        values = as_floats(log_ratio, "log_ratio").astype(np.float64)
        low, high = self.log_ratio[0], self.log_ratio[-1]
        inside = np.interp(values, self.log_ratio, self.recalibrated)
        return inside + np.minimum(values - low, 0) + np.maximum(values - high, 0)

    def __repr__(self) -> str:
        """Where it goes, in a line."""
        return (
            f"Recalibration({len(self.log_ratio)} knots; ln r from {self.log_ratio[0]:.3g} to "
            f"{self.log_ratio[-1]:.3g} becomes {self.recalibrated[0]:.3g} to "
            f"{self.recalibrated[-1]:.3g})"
        )

    def _summarise(self) -> Summary:
        rows = np.unique(np.linspace(0, len(self.log_ratio) - 1, SHOWN_KNOTS).astype(int))
        columns = {
            "ln r": [f"{value:.3g}" for value in self.log_ratio[rows]],
            "recalibrated": [f"{value:.3g}" for value in self.recalibrated[rows]],
        }
        title = f"Recalibration of ln r with {count(len(self.log_ratio), 'knot')}"
        return Summary(title, (SummaryTable(columns, left=()),))


def recalibrate(
    estimator: Estimator | RatioEstimator,
    events: Events,
    *,
    method: AbstractRecalibrationMethod | None = None,
    seed: int = 0,
) -> Recalibration:
    """Learn from validation events how ln r should be read.

    Args:
        estimator: offers a log ratio.
        events: that it was not trained on, and that no check will use again.
        method: `Isotonic()`, the default, or `HistogramBins()`.
        seed: of the pairs.
    """
    method = Isotonic() if method is None else method
    if not isinstance(method, AbstractRecalibrationMethod):
        raise TypeError(
            "method must be ist.checks.Isotonic() or ist.checks.HistogramBins(); got "
            f"{kind_of(method)}."
        )
    pairs = select_pairs(estimator, events, check="recalibrate", seed=seed)
    # Both orders of every pair, which makes the map odd: from θ with ln r, not from θ with −ln r.
    log_ratio = np.concatenate([pairs.log_ratio, -pairs.log_ratio])
    first = np.concatenate([np.ones(len(pairs.weight)), np.zeros(len(pairs.weight))])
    weight = np.concatenate([pairs.weight, pairs.weight])
    knots = _choose_knots(log_ratio)
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, log_ratio)
    total = functools.partial(np.bincount, nearest, minlength=len(knots))
    weights = total(weights=np.maximum(weight, 0) + 1e-300)
    # Half an event of either kind is added, so that no logarithm is infinite.
    frequency = (total(weights=weight * first) + 0.5) / (total(weights=weight) + 1.0)
    values = logit(method.adjust(np.clip(frequency, EDGE, 1 - EDGE), weights))
    return Recalibration(knots, (values - values[::-1]) / 2)


def _choose_knots(log_ratio: np.ndarray) -> np.ndarray:
    """Values of ln r with equal numbers of events around them, symmetric about zero."""
    count = int(np.clip(len(log_ratio) // EVENTS_PER_KNOT, FEWEST_KNOTS, MOST_KNOTS))
    quantiles = np.quantile(log_ratio, (np.arange(count) + 0.5) / count)
    return np.unique((quantiles - quantiles[::-1]) / 2)
