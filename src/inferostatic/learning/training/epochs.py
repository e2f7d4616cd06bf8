"""An epoch in pieces: which events one compiled call trains on, and in which order."""

import dataclasses
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..dataset.mapped import Chunks, MappedExamples
from .steps import Examples

#: Numbers (features, candidates, …) that one compiled call may hold as supervised batches: of
#: events in memory, where a whole epoch is best, and of events in files, which are held as well
#: while the next ones are read.
BLOCK_NUMBERS, MAPPED_BLOCK_NUMBERS = 60_000_000, 20_000_000
#: Events in files that are read at a time, at most.
MAPPED_BLOCK_ROWS = 131_072


@dataclasses.dataclass(frozen=True)
class Piece:
    """What one compiled call trains on.

    Attributes:
        examples: events, of which those in `order` are used.
        order: their places, −1 for padding, shape (steps, batch), or (members, steps, batch) where
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
        return np.random.default_rng(np.random.SeedSequence([self.seed, 11, self.number, *more]))

    def steps(self, bound: int) -> int:
        """Steps that keep the numbers of a call within `bound`."""
        return max(1, bound // (self.numbers * self.batch * (self.orders or 1)))


def pieces_of(
    examples: Examples | MappedExamples, train: np.ndarray | Chunks, epoch: Epoch
) -> Generator[Piece]:
    """All training events once, in an order of their own for each epoch."""
    if isinstance(examples, MappedExamples):
        assert isinstance(train, Chunks)
        return _read_pieces(examples, train, epoch)
    assert isinstance(train, np.ndarray)
    return _pieces_in_memory(examples, train, epoch)


def _pieces_in_memory(examples: Examples, train: np.ndarray, epoch: Epoch) -> Generator[Piece]:
    """As many steps as fit the bound on memory: usually a whole epoch in one piece."""
    order, real = _shuffled(train, epoch, epoch.rng())
    block = epoch.steps(BLOCK_NUMBERS)
    for first in range(0, len(real), block):
        part = np.ascontiguousarray(order[..., first : first + block, :])
        yield Piece(examples, part, real[first : first + block])


def _read_pieces(examples: MappedExamples, train: Chunks, epoch: Epoch) -> Generator[Piece]:
    """Blocks of many chunks, shuffled; the next one is read while this one is trained on."""
    order = train.order(epoch.rng())
    steps = min(epoch.steps(MAPPED_BLOCK_NUMBERS), max(1, MAPPED_BLOCK_ROWS // epoch.batch))
    size = steps * epoch.batch

    def read(block: int) -> Piece:
        start = block * size
        rows = order.rows(start, min(start + size, len(train)))
        shuffled, real = _shuffled(np.arange(len(rows)), epoch, epoch.rng(block))
        return Piece(examples.take(rows), shuffled, real)

    return _ahead(read, -(-len(train) // size))


def _ahead(read: Callable[[int], Piece], count: int) -> Generator[Piece]:
    """Pieces 0, 1, …, each read while the one before is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="reading events") as reader:
        coming = reader.submit(read, 0)
        for number in range(count):
            piece = coming.result()
            if number + 1 < count:
                coming = reader.submit(read, number + 1)
            yield piece


def _shuffled(
    rows: np.ndarray, epoch: Epoch, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows in random order, cut into batches of which the last is padded; their real sizes."""
    batch, copies = epoch.batch, epoch.orders or 1
    steps = -(-len(rows) // batch)
    order = np.full((copies, steps * batch), -1, np.int32)
    for copy in range(copies):
        order[copy, : len(rows)] = rows[rng.permutation(len(rows))]
    order = order.reshape(copies, steps, batch)
    real = np.full(steps, batch, np.float32)
    real[-1] = len(rows) - (steps - 1) * batch
    return order[0] if epoch.orders is None else order, real
