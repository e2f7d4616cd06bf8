"""A problem of two parameters whose likelihood is known, and tests only an exact answer passes.

x_0 ~ N(θ_0, 1) and x_1 ~ N(0, e^{θ_1}): the normalisation depends on θ_1, so forgetting any factor
that depends on θ shows.

`gradient_z` is the common device: tilt the exact potential, φ = ln p + Σ c_k g_k(x, θ), and
differentiate the expected loss with respect to c at c = 0. Whatever the supervision, the exact
potential must be a stationary point in every direction, up to the statistical error.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import expit

import inferostatic as ist
from inferostatic.learning.methods import AbstractMethod
from inferostatic.supervision.records import Capability, Row
from inferostatic.supervision.supervision import ThetaDistribution

LOW, HIGH = np.array([-1.0, -0.6]), np.array([1.5, 0.8])
BOX = ist.Uniform(LOW, HIGH)
#: A z value that fixed seeds must stay below, and one that a wrong variant must exceed.
PASSES, FAILS = 4.5, 10.0


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal(theta.shape)
    return np.stack([theta[:, 0] + noise[:, 0], np.exp(theta[:, 1]) * noise[:, 1]], axis=1)


def log_p(x: Any, theta: Any, xp: Any = np) -> Any:
    """ln p(x; θ) for arrays whose last axis holds the components; `xp` is np or jnp."""
    first = -((x[..., 0] - theta[..., 0]) ** 2) / 2
    second = -(x[..., 1] ** 2) * xp.exp(-2 * theta[..., 1]) / 2 - theta[..., 1]
    return first + second - math.log(2 * math.pi)


class WithLatent:
    """The same problem with half of the noise made visible: z_0 and z_1, and the rest added."""

    def simulate_latent(
        self, theta: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        first, second = rng.standard_normal((2, *theta.shape)) * math.sqrt(0.5)
        scale = np.stack([np.ones(len(theta)), np.exp(theta[:, 1])], axis=1)
        start = np.stack([theta[:, 0], np.zeros(len(theta))], axis=1)
        z = start + scale * first
        return z + scale * second, z

    def joint_log_prob(self, x: Any, z: Any, theta: Any) -> Any:
        squares = (z[1] ** 2 + (x[1] - z[1]) ** 2) * jnp.exp(-2 * theta[1])
        return -((z[0] - theta[0]) ** 2) - squares - 2 * theta[1]


def score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    first = x[..., 0] - theta[..., 0]
    second = x[..., 1] ** 2 * np.exp(-2 * theta[..., 1]) - 1
    return np.stack([first, second], axis=-1)


def directions(x: Array, theta: Array) -> Array:
    """Functions g_k: smooth ones, and some that live at the walls of the box only."""
    a, b = theta[..., 0], theta[..., 1]
    walls = [
        jnp.exp(-jnp.maximum(a - float(LOW[0]), 0.0) / 0.1),
        jnp.exp(-jnp.maximum(float(HIGH[1]) - b, 0.0) / 0.1),
    ]
    smooth = [a, b, a * x[..., 0], b * jnp.tanh(x[..., 1] ** 2), jnp.cos(3 * a + b), a * b]
    return jnp.stack([*smooth, *walls], axis=-1)


DIRECTIONS = 8
Reference = Callable[[Array], Array]


class Tilted(eqx.Module):
    """φ = ln p(x; θ) − ln p_ref(x) + c·g(x, θ)."""

    coefficients: Array
    log_reference: Reference | None = eqx.field(static=True, default=None)

    def potential(self, x: Array, theta: Array) -> Array:
        value = log_p(x, theta, jnp) + jnp.dot(directions(x, theta), self.coefficients)
        return value if self.log_reference is None else value - self.log_reference(x)

    def potential_table(self, x: Array, thetas: Array) -> Array:
        return jax.vmap(jax.vmap(self.potential), in_axes=(None, 0))(x, thetas)

    def log_ratios(self, x: Array, theta0: Array, theta1: Array) -> Array:
        values = self.potential_table(x, jnp.stack([theta0, theta1]))
        return values[0] - values[1]

    def score(self, x: Array, theta: Array) -> Array:
        return jax.grad(self.potential, argnums=1)(x, theta)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset(Capability)


@eqx.filter_jit
def _gradients(
    method: AbstractMethod,
    x: Array,
    records: Any,
    log_reference: Reference | None,
    at: Array | None = None,
) -> Array:
    """The derivative of each event's loss with respect to each coefficient."""

    def losses(coefficients: Array) -> Array:
        return method.losses_of(Tilted(coefficients, log_reference), x, records)

    return jax.jacfwd(losses)(jnp.zeros(DIRECTIONS) if at is None else at)


@eqx.filter_jit
def _supervised_gradients(
    method: AbstractMethod,
    rows: Row,
    distribution: ThetaDistribution,
    keys: Array,
    log_reference: Reference | None,
) -> Array:
    records = jax.vmap(lambda row, key: method.supervise(row, distribution, key=key))(rows, keys)
    return _gradients(method, rows.x, records, log_reference)


@eqx.filter_jit
def supervised_gradients(
    method: AbstractMethod, rows: Row, distribution: ThetaDistribution, keys: Array, at: Array
) -> Array:
    """The derivative of each event's loss, at a potential that is tilted by `at`."""
    records = jax.vmap(lambda row, key: method.supervise(row, distribution, key=key))(rows, keys)
    return _gradients(method, rows.x, records, None, at)


def gradient_z(
    method: AbstractMethod,
    events: ist.Events,
    *,
    seed: int = 5,
    log_reference: Reference | None = None,
) -> np.ndarray:
    """z values of the expected gradients on stored events, one for each direction."""
    supply = method.supply(events)
    keys = jax.random.split(jax.random.key(seed), len(supply.weight))
    gradients = _supervised_gradients(method, supply.rows, supply.distribution, keys, log_reference)
    return z_of_mean(supply.weight[:, None] * np.asarray(gradients, np.float64))


def drawn_gradient_z(records: ist.Records) -> np.ndarray:
    """The same for records drawn by a flowchart."""
    x = jnp.asarray(records.x, jnp.float32)
    gradients = _gradients(records.method, x, records.record, None)
    return z_of_mean(np.asarray(gradients, np.float64))


def z_of_mean(values: np.ndarray) -> np.ndarray:
    """The mean of independent rows in units of its error."""
    return values.sum(axis=0) / np.sqrt(np.square(values).sum(axis=0))


def calibration_z(
    label: np.ndarray,
    log_ratio: np.ndarray,
    weight: np.ndarray | float = 1.0,
    bins: int = 10,
) -> np.ndarray:
    """z values of Σ w (y − P(y = 1)) in quantile bins of P = sigmoid(−ln r)."""
    probability = expit(-log_ratio)
    excess = weight * (label - probability)
    parts = np.array_split(np.argsort(probability, kind="stable"), bins)
    return np.array([z_of_mean(excess[part]) for part in parts])


def balance_z(start: np.ndarray, end: np.ndarray, cells: int) -> np.ndarray:
    """z values of counts(i → j) against counts(j → i), for integer cells, i < j."""
    counts = np.bincount(start * cells + end, minlength=cells**2).reshape(cells, cells)
    both = counts + counts.T
    upper = np.triu_indices(cells, 1)
    moved, either = (counts - counts.T)[upper], both[upper]
    # With fewer than 25 moves the normal approximation would not hold.
    return moved[either >= 25] / np.sqrt(either[either >= 25])


def rank_z(ranks: np.ndarray, count: int) -> np.ndarray:
    """z values of the frequencies of ranks 0 … count−1 against equal ones."""
    expected = len(ranks) / count
    return (np.bincount(ranks, minlength=count) - expected) / math.sqrt(expected * (1 - 1 / count))
