"""Whether the data look like any of the simulated events: a χ² of the observables' means."""

import numpy as np
from scipy.special import chdtrc

from ...estimator.history import Region
from .calibration import Calibration, Expectation
from .mean_test import MeanTest
from .response_model import Coordinates, learn_mean

#: Part of the simulated events, those nearest to the estimate, by which means are predicted, and
#: how many of them give the scatter.
PART, FEWEST, MOST, SCATTER = 0.3, 5000, 50_000, 3000
#: Directions in which the means scatter less than this part of the largest are left out.
SMALLEST = 1e-6


def goodness_of_fit(
    calibration: Calibration,
    x: np.ndarray,
    theta: np.ndarray,
    test: MeanTest,
    expected: Expectation,
) -> float:
    """The p-value of the observables' means, once θ was fitted by the scores."""
    spread = np.maximum(expected.theta.std(axis=0), np.finfo(float).tiny)
    distance = np.sum(np.square((expected.theta - theta) / spread), axis=1)
    order = np.argsort(distance)[: int(np.clip(PART * len(distance), FEWEST, MOST))]
    near, rows = expected.theta[order], expected.x[order]
    region = calibration.estimators[0].region
    bounded = _bounded(rows, region)
    box = Coordinates.of_box(near.min(axis=0), near.max(axis=0))
    mean = learn_mean(near, bounded, box, degree=3)
    predicted, variance = mean(theta)
    # Statistics and observables of the same events, about their means.
    few = slice(0, SCATTER)
    statistics = calibration.score(rows[few], expected.anchor) @ expected.unit.T
    values = np.concatenate([statistics, bounded[few]], axis=1)
    design = np.concatenate([np.ones((len(values), 1)), (near[few] - theta) / spread], axis=1)
    values = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    dim = len(theta)
    scatter = values.T @ values / (len(values) - dim - 1)
    # Both means come from the same simulated events and err together.
    factor = np.concatenate(
        [
            np.full(dim, test.mean(theta)[1].mean()),
            np.full(len(predicted), np.mean(variance / np.diag(scatter)[dim:])),
        ]
    )
    covariance = scatter * (1 / len(x) + np.sqrt(np.outer(factor, factor)))
    # The fit moves θ until the statistics agree, and what is predicted of the observables with it.
    shift = mean.slopes(theta) @ test.inverse_slopes(theta)
    taken = np.concatenate([-shift, np.eye(len(predicted))], axis=1)
    left = taken @ covariance @ taken.T
    unit = np.sqrt(np.diag(left)) + np.finfo(float).tiny
    sizes, vectors = np.linalg.eigh(left / np.outer(unit, unit))
    kept = sizes > SMALLEST
    deviation = (_bounded(x, region).mean(axis=0) - predicted) / unit
    chi2 = np.sum(np.square(vectors[:, kept].T @ deviation) / sizes[kept])
    return float(chdtrc(int(kept.sum()), chi2))


def _bounded(x: np.ndarray, region: Region) -> np.ndarray:
    """The observables, brought to a range where their means exist."""
    middle, width = (region.x_low + region.x_high) / 2, region.x_high - region.x_low
    return np.tanh(4 * (np.asarray(x, np.float64) - middle) / np.maximum(width, 1e-300))
