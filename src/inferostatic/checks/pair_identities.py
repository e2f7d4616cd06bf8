r"""Identities that hold for the true ratio of every pair of θ, tested without knowing it.

\(E_{\theta_1}[\sigma(\ln r)]=E_{\theta_0}[\sigma(-\ln r)]\) for every pair;
\(E_{\theta_1}[r]=1\), tested only where the effective number of events is adequate: for far pairs
the variance of r is infinite, and the test would reject the true ratio.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..estimator.estimator import Estimator, RatioEstimator
from ..events.events import Events
from ..inference.arguments import as_weight
from ..inputs import Input, as_floats, require_finite
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..weights import effective_size, mean_and_error
from .finding import (
    Finding,
    combine_p_values,
    judge_together,
    list_grades,
    tabulate_findings,
    two_sided_p_value,
)
from .validation_events import DISTANCES, Pairs, select_pairs

#: Fraction of the events that the effective number must reach for a mean of r to be a test.
ADEQUATE_FRACTION = 0.7
#: Effective number of events that a mean of r needs for its error to be known.
ADEQUATE_EVENTS = 100.0
#: Difference of mean probabilities that is tolerated.
TOLERATED_DIFFERENCE = 0.01
#: Difference of the mean of r from 1 that is tolerated.
TOLERATED_MEAN = 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class PairIdentities(AbstractSummarised):
    """Identities of ln r for pairs of θ, by distance and, for the first, by parameter.

    Attributes:
        distances: "near", "middle" and "far" partners, as far as there are any.
        difference, difference_error: E[σ(ln r)] from θ1 less E[σ(−ln r)] from θ0, where θ0 is the
            one with the larger value of a parameter; zero if exact, shape (distances, d).
        mean_ratio, mean_ratio_error: of r at its denominator; 1 if exact, shape (distances,).
        effective: effective fraction of the events in the mean of r.
        adequate: whether that is enough for the mean to be tested.
        names: of the parameters.
        findings: of both identities.
    """

    distances: tuple[str, ...]
    difference: np.ndarray
    difference_error: np.ndarray
    mean_ratio: np.ndarray
    mean_ratio_error: np.ndarray
    effective: np.ndarray
    adequate: np.ndarray
    names: tuple[str, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        """The mean ratios and the verdicts, in a line."""
        each = zip(self.distances, self.mean_ratio, self.mean_ratio_error, strict=True)
        ratios = ", ".join(f"{word} {mean:.4f} ± {error:.4f}" for word, mean, error in each)
        return f"PairIdentities(mean ratio {ratios}; {list_grades(self.findings)})"

    def _summarise(self) -> Summary:
        rows = range(len(self.distances))
        largest = np.max(np.abs(self.difference / self.difference_error), axis=1)
        columns = {
            "pairs": list(self.distances),
            "mean ratio": [
                f"{self.mean_ratio[i]:.4f} ± {self.mean_ratio_error[i]:.4f}" for i in rows
            ],
            "effective": [f"{value:.1%}" for value in self.effective],
            "tested": ["yes" if adequate else "no" for adequate in self.adequate],
            "largest z of the difference": [f"{value:.1f}" for value in largest],
        }
        title = "Identities of ln r for pairs of θ: the mean ratio is 1 and the difference 0"
        return Summary(title, (tabulate_findings(self.findings), SummaryTable(columns)))


def pair_identities(
    estimator: Estimator | RatioEstimator, events: Events, *, seed: int = 0
) -> PairIdentities:
    """Test what holds for the ratio of every pair of θ, on pairs around validation events.

    Args:
        estimator: offers a log ratio.
        events: that it was not trained on.
        seed: of the pairs.
    """
    return compute_identities(select_pairs(estimator, events, check="pair_identities", seed=seed))


def compute_identities(pairs: Pairs) -> PairIdentities:
    """Both identities, from pairs that are already drawn."""
    words = tuple(DISTANCES)
    used = [i for i in range(len(words)) if np.sum(pairs.distance == i) >= 2]
    differences, ratios = [], []
    for i in used:
        rows = pairs.distance == i
        log_ratio, weight = pairs.log_ratio[rows], pairs.weight[rows]
        # The true θ is either of the two with probability 1/2, hence the 2.
        terms = -2 * pairs.larger[rows] * expit(-log_ratio)[:, None]
        differences.append(mean_and_error(terms, weight))
        ratios.append(mean_ratio(-log_ratio, weight))
    difference, error = (np.array(part) for part in zip(*differences, strict=True))
    value, value_error, effective, adequate = (np.array(p) for p in zip(*ratios, strict=True))
    distances = tuple(words[i] for i in used)
    findings = [_bounded_finding(difference, error, distances, pairs.names)]
    if adequate.any():
        findings.append(_mean_finding(value, value_error, adequate, distances))
    return PairIdentities(
        distances=distances,
        difference=difference,
        difference_error=error,
        mean_ratio=value,
        mean_ratio_error=value_error,
        effective=effective,
        adequate=adequate,
        names=pairs.names,
        findings=judge_together(findings),
    )


class MeanRatio(NamedTuple):
    """The mean of r over events from its denominator, with its error; 1 if r is exact.

    effective: fraction of the events that counts, (Σr)²/(nΣr²); adequate: whether it is enough.
    """

    value: float
    error: float
    effective: float
    adequate: bool


def mean_ratio(log_ratio: Input, weight: Input | None = None) -> MeanRatio:
    """The mean of r = e^(ln r), and whether it can be trusted as a test.

    Args:
        log_ratio: ln r(x; θ0, θ1) of events made at θ1, shape (n,).
        weight: of the events.
    """
    values = as_floats(log_ratio, "log_ratio").astype(np.float64)
    require_finite(values[:, None], "log_ratio", "Remove these events.")
    weights = as_weight(weight, len(values))
    # In units of the largest, so that nothing overflows; few events then carry all the weight.
    top = max(float(values.max()), 0.0)
    mean, error = mean_and_error(np.exp(values - top), weights)
    effective = effective_size(np.exp(values - top)) / len(values)
    adequate = effective >= ADEQUATE_FRACTION and effective * len(values) >= ADEQUATE_EVENTS
    with np.errstate(over="ignore"):
        scale = np.exp(top)
    return MeanRatio(float(mean * scale), float(error * scale), effective, adequate)


def _bounded_finding(
    difference: np.ndarray, error: np.ndarray, distances: tuple[str, ...], names: tuple[str, ...]
) -> Finding:
    z = difference / np.maximum(error, 1e-300)
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    return Finding(
        name="bounded identity",
        p_value=combine_p_values(two_sided_p_value(z)),
        size=float(np.sqrt(max(0.0, np.max(np.square(difference) - np.square(error))))),
        tolerance=TOLERATED_DIFFERENCE,
        description=(
            "E[σ(ln r)] from θ1 and E[σ(−ln r)] from θ0 differ by "
            f"{difference[worst]:+.4f} ± {error[worst]:.4f} at most, for {distances[worst[0]]} "
            f"pairs ordered by {names[worst[1]]}"
        ),
    )


def _mean_finding(
    value: np.ndarray, error: np.ndarray, adequate: np.ndarray, distances: tuple[str, ...]
) -> Finding:
    z = (value - 1) / np.maximum(error, 1e-300)
    tested = np.flatnonzero(adequate)
    worst = tested[np.argmax(np.abs(z[tested]))]
    left_out = [distances[i] for i in np.flatnonzero(~adequate)]
    return Finding(
        name="mean ratio",
        p_value=combine_p_values(two_sided_p_value(z[tested])),
        size=float(np.max(np.abs(value[tested] - 1))),
        tolerance=TOLERATED_MEAN,
        description=(
            f"E[r] = {value[worst]:.4f} ± {error[worst]:.4f} for {distances[worst]} pairs"
            + (f"; not tested for {' and '.join(left_out)} ones" if left_out else "")
        ),
    )
