"""Weighted draws: how many they are worth, their moments, and how to flatten their weights."""

import numpy as np
from scipy.special import logsumexp

from ...weights import effective_size


def temper_weights(log_weight: np.ndarray, fewest: float) -> tuple[np.ndarray, float]:
    """Normalised weights w^β for the largest β ≤ 1 that leaves an effective number of `fewest`."""

    def normalise(beta: float) -> np.ndarray:
        scaled = np.where(np.isfinite(log_weight), beta * log_weight, -np.inf)
        return np.exp(scaled - logsumexp(scaled))

    low, high = 0.0, 1.0
    if effective_size(normalise(1.0)) >= fewest:
        return normalise(1.0), 1.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = effective_size(normalise(middle)) >= fewest
        low, high = (middle, high) if enough else (low, middle)
    return normalise(low), low


def weighted_moments(points: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of points with weights that add up to 1."""
    mean = weight @ points
    away = points - mean
    return mean, (weight[:, None] * away).T @ away
