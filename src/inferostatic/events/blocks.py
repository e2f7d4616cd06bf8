"""Blocks: the smallest pieces of a simulation, each with a random stream of its own.

θ and x of a block follow from the seed and the number of the block. So an event depends on the
seed, the size of the blocks and its number, and not on how many events were asked for, who
simulated them, in which order, or whether somebody was interrupted.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..inputs import ALL_CATEGORIES
from ..streams import Purpose, Stream
from ..threefry import make_key
from ..world.priors.prior import AbstractPrior
from ..world.simulator import (
    LatentSimulator,
    Simulator,
    SimulatorOutput,
    run_latent_simulator,
    run_simulator,
)

#: Events in a block: so many that a call of a vectorised simulator costs little for each event, and
#: so few that a slow one wastes little on the surplus of the last block.
BLOCK_SIZE = 200
#: Blocks whose θ are drawn in one call. It is always as many, because compiled code of another
#: shape may round differently.
DRAWN_BLOCKS = 64


def count_blocks(n: int, size: int = BLOCK_SIZE) -> int:
    """Blocks that hold `n` events."""
    return -(-n // size)


def draw_block_theta(
    prior: AbstractPrior, seed: int, blocks: range, *, size: int = BLOCK_SIZE
) -> np.ndarray:
    """θ of consecutive blocks from the prior, shape (blocks · size, d)."""
    stream = Stream(seed, Purpose.SIMULATE_THETA)
    drawn = []
    first = blocks.start - blocks.start % DRAWN_BLOCKS
    for start in range(first, blocks.stop, DRAWN_BLOCKS):
        words = stream.key_words(range(start, start + DRAWN_BLOCKS))
        with _on_the_host():
            theta = np.asarray(_draw(prior, jnp.asarray(words), size), np.float64)
        chosen = slice(max(blocks.start - start, 0), min(blocks.stop - start, DRAWN_BLOCKS))
        drawn.append(theta[chosen].reshape(-1, theta.shape[-1]))
    return np.concatenate(drawn) if drawn else np.zeros((0, prior.dim))


@contextlib.contextmanager
def _on_the_host() -> Iterator[None]:
    """On the CPU: machines with and without accelerators may work on the same simulation."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was told to use accelerators alone
        yield
        return
    with jax.default_device(device):
        yield


@eqx.filter_jit
def _draw(prior: AbstractPrior, words: Array, size: int) -> Array:
    def draw_block(pair: Array) -> Array:
        keys = jax.random.split(make_key(pair), size)
        return jax.vmap(lambda key: prior.draw(key=key))(keys)

    return jax.vmap(draw_block)(words)


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks:
    """Consecutive blocks of a simulation at given θ: a task for an engine.

    Attributes:
        simulator: is called once for each block.
        theta: of all events of these blocks; the last block may be shorter than the others.
        stream: of the whole simulation.
        first: number of the first of these blocks.
        size: events in a block.
        latent: whether latent variables are wanted, where the simulator has any.
        asked_because: why θ may lie outside the prior, for messages.
        any_value: whether x may be NaN or infinite.
    """

    simulator: Simulator | LatentSimulator
    theta: np.ndarray
    stream: Stream
    first: int = 0
    size: int = BLOCK_SIZE
    latent: bool = False
    asked_because: str = ""
    any_value: bool = False

    @property
    def first_row(self) -> int:
        """Number of the first event."""
        return self.first * self.size

    def run_each(self) -> Iterator[SimulatorOutput]:
        """Simulate one block after the other."""
        latent = self.latent and isinstance(self.simulator, LatentSimulator)
        simulator: Any = self.simulator
        for number in range(count_blocks(len(self.theta), self.size)):
            rows = self.theta[number * self.size : (number + 1) * self.size]
            rng = self.stream.generator(self.first + number)
            row = self.first_row + number * self.size
            options: dict[str, Any] = {"first_row": row, "any_value": self.any_value}
            if latent:
                yield run_latent_simulator(simulator, rows, rng, **options)
            else:
                because = self.asked_because
                yield run_simulator(simulator, rows, rng, asked_because=because, **options)


def run_blocks(blocks: Blocks) -> SimulatorOutput:
    """Simulate the blocks, which must all have the same columns."""
    made: list[SimulatorOutput] = []
    for block in blocks.run_each():
        if made:
            require_same_columns(made[0], block, blocks.first_row + len(made) * blocks.size)
        made.append(block)
    return join_outputs(made)


def join_outputs(made: list[SimulatorOutput]) -> SimulatorOutput:
    """The events of all, one after the other."""
    first = made[0]
    if len(made) == 1:
        return first
    z = [block.z for block in made if block.z is not None]
    x = np.concatenate([block.x for block in made])
    return first._replace(x=x, z=np.concatenate(z) if z else None)


def require_same_columns(first: SimulatorOutput, made: SimulatorOutput, row: int) -> None:
    """Refuse other columns than those of the first events."""
    both_named = made.names is not None and first.names is not None
    if made.x.shape[1] != first.x.shape[1] and not both_named:
        raise ValueError(
            "the simulator's number of observables changed between calls, from "
            f"{first.x.shape[1]} to {made.x.shape[1]} at row {row}; it must return the same "
            "columns for every θ."
        )
    for now, before, name in (
        (made.names, first.names, "x"),
        (made.z_names, first.z_names, "latent variables"),
    ):
        if now != before:
            other = sorted(set(now or ()) ^ set(before or ()))
            hint = f" Not in both: {', '.join(other)}. {ALL_CATEGORIES}" if other else ""
            raise ValueError(
                f"the columns of the simulator's {name} changed between calls, from {before} to "
                f"{now} at row {row}; it must return the same columns in the same order.{hint}"
            )
    shapes = [None if output.z is None else output.z.shape[1:] for output in (first, made)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "the shape of the simulator's latent variables of one event changed between calls, "
            f"from {shapes[0]} to {shapes[1]} at row {row}; it must be the same for every θ."
        )
