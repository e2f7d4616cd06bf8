"""A signal over background and a network of 25 epochs, whose plain limit is far too strong."""

import numpy as np
import pytest

import inferostatic as ist
from benchmarks import signal_background as sb

pytestmark = pytest.mark.slow

#: Median expected CLs limit by the exact density.
EXACT = 0.2461
#: What a simulated Asimov set of 50,000 events gave once, within its error of 0.012.
SIMULATED = 0.232


@pytest.fixture(scope="module")
def poor() -> ist.Estimator:
    training = ist.Training(epochs=25, progress_bar=False)
    return ist.fit(sb.weighted_events(), training=training, seed=1)


def likelihood(estimator: ist.Estimator) -> ist.Likelihood:
    theta = np.tile([0.0, sb.MASS, sb.SCALE], (sb.EVENTS, 1))
    x = sb.simulator(theta, np.random.default_rng([14, 1]))
    return ist.Likelihood(estimator, x, fixed={"M": sb.MASS, "nu": sb.SCALE})


def test_the_plain_limit_warns_and_the_calibrated_one_holds(poor: ist.Estimator) -> None:
    assert sb.exact_expected_limit() == pytest.approx(EXACT, abs=0.001)
    with pytest.warns(UserWarning, match="cannot be told|biased"):
        ist.upper_limit(likelihood(poor), "mu", ist.CLsb())
    measured = ist.measure_bias(poor, sb.prior_events(200_000, seed=11))
    with pytest.warns(UserWarning, match="biased: the learned score shifts mu"):
        plain = ist.upper_limit(likelihood(measured), "mu", ist.CLsb())
    assert plain.bias is not None
    assert plain.bias.biased
    calibration = sb.slice_events(400_000, 1.5, seed=5)
    limit = ist.upper_limit(likelihood(poor), "mu", ist.CLs(calibration=calibration))
    # A poor network may only weaken it.
    assert 0.95 * SIMULATED < limit.expected[2] < 1.5 * EXACT


def test_the_network_does_not_pass_for_so_many_events(poor: ist.Estimator) -> None:
    found = ist.diagnose(poor, sb.prior_events(100_000, seed=12), n_observed=sb.EVENTS)
    assert not found.passed
    assert found.trusted_events is not None
    assert found.trusted_events < sb.EVENTS
