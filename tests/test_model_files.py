"""Model files of earlier versions load, answer what they did, and can be saved again.

The files in `data/models` were written by `data/models/make_models.py`. They are never written
again: a change that makes one of them unreadable would do the same to the files of users.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic import serial
from inferostatic.archive import read_archive
from inferostatic.estimator.loading import KINDS
from inferostatic.estimator.matrix_element import MatrixElement
from inferostatic.events.morphing.morphing import Morphing
from inferostatic.events.morphing.nuisance import RateResponse
from parameters import slow
from saved_models import FOLDER, SUPPLIED, answers, told

EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))

#: What could be stored but is in no file, and why.
IN_NO_FILE = {
    Morphing: "the joint density of the training events, which a model file does not hold",
    RateResponse: "part of a morphing",
}
#: Files whose answers take long and come from the same code as those of others.
LIKE_OTHERS = {
    "nde-flow-of-a-user",
    "nde-two-members",
    "nde-without-prior",
    "nde-quantile",
    "scandal",
    "network-particle-set-two-tower",
}
#: Parts of a header that may differ between versions of one model.
NAMES = ("format", "version", "packages", "kind", "type", "known")


@functools.cache
def loaded(name: str) -> Any:
    if _kind(name) in ("DensityEstimator", "MatrixElement"):
        pytest.importorskip("flowjax")
    return ist.load(FOLDER / f"{name}.isn", supplied=SUPPLIED)


def _kind(name: str) -> str:
    """The kind of estimator, as the file calls it."""
    return read_archive(FOLDER / f"{name}.isn")[0]["kind"]


def assert_same(found: Any, expected: Any, what: str, *, rtol: float, atol: float) -> None:
    """Words are equal, and numbers as good as equal."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), what
        for key, value in expected.items():
            assert_same(found[key], value, f"{what}: {key}", rtol=rtol, atol=atol)
    elif isinstance(expected, list) and any(isinstance(part, list) for part in expected):
        for part, value in zip(found, expected, strict=True):
            assert_same(part, value, what, rtol=rtol, atol=atol)
    elif isinstance(expected, list) and not any(isinstance(part, str) for part in expected):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=what)
    else:
        assert found == expected, what


@pytest.mark.parametrize("name", [slow(name) if name in LIKE_OTHERS else name for name in EXPECTED])
def test_a_file_answers_what_it_did(name: str) -> None:
    expected = EXPECTED[name]
    at = tuple(np.array(part) for part in expected["at"])
    found = answers(loaded(name), at, tuple(expected["answers"]))
    assert_same(found, expected["answers"], name, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_tells_what_it_did(name: str) -> None:
    """Columns, trained region, history, method, prior and training."""
    expected = EXPECTED[name]
    found = told(loaded(name), np.array(expected["at"][1]))
    assert_same(found, expected["told"], name, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_saved_again_with_nothing_lost(name: str, tmp_path: Path) -> None:
    """Every value of its header and every array, under whichever names."""
    loaded(name).save(tmp_path / "again.isn")
    (header, arrays), (old_header, old_arrays) = (
        read_archive(path) for path in (tmp_path / "again.isn", FOLDER / f"{name}.isn")
    )
    assert not Counter(values(old_header)) - Counter(values(header))
    kept = Counter(_exact(array) for array in arrays.values())
    assert not Counter(_exact(array) for array in old_arrays.values()) - kept
    again = ist.load(tmp_path / "again.isn", supplied=SUPPLIED)
    assert type(again) is type(loaded(name))
    assert_same(told(again), told(loaded(name)), name, rtol=0, atol=0)


def _exact(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, str(array.dtype), array.tobytes()


def values(data: Any) -> Iterator[str]:
    """Every value in a header, in words, without the names of classes and fields."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in NAMES:
                yield from values(value)
    elif isinstance(data, list):
        for item in data:
            yield from values(item)
    else:
        # Probabilities are normalised again on loading, which may change the last digit.
        yield f"{data:.6g}" if isinstance(data, float) else repr(data)


def classes_in(data: Any) -> Iterator[Any]:
    """Every class and function of ours in a header, by the names of the time."""
    if isinstance(data, dict):
        for key in ("type", "known"):
            if isinstance(data.get(key), str):
                yield serial.restore({"known": data[key]})
        for value in data.values():
            yield from classes_in(value)
    elif isinstance(data, list):
        for item in data:
            yield from classes_in(item)


def test_every_file_has_answers_and_every_answer_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.isn")} == EXPECTED.keys()


def test_everything_that_can_be_stored_is_in_some_file() -> None:
    """A new class belongs into a new file: see `data/models/make_models.py`."""
    headers = [read_archive(FOLDER / f"{name}.isn")[0] for name in EXPECTED]
    found = {id(thing) for header in headers for thing in classes_in(header)}
    found |= {id(thing) for thing in IN_NO_FILE}
    missing = [name for name, thing in serial._KNOWN.items() if id(thing) not in found]
    assert missing == []


def test_every_kind_of_estimator_is_in_some_file() -> None:
    one_of_each = {_kind(name): name for name in EXPECTED}
    found = {type(loaded(name)) for name in one_of_each.values()}
    assert found == {*KINDS.values(), MatrixElement}
