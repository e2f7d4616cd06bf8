"""CLs and CLs+b as functions of the tested value, and where they fall below a threshold."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from ...progress import progress
from .asymptotics import BANDS, asymptotic, asymptotic_expected, confidence_of_toys
from .limit_methods import LimitMethod
from .neyman import TIE
from .observed_fit import Fits, ObservedFit
from .toy_fits import ToyFitter
from .toys import Toys

#: How often the cell that holds a limit is divided by ten.
DIVISIONS = 4


#: CLs or CLs+b, observed (m,) and expected (m, 5), at values of shape (m,).
Curves = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class AsymptoticCurves:
    """By the asymptotic formulae."""

    observed: ObservedFit
    asimov: ObservedFit | None
    index: int
    method: LimitMethod
    #: Values (m,), and what is added to the statistics of both data sets there, (m,) each.
    corrections: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observed and expected; NaN for the latter without an Asimov set."""
        # Of weighted events, whose scatter the Asimov set has as well.
        ratio = self.observed.variance_ratio([self.index])
        q = self._statistic(self.observed, values, 1) / ratio
        if self.asimov is None:
            # CLs+b where the best fit lies away from the edge, eq. 59 of `asymptotics`.
            return ndtr(-np.sqrt(q)), np.full((len(q), 5), np.nan)
        q_asimov = self._statistic(self.asimov, values, 2) / ratio
        combine = self.method.combine
        return combine(asymptotic(q, q_asimov)), combine(asymptotic_expected(q_asimov))

    def _statistic(self, data: ObservedFit, values: np.ndarray, which: int) -> np.ndarray:
        q = upper_statistic(data, self.index, values)
        if self.corrections is None:
            return q
        added = np.interp(values, self.corrections[0], self.corrections[which])
        return np.where(q > 0, np.maximum(q + added, 0.0), 0.0)

    def correct(self, limits: np.ndarray) -> "AsymptoticCurves":
        """The same with statistics from tables replaced by exact ones at the limits."""
        values = np.unique(limits[np.isfinite(limits)])
        if len(values) == 0:
            return self
        added = [np.zeros(len(values)), np.zeros(len(values))]
        for k, data in enumerate((self.observed, self.asimov)):
            if data is not None and data.table is not None:
                found = data.conditional([self.index], values[:, None])
                exact = data.exact_values(np.concatenate([data.theta[None], found.theta]))
                added[k] = 2 * (exact[0] - exact[1:]) - 2 * (data.value - found.value)
        return dataclasses.replace(self, corrections=(values, *added))


@dataclasses.dataclass(frozen=True, eq=False)
class ToyCurves:
    """From toys; `background` is the fitted θ without signal."""

    observed: ObservedFit
    fitter: ToyFitter
    background: np.ndarray
    index: int
    method: LimitMethod

    @functools.cached_property
    def without_signal(self) -> tuple[Toys, Fits]:
        """Toys of background alone and their best fits: the same for all values."""
        toys = self.fitter.maker.at(self.background)
        return toys, self.fitter.fit(toys, [])

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observed and expected."""
        fitter, index = self.fitter, self.index
        tested = self.observed.conditional([index], values[:, None])
        q = one_sided(
            np.full(len(values), self.observed.value),
            tested.value,
            self.observed.theta[index],
            values,
        )
        one, five = np.empty(len(values)), np.empty((len(values), 5))
        for i, value in enumerate(values):
            toys = fitter.maker.at(tested.theta[i])
            statistics = []
            for some, best in ((toys, fitter.fit(toys, [])), self.without_signal):
                fixed = fitter.fit(some, [index], values[i : i + 1])
                statistics.append(one_sided(best.value, fixed.value, best.theta[:, index], value))
            signal, background = statistics
            observed = confidence_of_toys(signal, background, q[i : i + 1], TIE)
            one[i] = self.method.combine(observed)[0]
            every = self.method.combine(confidence_of_toys(signal, background, background, TIE))
            five[i] = np.quantile(every, ndtr(BANDS))
        return one, five


def one_sided(
    best: np.ndarray, fixed: np.ndarray, fitted: float | np.ndarray, value: float | np.ndarray
) -> np.ndarray:
    """The statistic q̃: 0 where the fitted value lies above the tested one."""
    return np.where(fitted > value, 0.0, np.maximum(2 * (best - fixed), 0.0))


def upper_statistic(data: ObservedFit, index: int, values: np.ndarray) -> np.ndarray:
    """q̃ of one data set at several values."""
    found = data.conditional([index], values[:, None])
    return one_sided(np.full(len(values), data.value), found.value, data.theta[index], values)


def find_crossings(
    curves: AsymptoticCurves,
    values: np.ndarray,
    scanned: tuple[np.ndarray, np.ndarray],
    threshold: float,
    background: float,
    *,
    show: bool | None = False,
) -> np.ndarray:
    """Where the observed and the five expected curves fall below the threshold, shape (6,).

    `scanned` are both curves at the values.
    """
    table = np.column_stack(scanned)
    if np.all(np.isnan(table[:, 1:])):
        table = table[:, :1]
    ends = np.full((6, 2), np.nan)
    for k, column in enumerate(table.T):
        below = np.flatnonzero(column < threshold)
        if len(below):
            first = below[0]
            ends[k] = values[first - 1] if first else background, values[first]
    found = np.flatnonzero(~np.isnan(ends[:, 0]))
    if len(found) == 0:
        return ends[:, 1]
    with progress("closing in on the limits", DIVISIONS, show=show) as advance:
        for _ in range(DIVISIONS):
            # All brackets are divided in one call.
            inner = ends[found, :1] + (ends[found, 1:] - ends[found, :1]) * np.linspace(0.1, 0.9, 9)
            rows = _table(curves, inner.ravel()).reshape(len(found), 9, 6)
            for k, (row, which) in enumerate(zip(rows, found, strict=True)):
                below = np.flatnonzero(row[:, which] < threshold)
                edges = np.concatenate([[ends[which, 0]], inner[k], [ends[which, 1]]])
                first = below[0] + 1 if len(below) else 10
                ends[which] = edges[first - 1], edges[first]
            advance(1)
    return ends.mean(axis=1)


def _table(curves: AsymptoticCurves, values: np.ndarray) -> np.ndarray:
    observed, expected = curves(values)
    return np.column_stack([observed, expected])


def interpolate_crossing(values: np.ndarray, curve: np.ndarray, threshold: float) -> float:
    """Where a curve of toys falls below the threshold, with its logarithm linear in between."""
    below = np.flatnonzero(curve < threshold)
    if len(below) == 0 or below[0] == 0:
        return float("nan")
    a, b = below[0] - 1, below[0]
    # Few toys may leave nothing below the threshold.
    high, low = np.log(curve[a]), np.log(max(curve[b], 0.1 * threshold))
    fraction = (high - np.log(threshold)) / max(high - low, 1e-300)
    return float(values[a] + min(fraction, 1.0) * (values[b] - values[a]))
