"""Events or fixed records in memory."""

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ...host import put_array
from ...models.features.feature_map import AbstractFeatureMap
from ...streams import Purpose, Stream
from ...supervision.records import Row
from .dataset import (
    NO_ROWS,
    AbstractDataset,
    AbstractExampleSource,
    AbstractTrainingRows,
    ShuffledRows,
    Split,
    compute_features,
    count_validation_events,
)
from .examples import Epoch, Examples, Piece

#: Numbers (features, candidates, …) that one compiled call may hold as supervised batches. A whole
#: epoch in one call is best, and usually fits.
BLOCK_NUMBERS = 60_000_000


class MemoryExamples(AbstractExampleSource):
    """Examples whose features are all computed: they do not change during training."""

    all: Examples
    own_features: bool = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def has_fixed_records(self) -> bool:
        """Those that were drawn with `ist.draw`."""
        return self.all.rows is None

    def take(self, index: np.ndarray) -> Examples:
        """The examples at `index`."""
        return _take(self.all, put_array(index, np.int32), own_features=self.own_features)

    def pieces(self, train: AbstractTrainingRows, epoch: Epoch) -> Generator[Piece]:
        """As many steps as fit the bound on memory: usually a whole epoch in one piece."""
        order, real = epoch.shuffle(train.some(len(train)), epoch.rng())
        block = epoch.steps(BLOCK_NUMBERS)
        for first in range(0, len(real), block):
            part = np.ascontiguousarray(order[..., first : first + block, :])
            yield Piece(self.all, part, real[first : first + block])

    def has_one_piece(self, train: AbstractTrainingRows, epoch: Epoch) -> bool:
        """Usually."""
        return epoch.steps(BLOCK_NUMBERS) * epoch.batch >= len(train)


@eqx.filter_jit
def _take(examples: Examples, index: Array, *, own_features: bool) -> Examples:
    """Compiled as one program: one by one, each array takes several for every number of rows."""
    return examples.take(index, own_features=own_features)


class MemoryDataset(AbstractDataset):
    """Stored events (`rows`, supervised fresh in every epoch) or fixed `records`, in memory."""

    rows: Row | None = None
    records: Any = None

    @property
    def in_memory(self) -> bool:
        """Yes."""
        return True

    @property
    def reads_latent(self) -> bool:
        """Where the rows carry latent arrays."""
        return self.rows is not None and bool(self.rows.latent)

    def split(self, fraction: float, seed: int, test: np.ndarray = NO_ROWS) -> Split:
        """All events in random order, the first of them for validation."""
        return split_rows(len(self), fraction, seed, test)

    def subset(self, index: np.ndarray) -> "MemoryDataset":
        """Some of the events."""
        # By NumPy, which compiles nothing.
        records, rows = jax.tree.map(
            lambda leaf: jax.device_put(np.asarray(leaf)[index]), (self.records, self.rows)
        )
        x, weight = self.x[index], self.weight[index]
        return dataclasses.replace(self, x=x, weight=weight, rows=rows, records=records)

    def examples(self, maps: Sequence[AbstractFeatureMap]) -> MemoryExamples:
        """Everything with its features."""
        every = Examples(
            features=compute_features(maps, self.x),
            # Weights with mean 1, so that a weight of 2 equals the event twice.
            weight=put_array(self.weight / self.weight.mean()),
            records=self.records,
            rows=self.rows,
        )
        return MemoryExamples(every, own_features=len(maps) > 1)


def split_rows(n: int, fraction: float, seed: int, test: np.ndarray = NO_ROWS) -> Split:
    """The rows of `n` events in memory, split at random."""
    order = Stream(seed, Purpose.SPLIT).generator().permutation(n)
    order = order[~np.isin(order, test)]
    held = count_validation_events(len(order), fraction)
    return Split(train=ShuffledRows(order[held:]), validation=order[:held])
