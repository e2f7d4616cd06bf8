"""What figures accept as numbers; those that cannot be drawn raise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs import as_floats, as_names

# Sequences are named beside ArrayLike because its protocols reject tuples when checked at run time.
Numbers = ArrayLike | Sequence[Any]


def as_finite(values: Numbers, what: str) -> NDArray[np.float64]:
    """The values as an array; raises where one is not finite."""
    array = as_floats(values, what).astype(np.float64)
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{what} must be finite to be drawn: {int(bad.sum())} of {array.size} entries are not, "
            f"the first at index {first}; remove or repair those entries"
        )
    return array


def as_label(text: object, name: str) -> str:
    """Text that can be drawn."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a text, got {text!r}")
    return text


def require_names(names: object, count: int, counted: str) -> tuple[str, ...]:
    """One name for each column."""
    try:
        return as_names([] if names is None else names, count, "the figure")
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected {counted} names, got {names!r}") from error
