"""Toys at a parameter point: sets of events from a simulator, or from stored events near by.

Each toy is drawn *without replacement* from a pool. Given a pool of p independent events, a toy of
n is then exactly a set of independent events; only different toys share events, a fraction n/p of
theirs, and are correlated at most so much. (With replacement all toys would be centred on the
pool's own mean, and their scatter about the truth would be too large by that fraction.)
"""

import abc
import dataclasses

import numpy as np

from ...estimator.estimator import Estimator
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import kind_of
from ...world.simulator import Simulator, require_simulator
from .toy_fits import Toys

#: A pool has this many times the events of a toy, or this many events, whichever is more; but no
#: more than all toys have together.
POOL_TIMES, POOL_LEAST = 20, 20_000
#: Toys of fewer events do not share any.
FEW_EVENTS = 50
#: Stored events that are called near to a θ: this many times the events of a toy, or this many.
NEAR_TIMES, NEAR_LEAST = 5, 1000


class AbstractSource(abc.ABC):
    """Where events at θ come from."""

    @abc.abstractmethod
    def pool(
        self, theta: np.ndarray, count: int, events: int, rng: np.random.Generator
    ) -> np.ndarray:
        """`count` events at θ for toys of `events` each, or as many as there are."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What was used so far, in words."""


class Simulated(AbstractSource):
    """Events simulated at θ itself."""

    def __init__(self, simulator: Simulator, estimator: Estimator) -> None:
        require_simulator(simulator)
        self.simulator, self.names = simulator, estimator.x_names
        self.used = 0

    def pool(
        self, theta: np.ndarray, count: int, events: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Fresh events."""
        del events
        seed = int(rng.integers(2**32))
        thetas = np.repeat(theta[None], count, axis=0)
        x = simulate_at(self.simulator, thetas, seed=seed, progress_bar=False)
        if x.shape[1] != len(self.names):
            raise ValueError(
                f"the simulator returns {x.shape[1]} observables, but the estimator was trained on "
                f"{len(self.names)} ({', '.join(self.names)})."
            )
        self.used += count
        return x

    def describe(self) -> str:
        """How many were simulated."""
        return f"toys from {self.used:,} events simulated at the θ that were tested"


class Stored(AbstractSource):
    """Stored events whose θ lie nearest: their θ differ from the one that is tested."""

    def __init__(self, events: Events, estimator: Estimator) -> None:
        if not isinstance(events, Events):
            raise TypeError(
                f"toys_from must be simulated events (ist.Events); got {kind_of(events)}."
            )
        if events.x_names != estimator.x_names or events.theta_names != estimator.theta_names:
            if (events.x.shape[1], events.theta.shape[1]) != (
                len(estimator.x_names),
                len(estimator.theta_names),
            ):
                raise ValueError(
                    f"toys_from has {events.x.shape[1]} observables and {events.theta.shape[1]} "
                    f"parameters, but the estimator {len(estimator.x_names)} and "
                    f"{len(estimator.theta_names)}."
                )
        if (events.weight < 0).any():
            raise ValueError(
                "toys cannot be drawn from events with negative weights; give toys_from events "
                "without, or simulator=."
            )
        self.events = events
        self.scale = np.asarray(estimator.region.theta_high - estimator.region.theta_low)
        self.used = np.zeros(len(events), bool)
        self.furthest = 0.0
        self.weighted = bool(np.ptp(events.weight) > 0)

    def pool(
        self, theta: np.ndarray, count: int, events: int, rng: np.random.Generator
    ) -> np.ndarray:
        """The nearest events, in an order of chance."""
        near = min(count, max(NEAR_LEAST, NEAR_TIMES * events))
        if len(self.events) < 2 * events:
            raise ValueError(
                f"toys_from has {len(self.events)} events, too few for toys of {events}; simulate "
                "more, or give simulator=."
            )
        near = min(near, len(self.events))
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


def source_of(
    estimator: Estimator, simulator: Simulator | None, toys_from: Events | None
) -> AbstractSource:
    """The one that was given."""
    if (simulator is None) == (toys_from is None):
        raise ValueError(
            "toys need events at the θ that are tested: give either simulator=, a function (theta, "
            "rng) -> x, or toys_from=, simulated ist.Events at many θ."
        )
    if simulator is not None:
        return Simulated(simulator, estimator)
    assert toys_from is not None
    return Stored(toys_from, estimator)


@dataclasses.dataclass(frozen=True, eq=False)
class ToyMaker:
    """Toys of `events` events each at any θ.

    Attributes:
        source: of events.
        toys: number of toys.
        events: of one toy.
        pool: number of events that all toys of one θ are drawn from.
        precision: of constraints, shape (d,); their measurements are thrown about θ.
        seed: the toys at a θ follow from it and from θ, in whatever order points are tested.
    """

    source: AbstractSource
    toys: int
    events: int
    pool: int
    precision: np.ndarray
    seed: int

    @staticmethod
    def size_of_pool(toys: int, events: int, asked: int | None) -> int:
        """The number of events simulated at each θ."""
        every = toys * events
        if asked is not None:
            if asked < 2 * events:
                raise ValueError(
                    f"pool must be at least twice the number of events, {events}; got {asked}."
                )
            return min(asked, every)
        if events < FEW_EVENTS:
            return every
        return min(every, max(POOL_TIMES * events, POOL_LEAST))

    @property
    def shared(self) -> float:
        """The fraction of its events that a toy shares with another: their largest correlation."""
        return 0.0 if self.pool >= self.toys * self.events else self.events / self.pool

    def at(self, theta: np.ndarray) -> Toys:
        """The toys at θ."""
        bits = np.asarray(theta, np.float64).view(np.uint32)
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, *bits.tolist()]))
        pool = self.source.pool(theta, self.pool, self.events, rng)
        pool = pool.astype(np.float32).astype(np.float64)
        sd = np.where(
            self.precision > 0, 1 / np.sqrt(np.where(self.precision > 0, self.precision, 1)), 0
        )
        measured = theta + sd * rng.standard_normal((self.toys, len(theta)))
        each = len(pool) // self.events
        turns = -(-self.toys // each)
        # Every shuffle of the pool gives toys that have nothing in common.
        rows = np.concatenate(
            [
                (np.arange(len(pool)) if turn == 0 else rng.permutation(len(pool)))[
                    : each * self.events
                ].reshape(each, self.events)
                for turn in range(turns)
            ]
        )
        return Toys(pool, rows[: self.toys], measured, np.asarray(theta, np.float64))
