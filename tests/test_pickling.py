"""Estimators in other processes: the same answers, or an error with the cure."""

import copy
import json
import multiprocessing
import operator
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.estimator.estimator import AbstractEstimator
from random_estimators import random_estimator
from saved_models import FOLDER, SUPPLIED, answers, told

EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def _is_picklable(name: str) -> bool:
    """All but those that were saved with a lambda."""
    return name != "kse-factorised"


@pytest.mark.parametrize("name", [name for name in EXPECTED if _is_picklable(name)])
def test_every_kind_comes_back_with_the_same_answers(name: str) -> None:
    if any(part in name for part in ("nde", "flow", "mem", "scandal")):
        pytest.importorskip("flowjax")
    estimator = ist.load(FOLDER / f"{name}.isn", supplied=SUPPLIED)
    again = pickle.loads(pickle.dumps(estimator))
    assert type(again) is type(estimator)
    np.testing.assert_equal(told(again), told(estimator))
    if not isinstance(estimator, AbstractEstimator):
        return  # two flows, compared above, and answers of a Monte Carlo
    at = tuple(np.array(part) for part in EXPECTED[name]["at"])
    question = next(iter(EXPECTED[name]["answers"]))
    assert answers(again, at, (question,)) == answers(estimator, at, (question,))


def test_what_cannot_be_pickled_is_refused_with_the_cure() -> None:
    estimator = random_estimator(ist.Potential(ist.MLP((4,), activation=lambda z: jnp.sin(z))))
    with pytest.raises(pickle.PicklingError, match=r"<lambda>.*by def or class at the top of a"):
        pickle.dumps(estimator)
    x, theta = np.zeros((2, 3)), np.ones((2, 2))
    for other in (copy.copy(estimator), copy.deepcopy(estimator)):
        np.testing.assert_array_equal(other.score(x, theta), estimator.score(x, theta))


@pytest.mark.parametrize("network", [ist.MLP((4,)), ist.Residual(4, 1), ist.MixtureFlow()])
def test_a_network_that_was_copied_or_pickled_is_the_same(network: Any) -> None:
    """Also its activation, a compiled function of JAX, by which files know it."""
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert other == network
        assert other.activation is network.activation
    nested = pickle.loads(pickle.dumps(ist.Potential(ist.TwoTower(4, ist.MLP((3,))))))
    assert nested.network.x_network.activation is ist.MLP((3,)).activation


def test_a_network_with_a_lambda_can_be_copied_only() -> None:
    network = ist.MLP((4,), activation=lambda z: jnp.sin(z))
    assert copy.deepcopy(network) == network
    with pytest.raises(pickle.PicklingError, match=r"<lambda>.*by def or class at the top of a"):
        pickle.dumps(network)


def one(z: Any) -> Any:
    return jnp.sin(z)


def test_two_functions_of_one_name_stay_apart() -> None:
    def named(name: str, function: Any) -> Any:
        function.__qualname__ = name
        return function

    network = ist.TwoTower(
        3,
        ist.MLP((4,), activation=named("same", one)),
        ist.MLP((4,), activation=named("same", lambda z: jnp.cos(z))),
    )
    estimator = random_estimator(ist.Potential(network))
    again = copy.deepcopy(estimator)
    x, theta = np.ones((2, 3)), np.ones((2, 2))
    np.testing.assert_array_equal(again.score(x, theta), estimator.score(x, theta))


def test_estimators_go_to_processes_that_are_spawned() -> None:
    kinds = (ist.Potential(ist.MLP((4,))), ist.DirectScore(ist.MLP((4,))))
    estimators = [random_estimator(architecture) for architecture in kinds]
    x, theta = np.full((5, 3), 0.5), np.ones((5, 2))
    score = operator.methodcaller("score", x, theta)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map_async(score, estimators).get(120)
    for values, estimator in zip(found, estimators, strict=True):
        np.testing.assert_allclose(values, score(estimator), rtol=1e-5, atol=1e-6)
