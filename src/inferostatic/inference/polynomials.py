"""Polynomials of several variables: products of normalised Legendre polynomials."""

import itertools
from math import comb

import numpy as np
from numpy.polynomial.legendre import legvander

#: Most terms of a polynomial: more would be hardly known, and take long with many parameters.
MOST_TERMS = 100


def list_degrees(dim: int, total: int) -> np.ndarray:
    """Degrees of every product up to a total degree, the constant first, shape (terms, dim).

    The total degree is lowered until there are at most `MOST_TERMS` products.
    """
    while total > 1 and comb(dim + total, total) > MOST_TERMS:
        total -= 1
    return np.array(
        [
            np.bincount(np.array(factors, int), minlength=dim)
            for degree in range(total + 1)
            for factors in itertools.combinations_with_replacement(range(dim), degree)
        ]
    )


def evaluate_legendre(u: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Products of Legendre polynomials, shape (n, terms), at points u of shape (n, dim).

    They are orthonormal for a uniform distribution in the cube from −1 to 1.
    """
    highest = int(degrees.max(initial=0))
    scale = np.sqrt(2 * np.arange(highest + 1) + 1)
    result = np.ones((len(u), len(degrees)))
    for j in range(u.shape[1]):
        result *= (legvander(u[:, j], highest) * scale)[:, degrees[:, j]]
    return result
