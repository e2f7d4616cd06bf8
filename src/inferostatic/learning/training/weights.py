"""Networks as rows of flat weights, one for each member."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ...models.architecture import AbstractArchitecture, Shapes
from ...models.members import with_network
from ...models.potential import AbstractModel
from ...streams import Purpose, Stream


def derive_member_key(seed: int, member: int) -> Array:
    """From which a member's initial weights are drawn."""
    return Stream(seed, Purpose.WEIGHTS).key(member)


def draw_weights(
    architecture: AbstractArchitecture, shapes: Shapes, keys: Sequence[Array] | Array
) -> tuple[AbstractModel, Array]:
    """A model of one member as a template, and initial weights, one row for each key."""
    built = [architecture.build(shapes, key=key) for key in keys]
    parts = [eqx.filter(model.network, eqx.is_inexact_array) for model in built]
    return built[0], jnp.stack([ravel_pytree(part)[0] for part in parts])


def extract_weights(model: AbstractModel) -> tuple[AbstractModel, Array]:
    """The same of a model of several members, whose arrays have an axis of members in front."""
    # The first member as it is: a new build could differ in arrays that are not trained.
    first = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, model.network)
    networks = eqx.filter(model.network, eqx.is_inexact_array)
    return with_network(model, first), jax.vmap(lambda n: ravel_pytree(n)[0])(networks)


def insert_weights(template: AbstractModel, weights: Array) -> AbstractModel:
    """The template with the members' weights stacked."""
    arrays, static = eqx.partition(template.network, eqx.is_inexact_array)
    # Arrays that are not trained, such as integer buffers, are repeated for every member.
    static = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(weights)) if eqx.is_array(leaf) else leaf, static
    )
    stacked = jax.vmap(ravel_pytree(arrays)[1])(weights)
    return with_network(template, eqx.combine(stacked, static))
