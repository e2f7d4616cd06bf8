"""Fingerprints: whether two objects are the same, also in different processes.

Whoever goes on with saved work must know that it belongs to the same data and settings. Arrays are
compared by their bytes, records by their fields, and functions by their compiled code with the
constants, default values and functions that it uses, since another process has another address for
the same function.
"""

import dataclasses
import dis
import enum
import functools
import hashlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

#: Bytes of a fingerprint: two objects never share one by chance.
DIGEST_BYTES = 16
#: Bytes of an array that are read at a time: it may lie in a file.
CHUNK_BYTES = 1 << 24
#: Packages whose code goes with their version.
PACKAGES = ("inferostatic", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "flowjax")
#: Characters of an object that a message shows.
SHOWN = 60


@runtime_checkable
class Identified(Protocol):
    """An object that says what makes it what it is, such as events by the checksum of a store."""

    def checkpoint_identity(self) -> object:
        """What is compared in its place."""
        ...


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """A digest to compare, and a text to show."""

    digest: str
    shown: str


def take_fingerprint(thing: object) -> Fingerprint:
    """The fingerprint of an object, with its beginning as text."""
    text = " ".join(repr(thing).split())
    return Fingerprint(digest(thing), text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def identify(parts: Mapping[str, object]) -> dict[str, Fingerprint]:
    """Fingerprints of all that a work depends on, by name."""
    return {name: take_fingerprint(part) for name, part in parts.items()}


def digest(thing: object) -> str:
    """A digest of all that makes an object what it is."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _Walk(found.update).add(thing)
    return found.hexdigest()


class _Walk:
    """Hands everything that an object consists of to `update`, in a fixed order."""

    def __init__(self, update: Callable[[Any], None]) -> None:
        self.update = update
        #: Numbers of the objects in which we are, and of functions and classes that were met, by
        #: their addresses.
        self.met: dict[int, int] = {}

    def add(self, thing: object) -> None:
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
            return self._add_text(type(thing).__name__, repr(thing))
        if isinstance(thing, np.generic):
            return self.add(np.asarray(thing))
        if isinstance(thing, np.ndarray | jax.Array):
            return self._add_array(thing)
        if id(thing) in self.met:
            return self._add_text("again", str(self.met[id(thing)]))
        self.met[id(thing)] = len(self.met)
        self._add_parts(thing)
        # Equal records may be one object here and two in another process, functions may not.
        if not isinstance(thing, types.FunctionType | type):
            del self.met[id(thing)]
        return None

    def _add_parts(self, thing: object) -> None:
        if isinstance(thing, Identified) and not isinstance(thing, type):
            self._add_text("identity", _name(type(thing)))
            return self.add(thing.checkpoint_identity())
        if isinstance(thing, Mapping):
            entries = sorted(thing.items(), key=lambda entry: str(entry[0]))
            return self._add_all("mapping", [part for entry in entries for part in entry])
        if isinstance(thing, Set):
            return self._add_all("set", sorted(digest(one) for one in thing))
        if isinstance(thing, Sequence):
            return self._add_all("sequence", thing)
        if isinstance(thing, enum.Enum | PurePath | np.dtype):
            return self._add_text(_name(type(thing)), str(thing))
        if isinstance(thing, types.CodeType):
            return self._add_code(thing)
        if isinstance(thing, types.MethodType):
            return self._add_all("method", [thing.__func__, thing.__self__])
        if isinstance(thing, functools.partial):
            return self._add_all("partial", [thing.func, thing.args, thing.keywords])
        if isinstance(thing, types.FunctionType):
            return self._add_function(thing)
        if isinstance(thing, type):
            return self._add_class(thing)
        if dataclasses.is_dataclass(thing):
            self.add(type(thing))
            fields = [field.name for field in dataclasses.fields(thing)]
            return self._add_all("fields", [(name, getattr(thing, name, None)) for name in fields])
        wrapped = getattr(thing, "__wrapped__", None)
        if callable(thing) and wrapped is not None:
            return self._add_all("wrapped", [wrapped])
        if callable(thing) and getattr(thing, "__qualname__", None) is not None:
            return self._add_text("named", _name(thing))
        self.add(type(thing))
        return self._add_all("attributes", [getattr(thing, "__dict__", None)])

    def _add_text(self, kind: str, text: str) -> None:
        data = text.encode(errors="surrogatepass")
        self.update(f"{kind}:{len(data)}:".encode() + data)

    def _add_all(self, kind: str, parts: Sequence[object]) -> None:
        self._add_text(kind, str(len(parts)))
        for part in parts:
            self.add(part)

    def _add_array(self, array: np.ndarray | jax.Array) -> None:
        if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        values = np.asarray(array)
        if values.dtype == object:
            return self._add_all("objects", values.ravel().tolist())
        self._add_text("array", f"{values.dtype.str}{values.shape}")
        for part in _pieces(values):
            self.update(np.ascontiguousarray(part).view(np.uint8).data)
        return None

    def _add_class(self, kind: type) -> None:
        self._add_text("class", kind.__qualname__)
        if not _is_installed(kind):
            own = [value for _, value in sorted(vars(kind).items()) if _is_code(value)]
            self._add_all("methods", own)

    def _add_function(self, function: types.FunctionType) -> None:
        self._add_text("function", function.__qualname__)
        if _is_installed(function):
            return self._add_text("of", str(function.__module__))
        code = function.__code__
        self._add_code(code)
        self._add_all("defaults", [function.__defaults__, function.__kwdefaults__])
        # What a function changes, such as a count of its calls, does not make it another one.
        changed = _names(code, "STORE_GLOBAL", "STORE_DEREF")
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self._add_all("closure", [_content(cell) for name, cell in cells if name not in changed])
        read = _names(code, "LOAD_GLOBAL") - changed
        used = [(name, function.__globals__.get(name)) for name in sorted(read)]
        return self._add_all("globals", [one for one in used if _is_constant(one[1])])

    def _add_code(self, code: types.CodeType) -> None:
        self._add_all("code", [code.co_code, code.co_consts, code.co_names, code.co_argcount])


def _pieces(values: np.ndarray) -> Iterator[np.ndarray]:
    """An array in pieces, of which each may be copied."""
    if values.nbytes <= CHUNK_BYTES or values.ndim == 0:
        yield values.reshape(-1)
        return
    rows = max(1, CHUNK_BYTES // max(1, values.nbytes // len(values)))
    for start in range(0, len(values), rows):
        yield values[start : start + rows].reshape(-1)


def _name(thing: Any) -> str:  # noqa: ANN401
    return f"{getattr(thing, '__module__', '')}.{thing.__qualname__}"


def _is_installed(thing: Any) -> bool:  # noqa: ANN401
    return str(thing.__module__).partition(".")[0] in (*PACKAGES, "builtins")


def _is_code(value: object) -> bool:
    return isinstance(value, types.FunctionType | staticmethod | classmethod | property)


def _is_constant(value: object) -> bool:
    """Functions, numbers, texts, and arrays and tuples of them; nothing that collects results."""
    kinds = bool | int | float | str | tuple | np.ndarray | types.FunctionType | type
    return isinstance(value, kinds) and not isinstance(value, types.ModuleType)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _names(code: types.CodeType, *operations: str) -> set[str]:
    """Names to which code, or a function inside, applies any of these operations."""
    steps = [step for one in _every_code(code) for step in dis.get_instructions(one)]
    return {step.argval for step in steps if step.opname in operations}


def _every_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _every_code(constant)
