"""What engines and stores cost, and what follows for 10⁹ events and 10³ workers.

    python benchmarks/scale.py                     everything; goes on where it stopped
    python benchmarks/scale.py --only engines      or tasks, store, listing, training
    python benchmarks/scale.py --quick             small sizes in a few minutes; writes nothing
    python benchmarks/scale.py --folder /scratch   where the store is written, which is kept there

*engines*: the same events by all engines in turn, for simulators of 10 µs and 1 ms an event that
keep a core busy or sleep, and for Pythia where it is installed. Workers have been started and have
made a few events before the clock starts; how long that took is kept beside it. The bare simulator
is called for blocks of 200 events in processes that know nothing of the library. With T of an
engine with n workers and B of n bare processes, for the same number of events,

    overhead     T(n) n' / B(1) − 1, where n' is n, or the number of cores if these are fewer and
                 the simulator needs them: what is lost against one bare process
    beside bare  T(n) / B(n) − 1: the same, without what the machine itself loses when all its
                 cores work
    efficiency   T(1) / (n' T(n)), of one engine
    CPU          processor time of this process and its workers over that of one bare process,
                 minus 1: hardly depends on what else the machine does; not for sleeping ones

each as the median of ratios within a round. *tasks*: tasks that do nothing. *store*: 10⁷ events of
40 observables and 3 parameters are simulated into a store, in this process; writing is what that
takes beyond simulating in memory; reading is `status(verify=True)`; opening is up to `len`, and the
cache is what the first use of an array builds. *listing*: a store of 10⁴ parts, copies of one.
*training*: see `large.py`. The load of the machine stands beside every row.
"""

import argparse
import importlib.util
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psutil

import inferostatic as ist
import large
from record import RESULTS, Log
from scale_simulators import Busy, Sleeping, make_pythia, return_number, steps_within

BLOCK: Final = 200
#: Engines by name, with numbers of workers.
WAYS: Final = (
    ("bare", 1),
    ("in-process", 1),
    ("pool", 1),
    ("dask", 1),
    ("bare", 2),
    ("pool", 2),
    ("dask", 2),
    ("pool", 4),
)
#: Events that workers make before the clock starts.
WARM_UP: Final = 4 * BLOCK
#: What must hold: see `print_goals`.
LARGEST_OVERHEAD, SMALLEST_EFFICIENCY, LONGEST_OPENING = 0.05, 0.9, 1.0
#: What is extrapolated to.
MANY_EVENTS, MANY_WORKERS, MOST_PARTS = 10**9, 10**3, 10**4
KINDS: Final = ("tasks", "engines", "store", "listing", "training")

Row = dict[str, Any]


class Case(NamedTuple):
    """A simulator, how many events it makes, and whether it keeps a core busy."""

    name: str
    simulator: Any
    prior: Any
    events: int
    busy: bool = True


def list_cases(scale: float) -> Iterator[Case]:
    """The simulators; events in whole blocks, more for the faster ones."""
    prior = ist.Uniform([-1.0, -1.0], [1.0, 1.0])
    step = steps_within(1.0) / 1e6
    blocks = max(1, round(64 * scale))
    yield Case("busy 1 ms", Busy(round(1000 * step)), prior, blocks * BLOCK)
    yield Case("sleep 1 ms", Sleeping(1e-3), prior, blocks * BLOCK, busy=False)
    yield Case("busy 10 µs", Busy(round(10 * step)), prior, 50 * blocks * BLOCK)
    if importlib.util.find_spec("pythia8mc") is not None:
        import zhadrons

        tune = ist.Uniform(zhadrons.LOW, zhadrons.HIGH)
        yield Case("Pythia", ist.PerWorker(make_pythia), tune, blocks * BLOCK)


# Engines ------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """Processor time of this process and of all that it started and that live."""
    total = time.process_time()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            times = process.cpu_times()
            total += times.user + times.system
    return total


class Clock:
    """Wall and processor time since it was made."""

    def __init__(self) -> None:
        self.began, self.cpu_began = time.perf_counter(), cpu_seconds()

    def read(self) -> tuple[float, float]:
        """Seconds of the wall and of the processors."""
        return time.perf_counter() - self.began, cpu_seconds() - self.cpu_began


class Timed(NamedTuple):
    """Seconds to start, seconds of all events, and these in processor time."""

    startup: float
    seconds: float
    cpu: float


def run_bare(simulator: Any, theta: np.ndarray) -> float:  # noqa: ANN401
    """Seconds of the simulator alone, block after block; in a process of its own."""
    rng = np.random.default_rng(1)
    began = time.perf_counter()
    for start in range(0, len(theta), BLOCK):
        simulator(theta[start : start + BLOCK], rng)
    return time.perf_counter() - began


def time_bare(case: Case, workers: int) -> Timed:
    """As many bare processes, with equal shares of the events."""
    theta = np.asarray(case.prior.sample(case.events, seed=1), np.float64)
    shares = np.array_split(theta, workers)
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        warm = [(case.simulator, theta[:WARM_UP])] * (4 * workers)
        pool.starmap(run_bare, warm, chunksize=1)
        startup, timed = time.perf_counter() - began, Clock()
        pool.starmap(run_bare, [(case.simulator, share) for share in shares], chunksize=1)
        return Timed(startup, *timed.read())


@contextmanager
def open_engine(name: str, workers: int) -> Iterator[Any]:
    """An engine of the library."""
    if name == "in-process":
        yield None
    elif name == "pool":
        with ist.ProcessPool(workers) as pool:
            yield pool
    else:
        import distributed

        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0"
        )
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield ist.Dask(client)


def time_engine(case: Case, name: str, workers: int) -> Timed:
    """An engine; its start includes a few events."""
    began = time.perf_counter()
    with open_engine(name, workers) as engine:
        options: dict[str, Any] = {"engine": engine, "seed": 1, "progress_bar": False}
        ist.simulate(case.simulator, case.prior, workers * WARM_UP, **options)
        startup, timed = time.perf_counter() - began, Clock()
        ist.simulate(case.simulator, case.prior, case.events, **options)
        return Timed(startup, *timed.read())


def measure_engines(case: Case) -> Row:
    """All engines in turn."""
    load, ways = os.getloadavg()[0], {}
    for name, workers in WAYS:
        timed = time_bare(case, workers) if name == "bare" else time_engine(case, name, workers)
        ways[way_name(name, workers)] = timed
    busy_cores = os.cpu_count() if case.busy else None
    return {"events": case.events, "cores": busy_cores, "load": load} | {
        field: {way: getattr(timed, field) for way, timed in ways.items()}
        for field in Timed._fields
    }


def way_name(name: str, workers: int) -> str:
    """As in the rows."""
    return f"{name} {workers}"


def measure_tasks(name: str, count: int) -> Row:
    """Tasks in a second that do nothing, by two workers."""
    load = os.getloadavg()[0]
    with open_engine(name, 2) as engine:
        list(engine.run(return_number, range(100)))
        began = time.perf_counter()
        list(engine.run(return_number, range(count)))
        return {"tasks_per_second": count / (time.perf_counter() - began), "load": load}


def compare_engines(rows: Sequence[Row]) -> dict[str, Row]:
    """Medians over the rounds of one simulator, by engine and workers: see the head."""
    found = {}
    for name, workers in WAYS:
        way = way_name(name, workers)
        effective = [min(workers, row["cores"] or workers) for row in rows]
        pairs = list(zip(rows, effective, strict=True))
        bare = way_name("bare", workers)
        alone = way_name(name, 1)
        found[way] = {
            "rate": middle(row["events"] / row["seconds"][way] for row in rows),
            "startup": middle(row["startup"][way] for row in rows),
            "overhead": middle(
                row["seconds"][way] * n / row["seconds"]["bare 1"] - 1 for row, n in pairs
            ),
            "beside": (
                middle(row["seconds"][way] / row["seconds"][bare] - 1 for row in rows)
                if (("bare", workers) in WAYS)
                else None
            ),
            "efficiency": middle(
                row["seconds"][alone] / (n * row["seconds"][way]) for row, n in pairs
            ),
            "cpu": middle(row["cpu"][way] / row["cpu"]["bare 1"] - 1 for row in rows)
            if rows[0]["cores"]
            else None,
        }
    return found


def middle(values: Iterator[float]) -> float:
    """Their median."""
    return statistics.median(values)


# Stores -------------------------------------------------------------------------------------------


def clock(function: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def clock_both(what: str, function: Callable[[], Any]) -> dict[str, float]:
    """Seconds of the wall and of the processors, as entries of a row."""
    timed = Clock()
    function()
    wall, cpu = timed.read()
    return {f"seconds_{what}": wall, f"cpu_{what}": cpu}


def measure_store(folder: Path, rows: int) -> Row:
    """Write, open and read a store of `large.py`, which stays for the training."""
    load, some = os.getloadavg()[0], max(rows // 10, BLOCK)

    def in_memory() -> None:
        ist.simulate(large.observe, large.uniform_prior(), some, seed=1, progress_bar=False)

    in_memory()
    before = clock_both("simulated", in_memory)
    found = clock_both("filled", lambda: large.write_store(folder, rows))
    after = clock_both("simulated", in_memory)
    found |= {name: (before[name] + after[name]) / 2 * rows / some for name in before}
    store = ist.Store(large.store_path(folder, rows))
    found |= clock_both("verified", lambda: store.status(verify=True))
    found |= clock_both("opened", lambda: len(store.events()))
    found |= clock_both("cached", lambda: store.events().x)
    found |= clock_both("mapped_again", lambda: store.events().x)
    parts = list((store.path / "parts").iterdir())
    cache = list((store.path / "cache").rglob("*.npy"))
    return {
        "load": load,
        "parts": len(parts),
        "parquet_bytes": sum(path.stat().st_size for path in parts),
        "cache_bytes": sum(path.stat().st_size for path in cache),
        **found,
    }


def compare_store(row: Row) -> Row:
    """Rates of writing, reading and building the cache, in events and 10⁶ bytes of arrays."""
    size, events = row["cache_bytes"] / 1e6, row["events"]
    found = {}
    for name, what in (("write", "filled"), ("read", "verified"), ("cache", "cached")):
        seconds, cpu = row[f"seconds_{what}"], row[f"cpu_{what}"]
        if name == "write":
            seconds, cpu = seconds - row["seconds_simulated"], cpu - row["cpu_simulated"]
        rates = {"events_per_second": events / seconds, "mb_per_second": size / seconds}
        found[name] = rates | {"mb_per_cpu_second": size / cpu}
    return found


def measure_listing(folder: Path, parts: int) -> Row:
    """Look at a store of many parts: copies of one, since their content is not read for that."""
    load, path = os.getloadavg()[0], folder / f"listing-{parts}"
    store = ist.Store(path, name="listing", events_per_part=BLOCK)
    prior = ist.Uniform([-1.0], [1.0])

    def simulate(events: int, share: tuple[int, int] | None = None) -> None:
        options: dict[str, Any] = {"store": store, "seed": 1, "progress_bar": False}
        ist.simulate(Sleeping(0.0), prior, events, parts=share, **options)

    simulate(BLOCK)
    first = path / "parts" / "part-000000.parquet"
    for part in range(1, parts):
        shutil.copyfile(first, first.with_name(f"part-{part:06d}.parquet"))
    simulate(parts * BLOCK)
    found = {
        "load": load,
        "seconds_opened": clock(lambda: len(store.events())),
        "seconds_status": clock(store.status),
        "seconds_nothing_missing": clock(lambda: simulate(parts * BLOCK)),
        "seconds_share_nothing_missing": clock(lambda: simulate(parts * BLOCK, (0, MANY_WORKERS))),
    }
    shutil.rmtree(path)
    return found


# Training -----------------------------------------------------------------------------------------


def measure_training(options: argparse.Namespace, part: str) -> Row:
    """One part of `large.py`, from the store."""
    rows = options.rows if part != "limited" else options.limited_rows
    place = argparse.Namespace(rows=rows, folder=options.folder, store=True)
    large.write_store(options.folder, rows).x  # noqa: B018 builds the cache, where there is none
    more = {
        "memory": (),
        "speed": ("--compared", str(options.compared), "--repeats", str(options.repeats)),
        "limited": ("--allowed", str(options.allowed)),
    }
    load = os.getloadavg()[0]
    return {"load": load} | large.in_process(place, part, *more[part])


# On paper -----------------------------------------------------------------------------------------


def extrapolate(rows: Sequence[Row]) -> dict[str, float]:
    """What the measured rates give for 10⁹ events like those of `large.py` and 10³ workers.

    Seconds of each worker, or of the one process that does it alone; an event takes 1 ms.
    """
    (store,), (listing,) = select(rows, kind="store"), select(rows, kind="listing")
    rates = compare_store(store)
    tasks = {row["engine"]: row["tasks_per_second"] for row in select(rows, kind="tasks")}
    (speed,) = select(rows, kind="training", part="speed")
    per_event = MANY_EVENTS / store["events"]
    part_events = MANY_EVENTS / MOST_PARTS
    return {
        "part_events": part_events,
        "part_mb": part_events * store["parquet_bytes"] / store["events"] / 1e6,
        "simulating_each": MANY_EVENTS * 1e-3 / MANY_WORKERS,
        "writing_each": MANY_EVENTS / rates["write"]["events_per_second"] / MANY_WORKERS,
        "written_mb_per_second": MANY_WORKERS
        * store["parquet_bytes"]
        / store["events"]
        / 1e-3
        / 1e6,
        "parquet_gb": store["parquet_bytes"] * per_event / 1e9,
        "cache_gb": store["cache_bytes"] * per_event / 1e9,
        "verifying": MANY_EVENTS / rates["read"]["events_per_second"],
        "building_cache": MANY_EVENTS / rates["cache"]["events_per_second"],
        "opening": listing["seconds_opened"] * MOST_PARTS / listing["parts"],
        "looking_each": listing["seconds_share_nothing_missing"] * MOST_PARTS / listing["parts"],
        "tasks_per_second_needed": MANY_WORKERS / (part_events * 1e-3),
        "tasks_per_second_dask": tasks["dask"],
        "fastest_part_seconds_dask": MANY_WORKERS / tasks["dask"],
        "epoch": MANY_EVENTS / speed["events_per_second"]["file"],
    }


def select(rows: Sequence[Row], **key: object) -> list[Row]:
    """The rows with these entries."""
    return [row for row in rows if key.items() <= row.items()]


# Tables -------------------------------------------------------------------------------------------


def percent(value: float | None) -> str:
    """With one digit, or nothing."""
    return "" if value is None else f"{100 * value:.1f}%"


def print_engines(rows: Sequence[Row]) -> None:
    """One table for each simulator."""
    for name in dict.fromkeys(row["simulator"] for row in rows):
        group = select(rows, simulator=name)
        loads = ", ".join(f"{row['load']:.1f}" for row in group)
        print(f"\n{name}, {group[0]['events']:,} events, {len(group)} rounds, load {loads}")
        heads = ("events/s", "overhead", "beside bare", "CPU", "efficiency", "start, s")
        print(f"  {'':14}{''.join(f'{head:>13}' for head in heads)}")
        for way, found in compare_engines(group).items():
            texts = (
                f"{found['rate']:,.0f}",
                percent(found["overhead"]),
                percent(found["beside"]),
                percent(found["cpu"]),
                f"{found['efficiency']:.2f}",
                f"{found['startup']:.1f}",
            )
            print(f"  {way:14}{''.join(f'{text:>13}' for text in texts)}")


def list_goals(rows: Sequence[Row]) -> Iterator[tuple[str, float, float, bool]]:
    """What must hold, as far as it was measured: name, value, limit and whether it is met."""
    engines = select(rows, kind="engines")
    for name in ("busy 1 ms", "sleep 1 ms"):
        group = select(engines, simulator=name)
        for way in ("pool 1", "dask 1", "pool 2", "dask 2") if group else ():
            value = compare_engines(group)[way]["beside"]
            yield f"{name}, {way}: beside bare", value, LARGEST_OVERHEAD, value < LARGEST_OVERHEAD
    if group := select(engines, simulator="Pythia"):
        value = compare_engines(group)["pool 2"]["efficiency"]
        good = value >= SMALLEST_EFFICIENCY
        yield "Pythia, pool 2: efficiency", value, SMALLEST_EFFICIENCY, good
    for row in select(rows, kind="store"):
        value = row["seconds_opened"]
        yield "opening a store, s", value, LONGEST_OPENING, value < LONGEST_OPENING
    for row in select(rows, kind="training", part="memory"):
        value, limit = row["fit_above_baseline_mb"], large.LARGEST_MEMORY_MB
        yield "training, MB above the baseline", value, limit, value <= limit
    for row in select(rows, kind="training", part="speed"):
        value, limit = row["slowdown"], large.LARGEST_SLOWDOWN
        yield "epoch, store / memory", value, limit, value <= limit
    for row in select(rows, kind="training", part="limited"):
        value = row["file_mb"] / row["allowed_mb"]
        yield "trained from, in what was allowed", value, 10.0, value >= 10.0


def print_tables(rows: Sequence[Row]) -> None:
    """Everything that was measured, and what is missed."""
    for row in select(rows, kind="tasks"):
        print(f"{row['engine']:6} {row['tasks_per_second']:8,.0f} tasks in a second, two workers")
    print_engines(select(rows, kind="engines"))
    for row in select(rows, kind="store"):
        print(f"\nstore of {row['events']:,} events, {row['parts']} parts, load {row['load']:.1f}")
        print(f"  open {row['seconds_opened']:.3f} s, again {row['seconds_mapped_again']:.3f} s")
        for name, rate in compare_store(row).items():
            told = f"{rate['mb_per_second']:8.0f} MB/s {rate['events_per_second']:12,.0f} events/s"
            print(f"  {name:8}{told}  {rate['mb_per_cpu_second']:8.0f} MB in a CPU second")
    kinds = {row["kind"] for row in rows} | {row.get("part") for row in rows}
    if {"store", "listing", "tasks", "speed"} <= kinds:
        print(f"\non paper: {MANY_EVENTS:,} events, {MANY_WORKERS:,} workers")
        for name, value in extrapolate(rows).items():
            print(f"  {name:28}{value:12.4g}")
    print()
    for name, value, limit, good in list_goals(rows):
        print(f"  {name:36}{value:10.4g}  {limit:8g}  {'met' if good else 'MISSED'}")


def read_arguments(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=3, help="of engines")
    parser.add_argument("--rows", type=int, default=10_000_000, help="events in the store")
    parser.add_argument("--compared", type=int, default=1_000_000, help="events of timed epochs")
    parser.add_argument("--repeats", type=int, default=3, help="of timed epochs")
    parser.add_argument(
        "--limited-rows", type=int, default=38_100_000, help="events in a store ..."
    )
    parser.add_argument("--allowed", type=float, help="... of ten times so many megabytes")
    parser.add_argument("--folder", type=Path, help="of the store (default: a temporary one)")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    options = parser.parse_args(line)
    options.scale, options.parts = 1.0, MOST_PARTS
    if options.quick:
        options.rows, options.compared, options.repeats, options.rounds = 300_000, 250_000, 1, 1
        options.scale, options.parts, options.limited_rows = 0.1, 200, options.rows
        options.allowed = options.allowed or 400.0
    if options.allowed is None:
        # float32 observables, float64 parameters
        options.allowed = (
            options.limited_rows * (4 * large.COLUMNS + 8 * large.PARAMETERS) / 10 / 1e6
        )
    return options


def measure(log: Log, options: argparse.Namespace) -> None:
    """Everything that is missing."""
    only = options.only
    if "tasks" in only:
        count = round(2000 * options.scale)
        for engine in ("pool", "dask"):
            key = {"kind": "tasks", "engine": engine}
            log.row(key, lambda engine=engine: measure_tasks(engine, count))
    if "listing" in only:
        key = {"kind": "listing", "parts": options.parts}
        log.row(key, lambda: measure_listing(options.folder, options.parts))
    if "store" in only:
        key = {"kind": "store", "events": options.rows}
        log.row(key, lambda: measure_store(options.folder, options.rows))
    if "engines" in only:
        cases = list(list_cases(options.scale))
        for number in range(options.rounds):
            for case in cases:
                key = {"kind": "engines", "simulator": case.name, "round": number}
                log.row(key, lambda case=case: measure_engines(case))
    if "training" in only:
        for part in ("limited", "speed", "memory"):
            rows = options.limited_rows if part == "limited" else options.rows
            key = {"kind": "training", "part": part, "events": rows}
            log.row(key, lambda part=part: measure_training(options, part))


def main() -> int:
    """Measure what is missing; the exit status tells whether all goals are met."""
    options = read_arguments()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        out = Path(temporary) / "quick.json" if options.quick else options.out
        if options.folder is None or options.quick:
            options.folder = Path(temporary)
        log = Log(out, fresh=options.fresh, hidden=("seconds", "startup", "cpu", "cpu_seconds_fit"))
        measure(log, options)
    print_tables(log.rows)
    return 0 if all(good for *_, good in list_goals(log.rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
