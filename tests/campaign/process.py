"""Cases run in a process that may die, and a watcher that notices.

The worker says which case it begins and what became of it. The watcher ends it when it takes too
much memory or time, counts that case as a crash, and goes on with the next one in a new process.
"""

import collections
import dataclasses
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from .outcomes import CLASSES, Class, Outcome

#: Seconds that one case may take; the slowest ones compile for a few.
MOST_SECONDS = 60.0
#: Bytes that one case may take.
MOST_MEMORY = 1_500_000_000
#: Seconds for the imports and the plain answers of all targets.
START_SECONDS = 240.0
TESTS = Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one case may take."""

    seconds: float = MOST_SECONDS
    memory: int = MOST_MEMORY


def run_part(part: str, *, every: int = 1, limits: Limits = Limits()) -> list[Outcome]:  # noqa: B008
    """The outcomes of a part, or of every so manyth of its cases."""
    found: list[Outcome] = []
    first = 0
    while first is not None:
        outcomes, first = _run_from(part, first, every, limits)
        found += outcomes
    return found


def _run_from(
    part: str, first: int, every: int, limits: Limits
) -> tuple[list[Outcome], int | None]:
    """Outcomes up to the end, or to a crash and the case after it."""
    command = [sys.executable, "-m", "campaign.worker", part, str(first), str(every)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "INFEROSTATIC_PROGRESS": "0",
        "JAX_PLATFORMS": "cpu",
        "MPLBACKEND": "agg",
    }
    with (
        # Some of the odd paths are names of files that can be written.
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=folder) as worker,
    ):
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(worker, lines), daemon=True).start()
        try:
            return _watch(worker, lines, limits)
        finally:
            worker.kill()


def _read(worker: "subprocess.Popen[bytes]", lines: "queue.Queue[str | None]") -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        lines.put(line.decode(errors="replace"))
    lines.put(None)


def _watch(
    worker: "subprocess.Popen[bytes]", lines: "queue.Queue[str | None]", limits: Limits
) -> tuple[list[Outcome], int | None]:
    found: list[Outcome] = []
    running: tuple[int, str] | None = None
    before, since, allowed = None, time.monotonic(), START_SECONDS
    while True:
        trouble = None
        try:
            line = lines.get(timeout=0.05)
            if line is None:
                trouble = f"the process ended with {worker.wait()}"
        except queue.Empty:
            line = None
            taken = _memory(worker.pid) - (before or 0)
            if time.monotonic() - since > allowed:
                trouble = f"more than {allowed:.0f} s"
            elif before is not None and taken > limits.memory:
                trouble = f"more than {limits.memory / 1e9:.1f} GB"
        if trouble is not None:
            if running is None:
                raise RuntimeError(f"the worker failed between cases: {trouble}")
            found.append(Outcome(running[1], "crash", trouble))
            return found, running[0] + 1
        if not line or not line.startswith("{"):
            continue
        message = json.loads(line)
        since, allowed = time.monotonic(), limits.seconds
        if "begins" in message:
            before = _memory(worker.pid)
            running = message["index"], message["begins"]
        elif "ended" in message:
            return found, None
        else:
            assert running is not None
            found.append(Outcome(running[1], message["class"], message["detail"]))
            running = None


def _memory(pid: int) -> int:
    """Bytes in use, as far as the system tells."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(r.split()[1]) * 1024 for r in status.splitlines() if "VmRSS" in r), 0)


def table(parts: dict[str, list[Outcome]]) -> str:
    """How many cases of every part are in every class."""
    lines = [" ".join(["part".ljust(12), *(c.rjust(7) for c in ("cases", *CLASSES))])]
    for name, outcomes in parts.items():
        counts = collections.Counter(outcome.kind for outcome in outcomes)
        numbers = [len(outcomes), *(counts[c] for c in CLASSES)]
        lines.append(" ".join([name.ljust(12), *(str(n).rjust(7) for n in numbers)]))
    return "\n".join(lines)


def faults(outcomes: Iterable[Outcome], kinds: Iterable[Class]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.kind in tuple(kinds)]
