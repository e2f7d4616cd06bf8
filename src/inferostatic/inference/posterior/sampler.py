"""What a method of sampling a posterior takes and gives."""

import abc
import dataclasses
from typing import NamedTuple

import numpy as np

from ..lattice import Axes
from .log_posterior import Target

#: Default number of draws.
DRAWS = 8000
#: Effective draws below which there is a warning.
FEWEST_EFFECTIVE = 400.0


def cell_midpoints(edges: Axes) -> Axes:
    """Of the cells between edges, along each axis."""
    return tuple((edge[1:] + edge[:-1]) / 2 for edge in edges)


class GridDensity(NamedTuple):
    """Cells of equal size in a box.

    edges: of the cells, one array for each parameter; probability: of each cell, shape (cells,) or
    (cells, cells), with sum 1; log_prob: ln of the unnormalised density at the midpoints.
    """

    edges: Axes
    probability: np.ndarray
    log_prob: np.ndarray

    @property
    def midpoints(self) -> Axes:
        """Of the cells along each axis."""
        return cell_midpoints(self.edges)

    def marginal(self, i: int) -> np.ndarray:
        """Probability of the cells along axis i."""
        return self.probability.sum(axis=tuple(j for j in range(len(self.edges)) if j != i))

    def quantile(self, i: int, level: np.ndarray) -> np.ndarray:
        """Quantiles of parameter i."""
        cumulative = np.concatenate([[0.0], np.cumsum(self.marginal(i))])
        return np.interp(level, cumulative, self.edges[i])


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the samples were made, and whether they can be relied on.

    Attributes:
        method: name of the method.
        chains: number of chains; 1 for methods without chains.
        r_hat: rank-normalised split R-hat of each parameter; NaN without chains.
        ess: effective number of draws for each parameter (bulk), shape (d,).
        divergences: number of divergent transitions.
        diverging, acceptance, steps: of every transition, shape (chains, draws); empty otherwise.
        remarks: what was warned about.
    """

    method: str
    chains: int
    r_hat: np.ndarray
    ess: np.ndarray
    divergences: int = 0
    diverging: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), bool))
    acceptance: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    steps: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), int))
    remarks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Draws of the k free parameters.

    Attributes:
        points: shape (n, k); those of each chain one after the other.
        log_prob: ln of the posterior density of each, up to a constant, shape (n,).
        mean, covariance: of the posterior, shapes (k,) and (k, k).
        sampling: how it was done.
        grid: the tabulated density, if there is one.
        notes: what else is to be said.
    """

    points: np.ndarray
    log_prob: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    sampling: Sampling
    grid: GridDensity | None = None
    notes: tuple[str, ...] = ()


class AbstractSampler(abc.ABC):
    """A method of sampling a posterior, with its options."""

    @abc.abstractmethod
    def sample(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        """Draw from the posterior; `show` forces the progress bar on or off."""


def independent_sampling(method: str, dim: int, ess: float, *remarks: str) -> Sampling:
    """Of independent draws."""
    return Sampling(method, 1, np.full(dim, np.nan), np.full(dim, ess), remarks=remarks)
