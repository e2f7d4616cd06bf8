"""Progress of long work: a bar where a person watches, plain lines in a log, silence on request.

On a terminal `rich` draws the bar if it is installed; a machine without it still gets plain lines.
In a notebook the bar is HTML that is shown once and then replaced, which needs no widgets.
"""

import contextlib
import html
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from .inputs import as_flag

#: A log gets at most one line in this many seconds, so that short jobs stay silent.
SECONDS_BETWEEN_LINES = 15.0
#: A notebook gets a new picture of its bar after this many seconds: each is a message to a browser.
SECONDS_BETWEEN_BARS = 0.25
#: Work of fewer seconds leaves nothing in a notebook; longer work leaves a line with its time.
SECONDS_KEPT = 2.0


@runtime_checkable
class Advance(Protocol):
    """Reports `steps` more units of work done, with a short note such as the loss."""

    def __call__(self, steps: int, note: str = "") -> None:
        """Advance by `steps`."""
        ...


@contextlib.contextmanager
def progress(title: str, total: int, *, show: bool | None = None) -> Iterator[Advance]:
    """Yields a function that advances the display.

    Args:
        title: what is being done.
        total: units of work in all.
        show: True or False to force it; None shows a bar on a terminal or in a notebook and rare
            lines elsewhere, unless the environment variable `INFEROSTATIC_PROGRESS=0` asks for
            silence.
    """
    show = None if show is None else as_flag(show, "progress_bar")
    if show is None and os.environ.get("INFEROSTATIC_PROGRESS") == "0":
        show = False
    if show is False:
        yield lambda steps, note="": None
        return
    # An ImportError of the work itself must pass through, so rich is looked for beforehand.
    # Python has no stderr where it was closed before the start.
    if sys.stderr is None:
        yield lambda steps, note="": None
    elif _in_notebook():
        yield from _notebook_bar(title, total)
    elif _is_watched() and importlib.util.find_spec("rich") is not None:
        yield from _bar(title, total)
    else:
        yield from _lines(title, total, closing=bool(show))


def announce(work: str, seconds: float, *, show: bool | None = None) -> None:
    """One line on the time that work will take, where it is long or the display was asked for."""
    silent = show is None and os.environ.get("INFEROSTATIC_PROGRESS") == "0"
    if show is False or silent or (show is None and seconds < SECONDS_BETWEEN_LINES):
        return
    units = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next((unit for unit in units if seconds >= 2 * unit[1]), units[-1])
    _print(f"{work} will take about {seconds / size:.0f} {unit}, as the first of them show", "")


def _is_watched() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # closed, or some object that was put in
        return False


def _in_notebook() -> bool:
    """Whether this process serves a notebook, which shows HTML; asking imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


class _NotebookBar:
    """What a notebook shows of the progress: HTML, and text where it cannot show HTML."""

    def __init__(self, text: str, done: int, total: int) -> None:
        self.text, self.done, self.total = text, done, total

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{max(self.total, 1)}"></progress> '
        return f"<div>{bar if self.done < self.total else ''}{html.escape(self.text)}</div>"


def _notebook_bar(title: str, total: int) -> Iterator[Advance]:
    display: Any = importlib.import_module("IPython.display").display
    start = time.monotonic()
    last, done, latest = -SECONDS_BETWEEN_BARS, 0, ""
    handle: Any = None

    def show(text: str, shown: int) -> None:
        nonlocal handle
        bar = _NotebookBar(text, shown, total)
        # Work does not end because a browser cannot be told how far it is.
        with contextlib.suppress(Exception):
            if handle is None:
                handle = display(bar, display_id=True)
            else:
                handle.update(bar)

    def advance(steps: int, note: str = "") -> None:
        nonlocal done, last, latest
        done, latest = done + steps, note
        passed = time.monotonic() - start
        if passed - last < SECONDS_BETWEEN_BARS or done >= total:
            return
        left = f", about {passed / done * (total - done):.0f} s left" if done else ""
        show(_join(f"{title}: {done}/{total}{left}", note), done)
        last = passed

    show(f"{title}: 0/{total}", 0)
    try:
        yield advance
    finally:
        passed = time.monotonic() - start
        kept = passed >= SECONDS_KEPT or done < total
        line = _join(f"{title}: {done}/{total} in {passed:.0f} s", latest)
        show(line if kept else "", total)


def _bar(title: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class Note(ProgressColumn):
        """One line, cut where there is no room."""

        def render(self, task: Task) -> Text:
            return Text(task.fields["note"], no_wrap=True, overflow="ellipsis")

    # On a narrow terminal the bar and the note become shorter, not the numbers.
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        Note(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=total, note="")

        def advance(steps: int, note: str = "") -> None:
            display.update(task, advance=steps, note=note)

        yield advance


def _lines(title: str, total: int, *, closing: bool) -> Iterator[Advance]:
    """Rare lines, and a closing one where it was asked for or others went before."""
    start = last = time.monotonic()
    done = 0
    latest = ""
    first: tuple[float, int] | None = None

    def advance(steps: int, note: str = "") -> None:
        nonlocal done, last, closing, latest, first
        done, latest = done + steps, note
        now = time.monotonic()
        # The first steps may have compiled or loaded something, which says nothing of the others.
        began, before = first = first or (now, done)
        if now - last >= SECONDS_BETWEEN_LINES and done < total:
            each = (now - began) / (done - before) if done > before else None
            left = f", about {each * (total - done):.0f} s left" if each is not None else ""
            _print(f"{title}: {done}/{total}{left}", note)
            last, closing = now, True

    yield advance
    if closing:
        _print(f"{title}: {done}/{total} in {time.monotonic() - start:.0f} s", latest)


def _print(line: str, note: str) -> None:
    # Work does not end because nobody can be told how far it is.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        print(_join(line, note), file=sys.stderr, flush=True)


def _join(line: str, note: str) -> str:
    return f"{line}; {note}" if note else line
