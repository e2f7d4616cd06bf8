"""ln L of one data set as a JAX function of θ: with exact sums over its events, or with a table.

What depends on θ alone, rates and constraints, is always exact. Samplers, scans and limits take
either form. Build and call them inside `float64()`.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...compilation import compile_briefly
from ...cores import map_in_threads
from ...models.networks.two_tower import TwoTowerNetwork
from ...progress import Advance
from ..tables.event_table import EventTable
from .event_sum import SUM_PAIRS, Derivatives, EventSum, cut_in_chunks, embed_events, pad_rows
from .float64 import float64
from .rate import Rate

#: Points of one compiled call at least, where each costs next to nothing: few shapes, few programs.
FEWEST_POINTS = 1024
#: What two towers cost for one event at one θ, a product of two vectors, by other networks' cost.
TOWER_COST = 0.1


class ThetaTerms(eqx.Module):
    """Constraints and rates: the part of ln L that does not need the events one by one."""

    measured: Array
    precision: Array
    totals: tuple[Array, ...]
    rates: tuple[Rate | None, ...]
    indices: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """Their sum at θ."""
        value = -0.5 * jnp.sum(self.precision * (theta - self.measured) ** 2)
        for rate, total, indices in zip(self.rates, self.totals, self.indices, strict=True):
            if rate is not None:
                value = value + rate.log_term(theta[np.array(indices)], total)
        return value

    def derivatives(self, theta: Float[Array, " theta_dim"]) -> Derivatives:
        """Their sum with its gradient and Hessian."""
        return Derivatives(*jax.value_and_grad(self)(theta), jax.hessian(self)(theta))


class AbstractLogLikelihood(eqx.Module):
    """ln L of one data set as a JAX function of θ."""

    alone: eqx.AbstractVar[ThetaTerms]

    @abc.abstractmethod
    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln L(θ)."""

    @abc.abstractmethod
    def derivatives(self, theta: Float[Array, " theta_dim"]) -> Derivatives:
        """ln L(θ) with its gradient and Hessian."""

    @property
    @abc.abstractmethod
    def events_at_once(self) -> int:
        """Evaluations of members that one θ costs in one chunk; 0 for next to nothing."""

    def values(self, thetas: np.ndarray) -> np.ndarray:
        """ln L at many θ, shape (m,), in calls of a bounded size."""
        return map_points(call_likelihood, self, thetas, self.events_at_once)

    def values_alone(self, thetas: np.ndarray) -> np.ndarray:
        """Constraints and rates at many θ, shape (m,)."""
        return map_points(ThetaTerms.__call__, self.alone, thetas, 0)


class LogLikelihood(AbstractLogLikelihood):
    """With exact sums over the events of every channel.

    Attributes:
        alone: what does not need the events.
        sums: over the events of every channel.
        free: which parameters the sums are differentiated in; derivatives in the others are those
            of `alone`. None for all.
    """

    alone: ThetaTerms
    sums: tuple[EventSum, ...]
    free: tuple[bool, ...] | None = eqx.field(static=True, default=None)

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln L(θ)."""
        return self.alone(theta) + self.add_up(theta)

    def add_up(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """The sum over events alone."""
        value = jnp.zeros(())
        for add_up, indices in zip(self.sums, self.alone.indices, strict=True):
            value = value + add_up(theta[np.array(indices)])
        return value

    def derivatives(self, theta: Float[Array, " theta_dim"]) -> Derivatives:
        """ln L(θ) with its gradient and Hessian."""
        value, gradient, hessian = self.alone.derivatives(theta)
        for add_up, indices in zip(self.sums, self.alone.indices, strict=True):
            own = np.array(indices)
            inner = tuple(k for k, i in enumerate(indices) if self.free is None or self.free[i])
            part = add_up.derivatives(theta[own], inner)
            outer = own[list(inner)]
            value = value + part.value
            gradient = gradient.at[outer].add(part.gradient)
            hessian = hessian.at[np.ix_(outer, outer)].add(part.hessian)
        return Derivatives(value, gradient, hessian)

    def sum_events(self, thetas: np.ndarray, advance: Advance | None = None) -> np.ndarray:
        """The sum over events alone at many θ, shape (m,)."""
        return map_points(LogLikelihood.add_up, self, thetas, self.events_at_once, advance)

    def thin(self, most: int) -> "LogLikelihood":
        """ln L of at most so many events of each channel, with weights raised in proportion."""
        if all(add_up.weight.size <= most for add_up in self.sums):
            return self
        with float64():
            thinned = tuple(_thin(add_up, most) for add_up in self.sums)
            return LogLikelihood(self.alone, thinned, self.free)

    @property
    def evaluations(self) -> float:
        """Evaluations of networks of the usual kind that one θ costs."""
        return sum(add_up.weight.size * _pair_cost(add_up) for add_up in self.sums)

    @property
    def events_at_once(self) -> int:
        """Evaluations of members that one θ costs in one chunk."""
        return sum(add_up.weight.shape[1] * _members(add_up) for add_up in self.sums)


class TabulatedLikelihood(AbstractLogLikelihood):
    """With a polynomial of the free parameters in place of the sums over events."""

    alone: ThetaTerms
    table: EventTable
    free_indices: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln L(θ), with the fixed parameters where they were when the table was made."""
        return self.alone(theta) + self.table(theta[np.array(self.free_indices)])

    def derivatives(self, theta: Float[Array, " theta_dim"]) -> Derivatives:
        """ln L(θ) with its gradient and Hessian."""
        value, gradient, hessian = self.alone.derivatives(theta)
        own = np.array(self.free_indices)
        part = self.table.derivatives(theta[own])
        gradient = gradient.at[own].add(part.gradient)
        hessian = hessian.at[np.ix_(own, own)].add(part.hessian)
        return Derivatives(value + part.value, gradient, hessian)

    @property
    def events_at_once(self) -> int:
        """None: a table costs less than one event."""
        return 0


def _thin(add_up: EventSum, most: int) -> EventSum:
    """Every so many-th event, so that their order does not matter much."""
    weight = np.asarray(add_up.weight).ravel()
    used = np.flatnonzero(weight)
    kept = used[np.linspace(0, len(used) - 1, min(most, len(used))).astype(int)]
    x = np.asarray(add_up.x).reshape(len(weight), -1)[kept]
    raised = weight[kept] * (len(used) / max(1, len(kept)))
    chunks = cut_in_chunks(x[None])[0], cut_in_chunks(raised[None, :, None], 0.0)[0, ..., 0]
    return eqx.filter_jit(embed_events)(add_up.models, *map(jnp.asarray, chunks))


def _members(add_up: EventSum) -> int:
    every = [jax.tree.leaves(eqx.filter(model.network, eqx.is_array)) for model in add_up.models]
    return sum(leaves[0].shape[0] for leaves in every)


def _pair_cost(add_up: EventSum) -> float:
    """Of one event at one θ, in evaluations of networks of the usual kind."""
    towers = [isinstance(model.network, TwoTowerNetwork) for model in add_up.models]
    return _members(add_up) * (TOWER_COST if all(towers) else 1.0)


def call_likelihood(likelihood: AbstractLogLikelihood, theta: Array) -> Array:
    """ln L(θ), with −∞ where it is no number."""
    value = likelihood(theta)
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def map_points(
    function: Any,  # noqa: ANN401
    argument: Any,  # noqa: ANN401
    points: np.ndarray,
    events: int,
    advance: Advance | None = None,
) -> np.ndarray:
    """`function(argument, point)` of many points in float64, so many at a time as fit the bound.

    Args:
        function: of one point.
        argument: its first argument.
        points: shape (m, k).
        events: evaluations of networks that a point costs; 0 for what costs next to nothing.
        advance: is told how many points are done.
    """
    brief = events == 0
    least = FEWEST_POINTS if brief else 1
    size = min(max(1, SUM_PAIRS // max(1, events)), max(least, 1 << (len(points) - 1).bit_length()))
    compiled = compile_briefly(_map) if brief else eqx.filter_jit(_map)

    def evaluate(start: int) -> np.ndarray:
        part = np.asarray(points[start : start + size], np.float64)
        with float64():
            values = compiled(function, argument, jnp.asarray(pad_rows(part, size)))
            return np.asarray(values)[: len(part)]

    parts = []
    for part in map_in_threads(evaluate, range(0, len(points), size)):
        parts.append(part)
        if advance is not None:
            advance(len(part))
    return np.concatenate(parts) if parts else np.zeros(0)


def _map(function: Any, argument: Any, points: Array) -> Any:  # noqa: ANN401
    return jax.vmap(lambda point: function(argument, point))(points)


@eqx.filter_jit
def value_and_gradient(likelihood: AbstractLogLikelihood, theta: Array) -> tuple[Array, Array]:
    """ln L and its gradient, compiled."""
    return jax.value_and_grad(likelihood.__call__)(theta)


@eqx.filter_jit
def value_and_derivatives(likelihood: AbstractLogLikelihood, theta: Array) -> Derivatives:
    """ln L, its gradient and Hessian, compiled."""
    return likelihood.derivatives(theta)
