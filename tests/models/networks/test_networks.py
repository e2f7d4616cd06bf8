"""Networks against plain NumPy in double precision."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.models.networks.networks import MLPNetwork, parameter_count

Array = jax.Array


def numpy_mlp(
    network: MLPNetwork, a: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The same network, written out."""
    *hidden, last = network.layers
    for layer in hidden:
        assert layer.bias is not None
        a = activation(
            np.asarray(layer.weight, np.float64) @ a + np.asarray(layer.bias, np.float64)
        )
    bias = 0.0 if last.bias is None else np.asarray(last.bias, np.float64)
    return np.asarray(last.weight, np.float64) @ a + bias


def numpy_selu(z: np.ndarray) -> np.ndarray:
    """Klambauer et al.: the constants that keep mean 0 and variance 1."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0)))


def numpy_silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-z))


def with_biases(network: MLPNetwork, seed: int) -> MLPNetwork:
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray((leaf + rng.normal(size=leaf.shape)).astype(np.float32)), network
    )


@pytest.mark.parametrize(
    ("activation", "expected", "output_bias"),
    [
        (jax.nn.selu, numpy_selu, False),
        (jax.nn.silu, numpy_silu, True),
        (jnp.tanh, np.tanh, True),
    ],
    ids=["selu", "silu", "tanh"],
)
def test_the_output_is_that_of_numpy(
    activation: Callable[[Array], Array],
    expected: Callable[[np.ndarray], np.ndarray],
    output_bias: bool,  # noqa: FBT001
) -> None:
    choice = ist.MLP((8, 16, 8), activation=activation, output_bias=output_bias)
    network = with_biases(choice(6, 2, key=jax.random.key(1)), 2)
    a = np.random.default_rng(3).normal(size=6).astype(np.float32)
    np.testing.assert_allclose(
        network(jnp.asarray(a)),
        numpy_mlp(network, np.asarray(a, np.float64), expected),
        rtol=1e-4,
        atol=1e-4,
    )


def test_tangents_are_directional_derivatives() -> None:
    """Along arbitrary directions, by differences of the NumPy network."""
    network = with_biases(ist.MLP((9, 5), activation=jnp.tanh)(4, 3, key=jax.random.key(1)), 4)
    rng = np.random.default_rng(5)
    a = rng.normal(size=4).astype(np.float32)
    directions = rng.normal(size=(2, 4)).astype(np.float32)
    value, tangents = network.with_tangents(jnp.asarray(a), jnp.asarray(directions))
    np.testing.assert_allclose(value, network(jnp.asarray(a)), rtol=1e-5, atol=1e-6)
    h = 1e-6
    for direction, tangent in zip(np.asarray(directions, np.float64), tangents, strict=True):
        above, below = (numpy_mlp(network, a + s * h * direction, np.tanh) for s in (1, -1))
        np.testing.assert_allclose(tangent, (above - below) / (2 * h), rtol=1e-4, atol=1e-5)


def test_glorot_uniform_fills_its_limits_evenly() -> None:
    weight = np.asarray(ist.GlorotUniform()(80, 120, key=jax.random.key(1)), np.float64)
    limit = np.sqrt(6 / 200)
    assert weight.shape == (80, 120)
    assert np.abs(weight).max() <= limit * (1 + 1e-6)
    uniform = stats.uniform(-limit, 2 * limit)
    assert stats.kstest(weight.ravel(), uniform.cdf).pvalue > 0.01


def test_lecun_normal_has_variance_one_over_in() -> None:
    weight = np.asarray(ist.LecunNormal()(80, 120, key=jax.random.key(1)), np.float64)
    assert stats.kstest(weight.ravel() * np.sqrt(120), stats.norm.cdf).pvalue > 0.01


def test_an_mlp_has_the_widths_it_was_told() -> None:
    network = ist.MLP([5, 7], initial=ist.LecunNormal())(3, 2, key=jax.random.key(0))
    assert [layer.weight.shape for layer in network.layers] == [(5, 3), (7, 5), (2, 7)]
    assert parameter_count(network) == 5 * 3 + 5 + 7 * 5 + 7 + 2 * 7 + 2


def test_layers_start_differently_and_by_the_key() -> None:
    build = ist.MLP((6, 6))
    first, again, other = (build(6, 6, key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert eqx.tree_equal(first, again)
    weights = [np.asarray(layer.weight) for layer in (*first.layers, *other.layers)]
    for i, one in enumerate(weights):
        for two in weights[:i]:
            assert not np.array_equal(one, two)


@pytest.mark.parametrize("widths", [(), (0,), (8, -1)])
def test_widths_must_be_positive(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one hidden layer|width must be at least 1"):
        ist.MLP(widths)


def normalise(z: Array) -> Array:
    return z / jnp.sqrt(jnp.sum(z**2))


@pytest.mark.parametrize("activation", [jax.nn.softmax, normalise], ids=["softmax", "normalise"])
def test_an_activation_that_mixes_units_is_refused(activation: Callable[[Array], Array]) -> None:
    """The forward score relies on σ'(z) of each unit: anything else would be silently wrong."""
    with pytest.raises(TypeError, match="elementwise JAX functions such as jax.nn.silu"):
        ist.MLP((4,), activation=activation)(2, 1, key=jax.random.key(0))


def test_equal_choices_are_equal() -> None:
    """Compiled loops are shared by equal networks."""
    assert ist.MLP((8, 8)) == ist.MLP([8, 8])
    assert ist.MLP((8, 8)) != ist.MLP((8, 9))
