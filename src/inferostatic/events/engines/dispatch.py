"""Tasks on their way to worker processes: one at a time for each, again if a worker fails."""

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from .engine import TaskError
from .pickling import PackedFunction, pack
from .worker import Failure, Message
from .worker_process import WorkerProcess

#: Characters of a task's description that an error shows.
SHOWN_CHARACTERS = 500


class Limits(NamedTuple):
    """How many workers, how many seconds for a task, and how often a task is tried again."""

    workers: int
    seconds: float | None
    retries: int


class Dispatch:
    """The tasks of one call and the workers that run them.

    A worker gets its next task when it has answered, so nothing waits in a pipe, and it gets it
    before the answer is handed on, so it does not wait for whoever uses that.

    Attributes:
        workers: those that are under way.
    """

    def __init__(
        self,
        function: PackedFunction,
        tasks: Sequence[Any],
        take: Callable[[], WorkerProcess],
        limits: Limits,
    ) -> None:
        """Prepare; `take` gives a worker, new or used before."""
        self.workers: list[WorkerProcess] = []
        self._function, self._tasks, self._take, self._limits = function, tasks, take, limits
        self._next, self._again = 0, deque[int]()
        self._loading: set[WorkerProcess] = set()
        self._tries: dict[int, int] = {}
        self._lost = 0
        self._error: TaskError | None = None

    def run(self) -> Iterator[tuple[int, Any]]:
        """Yield the index and the result of each task; raises TaskError when others have ended."""
        done: list[tuple[int, Any]] = []
        while True:
            self._hand_out()
            yield from done
            if not self._busy():
                break
            done = self._collect()
        if self._error is not None:
            raise self._error

    def free(self) -> list[WorkerProcess]:
        """Workers that do nothing."""
        return [w for w in self.workers if w.running is None and w not in self._loading]

    def _busy(self) -> list[WorkerProcess]:
        return [w for w in self.workers if w.running is not None or w in self._loading]

    @property
    def _left(self) -> int:
        """Tasks that nobody has."""
        if self._error is not None:
            return 0
        return len(self._tasks) - self._next + len(self._again)

    def _hand_out(self) -> None:
        while (
            len(self.workers) < self._limits.workers
            and len(self._loading) + len(self.free()) < self._left
        ):
            worker = self._take()
            self.workers.append(worker)
            if worker.function != self._function:
                self._loading.add(worker)
                worker.load(self._function)
        for worker in self.free():
            if not self._left:
                return
            if self._again:
                index = self._again.popleft()
            else:
                index, self._next = self._next, self._next + 1
            worker.give(index, pack(self._tasks[index], "a task"))

    def _collect(self) -> list[tuple[int, Any]]:
        """Wait until something has happened; the results that came."""
        busy, done = self._busy(), []
        wait([handle for w in busy for handle in (w.link, w.sentinel)], self._patience(busy))
        for worker in busy:
            if worker.link.poll():
                answer = worker.receive()
            elif worker.is_usable:
                if self._is_late(worker):
                    self._replace(worker, f"took more than {self._limits.seconds:g} seconds")
                continue
            else:
                answer = None
            if answer is None:
                self._replace(worker)
            elif result := self._read(worker, *answer):
                done.append(result)
        return done

    def _read(self, worker: WorkerProcess, kind: Message, content: Any) -> tuple[int, Any] | None:  # noqa: ANN401
        """What an answer brings."""
        if kind is Message.READY:
            self._loading.discard(worker)
            return None
        if kind is Message.UNLOADABLE:
            raise TypeError(
                f"the simulator cannot be loaded in a worker process: {content.text}. Use a "
                "function that is defined in a module which every process finds, or "
                "ist.PerWorker(factory), which makes the simulator there."
            ) from _reopen(content)
        index, worker.running = worker.running, None
        assert index is not None
        if kind is Message.DONE:
            return index, pickle.loads(content)
        self._fail(index, content.text, _reopen(content))
        return None

    def _replace(self, worker: WorkerProcess, late: str = "") -> None:
        """Give up a worker that died or hangs; its task is tried again by another one."""
        how = worker.kill()
        self.workers.remove(worker)
        if worker.running is not None:
            what = f"{late}, the time limit, and was ended" if late else how
            task = str(self._tasks[worker.running])[:SHOWN_CHARACTERS]
            self._fail(worker.running, f"the worker process {what}, in the task: {task}", None)
            return
        self._loading.discard(worker)
        self._lost += 1
        if self._lost > self._limits.retries:
            raise RuntimeError(
                f"a worker process {how}, while it loaded the simulator and its modules. Its own "
                "messages may stand above."
            )

    def _fail(self, index: int, reason: str, error: Exception | None) -> None:
        tries = self._tries[index] = self._tries.get(index, 0) + 1
        if tries <= self._limits.retries:
            self._again.append(index)
        elif self._error is None:
            times = "" if tries == 1 else f" This happened in all of {tries} attempts."
            self._error = TaskError(index, self._tasks[index], f"{reason.rstrip('.')}.{times}")
            self._error.__cause__ = error

    def _is_late(self, worker: WorkerProcess) -> bool:
        limit = self._limits.seconds
        return (
            limit is not None
            and worker.running is not None
            and time.monotonic() - worker.since > limit
        )

    def _patience(self, busy: list[WorkerProcess]) -> float | None:
        """Seconds until the first task is late."""
        since = [worker.since for worker in busy if worker.running is not None]
        if self._limits.seconds is None or not since:
            return None
        return max(0.0, min(since) + self._limits.seconds - time.monotonic()) + 0.001


def _reopen(failure: Failure) -> Exception | None:
    """The exception of a worker, with the place where it was raised."""
    if failure.error is None:
        return None
    error = pickle.loads(failure.error)
    error.add_note(f"In the worker process:\n{failure.trace}")
    return error
