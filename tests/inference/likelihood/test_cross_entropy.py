"""The cross-entropy fit: its gradients, its agreement with the likelihood, and its errors."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import optimize

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.likelihood.cross_entropy import CrossEntropy, cross_entropy_fit
from inferostatic.inference.likelihood.event_sum import EventTerms
from inferostatic.inference.likelihood.float64 import float64, in_float64
from inferostatic.inference.likelihood.maximum_likelihood import NotConverged

TOY = ist.toys.Dirichlet(3)
DIRICHLET = exact_dirichlet()
NORMAL = exact_normal()
TRUTH, REFERENCE = np.array([1.5, 3.0, 4.0]), np.array([1.6, 2.9, 3.8])


def dirichlet_events(theta, n, seed):
    x = TOY(np.tile(theta, (n, 1)), np.random.default_rng(seed))
    return x.astype(np.float32).astype(np.float64)


def normal_events(theta, n, seed):
    x = np.random.default_rng(seed).normal(theta, 1.0, (n, 1))
    return x.astype(np.float32).astype(np.float64)


def at(theta, events, n, seed):
    x = events(theta, n, seed)
    return ist.Events(x=x, theta=np.tile(theta, (n, 1)))


def exact_loss(theta, x, x_reference, w, w_reference):
    """The loss of the exact ratio, written as in the paper."""
    r, r_reference = (
        np.exp(TOY.log_prob(rows, theta) - TOY.log_prob(rows, REFERENCE))
        for rows in (x, x_reference)
    )
    one, other = -np.log(r / (1 + r)), -np.log(1 / (1 + r_reference))
    return np.average(one, weights=w) + np.average(other, weights=w_reference)


def test_loss_and_gradients_are_those_of_the_exact_ratio():
    x, x_reference = dirichlet_events(TRUTH, 90, 1), dirichlet_events(REFERENCE, 130, 2)
    w, w_reference = np.linspace(-0.2, 2, 90), np.linspace(0.5, 1, 130)
    with float64():
        models = (in_float64(DIRICHLET.model),)
    samples = [EventTerms(models, rows, reference=REFERENCE) for rows in (x, x_reference)]
    loss = CrossEntropy(samples, [w, w_reference])
    theta, step = np.array([1.2, 3.3, 3.1]), 1e-5
    value, gradient = loss.loss_and_gradient(theta)
    assert value == pytest.approx(exact_loss(theta, x, x_reference, w, w_reference), rel=1e-10)
    ends = [(theta + shift, theta - shift) for shift in step * np.eye(3)]
    own = [
        (loss.loss_and_gradient(up)[0] - loss.loss_and_gradient(down)[0]) / (2 * step)
        for up, down in ends
    ]
    np.testing.assert_allclose(gradient, own, rtol=1e-6, atol=1e-9)
    exact = optimize.approx_fprime(theta, exact_loss, 1e-7, x, x_reference, w, w_reference)
    np.testing.assert_allclose(gradient, exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss.value_and_gradient(theta)[1], loss.scale * gradient)


def test_it_agrees_with_the_maximum_likelihood():
    x = dirichlet_events(TRUTH, 400, 3)
    likelihood = ist.maximum_likelihood(DIRICHLET, x)
    fit = cross_entropy_fit(DIRICHLET, x, reference=at(REFERENCE, dirichlet_events, 40_000, 4))
    # The reference events alone make a difference of a tenth of an error.
    assert np.abs((fit.theta - likelihood.theta) / likelihood.errors).max() < 0.3
    np.testing.assert_allclose(fit.errors, likelihood.errors, rtol=0.1)
    assert fit.reference_share.max() < 0.05
    assert repr(fit).startswith("CrossEntropyFit(a = ")
    assert "of it by reference events" in fit.summary()


def test_errors_are_the_scatter_of_repeated_fits():
    fits = []
    for seed in range(60):
        x, reference = normal_events(0.6, 100, seed), at([0.0], normal_events, 100, 1000 + seed)
        fits.append(cross_entropy_fit(NORMAL, x, reference=reference, start=[0.5]))
    theta = np.array([fit.theta[0] for fit in fits])
    # The standard deviation of 60 values is known to 9%.
    assert theta.std() == pytest.approx(np.mean([fit.errors[0] for fit in fits]), rel=0.25)
    assert abs(theta.mean() - 0.6) < 3 * theta.std() / np.sqrt(60)
    # As many reference events as observed ones make about half of the variance.
    assert 0.3 < np.mean([fit.reference_share[0] for fit in fits]) < 0.7


def test_weights_count_as_repetitions_and_fixed_parameters_stay():
    x, reference = normal_events(0.6, 100, 1), at([0.0], normal_events, 100, 2)
    weight = np.arange(100) % 3
    weighted = ist.Likelihood(NORMAL, x, weight=weight)
    one = cross_entropy_fit(weighted, reference=reference, start=[0.5])
    repeated = np.repeat(x, weight, axis=0)
    two = cross_entropy_fit(NORMAL, repeated, reference=reference, start=[0.5])
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-3)
    assert one.errors[0] > two.errors[0]

    held = ist.Likelihood(DIRICHLET, dirichlet_events(TRUTH, 1000, 3), fixed={"c": 4.0})
    reference = at(REFERENCE, dirichlet_events, 4000, 4)
    fit = cross_entropy_fit(held, reference=reference, starts=2)
    assert fit.theta[2] == 4.0
    assert fit.errors[2] == 0
    assert np.all(np.abs(fit.theta - TRUTH)[:2] < 4 * fit.errors[:2])
    reach = 1.96 * fit.errors[0] * np.array([-1, 1])
    np.testing.assert_allclose(fit.interval(0.95)[0], fit.theta[0] + reach, rtol=1e-4)
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def test_events_and_potentials_that_cannot_serve_are_refused():
    x = normal_events(0.0, 20, 1)
    zero, some = np.zeros((20, 1)), np.zeros((5, 1))
    good = ist.Events(x=x, theta=zero)
    # Bad numbers, empty sets and missing weights are refused where the events are made.
    with pytest.raises(ValueError, match="x has NaN"):
        ist.Events(x=np.full((5, 1), np.nan), theta=some)
    with pytest.raises(ValueError, match="reference.*no rows|no events"):
        cross_entropy_fit(NORMAL, x, reference=ist.Events(x=x[:0], theta=x[:0]))
    with pytest.raises(ValueError, match="weight"):
        ist.Events(x=x, theta=zero, weight=[1.0])
    flat = exact_normal(stretch=0.0)
    with pytest.raises(NotConverged, match="a nearer reference"):
        cross_entropy_fit(flat, x, reference=good)
    assert "NOT CONVERGED" in repr(cross_entropy_fit(flat, x, reference=good, throw=False))


def test_a_direct_ratio_network_serves_too():
    x = normal_events(0.6, 100, 1)
    options: dict[str, Any] = {"reference": at([0.0], normal_events, 100, 2), "start": [0.5]}
    direct = ist.RatioEstimator(**vars(NORMAL))
    one = cross_entropy_fit(direct, x, **options)
    np.testing.assert_array_equal(one.theta, cross_entropy_fit(NORMAL, x, **options).theta)
