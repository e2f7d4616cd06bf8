"""Nanoseconds per event of a C++ header, of onnxruntime and of the library itself, on one core.

    python benchmarks/export_speed.py [--events 100000] [--core 0] [--quick]

The networks are the paper's (8-16-8, SELU, one member), the default one (a residual network of
width 64, two members) and two towers (two members), of three observables and three parameters.
They are trained for one epoch, which is enough to be timed. Every row is one way to evaluate
events:

    C++ -O2, C++ -O3       the header of `ist.export.cpp`; the second with -march=native
    onnxruntime            a file of `ist.export.onnx`, called from Python with one thread
    est                    the library's own call, such as `est.score(x, theta)`

and every column a number of events in a call: one; many, 1000 in onnxruntime and all of them
elsewhere; or many at one θ. The best of several rounds counts. Needs a C++ compiler and an
otherwise idle machine; without onnxruntime its rows are left out.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from record import RESULTS, made, processor

QUESTIONS: Final = ("score", "potential", "log_ratio")
#: Options of the compiler, by the name of the row.
COMPILED: Final = {"C++ -O2": ("-O2",), "C++ -O3": ("-O3", "-march=native")}
#: Rounds of which the best counts.
ROUNDS: Final = 7
#: Events of a batch.
BATCH: Final = 1000
#: Columns of the table: events of a call.
WAYS: Final = ("1", "rows", "one theta")

PROGRAM: Final = """
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "model.h"
using model::Model;

template <class Call>
void report(const char* question, const char* way, std::size_t events, const Call& call) {
  double best = 1e300;
  for (int round = 0; round < ROUNDS; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    if (taken.count() < best) best = taken.count();
  }
  std::printf("%s,%s,%.3f\\n", question, way, best / static_cast<double>(events));
}

int main(int, char** arguments) {
  const std::size_t n = std::strtoull(arguments[2], nullptr, 10), d = Model::theta_dim;
  std::vector<float> x(n * Model::x_dim), theta0(n * d), theta1(n * d), out(n * d);
  std::FILE* file = std::fopen(arguments[1], "rb");
  for (auto* part : {&x, &theta0, &theta1}) {
    if (std::fread(part->data(), sizeof(float), part->size(), file) != part->size()) return 1;
  }
  const float *px = x.data(), *p0 = theta0.data(), *p1 = theta1.data();
  float* to = out.data();
  const std::size_t D = Model::x_dim;
  volatile float sink = 0;
  report("score", "1", n, [&] {
    for (std::size_t i = 0; i < n; ++i) sink = Model::score(px + i * D, p0 + i * d)[0];
  });
  report("score", "rows", n, [&] { Model::score(px, p0, n, to); });
  report("score", "one theta", n, [&] { Model::score(px, p0, n, to, 0); });
  report("potential", "1", n, [&] {
    for (std::size_t i = 0; i < n; ++i) sink = Model::potential(px + i * D, p0 + i * d);
  });
  report("potential", "rows", n, [&] { Model::potential(px, p0, n, to); });
  report("potential", "one theta", n, [&] { Model::potential(px, p0, n, to, 0); });
  report("log_ratio", "1", n, [&] {
    for (std::size_t i = 0; i < n; ++i) {
      sink = Model::log_ratio(px + i * D, p0 + i * d, p1 + i * d);
    }
  });
  report("log_ratio", "rows", n, [&] { Model::log_ratio(px, p0, p1, n, to); });
  report("log_ratio", "one theta", n, [&] { Model::log_ratio(px, p0, p1, n, to, 0); });
  static_cast<void>(sink);
}
"""


def train(name: str) -> Any:  # noqa: ANN401
    """One of the networks, after an epoch."""
    import inferostatic as ist

    networks = {
        "paper's": (ist.paper_network, 1),
        "default": (ist.Potential(), 2),
        "two towers": (ist.Potential(ist.TwoTower()), 2),
    }
    network, members = networks[name]
    prior = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
    events = ist.simulate(ist.toys.Dirichlet(), prior, 2000, seed=1)
    training = ist.Training(epochs=1, choose=False)
    return ist.fit(events, network=network, members=members, training=training, seed=2)


def draw(events: int) -> list[np.ndarray]:
    """x, θ0 and θ1."""
    rng = np.random.default_rng(3)
    thetas = [rng.uniform(0.5, 5.0, size=(events, 3)).astype(np.float32) for _ in range(2)]
    gamma = rng.standard_gamma(thetas[0]) + 1e-6
    return [(gamma / gamma.sum(axis=1, keepdims=True)).astype(np.float32), *thetas]


def best_time(call: Callable[[], object], events: int) -> float:
    """Nanoseconds per event, the best of the rounds, after a call that is not counted."""
    call()
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return 1e9 * min(seconds) / events


def time_header(est: Any, arrays: list[np.ndarray], folder: Path) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Rows of the header, in both compilations."""
    from inferostatic import export
    from inferostatic.export.cpp_check import find_compiler

    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("a C++ compiler is needed: c++, g++, clang++ or $CXX.")
    export.cpp(est, folder / "model.h")
    (folder / "speed.cpp").write_text(PROGRAM, encoding="utf-8")
    (folder / "events").write_bytes(b"".join(array.tobytes() for array in arrays))
    for name, options in COMPILED.items():
        line = [*compiler, "-std=c++17", *options, f"-DROUNDS={ROUNDS}", "speed.cpp", "-o", "speed"]
        subprocess.run(line, cwd=folder, check=True)
        command = ["./speed", "events", str(len(arrays[0]))]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        for printed in done.stdout.splitlines():
            question, way, value = printed.split(",")
            yield {"question": question, "by": name, "events": way, "ns": float(value)}


def time_onnx(est: Any, arrays: list[np.ndarray], folder: Path) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Rows of onnxruntime, if it is there."""
    from inferostatic import export

    try:
        import onnxruntime

        files = export.onnx(est, folder / "model.onnx").paths  # pyright: ignore
    except (ImportError, AttributeError) as error:
        print(f"onnxruntime is left out: {error}")
        return
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for question, file in files.items():
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        names = ("x", "theta0", "theta1") if question == "log_ratio" else ("x", "theta")
        for size in (1, BATCH):
            count = min(len(arrays[0]), 2000 if size == 1 else 100 * BATCH)
            pieces = [
                {name: array[at : at + size] for name, array in zip(names, arrays, strict=False)}
                for at in range(0, count, size)
            ]

            def run(session: Any = session, pieces: Any = pieces) -> None:  # noqa: ANN401
                for piece in pieces:
                    session.run(None, piece)

            taken = best_time(run, count)
            way = "1" if size == 1 else "rows"
            yield {"question": question, "by": "onnxruntime", "events": way, "ns": taken}


def time_library(est: Any, arrays: list[np.ndarray]) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Rows of the library's own calls."""
    few = [array[0] for array in arrays]
    for question in QUESTIONS:
        ask, count = getattr(est, question), 3 if question == "log_ratio" else 2
        each, alone = arrays[:count], few[:count]
        at_one = [arrays[0], *few[1:count]]
        for way, given, events in (
            ("1", alone, 1),
            ("rows", each, len(arrays[0])),
            ("one theta", at_one, len(arrays[0])),
        ):
            taken = best_time(lambda ask=ask, given=given: ask(*given), events)
            yield {"question": question, "by": "est", "events": way, "ns": taken}


def show(rows: list[dict[str, Any]]) -> None:
    """The table of the documentation."""
    print("| network | question | by | one event | many events | many events at one θ |")
    print("|---|---|---|---|---|---|")
    found = {(r["network"], r["question"], r["by"], r["events"]): r["ns"] for r in rows}
    for network, question, by in dict.fromkeys(key[:3] for key in found):
        cells = [_cell(found.get((network, question, by, way))) for way in WAYS]
        print(f"| {network} | {question.replace('_', ' ')} | {by} |", " | ".join(cells), "|")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{float(f'{value:.2g}'):,.0f}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few events; writes nothing")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})  # before JAX starts its threads
    arrays = draw(2000 if options.quick else options.events)
    rows = []
    for network in ("paper's", "default", "two towers"):
        est = train(network)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for row in (
                *time_header(est, arrays, folder),
                *time_onnx(est, arrays, folder),
                *time_library(est, arrays),
            ):
                rows.append({"network": network} | row)
                print("  ".join(f"{value}" for value in rows[-1].values()), flush=True)
    show(rows)
    if not options.quick:
        content = {"made": made() | {"processor": processor()}, "rows": rows}
        (RESULTS / "export-speed.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
