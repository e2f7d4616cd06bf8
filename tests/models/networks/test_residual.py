"""Residual networks against NumPy in double precision, and as potentials."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.models.networks.networks import parameter_count
from inferostatic.models.potential import FORWARD_SCORE_DIM
from inferostatic.serial import describe, restore
from random_models import (
    POINTS,
    as_array,
    check_slopes,
    check_values,
    numpy_linear,
    numpy_mlp,
    numpy_residual,
    numpy_silu,
    random_model,
    values,
)

Array = jax.Array


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    """Many small functions, each of them run once."""
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def some_x(x_dim: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(50, x_dim))


def raw(network: Any) -> ist.Potential:
    return ist.Potential(network, ist.Raw(), ist.Raw())


@pytest.mark.parametrize("output_bias", [False, True])
def test_the_output_is_that_of_numpy(output_bias: bool) -> None:  # noqa: FBT001
    choice = ist.Residual(9, 3, output_bias=output_bias)
    network = random_model(raw(choice), some_x(4), 2).network
    a = np.random.default_rng(4).normal(size=6).astype(np.float32)
    expected = numpy_residual(network, a.astype(np.float64))
    np.testing.assert_allclose(network(as_array(a)), expected, rtol=1e-4, atol=1e-5)


def test_tangents_are_directional_derivatives() -> None:
    """Along arbitrary directions, by differences of the NumPy network."""
    network = random_model(raw(ist.Residual(7, 2)), some_x(2), 2).network
    rng = np.random.default_rng(5)
    a, directions = rng.normal(size=4), rng.normal(size=(3, 4))
    value, tangents = network.with_tangents(as_array(a), as_array(directions))
    np.testing.assert_allclose(value, network(as_array(a)), rtol=1e-5, atol=1e-6)
    h = 1e-6
    for direction, tangent in zip(directions, tangents, strict=True):
        above, below = (numpy_residual(network, a + s * h * direction) for s in (1, -1))
        np.testing.assert_allclose(tangent, (above - below) / (2 * h), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("theta_dim", [2, FORWARD_SCORE_DIM + 1])
def test_the_score_is_the_gradient_and_the_slope(theta_dim: int) -> None:
    """Up to four parameters by the forward pass of Appendix B."""
    rng = np.random.default_rng(theta_dim)
    x = rng.lognormal(size=(400, 3))
    model = random_model(ist.Potential(ist.Residual(10, 2), ist.Quantile()), x, theta_dim)
    check_slopes(model, x, rng.normal(size=(1, theta_dim)))


def test_the_forward_pass_of_appendix_b_is_the_gradient() -> None:
    """In float32, as it is used, and beyond the dimension where the model prefers it."""
    theta_dim = FORWARD_SCORE_DIM + 1
    model = random_model(raw(ist.Residual(10, 2)), some_x(3), theta_dim)
    x, theta = as_array(some_x(3)[0]), as_array(some_x(theta_dim)[1])
    gradient = jax.grad(model.potential, argnums=1)(x, theta)
    np.testing.assert_allclose(ist.forward_score(model, x, theta), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("network", "expected"), [(ist.MLP((9, 8)), numpy_mlp), (ist.Residual(9, 2), numpy_residual)]
)
def test_the_divided_first_layer_is_the_whole_one(network: Any, expected: Any) -> None:
    """x and θ concatenated in NumPy, against the parts of x and θ joined."""
    x, thetas = some_x(4)[:3], np.random.default_rng(7).normal(size=(POINTS, 2))
    model = random_model(raw(network), x, 2)
    pairs = np.concatenate([np.repeat(x, POINTS, axis=0), np.tile(thetas, (3, 1))], axis=1)
    check_values(model, x, thetas)
    np.testing.assert_allclose(
        values(model, x, thetas)["grid"],
        expected(model.network, pairs)[:, 0].reshape(3, POINTS),
        rtol=1e-12,
        atol=1e-12,
    )


def test_without_blocks_of_weight_only_first_and_last_layer_are_left() -> None:
    """Each block adds to what came before."""
    network = random_model(raw(ist.Residual(6, 2)), some_x(2), 1).network
    idle = eqx.tree_at(lambda n: n.blocks, network, jax.tree.map(jnp.zeros_like, network.blocks))
    a = some_x(3)
    expected = numpy_linear(network.leave, numpy_silu(numpy_linear(network.enter, a)))
    np.testing.assert_allclose(jax.vmap(idle)(as_array(a)), expected, rtol=1e-4, atol=1e-5)


def test_it_has_the_weights_that_it_was_told() -> None:
    network = ist.Residual(5, 3)(4, 2, key=jax.random.key(0))
    assert parameter_count(network) == (5 * 4 + 5) + 6 * (5 * 5 + 5) + 2 * 5
    assert network.leave.bias is None
    first, again, other = (ist.Residual(5)(4, 2, key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert eqx.tree_equal(first, again)
    weights = [np.asarray(leaf) for n in (first, other) for leaf in jax.tree.leaves(n)]
    matrices = [w for w in weights if w.ndim == 2]
    assert len({w.tobytes() for w in matrices}) == len(matrices)


def test_choices_are_described_and_compared() -> None:
    choice = ist.Residual(8, 3, activation=jnp.tanh, initial=ist.LecunNormal(), output_bias=True)
    assert restore(describe(choice)) == choice
    assert ist.Residual(8) != choice


@pytest.mark.parametrize("bad", [{"width": 0}, {"blocks": 0}, {"blocks": True}])
def test_sizes_must_be_whole_numbers(bad: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="must be (a whole number|at least 1); got"):
        ist.Residual(**bad)


def test_an_activation_that_mixes_units_is_refused() -> None:
    architecture = raw(ist.Residual(8, activation=jax.nn.softmax))
    with pytest.raises(TypeError, match="layers that mix units write your own network") as caught:
        random_model(architecture, some_x(2), 1)
    assert "could not be built" not in str(caught.value)
