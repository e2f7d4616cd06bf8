"""Terms of polynomials of several variables."""

import itertools
from collections.abc import Sequence

import numpy as np


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
