"""Throughput of training on this machine's accelerator (or CPU), for one network and for ensembles.

    python benchmarks/accelerator.py

The paper's network trained by KLRE at the paper's batch of 20, and the default network trained by
multi-scale KCE at batches of 256, each as ensembles of 1 to 1000 members; then a default fit with
its exact errors and its time. Prints a table and writes
`benchmarks/results/accelerator-<kind>.json`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import inferostatic as ist
from accuracy import dirichlet, measured, timed_fit
from exact_errors import PAPER_BOX, WIDE_BOX
from record import RESULTS, made, shown

EVENTS = 100_000


def steady(data: Any, members: int, epochs: int, **options: Any) -> float:  # noqa: ANN401
    """Seconds of an epoch once everything is compiled: the fastest after the first."""
    training = ist.Training(epochs=epochs, progress_bar=False, choose=False, **options["training"])
    history = ist.fit(
        data,
        options["method"],
        network=options["network"],
        members=members,
        training=training,
        seed=1,
    ).history
    return float(np.min(history.seconds[1:]))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = jax.devices()[0]
    rows: list[dict[str, Any]] = []
    name = "".join(c if c.isalnum() else "-" for c in device.device_kind.lower())
    path = options.out / f"accelerator-{name}.json"

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        print("  ".join(f"{k} {shown(v)}" for k, v in row.items()), flush=True)
        path.write_text(json.dumps({"made": made(), "rows": rows}, indent=1) + "\n")

    few = options.events // 5
    paper = dirichlet(few, 0, PAPER_BOX)
    events = dirichlet(options.events, 0, WIDE_BOX)
    for members in options.members:
        training = {"batch_size": 20, "validation_fraction": 0.01, "weight_decay": 0.0}
        seconds = steady(
            paper,
            members,
            3,
            method=ist.KLRE(ist.Rectangular(0.4)),
            network=ist.paper_network,
            training=training,
        )
        steps = np.ceil(0.99 * few / 20)
        keep(
            {
                "network": "paper, KLRE, batch 20",
                "members": members,
                "step_us": 1e6 * seconds / steps,
                "events_per_s": members * 0.99 * few / seconds,
            }
        )
    for members in options.members:
        count = events if members <= 100 else events[: options.events // 5]
        training = {"batch_size": 256, "validation_fraction": 0.01, "weight_decay": 0.04}
        seconds = steady(
            count,
            members,
            3,
            method=ist.KCE(),
            network=ist.Potential(ist.Residual(), ist.Natural()),
            training=training,
        )
        steps = np.ceil(0.99 * len(count) / 256)
        keep(
            {
                "network": "default, KCE, batch 256",
                "members": members,
                "step_us": 1e6 * seconds / steps,
                "events_per_s": members * 0.99 * len(count) / seconds,
            }
        )
    for seed in range(options.seeds):
        result = timed_fit(dirichlet(options.events, seed, WIDE_BOX), seed=seed)
        keep({"network": "default fit", "seed": seed} | measured(result))


if __name__ == "__main__":
    main()
