r"""The mean of the score over events from θ itself: \(E_\theta[s(x;\theta)]=0\) at every θ.

The test needs no exact score. A mean that differs from zero is the bias of maximum-likelihood
estimates, in the unit of their statistical errors.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, fdtrc

from ..estimator.estimator import Estimator, ScoreEstimator
from ..events.events import Events
from ..summary import AbstractSummarised, Summary, SummaryTable, count
from ..weights import effective_size
from .finding import Finding, combine_p_values, list_grades, tabulate_findings
from .validation_events import ValidationEvents, select_events, suppress_repeated_warnings

#: Cells in θ, at most: enough to show where a bias lies, few enough for a table.
MOST_CELLS = 32
#: Events in a cell, at least: scores have long tails, and their mean must be nearly normal.
FEWEST_IN_CELL = 1000
#: Bias that is tolerated, in standard errors of an estimate from one event.
TOLERATED_BIAS = 0.25


@dataclasses.dataclass(frozen=True, repr=False)
class MeanScore(AbstractSummarised):
    """The mean of the score at the θ each event was made at, in cells of θ; zero if exact.

    Attributes:
        theta: mean θ of each cell, shape (cells, d).
        events: effective number of events of each cell.
        mean, error: of the score, shape (cells, d).
        p_values: of each cell, all components together.
        bias: of the maximum-likelihood estimate, in standard errors of one event: root mean square
            over cells, with the part that statistics explain taken off.
        names: of the parameters.
        finding: the verdict.
    """

    theta: np.ndarray
    events: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    p_values: np.ndarray
    bias: float
    names: tuple[str, ...]
    finding: Finding

    @property
    def z(self) -> np.ndarray:
        """Means in standard errors, shape (cells, d)."""
        return self.mean / self.error

    def __repr__(self) -> str:
        """The bias and the verdict, in a line."""
        return (
            f"MeanScore(bias {self.bias:.3g} standard errors of one event; "
            f"{count(len(self.theta), 'cell')} of θ; {list_grades([self.finding])})"
        )

    def _summarise(self) -> Summary:
        columns = {
            "parameter": list(self.names),
            "largest mean": [f"{value:.2g}" for value in np.max(np.abs(self.mean), axis=0)],
            "largest z": [f"{value:.1f}" for value in np.max(np.abs(self.z), axis=0)],
        }
        title = f"Mean score in {count(len(self.theta), 'cell')} of θ, 0 if exact"
        return Summary(title, (tabulate_findings([self.finding]), SummaryTable(columns)))


def mean_score(
    estimator: Estimator | ScoreEstimator, events: Events, *, seed: int = 0
) -> MeanScore:
    """Test E[s] = 0 in cells of θ, each event's score taken at its own θ.

    Args:
        estimator: offers a score.
        events: that it was not trained on; at one θ, at some, or drawn from a prior.
        seed: chooses the events where there are very many.
    """
    kinds = (Estimator, ScoreEstimator)
    selected = select_events(estimator, events, check="mean_score", kinds=kinds, seed=seed)
    return compute_mean_score(estimator, selected)


def compute_mean_score(
    estimator: Estimator | ScoreEstimator, events: ValidationEvents
) -> MeanScore:
    """The test on events that are already selected."""
    with suppress_repeated_warnings():
        score = estimator.score(events.x, events.theta)
    groups = _divide(events.theta)
    theta = np.stack([events.theta[rows].mean(axis=0) for rows in groups])
    cells = [_test_cell(score[rows], events.weight[rows]) for rows in groups]
    mean, error, p_values, size, effective = map(np.array, zip(*cells, strict=True))
    dim = score.shape[1]
    with np.errstate(divide="ignore"):
        total = chdtri(dim, np.clip(p_values, 1e-300, 1)).sum()
    each, together = combine_p_values(p_values), chdtrc(dim * len(cells), total)
    p_value = combine_p_values(np.array([each, together]))
    squared = float(np.mean(size))
    # What statistics alone would make of it, at two standard deviations.
    noise = 2 * float(np.sqrt(2 * dim * np.sum(1 / np.square(effective)))) / len(cells)
    bias = float(np.sqrt(max(0.0, squared)))
    seen = f"a bias equal to its standard error for about {_count(max(squared, noise))} events"
    if squared < noise:
        seen = f"no bias that {_count(max(squared, 0) + noise)} events would show"
    worst = np.unravel_index(np.argmax(np.abs(mean / error)), mean.shape)
    finding = Finding(
        name="mean score",
        p_value=p_value,
        size=bias,
        tolerance=TOLERATED_BIAS,
        description=(
            f"E[s] differs from 0 by up to {np.abs(mean / error).max():.1f} standard errors "
            f"(component {estimator.theta_names[worst[1]]}) in {len(cells)} cells of θ; an "
            f"estimate has {seen}"
        ),
    )
    return MeanScore(theta, effective, mean, error, p_values, bias, estimator.theta_names, finding)


def _divide(theta: np.ndarray) -> list[np.ndarray]:
    """Rows by cells: the points of a finite design, or halves of halves along the widest side."""
    points, index, counts = np.unique(theta, axis=0, return_inverse=True, return_counts=True)
    if len(points) <= MOST_CELLS and counts.min() >= FEWEST_IN_CELL:
        return [np.flatnonzero(index.ravel() == i) for i in range(len(points))]
    cells = [np.arange(len(theta))]
    scale = np.maximum(theta.std(axis=0), 1e-300)
    while 2 * len(cells) <= MOST_CELLS and min(map(len, cells)) >= 2 * FEWEST_IN_CELL:
        cells = [half for rows in cells for half in _halve(rows, theta[rows] / scale)]
    return cells


def _halve(rows: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(theta[:, np.argmax(np.ptp(theta, axis=0))], kind="stable")
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


class _Cell(NamedTuple):
    """The mean score of a cell; p-value by Hotelling's T²; squared bias less its expectation."""

    mean: np.ndarray
    error: np.ndarray
    p_value: float
    squared_bias: float
    events: float


def _test_cell(score: np.ndarray, weight: np.ndarray) -> _Cell:
    dim, effective = score.shape[1], effective_size(weight)
    mean = weight @ score / weight.sum()
    away = score - mean
    spread = (weight[:, None] ** 2 * away).T @ away / np.square(weight).sum()
    spread = spread + 1e-12 * np.trace(spread) / dim * np.eye(dim)
    squared = float(mean @ np.linalg.solve(spread, mean))
    freedom = max(effective - dim, 1.0)
    p_value = float(fdtrc(dim, freedom, squared * freedom / dim))
    error = np.sqrt(np.maximum(np.diag(spread), 1e-300) / effective)
    return _Cell(mean, error, p_value, squared - dim / effective, effective)


def _count(information: float) -> str:
    """Events whose information is 1 if one has so much, with two digits and no exponent."""
    events = float(f"{1 / information:.2g}")
    return f"{events:,.0f}" if events >= 10 else f"{events:g}"
