"""A program as any other: it reads θ from a file and writes x to another one."""

import sys

import numpy as np

theta = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, ndmin=2)
rng = np.random.default_rng(int(sys.argv[3]))
signal = rng.uniform(size=len(theta)) < theta[:, 0]
mass = np.where(signal, rng.normal(2.0, 0.1, len(theta)), rng.exponential(1 / theta[:, 1]))
np.savetxt(sys.argv[2], mass, header="mass", comments="")
