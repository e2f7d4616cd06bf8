"""C++ headers give the estimator's values, compile without remarks, and are never kept wrong."""

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import inferostatic as ist
from cpp_estimators import OBSERVABLES, QUICK, SLOW, calm_estimator
from inferostatic import export
from inferostatic.estimator.model_hash import model_hash
from inferostatic.export import cpp_header
from inferostatic.export.cpp_check import WAYS, at_one_theta, find_compiler, run_headers
from inferostatic.export.cpp_header import write_header
from inferostatic.export.parity import (
    TOLERANCE,
    ExportError,
    choose_points,
    exact_values,
    questions_of,
    worst_error,
)
from inferostatic.models.members import with_network

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler")


def errors_of(
    estimators: dict[str, Any], folder: Path, options: Sequence[str], headers: Any = None
) -> dict[tuple[str, str, str], float]:
    """The largest error of every header, question and way of asking, all in one program."""
    headers = headers or {name: write_header(est, name) for name, est in estimators.items()}
    questions = {name: questions_of(est) for name, est in estimators.items()}
    points = {name: choose_points(est, 300) for name, est in estimators.items()}
    command = [*(find_compiler() or []), "-std=c++17", *options]
    found = run_headers(headers, questions, points, folder, command)
    errors = {}
    for name, est in estimators.items():
        for (question, way), values in found[name].items():
            where = at_one_theta(points[name]) if way == WAYS[-1] else points[name]
            reference = exact_values(est, question, where)
            assert reference.std() > 100 * TOLERANCE  # a constant would hide mistakes
            errors[name, question, way] = worst_error(values, reference)
    return errors


@needs_compiler
def test_headers_give_the_estimators_values(tmp_path: Path) -> None:
    estimators = {name: build() for name, build in QUICK.items()}
    errors = errors_of(estimators, tmp_path, ("-O0", *STRICT))
    assert len(errors) == 3 * (3 + 3 + 1 + 1)
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        ("-O2",),
        ("-O3", "-march=native"),
        ("-O2", "-DINFEROSTATIC_NO_VECTORS"),
        ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover"),
    ],
    ids=lambda options: options[-1],
)
def test_all_kinds_give_the_estimators_values(tmp_path: Path, options: tuple[str, ...]) -> None:
    estimators = {name: build() for name, build in (QUICK | SLOW).items()}
    errors = errors_of(estimators, tmp_path, (*options, *STRICT))
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang++") is None, reason="there is no clang++")
def test_clang_compiles_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "clang++")
    # One by one: clang takes long for a program of two dozen headers, all put into one function.
    for name, build in (QUICK | SLOW).items():
        errors = errors_of({name: build()}, tmp_path, ("-O2", *STRICT))
        assert max(errors.values()) < TOLERANCE, errors


#: What a header says, and what a wrong one would.
MISTAKES = {
    "sign_of_theta": (
        "multiply<B, theta_size, part>(w + X * part, theta, z);",
        "multiply<B, theta_size, part>(w + X * part, theta, z);\n"
        "    for (int k = 0; k < part * B::rows; ++k) z[k] = -z[k];",
    ),
    "jacobian": ("j == c - 1 ? 1.0f / Parts::theta_scale[j]", "j == c - 1 ? 1.0f"),
    "centring": ("value[l] -= sign * sum[l]", "value[l] -= 0.0f * sign * sum[l]"),
    "slope_of_centring": ("score[k] -= sum[k]", "score[k] += 0.0f * sum[k]"),
    "offset": ("std::log(larger(Table::sign[j] * x, tiny) + Table::offset[j])",
               "std::log(larger(Table::sign[j] * x, tiny))"),
    "slope": ("point.slope * load(z + c * Count + k)", "load(z + c * Count + k)"),
    "half": ("store(b, 0.5f * (above - below))", "store(b, 0.5f * (above + below))"),
    "middle": ("value[l] = 0.5f * (first + second)", "value[l] = first"),
}  # fmt: skip


@pytest.mark.slow
@needs_compiler
def test_mistakes_are_found(tmp_path: Path) -> None:
    est = QUICK["natural"]()
    headers = {}
    for name, (right, wrong) in MISTAKES.items():
        text = write_header(est, name)
        assert text.count(right) == 1, name
        headers[name] = text.replace(right, wrong)
    errors = errors_of(dict.fromkeys(headers, est), tmp_path, ("-O0",), headers)
    for name in headers:
        worst = max(error for key, error in errors.items() if key[0] == name)
        assert worst > 100 * TOLERANCE, name


@pytest.mark.slow
@needs_compiler
def test_a_wrong_header_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cpp_header._read_source
    right, wrong = MISTAKES["jacobian"]
    monkeypatch.setattr(cpp_header, "_read_source", lambda name: read(name).replace(right, wrong))
    est = calm_estimator(ist.Potential(ist.MLP((3,))), members=1)
    with pytest.raises(ExportError, match="its score is off by"):
        export.cpp(est, tmp_path / "model.h")
    monkeypatch.setattr(cpp_header, "_read_source", lambda name: read(name).replace(";", ""))
    with pytest.raises(ExportError, match="could not be compiled by"):
        export.cpp(est, tmp_path / "model.h")
    assert not list(tmp_path.iterdir())


def test_without_a_compiler_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    est = calm_estimator(ist.paper_network)
    with pytest.warns(UserWarning, match="no C.. compiler was found"):
        export.cpp(est, tmp_path / "my-model.h")
    text = (tmp_path / "my-model.h").read_text(encoding="utf-8")
    assert "namespace my_model {" in text
    assert text == write_header(est, "my_model")


def unknown_network(in_size: int, out_size: int, *, key: Any) -> Any:
    return eqx.nn.Linear(in_size, out_size, key=key)


class Doubled(ist.Raw):
    """A user's choice of features."""


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "network": (lambda: calm_estimator(ist.Potential(unknown_network)), "network Linear.*onnx"),
    "tower": (
        lambda: calm_estimator(ist.Potential(ist.TwoTower(4, unknown_network))),
        "network Linear.*onnx",
    ),
    "activation": (
        lambda: calm_estimator(ist.Potential(ist.MLP((4,), activation=jax.nn.hard_tanh))),
        "activations.*onnx",
    ),
    "NaN": (lambda: with_nan(calm_estimator(ist.paper_network)), "NaN"),
    "no estimator": (lambda: "model.isn", "a trained estimator"),
}


def with_nan(est: Any) -> Any:
    network = jax.tree.map(
        lambda leaf: leaf * np.nan if eqx.is_array(leaf) else leaf, est.model.network
    )
    return dataclasses.replace(est, model=with_network(est.model, network))


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exported_leaves_no_file(what: str, tmp_path: Path) -> None:
    build, message = REFUSED[what]
    kept = tmp_path / "old.h"
    kept.write_text("// as it was")
    with pytest.raises((ExportError, TypeError), match=message):
        export.cpp(build(), kept)
    assert kept.read_text() == "// as it was"
    assert list(tmp_path.iterdir()) == [kept]


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    est = calm_estimator(ist.paper_network)
    for name in ("2fast", "class", "a b", "_model", "x::y"):
        with pytest.raises(ValueError, match="one that C.. takes"):
            export.cpp(est, tmp_path / "a.h", name=name)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        export.cpp(est, tmp_path / "nowhere" / "a.h")
    with pytest.raises(TypeError, match="check must be True or False"):
        export.cpp(est, tmp_path / "a.h", check="no")  # pyright: ignore[reportArgumentType]
    assert not list(tmp_path.iterdir())


@needs_compiler
@pytest.mark.parametrize("name", ["signal", "gamma", "Points", "model", "Model", "folder"])
def test_any_name_of_a_file_will_do(name: str, tmp_path: Path) -> None:
    """Also those of functions of C, and those that the program of the comparison has."""
    est = calm_estimator(ist.DirectScore(ist.MLP((2,))), members=1)
    export.cpp(est, tmp_path / f"{name}.h")
    text = (tmp_path / f"{name}.h").read_text(encoding="utf-8")
    assert f"namespace {name}{'_' * (name in ('signal', 'gamma'))} {{" in text


#: Two files with the same header, and a second header, make one program.
USE = """
#include <cstdio>
#include "one.h"
#include "two.h"
float other_file(const double* x, const double* theta);
int main() {
  const double x[] = {0.1, 0.2, 0.3, 0.4, 0.5};
  const double inside[] = {1.0, 2.0}, outside[] = {1.0, 3.1}, none[] = {1.0, 0.0 / 0.0};
  for (const char* name : one::Model::x_names) std::printf("%s%c", name, 0);
  std::printf("%s%c", one::Model::model_hash, 0);
  std::printf("%d%d%d%c", one::Model::contains(x, inside), one::Model::contains(x, outside),
              one::Model::contains(x, none), 0);
  std::printf("%.9g%c%.9g%c%.9g", static_cast<double>(other_file(x, inside)), 0,
              static_cast<double>(two::Model::potential(x, inside)), 0,
              static_cast<double>(one::Model::potential(x, none)));
}
"""


@pytest.mark.slow
@needs_compiler
def test_several_headers_and_files_make_one_program(tmp_path: Path) -> None:
    ones = [calm_estimator(ist.Potential(ist.MLP((4,))), members=m) for m in (1, 3)]
    for name, est in zip(("one", "two"), ones, strict=True):
        export.cpp(est, tmp_path / f"{name}.h")
    (tmp_path / "main.cpp").write_text(USE)
    (tmp_path / "other.cpp").write_text(
        '#include "two.h"\n#include "one.h"\n#include "one.h"\n'
        "float other_file(const double* x, const double* theta) {\n"
        "  return one::Model::potential(x, theta);\n}\n"
        "float other_file(const double* x, const double* theta);\n"
    )
    line = [*(find_compiler() or []), "-std=c++17", "-O2", *STRICT, "main.cpp", "other.cpp"]
    subprocess.run(line, cwd=tmp_path, check=True)
    *names, digest, inside, one, two, none = subprocess.run(
        [tmp_path / "a.out"], check=True, capture_output=True
    ).stdout.split(b"\0")
    assert [name.decode() for name in names] == list(OBSERVABLES)
    assert digest.decode() == model_hash(ones[0])
    assert inside == b"100"
    assert none in (b"nan", b"-nan")
    x, theta = np.array([[0.1, 0.2, 0.3, 0.4, 0.5]]), np.array([[1.0, 2.0]])
    for est, value in zip(ones, (one, two), strict=True):
        assert float(value) == pytest.approx(est.potential(x, theta)[0], abs=1e-5)


@pytest.mark.slow
@needs_compiler
def test_ten_members_take_seconds(tmp_path: Path) -> None:
    est = calm_estimator(ist.Potential(ist.TwoTower()), members=10)
    path = export.cpp(est, tmp_path / "ten.h")
    assert os.path.getsize(path) > 10 * 30_000 * 8


@pytest.mark.slow
@needs_compiler
def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "export_cpp.md").read_text(encoding="utf-8")
    found = re.search(r'^```cpp title="use.cpp"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "use.cpp").write_text(found[1], encoding="utf-8")
    est = dirichlet_estimator(tmp_path / "model.h")
    printed = compile_and_run(tmp_path, tmp_path / "use.cpp")
    x, theta, other = np.array([[0.2, 0.3, 0.5]]), [1.5, 3.0, 4.0], [2.0, 2.0, 2.0]
    numbers = [float(number) for number in printed.split("\n")[0].split()]
    values = [est.score(x, theta)[0, 0], est.potential(x, theta)[0]]
    assert numbers == pytest.approx([*values, est.log_ratio(x, theta, other)[0]], abs=1e-4)
    assert printed.split("\n")[-4:] == ["a", "b", "c", ""]


@pytest.mark.slow
@needs_compiler
def test_the_example_reads_events(tmp_path: Path) -> None:
    est = dirichlet_estimator(tmp_path / "model.h")
    x = np.random.default_rng(1).dirichlet([1.5, 3, 4], size=50)
    header = ",".join(est.x_names)
    np.savetxt(tmp_path / "events.csv", x, delimiter=",", header=header, comments="")
    source = ROOT / "examples" / "cpp" / "events.cpp"
    printed = compile_and_run(tmp_path, source, "events.csv", "1.5,3,4", "2,2,2")
    *rows, last = printed.splitlines()
    numbers = np.array([[float(cell) for cell in row.split()] for row in rows])
    np.testing.assert_allclose(numbers[:, 1:4], est.score(x, [1.5, 3, 4]), atol=2e-5)
    ratios = est.log_ratio(x, [1.5, 3, 4], [2, 2, 2])
    np.testing.assert_allclose(numbers[:, 4], ratios, atol=2e-5)
    assert float(last.split()[1]) == pytest.approx(ratios.sum(), abs=1e-3)


def dirichlet_estimator(path: Path) -> Any:
    """A potential that was trained for an epoch, and its header."""
    prior = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
    events = ist.simulate(ist.toys.Dirichlet(), prior, 500, seed=1)
    network = ist.Potential(ist.Residual(8))
    training = ist.Training(epochs=1, choose=False)
    est = ist.fit(events, network=network, training=training, members=2, seed=2)
    export.cpp(est, path)
    return est


def compile_and_run(folder: Path, source: Path, *arguments: str) -> str:
    line = [*(find_compiler() or []), "-std=c++17", "-O2", *STRICT, f"-I{folder}", str(source)]
    subprocess.run([*line, "-o", str(folder / "use")], check=True)
    command = [str(folder / "use"), *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
