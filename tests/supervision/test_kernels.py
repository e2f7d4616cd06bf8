"""Kernels against the table of their moments, quadrature, and their own draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import inferostatic as ist
from inferostatic.supervision.kernels import AbstractKernel, AbstractProductKernel

pytestmark = pytest.mark.usefixtures("strict")

DRAWS = 100_000


@dataclass(frozen=True)
class Shape:
    """A kernel beside an independent statement of its shape."""

    kernel: AbstractProductKernel
    density: Callable[[float], float]
    law: Any
    moments: dict[int, float]
    edge: float


SHAPES = {
    "rectangular": Shape(
        ist.Rectangular(0.4),
        lambda t: 0.5,
        stats.uniform(-1, 2),
        {1: 1 / 2, 2: 1 / 3, 4: 1 / 5},
        1.0,
    ),
    "triangular": Shape(
        ist.Triangular(0.4),
        lambda t: 1 - abs(t),
        stats.triang(0.5, -1, 2),
        {1: 1 / 3, 2: 1 / 6, 4: 1 / 15},
        1.0,
    ),
    "epanechnikov": Shape(
        ist.Epanechnikov(0.4),
        lambda t: 0.75 * (1 - t**2),
        stats.beta(2, 2, -1, 2),
        {1: 3 / 8, 2: 1 / 5, 4: 3 / 35},
        1.0,
    ),
    "gaussian": Shape(
        ist.Gaussian(0.4),
        lambda t: math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi),
        stats.norm(),
        {1: math.sqrt(2 / math.pi), 2: 1.0, 4: 3.0},
        math.inf,
    ),
    "truncated gaussian": Shape(
        ist.Gaussian(0.4, truncation=1.5),
        lambda t: math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) / 0.8663855974622838,
        stats.truncnorm(-1.5, 1.5),
        {1: 0.62195097777, 2: 0.55152441576, 4: 0.64550318275},
        1.5,
    ),
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def draw_many(kernel: AbstractKernel, dim: int, seed: int) -> np.ndarray:
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    return np.asarray(jax.jit(jax.vmap(lambda key: kernel.draw(dim, key=key)))(keys), np.float64)


@shapes
def test_moments_are_those_of_the_table(shape):
    for k, moment in shape.moments.items():
        assert shape.kernel.moment(k) == pytest.approx(moment, rel=1e-9)
    assert shape.kernel.variance == pytest.approx(shape.moments[2], rel=1e-9)
    assert shape.kernel.moment(0) == pytest.approx(1.0, rel=1e-12)
    assert shape.kernel.reach == shape.edge


@shapes
def test_expectations_agree_with_quadrature_of_the_density(shape):
    edge = min(shape.edge, 12.0)

    def by_quadrature(f):
        return 2 * integrate.quad(lambda t: f(t) * shape.density(t), 0, edge)[0]

    for k in range(1, 7):
        assert shape.kernel.moment(k) == pytest.approx(by_quadrature(lambda t, k=k: t**k), rel=1e-7)
    for f in (math.cos, lambda t: math.exp(-t), lambda t: 1 / (1 + t)):
        assert shape.kernel.expectation(f) == pytest.approx(by_quadrature(f), rel=1e-7)


@pytest.mark.parametrize("cut", [0.3, 1.0, 2.0, 3.0, 6.0])
def test_moments_of_the_truncated_gaussian(cut):
    kernel = ist.Gaussian(1.0, truncation=cut)
    law: Any = stats.truncnorm(-cut, cut)
    for k in range(1, 7):
        truth = 2 * integrate.quad(lambda t, k=k: t**k * law.pdf(t), 0, cut)[0]
        assert kernel.moment(k) == pytest.approx(truth, rel=1e-7)


@shapes
def test_draws_follow_the_shape(shape):
    u = draw_many(shape.kernel, 2, seed=1)
    assert np.abs(u).max() <= shape.edge
    for component in u.T:
        assert stats.kstest(component, shape.law.cdf).pvalue > 1e-4
    for k, moment in shape.moments.items():
        error = math.sqrt((shape.kernel.moment(2 * k) - moment**2) / u.size)
        assert abs(np.mean(np.abs(u) ** k) - moment) < 4.5 * error
    # Independent components: also no dependence between sizes.
    for pair in (u, np.abs(u)):
        assert abs(np.corrcoef(pair.T)[0, 1]) < 4.5 / math.sqrt(DRAWS)


def test_delta_draws_corners_fairly():
    kernel = ist.Delta(0.25)
    u = draw_many(kernel, 3, seed=2)
    assert set(np.unique(u)) == {-1.0, 1.0}
    corner = ((u > 0) @ np.array([1, 2, 4])).astype(int)
    counts = np.bincount(corner, minlength=8)
    assert np.abs(counts - DRAWS / 8).max() < 4.5 * math.sqrt(DRAWS * 7 / 64)
    assert [kernel.moment(k) for k in (1, 2, 4)] == [1.0, 1.0, 1.0]
    assert kernel.expectation(lambda t: 3 * t) == 3.0
    assert kernel.reach == 1.0


@shapes
def test_log_density_is_the_shape_and_is_normalised(shape):
    edge = min(shape.edge, 8.0)
    # Gauss-Legendre on both halves, because some shapes have a kink at 0.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t = np.concatenate([-(nodes + 1) * edge / 2, (nodes + 1) * edge / 2])
    w = np.tile(weights * edge / 2, 2)
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = jax.vmap(shape.kernel.log_density)
    density = np.exp(np.asarray(log_density(jnp.asarray(grid, jnp.float32)), np.float64))
    truth = np.array([shape.density(a) * shape.density(b) for a, b in grid])
    np.testing.assert_allclose(density, truth, rtol=3e-5)
    assert density @ np.outer(w, w).ravel() == pytest.approx(1.0, abs=1e-5)
    if math.isfinite(shape.edge):
        outside = jnp.array([0.1, 1.01 * shape.edge])
        assert shape.kernel.log_density(outside) == -math.inf
        assert shape.kernel.log_density(-outside) == -math.inf


def test_delta_has_no_density():
    with pytest.raises(TypeError, match="delta kernel has no density"):
        ist.Delta(0.25).log_density(jnp.ones(2))


def test_widths_of_every_kind():
    x, theta = jnp.array([2.0, 3.0, 4.0]), jnp.array([1.0, 5.0])
    cases = [
        (0.4, [0.4, 0.4], True),
        ([0.1, 0.2], [0.1, 0.2], True),
        (np.array([0.1, 0.2]), [0.1, 0.2], True),
        (lambda theta: 0.1 * theta, [0.1, 0.5], False),
        (lambda theta: 0.1 * theta[1], [0.5, 0.5], False),
        (lambda x, theta: 0.1 * x[0] * theta, [0.2, 1.0], False),
    ]
    for width, expected, constant in cases:
        kernel = ist.Rectangular(width)
        np.testing.assert_allclose(kernel.widths(x, theta), expected, rtol=1e-6)
        assert kernel.constant is constant
    assert not ist.Delta(lambda theta: theta).depends_on_x
    assert ist.Delta(lambda x, theta: theta).depends_on_x


@pytest.mark.parametrize("width", [0.0, -0.1, [0.1, 0.0], math.nan, math.inf, [[0.1]]])
def test_widths_that_are_not_positive_numbers_are_refused(width):
    with pytest.raises(ValueError, match="positive number, a list of one for each parameter"):
        ist.Delta(width)


def test_wrong_width_functions_say_what_is_wrong():
    theta = jnp.ones(2)
    with pytest.raises(ValueError, match="3 widths but there are 2"):
        ist.Delta([0.1, 0.2, 0.3]).widths(None, theta)
    with pytest.raises(ValueError, match="function of x and theta, which only stored events"):
        ist.Delta(lambda x, theta: x[0]).widths(None, theta)
    with pytest.raises(TypeError, match="this one takes 3 arguments"):
        ist.Delta(lambda x, theta, extra: theta)
    branching = ist.Delta(lambda theta: 0.1 if theta[0] > 0 else 0.2)
    with pytest.raises(TypeError, match="must be JAX-traceable"):
        jax.jit(lambda theta: branching.widths(None, theta))(theta)
    with pytest.raises(ValueError, match="truncation must be a positive multiple"):
        ist.Gaussian(0.1, truncation=0.0)


def draw_in_ball(dim: int, key: jax.Array) -> jax.Array:
    direction, radius = jax.random.split(key)
    g = jax.random.normal(direction, (dim,))
    return g / jnp.linalg.norm(g) * jax.random.uniform(radius) ** (1.0 / dim)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_custom_kernel_uniform_in_a_ball(dim):
    kernel = ist.CustomKernel(0.3, draw_in_ball, second_moment=1 / (dim + 2))
    u = draw_many(kernel, dim, seed=3)
    radius = np.sqrt(np.sum(u**2, axis=1))
    assert stats.kstest(radius**dim, "uniform").pvalue > 1e-4
    # Var(u_i²) = E[u_i⁴] − 1/(d+2)², with E[u_i⁴] = 3/((d+2)(d+4)).
    error = math.sqrt((3 / ((dim + 2) * (dim + 4)) - 1 / (dim + 2) ** 2) / DRAWS)
    assert np.all(np.abs(np.mean(u**2, axis=0) - kernel.variance) < 4.5 * error)
    assert kernel.reach == 1.0
    with pytest.raises(TypeError, match="needs its log_standard_density"):
        kernel.log_density(jnp.zeros(dim))


def test_custom_kernel_uses_what_it_was_given():
    kernel = ist.CustomKernel(
        [0.1, 0.2],
        lambda dim, key: jnp.full(dim, 0.5),
        second_moment=[0.25, 0.5],
        largest=0.5,
        log_standard_density=lambda u: -jnp.sum(u**2),
    )
    assert kernel.variance == (0.25, 0.5)
    assert kernel.reach == 0.5
    assert kernel.log_density(jnp.array([1.0, 2.0])) == -5.0
    np.testing.assert_array_equal(kernel.draw(3, key=jax.random.key(0)), [0.5, 0.5, 0.5])
