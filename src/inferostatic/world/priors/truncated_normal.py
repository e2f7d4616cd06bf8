"""The normal distribution cut off at edges."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jaxtyping import Array, PRNGKeyArray

from ...inputs import Input, as_names
from ...serial import known
from .prior import (
    AbstractPrior,
    Number,
    Theta,
    check_mean_and_std,
    check_order,
    format_edges,
    format_normal,
    normal_log_density,
    read_vectors,
    reflect,
)

#: Distance from 0 and 1 when mapping through a distribution function: float32's own.
UNIT_MARGIN = 2.0**-24
#: Largest distance of the range from the mean, in standard deviations: beyond it float32 does not
#: resolve the distribution function.
FURTHEST_CUT = 5.0
#: Smallest length of the range, in standard deviations, for the same reason.
NARROWEST_CUT = 1e-3


@known
class TruncatedNormal(AbstractPrior):
    """Independent normal components cut off at `low` and `high` (either may be infinite)."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        mean: Input,
        std: Input,
        low: Input = -np.inf,
        high: Input = np.inf,
        names: Sequence[str] | None = None,
    ) -> None:
        """Mean and standard deviation are those before the cut."""
        self.mean, self.std, self.low, self.high = read_vectors(
            mean=mean, std=std, low=low, high=high
        )
        check_mean_and_std(self.mean, self.std)
        check_order(self.low, self.high)
        cut_low, cut_high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        if (np.maximum(cut_low, -cut_high) > FURTHEST_CUT).any():
            raise ValueError(
                f"the kept range lies more than {FURTHEST_CUT:g} standard deviations from the "
                "mean, where the distribution function cannot be resolved; use Uniform over the "
                "range instead."
            )
        if (cut_high - cut_low < NARROWEST_CUT).any():
            raise ValueError(
                f"the kept range is narrower than {NARROWEST_CUT:g} standard deviations, where "
                "float32 cannot resolve the distribution function; use Uniform instead."
            )
        self.names = as_names(names, len(self.mean), "theta")

    def _cuts(self) -> tuple[Array, Array, Array]:
        """A sign and the standardised cuts of sign·t, mirrored if both lie above the mean.

        float32 resolves a distribution function finely in its lower tail only.
        """
        low = jnp.asarray((self.low - self.mean) / self.std)
        high = jnp.asarray((self.high - self.mean) / self.std)
        above = low > 0
        sign = jnp.where(above, -1.0, 1.0).astype(low.dtype)
        return sign, jnp.where(above, -high, low), jnp.where(above, -low, high)

    def _from_unit(self, unit: Theta) -> Theta:
        """The inverse of the distribution function of sign·θ."""
        sign, low, high = self._cuts()
        unit = jnp.clip(unit, UNIT_MARGIN, 1 - UNIT_MARGIN)
        probability = ndtr(low) + unit * (ndtr(high) - ndtr(low))
        t = sign * ndtri(jnp.minimum(probability, 1 - UNIT_MARGIN))
        return jnp.clip(self.mean + self.std * t, self.low, self.high)

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""
        return self._from_unit(jax.random.uniform(key, self.mean.shape))

    def log_density(self, theta: Theta) -> Number:
        """ln π(θ)."""
        # ln(Φ(b) − Φ(a)) by log_ndtr, on the side where both terms are small.
        _, a, b = self._cuts()
        mass = log_ndtr(b) + jnp.log1p(-jnp.exp(log_ndtr(a) - log_ndtr(b)))
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        value = normal_log_density(theta, jnp.asarray(self.mean), jnp.asarray(self.std))
        return jnp.where(inside, value - jnp.sum(mass), -jnp.inf)

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """A reflected step in the unit box of the distribution function, mapped back."""
        sign, low, high = self._cuts()
        start, mass = ndtr(low), ndtr(high) - ndtr(low)
        unit = (ndtr(sign * (theta - self.mean) / self.std) - start) / mass
        t = jax.random.uniform(key, theta.shape, minval=-1.0, maxval=1.0)
        moved = reflect(unit + t * fraction, jnp.zeros_like(unit), jnp.ones_like(unit))
        return self._from_unit(moved)

    def describe_parameters(self) -> list[str]:
        """Means and standard deviations before the cut, and the edges."""
        normal = format_normal(self.mean, self.std)
        return [f"{a} {b}" for a, b in zip(normal, format_edges(*self.support), strict=True)]

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The range between the cuts."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation after the cut."""
        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        low, high = ((edge - mean) / std for edge in self.support)
        # By quadrature: the closed form cancels for narrow and far ranges. Nine standard
        # deviations beyond the nearer of mean and cut, nothing is left of the density.
        nearest = np.clip(0, low, high)
        low, high = np.maximum(low, nearest - 9), np.minimum(high, nearest + 9)
        nodes, weights = np.polynomial.legendre.leggauss(128)
        t = (low + high) / 2 + (high - low) / 2 * nodes[:, None]
        density = weights[:, None] * np.exp((np.square(nearest) - np.square(t)) / 2)
        density /= density.sum(axis=0)
        centre = np.sum(density * t, axis=0)
        scale = np.sqrt(np.sum(density * np.square(t - centre), axis=0))
        return mean + std * centre, std * scale
