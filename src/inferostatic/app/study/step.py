"""A step of a study: what it depends on, where its result lies, and how it is done."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .folder import Study, take_digest
from .journal import now
from .record import StepRecord, find_changes, find_latest, read_record

if TYPE_CHECKING:
    from .workshop import Workshop

#: The folder of the sections, in that of a step.
SECTIONS = "sections"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a step found.

    Attributes:
        results: objects that `report.describe` takes, in the order of the report.
        numbers: by name; what is not finite becomes None.
        text: for the terminal.
        context: what `report.describe` is told besides, such as the true values of parameters.
    """

    results: tuple[Any, ...]
    numbers: Mapping[str, float]
    text: str
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class StudyStep:
    """A step.

    Attributes:
        name: of the command that does it.
        title: for people; no two steps of a study have the same.
        inputs: all that its result depends on, as JSON has it.
        work: does it, with its folder for what it keeps.
    """

    name: str
    title: str
    inputs: Mapping[str, Any]
    work: "Callable[[Workshop, Path], Outcome]"

    @property
    def digest(self) -> str:
        """Stands for all inputs."""
        return take_digest({"title": self.title, **self.inputs})

    def folder(self, study: Study) -> Path:
        """Where its result lies."""
        return study.run / self.name / self.digest

    def find(self, study: Study) -> StepRecord | None:
        """Its record, if it was done with these inputs."""
        return read_record(self.folder(study))

    def perform(self, workshop: "Workshop") -> StepRecord:
        """Its record; the work is done unless it was done before."""
        study, journal = workshop.study, workshop.journal
        found = self.find(study)
        if found is not None:
            journal.say(f"{self.title}: done already")
            return found
        latest = find_latest(study.run / self.name, self.title)
        changes = [] if latest is None else find_changes(latest.inputs, self.inputs)
        why = f", again: {'; '.join(dict.fromkeys(changes))}" if changes else ""
        journal.say(f"{self.title}: begins{why}")
        folder = self.folder(study)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with journal.collecting() as warned:
            outcome = self.work(workshop, folder)
            save_results(folder, outcome)
        seconds = round(time.monotonic() - began, 3)
        record = StepRecord(
            step=self.name,
            title=self.title,
            inputs=self.inputs,
            numbers={name: as_number(value) for name, value in outcome.numbers.items()},
            text=outcome.text,
            warnings=tuple(warned),
            seconds=seconds,
            finished=now(),
            versions=workshop.versions,
        )
        record.write(folder)
        journal.say(f"{self.title}: done in {seconds:.1f} s")
        journal.note(outcome.text)
        return record


def as_number(value: object) -> float | None:
    """A plain number for JSON, or None for NaN and infinities."""
    number = float(value)  # type: ignore[arg-type]
    if number != number or number in (float("inf"), float("-inf")):
        return None
    return int(number) if isinstance(value, int) else number


def save_results(folder: Path, outcome: Outcome) -> None:
    """Keep what was found as sections of a report, so that nobody needs the objects again."""
    from ...report.describe import describe
    from ...report.section_files import save_sections

    sections = [one for found in outcome.results for one in describe(found, **outcome.context)]
    save_sections(sections, folder / SECTIONS)
