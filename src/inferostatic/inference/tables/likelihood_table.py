"""A table of ln L around the best fit, for scans and limits that fit many times."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array

from ...progress import progress
from ..likelihood.event_sum import Derivatives
from ..likelihood.float64 import float64
from ..likelihood.log_likelihood import AbstractLogLikelihood, LogLikelihood, TabulatedLikelihood
from ..likelihood.model import LikelihoodModel
from ..likelihood.newton import AbstractSurface, Maximum, maximise
from .event_table import (
    FEW_EVENTS,
    PAYS,
    CheckedTable,
    Ellipsoid,
    TableProblem,
    tabulate_sums,
    usual_nodes,
)
from .other_modes import ModeSearch
from .point_sequences import scatter_points

#: Depth below the maximum that a table reaches: beyond 2 · 20 no statistic is told from another.
DEPTH = 20.0
#: Most nodes of a table.
MOST_NODES = 1000
#: A table may cost this part of what is planned without one.
COST = 0.5
#: Fewest starts of one maximisation of a table.
TABLE_STARTS = 64
#: Points spread over the region where other maxima are looked for.
SPREAD_POINTS = 512
#: Evaluations that one fit of the profiled parameters costs: starts, and derivatives at each step.
FIT_COST = 100


class LikelihoodSurface(AbstractSurface):
    """ln L of one data set for the batched maximisation."""

    likelihood: AbstractLogLikelihood

    def differentiate(self, data: Any) -> Callable[[Array], Derivatives]:  # noqa: ANN401
        """The data set is the same for all starts."""
        del data
        return self.likelihood.derivatives


def maximise_likelihood(
    likelihood: AbstractLogLikelihood,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    brief: bool = False,
) -> Maximum:
    """Maxima of one function from every start, in a box of its own, shapes (b, d).

    With few events, or a table, compiling is what takes time: it is `brief`.
    """
    count = len(start)
    # A table costs nothing, a program for another number of starts seconds.
    table = likelihood.events_at_once == 0
    rows = np.arange(max(count, TABLE_STARTS if table else 0)) % count
    with float64():
        surface = LikelihoodSurface(likelihood)
        box = (start[rows], low[rows], high[rows])
        found = maximise(surface, np.zeros((len(rows), 1)), *box, brief=brief or table)
    return Maximum(*(part[:count] for part in found))


@dataclasses.dataclass(frozen=True, eq=False)
class LikelihoodTable:
    """A checked table, with the function that it makes of ln L."""

    checked: CheckedTable
    function: TabulatedLikelihood

    def describe(self) -> str:
        """What is to be said of it."""
        return (
            f"ln L from a table of {self.checked.nodes} exact sums, with errors up to "
            f"{self.checked.error:.1g} at nodes that were left out"
        )


def table_pays(exact: LogLikelihood, fits: int) -> bool:
    """Whether so many fits with exact sums would take long."""
    return FIT_COST * fits * exact.evaluations >= PAYS


def tabulate_likelihood(
    exact: LogLikelihood,
    model: LikelihoodModel,
    theta: np.ndarray,
    covariance: np.ndarray,
    fits: int,
    *,
    show: bool | None,
) -> LikelihoodTable | None:
    """A table of ln L in the free parameters; None where it does not pay or does not hold.

    Args:
        exact: ln L of the data set.
        model: its model, whose box counts.
        theta: where ln L is large, shape (d,).
        covariance: how far, roughly, shape (d, d).
        fits: number of fits that are planned.
        show: force the progress bar on or off.
    """
    free = np.flatnonzero(model.free)
    if len(free) == 0 or not table_pays(exact, fits):
        return None
    most = int(min(MOST_NODES, COST * FIT_COST * fits))

    def full(points: np.ndarray) -> np.ndarray:
        thetas = np.repeat(np.asarray(model.low, np.float64)[None], len(points), axis=0)
        thetas[:, free] = points
        return thetas

    root = np.sqrt(2 * DEPTH) * np.linalg.cholesky(covariance[np.ix_(free, free)])
    low, high = model.low[free], model.high[free]
    problem = TableProblem(
        sum_events=lambda points: exact.sum_events(full(points)),
        rest=lambda points: exact.values_alone(full(points)),
        depth=DEPTH,
        most=most,
    )
    few = exact.thin(FEW_EVENTS)

    def climb(starts: np.ndarray) -> np.ndarray:
        box = (np.broadcast_to(edge, (len(starts), len(edge))) for edge in (model.low, model.high))
        return maximise_likelihood(few, full(starts), *box, brief=True).theta[:, free]

    with progress("tabulating ln L", usual_nodes(len(free)), show=show) as advance:
        found = tabulate_sums(problem, Ellipsoid(theta[free], root, low, high), advance)
        if found is None:
            return None
        points = scatter_points(low, high, SPREAD_POINTS)
        search = ModeSearch(
            points=points,
            scale=high - low,
            rough=lambda points: few.values(full(points)),
            climb=climb,
            exact=lambda points: exact.values(full(points)),
            ratio=exact.evaluations / few.evaluations,
        )
        if search.finds_other(found, search.rough(points), DEPTH):
            return None
    indices = tuple(int(i) for i in free)
    return LikelihoodTable(found, TabulatedLikelihood(exact.alone, found.table, indices))
