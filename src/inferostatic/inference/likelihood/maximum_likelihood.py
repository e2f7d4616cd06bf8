r"""Maximum likelihood with a learned potential: \(\hat\theta=\arg\max\ln L(\theta)\).

iminuit does the fit, fed with our compiled value and exact gradient, both in float64. The errors
quoted here are those of the learned likelihood: an error of φ that is small for one event adds up
coherently over many, so they are too small when the model's bias is not.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...inputs import Input, as_count, as_flag
from ...summary import AbstractSummarised, Summary, SummaryTable, list_estimates
from ..arguments import ONE_SIGMA, Parameter, as_level
from ..tables.likelihood_table import LikelihoodTable, table_pays, tabulate_likelihood
from .float64 import float64
from .learned_bias import LearnedBias
from .likelihood import Likelihood
from .log_likelihood import value_and_gradient
from .minuit import NotConverged as NotConverged
from .minuit import Problem, load_iminuit
from .observed_check import judge_result
from .profile import Profile, Profiler
from .short_form import of_likelihood

#: What to do about a bias.
CURE = "ist.calibrated_fit, whose intervals hold for any network, or train on more events"


@dataclasses.dataclass(frozen=True, repr=False)
class MaximumLikelihood(AbstractSummarised):
    """The result of a fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: inverse of the Hessian of −ln L, shape (d, d), and for weighted events the
            sandwich; zero for fixed parameters.
        log_likelihood: ln L at the estimate, up to a constant that does not depend on θ: Σwφ, with
            the Poisson term and the constraints where there are any.
        valid: whether the minimiser converged.
        message: what it reports about convergence.
        names: of the parameters.
        sandwich: the covariance H⁻¹ Cov(∇ln L) H⁻¹, from the scatter of the events' own scores.
            Where it differs much from the inverse Hessian, the learned likelihood is not that of
            the events; it repairs the variance, not the bias.
        minos: lower (negative) and upper errors, shape (d, 2), if they were asked for.
        notes: remarks for the summary: fixed and constrained parameters, the rate, the starts.
        bias: of the estimate by the learned score; None where it was not measured.
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
    bias: LearnedBias | None = None
    _profiler: Profiler | None = dataclasses.field(default=None, compare=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, from the diagonal of the covariance; 0 for fixed parameters."""
        return np.sqrt(np.diag(self.covariance))

    def profile(self, name: Parameter, values: Input) -> Profile:
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
        for index in np.flatnonzero(near.problem.free):
            ends[index] = near.interval(int(index), level)
        return ends

    def contour(
        self, i: Parameter, j: Parameter, level: float = ONE_SIGMA, *, points: int = 40
    ) -> np.ndarray:
        """The confidence contour of two parameters, shape (points, 2), the others profiled.

        Both are covered together with probability `level`: the quantile is that of χ² with two
        degrees of freedom. The curve is closed by its first point, and cut at the region's edge.
        """
        near = self._near()
        indices = [near.free_index(i), near.free_index(j)]
        if indices[0] == indices[1]:
            raise ValueError(f"a contour needs two parameters; got {self.names[indices[0]]} twice.")
        return near.contour(indices, as_level(level), as_count(points, "points"))

    def _near(self) -> Profiler:
        if self._profiler is None:
            raise NotConverged(f"{self.message}: there is no minimum to profile around.")
        return self._profiler

    def __repr__(self) -> str:
        """The values with errors."""
        text = list_estimates(self.names, self.theta, self.errors)
        return f"MaximumLikelihood({text}{'' if self.valid else '; NOT CONVERGED'})"

    def _summarise(self) -> Summary:
        fitted = self.errors != 0

        def cells(values: np.ndarray, form: str = ".3g") -> list[str]:
            each = zip(values, fitted, strict=True)
            return [f"{value:{form}}" if is_fitted else "fixed" for value, is_fitted in each]

        columns = {
            "parameter": list(self.names),
            "estimate": [f"{value:.5g}" for value in self.theta],
            "error": cells(self.errors),
        }
        if self.sandwich is not None:
            columns["sandwich"] = cells(np.sqrt(np.diag(self.sandwich)))
        if self.minos is not None:
            columns |= {"minos −": cells(self.minos[:, 0]), "minos +": cells(self.minos[:, 1])}
        parts: list[str | SummaryTable] = [SummaryTable(columns)]
        free = np.flatnonzero(fitted)
        if len(free) > 1:
            errors = self.errors[free]
            correlation = self.covariance[np.ix_(free, free)] / np.outer(errors, errors)
            names = [self.names[k] for k in free]
            table = {"correlation": names} | {
                name: [f"{c:.2f}" for c in column]
                for name, column in zip(names, correlation.T, strict=True)
            }
            parts.append(SummaryTable(table))
        parts.append(f"ln L = {self.log_likelihood:.6g}, up to a constant")
        return Summary(f"maximum likelihood: {self.message}", (*parts, *self.notes))


@dataclasses.dataclass(frozen=True, eq=False)
class _NegativeLogLikelihood:
    """−ln L, which Minuit minimises."""

    likelihood: Likelihood

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.likelihood.value_and_gradient(theta)
        return -value, -gradient


@dataclasses.dataclass(frozen=True, eq=False)
class _TabulatedObjective:
    """−ln L from a table."""

    table: LikelihoodTable

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        with float64():
            found = value_and_gradient(self.table.function, jnp.asarray(theta, jnp.float64))
            return -float(found[0]), -np.asarray(found[1])


class _TableMaker:
    """Makes a table of ln L around the estimate, once so many fits follow that it pays."""

    def __init__(self, likelihood: Likelihood, theta: np.ndarray, covariance: np.ndarray) -> None:
        self._likelihood, self._near = likelihood, (theta, covariance)
        self._tried, self._made = False, None

    def __call__(self, fits: int) -> _TabulatedObjective | None:
        """The objective, if a table of it pays and holds."""
        exact = self._likelihood.function
        if not self._tried and table_pays(exact, fits):
            self._tried = True
            table = tabulate_likelihood(exact, self._likelihood.model, *self._near, fits, show=None)
            self._made = None if table is None else _TabulatedObjective(table)
        return self._made


@of_likelihood
def maximum_likelihood(
    likelihood: Likelihood,
    *,
    start: Input | None = None,
    starts: int = 1,
    minos: bool = False,
    throw: bool = True,
) -> MaximumLikelihood:
    """Fit θ to observed events; `maximum_likelihood(estimator, x)` is the short form.

    For weighted events the covariance is the sandwich, and profiles and intervals are scaled to it.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)`, with weights, rate, constraints, fixed
            parameters and bounds; or an estimator and events in its place.
        start: where to begin; by default the best of a few points of the trained region.
        starts: number of fits, from different points; the best is returned.
        minos: find asymmetric errors too (`result.minos`).
        throw: raise if the minimiser does not converge; otherwise the result reports it.
    """
    load_iminuit()
    minos, throw = as_flag(minos, "minos"), as_flag(throw, "throw")
    objective = _NegativeLogLikelihood(likelihood)
    problem = Problem(objective, likelihood.names, likelihood.low, likelihood.high)
    for corner in (likelihood.low, likelihood.high):
        likelihood.check_rates(corner)
    begins = problem.starts(start, starts)
    minuit, same = problem.lowest(begins)
    notes = [*likelihood.describe(), *likelihood.describe_rates(np.array(minuit.values))]
    if len(begins) > 1:
        notes.append(f"{same} of {len(begins)} starts found this minimum")
    return _result(minuit, problem, likelihood, tuple(notes), minos=minos, throw=throw)


def _result(
    minuit: Any,  # noqa: ANN401
    problem: Problem,
    likelihood: Likelihood,
    notes: tuple[str, ...],
    *,
    minos: bool,
    throw: bool,
) -> MaximumLikelihood:
    theta = np.array(minuit.values)
    valid, message = problem.verdict(minuit)
    advice = "Look at the likelihood, try start="
    problem.report(theta, message, advice, valid=valid, throw=throw)
    inverse = np.full((len(theta), len(theta)), np.nan)
    if minuit.covariance is not None:
        inverse = np.array(minuit.covariance)
    sandwich = inverse @ likelihood.gradient_covariance(theta) @ inverse
    covariance = sandwich if any(likelihood.weighted) else inverse
    tables = _TableMaker(likelihood, theta, inverse)
    bias, remarks = judge_result(likelihood, theta, cure=CURE)
    result = MaximumLikelihood(
        theta=theta,
        covariance=covariance,
        log_likelihood=-float(minuit.fval),
        valid=valid,
        message=message,
        names=problem.names,
        sandwich=sandwich,
        notes=(*notes, *remarks),
        bias=bias,
        _profiler=Profiler(problem, theta, inverse, covariance, tables) if valid else None,
    )
    if minos and valid:
        ends = result.interval(ONE_SIGMA)
        result = dataclasses.replace(result, minos=ends - theta[:, None])
    return result
