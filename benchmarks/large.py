"""Train on events in a file that is larger than the memory they may take.

Writes events with 40 observables and 3 parameters, memory-maps them, and measures, each in a
process of its own: how much anonymous memory (RssAnon, what the system cannot take back) one epoch
over all of them needs beyond the imported package and a tiny fit; and how fast training from the
file is beside training from memory, on a part of the events, in turns.

    python benchmarks/large.py                     10 million events, and results/large.json
    python benchmarks/large.py --store             the same from a store; `scale.py` measures more
    python benchmarks/large.py --quick             a small file; prints, writes nothing
    python benchmarks/large.py --folder /scratch   where to write the file, which is kept there

With `--part limited` the system refuses the process more than `--allowed` megabytes of private
memory beyond what it had after a tiny fit (RLIMIT_DATA), and a small network trains for an epoch.

Needs Linux, for /proc/self/status.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from record import RESULTS, made

if TYPE_CHECKING:
    import inferostatic as ist

COLUMNS, PARAMETERS = 40, 3
MIXING: Final = np.random.default_rng(0).normal(0, 0.3, (PARAMETERS, COLUMNS)).astype(np.float32)
BATCH: Final = 1024
#: Events written at a time.
WRITTEN: Final = 100_000
#: What must hold.
LARGEST_MEMORY_MB, LARGEST_SLOWDOWN = 700.0, 1.1
SECONDS_BETWEEN_LOOKS: Final = 0.02
#: Events in a part of a store.
PART_EVENTS: Final = 200_000


def observe(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Events whose means, and a few of whose tails, depend on θ."""
    x = theta.astype(np.float32) @ MIXING + rng.standard_normal((len(theta), COLUMNS), np.float32)
    x[:, ::8] = np.exp(0.5 * x[:, ::8])
    return x


def uniform_prior() -> "ist.Uniform":
    """Of all events."""
    import inferostatic as ist

    return ist.Uniform([-1.0] * PARAMETERS, [1.0] * PARAMETERS)


def store_path(folder: Path, rows: int) -> Path:
    """Where `write_store` writes."""
    return folder / f"store-{rows}"


def write_store(folder: Path, rows: int) -> "ist.Events":
    """The same kind of events in a store, with what is missing made."""
    import inferostatic as ist

    size = min(PART_EVENTS, -(-rows // 16 // 200) * 200)
    store = ist.Store(store_path(folder, rows), name="large", events_per_part=size)
    return ist.simulate(observe, uniform_prior(), rows, store=store, seed=1)


def write_events(folder: Path, rows: int) -> tuple[Path, Path]:
    """Events in two plain files, written in pieces."""
    x_path, theta_path = folder / f"x-{rows}.npy", folder / f"theta-{rows}.npy"
    if x_path.exists() and theta_path.exists():
        return x_path, theta_path
    parts = [folder / f"{path.name}.part" for path in (x_path, theta_path)]
    x, theta = (
        np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
        for path, columns in zip(parts, (COLUMNS, PARAMETERS), strict=True)
    )
    for number, start in enumerate(range(0, rows, WRITTEN)):
        rng = np.random.default_rng(np.random.SeedSequence([1, number]))
        count = min(WRITTEN, rows - start)
        points = rng.uniform(-1, 1, (count, PARAMETERS)).astype(np.float32)
        theta[start : start + count], x[start : start + count] = points, observe(points, rng)
    x.flush()
    theta.flush()
    for part, path in zip(parts, (x_path, theta_path), strict=True):
        part.rename(path)
    return x_path, theta_path


def open_files(folder: Path, rows: int) -> "ist.Events":
    """The events of `write_events`, checked again as they are opened."""
    import inferostatic as ist

    x, theta = (np.load(path, mmap_mode="r") for path in write_events(folder, rows))
    return ist.Events(x=x, theta=theta, prior=uniform_prior())


def anonymous_mb(name: str = "RssAnon") -> float:
    """Memory of this process that no file stands behind, in megabytes (10⁶ bytes)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {name}.")


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


def fit_tiny() -> None:
    """Import and compile what every fit needs."""
    import inferostatic as ist

    tiny = ist.simulate(
        lambda theta, rng: theta + rng.standard_normal(theta.shape), uniform_prior(), 500, seed=1
    )
    ist.fit(tiny, training=ist.Training(epochs=1), seed=1)


def limit_memory(megabytes: float) -> None:
    """Have the system refuse more private memory than so much beyond what there is now."""
    most = round((anonymous_mb("VmData") + megabytes) * 1e6)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def measure_memory(
    open_events: Callable[[], "ist.Events"], *, chooses: bool, allowed_mb: float | None = None
) -> dict[str, Any]:
    """One epoch over everything, from the file, with the default network.

    With a small network where so much memory is allowed and no more.
    """
    import inferostatic as ist

    fit_tiny()
    baseline = anonymous_mb()
    network = None
    if allowed_mb is not None:
        limit_memory(allowed_mb)
        network = ist.Residual(16)
    training = ist.Training(
        epochs=1, batch_size=BATCH, choose=chooses, centre=allowed_mb is None, progress_bar=False
    )
    with peak_memory() as checking:
        began = time.perf_counter()
        events = open_events()
        if not events.mapped:
            raise RuntimeError("events must stay in their files.")
        checked = time.perf_counter() - began
    with peak_memory() as fitting:
        began = time.perf_counter()
        estimator = ist.fit(events, network=network, training=training, seed=1)
        fitted = time.perf_counter() - began
    history = estimator.history
    return {
        "allowed_mb": allowed_mb,
        "file_mb": (events.x.nbytes + events.theta.nbytes) / 1e6,
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


def measure_speed(
    open_events: Callable[[], "ist.Events"], rows: int, repeats: int
) -> dict[str, Any]:
    """Epochs from the file and from memory, in turns, after one of each to warm up."""
    import inferostatic as ist

    from_file = open_events()[:rows]
    arrays = {name: np.array(getattr(from_file, name)) for name in ("x", "theta")}
    ways = {"file": from_file, "memory": ist.Events(**arrays, prior=from_file.prior)}
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
    command += ["--folder", str(options.folder), *(["--store"] if options.store else [])]
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
    parser.add_argument("--store", action="store_true", help="the events are in a store")
    parser.add_argument("--choose", action="store_true", help="let fit choose features and decay")
    parser.add_argument("--quick", action="store_true", help="a small file; writes nothing")
    parser.add_argument("--out", type=Path, default=RESULTS / "large.json")
    parser.add_argument("--part", choices=["memory", "speed", "limited"], help=argparse.SUPPRESS)
    parser.add_argument("--allowed", type=float, default=200.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.compared, options.repeats = 600_000, 300_000, 2
    return options


def run_part(options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own does."""
    open_events = partial(
        write_store if options.store else open_files, options.folder, options.rows
    )
    if options.part == "speed":
        return measure_speed(open_events, options.compared, options.repeats)
    allowed = options.allowed if options.part == "limited" else None
    return measure_memory(open_events, chooses=options.choose, allowed_mb=allowed)


def main() -> int:
    """Run the benchmark; the exit status tells whether memory and speed are as they should be."""
    options = arguments()
    if options.part is not None:
        print(json.dumps(run_part(options)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = (options.folder or Path(temporary)).absolute()
        options.folder.mkdir(parents=True, exist_ok=True)
        (write_store if options.store else write_events)(options.folder, options.rows)
        chooses = ("--choose",) if options.choose else ()
        compared = ("--compared", str(options.compared), "--repeats", str(options.repeats))
        result = {
            "rows": options.rows,
            "columns": COLUMNS,
            "batch": BATCH,
            "store": options.store,
            "memory": in_process(options, "memory", *chooses),
            "speed": in_process(options, "speed", *compared),
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
