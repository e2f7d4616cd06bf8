"""Kernel Score Estimation: what its two forms converge to, computed exactly.

Form 1 is checked by E[(y − s^KSA) g(x, θ)] = 0 with s^KSA by corner sums or quadrature, and by the
numbers of the paper's task 1. Form 2 is integrated over all displacements that lead to one (x, θ),
with the library's own target and weight, and must approach the score like λ².
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import BOX, FAILS, HIGH, LOW, PASSES, log_p, score, simulate, z_of_mean
from jaxtyping import Array, PRNGKeyArray
from scipy import stats

import inferostatic as ist
from inferostatic.learning.methods import Method
from inferostatic.supervision.difference import AbstractDifference
from inferostatic.supervision.kernel_score import KernelScore
from inferostatic.supervision.kernels import AbstractKernel, AbstractProductKernel, Width
from inferostatic.supervision.records import Row, ScoreTarget
from inferostatic.supervision.supervision import ThetaDistribution, supervise_many
from inferostatic.world.priors.prior import AbstractPrior
from inferostatic.world.toys import Dirichlet

pytestmark = pytest.mark.usefixtures("strict")

TRUNCATED: Any = stats.truncnorm(-3, 3)
#: Densities of the product kernels, written again, with their reach.
SHAPES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "Rectangular": (lambda t: 0.5 + 0 * t, 1.0),
    "Triangular": (lambda t: 1 - np.abs(t), 1.0),
    "Epanechnikov": (lambda t: 0.75 * (1 - t**2), 1.0),
    "Gaussian": (TRUNCATED.pdf, 3.0),
}


def displacements(kernel: AbstractKernel, dim: int, nodes: int = 8) -> tuple[np.ndarray, ...]:
    """Standard displacements u and their probabilities: corners, or Gauss-Legendre."""
    name = type(kernel).__name__
    if name == "Delta":
        t, weight = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        density, edge = SHAPES[name]
        points, weights = np.polynomial.legendre.leggauss(nodes)
        half = edge * (points + 1) / 2
        t = np.concatenate([-half[::-1], half])
        weight = np.concatenate([weights[::-1], weights]) * edge / 2 * density(t)
    u = np.array(list(itertools.product(t, repeat=dim)))
    return u, np.prod(np.array(list(itertools.product(weight, repeat=dim))), axis=1)


def exact_ksa(
    x: np.ndarray,
    theta: np.ndarray,
    u: np.ndarray,
    probability: np.ndarray,
    widths: np.ndarray,
    density: Callable[[np.ndarray, np.ndarray], np.ndarray],
    psi: np.ndarray | None = None,
) -> np.ndarray:
    """s^KSA_i = Σ_u P(u) ψ_i p(x; θ + λu) / (λ_i E[u_i ψ_i] Σ_u P(u) p(x; θ + λu)), a row each."""
    psi = u if psi is None else psi
    log_density = np.stack([density(x, theta + widths * step) for step in u], axis=1)
    mass = probability * np.exp(log_density - log_density.max(axis=1, keepdims=True))
    mean = mass @ psi / mass.sum(axis=1, keepdims=True)
    return mean / (widths * (probability @ (u * psi)))


def weak_z(
    target: np.ndarray, truth: np.ndarray, x: np.ndarray, theta: np.ndarray, weight: float = 1.0
) -> np.ndarray:
    """z values of E[(y − s^KSA) g] for several g of x and θ, and every component."""
    functions = [
        np.ones(len(x)),
        theta[:, 0],
        theta[:, -1] * x[:, 0],
        np.tanh(x[:, -1]),
        np.cos(3 * x[:, 0] + theta[:, -1]),
        truth[:, 0],
    ]
    residual = weight * (target - truth)
    return np.concatenate([z_of_mean(residual * g[:, None]) for g in functions])


# Form 1


def test_task_1_of_the_paper():
    toy, prior = Dirichlet(3), ist.Uniform([0.5] * 3, [5.0] * 3)
    records = ist.draw(ist.KSE(ist.Delta(0.25)), toy, prior, 100_000, seed=1)
    assert isinstance(records.record, ScoreTarget)
    theta = np.asarray(records.record.theta, np.float64)
    target = np.asarray(records.record.target, np.float64)
    u, probability = displacements(ist.Delta(0.25), 3)
    ksa = exact_ksa(records.x, theta, u, probability, np.full(3, 0.25), toy.log_prob)
    truth = toy.score(records.x, theta)
    assert np.abs(weak_z(target, ksa, records.x, theta)).max() < PASSES
    # The score itself is not the conditional mean, and the test can tell.
    assert np.abs(weak_z(target, truth, records.x, theta)).max() > FAILS
    assert np.mean((ksa - truth) ** 2) == pytest.approx(0.100, abs=0.005)
    assert np.mean((target - ksa) ** 2) == pytest.approx(15.428, abs=0.02)
    assert np.mean((target - truth) ** 2) == pytest.approx(15.528, abs=0.02)
    # The bound 1/(λ μ₂) of target and s^KSA.
    np.testing.assert_allclose(np.abs(target), 4.0, rtol=1e-6)
    assert np.abs(ksa).max() <= 4.0


def simulate_line(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + np.exp(0.3 * theta) * rng.standard_normal(theta.shape)


def log_line(x: Any, theta: Any, xp: Any = np) -> Any:
    """ln p of x ~ N(θ, e^{0.3 θ}), up to a constant."""
    t = (x[..., 0] - theta[..., 0]) * xp.exp(-0.3 * theta[..., 0])
    return -(t**2) / 2 - 0.3 * theta[..., 0]


def score_line(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    t = (x - theta) * np.exp(-0.3 * theta)
    return t * np.exp(-0.3 * theta) + 0.3 * t**2 - 0.3


ALPHA_BETA = ist.Factorised(lambda t: t * jnp.exp(-t), lambda t: 1 / (1 + t**2))

FORM_1: dict[str, tuple[AbstractProductKernel, AbstractDifference]] = {
    "delta, linear": (ist.Delta(0.8), ist.Linear()),
    "rectangular, linear": (ist.Rectangular(0.9), ist.Linear()),
    "triangular, sign": (ist.Triangular(0.9), ist.Sign()),
    "epanechnikov, factorised": (ist.Epanechnikov(0.9), ALPHA_BETA),
    "gaussian, linear": (ist.Gaussian(0.5, truncation=3.0), ist.Linear()),
    "rectangular, width grows": (
        ist.Rectangular(lambda theta: 0.6 + 0.3 * theta),
        ist.Linear(),
    ),
}


@pytest.mark.parametrize("name", FORM_1)
def test_form_1_regresses_to_its_exact_limit(name):
    kernel, difference = FORM_1[name]
    prior = ist.Uniform(-1.0, 1.0)
    records = ist.draw(ist.KSE(kernel, difference), simulate_line, prior, 40_000, seed=2)
    assert isinstance(records.record, ScoreTarget)
    theta = np.asarray(records.record.theta, np.float64)
    target = np.asarray(records.record.target, np.float64)
    u, probability = displacements(kernel, 1)
    psi = np.asarray(jax.vmap(difference)(jnp.asarray(u, jnp.float32)), np.float64)
    widths = kernel.width(theta) if callable(kernel.width) else np.full(1, kernel.width)
    ksa = exact_ksa(records.x, theta, u, probability, np.asarray(widths), log_line, psi)
    assert np.abs(weak_z(target, ksa, records.x, theta)).max() < PASSES
    assert np.abs(weak_z(target, 1.1 * ksa, records.x, theta)).max() > PASSES


def test_form_1_with_a_kernel_that_is_no_product():
    def disc(dim: int, key: Array) -> Array:
        turn, radius = jax.random.split(key)
        angle = jax.random.uniform(turn, maxval=2 * jnp.pi)
        size = jnp.sqrt(jax.random.uniform(radius))
        return size * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    kernel = ist.CustomKernel([0.8, 0.5], disc, second_moment=0.25)
    records = ist.draw(ist.KSE(kernel), simulate, BOX, 40_000, seed=3)
    assert isinstance(records.record, ScoreTarget)
    theta = np.asarray(records.record.theta, np.float64)
    target = np.asarray(records.record.target, np.float64)
    points, weights = np.polynomial.legendre.leggauss(6)
    radius, angle = np.sqrt((points + 1) / 2), 2 * np.pi * (np.arange(12) + 0.5) / 12
    u = np.stack(
        [np.outer(radius, np.cos(angle)).ravel(), np.outer(radius, np.sin(angle)).ravel()], axis=1
    )
    probability = np.repeat(weights / 2, 12) / 12
    ksa = exact_ksa(records.x, theta, u, probability, np.array([0.8, 0.5]), log_p)
    assert np.abs(weak_z(target, ksa, records.x, theta)).max() < PASSES
    assert np.abs(weak_z(target, 1.1 * ksa, records.x, theta)).max() > PASSES


def test_form_1_simulates_at_the_displaced_point():
    seen: list[np.ndarray] = []

    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(theta)
        return rng.standard_normal(theta.shape)

    widths = np.array([0.1, 0.4])
    records = ist.draw(ist.KSE(ist.Rectangular(widths)), simulator, BOX, 15_000, seed=4)
    assert isinstance(records.record, ScoreTarget)
    theta = np.asarray(records.record.theta, np.float64)
    u = (np.concatenate(seen) - theta) / widths
    target = np.asarray(records.record.target, np.float64)
    np.testing.assert_allclose(target, u / (widths / 3), atol=2e-4)
    assert BOX.contains(theta).all()
    assert not BOX.contains(np.concatenate(seen)).all()
    assert np.all(np.asarray(records.record.weight) == 1)


def test_form_1_says_where_the_simulator_is_asked():
    prior = ist.Uniform([0.5] * 3, [5.0] * 3)
    wide = ist.Rectangular(lambda x, theta: 0.1 + 0.0 * x[0] + 0.0 * theta)
    with pytest.raises(RuntimeError, match=r"simulates at θ \+ ε, up to \[0.6, 0.6, 0.6\] outside"):
        ist.draw(ist.KSE(ist.Delta(0.6)), Dirichlet(3), prior, 1000, seed=1)
    with pytest.raises(ValueError, match="only stored events can use"):
        ist.draw(ist.KSE(wide), simulate, BOX, 100, seed=1)


# Form 2


class Fixed(AbstractKernel):
    """Another kernel's width and moments, but with a displacement that is given."""

    like: AbstractProductKernel
    u: Array

    def draw(self, dim: int, *, key: PRNGKeyArray) -> Array:
        del dim, key
        return self.u

    def log_density(self, u: Array) -> Array:
        return self.like.log_density(u)

    @property
    def reach(self) -> float:
        return self.like.reach

    @property
    def variance(self) -> float:
        return self.like.variance


class FixedDifference(AbstractDifference):
    """A difference function normalised with the kernel that `Fixed` stands for."""

    like: AbstractDifference

    def __call__(self, u: Array) -> Array:
        return self.like(u)

    def normalisation(self, kernel: AbstractKernel, dim: int) -> float | tuple[float, ...]:
        assert isinstance(kernel, Fixed)
        return self.like.normalisation(kernel.like, dim)


@eqx.filter_jit
def _widths(kernel: AbstractKernel, x: Array, theta: Array) -> tuple[Array, Array]:
    """λ at (x, θ) and its derivatives by θ."""
    slope = jax.vmap(jax.jacfwd(kernel.widths, argnums=1))
    return jax.vmap(kernel.widths)(x, theta), slope(x, theta)


def widths_at(kernel: AbstractKernel, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    both = jnp.asarray(x, jnp.float32), jnp.asarray(theta, jnp.float32)
    return np.asarray(_widths(kernel, *both)[0], np.float64)


def start_of(
    kernel: AbstractKernel, x: np.ndarray, theta: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The θ' from which the displacement `step` leads to θ, and |det ∂θ'/∂θ| there."""
    origin = theta
    for _ in range(12):
        origin = theta + step * widths_at(kernel, x, origin)
    both = jnp.asarray(x, jnp.float32), jnp.asarray(origin, jnp.float32)
    slope = np.asarray(_widths(kernel, *both)[1], np.float64)
    jacobian = np.eye(theta.shape[1]) - step[:, None] * slope
    return origin, 1 / np.abs(np.linalg.det(jacobian))


Change = Callable[[np.ndarray, np.ndarray], np.ndarray]


def form_2_limit(
    kernel: Any,
    difference: AbstractDifference,
    prior: AbstractPrior,
    x: np.ndarray,
    theta: np.ndarray,
    density: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    change_target: Change | None = None,
    change_weight: Change | None = None,
) -> np.ndarray:
    """E[w·target | x, θ]/E[w | x, θ] with the library's targets and weights, exactly.

    The events' law is π(θ') p(x; θ'); the sum over displacements that lead to θ carries the
    Jacobian of the map. `change_…` multiply in what a wrong implementation would have.
    """
    low, high = prior.support
    distribution = ThetaDistribution(prior, low, high)
    top, bottom = np.zeros(theta.shape), np.zeros(len(theta))
    for step, probability in zip(*displacements(kernel, theta.shape[1], nodes=6), strict=True):
        origin, jacobian = start_of(kernel, x, theta, step)
        u = jnp.asarray(step, jnp.float32)
        supervision = KernelScore(Fixed(kernel.width, kernel, u), FixedDifference(difference))
        rows = Row(
            x=jnp.asarray(x, jnp.float32),
            theta=jnp.asarray(origin, jnp.float32),
            is_reference=jnp.zeros(len(x)),
        )
        keys = jax.random.split(jax.random.key(0), len(x))
        record = supervise_many(supervision, rows, distribution, keys)
        assert isinstance(record, ScoreTarget)
        np.testing.assert_allclose(record.theta, theta, atol=1e-5)
        target, weight = np.asarray(record.target, np.float64), np.asarray(record.weight)
        if change_target is not None:
            target = target * change_target(origin, theta)
        if change_weight is not None:
            weight = weight * change_weight(origin, theta)
        rate = probability * jacobian * np.exp(prior.log_prob(origin) + density(x, origin)) * weight
        top += rate[:, None] * target
        bottom += rate
    return top / bottom[:, None]


LINE = ist.Uniform(-3.0, 3.0)
LINE_NORMAL = ist.Normal(0.3, 0.8)
LINE_THETA = np.array([[-0.8], [-0.2], [0.3], [0.7], [0.0]])
LINE_X = np.array([[-0.5], [1.0], [0.2], [2.5], [-1.4]])

Scaled = Callable[[float], Width]


def vary_theta(size: float) -> Width:
    return lambda theta: size * (1 + 0.3 * jnp.sin(2 * theta))


def vary_both(size: float) -> Width:
    return lambda x, theta: size * (1 + 0.3 * jnp.tanh(x[0])) * (1 + 0.2 * jnp.cos(3 * theta))


CASES: dict[str, tuple[Callable[[Any], Any], AbstractDifference, AbstractPrior, Scaled]] = {
    "delta": (ist.Delta, ist.Linear(), LINE, lambda size: size),
    "delta, θ": (ist.Delta, ist.Linear(), LINE, vary_theta),
    "delta, x and θ": (ist.Delta, ist.Linear(), LINE, vary_both),
    "delta, θ, normal prior": (ist.Delta, ist.Linear(), LINE_NORMAL, vary_theta),
    "rectangular, θ, sign": (ist.Rectangular, ist.Sign(), LINE, vary_theta),
    "epanechnikov, x and θ, factorised, normal prior": (
        ist.Epanechnikov,
        ALPHA_BETA,
        LINE_NORMAL,
        vary_both,
    ),
}


def errors_at(
    name: str, sizes: tuple[float, ...], change: Callable[..., Change] | None = None, **options: Any
) -> list[float]:
    """Largest |limit − score| for each size of the width."""
    make, difference, prior, scaled = CASES[name]
    truth = score_line(LINE_X, LINE_THETA)
    errors = []
    for size in sizes:
        kernel = make(scaled(size))
        if change is not None:
            options["change_target"] = change(kernel)
        limit = form_2_limit(kernel, difference, prior, LINE_X, LINE_THETA, log_line, **options)
        errors.append(float(np.abs(limit - truth).max()))
    return errors


@pytest.mark.parametrize("name", CASES)
def test_form_2_approaches_the_score_quadratically(name):
    coarse, fine = errors_at(name, (0.1, 0.05))
    assert coarse < 0.1
    assert 3.4 < coarse / fine < 4.6


def at_theta(kernel: AbstractKernel) -> Change:
    """The width at θ in the denominator instead of that at θ'."""
    return lambda origin, theta: (
        widths_at(kernel, LINE_X, origin) / widths_at(kernel, LINE_X, theta)
    )


def mean_of_two(kernel: AbstractKernel) -> Change:
    """The mean of both widths."""

    def change(origin: np.ndarray, theta: np.ndarray) -> np.ndarray:
        here, there = widths_at(kernel, LINE_X, theta), widths_at(kernel, LINE_X, origin)
        return there / ((here + there) / 2)

    return change


@pytest.mark.parametrize("wrong", [at_theta, mean_of_two])
def test_other_widths_in_the_denominator_do_not_converge(wrong):
    coarse, fine = errors_at("delta, x and θ", (0.2, 0.1), change=wrong)
    assert fine > 0.1
    assert coarse / fine < 2


def test_without_the_ratio_of_priors_form_2_learns_the_posterior_score():
    def drop(origin: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return np.exp(LINE_NORMAL.log_prob(origin) - LINE_NORMAL.log_prob(theta))

    limit = form_2_limit(
        ist.Delta(0.1),
        ist.Linear(),
        LINE_NORMAL,
        LINE_X,
        LINE_THETA,
        log_line,
        change_weight=drop,
    )
    slope_of_prior = -(LINE_THETA - 0.3) / 0.8**2
    np.testing.assert_allclose(limit, score_line(LINE_X, LINE_THETA) + slope_of_prior, atol=0.1)
    assert np.abs(slope_of_prior).max() > 1


def test_form_2_in_two_dimensions():
    # Every width depends on both parameters, so the whole Jacobian is at work.
    def scaled(size: float) -> Width:
        return lambda theta: (
            size
            * jnp.stack([1 + 0.4 * jnp.sin(theta[1] + theta[0]), 0.6 + 0.3 * jnp.cos(theta[0])])
        )

    prior = ist.Uniform([-3.0, -3.0], [3.0, 3.0])
    theta = np.array([[0.2, 0.1], [-0.5, 0.4], [0.8, -0.3]])
    x = np.array([[1.0, 0.5], [-1.2, 2.0], [0.3, -1.0]])
    errors = []
    for size in (0.2, 0.1):
        limit = form_2_limit(ist.Delta(scaled(size)), ist.Linear(), prior, x, theta, log_p)
        errors.append(np.abs(limit - score(x, theta)).max())
    assert 3.4 < errors[0] / errors[1] < 4.6
    # With the same constant width both forms have the same limit, not only the same score.
    both = form_2_limit(ist.Delta([0.3, 0.2]), ist.Linear(), prior, x, theta, log_p)
    u, probability = displacements(ist.Delta(1.0), 2)
    form_1 = exact_ksa(x, theta, u, probability, np.array([0.3, 0.2]), log_p)
    np.testing.assert_allclose(both, form_1, rtol=1e-5)


def supervised(method: Method, events: ist.Events, seed: int) -> tuple[Any, ScoreTarget]:
    supply = method.supply(events)
    keys = jax.random.split(jax.random.key(seed), len(events))
    record = supervise_many(method.supervision, supply.rows, supply.distribution, keys)
    assert isinstance(record, ScoreTarget)
    return supply, record


@pytest.mark.parametrize("kernel", [ist.Delta(0.3), ist.Rectangular([0.3, 0.2])])
def test_form_2_on_stored_events_regresses_to_the_limit_of_form_1(kernel):
    events = ist.simulate(simulate, BOX, 60_000, seed=5)
    supply, record = supervised(ist.KSE(kernel), events, seed=6)
    theta, target = np.asarray(record.theta, np.float64), np.asarray(record.target, np.float64)
    weight = np.asarray(record.weight, np.float64)[:, None]
    widths = np.broadcast_to(np.asarray(kernel.width), (2,))
    u, probability = displacements(kernel, 2, nodes=4)
    ksa = exact_ksa(events.x, theta, u, probability, widths, log_p)
    kept = weight[:, 0] > 0
    assert np.abs(weak_z(target[kept], ksa[kept], events.x[kept], theta[kept])).max() < PASSES
    # The weight is 1 inside, and 0 in the strip along the walls, and nowhere else.
    inside = np.all((theta >= LOW + widths) & (theta <= HIGH - widths), axis=1)
    np.testing.assert_array_equal(kept, inside)
    np.testing.assert_array_equal(weight[kept], 1.0)
    np.testing.assert_allclose(supply.distribution.low, LOW + widths, rtol=1e-6)
    np.testing.assert_allclose(supply.distribution.high, HIGH - widths, rtol=1e-6)
    # Without the strip the same test fails.
    assert np.abs(weak_z(target, ksa, events.x, theta)).max() > FAILS


def test_in_the_strip_the_estimate_would_be_off_by_the_inverse_width():
    prior, width = ist.Uniform(-1.0, 1.0), 0.2
    events = ist.simulate(simulate_line, prior, 40_000, seed=7)
    _, record = supervised(ist.KSE(ist.Delta(width)), events, seed=8)
    theta, target = np.asarray(record.theta)[:, 0], np.asarray(record.target)[:, 0]
    upper = theta > 1 - width
    assert np.all(np.asarray(record.weight)[upper] == 0)
    truth = score_line(events.x[:, 0], theta)
    # θ' = θ + λ was never simulated, so only −1/λ occurs.
    np.testing.assert_allclose(target[upper & (theta < 1)], -1 / width, rtol=1e-5)
    assert np.mean((target - truth)[upper]) == pytest.approx(-1 / width, abs=0.5)


def test_weights_are_ratios_of_the_prior():
    prior = ist.TruncatedNormal([0.0, 0.5], [1.0, 2.0], [-1.0, -2.0], [2.0, 3.0])
    events = ist.simulate(simulate, prior, 2000, seed=9)
    _, record = supervised(ist.KSE(ist.Rectangular(0.3)), events, seed=10)
    theta = np.asarray(record.theta, np.float64)
    inside = np.all((theta > [-1 + 0.3, -2 + 0.3]) & (theta < [2 - 0.3, 3 - 0.3]), axis=1)
    normal: Any = stats.norm([0.0, 0.5], [1.0, 2.0])
    distribution = [normal.pdf(t).prod(axis=1) for t in (theta, events.theta)]
    expected = np.where(inside, distribution[0] / distribution[1], 0.0)
    np.testing.assert_allclose(record.weight, expected, rtol=1e-4)


# What is refused


def line_events(prior: AbstractPrior | None = None, n: int = 200) -> ist.Events:
    prior = ist.Uniform(-1.0, 1.0) if prior is None else prior
    return ist.simulate(simulate_line, prior, n, seed=11)


def test_an_unbounded_kernel_needs_an_unbounded_prior():
    with pytest.raises(ValueError, match=r"ist.Gaussian\(width, truncation=3\)"):
        ist.KSE(ist.Gaussian(0.1)).supply(line_events())
    with pytest.raises(ValueError, match="unbounded kernel on a bounded prior"):
        ist.KSE(ist.Gaussian(0.1)).supply(line_events(ist.TruncatedNormal(0.0, 1.0, low=-1.0)))
    ist.KSE(ist.Gaussian(0.1)).supply(line_events(ist.Normal(0.0, 0.5)))
    ist.KSE(ist.Gaussian(0.1, truncation=3)).supply(line_events())


def test_a_kernel_wider_than_the_prior_is_refused():
    with pytest.raises(ValueError, match=r"reaches \[1.1\] and the simulated range is only"):
        ist.KSE(ist.Delta(1.1)).supply(line_events())
    with pytest.raises(ValueError, match="no θ has all its displacements inside"):
        ist.KSE(ist.Gaussian(0.4, truncation=3.0)).supply(line_events())


def test_the_slope_of_the_width():
    events = line_events()
    with pytest.warns(UserWarning, match=r"slope of 0.2; above 0.1 the score estimate"):
        ist.KSE(ist.Delta(lambda theta: 0.3 + 0.2 * theta)).supply(events)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ist.KSE(ist.Delta(lambda theta: 0.3 + 0.09 * theta)).supply(events)
    with pytest.raises(ValueError, match=r"slope 1.2\): θ' − uλ\(x, θ'\) must be one-to-one"):
        ist.KSE(ist.Delta(lambda theta: 1.3 + 1.2 * theta)).supply(events)
    with pytest.raises(ValueError, match="must be one-to-one"):
        ist.KSE(ist.Gaussian(lambda theta: 0.5 + 0.4 * theta, truncation=3.0)).supply(events)


def test_slopes_in_several_directions_add_up():
    # At u = (1, 1) the map θ' − uλ(θ') is singular although no single slope exceeds 0.5.
    events = ist.simulate(simulate, BOX, 100, seed=12)
    kernel = ist.Delta(lambda theta: 1.0 + 0.5 * (theta[0] + theta[1]))
    with pytest.raises(ValueError, match="must be one-to-one"):
        ist.KSE(kernel).supply(events)


def test_a_width_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="not positive and finite in row"):
        ist.KSE(ist.Delta(lambda theta: theta)).supply(line_events())


def test_a_prior_that_is_no_box_is_refused():
    def draw_disc(key: Array) -> Array:
        turn, radius = jax.random.split(key)
        angle = jax.random.uniform(turn, maxval=2 * jnp.pi)
        return jnp.sqrt(jax.random.uniform(radius)) * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def log_disc(theta: Array) -> Array:
        return jnp.where(jnp.sum(theta**2) < 1.00001, 0.0, -jnp.inf)

    disc = ist.CustomPrior(draw_disc, log_disc, low=[-1.0, -1.0], high=[1.0, 1.0])
    events = ist.simulate(simulate, disc, 500, seed=13)
    with pytest.raises(ValueError, match="density vanishes inside its edges low and high"):
        ist.KSE(ist.Delta(0.2)).supply(events)
    # A box given by functions is a box.
    box = ist.CustomPrior(
        lambda key: jax.random.uniform(key, (2,)), lambda theta: 0.0 * theta[0], low=0.0, high=1.0
    )
    ist.KSE(ist.Delta(0.2)).supply(ist.simulate(simulate, box, 500, seed=14))


def test_a_finite_set_of_points_is_refused():
    theta = np.repeat([[-0.5], [0.5]], 20, axis=0)
    rng = np.random.default_rng(1)
    stored = ist.Events(x=simulate_line(theta, rng), theta=theta)
    with pytest.raises(ValueError, match="needs the density of θ at every point"):
        ist.KSE(ist.Delta(0.1)).supply(stored)
    given = ist.Events(x=stored.x, theta=theta, prior=ist.Discrete([[-0.5], [0.5]]))
    with pytest.raises(ValueError, match="needs the density of θ at every point"):
        ist.KSE(ist.Delta(0.1)).supply(given)
