"""NumPyro models as simulators: joint densities and scores against closed forms."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import stats

from inferostatic.world.numpyro_model import NumpyroSimulator, from_numpyro
from inferostatic.world.simulator import LatentSimulator

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")

N = 40_000
#: Errors by which a mean may miss: about one in 30,000 for each.
FAR = 4.2
NOISE = 0.5


def hierarchy(log_spread: Any, groups: int) -> None:
    """Means of groups around a centre, and one measurement of each: y_i ~ N(centre, τ² + σ²)."""
    centre = numpyro.sample("centre", dist.Normal(0.0, 10.0))
    with numpyro.plate("group", groups):
        mean = numpyro.sample("mean", dist.Normal(centre, jnp.exp(log_spread)))
        numpyro.sample("y", dist.Normal(mean, NOISE))


def counts_of_two_kinds(log_rate: Any) -> None:
    """Each of two cells is of one of two kinds, which decides the rate of its count."""
    fraction = numpyro.sample("fraction", dist.Uniform(0.0, 1.0))
    with numpyro.plate("cell", 2):
        kind = numpyro.sample("kind", dist.Bernoulli(fraction))
        numpyro.sample("count", dist.Poisson(jnp.exp(log_rate + kind)))


def gaussian() -> NumpyroSimulator:
    return from_numpyro(
        hierarchy, parameters=["log_spread", "centre"], observed=["y"], arguments={"groups": 3}
    )


def discrete() -> NumpyroSimulator:
    return from_numpyro(
        counts_of_two_kinds, parameters=["fraction", "log_rate"], observed=["count"]
    )


def gaussian_joint(x: np.ndarray, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    log_spread, centre = theta
    means = stats.norm.logpdf(z, centre, np.exp(log_spread)).sum(axis=-1)
    return means + stats.norm.logpdf(x, z, NOISE).sum(axis=-1)


def discrete_joint(x: np.ndarray, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    fraction, log_rate = theta
    kinds = stats.bernoulli.logpmf(z, fraction).sum(axis=-1)
    return kinds + stats.poisson.logpmf(x, np.exp(log_rate + z)).sum(axis=-1)


def gaussian_score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    log_spread, centre = theta
    spread2 = np.exp(2 * log_spread)
    total, away = spread2 + NOISE**2, x - centre
    by_spread = (spread2 * (away**2 / total**2 - 1 / total)).sum(axis=1)
    return np.column_stack([by_spread, (away / total).sum(axis=1)])


def discrete_score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    fraction, log_rate = theta
    rates = np.exp([log_rate, log_rate + 1])
    first, second = (stats.poisson.pmf(x, rate) for rate in rates)
    both = (1 - fraction) * first + fraction * second
    by_rate = (1 - fraction) * first * (x - rates[0]) + fraction * second * (x - rates[1])
    return np.column_stack([((second - first) / both).sum(axis=1), (by_rate / both).sum(axis=1)])


CASES = {
    "Gaussian": (gaussian, gaussian_joint, gaussian_score, np.array([-0.3, 1.2])),
    "discrete": (discrete, discrete_joint, discrete_score, np.array([0.3, 0.8])),
}
Case = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], np.ndarray]


@pytest.fixture(autouse=True)
def _as_a_user() -> Iterator[None]:
    """As users have it: NumPyro itself adds arrays of different ranks."""
    jaxtyping.config.update("jaxtyping_disable", "1")
    with jax.numpy_rank_promotion("allow"):
        yield
    jaxtyping.config.update("jaxtyping_disable", "0")


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def simulated(simulator: NumpyroSimulator, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return simulator.simulate_latent(np.tile(theta, (N, 1)), np.random.default_rng(3))


def joint_scores(
    simulator: NumpyroSimulator, x: np.ndarray, z: np.ndarray, theta: np.ndarray
) -> np.ndarray:
    score = jax.vmap(jax.grad(simulator.joint_log_prob, argnums=2), in_axes=(0, 0, None))
    return np.asarray(score(*(jnp.asarray(a, jnp.float32) for a in (x, z, theta))), np.float64)


def errors_from_zero(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))


def test_the_joint_density_is_that_of_the_written_model(case: Case) -> None:
    make, exact, _, theta = case
    simulator = make()
    x, z = (a[:50].astype(np.float64) for a in simulated(simulator, theta))
    other = theta + [0.2, -0.3]
    with jax.enable_x64(True):  # noqa: FBT003
        log_prob = jax.vmap(simulator.joint_log_prob, in_axes=(0, 0, None))
        found = [np.asarray(log_prob(*map(jnp.asarray, (x, z, point)))) for point in (theta, other)]
    wanted = [exact(x, z, point) for point in (theta, other)]
    np.testing.assert_allclose(found[1] - found[0], wanted[1] - wanted[0], atol=1e-10)
    # Factorials of counts, which do not depend on θ, are single precision with JAX 0.11: there
    # gammaln of a 32-bit integer is.
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_latent_variables_are_drawn_from_the_joint_density(case: Case) -> None:
    make, _, _, theta = case
    simulator = make()
    x, z = simulated(simulator, theta)
    joint = joint_scores(simulator, x, z, theta)
    assert np.abs(errors_from_zero(joint)).max() < FAR
    # The information in x and z together, which the joint score must have as its variance.
    if make is gaussian:
        information = np.array([2 * 3.0, 3 / np.exp(2 * theta[0])])
        assert np.abs(errors_from_zero(joint**2 - information)).max() < FAR


def test_the_mean_of_the_joint_score_given_x_is_the_score(case: Case) -> None:
    make, _, exact, theta = case
    simulator = make()
    x, z = simulated(simulator, theta)
    score = exact(x.astype(np.float64), theta)
    off = joint_scores(simulator, x, z, theta) - score
    away = (x - x.mean(axis=0)) / x.std(axis=0)
    # If E[t|x] = s, then t − s has no correlation with any function of x.
    functions = np.column_stack([np.ones(N), away, away**2, away[:, :1] * away[:, 1:], score])
    correlations = off[:, :, None] * functions[:, None, :]
    assert np.abs(errors_from_zero(correlations)).max() < FAR
    assert (off.std(axis=0) > 0.1 * score.std(axis=0)).all()


def test_x_follows_its_law_at_every_theta() -> None:
    theta = np.column_stack([np.linspace(-1, 0.5, N), np.linspace(3, -3, N)])
    x = gaussian()(theta, np.random.default_rng(4))
    width = np.sqrt(np.exp(2 * theta[:, 0]) + NOISE**2)
    uniform = stats.norm.cdf((x - theta[:, 1:]) / width[:, None])
    assert min(stats.kstest(column, "uniform").pvalue for column in uniform.T) > 1e-4
    assert np.abs(np.corrcoef(uniform.T) - np.eye(3)).max() < FAR / np.sqrt(N)


def test_names_and_places() -> None:
    simulator = gaussian()
    assert isinstance(simulator, LatentSimulator)
    assert simulator.theta_names == ("log_spread", "centre")
    assert simulator.x_names == ("y[0]", "y[1]", "y[2]")
    assert simulator.z_names == ("mean[0]", "mean[1]", "mean[2]")
    assert "z: mean[0], mean[1], mean[2]" in repr(simulator)
    theta = np.tile([-0.3, 1.2], (5, 1))
    x, z = simulator.simulate_latent(theta, np.random.default_rng(1))
    assert (x.shape, z.shape) == ((5, 3), (5, 3))
    np.testing.assert_array_equal(x, simulator(theta, np.random.default_rng(1)))
    assert (x != simulator(theta, np.random.default_rng(2))).all()
    assert len(np.unique(x)) == 15


def test_vectors_matrices_and_discrete_numbers_keep_their_places() -> None:
    def model() -> None:
        weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("row", 2, dim=-2), numpyro.plate("column", 3, dim=-1):
            number = numpyro.sample("number", dist.Categorical(logits=jnp.zeros(4)))
        numpyro.deterministic("sum", number.sum())
        mean = weights[0] + weights[1] * number.sum(axis=1)
        numpyro.sample("y", dist.MultivariateNormal(mean, jnp.eye(2)))

    simulator = from_numpyro(model, parameters="weights", observed="y")
    assert simulator.theta_names == ("weights[0]", "weights[1]")
    assert simulator.z_names[2:4] == ("number[0,2]", "number[1,0]")
    theta = np.array([1000.0, 100.0])
    x, z = simulator.simulate_latent(np.tile(theta, (200, 1)), np.random.default_rng(3))
    assert set(np.unique(z)) == {0, 1, 2, 3}
    mean = theta[0] + theta[1] * z.reshape(200, 2, 3).sum(axis=2)
    assert np.abs(x - mean).max() < 6
    score = joint_scores(simulator, x[:20], z[:20], theta)
    np.testing.assert_allclose(score[:, 0], (x - mean)[:20].sum(axis=1), atol=2e-3)


def test_a_model_without_latent_variables_gives_the_score_itself() -> None:
    def model(centre: Any) -> None:
        numpyro.sample("y", dist.Normal(centre, 2.0))

    simulator = from_numpyro(model, parameters=["centre"], observed=["y"])
    x, z = simulated(simulator, np.array([1.0]))
    assert z.shape == (N, 0)
    score = joint_scores(simulator, x, z, np.array([1.0]))
    np.testing.assert_allclose(score, (x - 1) / 4, rtol=1e-4, atol=1e-6)


def test_a_prior_of_the_parameters_does_not_matter() -> None:
    def model() -> None:
        width = numpyro.sample("width", dist.Uniform(1.0, 2.0))
        free = numpyro.sample("free", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(free, width))

    simulator = from_numpyro(model, parameters=["width", "free"], observed=["y"])
    outside = jnp.array([3.0, 0.5])
    found = simulator.joint_log_prob(jnp.array([1.0]), jnp.zeros(0), outside)
    np.testing.assert_allclose(found, stats.norm.logpdf(1.0, 0.5, 3.0), rtol=1e-6)


def normal(name: str, mean: Any = 0.0, **more: Any) -> Any:
    return numpyro.sample(name, dist.Normal(mean, 1.0), **more)


def with_data(a: Any, y: Any = 1.0) -> None:
    normal("y", a, obs=y)


def with_factor(a: Any) -> None:
    normal("y", a)
    numpyro.factor("factor", -(a**2))


def with_subsample(a: Any) -> None:
    with numpyro.plate("rows", 10, subsample_size=5):
        normal("y", a)


def with_mask(a: Any) -> None:
    with numpyro.plate("rows", 2), numpyro.handlers.mask(mask=jnp.array([True, False])):
        normal("y", a)


def with_delta(a: Any) -> None:
    normal("y", numpyro.sample("z", dist.Delta(a)))


def with_key(a: Any) -> None:
    normal("y", a + jax.random.normal(numpyro.prng_key()))


def with_branch(a: Any) -> None:
    normal("y", a if a > 0 else -a)


def with_shape(a: Any) -> None:
    with numpyro.plate("rows", a):
        normal("y")


def computed(a: Any) -> None:
    numpyro.deterministic("y", normal("z", a) ** 2)


def twice(a: Any) -> None:
    normal("y", normal("a", a))


def whole(a: Any = 0.0) -> None:
    normal("y", numpyro.sample("b", dist.Poisson(2.0)))


def given(a: Any = 0.0) -> None:
    normal("y", normal("b", obs=1.0))


def fine(a: Any, width: Any = 1.0) -> None:
    normal("y", a)


def by_place(a: Any, /) -> None:
    normal("y", a)


BAD: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no model": (3, {}, TypeError, "model must be a NumPyro model, a function; got int"),
    "data": (with_data, {}, ValueError, "has data.*Pass None for data"),
    "factor": (with_factor, {}, ValueError, "'factor'.*a factor has no simulation"),
    "subsample": (with_subsample, {}, ValueError, "scaled.*Use the whole plate"),
    "mask": (with_mask, {}, ValueError, "masked"),
    "delta": (with_delta, {}, ValueError, "'z' is a Delta.*numpyro.deterministic"),
    "key": (with_key, {}, ValueError, "from its sites alone.*draw them with numpyro.sample"),
    "branch": (with_branch, {}, TypeError, "JAX-traceable.*no Python branches"),
    "shape": (with_shape, {}, TypeError, "no shapes that depend on them"),
    "computed": (computed, {}, ValueError, "'y' is computed.*Name random sites"),
    "twice": (twice, {}, ValueError, "'a' is both an argument and a random site"),
    "whole": (whole, {"parameters": ["b"]}, ValueError, "'b' is discrete; scores are derivatives"),
    "given": (given, {"parameters": ["b"]}, ValueError, "'b' has a value in the model"),
    "unknown": (fine, {"parameters": ["a", "c"]}, ValueError, r"'c' is neither.*are \['y'\]"),
    "unseen": (fine, {"observed": ["x"]}, ValueError, r"no random site 'x'.*are \['y'\]"),
    "missing": (fine, {"parameters": ["width"]}, ValueError, "needs the argument 'a'; name it"),
    "fixed": (fine, {"arguments": {"a": 1.0}}, ValueError, "'a' is a parameter and has no fixed"),
    "both": (fine, {"parameters": ["a", "y"]}, ValueError, "both as a parameter and as observed"),
    "none": (fine, {"observed": []}, TypeError, "observed must be a list of names"),
    "repeated": (fine, {"parameters": ["a", "a"]}, ValueError, "must differ from each other"),
    "by place": (by_place, {}, ValueError, "cannot be given by its name"),
}


@pytest.mark.parametrize(("model", "changed", "kind", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_is_answered_by_a_sentence(
    model: Any, changed: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=f"(?s){sentence}"):
        from_numpyro(model, **{"parameters": ["a"], "observed": ["y"], **changed})  # pyright: ignore[reportArgumentType]


def test_theta_of_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"\(n, 2\) with the columns log_spread, centre; got"):
        gaussian()(np.zeros((4, 3)), np.random.default_rng(0))


def test_without_numpyro_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[numpyro\]'"):
        from_numpyro(fine, parameters=["a"], observed=["y"])
