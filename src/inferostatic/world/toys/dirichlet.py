"""The Dirichlet distribution, whose score and Fisher information are polygamma functions."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, logsumexp, polygamma

from .toy import (
    POSITIVE,
    AbstractToy,
    Domain,
    PerEvent,
    Theta,
    X,
    as_float64,
    refuse_rows,
    require_whole_number,
)

# Rounding to float32 moves the sum of x by less than 1e-7, normalising in float32 by somewhat
# more; a histogram or a vector that was never normalised misses by far more than this.
_SUM_TOLERANCE = 1e-5


@final
@dataclass(frozen=True)
class Dirichlet(AbstractToy):
    r"""Fractions that add up to one.

    $$p(x;\theta) = \frac{\Gamma(\sum_i \theta_i)}{\prod_i \Gamma(\theta_i)}
    \prod_i x_i^{\theta_i - 1}, \qquad
    s_i = \ln x_i + \psi(\textstyle\sum_j \theta_j) - \psi(\theta_i), \qquad \theta_i > 0,$$

    on the simplex $x_i > 0$, $\sum_i x_i = 1$; the density is with respect to the first
    $d - 1$ components. Events have as many components as theta, $D = d$.

    Attributes:
        dim: Number of components, at least 2.

    Example:
        >>> toy = Dirichlet(dim=3)
        >>> theta = np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
        >>> x = toy(theta, np.random.default_rng(1))
        >>> x.round(4)
        array([[0.2406, 0.1973, 0.5621],
               [0.2319, 0.4662, 0.3019]])
        >>> toy.log_prob(x, theta).round(4)
        array([0.9788, 1.6808])
    """

    dim: int = 3

    def __post_init__(self) -> None:
        """Refuse a number of components for which there is no simplex."""
        require_whole_number(self.dim, "dim", 2, "use dim=2 for a beta distribution")

    def _domain(self) -> Domain:
        return {f"theta_{i}": POSITIVE for i in range(1, self.dim + 1)}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1`, `x_2`, and so on."""
        return tuple(f"x_{i}" for i in range(1, self.dim + 1))

    def fisher(self, theta: ArrayLike) -> Float64[np.ndarray, "theta_dim theta_dim"]:
        r"""The Fisher information of one event, the covariance of the score, shape (d, d).

        $$I_{ij}(\theta) = \psi'(\theta_i)\,\delta_{ij} - \psi'(\textstyle\sum_k \theta_k)$$

        Args:
            theta: One parameter point, shape (d,).

        Example:
            >>> Dirichlet(dim=2).fisher([1.0, 1.0]).round(4)
            array([[ 1.    , -0.6449],
                   [-0.6449,  1.    ]])
        """
        point = as_float64(theta, "theta")
        if point.shape != (self.dim,):
            raise ValueError(
                f"theta must be a single point of shape ({self.dim},), got shape {point.shape}; "
                "call fisher once for each row of theta."
            )
        self._check_domain(point[None, :])
        return np.diag(polygamma(1, point)) - polygamma(1, point.sum())

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        # Gamma variates of small shape underflow to exact zeros. With U uniform,
        # G(theta) = G(theta + 1) U^(1/theta), so ln G is at hand without ever forming G, and
        # -ln U is a standard exponential.
        log_gamma = np.log(rng.standard_gamma(theta + 1))
        log_gamma -= rng.standard_exponential(theta.shape) / theta
        total = np.asarray(logsumexp(log_gamma, axis=1, keepdims=True))
        x = np.exp(log_gamma - total)
        # Below exp(-745) float64 has nothing left but zero, where the score is infinite: round to
        # the nearest positive number instead.
        return np.maximum(x, np.nextafter(0.0, 1.0))

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        log_normaliser = gammaln(theta).sum(axis=1) - gammaln(theta.sum(axis=1))
        return ((theta - 1) * np.log(x)).sum(axis=1) - log_normaliser

    def _score(self, x: X, theta: Theta) -> Theta:
        return np.log(x) + digamma(theta.sum(axis=1, keepdims=True)) - digamma(theta)

    def _check_support(self, x: X) -> None:
        refuse_rows(
            np.any(x < 0, axis=1),
            x,
            expected="x on the simplex, with no negative component",
            remedy="Remove such events, or check the order of the columns",
        )
        refuse_rows(
            np.any(x == 0, axis=1),
            x,
            expected="x on the open simplex, since at x = 0 the score is infinite",
            remedy=(
                "Simulate and store such events in float64, where small components survive, or "
                "remove them"
            ),
        )
        refuse_rows(
            np.abs(x.sum(axis=1) - 1) > _SUM_TOLERANCE,
            x,
            expected=f"x on the simplex, with rows that add up to 1 within {_SUM_TOLERANCE:g}",
            remedy="Divide each row by its sum",
        )
