"""Calibration: of the events given a probability σ(ln r) = 0.8, do 80% come from θ0?

Each held-out event gets a partner θ such that the two are exchangeable, and the pair is put in
order, once for each parameter: θ0 is the one with the larger value. Random order would hide a
tilt of the potential, which pushes all estimates the same way.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, expit, logit

from ..estimator.estimator import Estimator, RatioEstimator
from ..events.events import Events
from ..inputs import Input, as_floats
from .finding import Finding, smallest
from .held_out import derived, hold_out
from .identities import Pairs, draw_pairs

MOST_EVENTS = 50_000
#: Bins of equal expected variance, at most, and the expected variance of a bin, at least.
MOST_BINS, LEAST_VARIANCE = 20, 10.0
#: Root mean square difference between prediction and frequency that is tolerated.
TOLERATED_DIFFERENCE = 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class Calibration:
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
        """The verdict."""
        return f"Calibration({self.finding})"


def calibration(
    estimator: Estimator | RatioEstimator, events: Events, *, seed: int = 0
) -> Calibration:
    """The calibration curves of σ(ln r) on events that the estimator was not trained on.

    Args:
        estimator: offers a log ratio.
        events: held-out events; each gets a near, middle or far partner.
        seed: of the partners.
    """
    kinds = (Estimator, RatioEstimator)
    held = hold_out(
        estimator, events, most=MOST_EVENTS, seed=seed, kinds=kinds, check="calibration"
    )
    pairs = draw_pairs(estimator, held, derived(seed, 1))
    return calibration_of(pairs, estimator.theta_names)


def calibration_of(pairs: Pairs, names: tuple[str, ...]) -> Calibration:
    """The curves, from pairs already drawn."""
    variance = expit(pairs.log_ratio) * expit(-pairs.log_ratio)
    total = float(np.square(pairs.weight) @ variance / np.square(pairs.weight).mean())
    bins = int(np.clip(total // LEAST_VARIANCE, 1, MOST_BINS))
    curves = [
        _curve(order * pairs.log_ratio, order, pairs.weight, bins) for order in pairs.larger.T
    ]
    predicted, observed, error, count, p_values, off = map(np.array, zip(*curves, strict=True))
    z = (observed - predicted) / error
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    finding = Finding(
        name="calibration",
        p_value=smallest(p_values),
        size=float(off.max()),
        tolerance=TOLERATED_DIFFERENCE,
        sentence=(
            f"σ(ln r) = {predicted[worst]:.3f} is met by a frequency of {observed[worst]:.3f} ± "
            f"{error[worst]:.3f} where they differ most surely; typical difference "
            f"{off.max():.3f}"
        ),
    )
    return Calibration(predicted, observed, error, count, p_values, off, names, finding)


class _Curve(NamedTuple):
    """As in `Calibration`, for one parameter."""

    predicted: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    events: np.ndarray
    p_value: float
    miscalibration: float


def _curve(log_ratio: np.ndarray, order: np.ndarray, weight: np.ndarray, bins: int) -> _Curve:
    """From ln r of the larger θ over the smaller, and +1 where the larger is the true one."""
    known = order != 0
    log_ratio, first, weight = log_ratio[known], order[known] > 0, weight[known]
    places = np.argsort(log_ratio, kind="stable")
    variance = np.square(weight) * expit(log_ratio) * expit(-log_ratio)
    # Bins of equal variance: where the prediction is nearly sure, few events are many.
    share = np.cumsum(variance[places]) / variance.sum()
    index = np.empty(len(places), int)
    index[places] = np.minimum((share * bins * (1 - 1e-12)).astype(int), bins - 1)

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


@dataclasses.dataclass(frozen=True, repr=False)
class Recalibration:
    """A map of ln r that makes σ(ln r) agree with frequencies; odd, so that ln r stays so.

    It mends ratios on average over the pairs that it was learned from, not a bias that depends on θ
    (`centre` does), and what it returns no longer comes from one potential.

    Attributes:
        log_ratio: knots, increasing.
        recalibrated: values there; beyond the outermost knots the map goes on with slope 1.
    """

    log_ratio: np.ndarray
    recalibrated: np.ndarray

    def __call__(self, log_ratio: Input) -> np.ndarray:
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


def recalibrate(
    estimator: Estimator | RatioEstimator, events: Events, *, kind: str = "isotonic", seed: int = 0
) -> Recalibration:
    """Learn from held-out events how ln r should be read.

    Args:
        estimator: offers a log ratio.
        events: that it was not trained on, and that no check will use again.
        kind: "isotonic" (a monotone step function, smoothed by its bins) or "histogram".
        seed: of the pairs.
    """
    fits: dict[str, Callable[..., np.ndarray]] = {"isotonic": _isotonic, "histogram": _histogram}
    if kind not in fits:
        raise ValueError(f"kind must be one of {', '.join(fits)}; got {kind!r}.")
    held = hold_out(
        estimator,
        events,
        most=MOST_EVENTS,
        seed=seed,
        kinds=(Estimator, RatioEstimator),
        check="recalibrate",
    )
    pairs = draw_pairs(estimator, held, derived(seed, 1))
    # Both orders of every pair, which makes the map odd: from θ with ln r, not from θ with −ln r.
    log_ratio = np.concatenate([pairs.log_ratio, -pairs.log_ratio])
    first = np.concatenate([np.ones(len(pairs.weight)), np.zeros(len(pairs.weight))])
    weight = np.concatenate([pairs.weight, pairs.weight])
    knots = _knots(log_ratio)
    near = np.searchsorted((knots[1:] + knots[:-1]) / 2, log_ratio)
    total = functools.partial(np.bincount, near, minlength=len(knots))
    weights = total(weights=np.maximum(weight, 0) + 1e-300)
    # Half an event of either kind is added, so that no logarithm is infinite.
    share = (total(weights=weight * first) + 0.5) / (total(weights=weight) + 1.0)
    fitted = fits[kind](np.clip(share, 1e-12, 1 - 1e-12), weights)
    values = logit(fitted)
    return Recalibration(knots, (values - values[::-1]) / 2)


def _knots(log_ratio: np.ndarray) -> np.ndarray:
    """Places of equal numbers of events, symmetric around zero."""
    count = int(np.clip(len(log_ratio) // 500, 5, 100))
    quantiles = np.quantile(log_ratio, (np.arange(count) + 0.5) / count)
    return np.unique((quantiles - quantiles[::-1]) / 2)


def _isotonic(share: np.ndarray, weight: np.ndarray) -> np.ndarray:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(share, weights=weight).x)


def _histogram(share: np.ndarray, weight: np.ndarray) -> np.ndarray:
    del weight
    return share
