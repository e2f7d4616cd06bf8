"""Quantiles and p-values of χ², without loading scipy.stats."""

from typing import overload

import numpy as np
from scipy import special


def chi2_quantile(level: float, freedom: int) -> float:
    """Where the distribution function of χ² reaches a level."""
    return float(2 * special.gammaincinv(freedom / 2, level))


@overload
def chi2_p_value(chi2: float, freedom: int) -> float: ...
@overload
def chi2_p_value(chi2: np.ndarray, freedom: int) -> np.ndarray: ...
def chi2_p_value(chi2: np.ndarray | float, freedom: int) -> np.ndarray | float:
    """The probability of a larger χ²."""
    return special.gammaincc(freedom / 2, chi2 / 2)
