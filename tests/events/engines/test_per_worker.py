"""Simulators that every process makes for itself, once."""

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines import per_worker

PRIOR = ist.Uniform([0.0], [1.0])


class Generator:
    """Cannot be pickled, and leaves a trace when it is made."""

    def __init__(self, folder: Path) -> None:
        self.lock, self.scale = threading.Lock(), 2.0
        with (folder / str(os.getpid())).open("a") as trace:
            trace.write("made\n")

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        with self.lock:
            return theta + self.scale * rng.normal(size=theta.shape)


def test_every_process_makes_one_and_only_the_factory_travels(tmp_path: Path) -> None:
    simulator = ist.PerWorker(lambda: Generator(tmp_path))
    with ist.ProcessPool(2) as pool:
        first = ist.simulate(simulator, PRIOR, 5_000, engine=pool, seed=1)
        second = ist.simulate(simulator, PRIOR, 5_000, engine=pool, seed=1)
    traces = list(tmp_path.iterdir())
    assert len(traces) == 2
    assert str(os.getpid()) not in {trace.name for trace in traces}
    assert [trace.read_text() for trace in traces] == ["made\n"] * 2
    here = ist.simulate(simulator, PRIOR, 5_000, seed=1)
    np.testing.assert_array_equal(first.x, here.x)
    np.testing.assert_array_equal(second.x, here.x)


def test_copies_share_what_was_made_and_others_do_not(tmp_path: Path) -> None:
    def make() -> Any:
        return lambda theta, rng: np.full(theta.shape, len(made.append(1) or made))

    made: list[int] = []
    simulator = ist.PerWorker(lambda: Generator(tmp_path))
    (trace,) = [tmp_path / str(os.getpid())]
    rng = np.random.default_rng(0)
    simulator(np.ones((2, 1)), rng)
    simulator(np.ones((2, 1)), rng)
    assert trace.read_text() == "made\n"
    ist.PerWorker(simulator.factory)(np.ones((2, 1)), rng)
    assert trace.read_text() == "made\n" * 2
    others = [ist.PerWorker(make) for _ in range(per_worker.KEPT + 3)]
    for other in others:
        other(np.ones((2, 1)), rng)
    assert len(per_worker._MADE) == per_worker.KEPT


def build() -> Any:
    return lambda theta, rng: theta


def test_it_is_a_record() -> None:
    simulator = ist.PerWorker(build)
    copy = pickle.loads(pickle.dumps(simulator))
    assert copy == simulator == ist.PerWorker(build)
    assert copy._token == simulator._token
    assert repr(simulator).startswith("PerWorker(factory=<function build")


@pytest.mark.parametrize(
    ("factory", "kind", "message"),
    [
        (3, TypeError, "factory must be a function without arguments"),
        (Generator, TypeError, "factory must be a function without arguments"),
    ],
)
def test_a_factory_is_a_function(factory: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ist.PerWorker(factory)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: 3, "simulator must be a function"),
        (lambda theta: build(), r"the factory of ist.PerWorker, called with 0 argument, failed"),
        (lambda: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_a_factory_does_wrong_is_named(factory: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ist.simulate(ist.PerWorker(factory), PRIOR, 10, seed=1)
