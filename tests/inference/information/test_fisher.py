"""Fisher information, against closed forms, finite differences and the scatter of repetitions."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.information.fisher import fisher
from inferostatic.inference.information.fisher_information import FisherInformation
from inferostatic.inference.information.score_response import score_response
from inferostatic.inference.information.symmetric_matrices import (
    Moments,
    map_congruence,
    pack_triangle,
    unpack_triangle,
)
from inferostatic.inference.likelihood.second_derivatives import Curvature, slope_jumps
from random_estimators import random_estimator

TOY = ist.toys.Dirichlet(3)
THETA = np.array([1.5, 3.0, 4.0])
EXACT = TOY.fisher(THETA)


def dirichlet(n: int, seed: int = 1, theta: np.ndarray = THETA) -> np.ndarray:
    return TOY(np.tile(theta, (n, 1)), np.random.default_rng(seed))


@pytest.fixture(scope="module")
def found() -> FisherInformation:
    return fisher(exact_dirichlet(), dirichlet(40_000), THETA)


@pytest.fixture(scope="module")
def wrong() -> FisherInformation:
    """0.9 ln p + tilt·θ."""
    return fisher(exact_dirichlet(stretch=0.9, tilt=0.02), dirichlet(40_000), THETA)


# Truth.


def test_both_forms_are_the_closed_form_within_their_errors(found: FisherInformation) -> None:
    np.testing.assert_allclose(found.hessian_information, EXACT, rtol=1e-6)
    assert found.automatic
    assert found.remark == ""
    pulls = (found.score_information - EXACT) / found.score_error
    assert np.abs(pulls).max() < 4
    assert (found.score_error / np.sqrt(np.outer(EXACT.diagonal(), EXACT.diagonal()))).max() < 0.012


def test_the_diagonal_is_within_three_percent_over_the_prior() -> None:
    rng = np.random.default_rng(5)
    estimator, errors = exact_dirichlet(), []
    for seed, theta in enumerate(rng.uniform(0.95, 4.55, (5, 3))):
        information = fisher(estimator, TOY, theta, n=30_000, seed=seed)
        exact = TOY.fisher(theta).diagonal()
        errors.append(np.abs(information.score_information.diagonal() / exact - 1))
        np.testing.assert_allclose(information.hessian_information.diagonal(), exact, rtol=1e-6)
    # A square of the score scatters by up to 3 of its means, so by 1.7% over 30,000 events.
    assert np.mean(errors) < 0.015
    assert np.max(errors) < 0.06


@pytest.mark.slow
def test_standard_errors_are_the_scatter_over_repetitions() -> None:
    estimator = exact_dirichlet(stretch=1.1, tilt=0.1)
    many = [fisher(estimator, dirichlet(2048, seed), THETA) for seed in range(100)]
    scatter = np.std([one.score_information for one in many], axis=0, ddof=1)
    # A standard deviation of 100 heavy-tailed numbers is known to about 10%.
    np.testing.assert_allclose(
        np.mean([one.score_error for one in many], axis=0), scatter, rtol=0.3
    )
    scatter = np.std([one.mean_score for one in many], axis=0, ddof=1)
    np.testing.assert_allclose(many[0].mean_score_error, scatter, rtol=0.3)
    scatter = np.std([one.bias for one in many], axis=0, ddof=1)
    np.testing.assert_allclose(many[0].bias_error, scatter, rtol=0.3)
    scatter = np.std([one.profile("a").score_information for one in many], ddof=1)
    assert many[0].profile("a").score_error.item() == pytest.approx(scatter, rel=0.3)
    scatter = np.std([one.disagreement.difference for one in many], axis=0, ddof=1)
    np.testing.assert_allclose(many[0].disagreement.error, scatter, rtol=0.35)


@pytest.mark.slow
def test_the_p_value_of_the_disagreement_is_uniform_for_an_exact_score() -> None:
    estimator = exact_normal(dim=2)
    rng = np.random.default_rng(8)
    p = [
        fisher(estimator, rng.normal(size=(1024, 2)), [0, 0]).disagreement.p_value
        for _ in range(150)
    ]
    # 0.5 ± 0.024, and 150 · 0.1 = 15 ± 4 below 0.1.
    assert np.mean(p) == pytest.approx(0.5, abs=0.09)
    assert 4 <= np.sum(np.less(p, 0.1)) <= 28


def test_a_wrong_potential_is_flagged_and_the_sandwich_has_its_true_scatter(
    wrong: FisherInformation,
) -> None:
    disagreement = wrong.disagreement
    assert disagreement.p_value < 1e-10
    assert disagreement.dof == 6
    # E[ŝŝᵀ] is about 0.81 I, −E[∇²φ] exactly 0.9 I.
    np.testing.assert_allclose(wrong.hessian_information, 0.9 * EXACT, rtol=1e-6)
    assert 0.05 < disagreement.relative < 0.2
    assert "more than chance" in wrong.summary()
    # A constant factor does not move the estimate, so its covariance is that of the truth.
    np.testing.assert_allclose(
        wrong.sandwich(100).diagonal(), np.linalg.inv(100 * EXACT).diagonal(), rtol=0.05
    )
    assert (wrong.bound().diagonal() > 1.05 * np.linalg.inv(EXACT).diagonal()).all()


def test_the_bias_is_that_of_the_estimate_to_first_order(wrong: FisherInformation) -> None:
    expected = np.linalg.solve(0.9 * EXACT, np.full(3, 0.02))
    assert np.abs((wrong.bias - expected) / wrong.bias_error).max() < 4
    np.testing.assert_allclose(
        wrong.bias_error, np.sqrt(wrong.sandwich(40_000).diagonal()), rtol=1e-12
    )
    # A small tilt, of which the estimate has next to no quadratic part.
    estimator, x = exact_dirichlet(stretch=0.9, tilt=0.005), dirichlet(40_000)
    fitted = ist.maximum_likelihood(estimator, x)
    bias = fisher(estimator, x, THETA).bias
    np.testing.assert_allclose(fitted.theta - THETA, bias, rtol=0.1, atol=0.005)


# Bounds, profiles and ellipses.


def test_projecting_and_profiling_are_parts_of_the_matrix_and_of_its_inverse(
    wrong: FisherInformation,
) -> None:
    projected = wrong.project(["c", "a"])
    assert projected.names == ("c", "a")
    np.testing.assert_array_equal(projected.theta, THETA[[2, 0]])
    part = np.ix_([2, 0], [2, 0])
    np.testing.assert_allclose(projected.score_information, wrong.score_information[part])
    np.testing.assert_allclose(projected.hessian_error, wrong.hessian_error[part])
    profiled = wrong.profile([2, 0])
    np.testing.assert_allclose(profiled.bound(10), wrong.bound(10)[part], rtol=1e-9)
    np.testing.assert_allclose(profiled.sandwich(10), wrong.sandwich(10)[part], rtol=1e-9)
    np.testing.assert_allclose(
        np.linalg.inv(profiled.hessian_information),
        np.linalg.inv(wrong.hessian_information)[part],
        rtol=1e-9,
    )
    np.testing.assert_allclose(profiled.bias, wrong.bias[[2, 0]])
    # The efficient score of each event has this information.
    outer = profiled.scores.T @ profiled.scores / len(profiled.scores)
    np.testing.assert_allclose(outer, profiled.score_information, rtol=1e-9)
    assert "c" in profiled.summary()
    assert "b" not in repr(profiled).split("(")[1].split(";")[0]


def test_known_and_fitted_parameters_can_be_mixed_in_any_order(wrong: FisherInformation) -> None:
    one = wrong.profile(["a", "b"]).project("a")
    other = wrong.project(["a", "c"]).profile("a")
    for name in ("bound", "sandwich"):
        np.testing.assert_allclose(getattr(one, name)(), getattr(other, name)(), rtol=1e-9)
    np.testing.assert_allclose(one.hessian_error, other.hessian_error, rtol=1e-9)
    np.testing.assert_allclose(
        wrong.profile(["a", "b"]).profile("b").bound(), wrong.bound()[1:2, 1:2], rtol=1e-9
    )
    np.testing.assert_allclose(
        wrong.profile(["a", "b", "c"]).score_information, wrong.score_information
    )


def test_an_ellipse_holds_its_level(found: FisherInformation) -> None:
    border = found.ellipse("a", "c", 0.9, n_events=50)
    assert border.shape == (200, 2)
    np.testing.assert_allclose(border[0], border[-1])
    covariance = found.bound(50)[np.ix_([0, 2], [0, 2])]
    away = border - THETA[[0, 2]]
    chi2 = np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
    np.testing.assert_allclose(chi2, 4.60517, rtol=1e-5)  # 90% of χ² with two degrees of freedom
    np.testing.assert_allclose(
        found.ellipse(0, 2, 0.9, n_events=50, sandwich=True), border, rtol=0.05
    )
    known = found.project(["a", "c"]).ellipse(0, 1, 0.9, n_events=50)
    assert np.ptp(known[:, 0]) < np.ptp(border[:, 0])


def test_the_information_of_events_adds_up_and_is_concentrated(found: FisherInformation) -> None:
    each = found.per_event("b")
    assert each.mean() == pytest.approx(found.score_information[1, 1])
    direction = np.array([1.0, -2.0, 0.5])
    along = direction @ found.score_information @ direction
    assert found.per_event(direction).mean() == pytest.approx(along)
    assert found.concentration("b", 1.0) == pytest.approx(1)
    top = np.sort(each)[-400:].sum() / each.sum()
    assert found.concentration("b") == pytest.approx(top, rel=0.01)
    assert "10%" not in found.summary()
    assert f"{top:.0%}" in found.summary()


# Weights.


def test_weights_of_either_sign_are_those_of_a_sum(found: FisherInformation) -> None:
    estimator, x = exact_dirichlet(), dirichlet(40_000)
    # Pairs of weight 3 and −2 of the same event, in place of one.
    twice = np.concatenate([x, x])
    weight = np.repeat([3.0, -2.0], len(x))
    signed = fisher(estimator, twice, THETA, weight=weight)
    np.testing.assert_allclose(signed.score_information, found.score_information, rtol=1e-9)
    np.testing.assert_allclose(signed.mean_score, found.mean_score, atol=1e-9)
    np.testing.assert_allclose(signed.score_error, np.sqrt(13) * found.score_error, rtol=1e-9)
    assert signed.n_effective == pytest.approx(40_000 / 13)
    # Events drawn elsewhere and weighted by the true ratio.
    elsewhere = np.array([1.6, 2.8, 3.8])
    drawn = dirichlet(40_000, 3, elsewhere)
    ratio = np.exp(TOY.log_prob(drawn, THETA) - TOY.log_prob(drawn, elsewhere))
    weighted = fisher(estimator, drawn, THETA, weight=ratio)
    assert np.abs((weighted.score_information - EXACT) / weighted.score_error).max() < 4


# Second derivatives.


@pytest.mark.parametrize("name", ["relu", "selu", "leaky_relu", "hard_tanh", "relu6"])
def test_slopes_that_jump_are_found(name: str) -> None:
    assert slope_jumps(getattr(jax.nn, name))


def test_smooth_slopes_are_left_alone() -> None:
    for name in ("silu", "softplus", "gelu", "elu"):
        assert not slope_jumps(getattr(jax.nn, name)), name
    assert not slope_jumps(jnp.tanh)
    assert not slope_jumps(jax.nn.softmax)  # not a function of one number


class Kinked(eqx.Module):
    """−Σ|x − θ|, with the jump of its slope hidden in code."""

    strength: jax.Array

    def __call__(self, both: jax.Array) -> jax.Array:
        x, theta = jnp.split(both, 2)
        return (-self.strength * jnp.sum(jnp.abs(x - theta)))[None]


def test_a_jump_hidden_in_code_is_noticed_and_differences_are_right() -> None:
    estimator = exact_normal(dim=2)
    model = eqx.tree_at(lambda m: m.network, estimator.model, Kinked(jnp.ones(1)))
    estimator = dataclasses.replace(estimator, model=model)
    x = np.random.default_rng(2).normal(size=(20_000, 2))
    laplace = fisher(estimator, x, [0.0, 0.0])
    assert not laplace.automatic
    assert "differ from numerical" in laplace.remark
    assert "differences of the mean score" in laplace.summary()
    # φ = −|x − θ|: ŝ = sign(x − θ), E[ŝŝᵀ] = 1, and −dE[ŝ]/dθ = 2 p(0).
    np.testing.assert_allclose(laplace.score_information.diagonal(), 1, rtol=1e-6)
    pulls = laplace.hessian_information.diagonal() - 2 / np.sqrt(2 * np.pi)
    assert np.abs(pulls / laplace.hessian_error.diagonal()).max() < 4
    assert laplace.hessian_error.max() < 0.06
    # The median's variance, π/2.
    np.testing.assert_allclose(laplace.sandwich().diagonal(), np.pi / 2, rtol=0.15)


@pytest.mark.parametrize(
    ("network", "automatic"),
    [
        (ist.MLP((8,)), True),
        (ist.Residual(8, 1, activation=jax.nn.selu), False),
        (ist.TwoTower(4, ist.MLP((8,), activation=jax.nn.relu), ist.MLP((8,))), True),
        (ist.TwoTower(4, ist.MLP((8,)), ist.MLP((8,), activation=jax.nn.relu)), False),
    ],
)
def test_only_what_theta_passes_through_must_be_smooth(network, *, automatic: bool) -> None:
    estimator = random_estimator(ist.Potential(network, ist.Raw()))
    x = np.random.default_rng(1).uniform(-2, 2, (2048, 3))
    curvature = Curvature(estimator, x, np.array([2.0, 0.5]))
    assert curvature.automatic is automatic
    assert ("activation" in curvature.reason) is not automatic


def test_automatic_second_derivatives_are_differences_of_scores() -> None:
    estimator = random_estimator(ist.Potential(ist.MLP((8, 8)), ist.Standardised()))
    x = np.random.default_rng(1).uniform(-2, 2, (2048, 3)).astype(np.float32)
    theta = np.array([2.0, 0.5])
    curvature = Curvature(estimator, x, theta)
    (part,) = curvature
    np.testing.assert_allclose(part.score, estimator.score(x, theta), rtol=2e-3, atol=2e-4)
    curvature.automatic = False
    (differences,) = curvature
    scale = np.abs(part.curvature).max()
    np.testing.assert_allclose(differences.curvature, part.curvature, atol=2e-2 * scale)
    np.testing.assert_allclose(
        differences.curvature.mean(axis=0), part.curvature.mean(axis=0), atol=1e-3 * scale
    )


def test_a_direct_score_network_has_both_forms() -> None:
    estimator = random_estimator(ist.DirectScore(ist.MLP((8,)), ist.Raw()))
    x = np.random.default_rng(1).uniform(-2, 2, (2048, 3))
    theta = np.array([2.0, 0.5])
    information = fisher(estimator, x, theta)
    score = estimator.score(x, theta)
    np.testing.assert_allclose(information.score_information, score.T @ score / 2048, rtol=1e-4)
    shifts = 1e-2 * np.eye(2)
    slopes = [
        (estimator.score(x, theta + shift) - estimator.score(x, theta - shift)).mean(0) / 2e-2
        for shift in shifts
    ]
    symmetric = -(np.array(slopes) + np.array(slopes).T) / 2
    np.testing.assert_allclose(information.hessian_information, symmetric, rtol=1e-2, atol=1e-2)


# Matrices as vectors.


def test_packing_and_congruence() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 4))
    matrix = matrix + matrix.T
    np.testing.assert_array_equal(unpack_triangle(pack_triangle(matrix), 4), matrix)
    transform = rng.normal(size=(2, 4))
    np.testing.assert_allclose(
        unpack_triangle(map_congruence(transform) @ pack_triangle(matrix), 2),
        transform @ matrix @ transform.T,
    )


def test_moments_in_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    values, weight = rng.normal(1e4, 1, (1000, 3)), rng.normal(1, 1, 1000)
    moments = Moments(3)
    for part in np.split(np.arange(1000), [100, 650]):
        moments.add(values[part], weight[part])
    mean = weight @ values / weight.sum()
    away = (values - mean) * weight[:, None] / weight.sum()
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(moments.covariance, away.T @ away, rtol=1e-9, atol=1e-12)


# Bad input.

X = dirichlet(100)


def test_events_outside_the_trained_range_and_few_events_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="outside the range of x"):
        fisher(exact_dirichlet(), np.tile(dirichlet(40), (100, 1)) + 1, THETA)
    with pytest.warns(UserWarning, match="few for the 12 numbers"):
        fisher(exact_dirichlet(), X, THETA)


def test_parameters_and_levels_that_do_not_exist(found: FisherInformation) -> None:
    with pytest.raises(ValueError, match=r"'d' is no parameter; they are a, b, c \(0 to 2\)"):
        found.project("d")
    with pytest.raises(ValueError, match="3 is no parameter"):
        found.profile([0, 3])
    with pytest.raises(ValueError, match="each only once"):
        found.profile(["a", "a"])
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        found.ellipse("a", "b", 68)
    with pytest.raises(ValueError, match="n_events must be a positive"):
        found.bound(0)
    with pytest.raises(ValueError, match="direction must be"):
        found.per_event([1.0, 2.0])
    with pytest.raises(ValueError, match="fraction must be a finite number above 0"):
        found.concentration("a", 0)


def test_undetermined_parameters_are_named() -> None:
    flat = exact_normal(dim=2)
    x = np.random.default_rng(2).normal(size=(2000, 2))
    information = fisher(flat, x, [0.0, 0.0])
    blind = np.array([[1.0, 1.0], [1.0, 1.0]])
    broken = dataclasses.replace(information, score_information=blind)
    with pytest.raises(ValueError, match=r"not positive along .*theta0 .*theta1"):
        broken.bound()
    assert broken.project(0).bound().item() == pytest.approx(1)


def test_a_simulated_response_is_added() -> None:
    toy, theta = ist.toys.Dirichlet(), np.array([2.0, 1.5, 3.0])
    wrong = exact_dirichlet(low=0.5, stretch=0.8)
    response = score_response(wrong, theta, toy, n=20_000, seed=1)
    found = fisher(wrong, toy, theta, n=20_000, seed=1).add_response(response)
    assert found.response is not None
    # A factor in front of the score changes nothing in what it tells.
    exact = np.diag(toy.fisher(theta))
    error = np.diag(found.response.information_error)
    assert np.all(np.abs(np.diag(found.response.information) - exact) < 4 * error + 0.01 * exact)
    assert np.all(np.diag(found.score_information) < 0.75 * exact)
    assert "Seen as a statistic" in found.summary()
    elsewhere = dataclasses.replace(response, theta=theta + 1)
    with pytest.raises(ValueError, match=r"must be that of a, b, c at θ = .* at \[3.0, 2.5, 4.0\]"):
        found.add_response(elsewhere)
