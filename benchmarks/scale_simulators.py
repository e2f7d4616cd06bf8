"""Simulators of a known cost, which worker processes can import."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: Steps of the loop with which a step is timed.
TIMED_STEPS = 200_000


def spin(steps: int) -> float:
    """Arithmetic that takes the processor for a time in proportion to the steps."""
    value = 0.5
    for _ in range(steps):
        value = 3.9 * value * (1.0 - value)
    return value


def steps_within(seconds: float) -> int:
    """Steps that take so long here, by the fastest of several tries."""
    tries = []
    for _ in range(7):
        began = time.perf_counter()
        spin(TIMED_STEPS)
        tries.append(time.perf_counter() - began)
    return max(1, round(seconds / min(tries) * TIMED_STEPS))


@dataclasses.dataclass(frozen=True)
class Busy:
    """Keeps the processor busy for the same number of steps at each event."""

    steps: int

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """θ plus noise."""
        for _ in range(len(theta)):
            spin(self.steps)
        return theta + rng.standard_normal(theta.shape)


@dataclasses.dataclass(frozen=True)
class Sleeping:
    """Waits at each event, as for a program on another machine."""

    seconds: float

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """θ plus noise."""
        for _ in range(len(theta)):
            time.sleep(self.seconds)
        return theta + rng.standard_normal(theta.shape)


def make_pythia() -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Hadronic Z decays by a Pythia that is set up once in a process."""
    import zhadrons

    generator: Any = zhadrons.Generator()

    def generate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        generator.seed(int(rng.integers(1, 900_000_000)))
        return generator(theta)

    return generate


def return_number(number: int) -> int:
    """A task that costs nothing."""
    return number
