"""Damaged and edited model files.

What may become of a mutated file:

- It is refused, naming the file: clear.
- It loads, and is described and answers as before: same. Dates and attributes of a zip archive
  mean nothing.
- It loads as something else. For a file of version 2 this is silent, always: its checksum covers
  the header and all arrays. A file of version 1, or one whose checksum was computed again, may
  have been edited into another valid model, which nobody can tell from one that was trained so.
  This is allowed ("odd") only for edits of the header or of an array, and only if the model that
  was loaded, described again, has what the edited file says at the edited place, with finite
  answers. It is silent if anything was dropped, replaced by a default or read as something else.
"""

import functools
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import inferostatic as ist
from inferostatic.archive import CHECKSUM, HEADER, checksum_of
from saved_models import FOLDER, SUPPLIED, answers, told

from .outcomes import Outcome, attempt, digest, is_same, nan_places
from .public import folder
from .targets import Case

EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
#: Stored models of every kind of estimator, network, features, prior and method.
MODELS = (
    *("network-mlp", "network-residual-three-members", "network-two-tower", "network-particle-set"),
    *("features-quantile", "features-natural", "features-chosen", "centred", "direct-score"),
    *("direct-ratio", "nde", "mem-transfer-given", "prior-discrete", "prior-product", "mix"),
    *("kse-factorised", "klre-width-of-a-user", "training-told"),
)
#: Rounding of an answer of a model that was saved and read again.
EXACT = 1e-6
#: Cases of each kind for every file.
FLIPS, CUTS, EDITS = 14, 6, 28
Members = dict[str, bytes]
#: A place in a header, and what the edited file says there.
Said = tuple[tuple[Any, ...], Any] | None


@functools.cache
def stored(name: str, version: int) -> bytes:
    """A file of version 1 from the store, or the same model saved now."""
    if version == 1:
        return (FOLDER / f"{name}.isn").read_bytes()
    path = folder() / f"fresh-{name}.isn"
    _load(FOLDER / f"{name}.isn").save(path)
    return path.read_bytes()


def _load(path: Path) -> Any:
    return ist.load(path, supplied=SUPPLIED)


@functools.cache
def expected(name: str) -> dict[str, Any]:
    return ask(_load(FOLDER / f"{name}.isn"), name)


def ask(model: Any, name: str) -> dict[str, Any]:
    """What a model tells and answers, in numbers."""
    asked = EXPECTED[name]
    at = tuple(np.array(part) for part in asked["at"])
    questions = tuple(q for q in asked["answers"] if q != "sample")
    return digest({"told": told(model), "answers": answers(model, at, questions)})


# --- Mutations -----------------------------------------------------------------------------------


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """Truncated, with a hole, with noise at the end, or with bytes overwritten."""
    at, end = sorted(int(i) for i in rng.integers(0, len(data), 2))
    noise = rng.bytes(40)
    return [data[:at], data[:at] + data[end:], data[:at] + noise + data[at + 40 :], data + noise][
        int(rng.integers(4))
    ]


def members_of(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(members: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members:
            kind = zipfile.ZIP_DEFLATED if name == HEADER else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), data, kind)
    return buffer.getvalue()


def sealed(members: Members) -> Members:
    """With the checksum that fits, if there was one."""
    if CHECKSUM not in members:
        return members
    return members | {CHECKSUM: checksum_of(members).encode()}


def change_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Members swapped, repeated, renamed, removed, added; same content with another date."""
    members = members_of(data)
    arrays = [name for name in members if name.startswith("arrays/")]
    first, last = arrays[0], arrays[-1]
    swapped = members | {first: members[last], last: members[first]}
    entries = list(members.items())
    yield "swapped", pack(list(swapped.items()))
    yield "swapped, sealed", pack(list(sealed(swapped).items()))
    yield "in another order", pack(entries[::-1])
    for name in (first, last, HEADER, CHECKSUM):
        if name in members:
            yield f"without {name}", pack([e for e in entries if e[0] != name])
    without = {k: v for k, v in members.items() if k != last}
    yield "without the last array, sealed", pack(list(sealed(without).items()))
    with_warning = [*entries, (first, members[last])]
    yield "repeated", _quietly(with_warning)
    yield "repeated header", _quietly([*entries, (HEADER, members[HEADER])])
    renamed = {("arrays/other.npy" if k == last else k): v for k, v in members.items()}
    yield "renamed", pack(list(renamed.items()))
    yield "renamed, sealed", pack(list(sealed(renamed).items()))
    for name in (
        "more.txt",
        "../../evil",
        "/etc/passwd",
        "arrays/more.npy",
        "arrays/",
        "arrays/a/../b.npy",
    ):
        more = members | {name: members[first]}
        yield f"with {name}", pack(list(sealed(more).items()))
    yield "upper case", pack([(k.upper(), v) for k, v in entries])
    yield "nested archive", pack([("model.isn", data)])


def _quietly(entries: list[tuple[str, bytes]]) -> bytes:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pack(entries)


def places(header: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a header are."""
    if path:
        yield path
    if isinstance(header, dict | list):
        items = header.items() if isinstance(header, dict) else enumerate(header)
        for key, value in items:
            yield from places(value, (*path, key))


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


REMOVED = "removed"
#: What is put in place of a value of the header.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2.5, -0.0, 1e300, 10**18, 10**400, -(10**30)),
    *(math.nan, math.inf, -math.inf, "", "text", "1", "\ud800", [], [1, 2, 3], {}, {"a": 1}),
    *({"type": "os.system", "fields": {}}, {"known": "print"}, {"type": "Uniform", "fields": {}}),
    *({"user": "wave"}, {"user": "nobody"}, {"tuple": [1, 2]}, {"mapping": {"a": 1}}),
    {"array": [1.0, 2.0], "dtype": "float32", "shape": [2]},
    {"array": ["a"], "dtype": "object", "shape": [1]},
    {"array": [1.0], "dtype": "float64", "shape": [10**9]},
    *(deep(50), deep(900), "x" * 10_000, [0] * 5000, REMOVED, "nearby", "nearby"),
)


def edit_header(data: bytes, rng: np.random.Generator) -> tuple[str, Members, Said]:
    """One value of the header replaced, removed or moved a little."""
    members = members_of(data)
    header = json.loads(members[HEADER])
    every = list(places(header))
    path = every[int(rng.integers(len(every)))]
    value = VALUES[int(rng.integers(len(VALUES)))]
    parent = functools.reduce(lambda part, key: part[key], path[:-1], header)
    old = parent[path[-1]]
    if value == "nearby":
        value = _nearby(old, rng)
    if value == REMOVED:
        del parent[path[-1]]
        said = path, REMOVED
    else:
        parent[path[-1]] = value
        said = path, value
    text = json.dumps(header).encode("utf-8", errors="surrogatepass")
    label = f"{'.'.join(map(str, path))} = {str(value)[:40]}"
    return label, members | {HEADER: text}, said


def _nearby(old: Any, rng: np.random.Generator) -> Any:
    """The same kind of value, another one."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return [old + 1, -old, old * 2, old * 1e6][int(rng.integers(4))]
    if isinstance(old, str):
        return ["Normal", "KCE", old + "x", old[:-1], "Estimator", "RatioEstimator"][
            int(rng.integers(6))
        ]
    if isinstance(old, list):
        return [[*old, *old], old[:-1], old[::-1]][int(rng.integers(3))]
    return {}


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def change_arrays(data: bytes, rng: np.random.Generator) -> Iterator[tuple[str, Members, Said]]:
    """An array with other numbers, of another type or another shape."""
    members = members_of(data)
    arrays = [name for name in members if name.startswith("arrays/")]
    for change, make in ARRAY_CHANGES.items():
        name = arrays[int(rng.integers(len(arrays)))]
        array = np.load(io.BytesIO(members[name]))
        try:
            changed = make(array)
        except (TypeError, ValueError, IndexError, OverflowError):
            continue
        content = changed if isinstance(changed, bytes) else npy(changed, allow_pickle=True)
        said = None if isinstance(changed, bytes) else (("arrays", name), np.asarray(changed))
        yield f"{name} {change}", members | {name: content}, said


def _with(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[0] = value
        return array

    return change


def _header_lies(array: np.ndarray) -> bytes:
    return npy(array).replace(b"'shape': (", b"'shape': (9", 1)


#: By name, of one array.
ARRAY_CHANGES: dict[str, Callable[[np.ndarray], Any]] = {
    "with NaN": _with(np.nan),
    "with inf": _with(np.inf),
    "with a huge number": _with(1e30),
    "with another number": lambda a: a + np.ones(1, a.dtype),
    "negative": lambda a: -a,
    "of zeros": np.zeros_like,
    "in float64": lambda a: a.astype(np.float64),
    "in float16": lambda a: a.astype(np.float16),
    "in int32": lambda a: a.astype(np.int32),
    "complex": lambda a: a + 1j,
    "boolean": lambda a: a.astype(bool),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "in Fortran order": lambda a: np.asfortranarray(a),
    "of text": lambda a: a.astype(str),
    "of objects": lambda a: a.astype(object),
    "structured": lambda a: np.zeros(a.shape, [("p", "f4"), ("q", "i4")]),
    "flat": np.ravel,
    "transposed": lambda a: a.T,
    "with one more axis": lambda a: a[None],
    "with twice the rows": lambda a: np.concatenate([a, a]),
    "without rows": lambda a: a[:0],
    "whose shape lies": _header_lies,
    "empty": lambda a: b"",
    "of noise": lambda a: npy(a)[:60] + b"\x93" * 80,
    "of a later version": lambda a: b"\x93NUMPY\x03\x00" + struct.pack("<I", 8) + b"{}      ",
    "with bytes at the end": lambda a: npy(a) + b"more",
}


# --- Cases ---------------------------------------------------------------------------------------


def run(name: str, label: str, make: Callable[[], tuple[bytes, bool, Said]]) -> Outcome:
    """Write the file, load it and compare; `make` tells whether it may be another model."""
    data, editable, said = make()
    if data == stored(name, 1):
        return Outcome(label, "same", "unchanged")
    path = folder() / "mutated file.isn"
    path.write_bytes(data)
    model, refused, text = attempt(lambda: _load(path))
    if refused is not None:
        unnamed = refused == "clear" and str(path) not in text
        return Outcome(label, "raw" if unnamed else refused, text)
    found, failed, text = attempt(lambda: ask(model, name))
    if failed is not None:
        # A user's part that a file cannot hold is asked for when it is used.
        fine = failed == "clear" and "user-written" in text
        return Outcome(label, "clear" if fine else "silent", f"loads, then {text}")
    # Losses of a history may be NaN, of members that had stopped.
    nan = nan_places(found) - nan_places(expected(name))
    if any(place.startswith(".answers") for place in nan):
        return Outcome(label, "silent", "NaN in its answers")
    if is_same(found, expected(name), EXACT):
        return Outcome(label, "same", text)
    if not editable or said is None:
        return Outcome(label, "silent", "another model")
    return _judge_edit(label, model, said)


def _judge_edit(label: str, model: Any, said: Any) -> Outcome:
    """Whether the model has what the edited file says."""
    place, value = said
    header, arrays = model.described()
    if place[0] == "arrays":
        kept = arrays.get(place[1].removeprefix("arrays/").removesuffix(".npy"))
        faithful = kept is not None and np.array_equal(np.asarray(kept), value, equal_nan=True)
        return Outcome(label, "odd" if faithful else "silent", f"array kept: {faithful}")
    part: Any = json.loads(json.dumps(header))
    for key in place:
        missing = not isinstance(part, dict | list) or (
            key not in part if isinstance(part, dict) else key >= len(part)
        )
        if missing:
            faithful = value in (REMOVED, None)
            return Outcome(label, "odd" if faithful else "silent", "the place is gone")
        part = part[key]
    if value == REMOVED and part not in (None, []):  # remarks that older files do not have
        return Outcome(label, "silent", f"removed, and now {str(part)[:100]}")
    # Probabilities of points are normalised whenever they are read.
    faithful = _agrees(part, value) or "probability" in place or value == REMOVED
    return Outcome(label, "odd" if faithful else "silent", f"now {str(part)[:100]}")


def _agrees(a: Any, b: Any) -> bool:
    """Equal as JSON, to the rounding of float32."""
    if isinstance(a, bool) and not isinstance(b, int | float):
        return False
    if isinstance(a, dict) and "array" in a and isinstance(b, int | float):
        return all(_agrees(entry, b) for entry in np.ravel(a["array"]).tolist())  # one for all
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agrees, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_agrees(a[k], b[k]) for k in a)
    # A name may have been a number.
    return a == b or (isinstance(a, str) and isinstance(b, int) and a == str(b))


def cases(names: tuple[str, ...] = MODELS) -> list[Case]:
    found: list[Case] = []
    for number, name in enumerate(names):
        for version in (1, 2):
            rng = np.random.default_rng([number, version])
            for label, make in mutants(name, version, rng):
                full = f"{name} v{version}: {label}"
                found.append((full, functools.partial(run, name, full, make)))
    return found


def mutants(
    name: str, version: int, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], tuple[bytes, bool, Said]]]]:
    """Files by label, each with whether it may be another model and what it then says."""
    data = stored(name, version)

    def plain(made: bytes) -> Callable[[], tuple[bytes, bool, Said]]:
        return lambda: (made, False, None)

    def edited(members: Members, said: Said, *, seal: bool) -> Any:
        made = pack(list((sealed(members) if seal else members).items()))
        return lambda: (made, seal or version == 1, said)

    for i in range(FLIPS):
        yield f"bits flipped {i}", plain(flip_bits(data, rng))
    for i in range(CUTS):
        yield f"cut {i}", plain(cut(data, rng))
    for label, made in change_members(data):
        yield label, plain(made)
    for i in range(EDITS):
        label, members, said = edit_header(data, rng)
        yield f"header {i}: {label}", edited(members, said, seal=i % 2 == 0)
    for i, (label, members, said) in enumerate(change_arrays(data, rng)):
        yield label, edited(members, said, seal=i % 2 == 0)
