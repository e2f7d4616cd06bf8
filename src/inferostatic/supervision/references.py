"""Ratios to a reference: a parameter point, or a sample of events from any density p_ref.

The reference class needs as much total weight as the rest, and the θ that a reference event is
paired with must follow the prior of the other events' θ; both are arranged here.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.simulate import simulate_first
from ..inputs import require_order, rounded
from ..serial import known
from ..streams import Purpose, Stream
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior, draw_points
from ..world.simulator import Simulator
from .pairs import draw_labelled
from .records import Capability, Key, LabelledPair, ReferenceLabel, Row
from .supervision import (
    AbstractSupervision,
    Drawn,
    Supply,
    ThetaDistribution,
    find_prior,
    plain_rows,
    trusted_region,
    warn_of_one_point,
)

#: For every method with a reference point.
HOW_TO_JOIN = (
    "Join them, ist.Events.concatenate([events, at_reference], prior=prior), where at_reference is "
    "ist.simulate(simulator, ist.Discrete([point], names=prior.names), n, seed=…) or, from a pool, "
    "pool.events(point, n, seed=…, morphing=events.latent.joint)."
)


def _balance(rows: Row, weight: np.ndarray, distribution: ThetaDistribution) -> Supply:
    """Scale the reference's weights so that the label is fair."""
    reference = np.asarray(rows.is_reference) > 0
    ours, theirs = weight[~reference].sum(), weight[reference].sum()
    if not theirs > 0:
        raise ValueError(f"the reference events' weights add up to {theirs:.4g}, not above 0.")
    return Supply(rows, np.where(reference, weight * (ours / theirs), weight), distribution)


def _fill(row: Row, distribution: ThetaDistribution, key: Key) -> tuple[Array, Array]:
    """θ of the row, or a fresh one from the prior for a reference event; and the label."""
    theta = jnp.where(row.is_reference > 0, distribution.prior.draw(key=key), row.theta)
    return theta, row.is_reference


class AbstractReference(AbstractSupervision):
    """Every θ against something else, whose class needs as much weight as the other."""

    @property
    def needs_all_events(self) -> bool:
        """Yes: the weights of both classes are balanced beforehand."""
        return True


@known
class ReferencePoint(AbstractReference):
    """Every θ against one parameter point θ_ref."""

    theta_ref: tuple[float, ...] = eqx.field(static=True)

    @property
    def capability(self) -> Capability:
        """The log ratio."""
        return Capability.LOG_RATIO

    def _point(self, dim: int) -> np.ndarray:
        if len(self.theta_ref) != dim:
            raise ValueError(
                f"the reference point has {len(self.theta_ref)} values but there are {dim} "
                "parameters."
            )
        return np.asarray(self.theta_ref)

    def is_reference(self, events: Events) -> np.ndarray:
        """Which events were simulated at θ_ref."""
        point = self._point(events.theta.shape[1])
        return np.all(np.isclose(events.theta, point, rtol=1e-6, atol=0), axis=1)

    def supply(self, events: Events) -> Supply:
        """Events at θ_ref are the reference class; there must be some."""
        point = self._point(events.theta.shape[1])
        reference = self.is_reference(events)
        if not reference.any() or reference.all():
            raise ValueError(
                f"{int(reference.sum())} of {len(events)} stored events were simulated at the "
                f"reference point {rounded(point)}; both these and others are needed. "
                f"{HOW_TO_JOIN}"
            )
        others = events[~reference]
        prior = find_prior(others)
        if isinstance(prior, Discrete):
            prior = others.stored_prior()
        low, high = trusted_region(prior, events.theta)
        labels = jnp.asarray(reference, jnp.float32)
        rows = dataclasses.replace(plain_rows(events), is_reference=labels)
        # The reference point is evaluated too, so it belongs to the region.
        distribution = ThetaDistribution(prior, np.minimum(low, point), np.maximum(high, point))
        return _balance(rows, events.weight, distribution)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> LabelledPair:
        """(θ, θ_ref, y)."""
        theta, label = _fill(row, distribution, key)
        reference = jnp.asarray(self.theta_ref, theta.dtype)
        return LabelledPair(theta0=theta, theta1=reference, label=label, weight=jnp.ones(()))

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """Half of the events at θ ~ π, half at θ_ref."""
        theta = jnp.asarray(draw_points(prior, n, Stream(seed, Purpose.DRAW_THETA)), jnp.float32)
        point = jnp.asarray(self._point(prior.dim), jnp.float32)
        reference = jnp.broadcast_to(point, theta.shape)
        return draw_labelled(simulator, prior, theta, reference, seed=seed, show=show)


@known
class ReferenceSample(AbstractReference):
    """Every θ against a sample of events from any density p_ref(x)."""

    x: np.ndarray
    weight: np.ndarray
    x_names: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def capability(self) -> Capability:
        """The potential, which becomes ln p(x; θ) − ln p_ref(x)."""
        return Capability.POTENTIAL

    def stored_fields(self) -> dict[str, np.ndarray]:
        """A saved model does not carry the reference events: an empty sample stands for them."""
        return {"x": np.zeros((0, self.x.shape[1])), "weight": np.zeros(0)}

    def supply(self, events: Events) -> Supply:
        """The events, then the reference events."""
        if self.x.shape[1] != events.x.shape[1]:
            raise ValueError(
                f"the reference events have {self.x.shape[1]} observables, the events "
                f"{events.x.shape[1]}."
            )
        if len(self.x) == 0:
            raise ValueError(
                "a method read from a file does not carry its reference events; give the method "
                "again, for example ist.DCTR(reference=events)."
            )
        require_order(self.x_names, events.x_names, "the reference events' x")
        warn_of_one_point(events, "the ratio to the reference events")
        prior = find_prior(events)
        low, high = trusted_region(prior, events.theta)
        count, extra = len(events), len(self.x)
        filler = np.broadcast_to(events.theta[:1], (extra, events.theta.shape[1]))
        rows = Row(
            x=jnp.asarray(np.concatenate([events.x, self.x]), jnp.float32),
            theta=jnp.asarray(np.concatenate([events.theta, filler]), jnp.float32),
            is_reference=jnp.concatenate([jnp.zeros(count), jnp.ones(extra)]),
        )
        weight = np.concatenate([events.weight, self.weight])
        return _balance(rows, weight, ThetaDistribution(prior, low, high))

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> ReferenceLabel:
        """(θ, y)."""
        theta, label = _fill(row, distribution, key)
        return ReferenceLabel(theta=theta, label=label, weight=jnp.ones(()))

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """Half of the records from the simulator, half from the reference sample."""
        theta = draw_points(prior, n, Stream(seed, Purpose.DRAW_THETA))
        half = (n + 1) // 2
        stream = Stream(seed, Purpose.DRAW)
        made = simulate_first(simulator, theta[:half], stream, progress_bar=show)
        if made.names is not None:
            require_order(self.x_names, made.names, "the reference events' x")
        probability = np.maximum(self.weight, 0)
        if (self.weight < 0).any():
            raise ValueError(
                "ist.draw resamples the reference events, which weights of both signs do not "
                "allow; use stored events: ist.fit(ist.simulate(…), ist.DCTR(reference=events))."
            )
        rng = Stream(seed, Purpose.DRAW_REFERENCE).generator()
        chosen = rng.choice(len(self.x), size=n - half, p=probability / probability.sum())
        label = jnp.concatenate([jnp.zeros(half), jnp.ones(n - half)])
        record = ReferenceLabel(
            theta=jnp.asarray(theta, jnp.float32), label=label, weight=jnp.ones(n)
        )
        return Drawn(np.concatenate([made.x, self.x[chosen]]), record, made.names)
