r"""What a posterior is drawn from, \(\ln\pi(\theta)+\sum_i\varphi(x_i,\theta)\), and coordinates.

A sampler wants all of ℝᵈ. Each bounded component is mapped to the line (a logit between two edges,
a logarithm beyond one) and the Jacobian of the map is counted.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...world.priors.prior import AbstractPrior
from ..likelihood.summed_potential import MOST_PAIRS, SummedPotential

#: Distance, as a fraction, that a θ on an edge is moved inside.
JUST_INSIDE = 1e-9


class Coordinates(eqx.Module):
    """A one-to-one map of the whole of ℝᵈ to the support of a prior."""

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    scale: np.ndarray

    def theta(self, free: Float[Array, " theta_dim"]) -> Float[Array, " theta_dim"]:
        """θ of unconstrained coordinates."""
        low, high = self._edges()
        growth = self.scale * self._exp(free)
        both = low + (high - low) * jax.nn.sigmoid(free)
        return self._choose(both, low + growth, high - growth, free * self.scale + self.centre)

    def log_jacobian(self, free: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln |∂θ/∂free|."""
        low, high = self._edges()
        both = jnp.log(high - low) + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free)
        one = jnp.log(self.scale) + free
        return jnp.sum(self._choose(both, one, one, jnp.log(self.scale) + 0 * free))

    def free(self, theta: Float[Array, " theta_dim"]) -> Float[Array, " theta_dim"]:
        """The unconstrained coordinates of θ; a θ on an edge is taken just inside."""
        low, high = self._edges()
        unit = jnp.clip((theta - low) / (high - low), JUST_INSIDE, 1 - JUST_INSIDE)
        above, below = (
            jnp.log(jnp.maximum(distance / self.scale, JUST_INSIDE))
            for distance in (theta - low, high - theta)
        )
        away = (theta - self.centre) / self.scale
        return self._choose(jnp.log(unit) - jnp.log1p(-unit), above, below, away)

    def many_theta(self, free: np.ndarray) -> np.ndarray:
        """θ of many points, in float64."""
        with jax.enable_x64(True):  # noqa: FBT003
            return np.asarray(_each(self, "theta", jnp.asarray(free, jnp.float64)))

    def many_free(self, theta: np.ndarray) -> np.ndarray:
        """Unconstrained coordinates of many θ, in float64."""
        with jax.enable_x64(True):  # noqa: FBT003
            return np.asarray(_each(self, "free", jnp.asarray(theta, jnp.float64)))

    def _edges(self) -> tuple[Array, Array]:
        """Finite stand-ins where there is no edge: what is not chosen must not be NaN."""
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        near = jnp.where(jnp.isfinite(high), high, self.centre + self.scale)
        low = jnp.where(jnp.isfinite(low), low, near - 2 * self.scale)
        return low, jnp.where(jnp.isfinite(high), high, low + 2 * self.scale)

    def _exp(self, free: Array) -> Array:
        """e^free where there is one edge, and 1 elsewhere, where it might overflow."""
        one = jnp.isfinite(self.low) ^ jnp.isfinite(self.high)
        return jnp.exp(jnp.where(one, free, 0.0))

    def _choose(self, both: Array, above: Array, below: Array, anywhere: Array) -> Array:
        has_low, has_high = jnp.isfinite(self.low), jnp.isfinite(self.high)
        one = jnp.where(has_low, above, jnp.where(has_high, below, anywhere))
        return jnp.where(has_low & has_high, both, one)


@eqx.filter_jit
def _each(coordinates: Coordinates, question: str, points: Array) -> Array:
    return jax.vmap(getattr(coordinates, question))(points)


def coordinates_of(prior: AbstractPrior) -> Coordinates:
    """Coordinates on the support of a prior, in its own scale."""
    centre, scale = prior.centre_and_scale
    low, high = prior.support
    return Coordinates(low, high, np.asarray(centre, np.float64), np.asarray(scale, np.float64))


class Target(eqx.Module):
    """The unnormalised log posterior, of θ and of unconstrained coordinates."""

    summed: SummedPotential
    prior: AbstractPrior
    coordinates: Coordinates

    def log_prob(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ) + Σφ, with −inf where either is no number."""
        value = self.prior.log_density(theta) + self.summed(theta)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def log_prob_free(self, free: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """The same density per unit of the unconstrained coordinates."""
        return self.log_prob(self.coordinates.theta(free)) + self.coordinates.log_jacobian(free)

    def log_likelihood(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """Σφ alone."""
        value = self.summed(theta)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def many(self, question: str, points: np.ndarray) -> np.ndarray:
        """One of the functions above at many points, in calls of a bounded size."""
        rows = self.summed.counts.shape[1]
        members = jax.tree.leaves(eqx.filter(self.summed.parts, eqx.is_array))[0].shape[0]
        size = max(1, MOST_PAIRS // (rows * members))
        size = min(size, 1 << (len(points) - 1).bit_length())
        parts = []
        with jax.enable_x64(True):  # noqa: FBT003
            for start in range(0, len(points), size):
                part = np.asarray(points[start : start + size], np.float64)
                padded = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
                values = _map(self, question, jnp.asarray(padded))
                parts.append(np.asarray(values)[: len(part)])
        return np.concatenate(parts)


@eqx.filter_jit
def _map(target: Target, question: str, points: Array) -> Any:  # noqa: ANN401
    return jax.vmap(getattr(target, question))(points)
