"""Train on events in a file that is larger than the memory they may take.

Writes events with 40 observables and 3 parameters, memory-maps them, and measures, each in a
process of its own: how much anonymous memory (RssAnon, what the system cannot take back) one epoch
over all of them needs beyond the imported package and a tiny fit; and how fast training from the
file is beside training from memory, on a part of the events, in turns.

    python benchmarks/large.py                     10 million events, and results/large.json
    python benchmarks/large.py --quick             a small file; prints, writes nothing
    python benchmarks/large.py --folder /scratch   where to write the file, which is kept there

Needs Linux, for /proc/self/status.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from record import RESULTS, made

COLUMNS, PARAMETERS = 40, 3
BATCH: Final = 1024
#: Events written at a time.
WRITTEN: Final = 100_000
#: What must hold.
LARGEST_MEMORY_MB, LARGEST_SLOWDOWN = 800.0, 1.2
SECONDS_BETWEEN_LOOKS: Final = 0.02


def write_events(folder: Path, rows: int) -> tuple[Path, Path]:
    """Events whose means, and a few of whose tails, depend on θ, written in pieces."""
    x_path, theta_path = folder / f"x-{rows}.npy", folder / f"theta-{rows}.npy"
    if x_path.exists() and theta_path.exists():
        return x_path, theta_path
    mixing = np.random.default_rng(0).normal(0, 0.3, (PARAMETERS, COLUMNS)).astype(np.float32)
    parts = [folder / f"{path.name}.part" for path in (x_path, theta_path)]
    x, theta = (
        np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
        for path, columns in zip(parts, (COLUMNS, PARAMETERS), strict=True)
    )
    for number, start in enumerate(range(0, rows, WRITTEN)):
        rng = np.random.default_rng(np.random.SeedSequence([1, number]))
        count = min(WRITTEN, rows - start)
        points = rng.uniform(-1, 1, (count, PARAMETERS)).astype(np.float32)
        events = points @ mixing + rng.standard_normal((count, COLUMNS), np.float32)
        events[:, ::8] = np.exp(0.5 * events[:, ::8])
        theta[start : start + count], x[start : start + count] = points, events
    x.flush()
    theta.flush()
    for part, path in zip(parts, (x_path, theta_path), strict=True):
        part.rename(path)
    return x_path, theta_path


def anonymous_mb() -> float:
    """Memory of this process that no file stands behind, in megabytes (10⁶ bytes)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status has no RssAnon.")


@contextmanager
def peak_memory() -> Iterator[dict[str, float]]:
    """The largest anonymous memory in the meantime, looked at from a thread."""
    peak = {"mb": anonymous_mb()}
    done = threading.Event()

    def look() -> None:
        while not done.wait(SECONDS_BETWEEN_LOOKS):
            peak["mb"] = max(peak["mb"], anonymous_mb())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak["mb"] = max(peak["mb"], anonymous_mb())


def measure_memory(x_path: Path, theta_path: Path, *, chooses: bool) -> dict[str, Any]:
    """One epoch over everything, from the file, with the default network."""
    import inferostatic as ist

    prior = ist.Uniform([-1.0] * PARAMETERS, [1.0] * PARAMETERS)
    tiny = ist.simulate(
        lambda theta, rng: theta + rng.standard_normal(theta.shape), prior, 500, seed=1
    )
    ist.fit(tiny, training=ist.Training(epochs=1), seed=1)
    baseline = anonymous_mb()
    training = ist.Training(
        epochs=1, batch_size=BATCH, choose=chooses, centre=True, progress_bar=False
    )
    with peak_memory() as checking:
        began = time.perf_counter()
        events = ist.Events(
            x=np.load(x_path, mmap_mode="r"), theta=np.load(theta_path, mmap_mode="r"), prior=prior
        )
        checked = time.perf_counter() - began
    with peak_memory() as fitting:
        began = time.perf_counter()
        estimator = ist.fit(events, training=training, seed=1)
        fitted = time.perf_counter() - began
    history = estimator.history
    return {
        "baseline_mb": baseline,
        "events_above_baseline_mb": checking["mb"] - baseline,
        "fit_above_baseline_mb": fitting["mb"] - baseline,
        "seconds_events": checked,
        "seconds_fit": fitted,
        "seconds_epoch": float(history.seconds[0]),
        "events_per_second": len(events) / float(history.seconds[0]),
        "validation_loss": float(history.validation_loss[0, 0]),
        "choices": list(history.choices),
    }


def measure_speed(x_path: Path, theta_path: Path, rows: int, repeats: int) -> dict[str, Any]:
    """Epochs from the file and from memory, in turns, after one of each to warm up."""
    import inferostatic as ist

    prior = ist.Uniform([-1.0] * PARAMETERS, [1.0] * PARAMETERS)
    files: dict[str, Any] = {
        "x": np.load(x_path, mmap_mode="r")[:rows],
        "theta": np.load(theta_path, mmap_mode="r")[:rows],
    }
    ways = {
        "file": ist.Events(**files, prior=prior),
        "memory": ist.Events(**{name: np.array(a) for name, a in files.items()}, prior=prior),
    }
    if not ways["file"].mapped or ways["memory"].mapped:
        raise RuntimeError("one way must read from the file and the other from memory.")
    # The default network of 10 million events, for any number of them.
    network, training = (
        ist.Residual(128),
        ist.Training(epochs=1, batch_size=BATCH, progress_bar=False),
    )
    wall: dict[str, list[float]] = {way: [] for way in ways}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    losses = {}
    for repeat in range(repeats + 1):
        for way, events in ways.items():
            began = time.process_time()
            history = ist.fit(events, network=network, training=training, seed=1).history
            if repeat > 0:
                wall[way].append(float(history.seconds[0]))
                cpu[way].append(time.process_time() - began)
            losses[way] = float(history.validation_loss[0, 0])
    return {
        "rows": rows,
        "seconds": wall,
        "cpu_seconds_fit": cpu,
        "events_per_second": {way: rows / statistics.median(times) for way, times in wall.items()},
        "slowdown": ratio(wall),
        "slowdown_cpu": ratio(cpu),
        "validation_loss": losses,
    }


def ratio(seconds: dict[str, list[float]]) -> float:
    """Median over the repeats of the time from the file over the time from memory."""
    pairs = zip(seconds["file"], seconds["memory"], strict=True)
    return statistics.median(file / memory for file, memory in pairs)


def in_process(options: argparse.Namespace, part: str, *arguments: str) -> dict[str, Any]:
    """Run one part of this benchmark in a process of its own, and read what it measured."""
    command = [sys.executable, __file__, "--part", part, "--rows", str(options.rows), *arguments]
    environment = os.environ | {"INFEROSTATIC_PROGRESS": "0"}
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"The part {part} of the benchmark failed; see above.")
    return json.loads(ended.stdout.splitlines()[-1])


def print_table(result: dict[str, Any]) -> bool:
    """Print what was measured, and return whether it is as it should be."""
    memory, speed = result["memory"], result["speed"]
    gigabytes = result["rows"] * (COLUMNS + PARAMETERS) * 4 / 1e9
    checking, fitting = memory["events_above_baseline_mb"], memory["fit_above_baseline_mb"]
    lines = {
        "anonymous memory before": f"{memory['baseline_mb']:.0f} MB",
        "more for checking the events, at most": f"{checking:.0f} MB",
        "more for the fit, at most": f"{fitting:.0f} MB",
        "time to check all events": f"{memory['seconds_events']:.1f} s",
        "time for an epoch over all events": f"{memory['seconds_epoch']:.1f} s",
        "events in a second": f"{memory['events_per_second']:.0f}",
    }
    print(f"{result['rows']:,} events, {gigabytes:.2f} GB in files, batch {BATCH}\n")
    for what, value in lines.items():
        print(f"  {what:40} {value:>10}")
    print(f"\nSeconds for an epoch over {speed['rows']:,} events, in turns")
    for way, seconds in speed["seconds"].items():
        rate = f"{speed['events_per_second'][way]:.0f} events in a second"
        print(f"  from {way:7} {'  '.join(f'{s:7.1f}' for s in seconds)}   {rate}")
    of_cpu = f"{speed['slowdown_cpu']:.3f} of the processors' time"
    print(f"  file / memory: {speed['slowdown']:.3f} of the time, {of_cpu}")
    good = max(checking, fitting) < LARGEST_MEMORY_MB and speed["slowdown"] < LARGEST_SLOWDOWN
    wanted = f"less than {LARGEST_MEMORY_MB:.0f} MB and {LARGEST_SLOWDOWN:g} of the time"
    print(f"\nWanted: {wanted}. {'Met.' if good else 'MISSED.'}")
    return good


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000, help="events in the file")
    parser.add_argument(
        "--compared", type=int, default=1_000_000, help="events to compare speeds on"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="of the files (default: a temporary one)")
    parser.add_argument("--choose", action="store_true", help="let fit choose features and decay")
    parser.add_argument("--quick", action="store_true", help="a small file; writes nothing")
    parser.add_argument("--out", type=Path, default=RESULTS / "large.json")
    parser.add_argument("--part", choices=["memory", "speed"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.compared, options.repeats = 600_000, 300_000, 2
    return options


def run_part(options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own does."""
    paths = write_events(options.folder, options.rows)
    if options.part == "memory":
        return measure_memory(*paths, chooses=options.choose)
    return measure_speed(*paths, options.compared, options.repeats)


def main() -> int:
    """Run the benchmark; the exit status tells whether memory and speed are as they should be."""
    options = arguments()
    if options.part is not None:
        print(json.dumps(run_part(options)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.folder is None else options.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        write_events(folder, options.rows)
        where = ("--folder", str(folder))
        chooses = ("--choose",) if options.choose else ()
        compared = ("--compared", str(options.compared), "--repeats", str(options.repeats))
        result = {
            "rows": options.rows,
            "columns": COLUMNS,
            "batch": BATCH,
            "memory": in_process(options, "memory", *where, *chooses),
            "speed": in_process(options, "speed", *where, *compared),
            "made": made(),
        }
    good = print_table(result)
    if not options.quick:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")
        print(f"Written to {options.out}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
