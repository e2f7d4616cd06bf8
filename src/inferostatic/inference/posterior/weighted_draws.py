"""Weighted draws: how many they are worth, their moments, and how to flatten their weights."""

import numpy as np
from scipy.special import logsumexp


def tempered(log_weight: np.ndarray, fewest: float) -> tuple[np.ndarray, float]:
    """Normalised weights w^β for the largest β ≤ 1 that leaves an effective number of `fewest`."""

    def normalised(beta: float) -> np.ndarray:
        scaled = np.where(np.isfinite(log_weight), beta * log_weight, -np.inf)
        return np.exp(scaled - logsumexp(scaled))

    low, high = 0.0, 1.0
    if effective_number(normalised(1.0)) >= fewest:
        return normalised(1.0), 1.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = effective_number(normalised(middle)) >= fewest
        low, high = (middle, high) if enough else (low, middle)
    return normalised(low), low


def effective_number(weight: np.ndarray) -> float:
    """(Σw)²/Σw²."""
    return float(weight.sum() ** 2 / np.square(weight).sum())


def weighted_moments(points: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of points with weights that add up to 1."""
    mean = weight @ points
    away = points - mean
    return mean, (weight[:, None] * away).T @ away
