"""The matrix-element method, on a chain of Gaussian steps whose integral is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.estimator.matrix_element import MatrixElement
from inferostatic.models.flows.flow import Flow, MixtureFlow
from inferostatic.models.matrix_element import (
    DEGREES,
    MEM,
    HeavyTails,
    Strata,
    around,
    log_mean,
    log_mean_ratio,
    mean_slope,
)

pytest.importorskip("flowjax")

PRIOR = ist.Uniform([-1.0], [1.0], names=["mean"])
SMALL = Flow(MixtureFlow(layers=0, components=2, width=12, depth=1))
FEW = ist.Training(epochs=12, batch_size=128, learning_rate=1e-2)
WIDTH, NOISE = 0.5, 0.4


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def latent_log_prob(z: Any, theta: Any) -> Any:
    """z ~ N(2θ, σ²), in kilometres."""
    away = (z[0] - 2 * theta[0]) / WIDTH
    return -(away**2) / 2 - np.log(WIDTH * np.sqrt(2 * np.pi)).astype(np.float32)


def transfer_log_prob(x: Any, z: Any) -> Any:
    """x = 1000 z + noise, in metres: a density whose unit matters."""
    away = (x[0] / 1000 - z[0]) / NOISE
    return -(away**2) / 2 - np.log(1000 * NOISE * np.sqrt(2 * np.pi)).astype(np.float32)


TOTAL = np.hypot(WIDTH, NOISE)


def exact(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return stats.norm.logpdf(x[:, 0], 2000 * theta[:, 0], 1000 * TOTAL)


def exact_score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return 2 * (x / 1000 - 2 * theta) / TOTAL**2


def events(n: int, seed: int) -> ist.Events:
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-1, 1, (n, 1))
    z = 2 * theta + WIDTH * rng.normal(size=(n, 1))
    x = 1000 * (z + NOISE * rng.normal(size=(n, 1)))
    return ist.Events(x=x, theta=theta, prior=PRIOR, latent={"z": z})


GIVEN = MEM(latent_log_prob, transfer=transfer_log_prob, samples=256)


def fitted(method: MEM, training: ist.Training = FEW) -> MatrixElement:
    return ist.fit(events(3000, 1), method, network=SMALL, training=training, seed=5)


@pytest.fixture(scope="module")
def given() -> MatrixElement:
    return fitted(GIVEN)


TEST = events(600, 2)


def share_within_two(value: np.ndarray, truth: np.ndarray, error: np.ndarray) -> float:
    return float(np.mean(np.abs(value - truth) < 2 * error))


#: Of 600 events 95.4% lie within two errors, to 4 binomial standard errors.
LOWEST, HIGHEST = 0.954 - 4 * 0.0085, 0.954 + 4 * 0.0085


def test_errors_cover_with_a_given_transfer_density(given: MatrixElement) -> None:
    """ln p lies within two errors of the exact one as often as it should, and they are small."""
    value, error = given.log_prob(TEST.x, TEST.theta, seed=3)
    truth = exact(TEST.x, TEST.theta)
    assert LOWEST < share_within_two(value, truth, error) < HIGHEST
    assert np.median(error) < 0.05
    again = given.log_prob(TEST.x, TEST.theta, seed=3)
    np.testing.assert_array_equal(again.value, value)
    more = given.log_prob(TEST.x[:200], TEST.theta[:200], samples=1024)
    assert np.median(more.error) == pytest.approx(np.median(error) / 2, rel=0.3)


def test_ratios_have_common_draws(given: MatrixElement) -> None:
    """Their own errors cover, and are far below those of two independent densities."""
    other = 0.95 * TEST.theta + 0.01
    value, error = given.log_ratio(TEST.x, TEST.theta, other)
    truth = exact(TEST.x, TEST.theta) - exact(TEST.x, other)
    assert LOWEST < share_within_two(value, truth, error) < HIGHEST
    one = given.log_prob(TEST.x, TEST.theta)
    two = given.log_prob(TEST.x, other)
    np.testing.assert_allclose(value, one.value - two.value, atol=1e-5)
    assert np.median(error) < 0.4 * np.median(np.hypot(one.error, two.error))
    same = given.log_ratio(TEST.x, TEST.theta, TEST.theta)
    np.testing.assert_array_equal(same.error, 0)


def test_the_score_is_the_slope_of_the_average(given: MatrixElement) -> None:
    """And its errors cover."""
    value, error = given.score(TEST.x, TEST.theta, seed=3)
    assert LOWEST < share_within_two(value, exact_score(TEST.x, TEST.theta), error) < HIGHEST
    step = 0.01
    high, low = (
        given.log_prob(TEST.x, TEST.theta * 0 + 0.3 + sign * step, seed=3).value for sign in (1, -1)
    )
    middle = given.score(TEST.x, TEST.theta * 0 + 0.3, seed=3).value[:, 0]
    # Of ln p the third derivative is small; what float32 leaves of a difference is not.
    np.testing.assert_allclose((high - low) / (2 * step), middle, atol=2e-2)


@pytest.mark.slow
def test_a_poor_proposal_costs_precision_and_nothing_else() -> None:
    """Of a flow that hardly began to learn, the errors grow, and still cover."""
    once = ist.Training(epochs=1, batch_size=1000, learning_rate=1e-4)
    poor = fitted(GIVEN, once)
    value, error = poor.log_prob(TEST.x, TEST.theta, samples=1024)
    assert LOWEST < share_within_two(value, exact(TEST.x, TEST.theta), error) < HIGHEST


@pytest.mark.slow
def test_a_learned_transfer_density(tmp_path: Path) -> None:
    """In metres, as x is; and the whole can be kept in a file."""
    learned = fitted(MEM(latent_log_prob, samples=256))
    value, error = learned.log_prob(TEST.x, TEST.theta)
    # A flow learned from 3,000 events is wrong by √(parameters/events), some 50 of 3,000: 0.13.
    assert np.sqrt(np.mean(np.square(value - exact(TEST.x, TEST.theta)))) < 0.13
    assert np.median(error) < 0.05
    learned.save(tmp_path / "matrix.isn")
    loaded = ist.load(tmp_path / "matrix.isn", supplied={"latent_log_prob": latent_log_prob})
    assert isinstance(loaded, MatrixElement)
    np.testing.assert_array_equal(loaded.log_prob(TEST.x, TEST.theta).value, value)
    assert repr(loaded) == repr(learned)
    forgotten = ist.load(tmp_path / "matrix.isn")
    with pytest.raises(ValueError, match="latent_log_prob"):
        forgotten.log_prob(TEST.x, TEST.theta)


def test_what_cannot_work_is_refused(given: MatrixElement) -> None:
    """With a sentence each."""

    def fit(events: Any, method: MEM, **options: Any) -> None:
        ist.fit(events, method, training=FEW, seed=1, **options)

    bare = ist.Events(x=TEST.x, theta=TEST.theta, prior=PRIOR)
    with pytest.raises(ValueError, match="latent={'z': z}"):
        fit(bare, GIVEN)
    with pytest.raises(TypeError, match=r"network must be ist\.Flow"):
        fit(TEST, GIVEN, network=ist.MLP((8,)))

    def unnormalised(z: Any, theta: Any) -> Any:
        return latent_log_prob(z, theta) + theta[0]

    with pytest.raises(ValueError, match=r"joint|density|identit"):
        fit(events(3000, 1), MEM(unnormalised, transfer=transfer_log_prob))
    with pytest.raises(ValueError, match="one number"):
        fit(TEST, MEM(latent_log_prob, transfer=lambda x, z: x - z))
    with pytest.raises(ValueError, match="transfer is NaN"):
        fit(TEST, MEM(latent_log_prob, transfer=lambda x, z: jnp.log(-jnp.abs(x[0] - z[0]))))
    with pytest.raises(TypeError, match="latent_log_prob"):
        MEM(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at least 64"):
        MEM(latent_log_prob, samples=10)
    with pytest.raises(ValueError, match="expected theta with 1 columns"):
        given.log_prob(TEST.x, np.zeros((600, 2)))
    with pytest.warns(UserWarning, match="outside the range"):
        given.log_prob(TEST.x[:2], [3.0])


def test_averages_and_their_errors() -> None:
    """Against plain formulas, and against the scatter of many repetitions."""
    rng = np.random.default_rng(1)
    strata = Strata((40, 24))
    weights = np.concatenate([rng.gamma(3, 1, (4000, 40)), rng.gamma(1, 4, (4000, 24))], axis=1)
    log_weights = np.log(weights) + 500  # would overflow
    value, error = log_mean(log_weights, strata)
    np.testing.assert_allclose(value, np.log(weights.mean(axis=1)) + 500, rtol=1e-12)
    assert value.std() == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.05)
    other = weights * rng.gamma(50, 0.02, weights.shape)
    value, error = log_mean_ratio(log_weights, np.log(other), strata)
    np.testing.assert_allclose(
        value, 500 + np.log(weights.mean(axis=1) / other.mean(axis=1)), rtol=1e-12
    )
    assert value.std() == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.05)
    slopes = rng.normal(size=(*weights.shape, 1)) + weights[..., None]
    value, error = mean_slope(log_weights, slopes, strata)
    np.testing.assert_allclose(
        value[:, 0], (weights * slopes[..., 0]).sum(axis=1) / weights.sum(axis=1), rtol=1e-12
    )
    assert value.std() == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.08)
    nothing = log_mean(np.full((1, 64), -np.inf), strata)
    assert (nothing.value[0], nothing.error[0]) == (-np.inf, np.inf)


def test_heavy_tails() -> None:
    """The Student distribution is scipy's, and its draws have its moments."""
    rng = np.random.default_rng(2)
    tails = around(rng.normal(size=(1, 500, 2)) @ np.array([[2.0, 0.3], [0.0, 0.5]]))
    u = rng.normal(size=(1, 7, 2))
    shape = tails.root[0] @ tails.root[0].T
    expected = stats.multivariate_t(tails.centre[0], shape, df=int(DEGREES))
    np.testing.assert_allclose(tails.log_prob(u)[0], expected.logpdf(u[0]), rtol=1e-10)
    drawn = HeavyTails(tails.centre, tails.root).draw(200_000, rng)[0]
    covariance = shape * DEGREES / (DEGREES - 2)
    # The fourth moment of five degrees of freedom is 9: a variance is known to √(8/N).
    np.testing.assert_allclose(np.cov(drawn.T), covariance, rtol=0.05, atol=0.02)
