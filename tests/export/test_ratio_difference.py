"""Log ratios of exports: those of the model, and better rounded where potentials are large."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from export_estimators import SMALL, attention, scaled_estimator
from inferostatic.export.parity import choose_points, exact_values, reference_values, worst_error
from inferostatic.export.ratio_difference import log_ratio_of
from inferostatic.inference.likelihood.float64 import float64, in_float64
from inferostatic.models.members import each_member, mean, with_network

KINDS = SMALL | {
    "a user's network": lambda: scaled_estimator(ist.Potential(attention)),
    "deep": lambda: scaled_estimator(ist.Potential(ist.MLP((6, 5, 4), activation=jnp.tanh))),
}


@eqx.filter_jit
def log_ratios(model: Any, *rows: Any) -> Any:
    return mean(
        each_member(model, lambda one: jax.vmap(lambda *row: log_ratio_of(one, *row))(*rows))
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "direct score"])
def test_the_ratio_is_that_of_the_model(kind: str) -> None:
    est = KINDS[kind]()
    points = choose_points(est, 50)
    with float64():
        rows = [jnp.asarray(part, jnp.float64) for part in points.inputs("log_ratio").values()]
        found = np.asarray(log_ratios(in_float64(est.model), *rows))
    expected = exact_values(est, "log_ratio", points)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_sums_of_large_numbers_round_less() -> None:
    """Potentials of hundreds and log ratios of some units, as at the corners of a region."""
    est = scaled_estimator(ist.Potential(ist.Residual(64, 2)))
    steep = np.where(np.arange(7) < 5, 100, 1).astype(np.float32)  # by x, and not by θ
    network = eqx.tree_at(
        lambda n: n.first.weight, est.model.network, replace_fn=lambda w: steep[None, None] * w
    )
    est = dataclasses.replace(est, model=with_network(est.model, network))
    points = choose_points(est, 2000)
    exact = exact_values(est, "log_ratio", points)
    found = np.asarray(log_ratios(est.model, *points.inputs("log_ratio").values()))
    plain = reference_values(est, "log_ratio", points)
    potential = reference_values(est, "potential", points)
    assert np.abs(potential).max() > 10 * np.abs(exact).max()
    assert np.std(found - exact) < np.std(plain - exact) / 2


def test_exchanged_parameters_change_the_sign_alone() -> None:
    """Operation by operation, as other programs compute; XLA joins some, and rounds differently."""
    est = SMALL["residual"]()
    points = choose_points(est, 20)

    def ask(*thetas: np.ndarray) -> np.ndarray:
        each = [jnp.asarray(part) for part in (points.x, *thetas)]
        one = with_network(est.model, jax.tree.map(lambda leaf: leaf[0], est.model.network))
        return np.asarray(jax.vmap(lambda *row: log_ratio_of(one, *row))(*each))

    forth, back = ask(points.theta0, points.theta1), ask(points.theta1, points.theta0)
    np.testing.assert_array_equal(forth, -back)
    np.testing.assert_array_equal(ask(points.theta0, points.theta0), 0)


def test_exact_values_are_those_of_the_estimator_to_its_rounding() -> None:
    for kind in ("residual", "two tower", "particles", "natural", "direct ratio"):
        est = KINDS[kind]()
        points = choose_points(est, 50)
        exact = exact_values(est, "log_ratio", points)
        assert exact.dtype == np.float64
        assert 0 < worst_error(reference_values(est, "log_ratio", points), exact) < 1e-5
