"""What a method of making confidence sets must do."""

import abc
from typing import ClassVar

import numpy as np

from ..lattice import Axes
from ..likelihood.likelihood import Likelihood
from .observed_fit import ObservedFit


class AbstractPointTest(abc.ABC):
    """Turns the observed statistic at points into p-values."""

    @abc.abstractmethod
    def p_values(
        self,
        statistic: np.ndarray,
        theta: np.ndarray,
        indices: list[int],
        *,
        axes: Axes | None = None,
        show: bool | None,
    ) -> np.ndarray:
        """The probability of a larger statistic, shape (m,).

        Args:
            statistic: −2 ln of the observed likelihood ratio at each point, shape (m,).
            theta: all parameters at the points, those not of interest profiled, shape (m, d).
            indices: of the parameters of interest.
            axes: of the lattice of which these are all points, so that neighbours may help each
                other; None for points of any kind.
            show: force the progress bar on or off.
        """

    @abc.abstractmethod
    def notes(self) -> list[str]:
        """How the p-values were found, in words."""


class AbstractConfidenceMethod(abc.ABC):
    """A method of making confidence sets, with its options."""

    #: For tables and messages.
    name: ClassVar[str]
    #: Whether p-values come from toys, so that a grid may have to be laid again.
    random: ClassVar[bool]
    #: Whether a bias of the learned score is one of the set.
    trusts_potential: ClassVar[bool]

    @abc.abstractmethod
    def prepare(
        self, likelihood: Likelihood, observed: ObservedFit, *, seed: int
    ) -> AbstractPointTest:
        """A test for one data set."""
