"""Posteriors with rate, constraints, fixed parameters, bounds and channels, in closed form."""

import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from exact_estimators import exact_estimator

EDGE = np.full(2, 60.0)
METHODS = [ist.Grid(), ist.NUTS(draws=4000, chains=4), ist.Importance(draws=2000)]
NAMES = ["grid", "nuts", "importance"]
#: NUTS has its quick test with channels and a constraint: compiling it is most of its time. It
#: draws from the same density as the others, in coordinates that test_posterior.py tests.
nuts_is_slow = pytest.mark.parametrize(
    "method",
    [METHODS[0], pytest.param(METHODS[1], marks=pytest.mark.slow), METHODS[2]],
    ids=NAMES,
)


def nothing(x, theta):
    """Events that know nothing of θ, so that only their number counts."""
    return 0.0 * (x.sum() + theta.sum())


COUNTED = exact_estimator(nothing, ist.Uniform([0.01], [60.0], names=["nu"]), -EDGE[:1], EDGE[:1])
MIX = np.array([[1.0, 0.6], [0.0, 1.0]])


def mixed(x, theta):
    """x ~ Normal(Mθ, 1), so that the parameters are correlated."""
    return -0.5 * ((x - MIX.astype(x.dtype) @ theta) ** 2).sum()


PAIR = exact_estimator(mixed, ist.Uniform([-5.0] * 2, [5.0] * 2, names=["a", "b"]), -EDGE, EDGE)
X = np.random.default_rng(1).normal(size=(8, 2)) + MIX @ [0.4, -0.3]


def least_squares(x, precision=(0.0, 0.0), mean=(0.0, 0.0)):
    """Mean and covariance of a normal posterior of mixed events."""
    inverse = len(x) * MIX.T @ MIX + np.diag(precision)
    covariance = np.linalg.inv(inverse)
    return covariance @ (MIX.T @ x.sum(axis=0) + np.multiply(precision, mean)), covariance


def agree(found, mean, std):
    """Moments within what the draws allow; a grid and weighted draws report better ones."""
    mean, std = np.asarray(mean), np.asarray(std)
    free = std > 0
    ess = found.sampling.ess[free]
    assert np.all(np.abs(found.mean - mean)[free] < 4.5 * std[free] / np.sqrt(ess))
    # The error of a standard deviation, for tails up to those of Γ(3).
    assert np.all(np.abs(found.std / np.where(free, std, 1) - 1)[free] < 4.5 / np.sqrt(ess))
    np.testing.assert_allclose(found.mean[~free], mean[~free])
    np.testing.assert_allclose(
        found.samples[:, ~free], mean[~free][None].repeat(len(found.samples), 0)
    )
    assert np.all(found.std[~free] == 0)
    if found.grid is not None:
        np.testing.assert_allclose(found.mean, mean, atol=2e-3 * std.max())
        np.testing.assert_allclose(found.std, std, atol=2e-3 * std.max())


@nuts_is_slow
@pytest.mark.parametrize("number", [0, 12])
def test_a_number_of_events_under_a_flat_prior_gives_gamma(number, method):
    likelihood = ist.Likelihood(COUNTED, np.zeros((number, 1)), rate=lambda t: t[0])
    found = ist.posterior(likelihood, method=method, seed=1)
    exact = stats.gamma(number + 1)
    shift = 0.01 if number == 0 else 0.0  # the lower end of the prior
    agree(found, [exact.mean() + shift], [exact.std()])
    levels = found.samples[:, 0] - shift
    step = max(1, int(len(levels) / found.sampling.ess[0]))
    assert stats.kstest(levels[::step], exact.cdf).pvalue > 1e-3


@nuts_is_slow
def test_a_constraint_is_a_normal_prior(method):
    likelihood = ist.Likelihood(PAIR, X, constraints={"b": (0.5, 0.3)})
    mean, covariance = least_squares(X, [0, 1 / 0.09], [0, 0.5])
    found = ist.posterior(likelihood, method=method, seed=2)
    agree(found, mean, np.sqrt(np.diag(covariance)))
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    own = found.covariance[0, 1] / np.prod(found.std)
    assert own == pytest.approx(correlation, abs=4.5 / np.sqrt(found.sampling.ess.min()))
    if found.grid is not None:
        prior = ist.Normal([0.0, 0.5], [30.0, 0.3], names=["a", "b"])
        same = ist.posterior(ist.Likelihood(PAIR, X), prior, method, seed=2)
        np.testing.assert_allclose(same.mean, found.mean, atol=2e-3)


@nuts_is_slow
def test_fixed_parameters_are_given(method):
    likelihood = ist.Likelihood(PAIR, X, fixed={"b": 0.7}, constraints={"b": (0.0, 0.1)})
    found = ist.posterior(likelihood, method=method, seed=3)
    mean = X[:, 0].mean() - 0.6 * 0.7
    agree(found, [mean, 0.7], [8**-0.5, 0.0])
    assert found.samples.shape[1] == 2
    assert np.isnan(found.sampling.ess[1])
    ends = [mean - 8**-0.5, mean + 8**-0.5]
    error = 4.5 * 8**-0.5 * 1.3 / np.sqrt(found.sampling.ess[0])
    np.testing.assert_allclose(found.interval()[0], ends, atol=error)
    np.testing.assert_allclose(found.interval()[1], 0.7)
    assert "fixed" in found.summary()


@nuts_is_slow
def test_bounds_cut_the_prior(method):
    mean, std = X[:, 0].mean() - 0.6 * -0.3, 8**-0.5
    low, high = mean + 0.5 * std, mean + 1.5 * std
    likelihood = ist.Likelihood(PAIR, X, fixed={"b": -0.3}, bounds={"a": (low, high)})
    found = ist.posterior(likelihood, method=method, seed=4)
    exact = stats.truncnorm(0.5, 1.5, mean, std)
    agree(found, [exact.mean(), -0.3], [exact.std(), 0.0])
    assert found.samples[:, 0].min() >= low
    assert found.samples[:, 0].max() <= high


@nuts_is_slow
def test_a_normal_prior_is_cut_far_from_its_centre(method):
    mean, std = X[:, 0].mean() - 0.6 * -0.3, 8**-0.5
    low, high = mean + 0.5 * std, mean + 1.5 * std
    likelihood = ist.Likelihood(PAIR, X, fixed={"b": -0.3}, bounds={"a": (low, high)})
    prior = ist.Normal([-2.0, 0.0], [0.5, 1.0], names=["a", "b"])
    precision = 8 + 4
    mean = (8 * mean - 2.0 * 4) / precision
    cut = [(edge - mean) * np.sqrt(precision) for edge in (low, high)]
    exact = stats.truncnorm(*cut, mean, precision**-0.5)
    agree(
        ist.posterior(likelihood, prior, method, seed=5), [exact.mean(), -0.3], [exact.std(), 0.0]
    )


OTHER = exact_estimator(
    lambda x, theta: -0.5 * ((x[0] - theta[0] - theta[1]) / 2) ** 2,
    ist.Uniform([-5.0] * 2, [5.0] * 2, names=["c", "a"]),
    -EDGE[:1],
    EDGE[:1],
)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[1:], ids=NAMES[1:])
def test_channels_are_multiplied(method):
    """a, b in one, c and a in the other, whose number of events counts too."""
    rng = np.random.default_rng(5)
    y = rng.normal(0.5, 2.0, (20, 1))
    likelihood = ist.Likelihood(PAIR, X) + ist.Likelihood(OTHER, y, constraints={"c": (0.2, 0.3)})
    assert likelihood.names == ("a", "b", "c")
    first = np.array([[1.0, 0.6, 0.0], [0.0, 1.0, 0.0]])
    second = np.array([[1.0, 0.0, 1.0]]) / 2
    inverse = 8 * first.T @ first + 20 * second.T @ second + np.diag([0, 0, 1 / 0.09])
    right = first.T @ X.sum(axis=0) + second.T @ y.sum(axis=0) / 2 + [0, 0, 0.2 / 0.09]
    covariance = np.linalg.inv(inverse)
    prior = ist.Uniform([-5.0] * 3, [5.0] * 3, names=["a", "b", "c"])
    found = ist.posterior(likelihood, prior, method, seed=6)
    agree(found, covariance @ right, np.sqrt(np.diag(covariance)))
    with pytest.raises(ValueError, match="no channel has all parameters, so posterior needs"):
        ist.posterior(likelihood, method=method, seed=6)
    turned = ist.Uniform([-5.0] * 3, [5.0] * 3, names=["b", "a", "c"])
    with pytest.raises(ValueError, match="likelihood's order is a, b, c"):
        ist.posterior(likelihood, turned, method, seed=6)
    held = ist.posterior(likelihood.fix(b=0.0, c=0.2), prior, ist.Grid(), seed=6)
    assert held.std[0] == pytest.approx(inverse[0, 0] ** -0.5, rel=2e-3)


def test_rates_of_channels_add():
    """ν = θ and 2θ: Γ with the sum of numbers, three times as narrow."""
    one = ist.Likelihood(COUNTED, np.zeros((5, 1)), rate=lambda t: t[0])
    two = ist.Likelihood(COUNTED, np.zeros((11, 1)), rate=lambda t: 2 * float(t[0]))
    found = ist.posterior(one + two, seed=1)
    exact = stats.gamma(17, scale=1 / 3)
    agree(found, [exact.mean()], [exact.std()])


def test_a_discrete_prior_keeps_the_points_that_are_allowed():
    points = np.array([[0.0, 0.0], [0.0, 1.0], [0.5, 0.0], [2.0, 0.0]])
    prior = ist.Discrete(points, [0.25] * 4, names=["a", "b"])
    likelihood = ist.Likelihood(PAIR, X, fixed={"b": 0.0}, bounds={"a": (-1.0, 1.0)})
    found = ist.posterior(likelihood, prior, seed=1)
    phi = [-0.5 * ((X - MIX @ p) ** 2).sum() for p in points[[0, 2]]]
    share = 1 / (1 + np.exp(phi[0] - phi[1]))
    np.testing.assert_allclose(found.mean, [0.5 * share, 0.0], atol=1e-6)


def test_weights_warn():
    likelihood = ist.Likelihood(PAIR, X, weight=np.linspace(0.5, 2, 8))
    with pytest.warns(UserWarning, match="the events have weights"):
        found = ist.posterior(likelihood, seed=1)
    w = np.linspace(0.5, 2, 8)
    covariance = np.linalg.inv(w.sum() * MIX.T @ MIX)
    np.testing.assert_allclose(found.mean, covariance @ MIX.T @ (w @ X), atol=2e-3)
    np.testing.assert_allclose(found.covariance, covariance, rtol=0.01)


def test_bounds_that_leave_nothing():
    likelihood = ist.Likelihood(PAIR, X, bounds={"a": (2.0, 3.0)})
    with pytest.raises(ValueError, match="bounds leave nothing of the prior's support"):
        ist.posterior(likelihood, ist.Uniform([-1.0, -1.0], [1.0, 1.0], names=["a", "b"]), seed=1)
