r"""The profile likelihood: scans, intervals and contours of a fit.

\(q(\theta_I)=-2\ln[L(\theta_I,\hat{\hat\theta})/L(\hat\theta)]\), the other parameters fitted
again at every point. A level is the quantile of χ² with as many degrees of freedom as θ_I has
components (Wilks), so it holds for a likelihood that is right and a minimum away from the edges.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from ...inputs import Input, as_floats, warn_user
from ...progress import progress
from ...summary import AbstractSummarised, Summary, shorten, tabulate_first
from ..arguments import Parameter, parameter_index
from ..chi_square import chi2_quantile
from .minuit import AbstractObjective, NotConverged, Problem

#: Crossings are found to this fraction of a standard error.
CROSSING_TOLERANCE = 1e-3
#: Fits that the interval of one parameter costs, roughly.
INTERVAL_FITS = 6
#: Fits that one crossing costs, roughly.
CROSSING_FITS = 2
#: Fits near the last one by Minuit that cost as much as one from the start.
EASY_FITS = 3
#: Difference of q from its target within which a point is a crossing.
ON_CROSSING = 0.05
#: Error of q from a table at a crossing above which the table is discarded.
MOST_CORRECTION = 0.1


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Profile(AbstractSummarised):
    """A scan of the profile likelihood of one parameter.

    Attributes:
        name: of the parameter.
        values: where it was held, shape (m,).
        theta: the fit of the other parameters at each, shape (m, d).
        q: −2 ln of the likelihood ratio to the best fit, shape (m,).
    """

    name: str
    values: np.ndarray
    theta: np.ndarray
    q: np.ndarray

    def __repr__(self) -> str:
        """The range scanned."""
        low, high = self.values.min(), self.values.max()
        return (
            f"Profile({shorten(self.name)} at {len(self.values)} values from {low:.4g} to "
            f"{high:.4g}; smallest −2 ln λ {self.q.min():.3g})"
        )

    def _summarise(self) -> Summary:
        columns = {
            self.name: [f"{value:.5g}" for value in self.values],
            "−2 ln λ": [f"{value:.4g}" for value in self.q],
        }
        return Summary(f"Profile likelihood of {self.name}", tabulate_first(columns, left=()))


def variance_ratio(one: np.ndarray, other: np.ndarray, indices: list[int]) -> float:
    """How much larger one covariance is than another, on average over some parameters."""
    block = np.ix_(indices, indices)
    return float(np.trace(np.linalg.solve(other[block], one[block])) / len(indices))


@dataclasses.dataclass(frozen=True, eq=False)
class Profiler:
    """The neighbourhood of a minimum.

    Attributes:
        problem: what was minimised.
        theta: the minimum, shape (d,).
        inverse_hessian: there, shape (d, d), zero for fixed parameters.
        covariance: of the estimate; it differs from the inverse Hessian for weighted events, and q
            is divided by their ratio.
        tabulate: what was minimised from a table, for so many fits; None where it does not pay.
    """

    problem: Problem
    theta: np.ndarray
    inverse_hessian: np.ndarray
    covariance: np.ndarray
    tabulate: Callable[[int], AbstractObjective | None] | None = None

    def ratio(self, indices: list[int]) -> float:
        """How much larger the variance is than the inverse Hessian, in these parameters."""
        return variance_ratio(self.covariance, self.inverse_hessian, indices)

    def near(self, fits: int) -> "Profiler":
        """The same with a table in place of exact sums, if it pays for so many fits."""
        objective = None if self.tabulate is None else self.tabulate(fits)
        if objective is None:
            return self
        problem = dataclasses.replace(self.problem, objective=objective)
        return dataclasses.replace(self, problem=problem, tabulate=None)

    def fit_at(self, indices: list[int], values: np.ndarray) -> tuple[float, np.ndarray]:
        """−ln L with some parameters held and the others fitted, and the whole θ."""
        problem = self.problem.hold(indices, values)
        block = self.inverse_hessian[np.ix_(indices, indices)]
        # Along the ridge of a quadratic likelihood, so that little is left to fit.
        away = np.linalg.solve(block, values - self.theta[indices])
        guess = self.theta + self.inverse_hessian[:, indices] @ away
        guess = np.clip(guess, problem.low, problem.high)
        if not problem.free.any():
            return problem.value(guess), guess
        minuit = problem.minuit(guess, np.sqrt(np.diag(self.inverse_hessian)))
        for strategy in (0, 1, 2):
            minuit.strategy = strategy
            minuit.migrad()
            if minuit.valid:
                return float(minuit.fval), np.array(minuit.values)
        held = (f"{problem.names[i]} = {v:.5g}" for i, v in zip(indices, values, strict=True))
        raise NotConverged(
            f"the fit with {', '.join(held)} did not converge; stay nearer to the estimate."
        )

    def q(self, indices: list[int], values: np.ndarray) -> tuple[float, np.ndarray]:
        """−2 ln λ at held values, and the whole θ."""
        value, theta = self.fit_at(indices, values)
        return self._rise(indices, value, theta), theta

    def _rise(self, indices: list[int], value: float, theta: np.ndarray) -> float:
        """−2 ln λ of the value −ln L at θ."""
        rise = 2 * (value - self.problem.value(self.theta)) / self.ratio(indices)
        if rise < -0.1:
            warn_user(
                f"a point with a higher likelihood than the estimate was found near θ = "
                f"{np.round(theta, 5).tolist()} (−2 ln λ = {rise:.3g}); fit again with starts=10."
            )
        return max(rise, 0.0)

    def scan(self, parameter: Parameter, values: Input) -> Profile:
        """q at each of the values of one parameter."""
        index = self.free_index(parameter)
        points = np.atleast_1d(as_floats(values, "values")).astype(np.float64)
        low, high = self.problem.low[index], self.problem.high[index]
        if points.ndim != 1 or len(points) == 0 or not np.all((points >= low) & (points <= high)):
            raise ValueError(
                f"values of {self.problem.names[index]} must be a list inside the trained region, "
                f"{low:.5g} to {high:.5g}; got {np.round(points, 5).tolist()}."
            )
        near, found, q = self.near(len(points) // EASY_FITS), [], []
        with progress("profile", len(points)) as advance:
            for point in points:
                value, theta = near.fit_at([index], np.array([point]))
                # What a table has fitted is evaluated exactly.
                value = value if near is self else self.problem.value(theta)
                found.append(theta)
                q.append(self._rise([index], value, theta))
                advance(1)
        name = self.problem.names[index]
        return Profile(name=name, values=points, theta=np.array(found), q=np.array(q))

    def free_index(self, parameter: Parameter) -> int:
        """The number of a parameter that was fitted."""
        index = parameter_index(parameter, self.problem.names)
        if not self.problem.free[index]:
            raise ValueError(f"{self.problem.names[index]} was held fixed in this fit.")
        return index

    def interval(self, index: int, level: float) -> tuple[float, float]:
        """Both ends for one parameter, by MINOS or, where it fails, by searching the profile."""
        near, target = self.near(INTERVAL_FITS), chi2_quantile(level, 1)
        ends = near._find_ends(index, level)
        if near is not self:
            settled = self._settle(near, [index], np.array(ends)[:, None], target)
            ends = self._find_ends(index, level) if settled is None else settled[:, 0].tolist()
        return ends[0], ends[1]

    def _settle(
        self, near: "Profiler", indices: list[int], points: np.ndarray, target: float
    ) -> np.ndarray | None:
        """Crossings that a table found, moved to where the exact q crosses, shape (m, k).

        None where the table is so wrong that the search must be done again without it.
        """
        settled, here = points.copy(), self.theta[indices]
        for row, point in enumerate(points):
            rise, theta = near.q(indices, point)
            if abs(rise - target) > ON_CROSSING:
                continue  # cut off at the edge of the region
            exact = self._rise(indices, self.problem.value(theta), theta)
            if not abs(exact - rise) <= MOST_CORRECTION:
                return None
            # The root of q is nearly linear in the distance.
            moved = here + (point - here) * np.sqrt(target / exact)
            settled[row] = np.clip(moved, self.problem.low[indices], self.problem.high[indices])
        return settled

    def _find_ends(self, index: int, level: float) -> tuple[float, float]:
        target = chi2_quantile(level, 1)
        minuit = self.problem.minuit(self.theta, np.sqrt(np.diag(self.inverse_hessian)))
        minuit.errordef = 0.5 * self.ratio([index])
        minuit.migrad()
        found = None
        if minuit.valid:
            minuit.minos(self.problem.names[index], cl=level)
            found = minuit.merrors[self.problem.names[index]]
        ends = []
        for sign, side in ((-1.0, "lower"), (1.0, "upper")):
            if found is not None and getattr(found, f"{side}_valid"):
                ends.append(float(minuit.values[index] + getattr(found, side)))
            else:
                ends.append(float(self.crossing([index], np.array([sign]), target)[0]))
        return ends[0], ends[1]

    def crossing(self, indices: list[int], direction: np.ndarray, target: float) -> np.ndarray:
        """Where q reaches the target on a ray from the estimate, or the edge of the region."""
        from scipy import optimize  # heavy, so loaded on first use

        root = np.linalg.cholesky(self.covariance[np.ix_(indices, indices)])
        step = root @ (direction / np.linalg.norm(direction))
        low, high, here = (a[indices] for a in (self.problem.low, self.problem.high, self.theta))
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (high - here) / step, (low - here) / step)
        furthest = float(np.min(room[step != 0]))

        def excess(radius: float) -> float:
            point = np.clip(here + radius * step, low, high)
            # The root of q is nearly linear in the distance, so few steps find the crossing.
            return np.sqrt(self.q(indices, point)[0]) - np.sqrt(target)

        inner, outer = 0.0, min(1.2 * np.sqrt(target), furthest)
        while excess(outer) < 0:
            if outer >= furthest:
                return np.clip(here + furthest * step, low, high)
            inner, outer = outer, min(1.5 * outer, furthest)
        found = optimize.root_scalar(excess, bracket=(inner, outer), xtol=CROSSING_TOLERANCE)
        return here + found.root * step

    def contour(self, indices: list[int], level: float, points: int) -> np.ndarray:
        """A closed curve of equal q of two parameters, shape (points, 2)."""
        target = chi2_quantile(level, 2)
        angles = 2 * np.pi * np.arange(points) / points
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        near = self.near(CROSSING_FITS * points)
        found = []
        with progress("contour", points) as advance:
            for ray in rays:
                found.append(near.crossing(indices, ray, target))
                advance(1)
        settled = np.array(found)
        if near is not self:
            exact = self._settle(near, indices, settled, target)
            if exact is None:
                return dataclasses.replace(self, tabulate=None).contour(indices, level, points)
            settled = exact
        return settled
