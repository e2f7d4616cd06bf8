"""Weights, rates, constraints, fixed parameters, intervals and contours, against closed forms."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.chi_square import chi2_quantile
from inferostatic.inference.likelihood.rate import read_rate

NORMAL = exact_normal(dim=2)
DIRICHLET = exact_dirichlet()
TOY = ist.toys.Dirichlet(3)


#: Options of the fit; the others are parts of the likelihood.
OPTIONS = ("start", "starts", "minos", "throw")


def fit(estimator, x, **given):
    options = {name: given.pop(name) for name in OPTIONS if name in given}
    return ist.maximum_likelihood(ist.Likelihood(estimator, x, **given), **options)


def normal_events(n: int = 200, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).normal([0.5, -1.0], 1.0, (n, 2))
    return x.astype(np.float32).astype(np.float64)


X = normal_events()


def jax_rate(theta):
    return 150 * jnp.exp(0.3 * theta[0] - 0.2 * theta[1])


def numpy_rate(theta):
    return 150 * math.exp(0.3 * theta[0] - 0.2 * theta[1])


# Terms of the likelihood.


def test_integer_weights_are_repeated_events_and_errors_are_the_sandwich():
    weight = np.arange(len(X)) % 4
    result = fit(NORMAL, X, weight=weight)
    again = fit(NORMAL, np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(result.theta, again.theta, atol=1e-4)
    assert result.log_likelihood == pytest.approx(again.log_likelihood, abs=1e-6)
    away = weight[:, None] * (X - np.average(X, axis=0, weights=weight))
    exact = away.T @ away / weight.sum() ** 2
    np.testing.assert_allclose(result.covariance, exact, rtol=0.01, atol=1e-5)
    # The scatter of the weights makes the error larger than that of as many single events.
    assert np.all(result.errors > 1.1 * again.errors)
    expected = result.theta[:, None] + np.sqrt(np.diag(exact))[:, None] * [-1, 1]
    np.testing.assert_allclose(result.interval(), expected, atol=0.002)
    assert "as good as" in result.summary()


def test_weights_may_be_negative():
    rng = np.random.default_rng(3)
    noise = rng.normal(2.0, 0.3, (300, 2))
    x = np.concatenate([rng.normal([0.5, -1.0], 1.0, (3000, 2)), noise])
    weight = np.where(np.arange(3300) < 3000, 1.0, -0.5)
    result = fit(NORMAL, x, weight=weight)
    exact = (weight @ x) / weight.sum()
    np.testing.assert_allclose(result.theta, exact, atol=1e-3)


def extended(theta: np.ndarray) -> float:
    rate = numpy_rate(theta)
    return 0.5 * ((X - theta) ** 2).sum() + rate - len(X) * math.log(rate)


@pytest.mark.parametrize("rate", [jax_rate, numpy_rate])
def test_a_rate_adds_the_poisson_term(rate):
    result = fit(NORMAL, X, rate=rate)
    exact = optimize.minimize(extended, [0.0, 0.0], options={"gtol": 1e-7}).x
    np.testing.assert_allclose(result.theta, exact, atol=0.01 * result.errors.max())
    slope = np.array([0.3, -0.2])
    hessian = len(X) * np.eye(2) + numpy_rate(exact) * np.outer(slope, slope)
    np.testing.assert_allclose(result.covariance, np.linalg.inv(hessian), rtol=0.01, atol=1e-5)
    assert result.sandwich is not None
    # The extended likelihood is right here up to the rate, so both estimates of errors agree.
    assert np.abs(np.diag(result.sandwich) / np.diag(result.covariance) - 1).max() < 0.5
    assert result.log_likelihood == pytest.approx(-extended(exact), abs=1e-4)
    how = "automatic differentiation" if rate is jax_rate else "finite differences"
    assert how in result.summary()


@pytest.mark.parametrize("rate", [jax_rate, numpy_rate])
def test_the_gradient_with_all_terms_is_that_of_the_value(rate):
    low, high = np.full(2, -3.0), np.full(2, 3.0)
    expected = read_rate(rate, low, high)
    assert expected.traceable == (rate is jax_rate)
    weight = np.linspace(-0.5, 2.0, len(X))
    objective = ist.Likelihood(
        NORMAL, X, weight=weight, rate=rate, constraints={"theta1": (0.3, 0.1)}
    )
    theta, step = np.array([0.7, -0.4]), 1e-5
    differences = [
        (objective.value(theta + shift) - objective.value(theta - shift)) / (2 * step)
        for shift in step * np.eye(2)
    ]
    np.testing.assert_allclose(objective.gradient(theta), differences, rtol=1e-6)
    # At the edge of the region a numerical slope is one-sided.
    np.testing.assert_allclose(
        expected.value_and_slope(high)[1], float(rate(high)) * np.array([0.3, -0.2]), rtol=1e-4
    )


def test_a_constraint_is_one_more_measurement():
    n, sd = len(X), 0.05
    result = fit(NORMAL, X, constraints={"theta1": (-0.7, sd)})
    total = n + sd**-2
    mean = X.mean(axis=0)
    np.testing.assert_allclose(result.theta[0], mean[0], atol=1e-3)
    np.testing.assert_allclose(result.theta[1], (n * mean[1] - 0.7 * sd**-2) / total, atol=5e-4)
    np.testing.assert_allclose(result.errors, [n**-0.5, total**-0.5], rtol=0.01)
    assert "constraints: theta1 = -0.7 ± 0.05" in result.summary()


def test_a_fixed_parameter_stays_and_conditions_the_others():
    x = TOY(np.tile([1.5, 3.0, 4.0], (100, 1)), np.random.default_rng(5))
    result = fit(DIRICHLET, x, fixed={"b": 2.5})
    assert result.theta[1] == 2.5
    assert result.errors[1] == 0
    assert "b = 2.5 (fixed)" in repr(result)
    assert "fixed" in result.summary()
    exact = optimize.minimize(
        lambda t: -TOY.log_prob(x, np.array([t[0], 2.5, t[1]])).sum(), [1.5, 3.5], tol=1e-9
    ).x
    np.testing.assert_allclose(result.theta[[0, 2]], exact, atol=0.02 * result.errors.max())
    information = 100 * TOY.fisher(result.theta)[np.ix_([0, 2], [0, 2])]
    np.testing.assert_allclose(
        result.covariance[np.ix_([0, 2], [0, 2])], np.linalg.inv(information), rtol=0.01
    )
    np.testing.assert_array_equal(result.interval(0.9)[1], [2.5, 2.5])
    with pytest.raises(ValueError, match="b was held fixed"):
        result.profile("b", [2.0])


def test_several_starts_find_the_deeper_of_two_minima():
    def rate(theta):  # one event is expected at theta0 = ±2
        return jnp.exp(2 * (theta[0] ** 2 - 4))

    x = np.array([[1.0, 0.0]])
    single = fit(NORMAL, x, rate=rate, start=[-1.9, 0.0])
    many = fit(NORMAL, x, rate=rate, start=[-1.9, 0.0], starts=6)
    assert single.theta[0] == pytest.approx(-2, abs=0.1)
    assert many.theta[0] == pytest.approx(2, abs=0.1)
    assert many.log_likelihood > single.log_likelihood + 3
    assert "of 6 starts found this minimum" in many.summary()
    # A scan that comes upon the deeper minimum says so.
    with pytest.warns(UserWarning, match="higher likelihood than the estimate"):
        single.profile("theta0", [2.0])


# Profiles, intervals and contours.


def exact_profile(x: np.ndarray, index: int, value: float) -> float:
    """−2 ln L of the Dirichlet with one parameter held, by another minimiser."""
    others = [k for k in range(3) if k != index]

    def minus(free: np.ndarray) -> float:
        theta = np.insert(free, index, value)
        total = special.gammaln(theta.sum()) - special.gammaln(theta).sum()
        return -2 * (len(x) * total + ((theta - 1) * np.log(x)).sum())

    begin = np.array([1.5, 3.0, 4.0])[others]
    return optimize.minimize(minus, begin, method="Nelder-Mead", options={"fatol": 1e-9}).fun


@pytest.fixture(scope="module")
def dirichlet():
    x = TOY(np.tile([1.2, 2.0, 2.5], (60, 1)), np.random.default_rng(6))
    x = x.astype(np.float32).astype(np.float64)
    return x, fit(DIRICHLET, x, minos=True)


def test_profile_and_interval_are_those_of_the_exact_likelihood(dirichlet):
    x, result = dirichlet
    values = result.theta[0] + result.errors[0] * np.array([-1.0, 0.0, 1.5])
    scan = result.profile("a", values)
    least = min(exact_profile(x, 0, v) for v in result.theta[0] + np.array([-1e-3, 0, 1e-3]))
    exact = [exact_profile(x, 0, v) - least for v in values]
    np.testing.assert_allclose(scan.q, exact, atol=0.003)
    np.testing.assert_array_equal(scan.theta[:, 0], values)
    assert repr(scan).startswith("Profile(a at 3 values")

    ends = result.interval(0.95)
    for index in (0, 2):
        for end in ends[index]:
            above = exact_profile(x, index, end) - least
            assert above == pytest.approx(stats.chi2.ppf(0.95, 1), abs=0.05)
    # So few events leave the likelihood skewed: the upper errors are longer.
    assert np.all(result.minos[:, 1] > -1.05 * result.minos[:, 0])
    np.testing.assert_allclose(result.interval(0.6826895), result.theta[:, None] + result.minos)
    assert "minos +" in result.summary()


def test_the_search_of_the_profile_agrees_with_minos(dirichlet):
    _, result = dirichlet
    near = result._profiler
    for sign, end in zip((-1.0, 1.0), result.interval(0.9)[1], strict=True):
        found = near.crossing([1], np.array([sign]), chi2_quantile(0.9, 1))
        assert found[0] == pytest.approx(end, abs=0.01 * result.errors[1])


def test_a_contour_of_normal_events_is_a_circle_and_covers_both_parameters():
    result = fit(NORMAL, X)
    curve = result.contour("theta0", 1, 0.68, points=8)
    radius = np.sqrt(stats.chi2.ppf(0.68, 2) / len(X))
    assert curve.shape == (8, 2)
    np.testing.assert_allclose(np.hypot(*(curve - X.mean(axis=0)).T), radius, rtol=0.01)


def test_a_contour_profiles_the_third_parameter(dirichlet):
    _, result = dirichlet
    for point in result.contour("a", "c", 0.5, points=4):
        q, _ = result._profiler.q([0, 2], point)
        assert q == pytest.approx(stats.chi2.ppf(0.5, 2), abs=0.01)


def test_an_interval_ends_at_the_edge_of_the_region():
    x = normal_events(40) + [2.3, 0.0]
    result = fit(NORMAL, x)
    low, high = result.interval(0.999)[0]
    assert high == pytest.approx(3.0)
    assert low == pytest.approx(result.theta[0] - 3.2905 / math.sqrt(40), abs=0.005)
    with pytest.warns(UserWarning, match="edge of the trained region"):
        beyond = fit(NORMAL, x + [1.0, 0.0])
    ends = beyond.interval(0.9)
    assert ends[0, 1] == pytest.approx(3.0, abs=1e-3)
    np.testing.assert_allclose(
        ends[1], x[:, 1].mean() + 1.6449 / 40**0.5 * np.array([-1, 1]), atol=0.003
    )


# Misuse.


def test_questions_to_a_fit_that_make_no_sense_are_refused():
    result = fit(NORMAL, X)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        result.interval(68)
    with pytest.raises(ValueError, match="theta0 twice"):
        result.contour(0, "theta0")
    with pytest.raises(ValueError, match=r"'c' is no parameter; they are theta0, theta1"):
        result.profile("c", [1.0])
    with pytest.raises(ValueError, match="inside the trained region"):
        result.profile("theta0", [5.0])
