r"""For how many observed events an estimator may be trusted.

The mean of its score at θ, which should be 0, shifts estimates by \(b\sqrt N\) standard errors for
N events (`estimator/measured_mean`). It is measured by validation events, at many of their θ.
"""

import dataclasses

import numpy as np

from ..chunks import spread_rows
from ..estimator.estimator import Estimator
from ..estimator.trusted_events import (
    CERTAIN,
    TOLERATED,
    TOLERATED_PART,
    compute_shifts,
    count_trusted_at_most,
)
from ..events.events import Events
from ..learning.measure_bias import measure_bias
from ..summary import AbstractSummarised, Summary, SummaryTable
from .validation_events import suppress_repeated_warnings

#: θ of events at which the bias is looked at.
POINTS = 200


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class BiasOverTheta(AbstractSummarised):
    """The bias of estimates from one event, in their standard errors, at θ of validation events.

    Attributes:
        names: of the parameters.
        theta: shape (m, d).
        bias: of each parameter, the others fitted too, shape (m, d).
        error: of the bias, shape (m, d).
        events: effective number of events that it was measured with.
    """

    names: tuple[str, ...]
    theta: np.ndarray
    bias: np.ndarray
    error: np.ndarray
    events: float

    @property
    def trusted_events(self) -> int:
        """The most observed events for which estimates are not biased, at nine of ten θ."""
        return count_trusted_at_most(self.bias, self.error)

    def verdict(self, observed: float) -> str:
        """One of "biased", "not biased" and "cannot be told" for so many observed events."""
        if observed <= self.trusted_events:
            return "not biased"
        least = np.max(np.abs(self.bias) - CERTAIN * self.error, axis=1) * np.sqrt(observed)
        return "biased" if np.mean(least > TOLERATED) > TOLERATED_PART else "cannot be told"

    def describe(self, observed: float | None) -> str:
        """What it means for so many observed events, in a sentence or two."""
        trusted = self.trusted_events
        text = (
            f"Estimates from up to {trusted:,} observed events may be trusted."
            if trusted
            else "Estimates may not be trusted as they are, for any number of observed events: "
            f"their bias is too large, or the {self.events:,.0f} events that measured it are too "
            "few. Use ist.calibrated_fit, or more events."
        )
        if observed is None:
            return text
        worst = np.argmax(np.abs(self.bias) - CERTAIN * self.error)
        row, k = np.unravel_index(worst, self.bias.shape)
        size, error = np.sqrt(observed) * self.bias[row, k], np.sqrt(observed) * self.error[row, k]
        return (
            f"For {observed:,.0f} events: {self.verdict(observed)} (in {self.names[k]} by "
            f"up to {size:+.2f} ± {error:.2f} standard errors, by {self.events:,.0f} events). "
            f"{text}"
        )

    def __repr__(self) -> str:
        """How many events may be trusted."""
        return f"BiasOverTheta({self.describe(None)})"

    def _summarise(self) -> Summary:
        columns = {
            "parameter": list(self.names),
            "rms bias": [f"{value:.2g}" for value in np.sqrt(np.mean(self.bias**2, axis=0))],
            "its error": [f"{value:.2g}" for value in np.sqrt(np.mean(self.error**2, axis=0))],
            "largest": [f"{value:.2g}" for value in np.max(np.abs(self.bias), axis=0)],
        }
        title = (
            f"Learned bias of the estimate from one event, in its standard errors, at "
            f"{len(self.theta):,} θ"
        )
        return Summary(title, (SummaryTable(columns), self.describe(None)))


def compute_bias(estimator: Estimator, events: Events) -> BiasOverTheta | None:
    """The bias at θ of all events, not only those of the other checks; None of too few."""
    with suppress_repeated_warnings():
        found = measure_bias(estimator, events).score_bias
    if found is None:
        return None
    inside = np.flatnonzero(estimator.region.contains_theta(np.asarray(events.theta)))
    rows = inside[spread_rows(len(inside), POINTS)]
    points = np.asarray(events.theta, np.float64)[rows]
    bias, error = compute_shifts(found, points)
    return BiasOverTheta(estimator.theta_names, points, bias, error, found.events)
