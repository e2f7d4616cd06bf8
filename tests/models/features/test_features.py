"""Feature maps: monotone, finite everywhere, and harmless to units."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import ndtr, ndtri

import inferostatic as ist
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.features.features import Affine, IdentityMap
from inferostatic.serial import describe, restore

Array = jax.Array


def on_rows(feature_map: Any, rows: Any) -> np.ndarray:
    """The map of every row, in float32."""
    values = jnp.asarray(np.asarray(rows, np.float32))
    return np.asarray(_vectorised(feature_map, values), np.float64)


@eqx.filter_jit
def _vectorised(feature_map: Any, values: Array) -> Array:
    return jax.vmap(feature_map)(values)


def learned(column: Any, segments: int = 32) -> Any:
    return ist.Quantile(segments=segments).learn(np.asarray(column)[:, None])


def mapped(column: Any, values: Any, segments: int = 32) -> np.ndarray:
    """Normal scores of `values` under the map learned from `column`."""
    return on_rows(learned(column, segments), np.asarray(values)[:, None])[:, 0]


def test_raw_features_are_the_values() -> None:
    rows = np.random.default_rng(1).normal(size=(5, 2))
    assert isinstance(ist.Raw().learn(rows), IdentityMap)
    np.testing.assert_array_equal(on_rows(ist.Raw().learn(rows), rows), rows.astype(np.float32))


def test_standardised_features_have_mean_zero_and_deviation_one() -> None:
    rows = np.random.default_rng(1).normal([100.0, -3.0], [20.0, 1e-3], size=(2000, 2))
    values = on_rows(ist.Standardised().learn(rows), rows)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=2e-4)
    np.testing.assert_allclose(values.std(axis=0), 1, rtol=2e-4)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.3, 1e-20, 3e7, 1e20])
def test_a_constant_column_is_only_centred(constant: float) -> None:
    """The standard deviation of a constant column is often not 0 but rounding, such as 1e-17."""
    column = np.full((999, 1), constant)
    step = max(abs(constant), 1.0)
    beside = np.array([[constant], [constant + step]])
    for features in (ist.Standardised(), ist.Quantile()):
        there, further = on_rows(features.learn(column), beside)[:, 0]
        assert there == pytest.approx(0, abs=1e-6 * step)
        assert further == pytest.approx(step, rel=1e-5)


def test_normal_values_are_their_own_normal_scores() -> None:
    column = np.random.default_rng(2).normal(size=100_000)
    grid = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(mapped(column, grid), grid, atol=0.06)


def test_uniform_values_become_normal_scores() -> None:
    column = np.random.default_rng(3).uniform(size=100_000)
    grid = np.linspace(0.005, 0.995, 99)
    np.testing.assert_allclose(mapped(column, grid, 64), ndtri(grid), atol=0.05)


def test_the_map_interpolates_the_empirical_quantiles() -> None:
    """Against np.interp through knots at equal steps of the normal score."""
    column = np.random.default_rng(4).lognormal(sigma=0.5, size=5000)
    edge = ndtri(1 - 8 / 5000)
    scores = np.linspace(-edge, edge, 33)
    knots = np.quantile(column, ndtr(scores))
    inside = np.geomspace(knots[0], knots[-1], 500)
    expected = np.interp(inside, knots, scores)
    np.testing.assert_allclose(mapped(column, inside), expected, atol=2e-4)


def test_positive_values_over_decades_are_interpolated_in_their_logarithm() -> None:
    column = np.random.default_rng(4).lognormal(sigma=3, size=5000)
    edge = ndtri(1 - 8 / 5000)
    scores = np.linspace(-edge, edge, 33)
    knots = np.log(np.quantile(column, ndtr(scores)))
    inside = np.linspace(knots[0], knots[-1], 500)
    expected = np.interp(inside, knots, scores)
    np.testing.assert_allclose(mapped(column, np.exp(inside)), expected, atol=5e-3)


def test_heavy_tails_become_visible() -> None:
    """Values of ln x far apart, but close in x, are told apart near the boundary 0."""
    column = np.random.default_rng(5).gamma(0.1, size=20_000)
    low, lower = np.quantile(column, [0.1, 0.01])
    assert low - lower < 1e-9
    first, second = mapped(column, [lower, low])
    assert second - first > 0.7


heavy = st.integers(0, 2**31 - 1).map(
    lambda seed: np.random.default_rng(seed).standard_cauchy(size=300)
)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(column=heavy)
def test_the_map_rises_everywhere(column: np.ndarray) -> None:
    """Inside the range and far beyond it: no value collapses onto another."""
    low, high = column.min(), column.max()
    span = high - low
    grid = np.unique(
        np.concatenate(
            [
                np.quantile(column, np.linspace(0, 1, 150)),
                low - span * np.array([10.0, 1.0, 0.1]),
                high + span * np.array([0.1, 1.0, 10.0]),
            ]
        )
    )
    # Of one length, so that the map is compiled once.
    scores = mapped(column, np.pad(grid, (0, 156 - len(grid)), mode="edge"))[: len(grid)]
    assert np.isfinite(scores).all()
    assert (np.diff(scores) >= -1e-5).all()
    assert scores[2] - scores[1] > 1e-3
    assert scores[-1] - scores[-2] > 1e-3


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    column=hnp.arrays(
        np.float64,
        60,
        elements=st.sampled_from([0.0, 1.0, 2.0, 5.0, -3.0, 1e-30, 1e9, 1e-3, -1e9, 0.1]),
    )
)
def test_discrete_columns_are_finite_and_ordered(column: np.ndarray) -> None:
    scores = mapped(column, np.sort(column))
    assert (np.abs(scores) < 5).all()
    assert (np.diff(scores) >= 0).all()


@pytest.mark.parametrize("odd", [-999.0, 1e6], ids=["placeholder", "spike"])
def test_a_few_extreme_events_do_not_reach_far_out(odd: float) -> None:
    """A placeholder such as −999 is beyond all other values, but by a bounded number of scores."""
    column = np.random.default_rng(6).uniform(size=10_000)
    usual = mapped(column, np.linspace(0.1, 0.9, 9))
    column[:3] = odd
    scores = mapped(column, [odd, *np.linspace(0.1, 0.9, 9)])
    np.testing.assert_allclose(scores[1:], usual, atol=0.01)
    assert 3 < np.sign(odd) * scores[0] < 8


def test_counts_are_told_apart() -> None:
    counts = np.random.default_rng(6).poisson(1.0, size=10_000)
    scores = mapped(counts, [0, 1, 2, 3])
    assert (np.diff(scores) > 0.3).all()
    two = np.random.default_rng(7).integers(0, 2, size=1000)
    first, second = mapped(two, [0, 1])
    assert second - first > 1


def test_numbers_near_the_bottom_of_float32_stay_finite() -> None:
    """Knots that float32 cannot tell apart would give infinite slopes."""
    column = 10 ** -np.random.default_rng(8).uniform(36, 47, size=5000)
    scores = mapped(column, column)
    assert np.isfinite(scores).all()
    assert scores[column > 1e-37].mean() > scores[column < 1e-38].mean()


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_tiny_sets_give_a_finite_map(n: int) -> None:
    column = np.random.default_rng(n).normal(size=n)
    for features in (ist.Standardised(), ist.Quantile()):
        values = on_rows(features.learn(column[:, None]), [[-5.0], [0.0], [5.0]])[:, 0]
        assert np.isfinite(values).all()
        assert (np.diff(values) > 0).all()


def test_the_slope_is_that_of_the_map_inside_every_segment() -> None:
    column = np.random.default_rng(9).lognormal(sigma=0.5, size=3000)
    feature_map = learned(column, 8)
    edges = np.asarray(feature_map.upper)[0]
    edges = edges[np.isfinite(edges)].astype(np.float64)
    middles = (edges[1:] + edges[:-1]) / 2
    slope = jax.vmap(jax.grad(lambda v: feature_map(v[None])[0]))(
        jnp.asarray(middles.astype(np.float32))
    )
    h = 0.2 * np.diff(edges)
    upper, lower = mapped(column, middles + h, 8), mapped(column, middles - h, 8)
    np.testing.assert_allclose(slope, (upper - lower) / (2 * h), rtol=1e-3)


def test_at_least_two_segments() -> None:
    with pytest.raises(ValueError, match="segments must be at least 2; got 1"):
        ist.Quantile(segments=1)


def test_theta_is_never_mapped_by_quantiles() -> None:
    architecture = ist.Potential(theta_features=ist.Quantile())
    with pytest.raises(TypeError, match=r"ist\.Standardised\(\) or ist\.Raw\(\)"):
        architecture.shapes(np.zeros((3, 1)), np.zeros(1), np.ones(1))


@pytest.mark.parametrize("features", [ist.Raw(), ist.Standardised(), ist.Quantile(7)])
def test_a_learned_map_survives_its_description(features: Any) -> None:
    rows = np.random.default_rng(10).lognormal(size=(500, 2))
    feature_map = features.learn(rows)
    again = restore(describe(feature_map))
    assert type(again) is type(feature_map)
    np.testing.assert_array_equal(on_rows(again, rows), on_rows(feature_map, rows))
    assert describe(restore(describe(features))) == describe(features)


def test_affine_maps_hold_float32() -> None:
    feature_map = Affine(np.array([1.0]), np.array([2.0]))
    assert feature_map.centre.dtype == jnp.float32
    assert feature_map.scale.dtype == jnp.float32


NETWORK = ist.MLP((8, 7), activation=jax.nn.silu)
IN_UNITS = {
    "potential_quantile": ist.Potential(NETWORK, ist.Quantile()),
    "potential_standardised": ist.Potential(NETWORK, ist.Standardised()),
    "direct_score": ist.DirectScore(NETWORK, ist.Quantile()),
    "direct_ratio": ist.DirectRatio(NETWORK, ist.Standardised()),
}


@pytest.mark.parametrize(
    ("x_unit", "theta_unit", "rtol"),
    [(2.0**10, 2.0**-7, 0.0), (1000.0, 0.001, 1e-4)],
    ids=["powers_of_two", "thousands"],
)
@pytest.mark.parametrize("architecture", IN_UNITS.values(), ids=IN_UNITS.keys())
def test_other_units_change_nothing_but_the_jacobian(
    architecture: AbstractArchitecture, x_unit: float, theta_unit: float, rtol: float
) -> None:
    """ln r is the same in any units of x and θ; the score is per unit of θ.

    With units that are powers of two nothing is even rounded differently.
    """
    rng = np.random.default_rng(11)
    x, theta = rng.lognormal(size=(300, 2)), rng.normal(1.0, 2.0, size=(300, 2))
    centre, scale = theta.mean(axis=0), theta.std(axis=0)
    key = jax.random.key(3)
    ours = architecture.build(architecture.shapes(x, centre, scale), key=key)
    theirs = architecture.build(
        architecture.shapes(x * x_unit, centre * theta_unit, scale * theta_unit), key=key
    )
    here = _everything(ours, _f32(x), _f32(theta), _f32(theta[::-1]))
    there = _everything(
        theirs, _f32(x * x_unit), _f32(theta * theta_unit), _f32(theta[::-1] * theta_unit)
    )
    assert here.keys() == there.keys()
    for name, value in here.items():
        jacobian = theta_unit if name == "score" else 1.0
        size = float(np.abs(value).max())
        np.testing.assert_allclose(there[name] * jacobian, value, rtol=0, atol=rtol * size)


def _f32(values: np.ndarray) -> Array:
    return jnp.asarray(values.astype(np.float32))


@eqx.filter_jit
def _everything(model: Any, x: Array, theta0: Array, theta1: Array) -> dict[str, Array]:
    offered = {capability.value for capability in model.capabilities}
    results = {}
    if "score" in offered:
        results["score"] = jax.vmap(model.score)(x, theta0)
    if "log_ratio" in offered:
        results["log_ratio"] = jax.vmap(model.log_ratio)(x, theta0, theta1)
    return results


def test_a_parameter_that_never_varies_has_a_usable_scale() -> None:
    """Its spread is rounding; dividing by it would blow the score up."""
    for architecture in (ist.Potential(NETWORK), ist.DirectScore(NETWORK)):
        shapes = architecture.shapes(
            np.random.default_rng(1).normal(size=(50, 2)),
            np.array([0.3, 1.0]),
            np.array([3e-9, 0.5]),
        )
        np.testing.assert_array_equal(shapes.theta_scale, [1.0, 0.5])
        model = architecture.build(shapes, key=jax.random.key(1))
        score = np.asarray(model.score(jnp.zeros(2), jnp.asarray([0.3, 1.2])))
        assert np.abs(score).max() < 10
