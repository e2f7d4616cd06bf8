"""Morphing against polynomials and exponentials that are known in closed form."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inferostatic.events.events import Events
from inferostatic.events.latent import Latent
from inferostatic.events.morphing.morphing import Morphing
from inferostatic.events.morphing.nuisance import nuisance_exponents
from inferostatic.events.morphing.weighted_pool import WeightedPool
from inferostatic.polynomials import list_powers
from inferostatic.serial import describe, restore
from inferostatic.world.priors.prior import Normal, Uniform
from inferostatic.world.priors.product import Product

BENCHMARKS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], float)
POWERS = list_powers(2, 2)


def amplitudes_squared(n: int, theta: np.ndarray, seed: int = 1) -> np.ndarray:
    """Weights of n events at each θ: the square of an amplitude linear in θ, never negative."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, 3)) * [1.0, 0.4, 0.3] + [1.5, 0, 0]
    b = rng.normal(size=(n, 3)) * 0.3
    ones = np.concatenate([np.ones((len(theta), 1)), theta], axis=1)
    return (a @ ones.T) ** 2 + (b @ ones.T) ** 2


@pytest.fixture
def pool() -> tuple[np.ndarray, np.ndarray]:
    """Observables and weights at the benchmarks."""
    weights = amplitudes_squared(3000, BENCHMARKS)
    rng = np.random.default_rng(2)
    return np.stack([weights[:, 1] - weights[:, 2], rng.normal(size=3000)], axis=1), weights


@eqx.filter_jit
def evaluate(morphing: Morphing, arrays: dict[str, jax.Array], theta: jax.Array) -> tuple:
    x = jnp.zeros((len(theta), 1))
    return tuple(jax.vmap(f)(x, arrays, theta) for f in (morphing.log_prob, morphing.score))


def both(latent: Latent, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln p_lat and joint score of every event in float32, at its own row of θ or at one."""
    assert isinstance(latent.joint, Morphing)
    arrays = {k: jnp.asarray(v, jnp.float32) for k, v in latent.items()}
    rows = np.broadcast_to(theta, (len(latent["components"]), theta.shape[-1]))
    log_prob, score = evaluate(latent.joint, arrays, jnp.asarray(rows, jnp.float32))
    return np.asarray(log_prob), np.asarray(score)


def log_probs(latent: Latent, theta: np.ndarray) -> np.ndarray:
    return both(latent, theta)[0]


def scores(latent: Latent, theta: np.ndarray) -> np.ndarray:
    return both(latent, theta)[1]


@pytest.mark.parametrize("extra", [0, 1, 9])
@pytest.mark.parametrize("shift", [0.0, 37.0])
def test_weights_are_exact_at_every_theta(extra, shift):
    rng = np.random.default_rng(3)
    benchmarks = np.concatenate([BENCHMARKS, rng.uniform(-2, 2, (extra, 2))])
    theta = rng.uniform(-3, 3, (7, 2))
    exact = amplitudes_squared(50, theta)
    weights = amplitudes_squared(50, benchmarks)
    morphing = Morphing(POWERS, benchmarks + shift)
    morphed = weights @ morphing.weights_at(theta + shift).T
    np.testing.assert_allclose(morphed, exact, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(morphing.rates_of_events(weights, theta + shift), exact, rtol=1e-9)
    np.testing.assert_allclose(
        morphing.weights_at(theta[0] + shift), morphing.weights_at(theta + shift)[0]
    )
    np.testing.assert_allclose(
        morphing.with_sample(weights).rate(theta + shift), exact.sum(axis=0), rtol=1e-10
    )


def test_any_set_of_powers():
    rng = np.random.default_rng(4)
    powers = np.array([[0, 0], [2, 0], [4, 1], [0, 3]])
    w = rng.uniform(1, 2, (20, 4))
    benchmarks, theta = rng.uniform(0.5, 2, (6, 2)), rng.uniform(0.5, 2, (5, 2))

    def at(points):
        return w @ np.prod(points[:, None] ** powers, axis=2).T

    morphing = Morphing(powers, benchmarks)
    # x² without x is not shifted: the centre stays at 0.
    assert morphing.centre.tolist() == [0, 0]
    np.testing.assert_allclose(at(benchmarks) @ morphing.weights_at(theta).T, at(theta), rtol=1e-10)


def test_powers_up_to_a_degree():
    expected = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]
    assert Morphing.of_degree(2, BENCHMARKS).powers.tolist() == expected
    many = np.random.default_rng(0).uniform(-1, 1, (12, 2))
    limited = Morphing.of_degree(4, many, highest=[1, 3]).powers.tolist()
    assert limited == [[i, j] for i in range(2) for j in range(4)]


def test_joint_ratio_and_score_in_float32(pool):
    _, weights = pool
    theta0, theta1 = np.array([0.3, -0.4]), np.array([-0.2, 0.7])
    exact = amplitudes_squared(3000, np.stack([theta0, theta1]))
    morphing = Morphing(POWERS, BENCHMARKS).with_sample(weights)
    # Small weights would leave float32's range if they were not divided out.
    latent = morphing.latent(1e-42 * weights)
    ln_p = np.log(exact / exact.sum(axis=0))
    found = log_probs(latent, theta0) - log_probs(latent, theta1)
    np.testing.assert_allclose(found, ln_p[:, 0] - ln_p[:, 1], rtol=2e-4, atol=2e-5)
    step = 1e-5
    shifted = theta0 + step * np.concatenate([np.eye(2), -np.eye(2)])
    around = amplitudes_squared(3000, shifted)
    around = np.log(around / around.sum(axis=0))
    differences = (around[:, :2] - around[:, 2:]) / (2 * step)
    np.testing.assert_allclose(scores(latent, theta0), differences, rtol=5e-4, atol=1e-4)


def test_score_at_the_origin_of_the_powers():
    morphing = Morphing(POWERS, BENCHMARKS, rates=np.ones(6))
    weights = amplitudes_squared(20, BENCHMARKS)
    components = weights @ np.linalg.inv(np.prod(BENCHMARKS[:, None] ** POWERS, axis=2)).T
    linear = [POWERS.tolist().index(p) for p in ([1, 0], [0, 1])]
    expected = components[:, linear] / components[:, [0]]
    np.testing.assert_allclose(
        scores(morphing.latent(weights), np.zeros(2)), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.usefixtures("strict")
def test_log_prob_promotes_nothing(pool):
    morphing = Morphing(POWERS, BENCHMARKS).with_sample(pool[1])
    components = {"components": jnp.asarray(morphing.components(pool[1])[0], jnp.float32)}
    value = morphing.log_prob(jnp.zeros(1), components, jnp.array([0.1, 0.2]))
    assert value.dtype == jnp.float32


@pytest.mark.parametrize(
    ("benchmarks", "words"),
    [
        (BENCHMARKS[:5], "6 components need at least 6 benchmarks; got 5"),
        (BENCHMARKS[[0, 1, 2, 3, 4, 4]], "condition number is inf|condition number is [1-9]"),
        (np.outer(np.arange(6.0), [1, 1]), "can hardly be distinguished"),
        ([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1e-7, 1]], r"powers \[1, 1\]"),
    ],
)
def test_a_basis_that_does_not_determine_the_components_is_refused(benchmarks, words):
    with pytest.raises(ValueError, match=words):
        Morphing(POWERS, benchmarks)


def test_the_condition_number_does_not_depend_on_units():
    units = np.array([1e-6, 1e4])
    usual = Morphing(POWERS, BENCHMARKS).condition
    assert Morphing(POWERS, BENCHMARKS * units + [3e-5, 0]).condition == pytest.approx(usual)
    assert usual < 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(powers=[[0.5, 0]]), "whole numbers"),
        (dict(powers=[[-1, 0]]), "whole numbers"),
        (dict(powers=[[0, 0], [0, 0]]), "listed once"),
        (dict(rates=np.ones(5)), "rates must be 6 positive finite numbers"),
        (dict(rates=-np.ones(6)), "rates must be 6 positive finite numbers"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        Morphing(**({"powers": POWERS, "benchmarks": BENCHMARKS} | arguments))


def test_wrong_calls(pool):
    x, weights = pool
    morphing = Morphing(POWERS, BENCHMARKS)
    with pytest.raises(ValueError, match="must have 6 weights, one per benchmark"):
        morphing.with_sample(weights[:, :5])
    with pytest.raises(ValueError, match="has no total rates"):
        morphing.rate([0.0, 0.0])
    with pytest.raises(ValueError, match=r"θ must have 2 parameters, .* got shape \(3,\)"):
        morphing.weights_at([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="use morphing.with_sample"):
        log_probs(morphing.latent(weights), np.zeros(2))
    with pytest.raises(ValueError, match="reads the latent array 'components'"):
        Latent({"weights": weights}, morphing)
    exponents = nuisance_exponents(weights[:, 0], [weights[:, 0]])
    with pytest.raises(ValueError, match="has 0 nuisance parameters, and some"):
        morphing.with_sample(weights, exponents)
    with pytest.raises(ValueError, match="the prior is one of 1"):
        WeightedPool(x, weights, morphing).events(Uniform(0, 1), 10, seed=1)
    with pytest.raises(ValueError, match="one θ of 2 finite numbers"):
        WeightedPool(x, weights, morphing).events([0.0], 10, seed=1)


def test_rates_that_are_not_positive(pool):
    _, weights = pool
    # The third event has a negative Monte Carlo weight everywhere.
    weights = weights.copy()
    weights[2] *= -1
    morphing = Morphing(POWERS, BENCHMARKS).with_sample(weights)
    morphing.check(weights[:2], [[0.0, 0.0], [0.3, 0.1]])
    with pytest.raises(ValueError, match=r"at θ = \[0.3, 0.1\] is not positive in row 2, where"):
        morphing.check(weights, [0.3, 0.1])
    here = np.array([0.3, 0.1])
    unsigned = morphing.latent(weights)
    assert np.flatnonzero(np.isnan(log_probs(unsigned, here))).tolist() == [2]
    assert np.flatnonzero(np.isnan(scores(unsigned, here)).all(axis=1)).tolist() == [2]
    # Drawn there, it stands for the negative part: its ratios exist.
    signed = morphing.latent(weights, here)
    ratio = log_probs(signed, np.array([-0.5, 0.2])) - log_probs(signed, here)
    exact = amplitudes_squared(3000, np.array([[-0.5, 0.2], [0.3, 0.1]]))
    rate = morphing.rate([[-0.5, 0.2], [0.3, 0.1]])
    expected = np.log(exact[:, 0] / exact[:, 1]) - np.log(rate[0] / rate[1])
    np.testing.assert_allclose(ratio, expected, rtol=3e-4, atol=3e-5)


def test_repr(pool):
    morphing = Morphing(POWERS, BENCHMARKS)
    assert repr(morphing) == "Morphing(2 parameters, 6 monomials, 6 benchmarks)"
    full = "Morphing(2 parameters, 6 monomials, 6 benchmarks, with total rates)"
    assert repr(morphing.with_sample(pool[1])) == full
    one = Morphing.of_degree(1, [[0.0], [1.0]], nuisances=1)
    assert repr(one) == "Morphing(1 parameter, 1 nuisance parameter, 2 monomials, 2 benchmarks)"


def test_messages_show_no_digits_that_float32_does_not_have(pool):
    x, weights = pool
    weights = np.where(np.arange(len(weights))[:, None] == 2, -weights, weights)
    with pytest.raises(ValueError, match=r"at θ = \[0.3, 0.1\] is not positive in row 2"):
        Morphing(POWERS, BENCHMARKS).check(weights, np.array([0.3, 0.1], np.float32))
    law = Uniform(np.array([0.1], np.float32), np.array([0.7], np.float32))
    with pytest.raises(ValueError, match=r"support, \[0.1\] to \[0.7\], in row 0: \[0.9\]\. "):
        Events(x=x[:1], theta=np.array([[0.9]], np.float32), prior=law)


def test_the_description_gives_it_back(pool):
    weights = pool[1]
    exponents = nuisance_exponents(weights[:, 0], [1.1 * weights[:, 0]], [0.8 * weights[:, 0]])
    morphing = Morphing(POWERS, BENCHMARKS, nuisances=1).with_sample(weights, exponents, reach=2)
    again = restore(describe(morphing))
    point = [0.2, 0.3, 0.7]
    assert again.rate(point) == morphing.rate(point)
    assert again.condition == morphing.condition


# Nuisance parameters.


def varied(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights at the benchmarks, and the true a and b of two nuisance parameters."""
    rng = np.random.default_rng(5)
    weights = amplitudes_squared(n, BENCHMARKS)
    # Larger weights vary more: the nuisance parameters change shapes, not only the rate.
    a = 0.1 * rng.normal(size=(n, 2)) + 0.15 * np.tanh(weights[:, 1:3] - 2)
    b = np.stack([0.03 * rng.normal(size=n), np.zeros(n)], axis=1)
    return weights, a, b


@pytest.fixture
def exponents():
    weights, a, b = varied(3000)
    up, down = np.exp(a + b).T * weights[:, 0], np.exp(-a + b).T * weights[:, 0]
    # The second parameter is one-sided.
    return weights, nuisance_exponents(weights[:, 0], up, [down[0], None]), a, b


def test_exponents_from_variations(exponents):
    _, found, a, b = exponents
    np.testing.assert_allclose(found.a, a, atol=1e-12)
    np.testing.assert_allclose(found.b, b, atol=1e-12)
    nu = np.array([[0.7, -1.3]])
    direct = np.exp(a[:, 0] * 0.7 + b[:, 0] * 0.49 - a[:, 1] * 1.3)
    np.testing.assert_allclose(found.factor(nu)[:, 0], direct, rtol=1e-12)


def test_swapped_variations_change_the_sign(exponents):
    weights, found, a, b = exponents
    up, down = np.exp(a + b)[:, 0] * weights[:, 0], np.exp(-a + b)[:, 0] * weights[:, 0]
    swapped = nuisance_exponents(weights[:, 0], [down], [up])
    np.testing.assert_allclose(swapped.a[:, 0], -found.a[:, 0], atol=1e-12)
    np.testing.assert_allclose(swapped.b[:, 0], found.b[:, 0], atol=1e-12)


def test_variations_without_a_ratio():
    nominal = np.array([1.0, 2.0, 0.0, 0.0, 1.0])
    up = np.array([1.1, -0.5, 0.0, 1.0, 0.0])
    with pytest.warns(UserWarning, match=r"in rows 1, 3, 4;"):
        found = nuisance_exponents(nominal, [up], [np.array([0.5, 0.5, 0.0, 0.5, 0.5])])
    assert found.a[1:, 0].tolist() == found.b[1:, 0].tolist() == [0, 0, 0, 0]
    assert found.a[0, 0] == pytest.approx(np.log(1.1 / 0.5) / 2)
    with pytest.raises(ValueError, match="got 1 and 2"):
        nuisance_exponents(nominal, [up], [None, None])
    with pytest.raises(ValueError, match=r"up\[0\] must be weights of shape \(5,\)"):
        nuisance_exponents(nominal, [up[:3]])


def test_the_total_rate_is_the_sum_over_events(exponents):
    weights, found, _, _ = exponents
    morphing = Morphing(POWERS, BENCHMARKS, nuisances=2).with_sample(weights, found, reach=4)
    assert morphing.response is not None
    assert morphing.response.error < 1e-5
    rng = np.random.default_rng(6)
    theta = np.concatenate([rng.uniform(-1, 1, (20, 2)), rng.uniform(-4, 4, (20, 2))], axis=1)
    physics = amplitudes_squared(3000, theta[:, :2])
    exact = np.sum(physics * found.factor(theta[:, 2:]), axis=0)
    np.testing.assert_allclose(morphing.rate(theta), exact, rtol=2e-5)
    # The compiled density agrees with the direct one.
    latent = morphing.latent(weights, nuisance=found)
    for point, total, rates in zip(theta[:3], exact, physics.T, strict=False):
        direct = np.log(rates) + found.a @ point[2:] + found.b @ point[2:] ** 2 - np.log(total)
        origin = np.log(physics[:, 5] * found.factor(theta[5:6, 2:])[:, 0] / exact[5])
        ratio = log_probs(latent, point) - log_probs(latent, theta[5])
        np.testing.assert_allclose(ratio, direct - origin, rtol=3e-4, atol=3e-4)


def test_a_rate_that_no_polynomial_follows_is_told():
    n = 1000
    weights = np.ones((n, 1))
    a = np.where(np.arange(n) < 10, 3.0, -0.5)[:, None]
    exponents = nuisance_exponents(weights[:, 0], list(np.exp(a).T))
    morphing = Morphing([[0]], [[1.0]], nuisances=1)
    with pytest.warns(UserWarning, match="off by up to"):
        morphing.with_sample(weights, exponents, reach=30)


# Drawn events.


def mean_and_error(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and its statistical error."""
    mean = np.average(values, axis=0, weights=weight)
    away = weight.reshape(-1, *[1] * (values.ndim - 1)) * (values - mean)
    return mean, np.sqrt((away**2).sum(axis=0)) / weight.sum()


@pytest.mark.parametrize("negative", [False, True])
def test_joint_identities_of_drawn_events(pool, negative):
    x, weights = pool
    if negative:
        weights = weights * np.where(np.arange(3000) % 20 == 3, -1, 1)[:, None]
    prior = Uniform([-0.5, -0.5], [0.5, 0.5])
    events = WeightedPool(x, weights, Morphing(POWERS, BENCHMARKS)).events(prior, 8_000, seed=7)
    assert (events.weight < 0).any() == negative
    mean, error = mean_and_error(scores(events.latent, events.theta), events.weight)
    assert (np.abs(mean) < 4.5 * error).all()
    assert (error < 0.03).all()
    other = np.array([0.4, -0.3])
    ratio = np.exp(log_probs(events.latent, other) - log_probs(events.latent, events.theta))
    mean, error = mean_and_error(ratio, events.weight)
    assert abs(mean - 1) < 4.5 * error < 0.05
    # Also where only the law of θ at hand is a part of the prior's.
    part = events.theta[:, 0] > 0.2
    mean, error = mean_and_error(ratio[part], events.weight[part])
    assert abs(mean - 1) < 4.5 * error
    mean, error = mean_and_error(events.theta, events.weight)
    assert (np.abs(mean) < 4.5 * error).all()


@pytest.mark.slow
def test_joint_identities_with_nuisance_parameters(exponents):
    weights, found, _, _ = exponents
    prior = Product([Uniform([-0.5, -0.5], [0.5, 0.5]), Normal([0.0, 0.0], [1.0, 1.0])])
    events = WeightedPool(
        weights[:, :1], weights, Morphing(POWERS, BENCHMARKS, nuisances=2), nuisance=found
    ).events(prior, 8_000, seed=8)
    mean, error = mean_and_error(scores(events.latent, events.theta), events.weight)
    assert (np.abs(mean) < 4.5 * error).all()
    assert (error < 0.03).all()
    other = np.array([0.2, -0.3, 1.5, -1.0])
    ratio = np.exp(log_probs(events.latent, other) - log_probs(events.latent, events.theta))
    mean, error = mean_and_error(ratio, events.weight)
    assert abs(mean - 1) < 4.5 * error < 0.05


def test_drawn_events_follow_their_rates(pool):
    _, weights = pool
    weights = weights[:60] * np.where(np.arange(60) % 10 == 3, -0.5, 1)[:, None]
    weights[5] = 0
    theta, n = np.array([0.4, 0.2]), 40_000
    with pytest.warns(UserWarning, match=r"a small pool: at θ = \[0.4, 0.2\]"):
        events = WeightedPool(
            np.arange(60.0)[:, None], weights, Morphing(POWERS, BENCHMARKS)
        ).events(theta, n, seed=9)
    assert events.prior is None
    assert (events.theta == theta).all()
    counts = np.bincount(events.x[:, 0].astype(int), minlength=60)
    rate = weights @ Morphing(POWERS, BENCHMARKS).weights_at(theta)
    expected = n * np.abs(rate) / np.abs(rate).sum()
    assert counts[5] == 0
    others = np.arange(60) != 5
    chi2 = ((counts - expected)[others] ** 2 / expected[others]).sum()
    assert abs(chi2 - 58) < 4.5 * np.sqrt(2 * 58)
    signs = np.sign(rate)[events.x[:, 0].astype(int)]
    np.testing.assert_allclose(events.weight, signs * np.abs(rate).sum() / rate.sum())


def test_every_theta_has_its_own_rates():
    # Two kinds of events with rates 1 + θ and 1 − θ: at θ the first has probability (1 + θ)/2.
    benchmarks = np.array([[0.0], [0.5]])
    weights = np.repeat([[1.0, 1.5], [1.0, 0.5]], 500, axis=0)
    x = np.repeat([[1.0], [0.0]], 500, axis=0)
    prior = Uniform(-0.9, 0.9)
    events = linear_events(x, weights, benchmarks, prior)
    probability = (1 + events.theta[:, 0]) / 2
    bins = np.digitize(events.theta[:, 0], np.linspace(-0.9, 0.9, 11)) - 1
    expected = np.bincount(bins, probability)
    variance = np.bincount(bins, probability * (1 - probability))
    chi2 = ((np.bincount(bins, events.x[:, 0]) - expected) ** 2 / variance).sum()
    assert abs(chi2 - 10) < 4.5 * np.sqrt(20)
    same = linear_events(x, weights, benchmarks, prior)
    assert (same.x == events.x).all()
    assert (same.theta == events.theta).all()


def linear_events(x, weights, benchmarks, prior) -> Events:
    with pytest.warns(UserWarning, match="against 20000 events to be drawn"):
        return WeightedPool(x, weights, Morphing.of_degree(1, benchmarks)).events(
            prior, 20_000, seed=10
        )


def test_weights_that_do_not_overlap_are_told(pool):
    x, weights = pool
    weights = weights * np.where(np.arange(3000) < 60, 1e3, 1)[:, None]
    with pytest.warns(UserWarning, match=r"weights that do not overlap: at .* of the 3000 events"):
        WeightedPool(x, weights, Morphing(POWERS, BENCHMARKS)).events([0.1, 0.1], 1000, seed=1)


def test_pools_whose_parts_do_not_belong_together_are_refused(pool):
    x, weights = pool
    wrong: Any = Morphing
    empty: Any = []
    with pytest.raises(ValueError, match="x has 2999 events and weights 3000"):
        WeightedPool(x[1:], weights)
    with pytest.raises(TypeError, match=r"must be an ist.Morphing; got the class Morphing itself"):
        WeightedPool(x, weights, wrong)
    with pytest.raises(TypeError, match="must be an ist.Morphing; got list"):
        WeightedPool(x, weights).events([0.0, 0.0], 10, seed=1, morphing=empty)
    with pytest.raises(ValueError, match="benchmark has 6 columns but 1 name was given"):
        WeightedPool(x, weights, weight_names=["sm"])
    assert WeightedPool(x, weights).weight_names[-1] == "benchmark5"


def test_hopeless_pools_are_refused(pool):
    x, weights = pool
    weights = weights.copy()
    weights[7] *= 1e5
    morphing = Morphing(POWERS, BENCHMARKS)
    with pytest.raises(
        ValueError, match=r"θ = \[0.0, 0.1\] only 1(.\d+)? effective events, .* of the 3000"
    ):
        WeightedPool(x, weights, morphing).events([0.0, 0.1], 100, seed=1)
    weights[7] *= -1
    with pytest.raises(ValueError, match="every total rate must be positive"):
        WeightedPool(x, weights, morphing).events([0.0, 0.1], 100, seed=1)
    linear = Morphing.of_degree(1, [[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"the total rate at θ = \[-3.0\] is -"):
        WeightedPool(x, np.tile([1.0, 2.0], (3000, 1)), linear).events([-3.0], 10, seed=1)


@pytest.mark.parametrize(("slope", "outcome"), [(0.0, "fine"), (0.6, "warned"), (2.0, "refused")])
def test_a_polynomial_that_misses_its_weights_is_told(slope, outcome):
    """Quartic weights of which a quadratic form knows nothing, at more benchmarks than it needs."""
    z = np.random.default_rng(1).uniform(size=2000)
    benchmarks = np.array([[0.0], [0.5], [1.0], [1.5], [2.0]])
    weights = (1 + slope * benchmarks[:, 0] * (z[:, None] - 0.3)) ** 4
    morphing = Morphing.of_degree(2, benchmarks)
    if outcome == "fine":
        assert morphing.with_sample(weights).rates is not None
    elif outcome == "warned":
        with pytest.warns(
            UserWarning, match=r"misses the weights at benchmark \d.*raise its degree"
        ):
            morphing.with_sample(weights)
    else:
        with pytest.raises(ValueError, match="put the columns of weights in the order"):
            morphing.with_sample(weights)
    # The right degree has nothing to be told, however steep.
    Morphing.of_degree(4, benchmarks).with_sample(weights)


def test_how_far_a_polynomial_misses_its_weights():
    """A line through 1, 1.03, 1 lies at 1.01, and misses the second by 0.02 of 1.03."""
    morphing = Morphing.of_degree(1, np.array([[-1.0], [0.0], [1.0]]))
    with pytest.warns(UserWarning, match=r"at benchmark 1, θ = \[0.0\], by 1.9% \(rms\)"):
        morphing.with_sample(np.tile([1.0, 1.03, 1.0], (50, 1)))


def test_columns_in_another_order_are_told():
    benchmarks = np.concatenate([BENCHMARKS, [[-1.0, 1.0]]])
    weights = amplitudes_squared(1000, benchmarks)
    morphing = Morphing(POWERS, benchmarks)
    morphing.with_sample(weights)
    with pytest.raises(ValueError, match="in the order of the benchmarks"):
        morphing.with_sample(weights[:, ::-1])
