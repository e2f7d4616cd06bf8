r"""DCTR's fit: the θ whose ratio best separates observed from reference events.

With \(l=\ln r(x;\theta,\theta_\mathrm{ref})\) it minimises (`eq:cross_entropy_estimation`)
\[J(\theta)=\langle-\ln\sigma(l)\rangle_\mathrm{observed}
  +\langle-\ln\sigma(-l)\rangle_\mathrm{reference},\]
whose gradients are the scores weighted by \(-\sigma(-l)\) and \(\sigma(l)\)
(`eq:gradients_BCE`). Weights are bounded by one, so single events with a wild ratio do less harm
than in the likelihood; the price is that reference events are needed and add their own error.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import special

from ...estimator.estimator import Estimator, RatioEstimator
from ...events.events import Events
from ...inputs import Input, as_flag, kind_of, require_order
from ...summary import AbstractSummarised, Summary, SummaryTable, list_estimates
from ...weights import warn_few_effective
from ..arguments import ONE_SIGMA, as_events, as_level, as_point
from ..chi_square import chi2_quantile
from .event_sum import EventTerms
from .learned_bias import LearnedBias
from .likelihood import Likelihood, build_likelihood
from .maximum_likelihood import CURE
from .minuit import Problem, load_iminuit
from .observed_check import judge_result

#: Step of the derivative of the gradient, in units of the expected error.
HESSIAN_STEP = 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class CrossEntropyFit(AbstractSummarised):
    """The result of a cross-entropy fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: the sandwich A⁻¹ B A⁻¹ of the Hessian A of the loss and the covariance B of its
            gradient over repetitions of both samples, shape (d, d); zero for fixed parameters.
        loss: the cross entropy at the estimate; 2 ln 2 where the ratio separates nothing.
        reference_share: the part of each variance that the reference events make, shape (d,).
        valid: whether the minimiser converged.
        message: what it says about convergence.
        names: of the parameters.
        bias: of the estimate by the learned score, as that of the maximum likelihood; None where it
            was not measured.
        notes: remarks for the summary.
    """

    theta: np.ndarray
    covariance: np.ndarray
    loss: float
    reference_share: np.ndarray
    valid: bool
    message: str
    names: tuple[str, ...]
    bias: LearnedBias | None = None
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, from the diagonal of the covariance; 0 for fixed parameters."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = ONE_SIGMA) -> np.ndarray:
        """Symmetric intervals of the single parameters, shape (d, 2), for a normal estimate."""
        reach = np.sqrt(chi2_quantile(as_level(level), 1)) * self.errors
        return np.stack([self.theta - reach, self.theta + reach], axis=1)

    def __repr__(self) -> str:
        """The values with errors."""
        text = list_estimates(self.names, self.theta, self.errors)
        return f"CrossEntropyFit({text}{'' if self.valid else '; NOT CONVERGED'})"

    def _summarise(self) -> Summary:
        part = self.errors * np.sqrt(self.reference_share)
        each = zip(part, self.errors, strict=True)
        columns = {
            "parameter": list(self.names),
            "estimate": [f"{value:.5g}" for value in self.theta],
            "error": [f"{error:.3g}" if error else "fixed" for error in self.errors],
            "of it by reference events": [f"{p:.3g}" if e else "" for p, e in each],
        }
        loss = f"cross entropy {self.loss:.6g} (2 ln 2 = 1.38629)"
        title = f"cross-entropy fit: {self.message}"
        return Summary(title, (SummaryTable(columns), loss, *self.notes))


class CrossEntropy:
    """The loss J(θ) and its gradient, scaled so that ½ above the minimum is about one sigma."""

    weights: list[Any]
    scale: float

    def __init__(self, samples: list[EventTerms], weights: list[np.ndarray]) -> None:
        self.samples = samples
        self.weights = [weight / weight.sum() for weight in weights]
        # For θ near the reference the Hessian of J is half the information of one event.
        self.scale = 2 / sum(float(w @ w) for w in self.weights)

    def each(self, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Loss and gradient of every event, observed and reference."""
        (l_observed, s_observed), (l_reference, s_reference) = (s(theta) for s in self.samples)
        return [
            (np.logaddexp(0, -l_observed), -special.expit(-l_observed)[:, None] * s_observed),
            (np.logaddexp(0, l_reference), special.expit(l_reference)[:, None] * s_reference),
        ]

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """J and its gradient."""
        value, gradient = 0.0, np.zeros(len(theta))
        for (losses, slopes), weight in zip(self.each(theta), self.weights, strict=True):
            value, gradient = value + float(weight @ losses), gradient + weight @ slopes
        return value, gradient

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The same, scaled for Minuit."""
        value, gradient = self.loss_and_gradient(theta)
        return self.scale * value, self.scale * gradient

    def gradient_covariances(self, theta: np.ndarray) -> list[np.ndarray]:
        """Of the gradient of J, from the scatter of the observed and of the reference events."""
        parts = []
        for (_, slopes), weight in zip(self.each(theta), self.weights, strict=True):
            away = weight[:, None] * (slopes - weight @ slopes)
            parts.append(away.T @ away)
        return parts

    def hessian(self, theta: np.ndarray, steps: np.ndarray, problem: Problem) -> np.ndarray:
        """Of J, by differences of the exact gradient.

        Differences over many events hold also for activations whose second derivative jumps.
        """
        rows = np.zeros((len(theta), len(theta)))
        for i in np.flatnonzero(problem.free):
            ends = np.stack([theta, theta])
            shift = HESSIAN_STEP * steps[i] * np.array([-1.0, 1.0])
            ends[:, i] = np.clip(theta[i] + shift, problem.low[i], problem.high[i])
            rise = self.loss_and_gradient(ends[1])[1] - self.loss_and_gradient(ends[0])[1]
            rows[i] = rise / (ends[1, i] - ends[0, i])
        return (rows + rows.T) / 2


def cross_entropy_fit(
    likelihood: Likelihood | Estimator | RatioEstimator,
    x: Input | None = None,
    *,
    reference: Events,
    start: Input | None = None,
    starts: int = 1,
    throw: bool = True,
) -> CrossEntropyFit:
    r"""Fit θ by classifying observed against reference events (DCTR's fit).

    With many reference events made near the truth, its error is that of the maximum likelihood; a
    far reference is less efficient, since the ratio saturates.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)` with weights, fixed parameters and bounds; or
            in its place an estimator, which may be a direct ratio network, followed by `x`.
        x: observed events, shape (n, D), all made at one unknown θ.
        reference: `ist.Events` simulated at one θ, many more than observed ones.
        start: where to begin; by default the best of a few points of the trained region.
        starts: number of fits, from different points; the best is returned.
        throw: raise if the minimiser does not converge; otherwise the result reports it.
    """
    load_iminuit()
    if not isinstance(likelihood, Likelihood):
        if x is None:
            raise TypeError("cross_entropy_fit takes a likelihood, or an estimator and events x.")
        need = "cross_entropy_fit needs log ratios, of a potential or a direct ratio network"
        likelihood = build_likelihood(likelihood, x, (Estimator, RatioEstimator), need)
    elif x is not None:
        raise TypeError("the likelihood holds the observed events already; leave out x.")
    throw = as_flag(throw, "throw")
    _refuse_other_terms(likelihood)
    channel, names = likelihood.model.channels[0], likelihood.names
    rows, point, weight = _read_reference(reference, likelihood)
    samples = [EventTerms(channel.wide_models, x, point) for x in (likelihood.data.x[0][0], rows)]
    objective = CrossEntropy(samples, [likelihood.data.weight[0][0], weight])
    problem = Problem(objective, names, likelihood.low, likelihood.high)
    # The errors are those of the sandwich, with a Hessian of its own.
    minuit, _ = problem.lowest(problem.starts(start, starts), hesse=False)
    found = _result(minuit, problem, objective, throw=throw)
    if not isinstance(likelihood.estimators[0], Estimator):
        return found
    bias, notes = judge_result(likelihood, found.theta, cure=CURE)
    return dataclasses.replace(found, bias=bias, notes=tuple(notes))


def _refuse_other_terms(likelihood: Likelihood) -> None:
    channel, *others = likelihood.model.channels
    if others:
        raise ValueError("cross_entropy_fit takes one channel; fit the channels one by one.")
    if channel.rate is not None or likelihood.model.constraints.precision.any():
        raise ValueError(
            "cross_entropy_fit uses neither a rate nor constraints, because its loss is no "
            "likelihood; leave them out, or use ist.maximum_likelihood."
        )


def _read_reference(
    reference: object, likelihood: Likelihood
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reference events, their θ and weights."""
    if not isinstance(reference, Events):
        raise TypeError(
            "reference must be ist.Events simulated at one θ, ist.Events(x=…, theta=…); got "
            f"{kind_of(reference)}."
        )
    require_order(reference.theta_names, likelihood.names, "reference.theta")
    require_order(reference.x_names, likelihood.estimators[0].x_names, "reference.x")
    warn_few_effective(reference.weight, "reference.weight")
    theta = np.asarray(reference.theta, np.float64)
    if theta.shape[1] != len(likelihood.names) or np.ptp(theta, axis=0).any():
        raise ValueError(
            f"reference must be events made at one θ of {len(likelihood.names)} parameters; got "
            f"{len(np.unique(theta, axis=0))} different θ of {theta.shape[1]} parameters."
        )
    point = as_point(theta[0], likelihood.names, likelihood.region, "the θ of the reference")
    rows = as_events(likelihood.estimators[0], reference.x, "reference.x", "reference events")
    return rows, point, np.asarray(reference.weight, np.float64)


def _result(minuit: Any, problem: Problem, loss: CrossEntropy, *, throw: bool) -> CrossEntropyFit:  # noqa: ANN401
    theta = np.array(minuit.values)
    valid, message = problem.verdict(minuit)
    block = np.ix_(problem.free, problem.free)
    hessian = np.full((len(theta), len(theta)), np.nan)
    if valid:
        hessian = loss.hessian(theta, np.array(minuit.errors), problem)
        if not np.linalg.eigvalsh(hessian[block]).min() > 0:
            valid, message = False, "the Hessian at the estimate is not positive: the loss is flat"
    advice = "Look at the loss, try start= or a nearer reference"
    problem.report(theta, message, advice, valid=valid, throw=throw)
    parts = [np.full((len(theta), len(theta)), np.nan)] * 2
    if valid:
        inverse = np.zeros((len(theta), len(theta)))
        inverse[block] = np.linalg.inv(hessian[block])
        # Of the covariance of θ̂, what the observed and what the reference events make.
        parts = [inverse @ meat @ inverse for meat in loss.gradient_covariances(theta)]
    covariance = parts[0] + parts[1]
    variance = np.diag(covariance)
    share = np.divide(np.diag(parts[1]), variance, out=np.zeros(len(theta)), where=variance != 0)
    return CrossEntropyFit(
        theta=theta,
        covariance=covariance,
        loss=loss.loss_and_gradient(theta)[0],
        reference_share=share,
        valid=valid,
        message=message,
        names=problem.names,
    )
