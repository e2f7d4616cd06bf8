"""Streams that may be closed, broken or without UTF-8, and Ctrl-C: none ends in a traceback.

Only the command line uses this; a library must leave its user's streams and signals alone.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

#: Exit status after Ctrl-C, as shells report it: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT
#: Shows the cursor of a terminal again, which a progress bar hides.
SHOW_CURSOR = "\x1b[?25h"


def prepare_streams() -> None:
    """Let nothing that is printed fail for its characters, nor for a descriptor that is closed."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # A file opened later would get this number, and output would be written into it. The
            # lowest free number is the one returned.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        # None where the descriptor was closed, or another kind of stream that was put in.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def say(text: str) -> str | None:
    """Print `text`; what prevented it, or None. A reader that left, like `head`, is no failure."""
    stream = sys.stdout
    if stream is None:
        return None
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        text = text.replace("—", "-")
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:  # ValueError: the stream was closed by the program
        silence(1)
        return None if isinstance(error, BrokenPipeError) else _describe(error)
    return None


def complain(text: str) -> None:
    """Print `text` to stderr, if there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


def make_visible(text: str) -> str:
    """Text without characters that a terminal would obey, such as those of a folder's name."""
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def silence(descriptor: int) -> None:
    """Send what is still in the buffer of a broken stream nowhere, or Python would complain."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def flush_streams() -> None:
    """Flush both; one that is broken is silenced."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            silence(descriptor)


def leave(status: int, text: str = "") -> NoReturn:
    """Say why and end the process now: threads that still train must not be waited for."""
    if sys.stderr is not None and sys.stderr.isatty():
        text = SHOW_CURSOR + text
    if text:
        complain(text)
    flush_streams()
    os._exit(status)


def end_on_interrupt() -> None:
    """On Ctrl-C say so and leave, wherever the program is; where it is ignored, it stays so."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        leave(INTERRUPTED, "\nInterrupted; files written before are as they were.")

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


@contextlib.contextmanager
def ending_on_signals(text: str) -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM say `text` and end the process now, wherever the program is."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        leave(128 + number, f"\n{text}")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])


@contextlib.contextmanager
def hold_interrupts() -> Iterator[list[int]]:
    """Within it Ctrl-C only fills the list, so that files which are being written are finished."""
    held: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    ignored = before is signal.SIG_IGN
    if not ignored:
        signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield held
    finally:
        if not ignored:
            signal.signal(signal.SIGINT, before)


def _describe(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
