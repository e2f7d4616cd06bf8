"""A spectrum seen through a detector of finite resolution: many parameters."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from inferostatic.world.toys.toy import AbstractToy


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
        if isinstance(self.dim, bool) or not isinstance(self.dim, int) or self.dim < 1:
            raise ValueError(
                f"dim must be a whole number of at least 1, got {self.dim!r}; "
                "give the number of bins."
            )
        if not 0 < self.resolution < np.inf:
            raise ValueError(
                f"resolution must be a positive finite number, got {self.resolution!r}; "
                "give the width of the response in bins."
            )

    @property
    def theta_names(self) -> tuple[str, ...]:
        """`true_1` and so on."""
        return tuple(f"true_{i + 1}" for i in range(self.dim))

    @property
    def x_names(self) -> tuple[str, ...]:
        """`seen_1` and so on."""
        return tuple(f"seen_{i + 1}" for i in range(self.dim))

    @property
    def theta_low(self) -> Float64[np.ndarray, "theta_dim"]:
        """Nothing is bounded from below."""
        return np.full(self.dim, -np.inf)

    @property
    def theta_high(self) -> Float64[np.ndarray, "theta_dim"]:
        """Nothing is bounded from above."""
        return np.full(self.dim, np.inf)

    def _draw(
        self, theta: Float64[np.ndarray, "n theta_dim"], rng: np.random.Generator
    ) -> Float64[np.ndarray, "n x_dim"]:
        mean = theta @ self._response().T
        return mean + self._error(mean) * rng.standard_normal(mean.shape)

    def _log_prob(
        self, x: Float64[np.ndarray, "n x_dim"], theta: Float64[np.ndarray, "n theta_dim"]
    ) -> Float64[np.ndarray, "n"]:
        mean = theta @ self._response().T
        error = self._error(mean)
        return (-(((x - mean) / error) ** 2) / 2 - np.log(error) - np.log(2 * np.pi) / 2).sum(
            axis=1
        )

    def _score(
        self, x: Float64[np.ndarray, "n x_dim"], theta: Float64[np.ndarray, "n theta_dim"]
    ) -> Float64[np.ndarray, "n theta_dim"]:
        mean = theta @ self._response().T
        error = self._error(mean)
        z = (x - mean) / error
        return (z / error + (z**2 - 1) * mean / (1 + mean**2)) @ self._response()

    def _check_support(self, x: Float64[np.ndarray, "n x_dim"]) -> None:
        """Every finite x is in the support."""

    def _response(self) -> Float64[np.ndarray, "x_dim theta_dim"]:
        bins = np.arange(self.dim)
        weight = np.exp(-0.5 * ((bins[:, None] - bins) / self.resolution) ** 2)
        return weight / weight.sum(axis=1, keepdims=True)

    def _error(self, mean: Float64[np.ndarray, "n x_dim"]) -> Float64[np.ndarray, "n x_dim"]:
        return np.sqrt(1 + mean**2) / 2
