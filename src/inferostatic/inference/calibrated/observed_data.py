"""What a calibrated fit is made to: events with weights, bounds and constraints."""

import dataclasses
from functools import cached_property

import numpy as np

from ...weights import effective_size


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedData:
    """Observed events and what is known of θ beside them.

    Attributes:
        x: observed events, shape (n, D).
        weight: one for each event, of either sign, shape (n,).
        low, high: bounds of the parameters, shape (d,); equal ones fix a parameter.
        constraint_mean: Gaussian measurements of single parameters made elsewhere, shape (d,).
        constraint_precision: their 1/σ², shape (d,); 0 where there is none.
    """

    x: np.ndarray
    weight: np.ndarray
    low: np.ndarray
    high: np.ndarray
    constraint_mean: np.ndarray
    constraint_precision: np.ndarray

    @classmethod
    def of_events(cls, x: np.ndarray, dim: int) -> "ObservedData":
        """Events of weight 1, without bounds or constraints, of `dim` parameters."""
        nothing, infinite = np.zeros(dim), np.full(dim, np.inf)
        return cls(x, np.ones(len(x)), -infinite, infinite, nothing, nothing)

    @property
    def free(self) -> np.ndarray:
        """Indices of the parameters that the bounds leave free."""
        return np.flatnonzero(self.high > self.low)

    @cached_property
    def size(self) -> float:
        """Effective number of events."""
        return effective_size(self.weight)

    @cached_property
    def share(self) -> np.ndarray:
        """Each event's part of the weight, shape (n,)."""
        return self.weight / self.weight.sum()

    def average(self, values: np.ndarray) -> np.ndarray:
        """The weighted mean over events of columns, shape (n, k), in float64."""
        return self.share @ np.asarray(values, np.float64)

    def constraint_chi2(self, theta: np.ndarray) -> np.ndarray | np.floating:
        """χ² of the constraints at points of shape (…, d)."""
        return np.square(theta - self.constraint_mean) @ self.constraint_precision

    def clip_bounds(
        self, low: np.ndarray, high: np.ndarray, names: tuple[str, ...]
    ) -> "ObservedData":
        """The same data with bounds no wider than a region."""
        below, above = np.maximum(self.low, low), np.minimum(self.high, high)
        for j, name in enumerate(names):
            if below[j] > above[j]:
                raise ValueError(
                    f"the bounds of {name}, {self.low[j]:.5g} to {self.high[j]:.5g}, lie outside "
                    f"the simulated region, {low[j]:.5g} to {high[j]:.5g}; simulate wider, or "
                    "change the bounds or the fixed value."
                )
        return dataclasses.replace(self, low=below, high=above)
