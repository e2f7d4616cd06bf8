"""Extended likelihoods: ν(θ) traced by JAX or called back, against closed forms."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, exact_normal

RNG = np.random.default_rng(4)
X = RNG.normal(0.2, 1.0, (23, 2)).astype(np.float32).astype(np.float64)
PAIR = exact_normal(dim=2)
THETA = np.array([0.5, -0.4])


def nothing(x, theta):
    """Events that know nothing of θ, so that only their number counts."""
    return 0.0 * (x.sum() + theta.sum())


COUNTED = exact_estimator(
    nothing, ist.Uniform([1.0], [60.0], names=["nu"]), np.array([-9.0]), np.array([9.0])
)


def traced(theta):
    return 20.0 * jnp.exp(0.3 * theta[0]) + 0.2 * theta[0] * theta[1] ** 2 + 3.0


def untraceable(theta):
    first, second = float(theta[0]), float(theta[1])
    return float(20.0 * np.exp(0.3 * first) + 0.2 * first * second**2 + 3.0)


def rate_value(theta):
    return 20.0 * np.exp(0.3 * theta[0]) + 0.2 * theta[0] * theta[1] ** 2 + 3.0


def rate_slope(theta):
    a, b = theta
    return np.array([6.0 * np.exp(0.3 * a) + 0.2 * b**2, 0.4 * a * b])


def rate_curvature(theta):
    a, b = theta
    return np.array([[1.8 * np.exp(0.3 * a), 0.4 * b], [0.4 * b, 0.4 * a]])


def normal(theta, rng):
    return theta + rng.normal(size=theta.shape)


@pytest.mark.parametrize("weight", [None, RNG.normal(1.0, 1.0, 23)])
@pytest.mark.parametrize("rate", [traced, untraceable])
def test_the_poisson_term_and_its_derivatives(rate, weight):
    likelihood = ist.Likelihood(PAIR, X, rate=rate, weight=weight)
    plain = ist.Likelihood(PAIR, X, weight=weight)
    w = np.ones(23) if weight is None else weight
    total, v, s, c = w.sum(), rate_value(THETA), rate_slope(THETA), rate_curvature(THETA)
    exact = total * np.log(v) - v
    assert likelihood.value(THETA) - plain.value(THETA) == pytest.approx(exact, abs=1e-9)
    slope = (total / v - 1) * s
    found = likelihood.gradient(THETA) - plain.gradient(THETA)
    np.testing.assert_allclose(found, slope, atol=1e-6)
    curvature = (total / v - 1) * c - total / v**2 * np.outer(s, s)
    found = likelihood.hessian(THETA) - plain.hessian(THETA)
    np.testing.assert_allclose(found, curvature, atol=1e-4)
    fitted = likelihood.model.maximum(likelihood.data, np.tile(THETA, (3, 1)))
    own = likelihood.gradient(fitted.theta[2])
    np.testing.assert_allclose(own, 0.0, atol=2e-2)
    # The Newton steps use the Hessian under vmap.
    here = fitted.theta[0]
    v, s, c = rate_value(here), rate_slope(here), rate_curvature(here)
    curvature = (total / v - 1) * c - total / v**2 * np.outer(s, s) - total * np.eye(2)
    np.testing.assert_allclose(fitted.hessian[0], curvature, rtol=1e-4, atol=1e-4)
    scores = w[:, None] * (X - THETA + rate_slope(THETA) / rate_value(THETA))
    found = likelihood.gradient_covariance(THETA)
    np.testing.assert_allclose(found, scores.T @ scores, rtol=1e-6, atol=1e-6)


def test_both_ways_give_the_same_fit_and_say_which_they_are():
    fits = [
        ist.maximum_likelihood(ist.Likelihood(PAIR, X, rate=rate)) for rate in (traced, untraceable)
    ]
    np.testing.assert_allclose(fits[0].theta, fits[1].theta, atol=1e-5)
    np.testing.assert_allclose(fits[0].covariance, fits[1].covariance, rtol=1e-3, atol=1e-7)
    assert "23 observed; slope by automatic differentiation" in fits[0].summary()
    assert "slope by finite differences, as JAX cannot trace" in fits[1].summary()
    q = [
        ist.confidence_set(
            ist.Likelihood(PAIR, X, rate=rate), parameters="theta0", grid=[0.0, 0.5]
        ).statistic
        for rate in (traced, untraceable)
    ]
    np.testing.assert_allclose(q[0], q[1], atol=1e-4)


@pytest.mark.parametrize("rate", [lambda t: t[0], lambda t: float(t[0])])
def test_the_number_of_events_alone_measures_the_rate(rate):
    """ν = θ and φ ≡ 0: θ̂ = n, its variance n, and q = 2(θ − n + n ln(n/θ))."""
    x = np.zeros((25, 1))
    likelihood = ist.Likelihood(COUNTED, x, rate=rate)
    fit = ist.maximum_likelihood(likelihood, minos=True)
    assert fit.theta[0] == pytest.approx(25, abs=0.01)
    assert fit.covariance[0, 0] == pytest.approx(25, rel=2e-3)
    assert fit.sandwich is not None
    assert fit.sandwich[0, 0] == pytest.approx(25, rel=4e-3)
    values = np.array([15.0, 22.0, 40.0])
    exact = 2 * (values - 25 + 25 * np.log(25 / values))
    np.testing.assert_allclose(fit.profile("nu", values).q, exact, atol=1e-3)
    ends = fit.theta[0] + fit.minos[0]  # pyright: ignore[reportOptionalSubscript]
    np.testing.assert_allclose(2 * (ends - 25 + 25 * np.log(25 / ends)), 1.0, atol=5e-3)


def test_weights_count_by_their_sum():
    """Of compound Poisson numbers: θ̂ = Σw with the variance Σw²."""
    w = np.random.default_rng(1).exponential(1.0, 40) - 0.1
    fit = ist.maximum_likelihood(ist.Likelihood(COUNTED, np.zeros((40, 1)), rate=sum, weight=w))
    # Minuit stops within a hundredth of an error, and HESSE knows it to half a percent.
    assert fit.theta[0] == pytest.approx(w.sum(), abs=0.02 * fit.errors[0])
    assert fit.covariance[0, 0] == pytest.approx(np.sum(w**2), rel=1e-2)


@pytest.mark.parametrize("rate", [traced, untraceable])
def test_the_hessian_at_an_edge_of_the_region(rate):
    edge = np.array([3.0, -0.4])
    likelihood, plain = ist.Likelihood(PAIR, X, rate=rate), ist.Likelihood(PAIR, X)
    v, s, c = rate_value(edge), rate_slope(edge), rate_curvature(edge)
    curvature = (23 / v - 1) * c - 23 / v**2 * np.outer(s, s)
    found = likelihood.hessian(edge) - plain.hessian(edge)
    np.testing.assert_allclose(found, curvature, rtol=5e-3)
    slope = (23 / v - 1) * s
    np.testing.assert_allclose(likelihood.gradient(edge) - plain.gradient(edge), slope, atol=2e-3)


def posterior_moments():
    """Mean and standard deviations of the posterior of `X` and its number, by a direct sum."""
    axis = np.linspace(-3, 3, 601)
    points = np.stack([a.ravel() for a in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    nu = rate_value(points.T)
    log_p = 23 * np.log(nu) - nu - 11.5 * (points**2).sum(axis=1) + points @ X.sum(axis=0)
    p = np.exp(log_p - log_p.max())
    mean = p @ points / p.sum()
    return mean, np.sqrt(p @ (points - mean) ** 2 / p.sum())


def test_the_posterior_on_a_grid_is_a_direct_sum():
    mean, spread = posterior_moments()
    grid = ist.posterior(ist.Likelihood(PAIR, X, rate=traced), method=ist.Grid(), seed=1)
    np.testing.assert_allclose(grid.mean, mean, atol=0.01 * spread.min())
    np.testing.assert_allclose(grid.std, spread, rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [traced, untraceable])
def test_nuts_draws_with_the_rate(rate):
    """A rate that JAX cannot trace is called back at every step, so there are few draws."""
    mean, spread = posterior_moments()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the samples are worth only|the chains do not agree")
        likelihood = ist.Likelihood(PAIR, X, rate=rate)
        found = ist.posterior(likelihood, method=ist.NUTS(draws=200, chains=2), seed=1)
    error = spread / np.sqrt(found.sampling.ess)
    assert np.all(np.abs(found.mean - mean) < 4.5 * error)
    assert np.all(np.abs(found.std / spread - 1) < 4.5 / np.sqrt(found.sampling.ess))


def test_a_rate_must_be_positive_where_it_is_needed():
    with pytest.raises(ValueError, match=r"rate must be positive .* it is -30\.5"):
        ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=lambda t: -t[0])
    with pytest.raises(ValueError, match="rate must be positive"):
        ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=lambda t: float(-t[0]))
    with pytest.raises(ValueError, match="rate failed at"):
        ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=lambda t: {}["number"])
    with pytest.raises(ValueError, match="rate failed at"):
        ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=lambda t: np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match="rate must be a function of θ"):
        ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=10.0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("rate", [lambda t: t[0] - 12.0, lambda t: float(t[0] - 12.0)])
def test_a_rate_that_is_negative_in_a_part_of_the_region(rate):
    """Fine in the middle, where it is tried, but not where fits may go."""
    likelihood = ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=rate)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="rate must be positive"):
        ist.confidence_set(likelihood)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="rate must be positive"):
        ist.maximum_likelihood(likelihood)
    # Bounds leave the part where it is right.
    fit = ist.maximum_likelihood(likelihood.bound(nu=(12.5, 60.0)))
    assert fit.theta[0] == pytest.approx(17.0, abs=0.02)


def test_no_event_is_a_measurement_of_the_rate():
    """ln L = −ν: the estimate is the lower end, and q = 2(ν − ν_low)."""
    likelihood = ist.Likelihood(COUNTED, np.zeros((0, 1)), rate=lambda t: t[0])
    assert likelihood.value([7.0]) == pytest.approx(-7.0)
    assert repr(likelihood) == "Likelihood(nu; 0 events)"
    np.testing.assert_allclose(likelihood.gradient([7.0]), [-1.0])
    assert likelihood.per_event([7.0]).shape == (0,)
    found = ist.confidence_set(likelihood, grid=[1.0, 2.0, 3.5])
    np.testing.assert_allclose(found.statistic, [0.0, 2.0, 5.0], atol=1e-5)
    more = ist.Likelihood(COUNTED, np.zeros((12, 1)), rate=lambda t: 2 * t[0])
    fit = ist.maximum_likelihood(likelihood + more)
    assert fit.theta[0] == pytest.approx(4.0, abs=1e-2)
    assert fit.covariance[0, 0] == pytest.approx(16 / 12, rel=5e-3)
    with pytest.raises(ValueError, match="there are no observed events"):
        ist.Likelihood(COUNTED, np.zeros((0, 1)))
