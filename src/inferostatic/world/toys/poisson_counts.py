"""Counts in the bins of a histogram: discrete observables."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64
from scipy.special import gammaln

from .toy import (
    POSITIVE,
    AbstractToy,
    Domain,
    PerEvent,
    Theta,
    X,
    refuse_rows,
    require_whole_number,
)


@final
@dataclass(frozen=True)
class PoissonCounts(AbstractToy):
    r"""A histogram with a peak on a falling background, $\theta = (\mu, \beta, \kappa)$.

    The counts are independent Poisson numbers with means

    $$\nu_b = \mu\,e^{-((b - c)/w)^2/2} + \beta\,e^{-\kappa b}, \qquad b = 0 \ldots B-1,$$

    with the peak in the middle, $c = (B-1)/2$, and $w = B/8$. Then $\ln p = \sum_b x_b \ln \nu_b -
    \nu_b - \ln x_b!$ and $s = \sum_b (x_b/\nu_b - 1)\,\nabla\nu_b$. The domain is $\mu > 0$,
    $\beta > 0$, $\kappa > 0$.

    Attributes:
        bins: The number of bins $B$, at least 2.

    Example:
        >>> toy = PoissonCounts(bins=6)
        >>> theta = [4.0, 6.0, 0.3]
        >>> x = toy(np.tile(theta, (2, 1)), np.random.default_rng(1))
        >>> x
        array([[8., 3., 5., 8., 2., 0.],
               [7., 8., 6., 5., 4., 3.]])
        >>> toy.log_prob(x, theta).round(4)
        array([-11.2438, -12.6918])
    """

    bins: int = 6

    def __post_init__(self) -> None:
        """Refuse a histogram without bins."""
        require_whole_number(self.bins, "bins", 2, "give the number of bins of the histogram")

    def _domain(self) -> Domain:
        return {"signal": POSITIVE, "background": POSITIVE, "slope": POSITIVE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`n_1` and so on."""
        return tuple(f"n_{b + 1}" for b in range(self.bins))

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        return rng.poisson(self._means(theta)).astype(np.float64)

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        means = self._means(theta)
        return (x * np.log(means) - means - gammaln(x + 1)).sum(axis=1)

    def _score(self, x: X, theta: Theta) -> Theta:
        pull = x / self._means(theta) - 1
        falling = np.exp(-theta[:, 2:] * self._bin())
        slopes = (self._peak(), falling, -theta[:, 1:2] * self._bin() * falling)
        return np.stack([(pull * slope).sum(axis=1) for slope in slopes], axis=1)

    def _check_support(self, x: X) -> None:
        refuse_rows(
            ((x < 0) | (x != np.round(x))).any(axis=1),
            x,
            expected="x to hold counts, whole numbers from 0 on",
            remedy="Give the number of entries in each bin",
        )

    def _means(self, theta: Theta) -> X:
        return theta[:, :1] * self._peak() + theta[:, 1:2] * np.exp(-theta[:, 2:] * self._bin())

    def _bin(self) -> Float64[np.ndarray, " x_dim"]:
        return np.arange(self.bins, dtype=np.float64)

    def _peak(self) -> Float64[np.ndarray, " x_dim"]:
        return np.exp(-0.5 * ((self._bin() - (self.bins - 1) / 2) / (self.bins / 8)) ** 2)
