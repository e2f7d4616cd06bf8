"""A spectrum seen through a detector of finite resolution: many parameters."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from .toy import (
    FREE,
    AbstractToy,
    Domain,
    PerEvent,
    Theta,
    X,
    require_positive,
    require_whole_number,
)


@final
@dataclass(frozen=True)
class SmearedSpectrum(AbstractToy):
    r"""Measured contents of a spectrum whose true contents are the parameters.

    Each measured bin collects its neighbours, $m = R\theta$ with $R_{ij} \propto
    e^{-(i-j)^2/2\ell^2}$ (rows add up to one), and its error grows with what it sees:

    $$x_i \sim N(m_i, \sigma_i^2), \qquad \sigma_i^2 = \tfrac14 (1 + m_i^2).$$

    With $z = (x - m)/\sigma$, $\ln p = \sum_i -\tfrac12 z_i^2 - \ln\sigma_i - \tfrac12\ln 2\pi$ and
    $s = R^\top\bigl(z/\sigma + (z^2 - 1)\,m/(1 + m^2)\bigr)$.

    Attributes:
        dim: The number of bins, and of parameters.
        resolution: The width $\ell$ of the response, in bins.

    Example:
        >>> toy = SmearedSpectrum(dim=4)
        >>> x = toy(np.tile([1.0, 2.0, 0.0, 1.0], (1, 1)), np.random.default_rng(1))
        >>> x.round(4)
        array([[ 1.526 ,  2.0642,  0.8274, -0.0641]])
        >>> toy.score(x, [1.0, 2.0, 0.0, 1.0]).round(4)
        array([[ 0.1721,  0.4805, -0.1987, -1.2296]])
    """

    dim: int = 8
    resolution: float = 0.7

    def __post_init__(self) -> None:
        """Refuse what is no spectrum."""
        require_whole_number(self.dim, "dim", 1, "give the number of bins")
        require_positive(self.resolution, "resolution", "give the width of the response in bins")

    def _domain(self) -> Domain:
        return {f"true_{i + 1}": FREE for i in range(self.dim)}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`seen_1` and so on."""
        return tuple(f"seen_{i + 1}" for i in range(self.dim))

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        mean = theta @ self._response().T
        return mean + self._error(mean) * rng.standard_normal(mean.shape)

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        mean = theta @ self._response().T
        error = self._error(mean)
        each = -(((x - mean) / error) ** 2) / 2 - np.log(error) - np.log(2 * np.pi) / 2
        return each.sum(axis=1)

    def _score(self, x: X, theta: Theta) -> Theta:
        mean = theta @ self._response().T
        error = self._error(mean)
        z = (x - mean) / error
        return (z / error + (z**2 - 1) * mean / (1 + mean**2)) @ self._response()

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""

    def _response(self) -> Float64[np.ndarray, "x_dim theta_dim"]:
        bins = np.arange(self.dim)
        weight = np.exp(-0.5 * ((bins[:, None] - bins) / self.resolution) ** 2)
        return weight / weight.sum(axis=1, keepdims=True)

    def _error(self, mean: X) -> X:
        return np.sqrt(1 + mean**2) / 2
