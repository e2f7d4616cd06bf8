"""Models with random weights, and what every potential obeys whatever its weights, in float64."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from inferostatic.models.architecture import AbstractArchitecture

Array = jax.Array
POINTS = 6


def random_model(
    architecture: AbstractArchitecture, x: np.ndarray, theta_dim: int, seed: int = 1
) -> Any:
    """With features learned from x, and biases that are not zero, as zeros hide mistakes."""
    rng = np.random.default_rng(seed)
    centre, scale = rng.normal(size=theta_dim), rng.uniform(0.5, 2.0, size=theta_dim)
    model = architecture.build(architecture.shapes(x, centre, scale), key=jax.random.key(seed))
    arrays, rest = eqx.partition(model.network, eqx.is_inexact_array)
    moved = jax.tree.map(
        lambda leaf: as_array(np.asarray(leaf) + rng.normal(scale=0.3, size=leaf.shape)), arrays
    )
    return eqx.tree_at(lambda m: m.network, model, eqx.combine(moved, rest))


def as_array(value: Any, dtype: Any = np.float32) -> Array:
    """Converted by NumPy, which needs no compilation."""
    return jnp.asarray(np.asarray(value, dtype))


def in_float64(model: Any) -> Any:
    """The same model in double precision; inside `jax.enable_x64` only."""
    return jax.tree.map(
        lambda leaf: as_array(leaf, np.float64) if eqx.is_inexact_array(leaf) else leaf, model
    )


def numpy_silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-z))


def numpy_linear(layer: Any, a: np.ndarray) -> np.ndarray:
    """W a + b of one vector, or of rows."""
    product = a @ np.asarray(layer.weight, np.float64).T
    return product if layer.bias is None else product + np.asarray(layer.bias, np.float64)


def numpy_mlp(network: Any, a: np.ndarray) -> np.ndarray:
    """An MLP with SiLU, written out."""
    *hidden, last = network.layers
    for layer in hidden:
        a = numpy_silu(numpy_linear(layer, a))
    return numpy_linear(last, a)


def numpy_residual(network: Any, a: np.ndarray) -> np.ndarray:
    """A residual network with SiLU, written out."""
    z = numpy_linear(network.enter, a)
    for one, two in network.blocks:
        z = z + numpy_linear(two, numpy_silu(numpy_linear(one, numpy_silu(z))))
    return numpy_linear(network.leave, numpy_silu(z))


def values(model: Any, x: np.ndarray, thetas: np.ndarray) -> dict[str, np.ndarray]:
    """Potentials and ratios, each in every way that a model offers."""
    return _in_float64(_values, model, x, thetas)


def slopes(model: Any, x: np.ndarray, thetas: np.ndarray) -> dict[str, np.ndarray]:
    """First and second derivatives at one point, also by differences."""
    return _in_float64(_slopes, model, x[0], thetas[0])


def _in_float64(function: Any, model: Any, *arrays: np.ndarray) -> dict[str, np.ndarray]:
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", val=True)  # each is run only once
    try:
        with jax.enable_x64(new_val=True):
            found = function(in_float64(model), *(as_array(a, np.float64) for a in arrays))
            return {name: np.asarray(value) for name, value in found.items()}
    finally:
        jax.config.update("jax_disable_most_optimizations", val=before)


@eqx.filter_jit
def _values(model: Any, x: Array, thetas: Array) -> dict[str, Array]:
    across = jax.vmap(model.potential, in_axes=(None, 0))
    each_theta = jnp.broadcast_to(thetas[:, None], (len(thetas), len(x), thetas.shape[1]))
    return {
        "pointwise": jax.vmap(across, in_axes=(0, None))(x, thetas),
        "grid": model.grid(x, thetas),
        "table": model.potential_table(x, each_theta).T,
        "points": model.potentials(x[0], thetas),
        "ratio": model.log_ratio(x[0], thetas[0], thetas[1]),
        "ratio to itself": model.log_ratio(x[0], thetas[0], thetas[0]),
        "ratios": model.log_ratios(x, each_theta[0], each_theta[1]),
    }


@eqx.filter_jit
def _slopes(model: Any, x: Array, theta: Array) -> dict[str, Array]:
    step = 1e-5
    moves = step * jnp.eye(len(theta), dtype=theta.dtype)
    moved = jnp.concatenate([theta[None] + moves, theta[None] - moves])
    potentials = model.potentials(x, moved).reshape(2, -1)
    scores = jax.vmap(model.score, in_axes=(None, 0))(x, moved).reshape(2, len(theta), -1)
    return {
        "score": model.score(x, theta),
        "gradient": jax.grad(model.potential, argnums=1)(x, theta),
        "slope": (potentials[0] - potentials[1]) / (2 * step),
        "hessian": jax.hessian(model.potential, argnums=1)(x, theta),
        "bend": (scores[0] - scores[1]) / (2 * step),
    }


def check_values(model: Any, x: np.ndarray, thetas: np.ndarray) -> None:
    """All ways to a potential agree, and ratios are its differences."""
    got = values(model, x, thetas)
    phi = got["pointwise"]
    assert phi.std() > 0.01  # a constant would obey everything
    exact = {"rtol": 0, "atol": 1e-12 * (1 + np.abs(phi).max())}
    np.testing.assert_allclose(got["grid"], phi, **exact)
    np.testing.assert_allclose(got["table"], phi, **exact)
    np.testing.assert_allclose(got["points"], phi[0], **exact)
    np.testing.assert_allclose(got["ratio"], phi[0, 0] - phi[0, 1], **exact)
    np.testing.assert_allclose(got["ratios"], phi[:, 0] - phi[:, 1], **exact)
    assert got["ratio to itself"] == 0


def check_slopes(model: Any, x: np.ndarray, thetas: np.ndarray) -> None:
    """The score is the gradient, and smooth: its own derivative is symmetric and right."""
    got = slopes(model, x, thetas)
    assert np.abs(got["hessian"]).max() > 1e-4
    np.testing.assert_allclose(got["score"], got["gradient"], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got["score"], got["slope"], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(got["hessian"], got["hessian"].T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got["hessian"], got["bend"], rtol=1e-6, atol=1e-7)
