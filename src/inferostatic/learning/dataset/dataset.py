"""The one interface through which training reads its data, wherever they are.

A dataset answers what training asks: how many events there are, their weights, which rows train and
which validate, what features are learned from, where the model can be trusted, a part in memory for
trials, and, once features are known, the rows of an epoch in pieces. Nothing outside this folder
asks which kind of dataset it has.
"""

import abc
import dataclasses
from collections.abc import Generator, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ...chunks import padded, power_of_two
from ...estimator.history import Region
from ...host import on_host, put_array
from ...inputs import row_slices
from ...memory_map import read_rows, require_whole
from ...models.architecture import AbstractArchitecture, Shapes
from ...models.features.feature_map import AbstractFeatureMap, IdentityMap
from ...supervision.supervision import ThetaDistribution
from ...world.priors.prior import AbstractPrior
from .examples import Epoch, Examples, Piece

#: Events from which features are learned; more would not change them.
FEATURE_EVENTS = 200_000
#: Events whose features are computed in one call, to bound its memory.
FEATURE_CHUNK = 16_384
#: Validation events, at most: more would not change what is decided by them.
MOST_VALIDATION_EVENTS = 100_000
#: No rows are kept back.
NO_ROWS = np.zeros(0, np.int64)


class AbstractTrainingRows(eqx.Module):
    """The rows that are trained on."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abc.abstractmethod
    def some(self, number: int) -> np.ndarray:
        """So many of them, or all, which stand for all; the same in every call."""


class ShuffledRows(AbstractTrainingRows):
    """Row numbers in random order."""

    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, number: int) -> np.ndarray:
        """The first of them."""
        return self.rows[:number]


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows to train on and rows to validate with."""

    train: AbstractTrainingRows
    validation: np.ndarray


class AbstractExampleSource(eqx.Module):
    """A dataset with its features: examples for training."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @property
    @abc.abstractmethod
    def has_fixed_records(self) -> bool:
        """Whether each example has the one record it came with, not a fresh one at each use."""

    @abc.abstractmethod
    def take(self, index: np.ndarray) -> Examples:
        """The examples at `index`, in memory."""

    @abc.abstractmethod
    def pieces(self, train: AbstractTrainingRows, epoch: Epoch) -> Generator[Piece]:
        """All training events once, in an order of their own for each epoch."""

    @abc.abstractmethod
    def has_one_piece(self, train: AbstractTrainingRows, epoch: Epoch) -> bool:
        """Whether every epoch is one piece, of the same examples."""


class AbstractDataset(eqx.Module):
    """Events or records as training reads them.

    Attributes:
        x: observables; an array, which may lie in a file.
        weight: of every event, likewise.
        prior: of the stored θ.
        distribution: what supervision is drawn from; None where records are fixed.
        low, high: the region of θ where the trained model can be trusted.
    """

    x: np.ndarray
    weight: np.ndarray
    prior: AbstractPrior
    distribution: ThetaDistribution | None
    low: np.ndarray
    high: np.ndarray

    @property
    @abc.abstractmethod
    def in_memory(self) -> bool:
        """Whether all events are in memory, where a part of them costs nothing."""

    @property
    @abc.abstractmethod
    def reads_latent(self) -> bool:
        """Whether supervision reads latent information of the events."""

    @abc.abstractmethod
    def split(self, fraction: float, seed: int, test: np.ndarray = NO_ROWS) -> Split:
        """The same validation events for every member, whatever the method.

        Args:
            fraction: of the events, for validation.
            seed: chooses them.
            test: rows that are neither trained on nor validated with, in ascending order.
        """

    @abc.abstractmethod
    def subset(self, index: np.ndarray) -> "AbstractDataset":
        """Some of the events, in memory."""

    @abc.abstractmethod
    def examples(self, maps: Sequence[AbstractFeatureMap]) -> AbstractExampleSource:
        """Everything with its features; members that differ in them have an axis of their own."""

    def __len__(self) -> int:
        return len(self.weight)

    def select(self, train: np.ndarray, validation: np.ndarray) -> tuple["AbstractDataset", Split]:
        """A part in memory, of these rows to train on and these to validate with."""
        part = self.subset(np.concatenate([train, validation]))
        rows = np.arange(len(part))
        return part, Split(ShuffledRows(rows[: len(train)]), rows[len(train) :])

    def learn_shapes(
        self, architecture: AbstractArchitecture, train: AbstractTrainingRows
    ) -> Shapes:
        """What the architecture learns from the training events."""
        x = read_rows(self.x, train.some(FEATURE_EVENTS))
        return architecture.shapes(x, *self.prior.centre_and_scale)

    def region(self) -> Region:
        """Where the trained model can be trusted."""
        return Region(self.low, self.high, *column_range(self.x, "x"))


def column_range(table: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every column, in one walk through a file."""
    require_whole(table, name)
    ranges = [(table[rows].min(axis=0), table[rows].max(axis=0)) for rows in row_slices(table)]
    lows, highs = zip(*ranges, strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def count_validation_events(n: int, fraction: float) -> int:
    """How many of `n` events validate."""
    held = min(round(fraction * n), MOST_VALIDATION_EVENTS)
    if held >= n:
        raise ValueError(f"{n} events are too few to hold out {fraction:.0%} of them.")
    if fraction > 0 and held == 0:
        raise ValueError(
            f"{n} events are too few to hold out {fraction:.0%} of them; set "
            "Training(validation_fraction=0) or give more events."
        )
    return held


def compute_features(maps: Sequence[AbstractFeatureMap], x: np.ndarray) -> Array:
    """Features of these events; of several maps, with an axis for them in front."""
    features = [_features(map_, x) for map_ in maps]
    return put_array(features[0] if len(features) == 1 else np.stack(features))


def _features(map_: AbstractFeatureMap, x: np.ndarray) -> np.ndarray:
    if isinstance(map_, IdentityMap):
        return np.asarray(x, np.float32)
    # Chunks of one size share a program, whatever the number of events.
    rows = min(FEATURE_CHUNK, power_of_two(len(x)))
    with on_host():
        parts = [
            np.asarray(_apply(map_, padded(x[start : start + rows], rows)))[: len(x) - start]
            for start in range(0, len(x), rows)
        ]
    return np.concatenate(parts)


@eqx.filter_jit
def _apply(map_: AbstractFeatureMap, x: Array) -> Array:
    return jax.vmap(map_)(x)
