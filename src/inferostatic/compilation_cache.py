"""Keeps compiled programs between processes, in the user's cache folder.

Compiling is most of the time of a first fit, and the next process compiles the same programs again.
JAX can keep them in a folder. It is told to unless the user chose a folder, or turned this off by
`INFEROSTATIC_CACHE=0`. A program's key holds the versions of JAX, the flags of XLA and the features
of the processor, so computers that share a home folder never run each other's machine code.

JAX bounds such a folder only with the package `filelock`, reads every entry's time at each write,
and fails for ever after a process was killed between its two files. So the folder is bounded
here, when the process ends.
"""

import atexit
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax

#: Turns keeping off if it is 0.
SWITCH = "INFEROSTATIC_CACHE"
#: Bytes of the folder when a process ends; a fit leaves one or two million.
MOST_BYTES = 200_000_000
#: Seconds of compilation from which JAX keeps a program if it is not told; a fit has more than a
#: hundred smaller ones.
USUAL_SECONDS = 1.0
#: Ours: reading the smallest ones is still faster than compiling them, and writing is not noticed.
LEAST_SECONDS = 0.0


def keep_compilations() -> None:
    """Let JAX keep compiled programs, unless the user decided about that.

    Nothing is said where it cannot be done, because everything works without.
    """
    config = jax.config.values
    decided = config["jax_compilation_cache_dir"] is not None
    if decided or not config["jax_enable_compilation_cache"] or os.environ.get(SWITCH) == "0":
        return
    folder = find_folder()
    if folder is None or not _can_keep(folder):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if config["jax_persistent_cache_min_compile_time_secs"] == USUAL_SECONDS:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    # A full disk, or a program that another process is just writing: it is compiled instead.
    warnings.filterwarnings("ignore", r"Error (reading|writing) persistent compilation cache entry")
    atexit.register(prune, folder)


def find_folder() -> Path | None:
    """The folder of kept programs; None where there is no home folder."""
    try:
        # Empty counts as unset, and a relative folder is none, as the XDG specification has it.
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "")
        folder = folder if folder.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "inferostatic"


def _can_keep(folder: Path) -> bool:
    """Whether programs may be kept there: kept code is run, so nobody else may own the folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = os.name == "nt" or folder.stat().st_uid == os.geteuid()
        return ours and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def prune(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove the programs that were not used for longest, until at most so many bytes are left."""
    left = most
    for _, size, path in sorted(_list_files(folder), reverse=True):
        left -= size
        if left < 0:
            _remove(path)


def _list_files(folder: Path) -> Iterator[tuple[float, int, str]]:
    """When each file was used last, its size and its path; another process may remove some."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 (thousands of files)
            try:
                found = os.stat(path)  # noqa: PTH116
            except OSError:
                continue
            yield max(found.st_atime, found.st_mtime), found.st_size, path


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return
