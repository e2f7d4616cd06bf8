"""Parts: the Parquet files of a store, each written whole with a checksum of its content."""

import dataclasses
import io
import json
import os
import re
import struct
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...files import write_whole
from .layout import checksum
from .manifest import FORMAT, Manifest

#: Folder of the parts.
PARTS = "parts"
#: Folder of what is known of events that were dropped, by part.
DROPPED = "dropped"
#: Folder of what is known of parts that failed.
FAILURES = "failures"
#: Entry in the metadata of a file.
KEY = b"inferostatic"
#: First and last bytes of every Parquet file.
MAGIC = b"PAR1"
#: Bytes after the content: the length of the footer, and the mark again.
TAIL = 8


class DamagedPart(ValueError):
    """A part is not what was written."""


@dataclasses.dataclass(frozen=True)
class PartFile:
    """A file as a folder lists it.

    Attributes:
        size: in bytes.
        changed: time of its last change, in nanoseconds.
        whole: whether its last bytes are there.
    """

    size: int
    changed: int
    whole: bool


def part_path(folder: Path, part: int) -> Path:
    """The file of a part."""
    return folder / PARTS / f"part-{part:06d}.parquet"


def find_parts(folder: Path, among: Container[int] | None = None) -> dict[int, PartFile]:
    """The parts that are there, by number, with the last bytes of each looked at.

    Only those `among` some numbers, where these are given: each of a thousand processes that share
    the work looks into its own files, which file systems of clusters are grateful for.
    """
    pattern = re.compile(r"part-(\d{6,})\.parquet")
    found = {}
    try:
        with os.scandir(folder / PARTS) as entries:
            for entry in entries:
                named = pattern.fullmatch(entry.name)
                if named and (among is None or int(named[1]) in among):
                    stat = entry.stat()
                    whole = _is_whole(entry.path, stat.st_size)
                    found[int(named[1])] = PartFile(stat.st_size, stat.st_mtime_ns, whole)
    except FileNotFoundError:  # no folder yet, or a file that was just replaced
        return found
    return found


def _is_whole(path: str, size: int) -> bool:
    if size < TAIL + len(MAGIC):
        return False
    with open(path, "rb") as stream:
        stream.seek(size - TAIL)
        length, mark = struct.unpack("<I4s", stream.read(TAIL))
    return mark == MAGIC and length + TAIL + len(MAGIC) <= size


def write_part(
    folder: Path, manifest: Manifest, part: int, arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a part; the file appears whole or not at all."""
    columns = manifest.layout.flatten(arrays)
    write_whole(part_path(folder, part), _parquet(manifest, part, columns), tidy=False)


def _parquet(manifest: Manifest, part: int, columns: Mapping[str, np.ndarray]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    about = {
        "format": FORMAT,
        "store": manifest.identity,
        "part": part,
        "checksum": checksum(columns),
    }
    table = pyarrow.table(dict(columns)).replace_schema_metadata({KEY: json.dumps(about).encode()})
    content = io.BytesIO()
    # Weights are nearly always equal, and then take no room; other numbers seldom repeat.
    options = {"use_dictionary": ["weight"], "compression": "zstd", "write_statistics": False}
    pyarrow.parquet.write_table(table, content, **options)
    return content.getvalue()


def read_part(folder: Path, manifest: Manifest, part: int) -> dict[str, np.ndarray]:
    """The arrays of a part, compared with the checksum that it was written with."""
    import pyarrow
    import pyarrow.parquet

    path = part_path(folder, part)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            about: dict[str, Any] = json.loads(file.schema_arrow.metadata[KEY])
            table = file.read()
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
    except FileNotFoundError:
        raise FileNotFoundError(f"part {part} of the store is missing: {path}.") from None
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        first = str(error).strip().splitlines()[:1]
        reason = f"it is no Parquet file of a store ({', '.join(first)})"
        raise DamagedPart(_describe(path, reason)) from error
    for given, expected, reason in (
        (about.get("store"), manifest.identity, "it belongs to another store"),
        (about.get("part"), part, f"it is part {about.get('part')}"),
        (about.get("checksum"), checksum(columns), "its content does not fit its checksum"),
        (list(columns), [name for name, *_ in manifest.layout.columns()], "it has other columns"),
    ):
        if given != expected:
            raise DamagedPart(_describe(path, reason))
    return manifest.layout.unflatten(columns, table.num_rows)


def _describe(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged or was edited: {reason}. Remove this file and run the same "
        "ist.simulate(…, store=…) again, which makes it anew."
    )


def write_note(folder: Path, kind: str, part: int, note: Mapping[str, Any]) -> None:
    """Keep what is known of a part beside it, in the folder of this kind."""
    (folder / kind).mkdir(exist_ok=True)
    content = json.dumps(note, indent=1, ensure_ascii=False) + "\n"
    write_whole(_note_path(folder, kind, part), content.encode())


def read_notes(folder: Path, kind: str) -> dict[int, dict[str, Any]]:
    """What is known of parts, by number."""
    notes = {}
    for path in sorted((folder / kind).glob("part-*.json")):
        try:
            notes[int(path.stem.removeprefix("part-"))] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is damaged or was edited ({error}).") from error
    return notes


def remove_note(folder: Path, kind: str, part: int) -> None:
    """Forget what was known of a part."""
    _note_path(folder, kind, part).unlink(missing_ok=True)


def _note_path(folder: Path, kind: str, part: int) -> Path:
    return folder / kind / f"part-{part:06d}.json"
