"""Whether Markov chains agree: rank-normalised split R-hat and bulk effective sample size.

The definitions of Vehtari, Gelman, Simpson, Carpenter and Bürkner (arXiv:1903.08008).
"""

import numpy as np
from scipy.special import ndtri

#: Fewest draws of a chain that the definitions need.
FEWEST_DRAWS = 8


def split_r_hat(chains: np.ndarray) -> np.ndarray:
    """R-hat of each parameter, from draws of shape (chains, draws, d); 1 when chains agree.

    The larger of those of the values and of their distances from the median, so that chains that
    differ only in spread are seen as well.
    """
    if chains.shape[1] < FEWEST_DRAWS:
        return np.full(chains.shape[2], np.nan)
    away = np.abs(chains - np.median(chains, axis=(0, 1)))
    return np.maximum(_r_hat(_normal_ranks(_split(chains))), _r_hat(_normal_ranks(_split(away))))


def bulk_ess(chains: np.ndarray) -> np.ndarray:
    """How many independent draws the chains are worth for the bulk of each parameter."""
    if chains.shape[1] < FEWEST_DRAWS:
        return np.full(chains.shape[2], np.nan)
    ranks = _normal_ranks(_split(chains))
    return np.array([_ess(ranks[..., i]) for i in range(chains.shape[2])])


def _split(chains: np.ndarray) -> np.ndarray:
    """The halves of every chain, as chains."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _normal_ranks(chains: np.ndarray) -> np.ndarray:
    """Ranks among all draws, as normal scores; repeated draws hardly matter, in whatever order."""
    flat = chains.reshape(-1, chains.shape[2])
    ranks = np.argsort(np.argsort(flat, axis=0, kind="stable"), axis=0, kind="stable") + 1
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(chains.shape)


def _r_hat(chains: np.ndarray) -> np.ndarray:
    n = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    between = chains.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt(((n - 1) / n * within + between) / within)


def _ess(chains: np.ndarray) -> float:
    """By Geyer's initial monotone sequence of autocorrelations, chains of shape (m, n)."""
    m, n = chains.shape
    away = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(away, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n] / n
    within = covariance[:, 0].mean() * n / (n - 1)
    total = within * (n - 1) / n + chains.mean(axis=1).var(ddof=1)
    correlation = 1 - (within - covariance.mean(axis=0)) / total
    correlation[0] = 1.0
    pairs = correlation[: 2 * (n // 2)].reshape(-1, 2).sum(axis=1)
    # The longest lags rest on few products, and are left out.
    most = (n - 3) // 2
    negative = np.flatnonzero(pairs[:most] < 0)
    count = negative[0] if len(negative) else most
    kept = np.minimum.accumulate(pairs[:count])
    time = -1 + 2 * kept.sum() + max(correlation[2 * count], 0.0)
    return float(m * n / max(time, 1 / np.log10(m * n)))
