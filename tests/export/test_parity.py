"""Where exports are compared with estimators, and when they are refused."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from export_estimators import particle_events, scaled_estimator
from inferostatic.estimator.history import Region
from inferostatic.export import parity
from inferostatic.models.members import with_network
from random_estimators import HIGH, LOW

SMALL = ist.MLP((4,))


@pytest.fixture(scope="module")
def est() -> Any:
    return scaled_estimator(ist.Potential(SMALL), members=1)


def test_each_kind_has_its_questions(est: Any) -> None:
    assert parity.questions_of(est) == ("potential", "score", "log_ratio")
    assert parity.questions_of(scaled_estimator(ist.DirectScore(SMALL))) == ("score",)
    assert parity.questions_of(scaled_estimator(ist.DirectRatio(SMALL))) == ("log_ratio",)


def test_what_cannot_be_exported_is_refused_with_an_alternative(est: Any) -> None:
    fields = {field.name: getattr(est, field.name) for field in dataclasses.fields(est)}
    with pytest.raises(ist.export.ExportError, match=r"normalising flow.*ist.fit\(events"):
        parity.questions_of(ist.DensityEstimator(**fields))
    with pytest.raises(ist.export.ExportError, match=r"matrix element.*ist.fit\(events"):
        parity.questions_of(object.__new__(ist.MatrixElement))
    with pytest.raises(TypeError, match="a trained estimator.*got"):
        parity.questions_of("model.zip")


def test_a_broken_model_is_refused(est: Any) -> None:
    network = eqx.tree_at(
        lambda n: n.layers[0].bias, est.model.network, replace_fn=lambda b: b + jnp.nan
    )
    broken = dataclasses.replace(est, model=with_network(est.model, network))
    with pytest.raises(ist.export.ExportError, match="cannot be exported: .*finite"):
        parity.questions_of(broken)


def test_weights_that_do_not_fit_are_refused(est: Any) -> None:
    network = eqx.tree_at(
        lambda n: n.layers[0].weight, est.model.network, replace_fn=lambda w: w[..., :-1]
    )
    broken = dataclasses.replace(est, model=with_network(est.model, network))
    with pytest.raises(ist.export.ExportError, match="cannot be evaluated for 5 observables and 2"):
        parity.questions_of(broken)


def test_points_fill_the_region_and_reach_its_edges(est: Any) -> None:
    points = parity.choose_points(est, 4000)
    for rows, low, high in [
        (points.x, est.region.x_low, est.region.x_high),
        (points.theta0, LOW, HIGH),
        (points.theta1, LOW, HIGH),
    ]:
        low, high = low.astype(np.float32), high.astype(np.float32)
        assert rows.dtype == np.float32
        assert (rows >= low).all()
        assert (rows <= high).all()
        at_edge = (rows == low) | (rows == high)
        # An eighth of the coordinates: half of them, in a quarter of the events.
        np.testing.assert_allclose(at_edge.mean(axis=0), 0.125, atol=0.03)
        inner = np.where(at_edge, np.nan, rows)
        np.testing.assert_allclose(np.nanmean(inner, axis=0), (low + high) / 2, atol=0.15)
    assert (points.theta0 != points.theta1).any(axis=1).mean() > 0.95


def test_points_stay_finite_where_the_region_has_no_edge(est: Any) -> None:
    region = Region(np.array([-np.inf, -3.0]), np.array([np.inf, 3.0]), np.zeros(5), np.ones(5))
    points = parity.choose_points(dataclasses.replace(est, region=region))
    centre, scale = (
        np.asarray(part)[0] for part in (est.shapes.theta_centre, est.shapes.theta_scale)
    )
    assert np.abs(points.theta0[:, 0] - centre).max() == pytest.approx(3 * scale, rel=1e-5)


def test_points_stay_finite_where_an_observable_has_no_edge(est: Any) -> None:
    low, high = np.array([-np.inf, -np.inf, 5.0, 0, 0]), np.array([np.inf, -8.0, np.inf, 1, 1])
    open_region = dataclasses.replace(est.region, x_low=low, x_high=high)
    x = parity.choose_points(dataclasses.replace(est, region=open_region)).x
    assert np.isfinite(x).all()
    assert ((x >= low) & (x <= high)).all()
    assert x.std(axis=0).min() > 0.1


@pytest.mark.parametrize("mask", [None, 1])
def test_points_have_any_number_of_particles(mask: int | None) -> None:
    features = ist.PerParticle(2, 2, mask=mask)
    network = ist.ParticleSet(2, 2, 3, SMALL, SMALL, x_features=features)
    est = scaled_estimator(ist.Potential(network), 1, particle_events())
    x = parity.choose_points(est).x
    slots = x[:, :4].reshape(-1, 2, 2)
    present = features.layout.present(slots)
    np.testing.assert_allclose(np.bincount(present.sum(axis=1)) / len(x), 1 / 3, atol=0.06)
    assert np.isfinite(x).all()
    assert (x[:, 4] != 0).all()


def test_errors_are_relative_to_one_or_the_value() -> None:
    reference = np.array([0.1, 1000.0])
    assert parity.worst_error(np.array([0.3, 1000.0]), reference) == pytest.approx(0.2)
    assert parity.worst_error(np.array([0.1, 1100.0]), reference) == pytest.approx(0.1)
    assert parity.worst_error(np.array([np.nan, 1000.0]), reference) == np.inf


def test_what_differs_is_refused(est: Any) -> None:
    points = parity.choose_points(est, 10)
    values = parity.reference_values(est, "potential", points)
    np.testing.assert_array_equal(values, est.potential(points.x, points.theta0))
    assert parity.require_parity("potential", values, values, "a copy") == 0
    near = values + 5e-6
    assert parity.require_parity("potential", near, values, "a copy") == pytest.approx(
        (5e-6 / np.maximum(1, np.abs(values))).max()
    )
    with pytest.raises(ist.export.ExportError, match="a copy does not agree.*potential is off by"):
        parity.require_parity("potential", values + 1e-3, values, "a copy")
    with pytest.raises(ist.export.ExportError, match=r"shape \(10, 1\), expected \(10,\)"):
        parity.require_parity("potential", values[:, None], values, "a copy")


def test_the_log_ratio_takes_both_parameters(est: Any) -> None:
    points = parity.choose_points(est, 10)
    assert list(points.inputs("log_ratio")) == ["x", "theta0", "theta1"]
    assert list(points.inputs("score")) == ["x", "theta"]
    ratio = parity.reference_values(est, "log_ratio", points)
    phi = [est.potential(points.x, theta) for theta in (points.theta0, points.theta1)]
    np.testing.assert_allclose(ratio, phi[0] - phi[1], atol=1e-5)
