"""Worker processes on this machine, which may die or hang without harm to the work."""

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...cores import count_cores
from ...inputs import as_count, as_number
from .dispatch import Dispatch, Limits
from .engine import AbstractEngine, Result, Task
from .failures import Drop, require_failures
from .pickling import pack_function
from .worker_process import WorkerProcess, end_workers


@dataclasses.dataclass(frozen=True)
class ProcessPool(AbstractEngine):
    """Runs a simulator in processes on this machine.

    The processes are started when they are first needed, stay for the next use, and end with the
    pool, with a `with` block around it, or with this process, however that ends. One that dies or
    hangs is replaced, and its task tried again. Results do not depend on the number of processes.

    Attributes:
        n: number of processes; default the number of cores that this process may use.
        time_limit: seconds that a task may take, 200 events or a part of a store; then its process
            is ended. Includes making the simulator, for an `ist.PerWorker`.
        retries: how often a task is tried again that raised, hung or whose process died.
        failures: `ist.Drop()` to leave out events with NaN or infinite x; by default these raise.

    Example:
        Four processes make the events of one fit and of the toys of a confidence set.

            with ist.ProcessPool(4) as pool:
                events = ist.simulate(simulator, prior, 100_000, engine=pool, seed=1)
                est = ist.fit(events, seed=2)
                ist.confidence_set(est, x, ist.Neyman(pool(simulator)), seed=3)
    """

    n: int | None = None
    _: dataclasses.KW_ONLY
    time_limit: float | None = None
    retries: int = 1
    failures: Drop | None = None
    _idle: list[WorkerProcess] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse what is no number; end the processes with the pool."""
        if self.n is not None:
            as_count(self.n, "n")
        if self.time_limit is not None:
            as_number(self.time_limit, "time_limit", above=0.0)
        as_count(self.retries, "retries", least=0)
        require_failures(self.failures)
        weakref.finalize(self, _end_idle, self._idle)

    def run(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and the result of each task as they are done, in any order."""
        limits = Limits(self.n or count_cores(), self.time_limit, self.retries)
        work = Dispatch(pack_function(function), tasks, self._take, limits)
        try:
            yield from work.run()
        finally:
            free = work.free()
            for worker in work.workers:
                if worker not in free:
                    worker.kill()
            self._idle.extend(free)

    def close(self) -> None:
        """End the processes; later use starts new ones."""
        _end_idle(self._idle)

    def __enter__(self) -> "ProcessPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., "ProcessPool"], tuple[Any, ...]]:
        """The settings alone: processes cannot be copied."""
        return _make_pool, (self.n, self.time_limit, self.retries, self.failures)

    def _take(self) -> WorkerProcess:
        """A process that nobody uses."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_usable:
                return worker
            worker.kill()
        return WorkerProcess()


def _make_pool(
    n: int | None, time_limit: float | None, retries: int, failures: Drop | None
) -> ProcessPool:
    return ProcessPool(n, time_limit=time_limit, retries=retries, failures=failures)


def _end_idle(idle: list[WorkerProcess]) -> None:
    workers = list(idle)
    idle.clear()
    end_workers(workers)
