"""Which columns of a Parquet file hold which array of events."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..events import EventArrays, Events
from ..latent import AbstractJoint, Latent

#: The column of weights.
WEIGHT = "weight"


@dataclasses.dataclass(frozen=True)
class LatentShape:
    """A latent array: the shape of one event's row and its dtype."""

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class ColumnLayout:
    """The arrays of a set of events, and the columns in which they are stored.

    Columns have the names of the parameters and observables; a latent array `z` of three numbers
    has the columns `z.0`, `z.1` and `z.2`. Where two arrays would share a name, the later one has
    the name of its array in front.

    Attributes:
        theta_names, x_names: of the columns of θ and x.
        theta_dtype, x_dtype: of the numbers in them.
        weighted: whether there are weights other than 1.
        latent: latent arrays by name.
    """

    theta_names: tuple[str, ...]
    x_names: tuple[str, ...]
    theta_dtype: str
    x_dtype: str
    weighted: bool
    latent: dict[str, LatentShape]

    @staticmethod
    def of(events: Events) -> "ColumnLayout":
        """The layout of these events."""
        return ColumnLayout(
            events.theta_names,
            events.x_names,
            str(events.theta.dtype),
            str(events.x.dtype),
            not bool((events.weight == 1).all()),
            {
                name: LatentShape(values.shape[1:], str(values.dtype))
                for name, values in sorted(events.latent.items())
            },
        )

    def described(self) -> dict[str, Any]:
        """For a manifest."""
        return {
            "theta": {"names": list(self.theta_names), "dtype": self.theta_dtype},
            "x": {"names": list(self.x_names), "dtype": self.x_dtype},
            "weighted": self.weighted,
            "latent": {
                name: {"shape": list(array.shape), "dtype": array.dtype}
                for name, array in self.latent.items()
            },
        }

    @staticmethod
    def restored(data: Mapping[str, Any]) -> "ColumnLayout":
        """From a manifest."""
        return ColumnLayout(
            tuple(data["theta"]["names"]),
            tuple(data["x"]["names"]),
            str(np.dtype(data["theta"]["dtype"])),
            str(np.dtype(data["x"]["dtype"])),
            bool(data["weighted"]),
            {
                name: LatentShape(tuple(array["shape"]), str(np.dtype(array["dtype"])))
                for name, array in data["latent"].items()
            },
        )

    def array_shapes(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape of a row and dtype of every array; latent ones as `latent.NAME`."""
        latent = {
            f"latent.{name}": (array.shape, np.dtype(array.dtype))
            for name, array in self.latent.items()
        }
        return {
            "theta": ((len(self.theta_names),), np.dtype(self.theta_dtype)),
            "x": ((len(self.x_names),), np.dtype(self.x_dtype)),
            WEIGHT: ((), np.dtype(np.float64)),
            **latent,
        }

    def row_bytes(self) -> int:
        """Bytes of one event."""
        shapes = self.array_shapes().values()
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in shapes)

    def columns(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Name of each column, the array that it belongs to, and its index in a row of that."""
        taken: set[str] = set()
        for array, (shape, _) in self.array_shapes().items():
            names = {"theta": self.theta_names, "x": self.x_names}.get(array)
            plain = array.removeprefix("latent.")
            for index in np.ndindex(*shape):
                numbered = ".".join([plain, *map(str, index)])
                name = numbered if names is None else names[index[0]]
                while name in taken:
                    name = f"{array}.{name}"
                taken.add(name)
                yield name, array, index

    def flatten(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns, one array each."""
        return {
            name: np.ascontiguousarray(arrays[array][(slice(None), *index)])
            for name, array, index in self.columns()
        }

    def unflatten(self, columns: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
        """The arrays again."""
        arrays = {
            array: np.empty((rows, *shape), dtype)
            for array, (shape, dtype) in self.array_shapes().items()
        }
        for name, array, index in self.columns():
            arrays[array][(slice(None), *index)] = columns[name]
        return arrays


def arrays_of(events: Events, rows: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    """The arrays of some events by the names that a layout has for them."""
    latent = {f"latent.{name}": values[rows] for name, values in sorted(events.latent.items())}
    weight = np.asarray(events.weight[rows], np.float64)
    return {"theta": events.theta[rows], "x": events.x[rows], WEIGHT: weight, **latent}


def event_arrays(arrays: Mapping[str, np.ndarray], joint: AbstractJoint | None) -> EventArrays:
    """Arrays as events have them, which nobody can write to."""
    for values in arrays.values():
        values.setflags(write=False)
    latent = object.__new__(Latent)
    named = {name: values for name, values in arrays.items() if name.startswith("latent.")}
    latent.arrays = {name.removeprefix("latent."): values for name, values in named.items()}
    latent.columns, latent.joint = dict.fromkeys(latent.arrays), joint
    return EventArrays(arrays["x"], arrays["theta"], arrays[WEIGHT], latent)


def checksum(columns: Mapping[str, np.ndarray]) -> str:
    """A number that another name, dtype, order or value in any column would change."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(f"{name}\0{values.dtype.str}\0{len(values)}\0".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
