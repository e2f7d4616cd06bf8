"""Make events: θ from the prior, x from the simulator, the same for any way of running it."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Array

from ..inputs import as_count, as_seed, kind_of
from ..progress import progress
from ..world.priors.prior import AbstractPrior
from ..world.simulator import (
    LatentSimulator,
    Simulator,
    require_simulator,
    run_latent_simulator,
    run_simulator,
)
from .events import Events
from .latent import JointDensity, Latent

#: Events for one call of the simulator. Each call has a random stream of its own, numbered by the
#: index of the call, so the result depends on the seed alone and not on who runs which call.
CALL_SIZE = 10_000


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
            information.
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
    theta = prior.sample(as_count(n, "n"), seed=seed)
    return simulated_events(simulator, theta, prior, seed=seed, progress_bar=progress_bar)


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
    *,
    seed: int,
    progress_bar: bool | None = None,
) -> Events:
    """Events at given θ, with the latent variables that the simulator returns."""
    x, z = _run_in_calls(simulator, theta, seed, "", progress_bar=progress_bar, latent=True)
    latent = None
    if z is not None:
        assert isinstance(simulator, LatentSimulator)
        latent = Latent({"z": z}, JointDensity(SimulatorJointDensity(simulator)))
    names = getattr(simulator, "x_names", None)
    return Events(x=x, theta=theta, latent=latent, prior=prior, x_names=names)


def simulate_at(
    simulator: Simulator,
    theta: np.ndarray,
    *,
    seed: int,
    asked_because: str = "",
    progress_bar: bool | None = None,
) -> np.ndarray:
    """One event for each row of `theta`, in calls of fixed size with their own random streams."""
    return _run_in_calls(
        simulator, theta, seed, asked_because, progress_bar=progress_bar, latent=False
    )[0]


def _run_in_calls(
    simulator: Simulator | LatentSimulator,
    theta: np.ndarray,
    seed: int,
    reason: str,
    *,
    progress_bar: bool | None,
    latent: bool,
) -> tuple[np.ndarray, np.ndarray | None]:
    require_simulator(simulator)
    starts = range(0, len(theta), CALL_SIZE)
    parts, hidden = [], []
    with progress("simulating", len(theta), show=progress_bar) as advance:
        for number, start in enumerate(starts):
            rng = np.random.default_rng(np.random.SeedSequence([as_seed(seed), number]))
            rows = theta[start : start + CALL_SIZE]
            if latent and isinstance(simulator, LatentSimulator):
                x, z = run_latent_simulator(simulator, rows, rng, first_row=start)
                hidden.append(z)
            else:
                assert isinstance(simulator, Simulator)
                x = run_simulator(simulator, rows, rng, first_row=start, asked_because=reason)
            if x.shape[1] != (parts[0] if parts else x).shape[1]:
                raise ValueError(
                    "the simulator's number of observables changed between calls, from "
                    f"{parts[0].shape[1]} to {x.shape[1]} at row {start}; it must return the same "
                    "columns for every θ."
                )
            parts.append(x)
            advance(len(rows))
    return np.concatenate(parts), np.concatenate(hidden) if hidden else None
