"""Make events: θ from the prior, x from the simulator, the same for any way of running it."""

import numpy as np

from ..inputs import as_count, as_seed, kind_of
from ..progress import progress
from ..world.prior import AbstractPrior
from ..world.simulator import Simulator, require_simulator, run_simulator
from .events import Events

#: Events for one call of the simulator. Each call has its own random stream, numbered by its
#: place, so the result depends on the seed alone and not on who runs which call.
CALL_SIZE = 10_000


def simulate(
    simulator: Simulator,
    prior: AbstractPrior,
    n: int,
    *,
    seed: int,
    progress_bar: bool | None = None,
) -> Events:
    """Simulate `n` events with θ drawn from `prior`.

    Args:
        simulator: a function `(theta (n, d), rng) -> x (n, D)` in NumPy, a toy, or a
            `JaxSimulator`.
        prior: the law of θ. Simulate a little wider than the region to be evaluated: at its
            edges a model extrapolates.
        n: number of events.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            f"prior must be a prior such as ist.Uniform(low, high); got {kind_of(prior)}. The "
            "order is ist.simulate(simulator, prior, n, seed=…)."
        )
    theta = prior.sample(as_count(n, "n"), seed=seed)
    x = simulate_at(simulator, theta, seed=seed, progress_bar=progress_bar)
    return Events(x=x, theta=theta, prior=prior, x_names=getattr(simulator, "x_names", None))


def simulate_at(
    simulator: Simulator,
    theta: np.ndarray,
    *,
    seed: int,
    asked_because: str = "",
    progress_bar: bool | None = None,
) -> np.ndarray:
    """One event for each row of `theta`, in calls of fixed size with their own random streams."""
    require_simulator(simulator)
    starts = range(0, len(theta), CALL_SIZE)
    parts = []
    with progress("simulating", len(theta), show=progress_bar) as advance:
        for number, start in enumerate(starts):
            rng = np.random.default_rng(np.random.SeedSequence([as_seed(seed), number]))
            rows = theta[start : start + CALL_SIZE]
            x = run_simulator(simulator, rows, rng, first_row=start, asked_because=asked_because)
            if x.shape[1] != (parts[0] if parts else x).shape[1]:
                raise ValueError(
                    "the simulator's number of observables changed between calls, from "
                    f"{parts[0].shape[1]} to {x.shape[1]} at row {start}; it must return the same "
                    "columns for every θ."
                )
            parts.append(x)
            advance(len(rows))
    return np.concatenate(parts)
