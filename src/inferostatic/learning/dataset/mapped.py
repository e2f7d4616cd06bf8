"""Events that stay in their files: which rows are trained on when, and how they are read.

A file is visited in chunks of neighbouring rows, whose order is drawn anew in every epoch. Chunks
are so short, and so many of them are in memory at a time, that a batch is as good as one of random
rows even where a file is sorted, and still a disk reads many rows at each place.
"""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...memory_map import read_rows, require_whole
from ...models.features.feature_map import AbstractFeatureMap, IdentityMap
from ...supervision.records import Row
from ..training.steps import Examples

#: Rows, and numbers, in a chunk at most; and chunks in a file, if it has so many rows.
CHUNK_ROWS, CHUNK_NUMBERS, FEWEST_CHUNKS = 256, 1 << 14, 4096
#: Rows whose features are computed at a time.
FEATURE_ROWS = 16_384


@dataclasses.dataclass(frozen=True)
class Chunks:
    """The training rows of a file, all but the held-out ones, in chunks of neighbours.

    Attributes:
        count: rows in the file.
        size: rows in a chunk, held-out ones included; the last chunk may be shorter.
        held: the held-out rows, in ascending order.
        seed: which rows are `some` of all.
    """

    count: int
    size: int
    held: np.ndarray
    seed: int

    def __len__(self) -> int:
        """Number of training rows."""
        return self.count - len(self.held)

    def some(self, number: int) -> np.ndarray:
        """So many training rows at random, or all, the same in every call; in ascending order."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, 12]))
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
        place = np.minimum(np.searchsorted(self.held, rows), len(self.held) - 1)
        return self.held[place] == rows


@dataclasses.dataclass(frozen=True)
class Order:
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
        """The rows in these places, in the order of the file."""
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        rows = self.of.training_rows(self.chunks[first : last + 1])
        before = self.ends[first - 1] if first > 0 else 0
        return np.sort(rows[start - before : stop - before])


def chunks_of(x: np.ndarray, held: np.ndarray, seed: int) -> Chunks:
    """Chunks of a size that suits such a file."""
    count, columns = x.shape
    size = max(1, min(CHUNK_ROWS, CHUNK_NUMBERS // columns, count // FEWEST_CHUNKS))
    return Chunks(count, size, np.sort(held), seed)


def some_rows(train: np.ndarray | Chunks, number: int) -> np.ndarray:
    """So many of the training rows, which stand for all; rows in memory are in random order."""
    return train.some(number) if isinstance(train, Chunks) else train[:number]


@dataclasses.dataclass(frozen=True)
class MappedRows:
    """Stored events as supervision sees them, in files.

    Attributes:
        x, theta: of all events.
        with_x: whether supervision looks at x.
        latent: the latent arrays it looks at.
    """

    x: np.ndarray
    theta: np.ndarray
    with_x: bool
    latent: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

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


@dataclasses.dataclass(frozen=True)
class MappedExamples:
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
    rows: MappedRows
    maps: tuple[AbstractFeatureMap, ...]

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.x)

    def take(self, index: np.ndarray) -> Examples:
        """The examples at `index`, in memory."""
        for array, name in ((self.x, "x"), (self.rows.theta, "theta"), (self.weight, "weight")):
            require_whole(array, name)
        x = np.asarray(read_rows(self.x, index), np.float32)
        features = [_features(map_, x) for map_ in self.maps]
        weight = read_rows(self.weight, index) / self.mean_weight
        return Examples(
            features=features[0] if len(features) == 1 else jnp.stack(features),
            weight=jnp.asarray(weight, jnp.float32),
            records=None,
            rows=self.rows.take(index),
        )


def _features(map_: AbstractFeatureMap, x: np.ndarray) -> Array:
    if isinstance(map_, IdentityMap):
        return jnp.asarray(x)
    parts = [
        np.asarray(_apply(map_, jnp.asarray(x[start : start + FEATURE_ROWS])))
        for start in range(0, len(x), FEATURE_ROWS)
    ]
    return jnp.asarray(np.concatenate(parts))


@eqx.filter_jit
def _apply(map_: AbstractFeatureMap, x: Array) -> Array:
    return jax.vmap(map_)(x)
