"""Difference functions: their normalisation by an independent quadrature, and their symmetry."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.supervision.difference import AbstractDifference, score_target
from inferostatic.supervision.kernels import AbstractProductKernel

pytestmark = pytest.mark.usefixtures("strict")

DIFFERENCES: dict[str, AbstractDifference] = {
    "linear": ist.Linear(),
    "sign": ist.Sign(),
    "narrow": ist.Factorised(lambda t: t * jnp.exp(-t), lambda t: 1 / (1 + 3 * t**2)),
    "wide": ist.Factorised(lambda t: 0.2 + t**3, lambda t: 0.3 + t),
    "constant beta": ist.Factorised(jnp.sqrt, lambda t: 2.0),
}
differences = pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=DIFFERENCES.keys())

#: Each kernel with its density on t >= 0, written again, and the range to integrate over.
KERNELS: dict[str, tuple[AbstractProductKernel, object, float]] = {
    "rectangular": (ist.Rectangular(1.0), lambda t: 0.5 + 0 * t, 1.0),
    "triangular": (ist.Triangular(1.0), lambda t: 1 - t, 1.0),
    "epanechnikov": (ist.Epanechnikov(1.0), lambda t: 0.75 * (1 - t**2), 1.0),
    "gaussian": (ist.Gaussian(1.0), lambda t: np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi), 7.0),
    "truncated": (
        ist.Gaussian(1.0, truncation=2.0),
        lambda t: np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) / 0.9544997361036416,
        2.0,
    ),
}


def standard_grid(name: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Points u and probabilities of the product kernel, by Gauss-Legendre on both half lines."""
    if name == "delta":
        t, weight = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        _, density, edge = KERNELS[name]
        nodes, weights = np.polynomial.legendre.leggauss(28)
        # Squeezed towards 0, where √t has its branch point.
        half = edge * ((nodes + 1) / 2) ** 2
        mass = weights / 2 * edge * (nodes + 1) * density(half)  # type: ignore[operator]
        t, weight = np.concatenate([-half, half]), np.concatenate([mass, mass])
    u = np.array(list(itertools.product(t, repeat=dim)))
    probability = np.prod(np.array(list(itertools.product(weight, repeat=dim))), axis=1)
    assert probability.sum() == pytest.approx(1.0, abs=1e-6)
    return u, probability


@differences
@pytest.mark.parametrize(
    ("name", "dim"),
    [(name, 2) for name in ("delta", *KERNELS)]
    + [("triangular", 1), ("delta", 3), ("gaussian", 3)],
)
def test_normalisation_is_the_expectation(name, dim, difference):
    kernel = ist.Delta(1.0) if name == "delta" else KERNELS[name][0]
    u, probability = standard_grid(name, dim)
    psi = np.asarray(jax.vmap(difference)(jnp.asarray(u, jnp.float32)), np.float64)
    truth = probability @ (u * psi)
    np.testing.assert_allclose(difference.normalisation(kernel, dim), truth, rtol=3e-5)
    # And each target has a unit response to its own displacement and none to the others.
    widths = np.array([0.3, 0.7, 0.1])[:dim]
    target = jax.vmap(score_target, in_axes=(None, None, 0, None))(
        kernel, difference, jnp.asarray(u, jnp.float32), jnp.asarray(widths, jnp.float32)
    )
    response = (u * widths).T @ (probability[:, None] * np.asarray(target, np.float64))
    np.testing.assert_allclose(response, np.eye(dim), atol=3e-5)


@differences
def test_odd_in_its_own_component_and_even_in_the_others(difference):
    u = jax.random.uniform(jax.random.key(1), (50, 3), minval=-2.0, maxval=2.0)
    psi = jax.vmap(difference)(u)
    for i in range(3):
        reflected = jax.vmap(difference)(u.at[:, i].multiply(-1))
        np.testing.assert_allclose(reflected, psi.at[:, i].multiply(-1), rtol=1e-6)


def test_factorised_is_the_stated_product():
    difference = ist.Factorised(lambda t: t**2, lambda t: 1 + t)
    u = jnp.array([-2.0, 3.0, 0.5])
    expected = [-4 * 4 * 1.5, 9 * 3 * 1.5, 0.25 * 3 * 4]
    np.testing.assert_allclose(difference(u), expected, rtol=1e-6)


def test_zeros_of_beta_do_no_harm():
    difference = ist.Factorised(lambda t: t, lambda t: jnp.maximum(1 - t, 0.0))
    psi, slope = jax.jvp(difference, (jnp.array([1.0, 1.0]),), (jnp.ones(2),))
    np.testing.assert_array_equal(psi, [0.0, 0.0])
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("kernel", [ist.Delta(0.3), ist.Gaussian(0.3, truncation=2.0)])
def test_functions_in_jax_can_be_used_in_compiled_loops(kernel):
    difference = ist.Factorised(lambda t: jnp.exp(-t), lambda t: jnp.cos(t))
    u, widths = jnp.array([0.2, -0.4]), jnp.array([0.3, 0.3])
    compiled = jax.jit(lambda u: score_target(kernel, difference, u, widths))
    expected = difference(u) / (widths * difference.normalisation(kernel, 2))
    np.testing.assert_allclose(compiled(u), expected, rtol=1e-6)


def test_only_linear_serves_a_kernel_that_is_no_product():
    kernel = ist.CustomKernel(0.3, lambda dim, key: jnp.ones(dim), second_moment=(0.5, 0.25))
    u, widths = jnp.array([1.0, 2.0]), jnp.array([0.1, 0.2])
    target = score_target(kernel, ist.Linear(), u, widths)
    np.testing.assert_allclose(target, [1 / (0.1 * 0.5), 2 / (0.2 * 0.25)], rtol=1e-6)
    for difference in (ist.Sign(), ist.Factorised(jnp.sin, jnp.cos)):
        with pytest.raises(TypeError, match="only the linear difference function"):
            score_target(kernel, difference, u, widths)


def test_functions_without_a_normalisation_are_refused():
    vanishing = ist.Factorised(lambda t: jnp.where(t < 0.5, t, 0.0), lambda t: 1.0)
    with pytest.raises(ValueError, match="is zero for this kernel"):
        vanishing.normalisation(ist.Delta(0.1), 2)
    divergent = ist.Factorised(lambda t: t, lambda t: 1 / t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="could not be integrated"):
            divergent.normalisation(ist.Rectangular(0.1), 2)
