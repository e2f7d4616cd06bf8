"""Make events: θ from the prior, x from the simulator, the same for any way of running it."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from ..inputs import as_count, as_seed, kind_of, require_order
from ..progress import progress
from ..streams import Purpose, Stream
from ..world.priors.prior import AbstractPrior
from ..world.simulator import LatentSimulator, Simulator, SimulatorOutput, require_simulator
from .blocks import Blocks, count_blocks, draw_block_theta, require_same_columns
from .engines.engine import AbstractEngine, InProcess, OnEngine
from .engines.failures import find_successes
from .events import Events
from .latent import JointDensity, Latent
from .origin import Origin, name_simulator
from .saved_tasks import SavedTasks
from .store.production import fill_store, open_share
from .store.store import Store
from .tasks import BlockTasks, JoinedOutput
from .watch import Watch


def simulate(
    simulator: Simulator | LatentSimulator,
    prior: AbstractPrior,
    n: int,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    engine: AbstractEngine | None = None,
    parts: tuple[int, int] | None = None,
    seed: int,
    progress_bar: bool | None = None,
) -> Events:
    """Simulate `n` events with θ drawn from `prior`.

    Events are made in blocks of 200, each with a random stream of its own. So the first events are
    the same for every `n`, with and without a store, and for every engine; the last block is
    simulated whole.

    Args:
        simulator: a function `(theta (n, d), rng) -> x (n, D)` in NumPy, a toy, or a
            `JaxSimulator`. One that has the methods `simulate_latent(theta, rng) -> (x, z)` and
            `joint_log_prob(x, z, theta)`, in JAX and for one event, gives events with latent
            information. Names of the columns of a data frame are kept, and compared whenever a
            simulator is called again. It must be a function of θ and `rng` alone.
        prior: the distribution of θ. Simulate a little wider than the region to be evaluated:
            at its edges a model extrapolates.
        n: number of events.
        store: a folder, or an `ist.Store`, in which the events are kept. What is missing there is
            made and nothing else, so the same call goes on after an interruption, and a larger `n`
            appends. The events that are returned are read when they are used.
        engine: runs the simulator, such as `ist.ProcessPool(4)`; default in this process.
        parts: `(i, N)` makes the i-th of N shares of the store, i from 0, so that any N jobs make
            all of it; the events of the share are returned.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            f"prior must be a prior such as ist.Uniform(low, high); got {kind_of(prior)}. The "
            "order is ist.simulate(simulator, prior, n, seed=…)."
        )
    require_simulator(simulator)
    n, seed = as_count(n, "n"), as_seed(seed)
    simulator = _bind(simulator, engine)
    share = _as_share(parts, store)
    if store is not None:
        found = store if isinstance(store, Store) else Store(store)
        fill_store(found, simulator, prior, n, share=share, seed=seed, show=progress_bar)
        latent = isinstance(simulator.simulator, LatentSimulator)
        joint = joint_density(simulator) if latent else None
        return open_share(found, prior, n, share, joint)
    theta = draw_block_theta(prior, seed, range(count_blocks(n)))
    stream = Stream(seed, Purpose.SIMULATE)
    dropping = simulator.engine.failures is not None
    made = _run(
        simulator, theta, stream, latent=True, any_value=dropping, progress_bar=progress_bar
    )
    rows = find_successes(made.x[:n], theta) if dropping else slice(n)
    z = None if made.z is None else made.z[rows]
    events = _events_of(simulator, made._replace(x=made.x[rows], z=z), theta[rows], prior)
    return events.with_origin(Origin(name_simulator(simulator), seed=seed))


def _as_share(parts: object, store: object) -> tuple[int, int] | None:
    """Which share of how many; None for all."""
    if parts is None:
        return None
    if store is None:
        raise ValueError("parts=(i, N) makes a share of a store; give store=, the folder.")
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise TypeError(f"parts must be (i, N), the i-th of N shares, i from 0; got {parts!r}.")
    shares = as_count(parts[1], "N in parts=(i, N)")
    return as_count(parts[0], "i in parts=(i, N)", least=0, most=shares - 1), shares


def _bind(simulator: Simulator | LatentSimulator, engine: object) -> OnEngine:
    """The simulator with the engine that runs it, by default this process."""
    if engine is not None and not isinstance(engine, AbstractEngine):
        raise TypeError(
            f"engine must be an engine such as ist.ProcessPool(4); got {kind_of(engine)}."
        )
    if isinstance(simulator, OnEngine) and engine is None:
        return simulator
    return (engine or InProcess())(simulator)


@dataclasses.dataclass(frozen=True)
class SimulatorJointDensity:
    """The joint density of a simulator: equal for equal simulators, which bound methods are not."""

    simulator: LatentSimulator

    def __call__(self, x: Array, z: Array, theta: Array) -> Any:  # noqa: ANN401
        """ln p(x, z; θ)."""
        return self.simulator.joint_log_prob(x, z, theta)


def simulated_events(
    simulator: Simulator | LatentSimulator,
    theta: np.ndarray,
    prior: AbstractPrior,
    stream: Stream,
    *,
    progress_bar: bool | None = None,
) -> Events:
    """Events at given θ, with the latent variables that the simulator returns."""
    made = _run(simulator, theta, stream, latent=True, progress_bar=progress_bar)
    return _events_of(simulator, made, theta, prior)


def _events_of(
    simulator: Simulator | LatentSimulator,
    made: SimulatorOutput,
    theta: np.ndarray,
    prior: AbstractPrior,
) -> Events:
    latent = None
    if made.z is not None:
        latent = Latent({"z": made.z}, joint_density(simulator))
    return Events(x=made.x, theta=theta, latent=latent, prior=prior, x_names=made.names)


def joint_density(simulator: Simulator | LatentSimulator) -> JointDensity:
    """ln p(x, z; θ) of a simulator that knows it."""
    inner = simulator.simulator if isinstance(simulator, OnEngine) else simulator
    assert isinstance(inner, LatentSimulator)
    return JointDensity(SimulatorJointDensity(inner))


def simulate_at(
    simulator: Simulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    x_names: Sequence[str],
    progress_bar: bool | None = None,
    saved: SavedTasks | None = None,
) -> np.ndarray:
    """One event for each row of `theta`, with the columns of an estimator, `x_names`."""
    return _run(simulator, theta, stream, x_names=x_names, progress_bar=progress_bar, saved=saved).x


def simulate_first(
    simulator: Simulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    asked_because: str = "",
    progress_bar: bool | None = None,
) -> SimulatorOutput:
    """One event for each row of `theta`, and the names of the columns where there are any."""
    return _run(simulator, theta, stream, asked_because=asked_because, progress_bar=progress_bar)


def _run(
    simulator: Simulator | LatentSimulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    latent: bool = False,
    x_names: Sequence[str] | None = None,
    asked_because: str = "",
    any_value: bool = False,
    progress_bar: bool | None,
    saved: SavedTasks | None = None,
) -> SimulatorOutput:
    """One event for each row of `theta`, in blocks with their own random streams."""
    require_simulator(simulator)
    bound = _bind(simulator, None)
    own = getattr(bound.simulator, "x_names", None)
    expected = x_names if own is None else tuple(own)
    if x_names is not None and own is not None:
        require_order(tuple(own), x_names, "the simulator's x")
    tasks = BlockTasks(
        Blocks(
            bound.simulator,
            theta,
            stream,
            latent=latent,
            asked_because=asked_because,
            any_value=any_value,
        )
    )
    watch = Watch(len(theta), in_process=isinstance(bound.engine, InProcess), show=progress_bar)
    joined, first = JoinedOutput(len(theta)), None
    engine = bound.engine
    results = engine.run(tasks.function, tasks) if saved is None else saved.run(engine, tasks)
    with progress("simulating", len(theta), show=progress_bar) as advance:
        for index, made in results:
            if first is not None:
                require_same_columns(first, made, tasks.rows(index).start)
            elif expected is not None:
                _require_columns(made, expected)
            first = first or made
            joined.add(tasks.rows(index), made)
            advance(len(made.x), watch.add(len(made.x)))
    assert first is not None
    names = tuple(own) if first.names is None and own is not None else first.names
    return SimulatorOutput(joined.x, joined.z, names)


def _require_columns(made: SimulatorOutput, names: Sequence[str]) -> None:
    """Refuse events whose columns are not those that were learned."""
    if made.x.shape[1] != len(names):
        raise ValueError(
            f"the simulator returns {made.x.shape[1]} observables, but {len(names)} are expected "
            f"here ({', '.join(names)})."
        )
    require_order(made.names, names, "the simulator's x")
