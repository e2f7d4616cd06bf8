"""How commands end: what they print last, and the exit status."""

import contextlib
import json
import signal
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

import typer

from ...interruption import TERMINATED
from ..streams import complain, leave, make_visible, say

#: The work failed, or is not complete where completeness was asked for.
FAILED = 1
#: Wrong arguments, or a study.toml that cannot be used.
WRONG = 2
#: With --strict: the diagnosis says that the estimator is not to be trusted.
NOT_TRUSTED = 3


def show(text: str) -> None:
    """Print the result; status 1 if that is impossible."""
    trouble = say(make_visible(text))
    if trouble is not None:
        complain(f"The result could not be shown ({trouble}).")
        raise typer.Exit(FAILED)


def show_json(content: object) -> None:
    """Print the result for scripts."""
    show(json.dumps(content, indent=1, default=str))


def fail(error: BaseException, trace: str = "", status: int = FAILED) -> NoReturn:
    """Say where and why, and end."""
    if trace:
        complain(trace.rstrip())
    complain(make_visible(f"inferostatic: {describe_error(error)}"))
    raise typer.Exit(status) from error


def describe_error(error: BaseException) -> str:
    """A sentence; kinds that nobody expects are named."""
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({text})."
    expected = (OSError, RuntimeError, TypeError, ValueError, ImportError, ArithmeticError)
    if isinstance(error, expected) or type(error).__name__ == "SimulatorFileError":
        return text
    return f"unexpected {type(error).__name__}: {text}"


def format_trace(error: BaseException) -> str:
    """The traceback, for a log."""
    return "".join(traceback.format_exception(error))


@contextlib.contextmanager
def stopping(advice: str) -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM let what is under way save itself, and then end the process.

    A second signal ends it at once.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if received:
            leave(128 + number, "\nStopped at once.")
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield  # others cannot have handlers
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, stop)
    try:
        yield
    except BaseException as error:
        # Whatever it became on its way here; training threads are not waited for.
        if received or isinstance(error, KeyboardInterrupt):
            number = received[0] if received else signal.SIGINT
            leave(128 + number, f"\n{advice}")
        raise
    finally:
        for number in heeded:
            signal.signal(number, before[number])
