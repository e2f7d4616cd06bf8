r"""`Likelihood`: ln L(θ) of observed events, with everything that restricts θ.

It is put together once, and every function of inference takes it. For events with weights w, a
rate ν and constraints (m, σ)
\[\ln L(\theta)=\sum_iw_i\varphi(x_i,\theta)+W\ln\nu(\theta)-\nu(\theta)
  -\frac12\sum_k\Big(\frac{\theta_k-m_k}{\sigma_k}\Big)^2,\]
up to a constant. Two likelihoods add: channels that share parameters by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...estimator.estimator import AbstractEstimator, Estimator
from ...inputs import Input, as_floats, as_rows, column_names, require_finite, require_order
from ...summary import AbstractSummarised, Summary, SummaryTable, count, list_names
from ...weights import effective_size
from ..arguments import (
    as_estimators,
    as_observed,
    as_weight,
    common_region,
    read_point,
    values_by_name,
)
from .constraints import Constraints, read_constraints
from .event_sum import EventTerms
from .float64 import float64
from .joint_model import join_models
from .log_likelihood import LogLikelihood, value_and_derivatives, value_and_gradient
from .model import Channel, DataSets, LikelihoodModel
from .rate import read_rate
from .second_derivatives import differentiate_gradient, find_jump

Estimators = Estimator | Sequence[Estimator]
Pairs = Mapping[str, tuple[float, float]]


class Likelihood(AbstractSummarised):
    """The likelihood of a data set: estimator, events, rate, constraints, fixed parameters, bounds.

    Args:
        estimator: a trained potential or density; or several that were trained on different events
            (`ist.cross_fit`), whose potentials are averaged.
        x: observed events, shape (n, D), all made at one unknown θ; one event may have shape (D,).
            With a rate there may be none, shape (0, D).
        weight: one weight for each event, of either sign.
        rate: expected number of events ν(θ), a function of θ of shape (d,); the observed number, or
            the sum of weights, then counts too (extended likelihood). Its slopes are JAX's where
            the function can be traced, numerical where not.
        constraints: measurements of single parameters made elsewhere, {"name": (mean, sd)}.
            Nuisance parameters are parameters like the others: constrain and profile them.
        fixed: parameters that are fixed, {"name": value}.
        bounds: physical bounds inside the trained region, {"name": (low, high)}.
    """

    model: LikelihoodModel
    data: DataSets
    #: Whether the events of each channel have weights.
    weighted: tuple[bool, ...]
    #: Edges that the user set, NaN elsewhere: a posterior may reach beyond the trained region.
    bounds: np.ndarray

    def __init__(
        self,
        estimator: Estimators,
        x: Input,
        *,
        weight: Input | None = None,
        rate: Callable[[Any], Any] | None = None,
        constraints: Pairs | None = None,
        fixed: Mapping[str, float] | None = None,
        bounds: Pairs | None = None,
    ) -> None:
        made = build_likelihood(
            estimator, x, (Estimator,), "a likelihood needs a potential", weight=weight, rate=rate
        )
        vars(self).update(made.__dict__)
        self._constrain(read_constraints(constraints, self.names))
        self._cut(values_by_name(bounds, self.names, "bounds"))
        self._hold(values_by_name(fixed, self.names, "fixed"))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.model.names

    @property
    def low(self) -> np.ndarray:
        """Lower edges of the trained region, cut by the bounds; the value of a fixed parameter."""
        return self.model.low

    @property
    def high(self) -> np.ndarray:
        """Upper edges, likewise."""
        return self.model.high

    @property
    def free(self) -> np.ndarray:
        """Which parameters are not fixed, shape (d,)."""
        return self.model.free

    @property
    def events(self) -> int:
        """Number of observed events, in all channels."""
        return self.data.events

    @property
    def estimators(self) -> tuple[AbstractEstimator, ...]:
        """The estimators of all channels."""
        return tuple(one for channel in self.model.channels for one in channel.estimators)

    def fix(self, **values: float) -> "Likelihood":
        """The same with some parameters fixed: `likelihood.fix(a=1.5)`."""
        changed = self._copy()
        changed._hold(values_by_name(values, self.names, "fix"))
        return changed

    def bound(self, **pairs: tuple[float, float]) -> "Likelihood":
        """The same with physical bounds: `likelihood.bound(a=(0, 2))`."""
        changed = self._copy()
        changed._cut(values_by_name(pairs, self.names, "bound"))
        return changed

    def constrain(self, **pairs: tuple[float, float]) -> "Likelihood":
        """The same with measurements of parameters, (mean, sd), in place of earlier ones."""
        ours, added = self.model.constraints, read_constraints(pairs, self.names)
        given = added.precision > 0
        mean = np.where(given, added.mean, ours.mean)
        precision = np.where(given, added.precision, ours.precision)
        changed = self._copy()
        changed._constrain(Constraints(mean, precision))
        return changed

    def value(self, theta: Input) -> float:
        """ln L at one θ, shape (d,)."""
        return float(self.values(read_point(theta, self.names)[None])[0])

    def values(self, thetas: Input) -> np.ndarray:
        """ln L at many θ, shape (m, d) to (m,), summed in float64; −∞ where it is no number."""
        require_order(column_names(thetas), self.names, "thetas")
        points = as_rows(thetas, "thetas", columns=len(self.names), of="parameters")
        require_finite(points, "thetas", "Give finite parameters.")
        return self.function.values(np.asarray(points, np.float64))

    def gradient(self, theta: Input) -> np.ndarray:
        """∇ ln L at one θ, shape (d,)."""
        return self.value_and_gradient(read_point(theta, self.names))[1]

    def hessian(self, theta: Input) -> np.ndarray:
        """∇∇ ln L at one θ, shape (d, d).

        By automatic differentiation, or by differences of the gradient where the slope of an
        activation jumps and automatic second derivatives would be wrong.
        """
        point = read_point(theta, self.names)
        if self.smooth:
            with float64():
                found = value_and_derivatives(self.function, jnp.asarray(point))
                return np.asarray(found.hessian)
        return differentiate_gradient(self.value_and_gradient, point, self.region)

    @cached_property
    def smooth(self) -> bool:
        """Whether automatic second derivatives are known to be right."""
        return all(find_jump(estimator) == "" for estimator in self.estimators)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """ln L and its gradient at one θ of shape (d,); a bad rate raises."""
        theta = read_point(theta, self.names)
        with float64():
            found = value_and_gradient(self.function, jnp.asarray(theta, jnp.float64))
            value, gradient = float(found[0]), np.asarray(found[1])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self.check_rates(theta)
        return value, gradient

    def per_event(self, theta: Input) -> np.ndarray:
        """w φ(x, θ) of every event, one channel after the other, shape (n,)."""
        terms = self._terms(read_point(theta, self.names))
        return np.concatenate([weight * phi for weight, (phi, _) in terms])

    def scores(self, theta: Input) -> np.ndarray:
        """w ∇φ(x, θ) of every event, one channel after the other, shape (n, d)."""
        terms, parts = self._terms(read_point(theta, self.names)), []
        for (weight, (_, score)), channel in zip(terms, self.model.channels, strict=True):
            parts.append(np.zeros((len(score), len(self.names))))
            parts[-1][:, list(channel.indices)] = weight[:, None] * score
        return np.concatenate(parts)

    def gradient_covariance(self, theta: np.ndarray) -> np.ndarray:
        """Covariance of ∇ ln L over repetitions, estimated from the events themselves, (d, d).

        Σ w² g gᵀ with g the score of an event; of a Poisson number of events where there is a rate,
        plus the precision of the constraints, which stand for other measurements.
        """
        theta = read_point(theta, self.names)
        total = np.diag(self.model.constraints.precision)
        terms = self._terms(theta)
        for (weight, (_, score)), channel in zip(terms, self.model.channels, strict=True):
            own = list(channel.indices)
            if channel.rate is not None:
                expected, slope = channel.rate.value_and_slope(theta[own])
                score = score + slope / expected
            each = weight[:, None] * score
            total[np.ix_(own, own)] += each.T @ each
        return total

    @cached_property
    def function(self) -> LogLikelihood:
        """ln L as a JAX function of θ in float64, for minimisers and samplers."""
        return self.model.log_likelihood(self.data)

    def describe(self) -> list[str]:
        """The data and what restricts θ, in a few lines."""
        lines = []
        for (weight,), weighted in zip(self.data.weight, self.weighted, strict=True):
            line = f"{len(weight)} event{'' if len(weight) == 1 else 's'}"
            if weighted:
                line += (
                    f" of total weight {weight.sum():.5g}, as good as "
                    f"{effective_size(weight):.4g} unweighted ones"
                )
            lines.append(line)
        if len(lines) > 1:
            lines = [f"channel {number}: {line}" for number, line in enumerate(lines, 1)]
        return ["; ".join(lines), *self.describe_restrictions()]

    def describe_restrictions(self) -> list[str]:
        """Fixed parameters, bounds and constraints, a line for each that there are any of."""
        fixed = [f"{self.names[i]} = {self.low[i]:.5g}" for i in np.flatnonzero(~self.free)]
        bounded = [
            f"{self.names[i]} from {self.low[i]:.5g} to {self.high[i]:.5g}"
            for i in np.flatnonzero(self.free & np.isfinite(self.bounds).any(axis=0))
        ]
        lines = [
            f"fixed: {', '.join(fixed)}" if fixed else "",
            f"bounds: {', '.join(bounded)}" if bounded else "",
            self.model.constraints.describe(self.names),
        ]
        return [line for line in lines if line]

    def describe_rates(self, theta: np.ndarray) -> list[str]:
        """Expected and observed numbers of the channels that have a rate."""
        lines = []
        for channel, weight in zip(self.model.channels, self.data.weight, strict=True):
            if channel.rate is not None:
                how = "finite differences, as JAX cannot trace the function"
                how = "automatic differentiation" if channel.rate.traceable else how
                lines.append(
                    f"Poisson term: {channel.expected(theta)[0]:.5g} expected, "
                    f"{weight.sum():.5g} observed; slope by {how}"
                )
        return lines

    def __add__(self, other: "Likelihood") -> "Likelihood":
        """Both data sets together, as independent channels that share parameters by name."""
        if not isinstance(other, Likelihood):
            return NotImplemented
        model = join_models(self.model, other.model)
        _require_free(model)
        bounds = np.full((2, len(model.names)), np.nan)
        for part in (self, other):
            own = [model.names.index(name) for name in part.names]
            bounds[0, own] = np.fmax(bounds[0, own], part.bounds[0])
            bounds[1, own] = np.fmin(bounds[1, own], part.bounds[1])
        x, weight = self.data.x + other.data.x, self.data.weight + other.data.weight
        data = DataSets(x, weight, model.constraints.mean[None])
        return _assemble(model, data, self.weighted + other.weighted, bounds)

    def __repr__(self) -> str:
        """Data and parameters, in a line."""
        free = [name for name, is_free in zip(self.names, self.free, strict=True) if is_free]
        return f"Likelihood({list_names(free)}; {'; '.join(self.describe())})"

    def _summarise(self) -> Summary:
        columns = {
            "parameter": list(self.names),
            "from": [f"{value:.5g}" for value in self.low],
            "to": [f"{value:.5g}" for value in self.high],
            "": ["" if is_free else "fixed" for is_free in self.free],
        }
        title = f"Likelihood of {count(len(self.names), 'parameter')}"
        return Summary(title, (SummaryTable(columns), *self.describe()))

    @property
    def region(self) -> tuple[np.ndarray, np.ndarray]:
        """The trained region of all channels, without bounds and fixed values."""
        low, high = np.full(len(self.names), -np.inf), np.full(len(self.names), np.inf)
        for channel in self.model.channels:
            own = list(channel.indices)
            first, last = common_region(channel.estimators)
            low[own], high[own] = np.maximum(low[own], first), np.minimum(high[own], last)
        return low, high

    def _terms(self, theta: np.ndarray) -> list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
        """Weights, φ and scores of the events of every channel."""
        parts = zip(self._event_terms, self.model.channels, self.data.weight, strict=True)
        return [(w[0], terms(theta[list(channel.indices)])) for terms, channel, w in parts]

    @cached_property
    def _event_terms(self) -> list[EventTerms]:
        channels = zip(self.model.channels, self.data.x, strict=True)
        return [EventTerms(channel.wide_models, x[0]) for channel, x in channels]

    def check_rates(self, theta: np.ndarray) -> None:
        """Raise where a rate is no positive number."""
        for channel in self.model.channels:
            if channel.rate is not None:
                channel.expected(theta)

    def _copy(self) -> "Likelihood":
        """The same data, whose compiled sums are shared."""
        return _assemble(self.model, self.data, self.weighted, self.bounds, self.__dict__)

    def _constrain(self, constraints: Constraints) -> None:
        self.model = replace(self.model, constraints=constraints)
        self.data = replace(self.data, measured=constraints.mean[None])
        vars(self).pop("function", None)

    def _cut(self, bounds: Mapping[str, Any]) -> None:
        low, high, edges = self.low.copy(), self.high.copy(), self.bounds.copy()
        region = self.region
        for name, pair in bounds.items():
            index = self.names.index(name)
            first, last = region[0][index], region[1][index]
            values = as_floats(pair, f"the bounds of {name}")
            if values.shape != (2,) or not first <= values[0] < values[1] <= last:
                raise ValueError(
                    f"the bounds of {name} must be a pair (low, high) in the trained region, "
                    f"{first:.5g} to {last:.5g}; got {pair!r}."
                )
            edges[:, index] = values
            if self.free[index]:
                low[index], high[index] = values
            elif not values[0] <= low[index] <= values[1]:
                raise ValueError(
                    f"{name} is fixed at {low[index]:.5g}, outside its bounds {pair!r}; fix it at "
                    "another value or change the bounds."
                )
        self.model, self.bounds = replace(self.model, low=low, high=high), edges

    def _hold(self, fixed: Mapping[str, Any]) -> None:
        theta = self.low.copy()
        # A parameter that is fixed already may be fixed again, anywhere it was free.
        region = self.region
        low, high = np.fmax(region[0], self.bounds[0]), np.fmin(region[1], self.bounds[1])
        for name, value in fixed.items():
            index = self.names.index(name)
            number = as_floats(value, f"the fixed value of {name}")
            if number.shape != () or not low[index] <= number <= high[index]:
                raise ValueError(
                    f"the fixed value of {name} must lie in the trained region, "
                    f"{low[index]:.5g} to {high[index]:.5g}; got {value!r}."
                )
            theta[index] = float(number)
        self.model = self.model.hold([self.names.index(name) for name in fixed], theta)
        _require_free(self.model)


def _require_free(model: LikelihoodModel) -> None:
    if not model.free.any():
        raise ValueError("every parameter is fixed, so nothing is left to fit; free at least one.")


def build_likelihood(
    estimator: object,
    x: Input,
    kinds: tuple[type[AbstractEstimator], ...],
    need: str,
    *,
    weight: Input | None = None,
    rate: object = None,
) -> Likelihood:
    """A likelihood of one channel, from estimators of the given kinds."""
    estimators = as_estimators(estimator, kinds, need)
    names = estimators[0].theta_names
    low, high = common_region(estimators)
    # No event at all is a measurement where the number counts.
    rows = as_observed(estimators[0], x, may_be_empty=rate is not None)
    weights = as_weight(weight, len(rows))
    expected = None if rate is None else read_rate(rate, low, high)
    channel = Channel(estimators, expected, tuple(range(len(names))))
    unconstrained = Constraints(np.zeros(len(names)), np.zeros(len(names)))
    model = LikelihoodModel((channel,), names, low, high, unconstrained)
    data = DataSets((rows[None],), (weights[None],), unconstrained.mean[None])
    return _assemble(model, data, (weight is not None,), np.full((2, len(names)), np.nan))


def _assemble(
    model: LikelihoodModel,
    data: DataSets,
    weighted: tuple[bool, ...],
    bounds: np.ndarray,
    cached: Mapping[str, Any] | None = None,
) -> Likelihood:
    """A likelihood of parts that were checked before."""
    made = object.__new__(Likelihood)
    vars(made).update(cached or {})
    made.model, made.data, made.weighted, made.bounds = model, data, weighted, bounds
    return made
