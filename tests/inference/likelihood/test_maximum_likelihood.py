"""Maximum likelihood, on potentials whose maximum is known and on trained ones.

An exact potential is a network that computes ln p(x; θ) itself, so that every difference from the
known answer is the fit's own.
"""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import optimize

import exact_estimators
import inferostatic as ist
from exact_estimators import dirichlet, gaussian
from inferostatic.estimator.history import Region
from inferostatic.inference.likelihood.event_sum import CHUNK_EVENTS
from inferostatic.inference.likelihood.maximum_likelihood import MaximumLikelihood, NotConverged
from optional import OptionalPackage

pd = OptionalPackage("pandas")

TOY = ist.toys.Dirichlet(3)
LOW, HIGH = np.full(3, 0.5), np.full(3, 6.0)


def exact_estimator(
    f: Callable[[Array, Array], Array], strengths: tuple[float, ...] = (1.0,), **changes: Any
) -> ist.Estimator:
    prior = ist.Uniform(LOW, HIGH, names=["a", "b", "c"])
    wide = np.full(3, 1e3)
    estimator = exact_estimators.exact_estimator(
        f, prior, -wide, wide, strengths=strengths, x_names=("p", "q", "r")
    )
    return dataclasses.replace(estimator, **changes)


def flat(x: Array, theta: Array) -> Array:
    return jnp.sum(x) + 0 * jnp.sum(theta)


GAUSSIAN = exact_estimator(gaussian)


def gaussian_events(n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal([2.0, 3.0, 4.0], 0.5, (n, 3)).astype(np.float32).astype(np.float64)


def exact_dirichlet_fit(x: np.ndarray) -> np.ndarray:
    found = optimize.minimize(
        lambda theta: -TOY.log_prob(x, theta).sum(),
        [1.5, 2.5, 3.5],
        jac=lambda theta: -TOY.score(x, theta).sum(axis=0),
        method="L-BFGS-B",
        bounds=list(zip(LOW, HIGH, strict=True)),
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    return found.x


# Truth.


@pytest.mark.parametrize("n", [1, 17, CHUNK_EVENTS, CHUNK_EVENTS + 5])
def test_gaussian_events_give_their_mean_and_padding_does_not_count(n: int) -> None:
    x = gaussian_events(n)
    fit = ist.maximum_likelihood(GAUSSIAN, x)
    np.testing.assert_allclose(fit.theta, x.mean(axis=0), atol=0.01 / np.sqrt(n))
    np.testing.assert_allclose(fit.covariance, np.eye(3) / n, atol=0.01 / n)
    np.testing.assert_allclose(fit.errors, 1 / np.sqrt(n), rtol=0.01)
    best = -0.5 * ((x - x.mean(axis=0)) ** 2).sum()
    assert fit.log_likelihood == pytest.approx(best, rel=1e-6, abs=1e-3)
    assert fit.valid
    assert fit.message == "converged"


@pytest.mark.parametrize("n", [40, 40_000])
def test_dirichlet_events_give_the_exact_estimate_and_information(n: int) -> None:
    x = TOY(np.tile([1.5, 3.0, 4.0], (n, 1)), np.random.default_rng(5))
    fit = ist.maximum_likelihood(exact_estimator(dirichlet), x)
    assert np.abs((fit.theta - exact_dirichlet_fit(x)) / fit.errors).max() < 0.02
    # An exponential family: observed and expected information agree.
    exact = np.linalg.inv(n * TOY.fisher(fit.theta))
    np.testing.assert_allclose(fit.covariance, exact, rtol=0.01)
    assert fit.log_likelihood == pytest.approx(TOY.log_prob(x, fit.theta).sum(), rel=1e-6)


def test_one_event_may_come_without_its_axis() -> None:
    x = gaussian_events(3)
    one, same = (ist.maximum_likelihood(GAUSSIAN, rows) for rows in (x[0], x[:1]))
    np.testing.assert_array_equal(one.theta, same.theta)


def test_members_are_averaged() -> None:
    x = gaussian_events(20)
    fit = ist.maximum_likelihood(exact_estimator(gaussian, (1.0, 3.0)), x)
    np.testing.assert_allclose(fit.theta, x.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(fit.errors, 1 / np.sqrt(2 * 20), rtol=0.01)


# A trained potential.


def normal_pair(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


@pytest.fixture(scope="module")
def trained() -> ist.Estimator:
    events = ist.simulate(
        normal_pair, ist.Uniform([-2] * 2, [2] * 2, names=["a", "b"]), 2000, seed=1
    )
    training = ist.Training(epochs=15, batch_size=50, learning_rate=0.01)
    method = ist.KLRE(ist.Rectangular(1.5))
    return ist.fit(events, method, network=ist.MLP((16,)), training=training, seed=2)


@pytest.fixture(scope="module")
def observed() -> np.ndarray:
    x = normal_pair(np.tile([0.5, -0.5], (300, 1)), np.random.default_rng(5))
    return x.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def fitted(trained: ist.Estimator, observed: np.ndarray) -> MaximumLikelihood:
    return ist.maximum_likelihood(trained, observed)


def test_the_estimate_maximises_the_summed_potential(
    trained: ist.Estimator, observed: np.ndarray, fitted: MaximumLikelihood
) -> None:
    def total(theta: np.ndarray) -> float:
        return float(trained.potential(observed, theta).sum())

    assert fitted.log_likelihood == pytest.approx(total(fitted.theta), abs=1e-3)
    rng = np.random.default_rng(0)
    everywhere = rng.uniform(trained.region.theta_low, trained.region.theta_high, (200, 2))
    nearby = fitted.theta + fitted.errors * rng.normal(size=(100, 2)) / 5
    nearby = np.clip(nearby, trained.region.theta_low, trained.region.theta_high)
    assert max(total(theta) for theta in np.concatenate([everywhere, nearby])) < (
        fitted.log_likelihood + 1e-3
    )
    # The exact estimate is the mean; so short a training comes near it.
    assert np.abs(fitted.theta - observed.mean(axis=0)).max() < 0.2


def test_the_gradient_is_that_of_the_value_and_the_summed_score(
    trained: ist.Estimator, observed: np.ndarray
) -> None:
    likelihood = ist.Likelihood(trained, observed)
    theta = np.array([1.1, -0.3])
    step = 1e-5
    differences = [
        (likelihood.value(theta + shift) - likelihood.value(theta - shift)) / (2 * step)
        for shift in step * np.eye(2)
    ]
    np.testing.assert_allclose(likelihood.gradient(theta), differences, rtol=1e-5, atol=1e-4)
    score = trained.score(observed, theta).sum(axis=0)
    np.testing.assert_allclose(likelihood.gradient(theta), score, rtol=1e-4, atol=1e-2)


def test_the_covariance_is_the_inverse_hessian(
    trained: ist.Estimator, observed: np.ndarray, fitted: MaximumLikelihood
) -> None:
    likelihood = ist.Likelihood(trained, observed)
    step = 1e-4
    hessian = [
        (likelihood.gradient(fitted.theta - shift) - likelihood.gradient(fitted.theta + shift))
        / (2 * step)
        for shift in step * np.eye(2)
    ]
    np.testing.assert_allclose(-likelihood.hessian(fitted.theta), hessian, rtol=1e-4, atol=0.01)
    scale = np.outer(fitted.errors, fitted.errors)
    np.testing.assert_allclose(fitted.covariance / scale, np.linalg.inv(hessian) / scale, atol=0.01)


def test_the_result_is_reproducible_and_has_the_names(
    trained: ist.Estimator, observed: np.ndarray, fitted: MaximumLikelihood
) -> None:
    again = ist.maximum_likelihood(trained, pd.DataFrame(observed, columns=list(trained.x_names)))
    np.testing.assert_array_equal(again.theta, fitted.theta)
    assert fitted.names == ("a", "b")
    text = repr(fitted)
    assert text.startswith("MaximumLikelihood(a = ")
    assert f"b = {fitted.theta[1]:.4g} ± {fitted.errors[1]:.2g}" in text
    assert "NOT CONVERGED" not in text


def test_float64_stays_inside(trained: ist.Estimator, observed: np.ndarray) -> None:
    ist.maximum_likelihood(trained, observed)
    assert jnp.ones(1).dtype == jnp.float32
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
# The 3,000 events that are kept back tell the bias to one standard error of 100 observed events,
# which is not enough to call it small.
@pytest.mark.filterwarnings("ignore:100 observed events:UserWarning")
def test_a_well_trained_model_agrees_with_the_exact_estimate() -> None:
    n = 100
    events = ist.simulate(TOY, ist.Uniform([0.3] * 3, [5.5] * 3), 60_000, seed=1)
    est = ist.fit(events, seed=2)
    rng = np.random.default_rng(3)
    for truth in ([1.5, 3.0, 4.0], [3.0, 3.0, 3.0], [1.0, 2.0, 2.0]):
        x = TOY(np.tile(truth, (n, 1)), rng)
        exact = exact_dirichlet_fit(x)
        fit = ist.maximum_likelihood(est, x)
        errors = np.sqrt(np.diag(np.linalg.inv(n * TOY.fisher(exact))))
        # The bias of φ adds up over the events, so agreement is a matter of their number.
        assert np.abs((fit.theta - exact) / errors).max() < 1.0
        # An event has a twentieth of the information about all θ scaled together that it has about
        # other directions, and the curvature along it is learned least well.
        np.testing.assert_allclose(fit.errors, errors, rtol=0.5)


# Where to begin, and where it ends.


def test_a_start_is_used() -> None:
    x = gaussian_events(30)
    fit = ist.maximum_likelihood(GAUSSIAN, x, start=[5.5, 0.6, 1])
    np.testing.assert_allclose(fit.theta, x.mean(axis=0), atol=1e-3)

    def two_hills(x: Array, theta: Array) -> Array:
        return -jnp.sum(((theta[0] - 2) * (theta[0] - 5)) ** 2 + jnp.sum((x - theta)[1:] ** 2))

    est = exact_estimator(two_hills)
    assert ist.maximum_likelihood(est, x, start=[1.8, 3, 4]).theta[0] == pytest.approx(2, abs=0.01)
    assert ist.maximum_likelihood(est, x, start=[5.2, 3, 4]).theta[0] == pytest.approx(5, abs=0.01)


def test_an_estimate_at_the_edge_of_the_region_is_warned_about() -> None:
    x = gaussian_events(50) + [0.0, 10.0, 0.0]
    with pytest.warns(UserWarning, match="edge of the trained region in b; .* Simulate wider"):
        fit = ist.maximum_likelihood(GAUSSIAN, x)
    assert fit.valid
    assert fit.theta[1] == pytest.approx(HIGH[1], abs=1e-3)
    assert "edge of the trained region in b" in fit.message


def test_events_outside_the_range_seen_in_training_are_warned_about() -> None:
    seen = Region(LOW, HIGH, np.zeros(3), np.full(3, 4.0))
    with pytest.warns(UserWarning, match="outside the range of x seen in training"):
        ist.maximum_likelihood(exact_estimator(gaussian, region=seen), gaussian_events(30))


def test_no_convergence_is_an_error_unless_told_otherwise() -> None:
    with pytest.raises(NotConverged, match=r"did not converge.*start=.*throw=False"):
        ist.maximum_likelihood(exact_estimator(flat), gaussian_events(5))
    result = ist.maximum_likelihood(exact_estimator(flat), gaussian_events(5), throw=False)
    assert not result.valid
    assert "did not converge" in result.message
    assert repr(result).endswith("; NOT CONVERGED)")


def test_a_log_likelihood_of_exactly_zero_is_reported() -> None:
    def zero_at_its_maximum(x: Array, theta: Array) -> Array:
        return gaussian(jnp.full(3, 3.25) + 0 * x, theta)

    fit = ist.maximum_likelihood(exact_estimator(zero_at_its_maximum), gaussian_events(4))
    assert fit.log_likelihood == pytest.approx(0, abs=1e-5)


# Misuse.


def test_without_iminuit_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "iminuit", None)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[inference\]'"):
        ist.maximum_likelihood(GAUSSIAN, gaussian_events(5))
