"""Bad and odd inputs, which every argument of every public function is given in turn.

`ABSOLUTE` are values by themselves. The other tables make one out of the plain value of an
argument: the same in another form (`EQUAL`), or a change of it (`CHANGED`).
"""

import datetime
import decimal
import fractions
import io
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from optional import OptionalPackage

#: Where nothing is: who may write there leaves a file or a folder, so each process has its own.
NOWHERE = Path(tempfile.gettempdir()) / f"nothing-{os.getpid()}" / "no" / "such" / "file"

pd = OptionalPackage("pandas")

#: In place of a value that cannot be made from this plain value.
SKIP = object()
ROWS, COLUMNS = 4, 7


def _nested(depth: int) -> Any:
    value: Any = 1.0
    for _ in range(depth):
        value = [value]
    return value


def _rubbish(*_: Any, **__: Any) -> Any:
    return "rubbish"


def _nothing(*_: Any, **__: Any) -> Any:
    return None


def _nan(*arguments: Any, **__: Any) -> Any:
    """NaN for every row of the first argument."""
    return np.full(np.shape(arguments[0]) if arguments else (), np.nan)


def _misshapen(*_: Any, **__: Any) -> Any:
    return np.zeros((3, 5, 2))


def _table(rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    return np.arange(rows * columns, dtype=float).reshape(rows, columns) / 10


#: Values by themselves; made anew for every case, since some can be used only once.
ABSOLUTE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "-1": lambda: -1,
    "3": lambda: 3,
    "10**30": lambda: 10**30,
    "-10**30": lambda: -(10**30),
    "10**400": lambda: 10**400,
    "0.25": lambda: 0.25,
    "-2.5": lambda: -2.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e300": lambda: 1e300,
    "1e-300": lambda: 1e-300,
    "1j": lambda: 1j,
    "text": lambda: "no number",
    "empty text": lambda: "",
    "digits": lambda: "1",
    "surrogate": lambda: "\ud800",
    "zero byte": lambda: "a\x00b",
    "bytes": lambda: b"bytes",
    "empty list": list,
    "empty tuple": tuple,
    "empty dictionary": dict,
    "set": lambda: {1, 2},
    "five numbers": lambda: [1, 2, 3, 4, 5],
    "ragged": lambda: [[1, 2], [3]],
    "two texts": lambda: ["p", "q"],
    "[None]": lambda: [None],
    "{'p': 1}": lambda: {"p": 1},
    "{1: 2}": lambda: {1: 2},
    "{'theta0': 'p'}": lambda: {"theta0": "p"},
    "object": object,
    "class": lambda: int,
    "class of ours": lambda: ist.MLP,
    "function of nothing": lambda: _nothing,
    "function of rubbish": lambda: _rubbish,
    "function of NaN": lambda: _nan,
    "function of another shape": lambda: _misshapen,
    "generator": lambda: (i for i in range(3)),
    "range": lambda: range(3),
    "0-d array": lambda: np.array(1.25),
    "0-d NaN": lambda: np.array(np.nan),
    "numpy NaN": lambda: np.float64("nan"),
    "numpy bool": lambda: np.bool_(True),  # noqa: FBT003
    "empty array": lambda: np.array([]),
    "no rows": lambda: np.zeros((0, 2)),
    "foreign table": _table,
    "table of NaN": lambda: np.full((ROWS, COLUMNS), np.nan),
    "three axes": lambda: np.zeros((2, 2, 2)),
    "array of objects": lambda: np.array([object(), None, "p"], object),
    "array of text": lambda: np.array(["p", "q"]),
    "complex array": lambda: _table() * 1j,
    "masked array": lambda: np.ma.masked_less(_table(), 1.0),
    "dates": lambda: np.array(["2022-10-04", "2022-10-05"], "datetime64[D]"),
    "structured array": lambda: np.zeros(3, [("p", float), ("q", int)]),
    "long doubles": lambda: _table().astype(np.longdouble),
    "array beyond float64": lambda: np.array([10**400, 1], object),
    "foreign frame": lambda: pd.DataFrame(_table(), columns=list("abcdefg")),
    "frame of duplicates": lambda: pd.DataFrame(_table(), columns=list("aabbccd")),
    "frame of text": lambda: pd.DataFrame({"p": ["q", "r"], "s": [1.0, 2.0]}),
    "series of text": lambda: pd.Series(["p", "q"]),
    "categories": lambda: pd.DataFrame({"p": pd.Categorical(["a", "b"]), "q": [1.0, 2.0]}),
    "path": lambda: NOWHERE,
    "stream": lambda: io.BytesIO(b"stream"),
    "Ellipsis": lambda: ...,
    "slice": lambda: slice(None),
    "Decimal": lambda: decimal.Decimal("0.5"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "date": lambda: datetime.date(2022, 10, 4),
    "key": lambda: jax.random.key(1),
    "generator of numbers": lambda: np.random.default_rng(1),
    "nested": lambda: _nested(60),
    "exception": lambda: ValueError("an error"),
    "module": lambda: math,
    "a prior": lambda: ist.Uniform([0.0] * 5, [1.0] * 5),
    "a network": lambda: ist.MLP((3,)),
    "an array like JAX": lambda: jnp.arange(5.0),
}


def _array_form(change: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    """For plain values that are arrays of numbers."""

    def make(value: Any) -> Any:
        return change(value.copy()) if isinstance(value, np.ndarray) else SKIP

    return make


def _table_form(change: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    """For plain values that are tables of at least two rows and columns."""

    def make(value: Any) -> Any:
        table = isinstance(value, np.ndarray) and value.ndim == 2 and min(value.shape) > 1
        return change(value.copy()) if table else SKIP

    return make


def _number_form(change: Callable[[Any], Any], kinds: Any = int | float) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        return change(value) if isinstance(value, kinds) and type(value) is not bool else SKIP

    return make


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _spread_out(array: np.ndarray) -> np.ndarray:
    """The same in every second place of a larger array."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
    wide[..., ::2] = array
    return wide[..., ::2]


def _list_as_array(value: Any) -> Any:
    plain = type(value) in (list, tuple) and all(type(v) in (int, float, str) for v in value)
    return np.array(value) if plain else SKIP


#: The same value in another form: the answer must be the same, or a refusal.
EQUAL: dict[str, Callable[[Any], Any]] = {
    "Fortran order": _array_form(np.asfortranarray),
    "not contiguous": _array_form(_spread_out),
    "backwards in memory": _array_form(lambda a: np.ascontiguousarray(a[::-1])[::-1]),
    "read-only": _array_form(_read_only),
    "big-endian": _array_form(lambda a: a.astype(a.dtype.newbyteorder(">"))),
    "lists": _array_form(lambda a: a.tolist()),
    "tuples": _array_form(lambda a: tuple(map(tuple, a)) if a.ndim == 2 else tuple(a)),
    "objects": _array_form(lambda a: a.astype(object)),
    "JAX array": _array_form(jnp.asarray),
    "float32": _array_form(lambda a: a.astype(np.float32)),
    "long double": _array_form(lambda a: a.astype(np.longdouble)),
    "nothing masked": _array_form(lambda a: np.ma.array(a)),
    "matrix": _table_form(lambda a: a.view(np.matrix)),
    "subclass": _array_form(lambda a: a.view(np.recarray) if a.dtype.names else a.view(_Subclass)),
    "memory view": _array_form(lambda a: np.ascontiguousarray(a).data),
    "generator of rows": _array_form(lambda a: (row for row in a)),
    "numpy number": _number_form(lambda v: np.asarray(v)[()]),
    "float32 number": _number_form(np.float32, float),
    "0-d": _number_form(np.asarray),
    "one entry": _number_form(lambda v: np.array([v])),
    "int as float": _number_form(float, int),
    "int8": _number_form(lambda v: np.int8(v) if abs(v) < 100 else SKIP, int),
    "unsigned": _number_form(lambda v: np.uint64(v) if v >= 0 else SKIP, int),
    "number as text": _number_form(str),
    "numpy text": lambda v: np.str_(v) if type(v) is str else SKIP,
    "text as path": lambda v: Path(v) if type(v) is str else SKIP,
    "path as text": lambda v: str(v) if isinstance(v, Path) else SKIP,
    "path as bytes": lambda v: str(v).encode() if isinstance(v, Path) else SKIP,
    "list as tuple": lambda v: tuple(v) if type(v) is list else SKIP,
    "tuple as list": lambda v: list(v) if type(v) is tuple else SKIP,
    "list as array": _list_as_array,
    "list as iterator": lambda v: iter(v) if type(v) in (list, tuple) else SKIP,
    "bool of numpy": lambda v: np.bool_(v) if type(v) is bool else SKIP,
    "bool as int": lambda v: int(v) if type(v) is bool else SKIP,
}


class _Subclass(np.ndarray):
    """A user's own kind of array."""


def _put(value: Any, at: Any = -1) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.astype(float)
        array.flat[at] = value
        return array

    return change


def _mask_one(array: np.ndarray) -> Any:
    mask = np.zeros(array.shape, bool)
    mask.flat[-1] = True
    return np.ma.array(array, mask=mask)


def _frame(array: np.ndarray, names: Any) -> Any:
    return pd.DataFrame(array, columns=[names(i) for i in range(array.shape[1])])


def _with_text(array: np.ndarray) -> Any:
    frame = _frame(array, lambda i: f"c{i}").astype(object)
    frame.iloc[0, 0] = "text"
    return frame


#: Another value: mostly bad, sometimes a value that may well be meant.
CHANGED: dict[str, Callable[[Any], Any]] = {
    "NaN at the end": _array_form(_put(np.nan)),
    "inf at the end": _array_form(_put(np.inf)),
    "-inf at the start": _array_form(_put(-np.inf, 0)),
    "huge at the end": _array_form(_put(1e300)),
    "masked at the end": _array_form(_mask_one),
    "complex": _array_form(lambda a: a + 1j),
    "as text": _array_form(lambda a: a.astype(str)),
    "as bytes": _array_form(lambda a: a.astype(bytes)),
    "as dates": _array_form(lambda a: a.astype("int64").astype("datetime64[s]")),
    "as durations": _array_form(lambda a: a.astype("int64").astype("timedelta64[s]")),
    "one more axis": _array_form(lambda a: a[None, None]),
    "without rows": _array_form(lambda a: a[:0]),
    "flat": _table_form(np.ravel),
    "one row less": _array_form(lambda a: a[:-1]),
    "one column less": _table_form(lambda a: a[:, :-1]),
    "one column more": _table_form(lambda a: np.c_[a, a[:, :1]]),
    "transposed": _table_form(lambda a: a.T),
    "integers": _array_form(lambda a: a.astype(int)),
    "uint8": _array_form(lambda a: np.abs(a).astype(np.uint8)),
    "booleans": _array_form(lambda a: a > np.median(a)),
    "float16": _array_form(lambda a: a.astype(np.float16)),
    "all equal": _array_form(lambda a: np.full(a.shape, a.flat[0])),
    "ragged rows": _table_form(lambda a: [*a[:-1].tolist(), a[-1, :-1].tolist()]),
    "None inside": _table_form(lambda a: [*a[:-1].tolist(), [None] * a.shape[1]]),
    "frame of foreign names": _table_form(lambda a: _frame(a, lambda i: f"foreign{i}")),
    "frame with one name": _table_form(lambda a: _frame(a, lambda _: "x0")),
    "frame in another order": _table_form(lambda a: _frame(a, lambda i: f"x{a.shape[1] - 1 - i}")),
    "frame with a text": _table_form(_with_text),
    "dictionary of columns": _table_form(lambda a: {f"x{i}": c for i, c in enumerate(a.T)}),
    "negative": _number_form(lambda v: -v),
    "plus one half": _number_form(lambda v: v + 0.5),
    "twice": lambda v: [*v, *v] if type(v) in (list, tuple) else SKIP,
    "reversed": lambda v: [*v][::-1] if type(v) in (list, tuple) and len(v) > 1 else SKIP,
    "first only": lambda v: [*v][:1] if type(v) in (list, tuple) and len(v) > 1 else SKIP,
    "its class": lambda v: type(v) if type(v).__module__.startswith("inferostatic") else SKIP,
    "list of it": lambda v: [v],
    "dictionary of it": lambda v: {"p": v},
}
