"""Draws from a posterior by tempered sequential Monte Carlo, robust for several sharp modes.

Particles, chosen from draws from the prior π, follow π(θ) f(θ)^β as β grows from 0 to 1. Each step
of β is as large as leaves a given effective number of particles; they are then resampled and
moved. A move adds a multiple of the difference of two other particles (differential evolution), so
its shape follows the posterior, in some or all of the components; a multiple of one carries
particles from mode to mode. Nothing has to be tuned, and everything is compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inferostatic.world.priors.prior import AbstractPrior

#: θ with shape (m, d) give ln f with shape (m,), up to a constant: a log likelihood of one event.
LogFactor = Callable[[Array], Array]

#: Fraction of moves that jump by a whole difference, from mode to mode.
WHOLE_DIFFERENCES: Final = 0.3
#: Range of the other multiples, log-uniform, in units of the best one for a Gaussian.
SMALLEST_STEP, LARGEST_STEP = 0.05, 2.0
#: Half-width of the noise in every move, in standard deviations of the particles.
JITTER: Final = 1e-3
BISECTIONS: Final = 50
#: The smallest step of β, which only a function without any scale would need.
SMALLEST_RISE: Final = 1e-9
MOST_TEMPERATURES: Final = 500


@dataclass(frozen=True)
class Effort:
    """How much work is spent on one posterior.

    Attributes:
        particles: number of particles, even.
        draws: draws from the prior, for each particle, from which the first are chosen.
        survivors: effective fraction of the particles that each step of β must leave.
        moves: moves of every particle after each step of β.
        last_moves: further moves at β = 1.
    """

    particles: int = 20_000
    draws: int = 10
    survivors: float = 0.5
    moves: int = 25
    last_moves: int = 100

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        if self.particles < 4 or self.particles % 2 or not 0 < self.survivors < 1:
            raise ValueError(
                "particles must be even and at least 4, survivors between 0 and 1; got "
                f"particles={self.particles}, survivors={self.survivors}."
            )


@dataclass(frozen=True)
class Posterior:
    """Draws from a posterior.

    Attributes:
        theta: the draws, shape (n, d).
        temperatures: number of steps from prior to posterior.
        acceptance: fraction of the last moves that were accepted.
    """

    theta: np.ndarray
    temperatures: int
    acceptance: float


def sample_posterior(
    log_f: LogFactor,
    prior: AbstractPrior,
    n: int = 10_000,
    *,
    seed: int,
    effort: Effort | None = None,
) -> Posterior:
    """Draw `n` points from the density proportional to π(θ) f(θ).

    Args:
        log_f: ln f of many θ, in JAX. A pytree, such as `jax.tree_util.Partial` of a function and
            an observation, is compiled only once for all observations.
        prior: law of θ; no draw lies outside its support.
        n: number of draws, at most the number of particles.
        seed: everything random follows from it.
        effort: how much work to spend.
    """
    effort = Effort() if effort is None else effort
    if n > effort.particles:
        raise ValueError(f"{n} draws need as many particles; there are {effort.particles}.")
    starting, ending, rising = jax.random.split(jax.random.key(seed), 3)
    cloud, temperatures = _start(log_f, prior, effort, starting), 0
    while cloud.beta < 1:
        if temperatures == MOST_TEMPERATURES or not jnp.isfinite(cloud.log_f).any():
            raise ValueError(
                f"the posterior was not reached (β = {float(cloud.beta):.3g} after {temperatures} "
                "steps); is f positive and finite anywhere in the prior?"
            )
        resampling, moving = jax.random.split(jax.random.fold_in(rising, temperatures))
        cloud = _resample(cloud, effort, resampling)
        cloud, _ = _move(log_f, prior, cloud, jnp.asarray(effort.moves), moving)
        temperatures += 1
    cloud, accepted = _move(log_f, prior, cloud, jnp.asarray(effort.last_moves), ending)
    rows = np.random.default_rng(seed).choice(effort.particles, n, replace=False)
    return Posterior(
        theta=np.asarray(cloud.theta, np.float64)[rows],
        temperatures=temperatures,
        acceptance=float(accepted),
    )


class _Cloud(NamedTuple):
    """Particles, with ln π and ln f of each, at an inverse temperature β."""

    theta: Array
    log_prior: Array
    log_f: Array
    beta: Array


@eqx.filter_jit
def _start(log_f: LogFactor, prior: AbstractPrior, effort: Effort, key: Array) -> _Cloud:
    """Draws from the prior."""

    def draw(key: Array) -> tuple[Array, Array, Array]:
        theta = jax.vmap(lambda k: prior.draw(key=k))(jax.random.split(key, effort.particles))
        return theta, *_evaluate(log_f, prior, theta)

    # In parts, because a network takes much more memory than its arguments.
    parts = jax.lax.map(draw, jax.random.split(key, effort.draws))
    theta, log_prior, values = (jnp.concatenate(part) for part in parts)
    return _Cloud(theta, log_prior, values, jnp.zeros(()))


def _evaluate(log_f: LogFactor, prior: AbstractPrior, theta: Array) -> tuple[Array, Array]:
    log_prior, values = jax.vmap(prior.log_density)(theta), log_f(theta)
    return log_prior, jnp.where(jnp.isfinite(values), values, -jnp.inf)


@eqx.filter_jit
def _resample(cloud: _Cloud, effort: Effort, key: Array) -> _Cloud:
    """Raise β as far as `survivors` allows, and resample systematically."""
    # Particles where f = 0 are lost at any β > 0: what counts are survivors of the others.
    alive = jnp.sum(jnp.isfinite(cloud.log_f))
    wanted = effort.survivors * jnp.minimum(alive, effort.particles)
    smallest, largest = jnp.log(SMALLEST_RISE), jnp.log(jnp.maximum(1 - cloud.beta, SMALLEST_RISE))

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) / 2
        enough = _effective_number(jnp.exp(middle) * cloud.log_f) >= wanted
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    low, _ = jax.lax.fori_loop(0, BISECTIONS, halve, (smallest, largest))
    reached = _effective_number((1 - cloud.beta) * cloud.log_f) >= wanted
    rise = jnp.where(reached, 1 - cloud.beta, jnp.exp(low))
    rows = _systematic(jax.nn.softmax(rise * cloud.log_f), effort.particles, key)
    return _Cloud(
        theta=cloud.theta[rows],
        log_prior=cloud.log_prior[rows],
        log_f=cloud.log_f[rows],
        beta=jnp.where(reached, 1.0, cloud.beta + rise),
    )


def _effective_number(log_weights: Array) -> Array:
    """(Σw)²/Σw²."""
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    return jnp.sum(weights) ** 2 / jnp.sum(weights**2)


def _systematic(weights: Array, count: int, key: Array) -> Array:
    """`count` rows drawn with probabilities `weights`, at equidistant points.

    Every other row goes into the second half, so that each half represents the whole.
    """
    points = (jnp.arange(count) + jax.random.uniform(key)) / count
    sums = jnp.cumsum(weights)
    rows = jnp.searchsorted(sums, points * sums[-1], side="right")
    # Rounding may carry the last point beyond the last row that has any weight.
    last = jnp.max(jnp.where(weights > 0, jnp.arange(len(weights)), 0))
    return jnp.minimum(rows, last).reshape(-1, 2).T.reshape(-1)


@eqx.filter_jit
def _move(
    log_f: LogFactor, prior: AbstractPrior, cloud: _Cloud, moves: Array, key: Array
) -> tuple[_Cloud, Array]:
    """Metropolis moves of all particles; also the fraction that was accepted.

    Each half moves by differences of the other, which stands still, so the steps are symmetric.
    """
    half = len(cloud.theta) // 2
    scale = jnp.std(cloud.theta, axis=0)

    def move_half(moving: _Cloud, resting: _Cloud, key: Array) -> tuple[_Cloud, Array]:
        uniform = jax.random.uniform(key, (half, 6 + 2 * len(scale)))
        theta = moving.theta + _steps(resting.theta, scale, uniform[:, 1:])
        log_prior, values = _evaluate(log_f, prior, theta)
        log_odds = log_prior - moving.log_prior + cloud.beta * (values - moving.log_f)
        possible = jnp.isfinite(log_prior) & jnp.isfinite(values)
        accepted = possible & (jnp.log(uniform[:, 0]) < log_odds)
        moved = _Cloud(
            theta=jnp.where(accepted[:, None], theta, moving.theta),
            log_prior=jnp.where(accepted, log_prior, moving.log_prior),
            log_f=jnp.where(accepted, values, moving.log_f),
            beta=cloud.beta,
        )
        return moved, jnp.mean(accepted)

    def move(number: Array, state: tuple[_Cloud, _Cloud, Array]) -> tuple[_Cloud, _Cloud, Array]:
        first, second, total = state
        keys = jax.random.split(jax.random.fold_in(key, number))
        first, accepted_first = move_half(first, second, keys[0])
        second, accepted_second = move_half(second, first, keys[1])
        return first, second, total + (accepted_first + accepted_second) / 2

    def part(rows: slice) -> _Cloud:
        return _Cloud(cloud.theta[rows], cloud.log_prior[rows], cloud.log_f[rows], cloud.beta)

    halves = part(slice(half)), part(slice(half, None))
    first, second, total = jax.lax.fori_loop(0, moves, move, (*halves, jnp.zeros(())))
    joined = _Cloud(
        theta=jnp.concatenate([first.theta, second.theta]),
        log_prior=jnp.concatenate([first.log_prior, second.log_prior]),
        log_f=jnp.concatenate([first.log_f, second.log_f]),
        beta=cloud.beta,
    )
    return joined, total / moves


def _steps(others: Array, scale: Array, uniform: Array) -> Array:
    """One symmetric step for each of as many particles as there are `others`, shape (m, d).

    `uniform`, shape (m, 5 + 2d), holds numbers in [0, 1); one call for all of them compiles much
    faster than one for each purpose.
    """
    count, dim = others.shape
    rows = (count * uniform[:, :2]).astype(jnp.int32)
    difference = others[rows[:, 0]] - others[rows[:, 1]]
    share, whole, size = uniform[:, 2:3], uniform[:, 3:4] < WHOLE_DIFFERENCES, uniform[:, 4:5]
    # A random number of components, often few, and at least one.
    draws = uniform[:, 5 : 5 + dim]
    chosen = (draws < share**2) | (draws == jnp.min(draws, axis=1, keepdims=True))
    # 2.38/√(2d) is the best multiple of a difference of two draws from a Gaussian.
    best = 2.38 / jnp.sqrt(2 * jnp.sum(chosen, axis=1, keepdims=True))
    multiple = best * SMALLEST_STEP * (LARGEST_STEP / SMALLEST_STEP) ** size
    noise = JITTER * scale[None, :] * (2 * uniform[:, 5 + dim :] - 1)
    return jnp.where(chosen, jnp.where(whole, 1.0, multiple) * difference + noise, 0.0)
