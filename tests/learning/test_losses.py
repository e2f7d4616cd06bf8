"""Losses: their minimiser, their symmetry, and finite values however far l goes."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, logsumexp

import inferostatic as ist
from inferostatic.learning.losses import (
    AbstractRatioLoss,
    SoftmaxCrossEntropy,
    SquaredError,
)
from inferostatic.supervision.records import LabelledPair

pytestmark = pytest.mark.usefixtures("strict")

LOSSES: dict[str, AbstractRatioLoss] = {
    "logistic": ist.Logistic(),
    "square": ist.Square(),
    "savage": ist.Savage(),
    "exponential": ist.Exponential(),
}
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())

#: The table of the losses in float64, without any care for large l.
FORMULAS = {
    "logistic": lambda a, y: y * np.log1p(np.exp(a)) + (1 - y) * np.log1p(np.exp(-a)),
    "square": lambda a, y: (1 / (1 + np.exp(a)) - y) ** 2,
    "savage": lambda a, y: y / (1 + np.exp(-a)) ** 2 + (1 - y) / (1 + np.exp(a)) ** 2,
    "exponential": lambda a, y: y * np.exp(a / 2) + (1 - y) * np.exp(-a / 2),
}


def number(value: float) -> jax.Array:
    return jnp.asarray(value, jnp.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_values_are_those_of_the_formula(name):
    for log_r in np.linspace(-20, 20, 17):
        for y in (0.0, 0.3, 1.0):
            value = float(LOSSES[name](number(log_r), number(y)))
            assert value == pytest.approx(FORMULAS[name](log_r, y), rel=1e-5, abs=1e-7)


@losses
@pytest.mark.parametrize("p", [0.02, 0.2, 0.5, 0.9])
def test_the_minimiser_is_the_log_ratio(loss, p):
    """With P(y = 1) = p the best l is ln((1−p)/p): y = 0 is the numerator."""
    hard = jax.jit(lambda a: p * loss(a, jnp.ones(())) + (1 - p) * loss(a, jnp.zeros(())))
    soft = jax.jit(lambda a: loss(a, number(p)))
    truth = np.log((1 - p) / p)
    for expected in (hard, soft):
        slope = jax.jit(jax.grad(expected))
        best = optimize.brentq(lambda a, slope=slope: float(slope(number(a))), -12, 12, xtol=1e-6)
        assert best == pytest.approx(truth, abs=2e-4)
        assert expected(number(truth)) < min(
            expected(number(truth - 0.3)), expected(number(truth + 0.3))
        )
    # sigmoid(ln r) is P(y = 0).
    assert expit(truth) == pytest.approx(1 - p)


@losses
def test_label_and_ratio_turn_over_together(loss):
    for log_r in (-300.0, -70.0, -3.0, -0.1, 0.0, 2.0, 61.0, 400.0):
        for y in (0.0, 0.25, 1.0):
            value, mirrored = loss(number(log_r), number(y)), loss(number(-log_r), number(1 - y))
            np.testing.assert_allclose(value, mirrored, rtol=1e-6)


def test_savage_is_square_up_to_a_function_of_the_label():
    for log_r in np.linspace(-8, 8, 9):
        for y in (0.0, 0.2, 0.7, 1.0):
            savage = ist.Savage()(number(log_r), number(y))
            square = ist.Square()(number(log_r), number(y))
            np.testing.assert_allclose(savage, square + number(y * (1 - y)), atol=3e-7)


@losses
@pytest.mark.parametrize("log_r", [-500.0, -178.0, -60.0, 0.0, 60.0, 178.0, 500.0])
def test_everything_stays_finite(loss, log_r):
    for y in (0.0, 0.5, 1.0):
        value, slope = jax.value_and_grad(loss)(number(log_r), number(y))
        assert np.isfinite(value)
        assert np.isfinite(slope)


def test_a_wrong_label_is_always_pulled_back_by_logistic_and_exponential():
    for loss in (ist.Logistic(), ist.Exponential()):
        assert jax.grad(loss)(number(500.0), jnp.ones(())) >= 1
        assert jax.grad(loss)(number(-500.0), jnp.zeros(())) <= -1


def test_exponential_is_continued_linearly_beyond_its_limit():
    loss = ist.Exponential()
    assert loss.limit == 60.0
    assert all(other.limit is None for other in (ist.Logistic(), ist.Square(), ist.Savage()))
    one = jnp.ones(())
    slope = float(jax.grad(loss)(number(80.0), one))
    assert slope == pytest.approx(np.exp(30) / 2, rel=1e-5)
    assert float(loss(number(100.0), one)) == pytest.approx(np.exp(30) * 21, rel=1e-5)
    # Value and slope meet at the limit.
    values = [float(loss(number(a), one)) for a in (59.999, 60.001)]
    slopes = [float(jax.grad(loss)(number(a), one)) for a in (59.999, 60.001)]
    assert values[0] == pytest.approx(values[1], rel=2e-3)
    assert slopes[0] == pytest.approx(slopes[1], rel=2e-3)
    assert float(jax.grad(loss)(number(60.0), one)) == pytest.approx(np.exp(30) / 2, rel=1e-5)


def test_squared_error_is_the_mean_over_components():
    value = SquaredError()(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 2.0, 5.0]))
    assert value == pytest.approx((1 + 0 + 4) / 3)


def test_softmax_cross_entropy_is_minimised_by_the_log_densities():
    loss = SoftmaxCrossEntropy()
    log_p = np.array([0.3, -2.0, 1.5, -0.4])
    posterior = np.exp(log_p - logsumexp(log_p))

    def expected(potential: jax.Array) -> jax.Array:
        each = jnp.stack([loss(potential, jnp.asarray(k, jnp.int32)) for k in range(4)])
        return jnp.sum(jnp.asarray(posterior, jnp.float32) * each)

    truth = jnp.asarray(log_p, jnp.float32)
    gradient, hessian = jax.jit(lambda t: (jax.grad(expected)(t), jax.hessian(expected)(t)))(truth)
    np.testing.assert_allclose(gradient, np.zeros(4), atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(np.asarray(hessian))
    assert np.all(np.sort(eigenvalues)[1:] > 0.01)
    # A constant is free: it is the c(x) of the potential.
    np.testing.assert_allclose(expected(truth), expected(truth + 7.0), rtol=1e-5)
    assert expected(truth) == pytest.approx(-np.sum(posterior * np.log(posterior)), rel=1e-5)
    # And the sign: shifting towards the wrong candidate costs.
    assert loss(jnp.array([0.0, 5.0]), jnp.asarray(0, jnp.int32)) > 5


def test_softmax_of_two_candidates_is_the_logistic_loss():
    for log_r in (-400.0, -2.0, 0.5, 300.0):
        pair = jnp.array([log_r, 0.0])
        softmax = SoftmaxCrossEntropy()(pair, jnp.asarray(0, jnp.int32))
        np.testing.assert_allclose(
            softmax, ist.Logistic()(number(log_r), jnp.zeros(())), rtol=1e-5, atol=1e-12
        )


def records_with_far_ratios(loss: AbstractRatioLoss) -> ist.Records:
    """x of such a size that an untrained potential already differs by more than 60."""
    rng = np.random.default_rng(1)
    n = 400
    x = rng.normal(0, 150.0, size=(n, 1))
    theta = rng.uniform(0, 1, size=(2, n, 1)).astype(np.float32)
    record = LabelledPair(
        theta0=jnp.asarray(theta[0]),
        theta1=jnp.asarray(300 * theta[1]),
        label=jnp.asarray(rng.integers(0, 2, n), jnp.float32),
        weight=jnp.ones(n),
    )
    return ist.Records(x, record, ist.CARL(loss=loss), ist.Uniform(0.0, 300.0), ("x0",))


def fit_once(loss: AbstractRatioLoss) -> ist.Estimator:
    network = ist.Potential(ist.MLP((8,)), ist.Raw(), ist.Raw())
    training = ist.Training(epochs=1, batch_size=400, learning_rate=1e-6, validation_fraction=0.0)
    return ist.fit(records_with_far_ratios(loss), network=network, training=training, seed=4)


def test_training_says_how_often_the_exponential_loss_was_continued():
    with (
        jax.numpy_dtype_promotion("standard"),
        pytest.warns(UserWarning, match="continued linearly there") as caught,
    ):
        estimator = fit_once(ist.Exponential())
    records = records_with_far_ratios(ist.Exponential())
    pair = records.record
    assert isinstance(pair, LabelledPair)
    with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_r = estimator.log_ratio(records.x, np.asarray(pair.theta0), np.asarray(pair.theta1))
    fraction = np.mean(np.abs(log_r) > 60)
    assert 0.01 < fraction < 0.99
    sentence = [str(w.message) for w in caught if "continued linearly" in str(w.message)]
    assert len(sentence) == 1
    assert sentence[0].startswith(f"for {fraction:.2%} of the events |ln r| lies beyond")
    assert estimator.history.warnings == tuple(sentence)


def test_the_logistic_loss_needs_no_such_warning():
    with jax.numpy_dtype_promotion("standard"):
        assert fit_once(ist.Logistic()).history.warnings == ()
