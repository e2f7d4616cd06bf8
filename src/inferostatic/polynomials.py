"""Polynomials of several variables: monomials, and products of normalised Legendre polynomials."""

import itertools
from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.polynomial.legendre import legvander

#: Most terms of a polynomial: more would be hardly known, and take long with many parameters.
MOST_TERMS = 100


def list_powers(
    dim: int, degree: int, highest: Sequence[int] | None = None, *, most: int | None = None
) -> np.ndarray:
    """Exponents of all monomials of `dim` variables up to a total degree, shape (terms, dim).

    Args:
        dim: number of variables.
        degree: largest sum of the exponents.
        highest: largest exponent of each variable; default the degree.
        most: list no more than these, for whoever cannot use more.

    Examples:
        >>> list_powers(2, 2, highest=[2, 1]).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]
    """
    limits = [degree] * dim if highest is None else [min(degree, int(h)) for h in highest]
    listed = itertools.islice(_powers(tuple(limits), degree), most)
    return np.array(list(listed), dtype=np.int64).reshape(-1, dim)


def _powers(limits: tuple[int, ...], degree: int) -> itertools.chain[tuple[int, ...]]:
    # Recursive rather than a filtered product, which is far too long for many variables.
    if not limits:
        return itertools.chain([()])
    return itertools.chain.from_iterable(
        ((first, *rest) for rest in _powers(limits[1:], degree - first))
        for first in range(min(limits[0], degree) + 1)
    )


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
