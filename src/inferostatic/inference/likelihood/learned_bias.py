r"""How far a result on N events is off because the potential is learned.

At the estimate the learned score has a mean m, where the true one has 0. It moves the estimate by
\(\delta=(NH+P)^{-1}Nm\), which in units of its standard error is
\(b_k=\delta_k/\sqrt{(NH+P)^{-1}_{kk}}\) and grows as \(\sqrt N\).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from ...inputs import warn_user
from .likelihood import Likelihood
from .model import Channel

#: A shift of so many standard errors is too much: 95% intervals then cover 94%, 68% ones 66%.
TOLERATED = 0.3
#: Standard errors of the bias by which a statement about it must hold.
CERTAIN = 2.0


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class LearnedBias:
    """The bias of an estimate in units of its standard error, with the error of the bias itself.

    Attributes:
        names: of the parameters.
        shift: of the estimate by the learned score, shape (d,); 0 for fixed parameters.
        bias: the same in standard errors of the estimate.
        error: of the bias, because it was measured with finitely many events.
        observed: number of observed events, or the sum of their weights.
        events: effective number of the events with which the mean score was measured.
    """

    names: tuple[str, ...]
    shift: np.ndarray
    bias: np.ndarray
    error: np.ndarray
    observed: float
    events: float

    @property
    def biased(self) -> bool:
        """Whether some parameter is certainly off by more than 0.3 standard errors."""
        return bool(np.any(np.abs(self.bias) - CERTAIN * self.error > TOLERATED))

    @property
    def unbiased(self) -> bool:
        """Whether every parameter is certainly off by less than 0.3 standard errors."""
        return bool(np.all(np.abs(self.bias) + CERTAIN * self.error < TOLERATED))

    @property
    def verdict(self) -> str:
        """One of "biased", "not biased" and "cannot be told"."""
        return "biased" if self.biased else "not biased" if self.unbiased else "cannot be told"

    @property
    def trusted_events(self) -> int:
        """Observed events up to which a result like this one is not biased."""
        return count_trusted(self.bias, self.error, self.observed)

    @property
    def needed_events(self) -> float:
        """Events for measuring the bias with which it could be told, about; 0 where it can be."""
        if self.biased or self.unbiased:
            return 0.0
        # A bias within its error may as well be 0.
        known = np.where(np.abs(self.bias) > CERTAIN * self.error, np.abs(self.bias), 0.0)
        away = np.maximum(np.abs(known - TOLERATED), 0.1 * TOLERATED)
        return float(self.events * np.max(CERTAIN * self.error / away) ** 2)

    def describe(self) -> str:
        """One sentence, for tables and warnings."""
        worst = int(np.argmax(np.abs(self.bias) + CERTAIN * self.error))
        if self.biased:
            worst = int(np.argmax(np.abs(self.bias) - CERTAIN * self.error))
        seen = (
            f"the learned score shifts {self.names[worst]} by {self.bias[worst]:+.2f} ± "
            f"{self.error[worst]:.2f} of its standard errors"
        )
        if self.biased:
            return f"biased: {seen}"
        if self.unbiased:
            return f"not biased: {seen}"
        return (
            f"whether it is biased cannot be told with {self.events:,.0f} events: {seen}; about "
            f"{_round_up(self.needed_events):,} events in ist.measure_bias(estimator, events) "
            "would tell"
        )

    def __repr__(self) -> str:
        """Bias and error of each parameter."""
        each = zip(self.names, self.bias, self.error, strict=True)
        text = ", ".join(f"{name} {bias:+.2g} ± {error:.2g}" for name, bias, error in each)
        return f"LearnedBias({text} standard errors; {self.verdict})"


def count_trusted(bias: np.ndarray, error: np.ndarray, observed: float) -> int:
    """The largest number of events that are not biased, where `observed` have this bias."""
    worst = float(np.max(np.abs(bias) + CERTAIN * error, initial=0.0))
    if not np.isfinite(worst):
        return 0
    return int(min(observed * (TOLERATED / max(worst, 1e-9)) ** 2, 10**15))


def find_bias(
    likelihood: Likelihood, theta: np.ndarray, covariance: np.ndarray | None = None
) -> LearnedBias | None:
    """The learned bias of an estimate; None where no mean score was measured.

    Args:
        likelihood: of the observed events.
        theta: the estimate, shape (d,).
        covariance: of the estimate, shape (d, d); by default from the likelihood's curvature.
    """
    dim, free = len(likelihood.names), np.flatnonzero(likelihood.free)
    gradient, spread = np.zeros(dim), np.zeros((dim, dim))
    scatter, events = np.diag(likelihood.model.constraints.precision), []
    observed = [float(weight[0].sum()) for weight in likelihood.data.weight]
    for channel, count in zip(likelihood.model.channels, observed, strict=True):
        point = theta[list(channel.indices)]
        found = _average(channel, point)
        if found is None:
            return None
        block = np.ix_(channel.indices, channel.indices)
        gradient[list(channel.indices)] += count * found.mean
        spread[block] += count**2 * found.covariance
        scatter[block] += abs(count) * found.information
        if channel.rate is not None:
            expected, slope = channel.rate.value_and_slope(point)
            scatter[block] += np.outer(slope, slope) / expected
        events.append(found.events)
    if covariance is None:
        covariance = find_covariance(likelihood, theta)
    if np.isnan(covariance).any():
        # At the edge of the region the likelihood need not bend down.
        covariance = _invert(scatter, free)
    block = np.ix_(free, free)
    shift, bias, error = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.sqrt(np.diag(covariance)[free])
        shift[free] = covariance[block] @ gradient[free]
        bias[free] = shift[free] / unit
        error[free] = np.sqrt(np.diag(covariance[block] @ spread[block] @ covariance[block])) / unit
    # Where there is no standard error, nothing is known of the bias either.
    error = np.where(np.isfinite(bias) & np.isfinite(error), error, np.inf)
    bias = np.where(np.isfinite(bias), bias, 0.0)
    return LearnedBias(likelihood.names, shift, bias, error, sum(observed), min(events))


def find_covariance(likelihood: Likelihood, theta: np.ndarray) -> np.ndarray:
    """The inverse curvature of −ln L at an estimate, 0 where fixed; NaN where it is no minimum."""
    return _invert(-likelihood.hessian(theta), np.flatnonzero(likelihood.free))


def judge_bias(
    likelihood: Likelihood, theta: np.ndarray, covariance: np.ndarray | None = None, *, cure: str
) -> tuple[LearnedBias | None, str]:
    """The learned bias and a note on it; warns where it is too large or cannot be told.

    Args:
        likelihood: of the observed events.
        theta: the estimate.
        covariance: of the estimate; by default from the likelihood's curvature.
        cure: what to use in place of this result.
    """
    if likelihood.events == 0:
        return None, "learned bias: none, as there are no events"
    found = find_bias(likelihood, theta, covariance)
    if found is None:
        return None, "learned bias: not measured (ist.measure_bias(estimator, events) does)"
    if not found.unbiased:
        warn_user(f"{found.observed:,.4g} observed events: {found.describe()}. Use {cure}.")
    return found, f"learned bias: {found.describe()}"


class _MeanScore(NamedTuple):
    """Of one event of a channel: mean, its covariance, the score's own, and the events for it."""

    mean: np.ndarray
    covariance: np.ndarray
    information: np.ndarray
    events: float


def _average(channel: Channel, theta: np.ndarray) -> _MeanScore | None:
    """The mean over the estimators; None where one was not measured."""
    known = [one.score_bias for one in channel.estimators if one.score_bias is not None]
    if len(known) < len(channel.estimators):
        return None
    means, covariances = zip(*(bias(theta) for bias in known), strict=True)
    return _MeanScore(
        np.mean(means, axis=0),
        # Each was measured with events of its own.
        np.sum(covariances, axis=0) / len(known) ** 2,
        np.mean([bias.covariance(theta) for bias in known], axis=0),
        sum(bias.events for bias in known),
    )


def _invert(precision: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The inverse in the free parameters, NaN where it is not positive definite."""
    covariance = np.zeros_like(precision)
    block = np.ix_(free, free)
    if len(free) and np.isfinite(precision[block]).all():
        values = np.linalg.eigvalsh(precision[block])
        positive = values[0] > 1e-12 * values[-1]
        covariance[block] = np.linalg.inv(precision[block]) if positive else np.nan
    return covariance


def _round_up(number: float) -> int:
    """To two digits."""
    if not np.isfinite(number) or number <= 0:
        return 0
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return math.ceil(number / unit) * unit
