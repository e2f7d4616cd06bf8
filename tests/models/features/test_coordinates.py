"""Natural coordinates: the right kind for each shape, monotone, smooth, and never collapsing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit

import inferostatic as ist
from inferostatic.models.features.coordinates import Kind, NaturalMap, kind_of_column
from inferostatic.models.features.feature_map import Affine
from inferostatic.serial import describe, restore

N = 20_000


def columns() -> dict[str, tuple[np.ndarray, Kind]]:
    rng = np.random.default_rng(1)
    return {
        "normal": (rng.normal(3, 2, N), Kind.LINEAR),
        "uniform": (rng.uniform(size=N), Kind.LINEAR),
        "narrow positive": (rng.gamma(5, size=N), Kind.LINEAR),
        "counts": (rng.poisson(4, N).astype(float), Kind.LINEAR),
        "power at zero": (rng.beta(0.2, 5, N), Kind.LOG),
        "lognormal": (rng.lognormal(5, 2, N), Kind.LOG),
        "negative lognormal": (-rng.lognormal(5, 2, N), Kind.LOG_NEGATIVE),
        "many zeros": (rng.lognormal(0, 2, N) * (rng.uniform(size=N) < 0.7), Kind.LOG),
        "fraction at both ends": (rng.beta(0.1, 0.1, N).clip(1e-30, 1 - 1e-7), Kind.LOG_ODDS),
        "heavy tails": (rng.standard_t(1.5, N), Kind.ASINH),
        "constant": (np.full(N, 7.0), Kind.LINEAR),
        "two values": ((rng.uniform(size=N) < 0.001).astype(float), Kind.LINEAR),
    }


@pytest.mark.parametrize("name", list(columns()))
def test_each_shape_gets_its_coordinate(name: str) -> None:
    column, kind = columns()[name]
    assert kind_of_column(column) is kind


def test_the_map_is_what_it_says() -> None:
    """Each kind against its formula, up to the centring and scaling on the training rows."""
    formulas = {
        "lognormal": np.log,
        "negative lognormal": lambda x: -np.log(-x),
        "fraction at both ends": logit,
        "heavy tails": lambda x: np.arcsinh(
            (x - np.median(x)) / np.subtract(*np.quantile(x, [0.75, 0.25]))
        ),
    }
    rows = np.stack([columns()[name][0] for name in formulas], axis=1).astype(np.float32)
    learned = ist.Natural().learn(rows)
    assert isinstance(learned, NaturalMap)
    found = np.asarray(jax.vmap(learned)(jnp.asarray(rows)))
    for j, formula in enumerate(formulas.values()):
        u = formula(rows[:, j].astype(np.float64))
        np.testing.assert_allclose(found[:, j], (u - u.mean()) / u.std(), atol=2e-3)


def test_ordinary_columns_are_only_standardised() -> None:
    rows = np.random.default_rng(2).normal(size=(500, 3))
    assert isinstance(ist.Natural().learn(rows), Affine)


@pytest.mark.parametrize("choice", [ist.Natural(), ist.Quantile()], ids=["natural", "quantile"])
@pytest.mark.parametrize(
    "name", ["power at zero", "lognormal", "negative lognormal", "heavy tails", "normal"]
)
def test_events_beyond_the_training_range_do_not_collapse(
    choice: ist.Natural | ist.Quantile, name: str
) -> None:
    column = columns()[name][0]
    learned = choice.learn(column[:, None])
    size = np.geomspace(1.5, 1e4, 12)
    low, high = column.min(), column.max()
    above = high + (abs(high) + 1) * size if high > 0 else high / size
    below = low + (-abs(low) - 1) * size if low < 0 else low / size
    for outside in (above, below):
        beyond = np.asarray(jax.vmap(learned)(jnp.asarray(outside[:, None], jnp.float32)))[:, 0]
        assert np.isfinite(beyond).all()
        steps = np.diff(beyond) * np.sign(np.diff(outside))
        assert (steps > 0).all()


@pytest.mark.parametrize("name", ["power at zero", "fraction at both ends", "heavy tails"])
def test_the_map_is_monotone_and_its_slope_is_right(name: str) -> None:
    column = np.sort(columns()[name][0])[:: N // 200].astype(np.float32)
    learned = ist.Natural().learn(columns()[name][0][:, None])
    slope = jax.vmap(jax.grad(lambda value: learned(value[None])[0]))(jnp.asarray(column))
    assert (np.asarray(slope) > 0).all()
    with jax.enable_x64(True):  # noqa: FBT003
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), learned)
        value = column.astype(np.float64)
        step = 1e-6 * np.minimum(np.abs(value), np.abs(1 - value))
        ahead, behind = (
            np.asarray(jax.vmap(wide)(jnp.asarray((value + s)[:, None])))[:, 0]
            for s in (step, -step)
        )
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-3)


def test_zeros_and_ones_stay_finite_and_apart() -> None:
    column, _ = columns()["many zeros"]
    learned = ist.Natural().learn(column[:, None])
    smallest = column[column > 0].min()
    zero, first = (float(learned(jnp.asarray([value]))[0]) for value in (0.0, smallest))
    assert np.isfinite(zero)
    assert zero < first
    column, _ = columns()["fraction at both ends"]
    learned = ist.Natural().learn(column[:, None])
    below = np.nextafter(np.float32(1), np.float32(0))
    last, one = (float(learned(jnp.asarray([value]))[0]) for value in (below, 1.0))
    assert np.isfinite(one)
    assert last < one


def test_units_do_not_matter() -> None:
    column = columns()["lognormal"][0][:, None]
    one, two = (ist.Natural().learn(factor * column) for factor in (1.0, 1000.0))
    x = column[:500].astype(np.float32)
    first, second = (
        np.asarray(jax.vmap(learned)(jnp.asarray(factor * x, jnp.float32)))
        for learned, factor in ((one, 1.0), (two, 1000.0))
    )
    np.testing.assert_allclose(first, second, atol=1e-4)


@pytest.mark.parametrize("choice", [ist.Natural(), ist.Quantile()], ids=["natural", "quantile"])
def test_what_was_learned_survives_its_description_exactly(
    choice: ist.Natural | ist.Quantile,
) -> None:
    rows = np.stack([columns()[n][0] for n in ("lognormal", "heavy tails", "normal")], axis=1)
    learned = choice.learn(rows)
    again = restore(describe(learned))
    x = jnp.asarray(rows[:1000], jnp.float32)
    np.testing.assert_array_equal(jax.vmap(learned)(x), jax.vmap(again)(x))
