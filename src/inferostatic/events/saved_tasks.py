"""Tasks of a simulation that a checkpoint keeps: those that are there are not run again."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..checkpoint import AbstractSavedWork, Step
from ..fingerprint import digest
from ..world.simulator import SimulatorOutput
from .engines.engine import AbstractEngine
from .tasks import BlockTasks


@dataclasses.dataclass(frozen=True)
class SavedTasks:
    """Where the tasks of a simulation are kept: x alone, for those without latent variables.

    Attributes:
        work: the checkpoint.
        name: of this simulation among others.
    """

    work: AbstractSavedWork
    name: str

    def run(
        self, engine: AbstractEngine, tasks: BlockTasks
    ) -> Iterator[tuple[int, SimulatorOutput]]:
        """The index and the result of each task: first those that are kept, then all others."""
        missing = []
        for index in range(len(tasks)):
            found = self._recall(index, tasks[index].theta)
            if found is None:
                missing.append(index)
            else:
                yield index, found
        for position, made in engine.run(tasks.function, _Chosen(tasks, missing)):
            index = missing[position]
            self._keep(index, tasks[index].theta, made)
            yield index, made

    def _recall(self, index: int, theta: np.ndarray) -> SimulatorOutput | None:
        found = self.work.recall(self._key(index, theta))
        if found is None:
            return None
        names = found.values["names"]
        return SimulatorOutput(found.arrays["x"], names=None if names is None else tuple(names))

    def _keep(self, index: int, theta: np.ndarray, made: SimulatorOutput) -> None:
        values, arrays = {"names": made.names}, {"x": made.x}
        self.work.keep(self._key(index, theta), lambda: Step(values, arrays))

    def _key(self, index: int, theta: np.ndarray) -> str:
        return f"{self.name}-{index:05d}-{digest(theta)}"


class _Chosen(Sequence[Any]):
    """Some of the tasks, made when they are asked for."""

    def __init__(self, tasks: BlockTasks, indices: list[int]) -> None:
        self.tasks, self.indices = tasks, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        return self.tasks[self.indices[index]]
