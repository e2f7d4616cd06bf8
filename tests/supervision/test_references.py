"""Ratios to a reference: the label is calibrated against the exact ratio, whatever the counts."""

import math
from typing import Any

import jax
import numpy as np
import pytest
from exact_problem import BOX, FAILS, PASSES, calibration_z, log_p, simulate
from scipy import stats

import inferostatic as ist
from inferostatic.learning.methods import Method
from inferostatic.supervision.records import LabelledPair, ReferenceLabel
from inferostatic.supervision.supervision import Supply, supervise_many

pytestmark = pytest.mark.usefixtures("strict")

POINT = np.array([0.25, 0.1])
REFERENCE: Any = stats.norm([0.0, 0.0], [1.6, 1.3])


def log_reference(x: np.ndarray) -> np.ndarray:
    return REFERENCE.logpdf(x).sum(axis=1)


def reference_events(n: int, seed: int, weight: np.ndarray | None = None) -> ist.Events:
    x = np.random.default_rng(seed).normal(0.0, [1.6, 1.3], size=(n, 2))
    return ist.Events(x=x, theta=POINT, weight=weight, prior=BOX)


def supervised(method: Method, events: ist.Events, seed: int = 3) -> tuple[Supply, object]:
    supply = method.supply(events)
    keys = jax.random.split(jax.random.key(seed), len(supply.weight))
    return supply, supervise_many(method.supervision, supply.rows, supply.distribution, keys)


def point_log_ratio(x: np.ndarray, record: object) -> tuple[np.ndarray, np.ndarray]:
    """The exact ratio of each record, and its labels."""
    assert isinstance(record, LabelledPair)
    theta = np.asarray(record.theta0, np.float64)
    np.testing.assert_allclose(record.theta1, np.tile(POINT, (len(theta), 1)), rtol=1e-6)
    return log_p(x, theta) - log_p(x, POINT), np.asarray(record.label, np.float64)


def sample_log_ratio(x: np.ndarray, record: object) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(record, ReferenceLabel)
    theta = np.asarray(record.theta, np.float64)
    return log_p(x, theta) - log_reference(x), np.asarray(record.label, np.float64)


def test_drawn_against_a_point():
    records = ist.draw(ist.CARL(reference=POINT), simulate, BOX, 40_000, seed=1)
    log_ratio, label = point_log_ratio(records.x, records.record)
    assert abs(label.mean() - 0.5) < PASSES * 0.5 / 200
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    assert np.abs(calibration_z(label, -log_ratio)).max() > FAILS
    # The θ beside a reference event follows the same law as the others.
    theta = np.asarray(records.record.theta0)  # type: ignore[attr-defined]
    same: Any = stats.ks_2samp(theta[label == 0, 0], theta[label == 1, 0])
    assert same.pvalue > 1e-4


def finite_design(counts: list[int], seed: int) -> ist.Events:
    """Events at four points and at the reference, in the given numbers."""
    points = np.array([[-0.6, -0.3], [0.4, 0.7], [1.2, -0.1], [-0.2, 0.5], POINT])
    theta = np.repeat(points, counts, axis=0)
    return ist.Events(x=simulate(theta, np.random.default_rng(seed)), theta=theta)


def test_stored_against_a_point_of_a_finite_design():
    events = finite_design([15_000, 3_000, 9_000, 3_000, 12_000], seed=2)
    supply, record = supervised(ist.CARL(reference=POINT), events)
    log_ratio, label = point_log_ratio(events.x, record)
    assert supply.weight[label == 1].sum() == pytest.approx(supply.weight[label == 0].sum())
    assert np.abs(calibration_z(label, log_ratio, supply.weight)).max() < PASSES
    # Without the balance of the classes it is not.
    assert np.abs(calibration_z(label, log_ratio)).max() > FAILS
    # Beside reference events the θ occur as often as they do beside the others.
    assert isinstance(record, LabelledPair)
    theta = np.asarray(record.theta0)[label == 1, 0].round(3)
    counts = np.array([np.sum(theta == value) for value in (-0.6, 0.4, 1.2, -0.2)])
    share = np.array([0.5, 0.1, 0.3, 0.1])
    error = np.sqrt(12_000 * share * (1 - share))
    assert np.abs((counts - 12_000 * share) / error).max() < PASSES


def test_stored_against_a_point_with_a_continuous_prior():
    wide = ist.simulate(simulate, BOX, 30_000, seed=4)
    theta = np.tile(POINT, (10_000, 1))
    at_point = ist.Events(x=simulate(theta, np.random.default_rng(5)), theta=theta, prior=BOX)
    x_names, theta_names = wide.x_names, wide.theta_names
    assert (at_point.x_names, at_point.theta_names) == (x_names, theta_names)
    events = ist.Events.concatenate([wide, at_point], prior=BOX)
    supply, record = supervised(ist.CARL(reference=POINT), events)
    log_ratio, label = point_log_ratio(events.x, record)
    assert label.sum() == 10_000
    assert np.abs(calibration_z(label, log_ratio, supply.weight)).max() < PASSES
    assert np.abs(calibration_z(label, log_ratio)).max() > FAILS


@pytest.mark.parametrize("number", [10_000, 60_000])
def test_stored_against_a_sample(number):
    events = ist.simulate(simulate, BOX, 30_000, seed=6)
    supply, record = supervised(ist.DCTR(reference_events(number, seed=7)), events)
    log_ratio, label = sample_log_ratio(np.asarray(supply.rows.x, np.float64), record)
    assert label.sum() == number
    assert np.abs(calibration_z(label, log_ratio, supply.weight)).max() < PASSES
    assert np.abs(calibration_z(label, log_ratio)).max() > FAILS


def test_weights_of_both_signs_in_the_reference_sample():
    # A quarter of the reference events counts negatively; thinning the rest by the same density
    # leaves the density as it was: weights ±1 drawn independently of x.
    sign = np.where(np.random.default_rng(8).random(60_000) < 0.25, -1.0, 1.0)
    events = ist.simulate(simulate, BOX, 30_000, seed=9)
    supply, record = supervised(ist.DCTR(reference_events(60_000, seed=10, weight=sign)), events)
    log_ratio, label = sample_log_ratio(np.asarray(supply.rows.x, np.float64), record)
    assert supply.weight[label == 1].sum() == pytest.approx(30_000)
    assert np.abs(calibration_z(label, log_ratio, supply.weight)).max() < PASSES


def test_drawn_against_a_sample():
    method = ist.CARL(reference=reference_events(20_000, seed=11))
    records = ist.draw(method, simulate, BOX, 40_001, seed=12)
    log_ratio, label = sample_log_ratio(records.x, records.record)
    assert label.sum() == 20_000
    assert np.abs(calibration_z(label, log_ratio)).max() < PASSES
    assert np.abs(calibration_z(label, -log_ratio)).max() > FAILS


def test_drawn_reference_events_follow_their_weights():
    weight = np.tile([3.0, 1.0, 0.0, 2.0], 500)
    method = ist.CARL(reference=reference_events(2000, seed=13, weight=weight))
    records = ist.draw(method, simulate, BOX, 20_000, seed=14)
    position = {value: i % 4 for i, value in enumerate(method.supervision.x[:, 0])}  # type: ignore[attr-defined]
    chosen = np.bincount([position[value] for value in records.x[10_000:, 0]], minlength=4)
    share = np.array([3, 1, 0, 2]) / 6
    error = np.sqrt(10_000 * share * (1 - share)) + 1e-9
    assert np.abs((chosen - 10_000 * share) / error).max() < PASSES
    negative = ist.CARL(reference=reference_events(4, seed=1, weight=np.array([2.0, -1.0, 1, 1])))
    with pytest.raises(ValueError, match="weights of both signs do not allow"):
        ist.draw(negative, simulate, BOX, 10, seed=1)


def test_refusals():
    events = finite_design([5, 5, 5, 5, 5], seed=15)
    with pytest.raises(ValueError, match="0 of 25 stored events were simulated at the reference"):
        ist.CARL(reference=[9.0, 9.0]).supply(events)
    with pytest.raises(ValueError, match="both these and others are needed"):
        ist.CARL(reference=POINT).supply(finite_design([0, 0, 0, 0, 5], seed=15))
    with pytest.raises(ValueError, match="reference point has 1 values but there are 2"):
        ist.CARL(reference=[1.0]).supply(events)
    with pytest.raises(ValueError, match="reference events have 3 observables, the events 2"):
        ist.DCTR(ist.Events(x=np.zeros((4, 3)), theta=POINT)).supply(events)
    with pytest.raises(ValueError, match="must be one parameter point"):
        ist.CARL(reference=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="either reference= or pairs="):
        ist.CARL(reference=POINT, pairs=ist.Independent())
    cancelling = np.ones(25)
    cancelling[-5:] = [1.0, -1.0, 1.0, -1.0, 0.0]
    weighted = ist.Events(x=events.x, theta=events.theta, weight=cancelling)
    with pytest.raises(ValueError, match="add up to 0, not above 0"):
        ist.CARL(reference=POINT).supply(weighted)


def test_the_reference_point_belongs_to_the_trusted_region():
    theta = np.concatenate([np.repeat([[0.0, 0.0], [0.5, 0.5]], 5, axis=0), [[2.0, -1.0]] * 3])
    events = ist.Events(x=np.zeros((13, 2)), theta=theta)
    distribution = ist.CARL(reference=[2.0, -1.0]).supply(events).distribution
    np.testing.assert_allclose(distribution.low, [0.0, -1.0])
    np.testing.assert_allclose(distribution.high, [2.0, 0.5])
    assert math.isclose(float(np.sum(distribution.prior.probability)), 1.0, rel_tol=1e-6)  # type: ignore[attr-defined]
