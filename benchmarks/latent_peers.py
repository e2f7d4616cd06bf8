"""MadMiner's methods beside ours: the same events, errors against the truth, and time of a step.

    python benchmarks/latent_peers.py accuracy   MadMiner as shipped and corrected, 100,000 events
    python benchmarks/latent_peers.py speed      milliseconds of a step on one core, batches of 128
    python benchmarks/latent_peers.py table      both beside ours, for the documentation

Errors are those of `latent.py`, whose rows for the same events are ours. MadMiner trains networks
of two layers of 100, otherwise with its defaults (50 epochs); what *corrected* means is told in
`peers/madminer_worker.py`. The local score (SALLY at one θ) is trained and tested on events of that
θ. Steps are timed for networks of one layer of 100, MadMiner's default, in flows for each of
their networks. Results are in `benchmarks/results/latent-peers.json` and
`latent-speed.json`, and are measured only where they are missing.
"""

import argparse
import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from latent import (
    DENSITIES,
    HERE,
    MAIN_TOYS,
    METHODS,
    NETWORK,
    PLAN,
    TEST,
    TOYS,
    errors,
    events_of,
    percent,
    relative_errors,
    test_of,
)
from record import RESULTS, Log

PEER_PYTHON: Final = HERE.parent / ".venv-peers" / "bin" / "python"
WORKER: Final = HERE / "peers" / "madminer_worker.py"
#: MadMiner's names of the methods both have, and what ours are called in `latent.py`.
PEERS: Final = {
    "carl": "CARL",
    "rolr": "ROLR",
    "alice": "ALICE",
    "cascal": "CASCAL",
    "rascal": "RASCAL",
    "alices": "ALICES",
    "nde": "NDE",
    "scandal": "SCANDAL",
    "sally": "local SALLY",
}
EVENTS: Final = 100_000
BATCH, TIMED_EVENTS, TIMED_EPOCHS = 128, 12_800, 10
#: Networks trained side by side in the second timing.
MEMBERS: Final = 10


def applies(toy: str, method: str) -> bool:
    return not (toy.startswith("Galton") and PEERS[method] in DENSITIES)


def accuracy(options: argparse.Namespace) -> None:
    """MadMiner's errors, and ours of the local score."""
    log = Log(RESULTS / "latent-peers.json", fresh=options.fresh)
    for toy in options.toys or MAIN_TOYS:
        for method in options.methods or PEERS:
            if not applies(toy, method):
                continue
            for variant in options.variants:
                key = {"toy": toy, "method": method, "variant": variant, "events": EVENTS}
                log.row(key, lambda k=key: peer_row(*k.values()))
            if method == "sally":
                key = {"toy": toy, "method": method, "variant": "ours", "events": EVENTS}
                log.row(key, lambda t=toy: our_local_row(t))


def peer_row(toy: str, method: str, variant: str, count: int) -> dict[str, Any]:
    """The errors of one of MadMiner's networks, and what went wrong with it."""
    inputs = local_arrays(toy, count) if method == "sally" else pair_arrays(toy, count)
    answer = asked(method, variant, inputs, "--workers", "0", "--hidden", "100", "100")
    row = {"failed": str(answer["failed"])} if "failed" in answer else {}
    if method == "sally":
        row |= {"score error": relative_errors(answer["score"], inputs["test_score"])}
    elif "log_r" in answer:
        # As shipped the score of doubly parameterised models cannot be had.
        row |= errors(toy, answer["log_r"], answer.get("score"))
    return row | {"seconds": float(answer["seconds"]), "steps": int(answer["steps"])}


def asked(method: str, variant: str, inputs: dict[str, Any], *options: str) -> dict[str, Any]:
    """What MadMiner answers, in its own environment."""
    if not PEER_PYTHON.exists():
        raise SystemExit("The other packages are not installed: run `make .venv-peers`.")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **inputs)
        command = [PEER_PYTHON, WORKER, method, variant, source, target, "--seed", "0", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{method} of MadMiner failed:\n{done.stderr}")
        with np.load(target) as file:
            return dict(file)


@lru_cache(maxsize=1)
def pair_arrays(toy: str, count: int) -> dict[str, np.ndarray]:
    """The same events with a partner of each θ, which is what MadMiner takes."""
    simulator, prior = TOYS[toy]
    events = events_of(toy, count, 0)
    rng = np.random.default_rng(4)
    partner = prior.sample(count, seed=44)
    label = rng.integers(2, size=count)
    theta0 = np.where(label[:, None] == 1, partner, events.theta)
    theta1 = np.where(label[:, None] == 1, events.theta, partner)
    x, z = (jnp.asarray(a, jnp.float32) for a in (events.x, events.latent["z"]))
    of_all = jax.jit(jax.vmap(jax.value_and_grad(simulator.joint_log_prob, argnums=2)))
    (value0, score0), (value1, score1) = (
        of_all(x, z, jnp.asarray(theta, jnp.float32)) for theta in (theta0, theta1)
    )
    own = np.where(label[:, None] == 1, score1, score0)
    test = test_of(toy)
    return {
        "x": events.x,
        "y": label,
        "theta0": theta0,
        "theta1": theta1,
        "log_r_xz": np.asarray(value0 - value1),
        "t_xz0": np.asarray(score0),
        "t_xz1": np.asarray(score1),
        "theta": events.theta,
        "t": own,
        "test_x": test["x"],
        "test_theta0": test["theta0"],
        "test_theta1": test["theta1"],
        "test_theta": test["theta"],
    }


# ----------------------------------------------------------------------------- the local score


def reference_of(toy: str) -> np.ndarray:
    """Off the middle, where a toy may be symmetric."""
    low, high = TOYS[toy][1].support
    return np.asarray(low + 0.7 * (high - low), np.float64)


@lru_cache(maxsize=1)
def local_events(toy: str, count: int) -> ist.Events:
    """Events simulated at the reference point alone."""
    at_reference = ist.Discrete([reference_of(toy)])
    return ist.simulate(TOYS[toy][0], at_reference, count, seed=6, progress_bar=False)


@lru_cache(maxsize=1)
def local_arrays(toy: str, count: int) -> dict[str, np.ndarray]:
    """Events at the reference with their joint scores, and a test sample with the true one."""
    simulator, theta = TOYS[toy][0], reference_of(toy)
    events = local_events(toy, count)
    x, z = (jnp.asarray(a, jnp.float32) for a in (events.x, events.latent["z"]))
    slope = jax.jit(jax.vmap(jax.grad(simulator.joint_log_prob, argnums=2), in_axes=(0, 0, None)))
    everywhere = np.tile(theta, (TEST, 1))
    test_x = simulator(everywhere, np.random.default_rng(78))
    return {
        "x_ref": events.x,
        "t_ref": np.asarray(slope(x, z, jnp.asarray(theta, jnp.float32))),
        "test_x": test_x,
        "test_score": simulator.score(test_x, everywhere),
    }


def our_local_row(toy: str) -> dict[str, Any]:
    theta = reference_of(toy)
    estimator = ist.fit(
        local_events(toy, EVENTS),
        ist.SALLY(reference=theta),
        network=ist.DirectScore(NETWORK.network, NETWORK.x_features),
        members=1,
        training=PLAN,
        seed=0,
    )
    inputs = local_arrays(toy, EVENTS)
    score = estimator.score(inputs["test_x"], theta)
    return {"score error": relative_errors(score, inputs["test_score"])}


# --------------------------------------------------------------------------------------- speed


def speed(options: argparse.Namespace) -> None:
    """Milliseconds of a step, ours and MadMiner's in turn, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    log = Log(RESULTS / "latent-speed.json", fresh=options.fresh)
    for method in options.methods or PEERS:
        log.row({"method": method}, lambda m=method: speed_row(m))


def speed_row(method: str) -> dict[str, float]:
    toy = "two couplings"
    arrays = local_arrays if method == "sally" else pair_arrays
    inputs = arrays(toy, TIMED_EVENTS)
    peer = asked(method, "corrected", inputs, "--seconds", "--epochs", str(TIMED_EPOCHS))
    network = one_layer(method)
    alone = our_step(toy, method, network, 1)
    together = our_step(toy, method, network, MEMBERS) / MEMBERS
    theirs = 1000 * float(peer["seconds_per_step"])
    row = {
        "MadMiner": theirs,
        "ours": alone,
        f"ours, of {MEMBERS}": together,
        "ratio": theirs / alone,
        f"ratio, of {MEMBERS}": theirs / together,
    }
    if PEERS[method] in DENSITIES:
        row["ours, default flow"] = our_step(toy, method, ist.Flow(), 1)
    return row


def one_layer(method: str) -> Any:  # noqa: ANN401
    """As MadMiner has it: one layer of 100, in each network of a flow."""
    if PEERS[method] in DENSITIES:
        return ist.Flow(ist.MixtureFlow(width=100, depth=1))
    kind = ist.DirectScore if method == "sally" else ist.Potential
    return kind(ist.MLP((100,), jax.nn.tanh), ist.Standardised())


def our_step(toy: str, method: str, network: Any, members: int) -> float:  # noqa: ANN401
    """Milliseconds of a step by the fit's own record, the median over epochs but the first."""
    training = ist.Training(
        epochs=TIMED_EPOCHS + 1, batch_size=BATCH, validation_fraction=0, progress_bar=False
    )
    if method == "sally":
        events, how = local_events(toy, TIMED_EVENTS), ist.SALLY(reference=reference_of(toy))
    else:
        events, how = events_of(toy, TIMED_EVENTS, 0), METHODS[PEERS[method]]
    estimator = ist.fit(events, how, network=network, members=members, training=training, seed=0)
    seconds = np.asarray(estimator.history.seconds, float)[1:]
    return 1000 * float(np.median(seconds)) / (TIMED_EVENTS / BATCH)


# --------------------------------------------------------------------------------------- table


def table(options: argparse.Namespace) -> None:
    """Errors in percent, MadMiner's as shipped and corrected and ours, and times of a step."""
    del options
    found = {(r["toy"], r["method"], r["variant"]): r for r in rows_of("latent-peers.json")}
    for row in rows_of("latent.json"):
        for method, name in PEERS.items():
            if (row["method"], row["events"], row["seed"]) == (name, EVENTS, 0):
                found[row["toy"], method, "ours"] = row
    steps = {row["method"]: row for row in rows_of("latent-speed.json")}
    toys = [toy for toy in MAIN_TOYS if (toy, "alices", "corrected") in found]
    print("| method | " + " | ".join(toys) + " | ms of a step | |")
    print("|---" * (len(toys) + 3) + "|")
    for method, name in PEERS.items():
        shown = "score error" if method == "sally" else "ratio error"
        cells = [
            " / ".join(
                percent(found.get((toy, method, variant), {}).get(shown)) or "–"
                for variant in ("shipped", "corrected", "ours")
            )
            for toy in toys
        ]
        cells = [cell if any(sign.isdigit() for sign in cell) else "" for cell in cells]
        step = steps[method]
        cells += [f"{step['MadMiner']:.2g} / {step['ours']:.2g}", f"{step['ratio']:.1f} ×"]
        print("| " + " | ".join([name, *cells]) + " |")


def rows_of(name: str) -> list[dict[str, Any]]:
    return Log(RESULTS / name, fresh=False).rows


PARTS: Final = {"accuracy": accuracy, "speed": speed, "table": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", default=["accuracy", "speed"], choices=list(PARTS))
    parser.add_argument("--toys", nargs="+", choices=TOYS)
    parser.add_argument("--methods", nargs="+", choices=PEERS)
    parser.add_argument(
        "--variants",
        nargs="+",
        default=["shipped", "corrected"],
        choices=["shipped", "corrected"],
    )
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    options = parser.parse_args()
    for part in options.part:
        PARTS[part](options)


if __name__ == "__main__":
    main()
