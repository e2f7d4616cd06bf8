"""The paper's three networks, and what architectures make of data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.models.architecture import AbstractArchitecture, Shapes
from inferostatic.models.features.features import Affine, IdentityMap
from inferostatic.models.networks.networks import MLPNetwork, parameter_count

Array = jax.Array

PAPER: dict[str, tuple[AbstractArchitecture, int, tuple[int, ...]]] = {
    "potential": (ist.paper_network, 344, (6, 8, 16, 8, 1)),
    "score": (ist.paper_score_network, 363, (6, 8, 16, 8, 3)),
    "ratio": (ist.paper_ratio_network, 378, (9, 8, 16, 8, 2)),
}
presets = pytest.mark.parametrize(("architecture", "count", "sizes"), PAPER.values(), ids=PAPER)


def shapes_for(architecture: AbstractArchitecture, dim: int = 3) -> Shapes:
    rng = np.random.default_rng(1)
    return architecture.shapes(
        rng.dirichlet(np.ones(dim), 50), np.full(dim, 2.75), np.full(dim, 1.3)
    )


def numpy_output(network: MLPNetwork, a: np.ndarray) -> np.ndarray:
    """The network in NumPy with SELU, from its definition."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    for i, layer in enumerate(network.layers):
        a = np.asarray(layer.weight, np.float64) @ a
        a = a if layer.bias is None else a + np.asarray(layer.bias, np.float64)
        if i < len(network.layers) - 1:
            a = scale * np.where(a > 0, a, alpha * np.expm1(np.minimum(a, 0)))
    return a


@presets
def test_the_papers_networks_have_its_numbers_of_parameters(
    architecture: AbstractArchitecture, count: int, sizes: tuple[int, ...]
) -> None:
    model: Any = architecture.build(shapes_for(architecture), key=jax.random.key(1))
    assert parameter_count(model.network) == count
    found = [layer.weight.shape for layer in model.network.layers]
    assert found == [(sizes[i + 1], sizes[i]) for i in range(4)]


@presets
def test_the_papers_networks_start_like_those_of_keras(
    architecture: AbstractArchitecture, count: int, sizes: tuple[int, ...]
) -> None:
    """Glorot uniform weights, zero biases, and no output bias for the potential."""
    del count
    largest: list[float] = []
    for seed in range(8):
        model: Any = architecture.build(shapes_for(architecture), key=jax.random.key(seed))
        for i, layer in enumerate(model.network.layers):
            limit = np.sqrt(6 / (sizes[i] + sizes[i + 1]))
            largest.append(float(np.abs(layer.weight).max()) / limit)
            if layer.bias is not None:
                assert not np.asarray(layer.bias).any()
        has_output_bias = model.network.layers[-1].bias is not None
        assert has_output_bias == (architecture is not ist.paper_network)
    assert max(largest) <= 1 + 1e-6
    assert np.mean(largest) > 0.9


@presets
def test_the_papers_networks_see_raw_inputs(
    architecture: AbstractArchitecture, count: int, sizes: tuple[int, ...]
) -> None:
    del count, sizes
    model = architecture.build(shapes_for(architecture), key=jax.random.key(1))
    assert isinstance(model.x_features, IdentityMap)
    assert isinstance(model.theta_features, IdentityMap)


def test_what_the_papers_networks_compute() -> None:
    """φ̂ is the one output, ŝ the three outputs, and ln r̂ = ζ0 − ζ1; SELU between the layers."""
    rng = np.random.default_rng(2)
    x, theta0, theta1 = (rng.uniform(0, 4, size=3).astype(np.float32) for _ in range(3))
    arguments = [jnp.asarray(value) for value in (x, theta0, theta1)]
    models: dict[str, Any] = {
        name: architecture.build(shapes_for(architecture), key=jax.random.key(3))
        for name, (architecture, _, _) in PAPER.items()
    }
    phi = numpy_output(models["potential"].network, np.concatenate([x, theta0]))
    assert float(models["potential"].potential(*arguments[:2])) == pytest.approx(phi[0], rel=1e-5)
    score = numpy_output(models["score"].network, np.concatenate([x, theta0]))
    np.testing.assert_allclose(models["score"].score(*arguments[:2]), score, rtol=1e-5, atol=1e-6)
    zeta = numpy_output(models["ratio"].network, np.concatenate([x, theta0, theta1]))
    assert zeta.shape == (2,)
    ratio = float(models["ratio"].log_ratio(*arguments))
    assert ratio == pytest.approx(zeta[0] - zeta[1], rel=1e-4, abs=1e-6)


def test_theta_is_standardised_unless_raw() -> None:
    rng = np.random.default_rng(3)
    x, centre, scale = rng.normal(size=(20, 2)), np.array([4.0]), np.array([0.5])
    model = ist.Potential().build(ist.Potential().shapes(x, centre, scale), key=jax.random.key(0))
    assert isinstance(model.theta_features, Affine)
    assert float(model.theta_features(jnp.asarray([5.0]))[0]) == pytest.approx(2.0)
    raw = ist.Potential(theta_features=ist.Raw())
    model = raw.build(raw.shapes(x, centre, scale), key=jax.random.key(0))
    assert float(model.theta_features(jnp.asarray([5.0]))[0]) == pytest.approx(5.0)


@pytest.mark.parametrize("theta_features", [ist.Raw(), ist.Standardised()])
def test_a_direct_score_is_the_output_over_the_scale_of_theta(theta_features: Any) -> None:
    """The network's output is a derivative by the θ it sees."""
    architecture = ist.DirectScore(ist.MLP((5,)), ist.Raw(), theta_features)
    centre, scale = np.array([1.0, -1.0]), np.array([0.25, 8.0])
    shapes = architecture.shapes(np.zeros((4, 1)), centre, scale)
    model = architecture.build(shapes, key=jax.random.key(1))
    x, theta = jnp.asarray([0.3]), jnp.asarray([1.25, 7.0])
    raw = isinstance(theta_features, ist.Raw)
    seen = [1.25, 7.0] if raw else [1.0, 1.0]
    output = model.network(jnp.asarray([0.3, *seen]))
    np.testing.assert_allclose(model.score(x, theta), output / (1.0 if raw else scale), rtol=1e-5)


def test_a_direct_ratio_network_breaks_the_chain_rule() -> None:
    """The control for the identities of a potential: they are not true of any network."""
    architecture = ist.DirectRatio(ist.MLP((8, 8)))
    model: Any = architecture.build(shapes_for(architecture), key=jax.random.key(1))
    rng = np.random.default_rng(4)
    x, a, b, c = (jnp.asarray(rng.uniform(0.5, 4, 3).astype(np.float32)) for _ in range(4))
    chain = model.log_ratio(x, a, b) + model.log_ratio(x, b, c) - model.log_ratio(x, a, c)
    assert abs(float(chain)) > 1e-2


def scalar_output(in_size: int, out_size: int, *, key: Array) -> eqx.nn.MLP:
    del out_size
    return eqx.nn.MLP(in_size, "scalar", 4, 1, key=key)


def too_many_outputs(in_size: int, out_size: int, *, key: Array) -> eqx.nn.MLP:
    return eqx.nn.MLP(in_size, out_size + 2, 4, 1, key=key)


def without_weights(in_size: int, out_size: int, *, key: Array) -> eqx.nn.Lambda:
    del in_size, key
    return eqx.nn.Lambda(lambda a: a[:out_size])


def without_key(in_size: int, out_size: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(in_size, out_size, 4, 1, key=jax.random.key(0))


def wrong_input(in_size: int, out_size: int, *, key: Array) -> eqx.nn.MLP:
    return eqx.nn.MLP(in_size + 1, out_size, 4, 1, key=key)


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (scalar_output, r"output of shape \(\)"),
        (too_many_outputs, r"output of shape \(3,\)"),
        (without_weights, "has no weights to train"),
        (without_key, "unexpected keyword argument 'key'"),
        (wrong_input, "could not be built or applied"),
    ],
)
def test_a_users_network_that_is_none_gets_a_sentence(choice: Any, sentence: str) -> None:
    """Extra outputs, for example, would be ignored in silence."""
    architecture = ist.Potential(choice)
    with pytest.raises(TypeError, match=f"{sentence}.* maps a vector of 6 to one of 1 here"):
        architecture.build(shapes_for(architecture), key=jax.random.key(1))
