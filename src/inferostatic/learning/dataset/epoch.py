"""An epoch in pieces: which events one compiled call trains on, and in which order."""

import dataclasses

import numpy as np

from ...streams import Purpose, Stream
from .examples import Examples


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
