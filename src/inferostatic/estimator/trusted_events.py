"""For how many observed events a learned score may be trusted, by the mean that was measured of it.

At θ it shifts the estimate from N events by b√N of its standard errors; b is known with an error.
"""

import numpy as np

from .measured_mean import MeasuredMean

#: A shift of so many standard errors is too much: 95% intervals then cover 94%, 68% ones 66%.
TOLERATED = 0.3
#: Standard errors of the bias by which a statement about it must hold.
CERTAIN = 2.0
#: Part of all θ that may be worse than what is said of all.
TOLERATED_PART = 0.1


def compute_shifts(measured: MeasuredMean, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bias of the estimate from one event, in its standard errors, and the error of that.

    Of each parameter, the others fitted too, at every θ of `points`: shape (m, d) each.
    """
    bias, error = np.empty(points.shape), np.empty(points.shape)
    for i, theta in enumerate(points):
        mean, spread = measured(theta)
        covariance = np.linalg.inv(measured.covariance(theta))
        unit = np.sqrt(np.diag(covariance))
        bias[i] = covariance @ mean / unit
        error[i] = np.sqrt(np.diag(covariance @ spread @ covariance)) / unit
    return bias, error


def count_trusted(size: float) -> int:
    """Events that are not biased, where one event has a bias of this size, with its uncertainty."""
    return int(min((TOLERATED / max(size, 1e-9)) ** 2, 10**15)) if np.isfinite(size) else 0


def count_trusted_at_most(bias: np.ndarray, error: np.ndarray) -> int:
    """The same at nine of ten θ, for biases of shape (m, d)."""
    worst = np.max(np.abs(bias) + CERTAIN * error, axis=1)
    return count_trusted(float(np.quantile(worst, 1 - TOLERATED_PART)))
