"""How exports compare with the estimators they were made of.

    python benchmarks/export.py parity [--events 10000] [--epochs 5] [--fresh]
    python benchmarks/export.py cost [--members 10]

`parity` trains a small estimator of every kind, exports it in every form, and evaluates potential,
score and log ratio of `--events` events inside the trained region and at its edges. The table shows
the largest difference from the estimator, relative to max(1, |value|); the last column is what its
own rounding amounts to, by an evaluation in float64. `cost` exports a default network of
`--members` members in every form, and shows seconds and the memory of the process.
"""

import argparse
import resource
import subprocess
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from inferostatic.estimator.estimator import AbstractEstimator
from inferostatic.export.onnx_file import import_packages, open_session
from inferostatic.export.parity import (
    Points,
    choose_points,
    exact_values,
    questions_of,
    reference_values,
    worst_error,
)
from record import RESULTS, Log

#: Events that each estimator is trained on.
TRAINED_ON: Final = 5_000
#: Slots for particles in an event.
SLOTS: Final = 4
#: In cells of a form that this version does not write.
MISSING: Final = "not written yet"


def jets(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Up to four particles with an energy and an angle, and the temperature that a cell reads."""
    number = 1 + np.minimum(rng.poisson(theta[:, 1]), SLOTS - 1)
    energy = rng.exponential(theta[:, :1], size=(len(theta), SLOTS))
    angle = rng.normal(size=(len(theta), SLOTS))
    slots = np.stack([energy, angle], axis=2)
    slots[np.arange(SLOTS) >= number[:, None]] = 0
    cell = theta[:, :1] + rng.normal(size=(len(theta), 1))
    return np.concatenate([slots.reshape(len(theta), -1), cell], axis=1)


def heavy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Observables that span decades, are fractions, have heavy tails, or are none of that."""
    a, b = theta.T
    columns = [
        rng.lognormal(a, 2.0),
        rng.beta(0.2 + a / 5, 0.3),
        b + rng.standard_cauchy(len(theta)),
        rng.normal(b, 1.0),
    ]
    return np.stack(columns, axis=1)


WORLDS: Final = {
    "dirichlet": (ist.toys.Dirichlet(), ist.Uniform([0.5] * 3, [5.0] * 3)),
    "jets": (jets, ist.Uniform([1.0, 1.0], [3.0, 3.0], names=["temperature", "rate"])),
    "heavy": (heavy, ist.Uniform([0.5, -1.0], [2.0, 1.0])),
}


def own_network(in_size: int, out_size: int, *, key: jax.Array) -> eqx.Module:
    """A user's network of library layers."""
    return eqx.nn.MLP(in_size, out_size, 16, 2, activation=jnp.tanh, key=key)


#: World and network of each kind.
KINDS: Final[dict[str, tuple[str, Any]]] = {
    "default, centred": ("dirichlet", None),
    "paper's network (MLP, SELU, raw)": ("dirichlet", ist.paper_network),
    "MLP, SiLU, standardised": ("dirichlet", ist.Potential(ist.MLP(), ist.Standardised())),
    "residual, natural": ("heavy", ist.Potential(ist.Residual(), ist.Natural())),
    "residual, quantile": ("heavy", ist.Potential(ist.Residual(), ist.Quantile())),
    "two-tower": ("dirichlet", ist.Potential(ist.TwoTower())),
    "particle set": ("jets", ist.Potential(ist.ParticleSet(SLOTS, 2))),
    "particle set, two-tower": (
        "jets",
        ist.Potential(ist.ParticleSet(SLOTS, 2, join_network=ist.TwoTower())),
    ),
    "residual of particles in order": (
        "jets",
        ist.Potential(ist.Residual(), ist.PerParticle(SLOTS, 2)),
    ),
    "a user's network": ("dirichlet", ist.Potential(own_network)),
    "direct score": ("dirichlet", ist.DirectScore()),
    "direct ratio": ("dirichlet", ist.DirectRatio()),
}


def train(kind: str, epochs: int) -> AbstractEstimator:
    """An estimator of this kind, with two members."""
    world, network = KINDS[kind]
    simulator, prior = WORLDS[world]
    events = ist.simulate(simulator, prior, TRAINED_ON, seed=1)
    method = {"direct score": ist.KSE(ist.Delta(0.3)), "direct ratio": ist.CARL()}.get(kind)
    training = ist.Training(epochs=epochs, choose=False)
    est = ist.fit(events, method, network=network, members=2, training=training, seed=2)
    return ist.centre(est, events) if network is None else est


def of_onnx(opset: int) -> Callable[[AbstractEstimator, Points, Path], dict[str, np.ndarray]]:
    """Values of ONNX files in onnxruntime."""

    def values(est: AbstractEstimator, points: Points, folder: Path) -> dict[str, np.ndarray]:
        files = ist.export.onnx(est, folder / "model.onnx", opset=opset)
        runtime = import_packages()[1]
        return {
            question: open_session(str(path), runtime).run(None, points.inputs(question))[0]
            for question, path in files.paths.items()
        }

    return values


def of_stablehlo(est: AbstractEstimator, points: Points, folder: Path) -> dict[str, np.ndarray]:
    """Values of StableHLO, read by JAX alone."""
    ist.export.stablehlo(est, folder / "model.zip")
    with zipfile.ZipFile(folder / "model.zip") as archive:
        return {
            question: np.asarray(
                jax.export.deserialize(bytearray(archive.read(f"{question}.bin"))).call(
                    *points.inputs(question).values()
                )
            )
            for question in questions_of(est)
        }


#: Reads the inputs of a question, row by row, and writes the answers.
PROGRAM: Final = """
#include <cstdio>
#include <vector>
#include "model.h"
int main() {{
  using M = model::Model;
  const std::size_t n = {n};
  std::vector<float> x(n * M::x_dim), theta0(n * M::theta_dim), theta1(n * M::theta_dim);
  std::vector<double> out(n * {width});
  std::FILE* in = std::fopen("points.bin", "rb");
  if (std::fread(x.data(), 4, x.size(), in) != x.size()) return 1;
  if (std::fread(theta0.data(), 4, theta0.size(), in) != theta0.size()) return 1;
  if (std::fread(theta1.data(), 4, theta1.size(), in) != theta1.size()) return 1;
  M::{question}(x.data(), {thetas}, n, out.data());
  std::FILE* to = std::fopen("{question}.bin", "wb");
  std::fwrite(out.data(), 8, out.size(), to);
  return std::fclose(to);
}}
"""


def of_cpp(est: AbstractEstimator, points: Points, folder: Path) -> dict[str, np.ndarray]:
    """Values of a program that includes the header."""
    ist.export.cpp(est, folder / "model.h", name="model")
    n, dim = points.theta0.shape
    rows = (points.x, points.theta0, points.theta1)
    (folder / "points.bin").write_bytes(b"".join(part.tobytes() for part in rows))
    found = {}
    for question in questions_of(est):
        width = dim if question == "score" else 1
        ratio = question == "log_ratio"
        thetas = "theta0.data(), theta1.data()" if ratio else "theta0.data()"
        text = PROGRAM.format(n=n, width=width, question=question, thetas=thetas)
        (folder / "main.cpp").write_text(text)
        compiled = ["g++", "-std=c++17", "-O2", "-o", "main", "main.cpp"]
        subprocess.run(compiled, cwd=folder, check=True)
        subprocess.run(["./main"], cwd=folder, check=True)
        values = np.fromfile(folder / f"{question}.bin")
        found[question] = values.reshape(n, dim) if question == "score" else values
    return found


def of_float64(est: AbstractEstimator, points: Points, folder: Path) -> dict[str, np.ndarray]:
    """Values of the estimator in double precision: what its own rounding amounts to."""
    del folder
    return {question: exact_values(est, question, points) for question in questions_of(est)}


def newest_opset() -> int:
    """The newest opset that the installed onnxruntime promises to read."""
    onnx, runtime = import_packages()
    helper = onnx.helper
    declared = [helper.make_tensor_value_info(name, 1, [1]) for name in "ab"]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["b"])], "g", *([d] for d in declared)
    )
    for opset in range(onnx.defs.onnx_opset_version(), 16, -1):
        opsets = [helper.make_opsetid("", opset)]
        version = helper.find_min_ir_version_for(opsets)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        try:
            open_session(model.SerializeToString(), runtime)
        except Exception:  # its own kinds, one for each of its faults
            continue
        return opset
    raise RuntimeError("onnxruntime reads no opset that onnx writes.")


def forms() -> dict[str, Callable[[AbstractEstimator, Points, Path], dict[str, np.ndarray]]]:
    """What writes and evaluates each form of export."""
    newest = newest_opset()
    found: dict[str, Any] = {
        f"onnxruntime, opset {newest}": of_onnx(newest),
        "onnxruntime, opset 17": of_onnx(17),
    }
    others = {"cpp": ("C++", of_cpp), "stablehlo": ("StableHLO", of_stablehlo)}
    found |= {title: of for name, (title, of) in others.items() if name in dir(ist.export)}
    return found | {"the estimator in float64": of_float64}


def measure_kind(kind: str, events: int, epochs: int) -> dict[str, Any]:
    """The largest error of each question in each form, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few epochs are no good fit
        est = train(kind, epochs)
    points = choose_points(est, events, seed=7)
    errors: dict[str, Any] = {}
    for form, values_of in forms().items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                values = values_of(est, points, Path(folder))
            except ist.export.ExportError as error:
                errors[form] = str(error)
                continue
        errors[form] = {
            question: worst_error(values[question], reference_values(est, question, points))
            for question in questions_of(est)
        }
    return {"errors": errors}


def show(rows: list[dict[str, Any]]) -> None:
    """The table of the documentation."""
    titles = list(dict.fromkeys(form for row in rows for form in row["errors"]))
    print("| network | question |", " | ".join(titles), "|")
    print("|---|---|" + "---|" * len(titles))
    for row in rows:
        for question in ("potential", "score", "log_ratio"):
            cells = [_cell(row["errors"].get(form), question) for form in titles]
            print(f"| {row['kind']} | {question.replace('_', ' ')} |", " | ".join(cells), "|")


def _cell(found: dict[str, float] | str | None, question: str) -> str:
    if found is None:
        return MISSING
    if isinstance(found, str):
        return found
    return f"{found[question]:.0e}" if question in found else "not offered"


def measure_cost(members: int) -> None:
    """Seconds and memory of exports of a default network; in a process of its own."""
    simulator, prior = WORLDS["dirichlet"]
    events = ist.simulate(simulator, prior, TRAINED_ON, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training = ist.Training(epochs=1, choose=False)
        est = ist.fit(events, network=ist.Residual(), members=members, training=training, seed=2)
    print(f"{members} members, {largest_memory(resource.RUSAGE_SELF):.2f} GB before")
    writers: dict[str, Callable[[Path], object]] = {
        "onnx": lambda folder: ist.export.onnx(est, folder / "model.onnx"),
        "cpp": lambda folder: ist.export.cpp(est, folder / "model.h"),
        "stablehlo": lambda folder: ist.export.stablehlo(est, folder / "model.zip"),
    }
    for form, write in writers.items():
        with tempfile.TemporaryDirectory() as name:
            start = time.perf_counter()
            write(Path(name))
            seconds = time.perf_counter() - start
            size = sum(file.stat().st_size for file in Path(name).iterdir())
        own, compiler = map(largest_memory, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        print(
            f"{form}: {seconds:.1f} s, {size / 2**20:.1f} MB; memory so far at most {own:.2f} GB, "
            f"of the compiler {compiler:.2f} GB"
        )


def largest_memory(who: int) -> float:
    """The most that was held at a time, in GB."""
    return resource.getrusage(who).ru_maxrss / 2**20


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    parity = commands.add_parser("parity")
    parity.add_argument("--events", type=int, default=10_000)
    parity.add_argument("--epochs", type=int, default=5)
    parity.add_argument("--fresh", action="store_true")
    parity.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    cost = commands.add_parser("cost")
    cost.add_argument("--members", type=int, default=10)
    args = parser.parse_args()
    if args.command == "cost":
        measure_cost(args.members)
        return
    log = Log(RESULTS / "export-parity.json", fresh=args.fresh, hidden=("errors",))
    keys = [{"kind": kind, "events": args.events, "epochs": args.epochs} for kind in args.kinds]
    log.measure(keys, measure_kind)
    show([row for row in log.rows if row["events"] == args.events])


if __name__ == "__main__":
    main()
