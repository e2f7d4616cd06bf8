"""Whether the data look like any of the simulated events: a χ² of the observables' means."""

import numpy as np

from ...estimator.response_model import PolynomialCoordinates, learn_mean
from ..chi_square import chi2_p_value
from .averaged_score import AveragedScore
from .mean_test import MeanTest
from .score_calibration import Expectation

#: Part of the simulated events, those nearest to the estimate, by which means are predicted.
PART = 0.3
#: Fewest events of that part: enough to learn a cubic.
FEWEST = 5000
#: Most events of that part: more would hardly improve the prediction.
MOST = 50_000
#: Events nearest to the estimate that give the scatter: its elements are known to 3%.
SCATTER = 3000
#: p-value below which a calibrated fit is not to be relied on.
UNLIKE = 1e-3
#: Directions in which the means scatter less than this part of the largest are left out.
SMALLEST = 1e-6


def goodness_of_fit(
    score: AveragedScore, theta: np.ndarray, test: MeanTest, expected: Expectation
) -> float:
    """The p-value of the observables' means, once θ was fitted by the scores."""
    data = test.data
    spread = np.maximum(expected.theta.std(axis=0), np.finfo(float).tiny)
    distance = np.sum(np.square((expected.theta - theta) / spread), axis=1)
    order = np.argsort(distance)[: int(np.clip(PART * len(distance), FEWEST, MOST))]
    near, rows = expected.theta[order], expected.x[order]
    bounded = score.region.bound_x(rows)
    box = PolynomialCoordinates.of_box(near.min(axis=0), near.max(axis=0))
    mean = learn_mean(near, bounded, box, degree=3)
    predicted, variance = mean(theta)
    # Statistics and observables of the same events, about their means.
    few = slice(0, SCATTER)
    statistics = score(rows[few], expected.anchor) @ expected.unit.T
    values = np.concatenate([statistics, bounded[few]], axis=1)
    design = np.concatenate([np.ones((len(values), 1)), (near[few] - theta) / spread], axis=1)
    values = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    dim = len(theta)
    scatter = values.T @ values / (len(values) - dim - 1)
    # Both means come from the same simulated events and err together.
    factors = test.mean(theta)[1].mean(), np.mean(variance / np.diag(scatter)[dim:])
    factor = np.repeat(factors, (dim, len(predicted)))
    covariance = scatter * (1 / data.size + np.sqrt(np.outer(factor, factor)))
    # The fit moves θ until the statistics agree, and what is predicted of the observables with it.
    response, root = test.response(theta), np.linalg.cholesky(test.errors(theta))
    shift = mean.slopes(theta) @ np.linalg.solve(root.T, response[:, :dim].T).T
    taken = np.concatenate([-shift, np.eye(len(predicted))], axis=1)
    left = taken @ covariance @ taken.T
    # So do the errors of constraints, which have nothing to do with these events.
    constrained = mean.slopes(theta) @ response[:, dim:]
    left += constrained @ constrained.T
    unit = np.sqrt(np.diag(left)) + np.finfo(float).tiny
    sizes, vectors = np.linalg.eigh(left / np.outer(unit, unit))
    kept = sizes > SMALLEST
    deviation = (data.average(score.region.bound_x(data.x)) - predicted) / unit
    chi2 = np.sum(np.square(vectors[:, kept].T @ deviation) / sizes[kept])
    return float(chi2_p_value(chi2, int(kept.sum())))
