"""A posterior from a table of ln L, where exact sums over the events at every step would take long.

The table is made around where the posterior lives, its error is checked at nodes, and again at
draws of the posterior in the end. Several modes, or a likelihood that no polynomial follows, are
left to the exact sums.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ...chunks import spread_rows
from ...progress import progress
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from ..likelihood.event_sum import Derivatives
from ..likelihood.float64 import float64
from ..likelihood.log_likelihood import LogLikelihood, TabulatedLikelihood
from ..likelihood.newton import AbstractSurface, maximise
from ..tables.event_table import (
    FEW_EVENTS,
    PAYS,
    CheckedTable,
    Ellipsoid,
    TableProblem,
    tabulate_sums,
    usual_nodes,
)
from ..tables.other_modes import ModeSearch
from .log_posterior import LogPosterior, Target
from .sampler import Samples
from .weighted_draws import temper_weights, weighted_moments

#: Depth below the maximum of the posterior that a table reaches.
DEPTH = 25.0
#: Most nodes of a table.
MOST_NODES = 3000
#: A table may cost this part of what is planned without one.
COST = 0.5
#: Draws from the prior that show roughly where the posterior lives.
FIRST_DRAWS = 1024
#: Draws from the prior that samplers begin with.
APPROACH_DRAWS = 2048
#: How many of the first should matter.
FIRST_ESS = 64
#: Standard deviations of the first ellipsoid, for a flattened posterior and for the posterior.
FIRST_REACH = (3.5, 7.0)
#: Unconstrained coordinates are searched to here.
FURTHEST = 12.0
#: Draws at which the table is compared with the exact sums in the end.
CHECKED_DRAWS = 64
#: Root mean square of the error of ln L at these draws above which the table is discarded. To first
#: order it bounds the shift of the posterior mean in posterior standard deviations.
MOST_ERROR = 0.02


def sample_with_table(
    target: Target,
    draw: Callable[[Target], Samples],
    evaluations: int,
    *,
    seed: int,
    show: bool | None,
) -> Samples:
    """Draw from a table of the posterior if it pays and holds, else from the posterior itself.

    Args:
        target: the posterior.
        draw: how a sampler draws.
        evaluations: of the density that it needs, roughly.
        seed: of the draws from the prior.
        show: force the progress bar on or off.
    """
    found = _tabulate(target, evaluations, seed=seed, show=show)
    if found is None:
        return draw(target)
    table, likelihood = found
    density = dataclasses.replace(target.density, likelihood=likelihood)
    samples = draw(dataclasses.replace(target, density=density))
    rows = spread_rows(len(samples.points), CHECKED_DRAWS)
    thetas, exact = density.full_thetas(samples.points[rows]), target.density.likelihood
    assert isinstance(exact, LogLikelihood)
    error = exact.sum_events(thetas) - (likelihood.values(thetas) - likelihood.values_alone(thetas))
    error = error - error.mean()
    spread = float(np.sqrt(np.mean(error**2)))
    if not spread <= MOST_ERROR:
        return draw(target)
    share = effective_size(np.exp(error)) / len(error)
    note = (
        f"ln L from a table of {table.nodes} exact sums; at {len(rows)} draws its error is "
        f"{spread:.1g} (rms), so weights exact/table leave an effective {share:.2%} of them"
    )
    return dataclasses.replace(samples, notes=(note,))


def _tabulate(
    target: Target, evaluations: int, *, seed: int, show: bool | None
) -> tuple[CheckedTable, TabulatedLikelihood] | None:
    exact = target.density.likelihood
    if isinstance(target.density.prior, Discrete) or not isinstance(exact, LogLikelihood):
        return None
    if evaluations * exact.evaluations < PAYS:
        return None
    few = exact.thin(FEW_EVENTS)
    rough = dataclasses.replace(target.density, likelihood=few)
    # Drawn as many as samplers draw first, for which one program is enough.
    drawn = target.draw_prior(APPROACH_DRAWS, seed)[:FIRST_DRAWS]
    most = int(min(MOST_NODES, COST * evaluations))
    density = target.density

    def sum_events(points: np.ndarray) -> np.ndarray:
        return exact.sum_events(density.full_thetas(points))

    with progress("tabulating ln L", usual_nodes(drawn.shape[1]), show=show) as advance:
        values = rough.log_likelihoods(drawn)
        if not np.isfinite(values).any():
            return None
        problem = TableProblem(sum_events, density.log_rests, DEPTH, most)
        found = tabulate_sums(problem, _first_ellipsoid(target, drawn, values), advance)
        ratio = exact.evaluations / few.evaluations
        search = _search_modes(target, rough, drawn, ratio)
        if found is None or search.finds_other(found, values, DEPTH):
            return None
    with float64():
        return found, TabulatedLikelihood(exact.alone, found.table, density.free_indices)


def _first_ellipsoid(target: Target, drawn: np.ndarray, values: np.ndarray) -> Ellipsoid:
    """Around the flattened posterior."""
    weight, beta = temper_weights(values, FIRST_ESS)
    centre, covariance = weighted_moments(drawn, weight)
    root = np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))
    reach = FIRST_REACH[1] if beta == 1.0 else FIRST_REACH[0]
    return Ellipsoid(centre, reach * root, target.low, target.high)


class _Density(AbstractSurface):
    """The log posterior of unconstrained coordinates."""

    density: LogPosterior

    def differentiate(self, data: Any) -> Callable[[Array], Derivatives]:  # noqa: ANN401
        """The data are the same for all starts."""
        del data
        function = self.density.log_prob_unconstrained
        return lambda free: Derivatives(
            *jax.value_and_grad(function)(free), jax.hessian(function)(free)
        )


def _search_modes(
    target: Target, rough: LogPosterior, drawn: np.ndarray, ratio: float
) -> ModeSearch:
    """The posterior in the free parameters, climbed in unconstrained coordinates."""
    coordinates = target.density.coordinates

    def climb(starts: np.ndarray) -> np.ndarray:
        free = np.clip(coordinates.many_free(starts), -FURTHEST, FURTHEST)
        box = (np.full_like(free, -FURTHEST), np.full_like(free, FURTHEST))
        with float64():
            data = np.zeros((len(free), 1))
            ends = maximise(_Density(rough), data, free, *box, brief=True).theta
        return coordinates.many_theta(ends)

    def evaluate(points: np.ndarray) -> np.ndarray:
        return rough.log_likelihoods(points) + rough.log_priors(points)

    return ModeSearch(drawn, coordinates.scale, evaluate, climb, target.density.log_probs, ratio)
