"""Is a statistic that learned from Pythia's weights better than one that learned without them?

    python benchmarks/pythia_latent.py [--events 3000 10000 30000] [--seeds 3]

For the suppression of strange quarks in hadronic Z decays, near the default tune, each method
learns one number h(x) from equally many events:

* SALLY, from events at θ_ref with their joint scores (`zhadrons_weights`);
* KSE, from events at θ_ref ± λ without latent information, form 1 at the fixed θ_ref, for three λ;
* the best quadratic polynomial in the ten observables for the targets of each, as a baseline.

What h is worth is measured on new events, simulated directly and without weights: the information
(dm/dθ)²/Var(h), with m = E[h] at θ_ref ± δ and the variance at θ_ref. It is at most that of x
itself, which is unknown. Simulated events are kept in `benchmarks/.cache` (seven minutes of one
core); results are in `benchmarks/results/pythia-latent.json`.
"""

import argparse
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import inferostatic as ist
from record import RESULTS, Log
from zhadrons import X_NAMES
from zhadrons_weights import DEFAULT, direct_events, weighted_events

CACHE: Final = Path(__file__).parent / ".cache"
STRANGE: Final = float(DEFAULT[2])
REFERENCE: Final = ist.Discrete([[STRANGE]], names=["strange"])
LARGEST, SEEDS = 30_000, 3
WIDTHS: Final = (0.05, 0.1, 0.2)
#: Half distance of the held-out sets, their events, and the parts of them that give the errors.
DELTA, HELD_OUT, PARTS = 0.05, 100_000, 20
Statistic = Callable[[np.ndarray], np.ndarray]


def kept(name: str, simulate: Callable[[], np.ndarray]) -> np.ndarray:
    """Events from the cache, simulated if they are not there."""
    path = CACHE / f"pythia-latent-{name}.npy"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial.npy")
        begun = time.perf_counter()
        np.save(partial, simulate())
        partial.rename(path)
        print(f"simulated {name} in {time.perf_counter() - begun:.0f} s", flush=True)
    return np.load(path)


def at(strange: float) -> np.ndarray:
    return np.array([DEFAULT[0], DEFAULT[1], strange])


@cache
def weighted(seed: int) -> ist.Events:
    """Events at the default tune with the joint score along `strange`."""

    def simulate() -> np.ndarray:
        x, score, _ = weighted_events(DEFAULT, LARGEST, 1000 + seed)
        return np.concatenate([x, score], axis=1)

    table = kept(f"weighted-{seed}", simulate)
    return ist.Events(
        x=table[:, :-3],
        theta=[STRANGE],
        latent={"joint_score": table[:, -1:]},
        x_names=X_NAMES,
        theta_names=REFERENCE.names,
    )


def stored(width: float, seed: int) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """A simulator at `STRANGE` ± width that hands out stored events."""
    pools = []
    for sign in (1, -1):
        number = 2000 + 10 * seed + 100 * WIDTHS.index(width) + sign
        # A little more than half, since signs are drawn at random.
        pools.append(
            kept(
                f"{sign * width:+g}-{seed}",
                lambda sign=sign, number=number: direct_events(
                    at(STRANGE + sign * width), int(0.52 * LARGEST), number
                ),
            )
        )

    used = [0, 0]

    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = np.empty((len(theta), len(X_NAMES)))
        for which, rows in enumerate((theta[:, 0] > STRANGE, theta[:, 0] < STRANGE)):
            first, used[which] = used[which], used[which] + int(rows.sum())
            x[rows] = pools[which][first : used[which]]
        return x

    return simulator


@cache
def held_out() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New events above, below and at the reference."""
    above, below, here = (
        kept(
            f"held-out{shift:+g}",
            lambda shift=shift, number=number: direct_events(at(STRANGE + shift), HELD_OUT, number),
        )
        for number, shift in ((3001, DELTA), (3002, -DELTA), (3003, 0.0))
    )
    return above, below, here


def information(statistic: Statistic) -> np.ndarray:
    """(dm/dθ)²/Var(h), of all held-out events and with each part of them left out."""
    above, below, here = (statistic(x) for x in held_out())
    part = np.arange(HELD_OUT) % PARTS
    found = []
    for left_out in range(-1, PARTS):
        use = part != left_out
        slope = (above[use].mean() - below[use].mean()) / (2 * DELTA)
        found.append(slope**2 / here[use].var())
    return np.array(found)


def with_error(values: np.ndarray) -> tuple[float, float]:
    """The value, and its error by the jackknife."""
    rest = values[1:]
    return float(values[0]), float(np.sqrt((PARTS - 1) * rest.var()))


def quadratic(x: np.ndarray, target: np.ndarray) -> Statistic:
    """Least squares with all products of two observables."""
    mean, scale = x.mean(axis=0), x.std(axis=0)

    def features(x: np.ndarray) -> np.ndarray:
        z = (x - mean) / scale
        products = [z[:, [i]] * z[:, i:] for i in range(z.shape[1])]
        return np.column_stack([np.ones(len(z)), z, *products])

    solution = np.linalg.lstsq(features(x), target)[0]
    return lambda x: features(x) @ solution


def learned(estimator: ist.ScoreEstimator) -> Statistic:
    return lambda x: estimator.score(x, [STRANGE])[:, 0]


def compared(n: int, seed: int) -> dict[str, Any]:
    """Information of every statistic that is learned from n events."""
    events = weighted(seed)[:n]
    target = events.latent["joint_score"][:, 0]
    begun = time.perf_counter()
    sally = ist.fit(events, ist.SALLY(reference=[STRANGE]), network=ist.DirectScore(), seed=seed)
    found = {"SALLY": learned(sally), "quadratic from weights": quadratic(events.x, target)}
    for width in WIDTHS:
        method = ist.KSE(ist.Delta(width))
        records = ist.draw(method, stored(width, seed), REFERENCE, n, seed=seed, progress_bar=False)
        kse = ist.fit(records, network=ist.DirectScore(), seed=seed)
        found[f"KSE {width:g}"] = learned(kse)
        target = np.asarray(records.record.target)[:, 0]
        found[f"quadratic {width:g}"] = quadratic(records.x, target)
    seconds = time.perf_counter() - begun
    values = {name: information(statistic) for name, statistic in found.items()}
    best = max((f"KSE {width:g}" for width in WIDTHS), key=lambda name: values[name][0])
    row: dict[str, Any] = {}
    for name, value in values.items():
        row[name], row[f"{name} error"] = with_error(value)
    row["best KSE"] = best
    row["SALLY / best KSE"], row["ratio error"] = with_error(values["SALLY"] / values[best])
    return row | {"seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description="What Pythia's weights are worth.")
    parser.add_argument("--events", type=int, nargs="+", default=[3000, 10_000, LARGEST])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--simulate", action="store_true", help="only fill the cache")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    arguments = parser.parse_args()
    if arguments.simulate:
        held_out()
        for seed in range(arguments.seeds):
            weighted(seed)
            for width in WIDTHS:
                stored(width, seed)
        return
    log = Log(RESULTS / "pythia-latent.json", fresh=arguments.fresh)
    for n in arguments.events:
        for seed in range(arguments.seeds):
            log.row({"events": n, "seed": seed}, lambda n=n, seed=seed: compared(n, seed))


if __name__ == "__main__":
    main()
