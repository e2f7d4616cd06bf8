"""How accurate estimators are for a given number of simulated events, against exact truth.

    python benchmarks/accuracy.py tasks       the paper's three tasks: methods × networks × seeds
    python benchmarks/accuracy.py budgets     the same errors from 1,000 to 1,000,000 events
    python benchmarks/accuracy.py toys        the defaults on every toy with exact truth
    python benchmarks/accuracy.py sbibm       a public benchmark of posteriors (C2ST)
    python benchmarks/accuracy.py peers       the paper's tasks with sbi and MadMiner
    python benchmarks/accuracy.py             all of them

Each part prints a table and writes `benchmarks/results/accuracy-<part>.json` with the date, the
versions and the machine. A part that was interrupted goes on where it stopped; `--fresh` begins
anew.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import inferostatic as ist
from exact_errors import (
    PAPER_BEST,
    PAPER_BOX,
    TASKS,
    TOYS,
    WIDE_BOX,
    prediction_errors,
    task_errors,
    task_inputs,
    toy_errors,
)
from record import RESULTS, Log
from workers import ask_peer

HERE: Final = Path(__file__).parent.absolute()
EVENTS: Final = 100_000
BUDGETS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PAPER_TRAINING: Final = ist.Training(
    epochs=20,
    batch_size=20,
    learning_rate=1e-3,
    schedule=ist.Constant(),
    weight_decay=0.0,
    clip=None,
    epsilon=1e-7,
    keep_best=False,
)
METHODS: Final[dict[str, Any]] = {
    "KSE": ist.KSE(ist.Delta(0.25)),
    "KLRE": ist.KLRE(ist.Rectangular(0.4)),
    "CARL": ist.CARL(),
    "KCE": ist.KCE(),
}
#: In place of a number of events: the exact likelihood.
CONTROL: Final = "exact likelihood"
#: What peers/accuracy_worker.py trains, and how the trained network is evaluated.
PEERS: Final = {
    "sbi NRE_B": ("sbi-nre-b", "default"),
    "sbi BNRE": ("sbi-bnre", "default"),
    "MadMiner CARL, as shipped": ("madminer-carl", "shipped"),
    "MadMiner CARL, corrected": ("madminer-carl", "corrected"),
}


def log_of(part: str, *, fresh: bool) -> Log:
    """The results of a part."""
    return Log(RESULTS / f"accuracy-{part}.json", fresh=fresh)


def dirichlet(events: int, seed: int, box: tuple[list[float], list[float]]) -> ist.Events:
    """Events of the paper's simulator."""
    prior = ist.Uniform(*box)
    return ist.simulate(ist.toys.Dirichlet(), prior, events, seed=100 + seed, progress_bar=False)


def timed_fit(data: ist.Events | ist.Records, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
    """An estimator and the seconds it took, compilation and everything else included."""
    began = time.perf_counter()
    estimator = ist.fit(data, *arguments, **options)
    return estimator, time.perf_counter() - began


def tasks(log: Log, seeds: int, only: str | None) -> None:
    """The paper's tasks at 100,000 events: every method with the paper's and the default network.

    The paper's network is trained as in the paper, on records drawn by the method's flowchart and
    for the paper's prior (KCE, which the paper does not have, on stored events). The default
    network is trained on stored events, with θ on the wider box and, for KCE, on the paper's too.
    """
    for seed in range(seeds):
        for name, method in METHODS.items():
            cases: dict[str, Callable[[], Any]] = {
                "paper": lambda m=method, n=name, s=seed: paper_network(n, m, s),
                "default": lambda m=method, s=seed: timed_fit(
                    dirichlet(EVENTS, s, WIDE_BOX), m, seed=s
                ),
            }
            if name == "KCE":
                cases["default, narrow"] = lambda m=method, s=seed: timed_fit(
                    dirichlet(EVENTS, s, PAPER_BOX), m, seed=s
                )
            for network, train in cases.items():
                label = f"{name}/{network}"
                if only is None or only in label:
                    log.row({"case": label, "seed": seed}, lambda t=train: measured(t()))


def measured(result: tuple[ist.Estimator, float]) -> dict[str, Any]:
    """Errors on the paper's tasks, seconds, and what was chosen."""
    estimator, seconds = result
    features = type(estimator.architecture.x_features).__name__
    decay = estimator.training.weight_decay
    return task_errors(estimator) | {"seconds": seconds, "features": features, "decay": decay}


def paper_network(name: str, method: Any, seed: int) -> Any:  # noqa: ANN401
    """The paper's network and training."""
    if name == "KCE":
        data: Any = dirichlet(EVENTS, seed, PAPER_BOX)
        arguments: tuple[Any, ...] = (method,)
    else:
        prior = ist.Uniform(*PAPER_BOX)
        data = ist.draw(method, ist.toys.Dirichlet(), prior, EVENTS, seed=seed, progress_bar=False)
        arguments = ()
    return timed_fit(
        data, *arguments, network=ist.paper_network, training=PAPER_TRAINING, seed=seed
    )


def tell_tasks(log: Log) -> None:
    """Medians over seeds."""
    tell_cases(log.rows)


def tell_cases(found: list[dict[str, Any]]) -> None:
    """Medians of each case, below the paper's best."""
    print(f"\n{'medians over seeds':28}" + "".join(f"{task:>10}" for task in TASKS) + "   seconds")
    best = "".join(f"{PAPER_BEST[task]:10.4f}" for task in TASKS)
    print(f"{'paper, best for each task':28}{best}")
    for case in dict.fromkeys(row["case"] for row in found):
        rows = [row for row in found if row["case"] == case]
        values = "".join(f"{np.median([row[task] for row in rows]):10.4f}" for task in TASKS)
        seconds = np.median([row["seconds"] for row in rows])
        print(f"{case:28}{values}{seconds:10.0f}   ({len(rows)} seeds)")


def budgets(log: Log, seeds: int, only: str | None) -> None:
    """Errors on the paper's tasks against the number of events."""
    for events in BUDGETS:
        for name, method in METHODS.items():
            for seed in range(seeds):
                if only is None or only in f"{name}/{events}":
                    log.row(
                        {"method": name, "events": events, "seed": seed},
                        lambda e=events, m=method, s=seed: measured(
                            timed_fit(dirichlet(e, s, WIDE_BOX), m, seed=s)
                        ),
                    )


def tell_budgets(log: Log) -> None:
    """Medians, and a picture."""
    print(f"\n{'method':8}{'events':>10}" + "".join(f"{task:>10}" for task in TASKS))
    for name in METHODS:
        for events in BUDGETS:
            rows = [r for r in log.rows if r["method"] == name and r["events"] == events]
            if rows:
                values = "".join(f"{np.median([r[t] for r in rows]):10.4f}" for t in TASKS)
                print(f"{name:8}{events:10d}{values}")
    draw_budgets(log)


def draw_budgets(log: Log) -> None:
    """Error against budget, one panel for each task."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for panel, task in zip(panels, TASKS, strict=True):
        for name in METHODS:
            points = []
            for events in BUDGETS:
                rows = [r for r in log.rows if r["method"] == name and r["events"] == events]
                if rows:
                    points.append((events, np.median([r[task] for r in rows])))
            if points:
                panel.plot(*np.array(points).T, marker="o", label=name)
        panel.axhline(PAPER_BEST[task], color="0.6", linestyle="--", linewidth=1)
        height = PAPER_BEST[task] * 1.1
        panel.text(1e6, height, "paper's best, 100,000 events", color="0.4", size=7, ha="right")
        panel.set(xscale="log", yscale="log", title=f"Task {task[1]}", xlabel="simulated events")
    panels[0].set_ylabel("mean squared error")
    panels[0].legend(frameon=False)
    path = HERE.parent / "docs" / "images" / "accuracy-budgets.svg"
    figure.savefig(path)
    plt.close(figure)
    print(f"picture: {path.relative_to(HERE.parent)}")


def toys(log: Log, seeds: int, only: str | None) -> None:
    """The defaults on every toy with exact truth."""
    for name in TOYS:
        for seed in range(seeds):
            if only is None or only in name:
                log.row({"toy": name, "seed": seed}, lambda n=name, s=seed: measured_toy(n, s))


def measured_toy(name: str, seed: int) -> dict[str, Any]:
    """Errors of a default fit to one toy."""
    toy, box = TOYS[name]
    events = ist.simulate(toy, ist.Uniform(*box), EVENTS, seed=100 + seed, progress_bar=False)
    estimator, seconds = timed_fit(events, seed=seed)
    features = type(estimator.architecture.x_features).__name__
    return toy_errors(name, estimator) | {"seconds": seconds, "features": features}


def tell_toys(log: Log) -> None:
    """Medians over seeds."""
    columns = ("score", "log_ratio", "excess", "edge", "edge_relative")
    print(f"\n{'toy':34}" + "".join(f"{column:>15}" for column in columns))
    for name in dict.fromkeys(row["toy"] for row in log.rows):
        rows = [row for row in log.rows if row["toy"] == name]
        values = "".join(f"{np.median([row[c] for row in rows]):15.5f}" for c in columns)
        print(f"{name:34}{values}")


def public(log: Log, seeds: int, only: str | None) -> None:
    """sbibm: posteriors of ten published observations, by C2ST, and exact errors.

    With them a control, the exact likelihood in place of a network: what it has above 0.5 is the
    sampler's and the test's. All trainings come first; the C2STs take longer (minutes for each
    observation of the tasks with ten parameters) and follow in other processes.
    """
    from sbibm.c2st import processes
    from sbibm.evaluate import Exact, begin
    from sbibm.tasks import TASKS as PUBLIC

    cells: list[dict[str, Any]] = [
        {"task": name, "events": events, "seed": seed}
        for events in (1_000, 10_000, CONTROL)
        for name in PUBLIC
        for seed in range(1 if events == CONTROL else seeds)
        if only is None or only in f"{name}/{events}/"
    ]
    begun = []
    with processes() as pool:
        for cell in cells:
            if log.has(cell):
                continue
            task, seed = PUBLIC[cell["task"]], 1 + cell["seed"]
            if cell["events"] == CONTROL:
                judged = begin(task, 1, seed, lambda _, __, t=task: Exact(t), pool)
            else:
                judged = begin(task, cell["events"], seed, lambda e, s: ist.fit(e, seed=s), pool)
            begun.append((cell, judged))
        for cell, judged in begun:
            log.row(cell, lambda j=judged: told(j.result()))


def told(found: Any) -> dict[str, Any]:  # noqa: ANN401
    """An evaluation as a row."""
    return {
        "c2st": [found.c2st[number] for number in sorted(found.c2st)],
        "median": float(np.median(list(found.c2st.values()))),
        "errors": dataclasses.asdict(found.errors),
        "seconds": found.training_seconds,
        "sampling_seconds": found.sampling_seconds,
    }


def tell_public(log: Log) -> None:
    """Medians beside those that were published."""
    from sbibm.evaluate import PUBLISHED

    names = ("NRE", "NPE", "NLE", "SNRE")
    heads = "".join(f"{name:>8}" for name in names)
    print(f"\n{'C2ST, median of 10':26}{'events':>18}{'here':>8}{heads}")
    for name in dict.fromkeys(row["task"] for row in log.rows):
        for events in (1_000, 10_000, CONTROL):
            rows = [r for r in log.rows if r["task"] == name and r["events"] == events]
            if rows:
                ours = np.median([r["median"] for r in rows])
                theirs = "".join(
                    f"{PUBLISHED[name][other][events]:8.3f}" for other in names if events != CONTROL
                )
                print(f"{name:26}{events:>18}{ours:8.3f}{theirs:32}   ({len(rows)} seeds)")


def peers(log: Log, seeds: int, only: str | None) -> None:
    """The paper's tasks with other packages, trained on the same stored events."""
    for seed in range(seeds):
        for name, (peer, variant) in PEERS.items():
            if only is None or only in name:
                log.row(
                    {"case": name, "seed": seed},
                    lambda p=peer, v=variant, s=seed: measured_peer(p, v, s),
                )


def measured_peer(peer: str, variant: str, seed: int) -> dict[str, Any]:
    """Errors of what a peer predicted, and what it says of its training."""
    answer = peer_answer(peer, seed)
    about = {name: answer[name].item() for name in ("seconds", "epochs", "versions")}
    return prediction_errors({task: answer[f"{variant}/{task}"] for task in TASKS}) | about


# The two variants of MadMiner's network follow each other, and share a training.
@lru_cache(maxsize=1)
def peer_answer(peer: str, seed: int) -> dict[str, np.ndarray]:
    """What a peer, in a process of its own and in .venv-peers, writes after its training."""
    events = dirichlet(EVENTS, seed, WIDE_BOX)
    given = {"x": events.x, "theta": events.theta, "low": WIDE_BOX[0], "high": WIDE_BOX[1]}
    for task in TASKS:
        given |= {f"{task}/{name}": points for name, points in task_inputs(task).items()}
    return ask_peer(peer, given, seed)


def tell_peers(log: Log) -> None:
    """Medians, beside this library's default where `tasks` has measured it."""
    ours = [row for row in log_of("tasks", fresh=False).rows if row["case"] == "KCE/default"]
    tell_cases(ours + log.rows)


PARTS: Final[dict[str, tuple[Any, Any]]] = {
    "tasks": (tasks, tell_tasks),
    "budgets": (budgets, tell_budgets),
    "toys": (toys, tell_toys),
    "sbibm": (public, tell_public),
    "peers": (peers, tell_peers),
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each kind")
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--tell", action="store_true", help="only print what was measured")
    options = parser.parse_args()
    for part in options.parts or list(PARTS):
        run, tell = PARTS[part]
        log = log_of(part, fresh=options.fresh)
        if not options.tell:
            print(f"--- {part}", flush=True)
            run(log, options.seeds, options.only)
        tell(log)


if __name__ == "__main__":
    main()
