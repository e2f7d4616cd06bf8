"""Filling a store: what is missing is made, and a few blocks are made twice as a check."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...inputs import warn_user
from ...progress import progress
from ...serial import describe, user_name
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ..blocks import count_blocks, run_blocks
from ..engines.engine import InProcess, OnEngine, TaskError
from ..engines.failures import warn_dropped
from ..events import Events
from ..latent import AbstractJoint
from ..watch import Watch
from .cache import PartsSource, list_numbers
from .creation import blocks_agree, create_store, warn_not_a_function
from .manifest import Manifest
from .part_task import MakePart, Part, PartError, PartTasks, part_failure
from .parts import DROPPED, FAILURES, find_parts, read_notes, read_part, remove_note
from .store import MOST_PARTS, Store, name_events, open_events

#: Blocks that are simulated a second time, at most, to see whether they come out the same.
REPLAYED_BLOCKS = 3
#: One block is simulated a second time for so many that were made: it costs 1% at most.
REPLAYED_EVERY = 100
#: One part is read for that for so many that were made, and one more.
READ_EVERY = 20


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
    files = find_parts(store.path, wanted)
    missing = [part for part in wanted if part not in files or not files[part].whole]
    dropped = bound.engine.failures is not None
    folder = store.path.absolute()  # workers of a cluster have other current folders
    whole = Part(folder, manifest, prior, bound.simulator, 0, dropped=dropped)
    with store.writing():
        _make(bound, PartTasks(whole, missing), show=show)
    store.record_events(n)  # another process may have written the manifest meanwhile
    _check_repeats(bound, whole, wanted, made=len(missing))
    if missing:
        _warn_dropped(whole, wanted)


def choose_parts(count: int, share: tuple[int, int] | None) -> range:
    """The parts of a share: every N-th one, so that a share stays one when events are added."""
    return range(count) if share is None else range(share[0], count, share[1])


def _make(bound: OnEngine, tasks: PartTasks, *, show: bool | None) -> None:
    size = tasks.first.manifest.part_size
    total = len(tasks) * size
    if not tasks:
        return
    for part in tasks:
        remove_note(part.folder, FAILURES, part.number)
    watch = Watch(total, in_process=isinstance(bound.engine, InProcess), show=show)
    with progress("simulating", total, show=show) as advance:
        try:
            for _ in bound.engine.run(MakePart(tasks.first), tasks.numbers):
                advance(size, watch.add(size))
        except TaskError as error:
            part = tasks[error.index]
            if part.number in read_notes(part.folder, FAILURES):  # the worker recorded it
                raise PartError(error.reason) from error
            raise part_failure(part, error, None) from error


def _warn_dropped(whole: Part, parts: Sequence[int]) -> None:
    """Report the events that were left out."""
    notes = read_notes(whole.folder, DROPPED)
    rows = {part: notes[part]["rows"] for part in parts if part in notes}
    if rows:
        warn_dropped(
            sum(map(len, rows.values())),
            len(parts) * whole.manifest.part_size,
            f"parts {list_numbers(tuple(rows))} of the store, where {whole.folder / DROPPED} has "
            "their rows and θ",
        )


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


def _check_repeats(bound: OnEngine, whole: Part, parts: Sequence[int], *, made: int) -> None:
    """Simulate a few random blocks again and report those that come out otherwise."""
    manifest = whole.manifest
    count = min(REPLAYED_BLOCKS, made * manifest.blocks_per_part // REPLAYED_EVERY)
    if count == 0:
        return
    rng = Stream(manifest.seed, Purpose.CHECK_STORE).generator(len(parts))
    # Few of them are read, because a fast simulator makes a part in the time that reading takes.
    chosen = min(count, len(parts), 1 + made // READ_EVERY)
    for part in rng.choice(parts, chosen, replace=False).tolist():
        stored = _x_of(whole, part)
        for inner in rng.choice(manifest.blocks_per_part, count // chosen).tolist():
            number = part * manifest.blocks_per_part + inner
            ((_, again),) = bound.engine.run(run_blocks, [whole.take(range(number, number + 1))])
            rows = slice(inner * manifest.block_size, (inner + 1) * manifest.block_size)
            if not blocks_agree(stored[rows], again.x):
                warn_not_a_function(f"block {number} of the store in {whole.folder}")
                return


def _x_of(whole: Part, part: int) -> np.ndarray:
    """x of all events of a part; NaN for those that were dropped."""
    x = read_part(whole.folder, whole.manifest, part)["x"]
    dropped = read_notes(whole.folder, DROPPED).get(part, {}).get("rows", ())
    kept = np.setdiff1d(np.arange(whole.manifest.part_rows(part)), dropped)
    filled = np.full((whole.manifest.part_rows(part), x.shape[1]), np.nan, x.dtype)
    filled[kept] = x
    return filled


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
