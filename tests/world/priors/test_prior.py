"""Priors: draws follow the density, the density is right, and misuse is answered by a sentence.

Truth comes from scipy.stats. Parameters are exact in float32, so that both sides mean the same law.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.world.priors.prior import AbstractPrior

pytestmark = pytest.mark.usefixtures("strict")

N = 20_000
inf = np.inf

#: A component's law as scipy.stats knows it.
Law = Any


def truncated(mean: float, std: float, low: float, high: float) -> Law:
    return stats.truncnorm((low - mean) / std, (high - mean) / std, loc=mean, scale=std)


def exponential_prior() -> ist.CustomPrior:
    rate = jnp.array([0.5, 2.0])
    return ist.CustomPrior(
        draw_one=lambda key: -jnp.log1p(-jax.random.uniform(key, (2,))) / rate,
        log_density_of=lambda theta: jnp.sum(jnp.log(rate) - rate * theta),
        low=0.0,
    )


CASES: dict[str, tuple[Callable[[], AbstractPrior], list[Law]]] = {
    "uniform": (
        lambda: ist.Uniform([-1.0, 0.5], [2.0, 5.0]),
        [stats.uniform(-1, 3), stats.uniform(0.5, 4.5)],
    ),
    "normal": (
        lambda: ist.Normal([0.0, 10.0], [1.0, 0.25]),
        [stats.norm(0, 1), stats.norm(10, 0.25)],
    ),
    "truncated on both sides": (
        lambda: ist.TruncatedNormal([0.0, 10.0], [1.0, 4.0], [-1.0, 9.0], [2.0, 20.0]),
        [truncated(0, 1, -1, 2), truncated(10, 4, 9, 20)],
    ),
    "truncated, half open": (
        lambda: ist.TruncatedNormal([1.0, 1.0, 1.0], 2.0, [0.0, -inf, -inf], [inf, 0.5, inf]),
        [truncated(1, 2, 0, inf), truncated(1, 2, -inf, 0.5), stats.norm(1, 2)],
    ),
    "truncated, mean cut away": (
        lambda: ist.TruncatedNormal([3.0, -3.0], [1.0, 2.0], [4.5, -8.0], [inf, -6.0]),
        [truncated(3, 1, 4.5, inf), truncated(-3, 2, -8, -6)],
    ),
    "truncated, far in the tails": (
        lambda: ist.TruncatedNormal([0.0, 0.0], 1.0, [4.875, -inf], [inf, -4.875]),
        [truncated(0, 1, 4.875, inf), truncated(0, 1, -inf, -4.875)],
    ),
    "product": (
        lambda: ist.Product(
            [
                ist.Uniform([0.0, 1.0], [1.0, 3.0]),
                ist.TruncatedNormal(0.0, 1.0, low=0.5),
                ist.Normal(-2.0, 0.5),
            ]
        ),
        [stats.uniform(0, 1), stats.uniform(1, 2), truncated(0, 1, 0.5, inf), stats.norm(-2, 0.5)],
    ),
    "custom": (exponential_prior, [stats.expon(scale=2.0), stats.expon(scale=0.5)]),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[AbstractPrior, list[Law], np.ndarray]:
    build, laws = request.param
    with jax.numpy_dtype_promotion("strict"):
        prior = build()
        return prior, laws, prior.sample(N, seed=20)


Case = tuple[AbstractPrior, list[Law], np.ndarray]


def test_draws_follow_the_law(case: Case) -> None:
    _, laws, sample = case
    assert sample.shape == (N, len(laws))
    assert sample.dtype == np.float64
    for column, law in zip(sample.T, laws, strict=True):
        assert stats.kstest(column, law.cdf).pvalue > 1e-3
        # A law resolved too coarsely repeats itself; float32 alone collides for a few per cent.
        assert len(np.unique(column)) > 0.9 * N


def test_components_are_independent(case: Case) -> None:
    _, _, sample = case
    correlation = np.corrcoef(stats.rankdata(sample, axis=0).T)
    off_diagonal = correlation[~np.eye(len(correlation), dtype=bool)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(N)


def test_log_prob_is_the_density(case: Case) -> None:
    prior, laws, sample = case
    tails = [law.ppf([1e-9, 1e-6, 1e-3, 0.5, 0.999, 1 - 1e-6]) for law in laws]
    theta = np.concatenate([sample[:200], np.stack(tails, axis=1)]).astype(np.float32)
    low, high = prior.support
    theta = np.clip(theta.astype(np.float64), low, high)
    expected = sum(law.logpdf(column) for law, column in zip(laws, theta.T, strict=True))
    np.testing.assert_allclose(prior.log_prob(theta), expected, rtol=1e-5, atol=1e-5)


def test_log_prob_of_one_theta_is_a_number(case: Case) -> None:
    prior, _, sample = case
    one, many = prior.log_prob(sample[0]), prior.log_prob(sample[:1])
    assert np.shape(one) == ()
    assert many.shape == (1,)
    assert many[0] == pytest.approx(one, rel=1e-6)


def test_outside_the_support_the_density_vanishes(case: Case) -> None:
    prior, _, sample = case
    low, high = prior.support
    for i in range(prior.dim):
        for edge, outward in ((low[i], -1e-2), (high[i], 1e-2)):
            if np.isfinite(edge):
                outside, on_edge = sample[:1].copy(), sample[:1].copy()
                outside[0, i], on_edge[0, i] = edge + outward, edge
                assert prior.log_prob(outside)[0] == -inf
                assert np.isfinite(prior.log_prob(on_edge)[0])
                assert not prior.contains(outside)[0]
                assert prior.contains(on_edge)[0]


def test_support_and_contains(case: Case) -> None:
    prior, laws, sample = case
    low, high = prior.support
    np.testing.assert_allclose(low, [law.support()[0] for law in laws], rtol=1e-6)
    np.testing.assert_allclose(high, [law.support()[1] for law in laws], rtol=1e-6)
    assert prior.contains(sample).all()
    assert np.isfinite(prior.log_prob(sample)).all()
    nan = np.full((1, prior.dim), np.nan)
    assert not prior.contains(nan)[0]


def test_centre_and_scale(case: Case) -> None:
    prior, laws, _ = case
    centre, scale = prior.centre_and_scale
    mean, std = np.array([law.mean() for law in laws]), np.array([law.std() for law in laws])
    if isinstance(prior, ist.CustomPrior):
        # Learned from 4096 draws.
        np.testing.assert_allclose(centre, mean, atol=float(5 * std.max() / np.sqrt(4096)))
        np.testing.assert_allclose(scale, std, rtol=0.1)
    else:
        # scipy's own moments of a far cut are good to five digits.
        np.testing.assert_allclose(centre, mean, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(scale, std, rtol=2e-5)


def test_centre_and_scale_of_a_narrow_cut() -> None:
    prior = ist.TruncatedNormal(0.0, 1.0, [-0.0009765625, 4.5], [0.0009765625, 4.501953125])
    centre, scale = prior.centre_and_scale
    # Over so short a range the density is linear in θ, with slope −θ.
    width = np.array([0.001953125, 0.001953125])
    np.testing.assert_allclose(scale, width / np.sqrt(12), rtol=1e-5)
    middle = np.array([0.0, 4.5009765625])
    np.testing.assert_allclose(centre, middle - middle * width**2 / 12, atol=1e-10)


def test_sampling_is_reproducible(case: Case) -> None:
    prior, _, sample = case
    assert (prior.sample(N, seed=20) == sample).all()
    assert (prior.sample(N, seed=21) != sample).any(axis=1).all()


def test_steps_keep_a_law_that_is_far_in_the_tails() -> None:
    prior = ist.TruncatedNormal([0.0, 0.0], 1.0, [4.875, -inf], [inf, -4.875])
    theta = jnp.asarray(prior.sample(N, seed=5), jnp.float32)
    keys = jax.random.split(jax.random.key(6), N)
    step = jax.jit(jax.vmap(lambda t, k: prior.step(t, jnp.asarray(0.3), key=k)))
    moved = np.asarray(step(theta, keys), np.float64)
    for column, law in zip(moved.T, CASES["truncated, far in the tails"][1], strict=True):
        assert stats.kstest(column, law.cdf).pvalue > 1e-3
        assert len(np.unique(column)) > 0.9 * N


# Discrete laws.


def test_discrete_draws_follow_the_probabilities() -> None:
    points, probability = [[0.0, 1.0], [1.0, 1.0], [2.0, 5.0], [0.0, 3.0]], [1.0, 2.0, 4.0, 1.0]
    prior = ist.Discrete(points, probability)
    sample = prior.sample(N, seed=8)
    counts = [(sample == point).all(axis=1).sum() for point in points]
    assert sum(counts) == N
    assert stats.chisquare(counts, N * np.array(probability) / 8).pvalue > 1e-3
    np.testing.assert_allclose(prior.log_prob(points), np.log(np.array(probability) / 8), rtol=1e-6)
    assert prior.log_prob([0.0, 1.5]) == -inf
    centre, scale = prior.centre_and_scale
    mean = np.average(points, axis=0, weights=probability)
    variance = np.average((np.array(points) - mean) ** 2, axis=0, weights=probability)
    np.testing.assert_allclose(centre, mean, rtol=1e-6)
    np.testing.assert_allclose(scale, np.sqrt(variance), rtol=1e-6)
    low, high = prior.support
    assert (low.tolist(), high.tolist()) == ([0.0, 1.0], [2.0, 5.0])


def test_discrete_points_are_equally_likely_by_default_and_repeats_add_up() -> None:
    prior = ist.Discrete([[1.0], [1.0], [2.0]])
    np.testing.assert_allclose(prior.log_prob([[1.0], [2.0]]), np.log([2 / 3, 1 / 3]), rtol=1e-6)


def test_discrete_tells_tiny_points_from_zero() -> None:
    prior = ist.Discrete([[0.0], [1e-9]])
    np.testing.assert_allclose(prior.log_prob([[0.0], [1e-9]]), np.log(0.5), rtol=1e-6)


def test_a_single_point_and_a_constant_component_have_scale_one() -> None:
    assert ist.Discrete([[3.0, 4.0]]).centre_and_scale[1].tolist() == [1.0, 1.0]
    constant = ist.CustomPrior(
        lambda key: jnp.stack([jax.random.uniform(key), jnp.float32(2)]),
        lambda theta: jnp.float32(0) * theta[0],
    )
    centre, scale = constant.centre_and_scale
    assert centre[1] == 2
    assert scale[1] == 1


# Names.


def test_names() -> None:
    assert ist.Uniform([0, 0], [1, 1]).names == ("theta0", "theta1")
    assert ist.Uniform(0, 1, names="mass").names == ("mass",)
    assert ist.Normal([0, 0], 1, names=["a", "b"]).names == ("a", "b")
    assert ist.Discrete([[1.0]], names=["a"]).names == ("a",)
    assert ist.TruncatedNormal(0, 1, low=0, names=["a"]).names == ("a",)
    assert exponential_prior().names == ("theta0", "theta1")


def test_a_product_keeps_the_names_of_its_parts_unless_they_clash() -> None:
    first, second = ist.Uniform(0, 1, names=["a"]), ist.Normal(0, 1, names=["b"])
    assert ist.Product([first, second]).names == ("a", "b")
    assert ist.Product([first, first]).names == ("theta0", "theta1")
    assert ist.Product([first, first], names=["p", "q"]).names == ("p", "q")
    assert ist.Product([first, ist.Uniform([0, 0], [1, 1])]).dim == 3


def test_numbers_are_repeated_for_every_parameter() -> None:
    low, high = ist.Uniform(0, [1, 2, 3]).support
    assert low.tolist() == [0, 0, 0]
    assert high.tolist() == [1, 2, 3]


# Misuse.


def traced_draw(key: jax.Array) -> jax.Array:
    return jax.random.normal(key, (2,))


def flat(theta: jax.Array) -> jax.Array:
    return jnp.zeros((), theta.dtype)


UNIFORM_2 = ist.Uniform([0, 0], [1, 1], names=["a", "b"])

MISUSES: dict[str, tuple[Callable[[], object], type[Exception], list[str]]] = {
    "edges in the wrong order": (
        lambda: ist.Uniform([0, 3], [1, 2]),
        ValueError,
        ["low must lie below high", "low=[0. 3.]", "high=[1. 2.]", "Swap"],
    ),
    "equal edges": (lambda: ist.Uniform(1, 1), ValueError, ["low must lie below high"]),
    "edges equal in float32": (lambda: ist.Uniform(1, 1 + 1e-9), ValueError, ["also in float32"]),
    "infinite edge": (lambda: ist.Uniform(0, inf), ValueError, ["finite edges", "Normal"]),
    "NaN edge": (lambda: ist.Uniform(np.nan, 1), ValueError, ["finite edges", "nan"]),
    "edge beyond float32": (lambda: ist.Uniform(0, 1e300), ValueError, ["float32's range"]),
    "width beyond float32": (lambda: ist.Uniform(-3e38, 3e38), ValueError, ["float32's range"]),
    "unequal lengths": (
        lambda: ist.Uniform([0, 0], [1, 1, 1]),
        ValueError,
        ["one value for each parameter", "low has 2, high has 3"],
    ),
    "table of edges": (
        lambda: ist.Uniform([[0, 0]], 1),
        ValueError,
        ["list of d numbers", "(1, 2)"],
    ),
    "no parameters": (lambda: ist.Uniform([], []), ValueError, ["list of d numbers", "(0,)"]),
    "text": (lambda: ist.Uniform("a", "b"), TypeError, ["low must hold numbers"]),
    "too few names": (
        lambda: ist.Uniform([0, 0], [1, 1], names=["a"]),
        ValueError,
        ["2 columns", "1 name was given", "('a',)"],
    ),
    "repeated names": (
        lambda: ist.Normal([0, 0], 1, names=["a", "a"]),
        ValueError,
        ["names must differ", "('a', 'a')"],
    ),
    "names that are no list": (
        lambda: ist.Normal([0, 0], 1, names=7),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["list of 2 strings", "got 7"],
    ),
    "zero width": (lambda: ist.Normal(0, 0), ValueError, ["positive", "[0.]"]),
    "negative width": (lambda: ist.Normal([0, 0], [1, -2]), ValueError, ["positive", "-2."]),
    "infinite width": (lambda: ist.Normal(0, inf), ValueError, ["positive and finite", "inf"]),
    "NaN mean": (lambda: ist.Normal(np.nan, 1), ValueError, ["means must be finite", "nan"]),
    "infinite mean": (
        lambda: ist.TruncatedNormal(inf, 1, 0, 1),
        ValueError,
        ["means must be finite", "inf"],
    ),
    "cuts in the wrong order": (
        lambda: ist.TruncatedNormal(0, 1, 2, 1),
        ValueError,
        ["low must lie below high", "low=[2.]"],
    ),
    "zero width before the cut": (
        lambda: ist.TruncatedNormal(0, 0, -1, 1),
        ValueError,
        ["positive", "[0.]"],
    ),
    "cut too far out": (
        lambda: ist.TruncatedNormal([0, 0], 1, [0, 5.5], 7),
        ValueError,
        ["5 standard deviations", "Uniform"],
    ),
    "cut too narrow": (
        lambda: ist.TruncatedNormal(0, 1, 0, 1e-4),
        ValueError,
        ["narrower than 0.001", "Uniform"],
    ),
    "empty product": (lambda: ist.Product([]), TypeError, ["non-empty list of priors"]),
    "product of numbers": (
        lambda: ist.Product([1.0]),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["list of priors", "got [1.0]"],
    ),
    "product of one prior without a list": (
        lambda: ist.Product(UNIFORM_2),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["list of priors", "Uniform"],
    ),
    "product with a wrong number of names": (
        lambda: ist.Product([UNIFORM_2], names=["a"]),
        ValueError,
        ["2 columns", "1 name"],
    ),
    "flat list of points": (
        lambda: ist.Discrete([1.0, 2.0]),
        ValueError,
        ["(points, parameters)", "(2,)", "points[:, None]"],
    ),
    "no points": (lambda: ist.Discrete(np.zeros((0, 2))), ValueError, ["at least one point"]),
    "NaN points": (lambda: ist.Discrete([[1.0], [np.nan]]), ValueError, ["points", "row 1"]),
    "too many probabilities": (
        lambda: ist.Discrete([[1.0], [2.0]], [1, 1, 1]),
        ValueError,
        ["2 points need 2 probabilities", "(3,)"],
    ),
    "vanishing probability": (
        lambda: ist.Discrete([[1.0], [2.0]], [1, 0]),
        ValueError,
        ["positive, finite probability", "[0.0] in row 1", "Drop"],
    ),
    "negative probability": (
        lambda: ist.Discrete([[1.0], [2.0]], [-1, 1]),
        ValueError,
        ["[-1.0] in row 0"],
    ),
    "infinite probability": (
        lambda: ist.Discrete([[1.0], [2.0]], [1, inf]),
        ValueError,
        ["[inf] in row 1"],
    ),
    "draws that cannot be traced": (
        lambda: ist.CustomPrior(lambda key: [float(jax.random.normal(key)), 0.0], flat),
        TypeError,
        ["JAX-traceable", "tracing failed"],
    ),
    "random numbers of NumPy": (
        lambda: ist.CustomPrior(
            lambda _: jnp.asarray(np.random.default_rng().normal(size=2)), flat
        ),
        ValueError,
        ["draw_one gave other θ for the same keys", "np.random", "jax.random.uniform(key, (2,))"],
    ),
    "one of two parameters from NumPy": (
        lambda: ist.CustomPrior(
            lambda key: traced_draw(key) * jnp.array([1.0, np.random.default_rng().normal()]), flat
        ),
        ValueError,
        ["draw_one gave other θ for the same keys"],
    ),
    "random numbers of NumPy with a seed": (
        lambda: ist.CustomPrior(lambda _: jnp.asarray(np.random.default_rng(1).random(2)), flat),
        ValueError,
        ["every draw of draw_one is the same θ", "Use jax.random with the key", "ist.Discrete"],
    ),
    "a density with a Python branch": (
        lambda: ist.CustomPrior(traced_draw, lambda t: -1.0 if t[0] > 0 else -2.0),
        TypeError,
        ["JAX-traceable", "tracing failed"],
    ),
    "numbers in place of functions": (
        lambda: ist.CustomPrior(3, 4),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["JAX-traceable", "got 3"],
    ),
    "draws with two axes": (
        lambda: ist.CustomPrior(lambda key: jax.random.normal(key, (2, 1)), flat),
        ValueError,
        ["shape (d,)", "(2, 1)"],
    ),
    "draws without an axis": (
        lambda: ist.CustomPrior(jax.random.normal, flat),
        ValueError,
        ["shape (d,)", "()"],
    ),
    "a density for each component": (
        lambda: ist.CustomPrior(traced_draw, lambda theta: theta),
        ValueError,
        ["must return a scalar", "(2,)"],
    ),
    "draws outside the edges": (
        lambda: ist.CustomPrior(traced_draw, flat, low=0.0),
        ValueError,
        ["draw_one left the support", "low=[0.0, 0.0]", "agree"],
    ),
    "NaN draws": (
        lambda: ist.CustomPrior(lambda key: traced_draw(key) * jnp.float32(jnp.nan), flat),
        ValueError,
        ["θ from draw_one has NaN", "Mend draw_one"],
    ),
    "a density that excludes the draws": (
        lambda: ist.CustomPrior(traced_draw, lambda t: jnp.where(t[0] > 0, flat(t), -jnp.inf)),
        ValueError,
        ["log_density_of is NaN or infinite where draw_one draws", "agree"],
    ),
    "a wrong number of edges": (
        lambda: ist.CustomPrior(traced_draw, flat, low=[-9, -9, -9]),
        ValueError,
        ["low has 3", "draw_one has 2"],
    ),
    "several edges for one parameter": (
        lambda: ist.CustomPrior(lambda key: traced_draw(key)[:1], flat, low=[-9, -9]),
        ValueError,
        ["1 parameter", "2 values"],
    ),
    "edges of a custom prior in the wrong order": (
        lambda: ist.CustomPrior(traced_draw, flat, low=1, high=0),
        ValueError,
        ["low must lie below high"],
    ),
    "density at too few parameters": (
        lambda: UNIFORM_2.log_prob([0.5]),
        ValueError,
        ["must have 2 parameters (a, b)", "(1, 1)"],
    ),
    "density at NaN": (
        lambda: UNIFORM_2.log_prob([[0.5, 0.5], [0.5, np.nan]]),
        ValueError,
        ["NaN in row 1"],
    ),
    "no draws": (
        lambda: UNIFORM_2.sample(0, seed=1),
        ValueError,
        ["n must be at least 1", "got 0"],
    ),
    "half a draw": (
        lambda: UNIFORM_2.sample(2.5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["whole number", "2.5"],
    ),
    "a seed that is a generator": (
        lambda: UNIFORM_2.sample(2, seed=np.random.default_rng(1)),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["seed must be an int", "seed=1", "Generator"],
    ),
}


@pytest.fixture
def _as_a_user() -> Iterator[None]:
    """Without the type checks of these tests, so that the library's own sentences answer."""
    jaxtyping.config.update("jaxtyping_disable", "1")
    yield
    jaxtyping.config.update("jaxtyping_disable", "0")


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize(("misuse", "kind", "fragments"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_answered_by_a_sentence(
    misuse: Callable[[], object], kind: type[Exception], fragments: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        misuse()
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_values_beyond_float32_have_no_density_rather_than_a_warning() -> None:
    assert ist.Normal(0, 1).log_prob([1e300]) == -inf
    assert UNIFORM_2.log_prob([0.5, 1e300]) == -inf
