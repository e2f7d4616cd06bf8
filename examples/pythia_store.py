"""Pythia by a pool of processes into a store that survives a kill, and a training from disk.

What one learns: how a large generator that cannot be sent to other processes fills a store. Each
worker makes a Pythia of its own, once, and the seed of what it draws comes from the generator that
a simulator is given. A process that fills the store is killed on purpose, and the same call makes
the rest. The events are compared with those of one process, the rate with that of the bare
generator, and an estimate with the truth.

    pip install pythia8mc==8.317.2 pandas
    python examples/pythia_store.py [--events 40000] [--workers 2] [--epochs 30] [--folder FOLDER]

Pythia's settings and the observables are in `benchmarks/zhadrons.py`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import inferostatic as ist

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from zhadrons import HIGH, LOW, THETA_NAMES, X_NAMES, Generator  # noqa: E402

PRIOR = ist.Uniform(LOW, HIGH, names=THETA_NAMES)
#: Pythia's default tune.
TRUTH = np.array([0.1365, 0.68, 0.217])
#: Seeds of Pythia lie between 1 and this number.
LARGEST_SEED = 900_000_000
#: Parts of the store, about: some are there when the process is killed.
PARTS = 40
#: Events that are simulated without the library, for the rate.
BARE_EVENTS = 4000
#: Events of the estimate.
OBSERVED = 1000


def make_simulator() -> Callable[[np.ndarray, np.random.Generator], pd.DataFrame]:
    """A simulator with a Pythia of its own; called once in every worker."""
    generator = Generator()

    def generate(theta: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        generator.seed(int(rng.integers(1, LARGEST_SEED, endpoint=True)))
        return pd.DataFrame(generator(theta), columns=list(X_NAMES))

    return generate


SIMULATOR = ist.PerWorker(make_simulator)


def fill(folder: Path, n: int, pool: ist.ProcessPool) -> ist.Events:
    """The call that is killed and repeated."""
    part = max(n // (200 * PARTS), 1) * 200
    store = ist.Store(folder / "events", name="Z to hadrons", events_per_part=part)
    return ist.simulate(SIMULATOR, PRIOR, n, store=store, engine=pool, seed=1)


def fill_and_be_killed(folder: Path, arguments: list[str]) -> None:
    """Start this script in another process and kill it when a third of the parts are there."""
    store, began, share = ist.Store(folder / "events"), time.monotonic(), 0.0
    with subprocess.Popen([sys.executable, __file__, *arguments, "--only-fill"]) as process:
        while process.poll() is None and share < 1 / 3:
            time.sleep(0.05)
            if store.exists():
                share = store.status().present / store.status().events
        process.kill()
    print(f"killed after {time.monotonic() - began:.1f} s")
    print(store.status().summary())


def measure_bare_rate(n: int) -> float:
    """Events per second of Pythia and the observables alone, in one process."""
    generator, rng = Generator(), np.random.default_rng(5)
    theta = rng.uniform(LOW, HIGH, (n, len(LOW)))
    generator.seed(5)
    generator(theta[:100])
    began = time.perf_counter()
    generator(theta)
    return n / (time.perf_counter() - began)


def main() -> None:
    """Fill a store, in spite of a kill; compare events and rates; train and estimate."""
    parser = argparse.ArgumentParser(description="Pythia into a store, killed and resumed.")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--folder", help="for store and checkpoint; default one that is removed")
    parser.add_argument("--only-fill", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    n, workers = arguments.events, arguments.workers
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        with ist.ProcessPool(workers) as pool:
            if arguments.only_fill:
                fill(folder, n, pool)
                return
            options = {"--events": n, "--workers": workers, "--folder": folder}
            fill_and_be_killed(folder, [str(word) for pair in options.items() for word in pair])
            # Loads Pythia in every worker, so that the time is that of the simulation.
            ist.simulate(SIMULATOR, PRIOR, 200 * workers, engine=pool, seed=2)
            left = n - ist.Store(folder / "events").status().present
            began = time.perf_counter()
            events = fill(folder, n, pool)
            rate = left / (time.perf_counter() - began)
        print(f"\nthe same call made the other {left:,} events")
        here = ist.simulate(SIMULATOR, PRIOR, 400, seed=1)
        print(f"as in one process, bit by bit: {np.array_equal(events.x[:400], here.x)}")
        bare = measure_bare_rate(min(n, BARE_EVENTS))
        print(f"\nevents per second\n  bare generator {bare:8,.0f}")
        share = rate / bare / workers
        print(f"  {workers} workers{rate:13,.0f}, {share:.2f} of as many bare generators")
        est = train(folder, events, arguments.epochs)
        x = SIMULATOR(np.tile(TRUTH, (OBSERVED, 1)), np.random.default_rng(3))
        fit = ist.maximum_likelihood(est, x)
        print(f"\nestimate from {OBSERVED:,} events    truth")
        for name, value, error, truth in zip(fit.names, fit.theta, fit.errors, TRUTH, strict=True):
            print(f"  {name:8} {value:.4f} ± {error:.4f}  {truth:.4f}")


def train(folder: Path, events: ist.Events, epochs: int) -> ist.Estimator:
    """Train from the store with a checkpoint, and once more, which only opens it."""
    print("\ntraining from disk")
    training, checkpoint = ist.Training(epochs=epochs), folder / "fit.checkpoint"
    for call in ("first call", "same call"):
        began = time.perf_counter()
        est = ist.fit(events, training=training, checkpoint=checkpoint, seed=4)
        print(f"  {call}, with a checkpoint {time.perf_counter() - began:8.1f} s")
    return est


if __name__ == "__main__":
    main()
