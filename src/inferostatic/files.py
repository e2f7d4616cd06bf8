"""Files appear whole or not at all."""

import os
import secrets
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` to `path`; a failure leaves an older file as it was, permissions are kept."""
    path = Path(path)
    # In the same folder, because a rename is only atomic within one file system.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path
