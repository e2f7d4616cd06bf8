"""Potentials on a grid, and how far the members of an ensemble differ, against NumPy."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.estimator import estimator as module
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.members import evaluate, mean
from optional import OptionalPackage
from random_estimators import HIGH, LOW, random_estimator

pd = OptionalPackage("pandas")

Array = jax.Array

NETWORK = ist.MLP((6, 5), activation=jnp.tanh)
TOWERS = ist.TwoTower(4, ist.MLP((5,)), ist.MLP((5,)))


def build(architecture: AbstractArchitecture, members: int = 3, x_dim: int = 3) -> Any:
    return random_estimator(architecture, members, [f"x{i}" for i in range(x_dim)])


@pytest.fixture(scope="module")
def potential() -> ist.Estimator:
    return build(ist.Potential(NETWORK, ist.Raw(), ist.Raw()))


@pytest.fixture(scope="module")
def score() -> ist.ScoreEstimator:
    return build(ist.DirectScore(NETWORK, ist.Raw(), ist.Raw()))


@pytest.fixture(scope="module")
def ratio() -> ist.RatioEstimator:
    return build(ist.DirectRatio(NETWORK, ist.Raw(), ist.Raw()))


def some(n: int, seed: int = 7, x_dim: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    theta0, theta1 = rng.uniform(LOW, HIGH, size=(2, n, 2))
    return rng.uniform(-2, 2, size=(n, x_dim)), theta0, theta1


def outputs(estimator: Any, *parts: np.ndarray) -> np.ndarray:
    """What every member's network gives, in double precision, for raw features and tanh."""
    found = []
    for member in range(estimator.members):
        a = np.concatenate(parts, axis=1)
        *hidden, last = estimator.model.network.layers
        for layer in hidden:
            weight = np.asarray(layer.weight[member], np.float64)
            a = np.tanh(a @ weight.T + np.asarray(layer.bias[member], np.float64))
        weight = np.asarray(last.weight[member], np.float64)
        found.append(a @ weight.T + np.asarray(last.bias[member], np.float64))
    return np.array(found)


def test_a_grid_is_the_mean_over_members_at_every_pair(potential: ist.Estimator) -> None:
    x, theta, _ = some(37)
    theta = theta[:11]
    rows = np.repeat(x, 11, axis=0), np.tile(theta, (37, 1))
    expected = outputs(potential, *rows)[..., 0].mean(axis=0).reshape(37, 11)
    got = potential.potential_grid(x, theta)
    assert type(got) is np.ndarray
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, atol=1e-5)
    one = potential.potential_grid(x[:1], theta[0])
    np.testing.assert_allclose(one, expected[:1, :1], atol=1e-5)


def users_network(in_size: int, out_size: int, *, key: Array) -> eqx.nn.MLP:
    return eqx.nn.MLP(in_size, out_size, 5, 2, key=key)


@pytest.mark.parametrize(
    ("network", "x_dim"),
    [
        (ist.Residual(6, 1), 3),
        (TOWERS, 3),
        (ist.ParticleSet(3, 2, 4, ist.MLP((5,)), ist.Residual(5, 1)), 7),
        (users_network, 3),
    ],
    ids=["residual", "two_tower", "particles", "users_own"],
)
def test_a_grid_is_what_the_potential_gives_pair_by_pair(network: Any, x_dim: int) -> None:
    """Cut in both axes, with a bound on memory that allows only the smallest blocks."""
    estimator = build(ist.Potential(network), 2, x_dim)
    x, theta, _ = some(20, x_dim=x_dim)
    rows = np.repeat(x, 20, axis=0), np.tile(theta, (20, 1))
    expected = estimator.potential(*rows).reshape(20, 20)
    whole = estimator.potential_grid(x, theta)
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-5)
    blocks = estimator.potential_grid(x, theta, memory_mb=1e-6)
    np.testing.assert_allclose(blocks, expected, rtol=1e-5, atol=1e-5)


def test_blocks_keep_to_the_bound(
    potential: ist.Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In calls of 16 by 16, however small the bound; larger with a larger one."""
    shapes = []

    def grid(model: Any, x: Array, thetas: Array) -> Array:
        shapes.append((len(x), len(thetas)))
        return jnp.zeros((len(x), len(thetas)))

    monkeypatch.setattr(module, "grid", grid)
    x, theta, _ = some(100)
    potential.potential_grid(x, theta[:40], memory_mb=1e-6)
    assert set(shapes) == {(16, 16)}
    assert len(shapes) == 7 * 3
    shapes.clear()
    potential.potential_grid(x, theta[:40])
    assert shapes == [(128, 64)]
    _, _, each = potential._bytes_of_grid
    for memory_mb in (0.5, 5.0):
        shapes.clear()
        potential.potential_grid(*some(1000)[:2], memory_mb=memory_mb)
        (rows, points) = shapes[0]
        assert set(shapes) == {(rows, points)}
        used = rows * points * each * potential.members
        assert 1e6 * memory_mb / 8 < used <= 1e6 * memory_mb


@pytest.mark.parametrize("network", [NETWORK, ist.ParticleSet(20, 2, 16)], ids=["mlp", "particles"])
def test_the_bound_on_memory_holds_what_the_compiler_takes(network: Any) -> None:
    """The estimate is an upper limit, particle by particle as well, but not without measure."""
    x_dim = 40
    estimator = build(ist.Potential(network), 2, x_dim)
    arrays, static = eqx.partition(estimator.model, eqx.is_array)

    def score(arrays: Any, x: Array, theta: Array) -> Array:
        model = eqx.combine(arrays, static)
        return evaluate("score", mean, model, x, theta)

    inputs = jnp.zeros((256, x_dim)), jnp.zeros((256, 2))
    compiled: Any = jax.jit(score).lower(arrays, *inputs).compile()
    taken = compiled.memory_analysis().temp_size_in_bytes
    estimated = 256 * estimator.members * estimator._bytes_each
    assert taken < estimated < 50 * taken


def test_the_spread_of_scores_is_their_standard_deviation(
    potential: ist.Estimator, score: ist.ScoreEstimator
) -> None:
    x, theta, _ = some(40)
    h = 1e-6
    slopes = [
        outputs(potential, x, theta + s) - outputs(potential, x, theta - s) for s in h * np.eye(2)
    ]
    members = np.concatenate(slopes, axis=2) / (2 * h)
    got = potential.spread(x, theta)
    assert got.shape == (40, 2)
    np.testing.assert_allclose(got, members.std(axis=0, ddof=1), rtol=1e-3, atol=1e-4)
    direct = outputs(score, x, theta).std(axis=0, ddof=1)
    np.testing.assert_allclose(score.spread(x, theta), direct, rtol=1e-4, atol=1e-5)


def test_the_spread_of_log_ratios_is_their_standard_deviation(
    potential: ist.Estimator, ratio: ist.RatioEstimator
) -> None:
    """Of the differences of each member: what is common to both potentials drops out."""
    x, theta0, theta1 = some(40)
    members = outputs(potential, x, theta0) - outputs(potential, x, theta1)
    got = potential.spread(x, theta0, theta1)
    assert got.shape == (40,)
    np.testing.assert_allclose(got, members[..., 0].std(axis=0, ddof=1), rtol=1e-4, atol=1e-5)
    assert potential.spread(x, theta0, theta0).max() == 0
    zeta = outputs(ratio, x, theta0, theta1)
    direct = (zeta[..., 0] - zeta[..., 1]).std(axis=0, ddof=1)
    np.testing.assert_allclose(ratio.spread(x, theta0, theta1), direct, rtol=1e-4, atol=1e-5)


def test_the_spread_keeps_to_a_bound_on_memory(potential: ist.Estimator) -> None:
    x, theta, _ = some(40)
    cut = potential.spread(x, theta, memory_mb=1e-6)
    np.testing.assert_allclose(cut, potential.spread(x, theta), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="memory_mb must be a finite number above 0"):
        potential.spread(x, theta, memory_mb=0.0)


@pytest.mark.parametrize(
    "architecture", [ist.Potential(NETWORK), ist.DirectScore(NETWORK), ist.DirectRatio(NETWORK)]
)
def test_a_single_member_has_no_spread(architecture: AbstractArchitecture) -> None:
    estimator = build(architecture, members=1)
    x, theta0, theta1 = some(5)
    thetas = (theta0, theta1) if isinstance(architecture, ist.DirectRatio) else (theta0,)
    with pytest.raises(ValueError, match=r"has a single member; train several.* members=5"):
        estimator.spread(x, *thetas)


def test_direct_networks_have_no_grid(score: ist.ScoreEstimator, ratio: ist.RatioEstimator) -> None:
    for estimator in (score, ratio):
        with pytest.raises(ist.CapabilityError, match="has no potential_grid. Train a potential"):
            _ = estimator.potential_grid  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("x", "thetas", "sentence"),
    [
        (np.zeros((5, 2)), np.zeros((4, 3)), r"They look swapped: the order is \(x, theta\)"),
        (np.zeros((5, 3)), np.zeros((4, 3)), r"and theta with 2 \(mass, width\)"),
        (np.zeros(2), np.zeros((4, 2)), r"for one event x\[None, :\]"),
        (np.zeros((0, 3)), np.zeros((4, 2)), "there are no events to evaluate"),
        (np.zeros((5, 3)), np.zeros((0, 2)), "there are no events to evaluate"),
        (np.full((5, 3), np.nan), np.zeros((4, 2)), "x has NaN or infinite values in rows 0, 1"),
        (np.zeros((5, 3)), np.full((4, 2), np.inf), "theta has NaN or infinite values in rows"),
        (np.full((5, 3), 1e300), np.zeros((4, 2)), "x exceeds float32's largest number"),
        (np.zeros((5, 3)), np.zeros((4, 2, 1)), "theta must have two axes"),
    ],
)
def test_a_grid_that_cannot_be_gets_a_sentence(
    potential: ist.Estimator, x: Any, thetas: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        potential.potential_grid(x, thetas)


def test_a_grid_outside_the_trained_region_warns(potential: ist.Estimator) -> None:
    x, theta, _ = some(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        potential.potential_grid(x, theta[:7])
    with pytest.warns(UserWarning, match=r"theta lies outside the trained region.* in row 1;"):
        potential.potential_grid(x, [[1.0, 1.0], [9.0, 1.0]])
    with pytest.warns(UserWarning, match="of the events lie outside the range of x"):
        potential.potential_grid(x + 9, theta[:7])
    frame = pd.DataFrame(x, columns=["x2", "x1", "x0"])
    with pytest.raises(ValueError, match=r"x\[\['x0', 'x1', 'x2'\]\]"):
        potential.potential_grid(frame, theta)
