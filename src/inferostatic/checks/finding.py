"""What one check found: how surely something is wrong, and how large the deviation is."""

import dataclasses
from typing import Literal

import numpy as np
from scipy.special import chdtrc, ndtr

#: p-value below which a deviation is taken for real; a diagnosis has seven of them.
SIGNIFICANT = 1e-3
#: p-value below which only the bound is printed.
SMALLEST_SHOWN = 1e-6

Grade = Literal["good", "small", "wrong"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    With many events every network fails every exact test, so the size of the deviation decides
    between a good and a wrong estimator, and the p-value only whether there is one.

    Attributes:
        name: of the check.
        p_value: probability of so large a deviation, were the estimator exact.
        size: of the deviation, in the unit that the description names.
        tolerance: size above which the estimator is called wrong.
        description: of the deviation, in words and numbers.
    """

    name: str
    p_value: float
    size: float
    tolerance: float
    description: str

    @property
    def grade(self) -> Grade:
        """Either "good", "small" (a significant but tolerable deviation) or "wrong"."""
        if not self.p_value < SIGNIFICANT:
            return "good"
        return "wrong" if self.size > self.tolerance else "small"

    def __str__(self) -> str:
        """One line."""
        return f"{self.name}: {self.grade}; {self.description} (p-value {self.p_text})"

    @property
    def p_text(self) -> str:
        """The p-value as it is printed, such as "0.03" or "<1e-06"."""
        below = self.p_value < SMALLEST_SHOWN
        return f"<{SMALLEST_SHOWN:.0e}" if below else f"{self.p_value:.2g}"


def combine_p_values(p_values: np.ndarray) -> float:
    """One p-value for several tests, whatever their dependence (Bonferroni)."""
    given = np.ravel(p_values)
    given = given[~np.isnan(given)]
    return float(min(1.0, len(given) * given.min())) if len(given) else float("nan")


def two_sided_p_value(z: np.ndarray) -> np.ndarray:
    """The p-value of a normal deviate of either sign."""
    return 2 * ndtr(-np.abs(z))


def uniform_p_value(counts: np.ndarray, effective: float) -> float:
    """Pearson's χ² of weighted fractions in equal bins, of so many effective draws."""
    bins = counts.shape[-1]
    rows = counts.reshape(-1, bins) / counts.sum()
    expected = rows.sum(axis=1, keepdims=True) / bins
    chi2 = effective * np.sum(np.square(rows - expected) / expected)
    return float(chdtrc(len(rows) * (bins - 1), chi2))
