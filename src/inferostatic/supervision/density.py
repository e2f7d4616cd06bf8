"""Supervision of densities: every event at the θ that made it, and nothing else."""

import jax.numpy as jnp

from ..events.events import Events
from ..serial import known
from .records import Capability, DensityTarget, Key, Row
from .supervision import (
    AbstractStoredSupervision,
    Supply,
    ThetaDistribution,
    plain_supply,
    warn_of_one_point,
)


@known
class MadeAt(AbstractStoredSupervision):
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

    def supply(self, events: Events) -> Supply:
        """Any events will do."""
        warn_of_one_point(events, "the density of x")
        return plain_supply(events, events.stored_prior() if events.prior is None else events.prior)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> DensityTarget:
        """The event's own θ."""
        del distribution, key
        return DensityTarget(row.theta, jnp.ones(()))
