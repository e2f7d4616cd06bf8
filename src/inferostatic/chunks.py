"""Evaluation of many rows in chunks: how many fit into a bound on memory, and padding to that many.

Chunks have few sizes, powers of two, so that few programs are compiled.
"""

import numpy as np
from jaxtyping import Array

from .host import put_array
from .inputs import as_number

#: Default bound on the memory that one evaluation may take, in megabytes.
MEMORY_MB = 256.0
#: Fewest events of one call: below it the overhead of a call dominates.
FEWEST_ROWS = 16
#: Most events of one call: more gain nothing.
MOST_ROWS = 1 << 20
#: Most θ of one call of a grid.
MOST_POINTS = 1 << 10


def bytes_allowed(memory_mb: float | None) -> float:
    """The bound on memory in bytes, the default where none is given."""
    bound = MEMORY_MB if memory_mb is None else as_number(memory_mb, "memory_mb", above=0)
    return bound * 1e6


def rows_within(bound: float) -> int:
    """A power of two of rows up to the bound, and not too few nor too many."""
    return 1 << (int(np.clip(bound, FEWEST_ROWS, MOST_ROWS)).bit_length() - 1)


def power_of_two(count: int) -> int:
    """The smallest that is not below."""
    return 1 << (count - 1).bit_length()


def padded(rows: np.ndarray, count: int) -> Array:
    """`count` rows in float32, the last one repeated."""
    padding = np.repeat(rows[-1:], count - len(rows), axis=0)
    return put_array(np.concatenate([rows, padding]))


def spread_rows(count: int, most: int) -> np.ndarray:
    """At most so many row numbers, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)
