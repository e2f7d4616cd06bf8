"""Progress: a bar for a person, lines for a log, silence on request."""

import contextlib
import importlib
import io
import os
import re
import sys
import time
from typing import TextIO

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.progress import SECONDS_BETWEEN_LINES, progress


class Terminal(io.StringIO):
    """A stream that says that a person is watching."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ticking = Clock()
    monkeypatch.setattr(importlib.import_module("inferostatic.progress").time, "monotonic", ticking)
    return ticking


@pytest.fixture(autouse=True)
def _not_silenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFEROSTATIC_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def work(
    stream: TextIO, clock: Clock | None = None, *, show: bool | None = None, seconds: float = 10.0
) -> None:
    with contextlib.redirect_stderr(stream), progress("simulating", 5, show=show) as advance:
        for step in range(5):
            if clock is not None:
                clock.now += seconds
            advance(1, f"loss {step}")


def test_silent_when_off(log: io.StringIO, terminal: Terminal, clock: Clock) -> None:
    work(log, clock, show=False, seconds=1000)
    work(terminal, clock, show=False, seconds=1000)
    assert log.getvalue() == terminal.getvalue() == ""


def test_the_environment_silences_unless_forced(
    log: io.StringIO, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFEROSTATIC_PROGRESS", "0")
    work(log, clock, seconds=1000)
    assert log.getvalue() == ""
    work(log, clock, show=True)
    assert log.getvalue() != ""


def test_a_short_job_leaves_no_trace_in_a_log(log: io.StringIO, clock: Clock) -> None:
    work(log, clock, seconds=0.1)
    assert log.getvalue() == ""


def test_a_long_job_leaves_rare_lines_in_a_log(log: io.StringIO, clock: Clock) -> None:
    assert 10 < SECONDS_BETWEEN_LINES < 20
    work(log, clock, seconds=10)
    assert log.getvalue().splitlines() == [
        "simulating: 2/5, about 30 s left; loss 1",
        "simulating: 4/5, about 10 s left; loss 3",
        "simulating: 5/5 in 50 s; loss 4",
    ]


def test_what_the_first_step_waits_for_is_not_expected_of_the_others(
    log: io.StringIO, clock: Clock
) -> None:
    with contextlib.redirect_stderr(log), progress("training", 100) as advance:
        for seconds, steps in ((30, 4), (5, 4), (15, 12), (60, 80)):
            clock.now += seconds
            advance(steps)
    assert log.getvalue().splitlines() == [
        "training: 4/100",
        "training: 20/100, about 100 s left",  # 20 s for the last 16 steps
        "training: 100/100 in 110 s",
    ]


class Broken(io.StringIO):
    """A full disk."""

    def write(self, text: str, /) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [None, Broken(), "closed", object()])
def test_work_goes_on_where_nobody_can_be_told(
    stream: object,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what is meant for stderr does not get into stdout, as print(file=None) would do."""
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    done = []
    with progress("working", 3, show=True) as advance:
        for _ in range(3):
            clock.now += 2 * SECONDS_BETWEEN_LINES
            advance(1)
            done.append(1)
    assert len(done) == 3
    assert capsys.readouterr().out == ""


def test_a_forced_display_always_says_something(log: io.StringIO, clock: Clock) -> None:
    work(log, clock, show=True, seconds=0.1)
    assert log.getvalue() == "simulating: 5/5 in 0 s; loss 4\n"


def test_lines_without_a_note_end_cleanly(log: io.StringIO) -> None:
    with contextlib.redirect_stderr(log), progress("simulating", 5, show=True) as advance:
        advance(5)
    assert log.getvalue() == "simulating: 5/5 in 0 s\n"


def test_a_bar_on_a_terminal(terminal: Terminal) -> None:
    work(terminal)
    shown = terminal.getvalue()
    assert "simulating" in shown
    assert "100%" in shown
    assert "loss 4" in shown
    assert "about" not in shown


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_a_narrow_terminal_shows_the_time_left(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """The note gives way, and stays on one line."""
    monkeypatch.setenv("COLUMNS", str(columns))
    with contextlib.redirect_stderr(terminal), progress("fit", 10_000) as advance:
        for _ in range(3):
            advance(2_500, "choosing network and weight decay: loss 1.9552, validation 1.9375")
            time.sleep(0.15)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    assert re.match(r"fit \S+ +75% 0:00:0\d left (0:00:0\d|-:--:--) cho", lines[-1])
    assert all(line.startswith("fit ") and len(line) <= columns for line in lines)


def test_a_bar_on_a_pseudo_terminal() -> None:
    leader, follower = os.openpty()
    os.set_blocking(leader, False)
    with os.fdopen(leader, "rb", buffering=0) as screen, os.fdopen(follower, "w") as stream:
        work(stream)
        stream.flush()
        shown = b"".join(iter(lambda: screen.read(4096) or b"", b""))
    assert b"simulating" in shown


def test_without_rich_a_terminal_gets_lines(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    work(terminal, clock)
    assert terminal.getvalue().splitlines()[-1] == "simulating: 5/5 in 50 s; loss 4"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["log", "terminal"])
@pytest.mark.parametrize("kind", [ImportError, ValueError, KeyboardInterrupt])
def test_errors_of_the_work_pass_through(stream: TextIO, kind: type[BaseException]) -> None:
    # An ImportError too, although rich might have been what is missing.
    with contextlib.redirect_stderr(stream), pytest.raises(kind, match="of the work"):
        with progress("simulating", 5):
            raise kind("of the work")


def test_simulating_shows_its_progress_when_asked(log: io.StringIO) -> None:
    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=theta.shape)

    with contextlib.redirect_stderr(log):
        ist.simulate(simulator, ist.Uniform(0, 1), 7, seed=1, progress_bar=True)
        # A block is simulated whole.
        assert re.fullmatch(
            r"simulating: 200/200 in \d+ s; [\d,.e+]+ events/s\n", log.getvalue()
        ), log.getvalue()
        ist.simulate(simulator, ist.Uniform(0, 1), 7, seed=1, progress_bar=False)
        assert log.getvalue().count("\n") == 1
