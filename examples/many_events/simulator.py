"""A peak on a falling spectrum: the `simulator` and the `prior` of all recipes in this folder."""

import numpy as np

import inferostatic as ist

prior = ist.Uniform([0.0, 0.5], [1.0, 2.0], names=["fraction", "slope"])


def simulator(theta, rng):
    fraction, slope = theta.T
    n = len(theta)
    signal = rng.uniform(size=n) < fraction
    mass = np.where(signal, rng.normal(2.0, 0.1, n), rng.exponential(1 / slope))
    return mass[:, None]
