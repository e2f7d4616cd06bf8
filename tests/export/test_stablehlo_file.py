"""A file of programs that JAX alone runs, also where this library cannot be imported."""

import dataclasses
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, gaussian
from inferostatic.estimator.model_hash import model_hash
from inferostatic.export.parity import (
    choose_points,
    exact_values,
    reference_values,
    worst_error,
)
from inferostatic.models.theta_potential import ThetaPotential
from page_blocks import ROOT, read_blocks
from random_estimators import HIGH, LOW, random_estimator

SMALL = ist.MLP((8, 8))
PAGE = ROOT / "docs" / "export_python.md"
#: Runs a file where neither this library nor what it is made of can be imported, then asks again.
ALONE = """
import runpy, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("inferostatic", "equinox", "optax", "jaxtyping", "flowjax"):
            raise ImportError(f"{name} must not be needed")

sys.meta_path.insert(0, Block())
names = runpy.run_path("load.py")
import numpy as np
inputs = np.load("inputs.npz")
x, theta0, theta1 = (inputs[name] for name in ("x", "theta0", "theta1"))
functions = names["functions"]
answers = {name: functions[name](x, theta0) for name in functions if name != "log_ratio"}
if "log_ratio" in functions:
    answers["log_ratio"] = functions["log_ratio"](x, theta0, theta1)
np.savez("answers.npz", **answers)
assert not {"inferostatic", "equinox"} & set(sys.modules)
"""


def read_functions(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return {
            name.removesuffix(".bin"): jax.export.deserialize(bytearray(archive.read(name))).call
            for name in archive.namelist()
            if name.endswith(".bin")
        }


def run_alone(folder: Path, points: Any, flags: str) -> dict[str, np.ndarray]:
    """What the loading code of the page gives, in a process without this library."""
    (code,) = (block.code for block in read_blocks(PAGE) if block.title == "load.py")
    (folder / "load.py").write_text(code, encoding="utf-8")
    np.savez(folder / "inputs.npz", **vars(points))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "PYTHON"))}
    answer = subprocess.run(
        [sys.executable, "-I", "-c", ALONE],
        cwd=folder,
        env=environment | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    with np.load(folder / "answers.npz") as answers:
        return dict(answers)


def check_parity(estimator: Any, path: Path, count: int = 300) -> None:
    """At other points than those of the export, and for another number of them."""
    ist.export.stablehlo(estimator, path)
    points = choose_points(estimator, count, seed=5)
    functions = read_functions(path)
    for question, function in functions.items():
        reference = reference_values(estimator, question, points)
        assert np.ptp(reference) > 0.01
        own = 0.0
        if question != "log_prob":  # a density of several members is no mean
            # The estimator rounds, too.
            exact = exact_values(estimator, question, points)
            reference, own = exact, worst_error(reference, exact)
        values = np.asarray(function(*points.inputs(question).values()))
        assert worst_error(values, reference) < 1e-5 + own


@pytest.fixture(scope="module")
def potential() -> Any:
    return random_estimator(ist.Potential(SMALL))


@pytest.fixture(scope="module")
def written(potential: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ist.export.stablehlo(potential, tmp_path_factory.mktemp("stablehlo") / "model.zip")


def test_the_loading_code_of_the_page_needs_jax_alone(potential: Any, written: Path) -> None:
    points = choose_points(potential, 77, seed=3)
    answers = run_alone(written.parent, points, "--xla_backend_optimization_level=0")
    assert answers.keys() == {"potential", "score", "log_ratio"}
    for question, values in answers.items():
        assert worst_error(values, reference_values(potential, question, points)) < 1e-5


def test_any_number_of_events_and_one_derivative(potential: Any, written: Path) -> None:
    functions = read_functions(written)
    x, theta = (np.array(row, np.float32) for row in ([[0.5, -1.0, 1.5]], [[1.0, 2.0]]))
    one = np.asarray(functions["score"](x, theta))
    np.testing.assert_allclose(one, potential.score(x, theta), rtol=1e-5, atol=1e-6)
    by_theta = jax.grad(lambda theta: functions["potential"](x, theta).sum())(theta)
    np.testing.assert_allclose(by_theta, one, rtol=1e-5, atol=1e-6)


def test_the_file_says_what_it_is(potential: Any, written: Path) -> None:
    with zipfile.ZipFile(written) as archive:
        facts = json.loads(archive.read("metadata.json"))
    assert facts["x_names"] == ["pt", "eta", "phi"]
    assert facts["theta_names"] == ["mass", "width"]
    assert facts["theta_low"] == LOW.tolist()
    assert facts["theta_high"] == HIGH.tolist()
    assert facts["model_hash"] == model_hash(potential)
    assert facts["inputs"]["log_ratio"] == ["x", "theta0", "theta1"]
    assert facts["versions"]["jax"] == jax.__version__


def test_programs_are_for_several_platforms(written: Path) -> None:
    with zipfile.ZipFile(written) as archive:
        exported = jax.export.deserialize(bytearray(archive.read("score.bin")))
    assert {"cpu", "cuda"} <= set(exported.platforms)


@pytest.mark.parametrize("kind", ["DirectScore", "DirectRatio"])
def test_direct_networks_have_one_program(kind: str, tmp_path: Path) -> None:
    estimator = random_estimator(getattr(ist, kind)(SMALL), members=1)
    check_parity(estimator, tmp_path / "model.zip")
    only = "score" if kind == "DirectScore" else "log_ratio"
    assert list(read_functions(tmp_path / "model.zip")) == [only]


KINDS = {
    "default": lambda: calmed(random_estimator(ist.Potential(ist.Residual()))),
    "residual, natural features": lambda: calmed(
        random_estimator(ist.Potential(ist.Residual(8, 1), x_features=ist.Natural()))
    ),
    "two towers": lambda: random_estimator(ist.Potential(ist.TwoTower())),
    "particles": lambda: random_estimator(
        ist.Potential(ist.ParticleSet(3, 2, 4, ist.MLP((5,)), ist.Residual(5, 1))),
        x_names=[f"x{i}" for i in range(7)],
    ),
    "centred": lambda: centred(random_estimator(ist.Potential(SMALL))),
    "five members": lambda: random_estimator(ist.Potential(SMALL), members=5),
}


def calmed(estimator: Any) -> Any:
    """With weights of the size that training leaves; larger ones lose digits in float32."""
    network = jax.tree.map(lambda leaf: leaf / np.sqrt(leaf.shape[-1]), estimator.model.network)
    model = eqx.tree_at(lambda m: m.network, estimator.model, network)
    return dataclasses.replace(estimator, model=model)


def centred(estimator: Any) -> Any:
    centring = ThetaPotential(LOW, HIGH, ((1, 0), (1, 2)), np.array([0.7, -0.4]))
    return dataclasses.replace(
        estimator, model=dataclasses.replace(estimator.model, centring=centring)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_network_agrees(kind: str, tmp_path: Path) -> None:
    check_parity(KINDS[kind](), tmp_path / "model.zip", count=10_000)


def test_a_network_of_the_users_own_works(tmp_path: Path) -> None:
    prior = ist.Uniform([-1.0, -1.0], [1.0, 1.0])
    estimator = exact_estimator(gaussian, prior, np.full(2, -3.0), np.full(2, 3.0))
    path = ist.export.stablehlo(estimator, tmp_path / "model.zip")
    x, theta = (np.array(row, np.float32) for row in ([[2.0, 0.5]], [[0.5, -0.25]]))
    functions = read_functions(path)
    np.testing.assert_allclose(functions["score"](x, theta), x - theta, rtol=1e-6)
    np.testing.assert_allclose(functions["potential"](x, theta), [-1.40625], rtol=1e-6)


@pytest.fixture(scope="module")
def flow() -> Any:
    prior = ist.Uniform([-1.0, 0.5], [1.0, 2.0])
    events = ist.simulate(
        lambda theta, rng: rng.normal(theta[:, :1], theta[:, 1:], size=(len(theta), 2)),
        prior,
        2000,
        seed=1,
    )
    network = ist.Flow(ist.MixtureFlow(layers=1, components=3, width=12, depth=1))
    training = ist.Training(epochs=2)
    return ist.fit(events, ist.NDE(), network=network, members=2, training=training, seed=2)


@pytest.mark.slow
def test_flows_are_written_with_their_density(flow: Any, tmp_path: Path) -> None:
    check_parity(flow, tmp_path / "model.zip", count=10_000)
    assert set(read_functions(tmp_path / "model.zip")) == {
        "log_prob",
        "potential",
        "score",
        "log_ratio",
    }


@pytest.mark.slow
def test_flows_agree_where_the_library_is_not(flow: Any, tmp_path: Path) -> None:
    """Also without the flag that the library sets for jaxlib 0.10."""
    ist.export.stablehlo(flow, tmp_path / "model.zip")
    points = choose_points(flow, 10_000, seed=4)
    for question, values in run_alone(tmp_path, points, "").items():
        assert worst_error(values, reference_values(flow, question, points)) < 1e-5


class CallingPython(eqx.Module):
    """A network that leaves JAX for Python, which no program holds."""

    weight: jax.Array

    def __call__(self, inputs: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((), np.float32)
        value = jax.pure_callback(np.sum, shape, inputs, vmap_method="sequential")
        return (self.weight * value)[None]


def broken(potential: Any) -> dict[str, Any]:
    network = jax.tree.map(lambda leaf: leaf * jnp.nan, potential.model.network)
    return {
        "weights": dataclasses.replace(
            potential, model=eqx.tree_at(lambda m: m.network, potential.model, network)
        ),
        "names": dataclasses.replace(potential, x_names=("pt", "eta")),
    }


@pytest.mark.parametrize("part", ["weights", "names"])
def test_a_broken_model_leaves_the_old_file(part: str, potential: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"old")
    with pytest.raises(ist.export.ExportError, match="this estimator cannot be exported"):
        ist.export.stablehlo(broken(potential)[part], path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.zip"]


def test_a_network_that_jax_cannot_export_is_refused(tmp_path: Path) -> None:
    prior = ist.Uniform([-1.0, -1.0], [1.0, 1.0])
    estimator = exact_estimator(gaussian, prior, np.full(2, -3.0), np.full(2, 3.0))
    network = CallingPython(jnp.ones(1))
    estimator = dataclasses.replace(
        estimator, model=eqx.tree_at(lambda m: m.network, estimator.model, network)
    )
    with pytest.raises(ist.export.ExportError, match="jax.export cannot write the potential"):
        ist.export.stablehlo(estimator, tmp_path / "model.zip")
    assert os.listdir(tmp_path) == []


def test_an_export_that_differs_is_not_kept(
    potential: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of another member than the estimator's answers stand for."""
    from inferostatic.export import stablehlo_file

    other = random_estimator(ist.Potential(SMALL), seed=8)
    right = stablehlo_file.row_function
    monkeypatch.setattr(stablehlo_file, "row_function", lambda _, q: right(other, q))
    with pytest.raises(ist.export.ExportError, match="does not agree with the estimator"):
        ist.export.stablehlo(potential, tmp_path / "model.zip")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("foreign", [None, 3, "model.isn", ist.Estimator])
def test_what_is_no_estimator_is_refused(foreign: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="what is exported is a trained estimator"):
        ist.export.stablehlo(foreign, tmp_path / "model.zip")


def test_a_matrix_element_names_the_alternative(tmp_path: Path) -> None:
    element = object.__new__(ist.MatrixElement)
    with pytest.raises(ist.export.ExportError, match=r"ist.fit\(events, ist.NDE\(\)"):
        ist.export.stablehlo(element, tmp_path / "model.zip")  # type: ignore[arg-type]


def test_a_folder_that_is_not_there_is_named_before_anything_is_made(potential: Any) -> None:
    with pytest.raises(FileNotFoundError, match="the folder /nowhere does not exist"):
        ist.export.stablehlo(potential, "/nowhere/model.zip")
