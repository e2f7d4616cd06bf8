"""How much memory a model takes to answer for one row, read off its program without running it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .members import with_network
from .potential import AbstractModel


def vector(size: int) -> jax.ShapeDtypeStruct:
    """The shape of a vector in float32."""
    return jax.ShapeDtypeStruct((size,), jnp.float32)


def one_member(model: AbstractModel) -> Any:  # noqa: ANN401
    """The model with the shapes of a single member's arrays."""
    network = jax.tree.map(
        lambda leaf: (
            jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) if eqx.is_array(leaf) else leaf
        ),
        model.network,
    )
    return with_network(model, network)


def bytes_of(model: Any, question: str, *arguments: Any) -> int:  # noqa: ANN401
    """Bytes of all that is computed for each of many rows, read off the traced program."""

    def of_rows(count: int) -> int:
        rows = jax.tree.map(
            lambda one: jax.ShapeDtypeStruct((count, *one.shape), one.dtype), arguments
        )
        traced = eqx.filter_make_jaxpr(lambda m, *r: jax.vmap(getattr(m, question))(*r))
        return _bytes_in(traced(model, *rows)[0].jaxpr)

    # The difference leaves out what does not grow with the rows.
    return max(1, of_rows(2) - of_rows(1))


def _bytes_in(program: Any) -> int:  # noqa: ANN401
    total = 0
    for step in program.eqns:
        inner = [getattr(value, "jaxpr", value) for value in step.params.values()]
        inner = [value for value in inner if getattr(value, "eqns", None) is not None]
        results = [] if inner else [value.aval for value in step.outvars]
        total += sum(_bytes_in(value) for value in inner)
        total += sum(value.size * value.dtype.itemsize for value in results)
    return total
