"""The system's request to end, SIGTERM, as an exception: what is under way can be saved."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

#: Exit status after SIGTERM, as shells report it: 128 and the number of the signal.
TERMINATED = 128 + signal.SIGTERM


@contextlib.contextmanager
def exit_when_terminated() -> Iterator[None]:
    """While this lasts, SIGTERM raises `SystemExit`.

    Only where it would end the process at once: a handler of the user's own stays, and other
    threads than the main one cannot have any.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise SystemExit(TERMINATED)


def is_interruption(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C or SIGTERM."""
    terminated = isinstance(error, SystemExit) and error.code == TERMINATED
    return isinstance(error, KeyboardInterrupt) or terminated
