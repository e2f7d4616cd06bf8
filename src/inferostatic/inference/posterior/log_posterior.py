r"""The density that a posterior is drawn from, \(\ln\pi(\theta)+\ln L(\theta)\), and coordinates.

A sampler needs all of ℝᵏ. Each bounded component is mapped to the line (a logit between two edges,
a logarithm beyond one) and the Jacobian of the map is counted. Fixed parameters stay where they
are: the posterior is then that of the others, given these values.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...progress import Advance
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior, draw_points
from ..likelihood.float64 import float64
from ..likelihood.likelihood import Likelihood
from ..likelihood.log_likelihood import AbstractLogLikelihood, call_likelihood, map_points

#: Distance, as a part of the support, that a θ on an edge is moved inside.
JUST_INSIDE = 1e-9


class Unconstrained(eqx.Module):
    """A one-to-one map of the whole of ℝᵏ to the support of k free parameters."""

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    scale: np.ndarray

    def theta(self, free: Float[Array, " free_dim"]) -> Float[Array, " free_dim"]:
        """θ of unconstrained coordinates."""
        low, high = self._edges()
        growth = self.scale * self._exp(free)
        both = low + (high - low) * jax.nn.sigmoid(free)
        return self._choose(both, low + growth, high - growth, free * self.scale + self.centre)

    def log_jacobian(self, free: Float[Array, " free_dim"]) -> Float[Array, ""]:
        """ln |∂θ/∂free|."""
        low, high = self._edges()
        both = jnp.log(high - low) + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free)
        one = jnp.log(self.scale) + free
        return jnp.sum(self._choose(both, one, one, jnp.log(self.scale) + 0 * free))

    def free(self, theta: Float[Array, " free_dim"]) -> Float[Array, " free_dim"]:
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
        return map_points(Unconstrained.theta, self, free, 0)

    def many_free(self, theta: np.ndarray) -> np.ndarray:
        """Unconstrained coordinates of many θ, in float64."""
        return map_points(Unconstrained.free, self, theta, 0)

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


class LogPosterior(eqx.Module):
    """The unnormalised log posterior, of θ and of unconstrained coordinates."""

    likelihood: AbstractLogLikelihood
    prior: AbstractPrior
    coordinates: Unconstrained
    #: θ with the values of the fixed parameters; the others do not matter.
    fixed: np.ndarray
    free_indices: tuple[int, ...] = eqx.field(static=True)

    def full_theta(self, values: Float[Array, " free_dim"]) -> Float[Array, " theta_dim"]:
        """θ of its free components."""
        return jnp.asarray(self.fixed).at[np.array(self.free_indices)].set(values)

    def log_prob(self, values: Float[Array, " free_dim"]) -> Float[Array, ""]:
        """ln π + ln L of the free components, −∞ where it is no number."""
        theta = self.full_theta(values)
        value = self.prior.log_density(theta) + self.likelihood(theta)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def log_prob_unconstrained(self, free: Float[Array, " free_dim"]) -> Float[Array, ""]:
        """The same density per unit of the unconstrained coordinates."""
        return self.log_prob(self.coordinates.theta(free)) + self.coordinates.log_jacobian(free)

    def log_probs(self, points: np.ndarray, advance: Advance | None = None) -> np.ndarray:
        """`log_prob` of many points, shape (m, k) to (m,)."""
        return map_points(LogPosterior.log_prob, self, points, self._at_once, advance)

    def log_probs_unconstrained(
        self, free: np.ndarray, advance: Advance | None = None
    ) -> np.ndarray:
        """`log_prob_unconstrained` of many points."""
        function = LogPosterior.log_prob_unconstrained
        return map_points(function, self, free, self._at_once, advance)

    def log_likelihoods(self, points: np.ndarray, advance: Advance | None = None) -> np.ndarray:
        """ln L alone at many points."""
        thetas = self.full_thetas(points)
        return map_points(call_likelihood, self.likelihood, thetas, self._at_once, advance)

    def log_rest(self, values: Float[Array, " free_dim"]) -> Float[Array, ""]:
        """Prior, constraints and rates: all but the events one by one."""
        theta = self.full_theta(values)
        return self.prior.log_density(theta) + self.likelihood.alone(theta)

    def log_rests(self, points: np.ndarray) -> np.ndarray:
        """`log_rest` of many points."""
        return map_points(LogPosterior.log_rest, self, points, 0)

    def log_priors(self, points: np.ndarray) -> np.ndarray:
        """ln π at many points."""
        thetas = self.full_thetas(points)
        return map_points(type(self.prior).log_density, self.prior, thetas, 0)

    def log_jacobians(self, free: np.ndarray) -> np.ndarray:
        """ln |∂θ/∂free| at many points."""
        return map_points(Unconstrained.log_jacobian, self.coordinates, free, 0)

    @property
    def _at_once(self) -> int:
        return self.likelihood.events_at_once

    def full_thetas(self, points: np.ndarray) -> np.ndarray:
        """θ of many points, shape (m, k) to (m, d)."""
        thetas = np.repeat(np.asarray(self.fixed, np.float64)[None], len(points), axis=0)
        thetas[:, list(self.free_indices)] = points
        return thetas


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """What is sampled: the density with the prior's draws to begin with.

    Attributes:
        density: the unnormalised posterior.
        low, high: edges of the support of the free parameters, shape (k,), infinite where open.
        restricted: whether bounds or fixed parameters cut the prior.
    """

    density: LogPosterior
    low: np.ndarray
    high: np.ndarray
    restricted: bool

    def draw_prior(self, count: int, seed: int) -> np.ndarray:
        """Draws from the prior, shape (n, k); where it is restricted only roughly, and inside."""
        drawn = draw_points(self.density.prior, count, Stream(seed, Purpose.POSTERIOR_PRIOR))
        points = drawn[:, list(self.density.free_indices)]
        if not self.restricted:
            return points
        rng = Stream(seed, Purpose.POSTERIOR_BOUNDS).generator()
        inside = np.all((points >= self.low) & (points <= self.high), axis=1)
        centre, scale = self.density.coordinates.centre, self.density.coordinates.scale
        low = np.where(np.isfinite(self.low), self.low, centre - 3 * scale)
        high = np.where(np.isfinite(self.high), self.high, centre + 3 * scale)
        # Bounds may leave few of the draws, or none: then anywhere between them is a start.
        anywhere = rng.uniform(low, high, points.shape)
        return np.where(inside[:, None], points, anywhere)


def build_target(likelihood: Likelihood, prior: AbstractPrior) -> Target:
    """The posterior of the free parameters of a likelihood."""
    free = np.flatnonzero(likelihood.free)
    centre, scale = (np.asarray(part, np.float64)[free] for part in prior.centre_and_scale)
    low, high = (np.asarray(edge, np.float64)[free] for edge in prior.support)
    cut_low = np.fmax(low, likelihood.bounds[0, free])
    cut_high = np.fmin(high, likelihood.bounds[1, free])
    if not np.all(cut_low < cut_high):
        raise ValueError("the bounds leave nothing of the prior's support; widen one of them.")
    with float64():
        density = LogPosterior(
            likelihood=likelihood.function,
            prior=prior,
            coordinates=Unconstrained(cut_low, cut_high, centre, scale),
            fixed=np.where(likelihood.free, np.asarray(prior.centre_and_scale[0]), likelihood.low),
            free_indices=tuple(int(i) for i in free),
        )
    cut = bool(np.any(cut_low > low) or np.any(cut_high < high))
    return Target(density, cut_low, cut_high, cut or len(free) < len(likelihood.names))
