"""One file of named arrays and a JSON header, without pickle: a zip archive of `.npy` members.

Reading never executes anything; a damaged, truncated or foreign file raises an error. Writing
replaces the old file only when the new one is complete.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .files import write_whole

#: What the header of a model file says it is.
FORMAT = "inferostatic-model"
#: Version of the format; raised when older programs cannot read new files.
VERSION = 1
#: Member of the archive that holds the header.
HEADER = "header.json"


def write_archive(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write the header and the arrays to `path`, atomically."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: the folder {path.parent} does not exist.")
    text = json.dumps({"format": FORMAT, "version": VERSION, **header}, indent=1)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(HEADER, text, compress_type=zipfile.ZIP_DEFLATED)
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(array), allow_pickle=False)
            archive.writestr(f"arrays/{name}.npy", buffer.getvalue())
    write_whole(path, packed.getvalue())


def read_archive(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of `path`; raises an error that says what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive, path)
            names = [n for n in archive.namelist() if n.startswith("arrays/")]
            arrays = {_stem(name): _array(archive.read(name)) for name in names}
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{path} is not a complete inferostatic model file: {error}. It may be truncated, "
            "damaged or of another kind; copy or save it again."
        ) from error
    except (zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged ({error}); copy or save it again.") from error
    return header, arrays


def package_versions() -> dict[str, str]:
    """Versions of the packages that make what a file holds."""
    return {name: metadata.version(name) for name in ("inferostatic", "jax", "equinox", "optax")}


def _header(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise ValueError(f"{path} is a zip archive but not an inferostatic model file.")
    try:
        header = json.loads(archive.read(HEADER))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} has an unreadable header ({error}); it is damaged.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not an inferostatic model file: its header says otherwise.")
    if not isinstance(header.get("version"), int) or header["version"] > VERSION:
        raise ValueError(
            f"{path} has format version {header.get('version')}; this inferostatic reads up to "
            f"{VERSION}. Update inferostatic."
        )
    return header


def _array(data: bytes) -> np.ndarray:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except ValueError as error:
        raise zipfile.BadZipFile(f"an array cannot be read ({error})") from error


def _stem(name: str) -> str:
    return name.removeprefix("arrays/").removesuffix(".npy")
