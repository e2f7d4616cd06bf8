r"""DCTR's fit: the θ whose ratio best tells the observed events from reference events.

With \(l=\ln r(x;\theta,\theta_\mathrm{ref})\) it minimises (`eq:cross_entropy_estimation`)
\[J(\theta)=\langle-\ln\sigma(l)\rangle_\mathrm{observed}
  +\langle-\ln\sigma(-l)\rangle_\mathrm{reference},\]
whose gradients are the scores weighted by \(-\sigma(-l)\) and \(\sigma(l)\)
(`eq:gradients_BCE`). Weights are bounded by one, so single events with a wild ratio do less harm
than in the likelihood; the price is that reference events are needed and add their own error.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ...estimator.estimator import Estimator, RatioEstimator
from ...inputs import Input, kind_of, warn_user
from ..arguments import as_level, as_observed
from ..chi_square import chi2_quantile
from .minuit import NotConverged, Problem, checked_fixed, iminuit_class, point_inside
from .objective import PerEvent, event_weights

#: Step of the derivative of the gradient, in units of the expected error.
HESSIAN_STEP = 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class CrossEntropyFit:
    """The result of a cross-entropy fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: the sandwich A⁻¹ B A⁻¹ of the Hessian A of the loss and the covariance B of its
            gradient over repetitions of both samples, shape (d, d); zero for fixed parameters.
        loss: the cross entropy at the estimate; 2 ln 2 where the ratio tells nothing.
        reference_share: the part of each variance that the reference events make, shape (d,).
        valid: whether the minimiser converged.
        message: what it says about convergence.
        names: of the parameters.
    """

    theta: np.ndarray
    covariance: np.ndarray
    loss: float
    reference_share: np.ndarray
    valid: bool
    message: str
    names: tuple[str, ...]

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, from the diagonal of the covariance; 0 for fixed parameters."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = 0.6826894921370859) -> np.ndarray:
        """Symmetric intervals of the single parameters, shape (d, 2), for a normal estimate."""
        reach = np.sqrt(chi2_quantile(as_level(level), 1)) * self.errors
        return np.stack([self.theta - reach, self.theta + reach], axis=1)

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(
            f"{name} = {value:.4g} {f'± {error:.2g}' if error != 0 else '(fixed)'}"
            for name, value, error in values
        )
        return f"CrossEntropyFit({text}{'' if self.valid else '; NOT CONVERGED'})"

    def summary(self) -> str:
        """A table of the estimates and of what their errors are made of."""
        width = max(9, *(len(name) for name in self.names))
        lines = [
            f"cross-entropy fit: {self.message}",
            f"{'parameter':<{width}}  {'estimate':>11}  {'error':>9}  of it by reference events",
        ]
        for name, value, error, share in zip(
            self.names, self.theta, self.errors, self.reference_share, strict=True
        ):
            if error == 0:
                lines.append(f"{name:<{width}}  {value:>11.5g}      fixed")
            else:
                part = error * np.sqrt(share)
                lines.append(f"{name:<{width}}  {value:>11.5g}  {error:>9.3g}  {part:.3g}")
        return "\n".join([*lines, f"cross entropy {self.loss:.6g} (2 ln 2 = 1.38629)"])


class CrossEntropy:
    """The loss J(θ) and its gradient, scaled so that ½ above the minimum is about one sigma."""

    def __init__(
        self,
        observed: PerEvent,
        reference: PerEvent,
        weight: np.ndarray | None,
        weight_reference: np.ndarray | None,
    ) -> None:
        self.samples = (observed, reference)
        self.weights = tuple(
            np.full(sample.count, 1 / sample.count) if w is None else w / w.sum()
            for sample, w in zip(self.samples, (weight, weight_reference), strict=True)
        )
        # For θ near the reference the Hessian of J is half the information of one event.
        self.scale = 2 / sum(float(w @ w) for w in self.weights)
        self.last: tuple[bytes, float, np.ndarray] | None = None

    def each(self, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Loss and gradient of every event, observed and reference."""
        (l_observed, s_observed), (l_reference, s_reference) = (s(theta) for s in self.samples)
        return [
            (np.logaddexp(0, -l_observed), -special.expit(-l_observed)[:, None] * s_observed),
            (np.logaddexp(0, l_reference), special.expit(l_reference)[:, None] * s_reference),
        ]

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """J and its gradient."""
        theta = np.asarray(theta, np.float64)
        if not np.isfinite(theta).all():  # where a function is flat, Minuit's steps are NaN
            return np.nan, np.full(len(theta), np.nan)
        key = theta.tobytes()
        if self.last is None or self.last[0] != key:
            value, gradient = 0.0, np.zeros(len(theta))
            for (losses, slopes), weight in zip(self.each(theta), self.weights, strict=True):
                value, gradient = value + float(weight @ losses), gradient + weight @ slopes
            self.last = (key, value, gradient)
        return self.last[1], self.last[2]

    def value(self, theta: np.ndarray) -> float:
        """J, scaled."""
        return self.scale * self.both(theta)[0]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient, scaled."""
        return self.scale * self.both(theta)[1]

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
            rise = self.both(ends[1])[1] - self.both(ends[0])[1]
            rows[i] = rise / (ends[1, i] - ends[0, i])
        return (rows + rows.T) / 2


def cross_entropy_fit(
    estimator: Estimator | RatioEstimator,
    x: Input,
    x_reference: Input,
    *,
    theta_reference: Input,
    weight: Input | None = None,
    weight_reference: Input | None = None,
    fixed: Mapping[str, float] | None = None,
    start: Input | None = None,
    starts: int = 1,
    throw: bool = True,
) -> CrossEntropyFit:
    r"""Fit θ to observed events by telling them from reference events (DCTR's fit).

    With many reference events made near the truth, its error is that of the maximum likelihood; a
    far reference is less efficient, since the ratio saturates.

    Args:
        estimator: a trained potential, or a direct ratio network.
        x: observed events, shape (n, D), all made at one unknown θ.
        x_reference: events simulated at `theta_reference`; take many more than observed ones.
        theta_reference: the θ of the reference events, shape (d,).
        weight: one weight for each observed event, of either sign.
        weight_reference: one weight for each reference event.
        fixed: parameters that are held, {"name": value}.
        start: where to begin; the best of a few points of the trained region unless given.
        starts: number of fits, from different points; the best is returned.
        throw: raise if the minimiser does not converge; otherwise the result says so.
    """
    iminuit_class()
    if not isinstance(estimator, Estimator | RatioEstimator):
        raise TypeError(
            "cross_entropy_fit needs log ratios, of a potential (ist.Estimator) or a "
            f"RatioEstimator; got {kind_of(estimator)}."
        )
    names = estimator.theta_names
    low, high = (
        np.asarray(edge, np.float64)
        for edge in (estimator.region.theta_low, estimator.region.theta_high)
    )
    against = point_inside(theta_reference, "theta_reference", names, low, high)
    rows, rows_reference = (
        as_observed(estimator, x),
        as_observed(estimator, x_reference, "x_reference"),
    )
    objective = CrossEntropy(
        PerEvent(estimator, rows, against=against),
        PerEvent(estimator, rows_reference, against=against),
        event_weights(weight, len(rows)),
        event_weights(weight_reference, len(rows_reference), "weight_reference"),
    )
    problem = Problem(objective, names, low, high, checked_fixed(fixed, names, low, high))
    # The errors are those of the sandwich, with a Hessian of its own.
    minuit, _ = problem.lowest(problem.starts(start, starts), hesse=False)
    return _result(minuit, problem, objective, throw=throw)


def _result(
    minuit: Any,  # noqa: ANN401
    problem: Problem,
    objective: CrossEntropy,
    *,
    throw: bool,
) -> CrossEntropyFit:
    theta = np.array(minuit.values)
    valid, message = problem.verdict(minuit)
    block = np.ix_(problem.free, problem.free)
    hessian = np.full((len(theta), len(theta)), np.nan)
    if valid:
        hessian = objective.hessian(theta, np.array(minuit.errors), problem)
        if not np.linalg.eigvalsh(hessian[block]).min() > 0:
            valid, message = False, "the Hessian at the estimate is not positive: the loss is flat"
    if valid and problem.at_edge(theta).any():
        warn_user(message + "; its errors are not meaningful. Simulate wider.")
    if throw and not valid:
        raise NotConverged(
            f"{message}. Look at the loss, try start= or a nearer theta_reference, or pass "
            "throw=False to see the result."
        )
    parts = [np.full((len(theta), len(theta)), np.nan)] * 2
    if valid:
        inverse = np.zeros((len(theta), len(theta)))
        inverse[block] = np.linalg.inv(hessian[block])
        # Of the covariance of θ̂, what the observed and what the reference events make.
        parts = [inverse @ meat @ inverse for meat in objective.gradient_covariances(theta)]
    covariance = parts[0] + parts[1]
    variance = np.diag(covariance)
    share = np.divide(np.diag(parts[1]), variance, out=np.zeros(len(theta)), where=variance != 0)
    return CrossEntropyFit(
        theta=theta,
        covariance=covariance,
        loss=objective.both(theta)[0],
        reference_share=share,
        valid=valid,
        message=message,
        names=problem.names,
    )
