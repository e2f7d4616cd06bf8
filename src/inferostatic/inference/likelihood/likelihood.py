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
from ...inputs import (
    Input,
    as_floats,
    as_rows,
    column_names,
    kind_of,
    require_finite,
    require_order,
)
from ...weights import effective_size
from ..arguments import as_observed, as_weight, values_by_name
from .constraints import Constraints, read_constraints
from .event_sum import EventTerms
from .float64 import float64
from .model import (
    Channel,
    DataSets,
    LikelihoodModel,
    LogLikelihood,
    value_and_derivatives,
    value_and_gradient,
)
from .rate import read_rate
from .second_derivatives import differentiate_gradient, find_jump

Estimators = Estimator | Sequence[Estimator]
Pairs = Mapping[str, tuple[float, float]]


class Likelihood:
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
        fixed: parameters that are held, {"name": value}.
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
        self.model, self.data, self.weighted = made.model, made.data, made.weighted
        self.bounds = made.bounds
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
        """The same with some parameters held: `likelihood.fix(a=1.5)`."""
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
        changed = self._copy()
        changed._constrain(
            Constraints(
                np.where(given, added.mean, ours.mean),
                np.where(given, added.precision, ours.precision),
            )
        )
        return changed

    def value(self, theta: Input) -> float:
        """ln L at one θ, shape (d,)."""
        return float(self.values(self._point(theta)[None])[0])

    def values(self, thetas: Input) -> np.ndarray:
        """ln L at many θ, shape (m, d) to (m,), summed in float64; −∞ where it is no number."""
        require_order(column_names(thetas), self.names, "thetas")
        points = as_rows(thetas, "thetas", columns=len(self.names), of="parameters")
        require_finite(points, "thetas", "Give finite parameters.")
        return self.function.values(np.asarray(points, np.float64))

    def gradient(self, theta: Input) -> np.ndarray:
        """∇ ln L at one θ, shape (d,)."""
        return self.value_and_gradient(self._point(theta))[1]

    def hessian(self, theta: Input) -> np.ndarray:
        """∇∇ ln L at one θ, shape (d, d).

        By automatic differentiation, or by differences of the gradient where the slope of an
        activation jumps and automatic second derivatives would be wrong.
        """
        point = self._point(theta)
        if all(find_jump(estimator) == "" for estimator in self.estimators):
            with float64():
                found = value_and_derivatives(self.function, jnp.asarray(point))
                return np.asarray(found.hessian)

        def gradient(at: np.ndarray) -> np.ndarray:
            return self.value_and_gradient(at)[1]

        return differentiate_gradient(gradient, point, self.region)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """ln L and its gradient at one θ of shape (d,), which is not checked; a bad rate raises."""
        with float64():
            found = value_and_gradient(self.function, jnp.asarray(theta, jnp.float64))
            value, gradient = float(found[0]), np.asarray(found[1])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self._check_rates(theta)
        return value, gradient

    def per_event(self, theta: Input) -> np.ndarray:
        """w φ(x, θ) of every event, one channel after the other, shape (n,)."""
        return np.concatenate([w * phi for w, (phi, _) in self._terms(self._point(theta))])

    def scores(self, theta: Input) -> np.ndarray:
        """w ∇φ(x, θ) of every event, one channel after the other, shape (n, d)."""
        parts = []
        each = zip(self._terms(self._point(theta)), self.model.channels, strict=True)
        for (weight, (_, score)), channel in each:
            whole = np.zeros((len(score), len(self.names)))
            whole[:, list(channel.indices)] = weight[:, None] * score
            parts.append(whole)
        return np.concatenate(parts)

    def gradient_covariance(self, theta: np.ndarray) -> np.ndarray:
        """Covariance of ∇ ln L over repetitions, estimated from the events themselves, (d, d).

        Σ w² g gᵀ with g the score of an event; of a Poisson number of events where there is a rate,
        plus the precision of the constraints, which stand for other measurements.
        """
        total = np.diag(self.model.constraints.precision)
        for (weight, (_, score)), channel in zip(
            self._terms(theta), self.model.channels, strict=True
        ):
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
        parts = zip(self.model.channels, self.data.weight, self.weighted, strict=True)
        several = len(self.model.channels) > 1
        for number, (_, weights, weighted) in enumerate(parts):
            weight = weights[0]
            line = f"{len(weight)} event{'' if len(weight) == 1 else 's'}"
            if weighted:
                line += (
                    f" of total weight {weight.sum():.5g}, as good as "
                    f"{effective_size(weight):.4g} unweighted ones"
                )
            lines.append(f"channel {number + 1}: {line}" if several else line)
        return ["; ".join(lines), *self.describe_restrictions()]

    def describe_restrictions(self) -> list[str]:
        """Fixed parameters, bounds and constraints, a line for each that there are any of."""
        held = [f"{self.names[i]} = {self.low[i]:.5g}" for i in np.flatnonzero(~self.free)]
        cut = [
            f"{self.names[i]} from {self.low[i]:.5g} to {self.high[i]:.5g}"
            for i in np.flatnonzero(self.free & np.isfinite(self.bounds).any(axis=0))
        ]
        lines = [
            f"{what}: {', '.join(each)}"
            for what, each in (("fixed", held), ("bounds", cut))
            if each
        ]
        constrained = self.model.constraints.describe(self.names)
        return [*lines, constrained] if constrained else lines

    def describe_rates(self, theta: np.ndarray) -> list[str]:
        """Expected and observed numbers of the channels that have a rate."""
        lines = []
        for channel, weight in zip(self.model.channels, self.data.weight, strict=True):
            if channel.rate is not None:
                how = (
                    "automatic differentiation"
                    if channel.rate.traceable
                    else "finite differences, as JAX cannot trace the function"
                )
                lines.append(
                    f"Poisson term: {channel.expected(theta)[0]:.5g} expected, "
                    f"{weight.sum():.5g} observed; slope by {how}"
                )
        return lines

    def __add__(self, other: "Likelihood") -> "Likelihood":
        """Both data sets together, as independent channels that share parameters by name."""
        if not isinstance(other, Likelihood):
            return NotImplemented
        return _join(self, other)

    def __repr__(self) -> str:
        """Data and parameters, in a line."""
        free = [name for name, is_free in zip(self.names, self.free, strict=True) if is_free]
        return f"Likelihood({', '.join(free)}; {'; '.join(self.describe())})"

    @property
    def region(self) -> tuple[np.ndarray, np.ndarray]:
        """The trained region of all channels, without bounds and fixed values."""
        low, high = np.full(len(self.names), -np.inf), np.full(len(self.names), np.inf)
        for channel in self.model.channels:
            own = list(channel.indices)
            for estimator in channel.estimators:
                low[own] = np.maximum(low[own], estimator.region.theta_low)
                high[own] = np.minimum(high[own], estimator.region.theta_high)
        return low, high

    def _terms(self, theta: np.ndarray) -> list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
        """Weights, φ and scores of the events of every channel."""
        parts = zip(self._event_terms, self.model.channels, self.data.weight, strict=True)
        return [(w[0], terms(theta[list(channel.indices)])) for terms, channel, w in parts]

    @cached_property
    def _event_terms(self) -> list[EventTerms]:
        channels = zip(self.model.channels, self.data.x, strict=True)
        return [EventTerms(channel.wide_models, x[0]) for channel, x in channels]

    def _point(self, theta: Input) -> np.ndarray:
        require_order(column_names(theta), self.names, "theta")
        point = np.asarray(as_floats(theta, "theta"), np.float64)
        if point.shape != (len(self.names),):
            raise ValueError(
                f"theta must be one point with a value for each of {', '.join(self.names)}; got "
                f"shape {point.shape}."
            )
        if not np.isfinite(point).all():
            raise ValueError(f"theta must be finite; got {point.tolist()}.")
        return point

    def _check_rates(self, theta: np.ndarray) -> None:
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
        self.__dict__.pop("function", None)

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


def as_estimators(
    estimator: object, kinds: tuple[type[AbstractEstimator], ...], need: str
) -> tuple[Any, ...]:
    """One estimator or several of the given kinds, with the same observables and parameters."""
    every: tuple[Any, ...]
    every = tuple(estimator) if isinstance(estimator, list | tuple) else (estimator,)
    for one in every:
        if not isinstance(one, kinds):
            raise TypeError(
                f"{need} ({' or '.join(f'ist.{kind.__name__}' for kind in kinds)}), which "
                f"ist.fit(events, seed=…) trains by default; got {kind_of(one)}."
            )
    if not every:
        raise ValueError(f"{need}; got an empty list.")
    for one in every[1:]:
        if (one.x_names, one.theta_names) != (every[0].x_names, every[0].theta_names):
            raise ValueError("the estimators differ in their observables or parameters.")
    return every


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
    regions = [one.region for one in estimators]
    low = np.max([np.asarray(region.theta_low, np.float64) for region in regions], axis=0)
    high = np.min([np.asarray(region.theta_high, np.float64) for region in regions], axis=0)
    # No event at all is a measurement where the number counts.
    rows = as_observed(estimators[0], x, may_be_empty=rate is not None)
    weights = as_weight(weight, len(rows))
    expected = None if rate is None else read_rate(rate, low, high)
    channel = Channel(estimators, expected, tuple(range(len(names))))
    nothing = Constraints(np.zeros(len(names)), np.zeros(len(names)))
    model = LikelihoodModel((channel,), names, low, high, nothing)
    data = DataSets((rows[None],), (weights[None],), nothing.mean[None])
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
    made.__dict__.update(cached or {})
    made.model, made.data, made.weighted, made.bounds = model, data, weighted, bounds
    return made


def _join(one: Likelihood, two: Likelihood) -> Likelihood:
    """The sum of two log likelihoods."""
    names = (*one.names, *(name for name in two.names if name not in one.names))
    size = len(names)
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    mean, precision = np.zeros(size), np.zeros(size)
    bounds = np.full((2, size), np.nan)
    held = np.zeros(size, bool)
    channels: list[Channel] = []
    for part in (one, two):
        own = np.array([names.index(name) for name in part.names])
        low[own], high[own] = np.maximum(low[own], part.low), np.minimum(high[own], part.high)
        held[own] |= ~part.free
        bounds[0, own] = np.fmax(bounds[0, own], part.bounds[0])
        bounds[1, own] = np.fmin(bounds[1, own], part.bounds[1])
        theirs = part.model.constraints
        for index, m, p in zip(own, theirs.mean, theirs.precision, strict=True):
            if p > 0 and precision[index] > 0 and (m, p) != (mean[index], precision[index]):
                raise ValueError(
                    f"both likelihoods constrain {names[index]}, to different values. One "
                    "measurement must be given the same in both (it counts once); combine two "
                    "measurements beforehand and give the result in one."
                )
            if p > 0:
                mean[index], precision[index] = m, p
        for channel in part.model.channels:
            indices = tuple(int(own[i]) for i in channel.indices)
            channels.append(Channel(channel.estimators, channel.rate, indices))
    # Regions that only touch would fix a parameter that nobody fixed.
    empty = (low > high) | ((low == high) & ~held)
    if empty.any():
        raise ValueError(
            f"the regions, bounds or fixed values of {', '.join(np.array(names)[empty])} do not "
            "overlap, so the likelihoods cannot be added."
        )
    constraints = Constraints(mean, precision)
    data = DataSets(one.data.x + two.data.x, one.data.weight + two.data.weight, mean[None])
    model = LikelihoodModel(tuple(channels), names, low, high, constraints)
    _require_free(model)
    return _assemble(model, data, one.weighted + two.weighted, bounds)
