"""Confidence sets against closed forms, and with estimators that are wrong on purpose."""

import dataclasses
import warnings
from typing import ClassVar

import numpy as np
import pytest
from scipy import interpolate, optimize, stats

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_estimator, exact_normal, gaussian
from inferostatic.inference.confidence import grids, neyman
from inferostatic.inference.confidence.confidence_set import confidence_set
from inferostatic.inference.confidence.method import AbstractConfidenceMethod, AbstractPointTest
from inferostatic.inference.confidence.observed_fit import fit_observed
from inferostatic.inference.confidence.toy_fits import ToyFitter
from inferostatic.inference.confidence.toys import make_toy_maker
from inferostatic.inference.lattice import hull, lattice
from inferostatic.inference.likelihood.model import DataSets
from parameters import slow

DIRICHLET = ist.toys.Dirichlet(3)
# Shared, so that each is compiled once.
FRACTIONS, MEAN, MEANS = exact_dirichlet(), exact_normal(width=8.0), exact_normal(dim=2, width=8.0)


def normal(theta, rng):
    return theta + rng.normal(size=theta.shape)


# A normal mean that cannot be negative: Feldman and Cousins, section IV B.

BOUNDED = exact_estimator(
    gaussian, ist.Uniform([0.0], [8.0], names=["mu"]), np.array([-8.0]), np.array([15.0])
)


def exact_p_value(x0: float, mu: float) -> float:
    x = np.linspace(mu - 8, mu + 8, 200_001)
    q = (x - mu) ** 2 - (x - np.maximum(x, 0)) ** 2
    observed = (x0 - mu) ** 2 - (x0 - max(x0, 0.0)) ** 2
    inside = q >= observed - 1e-12
    return float(np.sum(stats.norm.pdf(x - mu)[inside]) * (x[1] - x[0]))


@pytest.mark.parametrize(
    ("x0", "low", "high"),
    [(-1.0, 0.0, 0.81), (0.0, 0.0, 1.64), (1.0, 0.0, 2.64), (2.0, 0.58, 3.64)],
)
def test_feldman_and_cousins_intervals_of_a_bounded_mean(x0, low, high):
    grid = np.unique(np.concatenate([[0.0], np.arange(low - 0.15, low + 0.2, 0.05)]))
    grid = np.concatenate([grid, np.arange(high - 0.15, high + 0.2, 0.05)])
    grid = np.unique(grid[grid >= 0])
    toys = 4000
    method = ist.Neyman(normal, toys=toys)
    result = confidence_set(BOUNDED, [[x0]], method, grid=grid, level=0.9, seed=3)
    exact = np.array([exact_p_value(x0, mu) for mu in grid])
    error = np.sqrt(np.maximum(exact * (1 - exact), 1e-3) / toys)
    assert np.all(np.abs(result.p_value - exact) < 4.5 * error)
    # 0.08 is what three standard errors of a p-value of 0.1 move an edge by.
    np.testing.assert_allclose(result.interval(), [[low, high]], atol=0.08)
    np.testing.assert_allclose(result.best, [max(x0, 0.0)], atol=1e-4)
    assert "simulated at the θ that were tested" in result.summary()


def test_wilks_is_wrong_at_the_bound_and_right_away_from_it():
    bound = confidence_set(BOUNDED, [[-1.0]], level=0.9).interval()
    assert bound[0, 1] > 0.9  # Feldman and Cousins: 0.81
    inner = confidence_set(BOUNDED, [[4.0]], level=0.9)
    np.testing.assert_allclose(inner.interval(), [[4 - 1.64485, 4 + 1.64485]], atol=2e-3)
    assert inner.p_value_at(5.0) == pytest.approx(stats.chi2.sf(1.0, 1), abs=1e-5)
    assert inner.contains([5.0], 0.9)
    assert not inner.contains(5.0, 0.5)


# The estimator may be wrong.


@pytest.mark.slow
def test_neyman_covers_with_a_wrong_estimator_of_single_events_and_wilks_does_not():
    wrong = exact_dirichlet(stretch=2.0, tilt=np.array([0.5, -0.3, 0.0]))
    theta = np.array([1.5, 3.0, 2.0])
    x = DIRICHLET(np.tile(theta, (100, 1)), np.random.default_rng(4))
    neyman, wilks = np.empty(len(x)), np.empty(len(x))
    for i, event in enumerate(x):
        method = ist.Neyman(DIRICHLET, toys=99)
        neyman[i] = confidence_set(wrong, event, method, grid=[theta], seed=i).p_value[0]
        wilks[i] = confidence_set(wrong, event, grid=[theta]).p_value[0]
    assert stats.kstest(neyman, "uniform").pvalue > 0.01
    assert abs(np.mean(neyman > 0.32) - 0.68) < 3 * np.sqrt(0.68 * 0.32 / len(x))
    assert np.mean(wilks > 0.32) < 0.68 - 4 * np.sqrt(0.68 * 0.32 / len(x))


@pytest.mark.slow
def test_neyman_of_many_events_widens_what_a_stretched_potential_narrows():
    stretched, n = exact_normal(stretch=2.0), 200
    x = np.random.default_rng(1).normal(0.4, 1.0, (n, 1))
    grid = x.mean() + np.linspace(-2.5, 2.5, 21) / np.sqrt(n)
    method = ist.Neyman(normal, toys=1000, pool=100 * n)
    result = confidence_set(stretched, x, method, grid=grid, seed=1)
    half = np.diff(result.interval(0.6827))[0, 0] / 2
    # A p-value of 0.32 known to 0.015 moves an edge by 3%, and the pool's mean by as much again.
    assert half * np.sqrt(n) == pytest.approx(1.0, abs=0.12)
    narrow = np.diff(confidence_set(stretched, x).interval(0.6827))[0, 0] / 2
    assert narrow * np.sqrt(n) == pytest.approx(1 / np.sqrt(2), abs=0.01)
    assert any("share 1.00%" in note for note in result.notes)


# The distribution of the statistic.


def fitter(estimator, theta, n, toys, simulator=normal) -> ToyFitter:
    x = simulator(np.tile(theta, (n, 1)), np.random.default_rng(0))
    likelihood = ist.Likelihood(estimator, x)
    maker = make_toy_maker(likelihood, likelihood.model, simulator, toys, None, 1)
    return ToyFitter(fit_observed(likelihood, likelihood.model), maker)


@pytest.mark.parametrize(
    ("n", "indices"), [(300, [0, 1]), (5, [1]), slow(5, [0, 1]), slow(300, [1])]
)
def test_the_statistic_of_a_normal_mean_follows_chi_squared(n, indices):
    theta = np.array([0.3, -0.5])
    q = fitter(MEANS, theta, n, 1000).statistic(theta, indices)
    assert stats.kstest(q, stats.chi2(len(indices)).cdf).pvalue > 0.01


@pytest.mark.slow
def test_maxima_from_a_pool_are_those_of_the_toys_own_events():
    theta = np.array([1.6, 3.1, 2.4])
    made = fitter(FRACTIONS, theta, 100, 64, simulator=DIRICHLET)
    toys = made.maker.at(theta)
    pool, rows = toys.channels[0].pool, toys.channels[0].rows
    assert all(len(set(row)) == 100 for row in rows)  # drawn without replacement
    for indices in ([], [1]):
        found = made.fit(toys, indices, theta[indices])
        start = np.repeat(theta[None], len(rows), axis=0)
        model = made.model.hold(indices, theta) if indices else made.model
        exact = model.maximum(toys.data(), start)
        base = DIRICHLET.log_prob(pool, theta)[rows].sum(axis=1)
        np.testing.assert_allclose(found.value, exact.value - base, atol=0.03)
        np.testing.assert_allclose(found.theta, exact.theta, atol=0.06)


def test_maxima_in_a_box_are_those_of_another_library():
    low, high = np.array([1.0, 2.0, 0.5]), np.array([1.4, 4.0, 2.0])
    estimator = FRACTIONS
    bounds = {name: (a, b) for name, a, b in zip("abc", low, high, strict=True)}
    x = DIRICHLET(np.tile([1.6, 3.0, 2.4], (60, 1)), np.random.default_rng(2))
    model = ist.Likelihood(estimator, x, bounds=bounds).model
    sets = DataSets((x.reshape(3, 20, 3),), (np.ones((3, 20)),), np.zeros((3, 3)))
    found = model.maximum(sets, np.tile((low + high) / 2, (3, 1)))
    assert found.converged.all()
    for k, rows in enumerate(sets.x[0]):
        exact = optimize.minimize(
            lambda theta, rows=rows: -DIRICHLET.log_prob(rows, theta).sum(),
            (low + high) / 2,
            bounds=list(zip(low, high, strict=True)),
        )
        assert found.value[k] == pytest.approx(-exact.fun, abs=1e-3)
        np.testing.assert_allclose(found.theta[k], exact.x, atol=3e-3)


# Nuisance parameters.


def shifted(x, theta):
    return -0.5 * (x[0] - theta[0] - theta[1]) ** 2


SHIFTED = exact_estimator(
    shifted,
    ist.Uniform([-9.0, -6.0], [9.0, 6.0], names=["mu", "shift"]),
    np.array([-20.0]),
    np.array([20.0]),
)


@pytest.mark.slow
def test_the_measurement_of_a_constrained_parameter_is_made_again_in_every_toy():
    def simulator(theta, rng):
        return theta.sum(axis=1, keepdims=True) + rng.normal(size=(len(theta), 1))

    toys = 3000
    likelihood = ist.Likelihood(SHIFTED, [[2.0]], constraints={"shift": (0.5, 1.5)})
    method = ist.Neyman(simulator, toys=toys)
    result = confidence_set(likelihood, method, parameters="mu", grid=[0, 1, 4])
    total = np.sqrt(1 + 1.5**2)
    exact = 2 * stats.norm.sf(np.abs(result.points[:, 0] - 1.5) / total)
    # Without throwing the measurement the p-value at 4 would be 0.003 rather than 0.166.
    assert np.all(np.abs(result.p_value - exact) < 4 * np.sqrt(exact * (1 - exact) / toys))
    wilks = confidence_set(likelihood, parameters="mu")
    np.testing.assert_allclose(wilks.interval(0.6827), [[1.5 - total, 1.5 + total]], atol=5e-3)
    assert "profiled: shift" in wilks.summary()
    assert "constraints: shift = 0.5 ± 1.5" in wilks.summary()
    # The nuisance parameter follows the ridge.
    pulled = result.theta[:, 1]
    np.testing.assert_allclose(pulled, 0.5 + 2.25 / 3.25 * (1.5 - result.points[:, 0]), atol=1e-4)


@pytest.mark.slow
def test_the_wilks_set_is_the_profile_likelihood_interval():
    estimator = FRACTIONS
    x = DIRICHLET(np.tile([1.5, 3.0, 2.0], (200, 1)), np.random.default_rng(5))
    exact = ist.maximum_likelihood(estimator, x).interval(0.68)
    result = confidence_set(estimator, x, parameters=["b"], level=0.68)
    np.testing.assert_allclose(result.interval(), exact[[1]], atol=2e-3)
    held = ist.Likelihood(estimator, x, fixed={"b": 3.0})
    pair = confidence_set(held, ist.Wilks(), parameters=["a", "c"])
    assert pair.points.shape[1] == 2
    assert pair.accepted(0.95).sum() > pair.accepted(0.5).sum() > 10
    assert "fixed: b = 3" in pair.summary()
    best = pair.best[[0, 2]]
    ends = pair.hull(0.9)
    assert np.all((ends[:, 0] < best) & (best < ends[:, 1]))
    assert "hull of the joint set: a from" in repr(pair)
    # The interval of one parameter is that of MINOS, narrower than the hull of both.
    alone = ist.maximum_likelihood(held).interval(0.9)[[0, 2]]
    np.testing.assert_allclose(pair.interval(0.9), alone, atol=0.02)
    assert np.all(np.diff(ends)[:, 0] > 1.2 * np.diff(alone)[:, 0])


# Toys from stored events.


@pytest.mark.parametrize("n", [1, slow(60)])
def test_toys_from_stored_events_near_by_are_said_to_be_approximate(n):
    estimator, prior = MEAN, ist.Uniform([-8.0], [8.0])
    events = ist.simulate(normal, prior, 60_000, seed=1)
    x = np.random.default_rng(2).normal(0.5, 1.0, (n, 1))
    grid = x.mean() + np.array([-1.5, 0.0, 1.0]) / np.sqrt(n)
    result = confidence_set(estimator, x, ist.Neyman(events, toys=500), grid=grid)
    exact = 2 * stats.norm.sf(np.abs(grid - x.mean()) * np.sqrt(n))
    np.testing.assert_allclose(result.p_value, exact, atol=0.1)
    used = next(note for note in result.notes if "approximate" in note)
    assert "different stored events" in used


@pytest.mark.slow
def test_an_unlucky_first_grid_is_laid_again():
    # The tilt moves the best fit by 2.5 standard errors of one event, and q = (z + 2.5)².
    tilted = exact_normal(width=12.0, tilt=2.5)
    result = confidence_set(tilted, [[0.0]], ist.Neyman(normal, toys=400))
    tails = stats.norm.sf(np.linspace(0, 9, 9001) - 2.5) + stats.norm.cdf(
        -np.linspace(0, 9, 9001) - 2.5
    )
    half = 0.001 * int(np.sum(tails > 0.05))
    assert result.points.min() < 2.5 - half
    np.testing.assert_allclose(result.interval(0.95), [[2.5 - half, 2.5 + half]], atol=0.5)
    np.testing.assert_allclose(result.best, [2.5], atol=1e-3)


def test_the_hull_is_interpolated_and_says_where_it_is_cut():
    axes = (np.linspace(-2, 2, 9), np.linspace(-1, 1, 5))
    size = np.linalg.norm(lattice(axes), axis=1)
    ends, cut = hull(axes, size, 1.2, (np.full(2, -3.0), np.full(2, 3.0)))
    np.testing.assert_allclose(ends, [[-1.2, 1.2], [-1.0, 1.0]])
    assert cut == [1]
    assert hull(axes, size, 1.2, (np.full(2, -3.0), np.array([3.0, 1.0])))[1] == [1]
    assert hull(axes, size, 1.2, (np.array([-3.0, -1.0]), np.array([3.0, 1.0])))[1] == []


@pytest.mark.slow
def test_p_values_between_toys_at_few_points(monkeypatch):
    """For a normal mean the statistic is χ² with two degrees of freedom at every θ."""
    x = np.random.default_rng(6).normal([0.2, -0.1], size=(60, 2))
    method = ist.Neyman(normal, toys=200)
    monkeypatch.setattr(neyman, "LATTICE_PAYS", 0)
    result = confidence_set(MEANS, x, method, seed=3)
    assert any("toys were made at 16 points" in note for note in result.notes)
    assert len(result.points) == 21**2
    wanted = np.exp(-result.statistic / 2)
    assert np.abs(result.p_value - wanted).max() < 0.12
    assert np.sqrt(np.mean((result.p_value - wanted) ** 2)) < 0.04
    exact = x.mean(axis=0)[:, None] + np.array([-1, 1]) * np.sqrt(5.991 / 60)
    np.testing.assert_allclose(result.hull(0.95), exact, atol=0.05)
    # Where toys at other points do not agree, they are made at all of them.
    monkeypatch.setattr(neyman, "CHECK_SIGMAS", -1.0)
    monkeypatch.setattr(neyman, "COARSE_POINTS", {2: 2})
    monkeypatch.setattr(grids, "AXIS_POINTS", {2: 3})
    again = confidence_set(MEANS, x, method, seed=3)
    assert not any("toys were made at" in note for note in again.notes)


def widening(theta, rng):
    """Normal, but wider than the potential knows, and the more so the larger the first mean."""
    return theta + (1.5 + 0.5 * theta[:, :1]) * rng.normal(size=theta.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "sets"), [(MEAN, 300), (MEANS, 100)])
def test_sets_on_the_default_grid_cover(estimator, sets, monkeypatch):
    """p-values between toys at few points: that of the true θ is uniform.

    The potential is that of unit variance, so q = n|x̄ − θ|² is s(θ)²χ² with s = 1.5 + θ₀/2, and
    changes by a factor of about two over the grid.
    """
    monkeypatch.setattr(neyman, "LATTICE_PAYS", 0)
    dim, n, toys = len(estimator.theta_names), 60, 200
    theta = np.array([0.3, -0.1])[:dim]
    rng, scale = np.random.default_rng(12), 1.5 + 0.5 * theta[0]
    p_values, exact, interpolated, inside = np.empty(sets), np.empty(sets), 0, np.zeros(sets, bool)
    for i in range(sets):
        x = widening(np.tile(theta, (n, 1)), rng)
        method = ist.Neyman(widening, toys=toys)
        found = confidence_set(estimator, x, method, seed=i, progress_bar=False)
        interpolated += any("p-values interpolated" in note for note in found.notes)
        q = n * np.sum((x.mean(axis=0) - theta) ** 2)
        exact[i] = stats.chi2.sf(q / scale**2, dim)
        assert found.axes is not None
        lattice_values = found.p_value.reshape([len(axis) for axis in found.axes])
        at = interpolate.RegularGridInterpolator(
            found.axes, lattice_values, bounds_error=False, fill_value=0.0
        )
        p_values[i] = at(theta)[0]
        low, high = found.hull(0.95).T
        inside[i] = np.all((low <= theta) & (theta <= high))
    assert interpolated > 0.9 * sets
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    for level in (0.68, 0.95):
        error = np.sqrt(level * (1 - level) / sets)
        assert abs(np.mean(p_values > 1 - level) - level) < 3 * error
    if dim == 1:
        assert abs(inside.mean() - 0.95) < 3 * np.sqrt(0.95 * 0.05 / sets)
    # Each is known as well as the toys allow: 0.035 at 0.5.
    assert np.sqrt(np.mean((p_values - exact) ** 2)) < 0.04


def test_weights_of_linear_interpolation():
    axes = (np.linspace(0.0, 2.0, 3), np.linspace(-1.0, 1.0, 4))
    points = np.random.default_rng(1).uniform([0, -1], [2, 1], (20, 2))
    nodes = lattice(axes)
    weights = neyman._multilinear(axes, points)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights @ nodes, points, atol=1e-12)
    np.testing.assert_allclose(weights @ nodes.prod(axis=1), points.prod(axis=1), atol=1e-12)


class AcceptingTest(AbstractPointTest):
    def p_values(self, statistic, theta, indices, *, axes=None, show):
        return np.ones(len(statistic))

    def notes(self):
        return []


@dataclasses.dataclass(frozen=True)
class AcceptEverything(AbstractConfidenceMethod):
    name: ClassVar[str] = "everything"
    random: ClassVar[bool] = True
    trusts_potential: ClassVar[bool] = False

    def prepare(self, likelihood, observed, *, seed):
        return AcceptingTest()


@pytest.mark.slow
def test_a_grid_that_never_holds_the_set_is_still_the_one_that_was_tested():
    """The lattice is widened a few times and then kept, with the axes of its own points."""
    x = np.random.default_rng(5).normal(size=(20_000, 1))
    result = confidence_set(MEAN, x, AcceptEverything())
    assert result.axes is not None
    assert result.axes[0][0] > -8.0
    np.testing.assert_array_equal(result.points, lattice(result.axes))
    np.testing.assert_array_equal(result.theta, result.points)


# Bad input.


def test_questions_to_a_set_that_make_no_sense_are_refused():
    estimator = MEANS
    x = np.zeros((60, 2))
    result = confidence_set(estimator, x, grid=[[0.0, 0.0]])
    with pytest.raises(ValueError, match="a value for each of theta0, theta1"):
        result.p_value_at([0.0])
    with pytest.raises(ValueError, match="must lie in the trained region"):
        result.contains([0.0, 9.0])
    far = confidence_set(estimator, x, grid=[[2.0, 2.0]])
    with pytest.warns(UserWarning, match="no point of the grid is accepted"):
        assert np.isnan(far.hull()).all()
    assert "no point accepted" in repr(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "accepted at 0.6827, wilks" in repr(result)
