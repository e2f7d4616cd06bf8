"""Exact posteriors of the Dirichlet's θ under a uniform prior.

Σ ln p is concave in θ, as for every exponential family: it has one maximum, and draws are accepted
with probability p/p_max.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, polygamma

import inferostatic as ist

#: Draws in one go, and degrees of freedom of the Student t that moments are taken by.
BLOCK, FREEDOM = 200_000, 5.0


def log_likelihood(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Σ ln p(x; θ) as a function of θ, (m, d) → (m,)."""
    count, total = len(x), np.log(x).sum(axis=0)

    def at(theta: np.ndarray) -> np.ndarray:
        constant = gammaln(theta.sum(axis=1)) - gammaln(theta).sum(axis=1)
        return (theta - 1) @ total + count * constant

    return at


def most_likely(x: np.ndarray, prior: ist.Uniform) -> np.ndarray:
    """The θ of largest likelihood in the prior's range."""
    low, high = prior.support
    at, mean = log_likelihood(x), np.log(x).mean(axis=0)
    found = minimize(
        lambda theta: -float(at(theta[None])[0]) / len(x),
        (low + high) / 2,
        jac=lambda theta: -(mean + digamma(theta.sum()) - digamma(theta)),
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    return np.asarray(found.x)


def exact_samples(x: np.ndarray, prior: ist.Uniform, count: int, *, seed: int) -> np.ndarray:
    """Independent draws of the posterior, shape (count, d), by rejection; for few events."""
    rng, at = np.random.default_rng(seed), log_likelihood(x)
    low, high = prior.support
    top = float(at(most_likely(x, prior)[None])[0])
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < count:
        theta = rng.uniform(low, high, (BLOCK, len(low)))
        kept.append(theta[np.log(rng.random(BLOCK)) < at(theta) - top])
    return np.concatenate(kept)[:count]


def exact_moments(x: np.ndarray, prior: ist.Uniform, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the posterior, each of shape (d,); for many events.

    By importance from a Student t around the maximum, with the spread that the information gives.
    """
    rng, at, centre = np.random.default_rng(seed), log_likelihood(x), most_likely(x, prior)
    low, high = prior.support
    information = len(x) * (np.diag(polygamma(1, centre)) - polygamma(1, centre.sum()))
    root = np.linalg.cholesky(1.3**2 * np.linalg.inv(information))
    standard = rng.standard_normal((BLOCK, len(low)))
    standard *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, BLOCK))[:, None]
    theta = centre + standard @ root.T
    log_weight = (FREEDOM + len(low)) / 2 * np.log1p((standard**2).sum(axis=1) / FREEDOM)
    inside = np.all((theta > low) & (theta < high), axis=1)
    theta, log_weight = theta[inside], log_weight[inside] + at(theta[inside])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2)
