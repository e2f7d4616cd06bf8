"""Kills while a model is saved, disks that are full, places that cannot be written, closed streams.

The worker forks for every kill: a child saves one of two models again and again over the same
file, and is killed at a random moment. `save` compiles nothing, so the child needs no JAX threads.
"""

import functools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import inferostatic as ist
from permissions import as_nobody
from random_estimators import random_estimator

from .outcomes import Outcome, attempt
from .public import folder
from .targets import Case

#: Processes that are killed.
KILLS = 100
#: Seconds from the first save to the kill, at most; a save takes a few milliseconds.
LONGEST = 0.1
#: Bytes of the disk that is full.
SMALL_DISK = 16_384
#: Command lines whose streams are closed or full, and the exit codes that are right.
LINES = {
    "--version >&-": (0, 1),
    "--version 2>&-": (0,),
    "--help > /dev/full": (0, 1),
    "--help >&- 2>&-": (0, 1),
    "paper --out /dev/null/o --events 10 2>&-": (2,),
    "paper --out '' >&-": (2,),
    "paper --seed -1 --out o 2> /dev/full": (1, 2),
    "--version | head -c 0": (0, 1, 141),
}


@functools.cache
def models() -> tuple[Any, Any]:
    """Two models of some hundred kB, so that writing takes a while."""
    large = ist.Potential(ist.MLP((256, 256)), ist.Standardised())
    return random_estimator(large, seed=1), random_estimator(large, seed=2)


def weights(model: Any) -> bytes:
    return b"".join(np.asarray(a).tobytes() for _, a in sorted(model.described()[1].items()))


def kill_once(number: int) -> Outcome:
    """The file is the old one or the new one, whole, and the next save clears up."""
    label = f"kill {number}"
    place = folder() / "kills"
    place.mkdir(exist_ok=True)
    path = place / "model.isn"
    old, new = models()
    old.save(path)
    wait = float(np.random.default_rng(number).uniform(0, LONGEST))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, b"saving")
            while True:
                for model in (new, old):
                    model.save(path)
                    os.write(writing, b".")
        finally:
            os._exit(1)
    os.read(reading, 6)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writing)
    saved = sum(len(part) for part in iter(lambda: os.read(reading, 65536), b""))
    os.close(reading)
    left = len(os.listdir(place)) - 1
    found, refused, text = attempt(lambda: ist.load(path))
    if refused is not None:
        return Outcome(label, "silent", f"the file is neither: {text}")
    if weights(found) not in (weights(old), weights(new)):
        return Outcome(label, "silent", "the file is another model")
    new.save(path)
    if os.listdir(place) != ["model.isn"]:
        return Outcome(label, "silent", f"left behind: {os.listdir(place)}")
    return Outcome(label, "same", f"{saved} saves, {left} partial files when killed")


def save_fails(label: str, path: Path, old: bytes | None) -> Outcome:
    """A save that cannot work is refused by the system's error with the user's path."""
    _, refused, text = attempt(lambda: models()[0].save(path))
    if refused is None:
        return Outcome(label, "silent", "it was saved")
    here = path.parent
    rest = [name for name in os.listdir(here) if name.endswith(".part")] if here.is_dir() else []
    if old is not None and path.read_bytes() != old:
        return Outcome(label, "silent", "the old file is gone")
    if rest or str(path) not in text or ".part" in text:
        return Outcome(label, "raw", f"{text}, left {rest}")
    return Outcome(label, refused, text)


def small_disk() -> Outcome:
    """A file system of a few kB, where these can be mounted."""
    place = folder() / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return Outcome("full disk", "same", "nothing can be mounted here; see the limit of a file")
    try:
        path = place / "model.isn"
        path.write_bytes(b"old")
        return save_fails("full disk", path, b"old")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def small_files() -> Outcome:
    """A limit on the size of files, which the system reports like a full disk."""
    path = folder() / "limited.isn"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, before[1]))
    try:
        return save_fails("limit of a file", path, b"old")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def read_only() -> Outcome:
    place = folder() / "read-only"
    place.mkdir()
    folder().chmod(0o755)
    path = place / "model.isn"
    models()[0].save(path)
    content = path.read_bytes()
    place.chmod(0o555)
    try:
        with as_nobody():
            return save_fails("read-only folder", path, content)
    finally:
        place.chmod(0o755)


def elsewhere(label: str, path: str) -> Outcome:
    return save_fails(label, Path(path), None)


def command_line(line: str) -> Outcome:
    """The command ends with the right code and shows no traceback."""
    done = subprocess.run(
        f"set -o pipefail; {_program()} {line}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder(),
        check=False,
        timeout=120,
    )
    label = f"inferostatic {line}"
    said = done.stdout + done.stderr
    if "Traceback" in said or "Exception ignored" in said:
        return Outcome(label, "raw", said[-300:])
    if done.returncode not in LINES[line]:
        return Outcome(label, "silent", f"ended with {done.returncode}: {said[-300:]}")
    return Outcome(label, "clear" if done.returncode else "same", said[-200:])


def _program() -> str:
    return f"{sys.executable} -c 'from inferostatic.app.cli import main; main()'"


def cases() -> list[Case]:
    kills: list[Case] = [(f"kill {i}", functools.partial(kill_once, i)) for i in range(KILLS)]
    places: dict[str, Callable[[], Outcome]] = {
        "full disk": small_disk,
        "limit of a file": small_files,
        "read-only folder": read_only,
        "below a file": lambda: elsewhere("below a file", "/dev/null/model.isn"),
        "in /proc": lambda: elsewhere("in /proc", "/proc/model.isn"),
        "device": lambda: elsewhere("device", "/dev/full"),
        "no folder": lambda: elsewhere("no folder", str(folder() / "none" / "model.isn")),
        "long name": lambda: elsewhere("long name", str(folder() / ("m" * 300))),
    }
    lines = [(f"inferostatic {line}", functools.partial(command_line, line)) for line in LINES]
    return [*kills, *places.items(), *lines]
