"""Optimal observables and their bins, against exact scores and informations."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.information.fisher import fisher
from inferostatic.inference.observables.histograms import Bins, choose_bins, fill_histogram
from inferostatic.inference.observables.observable import observable

TOY = ist.toys.Dirichlet(3)
DIRICHLET, NORMAL = exact_dirichlet(), exact_normal()
POINT = np.array([1.5, 3.0, 4.0])
X = TOY(np.tile(POINT, (20_000, 1)), np.random.default_rng(1))
INFORMATION = TOY.fisher(POINT)


def test_the_observable_is_the_score_and_its_projections():
    score = TOY.score(X[:50], POINT)
    near: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    full = observable(DIRICHLET, POINT)
    assert full.names == ("score a", "score b", "score c")
    assert repr(full) == "Observable(score a, score b, score c at a = 1.5, b = 3, c = 4)"
    np.testing.assert_allclose(full(X[:50]), score, **near)
    along = observable(DIRICHLET, POINT, direction=[0.1, 0.0, -0.2])
    np.testing.assert_allclose(along(X[:50])[:, 0], score @ [0.1, 0.0, -0.2], **near)
    np.testing.assert_allclose(
        observable(DIRICHLET, POINT, direction="b")(X[:50]), score[:, [1]], **near
    )


def test_the_information_is_that_of_the_dirichlet():
    full = observable(DIRICHLET, POINT)
    np.testing.assert_allclose(full.information(X), INFORMATION, rtol=0.05, atol=0.01)
    # Events made elsewhere with weights that bring them to the point give the same.
    other = TOY(np.tile(POINT * 1.1, (20_000, 1)), np.random.default_rng(2))
    weight = np.exp(TOY.log_prob(other, POINT) - TOY.log_prob(other, POINT * 1.1))
    np.testing.assert_allclose(full.information(other, weight), INFORMATION, rtol=0.1, atol=0.02)


def test_an_efficient_score_is_blind_to_the_other_parameters_and_keeps_what_profiling_keeps():
    efficient = observable(DIRICHLET, POINT, direction="a", information=INFORMATION)
    found = fisher(DIRICHLET, X[:5000], POINT)
    same = observable(DIRICHLET, POINT, direction="a", information=found.score_information)
    whole = observable(DIRICHLET, POINT, direction="a", information=found)
    np.testing.assert_array_equal(whole(X[:10]), same(X[:10]))
    slopes = efficient.projection @ INFORMATION
    np.testing.assert_allclose(slopes[0, 1:], 0, atol=1e-12)
    # Its variance is the information on a that is left when b and c are free.
    left = 1 / np.linalg.inv(INFORMATION)[0, 0]
    assert slopes[0, 0] == pytest.approx(left)
    assert np.var(efficient(X)) == pytest.approx(left, rel=0.05)
    # The means at shifted points say the same of the events themselves.
    shifted = TOY(np.tile(POINT + [0.0, 0.2, 0.2], (20_000, 1)), np.random.default_rng(3))
    plain = observable(DIRICHLET, POINT, direction="a")
    error = np.sqrt(np.var(plain(X)) / 20_000)
    assert abs(np.mean(efficient(shifted))) < 4 * error
    assert abs(np.mean(plain(shifted))) > 6 * error


def exact_binned_information(edges: np.ndarray) -> float:
    """Of the mean of a normal variable, from the slopes of its bins' probabilities."""
    slopes, content = np.diff(-stats.norm.pdf(edges)), np.diff(stats.norm.cdf(edges))
    return float((slopes**2 / content).sum())


@pytest.mark.parametrize("most", [5, 20])
def test_quantile_bins_keep_the_information_that_theory_says(most):
    x = np.random.default_rng(4).normal(0.5, 1.0, (50_000, 1))
    full = observable(NORMAL, [0.5])
    bins = full.choose_bins(x, most=most)
    assert len(bins) == most
    hist = full.histogram(x, bins=bins)
    np.testing.assert_allclose(hist.values, 50_000 / most, atol=2)
    # Equal shares of a normal: 5 bins keep 90% of the information, 20 keep 98%.
    exact = exact_binned_information(bins.edges)
    assert full.binned_information(x, bins)[0, 0] == pytest.approx(exact, rel=0.03)
    assert exact == pytest.approx({5: 0.897, 20: 0.983}[most], abs=0.003)


def test_bins_are_merged_until_the_error_is_small_also_with_negative_weights():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(3000, 1))
    weight = np.where(rng.uniform(size=3000) < 0.25, -1.0, 1.0)
    bins = choose_bins(values, weight=weight, max_relative_error=0.12, most=50)
    hist = fill_histogram(bins, values, weight)
    assert 1 < len(bins) < 50
    assert np.all(hist.values > 0)
    assert np.all(hist.relative_errors <= 0.12)
    index = bins.index(values)
    for number in (0, len(bins) - 1):
        inside = weight[index == number]
        assert hist.values[number] == pytest.approx(inside.sum())
        assert hist.variances[number] == pytest.approx((inside**2).sum())
    assert hist.values.sum() == pytest.approx(weight.sum())
    doubled = hist.scale_to(2 * weight.sum())
    np.testing.assert_allclose(doubled.relative_errors, hist.relative_errors)
    # Without weights 1/√n bounds the number in each bin from below.
    plain = fill_histogram(choose_bins(values, max_relative_error=0.1, most=100), values)
    assert plain.values.min() >= 100
    assert len(plain.values) >= 25


def test_the_bound_holds_for_each_of_several_samples():
    rng = np.random.default_rng(6)
    samples = [(rng.normal(mean, 1.0, (2000, 1)), np.ones(2000)) for mean in (-1.0, 0.0, 1.0)]
    bins = choose_bins(samples, max_relative_error=0.15, most=30)
    for values, weight in samples:
        assert np.all(fill_histogram(bins, values, weight).relative_errors <= 0.15)


def test_ties_and_constants_make_no_empty_bins():
    values = np.repeat([0.0, 1.0, 2.0], 200)[:, None]
    hist = fill_histogram(choose_bins(values, most=20), values)
    np.testing.assert_array_equal(hist.values, [200, 200, 200])
    assert len(choose_bins(np.zeros((200, 1)), most=20)) == 1


def test_several_columns_are_binned_slice_by_slice():
    full = observable(DIRICHLET, POINT)
    bins = full.choose_bins(X, most=64)
    assert bins.columns == 3
    assert len(bins) == 64
    hist = full.histogram(X, bins=bins)
    assert hist.values.sum() == len(X)
    assert np.all(hist.relative_errors <= 0.1)
    # 64 bins keep much more than 8 and less than everything.
    binned = [full.binned_information(X, full.choose_bins(X, most=m)) for m in (8, 64)]
    kept = [np.trace(np.linalg.solve(INFORMATION, matrix)) for matrix in binned]
    assert kept[0] < kept[1] - 0.3
    assert kept[1] < 3


def test_every_event_is_in_a_bin():
    bins = Bins(np.array([0.0, 1.0]))
    values = np.array([[-1e9], [0.0], [0.5], [1.0], [1e9]])
    np.testing.assert_array_equal(bins.index(values), [0, 1, 1, 2, 2])
    assert repr(bins) == "Bins(3 bins of 1 column)"
    assert "3 bins, sum 5" in repr(
        fill_histogram(bins, np.array([[-1.0], [0.5], [0.5], [2.0], [3.0]]))
    )


def test_a_direct_score_network_serves_too():
    direct = ist.ScoreEstimator(**vars(exact_dirichlet()))
    np.testing.assert_array_equal(
        observable(direct, POINT)(X[:50]), observable(DIRICHLET, POINT)(X[:50])
    )
