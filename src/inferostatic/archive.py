"""One file of named arrays and a JSON header, without pickle: a zip archive of `.npy` members.

Reading never executes anything, and takes memory in proportion to the file; a damaged, truncated or
foreign file raises an error. Writing replaces the old file only when the new one is complete.
"""

import hashlib
import io
import itertools
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .files import write_whole
from .versions import find_version


class FileKind(NamedTuple):
    """What an archive is for.

    Attributes:
        format: what its header says it is.
        version: of the format; raised when older programs cannot read new files.
        words: what messages call it.
        checked_since: version since which there is a checksum.
    """

    format: str
    version: int
    words: str
    checked_since: int = 1


#: A trained estimator.
MODEL = FileKind("inferostatic-model", 2, "model file", checked_since=2)
#: Member of the archive that holds the header.
HEADER = "header.json"
#: Member that holds the checksum of all others.
CHECKSUM = "checksum.txt"
#: Names of the members that hold arrays begin with this.
ARRAYS = "arrays/"
#: Bytes of a header's text that a file of any size may unpack to.
HEADER_BYTES = 4 << 20
#: The same for each byte of the file, where that is more.
HEADER_RATIO = 8
#: Objects that a header may describe, hundreds of times more than any model has: each becomes an
#: array or a record, far larger than its text.
MOST_OBJECTS = 20_000
#: Kinds of NumPy's numbers that arrays hold: booleans, integers, real and complex numbers.
NUMBERS = "biufc"
#: Longest axis of an array without entries, whose size says nothing.
LONGEST_EMPTY = 1 << 16


def write_archive(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, Any],
    kind: FileKind = MODEL,
) -> None:
    """Write the header and the arrays to `path`, atomically."""
    text = json.dumps({"format": kind.format, "version": kind.version, **header}, indent=1)
    members = {HEADER: text.encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(array), allow_pickle=False)
        members[f"{ARRAYS}{name}.npy"] = buffer.getvalue()
    write_whole(path, pack(members | {CHECKSUM: checksum_of(members).encode()}))


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip archive of members, of which only the header is compressed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            # A long header might unpack to more than a reader takes.
            small = name == HEADER and len(data) <= HEADER_BYTES
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED)
    return packed.getvalue()


def checksum_of(members: Mapping[str, bytes]) -> str:
    """SHA-256 of a list of members, each a line of its own SHA-256 and its name, by name."""
    lines = [
        f"{hashlib.sha256(data).hexdigest()}  {name}\n"
        for name, data in sorted(members.items())
        if name != CHECKSUM
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read_archive(
    path: str | Path, kind: FileKind = MODEL
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of `path`; raises an error that says what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    with path.open("rb") as stream:
        try:
            members = _read_members(stream, os.fstat(stream.fileno()).st_size)
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"{path} is not a complete inferostatic {kind.words}: {error}. It may be "
                "truncated, damaged or of another kind; copy or save it again."
            ) from error
        except Exception as error:  # whatever zipfile and zlib make of noise
            raise ValueError(f"{path} is damaged ({error}); copy or save it again.") from error
    if HEADER not in members:
        raise ValueError(f"{path} is a zip archive but not an inferostatic {kind.words}.")
    header = _read_header(members[HEADER], path, kind)
    checked = header["version"] >= kind.checked_since
    expected = checksum_of(members).encode() if checked else None
    if members.get(CHECKSUM) != expected:
        raise ValueError(
            f"{path} was changed or damaged after it was saved: its checksum does not match what "
            "it holds; copy or save it again."
        )
    return header, {
        _stem(name): _read_array(data, name, path, kind)
        for name, data in members.items()
        if _is_array(name)
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that make what a file holds."""
    return {name: find_version(name) for name in ("inferostatic", "jax", "equinox", "optax")}


def _read_members(stream: Any, size: int) -> dict[str, bytes]:  # noqa: ANN401
    """All members, whose sizes are compared with that of the file before anything is unpacked."""
    with zipfile.ZipFile(stream) as archive:
        infos = archive.infolist()
        names = [info.filename for info in infos]
        if HEADER not in names:
            return {}
        if len(set(names)) < len(names):
            raise zipfile.BadZipFile("two of its members have the same name")
        if sum(info.compress_size for info in infos) > size:
            raise zipfile.BadZipFile("its members overlap")
        for info in infos:
            _check_size(info, size)
        # A number of bytes, because without one everything is unpacked before it is cut.
        return {info.filename: archive.open(info).read(info.file_size) for info in infos}


def _check_size(info: zipfile.ZipInfo, size: int) -> None:
    if info.filename == HEADER:
        if info.file_size > max(HEADER_BYTES, HEADER_RATIO * size):
            raise zipfile.BadZipFile(f"its header would unpack to {info.file_size} bytes")
    elif info.filename == CHECKSUM or _is_array(info.filename):
        stored = info.compress_type == zipfile.ZIP_STORED
        if not stored or info.file_size != info.compress_size:
            raise zipfile.BadZipFile(f"{info.filename} is compressed, which arrays never are")
    else:
        raise zipfile.BadZipFile(f"it has a member {info.filename!r}, which belongs to no model")


def _read_header(data: bytes, path: Path, kind: FileKind) -> dict[str, Any]:
    objects = itertools.count(1)

    def count(entries: dict[str, Any]) -> dict[str, Any]:
        if next(objects) > MOST_OBJECTS:
            raise ValueError(f"it describes more than {MOST_OBJECTS} objects")
        return entries

    try:
        header = json.loads(data.decode(), object_hook=count)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} has an unreadable header ({error}); it is damaged.") from error
    if not isinstance(header, dict) or header.get("format") != kind.format:
        raise ValueError(f"{path} is not an inferostatic {kind.words}: its header says otherwise.")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= kind.version:
        raise ValueError(
            f"{path} has format version {version}; this inferostatic reads up to {kind.version}. "
            "Update inferostatic."
        )
    return header


def _read_array(data: bytes, name: str, path: Path, kind: FileKind) -> np.ndarray:
    """The array, whose size is compared with its shape before it is made."""
    stream = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("it is of another version of .npy")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        require_shape(shape, dtype)
        if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            raise ValueError(f"shape {shape} does not fit {len(data)} bytes")
        entries = data[stream.tell() :]
        flat = np.frombuffer(entries, dtype) if entries else np.zeros(0, dtype)
        return flat.astype(dtype.newbyteorder("=")).reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # whatever NumPy makes of noise
        raise ValueError(
            f"{path} is not a complete inferostatic {kind.words}: the array {name} cannot be read "
            f"({error}). Copy or save it again."
        ) from error


def require_shape(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse arrays of anything but numbers, and long axes of arrays without entries."""
    if dtype.kind not in NUMBERS:
        raise ValueError(f"it holds {dtype}, which are no numbers")
    if math.prod(shape) == 0 and max(shape) > LONGEST_EMPTY:
        raise ValueError(f"it has the shape {shape}")


def _is_array(name: str) -> bool:
    return name.startswith(ARRAYS) and name.endswith(".npy")


def _stem(name: str) -> str:
    return name.removeprefix(ARRAYS).removesuffix(".npy")
