"""The simulator of this study: replace it by your own.

It takes the parameters of n events, shape (n, 2), and a NumPy generator, and returns the
observables of these events, shape (n, 1). Every random number must come from `rng`. A data frame
may be returned as well; then the observables have its names.
"""

import numpy as np


def simulator(theta, rng):
    """A peak of relative size `fraction` at mass 2, on a background that falls with `slope`."""
    fraction, slope = theta.T
    n = len(theta)
    is_signal = rng.uniform(size=n) < fraction
    mass = np.where(is_signal, rng.normal(2.0, 0.1, n), rng.exponential(1 / slope))
    return mass[:, None]
