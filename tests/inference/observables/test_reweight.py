"""Reweighting with exact ratios, with wrong ones, and across distances that cannot work."""

import warnings

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.observables.pareto_tail import find_tail_index
from inferostatic.inference.observables.reweight import FarReweighting, Reweighting, reweight
from random_estimators import random_estimator

TOY = ist.toys.Dirichlet(3)
FROM, TO = np.array([2.0, 2.0, 2.0]), np.array([2.5, 2.0, 1.8])
EXACT = exact_dirichlet()


def dirichlet(n: int, theta: np.ndarray = FROM, seed: int = 1) -> np.ndarray:
    return TOY(np.tile(theta, (n, 1)), np.random.default_rng(seed))


X = dirichlet(20_000)


@pytest.fixture(scope="module")
def found() -> Reweighting:
    return reweight(EXACT, X, FROM, TO)


# Truth.


def test_weights_are_the_true_ratio_and_move_means_to_those_of_the_target(
    found: Reweighting,
) -> None:
    exact = TOY.log_prob(X, TO) - TOY.log_prob(X, FROM)
    np.testing.assert_allclose(found.log_ratio, exact, atol=2e-5)
    np.testing.assert_allclose(found.weight, np.exp(exact), rtol=3e-5)
    np.testing.assert_array_equal(found.input_weight, 1)
    mean = found.weight @ X / found.weight.sum()
    error = np.sqrt(found.weight**2 @ (X - mean) ** 2) / found.weight.sum()
    assert np.abs((mean - TO / TO.sum()) / error).max() < 4
    assert np.abs((X.mean(axis=0) - TO / TO.sum()) / error).max() > 20  # not so before
    assert found.remarks == ()


def test_the_mean_ratio_and_the_effective_size_are_those_of_the_law(found: Reweighting) -> None:
    assert found.normalisation == pytest.approx(found.weight.mean())
    assert found.normalisation_error == pytest.approx(found.weight.std() / np.sqrt(20_000))
    assert abs(found.normalisation - 1) < 4 * found.normalisation_error

    # E[r²] is a ratio of the Dirichlet's normalisations B at 2·TO − FROM, FROM and TO.
    from scipy.special import gammaln

    def log_b(theta: np.ndarray) -> float:
        return float(gammaln(theta).sum() - gammaln(theta.sum()))

    second = np.exp(log_b(2 * TO - FROM) + log_b(FROM) - 2 * log_b(TO))
    assert found.effective_fraction == pytest.approx(1 / second, rel=0.03)
    assert found.effective_size == pytest.approx(20_000 / second, rel=0.03)
    assert found.largest_share == pytest.approx(found.weight.max() / found.weight.sum())
    assert found.normalised.sum() == pytest.approx(20_000)


def test_the_error_of_the_mean_ratio_is_its_scatter() -> None:
    many = [reweight(EXACT, dirichlet(4096, seed=seed), FROM, TO) for seed in range(80)]
    scatter = np.std([one.normalisation for one in many], ddof=1)
    # A standard deviation of 80 numbers is known to 8%.
    assert np.mean([one.normalisation_error for one in many]) == pytest.approx(scatter, rel=0.3)
    mean = np.mean([one.normalisation for one in many])
    assert abs(mean - 1) < 4 * scatter / np.sqrt(80)


def test_nothing_happens_between_equal_points() -> None:
    same = reweight(EXACT, X, FROM, FROM)
    np.testing.assert_array_equal(same.weight, 1)
    assert same.effective_fraction == pytest.approx(1)
    assert same.tail_index == -np.inf
    assert same.remarks == ()


def test_every_event_may_have_its_own_theta() -> None:
    rng = np.random.default_rng(4)
    theta = rng.uniform(1.8, 2.2, (5000, 3))
    x = TOY(theta, rng)
    own = reweight(EXACT, x, theta, FROM)
    exact = TOY.log_prob(x, np.tile(FROM, (5000, 1))) - TOY.log_prob(x, theta)
    np.testing.assert_allclose(own.log_ratio, exact, atol=2e-5)
    assert abs(own.normalisation - 1) < 4 * own.normalisation_error


def test_input_weights_of_either_sign_are_multiplied(found: Reweighting) -> None:
    weight = np.repeat([3.0, -2.0], len(X))
    signed = reweight(EXACT, np.concatenate([X, X]), FROM, TO, weight=weight)
    np.testing.assert_allclose(signed.weight, weight * np.tile(found.weight, 2), rtol=1e-6)
    assert signed.normalisation == pytest.approx(found.normalisation, rel=1e-6)
    assert signed.normalisation_error == pytest.approx(
        np.sqrt(13) * found.normalisation_error, rel=1e-6
    )
    assert signed.input_effective_size == pytest.approx(len(X) / 13)
    assert signed.effective_size == pytest.approx(found.effective_size / 13, rel=1e-6)
    assert signed.normalised.sum() == pytest.approx(weight.sum())


def test_a_direct_ratio_network_serves_as_well() -> None:
    estimator = random_estimator(ist.DirectRatio(ist.MLP((8,)), ist.Raw()))
    x = np.random.default_rng(1).uniform(-2, 2, (100, 3))
    to, start = [2.0, 0.5], [1.9, 0.4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a random network is no ratio
        weights = reweight(estimator, x, start, to, throw=False)
    np.testing.assert_allclose(weights.log_ratio, estimator.log_ratio(x, to, start))


# The tail.


@pytest.mark.parametrize("shape", [0.25, 0.5, 0.9])
def test_the_tail_index_of_pareto_weights(shape: float) -> None:
    weight = 1 + np.random.default_rng(3).pareto(1 / shape, 100_000)
    # The index of 950 weights scatters by (1 + k)/√950.
    assert find_tail_index(weight) == pytest.approx(shape, abs=4 * (1 + shape) / np.sqrt(950))


def test_the_tail_index_agrees_with_another_library() -> None:
    # What arviz 0.23.4, psislw(log(weight))[1], gives for these weights.
    weight = np.exp(np.random.default_rng(5).normal(0, 1.5, 20_000))
    assert find_tail_index(weight) == pytest.approx(0.4097, abs=0.02)


def test_few_or_equal_weights_have_no_tail_to_tell_of() -> None:
    assert np.isnan(find_tail_index(np.random.default_rng(0).uniform(size=50)))
    assert find_tail_index(np.ones(1000)) == -np.inf
    assert np.isnan(find_tail_index(np.repeat([1.0, 2.0], [9990, 10])))


# Too far, or wrong.


def test_a_far_pair_is_refused_with_its_effective_size() -> None:
    with pytest.raises(FarReweighting, match=r"only [\d.]+ effective events are left of 20,000"):
        reweight(EXACT, X, FROM, [0.2, 0.2, 5.0])


def test_a_refused_pair_can_be_looked_at() -> None:
    with pytest.warns(UserWarning, match=".") as caught:
        weights = reweight(EXACT, X, FROM, [0.2, 0.2, 5.0], throw=False)
    messages = [str(warning.message) for warning in caught]
    assert messages == list(weights.remarks)
    assert "effective events are left of 20,000" in messages[0]
    assert "heavy tail" in messages[1]
    assert "outermost 0.1% of the events" in messages[2]
    assert weights.effective_fraction < 0.01
    assert weights.tail_index > 0.7
    # A true ratio fails E[r] = 1 here, so it is not held against it.
    assert "mean of the ratio" not in " ".join(messages)
    assert weights.remarks[0] in weights.summary()
    assert "see remarks" in repr(weights)


def test_a_pair_that_leaves_few_events_is_warned_about_at_the_users_line() -> None:
    with pytest.warns(
        UserWarning, match=r"effective events are left of 20,000 \(\d.\d%\)"
    ) as caught:
        reweight(EXACT, X, FROM, [0.75, 2.0, 2.0])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("centre", [-30.0, 30.0])
def test_weights_that_float64_does_not_hold_are_refused_even_so(centre: float) -> None:
    estimator = exact_normal(width=50.0)
    x = np.random.default_rng(1).normal(centre, 1, (2000, 1))
    with pytest.raises(FarReweighting, match=r"exp\(-?\d{4}\), which float64 does not hold"):
        reweight(estimator, x, [-45.0], [45.0], throw=False)


def test_an_observable_that_the_events_do_not_reach_is_named() -> None:
    estimator = exact_normal(dim=2, width=5.0)
    x = np.random.default_rng(1).normal(size=(20_000, 2))
    with pytest.warns(UserWarning, match=".") as caught:
        weights = reweight(estimator, x, [0.0, 0.0], [0.0, 2.2], throw=False)
    assert any("of the events in x1" in str(warning.message) for warning in caught)
    assert weights.edge_share[1] > 0.1
    assert weights.edge_share[0] < 0.1


@pytest.mark.parametrize("changes", [{"stretch": 0.8}, {"tilt": [0.05, 0.0, 0.0]}])
def test_a_biased_ratio_is_flagged_by_its_mean(changes) -> None:
    with pytest.warns(UserWarning, match="should be 1: the ratio is biased"):
        reweight(exact_dirichlet(**changes), X, FROM, [2.4, 2.3, 1.6])


def test_events_that_lack_a_part_of_the_target_are_flagged_by_the_mean() -> None:
    with pytest.warns(UserWarning, match="or the events do not cover theta_to"):
        reweight(EXACT, X[X[:, 0] < 0.45], FROM, TO)


# Bad input.


def test_negative_weights_that_prevail_at_the_target_are_refused() -> None:
    weight = np.where(X[:, 0] > 0.6, -3.0, 1.0)
    with pytest.raises(ValueError, match="events of negative weight prevail"):
        reweight(EXACT, X, FROM, [5.0, 1.5, 1.5], weight=weight, throw=False)


def test_points_outside_the_trained_region_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="theta lies outside the trained region"):
        reweight(exact_dirichlet(high=2.2), X, FROM, TO)
