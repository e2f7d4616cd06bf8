"""Grids of the parameters of interest: those that are given, and those that find the set."""

from collections.abc import Mapping

import numpy as np

from ...inputs import Input, as_floats, as_rows, rounded, warn_user
from ..arguments import as_points
from ..chi_square import chi2_quantile
from ..lattice import Axes, Box, lattice
from ..likelihood.model import LikelihoodModel
from ..tables.likelihood_table import FIT_COST
from .method import AbstractPointTest
from .observed_fit import ObservedFit

#: Points along each axis of a grid that is laid by default, by the number of parameters.
AXIS_POINTS = {1: 61, 2: 21, 3: 9, 4: 7}
#: Standard errors that a first grid reaches from the estimate.
REACH = 4.0
#: Level of the set that a grid must hold.
WHOLE_LEVEL = 0.95
#: p-value of the χ² quantile of that level, among toys, from which on the grid is laid wider.
CLEARLY_WIDER = 0.2
#: Factor of the statistic by which it is, at most.
MOST_WIDER = 16.0
#: Times that a grid is laid, usually.
USUAL_GRIDS = 3
#: Times that a grid is laid, at most.
MOST_GRIDS = 5

#: Statistic (m,), p-value (m,) and all parameters (m, d) at tested points.
Tested = tuple[np.ndarray, np.ndarray, np.ndarray]


class Tester:
    """Statistic, p-value and θ at points of the parameters of interest."""

    observed: ObservedFit
    indices: list[int]
    test: AbstractPointTest
    random: bool

    def __init__(
        self, observed: ObservedFit, indices: list[int], test: AbstractPointTest, *, random: bool
    ) -> None:
        self.observed, self.indices, self.test, self.random = observed, indices, test, random

    def __call__(self, points: np.ndarray, *, show: bool | None = False) -> Tested:
        """Test points of shape (m, k), each by itself."""
        statistic, theta = self.statistic(points)
        return statistic, self.test.p_values(statistic, theta, self.indices, show=show), theta

    def test_lattice(self, axes: Axes, *, show: bool | None) -> Tested:
        """Test all points of a lattice together."""
        statistic, theta = self.statistic(lattice(axes))
        found = self.test.p_values(statistic, theta, self.indices, axes=axes, show=show)
        return statistic, found, theta

    def statistic(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The observed statistic, and θ with the others profiled."""
        statistic, found = self.observed.statistic(self.indices, points)
        lost = ~found.converged
        if lost.any():
            warn_user(
                f"the fit of the profiled parameters did not converge at {int(lost.sum())} of "
                f"{len(points)} points, such as {rounded(points[lost][0])}."
            )
        # A point above the best fit is a better best fit; θ that were tested before keep theirs.
        best = int(np.argmax(np.where(np.isnan(found.value), -np.inf, found.value)))
        if found.value[best] > self.observed.value + self.observed.resolution:
            self.observed = self.observed.improve(found.theta[best])
            statistic = np.maximum(2 * (self.observed.value - found.value), 0.0)
        return statistic, found.theta


def count_fits(count: int | None, indices: list[int], model: LikelihoodModel) -> int:
    """Fits of the observed events at a grid of so many points, or at those that are laid."""
    laid = USUAL_GRIDS * AXIS_POINTS.get(len(indices), 1) ** len(indices)
    points = laid if count is None else count
    # Where nothing is profiled, a point costs one evaluation.
    return points if int(model.free.sum()) > len(indices) else points // FIT_COST


def read_grid(
    grid: Input | Mapping[str, Input], names: tuple[str, ...], box: Box
) -> tuple[np.ndarray, Axes | None]:
    """The user's points, shape (m, k), and the axes if they are a lattice."""
    if isinstance(grid, Mapping):
        if sorted(grid) != sorted(names):
            raise ValueError(
                f"grid must have an axis for each parameter of interest, {', '.join(names)}; got "
                f"{', '.join(map(str, grid))}."
            )
        axes = tuple(np.unique(as_floats(grid[name], f"the axis of {name}")) for name in names)
        axes = tuple(axis.astype(np.float64) for axis in axes)
    else:
        values = as_floats(grid, "grid").astype(np.float64)
        if len(names) > 1:
            points = as_rows(values, "grid", columns=len(names), of="parameters of interest")
            if len(points) == 0:
                raise ValueError("grid has no points; give at least one.")
            return as_points(points, names, box, "grid"), None
        if values.size != max((1, *values.shape)) and values.size:
            raise ValueError(
                f"grid must list values of {', '.join(names)}, shape (m,) or (m, 1); got shape "
                f"{values.shape}."
            )
        axes = (np.unique(values),)
    if any(axis.size == 0 for axis in axes):
        raise ValueError("grid has no points; give at least one along each axis.")
    return as_points(lattice(axes), names, box, "grid"), axes


def lay_grid(
    tester: Tester, names: tuple[str, ...], box: Box, *, show: bool | None
) -> tuple[Axes, Tested]:
    """A lattice that holds the set: laid by χ², then widened until the toys agree."""
    count = AXIS_POINTS.get(len(names))
    if count is None:
        raise ValueError(
            f"a grid of {len(names)} parameters is too large to be laid; give points in grid=, or "
            "name fewer parameters= and profile the others."
        )
    observed = tester.observed
    errors = np.sqrt(np.diag(observed.covariance))[tester.indices]
    best = observed.theta[tester.indices]
    low, high = np.maximum(best - REACH * errors, box[0]), np.minimum(best + REACH * errors, box[1])
    axes: Axes = ()
    threshold = chi2_quantile(WHOLE_LEVEL, len(names)) * observed.variance_ratio(tester.indices)
    if tester.random:
        threshold *= _widen(tester, threshold)
    for _ in range(MOST_GRIDS):
        axes = tuple(np.linspace(a, b, count) for a, b in zip(low, high, strict=True))
        accepted = tester.statistic(lattice(axes))[0] < threshold
        low, high, good = _next_box(axes, accepted, box)
        if good:
            break
    tested = tester.test_lattice(axes, show=show)
    for _ in range(MOST_GRIDS - 1):
        low, high, good = _next_box(axes, tested[1] > 1 - WHOLE_LEVEL, box, narrower=False)
        if good or not tester.random:
            break
        axes = tuple(np.linspace(a, b, count) for a, b in zip(low, high, strict=True))
        tested = tester.test_lattice(axes, show=show)
    return axes, tested


def _widen(tester: Tester, threshold: float) -> float:
    """How much larger the statistic of toys at the best fit is than χ², where it clearly is.

    A poor network has larger sets; to lay their grid at once saves toys at a whole grid.
    """
    best, size = tester.observed.theta, len(tester.indices)
    p = tester.test.p_values(np.array([threshold]), best[None], tester.indices, show=False)[0]
    if p < CLEARLY_WIDER:
        return 1.0
    usual = chi2_quantile(1 - float(p), size) if p < 1 else 0.0
    return MOST_WIDER if usual <= threshold / MOST_WIDER else threshold / usual


def _next_box(
    axes: Axes, accepted: np.ndarray, box: Box, *, narrower: bool = True
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Where the next lattice should lie, and whether this one will do."""
    low, high = np.array([(axis[0], axis[-1]) for axis in axes]).T
    width, cell = high - low, (high - low) / np.array([len(axis) - 1 for axis in axes])
    if not accepted.any():
        # Narrower than a cell, or elsewhere: look around first.
        wider = np.maximum(low - width, box[0]), np.minimum(high + width, box[1])
        return *wider, bool(np.all(wider[0] == low) and np.all(wider[1] == high))
    chosen = lattice(axes)[accepted]
    first, last = chosen.min(axis=0), chosen.max(axis=0)
    below = (first <= low + 0.5 * cell) & (low > box[0])
    above = (last >= high - 0.5 * cell) & (high < box[1])
    next_low = np.where(below, np.maximum(low - width, box[0]), low)
    next_high = np.where(above, np.minimum(high + width, box[1]), high)
    grown = bool(np.any(below | above))
    if grown or not narrower:
        return next_low, next_high, not grown
    tight_low, tight_high = np.maximum(first - 2 * cell, low), np.minimum(last + 2 * cell, high)
    small = tight_high - tight_low < 0.6 * width
    low, high = np.where(small, tight_low, low), np.where(small, tight_high, high)
    return low, high, not bool(small.any())
