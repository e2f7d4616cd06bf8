"""The sbibm benchmark, without its download: tasks, sampler, C2ST and errors, all against truth."""

import bz2
import math
import subprocess
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.sbibm import tasks
from benchmarks.sbibm.evaluate import PUBLISHED, Exact, Learned, begin, exact_errors
from benchmarks.sbibm.sampler import Effort, sample_posterior
from benchmarks.sbibm.tasks import TASKS, DownloadError, Task
from scipy import stats

import inferostatic as ist
from inferostatic.models.features.features import IdentityMap
from inferostatic.models.potential import PotentialModel

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

THETA = {
    "two_moons": [0.3, 0.4],
    "slcp": [0.5, -1.0, -1.2, 0.8, 0.6],
    "gaussian_linear": np.linspace(-0.5, 0.5, 10),
    "gaussian_linear_uniform": np.linspace(-0.9, 0.9, 10),
}
GAUSSIANS = ("slcp", "gaussian_linear", "gaussian_linear_uniform")
#: Events in most tests; one number, so that little is compiled.
N = 3000
#: Draws of the sampler may be worth fewer independent ones, by no more than this factor.
CORRELATION = 2
QUICK = Effort(particles=4000, moves=10, last_moves=40)


def events_at_one_theta(task: Task) -> tuple[np.ndarray, np.ndarray]:
    theta = np.tile(THETA[task.name], (N, 1))
    return task.simulate(theta, np.random.default_rng(1)), theta


def slcp_covariance(theta: np.ndarray) -> np.ndarray:
    scale_1, scale_2, correlation = theta[2] ** 2, theta[3] ** 2, np.tanh(theta[4])
    mixed = correlation * scale_1 * scale_2
    return np.array([[scale_1**2, mixed], [mixed, scale_2**2]]) + 1e-6 * np.eye(2)


def z_scores(values: np.ndarray, expected: float | np.ndarray, *, correlation: int = 1) -> float:
    error = values.std(axis=0) / math.sqrt(len(values) / correlation)
    return float(np.max(np.abs(values.mean(axis=0) - expected) / error))


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("two_moons", 0.0, 2 / math.sqrt(12)),
        ("slcp", 0.0, 6 / math.sqrt(12)),
        ("gaussian_linear", 0.0, math.sqrt(0.1)),
        ("gaussian_linear_uniform", 0.0, 2 / math.sqrt(12)),
    ],
)
def test_priors(name: str, mean: float, std: float) -> None:
    centre, scale = TASKS[name].prior.centre_and_scale
    np.testing.assert_allclose(centre, mean)
    np.testing.assert_allclose(scale, std, rtol=1e-6)
    assert TASKS[name].prior.dim == len(THETA[name])


def test_slcp_likelihood_is_that_of_four_gaussian_points() -> None:
    task = TASKS["slcp"]
    events = ist.simulate(task.simulate, task.prior, N, seed=3)
    expected = []
    for x, theta in zip(events.x[:20], events.theta[:20], strict=True):
        covariance = slcp_covariance(theta)
        z = np.linalg.solve(np.linalg.cholesky(covariance), (x.reshape(4, 2) - theta[:2]).T)
        expected.append(stats.norm.logpdf(z).sum() - 2 * np.linalg.slogdet(covariance)[1])
    found = task.log_likelihood(events.x, events.theta)[:20]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_slcp_events_have_the_covariance_of_their_likelihood() -> None:
    task = TASKS["slcp"]
    x, theta = events_at_one_theta(task)
    factor = np.linalg.cholesky(slcp_covariance(theta[0]))
    # Standard normal and independent if, and only if, mean and covariance are right.
    z = np.linalg.solve(factor, (x.reshape(-1, 2) - theta[0, :2]).T).T
    assert z_scores(z, 0.0) < 4
    assert z_scores(z**2, 1.0) < 4
    assert z_scores(z[:, :1] * z[:, 1:], 0.0) < 4


@pytest.mark.parametrize("name", ["gaussian_linear", "gaussian_linear_uniform"])
def test_linear_likelihood_has_variance_one_tenth(name: str) -> None:
    x, theta = events_at_one_theta(TASKS[name])
    assert z_scores((x - theta) ** 2, 0.1) < 4
    expected = stats.norm.logpdf(x, theta, math.sqrt(0.1)).sum(axis=1)
    np.testing.assert_allclose(TASKS[name].log_likelihood(x, theta), expected)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_the_mean_score_vanishes_and_its_variance_is_minus_the_mean_curvature(name: str) -> None:
    task = TASKS[name]
    x, theta = events_at_one_theta(task)
    score = task.score(x, theta)
    assert score.dtype == np.float64
    assert z_scores(score, 0.0) < 4
    step = 1e-4 * np.eye(len(theta[0]))
    curvature = np.stack(
        [(task.score(x, theta + s) - task.score(x, theta - s)) @ s / 2e-8 for s in step], axis=1
    )
    assert z_scores(score**2 + curvature, 0.0) < 4.5


@pytest.mark.parametrize("theta", [[0.3, 0.4], [-0.3, -0.4], [0.8, -0.1]])
def test_two_moons_likelihood_gives_the_frequencies_of_events(theta: list[float]) -> None:
    task = TASKS["two_moons"]
    # Cells of a square that holds the crescent, and within each a fine grid of midpoints.
    cells, fine, width = 6, 120, 0.32
    corner = np.array([0.25 - abs(sum(theta)) / math.sqrt(2), (theta[1] - theta[0]) / math.sqrt(2)])
    corner -= [0.16, 0.16]
    axis = (np.arange(cells * fine) + 0.5) * width / (cells * fine)
    grid = corner + np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(task.log_likelihood(grid, np.tile(theta, (len(grid), 1))))
    probability = density.reshape(cells, fine, cells, fine).sum(axis=(1, 3))
    probability *= (width / (cells * fine)) ** 2
    assert probability.sum() == pytest.approx(1, abs=1e-4)

    n = 40_000
    x = task.simulate(np.tile(theta, (n, 1)), np.random.default_rng(2))
    edges = np.linspace(0, width, cells + 1)
    counts = np.histogram2d(*(x - corner).T, bins=[edges, edges])[0]
    seen = probability > 1e-3
    z = (counts - n * probability)[seen] / np.sqrt(n * probability[seen])
    assert seen.sum() >= 8
    assert np.abs(z).max() < 4
    assert counts[~seen].sum() < n * 1e-2


def test_two_moons_vanishes_behind_the_crescent_and_is_even_under_its_symmetry() -> None:
    task = TASKS["two_moons"]
    x, theta = events_at_one_theta(task)
    behind = x - [0.4, 0.0]
    assert (task.log_likelihood(behind, theta) == -np.inf).all()
    mirrored = -theta[:, ::-1]  # changes the sign of θ1 + θ2 alone
    np.testing.assert_allclose(task.log_likelihood(x, theta), task.log_likelihood(x, mirrored))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_score_and_sampler_face_agree_with_the_likelihood(task: Task) -> None:
    events = ist.simulate(task.simulate, task.prior, N, seed=5)
    x, theta = events.x, events.theta
    step = 1e-6 * np.eye(task.prior.dim)
    above = np.stack([task.log_likelihood(x, theta + s) for s in step], axis=1)
    below = np.stack([task.log_likelihood(x, theta - s) for s in step], axis=1)
    # Not for all events, because in two_moons some lie at the edge of the support.
    differences = (above[:30] - below[:30]) / 2e-6
    np.testing.assert_allclose(task.score(x, theta)[:30], differences, rtol=1e-3, atol=1e-3)

    found = task.at(x[0])(jnp.asarray(theta[:1], jnp.float32))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, task.log_likelihood(x, theta)[:1], rtol=1e-4)


def test_sampler_on_a_correlated_gaussian() -> None:
    noise = np.array([[0.5, 0.3, 0.0], [0.3, 0.4, 0.1], [0.0, 0.1, 0.2]])
    x, precision = np.array([1.0, -0.5, 0.8]), np.linalg.inv(noise)

    def log_f(theta: jax.Array) -> jax.Array:
        distance = theta - jnp.asarray(x, jnp.float32)[None]
        return -jnp.sum((distance @ jnp.asarray(precision, jnp.float32)) * distance, axis=1) / 2

    posterior = sample_posterior(log_f, ist.Normal([0.0] * 3, 1.0), 4000, seed=1, effort=QUICK)
    covariance = np.linalg.inv(precision + np.eye(3))
    factor = np.linalg.cholesky(covariance)
    z = np.linalg.solve(factor, (posterior.theta - covariance @ precision @ x).T).T
    assert z.shape == (4000, 3)
    assert z_scores(z, 0.0, correlation=CORRELATION) < 4
    products = (z[:, :, None] * z[:, None, :]).reshape(-1, 9)
    assert z_scores(products, np.eye(3).ravel(), correlation=CORRELATION) < 4


def test_sampler_weighs_two_sharp_modes_at_the_edge_of_a_box() -> None:
    # A narrow mode in one corner, of which a quarter is inside, and a wide one in the middle.
    narrow, wide, inside = 0.03, 0.05, 0.25
    low = np.array([-2.0, 1.0])

    def log_f(theta: jax.Array) -> jax.Array:
        at_corner = jnp.sum((theta - jnp.asarray(low, jnp.float32)[None]) ** 2, axis=1)
        at_middle = jnp.sum((theta - jnp.asarray(low + 1, jnp.float32)[None]) ** 2, axis=1)
        return jnp.logaddexp(
            math.log(0.6 / inside / narrow**2) - at_corner / (2 * narrow**2),
            math.log(0.4 / wide**2) - at_middle / (2 * wide**2),
        )

    prior = ist.Uniform(low, low + 2)
    posterior = sample_posterior(log_f, prior, 4000, seed=2, effort=QUICK)
    again = sample_posterior(log_f, prior, 4000, seed=2, effort=QUICK)
    other = sample_posterior(log_f, prior, 4000, seed=3, effort=QUICK)
    np.testing.assert_array_equal(posterior.theta, again.theta)
    assert not np.array_equal(posterior.theta, other.theta)
    for draws in (posterior.theta, other.theta):
        assert np.all((draws >= low) & (draws <= low + 2))
        in_corner = np.all(draws < low + 0.5, axis=1)
        assert z_scores(in_corner[:, None], 0.6, correlation=4 * CORRELATION) < 4
        from_corner = (draws[in_corner] - low) / narrow
        assert z_scores(from_corner, math.sqrt(2 / math.pi), correlation=CORRELATION) < 4
        from_middle = (draws[~in_corner] - low - 1) / wide
        assert z_scores(from_middle, 0.0, correlation=CORRELATION) < 4
        assert z_scores(from_middle**2, 1.0, correlation=CORRELATION) < 4


def test_sampler_says_when_there_is_no_posterior() -> None:
    effort = Effort(particles=10, moves=1, last_moves=1)
    prior = ist.Uniform([0.0], [1.0])
    with pytest.raises(ValueError, match="positive and finite anywhere"):
        sample_posterior(lambda theta: theta[:, 0] * jnp.nan, prior, 10, seed=1, effort=effort)
    with pytest.raises(ValueError, match="as many particles"):
        sample_posterior(lambda theta: theta[:, 0], prior, 11, seed=1, effort=effort)


def test_c2st_of_the_same_and_of_a_shifted_distribution() -> None:
    pytest.importorskip("sklearn")
    from benchmarks.sbibm.c2st import c2st

    rng = np.random.default_rng(4)
    reference, same = rng.standard_normal((2, 500, 2)) * [1.0, 100.0]
    assert c2st(reference, same) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 1000))
    assert c2st(reference, same + [3.0, 0.0]) > 0.8
    assert c2st(reference, same + [0.0, 300.0]) > 0.8


@pytest.mark.slow
def test_c2st_is_a_cross_validation() -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    from benchmarks.sbibm.c2st import begin_c2st, c2st
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(5)
    reference, other = rng.standard_normal((2, 100, 2)).astype(np.float32)
    other += np.float32(0.5)
    mean, std = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    data = (np.concatenate([reference, other]) - mean) / std
    scores = model_selection.cross_val_score(
        MLPClassifier((20, 20), max_iter=10_000, random_state=1),
        data,
        np.repeat([0.0, 1.0], 100),
        cv=model_selection.KFold(5, shuffle=True, random_state=1),
    )
    assert c2st(reference, other) == pytest.approx(scores.mean(), abs=1e-12)
    with ThreadPoolExecutor(1) as pool:
        assert begin_c2st(pool, reference, other).result() == c2st(reference, other)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_exact_likelihood_has_no_errors(task: Task) -> None:
    errors = exact_errors(Exact(task), task, N)
    assert [errors.log_ratio.relative, errors.probability] == [0.0, 0.0]
    assert [error.typical for error in errors.score] == [0.0] * task.prior.dim
    assert errors.finite == 1.0 if task.name != "two_moons" else 0.1 < errors.finite < 0.9


class Wrong:
    """The exact likelihood with every log ratio and score doubled."""

    def __init__(self, task: Task) -> None:
        self.exact = Exact(task)

    def at(self, x: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        return self.exact.at(x)

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        return 2 * self.exact.log_ratio(x, theta0, theta1)

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return 2 * self.exact.score(x, theta)


def test_errors_of_a_doubled_likelihood() -> None:
    errors = exact_errors(Wrong(TASKS["gaussian_linear"]), TASKS["gaussian_linear"], N)
    # Scores have mean 0 and variance 1/0.1; a doubled one is wrong by its own variance.
    for error in errors.score:
        assert error.mean_square == pytest.approx(10, rel=0.15)
        assert error.relative == pytest.approx(1, rel=0.01)
        assert error.typical == pytest.approx(1, rel=0.1)
    assert errors.log_ratio.relative > 1
    assert 0 < errors.probability < 0.1


class Distance(eqx.Module):
    """A "network" that is −strength·|x − θ|², with one strength for each member."""

    strength: jax.Array

    def __call__(self, inputs: jax.Array) -> jax.Array:
        x, theta = jnp.split(inputs, 2)
        return -self.strength * jnp.sum((x - theta) ** 2, keepdims=True)


def test_a_trained_potential_is_averaged_over_its_members() -> None:
    model = PotentialModel(IdentityMap(), IdentityMap(), Distance(jnp.array([1.0, 4.0])))
    estimator: Any = SimpleNamespace(model=model)
    x, theta = np.array([1.0, 2.0]), np.arange(6.0).reshape(3, 2)
    potential = Learned(estimator).at(x)(jnp.asarray(theta, jnp.float32))
    np.testing.assert_allclose(potential, -2.5 * np.sum((x - theta) ** 2, axis=1))


def test_published_values_exist_for_every_task() -> None:
    assert PUBLISHED.keys() == TASKS.keys()
    assert all(len(by_method) == 4 for by_method in PUBLISHED.values())


def table(columns: int, rows: int, *, start: float) -> bytes:
    numbers = start + np.arange(rows * columns).reshape(rows, columns)
    lines = [",".join(f"column_{i}" for i in range(columns))]
    lines += [",".join(str(number) for number in row) for row in numbers]
    return ("\n".join(lines) + "\n").encode()


def write_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for task in TASKS.values():
            dim = task.prior.dim
            x_dim = task.simulate(np.ones((1, dim)), np.random.default_rng(0)).shape[1]
            for number in tasks.OBSERVATIONS:
                folder = f"sbibm/tasks/{task.name}/files/num_observation_{number}"
                archive.writestr(f"{folder}/observation.csv", table(x_dim, 1, start=number))
                archive.writestr(f"{folder}/true_parameters.csv", table(dim, 1, start=0.5))
                reference = bz2.compress(table(dim, 6, start=0))
                archive.writestr(f"{folder}/reference_posterior_samples.csv.bz2", reference)


def test_observations_are_read_from_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "sbibm-1.1.0-py2.py3-none-any.whl"
    write_wheel(wheel)
    observation = TASKS["slcp"].observation(7, cache=tmp_path)
    np.testing.assert_array_equal(observation.x, 7 + np.arange(8))
    np.testing.assert_array_equal(observation.theta, 0.5 + np.arange(5))
    assert observation.reference.shape == (6, 5)
    wheel.unlink()
    assert TASKS["two_moons"].observation(10, cache=tmp_path).x.shape == (2,)
    with pytest.raises(ValueError, match="from 1 to 10"):
        TASKS["slcp"].observation(0, cache=tmp_path)


def test_without_a_connection_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "No matching distribution found")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(
        DownloadError, match="No matching distribution(.|\n)*pip download --no-deps"
    ):
        TASKS["slcp"].observation(1, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_evaluation_trains_on_events_from_the_prior() -> None:
    task = TASKS["two_moons"]

    def train(events: ist.Events, seed: int) -> Exact:
        assert (len(events), seed, events.prior) == (100, 3, task.prior)
        return Exact(task)

    with ThreadPoolExecutor(1) as pool:
        result = begin(task, 100, 3, train, pool, observations=[]).result()
    assert (result.task, result.n_simulations, result.seed) == ("two_moons", 100, 3)
    assert result.c2st == {}
    assert result.errors.log_ratio.mean_square == 0.0
