"""Examples in memory, as compiled steps take them, and an epoch of them in pieces."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from ...streams import Purpose, Stream
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


@dataclasses.dataclass(frozen=True)
class Piece:
    """What one compiled call trains on.

    Attributes:
        examples: events, of which those in `order` are used.
        order: their indices, −1 for padding, shape (steps, batch), or (members, steps, batch) where
            each has an order of its own.
        real: events in each batch, shape (steps,).
    """

    examples: Examples
    order: np.ndarray
    real: np.ndarray


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What decides on the pieces of an epoch.

    Attributes:
        seed: of the whole training.
        number: of the epoch.
        batch: events in a step.
        orders: None for an order shared by all members, otherwise how many there are.
        numbers: size of an example.
    """

    seed: int
    number: int
    batch: int
    orders: int | None
    numbers: int

    def rng(self, *more: int) -> np.random.Generator:
        """A random stream of its own."""
        return Stream(self.seed, Purpose.EPOCH_ORDER).generator(self.number, *more)

    def steps(self, bound: int) -> int:
        """Steps that keep the numbers of a call within `bound`."""
        return max(1, bound // (self.numbers * self.batch * (self.orders or 1)))

    def shuffle(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The rows in random order, in batches of which the last is padded; their real sizes."""
        batch, copies = self.batch, self.orders or 1
        steps = -(-len(rows) // batch)
        order = np.full((copies, steps * batch), -1, np.int32)
        for copy in range(copies):
            order[copy, : len(rows)] = rows[rng.permutation(len(rows))]
        order = order.reshape(copies, steps, batch)
        real = np.full(steps, batch, np.float32)
        real[-1] = len(rows) - (steps - 1) * batch
        return order[0] if self.orders is None else order, real
