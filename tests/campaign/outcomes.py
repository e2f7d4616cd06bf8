"""What became of one call, and which class that is."""

import ast
import dataclasses
import functools
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import inferostatic

Class = Literal["clear", "same", "odd", "raw", "silent", "crash"]
CLASSES: tuple[Class, ...] = ("clear", "same", "odd", "raw", "silent", "crash")
#: Classes that must stay empty.
FAULTS: tuple[Class, ...] = ("raw", "silent", "crash")
#: Where the library is.
PACKAGE = Path(inferostatic.__file__).parent
#: Letters of a message, at least: what was expected, what came.
SHORTEST_SENTENCE = 15
#: Errors that say nothing even with a sentence.
BARE = (AssertionError, RecursionError, StopIteration, AttributeError)
#: Relative difference between answers that are the same: models compute in float32.
ROUNDING = 2e-4
#: Depth to which results are compared.
DEEPEST = 12


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The class of a case and what was seen."""

    name: str
    kind: Class
    detail: str = ""


def attempt(call: Callable[[], Any]) -> tuple[Any, Class | None, str]:
    """The result, or the class of the error and its text; warnings of the library come as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except MemoryError as error:
            return None, "crash", f"MemoryError: {error}"
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return None, "clear" if is_clear(error) else "raw", text + _origin(error)
    said = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return result, None, "; ".join(said)


def is_clear(error: Exception) -> bool:
    """Whether a `raise` of the library itself made this error, with a sentence.

    An error that Python makes in a line of the library, such as that of `table[key]`, is not one.
    """
    if isinstance(error, BARE) or len(str(error)) < SHORTEST_SENTENCE:
        return False
    path, line = _innermost(error)
    return path.is_relative_to(PACKAGE) and line in _raises(path)


def _innermost(error: Exception) -> tuple[Path, int]:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return Path(), 0
    return Path(trace.tb_frame.f_code.co_filename), trace.tb_lineno


def _origin(error: Exception) -> str:
    path, line = _innermost(error)
    return f" [{path.name}:{line}]"


@functools.cache
def _raises(path: Path) -> frozenset[int]:
    """Lines of the `raise` statements of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    return frozenset(i for node in found for i in range(node.lineno, node.end_lineno + 1))  # type: ignore[operator]


def digest(thing: Any) -> dict[str, Any]:
    """All numbers and words in a result, by where they stand."""
    return dict(_walk(thing, "", 0, set()))


def _walk(thing: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if thing is None or isinstance(thing, bool | np.bool_ | str | bytes | Path):
        yield path, str(thing)
    elif isinstance(thing, int | float | complex | np.generic | np.ndarray | jax.Array):
        yield path, _as_array(thing)
    elif id(thing) in seen or depth > DEEPEST or isinstance(thing, type | types.FunctionType):
        return
    else:
        seen.add(id(thing))
        for name, value in _parts(thing):
            yield from _walk(value, f"{path}.{name}", depth + 1, seen)


def _as_array(thing: Any) -> Any:
    if isinstance(thing, jax.Array) and jnp.issubdtype(thing.dtype, jax.dtypes.prng_key):
        return "a key"
    return np.asarray(thing)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from ((str(key), value) for key, value in thing.items())
    elif isinstance(thing, tuple | list | set | frozenset):
        yield from ((str(i), value) for i, value in enumerate(thing))
    elif dataclasses.is_dataclass(thing):
        fields = [field.name for field in dataclasses.fields(thing)]
        yield from ((name, getattr(thing, name, None)) for name in fields if name != "seconds")
    elif type(thing).__module__.startswith("matplotlib"):
        for i, axes in enumerate(thing.axes):
            for j, line in enumerate(axes.get_lines()):
                yield f"{i}.{j}", np.asarray(line.get_xydata())
            for j, image in enumerate(axes.get_images()):
                yield f"{i}.image{j}", np.ma.filled(image.get_array().astype(float), 0.0)


def nan_places(found: Mapping[str, Any]) -> set[str]:
    return {place for place, value in found.items() if _has_nan(value)}


def _has_nan(value: Any) -> bool:
    inexact = isinstance(value, np.ndarray) and value.dtype.kind in "fc"
    return inexact and bool(np.isnan(value).any())


def is_same(found: Mapping[str, Any], expected: Mapping[str, Any], rounding: float) -> bool:
    """The same places, and as good as the same values."""
    if found.keys() != expected.keys():
        return False
    with np.errstate(all="ignore"):
        return all(_equal(found[place], expected[place], rounding) for place in expected)


def _equal(a: Any, b: Any, rounding: float) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape:
            return False
        if a.dtype.kind in "biufc" and b.dtype.kind in "biufc":
            finite = np.abs(b[np.isfinite(b)]).astype(float)
            scale = rounding * (1 + finite.max(initial=0.0)) if np.isfinite(finite).all() else 0.0
            return np.allclose(a, b, rtol=rounding, atol=scale, equal_nan=True)
        return bool(np.array_equal(a, b))
    if not isinstance(a, str) or not isinstance(b, str):
        return False
    return a == b or _without_digits(a) == _without_digits(b)


def _without_digits(text: str) -> str:
    """Texts with numbers differ by rounding."""
    return "".join(c for c in text if not c.isdigit())
