"""Validation events of the Dirichlet toy, and of a normal one, that all checks share."""

import numpy as np
import pytest

import inferostatic as ist

PRIOR = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])


@pytest.fixture(scope="session")
def events() -> ist.Events:
    return ist.simulate(ist.toys.Dirichlet(3), PRIOR, 20_000, seed=5)


@pytest.fixture(scope="session")
def normal_events() -> ist.Events:
    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + rng.normal(size=theta.shape)

    return ist.simulate(simulator, ist.Uniform([-3.0] * 2, [3.0] * 2), 20_000, seed=6)
