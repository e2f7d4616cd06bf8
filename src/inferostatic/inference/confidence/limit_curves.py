"""CLs and CLs+b as functions of the tested value, and where they fall below a threshold."""

import dataclasses
import functools

import numpy as np

from .asymptotics import Confidence, asymptotic, asymptotic_expected, of_toys, one_sided_tail
from .neyman import TIE, ObservedSet, ToyFits, ToyFitter
from .toy_fits import Toys

#: How often the cell that holds a limit is divided by ten.
DIVISIONS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Asymptotic:
    """CLs or CLs+b at any values, observed (m,) and expected (m, 5), by the formulae."""

    observed: ObservedSet
    asimov: ObservedSet | None
    place: int
    test: str

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At values of shape (m,)."""
        q = statistic(self.observed, self.place, values)
        if self.asimov is None:
            return one_sided_tail(q), np.full((len(q), 5), np.nan)
        q_asimov = statistic(self.asimov, self.place, values)
        return (
            asymptotic(q, q_asimov).value(self.test),
            asymptotic_expected(q_asimov).value(self.test),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class WithToys:
    """The same from toys."""

    observed: ObservedSet
    fitter: ToyFitter
    quiet: np.ndarray
    place: int
    test: str

    @functools.cached_property
    def without_signal(self) -> tuple[Toys, ToyFits]:
        """Toys of background alone and their best fits: the same for all values."""
        toys = self.fitter.maker.at(self.quiet)
        return toys, self.fitter.fit(toys, [])

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At values of shape (m,)."""
        fitter, place = self.fitter, self.place
        held = self.observed.conditional([place], values[:, None])
        q = statistic(self.observed, place, values)
        without, best_without = self.without_signal
        one, five = np.empty(len(values)), np.empty((len(values), 5))
        for i, value in enumerate(values):
            toys = fitter.maker.at(held.theta[i])
            sides = [(toys, fitter.fit(toys, [])), (without, best_without)]
            signal, background = (
                one_sided(
                    best.value,
                    fitter.fit(some, [place], values[i : i + 1]).value,
                    best.theta[:, place],
                    value,
                )
                for some, best in sides
            )
            one[i] = of_toys(signal, background, q[i : i + 1], TIE).value(self.test)[0]
            every = of_toys(signal, background, background, TIE).value(self.test)
            five[i] = np.quantile(every, _LEVELS)
        return one, five


#: Probabilities of fluctuations up to the bands.
_LEVELS = Confidence(*(asymptotic_expected(np.zeros(1)))).background[0]


def one_sided(
    best: np.ndarray, held: np.ndarray, fitted: np.ndarray, value: float | np.ndarray
) -> np.ndarray:
    """The statistic q̃: 0 where the fitted value lies above the tested one."""
    return np.where(fitted > value, 0.0, np.maximum(2 * (best - held), 0.0))


def statistic(data: ObservedSet, place: int, values: np.ndarray) -> np.ndarray:
    """q̃ of one set of events at several values."""
    found = data.conditional([place], values[:, None])
    return one_sided(np.full(len(values), data.value), found.value, data.theta[place], values)


def crossings(
    curves: Asymptotic, values: np.ndarray, threshold: float, nothing: float
) -> np.ndarray:
    """Where the observed and the five expected curves fall below the threshold, shape (6,)."""
    table = _table(curves, values)
    if np.all(np.isnan(table[:, 1:])):
        table = table[:, :1]
    ends = np.full((6, 2), np.nan)
    for k, column in enumerate(table.T):
        below = np.flatnonzero(column < threshold)
        if len(below):
            first = below[0]
            ends[k] = values[first - 1] if first else nothing, values[first]
    found = np.flatnonzero(~np.isnan(ends[:, 0]))
    if len(found) == 0:
        return ends[:, 1]
    for _ in range(DIVISIONS):
        # All brackets are divided in one call.
        inner = ends[found, :1] + (ends[found, 1:] - ends[found, :1]) * np.linspace(0.1, 0.9, 9)
        rows = _table(curves, inner.ravel()).reshape(len(found), 9, 6)
        for k, (row, which) in enumerate(zip(rows, found, strict=True)):
            below = np.flatnonzero(row[:, which] < threshold)
            edges = np.concatenate([[ends[which, 0]], inner[k], [ends[which, 1]]])
            first = below[0] + 1 if len(below) else 10
            ends[which] = edges[first - 1], edges[first]
    return ends.mean(axis=1)


def _table(curves: Asymptotic, values: np.ndarray) -> np.ndarray:
    observed, expected = curves(values)
    return np.column_stack([observed, expected])


def interpolated(values: np.ndarray, curve: np.ndarray, threshold: float) -> float:
    """Where a curve of toys falls below the threshold, with its logarithm linear in between."""
    below = np.flatnonzero(curve < threshold)
    if len(below) == 0 or below[0] == 0:
        return float("nan")
    a, b = below[0] - 1, below[0]
    # Few toys may leave nothing below the threshold.
    high, low = np.log(curve[a]), np.log(max(curve[b], 0.1 * threshold))
    fraction = (high - np.log(threshold)) / max(high - low, 1e-300)
    return float(values[a] + min(fraction, 1.0) * (values[b] - values[a]))
