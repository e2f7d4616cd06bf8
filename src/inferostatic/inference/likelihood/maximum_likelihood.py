r"""Maximum likelihood with a learned potential: \(\hat\theta=\arg\max\sum_i\varphi(x_i,\theta)\).

iminuit does the fit, fed with our compiled value and exact gradient, both in float64. The errors
quoted here are those of the learned likelihood: an error of φ that is small for one event adds up
coherently over many, so they are too small when the model's bias is not.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...estimator.estimator import Estimator
from ...inputs import Input, as_count, kind_of, warn_user
from ..arguments import as_level, as_observed
from .minuit import NotConverged as NotConverged
from .minuit import Problem, checked_fixed, iminuit_class
from .objective import CHUNK as CHUNK
from .objective import Constraints, NegativeLogLikelihood, Poisson, event_weights
from .profile import Profile, Profiler

#: The level of one standard deviation, at which MINOS errors are given.
ONE_SIGMA = 0.6826894921370859


@dataclasses.dataclass(frozen=True, repr=False)
class MaximumLikelihood:
    """The result of a fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: inverse of the Hessian of −ln L, shape (d, d), and for weighted events the
            sandwich; zero for fixed parameters.
        log_likelihood: ln L at the estimate, up to a constant that does not depend on θ: Σwφ, with
            the Poisson term and the constraints where there are any.
        valid: whether the minimiser converged.
        message: what it says about convergence.
        names: of the parameters.
        sandwich: the covariance H⁻¹ Cov(∇ln L) H⁻¹, from the scatter of the events' own scores.
            Where it differs much from the inverse Hessian, the learned likelihood is not that of
            the events; it repairs the variance, not the bias.
        minos: lower (negative) and upper errors, shape (d, 2), if they were asked for.
        notes: remarks for the summary: fixed and constrained parameters, the rate, the starts.
    """

    theta: np.ndarray
    covariance: np.ndarray
    log_likelihood: float
    valid: bool
    message: str
    names: tuple[str, ...]
    sandwich: np.ndarray | None = None
    minos: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    _profiler: Profiler | None = dataclasses.field(default=None, compare=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, from the diagonal of the covariance; 0 for fixed parameters."""
        return np.sqrt(np.diag(self.covariance))

    def profile(self, name: str | int, values: Input) -> Profile:
        """Scan −2 ln λ of one parameter, the others fitted again at each of its values."""
        return self._near().scan(name, values)

    def interval(self, level: float = ONE_SIGMA) -> np.ndarray:
        """Confidence intervals of the single parameters, shape (d, 2), from the profile likelihood.

        MINOS finds where −2 ln λ reaches the quantile of χ² with one degree of freedom. An end that
        would lie beyond the trained region is its edge. A fixed parameter has both ends at its
        value.
        """
        near, level = self._near(), as_level(level)
        ends = np.stack([self.theta, self.theta], axis=1)
        for place in np.flatnonzero(near.problem.free):
            ends[place] = near.interval(int(place), level)
        return ends

    def contour(
        self, i: str | int, j: str | int, level: float = ONE_SIGMA, *, points: int = 40
    ) -> np.ndarray:
        """The confidence contour of two parameters, shape (points, 2), the others profiled.

        Both are covered together with probability `level`: the quantile is that of χ² with two
        degrees of freedom. The curve is closed by its first point, and cut at the region's edge.
        """
        near = self._near()
        places = [near.free_place(i), near.free_place(j)]
        if places[0] == places[1]:
            raise ValueError(f"a contour needs two parameters; got {self.names[places[0]]} twice.")
        return near.contour(places, as_level(level), as_count(points, "points"))

    def _near(self) -> Profiler:
        if self._profiler is None:
            raise NotConverged(f"{self.message}: there is no minimum to profile around.")
        return self._profiler

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(
            f"{name} = {value:.4g} {f'± {error:.2g}' if error != 0 else '(fixed)'}"
            for name, value, error in values
        )
        return f"MaximumLikelihood({text}{'' if self.valid else '; NOT CONVERGED'})"

    def summary(self) -> str:
        """A table of the estimates, their errors and correlations, and what went into the fit."""
        width = max(9, *(len(name) for name in self.names))
        heading = f"{'parameter':<{width}}  {'estimate':>11}  {'error':>9}"
        robust = None if self.sandwich is None else np.sqrt(np.diag(self.sandwich))
        heading += "" if robust is None else f"  {'sandwich':>9}"
        heading += "" if self.minos is None else f"  {'minos −':>9}  {'minos +':>9}"
        lines = [f"maximum likelihood: {self.message}", heading]
        for k, name in enumerate(self.names):
            if self.errors[k] == 0:
                lines.append(f"{name:<{width}}  {self.theta[k]:>11.5g}      fixed")
                continue
            line = f"{name:<{width}}  {self.theta[k]:>11.5g}  {self.errors[k]:>9.3g}"
            line += "" if robust is None else f"  {robust[k]:>9.3g}"
            if self.minos is not None:
                line += f"  {self.minos[k, 0]:>9.3g}  {self.minos[k, 1]:>9.3g}"
            lines.append(line)
        free = np.flatnonzero(self.errors > 0)
        if len(free) > 1:
            errors = self.errors[free]
            correlation = self.covariance[np.ix_(free, free)] / np.outer(errors, errors)
            lines.append("correlations")
            for k, row in zip(free, correlation, strict=True):
                lines.append(f"{self.names[k]:<{width}}" + "".join(f"  {c:>6.2f}" for c in row))
        lines.append(f"ln L = {self.log_likelihood:.6g}, up to a constant")
        return "\n".join([*lines, *self.notes])


def maximum_likelihood(
    estimator: Estimator,
    x: Input,
    *,
    weight: Input | None = None,
    rate: Callable[[Any], Any] | None = None,
    constraints: Mapping[str, tuple[float, float]] | None = None,
    fixed: Mapping[str, float] | None = None,
    start: Input | None = None,
    starts: int = 1,
    minos: bool = False,
    throw: bool = True,
) -> MaximumLikelihood:
    r"""Fit θ to the observed events `x`, shape (n, D), all made at one unknown θ.

    Minimises \(-\sum_i w_i\varphi(x_i,\theta)\), plus \(\nu(\theta)-\sum_iw_i\ln\nu(\theta)\) with
    a rate and \(\frac12((\theta_k-m_k)/\sigma_k)^2\) for each constraint. Nuisance parameters are
    parameters like the others: constrain them, and they are profiled.

    Args:
        estimator: a trained potential.
        x: observed events.
        weight: one weight for each event, of either sign. The covariance is then the sandwich, and
            profiles and intervals are scaled to it.
        rate: expected number of events ν(θ), a function of θ of shape (d,); the number observed
            then counts too (extended likelihood). Its gradient is JAX's where the function can be
            traced, numerical where not; `summary()` says which.
        constraints: measurements of single parameters made elsewhere, {"name": (mean, sd)}.
        fixed: parameters that are held, {"name": value}.
        start: where to begin; the best of a few points of the trained region unless given.
        starts: number of fits, from different points; the best is returned.
        minos: find asymmetric errors too (`result.minos`).
        throw: raise if the minimiser does not converge; otherwise the result says so.
    """
    iminuit_class()
    if not isinstance(estimator, Estimator):
        raise TypeError(
            "maximum_likelihood needs a potential (ist.Estimator), which ist.fit(events, seed=…) "
            f"trains by default; got {kind_of(estimator)}."
        )
    names = estimator.theta_names
    low, high = (
        np.asarray(edge, np.float64)
        for edge in (estimator.region.theta_low, estimator.region.theta_high)
    )
    rows = as_observed(estimator, x)
    weights = event_weights(weight, len(rows))
    held = checked_fixed(fixed, names, low, high)
    total = float(len(rows) if weights is None else weights.sum())
    poisson = None
    if rate is not None:
        poisson = Poisson(rate, total, low=low, high=high, at=(low + high) / 2)
    constrained = None if not constraints else Constraints(constraints, names)
    objective = NegativeLogLikelihood(
        estimator, rows, weights, poisson=poisson, constraints=constrained
    )
    problem = Problem(objective, names, low, high, held)
    begins = problem.starts(start, starts)
    minuit, same = problem.lowest(begins)
    remarks = [f"{len(rows)} events"]
    if weights is not None:
        effective = total**2 / float(weights @ weights)
        remarks[0] += f" of total weight {total:.5g}, as good as {effective:.4g} unweighted ones"
    if constraints:
        said = (f"{name} = {mean:.5g} ± {sd:.3g}" for name, (mean, sd) in constraints.items())
        remarks.append(f"constraints: {', '.join(said)}")
    if poisson is not None:
        remarks.append(_of_rate(poisson, np.array(minuit.values)))
    if len(begins) > 1:
        remarks.append(f"{same} of {len(begins)} starts found this minimum")
    return _result(minuit, problem, objective, tuple(remarks), minos=minos, throw=throw)


def _of_rate(poisson: Poisson, theta: np.ndarray) -> str:
    expected, _ = poisson.expected(theta)
    how = (
        "automatic differentiation"
        if poisson.traceable
        else ("finite differences, as JAX cannot trace the function")
    )
    return f"Poisson term: {expected:.5g} expected, {poisson.observed:.5g} observed; slope by {how}"


def _result(
    minuit: Any,  # noqa: ANN401
    problem: Problem,
    objective: NegativeLogLikelihood,
    notes: tuple[str, ...],
    *,
    minos: bool,
    throw: bool,
) -> MaximumLikelihood:
    theta = np.array(minuit.values)
    valid, message = problem.verdict(minuit)
    if valid and problem.at_edge(theta).any():
        warn_user(message + "; its errors are not meaningful. Simulate wider.")
    if throw and not valid:
        raise NotConverged(
            f"{message}. Look at the likelihood, try start=, or pass throw=False to see the result."
        )
    inverse = np.full((len(theta), len(theta)), np.nan)
    if minuit.covariance is not None:
        inverse = np.array(minuit.covariance)
    sandwich = inverse @ objective.score_covariance(theta) @ inverse
    covariance = inverse if objective.weight is None else sandwich
    result = MaximumLikelihood(
        theta=theta,
        covariance=covariance,
        log_likelihood=-float(minuit.fval),
        valid=valid,
        message=message,
        names=problem.names,
        sandwich=sandwich,
        notes=notes,
        _profiler=Profiler(problem, theta, inverse, covariance) if valid else None,
    )
    if minos and valid:
        ends = result.interval(ONE_SIGMA)
        result = dataclasses.replace(result, minos=ends - theta[:, None])
    return result
