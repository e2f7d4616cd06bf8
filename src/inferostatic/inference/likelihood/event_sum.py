r"""Sums over events, \(\sum_i w_i\varphi(x_i,\theta)\): the one place where they are cut in chunks.

What the network makes of x alone is computed once (`embed_x`); the rest is summed chunk by chunk,
so that memory does not grow with the number of events. A sum is a JAX function of θ, from which
samplers and minimisers take gradients; single terms and tables of many θ are beside it. Everything
runs inside `float64()`, except tables in float32.
"""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...chunks import power_of_two
from ...cores import map_in_threads
from ...models.members import over_members, with_network
from ...models.potential import AbstractModel
from .float64 import as_models_read, float64

#: Events in one chunk of a sum.
CHUNK_EVENTS = 2048
#: Numbers that are kept of the embedded events, at most; beyond, events are embedded in every call.
MOST_EMBEDDED = 1 << 26
#: Pairs of event and θ in one block of a table: larger blocks leave the cache, and took up to five
#: times as long.
TABLE_PAIRS = 1 << 13
#: θ in one block of a table.
TABLE_POINTS = 128
#: Pairs of event and θ in one compiled call of a sum at many θ; larger calls leave the cache, and
#: took twice as long.
SUM_PAIRS = 1 << 13


class Derivatives(NamedTuple):
    """Value (), gradient (d,) and Hessian (d, d) of a function of θ."""

    value: Array
    gradient: Array
    hessian: Array


class EventSum(eqx.Module):
    """Σ w φ(x, θ) of fixed events as a function of one θ, averaged over models and members."""

    models: tuple[Any, ...]
    #: For each model its embedded events, axes (members, chunks, events of a chunk), or None.
    parts: tuple[Any, ...] | None
    #: Events, shape (chunks, events of a chunk, D).
    x: Array
    #: Weights, 0 for padding, shape (chunks, events of a chunk).
    weight: Array

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """The sum at θ."""

        def add_up(member: Any, part: Any, weight: Array, theta: Array) -> Array:  # noqa: ANN401
            if len(self.weight) == 1:
                return _chunk_sum(member, part, weight, theta)
            # Recomputed on the way back: a gradient would otherwise store every chunk.
            again = jax.checkpoint(lambda *chunk: _chunk_sum(member, *chunk))
            return again(part, weight, theta)

        total = jnp.zeros(())
        for number, model in enumerate(self.models):
            total = total + jnp.mean(self._over_chunks(model, number, add_up, theta))
        return total / len(self.models)

    def derivatives(self, theta: Float[Array, " theta_dim"], free: tuple[int, ...]) -> Derivatives:
        """The sum with its gradient and Hessian in the free components, k of them."""
        if not free:
            return Derivatives(self(theta), jnp.zeros(0), jnp.zeros((0, 0)))
        chosen = np.array(free, int)

        def differentiate(model: Any, part: Any, weight: Array, theta: Array) -> Derivatives:  # noqa: ANN401
            def add_up(values: Array) -> Array:
                return _chunk_sum(model, part, weight, theta.at[chosen].set(values))

            def twice(values: Array) -> tuple[Array, tuple[Array, Array]]:
                found = jax.value_and_grad(add_up)(values)
                return found[1], found

            hessian, (value, gradient) = jax.jacfwd(twice, has_aux=True)(theta[chosen])
            return Derivatives(value, gradient, hessian)

        return _average(
            [self._over_chunks(m, i, differentiate, theta) for i, m in enumerate(self.models)]
        )

    def _over_chunks(self, model: Any, number: int, function: Any, theta: Array) -> Any:  # noqa: ANN401
        """`function(model, part, weight, θ)` added up over chunks, for every member."""

        def of_member(network: object, part: Any) -> Any:  # noqa: ANN401
            member = with_network(model, network)

            def of_chunk(part: Any, x: Array, weight: Array) -> Any:  # noqa: ANN401
                embedded = jax.vmap(member.embed_x)(x) if part is None else part
                return function(member, embedded, weight, theta)

            def add(total: Any, chunk: Any) -> tuple[Any, None]:  # noqa: ANN401
                return jax.tree.map(jnp.add, total, of_chunk(*chunk)), None

            chunks = (part, self.x, self.weight)
            first = jax.tree.map(lambda leaf: leaf[0], chunks)
            if len(self.weight) == 1:
                return of_chunk(*first)
            shapes = eqx.filter_eval_shape(of_chunk, *first)
            zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.scan(add, zero, chunks)[0]

        if self.parts is None:
            return eqx.filter_vmap(of_member, in_axes=(eqx.if_array(0), None))(model.network, None)
        return eqx.filter_vmap(of_member)(model.network, self.parts[number])


def map_members(model: Any, function: Any) -> Any:  # noqa: ANN401
    """`function` of every member's model, a tree of arrays with a leading axis of members."""
    return eqx.filter_vmap(lambda network: function(with_network(model, network)))(model.network)


def _average(of_members: list[Any]) -> Any:  # noqa: ANN401
    """Over the members of each model, along the leading axis, and then over the models."""
    each = [jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), one) for one in of_members]
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *each)


def _chunk_sum(model: Any, part: Any, weight: Array, theta: Array) -> Array:  # noqa: ANN401
    theta_part = model.embed_theta(theta)
    values = jax.vmap(model.join, in_axes=(0, None))(part, theta_part)
    return jnp.sum(jnp.where(weight != 0, weight * values, 0.0))


def embed_events(models: tuple[Any, ...], x: Array, weight: Array) -> EventSum:
    """The sum over events of shape (chunks, events of a chunk, D), embedded if that is small."""

    def embed(model: Any) -> Any:  # noqa: ANN401
        return map_members(model, lambda member: jax.lax.map(jax.vmap(member.embed_x), x))

    shapes = eqx.filter_eval_shape(lambda: tuple(embed(model) for model in models))
    if sum(leaf.size for leaf in jax.tree.leaves(shapes)) > MOST_EMBEDDED:
        return EventSum(models, None, x, weight)
    return EventSum(models, tuple(embed(model) for model in models), x, weight)


def cut_in_chunks(rows: np.ndarray, padding: float | None = None) -> np.ndarray:
    """Rows of shape (sets, n, k) as (sets, chunks, events of a chunk, k).

    The last chunk is filled up with a number, or with the last row again by default. A power of two
    of events for small sets, so that few shapes are compiled.
    """
    sets, count, columns = rows.shape
    size = min(CHUNK_EVENTS, power_of_two(max(count, 1)))
    chunks = max(1, -(-count // size))
    missing = chunks * size - count
    last = rows[:, -1:] if count else np.zeros((sets, 1, columns))
    filling = np.repeat(last if padding is None else np.full_like(last, padding), missing, axis=1)
    return np.concatenate([rows, filling], axis=1).reshape(sets, chunks, size, columns)


class EventTerms:
    """φ(x, θ), or ln r(x; θ, reference), of every event with its θ-gradient, in float64."""

    models: tuple[Any, ...]
    count: int

    def __init__(
        self, models: tuple[Any, ...], x: np.ndarray, reference: np.ndarray | None = None
    ) -> None:
        self.models, self.count = models, len(x)
        with float64():
            self._chunks = jnp.asarray(as_models_read(cut_in_chunks(x[None])[0]))
            self._reference = None if reference is None else jnp.asarray(reference, jnp.float64)

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values, shape (n,), and gradients, shape (n, d)."""
        with float64():
            point = jnp.asarray(theta, jnp.float64)
            values, gradients = _terms(self.models, self._chunks, point, self._reference)
        flat = np.asarray(values).ravel(), np.asarray(gradients).reshape(-1, len(theta))
        return flat[0][: self.count], flat[1][: self.count]


@eqx.filter_jit
def _terms(
    models: tuple[AbstractModel, ...], chunks: Array, theta: Array, reference: Array | None
) -> tuple[Array, Array]:
    def of_member(member: Any) -> Any:  # noqa: ANN401
        def term(x: Array, theta: Array) -> Array:
            if reference is None:
                return member.potential(x, theta)
            return member.log_ratio(x, theta, reference)

        each = jax.vmap(jax.value_and_grad(term, argnums=1), in_axes=(0, None))
        return jax.lax.map(lambda x: each(x, theta), chunks)

    return _average([map_members(model, of_member) for model in models])


def tabulate(
    models: tuple[Any, ...], x: np.ndarray, thetas: np.ndarray, *, wide: bool
) -> np.ndarray:
    """φ of every event at every θ, shape (n, m), in float64 if `wide`, else in float32."""
    kind = np.float64 if wide else np.float32
    table = np.empty((len(x), len(thetas)), kind)
    points = min(len(thetas), TABLE_POINTS)
    rows = min(power_of_two(len(x)), max(16, TABLE_PAIRS // points // (1 + wide)))

    def fill(corner: tuple[int, int]) -> None:
        first, start = corner
        block = table[first : first + rows, start : start + points]
        with float64(wide):
            events = jnp.asarray(pad_rows(x[first : first + rows], rows), kind)
            some = jnp.asarray(pad_rows(thetas[start : start + points], points), kind)
            values = np.asarray(_table_block(models, events, some))
        block[:] = values[: block.shape[0], : block.shape[1]]

    corners = itertools.product(range(0, len(x), rows), range(0, len(thetas), points))
    for _ in map_in_threads(fill, list(corners)):
        pass
    return table


@eqx.filter_jit
def _table_block(models: tuple[AbstractModel, ...], x: Array, thetas: Array) -> Array:
    tables = [over_members(model, lambda member: member.grid(x, thetas)) for model in models]
    return sum(tables[1:], start=tables[0]) / len(tables)


def pad_rows(rows: np.ndarray, count: int) -> np.ndarray:
    """`count` rows, the last one repeated."""
    return np.concatenate([rows, np.repeat(rows[-1:], count - len(rows), axis=0)])
