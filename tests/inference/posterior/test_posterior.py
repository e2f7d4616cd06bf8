"""Posteriors, against exact ones that SciPy computes in float64 on a grid of its own."""

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import gammaln

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.estimator.history import Region
from inferostatic.inference.likelihood.event_sum import CHUNK_EVENTS
from inferostatic.inference.posterior import importance, nuts
from inferostatic.inference.posterior.arviz_bridge import judge_chains, load_arviz
from inferostatic.inference.posterior.log_posterior import build_target
from inferostatic.inference.posterior.nuts import Chains
from inferostatic.inference.posterior.posterior import Posterior, posterior
from inferostatic.inference.posterior.weighted_draws import temper_weights
from inferostatic.world.priors.discrete import Discrete
from random_estimators import random_estimator

TOY = ist.toys.Dirichlet(3)
DIRICHLET = exact_dirichlet(low=0.5, high=5.0)


def dirichlet_events(n: int, theta: tuple[float, ...] = (1.5, 3.0, 2.0)) -> np.ndarray:
    return TOY(np.tile(theta, (n, 1)), np.random.default_rng(n))


def exact_dirichlet_posterior(
    x: np.ndarray, cells: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviations, points and probabilities on a fine grid, by SciPy alone."""
    low, high = np.full(3, 0.5), np.full(3, 5.0)
    sums = np.log(x.astype(np.float32).astype(np.float64)).sum(axis=0)
    points, log_p = np.zeros((0, 3)), np.zeros(0)
    for _ in range(3):
        edges = [np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True)]
        middle = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
        points = np.stack([m.ravel() for m in np.meshgrid(*middle, indexing="ij")], axis=1)
        log_p = len(x) * (gammaln(points.sum(axis=1)) - gammaln(points).sum(axis=1))
        log_p += (points - 1) @ sums
        near = points[log_p > log_p.max() - 20]
        width = (high - low) / cells
        low, high = (
            np.maximum(near.min(axis=0) - width, 0.5),
            np.minimum(near.max(axis=0) + width, 5.0),
        )
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ points
    return mean, np.sqrt(p @ (points - mean) ** 2), points, p


@functools.cache
def exact_posterior_of(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return exact_dirichlet_posterior(dirichlet_events(n))


def assert_agrees(found: Posterior, mean: np.ndarray, std: np.ndarray, ess: float) -> None:
    """Within five standard errors of so many independent draws."""
    assert np.abs((found.mean - mean) / std).max() < 5 / np.sqrt(ess)
    np.testing.assert_allclose(found.std, std, rtol=5 / np.sqrt(2 * ess))


# Truth.

HUNDRED = ist.NUTS(draws=4000, chains=8)


@pytest.fixture(scope="module")
def hundred() -> Posterior:
    return posterior(DIRICHLET, dirichlet_events(100), method=HUNDRED, seed=1)


def test_nuts_gives_the_exact_posterior_of_a_hundred_events(hundred: Posterior) -> None:
    mean, std, points, p = exact_posterior_of(100)
    assert hundred.sampling.method == "nuts"
    assert hundred.sampling.ess.min() > 1500
    assert_agrees(hundred, mean, std, 1500)
    correlation = np.corrcoef(hundred.samples.T)
    away = (points - mean) / std
    np.testing.assert_allclose(correlation, (p[:, None] * away).T @ away, atol=0.05)
    assert hundred.sampling.r_hat.max() < 1.01
    assert hundred.sampling.divergences == 0
    assert hundred.samples.shape == (4000, 3)


def test_intervals_hold_their_probability(hundred: Posterior) -> None:
    _, _, points, p = exact_posterior_of(100)
    for level in (0.68, 0.95):
        for i, (low, high) in enumerate(hundred.interval(level)):
            inside = p[(points[:, i] > low) & (points[:, i] < high)].sum()
            assert inside == pytest.approx(level, abs=5 * np.sqrt(0.25 / 1500))


@pytest.mark.parametrize("n", [1, 100])
def test_importance_resampling_gives_the_exact_posterior(n: int) -> None:
    x = dirichlet_events(n)
    mean, std, _, _ = exact_posterior_of(n)
    found = posterior(DIRICHLET, x, method=ist.Importance(), seed=2)
    # The moments use all weighted draws, of which a fifth counts at least.
    assert_agrees(found, mean, std, 6000)
    np.testing.assert_allclose(found.samples.mean(axis=0), mean, atol=5 * std.max() / 80)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("n", [1, 30])
def test_a_grid_gives_the_exact_posterior(dim: int, n: int) -> None:
    est = exact_normal(dim=dim, width=3.0)
    x = np.random.default_rng(n).normal(1.0, 1.0, (n, dim)).astype(np.float32).astype(float)
    found = posterior(est, x, seed=1)
    assert found.sampling.method == "grid"
    mean, std = np.array([normal_moments(x[:, i], -3.0, 3.0) for i in range(dim)]).T
    np.testing.assert_allclose(found.mean, mean, atol=1e-3 * std.max())
    np.testing.assert_allclose(found.std, std, rtol=2e-3)
    assert_agrees(dataclasses.replace(found, mean=found.samples.mean(axis=0)), mean, std, 8000)
    low, high = found.interval(0.9).T
    inside = np.mean((found.samples > low) & (found.samples < high), axis=0)
    np.testing.assert_allclose(inside, 0.9, atol=0.02)


def normal_moments(
    x: np.ndarray, low: float, high: float, mean: float = 0.0, std: float = np.inf
) -> tuple[float, float]:
    """Of θ given x ~ Normal(θ, 1) and a normal prior cut at low and high, by quadrature."""

    def density(theta: float) -> float:
        return float(np.exp(-0.5 * np.sum((x - theta) ** 2 - (x - x.mean()) ** 2))) * float(
            np.exp(-0.5 * ((theta - mean) / std) ** 2)
        )

    peak = np.clip(x.mean(), low, high)
    edges = max(low, peak - 12), min(high, peak + 12)
    total, first, second = (
        integrate.quad(
            lambda t, k=k: density(t) * (t - peak) ** k, *edges, points=[peak], limit=200
        )[0]
        for k in range(3)
    )
    return peak + first / total, float(np.sqrt(second / total - (first / total) ** 2))


MIXED = ist.Product(
    [ist.Uniform(-3, 3), ist.Normal(1.0, 0.7), ist.TruncatedNormal(0.0, 2.0, low=0.5)],
    names=["theta0", "theta1", "theta2"],
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [pytest.param(ist.NUTS(draws=4000), marks=pytest.mark.slow), ist.Importance(draws=4000)],
    ids=["nuts", "importance"],
)
def test_bounded_half_open_and_open_priors_side_by_side(method: Any) -> None:
    est = exact_normal(dim=3, width=9.0)
    x = np.array([[2.5, -0.5, 0.25]])
    found = posterior(est, x[0], MIXED, method, seed=3)
    exact = [
        normal_moments(x[:, 0], -3, 3),
        normal_moments(x[:, 1], -np.inf, np.inf, 1.0, 0.7),
        normal_moments(x[:, 2], 0.5, np.inf, 0.0, 2.0),
    ]
    mean, std = np.array(exact).T
    assert_agrees(found, mean, std, 1000)
    assert found.samples[:, 2].min() > 0.5
    assert np.abs(found.samples[:, 0]).max() < 3
    # ln of the density of θ, without the Jacobian of the coordinates.
    expected = MIXED.log_prob(found.samples) + est.potential(x, found.samples)
    np.testing.assert_allclose(found.log_prob, expected, atol=1e-4)


def test_a_normal_prior_on_a_grid() -> None:
    x = np.array([[1.2], [0.3]], np.float32).astype(float)
    found = posterior(exact_normal(width=9.0), x, ist.Normal(-1.0, 0.5), seed=1)
    variance = 1 / (2 + 4)
    assert found.mean[0] == pytest.approx(variance * (x.sum() - 4), abs=1e-4)
    assert found.std[0] == pytest.approx(np.sqrt(variance), rel=1e-3)


def test_a_narrow_and_correlated_posterior_is_found_on_the_grid() -> None:
    x = np.random.default_rng(0).normal(2.0, 1.0, (20_000, 1)).astype(np.float32).astype(float)
    found = posterior(exact_normal(), x, seed=1)
    assert found.mean[0] == pytest.approx(x.mean(), abs=1e-5)
    assert found.std[0] == pytest.approx(1 / np.sqrt(20_000), rel=2e-3)


@pytest.mark.parametrize(
    "method", [ist.Grid(draws=2000), ist.Importance(draws=2000)], ids=["grid", "importance"]
)
def test_a_discrete_prior_is_gone_through(method: Any) -> None:
    points, probability = np.array([[-1.0], [0.5], [2.0]]), np.array([0.2, 0.5, 0.3])
    x = np.array([[0.25], [0.75]])
    prior = Discrete(points, probability, names=["theta0"])
    found = posterior(exact_normal(), x, prior, method, seed=1)
    weight = probability * np.exp(-0.5 * ((x - points.T) ** 2).sum(axis=0))
    weight /= weight.sum()
    assert found.mean[0] == pytest.approx(weight @ points[:, 0], rel=1e-5)
    counts = [(found.samples == point).mean() for point in points]
    np.testing.assert_allclose(counts, weight, atol=5 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize(("n", "members"), [(3, 2), (2 * CHUNK_EVENTS + 5, 1)])
def test_the_sum_is_that_of_the_potential_and_has_its_gradient(n: int, members: int) -> None:
    tilt: Any = [0.1, -0.2, 0.3]
    est = exact_dirichlet(tilt=tilt, members=members)
    x, theta = dirichlet_events(n), np.array([1.2, 2.5, 3.0])
    with jax.enable_x64(True):  # noqa: FBT003
        summed = ist.Likelihood(est, x).function
        value, gradient = jax.jit(jax.value_and_grad(summed))(jnp.asarray(theta))
    assert float(value) == pytest.approx(est.potential(x, theta).sum(), rel=1e-6)
    score = est.score(x, theta).sum(axis=0)
    np.testing.assert_allclose(np.asarray(gradient), score, rtol=1e-4, atol=1e-3)
    assert np.asarray(gradient).dtype == np.float64


@pytest.mark.parametrize("network", [ist.MLP((8, 8)), ist.TwoTower()], ids=["MLP", "TwoTower"])
def test_networks_are_summed_from_their_parts(network: Any) -> None:
    est = random_estimator(ist.Potential(network), members=2)
    x, theta = np.random.default_rng(1).uniform(-2, 2, (5, 3)), np.array([1.2, -0.5])
    with jax.enable_x64(True):  # noqa: FBT003
        value = float(ist.Likelihood(est, x).function(jnp.asarray(theta)))
    values = est.potential(x, theta)
    assert value == pytest.approx(values.sum(), abs=1e-4 * np.abs(values).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [ist.NUTS(draws=20_000), ist.Importance(draws=20_000)], ids=["nuts", "importance"]
)
def test_a_classifier_cannot_tell_the_draws_from_exact_ones(method: Any) -> None:
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from benchmarks.sbibm.c2st import c2st

    for seed, theta in enumerate(([1.5, 3.0, 2.0], [0.8, 0.8, 4.0])):
        x = TOY([theta], np.random.default_rng(seed))
        _, _, points, p = exact_dirichlet_posterior(x)
        rng = np.random.default_rng(seed)
        width = np.diff(np.unique(points[:, 0]))[0]
        exact = points[rng.choice(len(p), 5000, p=p)] + width * (rng.random((5000, 3)) - 0.5)
        found = posterior(DIRICHLET, x, method=method, seed=seed)
        assert c2st(exact, found.samples[:: len(found.samples) // 5000]) < 0.53


# Coordinates.


@pytest.mark.parametrize(
    "prior",
    [
        MIXED,
        ist.TruncatedNormal([0.0, 1.0], 1.0, [-np.inf, -2.0], [0.5, np.inf]),
        ist.Uniform([1e3, 0], [1e3 + 1, 1e-3]),
    ],
)
def test_coordinates_cover_the_support_with_their_jacobian(prior: Any) -> None:
    dim = prior.dim
    likelihood = ist.Likelihood(exact_normal(dim=dim), np.zeros((1, dim)))
    chart = build_target(likelihood, prior).density.coordinates
    free = np.random.default_rng(0).normal(0, 2, (20, dim))
    with jax.enable_x64(True):  # noqa: FBT003
        points = jnp.asarray(free)
        jacobians = np.asarray(jax.jit(jax.vmap(jax.jacfwd(chart.theta)))(points))
        values = np.asarray(jax.jit(jax.vmap(chart.log_jacobian))(points))
    np.testing.assert_allclose(values, np.linalg.slogdet(jacobians)[1], atol=1e-9)
    theta = chart.many_theta(free)
    assert prior.contains(theta).all()
    np.testing.assert_allclose(chart.many_free(theta), free, atol=1e-6)
    far = chart.many_theta(np.full((1, dim), 800.0)), chart.many_theta(np.full((1, dim), -800.0))
    assert not np.isnan(far).any()
    edge = np.where(np.isfinite(prior.support[0]), prior.support[0], -1.0)
    assert np.isfinite(chart.many_free(edge[None])).all()


# Diagnostics.


def test_convergence_is_that_of_arviz(hundred: Posterior) -> None:
    arviz = load_arviz()
    rng = np.random.default_rng(1)
    slow = np.cumsum(rng.normal(size=(4, 500, 2)), axis=1) * 0.01 + rng.normal(size=(4, 500, 2))
    apart = rng.normal(size=(4, 101, 1)) + np.arange(4)[:, None, None]
    for chains in (slow, apart, hundred.samples.reshape(8, 500, 3)):
        r_hat, ess = judge_chains(chains)
        for i in range(chains.shape[2]):
            one = np.ascontiguousarray(chains[..., i])
            assert r_hat[i] == pytest.approx(arviz.rhat(one), rel=1e-5)
            assert ess[i] == pytest.approx(arviz.ess(one, method="bulk"), rel=1e-4)
    np.testing.assert_array_equal(hundred.sampling.ess, ess)


def test_arviz_gets_chains_and_statistics(hundred: Posterior) -> None:
    data = hundred.to_arviz()
    assert list(data.posterior.data_vars) == ["a", "b", "c"]
    assert data.posterior["a"].shape == (8, 500)
    np.testing.assert_array_equal(data.posterior["b"].values.ravel(), hundred.samples[:, 1])
    assert {"lp", "diverging", "acceptance_rate", "n_steps"} <= set(data.sample_stats.data_vars)
    alone = posterior(exact_normal(), [[0.5]], method=ist.Grid(draws=100), seed=1).to_arviz()
    assert alone.posterior["theta0"].shape == (1, 100)


def test_the_summary_names_everything(hundred: Posterior) -> None:
    text = hundred.summary()
    assert repr(hundred).startswith(f"Posterior(a = {hundred.mean[0]:.4g} ± ")
    assert "100 events; 4000 samples by nuts" in text
    assert all(word in text for word in ("parameter", "68% interval", "R-hat", "ESS"))
    assert "ln L from a table of" in text
    assert len(text.splitlines()) == 7
    assert "learned bias: not measured" in text


@pytest.mark.parametrize(
    "method",
    [pytest.param(ist.NUTS(), marks=pytest.mark.slow), ist.Importance(), ist.Grid()],
    ids=["nuts", "importance", "grid"],
)
def test_the_same_seed_gives_the_same_samples(method: Any) -> None:
    one, again, other = (posterior(ONE, X, method=method, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(again.samples, one.samples)
    assert not np.array_equal(other.samples, one.samples)
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def test_bad_chains_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = np.random.default_rng(0).normal(0, 0.01, (2, 50, 1)) + [[[0.0]], [[1.0]]]
    shape = (2, 50)
    bad = Chains(
        theta,
        np.zeros(shape),
        np.arange(100).reshape(shape) < 7,
        np.ones(shape),
        np.ones(shape),
        *judge_chains(theta),
    )
    monkeypatch.setattr(nuts, "sample_nuts", lambda *_, **__: bad)
    with pytest.warns(UserWarning, match="chains|diverged|independent") as caught:
        found = posterior(exact_normal(), [[0.5]], method=ist.NUTS(draws=100, chains=2), seed=1)
    texts = [str(warning.message) for warning in caught]
    assert [text.split()[0] for text in texts] == ["7", "the", "the"]
    assert "7 of 100 transitions diverged" in texts[0]
    assert "do not agree with each other" in texts[1]
    assert "independent ones" in texts[2]
    assert found.sampling.remarks == tuple(texts)
    assert texts[2] in found.summary()


def test_too_few_effective_draws_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importance, "MOST_ROUNDS", 0)
    monkeypatch.setattr(importance, "LAST_ROUNDS", 0)
    with pytest.warns(UserWarning, match=r"weighted draws are worth only .* use ist.NUTS\(\)"):
        found = posterior(DIRICHLET, dirichlet_events(100), method=ist.Importance(), seed=2)
    assert found.sampling.ess.max() < 400


def test_a_posterior_beyond_the_trained_region_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="of the posterior lies outside the trained region"):
        posterior(exact_normal(), [[2.5]], ist.Uniform(-9, 9), seed=1)
    seen = dataclasses.replace(
        exact_normal(), region=Region(np.array([-3.0]), np.array([3.0]), np.zeros(1), np.ones(1))
    )
    with pytest.warns(UserWarning, match="outside the range of x seen in training"):
        posterior(seen, [[2.5]], seed=1)


def test_the_likelihood_is_flattened_until_enough_draws_count() -> None:
    log_weight = -0.5 * np.linspace(-50, 50, 1001) ** 2
    for fewest in (1, 30, 60, 500):
        weight, beta = temper_weights(log_weight, fewest)
        assert 1 / np.square(weight).sum() >= 0.999 * fewest
        assert (beta == 1) == (
            fewest == 1 or fewest <= 1 / np.square(temper_weights(log_weight, 1)[0]).sum()
        )


# Misuse.

ONE = exact_normal()
X = np.array([[0.5], [1.0]])


def test_levels_are_probabilities() -> None:
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        posterior(ONE, X, seed=1).interval(68)


@pytest.mark.parametrize("package", ["blackjax", "arviz"])
def test_without_a_package_it_says_how_to_get_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[inference\]'"):
        posterior(ONE, X, method=ist.NUTS(), seed=1)
    if package == "arviz":
        with pytest.raises(ImportError, match=r"pip install 'inferostatic\[inference\]'"):
            posterior(ONE, X, seed=1).to_arviz()
