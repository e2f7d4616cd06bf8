"""Estimators: batched, in the user's units, bounded in memory, honest about what they cannot do.

They are built here without training, with random weights, and compared with NumPy.
"""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.estimator.estimator import AbstractEstimator
from optional import OptionalPackage
from random_estimators import HIGH, LOW, random_estimator

pd = OptionalPackage("pandas")
ak = OptionalPackage("awkward")

Array = jax.Array

NETWORK = ist.MLP((6, 5), activation=jnp.tanh)


RAW = ist.Potential(NETWORK, ist.Raw(), ist.Raw())


@pytest.fixture(scope="module")
def potential() -> ist.Estimator:
    return random_estimator(RAW)


@pytest.fixture(scope="module")
def score() -> ist.ScoreEstimator:
    return random_estimator(ist.DirectScore(NETWORK))


@pytest.fixture(scope="module")
def ratio() -> ist.RatioEstimator:
    return random_estimator(ist.DirectRatio(NETWORK))


def some(n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Events and two sets of parameters inside the trained region."""
    rng = np.random.default_rng(seed)
    theta0, theta1 = rng.uniform(LOW, HIGH, size=(2, n, 2))
    return rng.uniform(-2, 2, size=(n, 3)), theta0, theta1


def numpy_potential(estimator: AbstractEstimator, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """φ of every member and event, in double precision, for raw features and tanh."""
    values = []
    for member in range(estimator.members):
        a = np.concatenate([x, theta], axis=1)
        *hidden, last = estimator.model.network.layers
        for layer in hidden:
            weight = np.asarray(layer.weight[member], np.float64)
            a = np.tanh(a @ weight.T + np.asarray(layer.bias[member], np.float64))
        weight = np.asarray(last.weight[member], np.float64)
        values.append((a @ weight.T + np.asarray(last.bias[member], np.float64))[:, 0])
    return np.array(values)


def test_values_are_means_over_members(potential: ist.Estimator) -> None:
    """Against NumPy, with slopes by finite differences."""
    x, theta0, theta1 = some(50)
    phi0, phi1 = (numpy_potential(potential, x, theta).mean(axis=0) for theta in (theta0, theta1))
    np.testing.assert_allclose(potential.potential(x, theta0), phi0, atol=1e-5)
    np.testing.assert_allclose(potential.log_ratio(x, theta0, theta1), phi0 - phi1, atol=1e-5)
    h = 1e-6
    slopes = [
        (numpy_potential(potential, x, theta0 + s) - numpy_potential(potential, x, theta0 - s))
        for s in h * np.eye(2)
    ]
    expected = np.stack(slopes, axis=2).mean(axis=0) / (2 * h)
    np.testing.assert_allclose(potential.score(x, theta0), expected, atol=2e-5)


def test_results_are_numpy_of_one_value_for_each_event(
    potential: ist.Estimator, score: ist.ScoreEstimator, ratio: ist.RatioEstimator
) -> None:
    x, theta0, theta1 = some(50)
    for value, shape in (
        (potential.potential(x, theta0), (50,)),
        (potential.score(x, theta0), (50, 2)),
        (potential.log_ratio(x, theta0, theta1), (50,)),
        (score.score(x, theta0), (50, 2)),
        (ratio.log_ratio(x, theta0, theta1), (50,)),
    ):
        assert type(value) is np.ndarray
        assert value.dtype == np.float64
        assert value.shape == shape


def test_one_theta_serves_all_events_and_one_event_all_theta(potential: ist.Estimator) -> None:
    x, theta0, theta1 = some(50)
    one = theta0[3]
    tiled = np.tile(one, (50, 1))
    np.testing.assert_array_equal(potential.score(x, one), potential.score(x, tiled))
    np.testing.assert_array_equal(potential.score(x, one[None]), potential.score(x, tiled))
    np.testing.assert_array_equal(
        potential.log_ratio(x, theta0, theta1[0]),
        potential.log_ratio(x, theta0, np.tile(theta1[0], (50, 1))),
    )
    np.testing.assert_array_equal(
        potential.potential(x[:1], theta0), potential.potential(np.tile(x[:1], (50, 1)), theta0)
    )
    assert potential.potential(x[:1], one).shape == (1,)


def test_the_bound_on_memory_changes_nothing_else(potential: ist.Estimator) -> None:
    """Chunks of 16 events, the last one padded, against a single one."""
    x, theta0, theta1 = some(50)
    for name, arguments in (
        ("potential", (x, theta0)),
        ("score", (x, theta0)),
        ("log_ratio", (x, theta0, theta1)),
    ):
        tiny = getattr(potential, name)(*arguments, memory_mb=1e-3)
        large = getattr(potential, name)(*arguments, memory_mb=1e3)
        np.testing.assert_allclose(tiny, large, rtol=0, atol=2e-6, err_msg=name)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="memory_mb must be a finite number above 0"):
            potential.score(x, theta0, memory_mb=bad)


def test_any_array_library_gives_the_same_values(potential: ist.Estimator) -> None:
    x, theta, _ = some(50)
    x, theta = x.astype(np.float32), theta.astype(np.float32)
    expected = potential.score(x, theta)
    observables, parameters = ["pt", "eta", "phi"], ["mass", "width"]
    forms: list[tuple[Any, Any]] = [
        (x.astype(np.float64), theta.astype(np.float64)),
        (x.tolist(), theta.tolist()),
        (jnp.asarray(x), jnp.asarray(theta)),
        (pd.DataFrame(x, columns=observables), pd.DataFrame(theta, columns=parameters)),
        (ak.Array(x.tolist()), ak.from_numpy(theta)),
    ]
    for x_form, theta_form in forms:
        np.testing.assert_array_equal(potential.score(x_form, theta_form), expected)
    whole = np.round(theta).astype(int)
    np.testing.assert_array_equal(
        potential.score(x, whole), potential.score(x, whole.astype(np.float64))
    )


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        ("score", "log_ratio"),
        ("score", "potential"),
        ("ratio", "score"),
        ("ratio", "potential"),
    ],
)
def test_what_a_model_cannot_do_it_says(
    kind: str, absent: str, request: pytest.FixtureRequest
) -> None:
    estimator = request.getfixturevalue(kind)
    with pytest.raises(ist.CapabilityError, match=f"it has no {absent}. Train a potential instead"):
        getattr(estimator, absent)
    assert issubclass(ist.CapabilityError, AttributeError)
    assert not hasattr(estimator, absent)
    with pytest.raises(AttributeError, match="has no attribute 'posterior'"):
        _ = estimator.posterior


def test_theta_outside_the_trained_region_warns(potential: ist.Estimator) -> None:
    x, theta, inside = some(20)
    theta[[4, 9], 1] = 3.5
    with pytest.warns(UserWarning, match=r"outside the trained region, .* in rows 4, 9;") as caught:
        values = potential.score(x, theta)
    assert np.isfinite(values).all()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="Simulate wider than you evaluate"):
        potential.log_ratio(x, inside, theta)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        potential.score(x, np.broadcast_to(HIGH, (20, 2)))


def test_events_outside_the_range_of_training_warn(potential: ist.Estimator) -> None:
    """More than one in a hundred; a few are to be expected in fresh data."""
    x, theta, _ = some(200)
    x[:2, 0] = 2.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        potential.score(x, theta)
    x[2, 0] = -2.5
    with pytest.warns(UserWarning, match=r"1\.5% of the events lie outside .*rows 0, 1, 2"):
        potential.score(x, theta)


def test_the_edges_of_the_training_range_are_inside(potential: ist.Estimator) -> None:
    """The range is known in float32: 0.7 becomes 0.69999999 there."""
    edge = np.full(3, np.float32(0.7), np.float64)
    assert (edge < 0.7).all()
    region = dataclasses.replace(potential.region, x_low=-edge, x_high=edge)
    narrow = dataclasses.replace(potential, region=region)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow.score([[0.7, -0.7, 0.0]], [1.0, 1.0])


@pytest.mark.parametrize(
    ("x", "theta", "sentence"),
    [
        (np.zeros((5, 2)), np.zeros((5, 3)), r"They look swapped: the order is \(x, theta\)"),
        (np.zeros((5, 4)), np.zeros((5, 2)), r"expected x with 3 columns \(pt, eta, phi\)"),
        (np.zeros((5, 3)), np.zeros((5, 3)), r"and theta with 2 \(mass, width\); got x of shape"),
        (np.zeros((5, 3)), np.zeros((4, 2)), "one θ for each event, one θ for all events, or one"),
        (np.zeros(2), np.zeros(2), r"for one event x\[None, :\]"),
        (np.zeros((5, 3, 1)), np.zeros(2), r"x must have two axes"),
        (np.zeros((0, 3)), np.zeros(2), "there are no events to evaluate"),
        (np.zeros((5, 3)), np.zeros((0, 2)), "there are no events to evaluate"),
        (np.full((5, 3), np.nan), np.zeros(2), "x has NaN or infinite values in rows 0, 1, 2"),
        (np.zeros((5, 3)), [np.inf, 0.0], "theta has NaN or infinite values in row 0"),
        (np.full((5, 3), 1e300), np.zeros(2), "x exceeds float32's largest number"),
        (np.zeros((5, 3)), [0.0, 1e60], "theta exceeds float32's largest number"),
    ],
)
def test_what_cannot_be_evaluated_gets_a_sentence(
    potential: ist.Estimator, x: Any, theta: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        potential.score(x, theta)
    with pytest.raises(ValueError, match=sentence):
        potential.log_ratio(x, theta, theta)


def test_one_event_needs_no_axis(
    potential: ist.Estimator, score: ist.ScoreEstimator, ratio: ist.RatioEstimator
) -> None:
    x, theta, other = some(1)
    for one, many in (
        (potential.potential(x[0], theta), potential.potential(x, theta)),
        (potential.score(x[0], theta[0]), potential.score(x, theta)),
        (potential.log_ratio(x[0], theta, other), potential.log_ratio(x, theta, other)),
        (potential.potential_grid(x[0], theta), potential.potential_grid(x, theta)),
        (score.score(x[0], theta), score.score(x, theta)),
        (ratio.log_ratio(x[0], theta, other), ratio.log_ratio(x, theta, other)),
    ):
        np.testing.assert_array_equal(one, many)


def test_what_is_not_numbers_gets_a_sentence(potential: ist.Estimator) -> None:
    with pytest.raises(TypeError, match="x could not be read as a NumPy array|unequal length"):
        potential.score(ak.Array([[1.0, 2.0, 3.0], [1.0]]), [1.0, 1.0])
    with pytest.raises(TypeError, match="theta must hold numbers"):
        potential.score(np.zeros((1, 3)), ["a", "b"])


def test_many_values_of_one_parameter_need_a_second_axis(potential: ist.Estimator) -> None:
    one = dataclasses.replace(potential, theta_names=("mass",))
    with pytest.raises(ValueError, match=r"use theta\[:, None\]"):
        one.score(np.zeros((5, 3)), np.zeros(5))


def test_a_data_frame_in_another_order_is_refused(potential: ist.Estimator) -> None:
    x, theta, _ = some(5)
    frame = pd.DataFrame(x, columns=["pt", "eta", "phi"])
    with pytest.raises(ValueError, match=r"x\[\['pt', 'eta', 'phi'\]\]"):
        potential.score(frame[["phi", "eta", "pt"]], theta)
    parameters = pd.DataFrame(theta, columns=["width", "mass"])
    with pytest.raises(ValueError, match=r"theta\[\['mass', 'width'\]\]"):
        potential.log_ratio(frame, [1.0, 0.0], parameters)
    other_names = pd.DataFrame(x, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"x are a, b, c, but those expected here are pt, eta, ph"):
        potential.score(other_names, theta)
    np.testing.assert_array_equal(
        potential.score(other_names.to_numpy(), theta), potential.score(frame, theta)
    )
    # Columns that are only numbered have no names to compare.
    assert potential.score(pd.DataFrame(x), theta).shape == (5, 2)


def test_an_estimator_describes_itself_in_a_line(potential: ist.Estimator) -> None:
    text = repr(potential)
    assert "\n" not in text
    for part in ("Estimator(pt, eta, phi | mass, width", "CARL", "2 members", "validation loss"):
        assert part in text
    lost = np.full((4, 2), np.nan)
    history = dataclasses.replace(potential.history, validation_loss=lost)
    assert "validation loss" not in repr(dataclasses.replace(potential, history=history))


def test_an_estimator_cannot_be_changed(potential: ist.Estimator) -> None:
    changed: Any = potential
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.method = ist.KCE()
