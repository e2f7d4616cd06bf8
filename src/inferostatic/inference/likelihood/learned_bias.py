r"""How far a result on N events is off because the potential is learned.

At the estimate the learned score has a mean m, where the true one has 0. It moves the estimate by
\(\delta=(NH+P)^{-1}Nm\), which in units of its standard error is
\(b_k=\delta_k/\sqrt{(NH+P)^{-1}_{kk}}\) and grows as \(\sqrt N\).
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ...estimator.trusted_events import CERTAIN, TOLERATED, count_trusted
from ...inputs import warn_user
from ...summary import AbstractSummarised, Summary, SummaryTable, list_parts, shorten
from ...weights import effective_size
from .likelihood import Likelihood


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class LearnedBias(AbstractSummarised):
    """The bias of an estimate in units of its standard error, with the error of the bias itself.

    Attributes:
        names: of the parameters.
        shift: of the estimate by the learned score, shape (d,); 0 for fixed parameters.
        bias: the same in standard errors of the estimate.
        error: of the bias, because it was measured with finitely many events.
        observed: number of observed events, the effective one where they have weights.
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
    def verdicts(self) -> tuple[str, ...]:
        """The same of each parameter by itself."""
        size, reach = np.abs(self.bias), CERTAIN * self.error
        found = np.where(size + reach < TOLERATED, "not biased", "cannot be told")
        return tuple(np.where(size - reach > TOLERATED, "biased", found).tolist())

    @property
    def trusted_events(self) -> int:
        """Observed events up to which a result like this one is not biased."""
        worst = float(np.max(np.abs(self.bias) + CERTAIN * self.error))
        return count_trusted(worst / np.sqrt(self.observed))

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
        text = list_parts(
            f"{shorten(name)} {bias:+.2g} ± {error:.2g}" for name, bias, error in each
        )
        return f"LearnedBias({text} standard errors; {self.verdict})"

    def _summarise(self) -> Summary:
        columns = {
            "parameter": list(self.names),
            "shift": [f"{value:+.3g}" for value in self.shift],
            "in standard errors": [f"{value:+.2f}" for value in self.bias],
            "error of that": [f"{value:.2f}" for value in self.error],
        }
        title = f"Learned bias of an estimate from {self.observed:,.4g} observed events"
        return Summary(title, (SummaryTable(columns), self.describe()))


def find_bias(
    likelihood: Likelihood,
    theta: np.ndarray,
    covariance: np.ndarray | None = None,
    hessian: np.ndarray | None = None,
) -> LearnedBias | None:
    """The learned bias of an estimate; None where no mean score was measured.

    Args:
        likelihood: of the observed events.
        theta: the estimate, shape (d,).
        covariance: of the estimate, shape (d, d); by default from the likelihood's curvature.
        hessian: of ln L at the estimate, where it is known already.
    """
    groups = _measured_means(likelihood, theta)
    if groups is None:
        return None
    dim, free = len(likelihood.names), np.flatnonzero(likelihood.free)
    gradient, spread = np.zeros(dim), np.zeros((dim, dim))
    for group in groups:
        gradient[group.indices] += group.total * group.mean
        spread[np.ix_(group.indices, group.indices)] += group.total**2 * group.covariance
    if covariance is None:
        covariance = find_covariance(likelihood, theta, hessian)
        quoted = covariance
        if any(likelihood.weighted):
            # The errors of weighted events are those of their scatter.
            quoted = covariance @ likelihood.gradient_covariance(theta) @ covariance
    else:
        quoted = covariance
    block = np.ix_(free, free)
    shift, bias, error = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.sqrt(np.diag(quoted)[free])
        shift[free] = covariance[block] @ gradient[free]
        bias[free] = shift[free] / unit
        error[free] = np.sqrt(np.diag(covariance[block] @ spread[block] @ covariance[block])) / unit
    # Where there is no standard error, nothing is known of the bias either.
    error = np.where(np.isfinite(bias) & np.isfinite(error), error, np.inf)
    bias = np.where(np.isfinite(bias), bias, 0.0)
    observed = sum(effective_size(weight[0]) for weight in likelihood.data.weight)
    events = min(group.events for group in groups)
    return LearnedBias(likelihood.names, shift, bias, error, observed, events)


def find_covariance(
    likelihood: Likelihood, theta: np.ndarray, hessian: np.ndarray | None = None
) -> np.ndarray:
    """The inverse curvature of −ln L at an estimate, 0 where fixed.

    At the edge of the region the likelihood need not bend down; then the scatter of the score takes
    the place of its curvature. NaN where that was not measured. A Hessian that the fit left behind
    is taken where automatic second derivatives are right.
    """
    free = np.flatnonzero(likelihood.free)
    if hessian is None or not likelihood.smooth:
        hessian = likelihood.hessian(theta)
    curvature = _invert(-hessian, free)
    groups = _measured_means(likelihood, theta)
    if not np.isnan(curvature).any() or groups is None:
        return curvature
    information = np.diag(likelihood.model.constraints.precision)
    for group in groups:
        block = np.ix_(group.indices, group.indices)
        information[block] += abs(group.total) * group.information
    for channel in likelihood.model.channels:
        if channel.rate is not None:
            indices = list(channel.indices)
            expected, slope = channel.rate.value_and_slope(theta[indices])
            information[np.ix_(indices, indices)] += np.outer(slope, slope) / expected
    return _invert(information, free)


def judge_bias(
    likelihood: Likelihood,
    theta: np.ndarray,
    covariance: np.ndarray | None = None,
    *,
    hessian: np.ndarray | None = None,
    cure: str,
) -> tuple[LearnedBias | None, str]:
    """The learned bias and a note on it; warns where it is too large or cannot be told.

    Args:
        likelihood: of the observed events.
        theta: the estimate.
        covariance: of the estimate; by default from the likelihood's curvature.
        hessian: of ln L at the estimate, where it is known already.
        cure: what to use in place of this result.
    """
    if likelihood.events == 0:
        return None, "learned bias: none, as there are no events"
    found = find_bias(likelihood, theta, covariance, hessian)
    if found is None:
        return None, "learned bias: not measured (ist.measure_bias(estimator, events) does)"
    if not found.unbiased:
        warn_user(f"{found.observed:,.4g} observed events: {found.describe()}. Use {cure}.")
    return found, f"learned bias: {found.describe()}"


class _MeasuredScore(NamedTuple):
    """The score of one event by some estimators: mean, its covariance, and the score's own.

    indices: of the parameters; total: sum of the weights of the events that they are applied to;
    events: effective number of those that the mean was measured with.
    """

    indices: list[int]
    total: float
    mean: np.ndarray
    covariance: np.ndarray
    information: np.ndarray
    events: float


def _measured_means(likelihood: Likelihood, theta: np.ndarray) -> list[_MeasuredScore] | None:
    """One for each set of estimators; None where the mean of one was not measured.

    Channels with the same estimators have the same error of the mean, which is not averaged out.
    """
    counts: dict[tuple[Any, ...], float] = {}
    for channel, weight in zip(likelihood.model.channels, likelihood.data.weight, strict=True):
        key = (channel.estimators, channel.indices)
        counts[key] = counts.get(key, 0.0) + float(weight[0].sum())
    found = []
    for (estimators, indices), count in counts.items():
        known = [one.score_bias for one in estimators if one.score_bias is not None]
        if len(known) < len(estimators):
            return None
        point = theta[list(indices)]
        means, covariances = zip(*(bias(point) for bias in known), strict=True)
        found.append(
            _MeasuredScore(
                list(indices),
                count,
                np.mean(means, axis=0),
                # Each estimator was measured with events of its own.
                np.sum(covariances, axis=0) / len(known) ** 2,
                np.mean([bias.covariance(point) for bias in known], axis=0),
                sum(bias.events for bias in known),
            )
        )
    return found


def _invert(precision: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The inverse in the free parameters, NaN where it is not positive definite."""
    covariance = np.zeros_like(precision)
    block = np.ix_(free, free)
    covariance[block] = np.nan
    if np.isfinite(precision[block]).all():
        values = np.linalg.eigvalsh(precision[block])
        if np.all(values > 1e-12 * np.max(values, initial=0.0)):
            covariance[block] = np.linalg.inv(precision[block])
    return covariance


def _round_up(number: float) -> int:
    """To two digits."""
    if not np.isfinite(number) or number <= 0:
        return 0
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return math.ceil(number / unit) * unit
