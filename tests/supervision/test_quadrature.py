"""Kernels as sums: the quadrature, and bias and variance for densities that are known exactly.

Also the paper's Appendix D, in the sense in which it holds.
"""

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import polygamma

import inferostatic as ist
from inferostatic.streams import Purpose, Stream
from inferostatic.supervision import quadrature
from inferostatic.supervision.difference import AbstractDifference
from inferostatic.supervision.kernels import AbstractKernel, AbstractProductKernel
from inferostatic.supervision.quadrature import Approximation, half_line_rule, kernel_sum

KERNELS: dict[str, AbstractProductKernel] = {
    "delta": ist.Delta(1.0),
    "rectangular": ist.Rectangular(1.0),
    "triangular": ist.Triangular(1.0),
    "epanechnikov": ist.Epanechnikov(1.0),
    "gaussian": ist.Gaussian(1.0),
    "truncated": ist.Gaussian(1.0, truncation=2),
}
DENSITIES: dict[str, Any] = {
    "rectangular": lambda t: 0.5 * (abs(t) <= 1),
    "triangular": lambda t: max(1 - abs(t), 0.0),
    "epanechnikov": lambda t: 0.75 * max(1 - t**2, 0.0),
    "gaussian": lambda t: math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi),
    "truncated": lambda t: (
        (abs(t) <= 2) * math.exp(-(t**2) / 2) / (math.sqrt(2 * math.pi) * math.erf(2 / 2**0.5))
    ),
}
#: ψ, and the same as a function of one number.
DIFFERENCES: dict[str, tuple[AbstractDifference, Any]] = {
    "linear": (ist.Linear(), lambda u: u),
    "sign": (ist.Sign(), lambda u: math.copysign(1.0, u)),
    "square": (ist.Factorised(lambda t: t**2, lambda t: 1.0 + 0 * t), lambda u: u * abs(u)),
}


def with_width(kernel: AbstractProductKernel, width: float) -> Any:
    if isinstance(kernel, ist.Gaussian):
        return ist.Gaussian(width, truncation=kernel.truncation)
    return type(kernel)(width)  # type: ignore[call-arg]


def approximate(
    kernel: AbstractKernel, log_p: Any, x: np.ndarray, theta: np.ndarray, score: np.ndarray, **how
) -> Approximation:
    """`log_p(x, theta)` acts on rows."""
    total = kernel_sum(kernel, theta.shape[1], **how)
    u = total.displacements(len(x), stream=Stream(3, Purpose.CHOOSE_WIDTH))
    points = np.broadcast_to(theta[:, None] + u * total.widths, (len(x), *u.shape[1:]))
    values = np.stack([log_p(x, points[:, k]) for k in range(u.shape[1])], axis=1)
    return total.approximate(values, log_p(x, theta), score, u)


def normal(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum((x - theta) ** 2, axis=1)


# The rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "delta"])
@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_the_rule_has_the_moments_of_the_kernel(name: str, nodes: int) -> None:
    values, weights = half_line_rule(KERNELS[name], nodes)
    assert (values > 0).all()
    assert (weights > 0).all()
    assert values.max() < KERNELS[name].reach
    for k in range(2 * nodes):
        np.testing.assert_allclose(weights @ values**k, KERNELS[name].moment(k), rtol=1e-9)


def test_the_rule_of_the_rectangle_is_that_of_gauss_and_legendre() -> None:
    values, weights = half_line_rule(ist.Rectangular(1.0), 5)
    nodes, expected = np.polynomial.legendre.leggauss(5)
    np.testing.assert_allclose(values, (nodes + 1) / 2, rtol=1e-10)
    np.testing.assert_allclose(weights, expected / 2, rtol=1e-10)


def test_a_narrow_cut_does_no_harm() -> None:
    values, weights = half_line_rule(ist.Gaussian(1.0, truncation=0.1), 3)
    flat, expected = half_line_rule(ist.Rectangular(1.0), 3)
    np.testing.assert_allclose(values, 0.1 * flat, rtol=2e-3)
    np.testing.assert_allclose(weights, expected, rtol=2e-3)


@pytest.mark.parametrize("dim", [1, 3, 11])
def test_the_delta_kernel_is_its_corners(dim: int) -> None:
    total = kernel_sum(ist.Delta(0.3), dim)
    assert total.points is not None
    corners = {tuple(point) for point in total.points}
    assert corners == set(itertools.product((-1.0, 1.0), repeat=dim))
    np.testing.assert_allclose(total.log_weight, -dim * math.log(2), rtol=1e-12)
    np.testing.assert_array_equal(total.reach, np.full(dim, 0.3))
    np.testing.assert_allclose(total.bound, np.full(dim, 1 / 0.3), rtol=1e-6)


def test_the_number_of_points_is_bounded() -> None:
    for dim in range(1, 14):
        for kernel in KERNELS.values():
            assert len(kernel_sum(kernel, dim).log_weight) <= quadrature.MOST_POINTS
    assert kernel_sum(ist.Rectangular(1.0), 5).points is not None
    assert kernel_sum(ist.Rectangular(1.0), 6).points is None
    assert kernel_sum(ist.Delta(1.0), 12).points is None


def test_a_width_function_is_refused() -> None:
    with pytest.raises(TypeError, match="same for all θ"):
        kernel_sum(ist.Delta(lambda theta: theta), 2)


# Against integrals and closed forms --------------------------------------------------------------


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("name", DENSITIES)
def test_one_parameter_against_an_integral(name: str, difference: str) -> None:
    kernel, density = with_width(KERNELS[name], 0.4), DENSITIES[name]
    psi, of_number = DIFFERENCES[difference]
    x, width, edge = 1.3, 0.4, min(KERNELS[name].reach, 9.0)
    norm_of_psi = width * float(psi.normalisation(kernel, 1))  # type: ignore[arg-type]

    def integral(f: Any) -> float:
        return sum(quad(f, *ends)[0] for ends in ((-edge, 0.0), (0.0, edge)))

    def target(u: float) -> float:
        return of_number(u) / norm_of_psi

    def weight(u: float) -> float:
        return density(u) * math.exp(-((x - width * u) ** 2) / 2)

    norm = integral(weight)
    mean = integral(lambda u: weight(u) * target(u)) / norm
    square = integral(lambda u: weight(u) * target(u) ** 2) / norm
    rows = np.array([[x]]), np.zeros((1, 1)), np.array([[x]])
    found = approximate(kernel, normal, *rows, difference=psi)
    np.testing.assert_allclose(found.kernel_score, mean, rtol=1e-3)
    np.testing.assert_allclose(found.squared_score, mean**2, rtol=2e-3)
    np.testing.assert_allclose(found.squared_bias, (mean - x) ** 2, rtol=1e-2)
    np.testing.assert_allclose(found.variance, square - mean**2, rtol=1e-2)
    np.testing.assert_allclose(found.density_ratio, math.exp(-(x**2) / 2) / norm, rtol=1e-3)


def test_the_normal_toy_in_closed_form() -> None:
    """s^KSA is tanh(λs)/λ for the delta kernel and s/(1+λ²) for the Gaussian one."""
    rng = np.random.default_rng(1)
    x, theta, width = rng.normal(size=(50, 2)), np.zeros((50, 2)), np.array([0.3, 0.6])
    bound = 1 / width
    found = approximate(ist.Delta(width), normal, x, theta, x)
    expected = np.tanh(width * x) / width
    np.testing.assert_allclose(found.squared_bias, (expected - x) ** 2, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(found.variance, bound**2 - expected**2, rtol=1e-5)
    np.testing.assert_array_equal(found.saturated, np.abs(expected) > 0.9 * bound)
    found = approximate(ist.Gaussian(width), normal, x, theta, x)
    expected = x / (1 + width**2)
    np.testing.assert_allclose(found.squared_bias, (expected - x) ** 2, rtol=2e-2, atol=1e-5)
    assert not found.saturated.any()


def test_the_dirichlet_against_its_corner_sum() -> None:
    toy, rng = ist.toys.Dirichlet(3), np.random.default_rng(2)
    theta = rng.uniform(0.5, 5, size=(200, 3))
    width = np.array([0.25, 0.1, 0.4])
    x = toy(theta, rng)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    p = np.exp([toy.log_prob(x, theta + width * u) for u in corners])
    ksa = np.einsum("un,ui->ni", p, corners) / (width * p.sum(axis=0)[:, None])
    score = toy.score(x, theta)
    found = approximate(ist.Delta(width), toy.log_prob, x, theta, score)
    np.testing.assert_allclose(found.squared_bias, (ksa - score) ** 2, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(found.squared_score, ksa**2, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(found.variance, 1 / width**2 - ksa**2, rtol=1e-4)
    ratio = np.exp(toy.log_prob(x, theta)) / p.mean(axis=0)
    np.testing.assert_allclose(found.density_ratio, ratio, rtol=1e-9)


# Drawn displacements -----------------------------------------------------------------------------


def test_many_parameters_by_draws() -> None:
    """In 12 dimensions the exact answer factorises; squares of noisy sums would be off by 1/λ²M."""
    rng = np.random.default_rng(3)
    x, width = rng.normal(size=(200, 12)), 0.25
    found = approximate(ist.Delta(width), normal, x, np.zeros_like(x), x)
    expected = np.tanh(width * x) / width
    noise = 1 / (width**2 * quadrature.DRAWS)
    means = found.squared_bias.mean(axis=1)
    error = means.std() / math.sqrt(len(x))
    exact = np.mean((expected - x) ** 2)
    assert error < 0.15 * noise
    assert abs(means.mean() - exact) < 4 * error
    np.testing.assert_allclose(found.variance.mean(), np.mean(width**-2 - expected**2), rtol=1e-3)


def test_a_custom_kernel_by_draws() -> None:
    def draw(dim: int, key: Any) -> Any:
        return jax.random.rademacher(key, (dim,), jax.numpy.float32)

    rng = np.random.default_rng(4)
    x = rng.normal(size=(500, 2))
    drawn = approximate(ist.CustomKernel(0.5, draw, 1.0), normal, x, np.zeros_like(x), x)
    exact = approximate(ist.Delta(0.5), normal, x, np.zeros_like(x), x)
    scatter = (drawn.squared_bias - exact.squared_bias).std() / math.sqrt(x.size)
    assert abs(drawn.squared_bias.mean() - exact.squared_bias.mean()) < 4 * scatter
    assert scatter < 0.1 * exact.squared_bias.mean()


# The paper's expansion ---------------------------------------------------------------------------


def dirichlet_expansion(x: np.ndarray, theta: np.ndarray, kernel: Any, width: float) -> np.ndarray:
    """`eq:bias` with the linear ψ: right to second order in the width."""
    s, total = ist.toys.Dirichlet(3).score(x, theta), theta.sum(axis=1, keepdims=True)
    own = polygamma(1, total) - polygamma(1, theta)  # ∂_i s_i
    own_2 = polygamma(2, total) - polygamma(2, theta)  # ∂_i² s_i
    cross, cross_2 = polygamma(1, total), polygamma(2, total)  # ∂_j s_i and ∂_j² s_i
    mu2, mu4 = kernel.moment(2), kernel.moment(4)
    u = s**2 + own
    third = s**3 + 3 * s * own + own_2
    mixed = s[:, :, None] * u[:, None, :] + 2 * s[:, None, :] * cross[:, :, None]
    mixed = mixed + cross_2[:, :, None]
    others = mixed.sum(axis=2) - np.einsum("nii->ni", mixed)
    first = third * mu4 / (6 * mu2)
    return width**2 * (first + others * mu2 / 2 - s / 2 * u.sum(axis=1, keepdims=True) * mu2)


@pytest.mark.parametrize("name", KERNELS)
def test_the_expansion_in_powers_of_the_score(name: str) -> None:
    """The same sum, sorted as in docs/equations.md: kernels differ in κ₄ = μ₄/μ₂² alone."""
    rng, kernel = np.random.default_rng(7), KERNELS[name]
    theta = rng.uniform(0.5, 5, size=(50, 3))
    x = ist.toys.Dirichlet(3)(theta, rng)
    s, total = ist.toys.Dirichlet(3).score(x, theta), theta.sum(axis=1, keepdims=True)
    own = polygamma(1, total) - polygamma(1, theta)
    own_2 = polygamma(2, total) - polygamma(2, theta)
    shape = kernel.moment(4) / kernel.moment(2) ** 2
    others = (s.sum(axis=1, keepdims=True) - s) * polygamma(1, total) + polygamma(2, total)
    sorted_terms = (shape - 3) / 6 * s**3 + (shape - 1) / 2 * s * own + shape / 6 * own_2 + others
    expected = dirichlet_expansion(x, theta, kernel, 0.3)
    np.testing.assert_allclose(0.3**2 * kernel.moment(2) * sorted_terms, expected, rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_the_expansion_holds_for_small_widths(name: str) -> None:
    toy, rng, width = ist.toys.Dirichlet(3), np.random.default_rng(5), 0.05
    theta = rng.uniform(1.5, 4.5, size=(300, 3))
    x = toy(theta, rng)
    kernel = with_width(KERNELS[name], width / math.sqrt(KERNELS[name].moment(2)))
    score = toy.score(x, theta)
    found = approximate(kernel, toy.log_prob, x, theta, score)
    expected = dirichlet_expansion(x, theta, KERNELS[name], kernel.width)
    gap = np.sqrt(found.squared_bias) - np.abs(expected)
    assert np.sqrt(np.mean(gap**2)) < 0.06 * np.sqrt(np.mean(expected**2))


def test_the_expansion_must_not_choose_widths() -> None:
    """At the paper's own width it overstates the mean squared bias forty-fold."""
    toy, rng = ist.toys.Dirichlet(3), np.random.default_rng(6)
    theta = rng.uniform(0.5, 5, size=(100_000, 3))
    x = toy(theta + 0.25 * rng.choice([-1.0, 1.0], size=theta.shape), rng)
    exact = approximate(ist.Delta(0.25), toy.log_prob, x, theta, toy.score(x, theta))
    expanded = dirichlet_expansion(x, theta, ist.Delta(0.25), 0.25)
    assert 15 < np.mean(expanded**2) / np.mean(exact.squared_bias) < 100


# Appendix D: which kernel, which difference function ---------------------------------------------


ALPHAS: list[Any] = [lambda t: t, lambda t: 1 + 0 * t, lambda t: t**2, lambda t: t**0.5]
BETAS: list[Any] = [lambda t: 1.0 + 0 * t, lambda t: t, lambda t: 1 / (1 + t**2)]


def third_term(kernel: AbstractProductKernel, alpha: Any, beta: Any, dim: int) -> float:
    """(a₂₀/a₁₁²) μ₂ (b₂₀/b₁₀²)^{d−1}: the bias's third term at a given variance."""
    norm = float(ist.Factorised(alpha, beta).normalisation(kernel, dim))
    second = kernel.expectation(lambda t: alpha(t) ** 2)
    spread = kernel.expectation(lambda t: beta(t) ** 2)
    return second * spread ** (dim - 1) * kernel.moment(2) / norm**2


@pytest.mark.parametrize("name", KERNELS)
def test_linear_is_the_best_difference_function(name: str) -> None:
    """For a given variance no other ψ has a smaller third term, the one that does not average out.

    For the delta kernel |u| is constant, so that all are the same.
    """
    values = {
        (a, b): third_term(KERNELS[name], ALPHAS[a], BETAS[b], 3)
        for a, b in itertools.product(range(len(ALPHAS)), range(len(BETAS)))
    }
    assert values[0, 0] == pytest.approx(1, rel=1e-6)
    assert min(values.values()) > 1 - 1e-6
    others = [value for key, value in values.items() if key != (0, 0)]
    assert max(others) == pytest.approx(1) if name == "delta" else min(others) > 1.01


def test_the_delta_kernel_has_the_smallest_first_term() -> None:
    """μ₄/μ₂², all that is left to choose once λ²μ₂, and so the variance, is given."""
    values = {name: kernel.moment(4) / kernel.moment(2) ** 2 for name, kernel in KERNELS.items()}
    assert min(values, key=lambda name: values[name]) == "delta"
    assert values["delta"] == 1
    assert values["gaussian"] == pytest.approx(3)
    assert min(value for name, value in values.items() if name != "delta") > 1.7


def exponential(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """ln p of θ e^{−θx}: the score 1/θ − x is skewed, so that the third term does not vanish."""
    return (np.log(theta) - theta * x)[:, 0]


def mean_bias_and_variance(kernel: Any, psi: AbstractDifference) -> tuple[float, float]:
    """Of the exponential toy at θ = 1, averaged over x ~ p(x; θ) by quadrature."""
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    x, theta = nodes[:, None], np.ones((40, 1))
    found = approximate(kernel, exponential, x, theta, 1 - x, difference=psi)
    bias = found.kernel_score - (1 - x)
    square = found.variance + found.squared_score
    return float(weights @ bias[:, 0]), float(weights @ square[:, 0])


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in ("delta", "gaussian")])
def test_at_equal_variance_sign_is_more_biased_than_linear(name: str) -> None:
    """By a₂₀μ₂/a₁₁² = μ₂/μ₁² on average over x, to leading order in the width."""
    shape = KERNELS[name]
    ratio = shape.moment(2) / shape.moment(1) ** 2
    width = 0.05 / math.sqrt(shape.moment(2))
    linear = mean_bias_and_variance(with_width(shape, width), ist.Linear())
    sign = mean_bias_and_variance(with_width(shape, width * math.sqrt(ratio)), ist.Sign())
    assert linear[1] == pytest.approx(sign[1], rel=0.01)
    assert sign[0] / linear[0] == pytest.approx(ratio, rel=0.03)
    # The leading order itself: −s U μ₂λ²/2 averages to −E[s³]λ²μ₂/2 = λ²μ₂.
    assert linear[0] == pytest.approx(0.05**2, rel=0.03)


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in ("delta", "gaussian")])
def test_at_equal_variance_kernels_differ_from_delta_by_the_first_term(name: str) -> None:
    shape, sigma = KERNELS[name], 0.05
    x, theta = np.array([[0.3], [1.4], [2.5]]), np.ones((3, 1))
    kernel = with_width(shape, sigma / math.sqrt(shape.moment(2)))
    s = 1 - x
    other, delta = (
        approximate(one, exponential, x, theta, s).kernel_score
        for one in (kernel, ist.Delta(sigma))
    )
    gap = other - delta
    third = s**3 - 3 * s + 2  # V_iii at θ = 1
    excess = shape.moment(4) / shape.moment(2) ** 2 - 1
    np.testing.assert_allclose(gap, third / 6 * sigma**2 * excess, rtol=0.05, atol=2e-6)


def test_in_the_mean_square_delta_is_not_the_best_kernel() -> None:
    """Term by term it is, but the terms cancel: μ₄/μ₂² = 3 removes s³ from the bias altogether.

    Normal toy at equal variance: −s³λ²/3 for the delta kernel, −sλ² for the Gaussian one.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    x, theta = nodes[:, None], np.zeros((30, 1))
    weights = weights / weights.sum()
    square = {
        name: float(
            weights
            @ approximate(with_width(KERNELS[name], 0.1), normal, x, theta, x).squared_bias[:, 0]
        )
        for name in ("delta", "gaussian")
    }
    assert square["delta"] == pytest.approx(0.1**4 * 15 / 9, rel=0.1)
    assert square["gaussian"] == pytest.approx(0.1**4, rel=0.1)
