"""Simulate one part of a store again, alone."""

import os

from ...inputs import as_count, kind_of
from ...serial import absent_names, restore
from ...world.priors.prior import AbstractPrior
from ...world.simulator import LatentSimulator, Simulator, require_simulator
from ..blocks import run_blocks
from ..engines.engine import InProcess, OnEngine
from ..events import Events
from .part_task import Part, build_events
from .store import Store


def replay(
    store: Store | str | os.PathLike[str],
    part: int,
    row: int | None = None,
    *,
    simulator: Simulator | LatentSimulator,
    prior: AbstractPrior | None = None,
) -> Events:
    """Simulate one part of a store again, such as one that failed; nothing is written.

    The simulator is called exactly as it was for the store, in this process or on the engine that
    it is bound to, so that a failure shows again.

    Args:
        store: the store or its folder.
        part: number of the part, as failures and `Store.status` give it.
        row: of an event within the part: only its block is simulated, and the event is returned.
        simulator: the simulator of the store.
        prior: is in the store; needed only where it contains functions that a user wrote.
    """
    found = store if isinstance(store, Store) else Store(store)
    require_simulator(simulator)
    manifest = found.manifest()
    if manifest.fingerprint is not None:
        raise ValueError(
            f"the store in {found.path} holds events that come from elsewhere, which cannot be "
            "simulated again."
        )
    number = as_count(part, "part", least=0, most=manifest.part_count - 1)
    if prior is None:
        if absent_names(manifest.prior):
            raise ValueError(
                "the prior of this store contains functions that a user wrote, which a file "
                "cannot hold; give it, prior=…."
            )
        prior = restore(manifest.prior)
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            f"prior must be a prior such as ist.Uniform(low, high); got {kind_of(prior)}."
        )
    bound = simulator if isinstance(simulator, OnEngine) else InProcess()(simulator)
    task = Part(found.path, manifest, prior, bound.simulator, number)
    blocks = task.blocks
    if row is not None:
        inner = as_count(row, "row", least=0, most=manifest.part_size - 1) // manifest.block_size
        blocks = range(blocks.start + inner, blocks.start + inner + 1)
    taken = task.take(blocks)
    ((_, made),) = bound.engine.run(run_blocks, [taken])
    events = build_events(taken, made, prior)
    return events if row is None else events[[row % manifest.block_size]]
