"""Closure of reweightings that are right and wrong, and the tests that it is made of."""

import dataclasses
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from exact_estimators import exact_dirichlet
from inferostatic.checks import closure as closure_module
from inferostatic.checks.boosted_trees import TREES, train_trees
from inferostatic.checks.closure import Closure, closure
from inferostatic.checks.two_samples import area_under_curve, kolmogorov_smirnov
from inferostatic.inference.observables.reweight import Reweighting, reweight

TOY = ist.toys.Dirichlet(3)
FROM, TO = np.array([2.0, 2.0, 2.0]), np.array([2.5, 2.0, 1.8])


def dirichlet(n: int, theta: np.ndarray, seed: int) -> np.ndarray:
    return TOY(np.tile(theta, (n, 1)), np.random.default_rng(seed))


def reweighted(n: int, seed: int = 1, **changes) -> Reweighting:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong ratio is warned about
        return reweight(exact_dirichlet(**changes), dirichlet(n, FROM, seed), FROM, TO)


def silent(steps: int, note: str = "") -> None:
    del steps, note


# Closure.


@pytest.fixture(scope="module")
def right() -> Closure:
    return closure(reweighted(20_000), dirichlet(20_000, TO, 2), seed=3)


def test_a_true_ratio_closes(right: Closure) -> None:
    assert right.closes
    assert abs(right.auc - 0.5) < 3 * right.auc_error
    # Two samples of n events have an area of 1/2 with the error √(1/6n); here n is a half.
    assert right.auc_error == pytest.approx(np.sqrt(1 / 6 / 10_000), rel=0.15)
    assert right.unweighted_auc > 0.55
    assert right.unweighted_auc_error < 0.005
    assert right.distance.shape == right.p_value.shape == (3,)
    assert right.p_value.min() > 0.001
    assert right.x_names == ("x0", "x1", "x2")
    assert 0.8 < right.effective_size / 20_000 < 0.95
    assert right.direct_effective_size == pytest.approx(20_000)
    text = right.summary()
    assert text.startswith("Closure: yes")
    assert f"{right.auc:.4f}" in text
    assert "x2" in text
    assert "closes" in repr(right)


def test_equal_samples_close_without_dividing_by_their_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferostatic.checks.boosted_trees.TREES", 8)  # none finds a difference
    start = reweighted(300)
    equal = dataclasses.replace(start, x=np.ones_like(start.x), weight=np.ones(300))
    report = closure(equal, np.ones((300, 3)), seed=3)
    assert report.auc_error == 0
    assert report.closes
    assert "closes" in repr(report)
    assert "Closure: yes" in str(report)
    assert not dataclasses.replace(report, auc=0.6).closes


def test_a_wrong_ratio_does_not_close() -> None:
    wrong = closure(reweighted(20_000, stretch=0.7), dirichlet(20_000, TO, 2), seed=3)
    assert not wrong.closes
    assert wrong.auc > 0.5 + 3 * wrong.auc_error
    assert wrong.p_value.min() < 1e-4
    assert "NO" in wrong.summary()
    assert "DOES NOT CLOSE" in repr(wrong)


def test_what_no_single_observable_shows_is_seen_by_the_classifier() -> None:
    rng = np.random.default_rng(4)
    # Equal marginal distributions, different correlation.
    x, direct = (rng.multivariate_normal([0, 0], [[1, c], [c, 1]], 6000) for c in (0.0, 0.4))
    start = dataclasses.replace(
        reweighted(6000), x=x, weight=np.ones(6000), x_names=("u", "v"), edge_share=np.zeros(2)
    )
    report = closure(start, direct, seed=3)
    assert report.p_value.min() > 0.01
    assert report.auc > 0.5 + 10 * report.auc_error
    assert not report.closes


@pytest.mark.slow
def test_the_area_scatters_about_one_half_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferostatic.checks.boosted_trees.TREES", 8)  # enough to learn noise
    pulls = []
    for seed in range(60):
        report = closure(reweighted(600, 2 * seed), dirichlet(600, TO, 2 * seed + 1), seed=seed)
        pulls.append((report.auc - 0.5) / report.auc_error)
    # A mean of 0 ± 0.13 and a standard deviation of 1 ± 0.09; of 1.4 if the halves counted twice.
    assert abs(np.mean(pulls)) < 0.45
    assert 0.7 < np.std(pulls) < 1.25


def test_direct_events_may_have_negative_weights(right: Closure) -> None:
    direct = dirichlet(20_000, TO, 2)
    weight = np.repeat([3.0, -2.0], 20_000)
    signed = closure(reweighted(20_000), np.concatenate([direct, direct]), weight=weight, seed=3)
    assert signed.closes
    np.testing.assert_allclose(signed.distance, right.distance, atol=1e-9)
    assert (signed.p_value >= right.p_value - 1e-9).all()
    assert signed.direct_effective_size == pytest.approx(20_000 / 13)
    assert signed.auc_error > 1.5 * right.auc_error


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report() -> None:
    start, direct = reweighted(600), dirichlet(600, TO, 2)
    one, same, other = (closure(start, direct, seed=seed) for seed in (1, 1, 2))
    assert one.auc == same.auc != other.auc


@pytest.mark.slow
def test_closure_of_a_hundred_thousand_events() -> None:
    report = closure(reweighted(200_000), dirichlet(200_000, TO, 2), seed=3)
    assert report.unweighted_auc >= 0.55
    assert abs(report.auc - 0.5) <= 0.005
    assert report.closes


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (np.zeros((0, 3)), None, "no directly simulated events"),
        (np.zeros(3), None, "two axes"),
        (np.zeros((300, 2)), None, "must have 3 observables"),
        (np.full((300, 3), np.nan), None, "NaN or infinite"),
        (np.zeros((50, 3)), None, "at least 200 effective events on either side"),
        (np.zeros((300, 3)), np.ones(5), "weight must have shape"),
        (np.zeros((300, 3)), -np.ones(300), "sum must be positive"),
    ],
)
def test_bad_input_raises(x: np.ndarray, weight, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        closure(reweighted(600), x, weight=weight, seed=1)


def test_something_else_than_a_reweighting_is_refused() -> None:
    with pytest.raises(TypeError, match="closure needs the result of reweight"):
        closure(np.ones(5), np.zeros((300, 3)), seed=1)  # pyright: ignore[reportArgumentType]


# Area under the curve.


def test_the_area_is_the_sum_over_pairs() -> None:
    rng = np.random.default_rng(1)
    score0, score1 = rng.integers(0, 5, 30).astype(float), rng.integers(1, 6, 20).astype(float)
    weight0, weight1 = rng.normal(1, 1, 30), rng.normal(1, 1, 20)
    total = sum(
        a * b * ((t > s) + 0.5 * (t == s))
        for (s, a), (t, b) in product(
            zip(score0, weight0, strict=True), zip(score1, weight1, strict=True)
        )
    )
    area = area_under_curve(score0, weight0, score1, weight1)
    assert area.value == pytest.approx(total / weight0.sum() / weight1.sum())
    other = area_under_curve(score1, weight1, score0, weight0)
    assert other.value == pytest.approx(1 - area.value)
    assert other.error == pytest.approx(area.error)


def test_the_error_of_an_area_is_its_scatter() -> None:
    rng = np.random.default_rng(2)
    areas = []
    for _ in range(300):
        score0, score1 = rng.normal(0, 1, 200), rng.normal(0.5, 1, 300)
        # Weights that depend on the score, as ratios do.
        areas.append(area_under_curve(score0, np.exp(0.7 * score0), score1, np.ones(300)))
    scatter = np.std([area.value for area in areas], ddof=1)
    # Known to 4%; that of few heavy weights is a little too small on average.
    assert np.mean([area.error for area in areas]) == pytest.approx(scatter, rel=0.15)


# Kolmogorov-Smirnov.


def test_without_weights_it_is_the_textbook_test() -> None:
    rng = np.random.default_rng(3)
    for values0, values1 in (
        (rng.normal(size=400), rng.normal(0.1, 1, 300)),
        (rng.integers(0, 9, 400).astype(float), rng.integers(0, 9, 300).astype(float)),
    ):
        ours = kolmogorov_smirnov(values0, np.ones(400), values1, np.ones(300))
        distance, p_value = stats.ks_2samp(values0, values1)
        assert ours.distance == pytest.approx(distance)
        if len(np.unique(values0)) == 400:
            assert ours.p_value == pytest.approx(p_value, rel=0.1, abs=0.01)
    one = kolmogorov_smirnov(np.zeros(400), np.ones(400), np.zeros(300), np.ones(300))
    assert (one.distance, one.p_value) == (pytest.approx(0), 1)
    two = kolmogorov_smirnov(np.zeros(400), np.ones(400), np.ones(300), np.ones(300))
    assert (two.distance, two.p_value) == (pytest.approx(1), pytest.approx(0, abs=1e-9))


def test_integer_weights_are_repeated_events_but_of_fewer() -> None:
    rng = np.random.default_rng(3)
    values0, values1 = rng.normal(size=400), rng.normal(size=300)
    weight = rng.integers(1, 5, 400)
    ours = kolmogorov_smirnov(values0, weight.astype(float), values1, np.ones(300))
    distance, p_value = stats.ks_2samp(np.repeat(values0, weight), values1)
    assert ours.distance == pytest.approx(distance)
    assert ours.p_value > np.asarray(p_value)


def test_true_ratios_are_rejected_as_often_as_stated() -> None:
    rng = np.random.default_rng(6)
    p = []
    for _ in range(400):
        values0, values1 = rng.normal(size=500), rng.normal(1.2, 1, 500)
        weight = np.exp(1.2 * values0 - 0.72)
        p.append(kolmogorov_smirnov(values0, weight, values1, np.ones(500)).p_value)
    # 0.05 ± 0.011; tests by (Σw)²/Σw² reject 0.135 of these. Large p-values are a little too large.
    assert 0.02 < np.mean(np.less(p, 0.05)) < 0.09
    assert 0.45 < np.mean(p) < 0.68


# The classifier.


def test_trees_come_close_to_the_best_classifier() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(20_000, 3))
    log_odds = 1.5 * x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2])
    label = (rng.uniform(size=20_000) < 1 / (1 + np.exp(-log_odds))).astype(float)
    weight = np.exp(0.3 * rng.normal(size=20_000))
    training, test = np.arange(20_000) < 10_000, np.arange(20_000) >= 10_000
    seen = []
    trees = train_trees(
        x[training], label[training], weight[training], lambda steps, note="": seen.append(steps)
    )
    assert sum(seen) == TREES

    def area(score: np.ndarray) -> float:
        zero = label[test] == 0
        own = weight[test]
        return area_under_curve(score[zero], own[zero], score[~zero], own[~zero]).value

    best = area(log_odds[test])
    assert best > 0.75
    # Interactions and waves included; scikit-learn's 100 trees of 31 leaves lose 0.010.
    assert best - 0.02 < area(trees(x[test])) < best + 0.005


def test_trees_learn_log_odds_of_balanced_classes() -> None:
    rng = np.random.default_rng(8)
    label = np.repeat([0.0, 1.0], [15_000, 5000])
    x = rng.normal(np.where(label == 1, 0.7, 0), 1)[:, None]
    trees = train_trees(x, label, np.ones(20_000), silent)
    grid = np.linspace(-1, 1.7, 10)
    difference = trees(grid[:, None]) - (0.7 * grid - 0.245)
    assert np.abs(difference).max() < 0.4  # bins of 80 events of class 1 are known to 0.15
    assert abs(difference.mean()) < 0.1


def test_trees_survive_constant_columns_and_negative_weights() -> None:
    rng = np.random.default_rng(9)
    label = np.repeat([0.0, 1.0], 2000)
    x = np.stack([np.ones(4000), rng.normal(label, 1)], axis=1)
    weight = rng.choice([1.0, -1.0], 4000, p=[0.8, 0.2])
    score = train_trees(x, label, weight, silent)(x)
    assert np.isfinite(score).all()
    assert area_under_curve(score[:2000], np.ones(2000), score[2000:], np.ones(2000)).value > 0.6


def test_an_interrupted_test_goes_on_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = reweighted(500), dirichlet(500, TO, 2)
    trained = [0]

    def train(x: np.ndarray, *_: Any) -> Any:
        trained[0] += 1
        if trained[0] == 4 + 3:
            raise KeyboardInterrupt
        return lambda other: other @ x.mean(axis=0)

    monkeypatch.setattr(closure_module, "train_trees", train)
    whole = closure(*pair, seed=3)
    with pytest.raises(KeyboardInterrupt):
        closure(*pair, checkpoint=tmp_path, seed=3)
    found = closure(*pair, checkpoint=tmp_path, seed=3)
    assert trained == [4 + 3 + 2]
    assert (found.auc, found.auc_error) == (whole.auc, whole.auc_error)
    before = whole.unweighted_auc, whole.unweighted_auc_error
    assert (found.unweighted_auc, found.unweighted_auc_error) == before
    with pytest.raises(ValueError, match="other seed: 3 before, 4 now"):
        closure(*pair, checkpoint=tmp_path, seed=4)
