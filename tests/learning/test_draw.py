"""The paper's flowcharts, read back from simulators that return their own parameters.

With x = θ of the simulation, every record shows where its event was simulated, so that targets,
labels and signs can be checked exactly.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist

Array = jax.Array

BOX = ist.Uniform([0.5, 0.5, 0.5], [5.0, 5.0, 5.0], names=["a", "b", "c"])
N = 2000


def echo(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A simulator without noise, whose event is its parameter."""
    del rng
    return theta.copy()


def as_float64(value: Any) -> np.ndarray:
    return np.asarray(value, np.float64)


def test_kse_simulates_at_theta_plus_epsilon() -> None:
    """Form 1 with linear ψ: y = ε/(λ²μ₂), and μ₂ = 1 for the delta kernel."""
    records = ist.draw(ist.KSE(ist.Delta(0.25)), echo, BOX, N, seed=1)
    record: Any = records.record
    epsilon = records.x - as_float64(record.theta)
    np.testing.assert_allclose(np.abs(epsilon), 0.25, atol=1e-6)
    np.testing.assert_allclose(record.target, epsilon / 0.25**2, rtol=1e-5)
    assert (np.asarray(record.weight) == 1).all()
    corners = np.unique(np.sign(epsilon), axis=0)
    assert len(corners) == 8
    theta = as_float64(record.theta)
    assert BOX.contains(theta).all()
    assert not BOX.contains(records.x).all()


@pytest.mark.parametrize(
    ("kernel", "mu2"),
    [
        (ist.Rectangular([0.1, 0.2, 0.4]), 1 / 3),
        (ist.Triangular([0.1, 0.2, 0.4]), 1 / 6),
        (ist.Epanechnikov([0.1, 0.2, 0.4]), 1 / 5),
        (ist.Gaussian([0.1, 0.2, 0.4]), 1.0),
    ],
    ids=["rectangular", "triangular", "epanechnikov", "gaussian"],
)
def test_targets_carry_the_moment_of_their_kernel(kernel: Any, mu2: float) -> None:
    records = ist.draw(ist.KSE(kernel), echo, BOX, N, seed=1)
    record: Any = records.record
    epsilon = records.x - as_float64(record.theta)
    widths = np.array([0.1, 0.2, 0.4])
    np.testing.assert_allclose(record.target, epsilon / (mu2 * widths**2), rtol=1e-3, atol=1e-3)


def wider_at_large_theta(theta: Array) -> Array:
    return 0.05 * theta


def test_a_width_may_depend_on_theta() -> None:
    records = ist.draw(ist.KSE(ist.Delta(wider_at_large_theta)), echo, BOX, N, seed=1)
    record: Any = records.record
    theta = as_float64(record.theta)
    epsilon = records.x - theta
    np.testing.assert_allclose(np.abs(epsilon), 0.05 * theta, rtol=1e-4)
    np.testing.assert_allclose(record.target, epsilon / (0.05 * theta) ** 2, rtol=1e-3)


@pytest.mark.parametrize(
    "method",
    [ist.KLRE(ist.Rectangular(0.4)), ist.CARL(), ist.CARL(reference=[1.0, 2.0, 3.0])],
    ids=["KLRE", "CARL", "reference"],
)
def test_label_zero_means_that_x_came_from_theta0(method: Any) -> None:
    """The sign that the whole package rests on."""
    records = ist.draw(method, echo, BOX, N, seed=1)
    record: Any = records.record
    label = np.asarray(record.label)
    origin = np.where(label[:, None] == 0, record.theta0, record.theta1)
    np.testing.assert_allclose(records.x, origin, rtol=1e-6)
    assert set(label.tolist()) == {0.0, 1.0}
    # A fair coin: five standard deviations.
    assert abs(label.mean() - 0.5) < 5 * 0.5 / np.sqrt(N)


def test_kernel_pairs_are_neighbours_in_random_order() -> None:
    records = ist.draw(ist.KLRE(ist.Rectangular(0.4)), echo, BOX, N, seed=2)
    record: Any = records.record
    theta0, theta1 = as_float64(record.theta0), as_float64(record.theta1)
    assert np.abs(theta0 - theta1).max() <= 0.4 + 1e-6
    assert np.abs(theta0 - theta1).max() > 0.39
    outside = [1 - BOX.contains(theta).mean() for theta in (theta0, theta1)]
    # A uniform step of up to λ leaves an interval of length 4.5 with probability λ/9; half of the
    # displaced partners are called θ0.
    expected = (1 - (1 - 0.4 / 9) ** 3) / 2
    for share in outside:
        assert share == pytest.approx(expected, abs=0.03)


def test_independent_pairs_are_independent() -> None:
    record: Any = ist.draw(ist.CARL(), echo, BOX, N, seed=3).record
    theta0, theta1 = as_float64(record.theta0), as_float64(record.theta1)
    correlation = np.corrcoef(theta0[:, 0], theta1[:, 0])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(N)
    assert BOX.contains(theta0).all()
    assert BOX.contains(theta1).all()


def test_a_reference_point_is_always_theta1() -> None:
    record: Any = ist.draw(ist.DCTR([1.0, 2.0, 3.0]), echo, BOX, N, seed=4).record
    np.testing.assert_allclose(record.theta1, np.tile([1.0, 2.0, 3.0], (N, 1)), rtol=1e-6)


def test_the_true_candidate_comes_first() -> None:
    records = ist.draw(ist.KCE(number=4), echo, BOX, N, seed=5)
    record: Any = records.record
    thetas = as_float64(record.thetas)
    assert thetas.shape == (N, 5, 3)
    np.testing.assert_allclose(thetas[:, 0], records.x, rtol=1e-6)
    assert np.abs(thetas[:, 1:] - records.x[:, None]).min() > 0
    assert (np.asarray(record.answer) == 0).all()


def test_a_reference_sample_provides_half_of_the_records() -> None:
    reference = ist.Events(x=np.full((10, 3), 77.0), theta=[0.0], weight=np.arange(10.0))
    records = ist.draw(ist.DCTR(reference), echo, BOX, 101, seed=6)
    record: Any = records.record
    label = np.asarray(record.label)
    np.testing.assert_array_equal(label == 1, (records.x == 77.0).all(axis=1))
    assert label.sum() == 50
    np.testing.assert_allclose(records.x[label == 0], record.theta[label == 0], rtol=1e-6)


def test_the_same_seed_gives_the_same_records() -> None:
    method = ist.KLRE(ist.Rectangular(0.4))
    toy = ist.toys.Dirichlet()
    first, again, other = (ist.draw(method, toy, BOX, 50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x, again.x)
    for one, two in zip(jax.tree.leaves(first.record), jax.tree.leaves(again.record), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first.x, other.x)


def test_records_know_their_names_and_can_be_cut() -> None:
    records = ist.draw(ist.KSE(ist.Delta(0.25)), ist.toys.Dirichlet(), BOX, 50, seed=1)
    assert records.theta_names == ("a", "b", "c")
    assert records.x_names == ist.toys.Dirichlet().x_names
    part = records[10:15]
    assert len(part) == 5
    np.testing.assert_array_equal(part.x, records.x[10:15])
    whole, cut = (jax.tree.leaves(r.record) for r in (records, part))
    for one, two in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one[10:15], two)
    assert ist.draw(ist.CARL(), echo, BOX, 3, seed=1).x_names == ("x0", "x1", "x2")


def fails_below_a_half(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    del rng
    if (theta < 0.5).any():
        raise ValueError("theta must be at least 0.5")
    return theta


def nan_below_a_half(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    del rng
    return np.where(theta < 0.5, np.nan, theta)


def test_a_simulator_that_cannot_go_outside_the_prior_is_explained() -> None:
    why = r"Kernel Score Estimation simulates at θ \+ ε, up to \[0.25, 0.25, 0.25\] outside the"
    with pytest.raises(RuntimeError, match=why):
        ist.draw(ist.KSE(ist.Delta(0.25)), fails_below_a_half, BOX, N, seed=1)
    with pytest.raises(ValueError, match=why):
        ist.draw(ist.KSE(ist.Delta(0.25)), nan_below_a_half, BOX, N, seed=1)
    with pytest.raises(RuntimeError, match="of the pairs have the simulated θ outside the prior"):
        ist.draw(ist.KLRE(ist.Rectangular(0.4)), fails_below_a_half, BOX, N, seed=1)
    ist.draw(ist.CARL(), fails_below_a_half, BOX, 10, seed=1)


def nan_at_large_theta(theta: Array) -> Array:
    return jnp.where(theta > 4, jnp.nan, 0.1)


def by_x_and_theta(x: Array, theta: Array) -> Array:
    return 0.1 + 0 * x[0] + 0 * theta


def test_records_that_cannot_be_drawn_get_a_sentence() -> None:
    call: Any = ist.draw
    mix = ist.Mix([(1.0, ist.CARL()), (1.0, ist.KSE(ist.Delta(0.1)))])
    with pytest.raises(TypeError, match="draw takes one method, .* got a Mix"):
        call(mix, echo, BOX, 10, seed=1)
    with pytest.raises(TypeError, match="draw takes one method"):
        call("KSE", echo, BOX, 10, seed=1)
    with pytest.raises(TypeError, match=r"prior must be a prior such as ist\.Uniform"):
        call(ist.CARL(), echo, [0, 1], 10, seed=1)
    with pytest.raises(ValueError, match="n must be at least 1"):
        call(ist.CARL(), echo, BOX, 0, seed=1)
    with pytest.raises(TypeError, match="seed must be an int"):
        call(ist.CARL(), echo, BOX, 10, seed=None)
    with pytest.raises(ValueError, match="x is not known before it is simulated"):
        call(ist.KSE(ist.Delta(by_x_and_theta)), echo, BOX, 10, seed=1)
    with pytest.raises(ValueError, match="the reference point has 2 values but there are 3"):
        call(ist.CARL(reference=[1.0, 2.0]), echo, BOX, 10, seed=1)


def test_records_with_bad_numbers_name_their_rows() -> None:
    records = ist.draw(ist.KSE(ist.Delta(0.25)), echo, BOX, 20, seed=1)
    record: Any = records.record
    bad = as_float64(record.target).copy()
    bad[[2, 5], 0] = np.nan
    broken = dataclasses.replace(record, target=jnp.asarray(bad.astype(np.float32)))
    with pytest.raises(
        ValueError, match="target of the drawn records is NaN or infinite in rows 2"
    ):
        dataclasses.replace(records, record=broken)
    with pytest.raises(ValueError, match="NaN or infinite"):
        ist.draw(ist.KSE(ist.Delta(nan_at_large_theta)), echo, BOX, 100, seed=1)
    with pytest.raises(ValueError, match="exceeds float32's largest number"):
        dataclasses.replace(records, x=np.full_like(records.x, 1e60))


def test_records_are_fitted_with_their_own_method() -> None:
    records = ist.draw(ist.KSE(ist.Delta(0.25)), echo, BOX, 20, seed=1)
    with pytest.raises(ValueError, match="these records were drawn for KSE"):
        ist.fit(records, ist.KSE(ist.Delta(0.3)), seed=1)
    with pytest.raises(ValueError, match="these records were drawn for KSE"):
        ist.fit(records, ist.CARL(), seed=1)
    with pytest.raises(TypeError, match="KSE trains score, but .* offers only log_ratio"):
        ist.fit(records, ist.KSE(ist.Delta(0.25)), network=ist.DirectRatio(), seed=1)


def test_a_reference_outside_the_prior_belongs_to_the_trained_region() -> None:
    """It was trained at, so comparing with it is no extrapolation."""
    records = ist.draw(ist.CARL(reference=[6.0, 2.0, 0.25]), echo, BOX, 40, seed=1)
    training = ist.Training(epochs=1, batch_size=64)
    estimator = ist.fit(records, network=ist.MLP((4,)), training=training, seed=1)
    np.testing.assert_allclose(estimator.region.theta_low, [0.5, 0.5, 0.25])
    np.testing.assert_allclose(estimator.region.theta_high, [6.0, 5.0, 5.0])
    assert estimator.log_ratio([[1.0, 1.0, 1.0]], [1.0, 1.0, 1.0], [6.0, 2.0, 0.25]).shape == (1,)
