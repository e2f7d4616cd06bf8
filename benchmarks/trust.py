"""Whether results say how far to trust them: calibrated limits, and the learned bias.

    python benchmarks/trust.py            everything, 300 pseudo-experiments each
    python benchmarks/trust.py --sets 50  fewer

Networks are poor on purpose. `limits`: how often calibrated CLs and CLs+b limits lie above the true
value, for a signal over background and for a parameter of the Dirichlet whose others are profiled;
and the expected limit of the signal beside the exact one. `bias`: how often the intervals of
maximum likelihood cover, beside how often their bias was called so, or called undecidable; for the
poor network and for the exact potential. Results go to `benchmarks/results/trust.json`.
"""

import argparse
import functools
import json
import multiprocessing
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

import inferostatic as ist
import signal_background as sb
from inferostatic.inference.confidence.calibrated_limit import calibrate_limit
from record import RESULTS, made

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from exact_estimators import exact_dirichlet  # pyright: ignore[reportMissingImports]

CACHE: Final = Path(__file__).parent / ".cache"
TOY: Final = ist.toys.Dirichlet()
BOX: Final = ist.Uniform([0.5] * 3, [5.0] * 3, names=["theta0", "theta1", "theta2"])
#: Events of a pseudo-experiment of the Dirichlet.
DIRICHLET_EVENTS: Final = 300
LEVEL: Final = 0.95


def poor_signal() -> ist.Estimator:
    """The network of 25 epochs on 18,300 weighted events."""
    training = ist.Training(epochs=25, progress_bar=False)
    return ist.fit(sb.weighted_events(), training=training, seed=1)


def poor_dirichlet() -> ist.Estimator:
    """A small network, trained shortly on few events; its bias is measured by many."""
    events = ist.simulate(TOY, BOX, 3000, seed=1, progress_bar=False)
    training = ist.Training(epochs=10, progress_bar=False)
    return ist.fit(events, network=ist.MLP((16, 16)), training=training, members=1, seed=1)


def default_signal() -> ist.Estimator:
    """The default fit to 100,000 events of the signal over background."""
    return ist.fit(sb.prior_events(100_000, seed=3), seed=1)


MODELS: Final = {
    "poor-signal": poor_signal,
    "poor-dirichlet": poor_dirichlet,
    "default-signal": default_signal,
}


@functools.cache
def kept(name: str) -> ist.Estimator:
    """A trained estimator, kept in `.cache`."""
    path = CACHE / f"trust-{name}.isn"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        MODELS[name]().save(path)
    return ist.load(path)


@functools.cache
def signal_calibration(name: str, events: int) -> ist.ScoreCalibration:
    return ist.ScoreCalibration(kept(name), sb.slice_events(events, 2.5, seed=5))


@functools.cache
def dirichlet_calibration() -> ist.ScoreCalibration:
    events = ist.simulate(TOY, BOX, 30_000, seed=6, progress_bar=False)
    return ist.ScoreCalibration(kept("poor-dirichlet"), events)


@functools.cache
def measured(name: str) -> ist.Estimator:
    """An estimator whose bias was measured by 400,000 events."""
    estimator = exact_dirichlet(low=0.5, high=5.0) if name == "exact" else kept(name)
    return ist.measure_bias(estimator, ist.simulate(TOY, BOX, 400_000, seed=8, progress_bar=False))


def limits_of(
    likelihood: ist.Likelihood, calibration: ist.ScoreCalibration, lowest: float
) -> dict[str, float]:
    """Observed limits by CLs and CLs+b; the expected ones are left out, which takes most time."""
    found = {}
    for method in (ist.CLs(calibration=calibration), ist.CLsb(calibration=calibration)):
        curves, _, _ = calibrate_limit(likelihood, 0, method, lowest, seed=0, progress_bar=False)
        alone = type(curves)(curves.tests[:1], curves.background, 0, method)
        highest = float(curves.tests[0].data.high[0])
        found[method.name] = float(alone.find_limits(1 - LEVEL, highest)[0])
    return found


def one_signal(number: int) -> dict[str, Any]:
    rng = np.random.default_rng([11, number])
    mu = rng.uniform(0, 1)
    x = sb.simulator(np.tile([mu, sb.MASS, sb.SCALE], (sb.EVENTS, 1)), rng)
    fixed = {"M": sb.MASS, "nu": sb.SCALE}
    likelihood = ist.Likelihood(kept("poor-signal"), x, fixed=fixed)
    return {
        "true": mu,
        **limits_of(likelihood, signal_calibration("poor-signal", 400_000), 0.0),
    }


def one_dirichlet(number: int) -> dict[str, Any]:
    rng = np.random.default_rng([12, number])
    theta = rng.uniform(2.0, 3.0, size=3)
    x = TOY(np.tile(theta, (DIRICHLET_EVENTS, 1)), rng)
    likelihood = ist.Likelihood(kept("poor-dirichlet"), x)
    return {"true": theta[0], **limits_of(likelihood, dirichlet_calibration(), 0.5)}


def one_bias(task: tuple[str, int]) -> dict[str, Any]:
    name, number = task
    rng = np.random.default_rng([13, number])
    theta = rng.uniform(1.0, 4.0, size=3)
    x = TOY(np.tile(theta, (DIRICHLET_EVENTS, 1)), rng)
    fit = ist.maximum_likelihood(measured(name), x, throw=False)
    pull = (fit.theta - theta) / fit.errors
    bias = fit.bias
    assert bias is not None
    return {"pull": pull.tolist(), "bias": bias.bias.tolist(), "verdict": bias.verdict}


def cover(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage of limits, with its binomial error."""
    true = np.array([row["true"] for row in rows])
    found = {}
    for name in ("CLs", "CLs+b"):
        limit = np.array([row[name] for row in rows])
        # A limit beyond the region is above everything.
        found[name] = float(np.mean(~(limit < true)))
    return {**found, "binomial error": float(np.sqrt(LEVEL * (1 - LEVEL) / len(rows)))}


def judge(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage of one standard error, and what was said of the bias."""
    pull = np.array([row["pull"] for row in rows])
    verdicts = [row["verdict"] for row in rows]
    seen, said = pull.mean(axis=0), np.mean([row["bias"] for row in rows], axis=0)
    return {
        "68% intervals cover": np.mean(np.abs(pull) < 1, axis=0).tolist(),
        "mean pull": seen.tolist(),
        "mean bias that was stated": said.tolist(),
        **{v: verdicts.count(v) / len(rows) for v in ("biased", "not biased", "cannot be told")},
    }


def expected_limits() -> dict[str, Any]:
    """The calibrated expected limit of the signal, by two networks, and the exact one."""
    exact = sb.exact_expected_limit()
    found: dict[str, Any] = {"exact": exact}
    rng = np.random.default_rng(14)
    x = sb.simulator(np.tile([0.0, sb.MASS, sb.SCALE], (sb.EVENTS, 1)), rng)
    for name in ("poor-signal", "default-signal"):
        estimator = kept(name)
        likelihood = ist.Likelihood(estimator, x, fixed={"M": sb.MASS, "nu": sb.SCALE})
        method = ist.CLs(calibration=signal_calibration(name, 400_000))
        limit = ist.upper_limit(likelihood, "mu", method)
        found[name] = {"expected": float(limit.expected[2]), "observed": limit.observed}
        found[name]["over exact"] = found[name]["expected"] / exact
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="How far results can be trusted.")
    parser.add_argument("--sets", type=int, default=300, help="pseudo-experiments of each kind")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in MODELS:
        kept(name)
    context = multiprocessing.get_context("spawn")
    numbers = range(given.sets)
    with ProcessPoolExecutor(given.processes, mp_context=context) as pool:
        signal = list(pool.map(one_signal, numbers))
        dirichlet = list(pool.map(one_dirichlet, numbers))
        bias = {
            name: list(pool.map(one_bias, [(name, n) for n in numbers]))
            for name in ("exact", "poor-dirichlet")
        }
    results = {
        "sets": given.sets,
        "limits": {"signal": cover(signal), "dirichlet": cover(dirichlet)},
        "expected limits": expected_limits(),
        "bias": {name: judge(rows) for name, rows in bias.items()},
    }
    print(json.dumps(results, indent=1))
    (RESULTS / "trust.json").write_text(json.dumps({**made(), **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
