"""The boundary: whatever array a user has becomes a checked NumPy array, or raises an error.

Every public function passes its arguments through here, so that the code behind it can trust
shapes, finiteness and dtypes. Messages say what was expected, what came and what to change.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

#: Anything NumPy can read: NumPy, JAX, pandas, awkward, torch on the CPU, nested lists.
if TYPE_CHECKING:
    from numpy.typing import ArrayLike as Input
else:
    Input = Any  # checked below, with messages, rather than by a type checker at run time

#: Row numbers that a message lists at most.
SHOWN_ROWS = 5
#: Names that a message lists at most.
SHOWN_NAMES = 20
#: The usual reason why columns of one sample are missing in another.
ALL_CATEGORIES = (
    "pandas.get_dummies makes columns for the categories of a sample alone, unless all are named "
    "before, by pandas.Categorical(…, categories=[…])."
)
#: Smallest normal number of float32.
FLOAT32_TINY = float(np.finfo(np.float32).tiny)
#: Largest number of float32.
FLOAT32_MAX = float(np.finfo(np.float32).max)
#: Integers up to this one are exact in float32.
FLOAT32_INTEGERS = 2**24
#: Steps of float32 that a column's standard deviation should span.
FEWEST_STEPS = 100
#: Packages whose lines a user cannot change; jaxtyping's import hook wraps functions of this one.
INNER_PACKAGES = (__name__.partition(".")[0], "jaxtyping")
#: No array has more entries.
LARGEST_COUNT = 2**63 - 1
#: Names that only count columns.
COUNTED = re.compile(r"(x|theta)?\d+")
#: A number of a message, or a list of them, but no part of a name such as theta0.
NUMBERS = re.compile(r"(?<![\w.])[-+]?\d[\w.,%+-]*(?:,? [-+]?\d[\w.,%+-]*)*")
#: Numbers that are checked at a time.
CHECKED_NUMBERS = 1 << 20


def as_floats(value: Input, name: str) -> Float[ndarray, "..."]:
    """`value` as a floating-point NumPy array; other numbers become float64, False 0 and True 1."""
    value = _read_columns(value, name)
    try:
        if isinstance(value, np.ma.MaskedArray):
            # A plain conversion would drop the mask and let the values under it in.
            value = np.ma.filled(value.astype(np.float64), np.nan)
        array = np.asarray(value)
    except Exception as error:  # foreign arrays raise their own kinds
        raise TypeError(
            f"{name} could not be read as a NumPy array ({error}). Pass a rectangular array of "
            "numbers; a torch tensor must be detached and on the CPU, an awkward array regular."
        ) from error
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except OverflowError as error:
            raise ValueError(
                f"{name} holds integers beyond the range of float64, 1.8e308; rescale them or "
                "take their logarithm."
            ) from error
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} holds objects that are not numbers, or rows of unequal length. "
                "Pass a rectangular array of numbers."
            ) from error
    if array.dtype.names:
        raise TypeError(
            f"{name} is a table with named fields, {', '.join(array.dtype.names)}; pass its "
            f"columns as one array: np.stack([{name}[field] for field in …], axis=1)."
        )
    if np.iscomplexobj(array):
        raise TypeError(f"{name} must be real; got dtype {array.dtype}.")
    # The small floating types of JAX, such as bfloat16, are of no kind that NumPy knows.
    if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{name} must hold numbers; got dtype {array.dtype}.")
    if array.dtype.kind in "iu" and array.size:
        largest = max(abs(int(array.max())), abs(int(array.min())))
        if largest > FLOAT32_INTEGERS:
            warn_user(
                f"{name} holds integers up to {largest}; models compute in float32, where "
                f"integers above {FLOAT32_INTEGERS} are rounded. Subtract an offset or rescale "
                "if the last digits matter."
            )
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _read_columns(table: Any, name: str) -> Any:  # noqa: ANN401
    """A data frame whose columns have no common type as one array; anything else as it is.

    Columns of categories, text or dates are refused by their name: how to encode them is the
    user's to say.
    """
    columns, kinds = getattr(table, "columns", None), getattr(table, "dtypes", None)
    if columns is None or kinds is None:
        return table
    read, kinds = [], list(kinds)
    if len(set(kinds)) == 1 and isinstance(kinds[0], np.dtype) and kinds[0].kind in "biuf":
        return table
    for column, kind in zip(columns, map(str, kinds), strict=True):
        numbers = not kind.lower().startswith(("categor", "enum", "date", "time", "duration"))
        try:
            read.append(np.asarray(table[column]).astype(np.float64))
        except (TypeError, ValueError):
            numbers = False
        if not numbers:
            # get_dummies of text makes columns for those categories alone that occur in the sample,
            # and .cat needs categories: so they are named first.
            frame = name.split()[-1]
            one = f"{frame}[{str(column)!r}]"
            raise TypeError(
                f"column {str(column)!r} of {name} holds {kind}, not numbers. State how it is "
                f"encoded. Categories: name all of them, {one} = pandas.Categorical({one}, "
                f"categories=[…]); then {one}.cat.codes numbers them, or pandas.get_dummies({frame}"
                f", columns=[{str(column)!r}]) gives each a column of 0 and 1. Numbers as text: "
                ".astype(float). Missing values must be filled or left out; booleans need nothing."
            )
    return np.stack(read, axis=1) if read and len(set(kinds)) > 1 else table


def warn_user(message: str) -> None:
    """Warn at the first line outside this package, which is the one that its user can change.

    A message that was shown for this line already, but for its numbers, has the same cause, and is
    not shown again; where Python is told to show every warning, or to raise them, it does.
    """
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in INNER_PACKAGES:
        frame = frame.f_back
    place, line = frame.f_code.co_filename, frame.f_lineno
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    cause = (NUMBERS.sub("#", message), place, line)
    # Python keeps here what it has shown, under this key, and forgets it all when its filters
    # change; so the cause is kept here as well.
    shown = (message, UserWarning, line)
    if cause in registry:
        registry[shown] = True
    module = frame.f_globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, UserWarning, place, line, module, registry)
    if shown in registry:
        registry[cause] = True


def as_rows(value: Input, name: str, *, columns: int | None = None, of: str = "values") -> ndarray:
    """`value` as a matrix with one row per event; a single flat array is refused."""
    array = as_floats(value, name)
    if array.ndim == 1 and len(array) == 0:
        raise ValueError(f"{name} is empty; it must have two axes, (events, {of}), and some rows.")
    if array.ndim == 1:
        flat = name if isinstance(value, np.ndarray) else f"np.asarray({name})"
        raise ValueError(
            f"{name} must have two axes, (events, {of}); got shape {array.shape}. "
            f"For one column of many events use {flat}[:, None], for one event {flat}[None, :]."
        )
    if array.ndim != 2:
        raise ValueError(f"{name} must have two axes, (events, {of}); got shape {array.shape}.")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} {of}; got shape {array.shape}.")
    return array


def as_event_rows(x: Input, names: Sequence[str], name: str = "x") -> ndarray:
    """Events with one row each; one event may come with shape (D,), a value for each name."""
    require_order(column_names(x), names, name)
    array = as_floats(x, name)
    one = array.ndim == 1 and array.size == len(names)
    return as_rows(array[None] if one else x, name, of="observables")


def bad_rows(good: ndarray) -> str:
    """The first rows that are not good, for a message."""
    rows = np.flatnonzero(~good)
    shown = ", ".join(str(row) for row in rows[:SHOWN_ROWS])
    more = f", … ({len(rows)} in all)" if len(rows) > SHOWN_ROWS else ""
    return f"row{'s' if len(rows) > 1 else ''} {shown}{more}"


def row_slices(array: ndarray) -> Iterator[slice]:
    """Slices that cover all rows, each of a bounded size: what is checked may lie in a file."""
    size = max(1, CHECKED_NUMBERS // max(1, array.size // max(1, len(array))))
    for start in range(0, len(array), size):
        yield slice(start, min(start + size, len(array)))


def finite_rows(array: ndarray) -> ndarray:
    """Which rows hold only finite numbers."""
    good = np.ones(len(array), bool)
    for rows in row_slices(array):
        part = np.isfinite(array[rows])
        good[rows] = part.reshape(len(part), -1).all(axis=1)
    return good


def require_finite(array: ndarray, name: str, remedy: str) -> None:
    """Raise, naming the first rows, where `array` has NaN or infinite entries."""
    good = finite_rows(array)
    if not good.all():
        raise ValueError(f"{name} has NaN or infinite values in {bad_rows(good)}. {remedy}")


def require_float32(array: ndarray, names: Sequence[str], name: str) -> None:
    """Refuse values beyond float32's range; warn where non-zero values would become zero."""
    good, resolved = np.ones(len(array), bool), np.ones(len(array), bool)
    columns = _Columns(array.shape[1])
    for rows in row_slices(array):
        part = array[rows]
        size = np.abs(part)
        good[rows] = (size <= FLOAT32_MAX).all(axis=1)
        if good[rows].all():
            lost = (size > 0) & (size < FLOAT32_TINY)
            resolved[rows] = ~lost.any(axis=1)
            columns.add(part, size, lost)
    if not good.all():
        raise ValueError(
            f"{name} exceeds float32's largest number, {FLOAT32_MAX:.3g}, in {bad_rows(good)}. "
            "Models compute in float32: rescale the column or take its logarithm."
        )
    if columns.lost.any():
        column = names[int(np.flatnonzero(columns.lost)[0])]
        warn_user(
            f"{name} column {column!r} has values below float32's smallest normal number, "
            f"{FLOAT32_TINY:.3g}, in {bad_rows(resolved)}; models read them as 0. "
            "If their size matters, give the logarithm of this column instead."
        )
    steps = columns.largest * float(np.finfo(np.float32).eps)
    # The standard deviation of a constant column need not vanish, its range does.
    varies = columns.high > columns.low
    coarse = varies & ~columns.lost & (columns.spread < FEWEST_STEPS * steps)
    if coarse.any():
        warn_user(
            f"{name} column {names[int(np.argmax(coarse))]!r} varies by only a few of float32's "
            "steps at its size, and models compute in float32. Subtract an offset from it."
        )


class _Columns:
    """Range and spread of every column, from some of the rows at a time."""

    def __init__(self, count: int) -> None:
        self.low, self.high = np.full(count, np.inf), np.full(count, -np.inf)
        self.largest, self.lost = np.zeros(count), np.zeros(count, bool)
        self._rows, self._mean, self._squares = 0, np.zeros(count), np.zeros(count)

    def add(self, part: ndarray, size: ndarray, lost: ndarray) -> None:
        self.low = np.minimum(self.low, part.min(axis=0))
        self.high = np.maximum(self.high, part.max(axis=0))
        self.largest = np.maximum(self.largest, size.max(axis=0))
        self.lost |= lost.any(axis=0)
        # Means and squares of the parts are joined without cancellation.
        rows, mean = len(part), part.mean(axis=0, dtype=np.float64)
        total, away = self._rows + rows, mean - self._mean
        self._squares += part.var(axis=0, dtype=np.float64) * rows
        self._squares += away**2 * (self._rows * rows / total)
        self._mean += away * (rows / total)
        self._rows = total

    @property
    def spread(self) -> ndarray:
        return np.sqrt(self._squares / max(self._rows, 1))


def as_names(names: object, count: int, stem: str) -> tuple[str, ...]:
    """`names` checked against `count`, or `stem0, stem1, …`."""
    if names is None:
        return tuple(f"{stem}{i}" for i in range(count))
    if isinstance(names, str):
        names = (names,)
    listed = _as_list(names)
    if listed is None or not all(isinstance(name, str | int | np.integer) for name in listed):
        raise TypeError(
            f"names must be a list of {count} strings, one for each column; got {names!r}."
        )
    names = tuple(str(name) for name in listed)
    if len(names) != count:
        raise ValueError(
            f"{stem} has {count} column{'s' if count > 1 else ''} but {len(names)} "
            f"name{'s were' if len(names) != 1 else ' was'} given: {names}."
        )
    if len(set(names)) != count:
        raise ValueError(f"names must differ from each other; got {names}.")
    return names


def _as_list(values: object) -> list[Any] | None:
    """What has an order, in that order; None for everything else."""
    unordered = isinstance(values, Mapping | Set | bytes) or column_names(values) is not None
    if unordered or not isinstance(values, Iterable):
        return None
    try:
        return list(values)
    except TypeError:  # arrays without axes
        return None


def column_names(table: object) -> tuple[str, ...] | None:
    """Column names of a data frame, if it is one."""
    columns = getattr(table, "columns", None)
    return None if columns is None else tuple(str(column) for column in columns)


def require_order(
    given: Sequence[str] | None, names: Sequence[str], name: str, *, renamed: bool = False
) -> None:
    """Refuse columns in another order than `names`, or with other names unless they are `renamed`.

    Names that only count columns, such as x0, x1, … or 0, 1, …, say nothing.
    """
    given, names = tuple(given or ()), tuple(names)
    if given != names and sorted(given) == sorted(names):
        raise ValueError(
            f"the columns of {name} are {', '.join(given)}, but the order here is "
            f"{', '.join(names)}; use {name}[{list(names)}]."
        )
    missing = [one for one in names if one not in given and not COUNTED.fullmatch(one)]
    if given and missing and set(given) < set(names) and not renamed:
        raise ValueError(
            f"{name} lacks {', '.join(missing[:SHOWN_NAMES])}; its columns are {', '.join(given)}, "
            f"and those expected here are {', '.join(names)}. {ALL_CATEGORIES}"
        )
    pairs = zip(given, names, strict=True) if len(given) == len(names) and not renamed else ()
    if any(a != b and not COUNTED.fullmatch(a) and not COUNTED.fullmatch(b) for a, b in pairs):
        raise ValueError(
            f"the columns of {name} are {', '.join(given)}, but those expected here are "
            f"{', '.join(names)}. Select these; if they mean the same, rename the columns or pass "
            "the array without names, .to_numpy()."
        )


def describe_missing(missing: str, names: Sequence[str]) -> str:
    """The names there are, for a message about one that is not among them."""
    shown = ", ".join(sorted(names)[:SHOWN_NAMES]) or "none"
    more = ", …" if len(names) > SHOWN_NAMES else ""
    return f"{missing!r} is not among them: {shown}{more}"


def kind_of(value: object) -> str:
    """What a user gave in place of an object: a class is named, with a hint to call it."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself; call it, {value.__name__}(…)"
    return "None" if value is None else type(value).__name__


def rounded(values: Input) -> Any:  # noqa: ANN401
    """Numbers for a message, as lists with at most six digits: float32's further ones are noise.

    >>> rounded(np.float32([0.1, 2.0]))
    [0.1, 2.0]
    """
    array = np.asarray(values)
    return [rounded(value) for value in array] if array.ndim else float(f"{array:.6g}")


def in_short(error: BaseException) -> str:
    """The kind of another library's error and its first line, without the advice that follows."""
    lines = str(error).strip().splitlines()
    said = lines[0].strip().rstrip(".,:;") if lines else ""
    if isinstance(error, Warning):  # one that was made an error, whose kind says nothing
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def as_seed(seed: object) -> int:
    """A non-negative int: randomness here is always explicit."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an int, for example seed=1; got {type(seed).__name__}.")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in [0, 2**32); got {seed}.")
    return int(seed)


def as_count(value: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """An int of at least `least`, which is 1 by default, and of at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {_in_digits(value)}.")
    if value > (LARGEST_COUNT if most is None else most):
        bound = "2**63 - 1" if most is None else f"{most:,}"
        raise ValueError(f"{name} must be at most {bound}; got {float_or_inf(value):.6g}.")
    return int(value)


def as_number(
    value: object,
    name: str,
    *,
    least: float = -np.inf,
    above: float = -np.inf,
    most: float = np.inf,
    below: float = np.inf,
) -> float:
    """A finite number within the bounds: neither text, a truth value nor NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    number = float_or_inf(value)
    if np.isfinite(number) and least <= number <= most and above < number < below:
        return number
    bounds = (("of at least", least), ("above", above), ("at most", most), ("below", below))
    stated = " and ".join(f"{word} {bound:g}" for word, bound in bounds if np.isfinite(bound))
    raise ValueError(f"{name} must be a finite number{stated and ' '}{stated}; got {number}.")


def float_or_inf(value: Any) -> float:  # noqa: ANN401
    """A number in float64; infinite where that cannot hold it."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _in_digits(value: Any) -> str:  # noqa: ANN401
    return str(value) if abs(value) < LARGEST_COUNT else f"{float_or_inf(value):.6g}"


def as_flag(value: object, name: str) -> bool:
    """True or False: any text, "no" as well, would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def as_text(value: object, name: str) -> str:
    """Text, of at least one letter."""
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text, such as {name}='z'; got {value!r}.")
    return value


def as_path(value: object, name: str = "path") -> Path:
    """The path of a file or folder."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text:
        raise TypeError(f"{name} must be a path, a text or a pathlib.Path; got {value!r}.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} {text!r} cannot be the name of a file: {error}.") from error
    if "\0" in text:
        raise ValueError(f"{name} {text!r} cannot be the name of a file: it has a zero byte.")
    return Path(text)


def as_function(value: Any, name: str, what: str) -> Callable[..., Any]:  # noqa: ANN401
    """A function, or an object that can be called like one, but no class."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"{name} must be {what}; got {kind_of(value)}.")
    return value


def call_function(function: Callable[..., Any], what: str, *arguments: object) -> Any:  # noqa: ANN401
    """What a user's function returns; one that cannot be called like this is named."""
    try:
        return function(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{what}, called with {len(arguments)} argument{'s' * (len(arguments) > 1)}, failed: "
            f"{in_short(error)}."
        ) from error
