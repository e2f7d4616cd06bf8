"""How far the two forms of one information, E[ŝŝᵀ] and −E[∇²φ̂], differ, and if by chance."""

import dataclasses

import numpy as np

from ...summary import AbstractSummarised, Summary, tabulate_facts
from ..chi_square import chi2_p_value
from .symmetric_matrices import (
    pack_triangle,
    relative_eigenvalues,
    standard_errors,
    unpack_triangle,
)

#: Eigenvalue of a matrix of unit diagonal that counts as zero, relative to the largest: rounding
#: of float32 scores.
SINGULAR = 1e-9


@dataclasses.dataclass(frozen=True, repr=False)
class Disagreement(AbstractSummarised):
    """How far E[ŝŝᵀ] and −E[∇²φ̂] are from each other.

    Attributes:
        difference: the first less the second, shape (d, d).
        error: its standard errors, shape (d, d).
        relative: the largest |λ| of the difference, where the mean of both forms is the unit.
        chi2: the whole difference squared, in units of its covariance.
        dof: independent numbers in it.
        p_value: of so large a χ² for an exact score.
    """

    difference: np.ndarray
    error: np.ndarray
    relative: float
    chi2: float
    dof: int
    p_value: float

    def __repr__(self) -> str:
        """Size and significance."""
        return (
            f"Disagreement({self.relative:.2%} at most; χ² = {self.chi2:.1f} for {self.dof}, "
            f"p = {self.p_value:.2g})"
        )

    def _summarise(self) -> Summary:
        facts = {
            "largest difference": f"{self.relative:.2%} of their mean",
            "χ²": f"{self.chi2:.1f} for {self.dof}",
            "p-value": f"{self.p_value:.2g}",
        }
        return Summary("Two forms of one Fisher information", (tabulate_facts(facts),))


def compare_forms(score: np.ndarray, hessian: np.ndarray, covariance: np.ndarray) -> Disagreement:
    """The difference of two forms, given the covariance of both packed triangles together."""
    half = len(covariance) // 2
    both = np.concatenate([np.eye(half), -np.eye(half)], axis=1)
    own = both @ covariance @ both.T
    chi2, dof = _find_chi2(pack_triangle(score - hessian), own)
    return Disagreement(
        difference=score - hessian,
        error=unpack_triangle(standard_errors(own), len(score)),
        relative=_find_largest_ratio(score - hessian, (score + hessian) / 2),
        chi2=chi2,
        dof=dof,
        p_value=float(chi2_p_value(chi2, dof)) if dof else 1.0,
    )


def _find_chi2(difference: np.ndarray, covariance: np.ndarray) -> tuple[float, int]:
    """χ² and its degrees of freedom, along the directions that vary at all."""
    scale = standard_errors(covariance)
    # What does not vary beyond rounding says nothing.
    varies = scale > 1e-12 * max(float(np.abs(difference).max()), float(scale.max()), 1e-300)
    if not varies.any():
        return 0.0, 0
    scale = scale[varies]
    correlation = covariance[np.ix_(varies, varies)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    kept = values > SINGULAR * values[-1]
    along = vectors[:, kept].T @ (difference[varies] / scale)
    return float((along**2 / values[kept]).sum()), int(kept.sum())


def _find_largest_ratio(difference: np.ndarray, unit: np.ndarray) -> float:
    """The largest |λ| of det(difference − λ unit) = 0."""
    scale = np.sqrt(np.abs(np.diag(unit)))
    scale = np.where(scale > 0, scale, 1.0)
    by = np.outer(scale, scale)
    if not np.linalg.eigvalsh(unit / by)[0] > SINGULAR:
        return float(np.abs(difference / by).max())
    return float(np.abs(relative_eigenvalues(difference / by, unit / by)).max())
