"""A signal over a falling background, with its exact density.

Background: the mass is exponential with τ = 60 between 50 and 200, the angle Beta(2, 3), and
400 (1 + 0.03 ν) events are expected. Signal: the mass is normal around M with width 5, the angle
Beta(3, 2), and 40 μ events are expected. All masses are scaled by 1 + 0.02 ν.
"""

from typing import Any, Final

import numpy as np
from scipy import optimize, special

import inferostatic as ist

NAMES: Final = ["mu", "M", "nu"]
OBSERVABLES: Final = ["mass", "angle"]
LOW: Final = np.array([0.0, 100.0, -1.0])
HIGH: Final = np.array([4.0, 140.0, 1.0])
#: Where the limit is set.
MASS, SCALE, EVENTS = 122.0, 0.0, 438
BACKGROUND, SIGNAL, TAU, WIDTH = 400.0, 40.0, 60.0, 5.0
EDGES: Final = np.exp(-np.array([50.0, 200.0]) / TAU)


def background(n: int, nu: np.ndarray | float, rng: np.random.Generator) -> np.ndarray:
    mass = -TAU * np.log(EDGES[0] - rng.uniform(size=n) * (EDGES[0] - EDGES[1]))
    return np.stack([mass * (1 + 0.02 * nu), rng.beta(2, 3, size=n)], axis=1)


def signal(
    n: int, mass: np.ndarray | float, nu: np.ndarray | float, rng: np.random.Generator
) -> np.ndarray:
    return np.stack([rng.normal(mass, WIDTH, size=n) * (1 + 0.02 * nu), rng.beta(3, 2, size=n)], 1)


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The shape alone: events of either kind, in the ratio that is expected."""
    mu, mass, nu = np.asarray(theta, np.float64).T
    share = SIGNAL * mu / (SIGNAL * mu + BACKGROUND * (1 + 0.03 * nu))
    chosen = rng.uniform(size=len(mu)) < share
    of_signal = signal(len(mu), mass, nu, rng)
    return np.where(chosen[:, None], of_signal, background(len(mu), nu, rng))


def density_ratio(x: np.ndarray) -> np.ndarray:
    """Signal over background density at the mass and scale of the limit."""
    mass, angle = x.T
    of_signal = np.exp(-(((mass - MASS) / WIDTH) ** 2) / 2) / (WIDTH * np.sqrt(2 * np.pi))
    of_background = np.exp(-mass / TAU) / TAU / (EDGES[0] - EDGES[1])
    # Beta(3, 2) over Beta(2, 3).
    return of_signal / of_background * angle / (1 - angle)


def exact_expected_limit(events: int = EVENTS) -> float:
    """The median expected CLs limit by the exact density; the Asimov set is an integral."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    mass, angle = np.meshgrid(50 + 75 * (nodes + 1), (nodes + 1) / 2, indexing="ij")
    ratio = density_ratio(np.column_stack([mass.ravel(), angle.ravel()])).reshape(mass.shape)
    density = np.exp(-mass / TAU) / TAU / (EDGES[0] - EDGES[1]) * 12 * angle * (1 - angle) ** 2
    measure = density * np.outer(75 * weights, weights / 2)

    def cls(mu: float) -> float:
        each = np.log((BACKGROUND + SIGNAL * mu * ratio) / (BACKGROUND + SIGNAL * mu))
        return float(2 * special.ndtr(-np.sqrt(-2 * events * np.sum(measure * each))))

    found: Any = optimize.brentq(lambda mu: cls(mu) - 0.05, 0.01, 4.0)
    return float(found)


def weighted_events(seed: int = 0, of_background: int = 200, of_signal: int = 44) -> ist.Events:
    """18,300 weighted events at 75 points."""
    rng = np.random.default_rng([seed, 7])
    theta, x, weight = [], [], []
    for mu in (0.0, 0.5, 1.0, 2.0, 4.0):
        for mass in (100.0, 110.0, 120.0, 130.0, 140.0):
            for nu in (-1.0, 0.0, 1.0):
                theta.append(np.tile([mu, mass, nu], (of_background + of_signal, 1)))
                x += [background(of_background, nu, rng), signal(of_signal, mass, nu, rng)]
                weight.append(np.full(of_background, BACKGROUND * (1 + 0.03 * nu) / of_background))
                weight.append(np.full(of_signal, SIGNAL * mu / of_signal))
    return ist.Events(
        theta=np.concatenate(theta),
        x=np.concatenate(x),
        weight=np.concatenate(weight),
        theta_names=NAMES,
        x_names=OBSERVABLES,
    )


def prior_events(n: int, seed: int) -> ist.Events:
    """Events with θ uniform in the whole region."""
    prior = ist.Uniform(LOW, HIGH, names=NAMES)
    made = ist.simulate(simulator, prior, n, seed=seed, progress_bar=False)
    return ist.Events(theta=made.theta, x=made.x, prior=prior, x_names=OBSERVABLES)


def slice_events(n: int, highest: float, seed: int) -> ist.Events:
    """Events at the mass and scale of the limit, with μ uniform from 0 to `highest`."""
    rng = np.random.default_rng([seed, 8])
    theta = np.column_stack([rng.uniform(0, highest, n), np.full(n, MASS), np.full(n, SCALE)])
    x = simulator(theta, rng)
    return ist.Events(theta=theta, x=x, theta_names=NAMES, x_names=OBSERVABLES)
