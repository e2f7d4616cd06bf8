"""Two correlated Gaussian observables with unknown means and a common unknown scale."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from inferostatic.world.toys.toy import AbstractToy


@final
@dataclass(frozen=True)
class CorrelatedGaussian(AbstractToy):
    r"""A two-dimensional Gaussian, $\theta = (m_1, m_2, \sigma)$ with $\sigma > 0$.

    With $z = (x - m)/\sigma$ and
    $q = (z_1^2 - 2\rho z_1 z_2 + z_2^2)/(1-\rho^2) = (z_1 - \rho z_2)^2/(1-\rho^2) + z_2^2$,

    $$\ln p = -\tfrac12 q - 2\ln\sigma - \tfrac12\ln(1-\rho^2) - \ln 2\pi, \qquad
    s = \frac1\sigma\left(\frac{z_1 - \rho z_2}{1-\rho^2},\;
    \frac{z_2 - \rho z_1}{1-\rho^2},\; q - 2\right).$$

    Attributes:
        correlation: The fixed correlation $\rho$ of the observables, strictly between -1 and 1.

    Example:
        >>> toy = CorrelatedGaussian(correlation=0.5)
        >>> x = toy(np.tile([1.0, -1.0, 2.0], (2, 1)), np.random.default_rng(1))
        >>> x.round(4)
        array([[ 2.4202,  0.6432],
               [ 0.2692, -3.6063]])
        >>> toy.score(x, [1.0, -1.0, 2.0]).round(4)
        array([[ 0.1995,  0.311 , -0.6028],
               [ 0.1908, -0.747 , -0.0963]])
    """

    correlation: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a correlation for which the covariance is singular."""
        if not -1 < self.correlation < 1:
            raise ValueError(
                f"correlation must lie strictly between -1 and 1, got {self.correlation!r}; "
                "at the ends the two observables are one, so move it inside."
            )

    @property
    def theta_names(self) -> tuple[str, ...]:
        """`mean_1`, `mean_2` and `scale`."""
        return ("mean_1", "mean_2", "scale")

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and `x_2`."""
        return ("x_1", "x_2")

    @property
    def theta_low(self) -> Float64[np.ndarray, "theta_dim"]:
        """The means are free, the scale is positive."""
        return np.array([-np.inf, -np.inf, 0.0])

    @property
    def theta_high(self) -> Float64[np.ndarray, "theta_dim"]:
        """Nothing is bounded from above."""
        return np.full(3, np.inf)

    def _draw(
        self, theta: Float64[np.ndarray, "n theta_dim"], rng: np.random.Generator
    ) -> Float64[np.ndarray, "n x_dim"]:
        z = rng.standard_normal((len(theta), 2))
        z[:, 0] = self.correlation * z[:, 1] + np.sqrt(self._one_minus_square()) * z[:, 0]
        return theta[:, :2] + theta[:, 2:] * z

    def _log_prob(
        self, x: Float64[np.ndarray, "n x_dim"], theta: Float64[np.ndarray, "n theta_dim"]
    ) -> Float64[np.ndarray, "n"]:
        z = (x - theta[:, :2]) / theta[:, 2:]
        log_root_determinant = 2 * np.log(theta[:, 2]) + np.log(self._one_minus_square()) / 2
        return -self._square_distance(z) / 2 - log_root_determinant - np.log(2 * np.pi)

    def _score(
        self, x: Float64[np.ndarray, "n x_dim"], theta: Float64[np.ndarray, "n theta_dim"]
    ) -> Float64[np.ndarray, "n theta_dim"]:
        scale = theta[:, 2:]
        z = (x - theta[:, :2]) / scale
        along_means = (z - self.correlation * z[:, ::-1]) / self._one_minus_square()
        along_scale = self._square_distance(z)[:, None] - 2
        return np.concatenate([along_means, along_scale], axis=1) / scale

    def _check_support(self, x: Float64[np.ndarray, "n x_dim"]) -> None:
        """Every finite x is in the support."""

    def _square_distance(self, z: Float64[np.ndarray, "n x_dim"]) -> Float64[np.ndarray, "n"]:
        # A sum of squares: expanding the product would cancel as the correlation nears one.
        return (z[:, 0] - self.correlation * z[:, 1]) ** 2 / self._one_minus_square() + z[:, 1] ** 2

    def _one_minus_square(self) -> float:
        return (1 - self.correlation) * (1 + self.correlation)
