"""Files that a program reads its θ from and writes its x to; the ending of a name says which."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..inputs import as_floats, describe_missing, in_short
from ..packages import import_package

#: Digits from which every float64 can be read back exactly.
DIGITS = "%.17g"


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


def read_csv(path: Path, part: str) -> Columns:
    """Numbers between commas, under a line of names or without one."""
    with path.open(encoding="utf-8") as stream:
        first = stream.readline().strip()
    if not first:
        raise ValueError(f"{path.name} begins with an empty line; a line of names was expected.")
    fields = tuple(field.strip().strip('"') for field in first.split(","))
    named = not all(_is_number(field) for field in fields)
    values = np.loadtxt(path, delimiter=",", skiprows=int(named), ndmin=2, encoding="utf-8")
    return Columns(values, fields if named else None)


def read_npy(path: Path, part: str) -> Columns:
    """An array of shape (n, D), or (n,) for one observable; named fields become columns."""
    array = np.load(path, allow_pickle=False)
    names = array.dtype.names
    if names is not None:
        array = np.stack([array[name] for name in names], axis=-1)
    return Columns(array[:, None] if array.ndim == 1 else array, names)


def read_parquet(path: Path, part: str) -> Columns:
    """All columns, which hold one number for each event."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = [as_floats(column.to_numpy(), f"column {name!r}") for name, column in _pairs(table)]
    return Columns(np.stack(columns, axis=1), tuple(table.column_names))


def _pairs(table: Any) -> Any:  # noqa: ANN401
    return zip(table.column_names, table.columns, strict=True)


def read_root(path: Path, part: str) -> Columns:
    """All branches of the tree `part`, or of the only one, with one number for each event."""
    uproot = import_package("uproot", "reading ROOT files uses uproot", "readers")
    with uproot.open(str(path)) as file:
        trees = sorted({key.split(";")[0] for key in file.keys(filter_classname="T*Tree")})
        if not part and len(trees) != 1:
            raise ValueError(
                f"{path.name} has {len(trees)} trees, {', '.join(trees) or 'none'}; name the one "
                f"to read, x='{path.name}:TREE'."
            )
        if part and part not in trees:
            raise ValueError(f"{path.name} has these trees, and {describe_missing(part, trees)}.")
        branches = file[part or trees[0]].arrays(library="np")
    columns = [as_floats(values, f"branch {name!r}") for name, values in branches.items()]
    return Columns(np.stack(columns, axis=1), tuple(branches))


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
READERS: dict[str, Callable[[Path, str], Columns]] = {
    ".csv": read_csv,
    ".npy": read_npy,
    ".parquet": read_parquet,
    ".root": read_root,
}


def read_columns(path: Path, part: str, names: Sequence[str] | None) -> Columns:
    """What a file holds, or the columns `names` of it in this order."""
    try:
        found = READERS[path.suffix](path, part)
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
