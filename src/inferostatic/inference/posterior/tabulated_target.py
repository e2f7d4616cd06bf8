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

from ...progress import progress
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from ..likelihood.event_sum import Derivatives
from ..likelihood.event_table import CheckedTable, Ellipsoid, TableProblem, tabulate_sums
from ..likelihood.float64 import float64
from ..likelihood.log_likelihood import LogLikelihood, TabulatedLikelihood
from ..likelihood.newton import AbstractSurface, maximise
from .log_posterior import LogPosterior, Target
from .sampler import Samples
from .weighted_draws import temper_weights, weighted_moments

#: Evaluations of a network from which on a table pays: some 10 s.
PAYS = 5_000_000
#: Depth below the maximum of the posterior that a table reaches.
DEPTH = 25.0
#: Most nodes of a table.
MOST_NODES = 1500
#: A table may cost this part of what is planned without one.
COST = 0.5
#: Draws from the prior that show roughly where the posterior lives.
FIRST_DRAWS = 1024
#: How many of them should matter.
FIRST_ESS = 64
#: Events that are enough for that.
FEW_EVENTS = 128
#: Standard deviations of the first ellipsoid, for a flattened posterior and for the posterior.
FIRST_REACH = (3.5, 7.0)
#: Starts from which other modes are looked for.
MOST_MODES = 6
#: Points on the way from such a start to the table's maximum.
WAY_POINTS = 32
#: Fall of the log posterior on that way above which the start may belong to another mode.
LARGEST_DIP = 1.0
#: Unconstrained coordinates are searched to here.
FURTHEST = 12.0
#: Two maxima are the same if they are closer, in prior standard deviations.
SAME_MODE = 0.01
#: Allowance for maxima found with few events, in ln L for each parameter and event left out.
MISPLACED = 3.0
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
    rows = np.linspace(0, len(samples.points) - 1, CHECKED_DRAWS).astype(int)
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
    drawn = target.draw_prior(FIRST_DRAWS, seed)
    most = int(min(MOST_NODES, COST * evaluations))
    density = target.density

    def sum_events(points: np.ndarray) -> np.ndarray:
        return exact.sum_events(density.full_thetas(points))

    with progress("tabulating ln L", most, show=show) as advance:
        values = rough.log_likelihoods(drawn)
        if not np.isfinite(values).any():
            return None
        problem = TableProblem(sum_events, density.log_rests, DEPTH, most)
        found = tabulate_sums(problem, _first_ellipsoid(target, drawn, values), advance)
        if found is None or _has_other_modes(target, rough, found, drawn, values):
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


def _has_other_modes(
    target: Target,
    rough: LogPosterior,
    found: CheckedTable,
    drawn: np.ndarray,
    values: np.ndarray,
) -> bool:
    """Whether a maximum outside of the table may be as high as the one inside.

    Draws of the prior that are higher than their neighbours are followed uphill with few events.
    """
    scale, size = target.density.coordinates.scale, drawn.shape[1]
    away = ((drawn[:, None] - drawn[None]) / scale) ** 2
    near = np.argsort(away.sum(axis=2), axis=1)[:, 1 : 2 * size + 4]
    peaks = np.isfinite(values) & (values >= values[near].max(axis=1))
    peaks &= found.ellipsoid.distance(drawn) > 1.0
    if not peaks.any():
        return False
    starts = drawn[peaks][np.argsort(-values[peaks])[:MOST_MODES]]
    # What rises all the way to the table's maximum is not a mode of its own.
    way = np.linspace(0.0, 1.0, WAY_POINTS)[:, None, None]
    path = (starts + way * (found.best - starts)).reshape(-1, size)
    along = (rough.log_likelihoods(path) + rough.log_priors(path)).reshape(WAY_POINTS, -1)
    dips = (np.maximum.accumulate(along, axis=0) - along).max(axis=0) > LARGEST_DIP
    if not dips.any():
        return False
    starts = starts[dips]
    # Always as many, so that there is one program to compile.
    starts = np.concatenate([found.best[None], np.resize(starts, (MOST_MODES, size))])
    free = np.clip(target.density.coordinates.many_free(starts), -FURTHEST, FURTHEST)
    box = (np.full_like(free, -FURTHEST), np.full_like(free, FURTHEST))
    with float64():
        ends = maximise(_Density(rough), np.zeros((len(free), 1)), free, *box).theta
    ends = target.density.coordinates.many_theta(ends)
    others = np.abs((ends - ends[0]) / scale).max(axis=1) > SAME_MODE
    others &= found.ellipsoid.distance(ends) > 1.0
    if not others.any():
        return False
    exact = target.density.log_probs(np.concatenate([found.best[None], ends[others]]))
    # With few events a maximum lies beside that of all, lower by about half a unit for each
    # parameter and each event that was left out for one that was not.
    assert isinstance(target.density.likelihood, LogLikelihood)
    assert isinstance(rough.likelihood, LogLikelihood)
    ratio = target.density.likelihood.evaluations / rough.likelihood.evaluations
    return bool(exact[1:].max() > exact[0] - DEPTH - MISPLACED * size * ratio)
