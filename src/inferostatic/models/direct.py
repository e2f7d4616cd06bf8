"""Direct networks: the score or the log ratio as the network's own output.

What the paper compares potentials with. They do not obey the identities of a potential, and each
offers only what it models.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from ..supervision.records import Capability, Event, EventBatch, Number, Numbers, Theta, Thetas
from .potential import AbstractModel, AbstractScoreModel


class ScoreModel(AbstractScoreModel):
    """ŝ(x; θ) = network(x, θ), in the user's units of θ."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.SCORE})
    theta_scale: Theta

    def score(self, x: Event, theta: Theta) -> Theta:
        """The network's output, a derivative by standardised θ, divided by the scale of θ."""
        inputs = jnp.concatenate([self.x_features(x), self.theta_features(theta)])
        return self.network(inputs) / self.theta_scale


class RatioModel(AbstractModel):
    """Ln r̂ = ζ0 − ζ1 with (ζ0, ζ1) = network(x, θ0, θ1)."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOG_RATIO})

    def log_ratio(self, x: Event, theta0: Theta, theta1: Theta) -> Number:
        """ζ0 − ζ1."""
        parts = [self.x_features(x), self.theta_features(theta0), self.theta_features(theta1)]
        zeta = self.network(jnp.concatenate(parts))
        return zeta[0] - zeta[1]

    def log_ratios(self, x: EventBatch, theta0: Thetas, theta1: Thetas) -> Numbers:
        """Log ratios of a batch of events."""
        return jax.vmap(self.log_ratio)(x, theta0, theta1)
