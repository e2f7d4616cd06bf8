"""Moves of θ must be reversible with respect to the law of the stored θ.

With a ~ π and b ~ q(·|a), the pair (a, b) must be exchangeable: as many moves from cell i to cell j
as back, and b must follow π again. Clipping at the walls and redrawing until inside fail the same
test, so it can see what it is meant to see.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import FAILS, PASSES, balance_z
from jaxtyping import Array
from scipy import stats

import inferostatic as ist
from inferostatic.supervision.pairs import MOST_POINTS, kernel_step
from inferostatic.world.priors.prior import AbstractPrior

pytestmark = pytest.mark.usefixtures("strict")

N = 100_000
CELLS = 6

Move = Callable[[Array, Array, Array], Array]


def draw_disc(key: Array) -> Array:
    direction, radius = jax.random.split(key)
    angle = jax.random.uniform(direction, maxval=2 * jnp.pi)
    return jnp.sqrt(jax.random.uniform(radius)) * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def draw_exponential(key: Array) -> Array:
    return jax.random.exponential(key, (2,)) * jnp.array([1.0, 0.5])


PRIORS: dict[str, AbstractPrior] = {
    "uniform": ist.Uniform([-1.0, 2.0], [1.0, 7.0]),
    "normal": ist.Normal([1.0, -2.0], [0.5, 3.0]),
    "truncated normal": ist.TruncatedNormal([0.0, 1.0], [1.0, 2.0], [-0.5, -1.0], [np.inf, 3.0]),
    "product": ist.Product([ist.Normal(0.0, 1.0), ist.Uniform(0.0, 2.0)]),
    "custom": ist.CustomPrior(
        draw_exponential, lambda theta: -theta[0] - 2 * theta[1], low=0.0, names=["a", "b"]
    ),
    "disc": ist.CustomPrior(
        draw_disc,
        lambda theta: jnp.where(jnp.sum(theta**2) <= 1, 0.0, -jnp.inf),
        low=[-1.0, -1.0],
        high=[1.0, 1.0],
    ),
    "points": ist.Discrete(
        [[0.0, 0.0], [0.2, 1.0], [0.5, 0.1], [0.6, 0.9], [1.1, 0.4]], [5, 1, 3, 0.5, 2]
    ),
}


@eqx.filter_jit
def _move_many(
    prior: AbstractPrior, move: Move, size: Array, keys: Array
) -> tuple[Array, Array, Array]:
    def one(key: Array) -> tuple[Array, Array, Array]:
        first, second, third = jax.random.split(key, 3)
        theta = prior.draw(key=first)
        return theta, move(theta, size, second), prior.draw(key=third)

    return jax.vmap(one)(keys)


def move_many(prior: AbstractPrior, move: Move, size: float, seed: int) -> list[np.ndarray]:
    """Starts from the law, where moves from there end, and fresh draws from the law."""
    keys = jax.random.split(jax.random.key(seed), N)
    three = _move_many(prior, move, jnp.asarray(size, jnp.float32), keys)
    return [np.asarray(part, np.float64) for part in three]


def cells_of(prior: AbstractPrior, thetas: list[np.ndarray]) -> list[np.ndarray]:
    """Cells of a grid at quantiles of the law, narrower towards the edges; or the points."""
    if isinstance(prior, ist.Discrete):
        return [
            np.argmin(np.abs(theta[:, None] - prior.points[None]).sum(axis=2), axis=1)
            for theta in thetas
        ]
    edges = np.quantile(thetas[0], [0.04, 0.2, 0.5, 0.8, 0.96], axis=0)
    index = [[np.searchsorted(edges[:, i], theta[:, i]) for i in (0, 1)] for theta in thetas]
    return [first * CELLS + second for first, second in index]


def worst_z(prior: AbstractPrior, move: Move, size: float = 0.0, seed: int = 2) -> float:
    """The largest |z| of detailed balance and of the marginal law of where moves end."""
    start, end, fresh = move_many(prior, move, size, seed)
    # Standing still would be reversible as well.
    assert np.mean(np.any(start != end, axis=1)) > 0.15
    assert prior.contains(end).all()
    count = len(prior.points) if isinstance(prior, ist.Discrete) else CELLS**2
    i, j, other = cells_of(prior, [start, end, fresh])
    ended, drawn = (np.bincount(cell, minlength=count) for cell in (j, other))
    marginal = (ended - drawn) / np.sqrt(np.maximum(ended + drawn, 1))
    return float(np.abs(np.concatenate([balance_z(i, j, count), marginal])).max())


@pytest.mark.parametrize("name", PRIORS)
def test_step_of_every_prior_is_reversible(name):
    prior = PRIORS[name]

    def move(theta: Array, fraction: Array, key: Array) -> Array:
        return prior.step(theta, fraction, key=key)

    for fraction in (0.1, 0.5, 1.0):
        assert worst_z(prior, move, fraction) < PASSES


def ball(dim: int, key: Array) -> Array:
    direction, radius = jax.random.split(key)
    g = jax.random.normal(direction, (dim,))
    return g / jnp.linalg.norm(g) * jax.random.uniform(radius) ** (1.0 / dim)


KERNELS = {
    "uniform, narrow": ("uniform", ist.Rectangular(0.2)),
    "uniform, wider than the box": ("uniform", ist.Rectangular([3.0, 12.0])),
    "uniform, delta": ("uniform", ist.Delta([0.37, 0.9])),
    "uniform, ball": ("uniform", ist.CustomKernel([0.5, 1.5], ball, second_moment=0.25)),
    "uniform, width grows": ("uniform", ist.Rectangular(lambda theta: 0.3 * (1.5 + theta[0]))),
    "uniform, gaussian width grows": ("uniform", ist.Gaussian(lambda theta: 0.2 * theta[1])),
    "normal, delta": ("normal", ist.Delta([0.5, 3.0])),
    "normal, width grows": ("normal", ist.Gaussian(lambda theta: 0.3 + 0.2 * jnp.abs(theta))),
    "truncated normal": ("truncated normal", ist.Triangular([0.5, 1.0])),
    "product": ("product", ist.Epanechnikov(0.8)),
    "custom, width grows": ("custom", ist.Rectangular(lambda theta: 0.1 + 0.5 * theta)),
    "disc": ("disc", ist.Rectangular(0.5)),
    "points": ("points", ist.Rectangular(0.95)),
    "points, width differs": ("points", ist.Gaussian(lambda theta: 0.3 + 0.5 * theta)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_step_is_reversible(name):
    distribution, kernel = KERNELS[name]
    prior = PRIORS[distribution]
    moved = worst_z(prior, lambda theta, _, key: kernel_step(prior, kernel, theta, key=key))
    assert moved < PASSES


def test_width_that_depends_on_x_is_used():
    prior, kernel = PRIORS["uniform"], ist.Rectangular(lambda x, theta: 0.1 * x[0] * (2 + theta[0]))
    start = prior.sample(4000, seed=1).astype(np.float32)
    keys = jax.random.split(jax.random.key(1), 4000)

    def sizes(x: float) -> np.ndarray:
        step = jax.vmap(
            lambda theta, key: kernel_step(prior, kernel, theta, jnp.array([x]), key=key)
        )
        return np.abs(np.asarray(jax.jit(step)(start, keys)) - start)

    assert sizes(0.1).max() <= 0.1 * 0.1 * 3
    assert sizes(1.0).max() > 0.2
    wide = worst_z(
        prior, lambda theta, _, key: kernel_step(prior, kernel, theta, jnp.array([2.0]), key=key)
    )
    assert wide < PASSES


def clip(theta: Array, _: Array, key: Array) -> Array:
    proposal = theta + 0.8 * jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
    return jnp.clip(proposal, jnp.array([-1.0, 2.0]), jnp.array([1.0, 7.0]))


def redraw(theta: Array, _: Array, key: Array) -> Array:
    # The first of 60 proposals that lies inside: practically always there is one.
    steps = 0.8 * jax.random.uniform(key, (60, 2), minval=-1.0, maxval=1.0)
    proposals = theta[None] + steps
    low, high = jnp.array([[-1.0, 2.0]]), jnp.array([[1.0, 7.0]])
    inside = jnp.all((proposals > low) & (proposals < high), axis=1)
    return jnp.where(jnp.any(inside), proposals[jnp.argmax(inside)], theta)


def unweighted(theta: Array, _: Array, key: Array) -> Array:
    return theta + 0.3 * (1.5 + theta[0]) * jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)


@pytest.mark.parametrize("wrong", [clip, redraw], ids=["clipping", "redrawing"])
def test_the_test_sees_wrong_walls(wrong):
    assert worst_z(PRIORS["uniform"], wrong) > FAILS


def test_the_test_sees_a_width_that_depends_on_theta_without_correction():
    prior = ist.Uniform([-1.0, 2.0], [1.0, 7.0])

    def wrong(theta: Array, _: Array, key: Array) -> Array:
        proposal = unweighted(theta, _, key)
        inside = jnp.isfinite(prior.log_density(proposal))
        return jnp.where(inside, proposal, theta)

    assert worst_z(prior, wrong) > FAILS


def test_the_test_sees_points_drawn_without_acceptance():
    prior, kernel = PRIORS["points"], ist.Rectangular(0.95)
    assert isinstance(prior, ist.Discrete)
    points, mass = jnp.asarray(prior.points), jnp.asarray(prior.probability)

    def wrong(theta: Array, _: Array, key: Array) -> Array:
        density = jax.vmap(lambda end: kernel.log_density((end - theta) / 0.95))(points)
        return points[jax.random.categorical(key, jnp.log(mass) + density)]

    assert worst_z(prior, wrong) > FAILS


def test_a_whole_box_is_an_independent_draw():
    prior = ist.Uniform(0.0, 1.0)
    move: Move = lambda theta, size, key: prior.step(theta, size, key=key)  # noqa: E731
    start, end, _ = move_many(prior, move, 1.0, seed=3)
    # Exactly: from every start the end is uniform; so also from starts in a narrow strip.
    for low, high in [(0.0, 0.02), (0.49, 0.51), (0.98, 1.0), (0.0, 1.0)]:
        inside = (start[:, 0] >= low) & (start[:, 0] < high)
        assert stats.kstest(end[inside, 0], "uniform").pvalue > 1e-4


def test_a_normal_step_of_fraction_one_forgets_its_start():
    prior = ist.Normal(1.0, 2.0)
    move: Move = lambda theta, size, key: prior.step(theta, size, key=key)  # noqa: E731
    start, end, _ = move_many(prior, move, 1.0, seed=3)
    assert abs(np.corrcoef(start[:, 0], end[:, 0])[0, 1]) < PASSES / np.sqrt(N)
    assert stats.kstest(end[:, 0], stats.norm(1.0, 2.0).cdf).pvalue > 1e-4


def test_refusals():
    with pytest.raises(TypeError, match="delta kernel has no density"):
        kernel_step(
            PRIORS["uniform"],
            ist.Delta(lambda theta: 0.1 + 0.01 * theta),
            jnp.array([0.0, 3.0]),
            key=jax.random.key(0),
        )
    many = ist.Discrete(np.arange(MOST_POINTS + 1.0)[:, None])
    with pytest.raises(ValueError, match="stored parameter points is not possible"):
        kernel_step(many, ist.Rectangular(0.1), jnp.zeros(1), key=jax.random.key(0))
