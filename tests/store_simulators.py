"""Simulators and priors that the tests of stores share; other processes import them as well."""

import time
from typing import Any

import numpy as np

import inferostatic as ist

PRIOR = ist.Uniform([0.0, -1.0], [1.0, 3.0], names=["a", "b"])


def shifted_normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def named(theta: np.ndarray, rng: np.random.Generator) -> Any:
    import pandas as pd

    return pd.DataFrame(shifted_normal(theta, rng), columns=["u", "v"])


def slow(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    time.sleep(0.01)
    return shifted_normal(theta, rng)


class Counting:
    """Remembers how many events it made."""

    def __init__(self) -> None:
        self.events = 0

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.events += len(theta)
        return shifted_normal(theta, rng)


class Failing:
    """Fails where θ is large, until it is mended."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if (theta[:, 0] > self.limit).any():
            raise ArithmeticError("too large")
        return shifted_normal(theta, rng)
