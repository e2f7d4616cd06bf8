"""Simulators that cannot be sent to other processes, or take long to set up."""

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from ...inputs import Input, as_function, call_function
from ...world.simulator import Simulator, require_simulator

#: Simulators that a process keeps; with more of them the oldest is made anew.
KEPT = 8
#: The simulators that this process has made, by the token of their `PerWorker`.
_MADE: dict[str, Simulator] = {}


@dataclasses.dataclass(frozen=True)
class PerWorker:
    """A simulator that every process makes for itself, once, by a function without arguments.

    Only the function is sent to worker processes. For a generator that takes seconds to set up,
    or one that cannot be pickled.

    Attributes:
        factory: returns the simulator, a function `(theta, rng) -> x`. What it returns must not
            depend on the process, nor change from call to call: all that is random comes from rng.

    Example:
        Pythia is set up once in each of four processes.

            def make_pythia():
                pythia = pythia8.Pythia()
                ...
                return generate     # a function (theta, rng) -> x that uses pythia

            ist.simulate(ist.PerWorker(make_pythia), prior, n, engine=ist.ProcessPool(4), seed=1)
    """

    factory: Callable[[], Simulator]
    _token: str = dataclasses.field(
        default_factory=lambda: uuid.uuid4().hex, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """A function is needed, not what it returns."""
        as_function(
            self.factory, "factory", "a function without arguments that returns a simulator"
        )

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> Input:
        """Events x at θ, by the simulator of this process."""
        return self._simulator()(theta, rng)

    def _simulator(self) -> Simulator:
        if self._token not in _MADE:
            made: Any = call_function(self.factory, "the factory of ist.PerWorker")
            require_simulator(made)
            while len(_MADE) >= KEPT:
                del _MADE[next(iter(_MADE))]
            _MADE[self._token] = made
        return _MADE[self._token]
