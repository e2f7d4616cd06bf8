r"""Confidence sets from means: the θ at which observed means are what they should be.

Some statistics, as many as parameters, have observed means, and their expected means at every θ are
known from simulated events. The deviation in units of its error, squared, is a χ² with as many
degrees of freedom as there are parameters if θ is true. With some parameters fixed and the others
chosen as the data like them best, it has as many as are fixed. Gaussian constraints of parameters
and the number of events, where a rate is known, add their own squared deviations.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...estimator.response_model import MeanResponse, SmoothCovariance
from .observed_data import ObservedData
from .third_moment import ThirdMoment

#: Slopes that count as none, as a part of the largest, in units of the errors and bounds.
FLATTEST = 1e-6
#: Times that the unit of the residuals is taken at the estimate, where something is left over.
ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class MeanTest:
    """The comparison for one set of events.

    Attributes:
        observed: means of the statistics over the observed events, shape (d,).
        mean: of the statistics as a function of θ, with its error.
        covariance_of: one event's statistics, as a function of θ.
        data: the events, with bounds that fix a parameter where they are equal, and constraints.
        third_moment: of one event's statistics; without it they count as symmetric.
    """

    observed: np.ndarray
    mean: MeanResponse
    covariance_of: SmoothCovariance
    data: ObservedData
    third_moment: ThirdMoment | None = None

    @property
    def free(self) -> list[int]:
        """Indices of the parameters that the bounds leave free."""
        return self.data.free.tolist()

    def errors(self, theta: np.ndarray, *, simulation: bool = True) -> np.ndarray:
        """Covariance of observed minus expected means, with the error of the latter or without."""
        white = self.covariance_of.whitening(theta[None])[0]
        covariance = np.linalg.inv(white.T @ white) / self.data.size
        return covariance + np.diag(self.mean(theta)[1]) if simulation else covariance

    def residual(self, theta: np.ndarray, root: np.ndarray | None = None) -> np.ndarray:
        """Observed minus expected means and constraints in units of their errors.

        The means' errors are a Cholesky factor of their covariance, that at θ by default.
        """
        root = np.linalg.cholesky(self.errors(theta)) if root is None else root
        deviation = np.linalg.solve(root, self.observed - self.mean(theta)[0])
        return np.concatenate([deviation, self.data.side_residual(theta)])

    def chi2(self, theta: np.ndarray) -> float:
        """The sum of squared residuals."""
        return float(np.sum(np.square(self.residual(theta))))

    def slopes(self, theta: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Of the expected means and constraints in units of their errors, shape (d + c, d)."""
        whitened = np.linalg.solve(root, self.mean.slopes(theta))
        return np.concatenate([whitened, self.data.side_slopes(theta)])

    def response(self, theta: np.ndarray) -> np.ndarray:
        """∂θ̂/∂ of means and constraints in units of their errors, shape (d, d + c).

        It is very large in a direction in which the means do not change, and 0 for a fixed
        parameter.
        """
        free = self.free
        slopes = self.slopes(theta, np.linalg.cholesky(self.errors(theta)))
        scale = self._widths(theta)[free]
        left, sizes, right = np.linalg.svd(slopes[:, free] * scale, full_matrices=False)
        sizes = np.maximum(sizes, max(FLATTEST * sizes.max(initial=0), np.finfo(float).tiny))
        result = np.zeros(slopes.shape[::-1])
        result[free] = scale[:, None] * ((right.T / sizes) @ left.T)
        return result

    def covariance(self, theta: np.ndarray, *, simulation: bool = True) -> np.ndarray:
        """Of the estimate, with or without the error by finitely many simulated events."""
        response = self.response(theta)
        if simulation:
            return response @ response.T
        dim = len(theta)
        root = np.linalg.cholesky(self.errors(theta))
        means = np.linalg.solve(root.T, response[:, :dim].T).T
        statistical = means @ self.errors(theta, simulation=False) @ means.T
        return statistical + response[:, dim:] @ response[:, dim:].T

    def solve(self, start: np.ndarray, fixed: Sequence[int] = ()) -> tuple[np.ndarray, float]:
        """The θ nearest to the data, and its χ²."""
        free = [j for j in self.free if j not in fixed]
        point = np.array(start, np.float64)
        if not free:
            return point, self.chi2(point)
        # With all parameters free there is a θ where nothing is left, in whatever unit. One that
        # changes with θ would lead away from it, to where the means are hardly known.
        overdetermined = len(free) < len(start) or len(self.data.side_residual(point)) > 0
        for _ in range(ROUNDS if overdetermined and not fixed else 1):
            unit = None if fixed else np.linalg.cholesky(self.errors(point))
            point = self._least_squares(point, free, unit)
        return point, self.chi2(point)

    def _least_squares(
        self, start: np.ndarray, free: list[int], unit: np.ndarray | None
    ) -> np.ndarray:
        """Minimise the squared residuals, in a unit that is held or in that of each θ."""
        from scipy import optimize

        low, high, point = self.data.low[free], self.data.high[free], start.copy()
        inside = np.minimum(1e-9 * self._widths(start)[free], (high - low) / 2)
        start = np.clip(start[free], low + inside, high - inside)

        def residual(values: np.ndarray) -> np.ndarray:
            point[free] = values
            return self.residual(point, unit)

        def slope(values: np.ndarray) -> np.ndarray:
            # The error's own change with θ is left out: it moves steps, not where they end.
            point[free] = values
            root = np.linalg.cholesky(self.errors(point)) if unit is None else unit
            return -self.slopes(point, root)[:, free]

        least_squares: Any = optimize.least_squares
        found = least_squares(
            residual,
            start,
            jac=slope,
            bounds=(low, high),
            x_scale=self._widths(point)[free],
            xtol=1e-9,
            gtol=1e-9,
        )
        point[free] = found.x
        return point

    def _widths(self, theta: np.ndarray) -> np.ndarray:
        """Scales of the parameters: the distance between finite bounds."""
        width = self.data.high - self.data.low
        return np.where(np.isfinite(width), width, 1 + np.abs(theta))

    def signed_root(self, theta: np.ndarray, index: int) -> tuple[np.ndarray, float]:
        """The root of χ² of one parameter at its value in θ, positive above the best fit.

        The others are profiled; all of them come first. The best fit is found with the errors at
        the tested value, because it is there that the test must hold.
        """
        point = self.solve(theta, [index])[0]
        root = np.linalg.cholesky(self.errors(point))
        best = self._least_squares(point, self.free, root)
        squares = [np.sum(np.square(self.residual(at, root))) for at in (point, best)]
        size = np.sqrt(max(float(squares[0] - squares[1]), 0.0))
        return point, float(np.copysign(size, point[index] - best[index]))

    def skewness(self, theta: np.ndarray, index: int) -> float:
        """Of the estimate of one parameter, where θ is true.

        That of a number of events is none: its part of χ² is a likelihood ratio.
        """
        if self.third_moment is None:
            return 0.0
        response = self.response(theta)[index]
        root = np.linalg.cholesky(self.errors(theta))
        direction = np.linalg.solve(root.T, response[: len(root)])
        third = self.third_moment(theta, direction) * np.sum(self.data.share**3)
        return float(third / np.sum(response**2) ** 1.5)

    def profile(self, theta: np.ndarray, fixed: Sequence[int], best: np.ndarray) -> float:
        """χ² with some parameters fixed at θ, above that of the best."""
        fixed = [j for j in fixed if j in self.free]
        start = best.copy()
        start[fixed] = theta[fixed]
        others = [j for j in self.free if j not in fixed]
        if fixed and others:
            # Where the others go if the means were linear in θ.
            covariance = self.covariance(best)
            pull = np.linalg.solve(covariance[np.ix_(fixed, fixed)], (theta - best)[fixed])
            start[others] = best[others] + covariance[np.ix_(others, fixed)] @ pull
        return max(self.solve(start, fixed)[1] - self.chi2(best), 0.0)

    def find_ends(self, j: int, bound: float, best: np.ndarray) -> tuple[float, float]:
        """Where the χ² of one parameter reaches a bound, or the edge of the region."""
        if j not in self.free:
            return float(best[j]), float(best[j])

        def above(value: float) -> float:
            point = best.copy()
            point[j] = value
            return self.profile(point, [j], best) - bound

        error, ends = float(np.sqrt(self.covariance(best)[j, j])), []
        low, high = self.data.low[j], self.data.high[j]
        for sign, edge in ((-1, low), (1, high)):
            reach, inner = np.sqrt(bound) * error, float(best[j])
            outer = float(np.clip(best[j] + sign * reach, low, high))
            while not (beyond := above(outer) > 0) and outer != edge:
                inner, reach = outer, 1.3 * reach
                outer = float(np.clip(best[j] + sign * reach, low, high))
            ends.append(find_root(above, inner, outer, 1e-3 * error) if beyond else outer)
        return ends[0], ends[1]

    def trace_outline(
        self, pair: list[int], bound: float, best: np.ndarray, points: int
    ) -> np.ndarray:
        """Where the χ² of two parameters reaches a bound, shape (points, 2)."""
        root = np.linalg.cholesky(self.covariance(best)[np.ix_(pair, pair)])
        low, high = self.data.low[pair], self.data.high[pair]

        def go(length: float, direction: np.ndarray) -> np.ndarray:
            return np.clip(best[pair] + length * direction, low, high)

        def above(length: float, direction: np.ndarray) -> float:
            point = best.copy()
            point[pair] = go(length, direction)
            return self.profile(point, pair, best) - bound

        outline = []
        for angle in np.linspace(0, 2 * np.pi, points, endpoint=False):
            direction = root @ np.array([np.cos(angle), np.sin(angle)])
            far = 1.3 * np.sqrt(bound)
            while above(far, direction) < 0 and far < 20 * np.sqrt(bound):
                far *= 1.5
            if above(far, direction) > 0:
                far = find_root(partial(above, direction=direction), 0, far, 1e-3)
            outline.append(go(far, direction))
        return np.array(outline)


def find_root(f: Callable[[float], float], first: float, last: float, tolerance: float) -> float:
    """Where a function changes its sign."""
    from scipy.optimize import brentq

    found: Any = brentq(f, min(first, last), max(first, last), xtol=tolerance)
    return float(found)
