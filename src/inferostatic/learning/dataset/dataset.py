"""Events or records in the one form that training uses, and how they are split."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.history import Region
from ...events.events import Events, in_memory
from ...inputs import row_slices
from ...memory_map import read_rows, require_whole
from ...models.architecture import AbstractArchitecture, Shapes
from ...models.features.feature_map import AbstractFeatureMap, IdentityMap
from ...supervision.candidates import AbstractCandidateLaw, CandidateSets
from ...supervision.density import MadeAt
from ...supervision.kernels import AbstractKernel, largest_widths
from ...supervision.latent import FromJoint, JointScore
from ...supervision.pairs import AbstractPairLaw, LabelledPairs
from ...supervision.records import Row
from ...supervision.references import ReferencePoint
from ...supervision.supervision import AbstractSupervision, StoredLaw, trusted_region
from ...supervision.targets import KernelScore
from ...world.priors.prior import AbstractPrior
from ..draw import Records
from ..methods import AbstractMethod
from ..training.steps import Examples
from .mapped import Chunks, MappedExamples, MappedRows, chunks_of, some_rows

#: Events from which features are learned; more would not change them.
FEATURE_EVENTS = 200_000
FEATURE_CHUNK = 16_384
#: Held-out events, at most: more would not change what is decided by them.
MOST_HELD = 100_000
#: Numbers in x up to which memory-mapped events are simply read into memory.
READ_WHOLE = 8_000_000
#: Memory-mapped events from which the law of θ is made ready and on which methods are tried.
LAW_EVENTS = 20_000


@dataclasses.dataclass(frozen=True)
class Supplied:
    """Events or records in one form; x, weights and rows may stay in their files."""

    x: np.ndarray
    weight: np.ndarray
    records: Any
    rows: Row | MappedRows | None
    law: StoredLaw | None
    prior: AbstractPrior
    low: np.ndarray
    high: np.ndarray

    def split(self, fraction: float, seed: int) -> "Split":
        """The same held-out events for every member, whatever the method."""
        if not isinstance(self.rows, MappedRows):
            return split_of(len(self.weight), fraction, seed)
        count = len(self.weight)
        rng = np.random.default_rng(np.random.SeedSequence([seed, 10]))
        held = rng.choice(count, held_out(count, fraction), replace=False)
        return Split(chunks_of(self.x, held, seed), held)

    def shapes(self, architecture: AbstractArchitecture, train: np.ndarray | Chunks) -> Shapes:
        """What the architecture learns from the training events."""
        x = read_rows(self.x, some_rows(train, FEATURE_EVENTS))
        return architecture.shapes(x, *self.prior.centre_and_scale)

    def region(self) -> Region:
        """Where the trained model can be trusted."""
        return Region(self.low, self.high, *column_range(self.x, "x"))

    def examples(self, maps: list[AbstractFeatureMap]) -> Examples | MappedExamples:
        """Everything with its features; members that differ in them have an axis of their own."""
        if isinstance(self.rows, MappedRows):
            mean = float(self.weight.mean(dtype=np.float64))
            return MappedExamples(self.x, self.weight, mean, self.rows, tuple(maps))
        features = [transformed(map_, self.x) for map_ in maps]
        return Examples(
            features=features[0] if len(features) == 1 else jnp.stack(features),
            # Weights with mean 1, so that a weight of 2 equals the event twice.
            weight=jnp.asarray(self.weight / self.weight.mean(), jnp.float32),
            records=self.records,
            rows=self.rows,
        )

    def part(self, index: np.ndarray) -> "Supplied":
        """Some of the events, in memory."""
        if isinstance(self.rows, MappedRows):
            return dataclasses.replace(
                self,
                x=np.asarray(read_rows(self.x, index), np.float32),
                weight=np.asarray(read_rows(self.weight, index), np.float64),
                rows=self.rows.take(index),
            )
        records, rows = jax.tree.map(lambda leaf: leaf[index], (self.records, self.rows))
        return dataclasses.replace(
            self, x=self.x[index], weight=self.weight[index], records=records, rows=rows
        )


def column_range(table: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every column, in one walk through a file."""
    require_whole(table, name)
    ranges = [(table[rows].min(axis=0), table[rows].max(axis=0)) for rows in row_slices(table)]
    lows, highs = zip(*ranges, strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def supplied(events: Events | Records, method: AbstractMethod) -> Supplied:
    """Check the events and lay them out."""
    if isinstance(events, Records):
        theta = next(v for k, v in vars(events.record).items() if k.startswith("theta"))
        rows = np.asarray(theta).reshape(-1, events.prior.dim)
        low, high = trusted_region(events.prior, rows)
        if isinstance(events.method.supervision, ReferencePoint):
            point = np.asarray(events.method.supervision.theta_ref)
            low, high = np.minimum(low, point), np.maximum(high, point)
        weight = np.ones(len(events))
        return Supplied(events.x, weight, events.record, None, None, events.prior, low, high)
    for name in ("x", "theta", "weight"):
        require_whole(getattr(events, name), name)
    if events.mapped and events.x.size <= READ_WHOLE:
        events = in_memory(events, slice(None), events.prior)
    if events.mapped:
        return _supplied_in_files(events, method)
    for kernel in _kernels(method):
        largest_widths(kernel, events.x, events.theta)
    supply = method.supply(events)
    x = np.asarray(supply.rows.x)
    rows = supply.rows
    if not _uses_x(method, supply.law):
        # Targets do not look at x, so batches need not carry it beside its features.
        rows = eqx.tree_at(lambda r: r.x, rows, jnp.zeros((len(x), 0)))
    law = supply.law
    low, high = np.asarray(law.low, np.float64), np.asarray(law.high, np.float64)
    return Supplied(x, supply.weight, None, rows, law, law.prior, low, high)


def _supplied_in_files(events: Events, method: AbstractMethod) -> Supplied:
    """Leave memory-mapped events where they are, and learn what must be known from some."""
    _refuse_in_files(method)
    some = chunks_of(events.x, np.zeros(0, int), 0).some(LAW_EVENTS)
    law = events.stored_prior() if events.prior is None else events.prior
    sample = in_memory(events, some, law)
    for kernel in _kernels(method):
        largest_widths(kernel, sample.x, sample.theta)
    supply = method.supply(sample)
    found = supply.law
    # Where the support is open, the trusted region is the range of all stored θ.
    theta_low, theta_high = column_range(events.theta, "theta")
    edge_low, edge_high = found.prior.support
    low = np.where(np.isfinite(edge_low), found.low, theta_low).astype(found.low.dtype)
    high = np.where(np.isfinite(edge_high), found.high, theta_high).astype(found.high.dtype)
    return Supplied(
        x=events.x,
        weight=events.weight,
        records=None,
        rows=MappedRows(
            events.x,
            events.theta,
            _uses_x(method, found),
            {name: events.latent[name] for name in supply.rows.latent},
        ),
        law=StoredLaw(found.prior, low, high, found.joint, found.unit),
        prior=found.prior,
        low=low.astype(np.float64),
        high=high.astype(np.float64),
    )


#: Supervision that asks about each event for itself.
_EACH_FOR_ITSELF = (CandidateSets, LabelledPairs, KernelScore, MadeAt, FromJoint, JointScore)


def _refuse_in_files(method: AbstractMethod) -> None:
    remedy = (
        "load the events into memory (np.load without mmap_mode), or as many of them as fit, such "
        "as every tenth, events[np.arange(0, len(events), 10)]."
    )
    for node in jax.tree.leaves(method, is_leaf=_is_supervision):
        node = node.of if isinstance(node, FromJoint) else node
        at_reference = isinstance(node, JointScore) and node.reference is not None
        each = isinstance(node, _EACH_FOR_ITSELF) and not at_reference
        if _is_supervision(node) and not each:
            raise ValueError(
                f"{method} with a reference joins and weighs all events beforehand, which "
                f"memory-mapped events do not allow: {remedy} KCE, KLRE, CARL without a reference "
                "and KSE train from files."
            )
    if any(not kernel.constant for kernel in _kernels(method)):
        raise ValueError(
            "a width that is a function of x or θ is checked at all events beforehand, which "
            f"memory-mapped events do not allow: {remedy} Constant widths train from files."
        )


def _is_supervision(node: object) -> bool:
    return isinstance(node, AbstractSupervision)


def _kernels(method: AbstractMethod) -> list[AbstractKernel]:
    nodes = jax.tree.leaves(method, is_leaf=lambda node: isinstance(node, AbstractKernel))
    return [node for node in nodes if isinstance(node, AbstractKernel)]


def _uses_x(method: AbstractMethod, law: StoredLaw) -> bool:
    if law.joint is not None and law.joint.uses_x:
        return True
    # A user's own pair or candidate law may look at x as well.
    laws = jax.tree.leaves(method, is_leaf=_is_law)
    foreign = any(_is_law(law) and not type(law).__module__.startswith(_PACKAGE) for law in laws)
    return foreign or any(kernel.depends_on_x for kernel in _kernels(method))


_PACKAGE = __name__.split(".")[0] + "."


def _is_law(node: object) -> bool:
    return isinstance(node, AbstractPairLaw | AbstractCandidateLaw)


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out."""

    train: np.ndarray | Chunks
    validation: np.ndarray


def split_of(n: int, fraction: float, seed: int) -> Split:
    """The same held-out events for every member, whatever the method."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 10])).permutation(n)
    held = held_out(n, fraction)
    return Split(train=order[held:], validation=order[:held])


def held_out(n: int, fraction: float) -> int:
    """How many events are held out."""
    held = min(round(fraction * n), MOST_HELD)
    if held >= n:
        raise ValueError(f"{n} events are too few to hold out {fraction:.0%} of them.")
    if fraction > 0 and held == 0:
        raise ValueError(
            f"{n} events are too few to hold out {fraction:.0%} of them; set "
            "Training(validation_fraction=0) or give more events."
        )
    return held


def transformed(features: AbstractFeatureMap, x: np.ndarray) -> Array:
    """Features of all events, computed once: they do not change during training."""
    if isinstance(features, IdentityMap):
        return jnp.asarray(x, jnp.float32)
    apply = jax.jit(jax.vmap(features))
    parts = [
        np.asarray(apply(jnp.asarray(x[start : start + FEATURE_CHUNK], jnp.float32)))
        for start in range(0, len(x), FEATURE_CHUNK)
    ]
    return jnp.asarray(np.concatenate(parts))
