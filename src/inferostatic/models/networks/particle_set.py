"""A deep set: a potential of events of particles, whose order and padding do not matter."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...inputs import as_count, as_function
from ...serial import known
from ...supervision.records import Number, Theta
from ...threefry import split_key
from ..architecture import build_scalar, build_vector
from ..features.feature_map import IdentityMap
from ..features.per_particle import PerParticle
from ..potential import PotentialModel
from .networks import MLP, MOST_UNITS, NETWORK, AbstractPairNetwork, Residual


class ParticleNetwork(AbstractPairNetwork):
    """A deep set with its weights."""

    each: Any
    joined: PotentialModel
    particles: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def summary(self, x: Float[Array, " features"]) -> Float[Array, " summary"]:
        """Sum, mean and maximum over the particles, and what belongs to the whole event."""
        count = self.particles * (self.width + 1)
        rows = x[:count].reshape(self.particles, self.width + 1)
        presence = rows[:, -1]
        present = presence > 0
        some = jnp.any(present)
        embedded = jax.vmap(self.each)(rows[:, :-1])
        total = jnp.sum(embedded * presence[:, None], axis=0)
        mean = total / jnp.where(some, jnp.sum(presence), 1)
        largest = jnp.max(jnp.where(present[:, None], embedded, -jnp.inf), axis=0)
        return jnp.concatenate([total, mean, jnp.where(some, largest, 0), x[count:]])

    def embed_x(self, x: Float[Array, " features"]) -> Any:  # noqa: ANN401
        """What the joining network needs of the summary."""
        return self.joined.embed_x(self.summary(x))

    def embed_theta(self, theta: Theta) -> Any:  # noqa: ANN401
        """What the joining network needs of θ."""
        return self.joined.embed_theta(theta)

    def join(self, x_part: Any, theta_part: Any) -> Number:  # noqa: ANN401
        """The potential."""
        return self.joined.join(x_part, theta_part)


@known
class ParticleSet(eqx.Module):
    """A choice of potential for events of particles: a deep set, joined with θ.

    Every particle passes through the same network; the sum, the mean and the maximum of what it
    gives, the logarithm of the number of particles and the columns of the whole event are joined
    with θ by another. The result depends neither on the order of the particles nor on the number
    of empty slots. `ist.PerParticle` describes how x is laid out.

    Args:
        particles: number of slots in x.
        features: number of columns of one particle.
        size: number of values that are pooled over the particles.
        particle_network: of one particle, such as `ist.MLP((64, 64))`.
        join_network: of the pooled values and θ, such as `ist.Residual()` or, for grids of many
            events and θ, `ist.TwoTower()`. For second derivatives by θ it needs a smooth
            activation.
        x_features: `ist.PerParticle(particles, features, …)` with other padding, a mask or another
            scaling.
    """

    particles: int = eqx.field(static=True)
    features: int = eqx.field(static=True)
    size: int = eqx.field(static=True, default=32)
    particle_network: Any = eqx.field(default_factory=lambda: MLP((64, 64)))
    join_network: Any = eqx.field(default_factory=Residual)
    x_features: PerParticle | None = None

    def __post_init__(self) -> None:
        if self.x_features is None:
            self.x_features = PerParticle(self.particles, self.features)

    def __check_init__(self) -> None:
        """One layout of x, not two."""
        as_count(self.size, "size", most=MOST_UNITS)
        for name in ("particle_network", "join_network"):
            as_function(getattr(self, name), name, NETWORK)
        given = self.x_features
        if not isinstance(given, PerParticle):
            raise TypeError(f"x_features must be ist.PerParticle(…); got {given!r}.")
        if (given.particles, given.features) != (self.particles, self.features):
            raise ValueError(
                f"ParticleSet has {self.particles} particles of {self.features} features, but its "
                f"x_features {given.particles} of {given.features}."
            )

    def __call__(self, x_size: int, theta_size: int, *, key: PRNGKeyArray) -> ParticleNetwork:
        """Build the network."""
        assert self.x_features is not None
        layout = self.x_features.layout
        event = x_size - layout.particles * (layout.width + 1)
        if event < 1:
            raise ValueError(f"ParticleSet needs the features {self.x_features}.")
        each_key, join_key = split_key(key, 2)
        each = build_vector(self.particle_network, layout.width, self.size, key=each_key)
        summary = 3 * self.size + event
        network = build_scalar(self.join_network, summary, theta_size, key=join_key)
        # A potential of the summary and θ, whichever kind of network it has.
        joined = PotentialModel(IdentityMap(), IdentityMap(), network)
        return ParticleNetwork(each, joined, layout.particles, layout.width)
