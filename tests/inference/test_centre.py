"""`centre` and its report."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet
from inferostatic.inference.centre import centre, centring_report


@pytest.fixture(scope="module")
def events() -> ist.Events:
    prior = exact_dirichlet(low=0.5).prior
    assert prior is not None
    return ist.simulate(ist.toys.Dirichlet(), prior, 20_000, seed=3)


def test_a_tilt_is_reported_and_removed(events) -> None:
    wrong = exact_dirichlet(low=0.5, tilt=0.4)
    right, report = centre(wrong, events), centring_report(wrong, events)
    before, after = report.mean_score
    assert before > 0.3
    assert after < 0.05
    (first, second), (error, other) = report.mean_ratio, report.mean_ratio_error
    assert abs(first - 1) > 10 * error
    assert abs(second - 1) < 4 * other + 0.002
    truth = ist.toys.Dirichlet().score(events.x, events.theta)
    left = right.score(events.x, events.theta) - truth
    assert np.mean(left**2) < 0.1 * np.mean(0.4**2)
    assert "centred by 19,000 events" in right.history.choices[-1]
    assert "before" in report.summary()


def test_an_exact_potential_has_nothing_to_report(events) -> None:
    report = centring_report(exact_dirichlet(low=0.5), events)
    assert report.mean_score[0] < 0.04
    assert abs(report.mean_ratio[0] - 1) < 4 * report.mean_ratio_error[0]


@pytest.mark.slow
def test_centring_twice_is_centring_once(events) -> None:
    once = centre(exact_dirichlet(low=0.5, tilt=0.4), events)
    twice = centre(once, events)
    x, theta = events.x[:20], events.theta[:20]
    np.testing.assert_array_equal(once.score(x, theta), twice.score(x, theta))
