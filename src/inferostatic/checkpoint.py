"""Checkpoints: long work that goes on where it stopped, in a folder of its own.

All work here is a function of its arguments: the same call makes the same steps. So a checkpoint
need not hold a process, only results of steps by their keys. The same call reads those that are
there and makes the others, to the same numbers.

The folder has a manifest, which says of what work, data and settings it is, and a file for each
step. All are written atomically, with checksums and without pickle.
"""

import abc
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .archive import FileKind, package_versions, read_archive, write_archive
from .files import fcntl, write_whole
from .fingerprint import Fingerprint, take_fingerprint
from .inputs import as_count, as_number, as_path, in_short, kind_of, warn_user
from .interruption import exit_when_terminated, is_interruption

#: One step of the work.
STEP = FileKind("inferostatic-checkpoint", 1, "checkpoint")
#: What the manifest says it is, with the version of the format.
MANIFEST: dict[str, object] = {"format": "inferostatic-checkpoint", "version": 1}
#: Its name.
MANIFEST_NAME = "manifest.json"
#: File by whose lock a process has the folder for itself.
LOCK_NAME = ".lock"
#: Ending of the files of steps.
ENDING = ".isc"
#: What may be in the name of a step.
NAME = re.compile(r"[a-z0-9-]+")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where long work is kept, and how often.

    Attributes:
        path: a folder, which is made if it is not there, in one that is. Each work needs one of
            its own.
        minutes: what was done is saved when the last save is older; 0 saves whatever is done at
            once.
        epochs: trainings are saved after every so many epochs as well; where epochs are so short
            that several are made at a time, at the end of these.
    """

    path: str | os.PathLike[str]
    _: dataclasses.KW_ONLY
    minutes: float = 1.0
    epochs: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        as_path(self.path, "checkpoint")
        as_number(self.minutes, "minutes", least=0)
        if self.epochs is not None:
            as_count(self.epochs, "epochs")

    def part(self, name: str) -> "Checkpoint":
        """The same in a folder inside."""
        return dataclasses.replace(self, path=Path(self.path) / name)


#: What a user may give.
CheckpointChoice = str | os.PathLike[str] | Checkpoint | None


def as_checkpoint(given: object) -> Checkpoint | None:
    """The checkpoint that a user gave, as a path or with options."""
    if given is None or isinstance(given, Checkpoint):
        return given
    if isinstance(given, str | os.PathLike):
        return Checkpoint(as_path(given, "checkpoint"))
    raise TypeError(
        "checkpoint must be the path of a folder, or ist.Checkpoint(path, minutes=…); got "
        f"{kind_of(given)}."
    )


@dataclasses.dataclass(frozen=True)
class Step:
    """What a step left: plain values that JSON can hold, and arrays by name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


class AbstractSavedWork(abc.ABC):
    """Steps of a work by their keys; used in a `with` statement, at whose end all is saved."""

    @abc.abstractmethod
    def recall(self, key: str) -> Step | None:
        """What was kept under the key, if anything was."""

    @abc.abstractmethod
    def keep(self, key: str, pack: Callable[[], Step], *, now: bool = False) -> None:
        """Keep what `pack` returns: now, or when the next save is due. It replaces older ones."""

    @abc.abstractmethod
    def save(self) -> None:
        """Save all that is not saved yet."""

    @property
    @abc.abstractmethod
    def epochs(self) -> int | None:
        """Epochs after which a training is saved."""

    @property
    @abc.abstractmethod
    def resumed(self) -> bool:
        """Whether anything was recalled."""

    @abc.abstractmethod
    def __enter__(self) -> "AbstractSavedWork":
        """Begin the work."""

    @abc.abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it, whatever happened."""


class NotSaved(AbstractSavedWork):
    """Work without a checkpoint."""

    def recall(self, key: str) -> Step | None:
        """Nothing."""
        del key

    def keep(self, key: str, pack: Callable[[], Step], *, now: bool = False) -> None:
        """Nothing is kept."""

    def save(self) -> None:
        """Nothing to do."""

    @property
    def epochs(self) -> int | None:
        """Never."""
        return None

    @property
    def resumed(self) -> bool:
        """Never."""
        return False

    def __enter__(self) -> "AbstractSavedWork":
        """Nothing to prepare."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing to end."""


class SavedInFolder(AbstractSavedWork):
    """Work with a checkpoint: steps are files of its folder."""

    options: Checkpoint
    folder: Path
    lock: threading.RLock
    last: float
    recalled: int

    def __init__(self, options: Checkpoint, digest: str) -> None:
        self.options, self.folder = options, Path(options.path)
        self.digest = digest
        self.pending: dict[str, Callable[[], Step]] = {}
        self.lock, self.last = threading.RLock(), time.monotonic()
        self.recalled = 0
        self.open: list[contextlib.ExitStack] = []

    @property
    def epochs(self) -> int | None:
        """As the user chose."""
        return self.options.epochs

    @property
    def resumed(self) -> bool:
        """Whether any step was there."""
        return self.recalled > 0

    def recall(self, key: str) -> Step | None:
        """Read the step; one that is damaged is made again, to the same result."""
        path = self._path(key)
        if key in self.pending:
            return self.pending[key]()
        if not path.exists():
            return None
        try:
            header, arrays = read_archive(path, STEP)
            if (header.get("key"), header.get("work")) != (key, self.digest):
                raise ValueError(f"{path} belongs to another checkpoint.")
            if not isinstance(header.get("values"), dict):
                raise ValueError(f"{path} lacks its values.")
        except (OSError, ValueError) as error:
            warn_user(f"{error} This step is made again, to the same result.")
            return None
        self.recalled += 1
        return Step(header["values"], arrays)

    def keep(self, key: str, pack: Callable[[], Step], *, now: bool = False) -> None:
        """Write at once, or with all others when the last save is older than was asked for."""
        with self.lock:
            self.pending[key] = pack
            if time.monotonic() - self.last >= 60 * self.options.minutes:
                self.save()
            elif now:
                self._write(key)

    def save(self) -> None:
        """Write all steps that are not written yet."""
        with self.lock:
            for key in list(self.pending):
                self._write(key)
            self.last = time.monotonic()

    def _write(self, key: str) -> None:
        """Write one step; where that fails, the work goes on and it is tried again later."""
        step = self.pending[key]()
        header = {"key": key, "work": self.digest, "values": step.values}
        try:
            write_archive(self._path(key), header, step.arrays, STEP)
        except OSError as error:
            warn_user(
                f"the checkpoint could not be written ({in_short(error)}). The work goes on, and "
                "what was saved before stays; free some space, or make the folder writable."
            )
            return
        del self.pending[key]

    def _path(self, key: str) -> Path:
        if not NAME.fullmatch(key):
            raise ValueError(f"{key!r} is no name of a step.")
        return self.folder / f"{key}{ENDING}"

    def __enter__(self) -> "AbstractSavedWork":
        """Take the folder for this process, and be ready to be ended."""
        stack = contextlib.ExitStack()
        if not self.open:
            stack.enter_context(_hold(self.folder))
            stack.enter_context(exit_when_terminated())
        self.open.append(stack)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Save what was done, and say so where the user or the system ended it."""
        with self.open.pop():
            self.save()
            if is_interruption(error) and not self.open and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):
                    saved = f"interrupted, and saved in {self.folder}: the same call goes on there"
                    print(saved, file=sys.stderr, flush=True)


def open_checkpoint(
    given: object, work: str, identify: Callable[[], Mapping[str, Fingerprint]]
) -> AbstractSavedWork:
    """The checkpoint of a work, new or of the same data and settings; others are refused.

    Args:
        given: what the user gave; None for work that is not saved.
        work: what is done, such as "fit".
        identify: all that the result depends on, by name.
    """
    options = as_checkpoint(given)
    if options is None:
        return NotSaved()
    folder = Path(options.path)
    versions = package_versions()
    manifest = {
        "work": work,
        "versions": versions,
        "identity": {name: dataclasses.asdict(one) for name, one in identify().items()},
    }
    manifest["identity"] |= {
        name: dataclasses.asdict(take_fingerprint(one)) for name, one in _describe_place().items()
    }
    _require_checkpoint(make_folder(folder))
    path = folder / MANIFEST_NAME
    if path.exists():
        found = _read_manifest(path)
        different = _list_differences(found, manifest)
        if different:
            raise ValueError(
                f"the checkpoint {folder} is of another {found['work']}: "
                f"{'; '.join(different)}. Give another folder, or repeat the call that made it."
            )
    else:
        _write_manifest(path, manifest)
    compared = {name: one["digest"] for name, one in manifest["identity"].items()}
    named = json.dumps([work, versions, compared], sort_keys=True)
    return SavedInFolder(options, hashlib.sha256(named.encode()).hexdigest())


def _describe_place() -> dict[str, object]:
    """Where numbers come out alike."""
    return {"kind of device": jax.default_backend(), "floats": str(jnp.result_type(float))}


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder of a checkpoint, or of several."""
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        text = (
            f"the checkpoint must be a folder, which is made in one that exists ({error.strerror})"
        )
        raise OSError(error.errno, text, str(folder)) from error
    return folder


def _require_checkpoint(folder: Path) -> None:
    """Refuse folders of anything else."""
    others = {entry.name for entry in os.scandir(folder) if not entry.name.startswith(".")}
    if others and MANIFEST_NAME not in others:
        raise ValueError(
            f"{folder} is no checkpoint, it holds other files such as {min(others)}; give the name "
            "of a new folder."
        )


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    whole = MANIFEST | manifest
    text = json.dumps(whole | {"checksum": _checksum(whole)}, indent=1, ensure_ascii=False)
    write_whole(path, text.encode())


def _read_manifest(path: Path) -> dict[str, Any]:
    cure = f"Delete the folder {path.parent} to begin again, or give another one."
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        checksum = found.pop("checksum")
        version = found["version"]
        good = found["format"] == MANIFEST["format"] and checksum == _checksum(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no manifest of a checkpoint, or damaged. {cure}") from error
    if not good:
        raise ValueError(f"{path} was changed or damaged: its checksum does not match. {cure}")
    if version != MANIFEST["version"]:
        raise ValueError(
            f"{path} has format version {version}, this inferostatic reads {MANIFEST['version']}. "
            f"{cure}"
        )
    return found


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _list_differences(found: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two manifests, in words."""
    if found["work"] != now["work"]:
        return [f"it holds a {found['work']}, and this is a {now['work']}"]
    different = [
        f"{name} {found['versions'].get(name)} before, {version} now"
        for name, version in now["versions"].items()
        if found["versions"].get(name) != version
    ]
    before, after = found["identity"], now["identity"]
    for name in dict.fromkeys((*after, *before)):
        one, two = before.get(name), after.get(name)
        if one is None or two is None:
            different.append(f"{name} was {'not ' if one is None else ''}given before")
        elif one["digest"] != two["digest"]:
            shown = f": {one['shown']} before, {two['shown']} now"
            different.append(f"other {name}{shown if one['shown'] != two['shown'] else ''}")
    return different


@contextlib.contextmanager
def _hold(folder: Path) -> Any:  # noqa: ANN401
    """Keep other processes from the folder; the system ends that with the process."""
    if fcntl is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context((folder / LOCK_NAME).open("ab"))
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another process, or another thread, works with the checkpoint {folder}; wait for "
                "it, or give another folder."
            ) from None
        except OSError:  # a folder that cannot be written, or a file system without locks
            pass
        yield
