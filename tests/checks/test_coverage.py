"""SBC, TARP and expected coverage: uniform ranks for the truth, with any number of candidates."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet, exact_normal
from inferostatic.checks.coverage import coverage
from inferostatic.checks.finding import uniform_p_value

#: The function has the name of its module.
coverage_module: Any = import_module("inferostatic.checks.coverage")
EXACT = exact_dirichlet(low=0.5, high=5.0)


def grades(found: object) -> dict[str, str]:
    return {finding.name: finding.grade for finding in found.findings}  # pyright: ignore


def test_the_truth_covers(events: ist.Events) -> None:
    found = coverage(EXACT, events)
    assert grades(found) == {"SBC": "good", "expected coverage": "good", "TARP": "good"}
    assert found.ranks.shape == found.mean.shape == (2000, 3)
    assert np.abs((found.expected - found.levels) / found.error).max() < 4
    assert min(p.min() for p in found.p_values.values()) > 1e-3
    np.testing.assert_allclose(found.curve(found.tarp, found.levels), found.levels, atol=0.05)
    assert found.over_theta.shape == (3, 5, 4)
    # Parts of equal numbers: their mean is the whole.
    np.testing.assert_allclose(found.over_theta.mean(axis=1)[0], found.expected, atol=1e-9)
    assert found.effective_candidates > 100


def test_ranks_are_uniform_with_only_eight_candidates(events: ist.Events) -> None:
    with pytest.warns(UserWarning, match="of 8 candidate θ only"):
        found = coverage(EXACT, events, most_events=500, candidates=1, seed=3)
    assert grades(found) == {"SBC": "good", "expected coverage": "good", "TARP": "good"}
    assert np.abs(found.ranks.mean(axis=0) - 0.5).max() < 4 / np.sqrt(12 * 500)


def test_ranks_are_those_of_the_posterior(normal_events: ist.Events) -> None:
    """x ~ Normal(θ, 1) with a flat prior: the posterior is a normal cut at the walls."""
    est = exact_normal(dim=2)
    found = coverage(est, normal_events[:200], most_events=200, candidates=4000)
    index = [np.flatnonzero((normal_events.theta == row).all(axis=1))[0] for row in found.theta]
    x = normal_events.x[index]
    low, high = ndtr(-3 - x), ndtr(3 - x)
    exact = (ndtr(found.theta - x) - low) / (high - low)
    assert np.abs(found.ranks - exact).max() < 0.15
    assert np.sqrt(np.mean((found.ranks - exact) ** 2)) < 0.03


@pytest.mark.parametrize(
    ("stretch", "sign"), [(0.6, 1), pytest.param(1.6, -1, marks=pytest.mark.slow)]
)
def test_a_wrong_size_is_flagged(events: ist.Events, stretch: float, sign: int) -> None:
    found = coverage(exact_dirichlet(low=0.5, high=5.0, stretch=stretch), events)
    assert grades(found)["expected coverage"] == "wrong"
    assert np.sign(found.expected - found.levels)[1] == sign


def test_a_shift_is_flagged(events: ist.Events) -> None:
    tilt: Any = [0.2, 0.0, 0.0]
    found = coverage(exact_dirichlet(low=0.5, high=5.0, tilt=tilt), events)
    assert grades(found)["SBC"] == "wrong"
    assert np.argmin(found.p_values["SBC"]) == 0
    # The posterior of a lies too high, so the truth ranks low in it.
    assert found.ranks[:, 0].mean() < 0.45


def test_tarp_flags_too_narrow_posteriors(normal_events: ist.Events) -> None:
    assert grades(coverage(exact_normal(dim=2), normal_events, seed=1))["TARP"] == "good"
    found = coverage(exact_normal(dim=2, stretch=3.0), normal_events, seed=1)
    assert grades(found)["TARP"] == "wrong"


def test_a_fault_that_cancels_on_average_is_seen_given_the_estimate(
    normal_events: ist.Events,
) -> None:
    """Half the stretch: too wide everywhere, so low estimates rank high and high ones low."""
    found = coverage(exact_normal(dim=2, stretch=0.5), normal_events, seed=1)
    assert found.p_values["SBC given the estimate"].max() < 1e-6


def test_stored_points_without_a_prior() -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(0.5, 5.0, (12, 3))
    theta = points[rng.integers(12, size=4000)]
    x = ist.toys.Dirichlet(3)(theta, rng)
    stored = ist.Events(x=x, theta=theta, theta_names=["a", "b", "c"])
    found = coverage(EXACT, stored)
    assert set(grades(found).values()) == {"good"}
    wrong = coverage(exact_dirichlet(low=0.5, high=5.0, stretch=0.4), stored)
    assert grades(wrong)["expected coverage"] == "wrong"


def test_weights_of_either_sign(events: ist.Events) -> None:
    rng = np.random.default_rng(2)
    weight = rng.choice([1.0, 2.0, -0.5], len(events))
    weighted = ist.Events(
        x=events.x,
        theta=events.theta,
        weight=weight,
        prior=events.prior,
    )
    found = coverage(EXACT, weighted, seed=2)
    assert set(grades(found).values()) == {"good"}


def test_little_power_is_warned_about() -> None:
    rng = np.random.default_rng(1)
    prior = ist.Uniform([-3.0] * 2, [3.0] * 2)
    theta = prior.sample(200, seed=1)
    sharp = ist.Events(x=theta + rng.normal(0, 0.01, theta.shape), theta=theta, prior=prior)
    with pytest.warns(UserWarning, match="little power; raise candidates="):
        coverage(exact_normal(dim=2, stretch=1e4), sharp, candidates=20)


def test_uniform_counts_have_the_p_value_of_pearson() -> None:
    from scipy.stats import chisquare

    counts = np.array([12.0, 8.0, 15.0, 5.0])
    assert uniform_p_value(counts, 40) == pytest.approx(chisquare(counts).pvalue)


def test_a_potential_is_needed(events: ist.Events) -> None:
    with pytest.raises(TypeError, match=r"coverage needs ist.Estimator; got RatioEstimator"):
        coverage(as_direct(ist.RatioEstimator, EXACT), events)  # pyright: ignore


def test_an_interrupted_study_goes_on_to_the_same_numbers(
    events: ist.Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"most_events": 300, "candidates": 640, "seed": 3}
    whole = coverage(EXACT, events, **options)
    real, made = coverage_module._Ranking, [0]

    def rank(*arguments: Any) -> Any:
        made[0] += 1
        if made[0] == 20:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(coverage_module, "_Ranking", rank)
    with pytest.raises(KeyboardInterrupt):
        coverage(EXACT, events, checkpoint=tmp_path, **options)
    found = coverage(EXACT, events, checkpoint=tmp_path, **options)
    assert made[0] == 30 + 2 + 1  # all groups of ten events, two trials, and the one that failed
    for name in ("ranks", "tarp", "density_ranks", "mean"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    other: Any = options | {"candidates": 641}
    with pytest.raises(ValueError, match="other candidates: 640 before, 641 now"):
        coverage(EXACT, events, checkpoint=tmp_path, **other)
