"""A posterior density of one or two parameters, tabulated on a grid."""

from typing import NamedTuple

import numpy as np


class GridDensity(NamedTuple):
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
