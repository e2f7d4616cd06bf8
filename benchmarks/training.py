"""Time the same training in TensorFlow-Keras, PyTorch and this library, side by side.

Every stack lives in a process of its own, restricted to one thread and one core, and is warmed up
before the clock starts. The parent asks them in turn, one at a time, for a piece of training, so
that slow drifts of the machine fall on all of them alike, and takes medians over the repeats.

    python benchmarks/training.py               the benchmark, and benchmarks/results/training.json
    python benchmarks/training.py --check       only: the same weights give the same loss everywhere
    python benchmarks/training.py --quick       a minute; prints, writes nothing
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from peers import problem
from peers.problem import TASKS, UNTRAINED_LOSS
from peers.service import Job, request_for
from record import processor

HERE: Final = Path(__file__).parent.absolute()
BASELINES: Final = ("keras", "keras-steps50", "torch")
CHECK_ROWS: Final = 5000
CHECK_TOLERANCE: Final = 1e-5
LOSS_TOLERANCE: Final = 0.3

ONE_THREAD: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class StackSpec:
    """How to start a stack's worker, and how many networks it trains at once."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    members: int = 1
    is_peer: bool = True


STACKS: Final = {
    spec.name: spec
    for spec in (
        StackSpec("keras", "peers.keras_worker"),
        StackSpec("keras-steps50", "peers.keras_worker", ("--steps-per-execution", "50")),
        StackSpec("torch", "peers.torch_worker"),
        StackSpec("inferostatic", "peers.inferostatic_worker", is_peer=False),
        StackSpec(
            "inferostatic-ensemble-5",
            "peers.inferostatic_worker",
            ("--members", "5"),
            members=5,
            is_peer=False,
        ),
    )
}


@dataclass(frozen=True)
class Settings:
    """The size of the benchmark."""

    rows: int
    repeats: int
    batches: tuple[int, ...]
    peer_steps: int
    epochs: int
    loss_epochs: int
    loss_batch: int = 1000

    def job(self, spec: StackSpec, what: str, batch: int, path: Path) -> Job:
        """Return the timed piece: whole epochs, over fewer rows where a stack is slow."""
        row_count = self.rows // batch * batch
        if not spec.is_peer:
            return Job(what, batch, row_count, self.epochs, str(path))
        row_count = min(row_count, self.peer_steps * batch)
        # An epoch at a large batch has few steps, so it is repeated.
        epochs = max(1, min(self.epochs, self.peer_steps * batch // row_count))
        return Job(what, batch, row_count, epochs, str(path))

    def loss_job(self, what: str, path: Path, held_out: Path) -> Job:
        """Return the common training after which all losses are compared."""
        row_count = self.rows // self.loss_batch * self.loss_batch
        batch, epochs = self.loss_batch, self.loss_epochs
        return Job(what, batch, row_count, epochs, str(path), str(held_out), seed=1)


@dataclass(frozen=True)
class Row:
    """One line of the result."""

    what: str
    batch: int
    stack: str
    us_per_network_step: float
    repeats: list[float]


class WorkerError(RuntimeError):
    """A worker ended, or could not do what it was asked."""


@dataclass(frozen=True)
class Worker:
    """A running stack."""

    spec: StackSpec
    process: subprocess.Popen[str]
    log: Path

    def ask(self, request: dict[str, object]) -> Any:  # noqa: ANN401
        """Send one request and wait for its answer."""
        to_worker, from_worker = _pipes(self.process)
        try:
            print(json.dumps(request), file=to_worker, flush=True)
            line = from_worker.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            last_words = "\n".join(self.log.read_text().splitlines()[-15:])
            raise WorkerError(f"The worker of {self.spec.name} ended:\n{last_words}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"The worker of {self.spec.name} failed:\n{answer['error']}")
        return answer["result"]


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise ValueError("The worker was started without pipes.")
    return process.stdin, process.stdout


@contextmanager
def running(
    spec: StackSpec, *, peer_python: Path, core: int | None, folder: Path
) -> Iterator[Worker]:
    """Start a worker, pinned to one core from its first instruction, and end it afterwards.

    What a framework says on starting goes to a log, and is shown only if the worker ends early.
    """
    python = peer_python if spec.is_peer else Path(sys.executable)
    if not python.exists():
        raise WorkerError(
            f"{spec.name} needs {python}, which does not exist: run `make bench`, name another "
            "interpreter with --peer-python, or choose other --stacks."
        )
    log = folder / f"{spec.name}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(python), "-m", spec.module, *spec.arguments],
            cwd=HERE,
            env=os.environ | ONE_THREAD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=None if core is None else partial(os.sched_setaffinity, 0, {core}),
        )
    try:
        yield Worker(spec, process, log)
    finally:
        with suppress(BrokenPipeError):
            _pipes(process)[0].close()
        process.wait(timeout=60)


def measure(workers: list[Worker], settings: Settings, files: dict[str, Path]) -> list[Row]:
    """Time every stack on every task and batch size."""
    return [
        row
        for what in TASKS
        for batch in settings.batches
        for row in measure_alternately(workers, settings, what, batch, files[what])
    ]


def measure_alternately(
    workers: list[Worker], settings: Settings, what: str, batch: int, path: Path
) -> list[Row]:
    """Ask the stacks in turn, several times round, after warming all of them up."""
    jobs = {worker.spec.name: settings.job(worker.spec, what, batch, path) for worker in workers}
    for worker in workers:
        worker.ask(request_for("warm_up", jobs[worker.spec.name]))
    repeats: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(settings.repeats):
        for worker in workers:
            job = jobs[worker.spec.name]
            seconds = worker.ask(request_for("epoch_seconds", job))
            per_step = sum(seconds) / (len(seconds) * job.steps * worker.spec.members)
            repeats[worker.spec.name].append(1e6 * per_step)
    return [
        Row(what, batch, name, statistics.median(values), values)
        for name, values in repeats.items()
    ]


def check_same_weights(workers: list[Worker], folder: Path) -> bool:
    """Print the loss of the same weights on the same rows in every stack; return agreement."""
    print(f"\nThe same weights on the same {CHECK_ROWS} rows")
    agreed = True
    for what in TASKS:
        rows, weights = problem.draw_rows(what, CHECK_ROWS, seed=11), problem.glorot_weights(seed=7)
        path = folder / f"check-{what}.npz"
        problem.save_rows(rows, path)
        expected = problem.reference_loss(what, weights, rows)
        print(f"  {what:9} {'NumPy, float64':24} {expected:.7f}")
        request = {
            "ask": "loss_at",
            "what": what,
            "rows": str(path),
            "weights": as_lists(weights),
        }
        for worker in workers:
            loss = worker.ask(request)
            good = abs(loss - expected) <= CHECK_TOLERANCE * expected
            agreed &= good
            print(f"  {what:9} {worker.spec.name:24} {loss:.7f}{'' if good else '  DIFFERS'}")
    return agreed


def check_trained_losses(
    workers: list[Worker], settings: Settings, files: dict[str, Path], held_out: dict[str, Path]
) -> tuple[dict[str, dict[str, float]], bool]:
    """Train alike in every stack, print the losses, and return them with their agreement.

    All start from the same weights and are judged on the same new rows, but each has its own order
    of the training rows. At batch 20 that alone makes what KLRE gains over a constant potential
    differ threefold, in one stack and the same; at batch 1000 the gains of different orders differ
    by a tenth. Agreement means here: within LOSS_TOLERANCE of the median gain.
    """
    if settings.loss_epochs == 0:
        return {}, True
    print(f"\nLoss after {settings.loss_epochs} epochs at batch {settings.loss_batch}")
    losses: dict[str, dict[str, float]] = {}
    agreed = True
    for what in TASKS:
        weights = as_lists(problem.glorot_weights(seed=1))
        job = settings.loss_job(what, files[what], held_out[what])
        request = request_for("trained_loss", job, weights=weights)
        losses[what] = {worker.spec.name: worker.ask(request) for worker in workers}
        gains = {name: UNTRAINED_LOSS[what] - loss for name, loss in losses[what].items()}
        typical = statistics.median(gains.values())
        for name, gain in gains.items():
            good = abs(gain - typical) <= LOSS_TOLERANCE * typical
            agreed &= good
            loss = losses[what][name]
            below = f"{gain:.4f} below a constant potential"
            print(f"  {what:9} {name:24} {loss:9.5f}  {below}{'' if good else '  DIFFERS'}")
    return losses, agreed


def as_lists(weights: list[problem.Array]) -> list[Any]:
    """Return the weights as JSON can carry them; float32 survives the way unchanged."""
    return [weight.tolist() for weight in weights]


def print_table(rows: list[Row]) -> None:
    """Print µs per network-step, and how many times faster each stack is than the others."""
    baselines = {(row.what, row.batch, row.stack): row.us_per_network_step for row in rows}
    heads = "".join(f"{'vs ' + name:>18}" for name in BASELINES)
    print(f"\n{'':9} {'batch':>5}  {'stack':24} {'µs/network-step':>15} {'range':>15}{heads}")
    for row in rows:
        ratios = ""
        for name in BASELINES:
            baseline = baselines.get((row.what, row.batch, name))
            ratios += f"{'-' if baseline is None else _ratio(baseline, row):>18}"
        span = f"{min(row.repeats):.1f}-{max(row.repeats):.1f}"
        time = f"{row.us_per_network_step:15.1f}"
        print(f"{row.what:9} {row.batch:5}  {row.stack:24} {time} {span:>15}{ratios}")
    unsteady = [row for row in rows if max(row.repeats) > 1.25 * min(row.repeats)]
    if unsteady:
        names = ", ".join(f"{row.what} {row.batch} {row.stack}" for row in unsteady)
        print(f"\nRepeats differ by more than a quarter, so the machine was busy: {names}")


def _ratio(baseline: float, row: Row) -> str:
    return f"{baseline / row.us_per_network_step:.2f}x"


def describe(workers: list[Worker]) -> dict[str, Any]:
    """Return versions, the machine, and how each stack was set up."""
    answers = {worker.spec.name: worker.ask({"ask": "describe"}) for worker in workers}
    versions = {"python": platform.python_version()}
    for answer in answers.values():
        versions |= answer["versions"]
    return {
        "versions": versions,
        "machine": {"cpu": processor(), "cores": os.cpu_count(), "system": platform.system()},
        "stacks": {name: answer["settings"] for name, answer in answers.items()},
    }


def draw_files(rows: int, folder: Path, *, seed: int) -> dict[str, Path]:
    """Draw the rows of each task once, for all workers."""
    files = {}
    for what in TASKS:
        files[what] = folder / f"{what}-{seed}.npz"
        problem.save_rows(problem.draw_rows(what, rows, seed=seed), files[what])
    return files


def benchmark(
    workers: list[Worker], settings: Settings, folder: Path
) -> tuple[dict[str, Any], bool]:
    """Measure and check; return what is written, and whether all stacks did the same work."""
    files = draw_files(settings.rows, folder, seed=3)
    held_out = draw_files(settings.rows, folder, seed=4)
    same_weights = check_same_weights(workers, folder)
    rows = measure(workers, settings, files)
    print_table(rows)
    losses, same_losses = check_trained_losses(workers, settings, files, held_out)
    result = {
        "rows": [asdict(row) for row in rows],
        **describe(workers),
        "settings": asdict(settings) | {"threads": 1, "pinned": sys.platform == "linux"},
        "losses": losses,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return result, same_weights and same_losses


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stacks", nargs="+", choices=STACKS, default=list(STACKS))
    parser.add_argument("--rows", type=int, default=90_000, help="training rows")
    parser.add_argument("--batches", type=int, nargs="+", default=[20, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10, help="timed epochs of this library")
    parser.add_argument("--peer-steps", type=int, default=3000, help="timed steps of the others")
    parser.add_argument("--loss-epochs", type=int, default=30, help="0: no such check")
    parser.add_argument("--core", type=int, help="core to pin workers to (default: the last)")
    parser.add_argument("--peer-python", type=Path, default=HERE.parent / ".venv-peers/bin/python")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "training.json")
    parser.add_argument("--check", action="store_true", help="compare losses of equal weights only")
    parser.add_argument("--quick", action="store_true", help="a small size; writes nothing")
    return parser.parse_args()


def settings_from(options: argparse.Namespace) -> Settings:
    """Return the size that the command line asks for."""
    if options.quick:
        # All rows, because the fixed cost of an epoch must be spread over as many steps as ever.
        return Settings(options.rows, 3, tuple(options.batches), 500, 2, loss_epochs=0)
    return Settings(
        rows=options.rows,
        repeats=options.repeats,
        batches=tuple(options.batches),
        peer_steps=options.peer_steps,
        epochs=options.epochs,
        loss_epochs=options.loss_epochs,
    )


def core_from(options: argparse.Namespace) -> int | None:
    """Return the core for all workers, or nothing where processes cannot be pinned."""
    if sys.platform != "linux":
        return None
    return max(os.sched_getaffinity(0)) if options.core is None else options.core


def main() -> int:
    """Run the benchmark; the exit status tells whether all stacks did the same work."""
    options = arguments()
    settings = settings_from(options)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        start = partial(
            running,
            peer_python=options.peer_python.absolute(),
            core=core_from(options),
            folder=folder,
        )
        workers = [stack.enter_context(start(STACKS[name])) for name in options.stacks]
        if options.check:
            return 0 if check_same_weights(workers, folder) else 1
        result, agreed = benchmark(workers, settings, folder)
    if not options.quick:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")
        print(f"\nWritten to {options.out}")
    return 0 if agreed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WorkerError as error:
        sys.exit(str(error))
