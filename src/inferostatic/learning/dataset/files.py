"""Events that stay in their files: which rows are trained on when, and how they are read.

A file is visited in chunks of neighbouring rows, whose order is drawn anew in every epoch. Chunks
are so short, and so many of them are in memory at a time, that a batch is as good as one of random
rows even where a file is sorted, and still a disk reads many neighbouring rows at a time.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ...memory_map import read_rows, require_whole
from ...models.features.feature_map import AbstractFeatureMap
from ...streams import Purpose, Stream
from ...supervision.records import Row
from .dataset import (
    NO_ROWS,
    AbstractDataset,
    AbstractExampleSource,
    AbstractTrainingRows,
    Split,
    compute_features,
    count_validation_events,
)
from .examples import Epoch, Examples, Piece
from .memory import MemoryDataset

#: Rows in a chunk, at most: many enough for a disk to read at once.
CHUNK_ROWS = 256
#: Numbers in a chunk, at most, so that wide rows come in shorter chunks.
CHUNK_NUMBERS = 1 << 14
#: Chunks in a file, at least, if it has so many rows: few long chunks would not mix.
FEWEST_CHUNKS = 4096
#: Events that are read at a time, at most.
BLOCK_ROWS = 131_072
#: Numbers (features, candidates, …) that one compiled call may hold as supervised batches; fewer
#: than in memory, since the next events are read and held meanwhile.
BLOCK_NUMBERS = 20_000_000


class Chunks(AbstractTrainingRows):
    """The training rows of a file, all but those for validation, in chunks of neighbours.

    Attributes:
        count: rows in the file.
        size: rows in a chunk, validation rows included; the last chunk may be shorter.
        held: the validation rows, in ascending order.
        seed: which rows are `some` of all.
    """

    count: int
    size: int
    held: np.ndarray
    seed: int

    def __len__(self) -> int:
        return self.count - len(self.held)

    def some(self, number: int) -> np.ndarray:
        """So many training rows at random, or all, the same in every call; in ascending order."""
        rng = Stream(self.seed, Purpose.FILE_ROWS).generator()
        drawn = min(number + len(self.held), self.count)
        rows = rng.choice(self.count, drawn, replace=False)
        return np.sort(rows[~self._is_held(rows)][:number])

    def order(self, rng: np.random.Generator) -> "Order":
        """The chunks in a random order."""
        chunks = rng.permutation(-(-self.count // self.size))
        lengths = np.full(len(chunks), self.size)
        lengths[-1] = self.count - (len(chunks) - 1) * self.size
        lengths -= np.bincount(self.held // self.size, minlength=len(chunks))
        return Order(self, chunks, np.cumsum(lengths[chunks]))

    def training_rows(self, chunks: np.ndarray) -> np.ndarray:
        """The training rows of these chunks, one chunk after the other."""
        rows = (chunks[:, None] * self.size + np.arange(self.size)).ravel()
        rows = rows[rows < self.count]
        return rows[~self._is_held(rows)]

    def _is_held(self, rows: np.ndarray) -> np.ndarray:
        if len(self.held) == 0:
            return np.zeros(len(rows), bool)
        position = np.minimum(np.searchsorted(self.held, rows), len(self.held) - 1)
        return self.held[position] == rows


class Order(eqx.Module):
    """Training rows in the order of an epoch, worked out only where it is asked for.

    Attributes:
        of: the chunks.
        chunks: their numbers, in the order of the epoch.
        ends: training rows up to and including each of them.
    """

    of: Chunks
    chunks: np.ndarray
    ends: np.ndarray

    def rows(self, start: int, stop: int) -> np.ndarray:
        """The rows at these positions, in the order of the file."""
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        rows = self.of.training_rows(self.chunks[first : last + 1])
        before = self.ends[first - 1] if first > 0 else 0
        return np.sort(rows[start - before : stop - before])


def cut_into_chunks(x: np.ndarray, held: np.ndarray, seed: int) -> Chunks:
    """The rows of a file in chunks of a size that suits it."""
    count, columns = x.shape
    size = max(1, min(CHUNK_ROWS, CHUNK_NUMBERS // columns, count // FEWEST_CHUNKS))
    return Chunks(count, size, np.sort(held), seed)


class FileRows(eqx.Module):
    """Stored events as supervision sees them, in files.

    Attributes:
        x, theta: of all events.
        with_x: whether supervision looks at x.
        latent: the latent arrays it looks at.
    """

    x: np.ndarray
    theta: np.ndarray
    with_x: bool = eqx.field(static=True)
    latent: dict[str, np.ndarray] = eqx.field(default_factory=dict)

    def take(self, index: np.ndarray) -> Row:
        """Some of them, in memory."""
        x = read_rows(self.x, index) if self.with_x else np.zeros((len(index), 0))
        return Row(
            x=jnp.asarray(x, jnp.float32),
            theta=jnp.asarray(read_rows(self.theta, index), jnp.float32),
            is_reference=jnp.zeros(len(index), jnp.float32),
            latent={
                name: jnp.asarray(read_rows(array, index), jnp.float32)
                for name, array in self.latent.items()
            },
        )


class FileExamples(AbstractExampleSource):
    """Examples whose events are in files: features are computed of those that are taken.

    Attributes:
        x: observables of all events.
        weight: their weights.
        mean_weight: the mean of these, which is divided by.
        rows: the events as supervision sees them.
        maps: features for all members, or for each.
    """

    x: np.ndarray
    weight: np.ndarray
    mean_weight: float
    rows: FileRows
    maps: tuple[AbstractFeatureMap, ...]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def has_fixed_records(self) -> bool:
        """No: events in files are supervised as they are read."""
        return False

    def take(self, index: np.ndarray) -> Examples:
        """The examples at `index`, in memory."""
        for array, name in ((self.x, "x"), (self.rows.theta, "theta"), (self.weight, "weight")):
            require_whole(array, name)
        x = np.asarray(read_rows(self.x, index), np.float32)
        weight = read_rows(self.weight, index) / self.mean_weight
        return Examples(
            features=compute_features(self.maps, x),
            weight=jnp.asarray(weight, jnp.float32),
            records=None,
            rows=self.rows.take(index),
        )

    def pieces(self, train: AbstractTrainingRows, epoch: Epoch) -> Generator[Piece]:
        """Blocks of many chunks, shuffled; the next one is read while this one is trained on."""
        assert isinstance(train, Chunks)
        order = train.order(epoch.rng())
        steps = min(epoch.steps(BLOCK_NUMBERS), max(1, BLOCK_ROWS // epoch.batch))
        size = steps * epoch.batch

        def read(block: int) -> Piece:
            start = block * size
            rows = order.rows(start, min(start + size, len(train)))
            shuffled, real = epoch.shuffle(np.arange(len(rows)), epoch.rng(block))
            return Piece(self.take(rows), shuffled, real)

        return read_ahead(read, -(-len(train) // size))

    def has_one_piece(self, train: AbstractTrainingRows, epoch: Epoch) -> bool:
        """No: its examples are read anew."""
        del train, epoch
        return False


def read_ahead(read: Callable[[int], Piece], count: int) -> Generator[Piece]:
    """Pieces 0, 1, …, each read while the one before is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="reading events") as reader:
        coming = reader.submit(read, 0)
        for number in range(count):
            piece = coming.result()
            if number + 1 < count:
                coming = reader.submit(read, number + 1)
            yield piece


class FileDataset(AbstractDataset):
    """Stored events that stay in memory-mapped files."""

    rows: FileRows

    @property
    def in_memory(self) -> bool:
        """No."""
        return False

    @property
    def reads_latent(self) -> bool:
        """Where the rows carry latent arrays."""
        return bool(self.rows.latent)

    def split(self, fraction: float, seed: int, test: np.ndarray = NO_ROWS) -> Split:
        """Validation events from everywhere in the file; all others are trained on, in chunks."""
        rng = Stream(seed, Purpose.SPLIT).generator()
        count = len(self) - len(test)
        drawn = rng.choice(count, count_validation_events(count, fraction), replace=False)
        # The k-th row that is not for tests, without a list of all rows.
        held = drawn + np.searchsorted(test - np.arange(len(test)), drawn, side="right")
        return Split(cut_into_chunks(self.x, np.concatenate([held, test]), seed), held)

    def subset(self, index: np.ndarray) -> MemoryDataset:
        """Some of the events, in memory."""
        x = np.asarray(read_rows(self.x, index), np.float32)
        weight = np.asarray(read_rows(self.weight, index), np.float64)
        rest = self.prior, self.distribution, self.low, self.high
        return MemoryDataset(x, weight, *rest, self.rows.take(index))

    def examples(self, maps: Sequence[AbstractFeatureMap]) -> FileExamples:
        """The events, whose features are computed as they are read."""
        mean = float(self.weight.mean(dtype=np.float64))
        return FileExamples(self.x, self.weight, mean, self.rows, tuple(maps))
