"""The folder of a study: where everything is, and of what each result is the result.

Nothing in the run folder is ever changed to mean something else. Every result lies in a folder
whose name is a digest of all that it depends on: settings, seeds, the simulator's file, data, and
the results it was made from. So another configuration makes other folders, an earlier one finds
its results again, and a process may be killed at any moment.
"""

import dataclasses
import hashlib
import json
import os
import stat
from functools import cached_property
from pathlib import Path
from typing import Any

from ..config.faults import Fault, StudyError
from ..config.reading import FILE, read_study
from ..config.study_tables import StudyTable

#: The folder of all that is made, inside that of the study.
RUN = "run"
#: The report.
REPORT = "report.html"
#: Digits of a digest in the name of a folder.
DIGITS = 16
#: Bytes of a file that are read at a time.
CHUNK = 2**20
#: What has a seed of its own; the order decides which, so new ones come last.
SEEDED = ("training", "validation", "fit", "diagnose", "data", "infer", "reweight")


@dataclasses.dataclass(frozen=True)
class Study:
    """A folder with its configuration.

    Attributes:
        folder: that holds `study.toml`.
        table: what the file says.
    """

    folder: Path
    table: StudyTable

    @property
    def run(self) -> Path:
        """Where everything is kept that steps make."""
        return self.folder / RUN

    @property
    def report(self) -> Path:
        """The report."""
        return self.folder / REPORT

    @property
    def title(self) -> str:
        """For people."""
        return self.table.title or self.folder.resolve().name

    @cached_property
    def seeds(self) -> dict[str, int]:
        """The seed of every purpose, all from the one in the file."""
        from ...streams import Purpose, Stream

        found = Stream(self.table.seed, Purpose.STUDY).seeds(len(SEEDED))
        return dict(zip(SEEDED, found, strict=True))

    @cached_property
    def simulator_identity(self) -> dict[str, Any]:
        """What tells this simulator from another one, without running any of it."""
        table = self.table.simulator
        described = table.model_dump(mode="json", exclude_none=True)
        if table.file is not None:
            described["sha256"] = self.hash_file(table.file, ("simulator", "file"))
        if table.command is not None:
            files = [self.find_word(word) for word in table.command]
            described["sha256"] = {
                str(number): self.hash_file(str(file), ("simulator", "command", number))
                for number, file in enumerate(files)
                if file is not None
            }
        return described

    def find_word(self, word: str) -> Path | None:
        """The file in the study's folder that a word of a command means, if it means one."""
        table = self.table.simulator
        if "{study}" in word:
            file = Path(word.replace("{study}", str(self.folder.absolute())))
        elif os.path.isabs(word) or word in (table.theta, table.x):
            return None  # the latter two are files of the folder in which the program runs
        elif not os.path.dirname(word) and table.command and word == table.command[0]:
            return None  # a program that is found on PATH
        else:
            file = self.folder.absolute() / word
        try:
            return file if file.is_file() else None
        except (OSError, ValueError):
            return None

    def hash_file(self, name: str, field: tuple[str | int, ...]) -> str:
        """SHA-256 of a regular file, looked for from the folder; else the field is named."""
        digest = hashlib.sha256()
        try:
            path = self.folder / name
            if not stat.S_ISREG(path.stat().st_mode):
                raise OSError(0, "it is no regular file")
            with path.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            text = f"names {json.dumps(name)}, which cannot be read: {reason}."
            raise StudyError(str(self.folder / FILE), [Fault(field, text)]) from None
        return digest.hexdigest()

    def store(self, which: str) -> Path:
        """The store of training or validation events, which more events are appended to."""
        inputs = {
            "simulator": self.simulator_identity,
            "prior": describe_prior(self.table),
            "seed": self.seeds[which],
        }
        return self.run / "events" / f"{which}-{take_digest(inputs)}"


def open_study(folder: str | os.PathLike[str]) -> Study:
    """The study in a folder; `StudyError` if its file cannot be used."""
    return Study(Path(folder), read_study(folder))


def describe_prior(table: StudyTable) -> dict[str, Any]:
    """The prior as JSON has it, in the order of its parameters."""
    return {name: one.model_dump(exclude_none=True) for name, one in table.prior.items()}


def take_digest(inputs: object) -> str:
    """Some digits that stand for all of it; the order of keys counts for nothing but priors."""
    text = json.dumps(_ordered(inputs), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _ordered(inputs: object) -> object:
    """Keys sorted, except those of a prior, whose order is that of the columns of θ."""
    if isinstance(inputs, dict):
        items = [(key, _ordered(value)) for key, value in inputs.items()]
        if "prior" in inputs and isinstance(inputs["prior"], dict):
            named = list(inputs["prior"].items())
            items = [(k, named if k == "prior" else v) for k, v in items]
        return sorted(items, key=lambda item: str(item[0]))
    if isinstance(inputs, list | tuple):
        return [_ordered(value) for value in inputs]
    return inputs
