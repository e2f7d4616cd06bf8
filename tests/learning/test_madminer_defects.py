"""Defects found in MadMiner 0.9.6 by running it, each as a test that would have caught it.

They are mistakes that anyone can make: forgotten scalings, a sign, a reference in place of a copy,
a missing Jacobian, probabilities in place of logarithms. Each test says what went wrong there.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.losses import SoftmaxCrossEntropy

Array = jax.Array

#: A parameter near 1000: a network that does not see it scaled sees nothing.
OFFSET = 1000.0
FAR = ist.Uniform([OFFSET - 2], [OFFSET + 2], names=["mass"])
SMALL = ist.MLP((16, 16))
TRAINING = ist.Training(epochs=10, batch_size=256, learning_rate=5e-3)


def far_gaussian(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x = 50·(θ − 1000) + 50·noise, so that x is not of unit size either."""
    return 50 * (theta - OFFSET + rng.standard_normal(theta.shape))


def true_score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return x / 50 - (theta - OFFSET)


def fresh(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(77)
    theta0, theta1 = rng.uniform(OFFSET - 1.5, OFFSET + 1.5, size=(2, n, 1))
    return far_gaussian(theta0, rng), theta0, theta1


@pytest.fixture(scope="module")
def trained() -> ist.Estimator:
    events = ist.simulate(far_gaussian, FAR, 20_000, seed=1)
    return ist.fit(events, ist.CARL(), network=SMALL, members=2, training=TRAINING, seed=1)


def test_1_the_scaling_of_theta_is_not_forgotten_at_evaluation(trained: ist.Estimator) -> None:
    """There: θ scaled in training and raw at evaluation; error of ln r 11.0 in place of 8.4."""
    x, theta0, theta1 = fresh(4000)
    u0, u1 = theta0 - OFFSET, theta1 - OFFSET
    truth = ((x / 50 - (u0 + u1) / 2) * (u0 - u1))[:, 0]
    assert np.mean(truth**2) > 1.5
    assert np.mean((trained.log_ratio(x, theta0, theta1) - truth) ** 2) < 0.2


def test_2_the_score_at_theta1_has_a_plus_sign(trained: ist.Estimator) -> None:
    """There: the score term at θ1 compared −s with +t in double models; error 1.7 for 0.3.

    The derivative of the potential at θ1 is +s(θ1), also for events that came from θ1; only the
    derivative of ln r by θ1 is −s(θ1).
    """
    x1, theta1, theta0 = fresh(4000)
    score = trained.score(x1, theta1)
    error = np.mean((score - true_score(x1, theta1)) ** 2)
    assert error < 0.1
    assert np.mean((score + true_score(x1, theta1)) ** 2) > 20 * error
    h = 0.05
    slope = (
        trained.log_ratio(x1, theta0, theta1 + h) - trained.log_ratio(x1, theta0, theta1 - h)
    ) / (2 * h)
    np.testing.assert_allclose(slope, -score[:, 0], atol=0.05)


def test_3_the_best_epoch_is_a_copy_and_not_a_reference() -> None:
    """There: the weights "of the best epoch" were those of the last one."""
    records = ist.draw(ist.CARL(), far_gaussian, FAR, 60, seed=2)
    knobs = ist.Training(
        epochs=60,
        batch_size=16,
        learning_rate=0.05,
        schedule=ist.Constant(),
        validation_fraction=0.5,
        patience=20,
    )
    best = ist.fit(records, network=SMALL, training=knobs, seed=3)
    losses = best.history.validation_loss[:, 0]
    assert losses.min() < losses[-1] - 0.05
    # Starting again without moving tells the held-out loss of the weights that were returned.
    still = dataclasses.replace(knobs, epochs=1, learning_rate=1e-30, patience=None)
    again = ist.fit(records, start=best, training=still, seed=3)
    assert again.history.validation_loss[0, 0] == pytest.approx(losses.min(), rel=1e-5)


@pytest.mark.parametrize("features", [ist.Raw(), ist.Standardised(), ist.Quantile()])
def test_4_scores_carry_the_jacobian_of_the_scaling(features: Any) -> None:
    """There: densities without the Jacobian of their scaling, and x scaled twice in ratios."""
    rng = np.random.default_rng(4)
    architecture = ist.Potential(ist.MLP((6,), activation=jnp.tanh), features)
    scale = np.array([1000.0, 1e-3])
    shapes = architecture.shapes(rng.lognormal(size=(200, 1)), np.array([5.0, 2.0]) * scale, scale)
    model = architecture.build(shapes, key=jax.random.key(1))
    x, theta = jnp.asarray([0.7]), jnp.asarray(np.array([5.3, 1.8]) * scale, jnp.float32)
    score = np.asarray(model.score(x, theta), np.float64)
    slope = []
    for i in range(2):
        step = np.zeros(2, np.float32)
        step[i] = 0.05 * scale[i]
        above, below = (float(model.potential(x, theta + s * step)) for s in (1, -1))
        slope.append((above - below) / (0.1 * scale[i]))
    np.testing.assert_allclose(score * scale, np.array(slope) * scale, rtol=0.02, atol=1e-3)


LOSSES = {
    "logistic": ist.Logistic(),
    "square": ist.Square(),
    "savage": ist.Savage(),
    "exponential": ist.Exponential(),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("log_r", [100.0, -100.0, 700.0, -700.0])
def test_5_gradients_are_finite_where_probabilities_saturate(name: str, log_r: float) -> None:
    """There: CARL's gradient is NaN at ln r = 100, from ln of a probability that is 0."""
    loss = LOSSES[name]
    for label in (0.0, 0.5, 1.0):
        value, slope = jax.value_and_grad(loss)(jnp.asarray(log_r), jnp.asarray(label))
        assert np.isfinite(float(value))
        assert np.isfinite(float(slope))


def test_5_the_logistic_slope_is_right_where_probabilities_saturate() -> None:
    """A wrong answer at |ln r| = 100 is pulled back with full strength."""
    slope = jax.grad(ist.Logistic())
    assert float(slope(jnp.asarray(100.0), jnp.asarray(1.0))) == pytest.approx(1.0)
    assert float(slope(jnp.asarray(-100.0), jnp.asarray(0.0))) == pytest.approx(-1.0)
    assert float(slope(jnp.asarray(100.0), jnp.asarray(0.0))) == pytest.approx(0.0, abs=1e-30)
    potentials = jnp.asarray([-700.0, 0.0, 700.0])
    pull = jax.grad(SoftmaxCrossEntropy())(potentials, jnp.asarray(0))
    np.testing.assert_allclose(pull, [-1.0, 0.0, 1.0], atol=1e-6)


def test_6_held_out_events_see_the_same_scaling(trained: ist.Estimator) -> None:
    """There: θ of a validation set was not scaled, so that its loss meant nothing."""
    history = trained.history
    np.testing.assert_allclose(history.validation_loss[-1], history.train_loss[-1], rtol=0.08)
    assert (history.validation_loss[-1] < np.log(2) - 0.1).all()


def test_6_every_potential_has_a_score_and_members_can_be_averaged(trained: ist.Estimator) -> None:
    """There: `evaluate_score` crashed on double models, and so did the spread of an ensemble."""
    assert trained.members == 2
    x, theta0, _ = fresh(100)
    assert trained.score(x, theta0).shape == (100, 1)


def test_7_the_chain_rule_holds(trained: ist.Estimator) -> None:
    """There: 0.165 rms violation where ln r has an rms of 1.03."""
    x, a, b = fresh(2000)
    c = np.full_like(a, OFFSET)
    log_ab, log_bc = trained.log_ratio(x, a, b), trained.log_ratio(x, b, c)
    log_ac = trained.log_ratio(x, a, c)
    assert np.sqrt(np.mean(log_ac**2)) > 0.5
    assert np.sqrt(np.mean((log_ab + log_bc - log_ac) ** 2)) < 1e-5
    np.testing.assert_array_equal(log_ab, -trained.log_ratio(x, b, a))
