"""Kills of what fills a store, each followed by the same call, to the same store.

`python -m campaign.kills_simulation FOLDER ENGINE [FILE]` in `tests` is the process: it says when
the simulation begins, and ends with status 3 where the Dask scheduler was lost. Killed are the
process itself, one that has a pool, a worker of a pool, and the scheduler of a Dask cluster.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import inferostatic as ist
from store_simulators import PRIOR, slow

TESTS = Path(__file__).parent.parent
#: Events of the store, and of a part of it.
EVENTS, PART = 12_000, 200
#: What is killed, and the engine that the process has.
TARGETS = {"process": "none", "pool": "pool", "worker": "pool", "scheduler": "dask"}
#: Workers of a pool or a cluster.
WORKERS = 2
#: Exit status of a process whose scheduler was lost.
LOST = 3
#: Seconds after which the rest of a process that lives too long is given up.
TOO_LONG = 300.0


@dataclasses.dataclass
class Campaign:
    """What happened.

    Attributes:
        whole: digests of the parts of a store that nothing disturbed.
        seconds: that it took.
        found: digests of the stores that were disturbed, by what was killed.
        kills: how many processes were killed, by what they were.
        resumed: how many calls went on with parts that another one had left.
        partial: how many files were half written after a kill.
        survived: how many calls were completed though a worker of theirs was killed.
    """

    whole: dict[str, str]
    seconds: float
    found: list[tuple[str, dict[str, str]]] = dataclasses.field(default_factory=list)
    kills: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    resumed: int = 0
    partial: int = 0
    survived: int = 0

    def __str__(self) -> str:
        same = sum(parts == self.whole for _, parts in self.found)
        kills = ", ".join(f"{count} {target}" for target, count in self.kills.items() if count)
        return (
            f"{sum(self.kills.values())} kills ({kills}) in {len(self.found)} simulations of "
            f"{self.seconds:.1f} s and {len(self.whole)} parts, {self.partial} of them while a "
            f"file was written; {self.resumed} calls went on with what was there, {self.survived} "
            f"were completed without a worker of theirs; {same} of {len(self.found)} stores were "
            "the same"
        )


def run_campaign(folder: Path, *, kills: dict[str, int], seed: int) -> Campaign:
    """Kill each target so many times at random moments, and repeat the call each time."""
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    fill(folder / "whole", None)
    campaign = Campaign(digest(folder / "whole"), time.monotonic() - began)
    for target, count in kills.items():
        while campaign.kills[target] < count:
            place = folder / f"{target}-{len(campaign.found)}"
            complete, killed = False, True
            while killed:
                # Within half of the time, so that one store is disturbed several times.
                wait = float(rng.uniform(0, campaign.seconds / 2))
                more = campaign.kills[target] < count and not complete
                complete, killed = run_once(place, target, campaign, wait if more else None)
            campaign.found.append((target, digest(place)))
    return campaign


def run_once(
    place: Path, target: str, campaign: Campaign, kill_after: float | None
) -> tuple[bool, bool]:
    """Run the process; whether the call was completed, and whether the target was killed."""
    campaign.resumed += any(place.glob("parts/*.parquet"))
    with contextlib.ExitStack() as stack:
        file, scheduler = "", None
        if TARGETS[target] == "dask":
            file, scheduler = stack.enter_context(_cluster())
        process = stack.enter_context(_process(place, TARGETS[target], file))
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        killed = False
        if kill_after is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill_after)
            killed = process.poll() is None and _kill(process, target, scheduler)
            campaign.kills[target] += killed
        status = process.wait(TOO_LONG)
    campaign.partial += killed and any(place.glob("parts/.*.part"))
    assert killed or status == 0, f"the process failed by itself, with status {status}"
    campaign.survived += killed and status == 0
    return status == 0, killed


def _kill(
    process: "subprocess.Popen[str]", target: str, scheduler: "subprocess.Popen[bytes] | None"
) -> bool:
    """Kill what is to be killed; False if there is none."""
    if target == "worker":
        workers = find_workers(process.pid)
        for worker in workers[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, 9)
        return bool(workers)
    (scheduler or process).kill()
    return True


def find_workers(process: int) -> list[int]:
    """The worker processes of a pool."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


@contextlib.contextmanager
def _process(place: Path, engine: str, file: str) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "campaign.kills_simulation", str(place), engine, file]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=_environment(), text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "INFEROSTATIC_PROGRESS": "0",
        "JAX_PLATFORMS": "cpu",
    }


@contextlib.contextmanager
def _cluster() -> "Iterator[tuple[str, subprocess.Popen[bytes]]]":
    """A scheduler and its workers, in processes of their own; a file says where it is."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "scheduler.json"

        def start(program: str, *options: str) -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(file)],
                env=_environment(),
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        scheduler = start("scheduler", "--port", "0", "--dashboard-address", ":0")
        for _ in range(WORKERS):
            start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
        yield str(file), scheduler


def digest(place: Path) -> dict[str, str]:
    """A digest of each part, of its bytes and of its table, after all checksums were compared."""
    import pyarrow.parquet

    status = ist.Store(place).status(verify=True)
    assert status.complete, status.summary()
    found = {}
    for path in sorted((place / "parts").iterdir()):
        table = pyarrow.parquet.read_table(path)
        content = hashlib.sha256(path.read_bytes())
        for name in table.column_names:
            content.update(table.column(name).to_numpy().tobytes())
        found[path.name] = content.hexdigest()
    manifest = json.loads((place / "manifest.json").read_text())
    found["manifest"] = manifest["checksum"]
    return found


def fill(place: Path, engine: Any) -> None:
    """The call that is repeated."""
    store = ist.Store(place, name="toy", events_per_part=PART)
    ist.simulate(slow, PRIOR, EVENTS, store=store, engine=engine, seed=1)


def fill_in_process(place: str, engine: str, file: str) -> int:
    """The process that is killed; its exit status."""
    with contextlib.ExitStack() as stack:
        used: Any = None
        if engine == "pool":
            used = stack.enter_context(ist.ProcessPool(WORKERS))
        elif engine == "dask":
            import distributed

            client = distributed.Client(scheduler_file=file, timeout="60s", set_as_default=False)
            client.wait_for_workers(WORKERS, timeout=60)
            used = ist.Dask(stack.enter_context(client))
        # Workers are started and programs compiled before, so that kills fall into the simulation.
        ist.simulate(slow, PRIOR, 200 * WORKERS, engine=used, seed=2)
        print("begins", flush=True)
        try:
            fill(Path(place), used)
        except ConnectionError as error:
            print(error, file=sys.stderr)
            sys.stderr.flush()
            os._exit(LOST)  # a client whose scheduler is gone waits for it
    return 0


if __name__ == "__main__":
    sys.exit(fill_in_process(*sys.argv[1:]))
