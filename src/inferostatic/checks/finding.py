"""What one check found: how surely something is wrong, how large it is, and a sentence."""

import dataclasses

import numpy as np
from scipy.special import chdtrc, ndtr

#: A p-value below this is no accident.
SIGNIFICANT = 1e-3


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    With many events every network fails every exact test, so the size of the deviation decides
    between a good and a wrong estimator, and the p-value only whether there is one.

    Attributes:
        name: of the check.
        p_value: probability of so large a deviation, were the estimator exact.
        size: of the deviation, in the unit that the sentence tells.
        tolerance: size above which the estimator is called wrong.
        sentence: in words.
    """

    name: str
    p_value: float
    size: float
    tolerance: float
    sentence: str

    @property
    def grade(self) -> str:
        """Either "good", "small" (a sure but tolerable deviation) or "wrong"."""
        if not self.p_value < SIGNIFICANT:
            return "good"
        return "wrong" if self.size > self.tolerance else "small"

    def __str__(self) -> str:
        """One line."""
        p = "p < 1e-6" if self.p_value < 1e-6 else f"p = {self.p_value:.2g}"
        return f"{self.grade:5}  {self.name}: {self.sentence} ({p})"


def smallest(p_values: np.ndarray) -> float:
    """One p-value for several tests, whatever their dependence (Bonferroni)."""
    given = np.ravel(p_values)
    given = given[~np.isnan(given)]
    return float(min(1.0, len(given) * given.min())) if len(given) else float("nan")


def two_sided(z: np.ndarray) -> np.ndarray:
    """The p-value of a normal deviate of either sign."""
    return 2 * ndtr(-np.abs(z))


def uniform_p_value(counts: np.ndarray, effective: float) -> float:
    """Pearson's χ² of weighted fractions in equal bins, of so many effective draws."""
    bins = counts.shape[-1]
    rows = counts.reshape(-1, bins) / counts.sum()
    expected = rows.sum(axis=1, keepdims=True) / bins
    chi2 = effective * np.sum(np.square(rows - expected) / expected)
    return float(chdtrc(len(rows) * (bins - 1), chi2))


def effective_events(weight: np.ndarray) -> float:
    """(Σw)²/Σw²: how many events without weights these are worth."""
    return float(weight.sum() ** 2 / np.square(weight).sum())
