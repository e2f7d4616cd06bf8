"""The simulator of this study: replace it by your own.

It takes the parameters of n events, shape (n, 2), and a NumPy generator, and returns the
observables of these events, shape (n, 2). Every random number must come from `rng`. A data frame
may be returned as well; then the observables have the names of its columns.
"""

import numpy as np


def simulator(theta, rng):
    """Decays of a particle: its mass with a resolution of 0.5, and its time of flight."""
    mass, lifetime = theta.T
    measured_mass = rng.normal(mass, 0.5)
    time = rng.exponential(lifetime) + rng.normal(0.0, 0.2, len(theta))
    return np.stack([measured_mass, time], axis=1)
