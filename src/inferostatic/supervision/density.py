"""Supervision of densities: every event at the θ that made it, and nothing else."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ..events.events import Events
from ..serial import known
from ..world.priors.prior import AbstractPrior
from ..world.simulator import Simulator
from .records import Capability, DensityTarget, Row
from .supervision import (
    AbstractSupervision,
    Drawn,
    Supply,
    ThetaDistribution,
    draw_then_supervise,
    plain_rows,
    trusted_region,
    warn_of_one_point,
)


@known
class MadeAt(AbstractSupervision):
    """How probable each event is at its own θ.

    No other θ is drawn, so the prior of the stored θ does not matter, nor does it have to be known.
    """

    @property
    def capability(self) -> Capability:
        """A density."""
        return Capability.DENSITY

    @property
    def needs_all_events(self) -> bool:
        """No: each event is asked about for itself."""
        return False

    @property
    def reads_x(self) -> bool:
        """No."""
        return False

    def supply(self, events: Events) -> Supply:
        """Any events will do."""
        warn_of_one_point(events, "the density of x")
        prior = events.stored_prior() if events.prior is None else events.prior
        low, high = trusted_region(prior, events.theta)
        return Supply(plain_rows(events), events.weight, ThetaDistribution(prior, low, high))

    def supervise(
        self, row: Row, distribution: ThetaDistribution, *, key: PRNGKeyArray
    ) -> DensityTarget:
        """The event's own θ."""
        del distribution, key
        return DensityTarget(row.theta, jnp.ones(()))

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """Simulate at θ ~ π."""
        return draw_then_supervise(self, simulator, prior, n, seed=seed, show=show)
