"""Random streams: every one of the library has a key that no user's own stream shares.

`SeedSequence([s, 0])` equals `SeedSequence(s)`, and the key of its first child is `(0,)`. A library
that numbers its streams from 0 hands a user's own random numbers to the simulator, and observed
data share their noise with the simulation. Here a key begins with a constant of the library, goes
on with the purpose, which belongs to one function, and ends with the block of the work.
"""

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np
from jaxtyping import PRNGKeyArray

from .threefry import make_key

#: First number of every key: "INFR" in ASCII, which nobody counts up to.
LIBRARY = 0x494E4652


class Purpose(enum.IntEnum):
    """What a stream is for. Numbers are never given twice: results of a seed depend on them."""

    SAMPLE_PRIOR = 1
    SIMULATE_THETA = 2
    SIMULATE = 3
    DRAW_THETA = 4
    DRAW_RECORDS = 5
    DRAW_LABELS = 6
    DRAW_REFERENCE = 7
    DRAW = 8
    POOL_THETA = 9
    POOL_EVENTS = 10
    NUISANCE_POINTS = 11
    TRY_PRIOR = 12
    TRY_MODEL = 13
    TRY_GAPS = 14
    LATENT_EVENTS = 15
    LATENT_PAIRS = 16
    SHUFFLE_STORE = 17
    CHECK_STORE = 18
    SPLIT = 20
    WEIGHTS = 21
    EPOCH_ORDER = 22
    EPOCH_RECORDS = 23
    VALIDATION_RECORDS = 24
    TARGET_RECORDS = 25
    LOSS_RECORDS = 35
    FILE_ROWS = 26
    CENTRE = 27
    CENTRING_REPORT = 28
    CROSS_FIT = 29
    COMPARE_SPLIT = 30
    COMPARE_RECORDS = 31
    CHOOSE_WIDTH = 32
    DENSITY_SAMPLE = 33
    MATRIX_ELEMENT = 34
    TEST_ROWS = 39
    MINUIT_STARTS = 40
    FISHER = 42
    SCORE_RESPONSE = 43
    CALIBRATED_POINTS = 44
    CALIBRATED_EVENTS = 45
    CALIBRATED_START = 46
    NEYMAN_TOYS = 47
    LIMIT_TOYS = 41
    LIMIT_FIT = 36
    LIMIT_POINTS = 37
    LIMIT_EVENTS = 38
    TOY_EVENTS = 48
    ASIMOV = 49
    TEMPLATES = 50
    POSTERIOR_PRIOR = 51
    POSTERIOR_BOUNDS = 52
    GRID = 53
    NUTS = 54
    NUTS_STARTS = 55
    IMPORTANCE_APPROACH = 56
    IMPORTANCE = 57
    IMPORTANCE_RESAMPLE = 58
    SELECT_EVENTS = 60
    PARTNER_DISTANCES = 61
    PARTNERS = 62
    CANDIDATES = 63
    REFERENCES = 64
    RANKS = 65
    CLOSURE = 66
    PREDICTIVE_DRAWS = 67
    PREDICTIVE = 68
    PAPER = 70
    STUDY = 71
    STUDY_DATA = 72
    STUDY_REWEIGHT = 73
    EXPORT_POINTS = 74


@dataclasses.dataclass(frozen=True)
class Stream:
    """The random stream of one purpose, with one for each block of its work.

    >>> stream = Stream(1, Purpose.SIMULATE)
    >>> stream.generator(0).integers(100, size=3).tolist() == stream.generator().integers(
    ...     100, size=3
    ... ).tolist()
    False
    """

    seed: int
    purpose: Purpose
    path: tuple[int, ...] = ()

    def block(self, *numbers: int) -> "Stream":
        """The stream of a part of the work; numbers below 2³²."""
        return dataclasses.replace(self, path=(*self.path, *numbers))

    def generator(self, *numbers: int) -> np.random.Generator:
        """For NumPy."""
        return np.random.default_rng(self._sequence(numbers))

    def key(self, *numbers: int) -> PRNGKeyArray:
        """For JAX."""
        return make_key(self._sequence(numbers).generate_state(2))

    def key_words(self, numbers: Sequence[int]) -> np.ndarray:
        """Two words for each block, of which `make_key` makes its key in a compiled loop."""
        words = [self._sequence((number,)).generate_state(2) for number in numbers]
        return np.array(words, np.uint32).reshape(-1, 2)

    def seeds(self, count: int) -> list[int]:
        """Seeds of other functions."""
        return self._sequence(()).generate_state(count).tolist()

    def _sequence(self, numbers: tuple[int, ...]) -> np.random.SeedSequence:
        # NumPy fills the seed up with zeros in front of a spawn key, so a key that ends with 0 is
        # not the same as one without.
        return np.random.SeedSequence(
            self.seed, spawn_key=(LIBRARY, int(self.purpose), *self.path, *numbers)
        )
