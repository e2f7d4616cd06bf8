"""A simulation at given θ cut into tasks for an engine, and their results joined again."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inputs import rounded
from ..streams import Stream
from ..world.simulator import SimulatorOutput
from .blocks import Blocks, count_blocks, run_blocks

#: Tasks of a simulation, about: many, so that several workers end at the same time.
TASKS = 64
#: Blocks in a task, at most, so that its events fit well into memory and through a network.
MOST_BLOCKS = 50


@dataclasses.dataclass(frozen=True, eq=False)
class BlockTask:
    """Some blocks of a simulation, without the simulator: that is sent once, not with every task.

    Attributes:
        theta: of all events of these blocks.
        stream: of the whole simulation, for messages.
        first: number of the first of these blocks.
        first_row: number of the first event.
    """

    theta: np.ndarray
    stream: Stream
    first: int
    first_row: int

    def __str__(self) -> str:
        """What somebody needs who runs it alone."""
        low, high = rounded(self.theta.min(axis=0)), rounded(self.theta.max(axis=0))
        numbers = ", ".join(str(number) for number in (*self.stream.path, self.first))
        return (
            f"events {self.first_row} to {self.first_row + len(self.theta) - 1}, with θ between "
            f"{low} and {high} (random stream {self.stream.purpose.name} of seed "
            f"{self.stream.seed}, from block {numbers} on)"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class RunBlocks:
    """The function of such tasks: runs the simulator of `whole`, whose θ are left out."""

    whole: Blocks

    def __call__(self, task: BlockTask) -> SimulatorOutput:
        """Simulate the blocks of a task."""
        return run_blocks(dataclasses.replace(self.whole, theta=task.theta, first=task.first))


class BlockTasks(Sequence[BlockTask]):
    """Blocks in tasks of a few each, made when they are asked for."""

    step: int

    def __init__(self, whole: Blocks) -> None:
        """Cut into about `TASKS` tasks, more where these would be large."""
        self.whole = whole
        blocks = count_blocks(len(whole.theta), whole.size)
        self.step = min(max(blocks // TASKS, 1), MOST_BLOCKS)
        self._tasks = count_blocks(blocks, self.step)

    def __len__(self) -> int:
        """Number of tasks."""
        return self._tasks

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        """One task."""
        if not 0 <= index < self._tasks:
            raise IndexError(index)
        whole, rows = self.whole, self.rows(index)
        first = whole.first + index * self.step
        return BlockTask(whole.theta[rows], whole.stream, first, whole.first_row + rows.start)

    @property
    def function(self) -> RunBlocks:
        """What runs them."""
        return RunBlocks(dataclasses.replace(self.whole, theta=self.whole.theta[:0]))

    def rows(self, index: int) -> slice:
        """The rows of θ that belong to a task."""
        rows = self.step * self.whole.size
        return slice(index * rows, min((index + 1) * rows, len(self.whole.theta)))


class JoinedOutput:
    """Events of tasks that end in any order, each in its rows."""

    def __init__(self, count: int) -> None:
        """Nothing is known yet of the columns of the `count` events."""
        self.count = count
        self.x: np.ndarray = np.zeros((count, 0), np.float32)
        self.z: np.ndarray | None = None

    def add(self, rows: slice, made: SimulatorOutput) -> None:
        """Put the events of one task into their rows."""
        if len(made.x) == self.count:
            self.x, self.z = made.x, made.z
            return
        self.x = self._put(self.x, rows, made.x)
        if made.z is not None:
            self.z = self._put(self.z, rows, made.z)

    def _put(self, array: np.ndarray | None, rows: slice, values: np.ndarray) -> np.ndarray:
        shape = (self.count, *values.shape[1:])
        if array is None or array.shape != shape:
            array = np.empty(shape, values.dtype)
        elif array.dtype != values.dtype:
            array = array.astype(np.result_type(array, values))
        array[rows] = values
        return array
