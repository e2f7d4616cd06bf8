"""What runs tasks that do not depend on each other, and a simulator that is run by it.

A task is a few blocks of a simulation or a part of a store. Its random streams belong to its
blocks, so its result depends neither on who runs it nor on what else was run before.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ...inputs import Input
from ...world.simulator import LatentSimulator, Simulator, require_simulator
from .failures import Drop, require_failures

#: What a function is called with.
Task = TypeVar("Task")
#: What it returns.
Result = TypeVar("Result")


class TaskError(RuntimeError):
    """A task failed, also when it was tried again.

    Attributes:
        index: which of the tasks.
        task: the task itself.
        reason: why it failed.
    """

    index: int
    task: object
    reason: str

    def __init__(self, index: int, task: object, reason: str) -> None:
        """Say which task failed and why."""
        RuntimeError.__init__(self, index, task, reason)
        self.index, self.task, self.reason = index, task, reason

    def __str__(self) -> str:
        """The reason."""
        return self.reason


class AbstractEngine(abc.ABC):
    """Runs tasks that do not depend on each other, somewhere.

    Attributes:
        failures: what becomes of events with NaN or infinite x; None raises an error.
    """

    failures: Drop | None

    @abc.abstractmethod
    def run(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and the result of each task as they are done, in any order.

        `function` and the tasks can be pickled. The sequence makes a task when it is asked for it,
        and there may be very many: an engine holds only those that are under way.
        """

    def __call__(self, simulator: Simulator | LatentSimulator) -> "OnEngine":
        """The simulator, run by this engine wherever a simulator is accepted."""
        if isinstance(simulator, OnEngine):
            raise TypeError(
                f"this simulator is run by an engine already, {type(simulator.engine).__name__}; "
                "leave one of the two engines out."
            )
        require_simulator(simulator)
        return OnEngine(simulator, self)


@dataclasses.dataclass(frozen=True)
class InProcess(AbstractEngine):
    """Runs a simulator in this process, which is the default.

    Attributes:
        failures: `ist.Drop()` to leave out events with NaN or infinite x; by default these raise.
    """

    _: dataclasses.KW_ONLY
    failures: Drop | None = None

    def __post_init__(self) -> None:
        """Refuse what says nothing of failures."""
        require_failures(self.failures)

    def run(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """In their order; an exception of a task passes through."""
        for index in range(len(tasks)):
            yield index, function(tasks[index])


@dataclasses.dataclass(frozen=True)
class OnEngine:
    """A simulator that is run by an engine.

    Called like a simulator it runs here, without the engine; the functions of the library hand its
    blocks to the engine.
    """

    simulator: Simulator | LatentSimulator
    engine: AbstractEngine

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> Input:
        """Events x at the parameters θ, made here."""
        simulator: Any = self.simulator
        if not isinstance(simulator, Simulator):
            return simulator.simulate_latent(theta, rng)[0]
        return simulator(theta, rng)

    def checkpoint_identity(self) -> object:
        """What a checkpoint compares: the simulator, because no number depends on the engine."""
        return self.simulator
