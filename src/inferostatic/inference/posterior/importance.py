"""Importance resampling: weighted draws that close in on the posterior, without Markov chains.

Draws from the prior serve where the data say little, as one event often does. Where they do not,
the draws are repeated from a wide Student t in unconstrained coordinates, fitted to the last ones
under a flattened likelihood, until enough of them carry weight.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from .density import Target
from .weighted_draws import effective_number, tempered, weighted_moments

#: Weighted draws for each one returned, and their number at least.
PER_DRAW, FEWEST_DRAWS = 4, 8192
#: Draws of a round while closing in.
APPROACH_DRAWS = 2048
#: Effective fraction of the weighted draws that is enough.
ENOUGH = 0.2
MOST_ROUNDS, LAST_ROUNDS = 12, 2
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
    """Close in with few draws, then take many; the better of both."""
    count = max(FEWEST_DRAWS, PER_DRAW * draws)
    near = approach(target, seed)
    rng = np.random.default_rng([seed, 1])
    if near.ess >= ENOUGH * len(near.free) and near.from_prior:
        theta = target.prior.sample(count, seed=seed)
        best = _cloud(target.coordinates.many_free(theta), target.many("log_likelihood", theta))
        return _weighted(target, best, theta)
    best = near
    for _ in range(LAST_ROUNDS):
        best = max(best, _round(target, best, count, rng), key=lambda cloud: cloud.ess)
        if best.ess >= ENOUGH * count:
            break
    return _weighted(target, best, target.coordinates.many_theta(best.free))


class Cloud(NamedTuple):
    """Points in unconstrained coordinates with ln of their weights, up to a constant."""

    free: np.ndarray
    log_weight: np.ndarray
    from_prior: bool = False

    @property
    def probability(self) -> np.ndarray:
        """Weights with sum 1."""
        return np.exp(self.log_weight - logsumexp(self.log_weight))

    @property
    def ess(self) -> float:
        """Effective number of points."""
        return effective_number(self.probability)


def approach(target: Target, seed: int) -> Cloud:
    """Points near the posterior, beginning with draws from the prior."""
    theta = target.prior.sample(APPROACH_DRAWS, seed=seed)
    log_likelihood = target.many("log_likelihood", theta)
    if not np.isfinite(log_likelihood).any():
        raise ValueError(
            f"the potential is not finite at any of {APPROACH_DRAWS} draws from the prior; was "
            "the estimator trained on these parameters and observables?"
        )
    latest = _cloud(target.coordinates.many_free(theta), log_likelihood, from_prior=True)
    best, rng = latest, np.random.default_rng([seed, 0])
    for _ in range(MOST_ROUNDS):
        if best.ess >= ENOUGH * APPROACH_DRAWS:
            break
        latest = _round(target, latest, APPROACH_DRAWS, rng)
        best = max(best, latest, key=lambda cloud: cloud.ess)
    return best


def _cloud(free: np.ndarray, log_weight: np.ndarray, *, from_prior: bool = False) -> Cloud:
    return Cloud(free, np.where(np.isfinite(log_weight), log_weight, -np.inf), from_prior)


def _round(target: Target, cloud: Cloud, count: int, rng: np.random.Generator) -> Cloud:
    """Draws from a Student t fitted to the cloud, flattened so that enough of it counts."""
    weight, _ = tempered(cloud.log_weight, len(cloud.free) / 20)
    free, log_proposal = _draw_t(cloud.free, weight, count, rng)
    return _cloud(free, target.many("log_prob_free", free) - log_proposal)


def _weighted(target: Target, cloud: Cloud, theta: np.ndarray) -> Weighted:
    return Weighted(theta, cloud.probability, target.many("log_prob", theta))


def _draw_t(
    free: np.ndarray, weight: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws from a Student t fitted to weighted points, and their log density."""
    dim = free.shape[1]
    mean, covariance = weighted_moments(free, weight)
    root = np.linalg.cholesky(WIDER**2 * covariance + 1e-12 * np.eye(dim))
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
