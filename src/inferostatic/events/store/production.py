"""Making the parts of a store: the tasks, the size of the parts, and the check of the simulator."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inputs import warn_user
from ...progress import progress
from ...serial import describe, user_name
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ...world.simulator import LatentSimulator, Simulator, SimulatorOutput
from ..blocks import (
    BLOCK_SIZE,
    Blocks,
    count_blocks,
    draw_block_theta,
    join_outputs,
    require_same_columns,
    run_blocks,
)
from ..engines.engine import InProcess, OnEngine, TaskError
from ..events import Events
from ..latent import AbstractJoint, Latent
from ..watch import Watch
from .cache import PartsSource
from .layout import Layout, arrays_of
from .manifest import Manifest, list_versions
from .parts import DROPPED, FAILURES, find_parts, read_part, remove_note, write_note, write_part
from .store import MOST_BYTES, MOST_PARTS, Store, name_events, open_events

#: Parts that the events first asked for should have at least, for as many workers.
FEWEST_PARTS = 16
#: Seconds that a part should take at least nevertheless.
SHORTEST_PART = 1.0
#: Blocks that are simulated a second time, at most, to see whether they come out the same.
REPLAYED_BLOCKS = 3
#: One block is simulated a second time for so many that were made: it costs 1% at most.
REPLAYED_EVERY = 100
#: Relative difference up to which values of two computers are equal.
TOLERANCE = 1e-5


class PartError(RuntimeError):
    """A part of a store could not be simulated."""


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A part of a store to be made: a task for an engine."""

    folder: Path
    manifest: Manifest
    prior: AbstractPrior
    simulator: Simulator | LatentSimulator
    number: int

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
        return Blocks(self.simulator, theta, stream, blocks.start, size, latent=True)


class PartTasks(Sequence[Part]):
    """Parts to be made, each built when it is asked for."""

    def __init__(self, first: Part, numbers: Sequence[int]) -> None:
        """The same as `first` with these numbers."""
        self.first, self.numbers = first, tuple(numbers)

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        """One task."""
        return dataclasses.replace(self.first, number=self.numbers[index])


def fill_store(
    store: Store,
    bound: OnEngine,
    prior: AbstractPrior,
    n: int,
    *,
    share: tuple[int, int] | None,
    seed: int,
    show: bool | None,
) -> None:
    """Make what is missing of the first `n` events, or of a share of their parts."""
    if not store.exists():
        create_store(store, bound, prior, n, seed=seed, shares=1 if share is None else share[1])
    manifest = store.manifest()
    store.require_same(manifest, _wanted(store, manifest, bound, prior, seed))
    manifest = store.record_events(n)
    count = manifest.count_parts(n)
    if count > MOST_PARTS:
        warn_user(
            f"{n:,} events in parts of {manifest.part_size:,} are {count:,} files, more than the "
            f"{MOST_PARTS:,} that a folder should have; the size of parts was fixed when the store "
            f"was created. Choose another folder and ist.Store(path, events_per_part="
            f"{count_blocks(n, MOST_PARTS * manifest.block_size) * manifest.block_size}) for so "
            "many."
        )
    wanted = choose_parts(count, share)
    files = find_parts(store.path)
    missing = [part for part in wanted if part not in files or not files[part].whole]
    whole = Part(store.path, manifest, prior, bound.simulator, 0)
    with store.writing():
        _make(bound, PartTasks(whole, missing), show)
    store.record_events(n)  # another process may have written the manifest meanwhile
    _check_repeats(bound, whole, wanted, made=len(missing))


def choose_parts(count: int, share: tuple[int, int] | None) -> range:
    """The parts of a share: every N-th one, so that a share stays one when events are added."""
    return range(count) if share is None else range(share[0], count, share[1])


def _make(bound: OnEngine, tasks: PartTasks, show: bool | None) -> None:
    size = tasks.first.manifest.part_size
    total = len(tasks) * size
    if not tasks:
        return
    watch = Watch(total, in_process=isinstance(bound.engine, InProcess), show=show)
    with progress("simulating", total, show=show) as advance:
        try:
            for _ in bound.engine.run(make_part, tasks):
                advance(size, watch.add(size))
        except TaskError as error:
            part = tasks[error.index]
            raise _failure(part, error, None, record=PartError.__name__ not in error.reason) from (
                error
            )


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
        except OSError:
            raise
        except Exception as error:  # whatever a user's simulator raises
            raise _failure(part, error, number, record=True) from error
        made.append(output)
    try:
        events = build_events(blocks, join_outputs(made), part.prior)
        _require_layout(part.manifest.layout, Layout.of(events))
    except (TypeError, ValueError) as error:
        raise _failure(part, error, None, record=True) from error
    remove_note(part.folder, DROPPED, part.number)
    write_part(part.folder, part.manifest, part.number, arrays_of(events))
    remove_note(part.folder, FAILURES, part.number)
    return len(events)


def build_events(blocks: Blocks, made: SimulatorOutput, prior: AbstractPrior) -> Events:
    """Simulated events, checked; latent variables come without their density."""
    latent = None if made.z is None else Latent({"z": made.z})
    names = made.names or getattr(blocks.simulator, "x_names", None)
    return Events(x=made.x, theta=blocks.theta, latent=latent, prior=prior, x_names=names)


def _require_layout(expected: Layout, found: Layout) -> None:
    if found != expected:
        raise ValueError(
            "the simulator returns other columns than those of the store: "
            f"{', '.join(found.x_names)} ({found.x_dtype}), latent {found.latent or 'none'}, and "
            f"not {', '.join(expected.x_names)} ({expected.x_dtype}), latent "
            f"{expected.latent or 'none'}."
        )


def _failure(part: Part, error: Exception, block: int | None, *, record: bool) -> PartError:
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
    if record:
        with contextlib.suppress(OSError):
            write_note(part.folder, FAILURES, part.number, note)
    row = f", {note['row']}" if "row" in note else ""
    return PartError(
        f"{where} of the store in {part.folder} failed: {reason.rstrip('.')}. The other parts are "
        f"intact. It is recorded in {FAILURES}/, and ist.replay({str(part.folder)!r}, "
        f"{part.number}{row}, simulator=…) runs it alone; then run the same call again."
    )


def create_store(
    store: Store, bound: OnEngine, prior: AbstractPrior, n: int, *, seed: int, shares: int
) -> None:
    """Time the simulator, choose the size of the parts and write the manifest."""
    size = store.block_size or BLOCK_SIZE
    theta = draw_block_theta(prior, seed, range(1), size=size)
    stream = Stream(seed, Purpose.SIMULATE)
    first = Blocks(bound.simulator, theta, stream, 0, size, latent=True)
    ((_, trial),) = bound.engine.run(run_trial, [Trial(first, store.part_seconds)])
    layout = Layout.of(build_events(first, trial.made, prior))
    if store.events_per_part is not None:
        blocks_per_part = store.events_per_part // size
    else:
        blocks_per_part = choose_part_blocks(
            count_blocks(n, size),
            trial.seconds,
            part_seconds=store.part_seconds,
            block_bytes=size * layout.row_bytes(),
            shares=shares,
        )
    latent = isinstance(bound.simulator, LatentSimulator)
    store.create(
        Manifest(
            layout=layout,
            simulator={
                "name": store.name,
                "version": store.version,
                "function": user_name(bound.simulator),
            },
            prior=describe(prior),
            joint={"user": "joint_log_prob"} if latent else None,
            seed=seed,
            block_size=size,
            blocks_per_part=blocks_per_part,
            events=n,
            versions=list_versions(),
        )
    )
    if not trial.repeats:
        _warn_not_a_function("the first block")


def choose_part_blocks(
    blocks: int, seconds: float, *, part_seconds: float, block_bytes: int, shares: int
) -> int:
    """Blocks in a part.

    Args:
        blocks: that hold the events asked for.
        seconds: that a block takes.
        part_seconds: that a part should take.
        block_bytes: bytes of a block.
        shares: into which the work is divided.
    """
    seconds = max(seconds, 1e-6)
    workers = max(blocks / FEWEST_PARTS, SHORTEST_PART / seconds)
    by_time = min(part_seconds / seconds, workers, MOST_BYTES / block_bytes, blocks / shares)
    return max(1, math.floor(by_time), count_blocks(blocks, MOST_PARTS))


def _wanted(
    store: Store, found: Manifest, bound: OnEngine, prior: AbstractPrior, seed: int
) -> Manifest:
    """What the manifest would be if this call had created the store."""
    if found.fingerprint is not None:
        raise ValueError(
            f"the store in {store.path} holds events that come from elsewhere, to which none can "
            "be simulated; choose another folder."
        )
    function = {"function": user_name(bound.simulator)}
    return dataclasses.replace(
        found, prior=describe(prior), seed=seed, simulator=(found.simulator or {}) | function
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """A block that is simulated to find out what it takes, a second time unless it is slow."""

    blocks: Blocks
    slow: float


@dataclasses.dataclass(frozen=True, eq=False)
class TrialResult:
    """A block, the seconds it took, and whether it came out the same a second time."""

    made: SimulatorOutput
    seconds: float
    repeats: bool


def run_trial(trial: Trial) -> TrialResult:
    """Simulate the block; the second time nothing has to be compiled or loaded."""
    began = time.perf_counter()
    made = run_blocks(trial.blocks)
    seconds = time.perf_counter() - began
    if seconds > trial.slow:
        return TrialResult(made, seconds, repeats=True)
    began = time.perf_counter()
    again = run_blocks(trial.blocks)
    seconds = time.perf_counter() - began
    return TrialResult(made, seconds, repeats=_agree(made.x, again.x))


def _check_repeats(bound: OnEngine, whole: Part, parts: Sequence[int], *, made: int) -> None:
    """Simulate a few random blocks again: one that differs shows that results cannot be repeated."""
    manifest = whole.manifest
    count = min(REPLAYED_BLOCKS, made * manifest.blocks_per_part // REPLAYED_EVERY)
    rng = Stream(manifest.seed, Purpose.CHECK_STORE).generator(len(parts))
    for part in rng.choice(parts, min(count, len(parts)), replace=False).tolist():
        inner = int(rng.integers(manifest.blocks_per_part))
        rows = slice(inner * manifest.block_size, (inner + 1) * manifest.block_size)
        number = part * manifest.blocks_per_part + inner
        ((_, again),) = bound.engine.run(run_blocks, [whole.take(range(number, number + 1))])
        if not _agree(read_part(whole.folder, manifest, part)["x"][rows], again.x):
            _warn_not_a_function(f"block {number} of the store in {whole.folder}")


def _agree(x: np.ndarray, again: np.ndarray) -> bool:
    if x.shape != again.shape:
        return False
    return bool(np.allclose(x, again, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(x).mean())))


def _warn_not_a_function(what: str) -> None:
    warn_user(
        f"the simulator made other events when {what} was simulated a second time with the same θ "
        "and generator. Either it changed since the store was begun, and then give it another "
        "version and another folder; or it is not a function of (theta, rng) alone, and results "
        "cannot be repeated: draw every random number from rng, and keep nothing between calls."
    )


def open_share(
    store: Store,
    prior: AbstractPrior,
    n: int,
    share: tuple[int, int] | None,
    joint: AbstractJoint | None,
) -> Events:
    """The first `n` events of the store, or those of a share, read when they are used."""
    manifest = store.manifest()
    if share is None:
        return open_events(store.path, manifest, n, prior, joint)
    parts = choose_parts(manifest.count_parts(n), share)
    return name_events(PartsSource(store.path, manifest, parts, n, joint), manifest, prior)
