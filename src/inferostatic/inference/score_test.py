r"""Confidence sets by the score test: the θ at which the observed mean score is what it should be.

At every θ the mean score of the observed events, whitened, is compared with its expectation there;
the sum of squared deviations, in units of their errors, is a χ² with d degrees of freedom if θ is
true. With some parameters fixed and the others chosen as the data like them best, it has as many
degrees of freedom as are fixed.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .smooth import Coordinates, SmoothCovariance, SmoothMean, degrees_up_to, legendre

#: Degree of the polynomial by which the mean score is replaced near the estimate, for few and for
#: many events, whose errors are small; and points for each of its terms.
DEGREES, MANY, POINTS_PER_TERM = (3, 2), 1000, 2
#: Standard deviations of those points, in units of the error.
REACH = 2.0
#: Times that it is made anew about a better estimate.
ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Expectation:
    r"""What the mean score should be at each θ, and how it scatters.

    Attributes:
        covariance: C(θ) of the score of one event.
        mean: of \(C^{-1/2}\) times the score, zero if the score were exact.
    """

    covariance: SmoothCovariance
    mean: SmoothMean


@dataclasses.dataclass(frozen=True)
class ScoreTest:
    """The comparison for one set of events.

    Attributes:
        observed: mean score of the observed events as a function of θ.
        events: their number.
        expected: from simulated events.
        low, high: walls of θ.
    """

    observed: Callable[[np.ndarray], np.ndarray]
    events: int
    expected: Expectation
    low: np.ndarray
    high: np.ndarray

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """Observed minus expected in units of the error, shape (d,)."""
        difference, variance = self.difference(theta)
        return difference / np.sqrt(1 / self.events + variance)

    def difference(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whitened observed mean minus the expected one, and the variance of the latter."""
        mean, variance = self.expected.mean(theta)
        root = self.expected.covariance.power(theta[None], -0.5)[0]
        return root @ self.observed(theta) - mean, variance

    def slopes(self, theta: np.ndarray, free: Sequence[int] | None = None) -> np.ndarray:
        """∂(difference)/∂θ, shape (d, free), by central differences."""
        free = range(len(theta)) if free is None else free
        columns = []
        for j in free:
            step = 1e-4 * (self.high[j] - self.low[j])
            up, down = theta.copy(), theta.copy()
            up[j] = min(theta[j] + step, self.high[j])
            down[j] = max(theta[j] - step, self.low[j])
            columns.append((self.difference(up)[0] - self.difference(down)[0]) / (up[j] - down[j]))
        return np.stack(columns, axis=1)

    def covariance(self, theta: np.ndarray, *, simulation: bool = True) -> np.ndarray:
        """Of the estimate, with or without the error by finitely many simulated events."""
        variance = 1 / self.events + simulation * self.difference(theta)[1]
        slopes = self.slopes(theta)
        return np.linalg.pinv(slopes.T / variance @ slopes, hermitian=True)

    def solve(self, start: np.ndarray, fixed: Sequence[int] = ()) -> tuple[np.ndarray, float]:
        """The θ nearest to the data, and its χ²."""
        from scipy import optimize

        least_squares: Any = optimize.least_squares

        free = [j for j in range(len(start)) if j not in fixed]
        point = np.array(start, np.float64)
        if not free:
            return point, float(np.sum(self.residual(point) ** 2))

        def residual(values: np.ndarray) -> np.ndarray:
            point[free] = values
            return self.residual(point)

        def slope(values: np.ndarray) -> np.ndarray:
            # The error's own change with θ is left out: it moves steps, not where they end.
            point[free] = values
            variance = 1 / self.events + self.difference(point)[1]
            return self.slopes(point, free) / np.sqrt(variance)[:, None]

        inside = 1e-9 * (self.high - self.low)
        begin = np.clip(point, self.low + inside, self.high - inside)[free]
        bounds = (self.low[free], self.high[free])
        found = least_squares(
            residual,
            begin,
            jac=slope,
            bounds=bounds,
            x_scale=np.subtract(*bounds[::-1]),
            xtol=1e-9,
            gtol=1e-9,
        )
        point[free] = found.x
        return point, float(2 * found.cost)

    def near(self, theta: np.ndarray) -> "ScoreTest":
        """The same with a polynomial in place of the observed mean, for many evaluations."""
        spread = REACH * np.linalg.cholesky(self.covariance(theta))
        exponents = degrees_up_to(len(theta), DEGREES[self.events > MANY])
        drawn = np.random.default_rng(0).normal(size=(POINTS_PER_TERM * len(exponents), len(theta)))
        points = np.concatenate([theta[None], theta + drawn @ spread.T])
        points = np.clip(points, self.low, self.high)
        coordinates = Coordinates.of_normal(theta, spread @ spread.T)
        values = np.array([self.observed(point) for point in points])
        design = legendre(coordinates(points), exponents)
        coefficients = np.linalg.lstsq(design, values, rcond=None)[0]

        def observed(theta: np.ndarray) -> np.ndarray:
            return (legendre(coordinates(theta[None]), exponents) @ coefficients)[0]

        return dataclasses.replace(self, observed=observed)

    def settled(self, theta: np.ndarray) -> tuple[np.ndarray, "ScoreTest"]:
        """The best θ near a first guess, and the test with a polynomial about it."""
        local = self.near(theta)
        for _ in range(ROUNDS):
            found, _ = local.solve(theta)
            away, theta = found - theta, found
            if away @ np.linalg.pinv(local.covariance(theta)) @ away < 1:
                break
            local = self.near(theta)
        return theta, local

    def profiled(self, theta: np.ndarray, fixed: Sequence[int], best: np.ndarray) -> float:
        """χ² with some parameters fixed at θ, above that of the best."""
        start = best.copy()
        start[list(fixed)] = theta[list(fixed)]
        lowest = float(np.sum(self.residual(best) ** 2))
        return max(self.solve(start, fixed)[1] - lowest, 0.0)

    def ends(self, j: int, bound: float, best: np.ndarray, error: float) -> tuple[float, float]:
        """Where the χ² of one parameter reaches a bound, or the wall of the region."""

        def above(value: float) -> float:
            point = best.copy()
            point[j] = value
            return self.profiled(point, [j], best) - bound

        ends = []
        for sign, wall in ((-1, self.low[j]), (1, self.high[j])):
            reach, inner = np.sqrt(bound) * error, best[j]
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
