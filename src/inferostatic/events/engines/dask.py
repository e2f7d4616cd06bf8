"""Workers of a Dask cluster, on this machine or on many."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import pickle
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...cores import count_cores
from ...inputs import as_count, as_number, kind_of
from ...packages import import_package
from .engine import AbstractEngine, Result, Task, TaskError
from .failures import Drop, require_failures
from .pickling import PackedFunction, load_function, pack, pack_function

#: Tasks under way for each thread of the cluster: one runs and one is there when it ends.
TASKS_PER_THREAD = 2
#: Tasks under way at least, so that a cluster which grows with its work sees some.
FEWEST_TASKS = 8
#: Seconds after which the threads of the cluster are counted again.
COUNTING_SECONDS = 5.0
#: What is said when tasks are gone.
LOST = (
    "the Dask scheduler was lost, or somebody cancelled tasks that were under way. Start the "
    "cluster again and repeat the call."
)
#: Functions that a worker keeps, so that they are loaded and compiled once.
KEPT_FUNCTIONS = 4


@dataclasses.dataclass(frozen=True)
class Dask(AbstractEngine):
    """Runs a simulator on a Dask cluster.

    Few tasks are under way at a time, and only their results travel. A task whose worker is lost
    goes to another one. Needs Dask: `pip install 'inferostatic[dask]'`.

    Attributes:
        cluster: a `distributed.Client`, with its security settings or a cluster of dask-jobqueue
            behind it; or the address of a scheduler, such as `"tcp://10.0.0.1:8786"`. Default is a
            cluster on this machine, one process for each core, which ends with this object, with a
            `with` block around it, or with this process. A script that starts one keeps its work
            under `if __name__ == "__main__":`, because Dask reads the script in every process.
        time_limit: seconds that a task may take, 200 events or a part of a store. A task cannot be
            stopped from outside, so its worker process is ended then and started again by Dask.
        retries: how often a task is tried again that raised. Tasks of workers that were lost are
            tried again as the cluster is set up, by default three times.
        failures: `ist.Drop()` to leave out events with NaN or infinite x; by default these raise.

    Example:
        A cluster of 100 jobs by dask-jobqueue.

            cluster = dask_jobqueue.SLURMCluster(cores=1, memory="2 GB")
            cluster.scale(100)
            engine = ist.Dask(cluster.get_client())
            ist.simulate(simulator, prior, 10_000_000, store="events", engine=engine, seed=1)
    """

    cluster: Any = None
    _: dataclasses.KW_ONLY
    time_limit: float | None = None
    retries: int = 1
    failures: Drop | None = None
    _opened: list[Any] = dataclasses.field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse what is neither an address nor a client."""
        if self.cluster is not None and not isinstance(self.cluster, str):
            distributed = _import_distributed()
            if not isinstance(self.cluster, distributed.Client) or self.cluster.asynchronous:
                raise TypeError(
                    "cluster must be a distributed.Client that is not asynchronous, such as "
                    "cluster.get_client(), the address of a scheduler, or None for a cluster on "
                    f"this machine; got {kind_of(self.cluster)}."
                )
        if self.time_limit is not None:
            as_number(self.time_limit, "time_limit", above=0.0)
        as_count(self.retries, "retries", least=0)
        require_failures(self.failures)
        weakref.finalize(self, _close, self._opened)

    def run(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the index and the result of each task as they are done, in any order."""
        client, packed = self._client(), pack_function(function)
        submit = functools.partial(
            client.submit, run_packed, packed, pure=False, retries=self.retries
        )
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        under_way: dict[Any, int] = {}
        window, error, following = _Window(client), None, 0
        try:
            while True:
                while error is None and following < len(tasks) and window.allows(len(under_way)):
                    task = pack(tasks[following], "a task")
                    future = submit(task, self.time_limit)
                    under_way[future], following = following, following + 1
                    future.add_done_callback(done.put)
                if not under_way:
                    break
                future = _next(done, client)
                index = under_way.pop(future)
                try:
                    result = pickle.loads(future.result())
                except concurrent.futures.CancelledError as lost:
                    raise ConnectionError(LOST) from lost
                except Exception as failure:
                    reason = _describe(failure, self.time_limit)
                    error = error or TaskError(index, tasks[index], reason)
                    error.__cause__ = error.__cause__ or failure
                else:
                    future.release()
                    yield index, result
            if error is not None:
                raise error
        finally:
            if under_way:
                with contextlib.suppress(Exception):  # nobody may be there any more
                    client.cancel(list(under_way), force=True)

    def close(self) -> None:
        """End the cluster on this machine, or the connection to an address."""
        _close(self._opened)

    def __enter__(self) -> "Dask":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., "Dask"], tuple[Any, ...]]:
        """The settings; a client becomes the address of its scheduler."""
        cluster = self.cluster
        if cluster is not None and not isinstance(cluster, str):
            cluster = cluster.scheduler.address
        return _make, (cluster, self.time_limit, self.retries, self.failures)

    def _client(self) -> Any:  # noqa: ANN401
        """The client that was given, or one that was opened for this object."""
        if self.cluster is not None and not isinstance(self.cluster, str):
            return self.cluster
        opened = self._opened
        if opened and opened[0].status != "running":
            _close(opened)
        if not opened:
            distributed = _import_distributed()
            if self.cluster is None:
                # Any free port, since other clusters may run on this machine.
                cluster = distributed.LocalCluster(
                    n_workers=count_cores(), threads_per_worker=1, dashboard_address=":0"
                )
                opened += [distributed.Client(cluster, set_as_default=False), cluster]
            else:
                opened.append(_connect(distributed, self.cluster))
        return opened[0]


def _make(
    cluster: str | None, time_limit: float | None, retries: int, failures: Drop | None
) -> Dask:
    return Dask(cluster, time_limit=time_limit, retries=retries, failures=failures)


def _import_distributed() -> Any:  # noqa: ANN401
    return import_package("distributed", "clusters use Dask", "dask")


def _connect(distributed: Any, address: str) -> Any:  # noqa: ANN401
    try:
        return distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r}: {error}. Give the address that it prints "
            "when it starts, such as 'tcp://10.0.0.1:8786'."
        ) from error


def _close(opened: list[Any]) -> None:
    """Close a client, then its cluster."""
    things = list(opened)
    opened.clear()
    for thing in things:
        with contextlib.suppress(Exception):  # it may be gone already
            thing.close()


class _Window:
    """How many tasks may be under way: a few for each thread that the cluster has now."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        self._client, self._size, self._counted = client, 0, -COUNTING_SECONDS

    def allows(self, count: int) -> bool:
        now = time.monotonic()
        if now - self._counted >= COUNTING_SECONDS:
            try:
                threads = sum(self._client.nthreads().values())
            except OSError as error:
                raise ConnectionError(LOST) from error
            self._size, self._counted = max(FEWEST_TASKS, TASKS_PER_THREAD * threads), now
        return count < self._size


def _next(done: "queue.SimpleQueue[Any]", client: Any) -> Any:  # noqa: ANN401
    """The next task that ended; Python handles Ctrl-C only between short waits."""
    while True:
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=1.0)
        if client.status in ("closed", "closing"):
            raise ConnectionError("the Dask client was closed while tasks were under way.")


def _describe(error: Exception, time_limit: float | None) -> str:
    """Why a task failed."""
    said = str(error).strip() or type(error).__name__
    if not isinstance(error, _import_distributed().scheduler.KilledWorker):
        return said
    limit = "" if time_limit is None else f", took more than the time limit, {time_limit:g} s,"
    return (
        f"every worker that tried the task was lost: it ended its process{limit} or ran out of "
        f"memory. {said}"
    )


def run_packed(packed: PackedFunction, task: bytes, time_limit: float | None) -> bytes:
    """In a worker: run a task; the process ends if it takes too long."""
    function = _loaded(PackedFunction(*packed))  # loads its modules, perhaps
    with _limited(time_limit):
        return pack(function(pickle.loads(task)), "what the simulator returns")


@functools.lru_cache(KEPT_FUNCTIONS)
def _loaded(packed: PackedFunction) -> Callable[[Any], Any]:
    return load_function(packed)


@contextlib.contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """End this process if what is done here takes too long: a thread cannot be ended."""
    if seconds is None:
        yield
        return

    def end() -> None:
        print(f"a task took more than {seconds:g} seconds; its worker ends", file=sys.stderr)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
