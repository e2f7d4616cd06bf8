"""What one waits for in a new process: imports, and the first fit, score and posterior.

    python benchmarks/startup.py [--events 1000] [--runs 5] [--fresh]

Every measurement is a process of its own, from its start to its end, and the kinds take turns:

    jax          import jax, equinox, optax: what the library is compared with
    import       import inferostatic
    use          the same, and what it imports when `simulate` and `fit` are named
    names        every public name but plots, which needs matplotlib
    fit          a default fit to `--events` events of the Dirichlet distribution, three parameters
    score        the score of 1000 events, by a stored model
    posterior    a default posterior of 100 events, by a stored model

The last three are measured without kept programs (off), with a folder of kept programs that is
empty at first (cold), and in the next process that uses the same folder (warm). The table shows
medians of the wall time, of the user CPU time, and of the wall time of the call alone.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from record import RESULTS, Log

SOURCES: Final = Path(__file__).parent.parent.absolute() / "src"
#: A small potential with two members; `likelihood.py make-model` trains it.
MODEL: Final = Path(__file__).parent.absolute() / "data" / "dirichlet-small.zip"
IMPORTS: Final = {
    "jax": "import jax, equinox, optax",
    "import": "import inferostatic",
    "use": "import inferostatic as ist\nist.simulate, ist.fit",
    "names": "import inferostatic as ist\nfor n in {*dir(ist)} - {'plots'}: getattr(ist, n)",
}
#: Before every call that is timed.
START: Final = """
import time, numpy as np, inferostatic as ist
def draw(n): return ist.toys.Dirichlet()(np.tile(theta, (n, 1)), np.random.default_rng(1))
theta = np.array([1.5, 3.0, 4.0])
"""
#: What is prepared for a call, and the call.
CALLS: Final = {
    "fit": (
        "prior = ist.Uniform([0.1] * 3, [5.4] * 3)\n"
        "events = ist.simulate(ist.toys.Dirichlet(), prior, {events}, seed=1)",
        "ist.fit(events, seed=2)",
    ),
    "score": ("est = ist.load({model!r})\nx = draw(1000)", "est.score(x, theta)"),
    "posterior": ("est = ist.load({model!r})\nx = draw(100)", "ist.posterior(est, x, seed=3)"),
}
#: What would keep programs elsewhere, or have Python compile its own sources in each process.
UNSET: Final = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
CACHES: Final = ("off", "cold", "warm")


def write_script(kind: str, events: int) -> str:
    """The program of a process; it prints the seconds of its call."""
    if kind in IMPORTS:
        return IMPORTS[kind]
    prepared, call = (text.format(events=events, model=str(MODEL)) for text in CALLS[kind])
    timed = f"began = time.perf_counter()\n{call}\nprint(time.perf_counter() - began)"
    return f"{START}\n{prepared}\n{timed}"


def measure(*, kind: str, cache: str, events: int | None, run: int) -> dict[str, float]:
    """Wall and user seconds of a process, and wall seconds of its call."""
    del run
    script = write_script(kind, events or 0)
    with tempfile.TemporaryDirectory() as folder:
        if cache == "warm":
            time_process(script, cache, folder)
        return time_process(script, cache, folder)


def time_process(script: str, cache: str, folder: str) -> dict[str, float]:
    """Run one program; what it compiles is kept in the folder, unless the cache is off."""
    environment = {k: v for k, v in os.environ.items() if k not in UNSET}
    environment |= {
        "PYTHONPATH": str(SOURCES),
        "XDG_CACHE_HOME": folder,
        "INFEROSTATIC_CACHE": "0" if cache == "off" else "1",
        "INFEROSTATIC_PROGRESS": "0",
    }
    before, began = user_seconds(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.PIPE
    )
    found = {"wall": time.perf_counter() - began, "cpu": user_seconds() - before}
    return found | ({"call": float(done.stdout)} if done.stdout else {})


def user_seconds() -> float:
    """CPU time of all processes that have ended, without that of the system."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def list_keys(runs: int, events: int) -> list[dict[str, Any]]:
    """Everything to be measured; the kinds take turns."""
    kinds = [(kind, "off") for kind in IMPORTS]
    kinds += [(kind, cache) for kind in CALLS for cache in CACHES]
    return [
        {"kind": kind, "cache": cache, "events": events if kind == "fit" else None, "run": run}
        for run in range(runs)
        for kind, cache in kinds
    ]


def summarise(rows: list[dict[str, Any]]) -> str:
    """Medians by kind and cache, and the cost of the imports in that of JAX, Equinox and Optax."""
    groups: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["cache"], row["events"]), []).append(row)
    lines = [f"{'':26}{'runs':>5}{'wall s':>9}{'user s':>9}{'call s':>9}{'user / jax':>12}"]
    base = median(groups[("jax", "off", None)], "cpu")
    for (kind, cache, events), group in groups.items():
        name = f"{kind} {events or ''}".strip() + (f", {cache}" if kind in CALLS else "")
        values = [median(group, what) for what in ("wall", "cpu")]
        texts = [f"{value:9.2f}" for value in values]
        texts += [f"{median(group, 'call'):9.2f}" if kind in CALLS else f"{'':9}"]
        texts += [f"{values[1] / base:12.2f}" if kind in IMPORTS else ""]
        lines.append(f"{name:26}{len(group):5}{''.join(texts)}")
    return "\n".join(lines)


def median(rows: list[dict[str, Any]], name: str) -> float:
    """Of one column."""
    return statistics.median(row[name] for row in rows)


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description="What one waits for in a new process.")
    parser.add_argument("--events", type=int, default=1000, help="events of the fit")
    parser.add_argument("--runs", type=int, default=5, help="processes of each kind")
    parser.add_argument("--kinds", nargs="+", default=[*IMPORTS, *CALLS], help="only these")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--out", type=Path, default=RESULTS / "startup.json", help="the record")
    options = parser.parse_args()
    log = Log(options.out, fresh=options.fresh)
    keys = list_keys(options.runs, options.events)
    time_process(IMPORTS["names"], "off", "")  # bytecode is there before anything is measured
    log.measure([key for key in keys if key["kind"] in options.kinds], measure)
    print(f"\n{summarise(log.rows)}")


if __name__ == "__main__":
    main()
