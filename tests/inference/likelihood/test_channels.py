"""Sums of likelihoods, which share parameters by name, against weighted combinations."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator


def channel(names, matrix, widths, *, low=-4.0, high=4.0):
    """x ~ Normal(Mθ, widths) in each component."""
    matrix, widths = np.asarray(matrix, np.float64), np.asarray(widths, np.float64)

    def log_prob(x, theta):
        return -0.5 * (((x - matrix.astype(x.dtype) @ theta) / widths.astype(x.dtype)) ** 2).sum()

    prior = ist.Uniform([low] * len(names), [high] * len(names), names=list(names))
    edge = np.full(len(widths), 60.0)
    return exact_estimator(log_prob, prior, -edge, edge)


# Two parameters in two orders, and a third only in the second and third channels.
M1, S1 = [[1.0, 0.5], [0.0, 1.0]], [1.0, 2.0]
M2, S2 = [[1.0, 0.0, 0.3], [0.2, 1.0, 0.0]], [0.7, 1.5]
M3, S3 = [[1.0]], [0.5]
ONE = channel(("mu", "a"), M1, S1)
TWO = channel(("a", "nuisance", "mu"), M2, S2)
THREE = channel(("nuisance",), M3, S3)
NAMES = ("mu", "a", "nuisance")
TRUE = np.array([0.6, -0.4, 0.9])


def full(names, matrix):
    whole = np.zeros((len(matrix), 3))
    whole[:, [NAMES.index(name) for name in names]] = matrix
    return whole


def draw(names, matrix, widths, count, seed):
    rng = np.random.default_rng(seed)
    x = full(names, matrix) @ TRUE + np.asarray(widths) * rng.normal(size=(count, len(widths)))
    return x.astype(np.float32).astype(np.float64)


X1 = draw(("mu", "a"), M1, S1, 30, 1)
X2 = draw(("a", "nuisance", "mu"), M2, S2, 45, 2)
X3 = draw(("nuisance",), M3, S3, 4, 3)
PARTS = [
    (full(("mu", "a"), M1), np.array(S1), X1),
    (full(("a", "nuisance", "mu"), M2), np.array(S2), X2),
    (full(("nuisance",), M3), np.array(S3), X3),
]
THETA = np.array([0.3, -0.2, 0.5])


def combine(parts, precision=(0, 0, 0), mean=(0, 0, 0)):
    """The weighted least squares estimate and its covariance."""
    normal, right = np.diag(np.asarray(precision, float)), np.multiply(precision, mean)
    for matrix, width, x in parts:
        scaled = matrix / width[:, None] ** 2
        normal = normal + len(x) * matrix.T @ scaled
        right = right + scaled.T @ x.sum(axis=0)
    covariance = np.linalg.inv(normal)
    return covariance @ right, covariance


def test_the_value_and_derivatives_of_a_sum_are_those_of_its_parts():
    one, two = ist.Likelihood(ONE, X1), ist.Likelihood(TWO, X2)
    both = one + two
    assert both.names == NAMES
    assert both.events == 75
    order = [1, 2, 0]
    assert both.value(THETA) == pytest.approx(one.value(THETA[:2]) + two.value(THETA[order]))
    gradient = np.zeros(3)
    gradient[:2] += one.gradient(THETA[:2])
    gradient[order] += two.gradient(THETA[order])
    np.testing.assert_allclose(both.gradient(THETA), gradient, atol=1e-9)
    hessian = np.zeros((3, 3))
    hessian[:2, :2] += one.hessian(THETA[:2])
    hessian[np.ix_(order, order)] += two.hessian(THETA[order])
    np.testing.assert_allclose(both.hessian(THETA), hessian, atol=1e-6)
    per_event = [*one.per_event(THETA[:2]), *two.per_event(THETA[order])]
    np.testing.assert_allclose(both.per_event(THETA), per_event)
    scores = np.zeros((75, 3))
    scores[:30, :2] = one.scores(THETA[:2])
    scores[30:, order] = two.scores(THETA[order])
    np.testing.assert_allclose(both.scores(THETA), scores, atol=1e-9)
    expected = scores.T @ scores
    np.testing.assert_allclose(both.gradient_covariance(THETA), expected, atol=1e-6)
    swapped = two + one
    assert swapped.names == ("a", "nuisance", "mu")
    assert swapped.value(THETA[order]) == pytest.approx(both.value(THETA))
    assert "channel 1: 30 events; channel 2: 45 events" in repr(both)
    # The parts are as before.
    assert one.names == ("mu", "a")


def test_the_fit_of_channels_is_the_weighted_combination():
    both = ist.Likelihood(ONE, X1) + ist.Likelihood(TWO, X2)
    every = both + ist.Likelihood(THREE, X3)
    for likelihood, parts in ((both, PARTS[:2]), (every, PARTS)):
        theta, covariance = combine(parts)
        fit = ist.maximum_likelihood(likelihood)
        error = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(fit.theta, theta, atol=0.01 * error.min())
        scale = 0.005 * np.outer(error, error)
        assert np.all(np.abs(fit.covariance - covariance) < scale)
    other = ist.Likelihood(ONE, X1) + (ist.Likelihood(TWO, X2) + ist.Likelihood(THREE, X3))
    assert other.value(THETA) == pytest.approx(every.value(THETA))


def test_a_measurement_that_is_given_in_both_counts_once():
    pair = {"a": (-0.5, 0.1)}
    one = ist.Likelihood(ONE, X1, constraints=pair)
    two = ist.Likelihood(TWO, X2, constraints=pair | {"nuisance": (1.0, 0.2)})
    both = one + two
    away = np.array([(THETA[1] + 0.5) / 0.1, (THETA[2] - 1.0) / 0.2])
    plain = ist.Likelihood(ONE, X1) + ist.Likelihood(TWO, X2)
    assert both.value(THETA) - plain.value(THETA) == pytest.approx(-0.5 * (away**2).sum())
    theta, covariance = combine(PARTS[:2], [0, 100, 25], [0, -0.5, 1.0])
    fit = ist.maximum_likelihood(both)
    error = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(fit.theta, theta, atol=0.01 * error.min())
    np.testing.assert_allclose(fit.errors, error, rtol=5e-3)
    # One that only one of them has is kept, whichever comes first.
    late = ist.Likelihood(ONE, X1) + two
    early = two + ist.Likelihood(ONE, X1)
    assert late.value(THETA) == pytest.approx(both.value(THETA))
    assert early.value(THETA[[1, 2, 0]]) == pytest.approx(both.value(THETA))
    with pytest.raises(ValueError, match="both likelihoods constrain a, to different values"):
        _ = ist.Likelihood(ONE, X1, constraints={"a": (-0.5, 0.2)}) + two


def test_fixed_values_and_bounds_hold_in_the_sum():
    one = ist.Likelihood(ONE, X1, fixed={"a": -0.4}, bounds={"mu": (-1.0, 2.0)})
    both = one + ist.Likelihood(TWO, X2, bounds={"mu": (0.0, 3.0)})
    assert both.free.tolist() == [True, False, True]
    np.testing.assert_allclose(both.bounds[:, 0], [0.0, 2.0])
    assert (both.low[0], both.high[0]) == (0.0, 2.0)
    fit = ist.maximum_likelihood(both)
    # A fixed parameter is one that is measured without error.
    theta, covariance = combine(PARTS[:2], [0, 1e12, 0], [0, -0.4, 0])
    np.testing.assert_allclose(fit.theta, theta, atol=2e-3)
    assert fit.covariance[0, 0] == pytest.approx(covariance[0, 0], rel=5e-3)
    same = one + ist.Likelihood(TWO, X2, fixed={"a": -0.4})
    assert same.free.tolist() == [True, False, True]


def test_rates_belong_to_their_channels():
    one = ist.Likelihood(ONE, X1, rate=lambda t: 30 + 3 * t[1])
    two = ist.Likelihood(TWO, X2, rate=lambda t: 40 + 5 * float(t[1]))
    both = one + two
    plain = ist.Likelihood(ONE, X1) + ist.Likelihood(TWO, X2)
    first, second = 30 + 3 * THETA[1], 40 + 5 * THETA[2]
    exact = 30 * np.log(first) - first + 45 * np.log(second) - second
    assert both.value(THETA) - plain.value(THETA) == pytest.approx(exact)
    slope = np.array([0, 3 * (30 / first - 1), 5 * (45 / second - 1)])
    np.testing.assert_allclose(both.gradient(THETA) - plain.gradient(THETA), slope, atol=1e-6)
    scores = plain.scores(THETA)
    scores[:30, 1] += 3 / first
    scores[30:, 2] += 5 / second
    covariance = both.gradient_covariance(THETA)
    np.testing.assert_allclose(covariance, scores.T @ scores, rtol=1e-6, atol=1e-6)
    text = ist.maximum_likelihood(both).summary()
    assert text.count("Poisson term") == 2


def test_weights_of_one_channel_make_the_covariance_a_sandwich():
    w = np.random.default_rng(1).exponential(1.0, 45)
    fit = ist.maximum_likelihood(ist.Likelihood(ONE, X1) + ist.Likelihood(TWO, X2, weight=w))
    scaled = PARTS[1][0] / PARTS[1][1][:, None] ** 2
    first = PARTS[0][0] / PARTS[0][1][:, None] ** 2
    normal = 30 * PARTS[0][0].T @ first + w.sum() * PARTS[1][0].T @ scaled
    theta = np.linalg.solve(normal, first.T @ X1.sum(axis=0) + scaled.T @ (w @ X2))
    scores = np.concatenate(
        [
            (X1 - theta @ PARTS[0][0].T) @ first,
            w[:, None] * ((X2 - theta @ PARTS[1][0].T) @ scaled),
        ]
    )
    inverse = np.linalg.inv(normal)
    exact = inverse @ scores.T @ scores @ inverse
    np.testing.assert_allclose(fit.theta, theta, atol=0.01 * np.sqrt(exact.diagonal().min()))
    np.testing.assert_allclose(fit.errors, np.sqrt(np.diag(exact)), rtol=0.01)


def test_the_profile_of_a_sum():
    fit = ist.maximum_likelihood(ist.Likelihood(ONE, X1) + ist.Likelihood(TWO, X2))
    theta, covariance = combine(PARTS[:2])
    error = np.sqrt(covariance[2, 2])
    q = fit.profile("nuisance", [theta[2] - error, theta[2] + 2 * error]).q
    np.testing.assert_allclose(q, [1.0, 4.0], rtol=0.02)
