"""How often confidence intervals hold the truth, and how long they are.

    python benchmarks/intervals.py single            single events of the Dirichlet, Neyman sets
    python benchmarks/intervals.py dirichlet         100 and 10,000 events of the Dirichlet
    python benchmarks/intervals.py pythia            4,000 hadronic Z decays by Pythia 8

Pseudo-experiments have θ of their own, drawn in the inner part of the prior. Each is fitted by
`calibrated_fit` without and with a simulator and, beside it, by the maximum of the summed potential
with errors from its curvature, which is what learned likelihoods are commonly used for. Pythia is
fitted with 80,000 events that both train and calibrate (`cross_fit`), then with a design of two
million events that is the same for all data sets; and beside them by the χ² of the ten observables'
means with a cubic response, as tuning tools do.

The work is shared by `--processes` processes, also on one GPU. Estimators, simulated events and
every pseudo-experiment that is done are kept in `benchmarks/.cache`, so that a run goes on where
the last one stopped; results are in `benchmarks/results/intervals-<part>.json`.
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import gammaincinv

import inferostatic as ist
import zhadrons
from inferostatic.estimator.response_model import PolynomialCoordinates
from inferostatic.inference.calibrated.calibrated_fit import CalibratedFit
from inferostatic.polynomials import evaluate_legendre, list_degrees
from record import RESULTS, made
from trained import trained

CACHE: Final = Path(__file__).parent / ".cache"
LEVELS: Final = (0.68, 0.95)
TOY: Final = ist.toys.Dirichlet()
#: θ of pseudo-experiments lie in the inner part of the range on which the estimator was trained.
INNER: Final = 0.1
SETS, TOYS = 2000, 1000
#: Where the toy can be simulated: near the edge of the trained region, estimates may lie beyond.
ANYWHERE: Final = ist.Uniform([0.02] * 3, [9.0] * 3)
#: Pseudo-experiments in which other fits are made beside.
BESIDE: Final = 200
Rows = list[dict[str, Any]]
PYTHIA_SETS, PYTHIA_EVENTS, TRAINING, DESIGN = 200, 4000, 80_000, 2_000_000


# ---------------------------------------------------------------------------- the Dirichlet


@cache
def dirichlet() -> tuple[ist.Estimator, ist.ScoreCalibration]:
    """The default estimator, and 40,000 events that it has not seen."""
    estimator = trained("dirichlet-100000-0")
    assert estimator.prior is not None
    events = ist.simulate(TOY, estimator.prior, 40_000, seed=987, progress_bar=False)
    return estimator, ist.ScoreCalibration(estimator, events)


def inner_point(estimator: ist.Estimator, rng: np.random.Generator) -> np.ndarray:
    low, high = estimator.region.theta_low, estimator.region.theta_high
    return rng.uniform(low + INNER * (high - low), high - INNER * (high - low))


def one_dirichlet(task: tuple[int, int]) -> dict[str, Any]:
    """One data set of so many events."""
    number, events = task
    estimator, calibration = dirichlet()
    rng = np.random.default_rng([5, events, number])
    theta = inner_point(estimator, rng)
    x = TOY(np.tile(theta, (events, 1)), rng)
    begun = time.perf_counter()
    row = {
        "theta": theta,
        "bound": np.sqrt(np.diag(np.linalg.inv(events * TOY.fisher(theta)))),
        "calibrated": fitted(
            lambda: ist.calibrated_fit(
                estimator,
                x,
                events=calibration,
                simulator=ist.NearbySimulation(TOY, prior=ANYWHERE),
                seed=number,
            ),
            theta,
            lengths=number < BESIDE,
        ),
    }
    if number < BESIDE:
        row["stored events"] = fitted(
            lambda: ist.calibrated_fit(estimator, x, events=calibration), theta
        )
        row["summed potential"] = summed(estimator, x, theta)
    return row | {"seconds": time.perf_counter() - begun}


def one_single(task: tuple[int, int]) -> dict[str, Any]:
    """The p-value of the true θ for one event, by toys and by Wilks."""
    number, toys = task
    estimator, _ = dirichlet()
    rng = np.random.default_rng([6, number])
    theta = inner_point(estimator, rng)
    x = TOY(theta[None], rng)
    sets = {
        "neyman": ist.confidence_set(
            estimator,
            x,
            ist.Neyman(TOY, toys=toys),
            grid=theta[None],
            seed=number,
            progress_bar=False,
        ),
        "wilks": ist.confidence_set(estimator, x, grid=theta[None], progress_bar=False),
    }
    return {"theta": theta} | {name: float(found.p_value[0]) for name, found in sets.items()}


# ------------------------------------------------------------------------------------ Pythia


def points(seed: int, count: int, margin: float = 0.0) -> np.ndarray:
    width = zhadrons.HIGH - zhadrons.LOW
    low, high = zhadrons.LOW + margin * width, zhadrons.HIGH - margin * width
    return np.random.default_rng(seed).uniform(low, high, (count, 3))


def simulated(name: str, theta: np.ndarray, seed: int) -> np.ndarray:
    """Events of Pythia, from the cache if they are there."""
    path = CACHE / f"zhadrons-{name}.npy"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, zhadrons.simulate(theta, seed=seed).astype(np.float32))
        partial.rename(path)
    return np.load(path)


@cache
def prior() -> ist.Uniform:
    return ist.Uniform(zhadrons.LOW, zhadrons.HIGH, names=list(zhadrons.THETA_NAMES))


@cache
def training_events() -> ist.Events:
    theta = points(1, TRAINING)
    x = simulated("training", theta, 1)
    given = CACHE / "zhadrons-training-theta.npy"
    theta = np.load(given) if given.exists() else theta
    return ist.Events(x=x, theta=theta, prior=prior(), x_names=zhadrons.X_NAMES)


@cache
def crossed() -> tuple[list[Any], list[ist.Events]]:
    """Four estimators by cross-fitting, and the events each has not seen."""
    folder = CACHE / "zhadrons-folds"
    events = training_events()
    fold = np.arange(len(events)) % 4
    held_out = [events[np.flatnonzero(fold == k)] for k in range(4)]
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(4):
        path = folder / f"{k}.isn"
        if not path.exists():
            ist.fit(events[np.flatnonzero(fold != k)], seed=k).save(path)
    return [ist.load(folder / f"{k}.isn") for k in range(4)], held_out


@cache
def pythia_sets() -> tuple[np.ndarray, np.ndarray]:
    theta = points(77, PYTHIA_SETS, 0.05)
    x = simulated("pseudo", np.repeat(theta, PYTHIA_EVENTS, axis=0), 5)
    return theta, x.reshape(PYTHIA_SETS, PYTHIA_EVENTS, -1)


@cache
def calibrations(*, design: bool) -> ist.ScoreCalibration:
    estimators, held_out = crossed()
    if not design:
        return ist.ScoreCalibration(estimators, held_out)
    theta = points(42, DESIGN)
    events = ist.Events(
        x=simulated("design", theta, 6), theta=theta, prior=prior(), x_names=zhadrons.X_NAMES
    )
    return ist.ScoreCalibration(estimators, events)


@cache
def chi2_response() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of a cubic response of the means, and the covariance of the observables."""
    events = training_events()
    design = cubic(np.asarray(events.theta, np.float64))
    x = np.asarray(events.x, np.float64)
    coefficients = np.linalg.lstsq(design, x, rcond=None)[0]
    return coefficients, np.cov((x - design @ coefficients).T)


def cubic(theta: np.ndarray) -> np.ndarray:
    box = PolynomialCoordinates.of_box(zhadrons.LOW, zhadrons.HIGH)
    return evaluate_legendre(box(theta), list_degrees(3, 3))


def chi2_fit(x: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """The yardstick: χ² of ten means, with no error for the response itself."""
    from scipy.optimize import least_squares

    coefficients, covariance = chi2_response()
    mean, root = x.mean(axis=0, dtype=np.float64), np.linalg.cholesky(covariance / len(x))
    low, width = zhadrons.LOW, zhadrons.HIGH - zhadrons.LOW

    def residual(place: np.ndarray) -> np.ndarray:
        return np.linalg.solve(root, mean - (cubic((low + place * width)[None]) @ coefficients)[0])

    found: Any = least_squares(residual, np.full(3, 0.5), bounds=(0, 1))
    errors = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac))) * width
    return from_errors(low + found.x * width, errors, truth)


def one_pythia(task: tuple[int, int]) -> dict[str, Any]:
    number, design = task
    theta, sets = pythia_sets()
    x = sets[number]
    estimators, _ = crossed()
    calibration = calibrations(design=bool(design))
    begun = time.perf_counter()
    row: dict[str, Any] = {
        "theta": theta[number],
        "calibrated": fitted(
            lambda: ist.calibrated_fit(estimators, x, events=calibration), theta[number]
        ),
    }
    if not design:
        row |= {
            "chi2 of means": chi2_fit(x, theta[number]),
            "summed potential": summed(estimators[0], x, theta[number]),
        }
    return row | {"seconds": time.perf_counter() - begun}


# ------------------------------------------------------------------------ fits and their tally


def fitted(
    fit: Callable[[], CalibratedFit], theta: np.ndarray, *, lengths: bool = True
) -> dict[str, Any]:
    """Whether the true θ lies in each interval; the intervals themselves take longer to find."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of events and estimates at an edge
        found = fit()
    return {
        "estimate": found.theta,
        "errors": found.errors,
        "inside": [[found.distance(theta, [j]) <= q for j in range(3)] for q in chi2_quantiles()],
        "joint": [found.distance(theta) <= q for q in chi2_quantiles(3)],
        "half": np.diff(found.interval(LEVELS[0]))[:, 0] / 2 if lengths else None,
        "p_value": found.p_value,
        "simulation": found.simulation_fraction,
        "sensitivity": found.sensitivity,
        "simulated": found.simulated,
    }


def summed(estimator: ist.Estimator, x: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """The maximum of Σφ with errors from its curvature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = ist.maximum_likelihood(estimator, x, throw=False)
    return from_errors(found.theta, found.errors, truth)


def from_errors(theta: np.ndarray, errors: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    pull = np.abs(theta - truth) / errors
    inside = [pull <= np.sqrt(q) for q in chi2_quantiles()]
    half = np.sqrt(chi2_quantiles()[0]) * errors
    return {"estimate": theta, "errors": errors, "inside": inside, "half": half}


def chi2_quantiles(freedom: int = 1) -> list[float]:
    return [float(2 * gammaincinv(freedom / 2, level)) for level in LEVELS]


def fits_in(rows: Rows) -> list[str]:
    """The names of all fits that were made, some only for some sets."""
    return list(dict.fromkeys(key for row in rows for key in row if isinstance(row[key], dict)))


def tallied(rows: Rows, name: str) -> dict[str, Any]:
    """Coverage for each parameter and pooled, lengths, and errors scaled to cover."""
    rows = [row for row in rows if name in row]
    theta = np.array([row["theta"] for row in rows])
    inside = np.array([row[name]["inside"] for row in rows])  # (sets, levels, d)
    estimate, errors = (
        np.array([row[name][key] for row in rows]) for key in ("estimate", "errors")
    )
    pull = np.abs(estimate - theta) / errors
    long = [row for row in rows if row[name]["half"] is not None]
    half = np.array([row[name]["half"] for row in long]).reshape(-1, 3)
    scale = np.quantile(pull, LEVELS[0], axis=0)
    result: dict[str, Any] = {"fit": name, "sets": len(rows)}
    for place, level in enumerate(LEVELS):
        result[f"cover {level}"] = inside[:, place].mean(axis=0)
        result[f"pooled {level}"] = inside[:, place].mean()
        if "joint" in rows[0][name]:
            result[f"joint {level}"] = np.mean([row[name]["joint"][place] for row in rows])
    result |= {
        "median error": np.median(errors, axis=0),
        "median half length": np.median(half, axis=0) if long else None,
        "scaled to cover": np.median(errors, axis=0) * scale,
        "rms deviation": np.sqrt(np.mean(np.square(estimate - theta), axis=0)),
    }
    if long and "bound" in rows[0]:
        bound = np.array([row["bound"] for row in long]).reshape(-1, 3)
        result["half length over bound"] = np.median(half / bound, axis=0)
    if "p_value" in rows[0][name]:
        p_values = np.array([row[name]["p_value"] for row in rows])
        result["p-values, quantiles"] = np.quantile(p_values, [0.1, 0.5, 0.9])
        result["simulation error"] = np.median([row[name]["simulation"] for row in rows], axis=0)
        result["sensitivity"] = np.median([row[name]["sensitivity"] for row in rows], axis=0)
        result["simulated"] = float(np.median([row[name]["simulated"] for row in rows]))
    return result


def tallied_sets(rows: Rows, name: str) -> dict[str, Any]:
    p_values = np.array([row[name] for row in rows])
    held = {f"joint {level}": float(np.mean(p_values > 1 - level)) for level in LEVELS}
    return {"fit": name, "sets": len(rows)} | held


def plain(value: Any) -> Any:  # noqa: ANN401
    """For a file, with five digits."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | np.ndarray):
        return [plain(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float | np.floating) else value


def shared(name: str, work: Callable[..., dict[str, Any]], tasks: list[Any], options: Any) -> Rows:  # noqa: ANN401
    """The results of all tasks, or of those that were done in time."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"intervals-{name}.jsonl"
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rows = {tuple(line["task"]): line["row"] for line in kept}
    begun = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, context) as pool, path.open("a") as store:
        waiting = {pool.submit(work, task): task for task in tasks if task not in rows}
        for done in as_completed(waiting):
            if done.cancelled():
                continue
            if error := done.exception():
                # A fit that fails is told, and is not part of the tally.
                print(f"failed: {waiting[done]} {error!r}", flush=True)
                continue
            task, row = waiting[done], listed(done.result())
            rows[task] = row
            print(json.dumps({"task": task, "row": row}), file=store, flush=True)
            spent = time.monotonic() - begun
            if len(rows) % 100 == 0:
                print(f"{len(rows)} of {len(tasks)}, {spent:.0f} s", flush=True)
            if spent > 60 * options.minutes:
                for left in waiting:
                    left.cancel()
    return [rows[task] for task in tasks if task in rows]


def listed(value: Any) -> Any:  # noqa: ANN401
    """For a file, with all digits."""
    if isinstance(value, dict):
        return {name: listed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [listed(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def record(name: str, tables: list[dict[str, Any]]) -> None:
    for table in tables:
        print("  ".join(f"{key} {plain(value)}" for key, value in table.items()), flush=True)
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"made": made(), "rows": plain(tables)}, indent=1)
    (RESULTS / f"intervals-{name}.json").write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["single", "dirichlet", "pythia"])
    parser.add_argument("--sets", type=int, help="pseudo-experiments")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--events", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument(
        "--design", type=int, nargs="+", default=[0, 1], help="of Pythia: without, with"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many")
    options = parser.parse_args()
    # Each process uses one core; otherwise they fight for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    tables: list[dict[str, Any]] = []
    if options.part == "single":
        rows = shared(
            "single", one_single, [(i, TOYS) for i in range(options.sets or SETS)], options
        )
        tables = [tallied_sets(rows, name) for name in ("neyman", "wilks")]
    for events in options.events if options.part == "dirichlet" else []:
        numbers = range(options.first, options.sets or SETS)
        rows = shared("dirichlet", one_dirichlet, [(i, events) for i in numbers], options)
        for name in fits_in(rows):
            tables.append({"events": events} | tallied(rows, name))
    for design in options.design if options.part == "pythia" else []:
        tasks = [(i, design) for i in range(options.sets or PYTHIA_SETS)]
        rows = shared("pythia", one_pythia, tasks, options)
        for name in fits_in(rows):
            tables.append({"design": DESIGN if design else 0} | tallied(rows, name))
    record(options.part, tables)


if __name__ == "__main__":
    main()
