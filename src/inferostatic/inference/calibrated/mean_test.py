r"""Confidence sets from means: the θ at which observed means are what they should be.

Some statistics, as many as parameters, have observed means, and simulated events tell what their
means are at every θ. The deviation in units of its error, squared, is a χ² with as many degrees of
freedom as there are parameters if θ is true. With some parameters fixed and the others chosen as
the data like them best, it has as many as are fixed.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .response_model import SmoothCovariance, SmoothMean

#: Slopes of the means that count as none, as a part of the largest.
FLATTEST = 1e-6


@dataclasses.dataclass(frozen=True)
class MeanTest:
    """The comparison for one set of events.

    Attributes:
        observed: means of the statistics over the observed events, shape (d,).
        events: their number.
        mean: of the statistics as a function of θ, with its error.
        covariance_of: one event's statistics, as a function of θ.
        low, high: walls of θ.
    """

    observed: np.ndarray
    events: int
    mean: SmoothMean
    covariance_of: SmoothCovariance
    low: np.ndarray
    high: np.ndarray

    def errors(self, theta: np.ndarray, *, simulation: bool = True) -> np.ndarray:
        """Covariance of observed minus expected means, with the error of the latter or without."""
        white = self.covariance_of.whitening(theta[None])[0]
        covariance = np.linalg.inv(white.T @ white) / self.events
        return covariance + np.diag(self.mean(theta)[1]) if simulation else covariance

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """Observed minus expected in units of the error, shape (d,)."""
        difference = self.observed - self.mean(theta)[0]
        return np.linalg.solve(np.linalg.cholesky(self.errors(theta)), difference)

    def chi2(self, theta: np.ndarray) -> float:
        """The sum of squared residuals."""
        return float(np.sum(np.square(self.residual(theta))))

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """Of the expected means, ∂m/∂θ, shape (d, d)."""
        return self.mean.slopes(theta)

    def inverse_slopes(self, theta: np.ndarray) -> np.ndarray:
        """∂θ/∂m, shape (d, d); very large in a direction in which the means do not change."""
        left, sizes, right = np.linalg.svd(self.slopes(theta))
        sizes = np.maximum(sizes, max(FLATTEST * sizes[0], np.finfo(float).tiny))
        return (right.T / sizes) @ left.T

    def covariance(self, theta: np.ndarray, *, simulation: bool = True) -> np.ndarray:
        """Of the estimate, with or without the error by finitely many simulated events."""
        inverse = self.inverse_slopes(theta)
        return inverse @ self.errors(theta, simulation=simulation) @ inverse.T

    def solve(self, start: np.ndarray, fixed: Sequence[int] = ()) -> tuple[np.ndarray, float]:
        """The θ nearest to the data, and its χ²."""
        from scipy import optimize

        free = [j for j in range(len(start)) if j not in fixed]
        point = np.array(start, np.float64)
        if not free:
            return point, self.chi2(point)

        inside = 1e-9 * (self.high - self.low)
        point = np.clip(point, self.low + inside, self.high - inside)
        begin = point[free]
        # With all parameters free there is a θ where nothing is left, in whatever unit. One that
        # changes with θ would lead away from it, to where the means are hardly known.
        unit = None if fixed else np.linalg.cholesky(self.errors(point))

        def root_at(point: np.ndarray) -> np.ndarray:
            return np.linalg.cholesky(self.errors(point)) if unit is None else unit

        def residual(values: np.ndarray) -> np.ndarray:
            point[free] = values
            return np.linalg.solve(root_at(point), self.observed - self.mean(point)[0])

        def slope(values: np.ndarray) -> np.ndarray:
            # The error's own change with θ is left out: it moves steps, not where they end.
            point[free] = values
            return -np.linalg.solve(root_at(point), self.slopes(point)[:, free])

        least_squares: Any = optimize.least_squares
        found = least_squares(
            residual,
            begin,
            jac=slope,
            bounds=(self.low[free], self.high[free]),
            x_scale=(self.high - self.low)[free],
            xtol=1e-9,
            gtol=1e-9,
        )
        point[free] = found.x
        return point, self.chi2(point)

    def profiled(self, theta: np.ndarray, fixed: Sequence[int], best: np.ndarray) -> float:
        """χ² with some parameters fixed at θ, above that of the best."""
        start = best.copy()
        start[list(fixed)] = theta[list(fixed)]
        free = [j for j in range(len(best)) if j not in fixed]
        if free:
            # Where the others go if the means were linear in θ.
            covariance = self.covariance(best)
            pull = np.linalg.solve(covariance[np.ix_(fixed, fixed)], (theta - best)[list(fixed)])
            start[free] = best[free] + covariance[np.ix_(free, fixed)] @ pull
        return max(self.solve(start, fixed)[1] - self.chi2(best), 0.0)

    def ends(self, j: int, bound: float, best: np.ndarray) -> tuple[float, float]:
        """Where the χ² of one parameter reaches a bound, or the wall of the region."""

        def above(value: float) -> float:
            point = best.copy()
            point[j] = value
            return self.profiled(point, [j], best) - bound

        error, ends = float(np.sqrt(self.covariance(best)[j, j])), []
        for sign, wall in ((-1, self.low[j]), (1, self.high[j])):
            reach, inner = np.sqrt(bound) * error, float(best[j])
            while True:
                outer = float(np.clip(best[j] + sign * reach, self.low[j], self.high[j]))
                if above(outer) > 0:
                    ends.append(_crossing(above, inner, outer, 1e-3 * error))
                    break
                if outer == wall:
                    ends.append(float(wall))
                    break
                inner, reach = outer, 1.3 * reach
        return ends[0], ends[1]

    def outline(self, i: int, j: int, bound: float, best: np.ndarray, points: int) -> np.ndarray:
        """Where the χ² of two parameters reaches a bound, shape (points, 2)."""
        pair = [i, j]
        root = np.linalg.cholesky(self.covariance(best)[np.ix_(pair, pair)])
        low, high = self.low[pair], self.high[pair]

        def place(length: float, direction: np.ndarray) -> np.ndarray:
            return np.clip(best[pair] + length * direction, low, high)

        def above(length: float, direction: np.ndarray) -> float:
            point = best.copy()
            point[pair] = place(length, direction)
            return self.profiled(point, pair, best) - bound

        outline = []
        for angle in np.linspace(0, 2 * np.pi, points, endpoint=False):
            direction = root @ np.array([np.cos(angle), np.sin(angle)])
            far = 1.3 * np.sqrt(bound)
            while above(far, direction) < 0 and far < 20 * np.sqrt(bound):
                far *= 1.5
            if above(far, direction) > 0:
                far = _crossing(partial(above, direction=direction), 0, far, 1e-3)
            outline.append(place(far, direction))
        return np.array(outline)


def _crossing(
    function: Callable[[float], float], first: float, last: float, tolerance: float
) -> float:
    """Where a function changes its sign."""
    from scipy.optimize import brentq

    found: Any = brentq(function, min(first, last), max(first, last), xtol=tolerance)
    return float(found)
