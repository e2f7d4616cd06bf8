"""A look for maxima that a table around the best one does not hold."""

import dataclasses
from collections.abc import Callable

import numpy as np

from .event_table import CheckedTable

#: Starts from which other maxima are looked for.
MOST_STARTS = 6
#: Points on the way from such a start to the table's maximum.
WAY_POINTS = 32
#: Fall of the function on that way above which the start may belong to another maximum.
LARGEST_DIP = 1.0
#: Two maxima are the same if they are closer, as a part of the scale.
SAME = 0.01
#: Allowance for maxima found with few events, in ln L for each parameter and event left out.
MISPLACED = 3.0


@dataclasses.dataclass(frozen=True, eq=False)
class ModeSearch:
    """What is known of a function, roughly everywhere and exactly where it is asked for.

    Attributes:
        points: spread over the whole region, shape (n, k).
        scale: of each parameter, shape (k,).
        rough: the function with few events, (m, k) to (m,).
        climb: its maxima from some starts, (m, k) to (m, k).
        exact: the function itself.
        ratio: events for each one that `rough` takes.
    """

    points: np.ndarray
    scale: np.ndarray
    rough: Callable[[np.ndarray], np.ndarray]
    climb: Callable[[np.ndarray], np.ndarray]
    exact: Callable[[np.ndarray], np.ndarray]
    ratio: float

    def finds_other(self, found: CheckedTable, values: np.ndarray, depth: float) -> bool:
        """Whether a maximum outside of the table may be as high as the one inside.

        Points that are higher than their neighbours, by their rough values (n,), are followed
        uphill; what lies deeper than `depth` does not count.
        """
        points, size = self.points, self.points.shape[1]
        away = ((points[:, None] - points[None]) / self.scale) ** 2
        near = np.argsort(away.sum(axis=2), axis=1)[:, 1 : 2 * size + 4]
        peaks = np.isfinite(values) & (values >= values[near].max(axis=1))
        peaks &= found.ellipsoid.distance(points) > 1.0
        if not peaks.any():
            return False
        starts = points[peaks][np.argsort(-values[peaks])[:MOST_STARTS]]
        # What rises all the way to the table's maximum is not a maximum of its own.
        way = np.linspace(0.0, 1.0, WAY_POINTS)[:, None, None]
        path = (starts + way * (found.best - starts)).reshape(-1, size)
        along = self.rough(path).reshape(WAY_POINTS, -1)
        dips = (np.maximum.accumulate(along, axis=0) - along).max(axis=0) > LARGEST_DIP
        if not dips.any():
            return False
        # Always as many, so that there is one program to compile.
        starts = starts[dips][np.arange(MOST_STARTS) % int(dips.sum())]
        ends = self.climb(np.concatenate([found.best[None], starts]))
        others = np.abs((ends - ends[0]) / self.scale).max(axis=1) > SAME
        others &= found.ellipsoid.distance(ends) > 1.0
        if not others.any():
            return False
        exact = self.exact(np.concatenate([found.best[None], ends[others]]))
        # With few events a maximum lies beside that of all, lower by about half a unit for each
        # parameter and each event that was left out for one that was not.
        return bool(exact[1:].max() > exact[0] - depth - MISPLACED * size * self.ratio)
