"""Latent toys: what they tell of their latent variables agrees with their exact densities.

Means over simulated latents are compared with the exact score and ratio within 4.5 standard
errors, and integrals over all latents without any. That densities, scores and samplers of x are
right is tested in test_toys.py, with those of all toys.
"""

import copy
import itertools
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import inferostatic as ist
from inferostatic.world.simulator import LatentSimulator
from inferostatic.world.toys import AbstractLatentToy, GaltonBoard, GaussianChain, TwoCouplings


@dataclass(frozen=True)
class Case:
    toy: AbstractLatentToy
    box: tuple[list[float], list[float]]

    def theta(self, n, seed):
        return np.random.default_rng(seed).uniform(*self.box, size=(n, len(self.box[0])))

    def events(self, n, seed):
        theta = self.theta(n, seed)
        return *self.toy.simulate_latent(theta, np.random.default_rng(seed + 1)), theta

    @property
    def middle_and_near(self):
        low, high = np.array(self.box)
        return 0.55 * low + 0.45 * high, 0.35 * low + 0.65 * high


CASES = {
    "gaussian chain": Case(GaussianChain(), ([-1.0, -0.5], [1.0, 0.5])),
    "chain of two": Case(
        GaussianChain(length=2, coupling=-1.3, step=0.7, reading=0.3), ([-1.0, -0.5], [1.0, 0.5])
    ),
    "galton board": Case(GaltonBoard(), ([-1.0], [1.0])),
    "galton board with a loaded nail": Case(GaltonBoard(rows=5), ([-2.0], [2.0])),
    "two couplings": Case(TwoCouplings(), ([-1.0, -1.0], [1.0, 1.0])),
    "two couplings, much background": Case(
        TwoCouplings(smearing=0.8, background=2.0), ([-2.0, -2.0], [2.0, 2.0])
    ),
}


BLOCK = 2000


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request):
    return request.param


@partial(jax.jit, static_argnums=0)
def joint_of_many(function, x, z, theta):
    """The joint density and score of many events; functions are static, as in training."""
    return jax.vmap(jax.value_and_grad(function, argnums=2))(x, z, theta)


def joint(toy, x, z, theta):
    """The same in float64, in blocks of one size, so that each toy is compiled once."""
    theta = np.broadcast_to(theta, (len(x), len(toy.theta_names)))
    rows = np.arange(-(-len(x) // BLOCK) * BLOCK).reshape(-1, BLOCK) % len(x)
    with jax.enable_x64(True):  # noqa: FBT003
        blocks = [joint_of_many(toy.joint_log_prob, x[i], z[i], theta[i]) for i in rows]
    value, score = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return value[: len(x)], score[: len(x)]


def assert_mean(values, expected, tolerated=4.5):
    """Compare a sample mean over rows with its expectation, in standard errors."""
    error = values.std(axis=0) / np.sqrt(len(values))
    off = values.mean(axis=0) - expected
    # Where nothing is random, only rounding is left.
    assert np.all(np.abs(off) <= tolerated * error + 1e-12), f"off by {off / error} standard errors"


def in_bins(toy, x, point):
    """Indicators of slices of x, of equal probability where x is continuous."""
    columns = []
    for column, other in zip(
        x.T, toy(np.tile(point, (4000, 1)), np.random.default_rng(99)).T, strict=True
    ):
        edges = np.unique(np.quantile(other, np.linspace(0.1, 0.9, 9)))
        which = np.searchsorted(edges, column)
        columns.append(which[:, None] == np.arange(len(edges) + 1))
    return np.concatenate(columns, axis=1).astype(float)


# Invariants of every latent toy


def test_events_with_and_without_latents_are_the_same(case):
    theta = case.theta(50, seed=1)
    x, z = case.toy.simulate_latent(theta, np.random.default_rng(2))
    np.testing.assert_array_equal(case.toy(theta, np.random.default_rng(2)), x, strict=True)
    assert x.shape == (50, len(case.toy.x_names))
    assert z.shape == (50, len(case.toy.z_names))
    assert x.dtype == z.dtype == np.float64
    none = case.toy.simulate_latent(theta[:0], np.random.default_rng(2))
    assert (none[0].shape, none[1].shape) == ((0, x.shape[1]), (0, z.shape[1]))
    assert isinstance(case.toy, LatentSimulator)


def test_joint_score_is_the_gradient_of_the_joint_density(case):
    x, z, theta = case.events(200, seed=3)
    step = 1e-3
    for i, shift in enumerate(step * np.eye(theta.shape[1])):
        near, far = (
            joint(case.toy, x, z, theta + k * shift)[0]
            - joint(case.toy, x, z, theta - k * shift)[0]
            for k in (1, 2)
        )
        expected = (8 * near - far) / (12 * step)
        actual = joint(case.toy, x, z, theta)[1][:, i]
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_mean_of_the_joint_score_is_zero_and_in_slices_of_x_the_score(case):
    for k, point in enumerate(case.theta(3, seed=4)):
        x, z = case.toy.simulate_latent(np.tile(point, (40_000, 1)), np.random.default_rng(k))
        score, exact = joint(case.toy, x, z, point)[1], case.toy.score(x, point)
        assert_mean(score, 0.0)
        noise = (score - exact)[:, :, None] * in_bins(case.toy, x, point)[:, None, :]
        assert_mean(noise.reshape(len(x), -1), 0.0)


def test_mean_of_the_joint_ratio_is_one_and_in_slices_of_x_the_ratio(case):
    point, other = case.middle_and_near
    x, z = case.toy.simulate_latent(np.tile(point, (40_000, 1)), np.random.default_rng(5))
    ratio = np.exp(joint(case.toy, x, z, other)[0] - joint(case.toy, x, z, point)[0])
    exact = np.exp(case.toy.log_prob(x, other) - case.toy.log_prob(x, point))
    assert_mean(ratio, 1.0)
    assert_mean((ratio - exact)[:, None] * in_bins(case.toy, x, point), 0.0)


def test_latents_know_more_than_x_but_not_all_too_much(case):
    point, _ = case.middle_and_near
    x, z = case.toy.simulate_latent(np.tile(point, (40_000, 1)), np.random.default_rng(6))
    score, exact = joint(case.toy, x, z, point)[1], case.toy.score(x, point)
    # What latents add is independent noise on the score, so that the squares add up too.
    assert_mean((score - exact) * exact, 0.0)
    gain = (score**2).mean(axis=0) / (exact**2).mean(axis=0)
    assert np.all((gain > 1.05) & (gain < 6.0))


def test_float32_is_accurate_and_strict(case, strict):
    x, z, theta = (values.astype(np.float32) for values in case.events(BLOCK, seed=7))
    value, score = joint_of_many(case.toy.joint_log_prob, x, z, theta)
    assert value.dtype == score.dtype == jnp.float32
    exact_value, exact_score = joint(case.toy, *(a.astype(np.float64) for a in (x, z, theta)))
    np.testing.assert_allclose(value, exact_value, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(score, exact_score, rtol=1e-5, atol=1e-5)


def test_joint_density_is_finite_far_away(case):
    x, z, theta = (values.astype(np.float32) for values in case.events(BLOCK, seed=8))
    # Paths of a ball are what they are.
    far = z if isinstance(case.toy, GaltonBoard) else 1e3 * z
    for factor in (0.0, 30.0, -30.0):
        value, score = joint_of_many(case.toy.joint_log_prob, x, far, factor * theta)
        assert np.all(np.isfinite(value))
        assert np.all(np.isfinite(score))


def test_joint_density_may_be_static(case):
    assert case.toy.joint_log_prob == case.toy.joint_log_prob
    assert hash(case.toy.joint_log_prob) == hash(case.toy.joint_log_prob)
    assert hash(case.toy) == hash(copy.deepcopy(case.toy))


def test_simulated_events_carry_their_latents():
    prior = ist.Uniform([-1.0, -0.5], [1.0, 0.5])
    events = ist.simulate(GaussianChain(), prior, 30, seed=9, progress_bar=False)
    assert events.latent["z"].shape == (30, 3)


# Integrals over all latents


def on_a_grid(half, nodes):
    """Points of a square and the area of each; trapezoids are exact for what vanishes outside."""
    axis = np.linspace(-half, half, nodes)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return points, (axis[1] - axis[0]) ** 2


@partial(jax.jit, static_argnums=0)
def of_many(function, first, second):
    return jax.vmap(function)(first, second)


def evaluate(function, first, second):
    n = max(len(first), len(second))
    pair = (np.broadcast_to(values, (n, values.shape[-1])) for values in (first, second))
    with jax.enable_x64(True):  # noqa: FBT003
        return np.asarray(of_many(function, *pair))


FACTORISED = {
    "chain of two": (CASES["chain of two"].toy, [0.4, -0.2]),
    "two couplings": (TwoCouplings(), [0.7, -0.8]),
    "destructive couplings": (TwoCouplings(smearing=0.4, background=0.1), [-0.9, -0.6]),
}


@pytest.mark.parametrize(("toy", "point"), FACTORISED.values(), ids=list(FACTORISED))
def test_integral_over_the_latents_is_the_density_of_x(toy, point):
    z, area = on_a_grid(15.0, 151)
    latent = evaluate(toy.latent_log_prob, z, np.array([point]))
    assert np.exp(latent).sum() * area == pytest.approx(1.0, abs=1e-9)
    x = toy(np.tile(point, (5, 1)), np.random.default_rng(10))
    score = joint(toy, np.zeros_like(z), z, np.array(point))[1]
    for event in x:
        transfer = evaluate(toy.transfer_log_prob, event[None], z)
        density = np.exp(latent + transfer)
        total = density.sum() * area
        assert np.log(total) == pytest.approx(toy.log_prob(event[None], point)[0], abs=1e-9)
        np.testing.assert_allclose(
            density @ score * area / total, toy.score(event[None], point)[0], atol=1e-9
        )


@pytest.mark.parametrize("toy", [GaussianChain(), TwoCouplings()])
def test_transfer_and_density_of_x_integrate_to_one(toy):
    x, area = on_a_grid(15.0, 301)
    z = np.linspace(-0.5, 0.7, len(toy.z_names))
    transfer = evaluate(toy.transfer_log_prob, x, z[None])
    assert np.exp(transfer).sum() * area == pytest.approx(1.0, abs=1e-9)
    for point in ([0.5, 0.2], [-0.9, -0.4]):
        assert np.exp(toy.log_prob(x, point)).sum() * area == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("toy", [GaussianChain(), TwoCouplings()])
def test_joint_density_is_latents_and_transfer_up_to_terms_without_theta(toy):
    x, z = toy.simulate_latent(np.tile([0.3, 0.1], (20, 1)), np.random.default_rng(11))
    left_out = []
    for point in ([0.3, 0.1], [-0.8, 0.4]):
        theta = np.tile(point, (20, 1))
        whole = evaluate(toy.latent_log_prob, z, theta) + evaluate(toy.transfer_log_prob, x, z)
        left_out.append(whole - joint(toy, x, z, np.array(point))[0])
    np.testing.assert_allclose(*left_out, atol=1e-12)


# The chain


def test_each_step_of_the_chain_is_normal():
    toy = GaussianChain(length=4, coupling=0.6, step=0.3, reading=0.5)
    theta = CASES["gaussian chain"].theta(50_000, seed=12)
    x, z = toy.simulate_latent(theta, np.random.default_rng(13))
    pulls = [(z[:, 0] - theta[:, 0]) / np.exp(theta[:, 1])]
    pulls += [(z[:, i + 1] - 0.6 * z[:, i]) / 0.3 for i in range(3)]
    pulls += [(x[:, 0] - z[:, 2]) / 0.5, (x[:, 1] - z[:, 3]) / 0.5]
    for pull in pulls:
        assert stats.kstest(pull, "norm").pvalue > 1e-3
    correlation = np.corrcoef(pulls) - np.eye(6)
    assert np.all(np.abs(correlation) < 4.5 / np.sqrt(len(x)))


def test_chain_of_any_width_is_finite():
    toy, x = GaussianChain(), np.array([[0.3, -0.2], [1e5, 1e5]])
    for log_width in (-1e4, -30.0, 30.0, 1e4):
        assert np.all(np.isfinite(toy.log_prob(x, [0.0, log_width])))
        assert np.all(np.isfinite(toy.score(x, [0.0, log_width])))


def test_default_chain_loses_the_fraction_of_information_it_says():
    x = GaussianChain()(np.zeros((100_000, 2)), np.random.default_rng(14))
    assert_mean(GaussianChain().score(x, [0.0, 0.0])[:, 0] ** 2, 0.6098)


# The board


def all_paths(rows):
    return np.array(list(itertools.product([0.0, 1.0], repeat=rows)))


@pytest.mark.parametrize("rows", [2, 7, 10])
@pytest.mark.parametrize("pull", [-1.7, 0.0, 0.6, 40.0])
def test_sums_over_all_paths_are_the_truth_of_each_bin(rows, pull):
    toy, paths = GaltonBoard(rows=rows), all_paths(rows)
    bins = np.arange(rows + 1.0)[:, None]
    log_prob, score = joint(toy, paths.sum(axis=1, keepdims=True), paths, np.array([pull]))
    into = paths.sum(axis=1) == bins
    truth = np.exp(toy.log_prob(bins, [pull]))
    np.testing.assert_allclose(into @ np.exp(log_prob), truth, rtol=1e-11)
    np.testing.assert_allclose(
        into @ (np.exp(log_prob) * score[:, 0]) / truth,
        toy.score(bins, [pull])[:, 0],
        rtol=1e-9,
        atol=1e-11,
    )


@pytest.mark.parametrize("rows", [2, 20, 51])
@pytest.mark.parametrize("pull", [-3.0, -0.5, 0.0, 1.0, 100.0])
def test_probabilities_of_all_bins_add_up_to_one_symmetrically(rows, pull):
    toy, bins = GaltonBoard(rows=rows), np.arange(rows + 1.0)[:, None]
    log_prob, score = toy.log_prob(bins, [pull]), toy.score(bins, [pull])[:, 0]
    assert np.exp(log_prob).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_prob) @ score == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(log_prob, log_prob[::-1], rtol=1e-13)


def test_board_without_pull_is_binomial():
    bins = np.arange(21.0)
    expected = stats.binom.logpmf(bins, 20, 0.5)
    np.testing.assert_allclose(GaltonBoard().log_prob(bins[:, None], [0.0]), expected, rtol=1e-12)


def test_first_loaded_nail_by_hand():
    # Of two rows the second is at a height of 3/4, its nails a quarter off the middle.
    toy, load = GaltonBoard(rows=2), np.sin(0.75 * np.pi)
    back = (1 - load) / 2 + load * special.expit(5 * 0.8 * 0.25)
    expected = [(1 - back) / 2, back, (1 - back) / 2]
    np.testing.assert_allclose(np.exp(toy.log_prob([[0.0], [1.0], [2.0]], [0.8])), expected)


def test_paths_end_in_their_bins_and_follow_their_probabilities():
    toy, paths = GaltonBoard(rows=5), all_paths(5)
    x, z = toy.simulate_latent(np.full((50_000, 1), -1.2), np.random.default_rng(15))
    np.testing.assert_array_equal(z.sum(axis=1), x[:, 0])
    counts = np.bincount((z @ 2.0 ** np.arange(4, -1, -1)).astype(int), minlength=32)
    log_prob, _ = joint(toy, paths.sum(axis=1, keepdims=True), paths, np.array([-1.2]))
    assert stats.chisquare(counts, len(x) * np.exp(log_prob)).pvalue > 1e-3


@pytest.mark.parametrize("rows", [20, 21, 120])
@pytest.mark.parametrize("pull", [-1e3, 1e3])
def test_bins_that_are_never_filled_are_finite(rows, pull):
    toy, bins = GaltonBoard(rows=rows), np.arange(rows + 1.0)[:, None]
    assert np.all(toy.log_prob(bins, [pull]) < 0)
    assert np.all(np.isfinite(toy.score(bins, [pull])))
    assert np.exp(toy.log_prob(bins, [pull])).sum() == pytest.approx(1.0, abs=1e-9)
    toy(np.full((10, 1), pull), np.random.default_rng(16))


# Two couplings


def differential_rate(toy, z, theta):
    """Written out from its definition."""

    def normal(centre, deviation):
        return np.prod(stats.norm.pdf(z, centre, deviation), axis=1)

    amplitude = (
        np.sqrt(normal([0.0, 0.0], 1.0))
        + theta[0] * np.sqrt(normal([1.5, 0.0], 0.7))
        + theta[1] * np.sqrt(normal([-0.5, 1.2], 0.8))
    )
    return toy.background * normal([0.0, 0.0], 2.0) + amplitude**2


BENCHMARKS = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.5], [0.3, -0.9], [0.5, 0.5], [-2.0, 3.0]])


@pytest.mark.parametrize("toy", [TwoCouplings(), TwoCouplings(background=0.2)])
def test_components_and_powers_make_the_rate(toy):
    z, area = on_a_grid(14.0, 141)
    components, powers = toy.components(z), toy.powers
    assert components.shape == (len(z), len(powers))
    for point in BENCHMARKS:
        expected = differential_rate(toy, z, point)
        actual = components @ np.prod(point**powers, axis=1)
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-15)
        assert toy.rate(point) == pytest.approx(expected.sum() * area, rel=1e-9)
    np.testing.assert_array_equal(toy.rate(BENCHMARKS), [toy.rate(point) for point in BENCHMARKS])
    assert toy.rate(BENCHMARKS[0]).shape == ()


def test_six_benchmarks_determine_the_rate_everywhere():
    toy = TwoCouplings()
    matrix = np.prod(BENCHMARKS[:, None, :] ** toy.powers, axis=2)
    morphing = np.linalg.solve(matrix.T, np.prod(np.array([0.9, -0.2]) ** toy.powers, axis=1))
    z = np.random.default_rng(17).normal(size=(100, 2))
    np.testing.assert_allclose(
        toy.weights(z, BENCHMARKS) @ morphing, toy.weights(z, [[0.9, -0.2]])[:, 0], rtol=1e-9
    )


def test_weights_are_differential_rates_over_the_density_of_the_events():
    toy, theta = TwoCouplings(), CASES["two couplings"].theta(40_000, seed=18)
    x, z = toy.simulate_latent(theta, np.random.default_rng(19))
    assert_mean(toy.weights(z, BENCHMARKS, theta), toy.rate(BENCHMARKS))
    expected = np.stack([differential_rate(toy, z[:50], point) for point in BENCHMARKS], axis=1)
    drawn = [differential_rate(toy, z[i : i + 1], theta[i])[0] for i in range(50)]
    np.testing.assert_allclose(
        toy.weights(z[:50], BENCHMARKS, theta[:50]),
        expected * (toy.rate(theta[:50]) / drawn)[:, None],
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        toy.weights(z[:50], BENCHMARKS),
        expected / np.prod(stats.norm.pdf(z[:50], 0.0, 2.0), axis=1)[:, None],
        rtol=1e-10,
    )
    np.testing.assert_array_equal(
        toy.weights(z[:50], BENCHMARKS, theta[0]),
        toy.weights(z[:50], BENCHMARKS, np.tile(theta[0], (50, 1))),
    )
    # Only ratios of a row enter a joint ratio, with the total rates.
    numerator, denominator = (joint(toy, x[:50], z[:50], BENCHMARKS[i])[0] for i in (1, 3))
    weights = toy.weights(z[:50], BENCHMARKS) / toy.rate(BENCHMARKS)
    np.testing.assert_allclose(
        numerator - denominator, np.log(weights[:, 1] / weights[:, 3]), atol=1e-12
    )


@pytest.mark.parametrize("point", [[0.9, 0.3], [-0.9, -0.6], [-3.0, 2.0]])
def test_latents_follow_the_rate(point):
    toy, edges = TwoCouplings(), np.linspace(-2.2, 2.7, 12)
    x, z = toy.simulate_latent(np.tile(point, (40_000, 1)), np.random.default_rng(20))
    counts = np.histogram2d(*z.T, bins=[edges, edges])[0].ravel()
    # Each cell by Gauss-Legendre quadrature.
    node, weight = special.roots_legendre(8)
    half = (edges[1] - edges[0]) / 2
    axis = (edges[:-1, None] + half * (1 + node)).ravel()
    first, second = np.meshgrid(axis, axis, indexing="ij")
    rate = differential_rate(toy, np.stack([first.ravel(), second.ravel()], axis=1), point)
    cells = np.einsum("iajb,a,b->ij", rate.reshape(11, 8, 11, 8), weight, weight) * half**2
    expected = len(z) * cells.ravel() / toy.rate(point)
    # Cells of few events join what is outside.
    filled = expected > 5
    counts, expected = (
        np.append(inside[filled], len(z) - inside[filled].sum()) for inside in (counts, expected)
    )
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    for pull in ((x - z) / toy.smearing).T:
        assert stats.kstest(pull, "norm").pvalue > 1e-3


def test_interference_is_seen_with_its_sign():
    toy = TwoCouplings()
    between = [[0.8, 0.0]]
    up, none, down = (toy.log_prob(between, [g, 0.0])[0] for g in (0.8, 0.0, -0.8))
    assert up > none + 0.1
    assert down < none - 0.5
    # The total rate alone would not tell: here it grows for either sign.
    assert toy.rate([-2.0, 0.0]) > toy.rate([0.0, 0.0])


def test_log_ratios_of_two_couplings_are_neither_small_nor_large():
    toy, (low, high) = TwoCouplings(), CASES["two couplings"].box
    theta, other = np.random.default_rng(21).uniform(low, high, size=(2, 20_000, 2))
    x = toy(theta, np.random.default_rng(22))
    assert 0.2 < np.var(toy.log_prob(x, theta) - toy.log_prob(x, other)) < 0.8


def test_two_couplings_are_exact_far_away():
    toy, far = TwoCouplings(), np.array([[1e4, -1e4], [-30.0, 40.0]])
    # Only the background is left there.
    expected = stats.norm.logpdf(far, 0, np.sqrt(4.25)).sum(axis=1)
    expected += np.log(0.5) - np.log(toy.rate([0.6, 0.2]))
    np.testing.assert_allclose(toy.log_prob(far, [0.6, 0.2]), expected, rtol=1e-13)
    assert np.all(np.isfinite(toy.score(far, [0.6, 0.2])))


# Sentences for bad input

RNG = np.random.default_rng(23)
CHAIN, BOARD, COUPLINGS = GaussianChain(), GaltonBoard(), TwoCouplings()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: CHAIN.simulate_latent([0.0, 0.0], RNG), r"\(n, 2\) with columns mean, log_width"),
        (lambda: CHAIN.simulate_latent([[0.0, np.nan]], RNG), r"strictly inside.*theta\[0\]"),
        (lambda: CHAIN.simulate_latent([[0.0, 1.0], [0.0, 800.0]], RNG), r"events are finite"),
        (lambda: CHAIN.simulate_latent("a", RNG), "rectangular array of real numbers"),
        (lambda: COUPLINGS.simulate_latent([[1e200, 0.0]], RNG), r"events are finite numbers"),
        (lambda: COUPLINGS([[1e151, 0.0]], RNG), r"events are finite numbers"),
        (lambda: BOARD.log_prob([[21.0]], [0.5]), "a bin, a whole number from 0 to 20; got"),
        (lambda: BOARD.score([[1.0], [0.5]], [0.5]), r"whole number.*x\[1\] = \[0.5\]"),
        (lambda: BOARD.score([[-1.0]], [0.5]), "steps to the right"),
        (lambda: COUPLINGS.components([0.0, 1.0]), r"z must have shape \(n, 2\).*z\[None, :\]"),
        (lambda: COUPLINGS.components([[0.0, np.inf]]), "finite numbers in z"),
        (lambda: COUPLINGS.rate([0.0, 1.0, 2.0]), r"shape \(n, 2\), or \(2,\).*got shape \(3,\)"),
        (lambda: COUPLINGS.rate([0.0, np.nan]), "strictly inside"),
        (lambda: COUPLINGS.weights([[0.0, 1.0]], [0.0, 1.0]), r"benchmarks must have shape \(B, 2"),
        (
            lambda: COUPLINGS.weights([[0.0, 1.0]] * 3, [[0.0, 1.0]], [[0.0, 1.0]] * 2),
            "got 3 rows of z and 2 of theta",
        ),
        (lambda: GaussianChain(length=1), "at least 2, got 1; the last two"),
        (lambda: GaussianChain(coupling=0.0), "other than zero, got 0.0"),
        (lambda: GaussianChain(coupling=float("inf")), "other than zero, got inf"),
        (lambda: GaussianChain(step=0.0), "step must be a positive finite number, got 0.0"),
        (lambda: GaussianChain(reading=-1.0), "reading must be a positive finite number, got -1"),
        (lambda: GaltonBoard(rows=1), "at least 2, got 1; the first nail"),
        (lambda: TwoCouplings(smearing=0.0), "smearing must be a positive finite number, got 0.0"),
        (lambda: TwoCouplings(background=float("nan")), "background must be a positive.*got nan"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        call()


def test_seed_in_place_of_a_generator_gets_a_sentence():
    with pytest.raises(TypeError, match="Generator"):
        CHAIN.simulate_latent([[0.0, 0.0]], 7)  # pyright: ignore[reportArgumentType]
