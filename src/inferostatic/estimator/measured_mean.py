r"""Means of events as functions of θ, with their errors, that an estimator keeps.

The mean of the learned score at each θ, which is 0 for the true one: where
\(m(\theta)=E_\theta[\hat s]\) is not 0, the maximum of a likelihood of N events moves by
\((NH+P)^{-1}Nm\), with \(H=-E_\theta[\nabla^2\hat\varphi]\) and the precision P of prior and
constraints. Its errors fall with N, and the shift does not. So m is measured, by events that
neither trained the network nor chose, stopped or centred it. Beside it the means of the
observables, by which observed events are compared with simulated ones.
"""

import dataclasses
from math import comb
from typing import Any, TypeVar

import numpy as np

from ..chunks import spread_rows
from ..serial import known
from ..summary import AbstractSummarised, Summary, count
from ..weights import effective_size
from .response_model import (
    MeanResponse,
    PolynomialCoordinates,
    SmoothCovariance,
    learn_covariance,
    learn_mean,
    split_into_cells,
)

T = TypeVar("T")

#: Highest degree of the mean as a polynomial in θ.
DEGREE = 4
#: Numbers in the covariance of its coefficients, at most: they are kept with the estimator.
MOST_NUMBERS = 4_000
#: Digits of what is kept.
DIGITS = 6
#: Degree up to which its coefficients are free: a bias that is the same everywhere, or grows along
#: a parameter, is then never taken for chance.
FREE_DEGREE = 1
#: Highest degree of the logarithm of the score's covariance.
SCATTER_DEGREE = 2
#: Events from which that covariance is learned, at most.
SCATTER_EVENTS = 20_000
#: Events with which a mean can be learned, at least.
FEWEST_EVENTS = 200
#: Events of a cell, at least, where structure beyond the polynomial is looked for.
SMALLEST_CELL = 50
#: Standard errors above which such structure is taken for real: it is looked for in some twenty
#: places, and sums of squares have long tails.
SIGNIFICANT = 4.0


@known
@dataclasses.dataclass(frozen=True, repr=False)
class MeasuredMean(AbstractSummarised):
    """The mean of k values of an event as a function of θ, with its error.

    Attributes:
        mean: of the values in units of their own scatter.
        scatter: of the values at each θ.
        hidden: variance of what the polynomial does not show, in these units, shape (k,).
        events: effective number of the events that it was measured with.
        first: what was subtracted from the values before; None for values whose mean is about 0.
    """

    mean: MeanResponse
    scatter: SmoothCovariance
    hidden: np.ndarray
    events: float
    first: MeanResponse | None = None

    def __repr__(self) -> str:
        """Number of values and of events."""
        return f"MeasuredMean({count(len(self.hidden), 'value')}; {self.events:,.0f} events)"

    def _summarise(self) -> Summary:
        title = f"Means of {count(len(self.hidden), 'value')} of an event as functions of θ"
        return Summary(title, (f"measured with {self.events:,.0f} effective events",))

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean at one θ, shape (k,), and the covariance of its error, shape (k, k)."""
        inverse = self._unit(theta)
        mean, variance = self.mean(theta)
        start = 0.0 if self.first is None else self.first.at(theta[None])[0]
        return start + inverse @ mean, (inverse * (variance + self.hidden)) @ inverse.T

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """The covariance of one event's values at θ, shape (k, k)."""
        inverse = self._unit(theta)
        return inverse @ inverse.T

    def _unit(self, theta: np.ndarray) -> np.ndarray:
        return np.linalg.inv(self.scatter.whitening(theta[None])[0])


def measure_mean(
    values: np.ndarray, theta: np.ndarray, weight: np.ndarray, *, about_zero: bool
) -> MeasuredMean | None:
    """The mean of values of events, None of too few.

    Args:
        values: shape (n, k).
        theta: of the same events, shape (n, d).
        weight: of the same events, shape (n,).
        about_zero: whether the mean is small compared with the scatter.
    """
    size = effective_size(weight)
    if size < FEWEST_EVENTS:
        return None
    box = PolynomialCoordinates.of_box(theta.min(axis=0), theta.max(axis=0))
    degree = _affordable_degree(theta, values)
    first = None
    if not about_zero:
        first = learn_mean(theta, values, box, degree=degree, free=FREE_DEGREE, weight=weight)
        values = values - first.at(theta)
    some = spread_rows(len(theta), SCATTER_EVENTS)
    scatter = learn_covariance(
        theta[some], values[some], box, degree=SCATTER_DEGREE, weight=weight[some]
    )
    white = scatter.whiten(theta, values)
    mean = learn_mean(theta, white, box, degree=degree, free=FREE_DEGREE, weight=weight)
    hidden = _find_hidden(box(theta), white - mean.at(theta), weight)
    return _round_numbers(MeasuredMean(mean, scatter, hidden, size, _without_error(first)))


def _without_error(first: MeanResponse | None) -> MeanResponse | None:
    """Its error is part of that of the mean which is learned after it."""
    if first is None:
        return None
    return dataclasses.replace(first, covariance=np.zeros((first.coefficients.shape[1], 1, 1)))


def _round_numbers(thing: T) -> T:
    """The same with all arrays to a few digits, so that files stay short."""
    if isinstance(thing, np.ndarray) and np.issubdtype(thing.dtype, np.floating):
        size = np.floor(np.log10(np.abs(thing), out=np.zeros_like(thing), where=thing != 0))
        rounded: Any = np.round(thing / 10.0**size, DIGITS - 1) * 10.0**size
        return rounded
    if isinstance(thing, tuple):
        parts: Any = tuple(_round_numbers(part) for part in thing)
        return parts
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {f.name: _round_numbers(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
        record: Any = dataclasses.replace(thing, **fields)
        return record
    return thing


def _affordable_degree(theta: np.ndarray, values: np.ndarray) -> int:
    """The highest degree whose coefficients may be kept; at least 1."""
    degree = DEGREE
    while degree > 1 and (
        values.shape[1] * comb(theta.shape[1] + degree, degree) ** 2 > MOST_NUMBERS
    ):
        degree -= 1
    return degree


def _find_hidden(u: np.ndarray, left: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Variance over θ of the mean of what is left over, beyond that by chance, shape (d,).

    Means of cells of several sizes are compared with their errors: small cells see fine structure
    and large ones little of it.
    """
    largest = np.zeros(left.shape[1])
    size = len(u) // 8
    while size >= SMALLEST_CELL:
        cells = split_into_cells(u, np.arange(len(u)), size)
        means, variances = np.array([_mean_and_variance(left[c], weight[c]) for c in cells]).T
        excess = np.mean(means**2 - variances, axis=-1)
        error = np.sqrt(2 * np.mean(variances**2, axis=-1) / len(cells))
        largest = np.maximum(largest, np.where(excess > SIGNIFICANT * error, excess, 0.0))
        size //= 4
    return largest


def _mean_and_variance(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    share = weight / weight.sum()
    mean = share @ values
    return np.stack([mean, share**2 @ (values - mean) ** 2], axis=1)
