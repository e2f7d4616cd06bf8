"""The tail of weights: does their variance exist, and can their mean be used?"""

import numpy as np

#: Weights in the tail that an index needs: its error is then about 0.3.
FEWEST = 25


def find_tail_index(weight: np.ndarray) -> float:
    """Shape k of a generalised Pareto distribution of the largest weights: moments exist up to 1/k.

    The tail is the largest min(n/5, 3√n) weights (Vehtari et al., arXiv:1507.02646). The shape
    is estimated by the posterior mean of Zhang and Stephens (2009), which needs no iteration, and
    drawn to 1/2 by ten imagined weights, as in the first of the two. NaN with too few weights.
    """
    size = int(min(0.2 * len(weight), 3 * np.sqrt(len(weight))))
    if size < FEWEST:
        return float("nan")
    largest = np.sort(np.partition(weight, len(weight) - size - 1)[len(weight) - size - 1 :])
    excess = largest[1:] - largest[0]
    # Equal weights, to rounding, have no tail.
    if excess[-1] <= 1e-9 * largest[-1]:
        return -np.inf
    excess = excess[excess > 0]
    if len(excess) < FEWEST:
        return float("nan")
    shape = _fit_generalised_pareto(excess)
    return float((shape * len(excess) + 0.5 * 10) / (len(excess) + 10))


def _fit_generalised_pareto(excess: np.ndarray) -> float:
    """The shape, from sorted excesses over a threshold."""
    n = len(excess)
    points = 20 + int(np.sqrt(n))
    # A grid of b = −k/σ below its bound 1/max, wide enough at any scale: the quartile sets it.
    quartile = excess[int(n / 4 + 0.5) - 1]
    grid = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * quartile)
    shapes = np.log1p(-grid[:, None] * excess).mean(axis=1)
    log_likelihood = n * (np.log(-grid / shapes) - shapes - 1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    best = (grid * posterior).sum() / posterior.sum()
    return float(np.log1p(-best * excess).mean())
