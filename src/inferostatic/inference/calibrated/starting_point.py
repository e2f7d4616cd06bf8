"""Where a calibrated fit starts: the θ that the estimators themselves prefer."""

from typing import Any

import numpy as np

from ...chunks import spread_rows
from ...estimator.estimator import Estimator
from ...streams import Purpose, Stream
from .averaged_score import AveragedScore
from .observed_data import ObservedData

#: Observed events by which the first points are compared: enough to find the right neighbourhood.
EVENTS = 500
#: Random points in the region that are compared.
POINTS = 400


def choose_start(score: AveragedScore, data: ObservedData) -> np.ndarray:
    """A first guess by some of the events: the most likely, or least unlikely, of some points."""
    rows = spread_rows(len(data.x), EVENTS)
    weight = data.weight[rows]
    low, high = score.clip(data.low), score.clip(data.high)
    rng = Stream(0, Purpose.CALIBRATED_START).generator()
    points = low + rng.uniform(size=(POINTS, len(low))) * (high - low)
    first = score.estimators[0]
    sides = np.array([data.side_chi2(point)[0] for point in points])
    # In units of effective events, like the constraints.
    unit = data.size / data.weight.sum()
    if isinstance(first, Estimator):
        grid = np.asarray(first.potential_grid(data.x[rows], points), np.float64)
        return points[np.argmax(unit * (weight @ grid) - sides / 2)]
    share, chi2 = weight / weight.sum(), sides
    for i, point in enumerate(points):
        scores = score(data.x[rows], point)
        chi2[i] += data.size * np.sum((share @ scores) ** 2 / np.var(scores, axis=0))
    return points[np.argmin(chi2)]


def find_most_likely(score: AveragedScore, data: ObservedData) -> np.ndarray:
    """Where the summed potential is largest; for a score network, where the summed score is 0."""
    from scipy import optimize

    first, start = score.estimators[0], choose_start(score, data)
    low, high = score.clip(data.low), score.clip(data.high)
    if not isinstance(first, Estimator):
        return _solve_score(score, data, start)
    width = np.where(high > low, high - low, 1.0)

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        # Both for one event, in which the constraints have the part of an effective one.
        theta = low + u * width
        value = data.share @ np.asarray(first.potential(data.x, theta), np.float64)
        slope = data.average(first.score(data.x, theta))
        chi2, gradient = data.side_chi2(theta)
        value -= chi2 / 2 / data.size
        slope = slope - gradient / 2 / data.size
        return -float(value), -slope * width

    minimize: Any = optimize.minimize
    ends = list(zip(np.zeros(len(low)), (high - low) / width, strict=True))
    found = minimize(loss, (start - low) / width, jac=True, method="L-BFGS-B", bounds=ends)
    return low + found.x * width


def _solve_score(score: AveragedScore, data: ObservedData, start: np.ndarray) -> np.ndarray:
    """Where the mean score, in units of its error, and the constraints are nearest to 0."""
    from scipy import optimize

    low, high = score.clip(data.low), score.clip(data.high)
    free, point = high > low, start.copy()
    if not free.any():
        return point
    unit = np.sqrt(data.size / np.var(score(data.x, start), axis=0))

    def residual(values: np.ndarray) -> np.ndarray:
        point[free] = values
        mean = unit * data.average(score(data.x, point))
        return np.concatenate([mean, data.side_residual(point)])

    least_squares: Any = optimize.least_squares
    found = least_squares(
        residual,
        start[free],
        bounds=(low[free], high[free]),
        x_scale=(high - low)[free],
        # Scores are float32, so smaller steps would see their rounding.
        diff_step=1e-3,
    )
    point[free] = found.x
    return point
