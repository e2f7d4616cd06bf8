"""What one check found: how surely something is wrong, and how large the deviation is."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import chdtrc, ndtr

from ..summary import SummaryTable

#: p-value below which a deviation is taken for real; a diagnosis has seven of them.
SIGNIFICANT = 1e-3
#: p-value, times the number of tests, below which a deviation is notable, though not proven: of
#: exact estimators one in twenty has such a finding.
NOTABLE = 0.05
#: p-value below which only the bound is printed.
SMALLEST_SHOWN = 1e-6

Grade = Literal["good", "notable", "small", "wrong"]


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
        tests: number of findings that are judged together; among many, one has a small p-value by
            chance.
        smallest_p_value: that the check can give, where it counts simulations; 0 for others.
    """

    name: str
    p_value: float
    size: float
    tolerance: float
    description: str
    tests: int = 1
    smallest_p_value: float = 0.0

    @property
    def grade(self) -> Grade:
        """The verdict in a word.

        "good": nothing that chance does not explain. "notable": a deviation that is not proven, as
        chance makes one of this p-value, or a smaller one, in less than 5% of so many tests.
        "small": a proven deviation, but a tolerable one. "wrong": proven, and too large.

        Where too few simulations were counted for any p-value to prove something, and the p-value
        is the smallest possible, the size decides instead.
        """
        if self.p_value < SIGNIFICANT:
            return "wrong" if self.size > self.tolerance else "small"
        if self.limited:
            return "wrong" if self.size > self.tolerance else "notable"
        return "notable" if self.tests * self.p_value < NOTABLE else "good"

    @property
    def limited(self) -> bool:
        """Whether the p-value is the smallest that the check can give, and proves nothing."""
        return bool(SIGNIFICANT <= self.p_value <= self.smallest_p_value)

    def __str__(self) -> str:
        """One line."""
        end = ", the smallest that so few simulations can give" if self.limited else ""
        return f"{self.name}: {self.grade}; {self.description} (p-value {self.p_text}{end})"

    @property
    def p_text(self) -> str:
        """The p-value as it is printed, such as "0.03", "<1e-06", or "<0.02" where limited."""
        if self.limited or self.p_value < SMALLEST_SHOWN:
            return f"<{max(self.p_value, SMALLEST_SHOWN):.2g}"
        return f"{self.p_value:.2g}"


def tabulate_findings(findings: Sequence[Finding]) -> SummaryTable:
    """A line for each check."""
    columns = {
        "": [finding.grade for finding in findings],
        "check": [finding.name for finding in findings],
        "p": [finding.p_text for finding in findings],
        "what was found": [finding.description for finding in findings],
    }
    return SummaryTable(columns, left=("", "check", "what was found"))


def list_grades(findings: Sequence[Finding]) -> str:
    """The verdicts with their p-values, in a line."""
    return "; ".join(f"{one.name}: {one.grade}, p {one.p_text}" for one in findings)


def judge_together(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each as one among so many tests."""
    return tuple(dataclasses.replace(finding, tests=len(findings)) for finding in findings)


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
