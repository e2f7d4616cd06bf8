"""ONNX files of estimators, read by onnxruntime as a user would."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from export_estimators import KINDS, OBSERVABLES, SMALL, scaled_estimator
from inferostatic.estimator.model_hash import model_hash
from inferostatic.export import onnx_file
from inferostatic.export.cpp_check import find_compiler
from random_estimators import HIGH, LOW

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

OPSETS = (17, 23)


@pytest.fixture(scope="module")
def est() -> Any:
    return scaled_estimator(ist.Potential(ist.MLP((6,))))


def read(path: Path) -> Any:
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


def check(est: Any, files: Any) -> None:
    """Against the estimator, at events of our own."""
    rng = np.random.default_rng(8)
    x = rng.uniform(est.region.x_low, est.region.x_high, size=(77, 5)).astype(np.float32)
    theta0, theta1 = (rng.uniform(LOW, HIGH, size=(77, 2)).astype(np.float32) for _ in range(2))
    for question, path in files.paths.items():
        inputs = {"x": x, "theta": theta0}
        if question == "log_ratio":
            inputs = {"x": x, "theta0": theta0, "theta1": theta1}
        expected = getattr(est, question)(*inputs.values())
        session = read(path)
        assert {value.name for value in session.get_inputs()} == set(inputs)
        assert [value.name for value in session.get_outputs()] == [question]
        (found,) = session.run(None, inputs)
        assert found.shape == expected.shape
        scale = np.maximum(1, np.abs(expected))
        assert (np.abs(found - expected) / scale).max() < 1e-5
        assert files.worst_errors[question] < 1e-5


@pytest.mark.parametrize("kind", SMALL)
def test_files_agree_with_the_estimator(kind: str, tmp_path: Path) -> None:
    est = SMALL[kind]()
    files = ist.export.onnx(est, tmp_path / "model.onnx", opset=23)
    assert files.outside_sofie == ()
    check(est, files)


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_agrees(kind: str, opset: int, tmp_path: Path) -> None:
    est = KINDS[kind]()
    files = ist.export.onnx(est, tmp_path / "model", opset=opset)
    assert files.opset == opset
    assert files.outside_sofie == ()
    check(est, files)
    for path in files.paths.values():
        (used,) = onnx.load(path).opset_import
        assert used.version == opset


def test_each_question_has_a_file(est: Any, tmp_path: Path) -> None:
    files = ist.export.onnx(est, tmp_path / "model.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-log_ratio.onnx",
        "model-potential.onnx",
        "model-score.onnx",
    ]
    assert files.paths["score"] == tmp_path / "model-score.onnx"
    assert files.opset == 17
    assert "model-score.onnx" in files.summary()
    check(est, files)


def test_one_graph_answers_all_questions(est: Any, tmp_path: Path) -> None:
    files = ist.export.onnx(est, tmp_path / "model.onnx", one_graph=True)
    assert set(files.paths.values()) == {tmp_path / "model.onnx"}
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    session = read(tmp_path / "model.onnx")
    x, theta = np.full((3, 5), 0.5, np.float32), np.full((3, 2), 1.5, np.float32)
    inputs = {"x": x, "theta": theta, "theta0": theta, "theta1": theta + 1}
    names = ["potential", "score", "log_ratio"]
    found = dict(zip(names, session.run(names, inputs), strict=True))
    np.testing.assert_allclose(found["potential"], est.potential(x, theta), rtol=1e-5)
    np.testing.assert_allclose(found["score"], est.score(x, theta), rtol=1e-5)
    np.testing.assert_allclose(found["log_ratio"], est.log_ratio(x, theta, theta + 1), rtol=1e-5)


@pytest.mark.parametrize("kind", ["residual", "two tower", "particles", "natural", "direct ratio"])
def test_any_number_of_events_will_do(kind: str, tmp_path: Path) -> None:
    est = SMALL[kind]()
    path = ist.export.onnx(est, tmp_path / "model").paths["log_ratio"]
    for count in (0, 1, 3):
        x, theta = np.full((count, 5), 0.5, np.float32), np.full((count, 2), 1.5, np.float32)
        (found,) = read(path).run(None, {"x": x, "theta0": theta, "theta1": theta + 1})
        assert found.shape == (count,)


def test_one_observable_and_one_parameter(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1, 1, size=(200, 1))
    events = ist.Events(x=theta + rng.normal(size=(200, 1)), theta=theta)
    training = ist.Training(epochs=1, choose=False)
    est = ist.fit(events, network=ist.MLP((4,)), members=1, training=training, seed=1)
    files = ist.export.onnx(est, tmp_path / "model")
    x, theta = np.zeros((7, 1), np.float32), np.full((7, 1), 0.5, np.float32)
    (found,) = read(files.paths["score"]).run(None, {"x": x, "theta": theta})
    np.testing.assert_allclose(found, est.score(x, theta), atol=1e-5)
    assert found.shape == (7, 1)
    ist.export.stablehlo(est, tmp_path / "model.zip")
    if find_compiler() is not None:
        ist.export.cpp(est, tmp_path / "model.h")


def test_the_file_says_what_it_is(est: Any, tmp_path: Path) -> None:
    path = ist.export.onnx(est, tmp_path / "model").paths["score"]
    facts = read(path).get_modelmeta().custom_metadata_map
    assert json.loads(facts["x_names"]) == list(OBSERVABLES)
    assert json.loads(facts["theta_names"]) == ["mass", "width"]
    assert json.loads(facts["theta_high"]) == HIGH.tolist()
    assert facts["model_hash"] == model_hash(est)
    assert facts["questions"] == "score"
    assert onnx.load(path).producer_name == "inferostatic"
    (events, columns) = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    assert (events.dim_param, columns.dim_value) == ("events", 5)


def test_a_wrong_export_leaves_no_file(
    est: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = onnx_file.add_question

    def wrong(graph: Any, est: Any, question: str) -> Any:
        value = right(graph, est, question)
        return graph.elementwise("Neg", value) if question == "log_ratio" else value

    monkeypatch.setattr(onnx_file, "add_question", wrong)
    with pytest.raises(ist.export.ExportError, match="log_ratio is off by.*no file was written"):
        ist.export.onnx(est, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    def odd(z: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2, lambda _, y: y / 2, z)

    est = scaled_estimator(ist.Potential(ist.MLP((4,), activation=odd)))
    with pytest.raises(ist.export.ExportError, match="the network uses `(while|scan)`"):
        ist.export.onnx(est, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_are_refused(est: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="opset"):
        ist.export.onnx(est, tmp_path / "model.onnx", opset=9)
    with pytest.raises(ValueError, match="opset"):
        ist.export.onnx(est, tmp_path / "model.onnx", opset=999)
    with pytest.raises(TypeError, match="one_graph"):
        ist.export.onnx(est, tmp_path / "model.onnx", one_graph="yes")  # pyright: ignore
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ist.export.onnx(est, tmp_path / "no folder" / "model.onnx")
    with pytest.raises(TypeError, match="a trained estimator"):
        ist.export.onnx(est.model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(
    est: Any, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[export\]'"):
        ist.export.onnx(est, tmp_path / "model.onnx")


def test_an_older_file_stays_where_the_new_one_fails(est: Any, tmp_path: Path) -> None:
    files = ist.export.onnx(est, tmp_path / "model.onnx")
    before = {path: path.read_bytes() for path in files.paths.values()}
    region = dataclasses.replace(est.region, x_high=np.full(5, np.nan))
    with pytest.raises(ist.export.ExportError):
        ist.export.onnx(dataclasses.replace(est, region=region), tmp_path / "model.onnx")
    assert {path: path.read_bytes() for path in files.paths.values()} == before
