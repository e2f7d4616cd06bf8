"""Many parameters that observables mix, linearly and through a saturating response."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from .toy import FREE, AbstractToy, Domain, PerEvent, Theta, X, require_whole_number

#: Seed of the mixing matrix, so that everybody has the same toy.
_SEED = 5


@final
@dataclass(frozen=True)
class ManyParameters(AbstractToy):
    r"""Observables with unit normal noise around a mean that is nearly linear in θ.

    $$x_i \sim N(m_i, 1), \qquad m = W\theta + \tfrac12\tanh(W'\theta),$$

    where $W$ is `np.random.default_rng(5).normal(size=(observables, dim)) / 3` and $W'$ has its
    rows in reverse order. The score is
    $s = \bigl(W + \tfrac12\,\mathrm{diag}(1 - \tanh^2 W'\theta)\,W'\bigr)^\top (x - m)$.

    Attributes:
        dim: The number of parameters.
        observables: The number of observables.

    Example:
        >>> toy = ManyParameters(dim=2, observables=3)
        >>> x = toy([[1.0, -1.0]], np.random.default_rng(1))
        >>> x.round(4)
        array([[0.6844, 0.489 , 0.7588]])
        >>> toy.score(x, [1.0, -1.0]).round(4)
        array([[-0.0522, -0.0357]])
    """

    dim: int = 12
    observables: int = 20

    def __post_init__(self) -> None:
        """Refuse numbers of columns that are none."""
        require_whole_number(self.dim, "dim", 1, "give the number of parameters")
        require_whole_number(self.observables, "observables", 1, "give the number of observables")

    def _domain(self) -> Domain:
        return {f"theta_{i + 1}": FREE for i in range(self.dim)}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and so on."""
        return tuple(f"x_{i + 1}" for i in range(self.observables))

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        mean = self._mean(theta)
        return mean + rng.standard_normal(mean.shape)

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        square = ((x - self._mean(theta)) ** 2).sum(axis=1)
        return -square / 2 - self.observables * np.log(2 * np.pi) / 2

    def _score(self, x: X, theta: Theta) -> Theta:
        mixing = self._mixing()
        distance = x - self._mean(theta)
        slope = (1 - np.tanh(theta @ mixing[::-1].T) ** 2) / 2
        return distance @ mixing + (slope * distance) @ mixing[::-1]

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""

    def _mean(self, theta: Theta) -> X:
        linear = theta @ self._mixing().T
        return linear + np.tanh(linear[:, ::-1]) / 2

    def _mixing(self) -> Float64[np.ndarray, "x_dim theta_dim"]:
        return np.random.default_rng(_SEED).normal(size=(self.observables, self.dim)) / 3
