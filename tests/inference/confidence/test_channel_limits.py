"""Upper limits of extended likelihoods and of several channels, against pyhf and closed forms."""

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import ndtr

import inferostatic as ist
from exact_estimators import exact_estimator
from optional import OptionalPackage

pyhf = OptionalPackage("pyhf", "infer.intervals.upper_limits")

# pyhf validates through a part of jsonschema that is going to be replaced.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")

EDGE = np.array([60.0])


def nothing(x, theta):
    """Events that know nothing of θ, so that only their number counts."""
    return 0.0 * (x.sum() + theta.sum())


def anything(theta, rng):
    return rng.normal(size=(len(theta), 1))


ALONE = exact_estimator(nothing, ist.Uniform([0.0], [6.0], names=["mu"]), -EDGE, EDGE)
SCALED = exact_estimator(
    nothing, ist.Uniform([-5.0, 0.0], [5.0, 6.0], names=["alpha", "mu"]), -EDGE, EDGE
)
#: Ten per cent more background for α = 1.
UP = 1.1


def counted(number, signal, background):
    """A likelihood of a number of events alone."""
    rate = lambda theta: signal * theta[0] + background  # noqa: E731
    return ist.Likelihood(ALONE, np.zeros((number, 1)), rate=rate)


def scaled(number, signal, background):
    """The same with a background whose size is measured elsewhere; its parameters turned round."""
    return ist.Likelihood(
        SCALED,
        np.zeros((number, 1)),
        rate=lambda theta: signal * theta[1] + background * UP ** theta[0],
        constraints={"alpha": (0.0, 1.0)},
    )


def pyhf_limits(numbers, signals, backgrounds, uncertain):
    """Observed and expected, from bins of one event number each."""
    channels = []
    for i, (signal, background, is_uncertain) in enumerate(
        zip(signals, backgrounds, uncertain, strict=True)
    ):
        size = {"name": "alpha", "type": "normsys", "data": {"hi": UP, "lo": 1 / UP}}
        samples = [
            {
                "name": "signal",
                "data": [signal],
                "modifiers": [{"name": "mu", "type": "normfactor", "data": None}],
            },
            {
                "name": "background",
                "data": [background],
                "modifiers": [size] if is_uncertain else [],
            },
        ]
        channels.append({"name": f"channel{i}", "samples": samples})
    model = pyhf.Model(
        {
            "channels": channels,
            "parameters": [{"name": "mu", "bounds": [[0, 6]], "inits": [1.0]}],
        },
        poi_name="mu",
        modifier_settings={"normsys": {"interpcode": "code1"}},
    )
    data = [*map(float, numbers), *model.config.auxdata]
    found = pyhf.infer.intervals.upper_limits.upper_limit(data, model, level=0.05, rtol=1e-4)
    return float(found[0]), np.array(found[1], float)


@pytest.mark.parametrize(
    "number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (14, 22))]
)
def test_the_asymptotic_limit_of_a_number_is_that_of_pyhf(number):
    """One event is as good as any number where the number counts."""
    background = 2.0 if number == 1 else 16.0
    likelihood = counted(number, 5.0, background)
    found = ist.upper_limit(likelihood, "mu", ist.CLs(simulator=anything))
    observed, expected = pyhf_limits([number], [5.0], [background], [False])
    assert found.observed == pytest.approx(observed, rel=0.002)
    np.testing.assert_allclose(found.expected, expected, rtol=0.003)
    both = ist.upper_limit(likelihood, "mu", ist.CLsb(simulator=anything))
    assert both.observed < found.observed


@pytest.mark.slow
def test_the_asymptotic_limit_of_two_numbers_is_that_of_pyhf():
    simulators = [anything, anything]
    likelihood = counted(20, 3.0, 16.0) + counted(9, 4.0, 6.0)
    found = ist.upper_limit(likelihood, "mu", ist.CLs(simulator=simulators))
    observed, expected = pyhf_limits([20, 9], [3.0, 4.0], [16.0, 6.0], [False, False])
    assert found.observed == pytest.approx(observed, rel=0.002)
    np.testing.assert_allclose(found.expected, expected, rtol=0.003)


@pytest.mark.slow
def test_the_asymptotic_limit_with_a_measured_background_is_that_of_pyhf():
    simulators = [anything, anything]
    likelihood = scaled(45, 8.0, 40.0) + counted(9, 4.0, 6.0)
    assert likelihood.names == ("alpha", "mu")
    found = ist.upper_limit(likelihood, "mu", ist.CLs(simulator=simulators))
    observed, expected = pyhf_limits([45, 9], [8.0, 4.0], [40.0, 6.0], [True, False])
    assert found.observed == pytest.approx(observed, rel=0.003)
    np.testing.assert_allclose(found.expected, expected, rtol=0.004)
    assert "constraints: alpha = 0 ± 1" in found.summary()


def root(function, low, high) -> float:
    return optimize.root_scalar(function, bracket=(low, high), xtol=1e-6).root


def poisson_cls(number, signal, background, mu):
    with_signal = stats.poisson.cdf(number, signal * mu + background)
    return with_signal / stats.poisson.cdf(number, background)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(4,), (3, 1), (0,)])
def test_toys_of_numbers_give_the_exact_poisson_limit(counts):
    """Two channels of the same ratio of signal to background are as one with their sum."""
    toys, values = 3000, np.array([0.4, 0.8, 1.2, 1.6, 2.0])
    shares = [1.0] if len(counts) == 1 else [0.7, 0.3]
    parts = [
        counted(number, 4.0 * share, 3.0 * share)
        for number, share in zip(counts, shares, strict=True)
    ]
    likelihood = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    simulator = anything if len(parts) == 1 else [anything, anything]
    # Without any event CLs+b is below the threshold from the start.
    for method in (ist.CLs, ist.CLsb) if sum(counts) else (ist.CLs,):
        found = ist.upper_limit(
            likelihood, "mu", method(toys=toys, simulator=simulator), scan=values, seed=2
        )
        number = sum(counts)
        top = stats.poisson.cdf(number, 4.0 * values + 3.0)
        bottom = stats.poisson.cdf(number, 3.0)
        relative = (1 - top) / top + ((1 - bottom) / bottom if method is ist.CLs else 0)
        exact = top / bottom if method is ist.CLs else top
        # A number above ν has the statistic 0, which every toy reaches.
        exact = np.where(number >= 4.0 * values + 3.0, 1.0, exact)
        error = exact * np.sqrt(relative / toys)
        assert np.all(np.abs(found.scan - exact) < 4.5 * error + 1e-9)
    limit = ist.upper_limit(
        likelihood, "mu", ist.CLs(toys=toys, simulator=simulator), scan=values, seed=4
    )
    exact = root(lambda mu: poisson_cls(sum(counts), 4.0, 3.0, mu) - 0.05, 0, 6)
    # CLs = 0.05 of 3000 toys is known to a tenth, and falls by e^(−4μ) or slower.
    assert limit.observed == pytest.approx(exact, abs=0.12)


@pytest.mark.slow
def test_many_events_take_the_same_limit_by_polynomials():
    likelihood = counted(75, 30.0, 60.0)
    values = np.array([0.7, 1.0, 1.3])
    found = ist.upper_limit(
        likelihood, "mu", ist.CLsb(toys=2000, simulator=anything), scan=values, seed=2
    )
    exact = stats.poisson.cdf(75, 30.0 * values + 60.0)
    error = np.sqrt(exact * (1 - exact) / 2000)
    assert np.all(np.abs(found.scan - exact) < 4.5 * error)


# Normal means of known widths, for which the asymptotic formulae are exact.


def normal_mean(width):
    def log_prob(x, theta):
        return -0.5 * ((x[0] - theta[0]) / width) ** 2

    prior = ist.Uniform([0.0], [4.0], names=["mu"])
    return exact_estimator(log_prob, prior, -EDGE, EDGE)


NARROW, WIDE = normal_mean(1.0), normal_mean(2.5)


def narrow(theta, rng):
    return theta + rng.normal(size=theta.shape)


def wide(theta, rng):
    return theta + 2.5 * rng.normal(size=theta.shape)


def normal_cls(mean, error, mu):
    return ndtr((mean - mu) / error) / ndtr(mean / error)


def normal_limit(mean, error):
    start = max(mean, 0.0)
    return root(lambda mu: normal_cls(mean, error, mu) - 0.05, start, start + 9 * error)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-0.1, 0.3])
def test_the_limit_of_two_normal_channels_is_that_of_their_mean(shift):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 1)), 2.5 * rng.normal(size=(60, 1))
    x, y = x - x.mean() + shift, y - y.mean() + 2 * shift
    precision = np.array([12.0, 60 / 2.5**2])
    mean, error = precision @ [shift, 2 * shift] / precision.sum(), precision.sum() ** -0.5
    likelihood = ist.Likelihood(NARROW, x) + ist.Likelihood(WIDE, y)
    asimov = [np.zeros((1, 1)), np.zeros((3, 1))]  # of any sizes: they are weighted
    found = ist.upper_limit(likelihood, "mu", ist.CLs(asimov=asimov))
    assert found.observed == pytest.approx(normal_limit(mean, error), rel=0.002)
    bands = [normal_limit(z * error, error) for z in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(found.expected, bands, rtol=0.002)
    values = found.observed * np.array([0.8, 1.2])
    toys = ist.upper_limit(
        likelihood, "mu", ist.CLs(toys=3000, simulator=[narrow, wide]), scan=values, seed=1
    )
    exact = normal_cls(mean, error, values)
    # At and below μ̂ = 0 the statistic still orders the events.
    assert np.all(np.abs(toys.scan - exact) < 4.5 * np.sqrt(exact / ndtr(mean / error) / 3000))


def test_weights_scale_the_limit_to_their_scatter():
    rng = np.random.default_rng(4)
    x, w = rng.normal(0.3, 1.0, 200), rng.exponential(1.0, 200)
    mean = w @ x / w.sum()
    error = np.sqrt(np.sum(w**2 * (x - mean) ** 2)) / w.sum()
    likelihood = ist.Likelihood(NARROW, x[:, None], weight=w)
    found = ist.upper_limit(likelihood, "mu", ist.CLs(asimov=np.zeros((1, 1))))
    assert found.observed == pytest.approx(normal_limit(mean, error), rel=0.005)


def test_what_is_refused():
    likelihood = counted(20, 3.0, 16.0) + counted(9, 4.0, 6.0)
    with pytest.raises(ValueError, match="simulator for each of 2 channels"):
        ist.upper_limit(likelihood, "mu", ist.CLs(simulator=anything))
    with pytest.raises(ValueError, match="data of each of 2 channels"):
        ist.upper_limit(likelihood, "mu", ist.CLs(asimov=np.zeros((1, 1))))
    with pytest.raises(ValueError, match="needs the Asimov data set"):
        ist.upper_limit(likelihood, "mu", ist.CLs())
    held = scaled(45, 8.0, 40.0).fix(mu=1.0)
    with pytest.raises(ValueError, match="mu is fixed, so it has no limit"):
        ist.upper_limit(held, "mu", ist.CLs(simulator=anything))
