r"""Confidence sets by the Neyman construction: p-values from toys at every θ.

The statistic is the likelihood ratio to the best fit in the physical region (Feldman and Cousins,
Phys. Rev. D57, 3873; with the other parameters profiled). Its p-value is that among toys simulated
at θ_I and the fitted values of the other parameters. It is right whatever the estimator, because
the same function of the data is applied to the toys; a bad estimator gives larger sets, not wrong
ones. One difference is left: toys of 50 or more events are maximised around the θ at which they
were made, and a second maximum far away, which the fit of the observed events would find, is not
looked for in them.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...inputs import as_count, warn_user
from ...progress import progress
from ..likelihood.likelihood import Likelihood
from .method import AbstractConfidenceMethod, AbstractPointTest
from .observed_fit import ObservedFit
from .toy_fits import ToyFitter
from .toys import ToySource, describe_toys, make_toy_maker, require_source

#: Statistics that differ by less are equal: discrete data repeat values up to rounding.
TIE = 1e-4
#: Part of the fits of toys without convergence above which there is a warning.
TOLERATED_FAILURES = 0.01


@dataclasses.dataclass(frozen=True)
class Neyman(AbstractConfidenceMethod):
    """The distribution of the statistic is that among toys at each θ.

    For all parameters of interest and a simulator, the coverage is exact for any estimator;
    profiled nuisance parameters or stored events make it approximate.

    Args:
        simulator: function (theta, rng) -> x; or simulated `ist.Events` at many θ, of which those
            nearest to the θ that is tested are used. For several channels a list, one for each.
        toys: at each point.
        pool: events simulated at each point, from which toys are drawn without replacement; by
            default all of them independent for few events, otherwise at least 20 times the events
            of a toy.
    """

    name: ClassVar[str] = "neyman"
    random: ClassVar[bool] = True
    trusts_potential: ClassVar[bool] = False

    simulator: ToySource | Sequence[ToySource]
    toys: int = 1000
    pool: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        require_source(self.simulator)
        as_count(self.toys, "toys")
        if self.pool is not None:
            as_count(self.pool, "pool")

    def prepare(
        self, likelihood: Likelihood, observed: ObservedFit, *, seed: int
    ) -> AbstractPointTest:
        """Toys of this likelihood."""
        options = (self.simulator, self.toys, self.pool, seed)
        return _ToyTest(ToyFitter(observed, make_toy_maker(likelihood, observed.model, *options)))


@dataclasses.dataclass(frozen=True, eq=False)
class _ToyTest(AbstractPointTest):
    fitter: ToyFitter

    def p_values(
        self, statistic: np.ndarray, theta: np.ndarray, indices: list[int], *, show: bool | None
    ) -> np.ndarray:
        values = np.empty(len(theta))
        with progress("toys", len(theta), show=show) as advance:
            for i, point in enumerate(theta):
                values[i] = p_value(self.fitter.statistic(point, indices), statistic[i])
                advance(1)
        return values

    def notes(self) -> list[str]:
        fitter, maker = self.fitter, self.fitter.maker
        notes = describe_toys(maker)
        if maker.shared > 0:
            # The variance of a mean of indicators whose correlation is at most the shared fraction.
            error = np.sqrt(0.25 * (1 / maker.toys + maker.shared))
            notes.append(
                f"two toys share {maker.shared:.2%} of their events on average, so a p-value's "
                f"standard error is at most {error:.3f}"
            )
        if fitter.failed > TOLERATED_FAILURES * fitter.fits:
            warn_user(
                f"{fitter.failed / fitter.fits:.1%} of the fits of toys did not converge; the set "
                "is still valid, as the observed events are treated alike, but may be larger than "
                "need be."
            )
        return notes + fitter.describe_failures()


def p_value(toys: np.ndarray, observed: float) -> float:
    """The observed set counts as one more toy: then P(p ≤ α) ≤ α for any number of toys."""
    return float((1 + np.sum(toys >= observed - TIE)) / (1 + len(toys)))
