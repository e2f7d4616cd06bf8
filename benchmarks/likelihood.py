"""What a learned likelihood costs and what it finds, in two versions of the library.

    python benchmarks/likelihood.py measure --out FILE.json    five jobs of this checkout
    python benchmarks/likelihood.py compare OTHER_CHECKOUT     both in turns, and the differences
    python benchmarks/likelihood.py make-model                 train the estimator of the jobs

`--only nuts` takes one job alone.

The events are those of the Dirichlet distribution at one θ, the estimator is a small potential
with two members that is kept in `benchmarks/data`, and every seed is fixed:

    mle      maximum likelihood of 10,000 events in three parameters
    neyman   a confidence set of one parameter at 9 points with 1000 toys each, 100 events; another
             parameter is profiled and the third is fixed
    nuts     a posterior of three parameters by NUTS, 1000 events
    grid     ln L of 10,000 events at 1000 θ, in float64
    fit      a default training on 10,000 events

Each job has a process of its own without JAX's cache of compiled programs, so the first call
contains its compilation, and the import of what is loaded on first use. The second call is made
with other events of the same number and should contain neither; `fit` is called once. Loading the
model and drawing the events are not timed. The numbers are those of the first call.

In `compare` the other checkout, with its own copy of this file, is "before" and this one "after".
Differences are in units of what they should be small against: an estimate in its error, the end of
a confidence interval in half its width, a posterior mean in the Monte Carlo standard error of the
difference. Where only the random numbers changed, the last is about 1, and the ends of an interval
found with 1000 toys move by 0.03 to 0.1.
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
from exact_errors import WIDE_BOX
from record import RESULTS, made

ROOT: Final = Path(__file__).parent.parent.absolute()
#: Not called .isn, which git ignores.
MODEL: Final = Path("benchmarks") / "data" / "dirichlet-small.zip"
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
    """Events, what is timed, and how its numbers are compared."""

    events: int
    work: Callable[..., Numbers]
    differences: Callable[[Numbers, Numbers], dict[str, float]]
    calls: int = 2


JOBS: Final = {
    "mle": Job(10_000, maximum_likelihood, mle_differences),
    "neyman": Job(100, neyman, neyman_differences),
    "nuts": Job(1000, nuts, nuts_differences),
    "grid": Job(10_000, grid, grid_differences),
    "fit": Job(10_000, fit, fit_differences, calls=1),
}
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
    x = TOY(np.tile(TRUTH, (count, 1)), np.random.default_rng(10 + place))
    # Rounded as the library does, so that every way to ln L sees the same events.
    return estimator, x.astype(np.float32)


def measure(names: list[str], model: Path | None, out: Path) -> None:
    """Each job of this checkout in a process of its own, written as it is done."""
    jobs = {}
    for name in names:
        jobs[name] = in_process(ROOT, "job", "--only", name, model=model)
        seconds = "  ".join(f"{call} {s:.2f} s" for call, s in jobs[name]["seconds"].items())
        print(f"{name:8} {seconds}", flush=True)
        write({"made": made(), "jobs": jobs}, out)


def in_process(checkout: Path, command: str, *arguments: str, model: Path | None) -> dict[str, Any]:
    """Run a command of a checkout on its own library, and read what it wrote."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"),
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "INFEROSTATIC_PROGRESS": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        script = checkout / "benchmarks" / Path(__file__).name
        line = [sys.executable, str(script), command, *arguments, "--out", str(out)]
        line += [] if model is None else ["--model", str(model)]
        if subprocess.run(line, env=environment, cwd=checkout, check=False).returncode != 0:
            raise SystemExit(f"{command} {' '.join(arguments)} failed in {checkout}; see above.")
        return json.loads(out.read_text())


# --------------------------------------------------------- comparing


def compare(other: Path, names: list[str], rounds: int, model: Path | None) -> dict[str, Any]:
    """Both checkouts in turns, job by job."""
    sides = {"before": other.absolute(), "after": ROOT}
    jobs = {}
    for name in names:
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, checkout in sides.items():
                measured = in_process(checkout, "measure", "--only", name, model=model)
                runs[side].append(measured["jobs"][name])
        if len({run["model"] for side in runs.values() for run in side}) > 1:
            raise SystemExit("the two checkouts load models of different weights; give --model.")
        jobs[name] = compare_runs(JOBS[name], **runs)
    return {"made": made(), "rounds": rounds, "jobs": jobs}


def compare_runs(
    job: Job, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> dict[str, Any]:
    """Medians of the times, and the largest differences in any round."""
    times = {}
    for call in CALLS[: job.calls]:
        row = {}
        for kind in ("seconds", "cpu_seconds"):
            old, new = (statistics.median(run[kind][call] for run in s) for s in (before, after))
            row[kind] = {"before": old, "after": new, "ratio": new / old}
        times[call] = row
    rounds = [
        job.differences(old["numbers"], new["numbers"])
        for old, new in zip(before, after, strict=True)
    ]
    return {
        "times": times,
        "differences": {name: max(one[name] for one in rounds) for name in rounds[0]},
        "before": before,
        "after": after,
    }


def print_table(result: dict[str, Any]) -> None:
    """The times, then the differences."""
    print(f"\nMedian of {result['rounds']}; after / before below 1 is faster\n")
    print(f"{'job':8} {'call':8} {'before':>9} {'after':>9} {'ratio':>7} {'of CPU time':>12}")
    for name, job in result["jobs"].items():
        for call, row in job["times"].items():
            wall, cpu = row["seconds"], row["cpu_seconds"]
            both = f"{wall['before']:7.2f} s {wall['after']:7.2f} s"
            print(f"{name:8} {call:8} {both} {wall['ratio']:7.3f} {cpu['ratio']:12.3f}")
    print(f"\n{'job':8} {'largest difference':32} {'':>10}")
    for name, job in result["jobs"].items():
        for what, value in job["differences"].items():
            print(f"{name:8} {what:32} {value:10.3g}")


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
    shared.add_argument("--model", type=Path, help=f"estimator (default: {MODEL} of the checkout)")
    shared.add_argument("--only", choices=JOBS, help="one of the jobs")
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
        measure(names, given, options.out)
    else:
        result = compare(options.other, names, options.rounds, given)
        write(result, options.out)
        print_table(result)


if __name__ == "__main__":
    main()
