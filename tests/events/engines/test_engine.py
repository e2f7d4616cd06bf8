"""The engine that runs tasks here, and simulators that are bound to an engine."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines.engine import InProcess, TaskError
from inferostatic.fingerprint import digest


class _Squares(Sequence[int]):
    """Tasks that are made when they are asked for."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: Any) -> Any:
        self.made.append(index)
        return index


def test_tasks_are_made_one_at_a_time():
    tasks = _Squares()
    running = InProcess().run(lambda task: task**2, tasks)
    assert tasks.made == []
    assert next(running) == (0, 0)
    assert tasks.made == [0]
    assert list(running) == [(1, 1), (2, 4), (3, 9), (4, 16)]


def test_what_a_task_raises_passes_through():
    running = InProcess().run(lambda task: 1 // task, [1, 0])
    assert next(running) == (0, 1)
    with pytest.raises(ZeroDivisionError):
        next(running)


def test_a_failure_says_which_task_failed():
    error = pickle.loads(pickle.dumps(TaskError(3, "blocks 3", "it was killed")))
    assert (error.index, error.task, error.reason) == (3, "blocks 3", "it was killed")
    assert str(error) == "it was killed"


def test_a_simulator_on_an_engine_is_a_simulator():
    toy = ist.toys.Dirichlet(3)
    bound = InProcess()(toy)
    theta = np.full((4, 3), 2.0)
    made = bound(theta, np.random.default_rng(1))
    np.testing.assert_array_equal(np.asarray(made), toy(theta, np.random.default_rng(1)))
    with pytest.raises(TypeError, match="run by an engine already, InProcess"):
        InProcess()(bound)
    with pytest.raises(TypeError, match="itself; call it"):
        InProcess()(ist.toys.Dirichlet)  # pyright: ignore[reportArgumentType]


def test_a_checkpoint_does_not_ask_who_ran_a_simulator():
    one, other = ist.toys.Dirichlet(3), ist.toys.Dirichlet(2)
    assert digest(InProcess()(one)) == digest(ist.ProcessPool(2)(one))
    assert digest(InProcess()(one)) != digest(InProcess()(other))
