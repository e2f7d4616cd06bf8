r"""The log likelihood of N events, \(\sum_i\varphi(x_i,\theta)\), in float64 and at any θ.

In float32 the rounding of θ is common to all events and adds up over them. What the network makes
of x alone is computed once; the rest is summed in chunks, so that memory does not grow with N.
Everything here runs inside `jax.enable_x64(True)`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...estimator.estimator import Estimator
from ...inputs import (
    Input,
    as_floats,
    kind_of,
)
from ...models.members import with_network
from ..arguments import as_observed
from .float64 import in_float64

#: Most events in one chunk of the sum, and most pairs of event and θ in one compiled call.
MOST_ROWS, MOST_PAIRS = 2048, 1 << 16


class SummedPotential(eqx.Module):
    """Σφ(x, θ) of fixed events as a function of one θ, averaged over members."""

    model: Any
    #: What `join` needs of the events: leading axes (members, chunks, rows of a chunk).
    parts: Any
    #: 1 for events and 0 for padding, shape (chunks, rows).
    counts: Array

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """Σφ at θ."""

        def member(network: object, parts: Any) -> Array:  # noqa: ANN401
            model = with_network(self.model, network)
            theta_part = model.embed_theta(theta)

            # Recomputed on the way back: a gradient would otherwise store every chunk.
            @jax.checkpoint
            def chunk(total: Array, one: tuple[Any, Array]) -> tuple[Array, None]:
                values = jax.vmap(model.join, in_axes=(0, None))(one[0], theta_part)
                return total + jnp.sum(jnp.where(one[1] > 0, values, 0.0)), None

            if len(self.counts) == 1:
                first = jax.tree.map(lambda leaf: leaf[0], (parts, self.counts))
                return chunk(jnp.zeros(()), first)[0]
            return jax.lax.scan(chunk, jnp.zeros(()), (parts, self.counts))[0]

        return jnp.mean(eqx.filter_vmap(member)(self.model.network, self.parts))


def potential_and_rows(estimator: object, x: Input, function: str) -> tuple[Estimator, np.ndarray]:
    """A potential and observed events, checked; one event may come without its axis."""
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"{function} needs a potential (ist.Estimator), which ist.fit(events, seed=…) trains "
            f"by default; got {kind_of(estimator)}."
        )
    array = as_floats(x, "x")
    if array.ndim == 1 and array.size == len(estimator.x_names) > 1:
        return estimator, as_observed(estimator, array[None])
    return estimator, as_observed(estimator, x)


def summed_potential(estimator: Estimator, rows: np.ndarray) -> SummedPotential:
    """Of checked events; call it within float64."""
    size = min(MOST_ROWS, 1 << (len(rows) - 1).bit_length())
    chunks = -(-len(rows) // size)
    padding = np.repeat(rows[-1:], chunks * size - len(rows), axis=0)
    # Rounded as everywhere else, so that Σφ is the sum of what `potential` gives.
    x = np.concatenate([rows, padding]).astype(np.float32).astype(np.float64)
    counts = (np.arange(chunks * size) < len(rows)).astype(np.float64)
    model = in_float64(estimator.model)
    return SummedPotential(
        model=model,
        parts=_embedded(model, jnp.asarray(x.reshape(chunks, size, -1))),
        counts=jnp.asarray(counts.reshape(chunks, size)),
    )


@eqx.filter_jit
def _embedded(model: Any, x: Array) -> Any:  # noqa: ANN401
    def member(network: object) -> Any:  # noqa: ANN401
        embed = jax.vmap(with_network(model, network).embed_x)
        return jax.lax.map(embed, x)

    return eqx.filter_vmap(member)(model.network)
