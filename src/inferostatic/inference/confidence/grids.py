"""Grids of the parameters of interest: those that are given, and those that find the set."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from ...inputs import Input, as_floats, as_rows
from ..arguments import as_points
from ..chi_square import chi2_quantile
from .lattice import lattice
from .observed_fit import ObservedFit

#: Points along each axis of a grid that is laid by default, by the number of parameters.
AXIS_POINTS = {1: 61, 2: 21, 3: 9, 4: 7}
#: Standard errors that a first grid reaches from the estimate.
REACH = 4.0
#: Level of the set that a grid must hold.
WHOLE_LEVEL = 0.95
#: Times that a grid is laid, at most.
MOST_GRIDS = 5

#: Statistic (m,), p-value (m,) and all parameters (m, d) at tested points.
Tested = tuple[np.ndarray, np.ndarray, np.ndarray]


@runtime_checkable
class Tester(Protocol):
    """What tests points of the parameters of interest."""

    observed: ObservedFit
    indices: list[int]
    random: bool

    def __call__(self, points: np.ndarray, *, show: bool | None = False) -> Tested:
        """Test points of shape (m, k)."""
        ...

    def statistic(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The observed statistic, and θ with the others profiled."""
        ...


def read_grid(
    grid: Input | Mapping[str, Input], names: tuple[str, ...], box: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
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
        axes = (np.unique(values),)
    if any(axis.size == 0 for axis in axes):
        raise ValueError("grid has no points; give at least one along each axis.")
    return as_points(lattice(axes), names, box, "grid"), axes


def lay_grid(
    tester: Tester, names: tuple[str, ...], box: tuple[np.ndarray, np.ndarray], *, show: bool | None
) -> tuple[np.ndarray, tuple[np.ndarray, ...], Tested]:
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
    axes: tuple[np.ndarray, ...] = ()
    threshold = chi2_quantile(WHOLE_LEVEL, len(names)) * observed.variance_ratio(tester.indices)
    for _ in range(MOST_GRIDS):
        axes = tuple(np.linspace(a, b, count) for a, b in zip(low, high, strict=True))
        accepted = tester.statistic(lattice(axes))[0] < threshold
        low, high, good = _next_box(axes, accepted, box)
        if good:
            break
    points, tested = np.zeros((0, len(names))), None
    for _ in range(MOST_GRIDS):
        points = lattice(axes)
        tested = tester(points, show=show)
        low, high, good = _next_box(axes, tested[1] > 1 - WHOLE_LEVEL, box, narrower=False)
        if good or not tester.random:
            break
        axes = tuple(np.linspace(a, b, count) for a, b in zip(low, high, strict=True))
    assert tested is not None
    return points, axes, tested


def _next_box(
    axes: tuple[np.ndarray, ...],
    accepted: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    *,
    narrower: bool = True,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Where the next lattice should lie, and whether this one will do."""
    low = np.array([axis[0] for axis in axes])
    high = np.array([axis[-1] for axis in axes])
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
    tight_low = np.maximum(first - 2 * cell, low)
    tight_high = np.minimum(last + 2 * cell, high)
    small = tight_high - tight_low < 0.6 * width
    return (
        np.where(small, tight_low, low),
        np.where(small, tight_high, high),
        not bool(small.any()),
    )
