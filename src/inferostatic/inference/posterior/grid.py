"""The exact posterior of one or two parameters on a grid that closes in on where it lives."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...inputs import warn_user
from ...world.priors.discrete import Discrete
from .density import Target
from .weighted_draws import effective_number, weighted_moments

#: Cells along each axis while the box is searched for, and in the end, by dimension.
SEARCH_CELLS, FINAL_CELLS = {1: 512, 2: 64}, {1: 1024, 2: 128}
#: Density below e^−25 of the largest is left out of the box.
LEAST = 25.0
#: Prior standard deviations that an open side of the support is first searched to.
REACH = 8.0
MOST_ZOOMS = 12
#: Effective number of cells below which the grid is refined, and the most cells along an axis.
FEWEST_CELLS, MOST_CELLS = {1: 20.0, 2: 300.0}, {1: 1 << 14, 2: 512}


class Grid(NamedTuple):
    """Cells of equal size in a box.

    edges: of the cells, one array for each parameter; probability: of each cell, shape (cells,) or
    (cells, cells), with sum 1; log_prob: ln of the unnormalised density at the midpoints.
    """

    edges: tuple[np.ndarray, ...]
    probability: np.ndarray
    log_prob: np.ndarray

    @property
    def midpoints(self) -> tuple[np.ndarray, ...]:
        """Of the cells along each axis."""
        return tuple((edge[1:] + edge[:-1]) / 2 for edge in self.edges)

    def marginal(self, i: int) -> np.ndarray:
        """Probability of the cells along axis i."""
        return self.probability.sum(axis=tuple(j for j in range(len(self.edges)) if j != i))

    def quantile(self, i: int, level: np.ndarray) -> np.ndarray:
        """Quantiles of parameter i."""
        cumulative = np.concatenate([[0.0], np.cumsum(self.marginal(i))])
        return np.interp(level, cumulative, self.edges[i])


def grid_posterior(target: Target) -> Grid:
    """Search for the box that holds the posterior, then tabulate it there."""
    low, high = _first_box(target)
    dim = len(low)
    for _ in range(MOST_ZOOMS):
        grid = _tabulate(target, low, high, SEARCH_CELLS[dim])
        low, high, shrunk = _closer(grid, low, high)
        if not shrunk:
            break
    cells = FINAL_CELLS[dim]
    grid = _tabulate(target, low, high, cells)
    while effective_number(grid.probability.ravel()) < FEWEST_CELLS[dim]:
        if 2 * cells > MOST_CELLS[dim]:
            warn_user(
                "the posterior is so narrow in some direction that the grid resolves it poorly "
                f"({effective_number(grid.probability.ravel()):.0f} cells hold it); use "
                "method='nuts'."
            )
            break
        cells *= 2
        grid = _tabulate(target, low, high, cells)
    return grid


def _first_box(target: Target) -> tuple[np.ndarray, np.ndarray]:
    low, high = target.prior.support
    centre, scale = target.prior.centre_and_scale
    return np.maximum(low, centre - REACH * scale), np.minimum(high, centre + REACH * scale)


def _tabulate(target: Target, low: np.ndarray, high: np.ndarray, cells: int) -> Grid:
    edges = tuple(np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True))
    middle = np.meshgrid(*((edge[1:] + edge[:-1]) / 2 for edge in edges), indexing="ij")
    points = np.stack([axis.ravel() for axis in middle], axis=1)
    log_prob = target.many("log_prob", points)
    if not np.isfinite(log_prob).any():
        raise ValueError(
            "the posterior vanishes, or is no number, everywhere on the grid; do prior and "
            "estimator agree on the range of the parameters?"
        )
    log_prob = np.where(np.isfinite(log_prob), log_prob, -np.inf).reshape(middle[0].shape)
    return Grid(edges, np.exp(log_prob - logsumexp(log_prob)), log_prob)


def _closer(grid: Grid, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """The box of all cells that may matter, and whether it is much smaller than before."""
    values, best = grid.log_prob, np.unravel_index(np.argmax(grid.log_prob), grid.log_prob.shape)
    around = values[tuple(slice(max(0, i - 1), i + 2) for i in best)]
    finite = around[np.isfinite(around)]
    # A peak between midpoints may be higher than seen, about as much as its neighbours are lower.
    slack = LEAST + 2 * float(values[best] - finite.min())
    kept = np.argwhere(values > values[best] - slack)
    first, last = kept.min(axis=0), kept.max(axis=0) + 1
    new_low, new_high = [], []
    for i, edge in enumerate(grid.edges):
        new_low.append(edge[max(0, first[i] - 1)])
        new_high.append(edge[min(len(edge) - 1, last[i] + 1)])
    closer_low, closer_high = np.array(new_low), np.array(new_high)
    shrunk = bool(np.any((closer_high - closer_low) < 0.7 * (high - low)))
    return closer_low, closer_high, shrunk


def draw_from_grid(grid: Grid, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points, uniform within their cells, and ln of the density of each cell."""
    chosen = rng.choice(grid.probability.size, n, p=grid.probability.ravel())
    cells = np.unravel_index(chosen, grid.probability.shape)
    theta = [
        edge[i] + rng.random(n) * (edge[i + 1] - edge[i])
        for edge, i in zip(grid.edges, cells, strict=True)
    ]
    return np.stack(theta, axis=1), grid.log_prob.ravel()[chosen]


def grid_moments(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance, from all cells."""
    middle = np.meshgrid(*grid.midpoints, indexing="ij")
    points = np.stack([axis.ravel() for axis in middle], axis=1)
    return weighted_moments(points, grid.probability.ravel())


def enumerate_posterior(target: Target, prior: Discrete) -> tuple[np.ndarray, np.ndarray]:
    """Probability and unnormalised ln posterior of each point of a discrete prior."""
    log_likelihood = target.many("log_likelihood", prior.points)
    log_prob = log_likelihood + np.log(np.asarray(prior.probability, np.float64))
    if not np.isfinite(log_prob).any():
        raise ValueError("the potential is not finite at any point of the discrete prior.")
    log_prob = np.where(np.isfinite(log_prob), log_prob, -np.inf)
    return np.exp(log_prob - logsumexp(log_prob)), log_prob
