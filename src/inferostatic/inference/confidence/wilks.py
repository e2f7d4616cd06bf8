"""Confidence sets by Wilks' theorem: the likelihood ratio follows χ²."""

import dataclasses
from typing import ClassVar

import numpy as np

from ..chi_square import chi2_p_value
from ..lattice import Axes
from ..likelihood.likelihood import Likelihood
from .method import AbstractConfidenceMethod, AbstractPointTest
from .observed_fit import ObservedFit


@dataclasses.dataclass(frozen=True)
class Wilks(AbstractConfidenceMethod):
    """The statistic follows χ² with as many degrees of freedom as parameters of interest.

    It holds for the true likelihood, many events, and θ away from the edges of the region. For
    weighted events the statistic is divided by how much larger their variance is.
    """

    name: ClassVar[str] = "wilks"
    random: ClassVar[bool] = False
    trusts_potential: ClassVar[bool] = True

    def prepare(
        self, likelihood: Likelihood, observed: ObservedFit, *, seed: int
    ) -> AbstractPointTest:
        """Only the variance of weighted events is needed."""
        del likelihood, seed
        return _ChiSquare(observed)


@dataclasses.dataclass(frozen=True, eq=False)
class _ChiSquare(AbstractPointTest):
    observed: ObservedFit

    def p_values(
        self,
        statistic: np.ndarray,
        theta: np.ndarray,
        indices: list[int],
        *,
        axes: Axes | None = None,
        show: bool | None,
    ) -> np.ndarray:
        del theta, axes, show
        ratio = self.observed.variance_ratio(indices)
        return chi2_p_value(statistic / ratio, len(indices))

    def notes(self) -> list[str]:
        if self.observed.sandwich is None:
            return []
        return ["−2 ln λ is scaled to the scatter of the weighted events"]
