"""Upper limits against pyhf and against a normal mean."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import optimize
from scipy.special import ndtr

import inferostatic as ist
from exact_estimators import exact_estimator, exact_normal
from inferostatic.inference.confidence.confidence_set import confidence_set
from inferostatic.inference.confidence.upper_limit import upper_limit
from optional import OptionalPackage

pyhf = OptionalPackage("pyhf", "infer.intervals.upper_limits", "infer.mle", "infer.test_statistics")

# pyhf validates through a part of jsonschema that is going to be replaced.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")

SIGNAL, BACKGROUND = np.array([3.0, 6.0, 8.0, 4.0]), np.array([50.0, 40.0, 30.0, 15.0])
COUNTS = np.array([54.0, 48.0, 33.0, 22.0])
NAMES = ("mu", "bn", "eff")


def log_prob(x, theta):
    """Counts of four bins and two auxiliary measurements are one event."""
    signal, background = (jnp.asarray(a, theta.dtype) for a in (SIGNAL, BACKGROUND))
    mu, norm, efficiency = theta

    def factor(alpha, low, high):
        return jnp.where(alpha >= 0, high ** jnp.abs(alpha), low ** jnp.abs(alpha))

    rate = mu * factor(efficiency, 0.85, 1.15) * signal + factor(norm, 0.9, 1.1) * background
    poisson = jnp.sum(x[:4] * jnp.log(rate) - rate - gammaln(x[:4] + 1))
    return poisson - 0.5 * jnp.sum((x[4:] - theta[1:]) ** 2)


COUNTED = exact_estimator(
    log_prob,
    ist.Uniform([0.0, -5.0, -5.0], [10.0, 5.0, 5.0], names=list(NAMES)),
    np.array([0.0] * 4 + [-6.0] * 2),
    np.array([200.0] * 4 + [6.0] * 2),
)
OBSERVED = np.concatenate([COUNTS, [0.0, 0.0]])


def pyhf_model():
    factor = [
        {"name": "mu", "type": "normfactor", "data": None},
        {"name": "eff", "type": "normsys", "data": {"hi": 1.15, "lo": 0.85}},
    ]
    norm = [{"name": "bn", "type": "normsys", "data": {"hi": 1.1, "lo": 0.9}}]
    samples = [
        {"name": "signal", "data": SIGNAL.tolist(), "modifiers": factor},
        {"name": "background", "data": BACKGROUND.tolist(), "modifiers": norm},
    ]
    settings = {"normsys": {"interpcode": "code1"}, "histosys": {"interpcode": "code4p"}}
    model = pyhf.Model(
        {
            "channels": [{"name": "bins", "samples": samples}],
            "parameters": [{"name": "mu", "bounds": [[0, 10]], "inits": [1.0]}],
        },
        poi_name="mu",
        modifier_settings=settings,
    )
    assert tuple(model.config.par_order) == NAMES
    return model, COUNTS.tolist() + model.config.auxdata


def expected_event(theta):
    factors = np.where(theta[1:] >= 0, [1.1, 1.15], [0.9, 0.85]) ** np.abs(theta[1:])
    counts = theta[0] * factors[1] * SIGNAL + factors[0] * BACKGROUND
    return np.concatenate([counts, theta[1:]])


def test_limits_and_tests_of_a_counting_model_are_those_of_pyhf():
    model, data = pyhf_model()
    ours = upper_limit(COUNTED, OBSERVED, "mu", ist.CLs(asimov=expected_event))
    both = upper_limit(COUNTED, OBSERVED, "mu", ist.CLsb(asimov=expected_event))
    theirs = pyhf.infer.intervals.upper_limits.upper_limit(data, model, level=0.05, rtol=1e-4)
    observed, expected = theirs[0], theirs[1]
    assert ours.observed == pytest.approx(float(observed), rel=0.002)
    np.testing.assert_allclose(ours.expected, np.array(expected, float), rtol=0.002)
    for mu in (0.5, 2.0):
        tested, bands = pyhf.infer.hypotest(
            mu, data, model, test_stat="qtilde", return_expected_set=True
        )
        one, five = ours.test_at(mu)
        assert one == pytest.approx(float(tested), rel=0.002)
        np.testing.assert_allclose(five, np.array(bands, float), rtol=0.002)
        tails = pyhf.infer.hypotest(mu, data, model, test_stat="qtilde", return_tail_probs=True)[1]
        assert both.test_at(mu)[0] == pytest.approx(float(tails[0]), rel=0.002)
    assert "expected, median" in ours.summary()
    assert "mu < 2.27" in repr(ours)
    # An Asimov event that is given outright serves as well.
    quiet = expected_event(np.array([0.0, *_fitted_without_signal(model, data)]))
    again = upper_limit(COUNTED, OBSERVED, "mu", ist.CLs(asimov=quiet))
    assert again.expected[2] == pytest.approx(ours.expected[2], rel=0.002)


def _fitted_without_signal(model, data):
    return np.asarray(pyhf.infer.mle.fixed_poi_fit(0.0, data, model))[1:]


def test_the_profile_interval_of_a_counting_model_is_that_of_pyhf():
    model, data = pyhf_model()
    config = model.config
    given = (config.suggested_init(), config.suggested_bounds(), config.suggested_fixed())

    def excess(mu):
        theirs: Any = pyhf.infer.test_statistics.tmu_tilde(mu, data, model, *given)
        return float(theirs) - 1.0

    result = confidence_set(COUNTED, OBSERVED, parameters="mu", level=0.6826894921)
    best = result.best[0]
    exact = np.array([root(excess, 0.0, best), root(excess, best, 5.0)])
    np.testing.assert_allclose(result.interval()[0], exact, atol=0.005 * np.ptp(exact))


def root(function, low, high) -> float:
    return optimize.root_scalar(function, bracket=(low, high), xtol=1e-5).root


def normal(theta, rng):
    return theta + rng.normal(size=theta.shape)


NORMAL, PAIR = exact_normal(), exact_normal(dim=2)


def exact_limit(mean, n) -> float:
    """Where CLs = P(z < x̄ | μ)/P(z < x̄ | 0) of a normal mean is 0.05."""
    z, scale = np.sqrt(n) * mean, 1 / np.sqrt(n)
    return scale * root(lambda mu: ndtr(z - mu) / ndtr(z) - 0.05, max(z, 0.0), z + 9)


@pytest.mark.slow
def test_limits_of_a_normal_mean_of_many_events_by_formulae_and_by_toys():
    n, estimator = 100, NORMAL
    x = np.random.default_rng(3).normal(0.1, 1.0, (n, 1))
    x += 0.08 - x.mean()
    exact = exact_limit(0.08, n)
    formula = upper_limit(estimator, x, 0, ist.CLs(simulator=normal), background=0.0, seed=1)
    # The Asimov set knows the background's mean to 0.045 standard errors.
    assert formula.observed == pytest.approx(exact, abs=0.05 / np.sqrt(n))
    bands = [exact_limit(k / np.sqrt(n), n) for k in range(-2, 3)]
    np.testing.assert_allclose(formula.expected, bands, atol=0.1 / np.sqrt(n))
    assert "Asimov data: 50,000 simulated events" in formula.summary()
    method = ist.CLs(toys=1000, simulator=normal)
    toys = upper_limit(estimator, x, 0, method, background=0.0, seed=1, progress_bar=False)
    assert toys.method == "toys"
    # CLs of 0.05 from 1000 toys is known to 15%, and a slope of 2 per standard error.
    assert toys.observed == pytest.approx(exact, abs=0.25 / np.sqrt(n))
    np.testing.assert_allclose(toys.expected[1:], bands[1:], atol=0.35 / np.sqrt(n))
    assert toys.expected[0] < toys.expected[1]
    one, five = toys.test_at(toys.values[4])
    assert one == pytest.approx(toys.scan[4])
    np.testing.assert_allclose(five, toys.expected_scan[4])


def test_without_an_asimov_set_the_limit_is_one_sided():
    x = np.full((1, 1), 1.0)
    limit = upper_limit(NORMAL, x, 0, ist.CLsb(), background=0.0)
    assert limit.observed == pytest.approx(1.0 + 1.64485, abs=2e-3)
    assert np.isnan(limit.expected).all()


def test_a_limit_beyond_the_region_is_told():
    with pytest.warns(UserWarning, match="no limit was found between"):
        limit = upper_limit(NORMAL, np.full((1, 1), 2.8), 0, ist.CLsb(), background=0.0)
    assert np.isnan(limit.observed)
