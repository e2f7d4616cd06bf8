"""The inside of a worker process: receive a function, then tasks for it, until nobody is left.

Messages are pairs of a kind and a content. A worker ends when its connection is closed, and at
once when the process that started it dies, whatever it does then.
"""

import contextlib
import enum
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any, NamedTuple

from ...inputs import in_short

#: Lines of a traceback that are sent along with an exception.
SHOWN_LINES = 30


class Message(enum.IntEnum):
    """What a message is."""

    FUNCTION = 1
    TASK = 2
    READY = 3
    DONE = 4
    FAILED = 5
    UNLOADABLE = 6


class Failure(NamedTuple):
    """An exception in a worker: what it says, where it was raised, and itself if it can be sent."""

    text: str
    trace: str
    error: bytes | None


def serve(link: "connection.Connection[Any, Any]") -> None:
    """Answer messages until the other side closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()
    from .pickling import load_function  # which loads JAX

    function: Any = None
    while True:
        try:
            kind, content = link.recv()
        except (EOFError, OSError):
            return
        if kind is Message.FUNCTION:
            answer = _attempt(Message.READY, Message.UNLOADABLE, load_function, content)
            if answer[0] is Message.READY:
                function, answer = answer[1], (Message.READY, None)
        else:
            answer = _attempt(Message.DONE, Message.FAILED, _run, function, content)
        try:
            link.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _run(function: Callable[[Any], Any], task: bytes) -> bytes:
    import pickle

    from .pickling import pack

    return pack(function(pickle.loads(task)), "what the simulator returns")


def _attempt(
    good: Message, bad: Message, function: Callable[..., Any], *arguments: object
) -> tuple[Message, Any]:
    """The result of a call under `good`, or its exception under `bad`."""
    try:
        return good, function(*arguments)
    except Exception as error:
        return bad, describe_failure(error)
    except SystemExit as error:  # a script's exit(1) must not end the worker
        return bad, describe_failure(RuntimeError(f"it called exit({error.code})"))


def describe_failure(error: Exception) -> Failure:
    """An exception in a form that can be sent to another process."""
    import pickle

    from .pickling import pack

    packed: bytes | None = None
    with contextlib.suppress(Exception):
        packed = pack(error, "the exception")
        pickle.loads(packed)  # some can be packed but not opened
    origin: BaseException = error  # in the user's code, where there are several
    while origin.__cause__ is not None:
        origin = origin.__cause__
    lines = "".join(traceback.format_exception(origin, chain=False)).splitlines()[-SHOWN_LINES:]
    text = str(error).strip()
    return Failure(text or in_short(error), "\n".join(lines), packed)


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, also if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def wait() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    # A thread waits for its turn, which compiled code may not give for long. Where the system can
    # send a signal when the other end of the pipe is closed, that one ends the process.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
        fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
