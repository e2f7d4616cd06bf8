"""Toys at a parameter point: data sets from a simulator, or from stored events near by.

Each toy is drawn *without replacement* from a pool. Given a pool of p independent events, a toy of
n is then exactly a set of independent events; only different toys share events, a fraction n/p of
theirs, and are correlated at most so much. (With replacement all toys would be centred on the
pool's own mean, and their scatter about the truth would be too large by that fraction.)

With a rate the number of events of a toy is Poisson distributed. Weights of the observed events are
handed to the toys' events at random: they must not depend on x.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import as_count, kind_of, require_order
from ...streams import Purpose, Stream
from ...weights import warn_few_effective
from ...world.simulator import Simulator, require_simulator
from ..likelihood.float64 import as_models_read
from ..likelihood.likelihood import Likelihood
from ..likelihood.model import Channel, DataSets, LikelihoodModel

#: A pool has this many times the events of a toy, but no more than all toys have together.
POOL_TIMES = 20
#: Events of a pool at least, likewise.
POOL_LEAST = 20_000
#: Toys of fewer events do not share any.
FEW_EVENTS = 50
#: Stored events that are called near to a θ: this many times the events of a toy.
NEAR_TIMES = 5
#: And at least this many.
NEAR_LEAST = 1000
#: Toys whose rows are added up in one product.
TOYS_TOGETHER = 256

#: Where toys of one channel come from.
ToySource = Simulator | Events


class AbstractSource(abc.ABC):
    """Where events at θ come from."""

    @abc.abstractmethod
    def pool_size(self, count: int, events: int) -> int:
        """How many events a pool has where `count` are asked for, for toys of `events` each."""

    @abc.abstractmethod
    def draw_pool(self, theta: np.ndarray, count: int, events: int, rng: Generator) -> np.ndarray:
        """Events at θ for toys of `events` each, `pool_size` of them."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What was used so far, in words."""

    @abc.abstractmethod
    def pack_usage(self) -> np.ndarray:
        """What was used so far, for a checkpoint."""

    @abc.abstractmethod
    def restore_usage(self, packed: np.ndarray) -> None:
        """Add what was used in an earlier process."""


class SimulatedSource(AbstractSource):
    """Events simulated at θ itself."""

    simulator: Simulator
    names: tuple[str, ...]
    used: int

    def __init__(self, simulator: Simulator, channel: Channel) -> None:
        require_simulator(simulator)
        self.simulator, self.names = simulator, channel.x_names
        self.used = 0

    def pool_size(self, count: int, events: int) -> int:
        """As many as are asked for."""
        del events
        return count

    def draw_pool(self, theta: np.ndarray, count: int, events: int, rng: Generator) -> np.ndarray:
        """Fresh events."""
        del events
        stream = Stream(int(rng.integers(2**32)), Purpose.TOY_EVENTS)
        thetas = np.repeat(theta[None], count, axis=0)
        x = simulate_at(self.simulator, thetas, stream, x_names=self.names, progress_bar=False)
        self.used += count
        return x

    def describe(self) -> str:
        """How many were simulated."""
        return f"toys from {self.used:,} events simulated at the θ that were tested"

    def pack_usage(self) -> np.ndarray:
        """How many were simulated."""
        return np.array([self.used])

    def restore_usage(self, packed: np.ndarray) -> None:
        """At least so many."""
        self.used = max(self.used, int(packed[0]))


class StoredSource(AbstractSource):
    """Stored events whose θ lie nearest: their θ differ from the one that is tested."""

    scale: np.ndarray
    used: np.ndarray
    furthest: float
    weighted: bool

    def __init__(self, events: Events, channel: Channel) -> None:
        estimator = channel.estimators[0]
        require_order(events.x_names, estimator.x_names, "the stored events' x")
        require_order(events.theta_names, estimator.theta_names, "the stored events' theta")
        shape = (len(estimator.x_names), len(estimator.theta_names))
        if (events.x.shape[1], events.theta.shape[1]) != shape:
            raise ValueError(
                f"the stored events have {events.x.shape[1]} observables and "
                f"{events.theta.shape[1]} parameters, but the estimator {shape[0]} and {shape[1]}."
            )
        if (events.weight < 0).any():
            raise ValueError(
                "toys cannot be drawn from events with negative weights; give events without, or "
                "a simulator."
            )
        warn_few_effective(events.weight, "the stored events' weight")
        self.events = events
        self.scale = np.asarray(estimator.region.theta_high - estimator.region.theta_low)
        self.used = np.zeros(len(events), bool)
        self.furthest = 0.0
        self.weighted = bool(np.ptp(events.weight) > 0)

    def pool_size(self, count: int, events: int) -> int:
        """No more than lie near."""
        return min(count, max(NEAR_LEAST, NEAR_TIMES * events), len(self.events))

    def draw_pool(self, theta: np.ndarray, count: int, events: int, rng: Generator) -> np.ndarray:
        """The nearest events, in random order."""
        near = self.pool_size(count, events)
        if len(self.events) < 2 * events:
            raise ValueError(
                f"there are {len(self.events)} stored events, too few for toys of {events}; "
                "simulate more, or give a simulator."
            )
        away = (((np.asarray(self.events.theta) - theta) / self.scale) ** 2).sum(axis=1)
        chosen = np.argpartition(away, near - 1)[:near]
        self.furthest = max(self.furthest, float(np.sqrt(away[chosen].max())))
        if self.weighted:
            # A weighted event stands for as many as its weight says.
            weight = np.asarray(self.events.weight, np.float64)[chosen]
            chosen = rng.choice(chosen, near, p=weight / weight.sum())
        self.used[chosen] = True
        return np.asarray(self.events.x)[rng.permutation(chosen)]

    def describe(self) -> str:
        """How many different events, and from how far."""
        return (
            f"approximate: toys from {int(self.used.sum()):,} different stored events, at θ up to "
            f"{self.furthest:.3g} of the trained range away from the θ that were tested"
        )

    def pack_usage(self) -> np.ndarray:
        """From how far, and which of them."""
        return np.concatenate([[self.furthest], np.flatnonzero(self.used)])

    def restore_usage(self, packed: np.ndarray) -> None:
        """These as well."""
        self.furthest = max(self.furthest, float(packed[0]))
        self.used[packed[1:].astype(np.int64)] = True


def read_sources(
    given: ToySource | Sequence[ToySource], model: LikelihoodModel
) -> tuple[AbstractSource, ...]:
    """A source for every channel, of simulators or stored events."""
    every = for_each_channel(given, model.channels, "toys need a simulator, or stored events,")
    return tuple(
        StoredSource(one, channel) if isinstance(one, Events) else SimulatedSource(one, channel)
        for one, channel in zip(every, model.channels, strict=True)
    )


def for_each_channel(given: object, channels: Sequence[Channel], need: str) -> Sequence[Any]:
    """A list with one entry for each channel; for a single channel without a list as well."""
    every: Sequence[Any] = given if isinstance(given, list | tuple) else (given,)
    if len(every) != len(channels):
        raise ValueError(
            f"{need} for each of {len(channels)} channels, in the order in which the likelihoods "
            f"were added; got {len(every)}."
        )
    return every


def require_source(given: object) -> None:
    """Refuse what toys cannot be drawn from."""
    every: Sequence[Any] = given if isinstance(given, list | tuple) else (given,)
    for one in every:
        if not isinstance(one, Events) and not callable(one):
            raise TypeError(
                "toys need events at the θ that are tested: a simulator, function (theta, rng) -> "
                "x, or simulated ist.Events at many θ; with several channels a list of these. Got "
                f"{kind_of(one)}."
            )


@dataclasses.dataclass(frozen=True, eq=False)
class ChannelToys:
    """Toys of one channel, drawn from one pool of events.

    Attributes:
        pool: events, shape (p, D).
        rows: of the pool that make up each toy, shape (t, n); all different within a toy.
        weight: of these events, 0 for padding, shape (t, n).
    """

    pool: np.ndarray
    rows: np.ndarray
    weight: np.ndarray

    @property
    def totals(self) -> np.ndarray:
        """Sum of weights of each toy, shape (t,)."""
        return self.weight.sum(axis=1)

    def add_up(self, table: np.ndarray) -> np.ndarray:
        """Weighted sums of the toys' rows of a table (p, m), shape (t, m)."""
        toys = len(self.rows)
        # Without their mean the entries are small, and float32 adds them up well enough.
        mean = table.mean(axis=0, dtype=np.float64)
        centred = (table - mean).astype(np.float32)
        total = np.empty((toys, table.shape[1]))
        for first in range(0, toys, TOYS_TOGETHER):
            part = slice(first, first + TOYS_TOGETHER)
            members = np.zeros((len(self.rows[part]), len(table)), np.float32)
            np.put_along_axis(members, self.rows[part], self.weight[part], axis=1)
            total[part] = members @ centred
        return total + self.totals[:, None] * mean


@dataclasses.dataclass(frozen=True, eq=False)
class Toys:
    """Toys at one θ.

    Attributes:
        channels: their events.
        measured: by the toys' constraints, shape (t, d).
        theta: where they were simulated, shape (d,).
    """

    channels: tuple[ChannelToys, ...]
    measured: np.ndarray
    theta: np.ndarray

    @property
    def most_events(self) -> int:
        """Events of the largest toy in one channel."""
        return max(channel.rows.shape[1] for channel in self.channels)

    def data(self, which: np.ndarray | slice = slice(None)) -> DataSets:
        """Some toys, or all, as data sets."""
        return DataSets(
            x=tuple(channel.pool[channel.rows[which]] for channel in self.channels),
            weight=tuple(channel.weight[which] for channel in self.channels),
            measured=self.measured[which],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class ToyMaker:
    """Toys at any θ.

    Attributes:
        model: the likelihood's model.
        sources: of events, one for each channel.
        weights: of the observed events, for each channel with weights; None elsewhere.
        events: observed numbers of events of each channel.
        toys: number of toys.
        pool: events that all toys of one θ are drawn from, if that was asked for.
        pool_times, pool_least: otherwise so many times the events of a toy, or so many.
        seed: the toys at a θ follow from it and from θ, in whatever order points are tested.
        purpose: of the toys, which have a random stream of their own.
    """

    model: LikelihoodModel
    sources: tuple[AbstractSource, ...]
    weights: tuple[np.ndarray | None, ...]
    events: tuple[int, ...]
    toys: int
    pool: int | None
    seed: int
    pool_times: int = POOL_TIMES
    pool_least: int = POOL_LEAST
    purpose: Purpose = Purpose.NEYMAN_TOYS

    @property
    def shared(self) -> float:
        """The fraction of its events that a toy shares with another: their largest correlation."""
        shares = [0.0]
        for events, source in zip(self.events, self.sources, strict=True):
            pool = source.pool_size(self.pool_size(events), events)
            shares.append(0.0 if pool >= self.toys * events else events / pool)
        return max(shares)

    def at(self, theta: np.ndarray) -> Toys:
        """The toys at θ."""
        bits = np.asarray(theta, np.float64).view(np.uint32)
        rng = Stream(self.seed, self.purpose).generator(*bits.tolist())
        numbers, pools = [], []
        each = zip(self.model.channels, self.sources, strict=True)
        for number, (channel, source) in enumerate(each):
            counts = self._numbers(number, channel, theta, rng)
            most = max(1, int(counts.max()))
            own = theta[list(channel.indices)]
            pool = source.draw_pool(own, self.pool_size(most), most, rng)
            numbers.append(counts)
            pools.append(as_models_read(pool))
        deviation = self.model.constraints.deviation
        measured = theta + deviation * rng.standard_normal((self.toys, len(theta)))
        channels = tuple(
            self._divide(pool, counts, weights, rng)
            for pool, counts, weights in zip(pools, numbers, self.weights, strict=True)
        )
        return Toys(channels, measured, np.asarray(theta, np.float64))

    def _numbers(
        self, number: int, channel: Channel, theta: np.ndarray, rng: Generator
    ) -> np.ndarray:
        """Events of each toy: as many as observed, or a Poisson number where there is a rate."""
        if channel.rate is None:
            return np.full(self.toys, self.events[number])
        weights = self.weights[number]
        each = 1.0 if weights is None else float(weights.mean())
        return rng.poisson(float(channel.expected(theta)[0]) / each, self.toys)

    def pool_size(self, events: int) -> int:
        """The number of events drawn at each θ."""
        every = self.toys * events
        if self.pool is not None:
            if self.pool < 2 * events:
                raise ValueError(
                    f"pool must be at least twice the number of events, {events}; got {self.pool}."
                )
            return min(self.pool, every)
        if events < FEW_EVENTS:
            return every
        return min(every, max(self.pool_times * events, self.pool_least))

    def _divide(
        self, pool: np.ndarray, counts: np.ndarray, weights: np.ndarray | None, rng: Generator
    ) -> ChannelToys:
        """The pool shared out among the toys."""
        size = max(1, int(counts.max()))
        each = len(pool) // size
        turns = -(-self.toys // each)
        # Every shuffle of the pool gives toys that have nothing in common.
        orders = [np.arange(len(pool)), *(rng.permutation(len(pool)) for _ in range(1, turns))]
        rows = np.concatenate([order[: each * size].reshape(each, size) for order in orders])
        rows = rows[: self.toys]
        used = np.arange(size) < counts[:, None]
        if weights is None:
            return ChannelToys(pool, rows, used.astype(np.float64))
        if np.all(counts == len(weights)):
            # The observed weights themselves, so that their sum is that of the data.
            drawn = rng.permuted(np.tile(weights, (self.toys, 1)), axis=1)
        else:
            drawn = rng.choice(weights, used.shape)
        return ChannelToys(pool, rows, np.where(used, drawn, 0.0))


def make_toy_maker(
    likelihood: Likelihood,
    model: LikelihoodModel,
    source: ToySource | Sequence[ToySource],
    toys: int,
    pool: int | None,
    seed: int,
) -> ToyMaker:
    """Toys of a likelihood, in the box of `model`."""
    weights = tuple(
        weight[0] if weighted else None
        for weight, weighted in zip(likelihood.data.weight, likelihood.weighted, strict=True)
    )
    maker = ToyMaker(
        model=model,
        sources=read_sources(source, model),
        weights=weights,
        events=tuple(x.shape[1] for x in likelihood.data.x),
        toys=as_count(toys, "toys"),
        pool=None if pool is None else as_count(pool, "pool"),
        seed=seed,
    )
    for events in maker.events:
        maker.pool_size(events)
    return maker


def describe_toys(maker: ToyMaker) -> list[str]:
    """How toys were made, for the notes of a result."""
    sources = "; ".join(source.describe() for source in maker.sources)
    notes = [f"{maker.toys:,} toys at each point; {sources}"]
    if any(channel.rate is not None for channel in maker.model.channels):
        notes.append("the number of events of a toy is Poisson distributed about the rate")
    if any(weights is not None for weights in maker.weights):
        notes.append(
            "the toys' events carry the observed weights in random order, as if weights did not "
            "depend on x"
        )
    return notes
