r"""Supervision by latent information: joint ratios in place of labels, and joint scores.

Every loss that takes a label y takes its mean given the latent variables as well,
\(y^* = 1/(1+r_\mathrm{lat})\): the same minimiser, and a gradient of the same mean and a smaller
variance (`eq:goldmining_intuition_1` to `_4`). The candidates of KCE have such a mean too, the
softmax of ln p_lat. The joint score is a regression target for the score, at the θ that made the
event and nowhere else.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.latent import (
    JOINT_SCORE,
    LOG_JOINT_RATIO,
    PARTNER,
    SCORE_OFF_REFERENCE,
    AbstractJoint,
    did_you_mean,
)
from ..inputs import bad_rows, rounded
from ..serial import known
from ..world.priors.prior import AbstractPrior
from .candidates import CandidateSets
from .joint_identities import joint_scores, require_identities, some_events
from .pairs import Independent, LabelledPairs
from .records import (
    AbstractRecord,
    CandidateSet,
    Capability,
    JointScoreTarget,
    Key,
    LabelledPair,
    PairScoreTarget,
    RatioPair,
    Row,
    SoftCandidateSet,
)
from .references import ReferencePoint
from .supervision import (
    AbstractStoredSupervision,
    AbstractSupervision,
    Supply,
    ThetaDistribution,
    plain_supply,
)


@known
class FromJoint(AbstractStoredSupervision):
    """Another supervision whose label is replaced by, or comes with, the joint ratio.

    Attributes:
        of: pairs, pairs with a reference point, or candidate sets.
        soft: whether the label becomes its mean given the latent variables.
        ratio: whether the record holds the joint ratio itself.
    """

    of: AbstractSupervision
    soft: bool = eqx.field(static=True, default=True)
    ratio: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        assert isinstance(self.of, LabelledPairs | ReferencePoint | CandidateSets)
        assert not (self.ratio and isinstance(self.of, CandidateSets))

    @property
    def capability(self) -> Capability:
        """That of the other."""
        return self.of.capability

    @property
    def needs_all_events(self) -> bool:
        """Where the other does."""
        return self.of.needs_all_events

    def supply(self, events: Events) -> Supply:
        """The events with the latent arrays that are read."""
        supply = self.of.supply(events)
        joint = events.latent.joint
        if joint is not None:
            require_identities(_drop_reference(events, self.of))
            return with_latent(supply, events, joint.names, joint)
        stored = [name for name in (LOG_JOINT_RATIO, PARTNER) if name not in events.latent]
        if stored:
            scores = JOINT_SCORE in events.latent
            raise ValueError(
                f"this method learns from joint ratios, and these events have neither a joint "
                f"density, latent=ist.Latent(arrays, ist.JointDensity(function)), nor the stored "
                f"array {stored[0]!r}; their latent arrays are {sorted(events.latent) or 'none'}."
                f"{did_you_mean(stored, events.latent)}"
                + (" There are joint scores: ist.SALLY() learns from these." if scores else "")
            )
        if isinstance(self.of, ReferencePoint):
            _require_stored_pairs(events, self.of)
        elif not (isinstance(self.of, LabelledPairs) and isinstance(self.of.pairs, Independent)):
            raise ValueError(
                "a stored joint ratio serves only the pair it was computed for. Fresh partners or "
                "candidates need the joint density at any θ: "
                "latent=ist.Latent(arrays, ist.JointDensity(function)) or a morphing."
            )
        names = (LOG_JOINT_RATIO, PARTNER)
        pairs = {name: events.latent[name] for name in names}
        # Weights that make the label fair; scores are a matter of events that follow the prior.
        require_identities(dataclasses.replace(events, latent=pairs, weight=supply.weight))
        return with_latent(supply, events, names, None)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> AbstractRecord:
        """The other's record, with what the latent variables say."""
        if distribution.joint is None:
            # Against a reference, θ1 is the reference; otherwise a coin says which is θ1.
            fixed = isinstance(self.of, ReferencePoint)
            from_1 = row.is_reference > 0 if fixed else jax.random.bernoulli(key)
            return self._build_record(*_stored_pair(row, from_1))
        record = self.of.supervise(row, distribution, key=key)
        joint = functools.partial(distribution.joint.log_prob, row.x, row.latent)
        if isinstance(record, CandidateSet):
            log_prob = jax.vmap(joint)(record.thetas)
            return SoftCandidateSet(
                thetas=record.thetas, probability=jax.nn.softmax(log_prob), weight=record.weight
            )
        assert isinstance(record, LabelledPair)
        return self._build_record(record, joint(record.theta0) - joint(record.theta1))

    def _build_record(self, pair: LabelledPair, log_ratio: Array) -> AbstractRecord:
        if self.soft:
            pair = eqx.tree_at(lambda p: p.label, pair, jax.nn.sigmoid(-log_ratio))
        if not self.ratio:
            return pair
        return RatioPair(pair=pair, log_joint_ratio=log_ratio, weight=pair.weight)


@known
class JointScore(AbstractStoredSupervision):
    """The joint score as a target for the score.

    Attributes:
        pairs: where a model of ratios is trained, the pairs it is asked about.
        reference: where only the score at one point is learned, that point.
        unit: of θ in which errors of the score are measured. The default is the standard
            deviation of θ under the prior; at a reference, what gives each component of the joint
            score a standard deviation of 1.
    """

    pairs: AbstractSupervision | None = None
    reference: tuple[float, ...] | None = eqx.field(static=True, default=None)
    unit: tuple[float, ...] | None = eqx.field(static=True, default=None)

    @property
    def capability(self) -> Capability:
        """The score, or ratios whose derivative it is."""
        return Capability.SCORE if self.pairs is None else Capability.LOG_RATIO

    @property
    def needs_all_events(self) -> bool:
        """Where those at a reference must be found, or the pairs do."""
        return self.reference is not None or (
            self.pairs is not None and self.pairs.needs_all_events
        )

    def supply(self, events: Events) -> Supply:
        """The events, or those at the reference, with what the joint score is computed from."""
        if self.reference is not None:
            events = _select_reference(events, self.reference)
        supply = plain_supply(events) if self.pairs is None else self.pairs.supply(events)
        joint = events.latent.joint
        off_reference = _drop_reference(events, self.pairs)
        # A stored score is what the simulator said itself, so it goes first.
        if JOINT_SCORE in events.latent:
            names = (JOINT_SCORE,)
        elif joint is not None:
            names = joint.names
        else:
            names = (self._score_off_reference(events),)
        if joint is None:
            scores = {JOINT_SCORE: off_reference.latent[names[0]]}
            off_reference = dataclasses.replace(off_reference, latent=scores)
        require_identities(off_reference)
        unit = self._unit(supply.distribution.prior, events)
        return with_latent(supply, events, names, joint, unit)

    def _score_off_reference(self, events: Events) -> str:
        """The array of scores that lacks those at the reference, if it serves this reference."""
        found = SCORE_OFF_REFERENCE in events.latent
        if not (found and isinstance(self.pairs, ReferencePoint)):
            raise ValueError(
                f"this method learns from joint scores, and these events have neither the latent "
                f"array {JOINT_SCORE!r} nor a joint density, latent=ist.Latent(arrays, "
                f"ist.JointDensity(function)); their latent arrays are "
                f"{sorted(events.latent) or 'none'}.{did_you_mean([JOINT_SCORE], events.latent)}"
                + (
                    f" {SCORE_OFF_REFERENCE!r} serves methods with reference=, the point it leaves "
                    "out; for others use ist.read_madminer_samples(…, scored=True)."
                    if found
                    else ""
                )
            )
        if not events.latent[SCORE_OFF_REFERENCE][~self.pairs.is_reference(events)].any():
            raise ValueError(
                f"{SCORE_OFF_REFERENCE!r} is 0 for all events that were not simulated at the "
                f"reference {rounded(self.pairs.theta_ref)}; give the θ₁ of the set as reference=."
            )
        return SCORE_OFF_REFERENCE

    def _unit(self, prior: AbstractPrior, events: Events) -> np.ndarray:
        dim = events.theta.shape[1]
        if self.unit is None and self.reference is None:
            return np.asarray(prior.centre_and_scale[1], np.float32)
        if self.unit is None:
            spread = joint_scores(some_events(events)).std(axis=0)
            return (1 / np.where(spread > 0, spread, 1.0)).astype(np.float32)
        assert self.unit is not None
        if len(self.unit) not in (1, dim) or not all(0 < u < np.inf for u in self.unit):
            raise ValueError(
                f"unit must be one positive number, or one for each of the {dim} parameters; got "
                f"{rounded(self.unit)}."
            )
        return np.broadcast_to(np.asarray(self.unit, np.float32), (dim,)).copy()

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> AbstractRecord:
        """The joint score at the θ that made the event."""
        taught = jnp.ones(())
        if JOINT_SCORE in row.latent:
            target = row.latent[JOINT_SCORE]
        elif SCORE_OFF_REFERENCE in row.latent:
            target, taught = row.latent[SCORE_OFF_REFERENCE], 1 - row.is_reference
        else:
            assert distribution.joint is not None
            target = distribution.joint.score(row.x, row.latent, row.theta)
        unit = jnp.asarray(distribution.unit)
        if self.pairs is None:
            return JointScoreTarget(theta=row.theta, target=target, unit=unit, weight=jnp.ones(()))
        pair = self.pairs.supervise(row, distribution, key=key)
        assert isinstance(pair, LabelledPair)
        return PairScoreTarget(pair=pair, target=target, unit=unit, weight=taught * pair.weight)


def _stored_pair(row: Row, from_1: Array) -> tuple[LabelledPair, Array]:
    """The stored pair, in the order in which x came from θ1 or not, and its ln r_lat."""
    partner, log_ratio = row.latent[PARTNER], row.latent[LOG_JOINT_RATIO]
    pair = LabelledPair(
        theta0=jnp.where(from_1, partner, row.theta),
        theta1=jnp.where(from_1, row.theta, partner),
        label=from_1.astype(jnp.float32),
        weight=jnp.ones(()),
    )
    return pair, jnp.where(from_1, -log_ratio, log_ratio)


def with_latent(
    supply: Supply,
    events: Events,
    names: tuple[str, ...],
    joint: AbstractJoint | None,
    unit: np.ndarray | None = None,
) -> Supply:
    """The supply with these latent arrays in its rows, and the joint density."""
    latent = {name: jnp.asarray(events.latent[name], jnp.float32) for name in names}
    rows = dataclasses.replace(supply.rows, latent=latent)
    distribution = dataclasses.replace(supply.distribution, joint=joint, unit=unit)
    return Supply(rows, supply.weight, distribution)


def _require_stored_pairs(events: Events, reference: ReferencePoint) -> None:
    """Refuse stored pairs of which neither θ is the reference."""
    there = Events(x=events.x, theta=events.latent[PARTNER])
    pairs = reference.is_reference(events) | reference.is_reference(there)
    if not pairs.all():
        raise ValueError(
            f"a stored joint ratio serves only the pair it was computed for, and in "
            f"{bad_rows(pairs)} neither the event's θ nor its partner is the reference "
            f"{rounded(reference.theta_ref)}. Give the common point of the pairs as reference=, or "
            "the joint density at any θ: latent=ist.Latent(arrays, ist.JointDensity(function))."
        )


def _drop_reference(events: Events, supervision: AbstractSupervision | None) -> Events:
    """The events whose θ follow the prior: all but those at a reference."""
    if isinstance(supervision, ReferencePoint):
        return events[~supervision.is_reference(events)]
    return events


def _select_reference(events: Events, reference: tuple[float, ...]) -> Events:
    there = ReferencePoint(reference).is_reference(events)
    if not there.any():
        raise ValueError(
            f"none of the {len(events)} events was simulated at the reference point "
            f"{rounded(reference)}, where the local score is learned. Take events from there, "
            "ist.simulate(simulator, ist.Discrete([point]), n, seed=…) or, from a pool, "
            "pool.events(point, n, seed=…); or learn the score at every θ: ist.SALLY() without a "
            "reference."
        )
    # The prior of the other events' θ says nothing of these.
    return dataclasses.replace(events[there], prior=None)
