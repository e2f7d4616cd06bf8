"""Importance resampling: weighted draws that close in on the posterior, without Markov chains.

Draws from the prior serve where the data say little, as one event often does. Where they do not,
the draws are repeated from a wide Student t in unconstrained coordinates, fitted to the last ones
under a flattened likelihood, until enough of them carry weight.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from .nuts import effective_number, tempered
from .target import Target

#: Weighted draws for each one returned, and their number at least.
PER_DRAW, FEWEST_DRAWS = 4, 8192
#: Effective fraction of the weighted draws that is enough.
ENOUGH = 0.2
MOST_ROUNDS = 12
#: Degrees of freedom of the proposal, and how much wider than the fitted covariance it is.
FREEDOM, WIDER = 5.0, 1.2


class Weighted(NamedTuple):
    """Weighted draws: θ with shape (m, d), probability with sum 1, unnormalised ln posterior."""

    theta: np.ndarray
    probability: np.ndarray
    log_prob: np.ndarray

    @property
    def ess(self) -> float:
        """Effective number of draws."""
        return effective_number(self.probability)


def importance_posterior(target: Target, draws: int, seed: int) -> Weighted:
    """The best of several rounds."""
    count = max(FEWEST_DRAWS, PER_DRAW * draws)
    rng = np.random.default_rng(seed)
    theta = target.prior.sample(count, seed=seed)
    log_weight = target.many("log_likelihood", theta)
    if not np.isfinite(log_weight).any():
        raise ValueError(f"the potential is not finite at any of {count} draws from the prior.")
    free = target.coordinates.many_free(theta)
    best = _weighted(theta, log_weight, target)
    for _ in range(MOST_ROUNDS):
        if best.ess >= ENOUGH * count:
            break
        weight, _ = tempered(log_weight, count / 20)
        free, log_proposal = _draw_t(free, weight, rng)
        log_weight = target.many("log_prob_free", free) - log_proposal
        latest = _weighted(target.coordinates.many_theta(free), log_weight, target)
        best = latest if latest.ess > best.ess else best
    return best


def _weighted(theta: np.ndarray, log_weight: np.ndarray, target: Target) -> Weighted:
    log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
    probability = np.exp(log_weight - logsumexp(log_weight))
    return Weighted(theta, probability, target.many("log_prob", theta))


def _draw_t(
    free: np.ndarray, weight: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As many draws from a Student t fitted to weighted points, and their log density."""
    n, dim = free.shape
    mean = weight @ free
    away = free - mean
    covariance = WIDER**2 * (weight[:, None] * away).T @ away + 1e-12 * np.eye(dim)
    root = np.linalg.cholesky(covariance)
    stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))
    standard = rng.standard_normal((n, dim)) * stretch[:, None]
    distance = np.square(standard).sum(axis=1)
    constant = (
        gammaln((FREEDOM + dim) / 2) - gammaln(FREEDOM / 2) - dim / 2 * np.log(FREEDOM * np.pi)
    )
    log_density = constant - np.log(np.diag(root)).sum()
    log_density = log_density - (FREEDOM + dim) / 2 * np.log1p(distance / FREEDOM)
    return mean + standard @ root.T, log_density


def resample(weighted: Weighted, n: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling, in random order: which draws, with as few repeats as can be."""
    places = (np.arange(n) + rng.random()) / n
    chosen = np.searchsorted(np.cumsum(weighted.probability), places, side="right")
    return rng.permutation(np.minimum(chosen, len(weighted.probability) - 1))
