"""What a calibrated fit is made to: events with weights, bounds, constraints and their number."""

import dataclasses
from functools import cached_property

import numpy as np
from scipy import special

from ...weights import effective_size
from ..likelihood.rate import Rate


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedData:
    """Observed events and what is known of θ beside them.

    Attributes:
        x: observed events, shape (n, D).
        weight: one for each event, of either sign, shape (n,).
        low, high: bounds of the parameters, shape (d,); equal ones fix a parameter.
        constraint_mean: Gaussian measurements of single parameters made elsewhere, shape (d,).
        constraint_precision: their 1/σ², shape (d,); 0 where there is none.
        rate: expected number of events as a function of θ, where their number counts.
        number: of events, or the sum of weights, which is compared with the rate; by default that
            of the events here.
    """

    x: np.ndarray
    weight: np.ndarray
    low: np.ndarray
    high: np.ndarray
    constraint_mean: np.ndarray
    constraint_precision: np.ndarray
    rate: Rate | None = None
    number: float | None = None

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

    @property
    def constrained(self) -> np.ndarray:
        """Indices of the parameters that have a constraint."""
        return np.flatnonzero(self.constraint_precision)

    def side_residual(self, theta: np.ndarray) -> np.ndarray:
        """Constraints, then the number of events, minus what θ expects, in units of their errors.

        For the number it is the signed root of the Poisson deviance.
        """
        away = np.sqrt(self.constraint_precision) * (self.constraint_mean - theta)
        if self.rate is None:
            return away[self.constrained]
        expected, number = self.rate.expected(theta), self._number
        deviance = 2 * (expected - number + special.xlogy(number, number / expected))
        root = np.copysign(np.sqrt(max(deviance * self._unit, 0.0)), number - expected)
        return np.append(away[self.constrained], root)

    def side_slopes(self, theta: np.ndarray) -> np.ndarray:
        """Slopes of what θ expects of these, in the same units, shape (c, d)."""
        slopes = np.diag(np.sqrt(self.constraint_precision))[self.constrained]
        if self.rate is None:
            return slopes
        expected, slope = self.rate.value_and_slope(theta)
        return np.vstack([slopes, slope * np.sqrt(self._unit / expected)])

    def side_chi2(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The sum of the squares at one θ, and its gradient, shape (d,)."""
        chi2 = float(np.sum(np.square(self.side_residual(theta))))
        gradient = 2 * self.constraint_precision * (theta - self.constraint_mean)
        if self.rate is not None:
            expected, slope = self.rate.value_and_slope(theta)
            gradient = gradient + 2 * self._unit * (1 - self._number / expected) * slope
        return chi2, gradient

    @property
    def _number(self) -> float:
        return float(self.weight.sum()) if self.number is None else self.number

    @property
    def _unit(self) -> float:
        """The variance of a sum of weights is that of their squares."""
        return float(abs(self.weight.sum()) / np.square(self.weight).sum())

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
