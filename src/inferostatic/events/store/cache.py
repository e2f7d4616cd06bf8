"""The events of a store as arrays: memory-mapped from a cache that is built on first use.

Training reads rows at random, which Parquet files do not offer. So their content is copied once
into plain `.npy` files beside them, part after part, with every checksum compared. The name of the
cache follows from the parts, so one of other parts is never taken.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...files import hold_lock, lock_if_free
from ...inputs import warn_user
from ...progress import progress
from ..events import AbstractEventSource, EventArrays
from ..latent import AbstractJoint
from .layout import WEIGHT, event_arrays
from .manifest import Manifest
from .parts import DROPPED, DamagedPart, PartFile, find_parts, read_notes, read_part

#: Folder of the cache.
CACHE = "cache"
#: Beginning of the names of folders that are being filled.
BUILDING = ".building-"
#: A file in such a folder that is locked while somebody fills it.
LOCK = "lock"
#: Errors that say that a folder cannot be written to, rather than that a disk is full.
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


def count_events(folder: Path, manifest: Manifest, parts: Sequence[int], n: int) -> int:
    """Events in these parts with numbers below `n`, without those that were dropped."""
    dropped = read_notes(folder, DROPPED)
    total = 0
    for part in parts:
        shown = _shown_rows(manifest, part, n)
        total += shown - sum(row < shown for row in dropped.get(part, {}).get("rows", ()))
    return total


def _shown_rows(manifest: Manifest, part: int, n: int) -> int:
    """Events of a part with numbers below `n`, dropped ones included."""
    return min(manifest.part_rows(part), max(n - part * manifest.part_size, 0))


class PartsSource(AbstractEventSource):
    """The events of some parts, which are read into memory."""

    folder: Path
    manifest: Manifest
    parts: tuple[int, ...]
    n: int
    count: int
    weighted: bool

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        parts: Sequence[int],
        n: int,
        joint: AbstractJoint | None,
    ) -> None:
        """Events of `parts` with numbers below `n`."""
        self.folder, self.manifest, self.parts, self.n = folder, manifest, tuple(parts), n
        self.joint = joint
        self.count = count_events(folder, manifest, parts, n)
        self.weighted = manifest.layout.weighted

    def read(self) -> EventArrays:
        """All of them, in memory."""
        shapes = self.manifest.layout.array_shapes()
        read = [*read_arrays(self.folder, self.manifest, self.parts, self.n)]
        arrays = {
            name: np.concatenate([np.empty((0, *shape), dtype), *(part[name] for part in read)])
            for name, (shape, dtype) in shapes.items()
        }
        return event_arrays(arrays, self.joint)


class CachedSource(AbstractEventSource):
    """The first `n` events of a store, memory-mapped from its cache."""

    folder: Path
    manifest: Manifest
    n: int
    joint: AbstractJoint | None
    count: int
    weighted: bool

    def __init__(
        self, folder: Path, manifest: Manifest, n: int, joint: AbstractJoint | None
    ) -> None:
        """Nothing is read yet."""
        self.folder, self.manifest, self.n, self.joint = folder, manifest, n, joint
        self.count = count_events(folder, manifest, range(manifest.count_parts(n)), n)
        self.weighted = manifest.layout.weighted

    def read(self) -> EventArrays:
        """The arrays in their files; in memory where no cache can be written."""
        try:
            cache = find_cache(self.folder, self.manifest)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            size = self.count * self.manifest.layout.row_bytes() / 1e9
            warn_user(
                f"{self.folder / CACHE} cannot be written ({error.strerror}), so the events of the "
                f"store are read into memory, {size:.2g} GB. Make the folder writable, or copy the "
                "store, to train from files."
            )
            parts = range(self.manifest.count_parts(self.n))
            return PartsSource(self.folder, self.manifest, parts, self.n, self.joint).read()
        arrays = {name: values[: self.count] for name, values in cache.items()}
        if not self.weighted:
            arrays[WEIGHT] = np.broadcast_to(np.ones(()), (self.count,))
        return event_arrays(arrays, self.joint)


def read_arrays(
    folder: Path, manifest: Manifest, parts: Sequence[int], n: int
) -> Iterator[dict[str, np.ndarray]]:
    """The arrays of one part after the other, without what lies beyond the first `n` events."""
    dropped = read_notes(folder, DROPPED)
    for part in parts:
        arrays, rows = read_part(folder, manifest, part), manifest.part_rows(part)
        kept = np.delete(np.arange(rows), dropped.get(part, {}).get("rows", ()))
        if any(len(values) != len(kept) for values in arrays.values()):
            raise DamagedPart(
                f"part {part} of the store in {folder} has {len(arrays['x'])} events, and "
                f"{len(kept)} were written. Remove its file and run the same ist.simulate(…, "
                "store=…) again, which makes it anew."
            )
        shown = int(np.searchsorted(kept, _shown_rows(manifest, part, n)))
        yield {name: values[:shown] for name, values in arrays.items()}


def find_cache(folder: Path, manifest: Manifest) -> dict[str, np.ndarray]:
    """The arrays of all events, memory-mapped; the cache is built where there is none."""
    files = find_parts(folder)
    parts = range(manifest.part_count)
    require_parts(folder, files, parts)
    key = _key(manifest, [files[part] for part in parts])
    target = folder / CACHE / key
    count = count_events(folder, manifest, parts, manifest.events)
    try:
        return _open(target, manifest, count)
    except FileNotFoundError:
        pass
    except (ValueError, EOFError):  # somebody damaged it
        shutil.rmtree(target)
    _build(folder, manifest, target, count)
    return _open(target, manifest, count)


def require_parts(folder: Path, files: dict[int, PartFile], parts: Sequence[int]) -> None:
    """Refuse a store in which some of these parts are missing or cut short."""
    missing = [part for part in parts if part not in files]
    short = [part for part in parts if part in files and not files[part].whole]
    if missing or short:
        said = [f"{list_numbers(missing)} missing"] if missing else []
        said += [f"{list_numbers(short)} cut short"] if short else []
        raise ValueError(
            f"the store in {folder} is not complete: of {len(parts):,} parts, {' and '.join(said)}."
            " Run the same ist.simulate(…, store=…) again, which makes what is missing."
        )


def list_numbers(numbers: Sequence[int], most: int = 5) -> str:
    """Ranges of numbers, for a message.

    >>> list_numbers([1, 2, 3, 7, 9])
    '1 to 3, 7, 9'
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in ranges[:most]]
    return ", ".join(shown) + (f", … ({len(numbers):,} in all)" if len(ranges) > most else "")


def _key(manifest: Manifest, files: Sequence[PartFile]) -> str:
    listed = [manifest.identity, manifest.events, [(file.size, file.changed) for file in files]]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16]


def _open(target: Path, manifest: Manifest, count: int) -> dict[str, np.ndarray]:
    arrays = {}
    for name, (shape, dtype) in _cached_shapes(manifest).items():
        array = np.load(target / f"{name}.npy", mmap_mode="r")
        if array.shape != (count, *shape) or array.dtype != dtype:
            raise ValueError(f"{target} holds other arrays")
        arrays[name] = array.view(np.ndarray)
    return arrays


def _cached_shapes(manifest: Manifest) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    shapes = manifest.layout.array_shapes()
    return {k: v for k, v in shapes.items() if k != WEIGHT or manifest.layout.weighted}


def _build(folder: Path, manifest: Manifest, target: Path, count: int) -> None:
    """Copy the parts into a folder, which gets its name when it is complete."""
    target.parent.mkdir(exist_ok=True)
    _remove_abandoned(target.parent)
    place, lock = _begin(target.parent)
    try:
        with lock:
            _copy(folder, manifest, place, count)
            # Another process may have been faster.
            with contextlib.suppress(OSError):
                os.rename(place, target)
        if not target.is_dir():
            os.rename(place, target)
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise
        size = count * manifest.layout.row_bytes() / 1e9
        text = (
            f"{error.strerror or error}; the cache of the store takes {size:.2g} GB beside it. "
            "Free some space, or move the store to another disk"
        )
        raise OSError(error.errno, text, str(folder / CACHE)) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for old in target.parent.iterdir():
        if old != target and not old.name.startswith(BUILDING):
            shutil.rmtree(old, ignore_errors=True)


def _begin(folder: Path) -> tuple[Path, IO[bytes]]:
    """A new folder to build in, and the open file by whose lock others know that it is used."""
    while True:
        place = folder / f"{BUILDING}{secrets.token_hex(6)}"
        place.mkdir()
        lock = (place / LOCK).open("wb")
        if hold_lock(lock):
            return place, lock
        lock.close()


def _copy(folder: Path, manifest: Manifest, place: Path, count: int) -> None:
    with contextlib.ExitStack() as stack:
        # Written, not mapped: a full disk is an error there, and the end of the process here.
        streams: dict[str, IO[bytes]] = {}
        for name, (shape, dtype) in _cached_shapes(manifest).items():
            streams[name] = stack.enter_context((place / f"{name}.npy").open("wb"))
            header = {"descr": dtype.str, "fortran_order": False, "shape": (count, *shape)}
            np.lib.format.write_array_header_1_0(streams[name], header)
        advance = stack.enter_context(progress("reading the store", count))
        for arrays in read_arrays(folder, manifest, range(manifest.part_count), manifest.events):
            for name, stream in streams.items():
                stream.write(np.ascontiguousarray(arrays[name]).data)
            advance(len(arrays["x"]))
        for stream in streams.values():
            stream.flush()
            os.fsync(stream.fileno())


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes left that ended while they built."""
    for place in folder.glob(f"{BUILDING}*"):
        with contextlib.suppress(OSError), lock_if_free(place / LOCK) as free:
            if free:
                shutil.rmtree(place)
