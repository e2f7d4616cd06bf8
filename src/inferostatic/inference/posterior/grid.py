"""The exact posterior of one or two parameters on a grid that closes in on where it lives."""

import dataclasses
from functools import partial

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from scipy.special import logsumexp

from ...inputs import as_count, warn_user
from ...progress import Advance, progress
from ...streams import Purpose, Stream
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from ..lattice import Axes, lattice
from ..likelihood.log_likelihood import LogLikelihood
from ..tables.event_table import TOLERANCE, TOLERANT_DEPTH
from ..tables.point_sequences import kronecker_sequence
from .log_posterior import Target
from .sampler import (
    DRAWS,
    AbstractSampler,
    GridDensity,
    Samples,
    cell_midpoints,
    independent_sampling,
)
from .tabulated_target import sample_with_table
from .weighted_draws import weighted_moments

#: Most free parameters of a grid.
MOST_PARAMETERS = 2
#: Cells along each axis while the box is searched for, by the number of parameters.
SEARCH_CELLS = {1: 512, 2: 64}
#: Cells along each axis in the end.
FINAL_CELLS = {1: 1024, 2: 128}
#: Density below e^−25 of the largest is left out of the box.
LEAST = 25.0
#: Prior standard deviations that an open side of the support is first searched to.
REACH = 8.0
#: Times that the box is narrowed, at most.
MOST_ZOOMS = 12
#: Times that it is, usually.
USUAL_ZOOMS = 3
#: Effective number of cells below which the grid is refined.
FEWEST_CELLS = {1: 20.0, 2: 300.0}
#: Most cells along an axis.
MOST_CELLS = {1: 1 << 14, 2: 512}
#: Nodes along each axis of a polynomial that takes the place of ln L on the grid, by the number of
#: parameters; more where it does not hold.
NODES: dict[int, tuple[int, ...]] = {1: (32, 64, 128), 2: (16, 32)}
#: Cells in which a polynomial is compared with ln L.
CHECKED_CELLS = 64


@dataclasses.dataclass(frozen=True)
class Grid(AbstractSampler):
    """Tabulate the posterior: exact, for one or two free parameters, or for a discrete prior.

    Args:
        draws: samples that are drawn from the table.
    """

    draws: int = DRAWS

    def __post_init__(self) -> None:
        """Check the options."""
        as_count(self.draws, "draws")

    def sample(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        """Draw from the table."""
        dim = len(target.low)
        evaluations = USUAL_ZOOMS * (CHECKED_CELLS + sum(n**dim for n in NODES.get(dim, ())))
        draw = partial(self._draw, seed=seed, show=show)
        return sample_with_table(target, draw, evaluations, seed=seed, show=show)

    def _draw(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        rng, prior = Stream(seed, Purpose.GRID).generator(), target.density.prior
        sampling = independent_sampling("grid", len(target.low), self.draws)
        if isinstance(prior, Discrete):
            points, probability, log_prob = enumerate_posterior(target, prior)
            chosen = rng.choice(len(points), self.draws, p=probability)
            moments = weighted_moments(points, probability)
            return Samples(points[chosen], log_prob[chosen], *moments, sampling)
        if len(target.low) > MOST_PARAMETERS:
            raise ValueError(
                f"a grid serves one or two free parameters; here are {len(target.low)}. Use "
                "ist.NUTS(), or fix some of them."
            )
        grid = grid_posterior(target, show=show)
        moments = weighted_moments(lattice(grid.midpoints), grid.probability.ravel())
        return Samples(*draw_from_grid(grid, self.draws, rng), *moments, sampling, grid)


def grid_posterior(target: Target, *, show: bool | None = False) -> GridDensity:
    """Search for the box that holds the posterior, then tabulate it there."""
    centre, scale = target.density.coordinates.centre, target.density.coordinates.scale
    low = np.maximum(target.low, centre - REACH * scale)
    high = np.minimum(target.high, centre + REACH * scale)
    dim, surface = len(low), None
    for _ in range(MOST_ZOOMS):
        with progress("ln L at nodes", CHECKED_CELLS + NODES[dim][0] ** dim, show=show) as advance:
            surface = _fit_surface(target, low, high, SEARCH_CELLS[dim], advance)
        grid = _tabulate(target, surface, low, high, SEARCH_CELLS[dim], show=show)
        low, high, shrunk = _closer(grid, low, high)
        if not shrunk:
            break
    cells = FINAL_CELLS[dim]
    grid = _tabulate(target, surface, low, high, cells, show=show)
    while (size := effective_size(grid.probability.ravel())) < FEWEST_CELLS[dim]:
        if 2 * cells > MOST_CELLS[dim]:
            warn_user(
                "the posterior is so narrow in some direction that the grid resolves it poorly "
                f"({size:.0f} cells hold it); use ist.NUTS()."
            )
            break
        cells *= 2
        grid = _tabulate(target, surface, low, high, cells, show=show)
    return grid


@dataclasses.dataclass(frozen=True, eq=False)
class _Surface:
    """The sum over events as a polynomial in a box, through Chebyshev nodes along each axis.

    Attributes:
        low, high: the box, shape (k,).
        values: at the lattice of nodes, k axes.
    """

    low: np.ndarray
    high: np.ndarray
    values: np.ndarray

    def __call__(self, axes: Axes) -> np.ndarray:
        """Values on a lattice, flat."""
        values, count = self.values, self.values.shape[0]
        to_values = chebvander(chebpts1(count), count - 1)
        for axis, low, high in zip(axes, self.low, self.high, strict=True):
            unit = (2 * axis - low - high) / (high - low)
            weights = np.linalg.solve(to_values.T, chebvander(unit, count - 1).T)
            # The first axis is summed over, and takes its place as the last.
            values = np.tensordot(values, weights, axes=(0, 0))
        return values.ravel()


def _fit_surface(
    target: Target, low: np.ndarray, high: np.ndarray, cells: int, advance: Advance | None = None
) -> _Surface | None:
    """A polynomial that predicts ln L in cells that it was not made of; None where none does.

    What depends on θ alone is left to the grid: a prior may have edges.
    """
    likelihood = target.density.likelihood
    if not isinstance(likelihood, LogLikelihood):
        return None
    midpoints = cell_midpoints(_cell_edges(low, high, cells))
    spread = kronecker_sequence(CHECKED_CELLS, len(low))
    rows = np.ravel_multi_index(tuple((spread * cells).astype(int).T), [cells] * len(low))
    checked = target.density.full_thetas(lattice(midpoints)[rows])
    exact = likelihood.sum_events(checked, advance)
    for count in NODES[len(low)]:
        unit = (chebpts1(count) + 1) / 2
        axes = tuple(a + (b - a) * unit for a, b in zip(low, high, strict=True))
        values = likelihood.sum_events(target.density.full_thetas(lattice(axes)), advance)
        if not (np.isfinite(values).all() and np.isfinite(exact).all()):
            return None
        surface = _Surface(low, high, values.reshape([count] * len(low)))
        depth = values.max() - exact
        error = np.abs(surface(midpoints)[rows] - exact)
        if np.all(error <= TOLERANCE * (1 + np.square(depth / TOLERANT_DEPTH))):
            return surface
    return None


def _cell_edges(low: np.ndarray, high: np.ndarray, cells: int) -> Axes:
    return tuple(np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True))


def _tabulate(
    target: Target,
    surface: _Surface | None,
    low: np.ndarray,
    high: np.ndarray,
    cells: int,
    *,
    show: bool | None,
) -> GridDensity:
    edges = _cell_edges(low, high, cells)
    midpoints = cell_midpoints(edges)
    if surface is not None:
        log_prob = surface(midpoints) + target.density.log_rests(lattice(midpoints))
    else:
        with progress(
            f"grid of {cells} cells along each axis", cells ** len(low), show=show
        ) as advance:
            log_prob = target.density.log_probs(lattice(midpoints), advance)
    if not np.isfinite(log_prob).any():
        raise ValueError(
            "the posterior vanishes, or is no number, everywhere on the grid; do prior and "
            "estimator agree on the range of the parameters?"
        )
    log_prob = np.where(np.isfinite(log_prob), log_prob, -np.inf).reshape([cells] * len(low))
    return GridDensity(edges, np.exp(log_prob - logsumexp(log_prob)), log_prob)


def _closer(
    grid: GridDensity, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The box of all cells that may matter, and whether it is much smaller than before."""
    values, best = grid.log_prob, np.unravel_index(np.argmax(grid.log_prob), grid.log_prob.shape)
    around = values[tuple(slice(max(0, i - 1), i + 2) for i in best)]
    finite = around[np.isfinite(around)]
    # A peak between midpoints may be higher than seen, about as much as its neighbours are lower.
    slack = LEAST + 2 * float(values[best] - finite.min())
    kept = np.argwhere(values > values[best] - slack)
    first, last = kept.min(axis=0), kept.max(axis=0) + 1
    each = zip(grid.edges, first, last, strict=True)
    box = [(edge[max(0, a - 1)], edge[min(len(edge) - 1, b + 1)]) for edge, a, b in each]
    closer_low, closer_high = np.array(box).T
    shrunk = bool(np.any((closer_high - closer_low) < 0.7 * (high - low)))
    return closer_low, closer_high, shrunk


def draw_from_grid(
    grid: GridDensity, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Points, uniform within their cells, and ln of the density of each cell."""
    chosen = rng.choice(grid.probability.size, n, p=grid.probability.ravel())
    cells = np.unravel_index(chosen, grid.probability.shape)
    theta = [
        edge[i] + rng.random(n) * (edge[i + 1] - edge[i])
        for edge, i in zip(grid.edges, cells, strict=True)
    ]
    return np.stack(theta, axis=1), grid.log_prob.ravel()[chosen]


def enumerate_posterior(
    target: Target, prior: Discrete
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of a discrete prior that the data set allows, their probability and ln posterior."""
    every = np.asarray(prior.points, np.float64)
    free = list(target.density.free_indices)
    same = every == np.asarray(target.density.fixed)
    same[:, free] = (every[:, free] >= target.low) & (every[:, free] <= target.high)
    kept = same.all(axis=1)
    if not kept.any():
        raise ValueError("no point of the discrete prior has these fixed values and bounds.")
    points = every[kept][:, free]
    log_prior = np.log(np.asarray(prior.probability, np.float64)[kept])
    log_prob = target.density.log_likelihoods(points) + log_prior
    if not np.isfinite(log_prob).any():
        raise ValueError("the potential is not finite at any point of the discrete prior.")
    log_prob = np.where(np.isfinite(log_prob), log_prob, -np.inf)
    return points, np.exp(log_prob - logsumexp(log_prob)), log_prob
