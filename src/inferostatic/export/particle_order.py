"""Particles without a sort, which few programs for networks know.

A deep set needs no order: the model sorts particles only so that its sums round in the same way in
whatever order they came. Other networks do need it, and get it by counting, for each particle, how
many come before it.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..models.features.feature_map import AbstractFeatureMap
from ..models.features.per_particle import PerParticleMap
from ..models.networks.particle_set import ParticleNetwork


class ParticlesByRank(AbstractFeatureMap):
    """`PerParticleMap` in other operations: the order it makes, or none where none is needed."""

    plain: PerParticleMap
    needs_order: bool = eqx.field(static=True)

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " features"]:
        """The features of one event."""
        return self.plain.arrange(value, rank_rows if self.needs_order else lambda rows: rows)


def rank_rows(rows: Float[Array, "particles width"]) -> Float[Array, "particles width"]:
    """The rows in the order of `sort_rows`, by a product with a permutation matrix."""
    count, width = rows.shape
    mine, other = rows[:, None], rows[None, :]
    # Rows that agree in all columns keep the order in which they came.
    before = jnp.asarray(np.tri(count, k=-1), rows.dtype)
    for column in range(width):
        larger = jnp.where(other[..., column] > mine[..., column], 1.0, 0.0)
        before = jnp.where(other[..., column] == mine[..., column], before, larger)
    rank = jnp.sum(before, axis=1)
    place = jnp.where(rank[None] == jnp.arange(count, dtype=rows.dtype)[:, None], 1.0, 0.0)
    return place @ rows


def in_any_order(model: Any) -> Any:  # noqa: ANN401
    """The same model of particles without a sort."""
    needs_order = not isinstance(model.network, ParticleNetwork)
    features = ParticlesByRank(model.x_features, needs_order)
    return eqx.tree_at(lambda m: m.x_features, model, features)
