"""Headers are compiled and run beside the estimator before they are kept."""

import dataclasses
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..inputs import warn_user
from .parity import ExportError, Points, choose_points, exact_values, require_parity

#: Compilers that are looked for, after $CXX.
COMPILERS = ("c++", "g++", "clang++")
#: How they are called.
OPTIONS = ("-std=c++17", "-O2")
#: Seconds for a compilation, at most; a default model takes two.
TIME_LIMIT = 600.0
#: Characters of a compiler's message that are shown.
SHOWN_MESSAGE = 2000
#: Ways to ask for the same values.
WAYS = ("one event", "rows", "rows at one theta")

#: Reads x, θ0 and θ1 of the points, and writes the answers of each model in all ways.
PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
{includes}

namespace inferostatic_check {{

template <class Model>
struct Points {{
  std::size_t n;
  std::vector<float> x, theta0, theta1;
  explicit Points(const std::string& path) {{
    std::FILE* file = std::fopen(path.c_str(), "rb");
    std::fseek(file, 0, SEEK_END);
    const std::size_t row = sizeof(float) * (Model::x_dim + 2 * Model::theta_dim);
    n = static_cast<std::size_t>(std::ftell(file)) / row;
    std::rewind(file);
    read(file, x, n * Model::x_dim);
    read(file, theta0, n * Model::theta_dim);
    read(file, theta1, n * Model::theta_dim);
    std::fclose(file);
  }}
  static void read(std::FILE* file, std::vector<float>& to, std::size_t count) {{
    to.resize(count);
    if (std::fread(to.data(), sizeof(float), count, file) != count) std::abort();
  }}
  const float* x_row(std::size_t i) const {{ return x.data() + i * Model::x_dim; }}
  const float* theta_row(const std::vector<float>& theta, std::size_t i) const {{
    return theta.data() + i * Model::theta_dim;
  }}
}};

template <class Model>
void write_potential(const Points<Model>& p, std::FILE* file) {{
  std::vector<double> out(3 * p.n);
  const float *x = p.x.data(), *theta = p.theta0.data();
  for (std::size_t i = 0; i < p.n; ++i) {{
    out[i] = static_cast<double>(Model::potential(p.x_row(i), p.theta_row(p.theta0, i)));
  }}
  Model::potential(x, theta, p.n, out.data() + p.n);
  Model::potential(x, theta, p.n, out.data() + 2 * p.n, 0);
  std::fwrite(out.data(), sizeof(double), out.size(), file);
}}

template <class Model>
void write_score(const Points<Model>& p, std::FILE* file) {{
  const std::size_t size = p.n * Model::theta_dim;
  std::vector<double> out(3 * size);
  const float *x = p.x.data(), *theta = p.theta0.data();
  for (std::size_t i = 0; i < p.n; ++i) {{
    const auto score = Model::score(p.x_row(i), p.theta_row(p.theta0, i));
    for (std::size_t j = 0; j < Model::theta_dim; ++j) {{
      out[i * Model::theta_dim + j] = static_cast<double>(score[j]);
    }}
  }}
  Model::score(x, theta, p.n, out.data() + size);
  Model::score(x, theta, p.n, out.data() + 2 * size, 0);
  std::fwrite(out.data(), sizeof(double), out.size(), file);
}}

template <class Model>
void write_log_ratio(const Points<Model>& p, std::FILE* file) {{
  std::vector<double> out(3 * p.n);
  const float *x = p.x.data(), *theta0 = p.theta0.data(), *theta1 = p.theta1.data();
  for (std::size_t i = 0; i < p.n; ++i) {{
    out[i] = static_cast<double>(Model::log_ratio(p.x_row(i), p.theta_row(p.theta0, i),
                                                  p.theta_row(p.theta1, i)));
  }}
  Model::log_ratio(x, theta0, theta1, p.n, out.data() + p.n);
  Model::log_ratio(x, theta0, theta1, p.n, out.data() + 2 * p.n, 0);
  std::fwrite(out.data(), sizeof(double), out.size(), file);
}}

}}  // namespace inferostatic_check

int main(int, char** arguments) {{
  const std::string folder = arguments[1];
{calls}
}}
"""


def require_same_values(
    est: AbstractEstimator, questions: Sequence[str], header: Mapping[str, str]
) -> None:
    """Refuse a header, its text by its namespace, that gives other values than the estimator.

    Without a compiler there is a warning.
    """
    compiler = find_compiler()
    if compiler is None:
        warn_user(
            "no C++ compiler was found ($CXX, c++, g++, clang++), so that the header was not "
            "compiled and compared with the estimator. Compare some values where you use it, or "
            "pass check=False."
        )
        return
    points = choose_points(est)
    (name,) = header
    with tempfile.TemporaryDirectory() as folder:
        found = run_headers(
            header, {name: tuple(questions)}, {name: points}, Path(folder), [*compiler, *OPTIONS]
        )[name]
    for question in questions:
        each, at_one = (exact_values(est, question, p) for p in (points, at_one_theta(points)))
        for way, reference in zip(WAYS, (each, each, at_one), strict=True):
            require_parity(question, found[question, way], reference, f"the C++ header, {way},")


def at_one_theta(points: Points) -> Points:
    """The same events, all at the first θ."""
    first = {
        name: np.broadcast_to(getattr(points, name)[:1], getattr(points, name).shape)
        for name in ("theta0", "theta1")
    }
    return dataclasses.replace(points, **first)


def find_compiler() -> list[str] | None:
    """The command of a C++ compiler: $CXX, or the first of the usual ones."""
    given = shlex.split(os.environ.get("CXX", ""))
    for command in (given, *([name] for name in COMPILERS)):
        if command and shutil.which(command[0]):
            return command
    return None


def run_headers(
    headers: Mapping[str, str],
    questions: Mapping[str, Sequence[str]],
    points: Mapping[str, Points],
    folder: Path,
    compile_command: Sequence[str],
) -> dict[str, dict[tuple[str, str], np.ndarray]]:
    """What a program with these headers answers at the points, by question and way of asking."""
    for name, text in headers.items():
        (folder / f"{name}.h").write_text(text, encoding="utf-8")
        arrays = (getattr(points[name], part) for part in ("x", "theta0", "theta1"))
        content = [np.ascontiguousarray(array, np.float32).tobytes() for array in arrays]
        (folder / f"{name}.in").write_bytes(b"".join(content))
    _compile(_write_program(questions), folder, compile_command)
    program = folder / "program"
    done = subprocess.run([program, str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ExportError(
            f"the program with the C++ header ended with status {done.returncode}; no file was "
            f"written. {_shorten(done.stderr)}"
        )
    return {name: _read(folder, name, questions[name], points[name]) for name in headers}


def _read(
    folder: Path, name: str, questions: Sequence[str], points: Points
) -> dict[tuple[str, str], np.ndarray]:
    numbers = np.fromfile(folder / f"{name}.out")
    found: dict[tuple[str, str], np.ndarray] = {}
    count, theta_dim = points.theta0.shape
    for question in questions:
        shape = (count, theta_dim) if question == "score" else (count,)
        for way in WAYS:
            here, numbers = np.split(numbers, [int(np.prod(shape))])
            found[question, way] = here.reshape(shape)
    return found


def _write_program(questions: Mapping[str, Sequence[str]]) -> str:
    calls = []
    for name, asked in questions.items():
        calls += [
            "  {",
            f'    const inferostatic_check::Points<{name}::Model> points(folder + "/{name}.in");',
            f'    std::FILE* file = std::fopen((folder + "/{name}.out").c_str(), "wb");',
            *(f"    inferostatic_check::write_{question}(points, file);" for question in asked),
            "    std::fclose(file);",
            "  }",
        ]
    includes = "\n".join(f'#include "{name}.h"' for name in questions)
    return PROGRAM.format(includes=includes, calls="\n".join(calls))


def _compile(program: str, folder: Path, command: Sequence[str]) -> None:
    (folder / "program.cpp").write_text(program, encoding="utf-8")
    line = [*command, "program.cpp", "-o", "program"]
    try:
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired as error:
        raise ExportError(
            f"compiling the C++ header took more than {TIME_LIMIT:g} s; no file was written. Pass "
            "check=False to keep it unchecked."
        ) from error
    if done.returncode != 0:
        raise ExportError(
            f"the C++ header could not be compiled by `{shlex.join(line)}`; no file was written. "
            f"{_shorten(done.stderr)}"
        )


def _shorten(message: str) -> str:
    return message if len(message) <= SHOWN_MESSAGE else f"{message[:SHOWN_MESSAGE]} …"
