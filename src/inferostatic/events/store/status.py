"""What is in a store, what is missing and what is damaged."""

import dataclasses
from pathlib import Path

from ...summary import AbstractSummarised, Summary, count
from .cache import count_events, list_numbers
from .manifest import Manifest
from .parts import DROPPED, FAILURES, DamagedPart, find_parts, read_notes, read_part


@dataclasses.dataclass(frozen=True, repr=False)
class StoreStatus(AbstractSummarised):
    """The state of a store.

    Attributes:
        path: the store.
        name: the simulator's, as the user gave it, or the name of the function.
        events: number of events that were asked for.
        present: how many of them are there, in parts that are whole.
        parts: number of parts that hold the events that were asked for.
        missing: parts that are not there.
        damaged: parts that are not what was written, each with the reason.
        failed: parts whose simulation failed last time, each with the reason.
        dropped: events that were left out, because the simulator returned NaN or infinite x.
        verified: whether the content of all parts was compared with their checksums.
    """

    path: Path
    name: str
    events: int
    present: int
    parts: int
    missing: tuple[int, ...]
    damaged: dict[int, str]
    failed: dict[int, str]
    dropped: int
    verified: bool

    @property
    def complete(self) -> bool:
        """Whether all events are there."""
        return not self.missing and not self.damaged

    def __repr__(self) -> str:
        """How much is there, in a line."""
        wrong = [
            f", {count(len(parts), 'part')} {word}"
            for word, parts in (
                ("missing", self.missing),
                ("damaged", self.damaged),
                ("failed", self.failed),
            )
            if parts
        ]
        return (
            f"StoreStatus({str(self.path)!r}: {self.present:,} of {count(self.events, 'event')}"
            f"{''.join(wrong)})"
        )

    def _summarise(self) -> Summary:
        there = self.parts - len(self.missing) - len(self.damaged)
        lines = [
            f"{self.present:,} of {self.events:,} events, in {there:,} of {self.parts:,} parts"
            f"{', all verified' if self.verified and self.complete else ''}",
        ]
        if self.dropped:
            lines.append(f"{self.dropped:,} events were dropped: NaN or infinite x")
        if self.missing:
            lines.append(f"missing parts: {list_numbers(self.missing)}")
        lines += [f"damaged part {part}: {reason}" for part, reason in self.damaged.items()]
        lines += [f"failed part {part}: {reason}" for part, reason in self.failed.items()]
        return Summary(f"store of {self.name} in {self.path}", tuple(lines))


def find_status(folder: Path, manifest: Manifest, *, verify: bool) -> StoreStatus:
    """Look at every part; only where `verify` is set, read them."""
    files, parts = find_parts(folder), range(manifest.part_count)
    damaged = {
        part: "the file is cut short: it lacks the end of a Parquet file"
        for part in parts
        if part in files and not files[part].whole
    }
    whole = [part for part in parts if part in files and part not in damaged]
    for part in whole if verify else ():
        try:
            read_part(folder, manifest, part)
        except DamagedPart as error:
            damaged[part] = str(error)
    good = [part for part in whole if part not in damaged]
    simulator = manifest.simulator or {}
    failed = read_notes(folder, FAILURES)
    return StoreStatus(
        path=folder,
        name=simulator.get("name") or simulator.get("function") or "events from elsewhere",
        events=manifest.events,
        present=count_events(folder, manifest, good, manifest.events),
        parts=len(parts),
        missing=tuple(part for part in parts if part not in files),
        damaged=damaged,
        failed={part: str(note.get("reason")) for part, note in failed.items()},
        dropped=sum(len(note["rows"]) for note in read_notes(folder, DROPPED).values()),
        verified=verify,
    )
