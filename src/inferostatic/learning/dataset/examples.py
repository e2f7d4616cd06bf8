"""Examples in memory, in the form in which compiled steps take them."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int

from ...supervision.records import Row


class Examples(eqx.Module):
    """Training data: features of x, weights, and either fixed records or rows to supervise.

    Members that differ in their features have an axis of their own in front: see `own_features`.
    """

    features: Float[Array, "*members_and_n features"]
    weight: Float[Array, "*n"]
    records: Any
    rows: Row | None

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, index: Int[Array, "*shape"], *, own_features: bool = False) -> "Examples":
        """The examples at `index`, which may have any shape."""
        taken = jax.tree.map(
            lambda leaf: leaf[index], eqx.tree_at(lambda e: e.features, self, self.weight)
        )
        features = self.features[:, index] if own_features else self.features[index]
        return eqx.tree_at(lambda e: e.features, taken, features)
