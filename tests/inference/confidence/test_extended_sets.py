"""Confidence sets of weighted, extended and added likelihoods, against closed forms.

Toys are compared with pseudo-experiments that NumPy draws and fits by itself: the distribution of
the statistic is either χ² exactly, or tabulated from many of them.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from exact_estimators import exact_estimator, exact_normal, gaussian
from inferostatic.inference.confidence.observed_fit import fit_observed
from inferostatic.inference.confidence.toy_fits import ToyFitter
from inferostatic.inference.confidence.toys import make_toy_maker
from parameters import slow

MEAN = exact_normal(width=6.0)
LOW, HIGH = -1.5, 3.0
# ν(μ) below is positive in this region.
COUNTED_MEAN = exact_estimator(
    gaussian, ist.Uniform([LOW], [HIGH], names=["mu"]), np.array([-7.0]), np.array([9.0])
)
TRUE = 0.5
#: P-value of a Kolmogorov-Smirnov test below which samples differ; seeds are fixed.
REJECTED = 1e-3


def normal(theta, rng):
    return theta + rng.normal(size=theta.shape)


def toy_statistics(likelihood, simulator, theta, indices, toys, seed=0):
    """The statistic of independent toys at θ."""
    observed = fit_observed(likelihood, likelihood.model)
    most = 4 * likelihood.events * toys
    maker = make_toy_maker(likelihood, likelihood.model, simulator, toys, most, seed)
    fitter = ToyFitter(observed, maker)
    found = fitter.statistic(np.asarray(theta, np.float64), indices)
    assert fitter.failed == 0
    return found


# By Wilks' theorem.


def test_wilks_with_weights_gives_the_sandwich_interval():
    rng = np.random.default_rng(1)
    x, w = rng.normal(0.3, 1.0, 300), rng.exponential(1.0, 300) - 0.2
    result = ist.confidence_set(ist.Likelihood(MEAN, x[:, None], weight=w), level=0.9)
    mean = w @ x / w.sum()
    error = np.sqrt(np.sum(w**2 * (x - mean) ** 2)) / w.sum()
    z = stats.norm.ppf(0.95)
    exact = [[mean - z * error, mean + z * error]]
    np.testing.assert_allclose(result.interval(), exact, atol=0.01 * error)
    assert result.p_value_at(mean + 2 * error) == pytest.approx(stats.chi2.sf(4, 1), rel=0.01)
    assert "scaled to the scatter of the weighted events" in result.summary()


@pytest.mark.slow
def test_wilks_with_a_network_whose_slope_jumps_uses_the_right_curvature():
    """Automatic second derivatives of |x − θ|-like potentials miss what lies in the kink."""

    def logistic_like(x, theta):
        # Half of the curvature of ln p sits in a kink at x = θ.
        away = abs(x[0] - theta[0])
        return -away - 0.25 * away**2

    kinked = exact_estimator(
        logistic_like, ist.Uniform([-4.0], [4.0], names=["mu"]), np.array([-20.0]), np.array([20.0])
    )
    rng = np.random.default_rng(2)
    x, w = rng.normal(0.1, 1.0, 4000), rng.exponential(1.0, 4000)
    likelihood = ist.Likelihood(kinked, x[:, None], weight=w)
    best = ist.maximum_likelihood(likelihood, throw=False).theta[0]
    # −∂²Σwφ = Σw (2 p(θ) + ½) with p the density of x, and the score ±1 + half the distance.
    curvature = w.sum() * (2 * stats.norm.pdf(best - 0.1) + 0.5)
    score = np.sign(x - best) + 0.5 * (x - best)
    error = np.sqrt(np.sum(w**2 * score**2)) / curvature
    half = np.diff(ist.confidence_set(likelihood, level=0.9).interval()[0])[0] / 2
    # The density at the median from the events within a step is known to some per cent.
    assert half / stats.norm.ppf(0.95) == pytest.approx(error, rel=0.1)


def test_wilks_of_a_number_of_events():
    nothing = exact_estimator(
        lambda x, theta: 0.0 * (x.sum() + theta.sum()),
        ist.Uniform([1.0], [90.0], names=["nu"]),
        np.array([-9.0]),
        np.array([9.0]),
    )
    result = ist.confidence_set(ist.Likelihood(nothing, np.zeros((30, 1)), rate=sum), level=0.9)
    assert result.best[0] == pytest.approx(30, abs=1e-2)
    for nu in (22.0, 41.0):
        q = 2 * (nu - 30 + 30 * np.log(30 / nu))
        assert result.p_value_at(nu) == pytest.approx(stats.chi2.sf(q, 1), rel=1e-4)
    w = np.random.default_rng(1).exponential(1.0, 30)
    result = ist.confidence_set(ist.Likelihood(nothing, np.zeros((30, 1)), rate=sum, weight=w))
    total = w.sum()
    q = 2 * (12.0 - total + total * np.log(total / 12.0)) * total / np.sum(w**2)
    assert result.p_value_at(12.0) == pytest.approx(stats.chi2.sf(q, 1), rel=1e-3)


# Two channels: a shift common to the second one is measured elsewhere.


def shifted(x, theta):
    return -0.5 * ((x[0] - theta[1] - 2 * theta[0]) / 1.5) ** 2


SHIFTED = exact_estimator(
    shifted,
    ist.Uniform([-6.0, -6.0], [6.0, 6.0], names=["shift", "theta0"]),
    np.array([-40.0]),
    np.array([40.0]),
)
SHIFT = (0.1, 0.2)


def shifted_normal(theta, rng):
    return 2 * theta[:, :1] + theta[:, 1:] + 1.5 * rng.normal(size=(len(theta), 1))


def two_channels(first, second, seed=3, mean=0.3, shift=0.2, measured=None):
    rng = np.random.default_rng(seed)
    one = ist.Likelihood(MEAN, mean + rng.normal(size=(first, 1)))
    theta = np.tile([shift, mean], (second, 1))
    given = (SHIFT[0] if measured is None else measured, SHIFT[1])
    two = ist.Likelihood(SHIFTED, shifted_normal(theta, rng), constraints={"shift": given})
    return one + two


def combined(first, second, x1, x2, measured):
    """μ̂ and its variance, the shift profiled."""
    variance = 1.5**2 / second + 4 * SHIFT[1] ** 2
    weights = np.array([first, 1 / variance])
    return weights @ [x1, x2 - 2 * measured] / weights.sum(), 1 / weights.sum()


def test_wilks_of_two_channels_is_the_combination():
    likelihood = two_channels(12, 30)
    means = [float(x[0].mean()) for x in likelihood.data.x]
    mean, variance = combined(12, 30, means[0], means[1], SHIFT[0])
    result = ist.confidence_set(likelihood, parameters="theta0")
    ends = mean + np.array([-1, 1]) * np.sqrt(variance)
    np.testing.assert_allclose(result.interval(), [ends], atol=0.01 * np.sqrt(variance))
    assert result.theta_names == ("theta0", "shift")
    assert "profiled: shift" in result.summary()


# By toys.


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(6, 9), slow(6, 70)])
def test_toys_of_two_channels_with_a_measured_shift_follow_chi_square(first, second):
    """Exactly so for normal events, if the toys measure the shift again."""
    likelihood = two_channels(first, second)
    found = toy_statistics(likelihood, [normal, shifted_normal], [0.3, 0.2], [0], 1500)
    assert stats.kstest(found, stats.chi2(1).cdf).pvalue > REJECTED
    found = toy_statistics(likelihood, [normal, shifted_normal], [0.3, 0.2], [0, 1], 1500)
    assert stats.kstest(found, stats.chi2(2).cdf).pvalue > REJECTED


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, 80])
def test_toys_of_weighted_events_follow_a_scaled_chi_square(count):
    """Σw (x̄ − μ)² has the scale Σw²/Σw, as every toy has all of the weights."""
    rng = np.random.default_rng(count)
    w = rng.exponential(1.0, count) - 0.1
    likelihood = ist.Likelihood(MEAN, rng.normal(0.2, 1.0, (count, 1)), weight=w)
    found = toy_statistics(likelihood, normal, [0.2], [0], 1500)
    scaled = found * w.sum() / np.sum(w**2)
    assert stats.kstest(scaled, stats.chi2(1).cdf).pvalue > REJECTED
    # And the toys without weights would be told apart.
    assert stats.kstest(found, stats.chi2(1).cdf).pvalue < 1e-6


def extended_statistic(x_sum, total, square, rate, true):
    """q at `true` of pseudo-experiments with Σwx, Σw, for φ = −(x − μ)²/2 and ν(μ)."""
    grid = np.linspace(LOW, HIGH, 3001)

    def log_l(mu):
        nu = rate(mu)
        return total * np.log(nu) - nu + x_sum * mu - 0.5 * total * mu**2

    best = np.full(len(total), -np.inf)
    for mu in grid:
        best = np.maximum(best, log_l(mu))
    del square
    return 2 * (best - log_l(true))


def pseudo_experiments(rate, weights, count, rng):
    """Statistics of many extended data sets with weights as observed ones; and how many are empty.

    A sum of n normal numbers with weights is normal with the variance Σw².
    """
    each = 1.0 if weights is None else weights.mean()
    numbers = rng.poisson(rate(TRUE) / each, count)
    total, square = np.zeros(count), np.zeros(count)
    for i, n in enumerate(numbers):
        w = np.ones(n) if weights is None else rng.choice(weights, n)
        total[i], square[i] = w.sum(), np.sum(w**2)
    x_sum = total * TRUE + np.sqrt(square) * rng.normal(size=count)
    return extended_statistic(x_sum, total, square, rate, TRUE), numbers


def few_rate(theta):
    return 2.0 + 0.9 * theta[0]


def many_rate(theta):
    return 60.0 + 25.0 * theta[0]


@pytest.mark.parametrize(
    ("rate", "observed", "weighted"),
    [
        (few_rate, 3, True),
        pytest.param(few_rate, 3, False, marks=pytest.mark.slow),
        pytest.param(many_rate, 75, True, marks=pytest.mark.slow),
        pytest.param(many_rate, 75, False, marks=pytest.mark.slow),
    ],
)
def test_toys_of_extended_likelihoods_are_as_pseudo_experiments(rate, observed, weighted):
    rng = np.random.default_rng(observed)
    # All positive: where the sum of weights of a set is negative, ln L has no maximum inside.
    weights = rng.gamma(4.0, 0.25, observed) if weighted else None
    x = rng.normal(TRUE, 1.0, (observed, 1))
    likelihood = ist.Likelihood(COUNTED_MEAN, x, rate=rate, weight=weights)
    found = toy_statistics(likelihood, normal, [TRUE], [0], 2000)
    exact, numbers = pseudo_experiments(lambda mu: rate([mu]), weights, 20_000, rng)
    assert (rate is few_rate) == (numbers.min() == 0)
    compared: Any = stats.ks_2samp(found, exact)
    assert compared.pvalue > REJECTED
    # The observed statistic is the same function of the data, so that p-values are uniform.
    test = ist.confidence_set(likelihood, ist.Neyman(normal, toys=400), grid=[TRUE], seed=5)
    w = np.ones(observed) if weights is None else weights
    own = extended_statistic(
        np.array([w @ x[:, 0]]), np.array([w.sum()]), None, lambda mu: rate([mu]), TRUE
    )
    assert test.statistic[0] == pytest.approx(own[0], abs=2e-3)
    p = np.mean(exact >= own[0])
    assert test.p_value[0] == pytest.approx(p, abs=4.5 * np.sqrt(p * (1 - p) / 400) + 0.01)
    text = test.summary()
    assert "number of events of a toy is Poisson distributed about the rate" in text
    assert ("observed weights in random order" in text) == weighted


def coverage_p_values(make, simulator, theta, count, **options):
    values = []
    for seed in range(count):
        likelihood = make(np.random.default_rng([seed, 7]))
        method = ist.Neyman(simulator, toys=39)
        result = ist.confidence_set(likelihood, method, grid=[theta], seed=seed, **options)
        values.append(result.p_value[0])
    return np.array(values)


@pytest.mark.slow
def test_p_values_of_few_extended_events_are_uniform():
    """With some data sets that are empty: then only the number counts."""

    def make(rng):
        x = rng.normal(TRUE, 1.0, (rng.poisson(few_rate([TRUE])), 1))
        return ist.Likelihood(COUNTED_MEAN, x, rate=few_rate)

    found = coverage_p_values(make, normal, TRUE, 120)
    # Toys of equal statistic, as empty ones have, can only make p-values larger.
    assert stats.kstest(found, stats.uniform.cdf, alternative="greater").pvalue > REJECTED
    assert found.mean() < 0.5 + 4 / np.sqrt(12 * 120) + 0.06


@pytest.mark.slow
def test_p_values_of_weighted_channels_with_a_measured_shift_are_uniform():
    weights = np.random.default_rng(1).gamma(2.0, 0.5, 12)

    def make(rng):
        one = ist.Likelihood(MEAN, rng.normal(0.3, 1.0, (12, 1)), weight=weights)
        theta = np.tile([0.2, 0.3], (8, 1))
        measured = {"shift": (0.2 + SHIFT[1] * rng.normal(), SHIFT[1])}
        return one + ist.Likelihood(SHIFTED, shifted_normal(theta, rng), constraints=measured)

    found = coverage_p_values(make, [normal, shifted_normal], 0.3, 100, parameters="theta0")
    assert stats.kstest(found, stats.uniform.cdf).pvalue > REJECTED


def test_a_source_of_toys_for_each_channel():
    likelihood = two_channels(6, 9)
    with pytest.raises(ValueError, match="for each of 2 channels"):
        ist.confidence_set(likelihood, ist.Neyman(normal), parameters="theta0")
    rng = np.random.default_rng(1)
    thetas = rng.uniform(-6, 6, (4000, 2))
    stored = ist.Events(
        x=shifted_normal(thetas, rng),
        theta=thetas,
        x_names=["x0"],
        theta_names=["shift", "theta0"],
    )
    method = ist.Neyman([normal, stored], toys=200)
    result = ist.confidence_set(
        likelihood, method, grid={"theta0": [0.3, 3.0]}, parameters="theta0"
    )
    assert result.p_value[1] < 0.01 < result.p_value[0]
    assert "stored events" in result.summary()
    assert "simulated at the θ" in result.summary()
