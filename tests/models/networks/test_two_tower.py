"""Networks that take x and θ apart: the two towers, and those that a user writes."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.models.architecture import OtherPairNetwork, takes_pairs
from inferostatic.models.networks.networks import AbstractPairNetwork
from inferostatic.serial import describe, restore
from random_models import (
    POINTS,
    check_slopes,
    check_values,
    numpy_mlp,
    numpy_residual,
    random_model,
    values,
)

Array = jax.Array

SMALL = ist.TwoTower(6, ist.MLP((8,)), ist.Residual(7, 1))
PRIOR = ist.Uniform([-2.0], [2.0], names=["mean"])
FEW = ist.Training(epochs=40, batch_size=128, learning_rate=1e-2)


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    """Many small functions, each of them run a few times."""
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """ln p = −Σ(x − θ)²/2 for two observables: an exponential family."""
    return theta + rng.normal(size=(len(theta), 2))


def some(x_dim: int, theta_dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(60, x_dim)), rng.normal(size=(POINTS, theta_dim))


def raw(network: Any) -> ist.Potential:
    return ist.Potential(network, ist.Raw(), ist.Raw())


def test_the_potential_is_that_of_numpy() -> None:
    """φ = Σ f g/√size + h, with f of an MLP and (g, h) of a residual network."""
    x, thetas = some(3, 2)
    model = random_model(raw(SMALL), x, 2)
    f = numpy_mlp(model.network.x_tower, x[:4])
    g = numpy_residual(model.network.theta_tower, thetas)
    assert f.shape == (4, 6)
    assert g.shape == (POINTS, 7)
    expected = f @ g[:, :6].T / np.sqrt(6) + g[:, 6]
    np.testing.assert_allclose(values(model, x[:4], thetas)["grid"], expected, rtol=1e-11)


def test_it_is_a_potential() -> None:
    x, thetas = some(3, 2)
    model = random_model(ist.Potential(SMALL, ist.Quantile()), x, 2)
    check_values(model, x[:4], thetas)
    check_slopes(model, x, thetas)


def test_a_grid_passes_each_event_and_each_point_once() -> None:
    """Rows that the matrices of either tower are multiplied with, in the traced program."""
    x, _ = some(3, 2)
    model = random_model(raw(SMALL), x, 2)
    program = jax.make_jaxpr(model.grid)(jnp.zeros((50, 3)), jnp.zeros((40, 2)))
    products = [step for step in program.jaxpr.eqns if step.primitive.name == "dot_general"]
    rows = [step.outvars[0].aval.shape[0] for step in products]
    assert sorted(rows) == [40] * 4 + [50] * 2


def test_towers_start_apart_and_by_the_key() -> None:
    choice = ist.TwoTower(4, ist.MLP((5,)), ist.MLP((5,)))
    first, again, other = (choice(3, 3, key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert eqx.tree_equal(first, again)
    towers = [n for pair in (first, other) for n in (pair.x_tower, pair.theta_tower)]
    assert len({np.asarray(tower.first.weight).tobytes() for tower in towers}) == 4


def test_choices_are_described_and_compared() -> None:
    assert restore(describe(SMALL)) == SMALL
    assert ist.TwoTower(6) != SMALL
    assert takes_pairs(SMALL)
    assert not takes_pairs(ist.MLP())


def test_a_tower_that_is_none_gets_a_sentence() -> None:
    def without_weights(in_size: int, out_size: int, *, key: Array) -> eqx.nn.Lambda:
        del in_size, key
        return eqx.nn.Lambda(lambda a: a[:out_size])

    x, _ = some(3, 2)
    with pytest.raises(TypeError, match=r"output of shape \(2,\).* vector of 2 to one of 7 here"):
        random_model(raw(ist.TwoTower(6, ist.MLP((4,)), without_weights)), x, 2)
    with pytest.raises(TypeError, match="takes x and θ apart.* network of one vector"):
        random_model(raw(ist.TwoTower(6, ist.TwoTower())), x, 2)
    with pytest.raises(ValueError, match="size must be at least 1; got 0"):
        ist.TwoTower(0)


@pytest.mark.parametrize("architecture", [ist.DirectScore(SMALL), ist.DirectRatio(SMALL)])
def test_direct_networks_refuse_it(architecture: Any) -> None:
    """It gives one number, which is no score and no pair of outputs."""
    x, _ = some(3, 2)
    with pytest.raises(TypeError, match=r"TwoTower takes x and θ apart.* ist\.Potential\(…\)"):
        random_model(architecture, x, 2)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(simulate, PRIOR, 4000, seed=1)


@pytest.fixture(scope="module")
def trained(events: ist.Events) -> ist.Estimator:
    network = ist.TwoTower(4, ist.MLP((16,)), ist.MLP((16,)))
    architecture = ist.Potential(network, ist.Standardised())
    return ist.fit(events, ist.CARL(), network=architecture, members=2, training=FEW, seed=2)


def exact_log_ratio(x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
    return np.sum((x - theta1) ** 2 - (x - theta0) ** 2, axis=1) / 2


def test_it_learns_an_exact_ratio(trained: ist.Estimator) -> None:
    """Log ratios with a standard deviation of 3.0: the rms error is 0.19 to 0.28 by the seed."""
    rng = np.random.default_rng(3)
    theta0, theta1, at = rng.uniform(-1.5, 1.5, size=(3, 2000, 1))
    x = simulate(at, rng)
    exact = exact_log_ratio(x, theta0, theta1)
    error = trained.log_ratio(x, theta0, theta1) - exact
    assert exact.std() > 2
    assert np.sqrt(np.mean(error**2)) < 0.5


def outputs(estimator: ist.Estimator) -> np.ndarray:
    x, theta = np.linspace(-1, 1, 20).reshape(10, 2), np.linspace(-1, 1, 10)[:, None]
    grid = estimator.potential_grid(x, theta)
    return np.concatenate([grid.ravel(), estimator.score(x, theta).ravel()])


def test_it_is_saved_and_trained_on(
    trained: ist.Estimator, events: ist.Events, tmp_path: Path
) -> None:
    trained.save(tmp_path / "towers.isn")
    again = ist.load(tmp_path / "towers.isn")
    assert again.architecture == trained.architecture
    np.testing.assert_array_equal(outputs(again), outputs(trained))
    further = ist.fit(events, start=again, training=FEW, seed=3)
    assert further.architecture == trained.architecture
    assert further.history.train_loss[0].mean() < trained.history.train_loss[0].mean() - 0.05


class Users(eqx.Module):
    """A potential that a user might write, without deriving it from anything here."""

    x_layer: eqx.nn.Linear
    theta_layer: eqx.nn.Linear
    scale: Array

    def embed_x(self, x: Array) -> dict[str, Array]:
        return {"hidden": jnp.tanh(self.x_layer(x)), "first": x[0]}

    def embed_theta(self, theta: Array) -> Array:
        return jnp.tanh(self.theta_layer(theta))

    def join(self, x_part: dict[str, Array], theta_part: Array) -> Array:
        together = jnp.sum(jnp.tanh(x_part["hidden"] + theta_part))
        return self.scale * together + x_part["first"] * theta_part[0]


def users_pair(x_size: int, theta_size: int, *, key: Array) -> Users:
    one, two = jax.random.split(key)
    return Users(
        eqx.nn.Linear(x_size, 5, key=one), eqx.nn.Linear(theta_size, 5, key=two), jnp.ones(())
    )


class UsersChoice(eqx.Module):
    """The same as an object with settings, returning a pair network of this package."""

    width: int = 5

    def __call__(self, x_size: int, theta_size: int, *, key: Array) -> AbstractPairNetwork:
        return OtherPairNetwork(users_pair(x_size, theta_size, key=key))


def test_a_users_pair_network_is_a_potential() -> None:
    x, thetas = some(3, 2)
    model = random_model(raw(users_pair), x, 2)
    check_values(model, x[:4], thetas)
    check_slopes(model, x, thetas)
    again = random_model(raw(UsersChoice()), x, 2)
    assert isinstance(model.network, AbstractPairNetwork)
    assert eqx.tree_equal(again.network, model.network)
    assert takes_pairs(functools.partial(users_pair))


@pytest.mark.slow
def test_a_users_pair_network_is_trained_saved_and_trained_on(
    events: ist.Events, tmp_path: Path
) -> None:
    short = ist.Training(epochs=2, batch_size=256, learning_rate=1e-2)
    network: Any = users_pair
    estimator = ist.fit(events, ist.CARL(), network=network, members=1, training=short, seed=2)
    estimator.save(tmp_path / "users.isn")
    with pytest.raises(ValueError, match=r"user-written 'users_pair'.*load\(path, network=…\)"):
        ist.load(tmp_path / "users.isn")
    again = ist.load(tmp_path / "users.isn", network=users_pair)
    np.testing.assert_array_equal(outputs(again), outputs(estimator))
    further = ist.fit(events, start=again, training=short, seed=2)
    assert further.history.train_loss[0].mean() < estimator.history.train_loss[0].mean()


class Incomplete(eqx.Module):
    """Two methods of three."""

    layer: eqx.nn.Linear

    def embed_x(self, x: Array) -> Array:
        return self.layer(x)

    def join(self, x_part: Array, theta_part: Array) -> Array:
        return jnp.sum(x_part * theta_part)


class Vector(Users):
    """A vector where a number should be."""

    def join(self, x_part: dict[str, Array], theta_part: Array) -> Array:
        return x_part["hidden"] + theta_part


class Idle(eqx.Module):
    """Nothing to train."""

    def embed_x(self, x: Array) -> Array:
        return x[0]

    def embed_theta(self, theta: Array) -> Array:
        return theta[0]

    def join(self, x_part: Array, theta_part: Array) -> Array:
        return x_part * theta_part


def incomplete(x_size: int, theta_size: int, *, key: Array) -> Incomplete:
    return Incomplete(eqx.nn.Linear(x_size, theta_size, key=key))


def vector(x_size: int, theta_size: int, *, key: Array) -> Vector:
    users = users_pair(x_size, theta_size, key=key)
    return Vector(users.x_layer, users.theta_layer, users.scale)


def idle(x_size: int, theta_size: int, *, key: Array) -> Idle:
    del x_size, theta_size, key
    return Idle()


def wrong_size(x_size: int, theta_size: int, *, key: Array) -> Users:
    return users_pair(x_size + 1, theta_size, key=key)


def without_key(x_size: int, theta_size: int) -> Users:
    return users_pair(x_size, theta_size, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (incomplete, "the network has no method embed_theta"),
        (vector, r"join gives an output of shape \(5,\)"),
        (idle, "the network has no weights to train"),
        (wrong_size, "could not be built or applied"),
        (without_key, "unexpected keyword argument 'key'"),
    ],
)
def test_a_users_pair_network_that_is_none_gets_a_sentence(choice: Any, sentence: str) -> None:
    x, _ = some(3, 2)
    with pytest.raises(TypeError, match=f"{sentence}.*here x_size is 3 and theta_size 2"):
        random_model(raw(choice), x, 2)


def test_a_pair_network_under_the_names_of_a_vectors_sizes_gets_a_sentence() -> None:
    def misnamed(in_size: int, out_size: int, *, key: Array) -> AbstractPairNetwork:
        del in_size, out_size
        return SMALL(3, 2, key=key)

    x, _ = some(3, 2)
    with pytest.raises(TypeError, match=r"takes x and θ apart.*\(x_size, theta_size, \*, key\)"):
        random_model(raw(misnamed), x, 2)
