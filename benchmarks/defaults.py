"""What default fits cost and how wrong they are, on five toys and from few to many events.

    python benchmarks/defaults.py fits                       this checkout, as "after"
    python benchmarks/defaults.py fits --checkout FOLDER     another one, as "before"
    python benchmarks/defaults.py peers                      sbi's NRE_B with its defaults
    python benchmarks/defaults.py efforts                    fits with less and with more effort
    python benchmarks/defaults.py timings --checkout FOLDER  both in turns on the Dirichlet
    python benchmarks/defaults.py table                      what was measured, after / before
    python benchmarks/defaults.py join FILE…                 rows measured on other machines
    python benchmarks/defaults.py                            fits, peers and table

The toys are the Dirichlet (θ on [0.1, 5.4]³), the ring, the one with 12 parameters, Poisson counts
and the peak on a falling spectrum, with 1,000, 3,000, 20,000, 30,000 and 100,000 events and three
seeds (one at 100,000). Each fit is `ist.fit(events, seed=…)` in a process of its own, which
compiles everything anew, and gets the events and the points, never the truth. Seconds are those of
the fit, wall time and CPU time of all threads, without imports. sbi gets the same events.

The errors, at 20,000 events x ~ p(x | θ) of a fixed seed, θ uniform on the box of the fit; on the
Dirichlet uniform on [0.5, 5]³, where the paper evaluates it:

    score    mean squared error of a component of the score at (x, θ) over its mean square, averaged
    far      Σ(l̂ − l)² / Σ(l − mean l)² of l = ln p(x; θ)/p(x; θ'), θ' uniform on the same box
    within   the same, only over the pairs with |l| < 10
    near     the same as far, θ' uniform within a tenth of the box on either side of θ, folded at
             its walls
    score_squared, far_squared    the mean squared errors themselves, in no units

A version is judged by `score` and by one error of ln r: `within` on the ring and with 12
parameters, where l reaches hundreds, `far` elsewhere. A cell of the comparison is one of these
errors for one toy and one number of events; its ratio after / before is the geometric mean over the
seeds that both versions have, of which both saw the same events. The aim: a geometric mean over all
cells of at most 1, none above 1.25; on the ring and with 12 parameters `within` falls with events
and is at most 0.03 and 0.10 at 30,000.

Fits of every effort are made on the toys of the peers, twice in two processes: one that keeps its
compiled programs in an empty folder, and one that finds them there. `seconds` are those of the
first, `warm_seconds` those of the second.

Rows are in `benchmarks/results/defaults.json`, those of `timings` in `defaults-timings.json`;
what is there is not measured again, unless with `--fresh`, which forgets the rows asked for.
"""

import argparse
import json
import os
import queue
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

# The processes that train share a GPU with this one, which hardly uses it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

from exact_errors import PAPER_BOX, TOYS, ExactToy, log_ratio_error, score_error
from peers.answers import predict
from record import RESULTS, Log, processor
from workers import ROOT, ask_checkout, ask_peer

DIRICHLET: Final = "Dirichlet, 3 parameters"
RING: Final = "ring"
MANY: Final = "12 parameters"
MEASURED: Final = (
    DIRICHLET,
    RING,
    MANY,
    "Poisson counts (discrete)",
    "peak on a falling spectrum",
)
EVENTS: Final = (1_000, 3_000, 20_000, 30_000, 100_000)
#: From here on one seed is enough, and all that time allows.
ONE_SEED_FROM: Final = 100_000
PEER: Final = "sbi NRE_B"
PEER_TOYS: Final = (DIRICHLET, RING)
PEER_EVENTS: Final = (3_000, 30_000)
EFFORTS: Final = (0.1, 1.0, 4.0)
TIMED_EVENTS: Final = (1_000, 20_000, 100_000)
#: Events at which errors are measured.
TESTED: Final = 20_000
#: Below which |ln r| counts for `within`: larger ones matter to nobody.
WITHIN: Final = 10.0
#: How far near pairs lie apart at most, in widths of the box.
NEAR: Final = 0.1
#: The largest `within` at 30,000 events.
AIMS: Final = {RING: 0.03, MANY: 0.10}
#: The largest ratio after / before of a cell.
WORST: Final = 1.25

Row = dict[str, Any]


# --------------------------------------------------------- events, points and errors


def draw_events(name: str, count: int, seed: int) -> dict[str, np.ndarray]:
    """Events and their box, from NumPy alone, so that no version of the library changes them."""
    toy, box = TOYS[name]
    low, high = np.array(box, np.float64)
    rng = np.random.default_rng([1, count, seed])
    theta = rng.uniform(low, high, (count, len(low)))
    return {"x": toy(theta, rng), "theta": theta, "low": low, "high": high}


@lru_cache(maxsize=len(MEASURED))
def draw_points(name: str) -> dict[str, np.ndarray]:
    """Where the score, far and near ln r are asked for."""
    toy, box = TOYS[name]
    low, high = np.array(PAPER_BOX if name == DIRICHLET else box, np.float64)
    rng = np.random.default_rng(2)
    theta, far = rng.uniform(low, high, (2, TESTED, len(low)))
    x = toy(theta, rng)
    shift = NEAR * (high - low) * rng.uniform(-1, 1, theta.shape)
    near = fold(theta + shift, low, high)
    return {
        "score/x": x,
        "score/theta": theta,
        **{"far/x": x, "far/theta0": theta, "far/theta1": far},
        **{"near/x": x, "near/theta0": theta, "near/theta1": near},
    }


def fold(theta: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Points beyond a wall, mirrored at it."""
    above = low + np.abs(theta - low)
    return high - np.abs(high - above)


@lru_cache(maxsize=len(MEASURED))
def find_truth(name: str) -> dict[str, np.ndarray]:
    """The exact answers at these points."""
    return predict(ExactToy(TOYS[name][0]), draw_points(name))


def find_errors(name: str, found: dict[str, np.ndarray]) -> dict[str, float]:
    """The errors of what was predicted at the points of a toy."""
    truth = find_truth(name)
    return {
        "score": score_error(found["score"], truth["score"]),
        "far": log_ratio_error(found["far"], truth["far"]),
        "within": log_ratio_error(found["far"], truth["far"], within=WITHIN),
        "near": log_ratio_error(found["near"], truth["near"]),
        "score_squared": float(np.mean((found["score"] - truth["score"]) ** 2)),
        "far_squared": float(np.mean((found["far"] - truth["far"]) ** 2)),
    }


def judged_errors(name: str) -> tuple[str, str]:
    """The errors by which versions are compared."""
    return "score", "within" if name in AIMS else "far"


# --------------------------------------------------------- measuring

#: A worker by its version: a checkout, or another package.
Ask = Callable[..., dict[str, np.ndarray]]


def measure(ask: Ask, toy: str, events: int, seed: int, cores: Sequence[int] = ()) -> Row:
    """One training: times, errors, and what was chosen."""
    given = draw_events(toy, events, seed) | draw_points(toy)
    answer = ask(given, seed, cores)
    found = {name.partition("/")[2]: answer.pop(name) for name in list(answer) if "/" in name}
    about = {name: value.tolist() for name, value in answer.items()}
    return find_errors(toy, found) | about | {"device": about.get("accelerator") or processor()}


def list_cells(
    version: str, toys: Sequence[str], events: Sequence[int], seeds: Sequence[int]
) -> list[Row]:
    """The keys of the rows, few events first, so that an interrupted run has a whole table."""
    return [
        {"version": version, "toy": toy, "events": count, "seed": seed}
        for seed in seeds
        for count in sorted(events)
        for toy in toys
        if count < ONE_SEED_FROM or seed == min(seeds)
    ]


def measure_all(
    log: Log,
    cells: Sequence[Row],
    measure_one: Callable[[Row, Sequence[int]], Row],
    options: argparse.Namespace,
) -> None:
    """The missing rows, by several processes; none starts after `--minutes`, failures come last."""
    if options.fresh:
        log.rows = [row for row in log.rows if not any(c.items() <= row.items() for c in cells)]
    ends = time.monotonic() + 60 * options.minutes
    slots: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    for slot in share_cores(options.processes, options.cores):
        slots.put(slot)

    def work(cell: Row) -> Row | None:
        if time.monotonic() > ends:
            return None
        cores = slots.get()
        try:
            return measure_one(cell, cores)
        finally:
            slots.put(cores)

    failed, late = [], 0
    with ThreadPoolExecutor(options.processes) as pool:
        jobs = {pool.submit(work, cell): cell for cell in cells if not log.has(cell)}
        for done in as_completed(jobs):
            if done.exception() is not None:
                failed.append(f"{jobs[done]}: {done.exception()}")
            elif (row := done.result()) is None:
                late += 1
            else:
                log.add(jobs[done] | row)
    if late:
        print(f"{late} rows are still missing after {options.minutes:g} minutes; run it again.")
    if failed:
        raise SystemExit("\n\n".join(failed))


def share_cores(processes: int, cores: int) -> list[list[int]]:
    """The cores of each process, or none where they are not confined."""
    if cores == 0:
        return [[]] * processes
    every = sorted(os.sched_getaffinity(0))
    if processes * cores > len(every):
        raise SystemExit(
            f"{processes} processes of {cores} cores need {processes * cores}, and there are "
            f"{len(every)}: give fewer --processes or --cores."
        )
    return [every[i * cores : (i + 1) * cores] for i in range(processes)]


def ask_for(options: argparse.Namespace) -> tuple[str, Ask]:
    """The version that is measured, by its name, and its worker."""
    checkout = options.checkout
    version = options.version or ("after" if checkout is None else "before")
    return version, partial(ask_checkout, ROOT if checkout is None else checkout.absolute())


def run_fits(options: argparse.Namespace) -> None:
    """Default fits of a checkout."""
    version, ask = ask_for(options)
    commit = commit_of(options.checkout or ROOT)
    cells = list_cells(version, chosen_toys(options), options.events or EVENTS, chosen(options))

    def one(cell: Row, cores: Sequence[int]) -> Row:
        return measure(ask, cell["toy"], cell["events"], cell["seed"], cores) | {"commit": commit}

    measure_all(Log(options.out, fresh=False), cells, one, options)


def run_peers(options: argparse.Namespace) -> None:
    """sbi's defaults on the same events."""
    toys = [toy for toy in chosen_toys(options) if toy in PEER_TOYS]
    cells = list_cells(PEER, toys, options.events or PEER_EVENTS, chosen(options))
    ask = partial(ask_peer, "sbi-nre-b")

    def one(cell: Row, cores: Sequence[int]) -> Row:
        return measure(ask, cell["toy"], cell["events"], cell["seed"], cores)

    measure_all(Log(options.out, fresh=False), cells, one, options)


def run_efforts(options: argparse.Namespace) -> None:
    """From a quick look to the most thorough fit, without and with kept programs."""
    toys = [toy for toy in chosen_toys(options) if toy in PEER_TOYS]
    commit = commit_of(ROOT)
    efforts = {f"effort {effort:g}": effort for effort in options.efforts}
    cells = [
        cell
        for version in efforts
        for cell in list_cells(version, toys, options.events or EVENTS, chosen(options))
    ]

    def one(cell: Row, cores: Sequence[int]) -> Row:
        with tempfile.TemporaryDirectory() as programs:
            ask = partial(ask_checkout, ROOT, effort=efforts[cell["version"]], programs=programs)
            first, again = (
                measure(ask, cell["toy"], cell["events"], cell["seed"], cores) for _ in range(2)
            )
        warm = {f"warm_{name}": again[name] for name in ("seconds", "cpu_seconds")}
        return first | warm | {"cores": len(cores) or os.cpu_count(), "commit": commit}

    measure_all(Log(options.out, fresh=False), cells, one, options)


def run_timings(options: argparse.Namespace) -> None:
    """Both checkouts in turns, one at a time, on the same events; every other round backwards."""
    if options.checkout is None:
        raise SystemExit("timings needs --checkout, the folder of the version before.")
    sides = {"before": options.checkout.absolute(), "after": ROOT}
    out = options.out.with_name(f"{options.out.stem}-timings.json")
    cells = [
        {"version": version, "events": events, "round": number}
        for number in range(options.rounds)
        for events in options.events or TIMED_EVENTS
        for version in (list(sides) if number % 2 == 0 else list(sides)[::-1])
    ]

    def one(cell: Row, cores: Sequence[int]) -> Row:
        ask = partial(ask_checkout, sides[cell["version"]])
        return measure(ask, DIRICHLET, cell["events"], 0, cores)

    options.processes = 1
    log = Log(out, fresh=False)
    measure_all(log, cells, one, options)
    print_timings(log.rows)


def chosen_toys(options: argparse.Namespace) -> list[str]:
    """The toys whose name contains `--only`."""
    toys = [toy for toy in MEASURED if options.only is None or options.only in toy]
    if not toys:
        raise SystemExit(f"--only {options.only!r} is in none of: {'; '.join(MEASURED)}.")
    return toys


def chosen(options: argparse.Namespace) -> list[int]:
    """The seeds."""
    return list(range(options.seeds))


def commit_of(checkout: Path) -> str:
    """The commit, and whether files were changed since; empty where git cannot tell."""
    line = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# --------------------------------------------------------- telling


def select(rows: Sequence[Row], **key: Any) -> list[Row]:  # noqa: ANN401
    """The rows with this key."""
    return [row for row in rows if key.items() <= row.items()]


def geometric_mean(values: Sequence[float]) -> float:
    """NaN where there are none, or one is NaN."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def compare(old: Sequence[Row], new: Sequence[Row], name: str) -> float:
    """The geometric mean of new / old over the seeds of both; NaN without one."""
    before = {row["seed"]: row[name] for row in old}
    pairs = [row[name] / before[row["seed"]] for row in new if row["seed"] in before]
    return geometric_mean(pairs)


def list_ratios(rows: Sequence[Row], before: str, after: str) -> dict[tuple[str, int, str], float]:
    """Every cell that both versions have, with its ratio."""
    ratios = {}
    for toy, events in both_keys(rows):
        old, new = (select(rows, version=v, toy=toy, events=events) for v in (before, after))
        if {row["seed"] for row in old} & {row["seed"] for row in new}:
            for name in judged_errors(toy):
                ratios[toy, events, name] = compare(old, new, name)
    return ratios


def both_keys(rows: Sequence[Row]) -> Iterator[tuple[str, int]]:
    """Toys and numbers of events that were measured, in the order of the documentation."""
    for toy in MEASURED:
        for events in sorted({row["events"] for row in select(rows, toy=toy)}):
            yield toy, events


def list_rises(rows: Sequence[Row], version: str) -> list[tuple[str, str, int, float]]:
    """Where an error is larger than with the next fewer events: toy, error, events, ratio."""
    rises = []
    for toy in MEASURED:
        for name in judged_errors(toy):
            of_toy = select(rows, version=version, toy=toy)
            counts = sorted({row["events"] for row in of_toy})
            values = [geometric_mean([r[name] for r in select(of_toy, events=n)]) for n in counts]
            for i in range(1, len(counts)):
                # So written that NaN counts as a rise.
                if not values[i] <= values[i - 1]:
                    rises.append((toy, name, counts[i], values[i] / values[i - 1]))
    return rises


def print_table(rows: Sequence[Row], before: str, after: str) -> None:
    """Seconds and errors of the versions, then what the comparison comes to."""
    print(
        "\nSeconds are medians over seeds, errors geometric means; ln r: within or far, see --help"
    )
    heads = ("seeds", "wall s", "CPU s", "score", "ln r", "near", "score²", "far²")
    print(f"{'toy':28}{'events':>8}  {'version':12}" + "".join(f"{head:>10}" for head in heads))
    for toy, events in both_keys(rows):
        for version in (before, after, PEER):
            found = select(rows, version=version, toy=toy, events=events)
            if not found:
                continue
            seconds = [np.median([r[k] for r in found]) for k in ("seconds", "cpu_seconds")]
            names = (*judged_errors(toy), "near", "score_squared", "far_squared")
            errors = [geometric_mean([row[name] for row in found]) for name in names]
            numbers = "".join(f"{value:10.1f}" for value in seconds)
            numbers += "".join(f"{value:10.3g}" for value in errors)
            print(f"{toy:28}{events:8d}  {version:12}{len(found):10d}{numbers}")
    print_comparison(list_ratios(rows, before, after), before, after)
    print_efforts(rows)
    for toy, name, events, ratio in list_rises(rows, after):
        print(f"more events did not help: {toy}, {name}, × {ratio:.2f} at {events:,}")
    for toy, aim in AIMS.items():
        found = select(rows, version=after, toy=toy, events=30_000)
        if found:
            value = geometric_mean([row["within"] for row in found])
            print(f"{toy} at 30,000 events: {value:.4f} (at most {aim:g})")


def print_efforts(rows: Sequence[Row]) -> None:
    """What every effort costs and gains, beside the peer."""
    versions = [*(f"effort {effort:g}" for effort in EFFORTS), PEER]
    print(f"\n{'toy':28}{'events':>8}  {'version':12}{'first s':>9}{'warm s':>9}", end="")
    print(f"{'score':>9}{'ln r':>9}   medians and geometric means over seeds")
    for toy, events in both_keys([row for row in rows if row["version"] in versions]):
        for version in versions:
            found = select(rows, version=version, toy=toy, events=events)
            if not found:
                continue
            first = np.median([row["seconds"] for row in found])
            warm = np.median([row.get("warm_seconds", row["seconds"]) for row in found])
            errors = [geometric_mean([row[name] for row in found]) for name in judged_errors(toy)]
            numbers = f"{first:9.1f}{warm:9.1f}" + "".join(f"{error:9.3g}" for error in errors)
            print(f"{toy:28}{events:8d}  {version:12}{numbers}")


def print_comparison(ratios: dict[tuple[str, int, str], float], before: str, after: str) -> None:
    """Every cell, their geometric mean and the worst."""
    if not ratios:
        print(f"\nNo cell has both {before!r} and {after!r}.")
        return
    print(f"\nErrors, {after} / {before}")
    for (toy, events, name), ratio in ratios.items():
        mark = "" if ratio <= WORST else f"   above {WORST:g}"
        print(f"{toy:28}{events:8d}  {name:8}{ratio:8.3f}{mark}")
    values = list(ratios.values())
    worst = list(ratios)[int(np.argmax(values))]
    mean = geometric_mean(values)
    print(f"geometric mean of {len(values)} cells: {mean:.3f} (at most 1)")
    print(f"worst: {max(values):.3f}, {worst[0]}, {worst[1]:,} events, {worst[2]}")


def print_timings(rows: Sequence[Row]) -> None:
    """Medians of each side, and the median of the ratios of each round."""
    for events in sorted({row["events"] for row in rows}):
        for kind in ("seconds", "cpu_seconds"):
            sides = [
                {row["round"]: row[kind] for row in select(rows, version=v, events=events)}
                for v in ("before", "after")
            ]
            rounds = sides[0].keys() & sides[1].keys()
            if rounds:
                old, new = (np.median([side[r] for r in rounds]) for side in sides)
                ratio = np.median([sides[1][r] / sides[0][r] for r in rounds])
                what = f"{events:8d} events  {kind:12}"
                print(f"{what} {old:8.1f} → {new:8.1f}   × {ratio:.3f}  ({len(rounds)} rounds)")


def join(options: argparse.Namespace) -> None:
    """Add the rows of other files that are missing here."""
    log = Log(options.out, fresh=False)
    for path in options.files:
        for row in json.loads(path.read_text())["rows"]:
            if not log.has({k: row[k] for k in ("version", "toy", "events", "seed")}):
                log.add(row)


def tell(options: argparse.Namespace) -> None:
    """The table of all rows."""
    print_table(Log(options.out, fresh=False).rows, options.before, options.after)


def run_everything(options: argparse.Namespace) -> None:
    """Fits, peers and the table."""
    run_fits(options)
    run_peers(options)
    tell(options)


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    "all": run_everything,
    "fits": run_fits,
    "peers": run_peers,
    "efforts": run_efforts,
    "timings": run_timings,
    "table": tell,
    "join": join,
}


def read_arguments(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="all")
    parser.add_argument("files", nargs="*", type=Path, help="for join: other files of rows")
    parser.add_argument("--checkout", type=Path, help="measure the library of another checkout")
    parser.add_argument("--version", help="name of what is measured; default after, or before")
    parser.add_argument("--only", help="only toys whose name contains this")
    parser.add_argument("--events", type=int, nargs="+", help="only these numbers of events")
    parser.add_argument("--efforts", type=float, nargs="+", default=EFFORTS, help="of efforts")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="of timings")
    parser.add_argument("--processes", type=int, default=1, help="fits at a time")
    parser.add_argument("--cores", type=int, default=0, help="cores of each fit; default: all")
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which none starts")
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.json")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is asked for")
    parser.add_argument("--before", default="before", help="version that the table divides by")
    parser.add_argument("--after", default="after", help="version that the table judges")
    return parser.parse_intermixed_args(line)


def main() -> None:
    """Run the command."""
    options = read_arguments()
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main()
