"""Making one part of a store: a task for an engine, which writes the part and returns its size."""

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inputs import finite_rows
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ...world.simulator import LatentSimulator, Simulator, SimulatorOutput
from ..blocks import Blocks, draw_block_theta, join_outputs, require_same_columns
from ..events import Events
from ..latent import Latent
from .layout import ColumnLayout, arrays_of
from .manifest import Manifest
from .parts import DROPPED, FAILURES, remove_note, write_note, write_part


class PartError(RuntimeError):
    """A part of a store could not be simulated."""


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A part of a store to be made: a task for an engine.

    Events with NaN or infinite x are an error, unless they are `dropped`: then a note beside the
    part says which of its events are not in it.
    """

    folder: Path
    manifest: Manifest
    prior: AbstractPrior
    simulator: Simulator | LatentSimulator
    number: int
    dropped: bool = False

    @property
    def blocks(self) -> range:
        """The blocks of this part."""
        first = self.number * self.manifest.blocks_per_part
        return range(first, first + self.manifest.blocks_per_part)

    def take(self, blocks: range) -> Blocks:
        """Some of its blocks, with their θ."""
        seed, size = self.manifest.seed, self.manifest.block_size
        theta = draw_block_theta(self.prior, seed, blocks, size=size)
        stream = Stream(seed, Purpose.SIMULATE)
        options: dict[str, Any] = {"latent": True, "any_value": self.dropped}
        return Blocks(self.simulator, theta, stream, blocks.start, size, **options)


@dataclasses.dataclass(frozen=True, eq=False)
class MakePart:
    """The function of such tasks by their numbers alone: the simulator is sent once."""

    first: Part

    def __call__(self, number: int) -> int:
        """Simulate a part and write it; returns its number of events."""
        return make_part(dataclasses.replace(self.first, number=number))


class PartTasks(Sequence[Part]):
    """Parts to be made, each built when it is asked for."""

    first: Part
    numbers: tuple[int, ...]

    def __init__(self, first: Part, numbers: Sequence[int]) -> None:
        """The same as `first` with these numbers."""
        self.first, self.numbers = first, tuple(numbers)

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        """One task."""
        return dataclasses.replace(self.first, number=self.numbers[index])


def make_part(part: Part) -> int:
    """Simulate a part and write it; returns its number of events."""
    made: list[SimulatorOutput] = []
    blocks = part.take(part.blocks)
    outputs = blocks.run_each()
    for number in part.blocks:
        try:
            output = next(outputs)
            if made:
                require_same_columns(made[0], output, number * blocks.size)
        except Exception as error:  # whatever a user's simulator raises
            raise part_failure(part, error, number) from error
        made.append(output)
    joined = join_outputs(made)
    try:
        events = build_events(blocks, joined, part.prior)
        _require_layout(part.manifest.layout, ColumnLayout.of(events))
    except (TypeError, ValueError) as error:
        raise part_failure(part, error, None) from error
    rows = np.flatnonzero(~finite_rows(joined.x))
    if len(rows):  # known before the part is there
        note = {"rows": rows.tolist(), "theta": blocks.theta[rows].tolist()}
        write_note(part.folder, DROPPED, part.number, note)
    else:
        remove_note(part.folder, DROPPED, part.number)
    write_part(part.folder, part.manifest, part.number, arrays_of(events))
    remove_note(part.folder, FAILURES, part.number)
    return len(events)


def build_events(blocks: Blocks, made: SimulatorOutput, prior: AbstractPrior) -> Events:
    """Simulated events, checked; latent variables come without their density.

    Without those of NaN or infinite x, where these are dropped.
    """
    good = np.arange(len(made.x))
    if blocks.any_value:
        good = np.flatnonzero(finite_rows(made.x))
        if not len(good):
            raise ValueError("the simulator returned NaN or infinite x for every event")
    latent = None if made.z is None else Latent({"z": made.z[good]})
    names = made.names or getattr(blocks.simulator, "x_names", None)
    return Events(
        x=made.x[good], theta=blocks.theta[good], latent=latent, prior=prior, x_names=names
    )


def _require_layout(expected: ColumnLayout, found: ColumnLayout) -> None:
    if found != expected:
        raise ValueError(
            "the simulator returns other columns than those of the store: "
            f"{', '.join(found.x_names)} ({found.x_dtype}), latent {found.latent or 'none'}, and "
            f"not {', '.join(expected.x_names)} ({expected.x_dtype}), latent "
            f"{expected.latent or 'none'}."
        )


def part_failure(part: Part, error: Exception, block: int | None) -> PartError:
    """The error of a part, which is recorded so that it can be run alone."""
    manifest, reason = part.manifest, str(error)
    where = f"part {part.number}"
    note: dict[str, Any] = {"part": part.number, "seed": manifest.seed, "reason": reason}
    if block is not None:
        where += f", block {block}"
        theta = draw_block_theta(
            part.prior, manifest.seed, range(block, block + 1), size=manifest.block_size
        )
        row = (block - part.blocks.start) * manifest.block_size
        note |= {"block": block, "row": row, "theta": theta.tolist()}
    with contextlib.suppress(OSError):
        write_note(part.folder, FAILURES, part.number, note)
    row = f", {note['row']}" if "row" in note else ""
    return PartError(
        f"{where} of the store in {part.folder} failed: {reason.rstrip('.')}. The other parts are "
        f"intact. It is recorded in {FAILURES}/, and ist.replay({str(part.folder)!r}, "
        f"{part.number}{row}, simulator=…) runs it alone; then run the same call again."
    )
