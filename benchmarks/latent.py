"""What latent information is worth: the error of ln r against the number of events.

    python benchmarks/latent.py efficiency     all methods on three toys with exact truth
    python benchmarks/latent.py gradients      variance of the gradients, with labels and without
    python benchmarks/latent.py plot           the figure, from what was measured
    python benchmarks/latent.py gains          how many times fewer events than CARL
    python benchmarks/latent.py table          errors in Markdown, for the documentation

Every method trains the same network on the same events, with the library's own choice of the number
of steps and of the weight decay. `--processes` shares the trainings, also on one GPU. Errors are
mean squares over pairs of θ from the prior, with x from either at even odds, in units of the
variance of ln r itself; and those of the score at the θ that made x, in units of its variance.
Results are in `benchmarks/results/latent.json` and are measured only where they are missing.
"""

import argparse
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from record import RESULTS, Log

HERE: Final = Path(__file__).parent.absolute()
TOYS: Final[dict[str, tuple[Any, ist.Uniform]]] = {
    "Galton board": (ist.toys.GaltonBoard(), ist.Uniform([-1.0], [1.0])),
    "two couplings": (ist.toys.TwoCouplings(), ist.Uniform([-1.0, -1.0], [1.0, 1.0])),
    "Gaussian chain": (ist.toys.GaussianChain(), ist.Uniform([-0.6, -0.3], [0.6, 0.3])),
    # Ratios of many orders of magnitude, where methods that regress on ratios have their trouble.
    "Galton board, wide": (ist.toys.GaltonBoard(), ist.Uniform([-2.0], [2.0])),
    "Gaussian chain, wide": (ist.toys.GaussianChain(), ist.Uniform([-1.0, -0.5], [1.0, 0.5])),
}
#: Where they are the question, and not an extra.
MAIN_TOYS: Final = ("Galton board", "two couplings", "Gaussian chain")
METHODS: Final[dict[str, Any]] = {
    "CARL": ist.CARL(),
    "KCE": ist.KCE(),
    "ROLR": ist.ROLR(),
    "ALICE": ist.ALICE(),
    "latent square": ist.LatentLoss(ist.Square()),
    "latent exponential": ist.LatentLoss(ist.Exponential()),
    "latent Savage": ist.LatentLoss(ist.Savage()),
    "latent ROLR": ist.LatentLoss(ist.ROLRLoss()),
    "latent KCE": ist.KCE(latent=True),
    "CASCAL": ist.CASCAL(),
    "RASCAL": ist.RASCAL(),
    "ALICES": ist.ALICES(),
    "SALLY": ist.SALLY(),
    "latent KCE + SALLY": ist.Mix([(1.0, ist.KCE(latent=True)), (1.0, ist.SALLY())]),
    "NDE": ist.NDE(),
    "SCANDAL": ist.SCANDAL(),
}
#: Densities of a discrete observable are none.
DENSITIES: Final = ("NDE", "SCANDAL")
EVENTS: Final = (1000, 3000, 10_000, 30_000, 100_000)
TEST: Final = 20_000
#: The same for all methods.
NETWORK: Final = ist.Potential(ist.MLP((64, 64, 64)), ist.Standardised())
PLAN: Final = ist.Training(progress_bar=False)


@lru_cache(maxsize=4)
def events_of(toy: str, count: int, seed: int) -> ist.Events:
    simulator, prior = TOYS[toy]
    return ist.simulate(simulator, prior, count, seed=1000 + seed, progress_bar=False)


@lru_cache(maxsize=4)
def test_of(toy: str) -> dict[str, np.ndarray]:
    """Pairs of θ, x from either of them, and the truth."""
    simulator, prior = TOYS[toy]
    rng = np.random.default_rng(77)
    theta0, theta1 = (prior.sample(TEST, seed=seed) for seed in (1, 2))
    theta = np.where(rng.integers(2, size=(TEST, 1)) == 1, theta1, theta0)
    x = simulator(theta, rng)
    log_ratio = simulator.log_prob(x, theta0) - simulator.log_prob(x, theta1)
    score = simulator.score(x, theta)
    return {
        "x": x,
        "theta": theta,
        "theta0": theta0,
        "theta1": theta1,
        "log_ratio": log_ratio,
        "score": score,
    }


def errors(toy: str, log_ratio: np.ndarray, score: np.ndarray | None) -> dict[str, float]:
    """Mean squared errors over variances."""
    test = test_of(toy)
    truth = test["log_ratio"]
    found = {"ratio error": float(np.mean(np.square(log_ratio - truth)) / truth.var())}
    if score is not None:
        found["score error"] = relative_errors(score, test["score"])
    return found


def relative_errors(score: np.ndarray, truth: np.ndarray) -> float:
    """The mean squared error of the worst component over its variance."""
    return float((np.mean(np.square(score - truth), axis=0) / truth.var(axis=0)).max())


def measured(toy: str, method: str, events: int, seed: int) -> dict[str, Any]:
    """The errors of one network, and how long it took."""
    network: Any = ist.Flow() if method in DENSITIES else NETWORK
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of losses continued beyond their range
        estimator: Any = ist.fit(
            events_of(toy, events, seed),
            METHODS[method],
            network=network,
            members=1,
            training=PLAN,
            seed=seed,
        )
        seconds = time.perf_counter() - begun
        test = test_of(toy)
        log_ratio = estimator.log_ratio(test["x"], test["theta0"], test["theta1"])
        score = estimator.score(test["x"], test["theta"])
    return errors(toy, log_ratio, score) | {"seconds": seconds}


def efficiency(options: argparse.Namespace) -> None:
    log = Log(RESULTS / "latent.json", fresh=options.fresh)
    keys = [
        {"toy": toy, "method": method, "events": events, "seed": seed}
        for seed in range(options.seeds)
        for events in sorted(options.events or EVENTS, reverse=True)
        for toy in options.toys or TOYS
        for method in options.methods or METHODS
        if not (toy.startswith("Galton") and method in DENSITIES)
    ]
    log.measure(keys, measured, processes=options.processes)


# --------------------------------------------------------------------------------- gradients


LOSSES: Final[dict[str, tuple[Any, Any]]] = {
    "logistic": (ist.CARL(), ist.ALICE()),
    "square": (ist.CARL(loss=ist.Square()), ist.LatentLoss(ist.Square())),
    "exponential": (ist.CARL(loss=ist.Exponential()), ist.LatentLoss(ist.Exponential())),
    "Savage": (ist.CARL(loss=ist.Savage()), ist.LatentLoss(ist.Savage())),
    "ROLR": (ist.ROLR(), ist.LatentLoss(ist.ROLRLoss())),
    "cross-entropy of candidates": (ist.KCE(), ist.KCE(latent=True)),
}
#: Events over which gradients are averaged, and the few epochs of the network they are taken of.
GRADIENT_EVENTS = 40_000


def gradients(options: argparse.Namespace) -> None:
    """Eq. goldmining_intuition_3 and _4: the same mean gradient, and a smaller variance."""
    log = Log(RESULTS / "latent-gradients.json", fresh=options.fresh)
    for toy in options.toys or MAIN_TOYS:
        for loss in LOSSES:
            log.row({"toy": toy, "loss": loss}, lambda t=toy, n=loss: gradient_row(t, n))


def gradient_row(toy: str, loss: str) -> dict[str, float]:
    """Per-event gradients by all weights of a half-trained network, with labels and without."""
    simulator, prior = TOYS[toy]
    few = ist.Training(batch_size=256, epochs=2, progress_bar=False)
    network = ist.Potential(ist.MLP((16, 16)), ist.Standardised())
    estimator = ist.fit(events_of(toy, 10_000, 0), network=network, training=few, seed=0)
    events = ist.simulate(simulator, prior, GRADIENT_EVENTS, seed=5, progress_bar=False)
    hard, soft = (of_events(estimator, method, events) for method in LOSSES[loss])
    difference = hard - soft
    error = difference.std(axis=0) / np.sqrt(len(difference))
    z = difference.mean(axis=0)[error > 0] / error[error > 0]
    total = [float(part.var(axis=0).sum()) for part in (soft, hard)]
    # The error of the ratio of variances, by parts of the events.
    parts = [
        s.var(axis=0).sum() / h.var(axis=0).sum()
        for s, h in zip(np.array_split(soft, 20), np.array_split(hard, 20), strict=True)
    ]
    return {
        "largest z of the means": float(np.abs(z).max()),
        "rms z of the means": float(np.sqrt(np.mean(np.square(z)))),
        "weights": int(len(z)),
        "variance ratio": total[0] / total[1],
        "its error": float(np.std(parts) / np.sqrt(20)),
    }


def of_events(estimator: ist.Estimator, method: Any, events: ist.Events) -> np.ndarray:  # noqa: ANN401
    """The gradient of each event's loss, with the same pairs or candidates for all methods."""
    import equinox as eqx

    from inferostatic.models.members import with_network

    supply = method.supply(events)
    member = jax.tree.map(
        lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, estimator.model.network
    )
    arrays, static = eqx.partition(member, eqx.is_inexact_array)

    @eqx.filter_jit
    def gradient(rows: Any, distribution: Any, keys: Any) -> Any:  # noqa: ANN401
        def one(row: Any, key: Any) -> Any:  # noqa: ANN401
            record = method.supervise(row, distribution, key=key)

            def loss(arrays: Any) -> Any:  # noqa: ANN401
                model = with_network(estimator.model, eqx.combine(arrays, static))
                return method.loss_of(model, row.x, record)

            slopes = jax.grad(loss)(arrays)
            return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slopes)])

        return jax.vmap(one)(rows, keys)

    keys = jax.random.split(jax.random.key(9), len(events))
    parts = []
    for start in range(0, len(events), 4000):
        some = slice(start, start + 4000)
        rows = jax.tree.map(lambda leaf, s=some: leaf[s], supply.rows)
        parts.append(np.asarray(gradient(rows, supply.distribution, keys[some]), np.float64))
    return np.concatenate(parts)


# ------------------------------------------------------------------------------------ figures


SHOWN: Final = {
    "CARL": ("0.2", "-"),
    "KCE": ("0.2", "--"),
    "ROLR": ("#c44e52", "-"),
    "ALICE": ("#4c72b0", "-"),
    "latent KCE": ("#4c72b0", "--"),
    "CASCAL": ("#8172b3", "-"),
    "RASCAL": ("#c44e52", "--"),
    "ALICES": ("#55a868", "-"),
    "SALLY": ("#dd8452", "-"),
    "latent KCE + SALLY": ("#55a868", "--"),
}


def plot(options: argparse.Namespace) -> None:
    """The error of ln r against the number of events, for every toy."""
    del options
    import matplotlib.pyplot as plt

    rows = Log(RESULTS / "latent.json", fresh=False).rows
    figure, axes = plt.subplots(
        1, len(MAIN_TOYS), figsize=(11.5, 3.8), sharey=True, layout="constrained"
    )
    for axis, toy in zip(axes, MAIN_TOYS, strict=True):
        for method, (colour, line) in SHOWN.items():
            found = sorted(medians(rows, toy, method).items())
            if found:
                axis.plot(
                    *zip(*found, strict=True), line, color=colour, marker="o", ms=3, label=method
                )
        axis.set(xscale="log", yscale="log", title=toy, xlabel="simulated events")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean squared error of ln r / variance of ln r")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    path = HERE.parent / "docs" / "images" / "latent-efficiency.svg"
    figure.savefig(path)
    print(f"Figure: {path.relative_to(HERE.parent)}")


def medians(
    rows: list[dict[str, Any]], toy: str, method: str, which: str = "ratio error"
) -> dict[int, float]:
    """Median over seeds of an error, by number of events."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["toy"] == toy and row["method"] == method:
            found.setdefault(row["events"], []).append(row[which])
    return {count: float(np.median(values)) for count, values in found.items()}


def gains(options: argparse.Namespace) -> None:
    """How many times fewer events than CARL a method needs for the errors that CARL reached."""
    del options
    rows = Log(RESULTS / "latent.json", fresh=False).rows
    for toy in MAIN_TOYS:
        for method in METHODS:
            found = gains_of(medians(rows, toy, "CARL"), medians(rows, toy, method))
            told = "   ".join(
                f"{error:.4f}: {'>= ' if bound else ''}{gain:.1f}" for error, gain, bound in found
            )
            print(f"{toy:15} {method:20} {told}")


def gains_of(carl: dict[int, float], method: dict[int, float]) -> list[tuple[float, float, bool]]:
    """CARL's error, the ratio of events, and whether that is only a bound, for each number of them.

    A method needs the number of events beyond which its error stays below.
    """
    result = []
    if not method:
        return result
    counts, its_errors = (np.array(part) for part in zip(*sorted(method.items()), strict=True))
    for count, error in sorted(carl.items()):
        above = np.flatnonzero(its_errors > error)
        if len(above) == 0:
            result.append((error, count / counts[0], True))
        elif above[-1] < len(counts) - 1:
            place = slice(above[-1], above[-1] + 2)
            logs = np.log(its_errors[place])[::-1], np.log(counts[place])[::-1]
            result.append((error, count / float(np.exp(np.interp(np.log(error), *logs))), False))
    return result


def table(options: argparse.Namespace) -> None:
    """Errors of ln r at three numbers of events, and of the score at the largest, in percent."""
    del options
    rows = Log(RESULTS / "latent.json", fresh=False).rows
    shown = (1000, 10_000, 100_000)
    print("| method | " + " | ".join(f"{toy}: ln r" + " | score" for toy in MAIN_TOYS) + " |")
    print("|---" * (1 + 2 * len(MAIN_TOYS)) + "|")
    for method in METHODS:
        cells = [method]
        for toy in MAIN_TOYS:
            ratio, score = (
                medians(rows, toy, method, f"{kind} error") for kind in ("ratio", "score")
            )
            cells += [" ".join(percent(ratio.get(count)) for count in shown)]
            cells += [percent(score.get(shown[-1]))]
        print("| " + " | ".join(cells) + " |")


def percent(value: float | None) -> str:
    """With two digits."""
    return "" if value is None else f"{100 * value:.2g}" if value < 0.995 else f"{100 * value:.0f}"


PARTS: Final = {
    "efficiency": efficiency,
    "gradients": gradients,
    "plot": plot,
    "gains": gains,
    "table": table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", default=["efficiency", "gradients"], choices=list(PARTS))
    parser.add_argument("--events", type=int, nargs="+")
    parser.add_argument("--toys", nargs="+", choices=TOYS)
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="that share the trainings")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    options = parser.parse_args()
    for part in options.part:
        PARTS[part](options)


if __name__ == "__main__":
    main()
