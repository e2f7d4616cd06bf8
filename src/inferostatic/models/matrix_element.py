r"""The matrix-element method: what it is given, and the averages it is made of.

\(p(x;\theta) = \int dz\,p(z;\theta)\,T(x|z)\) is the mean of \(w = p(z;\theta)\,T(x|z)/q(z|x)\)
over draws z from a proposal q, here a mixture of several, with a fixed number from each.
Whatever q is, the mean is right and the scatter of w gives its error, as long as the variance
of w is finite: hence the components with heavy tails beside the learned one.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..inputs import as_count, as_text, kind_of
from ..serial import known

#: Degrees of freedom of the heavy-tailed components: few, for tails heavier than any likely target,
#: but enough for a finite variance.
DEGREES = 5.0
#: Scale of these components relative to the draws they surround.
WIDER = 1.5
#: Draws of z for each event at least, for the scatter to give an error.
FEWEST_SAMPLES = 64


@known
class MEM(eqx.Module):
    r"""The matrix-element method, \(p(x;\theta) = \int dz\,p(z;\theta)\,T(x|z)\), by sampling z.

    The density of the latent variables is known; the transfer density T, what a detector makes of
    them, is learned from the events by default, and so is the proposal of z for a given x.

    Args:
        latent_log_prob: ln p(z; θ) of one event, a JAX function `(z (k,), θ (d,)) -> number`,
            normalised in z.
        transfer: ln T(x|z) of one event, a JAX function `(x (D,), z (k,)) -> number`, normalised in
            x; None to learn it.
        name: the latent array of the events that holds z, shape (n, k).
        samples: default number of draws of z for each event.
    """

    latent_log_prob: Callable[..., Any] = eqx.field(static=True)
    transfer: Callable[..., Any] | None = eqx.field(static=True, default=None, kw_only=True)
    name: str = eqx.field(static=True, default="z", kw_only=True)
    samples: int = eqx.field(static=True, default=512, kw_only=True)

    def __check_init__(self) -> None:
        if not callable(self.latent_log_prob):
            raise TypeError(
                "latent_log_prob must be a JAX function (z, θ) -> ln p(z; θ) of one event; got "
                f"{kind_of(self.latent_log_prob)}."
            )
        as_text(self.name, "name")
        if self.transfer is not None and not callable(self.transfer):
            raise TypeError(
                "transfer must be a JAX function (x, z) -> ln T(x|z) of one event, or None to "
                f"learn it; got {kind_of(self.transfer)}."
            )
        if as_count(self.samples, "samples") < FEWEST_SAMPLES:
            raise ValueError(
                f"samples must be at least {FEWEST_SAMPLES}, for their scatter to give an "
                f"error; got {self.samples}."
            )

    def __str__(self) -> str:
        return "MEM"


class Estimated(NamedTuple):
    """Values with the standard errors of their Monte Carlo averages."""

    value: np.ndarray
    error: np.ndarray


@dataclasses.dataclass(frozen=True)
class Strata:
    """How many draws come from each component of a proposal, in this order."""

    sizes: tuple[int, ...]

    @property
    def log_shares(self) -> np.ndarray:
        """Of the components in the mixture."""
        return np.log(np.array(self.sizes) / sum(self.sizes))

    def error_of_mean(self, values: Float[np.ndarray, "n draws *rest"]) -> np.ndarray:
        """The standard error of the mean over draws: each component scatters about its own mean."""
        variance, start = np.zeros((values.shape[0], *values.shape[2:])), 0
        for size in self.sizes:
            part = values[:, start : start + size]
            variance += size * part.var(axis=1, ddof=1)
            start += size
        return np.sqrt(variance) / values.shape[1]


def log_mean(log_weights: Float[np.ndarray, "n draws"], strata: Strata) -> Estimated:
    """ln of the mean weight; its error by the first order of the logarithm."""
    top, weights = _scale_weights(log_weights)
    mean = weights.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = strata.error_of_mean(weights) / mean
        return Estimated(np.log(mean) + top, np.where(mean > 0, error, np.inf))


def log_mean_ratio(
    first: Float[np.ndarray, "n draws"], second: Float[np.ndarray, "n draws"], strata: Strata
) -> Estimated:
    """ln of the ratio of two mean weights of the same draws, which scatter together."""
    tops, shares = [], []
    for log_weights in (first, second):
        top, weights = _scale_weights(log_weights)
        mean = weights.mean(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares.append(weights / mean)
            tops.append(np.log(mean[:, 0]) + top)
    with np.errstate(invalid="ignore"):
        error = strata.error_of_mean(shares[0] - shares[1])
        return Estimated(tops[0] - tops[1], np.where(np.isfinite(error), error, np.inf))


def mean_slope(
    log_weights: Float[np.ndarray, "n draws"],
    slopes: Float[np.ndarray, "n draws d"],
    strata: Strata,
) -> Estimated:
    """The gradient of ln of the mean weight, where `slopes` are those of the ln of each weight."""
    _, weights = _scale_weights(log_weights)
    # A draw that does not count may have no slope.
    slopes = np.where(weights[..., None] > 0, slopes, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (weights / weights.mean(axis=1, keepdims=True))[..., None]
        value = np.mean(shares * slopes, axis=1)
        error = strata.error_of_mean(shares * (slopes - value[:, None]))
    return Estimated(value, np.where(np.isfinite(error), error, np.inf))


def _scale_weights(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest ln w of each event, or 0 where all are −∞, and w relative to it."""
    top = log_weights.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    return top, np.exp(log_weights - top[:, None])


@dataclasses.dataclass(frozen=True)
class HeavyTails:
    """Multivariate Student distributions, one for each event.

    Attributes:
        centre: shape (n, k).
        root: Cholesky factors of the scale matrices, shape (n, k, k).
    """

    centre: np.ndarray
    root: np.ndarray

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """`size` draws for each event, shape (n, size, k)."""
        n, k = self.centre.shape
        normal = rng.standard_normal((n, size, k))
        stretch = np.sqrt(DEGREES / rng.chisquare(DEGREES, (n, size, 1)))
        steps = np.einsum("nij,nsj->nsi", self.root, normal * stretch)
        return self.centre[:, None] + steps

    def log_prob(self, u: Float[np.ndarray, "n draws k"]) -> np.ndarray:
        """ln density, shape (n, draws)."""
        from scipy.special import gammaln

        k = u.shape[-1]
        away = np.linalg.solve(self.root, np.swapaxes(u - self.centre[:, None], 1, 2))
        square = np.square(away).sum(axis=1)
        constant = gammaln((DEGREES + k) / 2) - gammaln(DEGREES / 2)
        constant -= k / 2 * np.log(DEGREES * np.pi)
        volume = np.log(np.diagonal(self.root, axis1=1, axis2=2)).sum(axis=1)
        tail = (DEGREES + k) / 2 * np.log1p(square / DEGREES)
        return constant - volume[:, None] - tail


def around(draws: Float[np.ndarray, "n draws k"]) -> HeavyTails:
    """Student distributions around draws, wider than these are."""
    centre = draws.mean(axis=1)
    away = draws - centre[:, None]
    covariance = np.einsum("nsi,nsj->nij", away, away) / (draws.shape[1] - 1)
    # Few draws may lie in a plane by chance.
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    floor = 1e-3 * np.maximum(variance, 1e-6)
    covariance = covariance + floor[..., None] * np.eye(draws.shape[2])
    return HeavyTails(centre, WIDER * np.linalg.cholesky(covariance))
