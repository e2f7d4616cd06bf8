"""What a finished step left: inputs, numbers, words, warnings, versions and seconds, in JSON.

The record is written last and whole: a folder without one belongs to a step that did not end.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...files import write_whole

#: Its name in the folder of a result.
RECORD = "record.json"
#: Version of its format.
RECORD_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A finished step.

    Attributes:
        step: its name, such as "fit" or "infer".
        title: for people, such as "maximum likelihood".
        inputs: all that the result depends on.
        numbers: what was found, by name, in full precision; None for what is no number.
        text: what was found, in words.
        warnings: given on the way.
        seconds: that the last run of it took.
        finished: when, in ISO form with the time zone.
        versions: of Python and the packages that made it.
    """

    step: str
    title: str
    inputs: Mapping[str, Any]
    numbers: Mapping[str, float | None]
    text: str
    warnings: tuple[str, ...]
    seconds: float
    finished: str
    versions: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Put it into the folder of its result."""
        content = {"format": RECORD_FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(content, indent=1, allow_nan=False)
        write_whole(folder / RECORD, text.encode("ascii") + b"\n")


def read_record(folder: Path) -> StepRecord | None:
    """The record of a folder; None if the step did not end, or the file is not one of ours."""
    try:
        content = json.loads((folder / RECORD).read_bytes())
        if content.pop("format") != RECORD_FORMAT:
            return None
        content["warnings"] = tuple(content["warnings"])
        record = StepRecord(**content)
        good = isinstance(record.numbers, dict) and isinstance(record.inputs, dict)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return record if good else None


def find_latest(folder: Path, title: str) -> StepRecord | None:
    """The last record of a step of this title, among those of all configurations."""
    try:
        with os.scandir(folder) as entries:
            found = [read_record(Path(entry.path)) for entry in entries if entry.is_dir()]
    except OSError:
        return None
    same = [record for record in found if record is not None and record.title == title]
    return max(same, key=lambda record: str(record.finished), default=None)


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """What differs between the inputs of two results, as `fit.epochs: 3 → 5`."""
    changes = []
    for key in sorted({*before, *now}):
        name = f"{path}.{key}" if path else key
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            changes += find_changes(old, new, name)
        elif key in UPSTREAM:
            changes.append(UPSTREAM[key])
        else:
            changes.append(f"{name}: {_show(old)} → {_show(new)}")
    return changes


#: Inputs that are digests, which nobody wants to read.
UPSTREAM = {
    "sha256": "the simulator's file or the data file has changed",
    "estimator": "the estimator is another one",
}


def _show(value: object) -> str:
    text = "default" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
