"""Sets of particles: features, invariances, exact values, and a toy with exact ratios."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.readers.particle_table import ParticleTable
from inferostatic.models.features.feature_map import AbstractFeatureMap
from inferostatic.serial import describe, restore
from optional import OptionalPackage
from random_models import (
    POINTS,
    as_array,
    check_slopes,
    check_values,
    numpy_mlp,
    numpy_residual,
    random_model,
    values,
)

pd = OptionalPackage("pandas")
ak = OptionalPackage("awkward")

Array = jax.Array

SMALL: dict[str, Any] = {
    "size": 5,
    "particle_network": ist.MLP((6,)),
    "join_network": ist.Residual(7, 1),
}


def lists_of_particles(n: int = 80, most: int = 4, seed: int = 1) -> list[np.ndarray]:
    """Events of 0 to `most` particles with two features; the first two have none and all."""
    rng = np.random.default_rng(seed)
    number = np.concatenate([[0, most], rng.integers(0, most + 1, size=n - 2)])
    return [rng.normal([3.0, -1.0], [2.0, 0.5], size=(k, 2)) for k in number]


def padded(lists: list[np.ndarray], particles: int, **options: Any) -> np.ndarray:
    return ist.pad_particles(lists, particles=particles, **options).x


def applied(features: AbstractFeatureMap, x: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(features))(as_array(x)))


def thetas() -> np.ndarray:
    return np.random.default_rng(9).normal(size=(POINTS, 2))


def shuffled(x: np.ndarray, particles: int, features: int, seed: int = 4) -> np.ndarray:
    """The same events with all slots in another order, absent ones among the present."""
    rng = np.random.default_rng(seed)
    slots = x[:, : particles * features].reshape(len(x), particles, features)
    mixed = np.stack([rows[rng.permutation(particles)] for rows in slots])
    assert not np.array_equal(mixed, slots)
    return np.concatenate([mixed.reshape(len(x), -1), x[:, particles * features :]], axis=1)


def test_features_are_standardised_on_the_particles_that_are_there() -> None:
    lists = lists_of_particles()
    rng = np.random.default_rng(2)
    event = rng.normal(5.0, 3.0, size=(80, 1))
    x = padded(lists, 4, event=event)
    got = applied(ist.PerParticle(4, 2).learn(x), x)
    assert got.shape == (80, 4 * 3 + 2)
    slots = got[:, :12].reshape(80, 4, 3)
    flat, number = np.concatenate(lists), np.array([len(one) for one in lists])
    share = 1 / np.sqrt(number.mean())
    for rows, one in zip(slots, lists, strict=True):
        expected = (one - flat.mean(axis=0)) / flat.std(axis=0)
        # Descending by the last feature.
        expected = expected[np.argsort(-expected[:, 1])]
        np.testing.assert_allclose(rows[: len(one), :2], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(rows[: len(one), 2], share, rtol=1e-6)
        assert not rows[len(one) :].any()
    log_number = np.log1p(number)
    centred = (log_number - log_number.mean()) / log_number.std()
    np.testing.assert_allclose(got[:, 12], centred, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        got[:, 13], (event[:, 0] - event.mean()) / event.std(), rtol=1e-4, atol=1e-5
    )


def test_the_constants_are_the_same_for_every_slot_and_any_padding() -> None:
    """More empty slots, other padding or a mask instead change nothing but the layout."""
    lists = lists_of_particles()
    first = ist.PerParticle(4, 2).learn(padded(lists, 4))
    more = ist.PerParticle(7, 2).learn(padded(lists, 7))
    other = ist.PerParticle(4, 2, padding=-99.9).learn(padded(lists, 4, padding=-99.9))
    marked = [np.insert(one, 1, 1.0, axis=1) for one in lists]
    masked = ist.PerParticle(4, 3, mask=1).learn(padded(marked, 4))
    for features in (more, other, masked):
        for name in ("each", "event", "presence"):
            assert eqx.tree_equal(getattr(features, name), getattr(first, name)), name
    expected = applied(first, padded(lists, 4))
    np.testing.assert_array_equal(applied(other, padded(lists, 4, padding=-99.9)), expected)
    np.testing.assert_array_equal(applied(masked, padded(marked, 4)), expected)
    longer = applied(more, padded(lists, 7))
    np.testing.assert_array_equal(longer[:, :12], expected[:, :12])
    assert not longer[:, 12:21].any()
    np.testing.assert_array_equal(longer[:, 21:], expected[:, 12:])


def test_a_particle_is_absent_only_if_all_its_features_are_padding() -> None:
    x = np.array([[0.0, 2.0, 0.0, 0.0], [3.0, 0.0, 1.0, 1.0]])
    got = applied(ist.PerParticle(2, 2).learn(x), x)
    np.testing.assert_array_equal(got[:, [2, 5]] > 0, [[True, False], [True, True]])


def test_other_scalings_serve_as_well() -> None:
    lists = lists_of_particles(400)
    x = padded(lists, 4)
    got = applied(ist.PerParticle(4, 2, scaling=ist.Quantile(8)).learn(x), x)
    slots = got[:, :12].reshape(400, 4, 3)
    there = slots[..., 2] > 0
    assert abs(slots[there][:, :2].mean()) < 0.05
    assert not slots[~there].any()
    raw = applied(ist.PerParticle(4, 2, scaling=ist.Raw()).learn(x), x)[:, :12].reshape(400, 4, 3)
    np.testing.assert_allclose(np.sort(raw[1, :, 0]), np.sort(lists[1][:, 0]), rtol=1e-6)


def test_features_in_any_order_of_the_particles_are_the_same_bit_by_bit() -> None:
    x = padded(lists_of_particles(), 4)
    x[3, 4:6] = x[3, :2]  # a particle twice
    features = ist.PerParticle(4, 2).learn(x)
    np.testing.assert_array_equal(applied(features, shuffled(x, 4, 2)), applied(features, x))


def numpy_potential(network: Any, features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """φ of every event at every θ, from the features of the events."""
    values = []
    for row in features:
        slots = row[: 4 * 3].reshape(4, 3)
        slots = slots[slots[:, 2] > 0]
        summary = np.zeros(15)
        if len(slots):
            each = numpy_mlp(network.each, slots[:, :2])
            total = each.sum(axis=0) * slots[0, 2]
            summary = np.concatenate([total, each.mean(axis=0), each.max(axis=0)])
        joint = np.concatenate([summary, row[12:]])
        pairs = np.concatenate([np.tile(joint, (len(theta), 1)), theta], axis=1)
        values.append(numpy_residual(network.joined.network, pairs)[:, 0])
    return np.array(values)


def test_the_potential_is_that_of_numpy() -> None:
    """Sum, mean and maximum over the particles that are there; events without any included."""
    event = np.random.default_rng(3).normal(size=(80, 2))
    x = padded(lists_of_particles(), 4, event=event).astype(np.float32).astype(np.float64)
    architecture = ist.Potential(ist.ParticleSet(4, 2, **SMALL), theta_features=ist.Raw())
    model = random_model(architecture, x, 2)
    features = applied(model.x_features, x[:5])
    expected = numpy_potential(model.network, features.astype(np.float64), thetas())
    assert np.ptp(expected, axis=0).min() > 0.1
    got = values(model, x[:5], thetas())["grid"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_it_is_a_potential() -> None:
    x = padded(lists_of_particles(), 4)
    model = random_model(ist.Potential(ist.ParticleSet(4, 2, **SMALL)), x, 2)
    check_values(model, x[:4], thetas())
    check_slopes(model, x[1:], thetas())


def test_it_is_joined_by_two_towers_as_well() -> None:
    x = padded(lists_of_particles(), 4)
    towers = ist.TwoTower(4, ist.MLP((6,)), ist.MLP((6,)))
    network = ist.ParticleSet(4, 2, 5, ist.MLP((6,)), join_network=towers)
    check_values(random_model(ist.Potential(network), x, 2), x[:4], thetas())


def test_both_networks_start_apart() -> None:
    layers: dict[str, Any] = {"particle_network": ist.MLP((5,)), "join_network": ist.MLP((5,))}
    network = ist.ParticleSet(2, 6, size=1, **layers)(2 * 7 + 1, 2, key=jax.random.key(1))
    each, joined = network.each.first.weight, network.joined.network.first.weight
    assert each.shape == joined.shape
    assert not np.array_equal(each, joined)


def test_neither_order_nor_padding_matters() -> None:
    """The order to the last bit; the number of slots to rounding in double precision."""
    lists = lists_of_particles()
    x, longer = padded(lists, 4), padded(lists, 7)
    model = random_model(ist.Potential(ist.ParticleSet(4, 2, **SMALL)), x, 2)
    wide = random_model(ist.Potential(ist.ParticleSet(7, 2, **SMALL)), longer, 2)
    for mine, theirs in zip(*map(jax.tree.leaves, (model.network, wide.network)), strict=True):
        np.testing.assert_array_equal(mine, theirs)  # no weight belongs to a slot
    grid = eqx.filter_jit(lambda m, x, thetas: m.grid(x, thetas))
    points = as_array(thetas())
    got = np.asarray(grid(model, as_array(x), points))
    again = np.asarray(grid(model, as_array(shuffled(x, 4, 2)), points))
    np.testing.assert_array_equal(again, got)
    exact = values(model, x[:8], thetas())["grid"]
    np.testing.assert_allclose(values(wide, longer[:8], thetas())["grid"], exact, rtol=1e-12)
    assert np.ptp(exact[1:], axis=0).min() > 0.1


P = 6
PRIOR = ist.Uniform([0.5, 0.2], [2.0, 0.8], names=["rate", "filling"])
TRAINING = ist.Training(epochs=20, batch_size=128, learning_rate=1e-2)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A binomial number of particles with exponential pt and a direction that tells nothing."""
    rate, filling = theta.T
    there = np.arange(P) < rng.binomial(P, filling)[:, None]
    pt = rng.exponential(1 / rate[:, None], size=(len(theta), P))
    eta = rng.normal(size=(len(theta), P))
    return np.where(there[..., None], np.stack([pt, eta], axis=2), 0.0).reshape(len(theta), -1)


def log_prob(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The exact ln p of the number and of all pt, up to what does not depend on θ."""
    rate, filling = theta.T
    slots = x.reshape(len(x), P, 2)
    number, total = (slots != 0).any(axis=2).sum(axis=1), slots[..., 0].sum(axis=1)
    binomial = number * np.log(filling) + (P - number) * np.log(1 - filling)
    return binomial + number * np.log(rate) - rate * total


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(simulate, PRIOR, 8_000, seed=1)


@pytest.fixture(scope="module")
def trained(events: ist.Events) -> ist.Estimator:
    network: Any = ist.ParticleSet(
        P, 2, size=16, particle_network=ist.MLP((32,)), join_network=ist.Residual(32, 1)
    )
    return ist.fit(events, ist.CARL(), network=network, members=1, training=TRAINING, seed=2)


def pairs(n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    theta0, theta1, at = rng.uniform([0.6, 0.25], [1.9, 0.75], size=(3, n, 2))
    return simulate(at, rng), theta0, theta1


def test_it_learns_an_exact_ratio(trained: ist.Estimator) -> None:
    """Log ratios with a standard deviation of 1.7: the rms error is 0.21 to 0.25 by the seed."""
    x, theta0, theta1 = pairs()
    exact = log_prob(x, theta0) - log_prob(x, theta1)
    error = trained.log_ratio(x, theta0, theta1) - exact
    assert exact.std() > 1.5
    assert np.sqrt(np.mean(error**2)) < 0.4


def test_shuffled_particles_give_the_same_answers(trained: ist.Estimator) -> None:
    x, theta0, theta1 = pairs(200)
    mixed = shuffled(x, P, 2)
    np.testing.assert_array_equal(trained.score(mixed, theta0), trained.score(x, theta0))
    np.testing.assert_array_equal(
        trained.log_ratio(mixed, theta0, theta1), trained.log_ratio(x, theta0, theta1)
    )


@pytest.mark.slow
def test_it_is_saved_and_trained_on(
    trained: ist.Estimator, events: ist.Events, tmp_path: Path
) -> None:
    trained.save(tmp_path / "set.isn")
    again = ist.load(tmp_path / "set.isn")
    x, theta0, theta1 = pairs(50)
    assert again.architecture == trained.architecture
    assert eqx.tree_equal(again.shapes, trained.shapes)
    np.testing.assert_array_equal(again.score(x, theta0), trained.score(x, theta0))
    np.testing.assert_array_equal(
        again.log_ratio(x, theta0, theta1), trained.log_ratio(x, theta0, theta1)
    )
    further = ist.fit(events, start=again, training=TRAINING, seed=3)
    assert further.history.train_loss[0] < trained.history.train_loss[0] - 0.02


def test_a_potential_takes_the_features_that_its_network_brings() -> None:
    network = ist.ParticleSet(4, 2)
    assert ist.Potential(network).x_features == ist.PerParticle(4, 2)
    special = ist.PerParticle(4, 2, padding=-1.0, scaling=ist.Quantile())
    chosen = ist.Potential(ist.ParticleSet(4, 2, x_features=special))
    assert chosen.x_features == special
    assert ist.Potential(network, ist.PerParticle(4, 2)).x_features == ist.PerParticle(4, 2)
    for architecture in (ist.Potential(network), chosen):
        assert restore(describe(architecture)) == architecture
    with pytest.raises(TypeError, match="ParticleSet brings its own features.*leave x_features"):
        ist.Potential(network, ist.Raw())
    with pytest.raises(TypeError, match="ParticleSet brings its own features"):
        ist.Potential(network, special)


def test_other_networks_may_see_particles_too() -> None:
    """The number of features need not be that of the columns."""
    x = padded(lists_of_particles(), 4)
    for architecture in (
        ist.Potential(ist.MLP((4,)), ist.PerParticle(4, 2)),
        ist.DirectScore(ist.MLP((4,)), ist.PerParticle(4, 2)),
        ist.DirectRatio(ist.MLP((4,)), ist.PerParticle(4, 2)),
    ):
        network = random_model(architecture, x, 2).network
        assert network.first.weight.shape[1] in (13 + 2, 13 + 4)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ist.PerParticle(0, 2), "particles must be at least 1"),
        (lambda: ist.PerParticle(2, 0), "features must be at least 1"),
        (lambda: ist.PerParticle(2, 2, padding=np.nan), "padding must be a finite number"),
        (lambda: ist.PerParticle(2, 2, mask=2), "index of one of the 2 features.*got 2"),
        (lambda: ist.PerParticle(2, 1, mask=0), "needs a feature besides the mask"),
        (lambda: ist.PerParticle(3, 2).learn(np.ones((5, 5))), "need 6 columns of x, but it has 5"),
        (lambda: ist.PerParticle(2, 2).learn(np.zeros((5, 4))), "every slot equals padding=0"),
        (lambda: ist.PerParticle(2, 2, mask=1).learn(np.zeros((5, 4))), "has a mask of 0"),
        (lambda: ist.ParticleSet(2, 2, size=0), "size must be at least 1"),
        (
            lambda: ist.ParticleSet(2, 2, x_features=ist.PerParticle(3, 2)),
            "2 particles of 2 features, but its x_features 3 of 2",
        ),
    ],
)
def test_what_cannot_be_gets_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_direct_networks_refuse_it() -> None:
    x = padded(lists_of_particles(), 4)
    architecture = ist.DirectScore(ist.ParticleSet(4, 2), ist.PerParticle(4, 2))
    with pytest.raises(TypeError, match=r"ParticleSet takes x and θ apart.* ist\.Potential\(…\)"):
        random_model(architecture, x, 2)


def test_lists_become_a_matrix_with_named_columns() -> None:
    lists = [[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]]
    table = ist.pad_particles(lists, particles=2, names=["pt", "eta"])
    assert table.columns == ("pt_1", "eta_1", "pt_2", "eta_2")
    expected = [[1, 2, 0, 0], [0, 0, 0, 0], [3, 4, 5, 6]]
    np.testing.assert_array_equal(table.x, expected)
    arrays: Any = [np.array(one, np.float32) for one in lists]
    np.testing.assert_array_equal(ist.pad_particles(arrays, particles=2).x, expected)
    cube = np.arange(1.0, 13.0).reshape(2, 3, 2)
    table = ist.pad_particles(cube, particles=4, padding=-1.0)
    np.testing.assert_array_equal(table.x[:, :6], cube.reshape(2, 6))
    np.testing.assert_array_equal(table.x[:, 6:], np.full((2, 2), -1.0))
    assert table.columns[:3] == ("x0_1", "x1_1", "x0_2")


def test_awkward_arrays_become_the_same_matrix() -> None:
    records = ak.Array(
        [[{"pt": 1.0, "eta": 2.0}], [], [{"pt": 3.0, "eta": 4.0}, {"pt": 5.0, "eta": 6.0}]]
    )
    table = ist.pad_particles(records, particles=2)
    assert table.columns == ("pt_1", "eta_1", "pt_2", "eta_2")
    np.testing.assert_array_equal(table.x, [[1, 2, 0, 0], [0, 0, 0, 0], [3, 4, 5, 6]])
    numbers = ak.Array([[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]])
    np.testing.assert_array_equal(ist.pad_particles(numbers, particles=2).x, table.x)


def test_columns_of_the_whole_event_come_last() -> None:
    frame = pd.DataFrame({"met": [7.0, 8.0], "mass": [1.0, 2.0]})
    table = ist.pad_particles([[[1.0]], [[2.0]]], particles=2, names=["pt"], event=frame)
    assert table.columns == ("pt_1", "pt_2", "met", "mass")
    np.testing.assert_array_equal(table.x, [[1, 0, 7, 1], [2, 0, 8, 2]])
    plain = ist.pad_particles([[[1.0]], [[2.0]]], particles=1, event=frame.to_numpy())
    assert plain.columns == ("x0_1", "event0", "event1")


def test_a_table_is_read_with_its_names(trained: ist.Estimator) -> None:
    """By `Events` and by estimators, which see whether columns were exchanged."""
    table = ist.pad_particles([[[1.0, 2.0]]] * 3, particles=P, names=["pt", "eta"])
    events = ist.Events(x=table, theta=np.ones((3, 1)))
    assert events.x_names[:3] == ("pt_1", "eta_1", "pt_2")
    assert len(table) == 3
    theta = [1.0, 0.5]
    np.testing.assert_array_equal(trained.score(table, theta), trained.score(table.x, theta))
    named = ParticleTable(table.x, trained.x_names[::-1])
    with pytest.raises(ValueError, match="the columns of x are x11"):
        trained.score(named, theta)


def test_events_with_too_many_particles_are_refused_or_cut() -> None:
    lists = [[[1.0]], [[1.0], [2.0], [3.0]], [[4.0], [5.0]]]
    with pytest.raises(ValueError, match="more than 1 particles in rows 1, 2, up to 3.*truncate"):
        ist.pad_particles(lists, particles=1)
    table = ist.pad_particles(lists, particles=2, truncate=True)
    np.testing.assert_array_equal(table.x, [[1, 0], [1, 2], [4, 5]])


@pytest.mark.parametrize(
    ("events", "options", "error", "sentence"),
    [
        ([[[1.0, np.nan]]], {}, ValueError, "NaN or infinite features: row 0"),
        ([[[1.0]], [[0.0]]], {}, ValueError, "would be taken for padding.*row 1"),
        ([[[5.0]]], {"padding": 5.0}, ValueError, "5 in all its features"),
        ([[[1.0, 2.0]], [[1.0]]], {}, ValueError, "event 0 has 2 of them and event 1 1"),
        ([[1.0, 2.0]], {}, ValueError, r"event 0 must have two axes.*\[:, None\]"),
        ([[], []], {}, ValueError, "no event has any particle"),
        (ak.Array([[], []]), {}, ValueError, "no event has any particle"),
        (ak.Array([[[1.0, 2.0]], [[1.0]]]), {}, TypeError, "same numbers of features"),
        (ak.Array([1.0, 2.0]), {}, TypeError, "one list of particles for each event"),
        ({"pt": [1.0]}, {}, TypeError, "takes a list with an array.*got dict"),
        (3.0, {}, TypeError, "got float"),
        ([[[1.0]]], {"names": ["pt", "eta"]}, ValueError, "1 column but 2 names"),
        ([[[1.0]]], {"event": [[1.0], [2.0]]}, ValueError, "1 events, but event has 2 rows"),
        ([[[1.0]]], {"particles": 0}, ValueError, "particles must be at least 1"),
    ],
)
def test_what_cannot_be_padded_gets_a_sentence(
    events: Any, options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    settings: dict[str, Any] = {"particles": 2, **options}
    with pytest.raises(error, match=sentence):
        ist.pad_particles(events, **settings)
