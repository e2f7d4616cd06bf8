"""`choose_width` against exact truth: an estimator whose potential is ln p itself.

The reference numbers are those of the paper's task 1, the three-dimensional Dirichlet with θ
uniform on [0.5, 5]³ and the delta kernel at λ = 0.25.
"""

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact_estimators
import inferostatic as ist
from exact_estimators import dirichlet
from exact_estimators import gaussian as normal
from inferostatic.learning import choose_width as module
from inferostatic.learning.choose_width import WidthChoice

Array = jax.Array
LIB: Any = ist


def exact_estimator(log_p: Callable[[Array, Array], Array], events: ist.Events) -> ist.Estimator:
    assert events.prior is not None
    low, high = events.prior.support
    low = np.where(np.isfinite(low), low, events.theta.min(axis=0))
    high = np.where(np.isfinite(high), high, events.theta.max(axis=0))
    ranges = events.x.min(axis=0), events.x.max(axis=0)
    return exact_estimators.exact_estimator(
        log_p, events.prior, *ranges, theta_range=(low, high), x_names=events.x_names
    )


def normal_events(prior: Any, n: int = 4000, scale: Any = 1.0, seed: int = 1) -> ist.Events:
    """x ~ N(θ/scale, 1), each observable of its own parameter."""
    rng = np.random.default_rng(seed)
    theta = prior.sample(n, seed=seed)
    return ist.Events(x=theta / scale + rng.normal(size=theta.shape), theta=theta, prior=prior)


SQUARE = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=["a", "b"])


@pytest.fixture(scope="module")
def plain() -> tuple[ist.Estimator, ist.Events]:
    events = normal_events(SQUARE)
    return exact_estimator(normal, events), events


# The paper's task 1 ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def task_1() -> WidthChoice:
    wide = ist.Uniform([0.25] * 3, [5.25] * 3)
    events = ist.simulate(ist.toys.Dirichlet(3), wide, 200_000, seed=1)
    prior = ist.Uniform([0.5] * 3, [5.0] * 3)
    return ist.choose_width(
        exact_estimator(dirichlet, events), events, widths=[0.25], prior=prior, seed=2
    )


def test_the_bias_with_x_at_the_displaced_point(task_1: WidthChoice) -> None:
    assert task_1.bias_error[0] < 0.005
    assert abs(task_1.bias[0] - 0.100) < 4 * task_1.bias_error[0]
    assert task_1.bias_by_parameter.mean() == pytest.approx(task_1.bias[0])


def test_the_bias_with_x_at_theta_is_four_times_smaller(task_1: WidthChoice) -> None:
    assert task_1.bias_at_theta[0] == pytest.approx(0.025, abs=0.003)


def test_the_variance_is_the_expected_loss(task_1: WidthChoice) -> None:
    assert task_1.variance[0] == pytest.approx(15.428, abs=0.02)


def test_the_saturation(task_1: WidthChoice) -> None:
    """0.28% of |s^KSA| above 3.6, by a direct sum in float64 over a million events."""
    assert task_1.saturation[0] == pytest.approx(0.0028, abs=0.0003)


def test_the_region_is_that_of_the_prior(task_1: WidthChoice) -> None:
    np.testing.assert_allclose(task_1.theta_low, 0.5)
    np.testing.assert_allclose(task_1.theta_high, 5.0)


# The law of (x, θ) -------------------------------------------------------------------------------


def delta_bias(x: np.ndarray, theta: np.ndarray, width: float) -> np.ndarray:
    """(s^KSA − s)² of the normal toy: tanh(λs)/λ − s with s = x − θ."""
    return (np.tanh(width * (x - theta)) / width - (x - theta)) ** 2


@pytest.mark.parametrize("target", ["the same law", "another one"])
def test_weights_make_the_law_that_of_form_1(target: str) -> None:
    """Stored θ' from a truncated normal; compared with θ ~ prior, ε ~ K, x ~ p(x; θ + ε)."""
    stored = ist.TruncatedNormal([0.0], [1.0], [-3.0], [3.0])
    wanted = stored if target == "the same law" else ist.Uniform([-1.0], [1.5])
    events, width = normal_events(stored, 40_000), 0.5
    prior = None if target == "the same law" else wanted
    choice = ist.choose_width(
        exact_estimator(normal, events), events, widths=[width], prior=prior, seed=3
    )
    rng = np.random.default_rng(4)
    theta = wanted.sample(200_000, seed=5)
    inside = (theta > choice.theta_low) & (theta < choice.theta_high)
    theta = theta[inside[:, 0]]
    epsilon = width * rng.choice([-1.0, 1.0], size=theta.shape)
    x = theta + rng.normal(size=theta.shape)
    displaced = delta_bias(x + epsilon, theta, width)
    at_theta = delta_bias(x, theta, width)
    error = np.hypot(choice.bias_error[0], displaced.std() / np.sqrt(len(x)))
    assert error < 0.03 * choice.bias[0]
    assert abs(choice.bias[0] - displaced.mean()) < 4 * error
    assert abs(choice.bias_at_theta[0] - at_theta.mean()) < 4 * error
    assert choice.bias[0] > choice.bias_at_theta[0] + 10 * error


def test_a_law_that_is_skewed_needs_its_weights() -> None:
    """Where π falls steeply, θ' − ε without π(θ)/π(θ') would follow another law: E[θ] tells."""
    steep = ist.TruncatedNormal([-2.0], [0.7], [-2.0], [3.0])
    events = normal_events(steep, 20_000)

    def bending(x: Array, theta: Array) -> Array:
        # The score grows with θ, so the bias depends on where θ lies.
        return -0.5 * jnp.sum((x - theta) ** 2) * jnp.exp(jnp.sum(theta))

    found = ist.choose_width(exact_estimator(bending, events), events, widths=[0.3], seed=1)
    half = normal_events(ist.Uniform([-2.0], [3.0]), 20_000)
    direct = ist.choose_width(
        exact_estimator(bending, half),
        half,
        widths=[0.3],
        prior=ist.TruncatedNormal([-2.0], [0.7], [-1.7], [2.7]),
        seed=1,
    )
    error = np.hypot(found.bias_error, direct.bias_error)
    assert np.all(np.abs(found.bias - direct.bias) < 4 * error)


def test_event_weights_count(plain: tuple[ist.Estimator, ist.Events]) -> None:
    estimator, events = plain
    right = events.x[:, 0] > events.theta[:, 0]

    def bias(weight: np.ndarray) -> float:
        weighted = ist.Events(x=events.x, theta=events.theta, weight=weight, prior=SQUARE)
        return float(ist.choose_width(estimator, weighted, widths=[0.5], seed=1).bias[0])

    # Means over the two sides and over both tell the part of either, and so every other mean.
    one, other = (bias(np.where(right == side, 1.0, 1e-12)) for side in (True, False))
    part = (bias(np.ones(len(events))) - other) / (one - other)
    assert 0.4 < part < 0.6
    for weight in (3.0, -0.1):
        expected = (weight * part * one + (1 - part) * other) / (weight * part + 1 - part)
        assert bias(np.where(right, weight, 1.0)) == pytest.approx(expected, rel=1e-5)


def test_chunks_do_not_matter(
    plain: tuple[ist.Estimator, ist.Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, events = plain
    whole = ist.choose_width(estimator, events, widths=[0.3, 0.6], seed=1)
    monkeypatch.setattr(module, "ROWS", 1000)
    parts = ist.choose_width(estimator, events, widths=[0.3, 0.6], seed=1)
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-6)
    other = ist.choose_width(estimator, events, widths=[0.3, 0.6], seed=2)
    assert (other.bias != whole.bias).all()


def test_other_kernels_and_an_open_prior() -> None:
    """A Gaussian kernel on the normal toy: s^KSA = s/(1+λ²), variance 1/(λ²(1+λ²))."""
    events = normal_events(ist.Normal([0.0, 0.0], [2.0, 2.0]), 10_000)
    estimator = exact_estimator(normal, events)
    width = 0.4
    choice = ist.choose_width(estimator, events, ist.Gaussian, [width], seed=1)
    shrink = width**2 / (1 + width**2)
    # x is made at θ + ε, so that x − θ has the variance 1 + λ².
    assert choice.bias[0] == pytest.approx((1 + width**2) * shrink**2, rel=0.05)
    assert choice.bias_at_theta[0] == pytest.approx(shrink**2, rel=0.05)
    assert choice.variance[0] == pytest.approx(1 / (width**2 * (1 + width**2)), rel=0.01)
    assert choice.saturation[0] == 0
    cut = ist.choose_width(
        estimator, events, lambda width: ist.Gaussian(width, truncation=3), [width], seed=1
    )
    assert cut.bias[0] == pytest.approx(choice.bias[0], rel=0.1)


# Which widths, which recommendation --------------------------------------------------------------


@pytest.mark.slow
def test_default_widths_go_with_the_scale_of_the_prior(
    plain: tuple[ist.Estimator, ist.Events],
) -> None:
    estimator, events = plain
    choice = ist.choose_width(estimator, events[:1000], n=100_000, seed=1)
    assert choice.widths.shape == (module.NUMBER, 2)
    np.testing.assert_allclose(choice.widths[-1], 0.1 * 6, rtol=1e-5)
    np.testing.assert_allclose(choice.widths[0], 0.01 * 6, rtol=1e-5)
    np.testing.assert_allclose(choice.theta_high, 3 - choice.widths[-1])
    assert isinstance(choice.recommended, float)
    assert choice.recommended == choice.widths[choice.best, 0]
    assert choice.kernel == ist.Delta(choice.recommended)
    # With room around the prior they go up to half its standard deviation, divided by √μ₂.
    inner = ist.Uniform([-1.0, -1.0], [1.0, 1.0])
    for family, root in ((ist.Delta, 1.0), (ist.Rectangular, np.sqrt(1 / 3))):
        other = ist.choose_width(estimator, events[:2000], family, prior=inner, seed=1)
        np.testing.assert_allclose(other.widths[-1], 0.5 * 2 / np.sqrt(12) / root, rtol=1e-5)


def test_widths_follow_the_units_of_the_parameters(
    plain: tuple[ist.Estimator, ist.Events],
) -> None:
    """With b in units a hundred times smaller everything goes along, and nothing else changes."""
    estimator, events = plain
    unit = np.array([1.0, 100.0])
    prior = ist.Uniform([-3.0, -300.0], [3.0, 300.0], names=["a", "b"])
    scaled = ist.Events(x=events.x, theta=events.theta * unit, prior=prior)

    def log_p(x: Array, theta: Array) -> Array:
        return normal(x, theta / jnp.asarray(unit, jnp.float32))

    a = ist.choose_width(estimator, events, n=5000, seed=1)
    b = ist.choose_width(exact_estimator(log_p, scaled), scaled, n=5000, seed=1)
    assert isinstance(b.recommended, tuple)
    np.testing.assert_allclose(b.recommended, unit * a.recommended, rtol=1e-4)
    np.testing.assert_allclose(b.bias_by_parameter * unit**2, a.bias_by_parameter, rtol=1e-2)
    # On the geometric mean of the scales, ten times that of a.
    np.testing.assert_allclose(100 * b.predicted_error, a.predicted_error, rtol=1e-2)
    assert b.kernel == ist.Delta(b.recommended)
    assert str(b).count("(") > 3


def test_the_predicted_error_is_bias_and_noise(plain: tuple[ist.Estimator, ist.Events]) -> None:
    """For one parameter S = 1/λ² − V, so that all of it can be done again by hand."""
    events = normal_events(ist.Uniform([-3.0], [3.0]))
    estimator = exact_estimator(normal, events)
    choice = ist.choose_width(estimator, events, widths=[0.1, 0.3, 0.9], n=1000, seed=1)
    noise = module.STORED_COMPLEXITY * choice.variance / 1000
    signal = 1 / choice.widths[:, 0] ** 2 - choice.variance
    expected = choice.bias + noise * signal / (noise + signal)
    np.testing.assert_allclose(choice.predicted_error, expected, rtol=1e-4)
    drawn = ist.choose_width(estimator, events, widths=[0.1, 0.3, 0.9], n=4000, drawn=True, seed=1)
    assert module.DRAWN_COMPLEXITY == 4 * module.STORED_COMPLEXITY
    np.testing.assert_allclose(drawn.predicted_error, choice.predicted_error, rtol=1e-9)
    many = ist.choose_width(estimator, events, widths=[0.1, 0.3, 0.9], n=10**10, seed=1)
    np.testing.assert_allclose(many.bias, choice.bias)
    np.testing.assert_allclose(many.predicted_error, many.bias, rtol=0.05)
    assert many.recommended == 0.1
    assert many.remark.startswith("It is the smallest width examined")
    few = ist.choose_width(estimator, events, widths=[0.1, 0.3, 0.9], n=100, seed=1)
    assert few.widths[few.best, 0] > 0.1
    assert choice.predicted_error[choice.best] == choice.predicted_error.min()
    estimator, events = plain
    sizes = [ist.choose_width(estimator, events, n=n, seed=1).best for n in (300, 10_000, 10**6)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_all_widths_are_compared_at_the_same_theta(
    plain: tuple[ist.Estimator, ist.Events],
) -> None:
    estimator, events = plain
    alone = ist.choose_width(estimator, events, widths=[0.2], seed=1)
    both = ist.choose_width(estimator, events, widths=[0.2, 1.0], seed=1)
    np.testing.assert_allclose(alone.theta_high, 2.8)
    np.testing.assert_allclose(both.theta_high, 2.0)
    row = ist.choose_width(estimator, events, widths=[[0.2, 1.0]], seed=1)
    np.testing.assert_allclose(row.theta_high, [2.8, 2.0])
    assert row.recommended == (0.2, 1.0)
    cut = ist.choose_width(
        estimator, events[:2000], lambda width: ist.Gaussian(width, truncation=3), [0.3], seed=1
    )
    np.testing.assert_allclose(cut.theta_high, 3 - 3 * 0.3)


def test_default_widths_fit_into_the_room_around_the_prior(
    plain: tuple[ist.Estimator, ist.Events],
) -> None:
    estimator, events = plain
    prior = ist.Uniform([-2.7, -2.0], [2.7, 2.0])
    choice = ist.choose_width(estimator, events, prior=prior, seed=1)
    assert choice.widths.max() <= 0.3 * (1 + 1e-6)
    assert choice.widths[:, 0].max() == pytest.approx(0.3, rel=1e-4)
    np.testing.assert_allclose(choice.theta_high, [2.7, 2.0], rtol=1e-6)


@pytest.mark.slow
def test_it_works_on_a_trained_estimator() -> None:
    """The exact potential times a strength to be learned, whose statistical error is known.

    An event's information on it is E[p(1 − p)(ln r)²] = 0.15 or more, so its error is 0.009 at most
    and 0.004 in practice. The variance changes at most in proportion, the bias with the 6th power.
    """

    def half(in_size: int, out_size: int, *, key: Any) -> Any:
        del in_size, out_size, key
        return exact_estimators.Exact(jnp.asarray(0.5), normal, 1)

    events = normal_events(ist.Uniform([-3.0], [3.0]), 100_000)
    training = ist.Training(epochs=6, batch_size=500, weight_decay=0.0, progress_bar=False)
    network = ist.Potential(half, ist.Raw(), ist.Raw())
    estimator = ist.fit(events, ist.CARL(), network=network, training=training, seed=1)
    widths = [0.05, 0.3, 1.2]
    learned = ist.choose_width(estimator, events, widths=widths, seed=1)
    exact = ist.choose_width(exact_estimator(normal, events), events, widths=widths, seed=1)
    assert learned.recommended == exact.recommended
    np.testing.assert_allclose(learned.variance, exact.variance, rtol=0.02)
    np.testing.assert_allclose(learned.bias[1:], exact.bias[1:], rtol=0.15)
    assert ist.KSE(learned.kernel) == ist.KSE(ist.Delta(0.3))


# Words -------------------------------------------------------------------------------------------


def test_it_reads_well(plain: tuple[ist.Estimator, ist.Events]) -> None:
    estimator, events = plain
    choice = ist.choose_width(estimator, events, widths=[0.25, 0.5, 1.0], n=20_000, seed=1)
    lines = str(choice).splitlines()
    assert lines[0].startswith(
        "Delta kernel, Kernel Score Estimation from 20,000 stored events; mean"
    )
    assert len(lines) == 2 + 3 + 1
    assert len({len(line.removesuffix("  <")) for line in lines[1:-1]}) == 1
    assert [line.endswith("<") for line in lines[2:5]] == [row == choice.best for row in range(3)]
    assert lines[-1].startswith(f"Recommended: {choice.recommended:g}.")
    assert repr(choice).startswith(f"WidthChoice(Delta({choice.recommended:g}); predicted error")
    assert "\n" not in repr(choice)
    for name in ("widths", "bias", "variance", "saturation", "predicted_error"):
        assert getattr(choice, name).dtype == np.float64


@pytest.mark.parametrize("widths", [[0.25, 0.5, 1.0], [0.5], [[0.2, 0.5], [0.2, 1.0]]])
def test_it_can_be_drawn(plain: tuple[ist.Estimator, ist.Events], widths: Any) -> None:
    estimator, events = plain
    choice = ist.choose_width(estimator, events, widths=widths, n=20_000, seed=1)
    figure = ist.plots.width_choice(choice)
    errors, variance, saturation = figure.axes
    column = 0 if np.ndim(widths) == 1 else 1
    place = choice.widths[:, column]
    drawn = {line.get_label(): line for line in errors.get_lines()}
    np.testing.assert_array_equal(drawn["squared bias"].get_xdata(), place)
    np.testing.assert_array_equal(drawn["squared bias"].get_ydata(), choice.bias)
    np.testing.assert_array_equal(drawn["predicted error"].get_ydata(), choice.predicted_error)
    np.testing.assert_array_equal(variance.get_lines()[0].get_ydata(), choice.variance)
    np.testing.assert_array_equal(saturation.get_lines()[0].get_ydata(), 100 * choice.saturation)
    assert errors.get_xlabel() == ("width" if np.ndim(widths) == 1 else "width of b")
    marked = np.asarray(errors.get_lines()[-1].get_xdata())
    np.testing.assert_array_equal(marked, choice.widths[choice.best, column])
    figure.savefig(io.BytesIO(), format="png", dpi=40)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"estimator": "model.isn"}, "needs a potential .*got str"),
        ({"events": np.zeros((3, 2))}, "events must be ist.Events.*got ndarray"),
        ({"kernel": ist.Delta(0.25)}, "kernel must be a family such as ist.Delta, without a width"),
        ({"kernel": "delta"}, "kernel must be a family such as ist.Delta"),
        ({"kernel": ist.CustomKernel}, "from a width alone.*Bind its other arguments"),
        ({"kernel": ist.Uniform}, "from a width alone"),
        ({"kernel": lambda width: width}, "family of kernels.*gave float"),
        ({"kernel": lambda width: ist.Delta(lambda theta: theta)}, "same for all θ"),
        ({"kernel": ist.Gaussian}, r"unbounded kernel on a bounded prior.*truncation=3"),
        ({"widths": [0.1, -0.2]}, r"widths must be positive and finite; got \[0.1, -0.2\]"),
        ({"widths": [0.1, np.nan]}, "widths must be positive and finite"),
        ({"widths": []}, "widths must be a list of numbers"),
        ({"widths": [[0.1, 0.2, 0.3]]}, r"rows of 2, one for each parameter; got shape \(1, 3\)"),
        ({"widths": "wide"}, "widths"),
        ({"widths": [3.5]}, "no θ has all its displacements inside"),
        ({"prior": "uniform"}, "prior must be a prior such as ist.Uniform; got str"),
        ({"prior": ist.Uniform([0.0], [1.0])}, "prior has 1 parameters and the estimator 2"),
        ({"prior": SQUARE}, "no room to displace θ.*Simulate wider"),
        ({"prior": SQUARE, "widths": [0.3]}, "so leaves the simulated region.*simulate wider"),
        ({"prior": ist.Discrete([[0.0, 0.0]])}, "like Kernel Score Estimation, needs the density"),
        ({"n": 0}, "n must be at least 1"),
        ({"seed": 1.5}, "seed must be an int"),
    ],
)
def test_bad_input_gets_a_sentence(
    plain: tuple[ist.Estimator, ist.Events], arguments: dict[str, Any], sentence: str
) -> None:
    estimator, events = plain
    given = {"estimator": estimator, "events": events, "seed": 1} | arguments
    with pytest.raises((TypeError, ValueError), match=f"(?s){sentence}"):
        LIB.choose_width(**given)


def test_other_events_get_a_sentence(plain: tuple[ist.Estimator, ist.Events]) -> None:
    estimator, events = plain
    x, theta = events.x, events.theta
    with pytest.raises(ValueError, match="these events have no prior="):
        ist.choose_width(estimator, ist.Events(x=x, theta=theta), seed=1)
    more = ist.Events(x=np.concatenate([x, x[:, :1]], axis=1), theta=theta, prior=SQUARE)
    with pytest.raises(ValueError, match="has 2 observables and the events 3"):
        ist.choose_width(estimator, more, seed=1)
    swapped = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=["b", "a"])
    with pytest.raises(ValueError, match="the columns of parameters are b, a"):
        ist.choose_width(estimator, ist.Events(x=x, theta=theta, prior=swapped), seed=1)
    with pytest.raises(ValueError, match="only .* of 120 events, effectively"):
        ist.choose_width(estimator, events[:120], widths=[2.0], seed=1)
    far = ist.Uniform([4.0, 4.0], [5.0, 5.0], names=["a", "b"])
    there = ist.Events(x=x, theta=4 + (theta + 3) / 6, prior=far)
    with pytest.raises(ValueError, match="they have nothing in common"):
        ist.choose_width(estimator, there, seed=1)


def test_a_direct_network_gets_a_sentence(plain: tuple[ist.Estimator, ist.Events]) -> None:
    estimator, events = plain
    fields = {field.name: getattr(estimator, field.name) for field in dataclasses.fields(estimator)}
    with pytest.raises(TypeError, match="needs a potential .*got ScoreEstimator"):
        LIB.choose_width(ist.ScoreEstimator(**fields), events, seed=1)
