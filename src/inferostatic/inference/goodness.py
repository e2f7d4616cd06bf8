"""Whether the data look like any of the simulated events: a χ² of the observables' means."""

from collections.abc import Callable

import numpy as np
from scipy.special import chdtrc

from ..estimator import Region
from .score_test import ScoreTest
from .smooth import Coordinates, learn_mean

#: Part of the simulated events, those nearest to the estimate, by which means are predicted, and
#: how many of them give the scatter.
PART, FEWEST, SCATTER = 0.3, 5000, 3000
#: Directions in which the means scatter less than this part of the largest are left out.
SMALLEST = 1e-6


def goodness_of_fit(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
    region: Region,
    x: np.ndarray,
    theta: np.ndarray,
    test: ScoreTest,
    simulated_theta: np.ndarray,
    simulated_x: np.ndarray,
) -> float:
    """The p-value of the observables' means, once θ was fitted by the scores."""
    spread = np.maximum(simulated_theta.std(axis=0), np.finfo(float).tiny)
    distance = np.sum(np.square((simulated_theta - theta) / spread), axis=1)
    order = np.argsort(distance)[: max(FEWEST, int(PART * len(distance)))]
    near, rows = np.asarray(simulated_theta[order], np.float64), simulated_x[order]
    bounded = _bounded(rows, region)
    box = Coordinates.of_box(near.min(axis=0), near.max(axis=0))
    mean = learn_mean(near, bounded, box, degree=3)
    expected, variance = mean(theta)
    # Scores at the estimate and observables of the same events, about their means there.
    few = slice(0, SCATTER)
    values = np.concatenate([score(rows[few], theta), bounded[few]], axis=1)
    design = np.concatenate([np.ones((len(values), 1)), (near[few] - theta) / spread], axis=1)
    values = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    dim = len(theta)
    scatter = values.T @ values / (len(values) - dim - 1)
    # Both means come from the same simulated events and err together.
    factor = np.concatenate(
        [
            np.full(dim, test.difference(theta)[1].mean()),
            np.full(len(expected), np.mean(variance / np.diag(scatter)[dim:])),
        ]
    )
    covariance = scatter * (1 / len(x) + np.sqrt(np.outer(factor, factor)))
    root = test.expected.covariance.power(theta[None], 0.5)[0]
    # The fit moves θ by −slopes⁻¹ times the deviation of the score, and the prediction with it.
    steps = 1e-3 * (test.high - test.low)
    moved = [
        (mean(theta + step)[0] - mean(theta - step)[0]) / (2 * step.sum())
        for step in np.diag(steps)
    ]
    shift = np.stack(moved, axis=1) @ np.linalg.pinv(root @ test.slopes(theta))
    taken = np.concatenate([shift, np.eye(len(expected))], axis=1)
    left = taken @ covariance @ taken.T
    unit = np.sqrt(np.diag(left)) + np.finfo(float).tiny
    sizes, vectors = np.linalg.eigh(left / np.outer(unit, unit))
    kept = sizes > SMALLEST
    deviation = (_bounded(x, region).mean(axis=0) - expected) / unit
    chi2 = np.sum(np.square(vectors[:, kept].T @ deviation) / sizes[kept])
    return float(chdtrc(int(kept.sum()), chi2))


def _bounded(x: np.ndarray, region: Region) -> np.ndarray:
    """The observables, brought to a range where their means exist."""
    middle, width = (region.x_low + region.x_high) / 2, region.x_high - region.x_low
    return np.tanh(4 * (np.asarray(x, np.float64) - middle) / np.maximum(width, 1e-300))
