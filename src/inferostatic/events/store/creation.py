"""Creating a store: the simulator is timed, and the size of the parts follows."""

import dataclasses
import math
import time
from typing import Any

import numpy as np

from ...inputs import finite_rows, warn_user
from ...serial import describe, user_name
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ...world.simulator import LatentSimulator, SimulatorOutput
from ..blocks import BLOCK_SIZE, Blocks, count_blocks, draw_block_theta, run_blocks
from ..engines.engine import OnEngine
from .layout import ColumnLayout
from .manifest import Manifest, list_versions
from .part_task import build_events
from .store import MOST_BYTES, MOST_PARTS, Store

#: Parts that the events first asked for should have at least, for as many workers.
FEWEST_PARTS = 16
#: Seconds that a part should take at least nevertheless.
SHORTEST_PART = 1.0
#: Relative difference up to which values of two computers are equal.
TOLERANCE = 1e-5


def create_store(
    store: Store, bound: OnEngine, prior: AbstractPrior, n: int, *, seed: int, shares: int
) -> None:
    """Time the simulator, choose the size of the parts and write the manifest."""
    size = store.block_size or BLOCK_SIZE
    theta = draw_block_theta(prior, seed, range(1), size=size)
    stream = Stream(seed, Purpose.SIMULATE)
    options: dict[str, Any] = {"latent": True, "any_value": bound.engine.failures is not None}
    first = Blocks(bound.simulator, theta, stream, 0, size, **options)
    ((_, trial),) = bound.engine.run(run_trial, [Trial(first, store.part_seconds)])
    layout = ColumnLayout.of(build_events(first, trial.made, prior))
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
        warn_not_a_function("the first block")


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
    return TrialResult(made, seconds, repeats=blocks_agree(made.x, again.x))


def blocks_agree(x: np.ndarray, again: np.ndarray) -> bool:
    """Whether a block came out the same a second time, up to the rounding of other computers."""
    if x.shape != again.shape:
        return False
    good = finite_rows(x)
    if (good != finite_rows(again)).any():
        return False
    x, again = x[good], again[good]
    absolute = TOLERANCE * float(np.abs(x).mean()) if x.size else 0.0
    return bool(np.allclose(x, again, rtol=TOLERANCE, atol=absolute))


def warn_not_a_function(what: str) -> None:
    """Report a block that came out otherwise a second time."""
    warn_user(
        f"the simulator made other events when {what} was simulated a second time with the same θ "
        "and generator. Either it changed since the store was begun, and then give it another "
        "version and another folder; or it is not a function of (theta, rng) alone, and results "
        "cannot be repeated: draw every random number from rng, and keep nothing between calls."
    )
