"""A mixture of two Gaussians: a density in x with two maxima."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from .toy import FRACTION, FREE, AbstractToy, Domain, PerEvent, Theta, X, require_positive


@final
@dataclass(frozen=True)
class GaussianMixture(AbstractToy):
    r"""One observable from two Gaussians, $\theta = (\Delta, f)$ with $0 < f < 1$.

    $$p(x;\theta) = f\,N(x; +\tfrac12\Delta, w) + (1-f)\,N(x; -\tfrac12\Delta, w)$$

    With the responsibility of the first Gaussian, $\gamma = \mathrm{sigmoid}(\mathrm{logit} f +
    x\Delta/w^2)$,

    $$s_\Delta = \frac{(2\gamma - 1)\,x - \tfrac12\Delta}{2w^2}, \qquad
    s_f = \frac{\gamma}{f} - \frac{1-\gamma}{1-f}.$$

    For $f = 1/2$ the density has two maxima once $|\Delta| > 2w$. Exchanging the Gaussians changes
    nothing, $p(x;\Delta,f) = p(x;-\Delta,1-f)$, so a prior on both signs of $\Delta$ makes the
    likelihood two-fold as well.

    Attributes:
        width: The fixed standard deviation $w$ of both Gaussians.

    Example:
        >>> toy = GaussianMixture()
        >>> x = toy(np.tile([4.0, 0.3], (3, 1)), np.random.default_rng(1))
        >>> x.round(4)
        array([[-3.3032],
               [-1.0946],
               [ 2.4464]])
        >>> toy.score(x, [4.0, 0.3]).round(4)
        array([[ 0.6516, -1.4286],
               [-0.4585, -1.4031],
               [ 0.2229,  3.3327]])
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a width that is not a positive number."""
        require_positive(self.width, "width", "give the standard deviation of one Gaussian")

    def _domain(self) -> Domain:
        return {"separation": FREE, "fraction": FRACTION}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x`."""
        return ("x",)

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        separation, fraction = theta.T
        side = np.where(rng.random(len(theta)) < fraction, 0.5, -0.5)
        return (side * separation + self.width * rng.standard_normal(len(theta)))[:, None]

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        separation, fraction = theta.T
        right = (x[:, 0] - separation / 2) / self.width
        left = (x[:, 0] + separation / 2) / self.width
        log_sum = np.logaddexp(np.log(fraction) - right**2 / 2, np.log1p(-fraction) - left**2 / 2)
        return log_sum - np.log(self.width) - np.log(2 * np.pi) / 2

    def _score(self, x: X, theta: Theta) -> Theta:
        separation, fraction = theta.T
        # The squares of x and of the separation drop out of the difference of the two exponents;
        # subtracting them numerically would lose it in the tails.
        log_odds = np.log(fraction) - np.log1p(-fraction) + x[:, 0] * separation / self.width**2
        along_separation = (np.tanh(log_odds / 2) * x[:, 0] - separation / 2) / (2 * self.width**2)
        # 1 - gamma is sigmoid(-log_odds), which does not cancel where gamma is nearly one.
        along_fraction = expit(log_odds) / fraction - expit(-log_odds) / (1 - fraction)
        return np.stack([along_separation, along_fraction], axis=1)

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""
