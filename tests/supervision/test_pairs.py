"""Pair laws: their shape, fair labels, and events that came from θ_y."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import BOX, FAILS, HIGH, LOW, PASSES, calibration_z, log_p, simulate
from jaxtyping import Array
from scipy import stats

import inferostatic as ist
from inferostatic.learning.methods import Method
from inferostatic.supervision.records import LabelledPair
from inferostatic.supervision.supervision import supervise_many
from inferostatic.world.toys import Dirichlet

pytestmark = pytest.mark.usefixtures("strict")


def parts_of(record: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert isinstance(record, LabelledPair)
    assert np.all(np.asarray(record.weight) == 1)
    parts = (record.theta0, record.theta1, record.label)
    theta0, theta1, label = (np.asarray(part, np.float64) for part in parts)
    return theta0, theta1, label


def stored_pairs(method: Method, events: ist.Events, seed: int = 3) -> LabelledPair:
    supply = method.supply(events)
    keys = jax.random.split(jax.random.key(seed), len(events))
    record = supervise_many(method.supervision, supply.rows, supply.distribution, keys)
    assert isinstance(record, LabelledPair)
    return record


def fair(label: np.ndarray) -> bool:
    assert set(np.unique(label)) == {0.0, 1.0}
    return abs(label.mean() - 0.5) < PASSES * 0.5 / np.sqrt(len(label))


def test_task_2_of_the_paper():
    toy, prior = Dirichlet(3), ist.Uniform([0.5] * 3, [5.0] * 3)
    n = 40_000
    records = ist.draw(ist.KLRE(ist.Rectangular(0.4)), toy, prior, n, seed=1)
    theta0, theta1, label = parts_of(records.record)
    assert fair(label)
    out0, out1 = ~prior.contains(theta0), ~prior.contains(theta1)
    # One of the two comes from the prior; each of them is as often the one that lies outside.
    assert not np.any(out0 & out1)
    assert np.mean(out0 | out1) == pytest.approx(0.13, abs=0.01)
    assert abs(out0.sum() - out1.sum()) < PASSES * np.sqrt(out0.sum() + out1.sum())
    # 1 − (1 − 0.2/4.5)³ exactly.
    assert np.mean(out0 | out1) == pytest.approx(1 - (1 - 0.2 / 4.5) ** 3, abs=4.5 * 0.33 / 200)
    for step in ((theta1 - theta0) / 0.4).T:
        assert stats.kstest(step, stats.uniform(-1, 2).cdf).pvalue > 1e-4
    log_ratio = toy.log_prob(records.x, theta0) - toy.log_prob(records.x, theta1)
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    assert np.abs(calibration_z(1 - label, log_ratio)).max() > FAILS


DRAWN = {
    "KLRE": ist.KLRE(ist.Gaussian([0.8, 0.4])),
    "KLRE, width grows": ist.KLRE(ist.Rectangular(lambda theta: 0.7 + 0.3 * theta[0])),
    "CARL": ist.CARL(),
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_labels_are_calibrated(name):
    records = ist.draw(DRAWN[name], simulate, BOX, 40_000, seed=2)
    theta0, theta1, label = parts_of(records.record)
    assert fair(label)
    log_ratio = log_p(records.x, theta0) - log_p(records.x, theta1)
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    assert np.abs(calibration_z(label, -log_ratio)).max() > FAILS
    assert np.abs(calibration_z(label, 1.2 * log_ratio)).max() > PASSES


STORED = {
    "KLRE": ist.KLRE(ist.Rectangular([1.5, 0.8])),
    "KLRE, width grows": ist.KLRE(ist.Rectangular(lambda theta: 0.7 + 0.3 * theta[0])),
    "KLRE, width depends on x": ist.KLRE(
        ist.Gaussian(lambda x, theta: 0.3 + 0.2 * jnp.abs(x) + 0.1 * jnp.abs(theta))
    ),
    "CARL": ist.CARL(),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_labels_are_calibrated(name):
    events = ist.simulate(simulate, BOX, 40_000, seed=4)
    theta0, theta1, label = parts_of(stored_pairs(STORED[name], events))
    assert fair(label)
    # θ_y is the stored one, bit for bit.
    origin = np.where(label[:, None] == 1, theta1, theta0)
    np.testing.assert_array_equal(origin, events.theta.astype(np.float32))
    assert BOX.contains(theta0).all()
    assert BOX.contains(theta1).all()
    log_ratio = log_p(events.x, theta0) - log_p(events.x, theta1)
    moved = np.any(theta0 != theta1, axis=1)
    assert np.mean(moved) > 0.3
    assert np.abs(calibration_z(label[moved], log_ratio[moved])).max() < PASSES
    assert np.abs(calibration_z(label[moved], -log_ratio[moved])).max() > FAILS


def test_independent_pairs_are_independent_draws_from_the_prior():
    records = ist.draw(ist.CARL(), simulate, BOX, 20_000, seed=5)
    theta0, theta1, label = parts_of(records.record)
    for theta in (theta0, theta1):
        for i in (0, 1):
            distribution = stats.uniform(LOW[i], HIGH[i] - LOW[i])
            assert stats.kstest(theta[:, i], distribution.cdf).pvalue > 1e-4
    table = np.corrcoef(np.concatenate([theta0.T, theta1.T, label[None]]))
    assert np.abs(table - np.eye(5)).max() < PASSES / np.sqrt(20_000)


def test_different_seeds_give_different_pairs():
    first, same, other = (
        parts_of(ist.draw(ist.CARL(), simulate, BOX, 50, seed=seed).record) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first[0], same[0])
    assert np.all(first[0] != other[0])


def far_pair(key: Array) -> tuple[Array, Array]:
    first, second = jax.random.split(key)
    low = jax.random.uniform(first, (2,), minval=-1.0, maxval=0.0)
    return low, low + jax.random.uniform(second, (2,))


def mirror(theta: Array, key: Array) -> Array:
    # The reflection of a uniform box at its centre: deterministic, and its own inverse.
    del key
    return jnp.asarray(LOW + HIGH, jnp.float32) - theta


def test_custom_pairs_of_any_law():
    method = ist.CARL(pairs=ist.CustomPairs(draw_pair=far_pair))
    records = ist.draw(method, simulate, BOX, 40_000, seed=6)
    theta0, theta1, label = parts_of(records.record)
    assert np.all(theta1 > theta0)
    assert fair(label)
    log_ratio = log_p(records.x, theta0) - log_p(records.x, theta1)
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    with pytest.raises(TypeError, match="needs? its draw_partner"):
        stored_pairs(method, ist.simulate(simulate, BOX, 10, seed=1))


def test_custom_partners_of_stored_events():
    method = ist.CARL(pairs=ist.CustomPairs(draw_partner=mirror))
    events = ist.simulate(simulate, BOX, 40_000, seed=7)
    theta0, theta1, label = parts_of(stored_pairs(method, events))
    np.testing.assert_allclose(theta0 + theta1, np.tile(LOW + HIGH, (40_000, 1)), atol=1e-6)
    log_ratio = log_p(events.x, theta0) - log_p(events.x, theta1)
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    with pytest.raises(TypeError, match="needs its draw_pair"):
        ist.draw(method, simulate, BOX, 10, seed=1)


def test_custom_pairs_must_be_traceable():
    sentence = "user-supplied distribution of pairs is used inside the compiled loop and must be"

    def branching(key: Array) -> tuple[Array, Array]:
        u = jax.random.uniform(key, (2,))
        return (u, -u) if u[0] > 0.5 else (-u, u)

    def through_numpy(theta: Array, key: Array) -> Array:
        del key
        return jnp.asarray(np.asarray(theta) + 1)

    with pytest.raises(TypeError, match=sentence):
        ist.draw(ist.CARL(pairs=ist.CustomPairs(branching)), simulate, BOX, 10, seed=1)
    method = ist.CARL(pairs=ist.CustomPairs(draw_partner=through_numpy))
    with pytest.raises(TypeError, match=sentence):
        stored_pairs(method, ist.simulate(simulate, BOX, 10, seed=1))


def test_the_simulator_is_told_why_it_is_asked_outside_the_prior():
    prior = ist.Uniform([0.5] * 3, [5.0] * 3)
    with pytest.raises(RuntimeError, match="% of the pairs have the simulated θ outside the prior"):
        ist.draw(ist.KLRE(ist.Rectangular(0.9)), Dirichlet(3), prior, 2000, seed=1)
    with pytest.raises(ValueError, match="only stored events can use"):
        ist.draw(ist.KLRE(ist.Rectangular(lambda x, theta: 0.1)), simulate, BOX, 10, seed=1)
