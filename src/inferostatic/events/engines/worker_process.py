"""A worker process as seen from outside: started clean, spoken to, ended for certain."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .pickling import PackedFunction, sends_code
from .worker import Message, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Seconds that idle workers have to end by themselves, so that what they hold is closed in order.
ENDING_SECONDS = 2.0
#: Environment of the workers, unless it is set: each of them is one of many on a machine.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
#: Processes start one at a time, because they inherit what is changed for a moment.
_STARTING = threading.Lock()


class WorkerProcess:
    """A process that runs one task at a time.

    Attributes:
        running: the index of its task; None if it has none.
        since: when the task was given to it, by the monotonic clock.
        function: the function that it has or is loading.
    """

    link: "Connection[Any, Any]"
    since: float

    def __init__(self) -> None:
        """Start the process; it answers when its modules are loaded."""
        context = multiprocessing.get_context("spawn")
        self.link, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs,), daemon=True, name="inferostatic worker"
        )
        self._owner = os.getpid()
        with starting_cleanly():
            self._process.start()
        theirs.close()
        self.function: PackedFunction | None = None
        self.running: int | None = None
        self.since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether it is alive and belongs to this process, rather than to one that forked."""
        return self._owner == os.getpid() and self._process.is_alive()

    @property
    def sentinel(self) -> int:
        """Ready when the process has ended."""
        return self._process.sentinel

    def load(self, function: PackedFunction) -> None:
        """Have it load another function; it answers READY or UNLOADABLE."""
        self.function = function
        self._send(Message.FUNCTION, function)

    def give(self, index: int, task: bytes) -> None:
        """Have it run a task; it answers DONE or FAILED."""
        self.running, self.since = index, time.monotonic()
        self._send(Message.TASK, task)

    def _send(self, kind: Message, content: object) -> None:
        # One that has died is found when its answer is awaited.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.link.send((kind, content))

    def receive(self) -> tuple[Message, Any] | None:
        """The next message; None if there will be none because the process has ended."""
        try:
            return self.link.recv()
        except (EOFError, OSError):
            return None

    def kill(self) -> str:
        """End it at once, whatever it does; says how it ended, if it had ended before."""
        if self._owner != os.getpid():
            return "belongs to another process"
        self._process.join(0.1 if not self._process.is_alive() else 0)
        code = self._process.exitcode
        self._process.kill()
        self._process.join(ENDING_SECONDS)
        self.link.close()
        return describe_exit(self._process.exitcode if code is None else code)


def end_workers(workers: Iterable[WorkerProcess]) -> None:
    """End idle workers: they are asked first."""
    own = [worker for worker in workers if worker._owner == os.getpid()]
    for worker in own:
        worker.link.close()
    until = time.monotonic() + ENDING_SECONDS
    for worker in own:
        worker._process.join(max(0.0, until - time.monotonic()))
        worker.kill()


def describe_exit(code: int | None) -> str:
    """How a process ended."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    memory = ", which is what the system does when memory runs out" if name == "SIGKILL" else ""
    return f"was ended by signal {name}{memory}"


@contextlib.contextmanager
def starting_cleanly() -> Iterator[None]:
    """What processes inherit when they start: few threads, no Ctrl-C, and not the user's script.

    Python runs the script again in each of them, which only scripts with a guard, `if __name__ ==
    "__main__"`, survive. Whoever sends functions as code does not need that.
    """
    with _STARTING, contextlib.ExitStack() as stack:
        added = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
        os.environ.update(added)
        stack.callback(lambda: [os.environ.pop(name, None) for name in added])
        if sends_code():
            script = sys.modules["__main__"]
            sys.modules["__main__"] = types.ModuleType("__main__")
            stack.callback(sys.modules.__setitem__, "__main__", script)
        if os.name == "posix":
            former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, former)
        yield
