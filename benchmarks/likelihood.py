"""What a learned likelihood costs and what it finds, in two versions of the library.

    python benchmarks/likelihood.py measure --out FILE.json    all jobs of this checkout
    python benchmarks/likelihood.py compare OTHER_CHECKOUT     both in turns, and the differences
    python benchmarks/likelihood.py make-model                 train the small estimator

`--only nuts` takes one job alone. `compare` keeps what it has measured in its `--out` file and goes
on from there. A call that takes longer than `--limit` seconds is ended and counts as that long.

Three estimators: a small potential of the Dirichlet distribution with two members, kept in
`benchmarks/data`; one like the default for few events, with three members of six blocks, 64 wide;
and the default for a signal over a background. The last two are trained once and kept in
`benchmarks/.cache`. All seeds are fixed.

    mle          maximum likelihood of 10,000 events in three parameters
    neyman       a confidence set of one parameter at 9 points with 1000 toys each, 100 events;
                 another parameter is profiled and the third is fixed
    nuts         a posterior of three parameters by NUTS, 1000 events
    grid         ln L of 10,000 events at 1000 θ, in float64
    fit          a default training on 10,000 events

and with three members, or for the signal:

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

In `compare` the library of the other checkout is "before" and this one "after"; both run the jobs
of this file. Differences are in units of what they should be small against: an estimate in its
error, the end of a confidence interval in half its width, a posterior mean in the Monte Carlo
standard error of the difference. Where only the random numbers changed, the last is about 1, and
the ends of an interval found with 1000 toys move by 0.03 to 0.1, with 200 toys of two parameters
by 0.1 to 0.2.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import equinox as eqx
import jax
import numpy as np

import inferostatic as ist
import signal_background as sb
from exact_errors import WIDE_BOX
from record import RESULTS, made

ROOT: Final = Path(__file__).parent.parent.absolute()
#: Not called .isn, which git ignores.
MODEL: Final = Path("benchmarks") / "data" / "dirichlet-small.zip"
CACHE: Final = Path(__file__).parent.absolute() / ".cache"
TOY: Final = ist.toys.Dirichlet()
PRIOR: Final = ist.Uniform(*WIDE_BOX)
#: The θ that the observed events are made at.
TRUTH: Final = (1.5, 3.0, 4.0)
#: Tested values of the first parameter; they reach beyond the sets of level 0.95.
TESTED: Final = np.linspace(1.05, 2.25, 9)
LEVELS: Final = (0.68, 0.95)
GRID_POINTS: Final = 1000

Numbers = dict[str, Any]


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
    """Events, what is timed, how its numbers are compared, how often, and of what model."""

    events: int
    work: Callable[..., Numbers]
    differences: Callable[[Numbers, Numbers], dict[str, float]]
    calls: int = 2
    model: str = "small"


JOBS: Final = {
    "mle": Job(10_000, maximum_likelihood, mle_differences),
    "neyman": Job(100, neyman, neyman_differences),
    "nuts": Job(1000, nuts, nuts_differences),
    "grid": Job(10_000, grid, grid_differences),
    "fit": Job(10_000, fit, fit_differences, calls=1),
    "nuts3": Job(1000, nuts3, nuts_differences, 1, "three"),
    "upper_limit": Job(sb.EVENTS, upper_limit, limit_differences, 1, "signal"),
    "grid2": Job(500, grid2, nuts_differences, 1, "three"),
    "importance": Job(500, importance, nuts_differences, 1, "three"),
    "neyman2": Job(500, neyman2, interval_differences, 1, "three"),
    "neyman_one": Job(1, neyman_default, interval_differences, 1, "three"),
    "neyman_1000": Job(1000, neyman_default, interval_differences, 1, "three"),
    "profile": Job(1000, profile, profile_differences, 1, "three"),
    "minos": Job(1000, minos, interval_differences, 1, "three"),
    "contour": Job(1000, contour, contour_differences, 1, "three"),
    "singles": Job(1000, singles, nuts_differences, 1, "three"),
}


def model_of(name: str, given: Path | None) -> Path:
    """The estimator of a job, trained if it is not there yet."""
    kind = JOBS[name].model
    if kind == "small":
        return given or ROOT / MODEL
    if kind == "signal":
        import trust

        trust.kept("default-signal")
        return CACHE / "trust-default-signal.isn"
    path = CACHE / "likelihood-three.isn"
    if not path.exists():
        events = ist.simulate(TOY, PRIOR, 1000, seed=1)
        training = ist.Training(epochs=30)
        estimator = ist.fit(
            events, network=ist.Residual(64, 6), members=3, training=training, seed=2
        )
        CACHE.mkdir(exist_ok=True)
        estimator.save(path)
    return path


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


def measure(names: list[str], model: Path | None, out: Path, limit: float) -> None:
    """Each job of this checkout in a process of its own, written as it is done."""
    jobs = {}
    for name in names:
        jobs[name] = in_process(ROOT, name, model_of(name, model), limit)
        seconds = "  ".join(f"{call} {s:.2f} s" for call, s in jobs[name]["seconds"].items())
        print(f"{name:12} {seconds}", flush=True)
        write({"made": made(), "jobs": jobs}, out)


def in_process(checkout: Path, name: str, model: Path, limit: float) -> dict[str, Any]:
    """Run a job on the library of a checkout, and read what it wrote."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"),
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "INFEROSTATIC_PROGRESS": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        line = [sys.executable, str(Path(__file__).absolute()), "job", "--only", name]
        line += ["--out", str(out), "--model", str(model)]
        try:
            code = subprocess.run(line, env=environment, check=False, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            too_long = {"first": limit}
            return {"seconds": too_long, "cpu_seconds": too_long, "numbers": None, "model": None}
        if code != 0:
            raise SystemExit(f"the job {name} failed with the library in {checkout}; see above.")
        return json.loads(out.read_text())


# --------------------------------------------------------- comparing


def compare(
    other: Path, names: list[str], rounds: int, model: Path | None, limit: float, out: Path
) -> dict[str, Any]:
    """Both checkouts in turns, job by job; what the file holds already is not measured again."""
    sides = {"before": other.absolute(), "after": ROOT}
    jobs = json.loads(out.read_text())["jobs"] if out.exists() else {}
    result = {"made": made(), "rounds": rounds, "jobs": jobs}
    for name in names:
        if name in jobs:
            continue
        path = model_of(name, model)
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, checkout in sides.items():
                slow = runs[side] and runs[side][0]["numbers"] is None
                runs[side].append(
                    runs[side][0] if slow else in_process(checkout, name, path, limit)
                )
        if len({run["model"] for side in runs.values() for run in side} - {None}) > 1:
            raise SystemExit("the two checkouts load models of different weights; give --model.")
        jobs[name] = compare_runs(JOBS[name], **runs)
        write(result, out)
    return result


def compare_runs(
    job: Job, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> dict[str, Any]:
    """Medians of the times, and the largest differences in any round."""
    times = {}
    for call in CALLS[: job.calls]:
        if any(call not in run["seconds"] for run in (*before, *after)):
            continue
        row = {}
        for kind in ("seconds", "cpu_seconds"):
            old, new = (statistics.median(run[kind][call] for run in s) for s in (before, after))
            row[kind] = {"before": old, "after": new, "ratio": new / old}
        times[call] = row
    rounds = [
        job.differences(old["numbers"], new["numbers"])
        for old, new in zip(before, after, strict=True)
        if old["numbers"] is not None and new["numbers"] is not None
    ]
    differences = {name: max(one[name] for one in rounds) for name in rounds[0]} if rounds else {}
    return {"times": times, "differences": differences, "before": before, "after": after}


def print_table(result: dict[str, Any]) -> None:
    """The times, then the differences."""
    print(f"\nMedian of {result['rounds']}; after / before below 1 is faster\n")
    print(f"{'job':12} {'call':8} {'before':>10} {'after':>10} {'ratio':>7} {'of CPU time':>12}")
    for name, job in result["jobs"].items():
        for call, row in job["times"].items():
            wall, cpu = row["seconds"], row["cpu_seconds"]
            cells = []
            for side in ("before", "after"):
                ended = job[side][0]["numbers"] is None
                cells.append(f"{'> ' if ended else ''}{wall[side]:.2f} s".rjust(10))
            ratios = f"{wall['ratio']:7.3f} {cpu['ratio']:12.3f}"
            print(f"{name:12} {call:8} {' '.join(cells)} {ratios}")
    print(f"\n{'job':12} {'largest difference':32} {'':>10}")
    for name, job in result["jobs"].items():
        for what, value in job["differences"].items():
            print(f"{name:12} {what:32} {value:10.3g}")


def sha256(*arrays: Any) -> str:  # noqa: ANN401
    """Of the bytes of all arrays, one after the other."""
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in arrays)).hexdigest()


def write(result: dict[str, Any], path: Path) -> None:
    """As JSON, with every digit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--model", type=Path, help=f"the small estimator (default: {MODEL})")
    shared.add_argument("--only", choices=JOBS, help="one of the jobs")
    shared.add_argument("--limit", type=float, default=1800, help="seconds of a job, at most")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make-model", parents=[shared], help="train and keep the estimator")
    one = commands.add_parser("measure", parents=[shared], help="times and numbers of the jobs")
    one.add_argument("--out", type=Path, required=True)
    both = commands.add_parser("compare", parents=[shared], help="this checkout beside another")
    both.add_argument("other", type=Path, help="folder of the other checkout")
    both.add_argument("--rounds", type=int, default=3)
    both.add_argument("--out", type=Path, default=RESULTS / "likelihood.json")
    # What `measure` starts in a process of its own.
    job = commands.add_parser("job", parents=[shared])
    job.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    """Run the command."""
    options = arguments()
    names = list(JOBS) if options.only is None else [options.only]
    given = None if options.model is None else options.model.absolute()
    model = given or ROOT / MODEL
    if options.command == "make-model":
        make_model(model)
    elif options.command == "job":
        write(run_job(names[0], model), options.out)
    elif options.command == "measure":
        measure(names, given, options.out, options.limit)
    else:
        rest = (options.rounds, given, options.limit, options.out)
        print_table(compare(options.other, names, *rest))


if __name__ == "__main__":
    main()
