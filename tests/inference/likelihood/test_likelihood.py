"""`Likelihood`: sums, derivatives and restrictions against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_estimator, exact_normal, gaussian
from inferostatic.inference.likelihood import event_sum
from inferostatic.inference.likelihood.float64 import float64
from inferostatic.inference.likelihood.log_likelihood import value_and_derivatives
from random_estimators import random_estimator

FRACTIONS, PAIR = exact_dirichlet(), exact_normal(dim=2)
THETA = np.array([1.3, 2.2, 0.7])
# In float32, as models read events: then sums agree to the last digits of float64.
X = np.random.default_rng(1).dirichlet(THETA, 37).astype(np.float32).astype(np.float64)
WEIGHT = np.random.default_rng(2).normal(0.5, 1.0, 37)


def log_dirichlet(x, theta):
    norm = gammaln(theta.sum()) - gammaln(theta).sum()
    return norm + np.log(x) @ (theta - 1)


def dirichlet_score(x, theta):
    return digamma(theta.sum()) - digamma(theta) + np.log(x)


def dirichlet_hessian(theta, total):
    return total * (polygamma(1, theta.sum()) - np.diag(polygamma(1, theta)))


def numerical_hessian(gradient, theta, step=1e-4):
    rows = []
    for i in range(len(theta)):
        away = np.eye(len(theta))[i] * step
        rows.append((gradient(theta + away) - gradient(theta - away)) / (2 * step))
    return np.array(rows)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_value_derivatives_and_terms_are_sums_of_the_known_density(weight):
    likelihood = ist.Likelihood(FRACTIONS, X, weight=weight)
    w = np.ones(37) if weight is None else weight
    assert likelihood.value(THETA) == pytest.approx(w @ log_dirichlet(X, THETA), abs=1e-6)
    grid = np.random.default_rng(3).uniform(0.3, 5, (70, 3))
    exact = [w @ log_dirichlet(X, theta) for theta in grid]
    np.testing.assert_allclose(likelihood.values(grid), exact, rtol=1e-7, atol=1e-6)
    score = dirichlet_score(X, THETA)
    np.testing.assert_allclose(likelihood.gradient(THETA), w @ score, atol=1e-6)
    exact = dirichlet_hessian(THETA, w.sum())
    # By differences, as the code of this network is the user's own: exact to h⁴ of the region.
    np.testing.assert_allclose(likelihood.hessian(THETA), exact, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(likelihood.per_event(THETA), w * log_dirichlet(X, THETA), atol=1e-6)
    np.testing.assert_allclose(likelihood.scores(THETA), w[:, None] * score, atol=1e-6)
    scattered = (w[:, None] * score).T @ (w[:, None] * score)
    np.testing.assert_allclose(likelihood.gradient_covariance(THETA), scattered, atol=1e-5)


@pytest.mark.parametrize("activation", [jax.nn.silu, jax.nn.selu])
def test_the_hessian_of_a_network_is_that_of_its_gradient(activation):
    """A smooth one by automatic differentiation, SELU by differences of the same mean gradient."""
    network = random_estimator(ist.Potential(ist.MLP((8, 8), activation=activation)), members=2)
    x = np.random.default_rng(1).uniform(-2, 2, (20_000, 3))
    likelihood, theta = ist.Likelihood(network, x), np.array([1.7, 0.4])
    hessian = likelihood.hessian(theta)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9)
    if activation is jax.nn.silu:
        exact = numerical_hessian(likelihood.gradient, theta)
        np.testing.assert_allclose(hessian, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
        return
    # Over a step that many events' jumps lie within.
    exact = numerical_hessian(likelihood.gradient, theta, 0.08)
    with float64():
        found = value_and_derivatives(likelihood.function, jnp.asarray(theta))
    scale, wrong = np.abs(exact).max(), np.asarray(found.hessian)
    assert np.abs(hessian - exact).max() < 0.1 * scale
    assert np.abs(wrong - exact).max() > 0.2 * scale


def test_values_of_a_network_are_those_of_its_potential():
    network = random_estimator(ist.Potential(ist.MLP((8, 8))), members=3)
    x = np.random.default_rng(1).uniform(-2, 2, (40, 3)).astype(np.float32)
    likelihood, theta = ist.Likelihood(network, x), np.array([1.7, 0.4])
    single = np.asarray(network.potential(x, np.tile(theta, (40, 1))), np.float64)
    np.testing.assert_allclose(likelihood.per_event(theta), single, rtol=2e-5, atol=2e-4)
    assert likelihood.value(theta) == pytest.approx(single.sum(), rel=1e-5, abs=1e-3)
    score = np.asarray(network.score(x, np.tile(theta, (40, 1))))
    np.testing.assert_allclose(likelihood.scores(theta), score, rtol=1e-4, atol=1e-3)


def test_members_and_estimators_are_averaged():
    """Strengths 1 and 3 of one estimator, 0.5 of another: (2 + 0.5)/2 times the potential."""
    box = (np.full(2, -8.0), np.full(2, 8.0))
    prior = ist.Uniform([-3.0, -3.0], [3.0, 3.0])
    one = exact_estimator(gaussian, prior, *box, strengths=(1.0, 3.0))
    two = exact_estimator(gaussian, prior, *box, strengths=(0.5,))
    x, theta = X[:, :2], np.array([0.4, -0.2])
    phi = -((x - theta) ** 2).sum(axis=1) / 2
    likelihood = ist.Likelihood([one, two], x)
    assert likelihood.value(theta) == pytest.approx(1.25 * phi.sum(), rel=1e-6)
    np.testing.assert_allclose(likelihood.per_event(theta), 1.25 * phi, rtol=1e-6)
    np.testing.assert_allclose(likelihood.scores(theta), 1.25 * (x - theta), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(likelihood.gradient(theta), 1.25 * (x - theta).sum(axis=0))
    np.testing.assert_allclose(likelihood.hessian(theta), -1.25 * 37 * np.eye(2), atol=1e-6)
    fit = ist.maximum_likelihood(likelihood)
    np.testing.assert_allclose(fit.theta, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(fit.covariance, np.eye(2) / 1.25 / 37, rtol=1e-3, atol=1e-6)
    assert ist.Likelihood([one, two], x).estimators == (one, two)


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("count", [1, 50])
def test_any_number_of_chunks_gives_the_same_sum(monkeypatch, count, embedded):
    # The constants are compiled in, and a function of its own shares no compilation.
    low, high = PAIR.region.x_low, PAIR.region.x_high
    pair = exact_estimator(lambda x, theta: gaussian(x, theta), PAIR.prior, low, high)
    monkeypatch.setattr(event_sum, "CHUNK_EVENTS", 16)
    if not embedded:
        monkeypatch.setattr(event_sum, "MOST_EMBEDDED", 0)
    rng = np.random.default_rng(count)
    x = rng.normal(0.3, 1.0, (count, 2)).astype(np.float32).astype(np.float64)
    w, theta = rng.normal(1.0, 0.5, count), np.array([0.4, -0.2])
    likelihood = ist.Likelihood(pair, x, weight=w)
    assert (likelihood.function.sums[0].parts is None) != embedded
    phi = -((x - theta) ** 2).sum(axis=1) / 2
    assert likelihood.value(theta) == pytest.approx(w @ phi, rel=1e-9)
    np.testing.assert_allclose(likelihood.gradient(theta), w @ (x - theta), rtol=1e-9)
    np.testing.assert_allclose(likelihood.per_event(theta), w * phi, rtol=1e-9)
    found = likelihood.model.maximum(likelihood.data, theta[None])
    np.testing.assert_allclose(found.theta[0], w @ x / w.sum(), atol=1e-6)
    np.testing.assert_allclose(found.hessian[0], -w.sum() * np.eye(2), atol=1e-9)


def test_the_last_digit_is_kept_over_many_events():
    x = np.random.default_rng(0).normal(size=(300_001, 1)).astype(np.float32).astype(np.float64)
    likelihood = ist.Likelihood(exact_normal(), x)
    exact = -0.5 * np.sum((x - 0.1) ** 2)
    assert likelihood.value([0.1]) == pytest.approx(exact, rel=1e-12)
    two = likelihood.values([[0.1], [0.1 + 1e-9]])
    assert two[1] - two[0] == pytest.approx(1e-9 * np.sum(x - 0.1), rel=0.01)


def test_constraints_add_parabolas():
    plain = ist.Likelihood(FRACTIONS, X)
    both = ist.Likelihood(FRACTIONS, X, constraints={"b": (2.0, 0.25), "c": (0.5, 0.1)})
    away = (THETA - [0, 2.0, 0.5]) / [1, 0.25, 0.1]
    difference = both.value(THETA) - plain.value(THETA)
    assert difference == pytest.approx(-0.5 * (away[1] ** 2 + away[2] ** 2), abs=1e-8)
    pull = [0, -away[1] / 0.25, -away[2] / 0.1]
    np.testing.assert_allclose(both.gradient(THETA) - plain.gradient(THETA), pull, atol=1e-8)
    extra = both.gradient_covariance(THETA) - plain.gradient_covariance(THETA)
    np.testing.assert_allclose(extra, np.diag([0, 16, 100]), atol=1e-9)
    hessian = both.hessian(THETA) - plain.hessian(THETA)
    np.testing.assert_allclose(hessian, -np.diag([0, 16, 100]), atol=1e-6)


def test_restrictions_make_new_likelihoods_and_leave_the_old_alone():
    likelihood = ist.Likelihood(FRACTIONS, X)
    before, text = likelihood.value(THETA), repr(likelihood)
    held = likelihood.fix(a=1.5)
    cut = likelihood.bound(b=(1.0, 2.0))
    measured = likelihood.constrain(c=(0.5, 0.1))
    again = measured.constrain(c=(0.6, 0.2), a=(1.0, 1.0))
    assert likelihood.free.all()
    assert held.free.tolist() == [False, True, True]
    assert held.low[0] == held.high[0] == 1.5
    assert (cut.low[1], cut.high[1]) == (1.0, 2.0)
    assert likelihood.low[1] == pytest.approx(0.1)
    assert likelihood.value(THETA) == before == held.value(THETA) == cut.value(THETA)
    assert measured.value(THETA) == pytest.approx(before - 0.5 * (0.2 / 0.1) ** 2)
    second = before - 0.5 * (0.1 / 0.2) ** 2 - 0.5 * 0.3**2
    assert again.value(THETA) == pytest.approx(second)
    assert measured.value(THETA) == pytest.approx(before - 2.0)
    assert repr(likelihood) == text == "Likelihood(a, b, c; 37 events)"
    assert repr(held) == "Likelihood(b, c; 37 events; fixed: a = 1.5)"
    assert "constraints: c = 0.5 ± 0.1" in repr(measured)
    weighted = repr(ist.Likelihood(FRACTIONS, X, weight=np.full(37, 2.0)))
    assert "37 events of total weight 74, as good as 37 unweighted ones" in weighted
    assert "1 event)" in repr(ist.Likelihood(FRACTIONS, X[0]))
    assert likelihood.events == 37
    assert likelihood.names == ("a", "b", "c")


def test_all_at_once_is_one_after_the_other():
    given = ist.Likelihood(
        FRACTIONS,
        X,
        constraints={"c": (0.5, 0.1)},
        fixed={"a": 1.5},
        bounds={"b": (1.0, 2.0), "a": (1, 2)},
    )
    made = ist.Likelihood(FRACTIONS, X).bound(a=(1, 2), b=(1.0, 2.0)).constrain(c=(0.5, 0.1))
    made = made.fix(a=1.5)
    assert repr(given) == repr(made)
    np.testing.assert_array_equal(given.low, made.low)
    np.testing.assert_array_equal(given.high, made.high)
    np.testing.assert_array_equal(given.bounds, made.bounds)
    assert given.value(THETA) == made.value(THETA)


def test_the_short_form_is_a_plain_likelihood():
    one = ist.maximum_likelihood(PAIR, X[:, :2])
    two = ist.maximum_likelihood(ist.Likelihood(PAIR, X[:, :2]))
    np.testing.assert_array_equal(one.theta, two.theta)
    three = ist.maximum_likelihood(PAIR, x=X[:, :2])  # pyright: ignore
    np.testing.assert_array_equal(one.theta, three.theta)


def test_the_fit_profile_and_contour_of_held_and_cut_parameters():
    rng = np.random.default_rng(5)
    x = rng.multivariate_normal([0.5, -0.3], np.eye(2), 50)
    fit = ist.maximum_likelihood(ist.Likelihood(PAIR, x, fixed={"theta0": 0.7}), minos=True)
    assert fit.theta[0] == 0.7
    assert fit.theta[1] == pytest.approx(x[:, 1].mean(), abs=1e-4)
    np.testing.assert_allclose(fit.covariance, np.diag([0, 1 / 50]), atol=1e-5)
    constrained = ist.Likelihood(PAIR, x, constraints={"theta0": (0.0, 0.1)})
    fit = ist.maximum_likelihood(constrained)
    mean, variance = 50 * x[:, 0].mean() / 150, 1 / 150
    assert fit.theta[0] == pytest.approx(mean, abs=1e-4)
    assert fit.covariance[0, 0] == pytest.approx(variance, rel=1e-3)
    profile = fit.profile("theta0", [0.0, 0.3])
    np.testing.assert_allclose(profile.q, (np.array([0.0, 0.3]) - mean) ** 2 * 150, rtol=1e-3)
    contour = fit.contour("theta0", "theta1", 0.5, points=8)
    away = ((contour - fit.theta) ** 2 * [150, 50]).sum(axis=1)
    np.testing.assert_allclose(away, -2 * np.log(0.5), rtol=5e-3)


def test_weighted_events_have_the_sandwich_as_covariance():
    rng = np.random.default_rng(6)
    x, w = rng.normal(0.2, 1.0, (400, 1)), rng.exponential(1.0, 400) - 0.2
    fit = ist.maximum_likelihood(ist.Likelihood(exact_normal(), x, weight=w))
    mean = w @ x[:, 0] / w.sum()
    variance = np.sum(w**2 * (x[:, 0] - mean) ** 2) / w.sum() ** 2
    assert fit.theta[0] == pytest.approx(mean, abs=0.01 * np.sqrt(variance))
    assert fit.covariance[0, 0] == pytest.approx(variance, rel=5e-3)
    half = np.diff(fit.interval()[0]) / 2
    assert half[0] == pytest.approx(np.sqrt(variance), rel=5e-3)
