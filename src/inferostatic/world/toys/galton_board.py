"""A board of nails in which each nail is loaded in its own way: discrete latents, discrete x."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import expit

from .latent_toy import AbstractLatentToy, Number, OneX, OneZ, Z
from .toy import FREE, Domain, PerEvent, Theta, X, refuse_rows, require_whole_number


@final
@dataclass(frozen=True)
class GaltonBoard(AbstractLatentToy):
    r"""A ball falls through rows of nails into a bin, $\theta$ being the pull towards the middle.

    Whether it goes left depends on where the nail is, $z_h$ across and $z_v$ down the board,

    $$p_\mathrm{left} = \frac{1 - f}{2} + f\,\sigma\bigl(5\theta(z_h - \tfrac12)\bigr),
    \qquad f = \sin \pi z_v, \qquad
    z_v = \frac{i + 1/2}{R}, \quad z_h - \tfrac12 = \frac{j - i/2}{R},$$

    in row $i = 0 \ldots R-1$ after $j$ steps to the right. Latent is the path, a 1 for each step to
    the right and a 0 for each to the left; x is the bin, the number of steps to the right. This is
    the generalised Galton board of Brehmer, Louppe, Pavez and Cranmer, arXiv:1805.12244.

    Paths are too many to be summed, but they meet: $P_i(j)$, the probability to be at $j$ above row
    $i$, follows from the row before, $P_{i+1}(j) = P_i(j)\,p_\mathrm{left} +
    P_i(j-1)\,p_\mathrm{right}$, and the score along with it, as the mean over the two ways to
    arrive. Since x is discrete, `log_prob` is the logarithm of a probability, not of a density.

    Attributes:
        rows: The number $R$ of rows, at least 2; bins are numbered from 0 to $R$.

    Example:
        >>> toy = GaltonBoard(rows=6)
        >>> x, z = toy.simulate_latent([[-1.0]], np.random.default_rng(1))
        >>> x, z
        (array([[3.]]), array([[1., 1., 0., 1., 0., 0.]]))
        >>> np.exp(toy.log_prob(np.arange(7.0)[:, None], [-1.0])).round(4)
        array([0.0676, 0.1504, 0.1859, 0.1923, 0.1859, 0.1504, 0.0676])
        >>> toy.score(x, [-1.0]).round(4)
        array([[0.5505]])
    """

    rows: int = 20

    def __post_init__(self) -> None:
        """Refuse a board without nails."""
        require_whole_number(
            self.rows, "rows", 2, "the first nail is fair, so that one row would not know the pull"
        )

    def _domain(self) -> Domain:
        return {"pull": FREE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`bin`."""
        return ("bin",)

    @property
    def z_names(self) -> tuple[str, ...]:
        """`right_1` and so on, from the top."""
        return tuple(f"right_{i + 1}" for i in range(self.rows))

    def joint_log_prob(self, x: OneX, z: OneZ, theta: Float[Array, " 1"]) -> Number:
        """The log probability of the path of one event; the bin follows from the path.

        Args:
            x: The bin, shape (1,).
            z: The path, shape (rows,), 1 to the right and 0 to the left.
            theta: The pull, shape (1,).

        Example:
            >>> path = jnp.array([0.0, 0.0, 1.0, 0.0])
            >>> toy = GaltonBoard(rows=4)
            >>> round(float(toy.joint_log_prob(path.sum()[None], path, jnp.array([0.5]))), 4)
            -2.7417
        """
        del x
        across = (jnp.cumsum(z) - z - self._row().astype(z.dtype) / 2) / self.rows
        loaded, fair = (part.astype(z.dtype) for part in self._log_parts())
        side = 1 - 2 * z
        return jnp.logaddexp(fair, loaded + jax.nn.log_sigmoid(5 * theta * (side * across))).sum()

    def _draw_latent(self, theta: Theta, rng: np.random.Generator) -> tuple[X, Z]:
        loaded, fair = np.exp(self._log_parts())
        z = np.empty((len(theta), self.rows))
        rights = np.zeros(len(theta))
        for i, uniform in enumerate(rng.random((self.rows, len(theta)))):
            load = 5 * theta[:, 0] * (rights - i / 2) / self.rows
            z[:, i] = uniform > fair[i] + loaded[i] * expit(load)
            rights += z[:, i]
        return rights[:, None], z

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        return self._at_bins(x, theta)[0]

    def _score(self, x: X, theta: Theta) -> Theta:
        return self._at_bins(x, theta)[1][:, None]

    def _check_support(self, x: X) -> None:
        refuse_rows(
            ((x < 0) | (x > self.rows) | (x != np.round(x))).any(axis=1),
            x,
            expected=f"x to be a bin, a whole number from 0 to {self.rows}",
            remedy="Give the number of steps to the right, or build the board with more rows",
        )

    def _at_bins(self, x: X, theta: Theta) -> tuple[PerEvent, PerEvent]:
        # Often one theta serves all events, and the board is filled once for each different one.
        pulls, which = np.unique(theta[:, 0], return_inverse=True)
        log_prob, score = self._fill(pulls)
        bins = x[:, 0].astype(int)
        return log_prob[which, bins], score[which, bins]

    def _fill(
        self, pulls: Float64[np.ndarray, " m"]
    ) -> tuple[Float64[np.ndarray, "m bins"], Float64[np.ndarray, "m bins"]]:
        """Log probabilities and scores of all bins, row by row; logarithms never underflow."""
        log_prob, score = np.zeros((len(pulls), 1)), np.zeros((len(pulls), 1))
        for i, (loaded, fair) in enumerate(self._log_parts().T):
            slope = 5 * (np.arange(i + 1) - i / 2) / self.rows
            load = pulls[:, None] * slope
            sigmoid = -_log_sum(np.zeros_like(load), -load)
            left = _log_sum(np.full_like(load, fair), loaded + sigmoid)
            left_score = slope * np.exp(loaded + 2 * sigmoid - load - left)
            # The board is its own mirror image, and steps to the right are those to the left in it.
            to_left = _widen(log_prob + left, -np.inf)
            log_prob = _log_sum(to_left, to_left[:, ::-1])
            score = np.exp(to_left - log_prob) * _widen(score + left_score, 0.0)
            score = score + score[:, ::-1]
        return log_prob, score

    def _row(self) -> Float64[np.ndarray, " rows"]:
        return np.arange(self.rows, dtype=np.float64)

    def _log_parts(self) -> Float64[np.ndarray, "2 rows"]:
        """Logarithms of f and of (1 - f)/2 in each row; in the very middle the latter is -inf."""
        down = np.pi * (self._row() + 0.5) / self.rows
        with np.errstate(divide="ignore"):
            # (1 - sin y)/2 is a square, and 1 - f would lose its digits near the middle.
            return np.log([np.sin(down), np.sin((down - np.pi / 2) / 2) ** 2])


def _widen(values: Float64[np.ndarray, "m nails"], last: float) -> Float64[np.ndarray, "m bins"]:
    return np.pad(values, ((0, 0), (0, 1)), constant_values=last)


def _log_sum(
    first: Float64[np.ndarray, "m nails"], second: Float64[np.ndarray, "m nails"]
) -> Float64[np.ndarray, "m nails"]:
    """np.logaddexp, several times faster, of numbers of which at most one is -inf."""
    return np.maximum(first, second) + np.log(1 + np.exp(-np.abs(first - second)))
