"""Products of Legendre polynomials."""

import numpy as np

from inferostatic.polynomials import evaluate_legendre, list_degrees


def test_legendre_products_are_orthonormal_on_the_box() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(12)
    points = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weight = np.outer(weights, weights).ravel() / 4
    terms = evaluate_legendre(points, list_degrees(2, 5))
    np.testing.assert_allclose(terms.T * weight @ terms, np.eye(terms.shape[1]), atol=1e-12)


def test_the_number_of_terms_is_bounded() -> None:
    assert len(list_degrees(2, 6)) == 28
    assert len(list_degrees(10, 6)) <= 100
