"""Flows: normalised in the units of x, smooth, and with parts that training leaves alone."""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.inference.likelihood.float64 import in_float64
from inferostatic.inference.likelihood.second_derivatives import Curvature
from inferostatic.learning.density_methods import NDE
from inferostatic.learning.training.members import derive_member_key
from inferostatic.models.features.coordinates import Kind, kind_of_column
from inferostatic.models.features.feature_map import IdentityMap
from inferostatic.models.features.features import Automatic
from inferostatic.models.features.invertible import log_jacobian, undone
from inferostatic.models.features.per_particle import PerParticle
from inferostatic.models.flows.flow import DensityModel, Flow, FlowNetwork, MixtureFlow
from inferostatic.models.members import with_network
from inferostatic.supervision.records import Capability

pytest.importorskip("flowjax")

SMALL = MixtureFlow(layers=1, components=3, width=8, depth=1)
PRIOR = ist.Uniform([-1.0, -1.0], [1.0, 1.0])
FEATURES = (ist.Raw(), ist.Standardised(), ist.Natural(), ist.Quantile(8))


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def columns(n: int = 4000) -> dict[Kind, np.ndarray]:
    """An observable of every kind that natural coordinates know."""
    normal = np.random.default_rng(3).normal(size=(5, n))
    return {
        Kind.LINEAR: 3 + 2 * normal[0] + 0.4 * normal[0] ** 2,
        Kind.LOG: np.exp(2.5 * normal[1]),
        Kind.LOG_NEGATIVE: -np.exp(2.5 * normal[2]),
        Kind.LOG_ODDS: 1 / (1 + np.exp(-3.2 * normal[3])),
        Kind.ASINH: normal[4] * np.exp(1.2 * normal[0]),
    }


def random_flow(
    architecture: Flow, x: np.ndarray, theta_dim: int = 2, far: float = 0.15
) -> DensityModel:
    """A flow away from its initial state."""
    shapes = architecture.shapes(x, np.full(theta_dim, 0.3), np.full(theta_dim, 0.7))
    model = architecture.build(shapes, key=jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), len(model.network.weights))
    moved = tuple(
        w + far * jax.random.normal(k, w.shape)
        for w, k in zip(model.network.weights, keys, strict=True)
    )
    return eqx.tree_at(lambda m: m.network.weights, model, moved)


@eqx.filter_jit
def _log_probs(model: DensityModel, x: jax.Array, theta: jax.Array) -> jax.Array:
    return jax.vmap(model.log_prob, in_axes=(0, None))(x, theta)


def log_probs(model: DensityModel, x: np.ndarray, theta: Any) -> np.ndarray:
    rows, point = (jnp.asarray(a, jnp.float32) for a in (x, theta))
    return np.asarray(_log_probs(model, rows, point), np.float64)


def nodes(model: DensityModel, size: int, count: int, reach: float) -> np.ndarray:
    """Values of every observable, in float32, that are dense wherever its density is."""
    reach = 3 * reach if isinstance(model.x_features, IdentityMap) else reach
    u = np.repeat(np.linspace(-reach, reach, count)[:, None], size, axis=1)
    return undone(model.x_features, u).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
@pytest.mark.parametrize("features", FEATURES, ids=lambda f: type(f).__name__)
def test_the_density_of_one_observable_is_normalised_in_its_units(
    features: Any, kind: Kind
) -> None:
    """∫p dx = 1, by the trapezoidal rule in x itself: a Jacobian left out is off by far more."""
    x = columns()[kind][:, None]
    assert kind_of_column(x[:, 0]) is kind
    model = random_flow(Flow(SMALL, features), x)
    grid = nodes(model, 1, 20_001, 12)
    for theta in ([0.2, -0.4], [0.9, 0.8]):
        density = np.exp(log_probs(model, grid, theta))
        assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=3e-3)


@pytest.mark.parametrize("features", FEATURES[1:], ids=lambda f: type(f).__name__)
def test_the_density_of_two_observables_is_normalised(features: Any) -> None:
    """On a grid in two dimensions; at the steps of quantile features that is a percent off."""
    c = columns()
    model = random_flow(Flow(SMALL, features), np.stack([c[Kind.LOG], c[Kind.LINEAR]], axis=1))
    grid = nodes(model, 2, 1001, 12)
    first, second = np.meshgrid(grid[:, 0], grid[:, 1], indexing="ij")
    points = np.stack([first.ravel(), second.ravel()], axis=1)
    density = np.exp(log_probs(model, points, [0.2, -0.4]))
    inner = np.trapezoid(density.reshape(first.shape), grid[:, 1], axis=1)
    assert np.trapezoid(inner, grid[:, 0]) == pytest.approx(1, abs=2e-2)


@pytest.mark.slow
def test_draws_follow_the_density() -> None:
    """Means and second moments of 20,000 draws are those of the density by quadrature, to 5 σ."""
    x = columns()[Kind.LINEAR]
    x = np.stack([x, x[::-1]], axis=1)
    model = random_flow(Flow(SMALL, ist.Standardised()), x, far=0.3)
    theta = jnp.asarray([0.2, -0.4])
    keys = jax.random.split(jax.random.key(5), 20_000)
    u = eqx.filter_jit(lambda m, k: jax.vmap(lambda k: m.sample_features(theta, key=k))(k))(
        model, keys
    )
    drawn = undone(model.x_features, np.asarray(u))
    grid = nodes(model, 2, 901, 20)
    first, second = np.meshgrid(grid[:, 0], grid[:, 1], indexing="ij")
    points = np.stack([first.ravel(), second.ravel()], axis=1)
    cell = (grid[1] - grid[0]).prod()
    weight = np.exp(log_probs(model, points, np.asarray(theta))) * cell

    def moments(x: np.ndarray) -> np.ndarray:
        return np.stack([x[:, 0], x[:, 1], x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2], axis=1)

    found, expected = moments(drawn), weight @ moments(points)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - expected) < 5 * error).all()


@pytest.mark.parametrize("features", FEATURES, ids=lambda f: type(f).__name__)
def test_features_are_undone(features: Any) -> None:
    """And their Jacobian is that of differences in float64."""
    x = np.stack(list(columns().values()), axis=1)
    map_ = features.learn(x)
    # With the ends of every column, where a quantile map has slopes of its own.
    some = np.concatenate([x[::41], np.sort(x, axis=0)[:5], np.sort(x, axis=0)[-5:]])
    u = np.asarray(jax.vmap(map_)(jnp.asarray(some, jnp.float32)), np.float64)
    # As close as float32 features tell x apart.
    again = np.asarray(jax.vmap(map_)(jnp.asarray(undone(map_, u), jnp.float32)))
    np.testing.assert_allclose(again, u, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(undone(map_, u), some, rtol=5e-4, atol=1e-4)
    with jax.enable_x64(True):  # noqa: FBT003
        wide, rows = in_float64(map_), jnp.asarray(some.astype(np.float32), jnp.float64)
        found = np.asarray(jax.vmap(lambda row: log_jacobian(wide, row))(rows))
        step = 1e-6 * jnp.abs(rows)
        high, low = (jax.vmap(wide)(rows + sign * step) for sign in (1, -1))
        slopes = np.asarray((high - low) / (2 * step))
    # Steps across a knot of a piecewise-linear map are the exception.
    close = np.isclose(found, np.log(np.abs(slopes)).sum(axis=1), atol=1e-4)
    assert close.mean() > 0.97


@eqx.filter_jit
def _derivatives(model: Any, x: jax.Array, theta: jax.Array) -> tuple[Any, Any, Any]:
    def potential(t: jax.Array) -> jax.Array:
        return model.join(model.embed_x(x), model.embed_theta(t))

    return potential(theta), model.score(x, theta), jax.hessian(potential)(theta)


def test_the_potential_has_the_derivatives_of_differences() -> None:
    """Score and Hessian, in float64; both continuous, because everything in the flow is."""
    x = np.stack([columns()[Kind.LINEAR], columns()[Kind.LOG]], axis=1)
    model = random_flow(Flow(SMALL), x)
    theta, step = np.array([0.2, -0.4]), 1e-5
    with jax.enable_x64(True):  # noqa: FBT003

        def at(theta: np.ndarray) -> tuple[np.ndarray, ...]:
            found = _derivatives(in_float64(model), jnp.asarray(x[5]), jnp.asarray(theta))
            return tuple(np.asarray(part) for part in found)

        _, score, hessian = at(theta)
        pairs = [(at(theta + step * e), at(theta - step * e)) for e in np.eye(2)]
    assert score.dtype == np.float64
    slopes = [(high[0] - low[0]) / (2 * step) for high, low in pairs]
    bends = [(high[1] - low[1]) / (2 * step) for high, low in pairs]
    np.testing.assert_allclose(score, slopes, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(hessian, bends, rtol=1e-6, atol=1e-7)


def events(n: int = 300, x_dim: int = 2) -> ist.Events:
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1, 1, (n, 2))
    x = theta[:, :1] + rng.normal(size=(n, x_dim)) * np.exp(0.3 * theta[:, 1:])
    return ist.Events(x=x, theta=theta, prior=PRIOR)


def with_frozen_parts(x_size: int, theta_size: int, *, key: Any) -> Any:
    """A flow of flowjax with masks, random permutations, and a base that is marked as fixed."""
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow
    from paramax import non_trainable

    # A matrix of numbers that decay would shrink, besides the vectors that it leaves alone.
    base = non_trainable(Normal(0.25 * jnp.ones(x_size), 2 * jnp.ones(x_size)))
    return masked_autoregressive_flow(
        key,
        base_dist=base,
        cond_dim=theta_size,
        flow_layers=2,
        nn_width=6,
        nn_activation=jax.nn.silu,
    )


HARD = ist.Training(epochs=3, batch_size=64, weight_decay=0.5, learning_rate=0.02)


@pytest.mark.slow
def test_fixed_parts_stay_fixed_and_are_saved(tmp_path: Path) -> None:
    """Through training with weight decay, through members, through a file."""
    architecture = Flow(with_frozen_parts, ist.Standardised())
    data = events(x_dim=3)
    estimator = ist.fit(data, NDE(), network=architecture, members=2, training=HARD, seed=3)
    network = estimator.model.network
    assert isinstance(network, FlowNetwork)
    assert {"bool", "float", "integer"} <= set(network.skeleton.kinds)
    fresh = architecture.build(estimator.shapes, key=derive_member_key(3, 0)).network
    for kept, first in zip(network.fixed, fresh.fixed, strict=True):
        np.testing.assert_array_equal(kept, np.stack([first, first]))
    moved = [
        not np.array_equal(trained[0], first)
        for trained, first in zip(network.weights, fresh.weights, strict=True)
    ]
    assert all(moved)
    base = jax.tree.map(
        lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, network
    ).flow.base_dist
    np.testing.assert_array_equal(base.bijection.loc.tree, np.full(3, 0.25, np.float32))
    estimator.save(tmp_path / "flow.isn")
    loaded = ist.load(tmp_path / "flow.isn", network=with_frozen_parts)
    x, theta = data.x[:50], data.theta[:50]
    assert isinstance(loaded, type(estimator))
    for kept, first in zip(loaded.model.network.fixed, network.fixed, strict=True):
        np.testing.assert_array_equal(kept, first)
    np.testing.assert_array_equal(loaded.log_prob(x, theta), estimator.log_prob(x, theta))
    np.testing.assert_array_equal(loaded.score(x, theta), estimator.score(x, theta))
    np.testing.assert_array_equal(loaded.sample(theta, seed=1), estimator.sample(theta, seed=1))


@pytest.fixture(scope="module")
def trained() -> ist.Estimator:
    return ist.fit(events(), NDE(), network=Flow(SMALL), training=HARD, seed=3)


def test_saving_a_flow_of_ours(trained: Any, tmp_path: Path) -> None:
    """Nothing has to be supplied."""
    estimator = trained
    estimator.save(tmp_path / "flow.isn")
    loaded = ist.load(tmp_path / "flow.isn")
    x, theta = events().x[:50], events().theta[:50]
    np.testing.assert_array_equal(loaded.log_prob(x, theta), estimator.log_prob(x, theta))
    assert loaded.architecture == estimator.architecture


def test_features_that_cannot_be_undone_are_refused() -> None:
    """And features left open become natural ones, which need no comparison of losses."""
    with pytest.raises(TypeError, match="each of its features must be made of one observable"):
        Flow(SMALL, PerParticle(2, 1))
    assert isinstance(Flow(SMALL, Automatic()).x_features, ist.Natural)


def test_only_a_flow_offers_a_density() -> None:
    """A potential is ln p only up to a function of x."""
    assert Capability.DENSITY in Flow().capabilities
    assert Capability.DENSITY not in ist.Potential().capabilities
    x = np.random.default_rng(0).normal(size=(50, 2))
    shapes = ist.Potential().shapes(x, np.zeros(1), np.ones(1))
    assert (
        Capability.DENSITY not in ist.Potential().build(shapes, key=jax.random.key(0)).capabilities
    )


def test_a_wrong_flow_is_refused() -> None:
    """With what was expected."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    shapes = Flow().shapes(x, np.zeros(1), np.ones(1))

    def swapped(x_size: int, theta_size: int, *, key: Any) -> Any:
        return SMALL(theta_size, x_size, key=key)

    with pytest.raises(TypeError, match=r"shape \(1,\) and cond_shape \(2,\)"):
        Flow(swapped).build(shapes, key=jax.random.key(0))
    with pytest.raises(TypeError, match="A flow is built by a function"):
        Flow(ist.MLP((8,)).__call__).build(shapes, key=jax.random.key(0))
    with pytest.raises(ValueError, match="at least the number of observables"):
        Flow(MixtureFlow(width=1)).build(shapes, key=jax.random.key(0))
    with pytest.raises(ValueError, match="layers"):
        MixtureFlow(layers=-1)


def test_without_flowjax_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which tells how to get it."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    shapes = Flow().shapes(x, np.zeros(1), np.ones(1))
    monkeypatch.setitem(sys.modules, "flowjax", None)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[flows\]'"):
        Flow().build(shapes, key=jax.random.key(0))


def test_second_derivatives_are_automatic_for_smooth_flows_only(trained: Any) -> None:
    """A flow tells the activations of its networks to whoever takes Hessians."""
    rows, theta = events().x[:200], np.array([0.1, 0.2])
    assert Curvature(trained, rows, theta).automatic
    bent = dataclasses.replace(
        trained.model,
        network=dataclasses.replace(trained.model.network, activations=(jax.nn.relu,)),
    )
    assert "relu" in Curvature(dataclasses.replace(trained, model=bent), rows, theta).reason
    choice = dataclasses.replace(SMALL, activation=jax.nn.relu)
    model = random_flow(Flow(choice), events().x)
    assert model.network.activations == (jax.nn.relu,)


def test_equal_flows_share_a_compilation() -> None:
    """Their functions, made anew each time, must not count as different."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    shapes = Flow(SMALL).shapes(x, np.zeros(1), np.ones(1))
    one, two = (Flow(SMALL).build(shapes, key=jax.random.key(i)) for i in (0, 1))
    assert jax.tree.structure(one) == jax.tree.structure(two)
    other = Flow(dataclasses.replace(SMALL, width=9)).build(shapes, key=jax.random.key(0))
    assert jax.tree.structure(one) != jax.tree.structure(other)
    assert jax.tree.structure(with_network(one, two.network)) == jax.tree.structure(two)
