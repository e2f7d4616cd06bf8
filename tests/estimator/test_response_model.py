"""Smooth means and covariances against functions that are known."""

import numpy as np
import pytest

from inferostatic.estimator import response_model
from inferostatic.estimator.response_model import (
    PolynomialCoordinates,
    learn_covariance,
    learn_mean,
)

LOW, HIGH = np.array([-1.0, 2.0]), np.array([3.0, 2.5])
BOX = PolynomialCoordinates.of_box(LOW, HIGH)


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(LOW, HIGH, (n, 2)), rng


def curve(theta):
    u, v = BOX(theta).T
    return np.stack([1 + u - 0.5 * u * v**2, np.sin(2 * u) + v], axis=1)


def test_the_error_of_a_mean_is_what_it_says() -> None:
    # Deviations at 200 points in 20 repetitions: within a repetition they are strongly related, so
    # some tens of independent ones, and the mean square is known to a fifth.
    squares = []
    points, _ = drawn(200, 99)
    for seed in range(20):
        theta, rng = drawn(4000, seed)
        values = curve(theta) + rng.normal(size=(4000, 2)) * [1.0, 0.3]
        mean = learn_mean(theta, values, BOX, degree=6)
        predicted = [mean(point) for point in points]
        pull = [(m - t) ** 2 / v for (m, v), t in zip(predicted, curve(points), strict=True)]
        squares.append(np.mean(pull, axis=0))
    assert np.mean(squares, axis=0) == pytest.approx([1.0, 1.0], abs=0.35)


def test_shrunk_coefficients_are_the_mixture_of_their_posteriors() -> None:
    # The same by plain inverses and determinants, one size after the other.
    rng = np.random.default_rng(8)
    design, degree = rng.normal(size=(40, 4)), np.array([0, 0, 1, 2])
    gram, products = design.T @ design, rng.normal(size=(4, 2)) * 6
    mean, covariance = response_model._shrink(gram, products, degree)
    for part, b in enumerate(products.T):
        logs, means, spreads = [], [], []
        for variance in response_model.VARIANCES:
            for fall in response_model.FALLS:
                law = np.diag(variance * fall**degree)
                spread = np.linalg.inv(np.linalg.inv(law) + gram)
                logs.append(b @ spread @ b / 2 - np.linalg.slogdet(np.eye(4) + law @ gram)[1] / 2)
                means.append(spread @ b)
                spreads.append(spread)
        share = np.exp(np.array(logs) - max(logs))
        share /= share.sum()
        exact = share @ np.array(means)
        second = sum(
            w * (c + np.outer(m, m)) for w, c, m in zip(share, spreads, means, strict=True)
        )
        np.testing.assert_allclose(mean[:, part], exact, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            covariance[part], second - np.outer(exact, exact), rtol=1e-5, atol=1e-9
        )


def test_a_mean_that_is_zero_is_known_to_be_nearly_so() -> None:
    theta, rng = drawn(20_000, 1)
    mean = learn_mean(theta, rng.normal(size=(20_000, 1)), BOX, degree=6)
    found, variance = mean(np.array([1.0, 2.25]))
    # Hardly worse than six coefficients, although there are 28.
    assert variance[0] < 5 / 20_000
    assert abs(found[0]) < 4 * np.sqrt(variance[0]) + 1e-3


def test_slopes_are_those_of_the_curve() -> None:
    theta, rng = drawn(50_000, 2)
    mean = learn_mean(theta, curve(theta) + 0.01 * rng.normal(size=(50_000, 2)), BOX, degree=6)
    point, step = np.array([0.7, 2.2]), 1e-5
    exact = np.stack(
        [
            (curve(point[None] + step * e) - curve(point[None] - step * e))[0] / (2 * step)
            for e in np.eye(2)
        ],
        axis=1,
    )
    np.testing.assert_allclose(mean.slopes(point), exact, atol=0.01)
    np.testing.assert_allclose(mean.at(point[None])[0], mean(point)[0])


def test_coordinates_of_a_normal_law_follow_its_axes() -> None:
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    points = np.random.default_rng(3).multivariate_normal([1, 2], covariance, 100_000)
    place = PolynomialCoordinates.of_normal(np.array([1.0, 2.0]), covariance)(points)
    np.testing.assert_allclose(np.cov(place.T), np.eye(2) / 4, atol=0.01)


def test_an_event_of_weight_two_counts_more_but_not_as_two_independent_ones() -> None:
    theta, rng = drawn(6000, 4)
    values = curve(theta) + rng.normal(size=(6000, 2))
    weight = rng.choice([0.5, 2.0], 6000)
    plain = learn_mean(theta, values, BOX, degree=3)
    weighted = learn_mean(theta, values, BOX, degree=3, weight=weight)
    effective = weight.sum() ** 2 / np.square(weight).sum()
    ratio = weighted(np.array([1.0, 2.25]))[1] / plain(np.array([1.0, 2.25]))[1]
    assert ratio == pytest.approx(6000 / effective, rel=0.15)


def test_a_covariance_that_changes_much_is_found() -> None:
    theta, rng = drawn(60_000, 5)

    def root(theta):
        u, v = BOX(theta).T
        size = np.exp(2.5 * u)
        return np.stack(
            [np.stack([size, 0 * u], 1), np.stack([0.5 * size * v, np.ones_like(u)], 1)], axis=1
        )

    values = np.einsum("nab,nb->na", root(theta), rng.normal(size=(60_000, 2)))
    found = learn_covariance(theta, values, BOX, degree=4)
    points, _ = drawn(50, 6)
    points = LOW + (points - LOW) * 0.8 + 0.1 * (HIGH - LOW)
    white = found.whitening(points)
    exact = root(points) @ np.swapaxes(root(points), 1, 2)
    left = white @ exact @ np.swapaxes(white, 1, 2)
    np.testing.assert_allclose(left, np.broadcast_to(np.eye(2), left.shape), atol=0.12)


def test_values_are_whitened_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    theta, rng = drawn(3000, 5)
    values = rng.normal(size=(3000, 3)) * np.exp(theta[:, :1])
    found = learn_covariance(theta, values, BOX, degree=2)
    whole = np.einsum("nab,nb->na", found.whitening(theta), values)
    monkeypatch.setattr(response_model, "MATRIX_NUMBERS", 7 * 9)
    np.testing.assert_array_equal(found.whiten(theta, values), whole)
    monkeypatch.setattr(response_model, "MATRIX_NUMBERS", 1)
    np.testing.assert_array_equal(found.whiten(theta[:5], values[:5]), whole[:5])


def test_wide_values_are_whitened_in_a_krylov_space() -> None:
    """As by all eigenvectors, also where some columns vary a thousand times as much as others."""
    theta, rng = drawn(3000, 5)
    mixing = rng.normal(size=(24, 24)) * np.geomspace(0.03, 30, 24)
    values = rng.normal(size=(3000, 24)) @ mixing * np.exp(0.3 * theta[:, :1])
    values[7] = 0.0
    found = learn_covariance(theta, values, BOX, degree=2)
    exact = np.einsum("nab,nb->na", found.whitening(theta[:100]), values[:100])
    np.testing.assert_allclose(found.whiten(theta[:100], values[:100]), exact, atol=1e-6)


@pytest.mark.parametrize("ball", [False, True])
def test_beyond_the_events_a_mean_goes_on_straight(ball) -> None:
    """A polynomial of degree 6 would be anything there."""
    rng = np.random.default_rng(3)
    theta = rng.uniform(-1, 1, size=(4000, 2))
    values = np.sin(2 * theta[:, :1]) + theta[:, 1:] ** 2 + 0.1 * rng.normal(size=(4000, 1))
    coordinates = PolynomialCoordinates.of_box(np.full(2, -1.0), np.full(2, 1.0))
    if ball:
        coordinates = PolynomialCoordinates.of_normal(np.zeros(2), np.eye(2) / 4)
    mean = learn_mean(theta, values, coordinates, degree=6)
    # Outside a face of the cube only the component across it goes on, hence along an axis.
    direction = np.array([0.6, 0.8]) if ball else np.array([1.0, 0.0])
    lengths = np.array([1.0, 2.0, 51.0])
    along = mean.at(lengths[:, None] * direction)[:, 0]
    assert along[2] - along[1] == pytest.approx(49 * (along[1] - along[0]), rel=1e-6)
    before = mean.at((1 - 1e-4) * direction[None])[0, 0]
    assert along[1] - along[0] == pytest.approx((along[0] - before) / 1e-4, rel=1e-2)
    errors = [mean(length * direction)[1][0] for length in lengths]
    assert errors[0] < errors[1] < errors[2]
