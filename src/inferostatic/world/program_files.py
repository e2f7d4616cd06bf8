"""Files that a program reads its θ from and writes its x to; the ending of a name says which."""

import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..inputs import as_floats, describe_missing, in_short
from ..packages import import_package

#: Digits from which every float64 can be read back exactly.
DIGITS = "%.17g"
#: Classes of ROOT that hold a table of events, the newest last.
TREES = ["T*Tree", "TNtuple*", "ROOT::RNTuple"]
#: Words of a CSV file that stand for numbers.
BOOLEANS = {"true": 1.0, "false": 0.0}


class Columns(NamedTuple):
    """Numbers, one row for each event, and the names of their columns where the file has any."""

    values: np.ndarray
    names: tuple[str, ...] | None


def write_theta_csv(path: Path, theta: np.ndarray, names: Sequence[str], seed: int) -> None:
    """A header with the names, then one line for each θ."""
    np.savetxt(path, theta, fmt=DIGITS, delimiter=",", header=",".join(names), comments="")


def write_theta_npy(path: Path, theta: np.ndarray, names: Sequence[str], seed: int) -> None:
    """The array alone, shape (n, d)."""
    np.save(path, theta)


def write_theta_json(path: Path, theta: np.ndarray, names: Sequence[str], seed: int) -> None:
    """`{"names": […], "theta": [[…], …], "seed": 123}`."""
    record = {"names": list(names), "theta": theta.tolist(), "seed": seed}
    path.write_text(json.dumps(record), encoding="utf-8")


def read_csv(path: Path, part: str, wanted: Sequence[str] | None = None) -> Columns:
    """Numbers between commas, under a line of names or without one."""
    with path.open(encoding="utf-8") as stream:
        first = stream.readline().strip()
    if not first:
        raise ValueError(f"{path.name} begins with an empty line; a line of names was expected.")
    fields = tuple(field.strip().strip('"') for field in first.split(","))
    named = not all(_is_number(field) for field in fields)
    if named and _lacks(fields, wanted):
        return _name_only(fields)
    names = tuple(wanted) if named and wanted is not None else fields
    columns = None if names == fields else [fields.index(name) for name in names]
    read = functools.partial(
        np.loadtxt, path, delimiter=",", skiprows=int(named), ndmin=2, usecols=columns
    )
    try:
        values = read(encoding="utf-8")
    except ValueError:  # only then word by word, which takes several times as long
        try:
            values = read(encoding="utf-8", converters=_read_word)
        except ValueError as error:
            raise ValueError(_name_column(str(error), fields if named else ())) from error
    return Columns(values, names if named else None)


def read_npy(path: Path, part: str, wanted: Sequence[str] | None = None) -> Columns:
    """An array of shape (n, D), or (n,) for one observable; named fields become columns."""
    array = np.load(path, allow_pickle=False)
    names = array.dtype.names
    if names is not None:
        if _lacks(names, wanted):
            return _name_only(names)
        names = names if wanted is None else tuple(wanted)
        array = np.stack([array[name] for name in names], axis=-1)
    return Columns(array[:, None] if array.ndim == 1 else array, names)


def read_parquet(path: Path, part: str, wanted: Sequence[str] | None = None) -> Columns:
    """Columns, which hold one number for each event."""
    from pyarrow import parquet

    names = tuple(parquet.read_schema(path).names)
    if _lacks(names, wanted):
        return _name_only(names)
    names = names if wanted is None else tuple(wanted)
    table = parquet.read_table(path, columns=list(names))
    columns = [as_floats(table[name].to_numpy(), f"column {name!r}") for name in names]
    return Columns(np.stack(columns, axis=1), names)


def read_root(path: Path, part: str, wanted: Sequence[str] | None = None) -> Columns:
    """Branches of the tree `part`, or of the only one, with one number for each event."""
    uproot = import_package("uproot", "reading ROOT files uses uproot", "readers")
    with uproot.open(str(path)) as file:
        trees = sorted({key.split(";")[0] for key in file.keys(filter_classname=TREES)})
        if not part and len(trees) != 1:
            raise ValueError(
                f"{path.name} has {len(trees)} trees, {', '.join(trees) or 'none'}; name the one "
                f"to read, by x='{path.name}:TREE' of a program or infer.tree in study.toml."
            )
        if part and part not in trees:
            raise ValueError(f"{path.name} has these trees, and {describe_missing(part, trees)}.")
        tree = file[part or trees[0]]
        names = tuple(tree.keys())
        if _lacks(names, wanted):
            return _name_only(names)
        names = names if wanted is None else tuple(wanted)
        branches = tree.arrays(list(names), library="np")
    columns = [as_floats(branches[name], f"branch {name!r}") for name in names]
    return Columns(np.stack(columns, axis=1), names)


def _lacks(names: Sequence[str], wanted: Sequence[str] | None) -> bool:
    return wanted is not None and not set(wanted) <= set(names)


def _name_only(names: Sequence[str]) -> Columns:
    """The names alone, for an error that lists them: some of the columns may hold no numbers."""
    return Columns(np.empty((0, len(names))), tuple(names))


def _read_word(word: str) -> float:
    """A number, or True and False, which pandas and others write for booleans."""
    known = BOOLEANS.get(word.strip().strip('"').lower())
    return float(word) if known is None else known


def _name_column(message: str, fields: Sequence[str]) -> str:
    """NumPy's message, which has the number of a column, with its name and what to do."""
    place = re.search(r"at row \d+, column (\d+)", message)
    if place is None or not 0 < int(place[1]) <= len(fields):
        return message
    return (
        f"{message.rstrip('.')}, {fields[int(place[1]) - 1]!r}; text must be encoded as numbers, "
        "data in the same way as the simulator does it"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: How θ is written, by the ending of the file's name.
WRITERS: dict[str, Callable[[Path, np.ndarray, Sequence[str], int], None]] = {
    ".csv": write_theta_csv,
    ".npy": write_theta_npy,
    ".json": write_theta_json,
}
#: How x is read, by the ending of the file's name.
READERS: dict[str, Callable[[Path, str, Sequence[str] | None], Columns]] = {
    ".csv": read_csv,
    ".npy": read_npy,
    ".parquet": read_parquet,
    ".root": read_root,
}


def read_columns(path: Path, part: str, names: Sequence[str] | None) -> Columns:
    """What a file holds, or the columns `names` of it in this order."""
    try:
        found = READERS[path.suffix](path, part, names)
    except ImportError:
        raise
    except Exception as error:  # readers raise kinds of their own
        raise ValueError(f"its file {path.name} cannot be read: {in_short(error)}.") from error
    if names is None:
        return found
    if found.names is None:
        if found.values.shape[-1] != len(names):
            raise ValueError(
                f"its file {path.name} has {found.values.shape[-1]} columns without names, but "
                f"x_names has {len(names)}: {', '.join(names)}."
            )
        return Columns(found.values, tuple(names))
    for name in names:
        if name not in found.names:
            raise ValueError(
                f"x_names must be columns of {path.name}, and {describe_missing(name, found.names)}"
                "."
            )
    return Columns(found.values[:, [found.names.index(name) for name in names]], tuple(names))
