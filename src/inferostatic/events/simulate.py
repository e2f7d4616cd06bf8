"""Make events: θ from the prior, x from the simulator, the same for any way of running it."""

import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from ..checkpoint import AbstractSavedWork, NotSaved, Step
from ..fingerprint import digest
from ..inputs import as_count, as_seed, kind_of, require_order
from ..progress import announce, progress
from ..streams import Purpose, Stream
from ..world.priors.prior import AbstractPrior, draw_points
from ..world.simulator import (
    LatentSimulator,
    Simulator,
    SimulatorOutput,
    require_simulator,
    run_latent_simulator,
    run_simulator,
)
from .events import Events
from .latent import JointDensity, Latent

#: Events for one call of the simulator. Each call has a random stream of its own, numbered by the
#: index of the call, so the result depends on the seed alone and not on who runs which call.
CALL_SIZE = 10_000
#: Events from which on the cost of a simulation is announced before most of it is spent.
ANNOUNCED_EVENTS = 50_000
#: Events that are simulated first there, in two calls, to find out the cost.
TIMED_EVENTS = 1000


def simulate(
    simulator: Simulator | LatentSimulator,
    prior: AbstractPrior,
    n: int,
    *,
    seed: int,
    progress_bar: bool | None = None,
) -> Events:
    """Simulate `n` events with θ drawn from `prior`.

    Args:
        simulator: a function `(theta (n, d), rng) -> x (n, D)` in NumPy, a toy, or a
            `JaxSimulator`. One that has the methods `simulate_latent(theta, rng) -> (x, z)` and
            `joint_log_prob(x, z, theta)`, in JAX and for one event, gives events with latent
            information. Names of the columns of a data frame are kept, and compared whenever a
            simulator is called again.
        prior: the distribution of θ. Simulate a little wider than the region to be evaluated:
            at its edges a model extrapolates.
        n: number of events.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            f"prior must be a prior such as ist.Uniform(low, high); got {kind_of(prior)}. The "
            "order is ist.simulate(simulator, prior, n, seed=…)."
        )
    require_simulator(simulator)
    theta = draw_points(prior, as_count(n, "n"), Stream(as_seed(seed), Purpose.SIMULATE_THETA))
    stream = Stream(as_seed(seed), Purpose.SIMULATE)
    return simulated_events(simulator, theta, prior, stream, progress_bar=progress_bar)


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
    made = _run_in_calls(simulator, theta, stream, latent=True, progress_bar=progress_bar)
    latent = None
    if made.z is not None:
        assert isinstance(simulator, LatentSimulator)
        latent = Latent({"z": made.z}, JointDensity(SimulatorJointDensity(simulator)))
    return Events(x=made.x, theta=theta, latent=latent, prior=prior, x_names=made.names)


def simulate_at(
    simulator: Simulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    x_names: Sequence[str],
    progress_bar: bool | None = None,
    calls: "SavedCalls | None" = None,
) -> np.ndarray:
    """One event for each row of `theta`, with the columns of an estimator, `x_names`."""
    return _run_in_calls(
        simulator, theta, stream, x_names=x_names, progress_bar=progress_bar, calls=calls
    ).x


@dataclasses.dataclass(frozen=True)
class SavedCalls:
    """Where the calls of a simulation are kept: x alone, for simulations without latent variables.

    Attributes:
        saved: the checkpoint.
        name: of this simulation among others.
    """

    saved: AbstractSavedWork
    name: str

    def recall(self, number: int, theta: np.ndarray) -> SimulatorOutput | None:
        """What an earlier process simulated in this call."""
        found = self.saved.recall(self._key(number, theta))
        if found is None:
            return None
        names = found.values["names"]
        return SimulatorOutput(found.arrays["x"], names=None if names is None else tuple(names))

    def keep(self, number: int, theta: np.ndarray, made: SimulatorOutput) -> None:
        """Keep what was simulated."""
        values, arrays = {"names": made.names}, {"x": made.x}
        self.saved.keep(self._key(number, theta), lambda: Step(values, arrays))

    def _key(self, number: int, theta: np.ndarray) -> str:
        return f"{self.name}-{number:05d}-{digest(theta)}"


def simulate_first(
    simulator: Simulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    asked_because: str = "",
    progress_bar: bool | None = None,
) -> SimulatorOutput:
    """One event for each row of `theta`, and the names of the columns where there are any."""
    return _run_in_calls(
        simulator, theta, stream, asked_because=asked_because, progress_bar=progress_bar
    )


def _run_in_calls(
    simulator: Simulator | LatentSimulator,
    theta: np.ndarray,
    stream: Stream,
    *,
    latent: bool = False,
    x_names: Sequence[str] | None = None,
    asked_because: str = "",
    progress_bar: bool | None,
    calls: "SavedCalls | None" = None,
) -> SimulatorOutput:
    """In calls of fixed size with their own random streams."""
    calls = SavedCalls(NotSaved(), "call") if calls is None else calls
    require_simulator(simulator)
    own = getattr(simulator, "x_names", None)
    expected = x_names if own is None else tuple(own)
    if x_names is not None and own is not None:
        require_order(tuple(own), x_names, "the simulator's x")
    parts: list[SimulatorOutput] = []
    edges = _divide_calls(len(theta))
    with progress("simulating", len(theta), show=progress_bar) as advance:
        for number, (start, end) in enumerate(itertools.pairwise(edges)):
            began = time.perf_counter()
            rng, rows = stream.generator(number), theta[start:end]
            if (kept := calls.recall(number, rows)) is not None:
                part = kept
            elif latent and isinstance(simulator, LatentSimulator):
                part = run_latent_simulator(simulator, rows, rng, first_row=start)
            else:
                assert isinstance(simulator, Simulator)
                part = run_simulator(
                    simulator, rows, rng, first_row=start, asked_because=asked_because
                )
            if parts:
                _require_same_columns(parts[0], part, start)
            elif expected is not None:
                _require_columns(part, expected)
            parts.append(part)
            if kept is None:
                calls.keep(number, rows, part)
            advance(len(rows))
            if len(theta) >= ANNOUNCED_EVENTS and end == TIMED_EVENTS:
                # The first half of them may have compiled or loaded something.
                each = (time.perf_counter() - began) / len(rows)
                announce(f"simulating {len(theta):,} events", len(theta) * each, show=progress_bar)
    x, z, names, _ = parts[0]
    return SimulatorOutput(
        np.concatenate([part.x for part in parts]) if len(parts) > 1 else x,
        None if z is None else np.concatenate([part.z for part in parts if part.z is not None]),
        tuple(own) if names is None and own is not None else names,
    )


def _divide_calls(count: int) -> list[int]:
    """First rows of the calls, and the end of the last."""
    first = [0, TIMED_EVENTS // 2, TIMED_EVENTS] if count >= ANNOUNCED_EVENTS else [0]
    return [*first, *range(first[-1] + CALL_SIZE, count, CALL_SIZE), count]


def _require_columns(made: SimulatorOutput, names: Sequence[str]) -> None:
    """Refuse events whose columns are not those that were learned."""
    if made.x.shape[1] != len(names):
        raise ValueError(
            f"the simulator returns {made.x.shape[1]} observables, but {len(names)} are expected "
            f"here ({', '.join(names)})."
        )
    require_order(made.names, names, "the simulator's x")


def _require_same_columns(first: SimulatorOutput, made: SimulatorOutput, row: int) -> None:
    """Refuse other columns than those of the first call."""
    if made.x.shape[1] != first.x.shape[1]:
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
            raise ValueError(
                f"the columns of the simulator's {name} changed between calls, from {before} to "
                f"{now} at row {row}; it must return the same columns in the same order."
            )
