"""Fingerprints: the same for the same things in another process, different for others."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.fingerprint import digest, identify, take_fingerprint

SCALE = 2.0
CALLS = 0


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    global CALLS  # noqa: PLW0603
    CALLS += 1
    return theta + SCALE * rng.normal(size=theta.shape)


def helper(x: float) -> float:
    return 2 * x


def uses_helper(x: float) -> float:
    return helper(x)


def make_adder(number: float) -> Any:
    return lambda x: x + number


def make_counter() -> Any:
    calls = 0

    def count(x: float) -> float:
        nonlocal calls
        calls += 1
        return x

    return count


@dataclasses.dataclass(frozen=True)
class Kept:
    number: float

    def checkpoint_identity(self) -> object:
        return "the same"


class Plain:
    def __init__(self, number: float) -> None:
        self.number = number

    def __call__(self, x: float) -> float:
        return self.number * x


EVENTS = ist.Events(x=np.arange(6.0).reshape(3, 2), theta=np.ones((3, 1)))
#: Different things, as long as each differs from all others.
THINGS: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "false": False,
    "real zero": 0.0,
    "text": "0",
    "bytes": b"0",
    "empty list": [],
    "nested": [[]],
    "pair": [1, 2],
    "another pair": [2, 1],
    "float64": np.arange(3.0),
    "float32": np.arange(3, dtype=np.float32),
    "row": np.arange(3.0)[None],
    "jax": jnp.arange(3) + 7,
    "key": jax.random.key(1),
    "other key": jax.random.key(2),
    "mapping": {"a": 1},
    "other mapping": {"a": 2},
    "method": ist.KSE(ist.Delta(0.1)),
    "wider": ist.KSE(ist.Delta(0.2)),
    "prior": ist.Uniform([0.0], [1.0]),
    "simulator": simulator,
    "adds one": make_adder(1.0),
    "adds two": make_adder(2.0),
    "multiplies": lambda x: 2 * x,
    "another function": lambda x: 3 * x,
    "counter": make_counter(),
    "partial": functools.partial(helper, 1.0),
    "other partial": functools.partial(helper, 2.0),
    "object": Plain(1.0),
    "other object": Plain(2.0),
    "bound method": Plain(1.0).__call__,
    "events": EVENTS,
    "identified events": EVENTS.identified("store 1"),
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "set": {"a", "b", "c"},
    "path": Path("a"),
}


def test_different_things_differ() -> None:
    found = {name: digest(thing) for name, thing in THINGS.items()}
    same = [(a, b) for a in found for b in found if a < b and found[a] == found[b]]
    assert same == []


def test_another_process_finds_the_same() -> None:
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import test_fingerprint as t; "
        "print(json.dumps({name: t.digest(thing) for name, thing in t.THINGS.items()}))"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == {name: digest(thing) for name, thing in THINGS.items()}


def test_equal_things_are_the_same() -> None:
    assert digest(ist.KSE(ist.Delta(0.1))) == digest(THINGS["method"])
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    assert digest(np.asfortranarray(np.arange(6.0).reshape(2, 3))) == digest(
        np.arange(6.0).reshape(2, 3)
    )
    one = ist.Delta(0.1)
    assert digest([one, one]) == digest([ist.Delta(0.1), ist.Delta(0.1)])
    assert digest(Kept(1.0)) == digest(Kept(2.0))


def test_a_count_of_its_calls_does_not_change_a_function() -> None:
    before = digest(simulator)
    simulator(np.zeros((1, 1)), np.random.default_rng(1))
    assert digest(simulator) == before
    counter = make_counter()
    before = digest(counter)
    counter(1.0)
    assert digest(counter) == before


def test_a_constant_or_a_function_that_it_uses_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(simulator), digest(uses_helper)
    monkeypatch.setattr(f"{__name__}.SCALE", 3.0)
    monkeypatch.setattr(f"{__name__}.helper", lambda x: 3 * x)
    after = digest(simulator), digest(uses_helper)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_things_that_hold_themselves() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert digest(ring) == digest(ring)

    def recursive(n: int) -> int:
        return 1 if n == 0 else n * recursive(n - 1)

    assert digest(recursive) == digest(recursive)


def test_large_arrays_in_files_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.random.default_rng(1).normal(size=(1000, 7))
    whole = digest(array)
    np.save(tmp_path / "x.npy", array)
    monkeypatch.setattr("inferostatic.fingerprint.CHUNK_BYTES", 1000)
    assert digest(np.load(tmp_path / "x.npy", mmap_mode="r")) == whole
    array[999, 6] += 1e-12
    assert digest(array) != whole


def test_events_by_their_identity() -> None:
    others = ist.Events(x=np.ones((3, 2)), theta=np.ones((3, 1)))
    assert digest(EVENTS.identified("store 1")) == digest(others.identified("store 1"))
    assert digest(EVENTS.identified("store 1")) != digest(EVENTS.identified("store 2"))
    assert digest(EVENTS.identified("store 1")[:2]) == digest(EVENTS[:2])
    changed = dataclasses.replace(EVENTS.identified("store 1"), prior=ist.Uniform([0.0], [2.0]))
    assert changed.identity is None


def test_an_estimator_is_the_same_however_long_its_training_took() -> None:
    from exact_estimators import exact_normal

    one = exact_normal()
    longer = dataclasses.replace(one.history, seconds=one.history.seconds + 1.0)
    assert digest(dataclasses.replace(one, history=longer)) == digest(one)
    assert digest(exact_normal(stretch=2.0)) != digest(one)


def test_what_is_shown_is_short() -> None:
    shown = take_fingerprint(list(range(1000))).shown
    assert len(shown) <= 60
    assert shown.startswith("[0, 1, 2")
    assert identify({"seed": 1})["seed"].shown == "1"
