"""The identities of a potential hold exactly, for every network, feature and dimension.

They are checked in float64, where rounding cannot hide a defect, and again in the float32 that
models compute in. Networks have random biases, because zero biases hide mistakes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inferostatic as ist
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.direct import RatioModel, ScoreModel
from inferostatic.models.potential import FORWARD_SCORE_DIM, PotentialModel
from inferostatic.supervision.records import Capability
from parameters import slow_but
from random_models import as_array, in_float64, random_model

Array = jax.Array
EPS = float(np.finfo(np.float32).eps)
VERTICES = 4

exactly_repeated = settings(derandomize=True, deadline=None, max_examples=15)
seeds = st.integers(0, 2**31 - 1)


class Residual(eqx.Module):
    """A network that a user might write: a skip connection and a layer of gates."""

    first: eqx.nn.Linear
    gate: eqx.nn.Linear
    last: eqx.nn.Linear

    def __call__(self, a: Array) -> Array:
        hidden = jnp.tanh(self.first(a))
        hidden = hidden + hidden * jax.nn.sigmoid(self.gate(a))
        return self.last(jnp.concatenate([hidden, a]))


def users_network(in_size: int, out_size: int, *, key: Array) -> Residual:
    keys = jax.random.split(key, 3)
    return Residual(
        eqx.nn.Linear(in_size, 12, key=keys[0]),
        eqx.nn.Linear(in_size, 12, key=keys[1]),
        eqx.nn.Linear(12 + in_size, out_size, key=keys[2]),
    )


@dataclass(frozen=True)
class Case:
    """An architecture, the dimensions it is tried in, and whether its potential is smooth in θ."""

    architecture: AbstractArchitecture
    x_dim: int
    theta_dim: int
    smooth: bool = True


def small(activation: Callable[[Array], Array], *, output_bias: bool = False) -> ist.MLP:
    return ist.MLP((12, 10), activation=activation, output_bias=output_bias)


CASES = {
    "paper": Case(ist.paper_network, 3, 3, smooth=False),
    "silu_quantile": Case(ist.Potential(small(jax.nn.silu)), 4, 2),
    "tanh_standardised": Case(ist.Potential(small(jnp.tanh), ist.Standardised()), 3, 3),
    "selu_quantile": Case(ist.Potential(small(jax.nn.selu)), 5, 1, smooth=False),
    "silu_raw_theta_bias": Case(
        ist.Potential(small(jax.nn.silu, output_bias=True), ist.Quantile(), ist.Raw()), 5, 1
    ),
    "users_own": Case(ist.Potential(users_network, ist.Quantile(segments=5)), 4, 2),
}
every_case = pytest.mark.parametrize("name", CASES)


def build(architecture: AbstractArchitecture, x_dim: int, theta_dim: int, seed: int) -> Any:
    """A model with features learned from skewed x, and random weights and biases."""
    x = np.random.default_rng(seed).lognormal(size=(400, x_dim))
    return random_model(architecture, x, theta_dim, seed)


def points(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One event and the corners of a polygon in θ, around the region the model was made for."""
    rng = np.random.default_rng([seed, 1])
    return rng.lognormal(size=case.x_dim), rng.normal(scale=1.5, size=(VERTICES, case.theta_dim))


def in_float32(pair: tuple[np.ndarray, np.ndarray]) -> tuple[Array, Array]:
    return as_array(pair[0]), as_array(pair[1])


def quadrature(panels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss-Legendre nodes and weights on [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(order)
    nodes = ((np.arange(panels)[:, None] + (node + 1) / 2) / panels).ravel()
    return nodes, np.tile(weight / 2 / panels, panels)


SMOOTH = quadrature(8, 16)
#: The slope of SELU jumps, so its quadrature converges only with the number of panels.
KINKED = quadrature(1000, 2)


@eqx.filter_jit
def score_on_edges(model: Any, x: Array, corners: Array, nodes: Array) -> Array:
    """The score at `nodes` of every edge of a closed polygon."""

    def edge(start: Array, end: Array) -> Array:
        path = start[None, :] + nodes[:, None] * (end - start)[None, :]
        return jax.vmap(model.score, in_axes=(None, 0))(x, path)

    return jax.vmap(edge)(corners, jnp.roll(corners, -1, axis=0))


def circulation(
    model: Any, x: Array, corners: Array, rule: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float]:
    """∮ s·dθ around a polygon, and ∮ |s||dθ| as its scale."""
    nodes, weights = rule
    scores = np.asarray(score_on_edges(model, x, corners, as_array(nodes, x.dtype)), np.float64)
    vertices = np.asarray(corners, np.float64)
    legs = np.roll(vertices, -1, axis=0) - vertices
    sizes = np.linalg.norm(scores, axis=2) * np.linalg.norm(legs, axis=1)[:, None]
    along = np.einsum("n,end,ed->", weights, scores, legs)
    return float(along), float(np.sum(weights * sizes))


@every_case
@exactly_repeated
@given(seed=seeds)
def test_the_score_has_no_circulation(name: str, seed: int) -> None:
    case = CASES[name]
    model = build(case.architecture, case.x_dim, case.theta_dim, seed)
    with jax.enable_x64(new_val=True):
        x, corners = (as_array(value, np.float64) for value in points(case, seed))
        rule = SMOOTH if case.smooth else KINKED
        around, size = circulation(in_float64(model), x, corners, rule)
    assert abs(around) <= (1e-8 if case.smooth else 2e-3) * size


@exactly_repeated
@given(seed=seeds)
def test_the_score_has_no_circulation_in_float32(seed: int) -> None:
    case = CASES["silu_quantile"]
    model = build(case.architecture, case.x_dim, case.theta_dim, seed)
    around, size = circulation(model, *in_float32(points(case, seed)), SMOOTH)
    assert abs(around) <= 20 * EPS * size


def test_a_direct_score_network_circulates() -> None:
    """The control: the same quadrature finds the circulation of a field that has one."""
    case = CASES["silu_quantile"]
    model = build(ist.DirectScore(small(jnp.tanh)), case.x_dim, case.theta_dim, 1)
    around, size = circulation(model, *in_float32(points(case, 1)), SMOOTH)
    assert abs(around) > 0.01 * size


@eqx.filter_jit
def answers(model: Any, x: Array, theta: Array, step: Array) -> dict[str, Array]:
    """Everything the ratio identities are about, from one model."""
    a, b, c = theta[0], theta[1], theta[2]
    moves = step * jnp.eye(len(a), dtype=a.dtype)
    moved = jax.vmap(lambda move: model.log_ratio(x, a + move, b))
    return {
        "ab": model.log_ratio(x, a, b),
        "ba": model.log_ratio(x, b, a),
        "bc": model.log_ratio(x, b, c),
        "ac": model.log_ratio(x, a, c),
        "aa": model.log_ratio(x, a, a),
        "phi": jax.vmap(model.potential, in_axes=(None, 0))(x, theta),
        "phis": model.potentials(x, theta),
        "table": model.potential_table(jnp.stack([x, x]), jnp.stack([theta, theta], axis=1)),
        "batch": model.log_ratios(jnp.stack([x, x]), jnp.stack([a, b]), jnp.stack([b, c])),
        "score_a": model.score(x, a),
        "score_b": model.score(x, b),
        "gradient_0": jax.grad(model.log_ratio, argnums=1)(x, a, b),
        "gradient_1": jax.grad(model.log_ratio, argnums=2)(x, a, b),
        "slope": (moved(moves) - moved(-moves)) / (2 * step),
    }


def answers_in(dtype: Any, name: str, seed: int) -> dict[str, np.ndarray]:
    case = CASES[name]
    model = build(case.architecture, case.x_dim, case.theta_dim, seed)
    with jax.enable_x64(new_val=dtype is np.float64):
        used = in_float64(model) if dtype is np.float64 else model
        x, theta = (as_array(value, dtype) for value in points(case, seed))
        found = answers(used, x, theta, as_array(1e-6, dtype))
        return {key: np.asarray(value, np.float64) for key, value in found.items()}


def check_identities(got: dict[str, np.ndarray], epsilon: float) -> None:
    """Up to rounding in sums over a dozen units, a few layers deep."""
    rounding = 100 * epsilon * (1 + np.abs(got["phi"]).max())
    slopes = 1000 * epsilon * (1 + np.abs(got["score_a"]).max() + np.abs(got["score_b"]).max())
    assert got["aa"] == 0
    assert abs(got["ab"] + got["ba"]) <= rounding
    assert abs(got["ab"] + got["bc"] - got["ac"]) <= rounding
    np.testing.assert_allclose(got["phis"], got["phi"], rtol=0, atol=rounding)
    np.testing.assert_allclose(got["table"].T, [got["phi"], got["phi"]], rtol=0, atol=rounding)
    np.testing.assert_allclose(got["batch"], [got["ab"], got["bc"]], rtol=0, atol=rounding)
    assert abs(got["ab"] - (got["phi"][0] - got["phi"][1])) <= rounding
    np.testing.assert_allclose(got["gradient_0"], got["score_a"], rtol=0, atol=slopes)
    np.testing.assert_allclose(got["gradient_1"], -got["score_b"], rtol=0, atol=slopes)


@pytest.mark.parametrize("name", slow_but(CASES, "paper", "silu_quantile", "users_own"))
@exactly_repeated
@given(seed=seeds)
def test_ratios_and_scores_obey_the_identities(name: str, seed: int) -> None:
    """The slope by finite differences knows nothing of automatic differentiation."""
    got = answers_in(np.float64, name, seed)
    check_identities(got, float(np.finfo(np.float64).eps))
    size = 1 + np.abs(got["slope"]).max()
    np.testing.assert_allclose(got["score_a"], got["slope"], rtol=0, atol=1e-7 * size)


@pytest.mark.parametrize("name", ["paper", "silu_quantile"])
@exactly_repeated
@given(seed=seeds)
def test_the_identities_hold_to_float32_rounding(name: str, seed: int) -> None:
    got, exact = answers_in(np.float32, name, seed), answers_in(np.float64, name, seed)
    check_identities(got, EPS)
    size = 1 + np.abs(exact["slope"]).max()
    np.testing.assert_allclose(got["score_a"], exact["slope"], rtol=0, atol=1e-4 * size)


@pytest.mark.parametrize("factor", [3e3, 1e5])
def test_log_ratios_of_hundreds_stay_finite(factor: float) -> None:
    case = CASES["silu_quantile"]
    model = build(case.architecture, case.x_dim, case.theta_dim, 3)
    last = as_array(factor * np.asarray(model.network.layers[-1].weight))
    steep = eqx.tree_at(lambda m: m.network.layers[-1].weight, model, last)
    x, theta = in_float32(points(case, 3))
    gentle, strong = (answers(m, x, theta, as_array(1e-2)) for m in (model, steep))
    assert abs(float(strong["ab"])) > 300
    for name in gentle:
        np.testing.assert_allclose(strong[name], factor * gentle[name], rtol=5e-3, err_msg=name)


FORWARD = {
    "paper": ist.paper_network,
    "silu_raw": ist.Potential(small(jax.nn.silu), ist.Raw(), ist.Raw()),
    "tanh_quantile": ist.Potential(small(jnp.tanh)),
    "selu_standardised": ist.Potential(small(jax.nn.selu), ist.Standardised()),
    "softplus_output_bias": ist.Potential(small(jax.nn.softplus, output_bias=True)),
    "gelu_one_layer": ist.Potential(ist.MLP((12,), activation=jax.nn.gelu)),
    "own_activation": ist.Potential(ist.MLP((12, 10, 5, 3), activation=lambda z: jnp.sin(2 * z))),
}
#: Every network in three dimensions, and every dimension with one network or two.
TRIED = [(name, 3) for name in FORWARD]
TRIED += [("tanh_quantile", d) for d in (1, 2, 4, 5, 6)] + [("silu_raw", 1), ("silu_raw", 6)]


@eqx.filter_jit
def both_scores(model: PotentialModel, x: Array, theta: Array) -> tuple[Array, Array, Array]:
    return (
        jax.vmap(lambda a, b: ist.forward_score(model, a, b))(x, theta),
        jax.vmap(model.score)(x, theta),
        jax.vmap(jax.grad(model.potential, argnums=1))(x, theta),
    )


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("name", "theta_dim"), TRIED)
def test_the_forward_pass_of_appendix_b_is_the_gradient(name: str, theta_dim: int) -> None:
    x_dim = max(6 - theta_dim, 1)
    model = build(FORWARD[name], x_dim, theta_dim, 10 + theta_dim)
    rng = np.random.default_rng(theta_dim)
    x, theta = rng.lognormal(size=(30, x_dim)), rng.normal(size=(30, theta_dim))
    with jax.enable_x64(new_val=True):
        inputs = (as_array(x, np.float64), as_array(theta, np.float64))
        forward, chosen, gradient = both_scores(in_float64(model), *inputs)
    np.testing.assert_allclose(forward, gradient, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(chosen, gradient, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ["paper", "tanh_quantile"])
def test_the_two_scores_agree_to_float32_rounding(name: str) -> None:
    model = build(FORWARD[name], 3, 3, 5)
    rng = np.random.default_rng(6)
    inputs = as_array(rng.lognormal(size=(30, 3))), as_array(rng.normal(size=(30, 3)))
    forward, _, gradient = both_scores(model, *inputs)
    size = float(np.abs(gradient).max())
    np.testing.assert_allclose(forward, gradient, rtol=0, atol=30 * EPS * size)


def test_the_first_tangents_are_the_jacobian_of_the_theta_features() -> None:
    """B⁰: for a linear φ = w·(θ − c)/λ + v·x the score is w/λ, whatever x."""
    architecture = ist.Potential(ist.MLP((1,), activation=linear), ist.Standardised())
    shapes = architecture.shapes(
        np.array([[1.0], [3.0]]), np.array([5.0, -5.0]), np.array([0.5, 4.0])
    )
    model = architecture.build(shapes, key=jax.random.key(0))
    layers = model.network.layers
    weights = [jnp.asarray([[7.0, 3.0, 2.0]]), jnp.asarray([[1.0]])]
    network = eqx.tree_at(
        lambda m: [m.layers[0].weight, m.layers[1].weight], model.network, weights
    )
    assert len(layers) == 2
    model = eqx.tree_at(lambda m: m.network, model, network)
    score = ist.forward_score(model, jnp.asarray([2.5]), jnp.asarray([1.0, 2.0]))
    np.testing.assert_allclose(score, [3.0 / 0.5, 2.0 / 4.0], rtol=1e-6)


def linear(z: Array) -> Array:
    return z


def test_forward_score_needs_a_feed_forward_network() -> None:
    model = build(CASES["users_own"].architecture, 2, 3, 1)
    with pytest.raises(TypeError, match="feed-forward network such as"):
        ist.forward_score(model, jnp.zeros(2), jnp.zeros(3))


def test_both_ways_to_the_score_are_taken() -> None:
    """Otherwise one of the two would never be compared with the other above."""
    assert 1 <= FORWARD_SCORE_DIM < 6


def test_capabilities_are_what_the_models_have() -> None:
    potential = build(ist.Potential(small(jnp.tanh)), 1, 1, 0)
    score = build(ist.DirectScore(small(jnp.tanh)), 1, 1, 0)
    ratio = build(ist.DirectRatio(small(jnp.tanh)), 1, 1, 0)
    assert isinstance(potential, PotentialModel)
    assert isinstance(score, ScoreModel)
    assert isinstance(ratio, RatioModel)
    assert potential.capabilities == {
        Capability.POTENTIAL,
        Capability.SCORE,
        Capability.LOG_RATIO,
    }
    assert score.capabilities == {Capability.SCORE}
    assert ratio.capabilities == {Capability.LOG_RATIO}
    for model in (potential, score, ratio):
        for capability in Capability:
            assert hasattr(model, capability.value) == (capability in model.capabilities)
