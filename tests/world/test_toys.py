"""The toys are everyone's truth, so they are tested against answers from elsewhere.

Densities and samplers are compared with scipy.stats, scores with finite differences, and
normalisations with quadrature.
"""

import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, special, stats

from inferostatic.world.toys import (
    AbstractToy,
    CorrelatedGaussian,
    Dirichlet,
    FallingSpectrumWithPeak,
    GaltonBoard,
    GaussianChain,
    GaussianMixture,
    ManyParameters,
    PoissonCounts,
    Ring,
    SmearedSpectrum,
    TwoCouplings,
)


@dataclass(frozen=True)
class Case:
    """A toy, a box of theta to draw from, and two independent answers.

    `reference_log_prob` is another implementation of the density, and `to_uniform` maps events to
    independent uniform numbers through distribution functions of scipy.stats.
    """

    toy: AbstractToy
    box: tuple[list[float], list[float]]
    reference_log_prob: Callable[[np.ndarray, np.ndarray], np.ndarray]
    to_uniform: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def theta(self, n, seed):
        return np.random.default_rng(seed).uniform(*self.box, size=(n, len(self.box[0])))

    def events(self, n, seed):
        theta = self.theta(n, seed)
        return self.toy(theta, np.random.default_rng(seed + 1)), theta


def dirichlet_log_prob(x, theta):
    return np.array(
        [
            stats.dirichlet.logpdf(row / row.sum(), point)
            for row, point in zip(x, theta, strict=True)
        ]
    )


def dirichlet_to_uniform(x, theta):
    # Breaking the stick: what a component takes of the rest is beta distributed.
    columns = []
    for i in range(x.shape[1] - 1):
        share = x[:, i] / x[:, i:].sum(axis=1)
        columns.append(stats.beta.cdf(share, theta[:, i], theta[:, i + 1 :].sum(axis=1)))
    return np.stack(columns, axis=1)


def gaussian_log_prob(correlation):
    def log_prob(x, theta):
        unit = np.array([[1, correlation], [correlation, 1]])
        return np.array(
            [
                stats.multivariate_normal.logpdf(row, point[:2], point[2] ** 2 * unit)
                for row, point in zip(x, theta, strict=True)
            ]
        )

    return log_prob


def gaussian_to_uniform(correlation):
    def to_uniform(x, theta):
        first, second = ((x - theta[:, :2]) / theta[:, 2:]).T
        rest = (second - correlation * first) / np.sqrt(1 - correlation**2)
        return stats.norm.cdf(np.stack([first, rest], axis=1))

    return to_uniform


def mixture_of(distributions, evaluate):
    """Add up f * first + (1 - f) * second for frozen pairs of scipy.stats distributions."""

    def function(x, theta):
        fraction, first, second = distributions(theta)
        return fraction * getattr(first, evaluate)(x[:, 0]) + (1 - fraction) * getattr(
            second, evaluate
        )(x[:, 0])

    return function


def two_gaussians(width):
    def distributions(theta):
        separation, fraction = theta.T
        return (
            fraction,
            stats.norm(separation / 2, width),
            stats.norm(-separation / 2, width),
        )

    return distributions


def peak_and_background(low, high, width):
    def distributions(theta):
        fraction, mass, slope = theta.T
        peak = stats.truncnorm((low - mass) / width, (high - mass) / width, mass, width)
        falling = stats.truncexpon((high - low) * slope, low, 1 / slope)
        return fraction, peak, falling

    return distributions


def mixture_case(toy, box, distributions):
    density = mixture_of(distributions, "pdf")
    cumulative = mixture_of(distributions, "cdf")
    return Case(
        toy,
        box,
        lambda x, theta: np.log(density(x, theta)),
        lambda x, theta: cumulative(x, theta)[:, None],
    )


def counts_of(theta, bins):
    """Means of the bins, written out bin by bin."""
    signal, background, slope = theta.T
    centre, width = (bins - 1) / 2, bins / 8
    return np.stack(
        [
            signal * np.exp(-((b - centre) ** 2) / (2 * width**2)) + background * np.exp(-slope * b)
            for b in range(bins)
        ],
        axis=1,
    )


def counts_case(bins):
    def to_uniform(x, theta):
        # A jump of the distribution function is filled by a random number.
        means = counts_of(theta, bins)
        filled = np.random.default_rng(1).uniform(size=x.shape) * stats.poisson.pmf(x, means)
        return stats.poisson.cdf(x, means) - filled

    return Case(
        PoissonCounts(bins=bins),
        ([1.0, 2.0, 0.1], [8.0, 8.0, 0.8]),
        lambda x, theta: stats.poisson.logpmf(x, counts_of(theta, bins)).sum(axis=1),
        to_uniform,
    )


def spectrum_case(dim):
    def means_and_errors(theta):
        means = np.zeros_like(theta)
        for i in range(dim):
            weight = stats.norm.pdf(np.arange(dim), i, 0.7)
            means[:, i] = theta @ weight / weight.sum()
        return means, np.sqrt((1 + means**2) / 4)

    return Case(
        SmearedSpectrum(dim=dim),
        ([-2.0] * dim, [2.0] * dim),
        lambda x, theta: stats.norm.logpdf(x, *means_and_errors(theta)).sum(axis=1),
        lambda x, theta: stats.norm.cdf(x, *means_and_errors(theta)),
    )


def ring_case(toy, box):
    def radius_and_centre(x, theta):
        return np.linalg.norm(x[:, :2], axis=1), np.linalg.norm(theta, axis=1)

    def height(x, theta):
        return (x[:, 2] - theta[:, 0] ** 2) / toy.height_width

    def log_prob(x, theta):
        # scipy's folded normal is the absolute value of a normal number.
        r, centre = radius_and_centre(x, theta)
        log_radius = stats.foldnorm.logpdf(r, centre / toy.width, scale=toy.width)
        log_height = stats.norm.logpdf(height(x, theta)) - np.log(toy.height_width)
        return log_radius - np.log(2 * np.pi * r) + log_height

    def to_uniform(x, theta):
        r, centre = radius_and_centre(x, theta)
        radius = stats.foldnorm.cdf(r, centre / toy.width, scale=toy.width)
        angle = np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) % 1
        return np.stack([radius, angle, stats.norm.cdf(height(x, theta))], axis=1)

    return Case(toy, box, log_prob, to_uniform)


def many_parameters_case(dim, observables):
    mixing = np.random.default_rng(5).normal(size=(observables, dim)) / 3

    def noise(x, theta):
        means = [row @ theta.T + np.tanh(other @ theta.T) / 2 for row, other in rows]
        return x - np.stack(means, axis=1)

    rows = list(zip(mixing, mixing[::-1], strict=True))
    return Case(
        ManyParameters(dim=dim, observables=observables),
        ([-2.0] * dim, [2.0] * dim),
        lambda x, theta: stats.norm.logpdf(noise(x, theta)).sum(axis=1),
        lambda x, theta: stats.norm.cdf(noise(x, theta)),
    )


def chain_case(toy, box):
    """The readings as a linear map of independent normal numbers: start, steps and readings."""
    k = toy.length
    latent = np.eye(k, k + 2) * toy.step
    latent[0, 0] = 0.0
    start = np.zeros(k)
    start[0] = 1.0
    for i in range(1, k):
        latent[i] += toy.coupling * latent[i - 1]
        start[i] = toy.coupling * start[i - 1]
    readings = latent[-2:] + toy.reading * np.eye(2, k + 2, k)
    slope = start[-2:]

    def mean_and_covariance(theta):
        square = np.exp(2 * theta[:, 1])[:, None, None]
        return theta[:, :1] * slope, square * np.outer(slope, slope) + readings @ readings.T

    def log_prob(x, theta):
        laws = zip(*mean_and_covariance(theta), strict=True)
        return np.array(
            [stats.multivariate_normal.logpdf(row, *law) for row, law in zip(x, laws, strict=True)]
        )

    def to_uniform(x, theta):
        mean, covariance = mean_and_covariance(theta)
        roots = np.linalg.cholesky(covariance)
        return stats.norm.cdf(np.linalg.solve(roots, (x - mean)[..., None])[..., 0])

    return Case(toy, box, log_prob, to_uniform)


def galton_case(rows):
    """All paths, one by one."""
    paths = np.array(list(itertools.product([0, 1], repeat=rows)))

    def probabilities(theta):
        of_path = np.ones((len(theta), len(paths)))
        for i in range(rows):
            across = 0.5 + (paths[:, :i].sum(axis=1) - i / 2) / rows
            load = np.sin(np.pi * (i + 0.5) / rows)
            left = (1 - load) / 2 + load / (1 + np.exp(-5 * theta * (across - 0.5)))
            of_path *= np.where(paths[:, i] == 0, left, 1 - left)
        return of_path @ (paths.sum(axis=1)[:, None] == np.arange(rows + 1))

    def log_prob(x, theta):
        return np.log(probabilities(theta)[np.arange(len(x)), x[:, 0].astype(int)])

    def to_uniform(x, theta):
        each = probabilities(theta)
        rows = np.arange(len(x)), x[:, 0].astype(int)
        filled = np.random.default_rng(1).uniform(size=len(x)) * each[rows]
        return (np.cumsum(each, axis=1)[rows] - filled)[:, None]

    return Case(GaltonBoard(rows=rows), ([-2.0], [2.0]), log_prob, to_uniform)


def couplings_case(toy):
    """The rate on a grid in z, of which trapezoids make the integrals of normal densities."""
    grid = np.linspace(-14.0, 14.0, 81)
    z = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)

    def normal(centre, deviation):
        return np.prod(stats.norm.pdf(z, centre, deviation), axis=-1)

    background = toy.background * normal([0.0, 0.0], 2.0)
    amplitudes = np.sqrt(
        [normal([0.0, 0.0], 1.0), normal([1.5, 0.0], 0.7), normal([-0.5, 1.2], 0.8)]
    )

    def summed(along_first, along_second, theta):
        """The sum of the rate over the grid, weighted by a function of each coordinate."""
        couplings = np.concatenate([np.ones((len(theta), 1)), theta], axis=1)
        total = couplings[:, 0] * ((along_first @ background) * along_second).sum(axis=1)
        for i, j in itertools.combinations_with_replacement(range(3), 2):
            part = ((along_first @ (amplitudes[i] * amplitudes[j])) * along_second).sum(axis=1)
            total += (1 if i == j else 2) * couplings[:, i] * couplings[:, j] * part
        return total

    def near(column):
        return np.exp(-0.5 * ((column[:, None] - grid) / toy.smearing) ** 2)

    def below(column):
        return special.ndtr((column[:, None] - grid) / toy.smearing)

    anywhere = np.ones((1, len(grid)))

    def log_prob(x, theta):
        seen = summed(near(x[:, 0]), near(x[:, 1]), theta) / (2 * np.pi * toy.smearing**2)
        return np.log(seen / summed(anywhere, anywhere, theta))

    def to_uniform(x, theta):
        second = summed(anywhere, below(x[:, 1]), theta) / summed(anywhere, anywhere, theta)
        here = near(x[:, 1])
        first = summed(below(x[:, 0]), here, theta) / summed(anywhere, here, theta)
        return np.stack([first, second], axis=1)

    return Case(toy, ([-1.0, -1.0], [1.0, 1.0]), log_prob, to_uniform)


CASES = {
    "ring": ring_case(Ring(), ([-1.2, 0.2], [-0.2, 2.0])),
    # So wide that negative radii are as frequent as positive ones.
    "wide ring": ring_case(Ring(width=0.8, height_width=0.5), ([-1.0, -1.0], [1.0, 1.0])),
    "many parameters": many_parameters_case(12, 20),
    "as many observables": many_parameters_case(2, 2),
    "gaussian chain": chain_case(GaussianChain(), ([-1.0, -0.7], [1.0, 0.7])),
    "chain of five": chain_case(
        GaussianChain(length=5, coupling=-1.1, step=0.2, reading=0.3), ([-2.0, -1.0], [2.0, 1.0])
    ),
    "galton board": galton_case(5),
    "two couplings": couplings_case(TwoCouplings()),
    "poisson counts": counts_case(6),
    "smeared spectrum": spectrum_case(8),
    "dirichlet": Case(
        Dirichlet(dim=3),
        ([0.5, 0.5, 0.5], [5.0, 5.0, 5.0]),
        dirichlet_log_prob,
        dirichlet_to_uniform,
    ),
    "dirichlet of five": Case(
        Dirichlet(dim=5), ([0.3] * 5, [3.0] * 5), dirichlet_log_prob, dirichlet_to_uniform
    ),
    "correlated gaussian": Case(
        CorrelatedGaussian(),
        ([-2.0, -2.0, 0.5], [2.0, 2.0, 2.0]),
        gaussian_log_prob(0.5),
        gaussian_to_uniform(0.5),
    ),
    "anticorrelated gaussian": Case(
        CorrelatedGaussian(correlation=-0.9),
        ([-2.0, -2.0, 0.5], [2.0, 2.0, 2.0]),
        gaussian_log_prob(-0.9),
        gaussian_to_uniform(-0.9),
    ),
    "gaussian mixture": mixture_case(
        GaussianMixture(), ([-5.0, 0.1], [5.0, 0.9]), two_gaussians(1.0)
    ),
    "wide gaussian mixture": mixture_case(
        GaussianMixture(width=2.5), ([3.0, 0.1], [12.0, 0.9]), two_gaussians(2.5)
    ),
    "falling spectrum": mixture_case(
        FallingSpectrumWithPeak(),
        ([0.05, 110.0, 0.01], [0.6, 170.0, 0.06]),
        peak_and_background(100.0, 180.0, 2.0),
    ),
    # The peak is wider than the window, so that the truncation matters for every event.
    "truncated spectrum": mixture_case(
        FallingSpectrumWithPeak(low=-1.0, high=2.0, width=1.5),
        ([0.2, -0.9, 0.1], [0.9, 1.9, 3.0]),
        peak_and_background(-1.0, 2.0, 1.5),
    ),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request):
    return request.param


def five_point_gradient(function, theta, step):
    """Central differences of fourth order, along each column of theta."""
    columns = []
    for shift in np.diag(step):
        near = function(theta + shift) - function(theta - shift)
        far = function(theta + 2 * shift) - function(theta - 2 * shift)
        columns.append((8 * near - far) / (12 * shift.sum()))
    return np.stack(columns, axis=1)


def assert_mean(values, expected, tolerated=4.5):
    """Compare a sample mean over rows with its expectation, in standard errors."""
    error = values.std(axis=0) / np.sqrt(len(values))
    pulls = (values.mean(axis=0) - expected) / error
    assert np.all(np.abs(pulls) < tolerated), f"off by {pulls} standard errors"


# Invariants of every toy


def test_score_is_gradient_of_log_prob(case):
    x, theta = case.events(500, seed=1)
    step = 4e-4 * np.minimum(1.0, np.subtract(*case.box[::-1]))
    expected = five_point_gradient(lambda t: case.toy.log_prob(x, t), theta, step)
    np.testing.assert_allclose(case.toy.score(x, theta), expected, rtol=1e-9, atol=1e-9)


def test_log_prob_agrees_with_scipy(case):
    x, theta = case.events(300, seed=2)
    expected = case.reference_log_prob(x, theta)
    np.testing.assert_allclose(case.toy.log_prob(x, theta), expected, rtol=1e-10, atol=1e-10)


def test_sampler_follows_the_distribution_function(case):
    x, theta = case.events(100_000, seed=3)
    uniforms = case.to_uniform(x, theta)
    for column in uniforms.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    # Distinct columns must be independent too, not only uniform.
    correlation = np.corrcoef(uniforms, rowvar=False).reshape(uniforms.shape[1], -1)
    off_diagonal = correlation - np.diag(np.diag(correlation))
    assert np.all(np.abs(off_diagonal) < 4.5 / np.sqrt(len(x)))


def test_score_has_mean_zero(case):
    for k, point in enumerate(case.theta(3, seed=4)):
        x = case.toy(np.tile(point, (100_000, 1)), np.random.default_rng(k))
        assert_mean(case.toy.score(x, point), 0.0)


def test_ratio_of_densities_reweights_the_sampler(case):
    low, high = np.array(case.box)
    middle = (low + high) / 2
    near = middle + 0.05 * (high - low)
    rng = np.random.default_rng(5)
    x = case.toy(np.tile(middle, (100_000, 1)), rng)
    aim = case.toy(np.tile(near, (100_000, 1)), rng)
    ratio = np.exp(case.toy.log_prob(x, near) - case.toy.log_prob(x, middle))
    assert_mean(ratio, 1.0)
    reweighted = ratio[:, None] * x
    variance = (reweighted.var(axis=0) + aim.var(axis=0)) / len(x)
    pulls = (reweighted.mean(axis=0) - aim.mean(axis=0)) / np.sqrt(variance)
    assert np.all(np.abs(pulls) < 4.5)


def test_single_theta_serves_all_events(case):
    x, theta = case.events(20, seed=6)
    repeated = np.tile(theta[0], (20, 1))
    # Sums may be made in another order, depending on NumPy's version.
    for ask in (case.toy.log_prob, case.toy.score):
        one, many = ask(x, theta[0]), ask(x, repeated)
        np.testing.assert_allclose(one, many, rtol=1e-13, atol=1e-13, strict=True)


def test_shapes_names_and_dtypes_agree(case):
    toy = case.toy
    x, theta = case.events(7, seed=7)
    x_dim, theta_dim = len(toy.x_names), len(toy.theta_names)
    assert isinstance(toy.theta_names, tuple)
    assert isinstance(toy.x_names, tuple)
    assert toy.theta_low.shape == toy.theta_high.shape == (theta_dim,)
    assert x.shape == (7, x_dim)
    assert toy.log_prob(x, theta).shape == (7,)
    assert toy.score(x, theta).shape == (7, theta_dim)
    for values in (x, toy.log_prob(x, theta), toy.score(x, theta), toy.theta_low, toy.theta_high):
        assert values.dtype == np.float64
    np.testing.assert_allclose(
        toy.log_prob(x.astype(np.float32), theta), toy.log_prob(x, theta), rtol=1e-3, atol=1e-3
    )


def test_no_events_are_no_trouble(case):
    theta = case.theta(0, seed=8)
    x = case.toy(theta, np.random.default_rng(1))
    assert x.shape == (0, len(case.toy.x_names))
    assert case.toy.log_prob(x, theta).shape == (0,)
    assert case.toy.score(x, case.theta(1, seed=8)[0]).shape == theta.shape


def test_events_depend_only_on_theta_and_generator(case):
    np.testing.assert_array_equal(case.events(5, seed=9)[0], case.events(5, seed=9)[0])


def test_toy_survives_pickling_and_cannot_change(case):
    assert pickle.loads(pickle.dumps(case.toy)) == case.toy
    field = next(iter(case.toy.__dataclass_fields__))
    with pytest.raises(AttributeError):
        setattr(case.toy, field, 1)


# Normalisation by quadrature


def nodes_and_weights(*edges, order=120):
    """Gauss-Legendre quadrature, applied between each edge and the next."""
    node, weight = special.roots_legendre(order)
    middle, half = np.add(edges[1:], edges[:-1]) / 2, np.diff(edges) / 2
    return np.ravel(middle[:, None] + half[:, None] * node), np.ravel(half[:, None] * weight)


def total_probability(toy, point):
    if isinstance(toy, CorrelatedGaussian):
        z, weight = nodes_and_weights(-10 * point[2], 0, 10 * point[2])
        first, second = np.meshgrid(z + point[0], z + point[1], indexing="ij")
        x, weights = np.stack([first.ravel(), second.ravel()], axis=1), np.outer(weight, weight)
    elif isinstance(toy, GaussianMixture):
        reach = abs(point[0]) / 2 + 10 * toy.width
        x, weights = nodes_and_weights(-reach, 0, reach)
        x = x[:, None]
    elif isinstance(toy, FallingSpectrumWithPeak):
        around = point[1] + toy.width * np.array([-8, 0, 8])
        x, weights = nodes_and_weights(toy.low, *np.clip(around, toy.low, toy.high), toy.high)
        x = x[:, None]
    elif isinstance(toy, Ring):
        # In polar coordinates, dx_1 dx_2 = r dr da; the trapezoid rule is exact in the angle.
        centre = np.linalg.norm(point)
        around = np.clip(centre + toy.width * np.array([-8, 0, 8]), 0, None)
        r, of_r = nodes_and_weights(*np.unique([0, *around]), order=60)
        z, of_z = nodes_and_weights(
            *(point[0] ** 2 + toy.height_width * np.array([-9, 0, 9])), order=40
        )
        angle = 2 * np.pi * np.arange(5) / 5
        grid = np.meshgrid(r, angle, z, indexing="ij")
        x = np.stack([grid[0] * np.cos(grid[1]), grid[0] * np.sin(grid[1]), grid[2]], axis=-1)
        x = x.reshape(-1, 3)
        weights = grid[0] * (of_r[:, None] * of_z)[:, None, :] * 2 * np.pi / 5
    elif isinstance(toy, ManyParameters):
        z, weight = nodes_and_weights(-14, 0, 14)
        x = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
        weights = np.outer(weight, weight)
    else:
        # Breaking the stick maps the square to the simplex, x_2 = (1 - x_1) v.
        u, weight = nodes_and_weights(0, 1)
        first, v = np.meshgrid(u, u, indexing="ij")
        x = np.stack([first, (1 - first) * v, (1 - first) * (1 - v)], axis=-1).reshape(-1, 3)
        weights = np.outer(weight, weight) * (1 - first)
    return np.sum(weights.ravel() * np.exp(toy.log_prob(x, point)))


# The last four are integrated with their latent variables, in test_latent_toys.py.
NOT_INTEGRATED = (
    "dirichlet of five",
    "poisson counts",
    "smeared spectrum",
    "many parameters",
    "gaussian chain",
    "chain of five",
    "galton board",
    "two couplings",
)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_INTEGRATED])
def test_density_integrates_to_one(name):
    # Below theta = 1 the Dirichlet's density has poles on the boundary, which no polynomial fits.
    lift = 0.7 if name == "dirichlet" else 0.0
    for point in CASES[name].theta(5, seed=10) + lift:
        assert total_probability(CASES[name].toy, point) == pytest.approx(1.0, abs=1e-6)


def test_probabilities_of_all_counts_add_up_to_one():
    toy = PoissonCounts(bins=2)
    counts = np.stack(np.meshgrid(np.arange(80.0), np.arange(80.0)), axis=-1).reshape(-1, 2)
    assert np.exp(toy.log_prob(counts, [3.0, 5.0, 0.4])).sum() == pytest.approx(1.0, abs=1e-9)


def test_x_that_is_no_count_is_refused():
    with pytest.raises(ValueError, match=r"counts, whole numbers from 0 on; got x\[1\]"):
        PoissonCounts(bins=2).log_prob([[1.0, 2.0], [0.5, 1.0]], [3.0, 5.0, 0.4])


def test_density_with_poles_integrates_to_one():
    # On the scale t = logit(x), with dx = x (1 - x) dt, the poles become exponential tails.
    toy, theta = Dirichlet(dim=2), np.array([0.3, 0.6])

    def density(t):
        x = np.array([[special.expit(t), special.expit(-t)]])
        return np.exp(toy.log_prob(x, theta)[0]) * x.prod()

    total = integrate.quad(density, -90, 90, points=[0.0])[0]
    assert total == pytest.approx(1.0, abs=1e-8)


# Dirichlet


def test_fisher_is_the_covariance_of_the_score():
    toy, theta = Dirichlet(dim=3), np.array([0.7, 2.0, 4.0])
    score = toy.score(toy(np.tile(theta, (200_000, 1)), np.random.default_rng(11)), theta)
    products = (score[:, :, None] * score[:, None, :]).reshape(-1, 9)
    assert_mean(products, toy.fisher(theta).ravel())


def test_fisher_is_minus_the_jacobian_of_the_score():
    # The Hessian of a Dirichlet's log density does not depend on x.
    toy, theta = Dirichlet(dim=3), np.array([[0.7, 2.0, 4.0]])
    x = [[0.2, 0.3, 0.5]]
    jacobian = [
        five_point_gradient(lambda t, i=i: toy.score(x, t)[:, i], theta, np.full(3, 1e-3))[0]
        for i in range(3)
    ]
    np.testing.assert_allclose(toy.fisher(theta[0]), -np.array(jacobian), rtol=1e-7, atol=1e-9)


def test_dirichlet_of_two_is_the_beta_distribution():
    x = np.linspace(0.01, 0.99, 50)
    expected = stats.beta.logpdf(x, 0.5, 3.0)
    actual = Dirichlet(dim=2).log_prob(np.stack([x, 1 - x], axis=1), [0.5, 3.0])
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_small_theta_keeps_components_positive():
    toy, theta = Dirichlet(dim=3), np.array([0.05, 0.02, 1.0])
    x = toy(np.tile(theta, (100_000, 1)), np.random.default_rng(12))
    assert np.all(x > 0)
    np.testing.assert_allclose(x.sum(axis=1), 1.0, rtol=1e-12)
    # Logarithms far below the reach of float32 must still follow their law.
    assert np.log(x).min() < -400
    assert_mean(toy.score(x, theta), 0.0)
    assert stats.kstest(stats.beta.cdf(x[:, 1], 0.02, 1.05), "uniform").pvalue > 1e-3


def test_vanishing_theta_still_gives_finite_scores():
    toy, theta = Dirichlet(dim=3), np.array([1e-3, 1e-3, 1e-3])
    x = toy(np.tile(theta, (1000, 1)), np.random.default_rng(13))
    assert np.all(x > 0)
    assert np.all(np.isfinite(toy.score(x, theta)))
    assert np.all(np.isfinite(toy.log_prob(x, theta)))


def test_rounding_to_float32_stays_on_the_simplex():
    toy = Dirichlet(dim=20)
    gamma = np.random.default_rng(14).standard_gamma(2.0, (1000, 20)).astype(np.float32)
    assert np.all(np.isfinite(toy.score(gamma / gamma.sum(axis=1, keepdims=True), np.ones(20))))


# The tails and the edges of the domain


def test_gaussian_is_finite_far_away():
    toy, theta = CorrelatedGaussian(correlation=0.999), [0.0, 0.0, 1.0]
    x = np.array([[1e8, -1e8], [1e8, 1e8]])
    assert np.all(np.isfinite(toy.score(x, theta)))
    np.testing.assert_allclose(toy.log_prob(x, theta), [-1e19, -1e16 / 1.999], rtol=1e-6)


def test_mixture_is_exact_in_the_tails():
    toy, theta = GaussianMixture(), np.array([4.0, 0.3])
    # Far out only one Gaussian is left, although both densities underflow.
    np.testing.assert_allclose(
        toy.log_prob([[1e4], [-1e4]], theta),
        stats.norm.logpdf([1e4 - 2, -1e4 + 2]) + np.log([0.3, 0.7]),
        rtol=1e-14,
    )
    np.testing.assert_allclose(
        toy.score([[1e4], [-1e4]], theta), [[4999, 1 / 0.3], [4999, -1 / 0.7]], rtol=1e-12
    )


def test_mixture_is_unchanged_when_its_gaussians_are_exchanged():
    toy = GaussianMixture(width=1.5)
    x = np.linspace(-8, 8, 33)[:, None]
    np.testing.assert_allclose(
        toy.log_prob(x, [3.0, 0.2]), toy.log_prob(x, [-3.0, 0.8]), rtol=1e-14
    )


def test_mixture_has_two_maxima():
    log_prob = GaussianMixture().log_prob(np.linspace(-6, 6, 601)[:, None], [4.0, 0.4])
    assert np.sum(np.diff(np.sign(np.diff(log_prob))) < 0) == 2


def test_ring_is_smooth_at_its_centre_and_far_away():
    toy = Ring()
    x = np.array([[0.03, -0.1, 0.2], [0.001, 0.0, -0.5]])
    np.testing.assert_array_equal(toy.score(x, [0.0, 0.0]), 0.0)
    for tiny in (1e-300, 1e-9):
        theta = np.array([tiny, -2 * tiny])
        r = np.linalg.norm(x[:, :2], axis=1)
        expected = theta * (r[:, None] ** 2 / 0.01 - 1) / 0.01
        expected[:, 0] += 2 * tiny * x[:, 2] / 0.09
        np.testing.assert_allclose(toy.score(x, theta), expected, rtol=1e-12)
    assert toy.log_prob([[1e4, 0.0, 0.0]], [0.0, 1.0]) == pytest.approx(-((9999 / 0.1) ** 2) / 2)


def test_ring_keeps_its_density_where_a_parameter_changes_its_sign():
    x, theta = CASES["ring"].events(50, seed=18)
    for signs in ([-1, 1], [1, -1], [-1, -1]):
        toy = Ring()
        np.testing.assert_array_equal(toy.log_prob(x, theta * signs), toy.log_prob(x, theta))
        np.testing.assert_array_equal(toy.score(x, theta * signs), toy.score(x, theta) * signs)


def test_spectrum_with_vanishing_slope_has_a_uniform_background():
    toy = FallingSpectrumWithPeak()
    x = np.array([[101.0], [150.0], [179.0]])
    for slope in (1e-300, 1e-18, 1e-12):
        theta = [1e-12, 120.0, slope]
        np.testing.assert_allclose(toy.log_prob(x, theta), -np.log(80.0), rtol=1e-9)
        np.testing.assert_allclose(toy.score(x, theta)[:, 2], 140.0 - x[:, 0], rtol=1e-8)
        events = toy(np.tile(theta, (20_000, 1)), np.random.default_rng(15))
        assert stats.kstest((events[:, 0] - 100) / 80, "uniform").pvalue > 1e-3


def test_spectrum_slope_score_is_smooth_where_its_two_forms_meet():
    # 1/y - 1/(exp(y) - 1) is minus the sum of B_k y^(k-1) / k! from k = 1, B_k of Bernoulli.
    toy = FallingSpectrumWithPeak(low=0.0, high=1.0, width=1e-3)
    y = np.linspace(0.19, 0.21, 101)
    theta = np.stack([np.full_like(y, 1e-300), np.full_like(y, 0.99), y], axis=1)
    bernoulli = special.bernoulli(30)
    expected = -sum(bernoulli[k] * y ** (k - 1) / special.factorial(k) for k in range(1, 31))
    score = toy.score(np.zeros((101, 1)), theta)[:, 2]
    np.testing.assert_allclose(score, expected, rtol=3e-15)


def test_spectrum_is_finite_with_a_steep_slope_and_a_far_peak():
    toy = FallingSpectrumWithPeak(width=1e-3)
    theta = [0.5, 100.0001, 50.0]
    assert np.all(np.isfinite(toy.log_prob([[100.0], [140.0], [180.0]], theta)))
    assert np.all(np.isfinite(toy.score([[100.0], [140.0], [180.0]], theta)))
    np.testing.assert_allclose(
        toy.log_prob([[180.0]], theta), np.log(0.5 * 50) - 50 * 80, rtol=1e-12
    )


def test_spectrum_takes_events_rounded_to_float32_at_its_edges():
    toy = FallingSpectrumWithPeak(low=0.7, high=1.1, width=0.05)
    edges = np.array([[0.7], [1.1]], dtype=np.float32)
    # In float32 both edges lie outside the window.
    assert edges[0, 0].item() < 0.7
    assert edges[1, 0].item() > 1.1
    assert np.all(np.isfinite(toy.score(edges, [0.5, 0.9, 1.0])))


def test_spectrum_stays_inside_its_window():
    toy = FallingSpectrumWithPeak(low=0.1, high=0.7, width=5.0)
    theta = np.tile([0.5, 0.11, 1e-9], (100_000, 1))
    x = toy(theta, np.random.default_rng(16))
    assert x.min() >= 0.1
    assert x.max() <= 0.7


# Sentences for bad input

RNG = np.random.default_rng(17)
GAUSSIAN, DIRICHLET = CorrelatedGaussian(), Dirichlet()
MIXTURE, SPECTRUM = GaussianMixture(), FallingSpectrumWithPeak()
GOOD_X, GOOD_THETA = [[0.2, 0.3, 0.5]], [1.0, 2.0, 2.0]
MIXTURE_THETA, SPECTRUM_THETA = [4.0, 0.3], [0.2, 125.0, 0.03]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        # Shapes of theta
        (lambda: DIRICHLET([1.0, 2.0, 2.0], RNG), r"shape \(n, 3\).*got shape \(3,\).*\[None, :\]"),
        (lambda: DIRICHLET([[1.0, 2.0]], RNG), r"theta_1, theta_2, theta_3.*got shape \(1, 2\)"),
        (lambda: DIRICHLET.score(GOOD_X, [1.0, 2.0]), r"or \(3,\) for one theta.*shape \(2,\)"),
        (lambda: DIRICHLET.score(GOOD_X, [[GOOD_THETA]]), r"got shape \(1, 1, 3\)"),
        (lambda: DIRICHLET.score(GOOD_X, np.array(1.0)), r"got shape \(\)"),
        (
            lambda: DIRICHLET.log_prob(GOOD_X * 5, [GOOD_THETA]),
            r"got 5 rows of x and 1 of theta.*such as theta\[0\]",
        ),
        (lambda: DIRICHLET.fisher([GOOD_THETA]), r"single point of shape \(3,\).*each row"),
        # Shapes of x
        (
            lambda: MIXTURE.score([0.0, 1.0, 2.0], MIXTURE_THETA),
            r"\(n, 1\) with columns x; got shape \(3,\).*x\[None, :\].*x\[:, None\]",
        ),
        (
            lambda: DIRICHLET.log_prob(GOOD_X[0], GOOD_THETA),
            r"\(n, 3\) with columns x_1, x_2, x_3; got shape \(3,\).*x\[None, :\]",
        ),
        (lambda: SPECTRUM.score([[1.0, 2.0]], SPECTRUM_THETA), r"mass_GeV; got shape \(1, 2\)"),
        (lambda: MIXTURE.score([["a"]], MIXTURE_THETA), "x must be a rectangular array of real"),
        (lambda: MIXTURE([[4.0, 0.3], [1.0]], RNG), "theta must be a rectangular.*same number of"),
        # The domain of theta
        (
            lambda: DIRICHLET([[1, 1, 1], [1, -1, 1], [1, 1, 1], [0, 1, 1]], RNG),
            r"0 < theta_1 < inf.*got theta\[1\] = \[1.0, -1.0, 1.0\] \(bad rows: 1, 3\).*margin",
        ),
        (lambda: DIRICHLET([[1, np.nan, 1]], RNG), r"theta\[0\] = \[1.0, nan, 1.0\]"),
        (lambda: DIRICHLET([[1, np.inf, 1]], RNG), r"theta\[0\] = \[1.0, inf, 1.0\]"),
        (lambda: DIRICHLET([[1, 0, 1]] * 9, RNG), r"bad rows: 0, 1, 2, 3, 4 and 4 more"),
        (lambda: DIRICHLET.score(GOOD_X, [1.0, 0.0, 1.0]), r"got theta\[0\] = \[1.0, 0.0, 1.0\]"),
        (lambda: DIRICHLET.fisher([1.0, 0.0, 1.0]), r"strictly inside its domain"),
        (lambda: GAUSSIAN([[0.0, 0.0, 0.0]], RNG), "-inf < mean_1 < inf.*0 < scale < inf"),
        (lambda: MIXTURE([[1.0, 1.0]], RNG), "0 < fraction < 1"),
        (lambda: MIXTURE([[1.0, 0.0]], RNG), "0 < fraction < 1"),
        (lambda: SPECTRUM([[0.2, 99.0, 0.03]], RNG), "100 < peak_mass_GeV < 180"),
        (lambda: SPECTRUM([[0.2, 120.0, 0.0]], RNG), "0 < slope_per_GeV < inf"),
        # The support of x
        (
            lambda: DIRICHLET.score([*GOOD_X, [0.0, 0.5, 0.5]], GOOD_THETA),
            r"open simplex.*x\[1\] = \[0.0, 0.5, 0.5\] \(bad rows: 1\).*float64",
        ),
        (lambda: DIRICHLET.log_prob([[0.0, 0.5, 0.5]], GOOD_THETA), "open simplex"),
        (lambda: DIRICHLET.score([[-0.1, 0.6, 0.5]], GOOD_THETA), "no negative component"),
        (lambda: DIRICHLET.score([[0.2, 0.3, 0.6]], GOOD_THETA), "add up to 1.*Divide each row"),
        (lambda: Ring().score([[0.0, 0.0, 1.0]], [1.0, 1.0]), "not both 0.*bad rows: 0"),
        (lambda: SPECTRUM.score([[150.0], [99.0]], SPECTRUM_THETA), r"100 <= x <= 180.*rows: 1\)"),
        (lambda: SPECTRUM.log_prob([[180.5]], SPECTRUM_THETA), r"x\[0\] = \[180.5\].*wider one"),
        (lambda: MIXTURE.score([[0.0], [np.nan]], MIXTURE_THETA), r"finite numbers.*x\[1\]"),
        (lambda: GAUSSIAN.score([[np.inf, 0.0]], [0.0, 0.0, 1.0]), "finite numbers in x"),
        # Numbers that float64 cannot hold
        (lambda: GAUSSIAN.log_prob([[1e200, 0.0]], [0.0, 0.0, 1.0]), "log density is finite"),
        (lambda: GAUSSIAN.score([[1e200, 0.0]], [0.0, 0.0, 1.0]), "score is finite in float64"),
        (lambda: GAUSSIAN([[1.7e308, 0.0, 1.7e308]] * 50, RNG), "events are finite numbers"),
        # Construction
        (lambda: Dirichlet(dim=1), "dim must be a whole number of at least 2, got 1"),
        (lambda: PoissonCounts(bins=1), "at least 2, got 1"),
        (lambda: SmearedSpectrum(dim=0), "at least 1, got 0"),
        (lambda: SmearedSpectrum(resolution=0.0), "positive finite number, got 0.0"),
        (lambda: CorrelatedGaussian(correlation=1.0), "strictly between -1 and 1, got 1.0"),
        (lambda: CorrelatedGaussian(correlation=float("nan")), "strictly between"),
        (lambda: Ring(width=0.0), "width must be a positive finite number, got 0.0"),
        (lambda: Ring(height_width=-1.0), "height_width must be a positive.*got -1.0"),
        (lambda: ManyParameters(dim=0), "dim must be a whole number of at least 1, got 0"),
        (lambda: ManyParameters(observables=0), "observables must be a whole.*got 0"),
        (lambda: GaussianMixture(width=0.0), "width must be a positive finite number, got 0.0"),
        (lambda: FallingSpectrumWithPeak(width=-1.0), "width must be a positive.*got -1.0"),
        (lambda: FallingSpectrumWithPeak(low=5.0, high=5.0), "low < high, got low=5.0 and high=5"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        call()


@pytest.mark.parametrize("dim", [2.5, "three"])
def test_number_of_components_is_whole(dim):
    # TypeError where annotations are checked before the constructor runs.
    with pytest.raises((ValueError, TypeError), match="dim"):
        Dirichlet(dim=dim)


def test_seed_in_place_of_a_generator_gets_a_sentence():
    with pytest.raises(TypeError, match="Generator"):
        DIRICHLET([GOOD_THETA], 7)  # pyright: ignore[reportArgumentType]
