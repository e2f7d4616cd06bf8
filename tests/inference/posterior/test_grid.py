"""Grid posteriors by a polynomial through exact sums, and without."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_estimator, exact_normal
from inferostatic.inference.posterior import grid
from inferostatic.inference.posterior.grid import grid_posterior
from inferostatic.inference.posterior.log_posterior import Target, build_target

DIRICHLET, MEAN = exact_dirichlet(), exact_normal()


def kinked(x, theta):
    return -5 * jnp.abs(x[0] - theta[0])


KINKED = exact_estimator(kinked, ist.Uniform([-3.0], [3.0]), np.array([-7.0]), np.array([7.0]))


def target_of(estimator: ist.Estimator, x: np.ndarray, prior: Any = None, **fixed: float) -> Target:
    chosen: Any = estimator.prior if prior is None else prior
    return build_target(ist.Likelihood(estimator, x, fixed=fixed), chosen)


@pytest.mark.parametrize("events", [1, 30])
def test_a_polynomial_gives_the_posterior_of_exact_sums(events, monkeypatch):
    x = ist.toys.Dirichlet()(np.tile([1.5, 3.0, 4.0], (events, 1)), np.random.default_rng(3))
    target = target_of(DIRICHLET, x.astype(np.float32), c=4.0)
    assert grid._fit_surface(target, target.low, target.high, 64) is not None
    found = grid_posterior(target)
    monkeypatch.setattr(grid, "_fit_surface", lambda *given: None)
    exact = grid_posterior(target)
    for ours, theirs in zip(found.edges, exact.edges, strict=True):
        np.testing.assert_allclose(ours, theirs)
    likely = exact.probability > 1e-3 * exact.probability.max()
    shift = found.log_prob - exact.log_prob
    assert np.abs(shift[likely]).max() < 0.003


def test_what_no_polynomial_follows_is_evaluated_everywhere():
    target = target_of(KINKED, np.array([[0.2]]))
    assert grid._fit_surface(target, target.low, target.high, 512) is None
    found = ist.posterior(KINKED, [[0.2]], method=ist.Grid(), seed=1)
    # That of −5|t − 0.2|: standard deviation √2/5.
    assert found.mean[0] == pytest.approx(0.2, abs=2e-3)
    assert found.std[0] == pytest.approx(np.sqrt(2) / 5, rel=2e-3)


def test_an_edge_of_the_prior_is_not_smoothed():
    """A prior that jumps is taken exactly; a polynomial would ring there."""
    prior = ist.CustomPrior(
        draw_one=lambda key: jax.random.uniform(key, (1,), minval=-3.0, maxval=3.0),
        log_density_of=lambda theta: jnp.where(theta[0] > 0.5, 0.0, -3.0),
        low=[-3.0],
        high=[3.0],
        names=["theta0"],
    )
    target = target_of(MEAN, np.array([[0.4]]), prior)
    assert grid._fit_surface(target, target.low, target.high, 512) is not None
    found = grid_posterior(target)
    t = found.midpoints[0]
    wanted = -((t - 0.4) ** 2) / 2 + np.where(t > 0.5, 0.0, -3.0)
    np.testing.assert_allclose(np.diff(found.log_prob), np.diff(wanted), atol=1e-6)
