"""Two correlated Gaussian observables with unknown means and a common unknown scale."""

from dataclasses import dataclass
from typing import final

import numpy as np

from ...inputs import as_number
from .toy import FREE, POSITIVE, AbstractToy, Domain, PerEvent, Theta, X


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
        try:
            as_number(self.correlation, "correlation", above=-1, below=1)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"correlation must lie strictly between -1 and 1, got {self.correlation!r}; "
                "at the ends the two observables are one, so move it inside."
            ) from error

    def _domain(self) -> Domain:
        return {"mean_1": FREE, "mean_2": FREE, "scale": POSITIVE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and `x_2`."""
        return ("x_1", "x_2")

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        z = rng.standard_normal((len(theta), 2))
        z[:, 0] = self.correlation * z[:, 1] + np.sqrt(self._one_minus_square()) * z[:, 0]
        return theta[:, :2] + theta[:, 2:] * z

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        z = (x - theta[:, :2]) / theta[:, 2:]
        log_root_determinant = 2 * np.log(theta[:, 2]) + np.log(self._one_minus_square()) / 2
        return -self._square_distance(z) / 2 - log_root_determinant - np.log(2 * np.pi)

    def _score(self, x: X, theta: Theta) -> Theta:
        scale = theta[:, 2:]
        z = (x - theta[:, :2]) / scale
        along_means = (z - self.correlation * z[:, ::-1]) / self._one_minus_square()
        along_scale = self._square_distance(z)[:, None] - 2
        return np.concatenate([along_means, along_scale], axis=1) / scale

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""

    def _square_distance(self, z: X) -> PerEvent:
        # A sum of squares: expanding the product would cancel as the correlation nears one.
        return (z[:, 0] - self.correlation * z[:, 1]) ** 2 / self._one_minus_square() + z[:, 1] ** 2

    def _one_minus_square(self) -> float:
        return (1 - self.correlation) * (1 + self.correlation)
