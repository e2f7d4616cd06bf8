"""External programs as simulators: θ goes out in a file, x comes back in another one."""

import contextlib
import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..inputs import as_flag, as_names, as_number, as_text
from .program_files import READERS, WRITERS, Columns, read_columns

#: Characters of a program's messages that an error shows: its last lines.
SHOWN_CHARACTERS = 2000
#: Files that an error lists at most.
SHOWN_FILES = 10
#: Seeds of programs lie below this number: many read them as signed integers of 32 bits, and some
#: take 0 for "choose one yourself". So they begin with 1.
SEEDS = 2**31 - 1
#: A second process, which ends the program and all it started if this process dies meanwhile. It
#: reads the number of the program's group, then waits for a word; the end of the pipe is none.
WATCH = 'read -r group && { read -r word || kill -s KILL -- "-$group"; }'


@dataclasses.dataclass(frozen=True)
class NamedColumns:
    """Numbers with names of their columns; `np.asarray` gives the numbers."""

    values: np.ndarray
    columns: tuple[str, ...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: ANN401, FBT001
        """The numbers."""
        return np.array(self.values, dtype=dtype, copy=bool(copy) or None)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.values)


@dataclasses.dataclass(frozen=True)
class Program:
    """A simulator that runs a program: it reads θ from a file and writes x to another one.

    Every call runs the command once, in an empty folder of its own that is removed afterwards.
    The command is no shell command, so nothing in it needs quotes.

    Attributes:
        command: the program and its arguments. In these, `{theta}` and `{x}` become the paths of
            the two files, `{seed}` an integer of at least 1 and below 2³¹, `{n}` the number of
            events. Files of yours are given as `pathlib.Path` or with their whole path; a program
            with a folder in its name, `./generate`, is looked for from the current folder.
        theta: name of the file with θ. Its ending is its format: `.csv` (a header with the names,
            then one line for each event), `.npy` (the array) or `.json` (an object with `names`,
            `theta`, a list of rows, and `seed`).
        x: name of the file with x, one row for each row of θ. Its ending is its format: `.csv`
            (with or without a header), `.npy`, `.parquet` or `.root`, where `x.root:TREE` names
            the tree if there are several; ROOT needs uproot, `pip install 'inferostatic[readers]'`.
        theta_names: names of the parameters in the file; default theta0, theta1, …
        x_names: columns to take from the file, in this order; default all of them.
        time_limit: seconds that a run may take; then it is ended with all that it started.
        deterministic: True for a program that draws no random numbers, whose command needs no
            `{seed}`.
        keep_failed: keep the folder of a run that failed, and name it in the error.

    Example:
        `generate` reads a CSV file with the columns mass and width.

            generate = ist.Program(
                ["generate", "--in", "{theta}", "--out", "{x}", "--seed", "{seed}"],
                theta_names=["mass", "width"],
                time_limit=600,
            )
            events = ist.simulate(generate, prior, 10_000, seed=1)
    """

    command: Sequence[str | os.PathLike[str]]
    _: dataclasses.KW_ONLY
    theta: str = "theta.csv"
    x: str = "x.csv"
    theta_names: Sequence[str] | None = None
    x_names: Sequence[str] | None = None
    time_limit: float | None = None
    deterministic: bool = False
    keep_failed: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be run."""
        command = _read_command(self.command)
        object.__setattr__(self, "command", command)
        _require_ending(self.theta, "theta", tuple(WRITERS))
        _require_ending(as_text(self.x, "x").partition(":")[0], "x", tuple(READERS))
        if self.theta == self.x:
            raise ValueError(f"theta and x must be two files; got {self.x!r} for both of them.")
        for name in ("theta_names", "x_names"):
            names = getattr(self, name)
            if names is None:
                continue
            if not isinstance(names, list | tuple) or not names:
                raise TypeError(
                    f"{name} must be a list of names, such as ['a', 'b']; got {names!r}."
                )
            object.__setattr__(self, name, as_names(names, len(names), name))
        if self.time_limit is not None:
            as_number(self.time_limit, "time_limit", above=0.0)
        as_flag(self.keep_failed, "keep_failed")
        seeded = any("{seed}" in word for word in command) or self.theta.endswith(".json")
        if not as_flag(self.deterministic, "deterministic") and not seeded:
            raise ValueError(
                "no argument of the command has {seed}, so the program would draw the same random "
                "numbers in every run, or ones that nobody can draw again. Pass it a seed, such "
                "as '--seed', '{seed}'; for a program without random numbers say "
                "deterministic=True."
            )

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray | NamedColumns:
        """Run the program for the rows of θ, shape (n, d); x, shape (n, D)."""
        theta, seed = np.asarray(theta), 1 + int(rng.integers(SEEDS))
        names = as_names(self.theta_names, theta.shape[1], "theta")
        with _scratch_folder(keep_failed=self.keep_failed) as scratch:
            folder = scratch / "run"  # what the program prints is kept beside it
            folder.mkdir()
            file, _, part = self.x.partition(":")
            into, out = folder / self.theta, folder / file
            WRITERS[into.suffix](into, theta, names, seed)
            values = {"{theta}": into, "{x}": out, "{seed}": seed, "{n}": len(theta)}
            command = [_fill(os.fspath(word), values) for word in self.command]
            try:
                _run(command, folder, self.time_limit)
            except RuntimeError as error:
                raise RuntimeError(f"{error}{_missed_file(self.command[1:])}") from error
            if not out.is_file():
                found = sorted(path.name for path in folder.iterdir())[:SHOWN_FILES]
                raise RuntimeError(
                    f"the program {command[0]!r} ended without an error, but did not write the "
                    f"file {file} in its folder; there are {', '.join(found)}. Give it the path "
                    f"of that file with {{x}}.{_messages(folder)}"
                )
            try:
                made = read_columns(out, part, self.x_names)
            except ValueError as error:
                raise RuntimeError(
                    f"the program {command[0]!r} ended without an error, but {error}"
                    f"{_messages(folder)}"
                ) from error
        return _named(made)


def _named(made: Columns) -> np.ndarray | NamedColumns:
    return made.values if made.names is None else NamedColumns(made.values, made.names)


def _read_command(command: object) -> tuple[str, ...]:
    """The program and its arguments as text; paths become whole, since the folder changes."""
    if not isinstance(command, list | tuple) or not command:
        raise TypeError(
            "command must be a list of arguments, such as ['generate', '{theta}', '{x}', "
            f"'{{seed}}']; got {command!r}."
        )
    for word in command:
        if not isinstance(word, str | os.PathLike) or "\0" in os.fsdecode(word):
            raise TypeError(f"every argument of the command must be text or a path; got {word!r}.")
    words = [os.path.abspath(w) if isinstance(w, os.PathLike) else w for w in command]
    if not words[0]:
        raise ValueError("the command begins with an empty text; name the program there.")
    if os.path.dirname(words[0]):
        words[0] = os.path.abspath(words[0])
    return tuple(os.fsdecode(word) for word in words)


def _require_ending(name: object, argument: str, endings: tuple[str, ...]) -> None:
    name = as_text(name, argument)
    if Path(name).name != name:
        raise ValueError(f"{argument} must be the name of a file, without a folder; got {name!r}.")
    if Path(name).suffix not in endings:
        raise ValueError(
            f"{argument} must end with {' or '.join(endings)}, which is its format; got {name!r}."
        )


def _fill(word: str, values: dict[str, Any]) -> str:
    for name, value in values.items():
        word = word.replace(name, str(value))
    return word


@contextlib.contextmanager
def _scratch_folder(*, keep_failed: bool) -> Iterator[Path]:
    """A folder that is removed, unless the work in it failed and it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="inferostatic-"))
    kept = False
    try:
        yield folder
    except Exception as error:
        if not keep_failed:
            raise
        kept = True
        raise RuntimeError(f"{error} The folder of this run is kept: {folder}") from error
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: Path, time_limit: float | None) -> None:
    """Run a command to its end; it ends with this process, and with all that it started."""
    program = command[0]
    with (
        (folder.parent / "stdout").open("wb") as stdout,
        (folder.parent / "stderr").open("wb") as stderr,
    ):
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise RuntimeError(
                f"the program {program!r} could not be started: {error.strerror or error}. "
                f"{_advise_start(program, folder, error)}"
            ) from error
        with _watched(process):
            try:
                code = process.wait(time_limit)
            except subprocess.TimeoutExpired:
                code = None
    if code is None:
        raise TimeoutError(
            f"the program {program!r} took more than {time_limit:g} seconds, its time limit, and "
            f"was ended.{_messages(folder)}"
        )
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"signal {_signal_name(-code)}"
        raise RuntimeError(f"the program {program!r} ended with {how}.{_messages(folder)}")


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the whole group of a process that still runs when this is left, however it is left."""
    if os.name != "posix":
        try:
            yield
        finally:
            process.kill()
            process.wait()
        return
    watch = subprocess.Popen(
        ["/bin/sh", "-c", WATCH],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert watch.stdin is not None
    try:
        watch.stdin.write(b"%d\n" % process.pid)
        watch.stdin.flush()
        yield
    finally:
        if process.returncode is None:  # not waited for, so its number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with contextlib.suppress(OSError):
            watch.communicate(b"done\n")


def _advise_start(program: str, folder: Path, error: OSError) -> str:
    """What to do about a program that could not be started."""
    if isinstance(error, PermissionError) and (folder / program).is_file():
        return (
            f"The file is not executable: `chmod +x {program}` makes it so, or name the program "
            'that reads it first, such as ["python3", …].'
        )
    if error.errno == errno.ENOEXEC:
        return (
            "A script must begin with a line such as #!/bin/sh or #!/usr/bin/env python3; or name "
            'the program that reads it first, such as ["python3", …].'
        )
    return "Give its whole path, or one that is found on PATH."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _missed_file(arguments: Sequence[str | os.PathLike[str]]) -> str:
    """A hint at an argument that is a file of the current folder, which the program cannot see."""
    for word in map(os.fsdecode, arguments):
        if not os.path.isabs(word) and os.path.isfile(word):
            return (
                f" The program runs in an empty folder, where {word!r} is not the file of the "
                f"current one: to name that, write pathlib.Path({word!r}) in the command."
            )
    return ""


def _messages(folder: Path) -> str:
    """The last that a program wrote on its two streams."""
    shown = ""
    for name, title in (("stderr", "standard error"), ("stdout", "standard output")):
        with (folder.parent / name).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - SHOWN_CHARACTERS))
            said = stream.read().decode(errors="replace")
        if said.strip():
            shown += f" The end of its {title}:\n{said.strip()}\n"
    return shown
