"""The boundary: whatever array a user has becomes a checked NumPy array, or a sentence.

Every public function passes its arguments through here, so that the code behind it can trust
shapes, finiteness and dtypes. Messages say what was expected, what came and what to change.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

#: Anything NumPy can read: NumPy, JAX, pandas, awkward, torch on the CPU, nested lists.
if TYPE_CHECKING:
    from numpy.typing import ArrayLike as Input
else:
    Input = Any  # checked below, with sentences, rather than by a type checker at run time

SHOWN_ROWS = 5
FLOAT32_TINY = float(np.finfo(np.float32).tiny)
FLOAT32_MAX = float(np.finfo(np.float32).max)
FLOAT32_INTEGERS = 2**24


def as_floats(value: Input, name: str) -> Float[ndarray, "..."]:
    """`value` as a floating-point NumPy array; integers and booleans are converted."""
    try:
        array = np.asarray(value)
    except Exception as error:  # foreign arrays raise their own kinds
        raise TypeError(
            f"{name} could not be read as a NumPy array ({error}). Pass a rectangular array of "
            "numbers; a torch tensor must be detached and on the CPU, an awkward array regular."
        ) from error
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} holds objects that are not numbers, or rows of unequal length. "
                "Pass a rectangular array of numbers."
            ) from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise TypeError(f"{name} must hold numbers; got dtype {array.dtype}.")
    if np.iscomplexobj(array):
        raise TypeError(f"{name} must be real; got dtype {array.dtype}.")
    if not np.issubdtype(array.dtype, np.floating):
        if np.issubdtype(array.dtype, np.integer) and array.size:
            largest = max(abs(int(array.max())), abs(int(array.min())))
            if largest > FLOAT32_INTEGERS:
                warnings.warn(
                    f"{name} holds integers up to {largest}; models compute in float32, where "
                    f"integers above {FLOAT32_INTEGERS} are rounded. Subtract an offset or rescale "
                    "if the last digits matter.",
                    stacklevel=3,
                )
        array = array.astype(np.float64)
    return array


def as_rows(value: Input, name: str, *, columns: int | None = None, of: str = "values") -> ndarray:
    """`value` as a matrix with one row per event; a single flat array is refused."""
    array = as_floats(value, name)
    if array.ndim == 1:
        raise ValueError(
            f"{name} must have two axes, (events, {of}); got shape {array.shape}. "
            f"For one column of many events use {name}[:, None], for one event {name}[None, :]."
        )
    if array.ndim != 2:
        raise ValueError(f"{name} must have two axes, (events, {of}); got shape {array.shape}.")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} {of}; got shape {array.shape}.")
    return array


def bad_rows(good: ndarray) -> str:
    """The first rows that are not good, for a message."""
    rows = np.flatnonzero(~good)
    shown = ", ".join(str(row) for row in rows[:SHOWN_ROWS])
    more = f", … ({len(rows)} in all)" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def finite_rows(array: ndarray) -> ndarray:
    """Which rows hold only finite numbers."""
    return np.asarray(np.all(np.isfinite(array).reshape(len(array), -1), axis=1))


def require_finite(array: ndarray, name: str, remedy: str) -> None:
    """Raise, naming the first rows, where `array` has NaN or infinite entries."""
    good = finite_rows(array)
    if not good.all():
        raise ValueError(f"{name} has NaN or infinite values in {bad_rows(good)}. {remedy}")


def require_float32(array: ndarray, names: Sequence[str], name: str) -> None:
    """Refuse values beyond float32's range; warn where non-zero values would become zero."""
    size = np.abs(array)
    good = np.asarray(np.all(size <= FLOAT32_MAX, axis=1))
    if not good.all():
        raise ValueError(
            f"{name} exceeds float32's largest number, {FLOAT32_MAX:.3g}, in {bad_rows(good)}. "
            "Models compute in float32: rescale the column or take its logarithm."
        )
    lost = np.asarray((size > 0) & (size < FLOAT32_TINY))
    if lost.any():
        column = names[int(np.flatnonzero(lost.any(axis=0))[0])]
        rows = bad_rows(np.asarray(~np.any(lost, axis=1)))
        warnings.warn(
            f"{name} column {column!r} has values below float32's smallest normal number, "
            f"{FLOAT32_TINY:.3g}, in {rows}; models read them as 0. "
            "If their size matters, give the logarithm of this column instead.",
            stacklevel=4,
        )


def as_names(names: Sequence[str] | None, count: int, stem: str) -> tuple[str, ...]:
    """`names` checked against `count`, or `stem0, stem1, …`."""
    if names is None:
        return tuple(f"{stem}{i}" for i in range(count))
    if isinstance(names, str):
        names = (names,)
    names = tuple(str(name) for name in names)
    if len(names) != count:
        raise ValueError(f"{stem} has {count} columns but {len(names)} names were given: {names}.")
    if len(set(names)) != count:
        raise ValueError(f"names must differ from each other; got {names}.")
    return names


def as_seed(seed: int) -> int:
    """A non-negative int: randomness here is always explicit."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an int, for example seed=1; got {type(seed).__name__}.")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in [0, 2**32); got {seed}.")
    return int(seed)


def as_count(value: int, name: str) -> int:
    """A positive int, or a sentence."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number; got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")
    return int(value)
