"""Quantiles and p-values of χ², without loading scipy.stats."""

import numpy as np
from scipy import special


def chi2_quantile(level: float, freedom: int) -> float:
    """Where the distribution function of χ² reaches a level."""
    return float(2 * special.gammaincinv(freedom / 2, level))


def chi2_p_value(chi2: np.ndarray | float, freedom: int) -> np.ndarray:
    """The probability of a larger χ²."""
    return special.gammaincc(freedom / 2, np.asarray(chi2) / 2)
