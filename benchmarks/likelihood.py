"""What a learned likelihood costs and what it finds, in two versions of the library.

    python benchmarks/likelihood.py compare --before FOLDER   both in turns, then the table
    python benchmarks/likelihood.py compare                   this checkout alone
    python benchmarks/likelihood.py table                     of what was measured
    python benchmarks/likelihood.py models                    train the estimators that are missing
    python benchmarks/likelihood.py make-small                train the small one anew

`--only nuts minos` takes some jobs, `--rounds 3` repeats them, and `--processes 8 --cores 2` runs
eight at a time, each confined to two cores of its own. Rows are kept in `--out` as they come; what
is there is not measured again. A job that takes longer than `--limit` seconds is cut and counts as
that long. A job whose packages are not installed is left out, which is said.

Four estimators: a small potential of the Dirichlet distribution with two members, kept in
`benchmarks/data`; a default fit to 20,000 events of it; one like the former default for few events,
with three members of six blocks, 64 wide, which `--estimator three` puts in the place of the
default fit; and the default for a signal over a background. The last three are trained once and
kept in `benchmarks/.cache`. All seeds are fixed.

    mle          maximum likelihood of 10,000 events in three parameters
    neyman       a confidence set of one parameter at 9 points with 1000 toys each, 100 events;
                 another parameter is profiled and the third is fixed
    nuts         a posterior of three parameters by NUTS, 1000 events
    grid         ln L of 10,000 events at 1000 θ, in float64
    fit          a default training on 10,000 events

and with the default fit, or for the signal:

    nuts3        a posterior of three parameters by NUTS, 1000 events
    upper_limit  CLs limit of a signal with one profiled nuisance parameter, 438 events
    grid2        a posterior of two parameters on a grid, 500 events
    importance   the same by importance resampling
    neyman2      a set of two parameters on the default grid with 200 toys, 500 events
    neyman_one   a set of one parameter of one event with 1000 toys, on the default grid
    neyman_1000  the same of 1000 events
    profile      a scan of 20 values, two parameters profiled, 1000 events
    minos        intervals of three parameters, 1000 events
    contour      a contour of 20 points, one parameter profiled, 1000 events
    singles      posteriors of two parameters for each of 1000 single events

Each job has a process of its own without JAX's cache of compiled programs, so the first call
contains its compilation, and the import of what is loaded on first use. The second call is made
with other events of the same number and should contain neither; long jobs are called once. Loading
the model and drawing the events are not timed. The numbers are those of the first call.

The library of the other checkout is "before" and this one "after"; both run the jobs of this file
with the same estimators. Differences are in units of what they should be small against: an estimate
in its error, the end of a confidence interval in half its width, a posterior mean in the Monte
Carlo standard error of the difference. Where only the random numbers changed, the last is about 1,
and the ends of an interval found with 1000 toys move by 0.03 to 0.1, with 200 toys of two
parameters by 0.1 to 0.2.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import equinox as eqx
import jax
import numpy as np

import inferostatic as ist
import signal_background as sb
from record import RESULTS, Log

ROOT: Final = Path(__file__).parent.parent.absolute()
#: Not called .isn, which git ignores.
MODEL: Final = Path("benchmarks") / "data" / "dirichlet-small.zip"
CACHE: Final = Path(__file__).parent.absolute() / ".cache"
TOY: Final = ist.toys.Dirichlet()
PRIOR: Final = ist.Uniform([0.1] * 3, [5.4] * 3)
#: The θ that the observed events are made at.
TRUTH: Final = (1.5, 3.0, 4.0)
#: Tested values of the first parameter; they reach beyond the sets of level 0.95.
TESTED: Final = np.linspace(1.05, 2.25, 9)
LEVELS: Final = (0.68, 0.95)
GRID_POINTS: Final = 1000

Numbers = dict[str, Any]
Row = dict[str, Any]


# --------------------------------------------------------- the jobs: all that calls the library


def maximum_likelihood(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Estimates, their errors and the largest ln L."""
    found = ist.maximum_likelihood(estimator, x)
    return {
        "theta": found.theta.tolist(),
        "errors": found.errors.tolist(),
        "log_likelihood": found.log_likelihood,
    }


def neyman(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Intervals of the first parameter, and the p-value of every tested point."""
    first, _, third = estimator.theta_names
    likelihood = ist.Likelihood(estimator, x, fixed={third: TRUTH[2]})
    method = ist.Neyman(TOY, toys=1000)
    found = ist.confidence_set(likelihood, method, parameters=first, grid=TESTED, seed=5)
    return {
        "intervals": [found.interval(level)[0].tolist() for level in LEVELS],
        "p_values": found.p_value.tolist(),
    }


def nuts(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Posterior mean and standard deviation, and the Monte Carlo standard error of the mean."""
    found = ist.posterior(estimator, x, method=ist.NUTS(draws=1000, chains=2), seed=6)
    return {
        "mean": found.mean.tolist(),
        "sd": found.std.tolist(),
        "mcse": (found.std / np.sqrt(found.sampling.ess)).tolist(),
    }


def grid(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """ln L at points of the prior."""
    thetas = PRIOR.sample(GRID_POINTS, seed=7)
    values = ist.Likelihood(estimator, x).values(thetas)
    return {"sha256": sha256(values), "values": values.tolist()}


def nuts3(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """The same with the default numbers of draws and chains."""
    return moments(ist.posterior(estimator, x, method=ist.NUTS(), seed=6))


def moments(found: Any) -> Numbers:  # noqa: ANN401
    """Mean and standard deviation of the free parameters, with the Monte Carlo standard error."""
    free = found.std > 0
    mcse = found.std / np.sqrt(found.sampling.ess)
    return {
        "mean": found.mean[free].tolist(),
        "sd": found.std[free].tolist(),
        "mcse": mcse[free].tolist(),
    }


def two_parameters(estimator: ist.Estimator, x: np.ndarray) -> ist.Likelihood:
    """The third is fixed."""
    return ist.Likelihood(estimator, x, fixed={estimator.theta_names[2]: TRUTH[2]})


def grid2(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Posterior mean and standard deviation, integrated to 0.001 of the latter."""
    found = moments(ist.posterior(two_parameters(estimator, x), method=ist.Grid(), seed=6))
    return found | {"mcse": (0.001 * np.array(found["sd"])).tolist()}


def importance(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    return moments(ist.posterior(two_parameters(estimator, x), method=ist.Importance(), seed=6))


def neyman2(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Hulls of both parameters."""
    method = ist.Neyman(TOY, toys=200)
    found = ist.confidence_set(two_parameters(estimator, x), method, seed=5)
    return {"intervals": [found.hull(level).tolist() for level in LEVELS]}


def neyman_default(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Intervals of the first parameter, the others fixed."""
    first, *others = estimator.theta_names
    fixed = dict(zip(others, TRUTH[1:], strict=True))
    likelihood = ist.Likelihood(estimator, x, fixed=fixed)
    found = ist.confidence_set(likelihood, ist.Neyman(TOY, toys=1000), seed=5)
    return {"intervals": [found.interval(level)[0].tolist() for level in LEVELS], "first": first}


def upper_limit(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Observed and expected limits."""
    likelihood = ist.Likelihood(estimator, x, fixed={"M": sb.MASS})
    found = ist.upper_limit(likelihood, "mu", ist.CLs(simulator=sb.simulator), seed=1)
    return {"limits": [found.observed, *found.expected.tolist()]}


def profile(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """−2 ln λ within three standard errors of the first parameter."""
    found = ist.maximum_likelihood(estimator, x)
    values = found.theta[0] + np.linspace(-3, 3, 20) * found.errors[0]
    return {"q": found.profile(estimator.theta_names[0], values).q.tolist()}


def minos(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Intervals of all parameters."""
    return {"intervals": ist.maximum_likelihood(estimator, x).interval().tolist()}


def contour(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """A curve of the first two parameters."""
    found = ist.maximum_likelihood(estimator, x)
    first, second, _ = estimator.theta_names
    curve = found.contour(first, second, points=20)
    return {"curve": curve.tolist(), "errors": found.errors[:2].tolist()}


def singles(estimator: ist.Estimator, x: np.ndarray) -> Numbers:
    """Means and standard deviations of all posteriors."""
    fixed = {estimator.theta_names[2]: TRUTH[2]}
    found = [ist.posterior(ist.Likelihood(estimator, row, fixed=fixed), seed=6) for row in x]
    sd = np.array([one.std[:2] for one in found])
    mean = np.array([one.mean[:2] for one in found])
    return {"mean": mean.tolist(), "sd": sd.tolist(), "mcse": (0.001 * sd).tolist()}


def fit(events: ist.Events) -> Numbers:
    """The weights, as a hash, and the score of some events."""
    estimator = ist.fit(events, seed=8)
    score = estimator.score(events.x[:5], events.theta[:5])
    return {"weights": weights_hash(estimator), "score": score.tolist()}


def make_model(path: Path) -> None:
    """Train the estimator of the jobs: like the default for many events, but small."""
    training = ist.Training(epochs=20, centre=True)
    events = ist.simulate(TOY, PRIOR, 20_000, seed=1)
    estimator = ist.fit(events, network=ist.Residual(32), members=2, training=training, seed=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    estimator.save(path)
    print(f"{estimator}\nWritten to {path}, {path.stat().st_size / 1000:.0f} kB")


def weights_hash(estimator: ist.Estimator) -> str:
    """Equal only where all weights are, bit by bit."""
    return sha256(*jax.tree.leaves(eqx.filter(estimator.model, eqx.is_array)))


# --------------------------------------------------------- differences, in units that matter


def mle_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    return {
        "estimate, in errors": largest(before, after, "theta", before["errors"]),
        "error, relative": largest(before, after, "errors", before["errors"]),
        "ln L": largest(before, after, "log_likelihood", 1.0),
    }


def neyman_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    half_widths = np.diff(before["intervals"], axis=1) / 2
    return {
        "interval end, in half widths": largest(before, after, "intervals", half_widths),
        "p-value": largest(before, after, "p_values", 1.0),
    }


def nuts_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    mcse = np.hypot(before["mcse"], after["mcse"])
    return {
        "mean, in MCSE": largest(before, after, "mean", mcse),
        # That of a standard deviation is smaller by √2 for a Gaussian posterior.
        "sd, in MCSE": largest(before, after, "sd", mcse / np.sqrt(2)),
    }


def interval_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    half_widths = np.diff(before["intervals"], axis=-1) / 2
    return {"interval end, in half widths": largest(before, after, "intervals", half_widths)}


def limit_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    # Half the width of the central 68 % of expected limits is one standard error of the parameter.
    error = (before["limits"][4] - before["limits"][2]) / 2
    return {"limit, in standard errors": largest(before, after, "limits", error)}


def profile_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    return {"−2 ln λ": largest(before, after, "q", 1.0)}


def contour_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    return {"point, in errors": largest(before, after, "curve", before["errors"])}


def grid_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    return {"ln L": largest(before, after, "values", 1.0)}


def fit_differences(before: Numbers, after: Numbers) -> dict[str, float]:
    return {
        "weights (0 where identical)": float(before["weights"] != after["weights"]),
        "score": largest(before, after, "score", 1.0),
    }


def largest(before: Numbers, after: Numbers, name: str, unit: Any) -> float:  # noqa: ANN401
    """The largest difference of any component."""
    return float(np.max(np.abs(np.subtract(after[name], before[name])) / unit))


# --------------------------------------------------------- measuring


class Job(NamedTuple):
    """Events, what is timed, how its numbers are compared, how often, of what model, with what."""

    events: int
    work: Callable[..., Numbers]
    differences: Callable[[Numbers, Numbers], dict[str, float]]
    calls: int = 2
    model: str = "small"
    needs: tuple[str, ...] = ()


#: Packages of the frequentist fits.
FITS: Final = ("iminuit",)
#: Packages of sampled posteriors.
CHAINS: Final = ("blackjax", "arviz")

JOBS: Final = {
    "mle": Job(10_000, maximum_likelihood, mle_differences, needs=FITS),
    "neyman": Job(100, neyman, neyman_differences),
    "nuts": Job(1000, nuts, nuts_differences, needs=CHAINS),
    "grid": Job(10_000, grid, grid_differences),
    "fit": Job(10_000, fit, fit_differences, calls=1),
    "nuts3": Job(1000, nuts3, nuts_differences, 1, "default", CHAINS),
    "upper_limit": Job(sb.EVENTS, upper_limit, limit_differences, 1, "signal"),
    "grid2": Job(500, grid2, nuts_differences, 1, "default"),
    "importance": Job(500, importance, nuts_differences, 1, "default"),
    "neyman2": Job(500, neyman2, interval_differences, 1, "default"),
    "neyman_one": Job(1, neyman_default, interval_differences, 1, "default"),
    "neyman_1000": Job(1000, neyman_default, interval_differences, 1, "default"),
    "profile": Job(1000, profile, profile_differences, 1, "default", FITS),
    "minos": Job(1000, minos, interval_differences, 1, "default", FITS),
    "contour": Job(1000, contour, contour_differences, 1, "default", FITS),
    "singles": Job(1000, singles, nuts_differences, 1, "default"),
}


def model_of(kind: str) -> Path:
    """The file of an estimator, trained if it is not there yet."""
    if kind == "small":
        return ROOT / MODEL
    path = CACHE / f"likelihood-{kind}.isn"
    if not path.exists():
        print(f"training the estimator {kind!r}", flush=True)
        CACHE.mkdir(exist_ok=True)
        # Without the options of its training, which another version need not know.
        dataclasses.replace(train(kind), training=None).save(path)
    return path


def train(kind: str) -> ist.Estimator:
    """A default fit, one with the former default's network, or that of the signal."""
    if kind == "signal":
        import trust

        return trust.kept("default-signal")
    if kind == "default":
        return ist.fit(ist.simulate(TOY, PRIOR, 20_000, seed=1), seed=2)
    events, training = ist.simulate(TOY, PRIOR, 1000, seed=1), ist.Training(epochs=30)
    return ist.fit(events, network=ist.Residual(64, 6), members=3, training=training, seed=2)


CALLS: Final = ("first", "second")


def run_job(name: str, model: Path) -> dict[str, Any]:
    """Time the calls of one job in this process."""
    job, estimator = JOBS[name], ist.load(model)
    wall, cpu, numbers = {}, {}, []
    for place, call in enumerate(CALLS[: job.calls]):
        data = inputs(name, estimator, place)
        began, worked = time.perf_counter(), time.process_time()
        numbers.append(job.work(*data))
        wall[call], cpu[call] = time.perf_counter() - began, time.process_time() - worked
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "numbers": numbers[0],
        "model": weights_hash(estimator),
    }


def inputs(name: str, estimator: ist.Estimator, place: int) -> tuple[Any, ...]:
    """What a job is called with, the first or the second time."""
    count = JOBS[name].events
    if name == "fit":
        return (ist.simulate(TOY, PRIOR, count, seed=9),)
    rng = np.random.default_rng(10 + place)
    if name == "upper_limit":
        return estimator, sb.simulator(np.tile([0.0, sb.MASS, sb.SCALE], (count, 1)), rng)
    x = TOY(np.tile(TRUTH, (count, 1)), rng)
    # Rounded as the library does, so that every way to ln L sees the same events.
    return estimator, x.astype(np.float32)


def in_process(checkout: Path, name: str, model: Path, limit: float, cores: Sequence[int]) -> Row:
    """Run a job on the library of a checkout, and read what it wrote."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), os.environ.get("PYTHONPATH", "")]),
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "INFEROSTATIC_PROGRESS": "0",
    }
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        line = [*pinned, sys.executable, "-W", "ignore", str(Path(__file__).absolute()), "job"]
        line += ["--only", name, "--out", str(out), "--model", str(model)]
        try:
            done = subprocess.run(
                line, env=environment, timeout=limit, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return {"cut": True, "seconds": {"first": limit}, "cpu_seconds": {}}
        if done.returncode != 0:
            raise RuntimeError(f"it failed with the library in {checkout}:\n{done.stderr[-3000:]}")
        return {"cut": False} | json.loads(out.read_text())


# --------------------------------------------------------- comparing


def compare(options: argparse.Namespace) -> None:
    """Both checkouts in turns, or this one alone."""
    # Not above: a job of another version may not know all toys of that file.
    from defaults import commit_of, measure_all

    sides = {"after": ROOT}
    if options.before is not None:
        sides = {"before": options.before.absolute()} | sides
    names = [name for name in options.only or JOBS if is_possible(name)]
    models = {kind_of(name, options): model_of(kind_of(name, options)) for name in names}
    log = Log(options.out, fresh=False, hidden=("numbers", "model", "cut"))
    cells: list[Row] = [
        {"job": name, "estimator": kind_of(name, options), "version": version, "round": number}
        for number in range(options.rounds)
        for name in names
        for version in (list(sides) if number % 2 == 0 else list(sides)[::-1])
    ]

    def one(cell: Row, cores: Sequence[int]) -> Row:
        same = {key: cell[key] for key in ("job", "estimator", "version")}
        for row in log.rows:
            if same.items() <= row.items() and row["cut"]:
                return {key: row[key] for key in row if key not in cell}
        checkout, model = sides[cell["version"]], models[cell["estimator"]]
        row = in_process(checkout, cell["job"], model, options.limit, cores)
        return row | {"cores": len(cores) or os.cpu_count(), "commit": commit_of(checkout)}

    measure_all(log, cells, one, options)
    print_table(log.rows)


def kind_of(name: str, options: argparse.Namespace) -> str:
    """The estimator of a job."""
    kind = JOBS[name].model
    return options.estimator if kind == "default" else kind


def is_possible(name: str) -> bool:
    """Whether the packages of a job are installed; says so where not."""
    missing = [package for package in JOBS[name].needs if find_spec(package) is None]
    if missing:
        print(f"{name:12} left out: {' and '.join(missing)} not installed", flush=True)
    return not missing


def print_table(rows: list[Row]) -> None:
    """Medians of the times, then the largest differences in any round."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        sides = groups.setdefault((row["job"], row["estimator"]), {"before": [], "after": []})
        sides[row["version"]].append(row)
    print("\nMedian seconds of the wall and of all cores; after / before below 1 is faster\n")
    print(f"{'job':12} {'estimator':10} {'call':7} {'before':>18} {'after':>18} {'ratio':>7}")
    for (name, kind), sides in groups.items():
        for call in CALLS[: JOBS[name].calls]:
            wall = {side: median(runs, "seconds", call) for side, runs in sides.items()}
            cpu = {side: median(runs, "cpu_seconds", call) for side, runs in sides.items()}
            cells = []
            for side, runs in sides.items():
                cut = "> " if any(run["cut"] for run in runs) else ""
                cell = "-" if np.isnan(wall[side]) else f"{cut}{wall[side]:.2f}"
                cell += "" if np.isnan(cpu[side]) else f" ({cpu[side]:.2f})"
                cells.append(f"{cell:>18}")
            ratio = wall["after"] / wall["before"]
            cut_before, cut_after = (any(run["cut"] for run in runs) for runs in sides.values())
            shown = f"{'< ' if cut_before else ''}{ratio:.3f}"
            shown = "-" if np.isnan(ratio) or cut_after else shown
            print(f"{name:12} {kind:10} {call:7} {' '.join(cells)} {shown:>7}")
    print(f"\n{'job':12} {'estimator':10} {'largest difference':32}")
    for (name, kind), sides in groups.items():
        for what, value in find_differences(JOBS[name], **sides).items():
            print(f"{name:12} {kind:10} {what:32} {value:10.3g}")


def median(runs: list[Row], kind: str, call: str) -> float:
    """Of the runs that got so far, NaN where none did."""
    found = [run[kind][call] for run in runs if call in run[kind]]
    return statistics.median(found) if found else np.nan


def find_differences(job: Job, before: list[Row], after: list[Row]) -> dict[str, float]:
    """The largest differences in any round that both ended."""
    old, new = ({run["round"]: run for run in runs if not run["cut"]} for runs in (before, after))
    both = [(old[number], new[number]) for number in old if number in new]
    if any(one["model"] != other["model"] for one, other in both):
        raise SystemExit("the two checkouts loaded estimators of different weights.")
    each = [job.differences(one["numbers"], other["numbers"]) for one, other in both]
    return {name: max(one[name] for one in each) for name in each[0]} if each else {}


def sha256(*arrays: Any) -> str:  # noqa: ANN401
    """Of the bytes of all arrays, one after the other."""
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()


def write(result: dict[str, Any], path: Path) -> None:
    """As JSON, with every digit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = ("compare", "table", "models", "make-small", "job")
    parser.add_argument("command", choices=commands)
    parser.add_argument("--before", type=Path, help="folder of the other checkout")
    parser.add_argument("--only", choices=JOBS, nargs="+", help="some of the jobs")
    parser.add_argument("--estimator", choices=("default", "three"), default="default")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900, help="seconds of a job, at most")
    parser.add_argument("--processes", type=int, default=1, help="jobs at a time")
    parser.add_argument("--cores", type=int, default=0, help="cores of each job; default: all")
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which none starts")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is asked for")
    parser.add_argument("--out", type=Path, default=RESULTS / "likelihood.json")
    parser.add_argument("--model", type=Path, help="of a job")
    return parser.parse_args()


def main() -> None:
    """Run the command."""
    options = read_arguments()
    if options.command == "make-small":
        make_model(ROOT / MODEL)
    elif options.command == "models":
        for kind in ("default", "three", "signal"):
            print(model_of(kind))
    elif options.command == "job":  # what `compare` starts in a process of its own
        options.out.write_text(json.dumps(run_job(options.only[0], options.model)))
    elif options.command == "table":
        print_table(Log(options.out, fresh=False).rows)
    else:
        compare(options)


if __name__ == "__main__":
    main()
