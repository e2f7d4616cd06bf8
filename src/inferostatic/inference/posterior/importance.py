"""Importance resampling: weighted draws that close in on the posterior, without Markov chains.

Draws from the prior serve where the data say little, as one event often does. Where they do not,
the draws are repeated from a wide Student t in unconstrained coordinates, fitted to the last ones
under a flattened likelihood, until enough of them carry weight.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from ...inputs import as_count
from ...progress import Advance, progress
from ...streams import Purpose, Stream
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from .grid import Grid
from .log_posterior import Target
from .sampler import DRAWS, FEWEST_EFFECTIVE, AbstractSampler, Samples, independent_sampling
from .tabulated_target import APPROACH_DRAWS, sample_with_table
from .weighted_draws import temper_weights, weighted_moments

#: Weighted draws for each one returned.
PER_DRAW = 4
#: Weighted draws at least.
FEWEST_DRAWS = 8192
#: Effective part of the weighted draws that is enough.
ENOUGH = 0.2
#: Rounds while closing in.
MOST_ROUNDS = 12
#: Rounds with many draws.
LAST_ROUNDS = 2
#: Degrees of freedom of the proposal.
FREEDOM = 5.0
#: How much wider than the fitted covariance the proposal is.
WIDER = 1.2


@dataclasses.dataclass(frozen=True)
class Importance(AbstractSampler):
    """Importance resampling, without Markov chains: a second opinion.

    Args:
        draws: samples that are drawn from the weighted ones.
    """

    draws: int = DRAWS

    def __post_init__(self) -> None:
        """Check the options."""
        as_count(self.draws, "draws")

    def sample(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        """Weight draws, and resample them."""
        if isinstance(target.density.prior, Discrete):
            # Goes through all points, which is exact.
            return Grid(self.draws).sample(target, seed=seed, show=show)
        evaluations = MOST_ROUNDS * APPROACH_DRAWS // 2 + max(FEWEST_DRAWS, PER_DRAW * self.draws)
        draw = partial(self._draw, seed=seed, show=show)
        return sample_with_table(target, draw, evaluations, seed=seed, show=show)

    def _draw(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        weighted = importance_posterior(target, self.draws, seed, show=show)
        rng = Stream(seed, Purpose.IMPORTANCE_RESAMPLE).generator()
        chosen = resample(weighted, self.draws, rng)
        remark = (
            f"{len(weighted.theta)} weighted draws are worth only {weighted.ess:.0f}, below "
            f"{FEWEST_EFFECTIVE:.0f}: the posterior is too narrow or too bent for importance "
            "resampling; use ist.NUTS()."
        )
        remarks = [remark] if weighted.ess < FEWEST_EFFECTIVE else []
        ess = min(weighted.ess, self.draws)
        sampling = independent_sampling("importance", len(target.low), ess, *remarks)
        moments = weighted_moments(weighted.theta, weighted.probability)
        return Samples(weighted.theta[chosen], weighted.log_prob[chosen], *moments, sampling)


class Weighted(NamedTuple):
    """Weighted draws: θ with shape (m, d), probability with sum 1, unnormalised ln posterior."""

    theta: np.ndarray
    probability: np.ndarray
    log_prob: np.ndarray

    @property
    def ess(self) -> float:
        """Effective number of draws."""
        return effective_size(self.probability)


def importance_posterior(
    target: Target, draws: int, seed: int, *, show: bool | None = False
) -> Weighted:
    """Close in with few draws, then take many; the better of both."""
    count = max(FEWEST_DRAWS, PER_DRAW * draws)
    near = approach(target, draw_first(target, seed, show=show), seed, show=show)
    rng = Stream(seed, Purpose.IMPORTANCE).generator()
    with progress("weighting draws", LAST_ROUNDS * count, show=show) as advance:
        if near.ess >= ENOUGH * len(near.free) and near.from_prior:
            theta = target.draw_prior(count, seed)
            best = _prior_cloud(target, theta, target.density.log_likelihoods(theta, advance))
            return Weighted(theta, best.probability, best.log_prob)
        best = near
        for _ in range(LAST_ROUNDS):
            last = _round(target, best, count, rng, advance)
            best = max(best, last, key=lambda cloud: cloud.ess)
            if best.ess >= ENOUGH * count:
                break
    theta = target.density.coordinates.many_theta(best.free)
    return Weighted(theta, best.probability, best.log_prob)


class Cloud(NamedTuple):
    """Points in unconstrained coordinates, with ln of weights and of the posterior density of θ."""

    free: np.ndarray
    log_weight: np.ndarray
    log_prob: np.ndarray
    from_prior: bool = False

    @property
    def probability(self) -> np.ndarray:
        """Weights with sum 1."""
        return np.exp(self.log_weight - logsumexp(self.log_weight))

    @property
    def ess(self) -> float:
        """Effective number of points."""
        return effective_size(self.probability)


class FirstDraws(NamedTuple):
    """Draws from the prior (n, k), with ln L at each (n,)."""

    theta: np.ndarray
    log_likelihood: np.ndarray


def draw_first(target: Target, seed: int, *, show: bool | None) -> FirstDraws:
    """Draws from the prior, at some of which the likelihood must be known."""
    drawn = target.draw_prior(APPROACH_DRAWS, seed)
    with progress("first draws", APPROACH_DRAWS, show=show) as advance:
        log_likelihood = target.density.log_likelihoods(drawn, advance)
    if not np.isfinite(log_likelihood).any():
        raise ValueError(
            f"the potential is not finite at any of {APPROACH_DRAWS} draws from the prior; was "
            "the estimator trained on these parameters and observables?"
        )
    return FirstDraws(drawn, log_likelihood)


def approach(target: Target, first: FirstDraws, seed: int, *, show: bool | None) -> Cloud:
    """Points near the posterior, beginning with draws from the prior."""
    exact = not target.restricted
    latest = _prior_cloud(target, *first, from_prior=exact)
    # Draws that do not follow the prior only show where to look.
    best = latest if exact else None
    rng = Stream(seed, Purpose.IMPORTANCE_APPROACH).generator()
    with progress("closing in", MOST_ROUNDS * APPROACH_DRAWS, show=show) as advance:
        for _ in range(MOST_ROUNDS):
            if best is not None and best.ess >= ENOUGH * APPROACH_DRAWS:
                break
            latest = _round(target, latest, APPROACH_DRAWS, rng, advance)
            best = latest if best is None else max(best, latest, key=lambda cloud: cloud.ess)
    assert best is not None
    return best


def _prior_cloud(
    target: Target, theta: np.ndarray, log_likelihood: np.ndarray, *, from_prior: bool = False
) -> Cloud:
    """Draws from the prior with the likelihood as their weight."""
    density = target.density
    log_prob = density.log_priors(theta) + log_likelihood
    weight = np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)
    return Cloud(density.coordinates.many_free(theta), weight, log_prob, from_prior)


def _round(
    target: Target, cloud: Cloud, count: int, rng: np.random.Generator, advance: Advance
) -> Cloud:
    """Draws from a Student t fitted to the cloud, flattened so that enough of it counts."""
    weight, _ = temper_weights(cloud.log_weight, len(cloud.free) / 20)
    free, log_proposal = _draw_t(cloud.free, weight, count, rng)
    values = target.density.log_probs_unconstrained(free, advance)
    log_weight = np.where(np.isfinite(values), values - log_proposal, -np.inf)
    return Cloud(free, log_weight, values - target.density.log_jacobians(free))


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
    log_density = gammaln((FREEDOM + dim) / 2) - gammaln(FREEDOM / 2)
    log_density = log_density - dim / 2 * np.log(FREEDOM * np.pi) - np.log(np.diag(root)).sum()
    log_density = log_density - (FREEDOM + dim) / 2 * np.log1p(distance / FREEDOM)
    return mean + standard @ root.T, log_density


def resample(weighted: Weighted, n: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling, in random order: which draws, with as few repeats as can be."""
    places = (np.arange(n) + rng.random()) / n
    chosen = np.searchsorted(np.cumsum(weighted.probability), places, side="right")
    return rng.permutation(np.minimum(chosen, len(weighted.probability) - 1))
