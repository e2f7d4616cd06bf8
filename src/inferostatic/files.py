"""Files appear whole or not at all."""

import contextlib
import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None

#: Bytes of a file's name in the name of its partial file, at most: with what is added the latter
#: stays below every system's limit, also that of 143 bytes on encrypted folders.
STEM_BYTES = 80


def require_file(path: str | os.PathLike[str]) -> Path:
    """The file that `path` means, behind symbolic links; refuses what cannot be a regular file."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise FileNotFoundError(
                f"cannot save to {path}: the folder {target.parent} does not exist."
            ) from None
        return target
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    if stat.S_ISDIR(mode):
        text = "this is a folder; give the name of a file in it"
        raise IsADirectoryError(errno.EISDIR, text, str(path))
    if not stat.S_ISREG(mode):
        text = "this is a device, a FIFO or a socket, not a regular file; give the name of a file"
        raise OSError(errno.EINVAL, text, str(path))
    return target


def write_whole(path: str | os.PathLike[str], content: bytes, *, tidy: bool = True) -> Path:
    """Write `content` to `path`; a failure leaves an older file as it was, permissions are kept.

    A symbolic link stays one: the file that it leads to is written. Partial files of processes
    that ended while they wrote are removed, unless `tidy` is off because the folder is large and
    `remove_partial_files` does so for all of it.
    """
    target = require_file(path)
    stem = os.fsencode(target.name)[:STEM_BYTES].decode(errors="ignore")
    try:
        if tidy:
            _remove_stale(target.parent, stem)
        partial, stream = _open_partial(target.parent, stem)
        try:
            with stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
                if target.exists():
                    partial.chmod(target.stat().st_mode & 0o777)
                if fcntl is not None:  # under the lock, so that nobody takes it for stale
                    os.replace(partial, target)
            if fcntl is None:
                os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        # The partial file means nothing to the user.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    return Path(path)


def hold_lock(stream: IO[bytes]) -> bool:
    """Lock a new file until it is closed or the process ends; whether it is still there then.

    Another process may have taken it for abandoned before it was locked, and be removing it.
    """
    if fcntl is not None:
        with contextlib.suppress(OSError):  # file systems without locks
            fcntl.flock(stream, fcntl.LOCK_EX)
    return os.path.exists(stream.name)


@contextlib.contextmanager
def lock_if_free(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Whether no process holds the lock of this file, and none can take it before the end."""
    with open(path, "rb") as stream:
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def remove_partial_files(folder: Path) -> None:
    """Remove the partial files in a folder that no process holds any more."""
    _remove_stale(folder, None)


def _open_partial(folder: Path, stem: str) -> tuple[Path, io.BufferedWriter]:
    """A new file beside the target, because a rename is only atomic within one file system."""
    while True:
        partial = folder / f".{stem}.{secrets.token_hex(6)}.part"
        stream = partial.open("xb")
        if hold_lock(stream):
            return partial, stream
        stream.close()


def _remove_stale(folder: Path, stem: str | None) -> None:
    """Remove the partial files that no process holds any more: the system frees their locks."""
    begin = r"\..+\." if stem is None else re.escape(f".{stem}.")
    pattern = re.compile(begin + r"[0-9a-f]{12}\.part")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        stale = [e for e in entries if pattern.fullmatch(e.name)]
        for entry in [e for e in stale if e.is_file(follow_symlinks=False)]:
            with contextlib.suppress(OSError):
                if fcntl is None:
                    os.unlink(entry.path)
                    continue
                with lock_if_free(entry.path) as free:
                    if free:
                        os.unlink(entry.path)
