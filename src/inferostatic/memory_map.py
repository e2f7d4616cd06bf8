"""Arrays that stay in their files: memory maps, recognised and read in pieces.

Whatever lies in such a file may be larger than the memory, so nobody may take a copy of all of it,
or of a condition on all of it, at once.
"""

import mmap

import numpy as np


def is_mapped(array: np.ndarray) -> bool:
    """Whether the array, or what it is a view of, is a memory-mapped file."""
    return _owner_and_mapping(array)[1] is not None


def require_whole(array: np.ndarray, name: str) -> None:
    """Refuse a file that was cut short after it was mapped: reading it would end the process."""
    owner, mapping = _owner_and_mapping(array)
    if mapping is None:
        return
    offset = int(getattr(owner, "offset", 0))
    needed = offset - offset % mmap.ALLOCATIONGRANULARITY + len(mapping)
    found = mapping.size()
    if found < needed:
        where = getattr(owner, "filename", None)
        raise OSError(
            f"the file of {name}{f', {where},' if where else ''} is too short: it has {found:,} "
            f"bytes, and {needed:,} were mapped. It was shortened or rewritten in the meantime; "
            "write it again, map it again and make new Events."
        )


def read_rows(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The rows at `index` in memory, read in the order in which they lie in the file."""
    if len(index) < 2 or bool(np.all(index[1:] >= index[:-1])):
        return np.array(array[index])
    order = np.argsort(index, kind="stable")
    rows = np.empty((len(index), *array.shape[1:]), array.dtype)
    rows[order] = array[index[order]]
    return rows


def _owner_and_mapping(array: np.ndarray) -> tuple[np.ndarray, mmap.mmap | None]:
    """The array that views are taken of, and the mapping that it lies in."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner, owner.base if isinstance(owner.base, mmap.mmap) else None
