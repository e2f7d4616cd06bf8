"""Where the events of templates come from: a simulator, stored events, or learned weights."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from ...estimator.estimator import Estimator
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import Input, as_count, as_rows, as_seed, kind_of, require_finite, require_order
from ...streams import Purpose, Stream
from ...weights import effective_size, warn_few_effective
from ...world.simulator import Simulator, require_simulator
from ..arguments import as_observed, as_weight
from .observable import Observable

#: Simulated events at each point for one expected event: in twenty bins the noise of the slopes
#: then adds less than 1% to the information.
EVENTS_EACH = 120
#: Fewest events that are simulated at each point.
FEWEST_EVENTS = 100_000
#: Most events that are simulated at each point by default.
MOST_EVENTS = 1_000_000
#: Most events that may be asked for at each point: more do not fit into memory.
MOST_SIMULATED = 10**9
#: Effective fraction of events below which reweighting is refused.
FEWEST_EFFECTIVE = 0.1
#: Distance of two θ that count as one, as a part of the trained region: rounding in float32.
SAME_POINT = 1e-6

#: Events of shape (n, D) with weights of shape (n,).
Weighted = tuple[np.ndarray, np.ndarray]
#: Changes of θ by name, shape (d,) each.
Directions = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Simulated:
    """Templates from a simulator, with the same random numbers at every point.

    Attributes:
        simulator: a function `(theta (n, d), rng) -> x (n, D)`.
        seed: of the simulation.
        events: simulated at each point; enough for the expected number by default.
    """

    simulator: Simulator
    seed: int
    events: int | None = None

    def __post_init__(self) -> None:
        """Check the simulator, the seed and the number of events."""
        require_simulator(self.simulator)
        as_seed(self.seed)
        if self.events is not None:
            as_count(self.events, "events", most=MOST_SIMULATED)


@dataclasses.dataclass(frozen=True, eq=False)
class Reweighted:
    """Events at the reference point alone; shifts are made by weights from the learned ratio.

    Attributes:
        x: events simulated at θ_ref, shape (n, D).
        weight: one weight for each, of either sign; 1 by default.
    """

    x: Input
    weight: Input | None = None

    def __post_init__(self) -> None:
        """Check the shapes and that everything is finite."""
        rows = as_rows(self.x, "x", of="observables")
        require_finite(rows, "x", "Remove or repair these events.")
        as_weight(self.weight, len(rows))


class AbstractTemplateEvents(ABC):
    """Events at any θ that templates need."""

    @abstractmethod
    def at(self, point: np.ndarray) -> Weighted:
        """Events at one θ with their weights."""

    @abstractmethod
    def shifts(self, directions: Directions, wanted: Mapping[str, float]) -> dict[str, float]:
        """The shifts nearest to the wanted ones at which there are events."""


def open_source(
    source: Simulated | Reweighted | Events, observable: Observable, expected: float
) -> AbstractTemplateEvents:
    """The events of a source, enough for the expected number."""
    if isinstance(source, Reweighted):
        return _ReweightedEvents(observable, source)
    if isinstance(source, Events):
        return _StoredEvents(observable, source)
    count = source.events
    if count is None:
        count = int(np.clip(EVENTS_EACH * expected, FEWEST_EVENTS, MOST_EVENTS))
    return _SimulatorEvents(source.simulator, count, source.seed, observable.estimator.x_names)


class _SimulatorEvents(AbstractTemplateEvents):
    """Events from a simulator."""

    def __init__(
        self, simulator: Simulator, count: int, seed: int, x_names: tuple[str, ...]
    ) -> None:
        self.simulator, self.count, self.x_names = simulator, count, x_names
        self.stream = Stream(seed, Purpose.TEMPLATES)

    def at(self, point: np.ndarray) -> Weighted:
        # The same random numbers at every point: much of the noise cancels in the differences.
        many = np.tile(point, (self.count, 1))
        x = simulate_at(self.simulator, many, self.stream, x_names=self.x_names)
        return x, np.ones(len(x))

    def shifts(self, directions: Directions, wanted: Mapping[str, float]) -> dict[str, float]:
        return dict(wanted)  # any shift serves


class _StoredEvents(AbstractTemplateEvents):
    """Events that were made at θ_ref and at shifts of single parameters."""

    def __init__(self, observable: Observable, events: Events) -> None:
        warn_few_effective(events.weight, "the events' weight")
        require_order(events.x_names, observable.estimator.x_names, "the events' x")
        require_order(events.theta_names, observable.estimator.theta_names, "the events' theta")
        self.events, self.ref = events, observable.theta_ref
        self.scale = observable.estimator.region.theta_high - observable.estimator.region.theta_low

    def _near(self, point: np.ndarray) -> np.ndarray:
        return self._vanishes(np.asarray(self.events.theta, np.float64) - point)

    def _vanishes(self, away: np.ndarray) -> np.ndarray:
        return np.all(np.abs(away) <= SAME_POINT * self.scale, axis=1)

    def at(self, point: np.ndarray) -> Weighted:
        rows = self._near(point)
        if not rows.any():
            raise ValueError(
                f"no events were made at θ = {np.round(point, 6).tolist()}; templates need events "
                "at theta_ref and at theta_ref ± one shift of each free parameter. Simulate them "
                "there, or give ist.Simulated(simulator, seed=1), or Reweighted(x) with events at "
                "theta_ref."
            )
        x, weight = self.events.x[rows], self.events.weight[rows]
        return np.asarray(x, np.float64), np.asarray(weight, np.float64)

    def shifts(self, directions: Directions, wanted: Mapping[str, float]) -> dict[str, float]:
        """The shifts at which there are events on both sides."""
        points = np.unique(np.asarray(self.events.theta, np.float64), axis=0)
        found = {}
        for name, direction in directions.items():
            sizes = (points - self.ref) @ direction / (direction @ direction)
            along = self._vanishes(points - self.ref - sizes[:, None] * direction)
            above = sizes[along & (sizes > 0)]
            pairs = [size for size in above if self._near(self.ref - size * direction).any()]
            if not pairs:
                raise ValueError(
                    f"there are no events at two points theta_ref ± shift along {name}; simulate "
                    f"some, for example at a shift of {wanted[name]:.4g}."
                )
            found[name] = float(min(pairs, key=lambda size: abs(size - wanted[name])))
        return found


class _ReweightedEvents(AbstractTemplateEvents):
    """Events at θ_ref with weights from the learned ratio."""

    def __init__(self, observable: Observable, events: Reweighted) -> None:
        estimator = observable.estimator
        if not isinstance(estimator, Estimator):
            raise TypeError(
                "Reweighted needs the log ratios of a potential (ist.Estimator); got a "
                f"{kind_of(estimator)}. Give ist.Simulated(simulator, seed=1) or events at "
                "the shifted points."
            )
        self.estimator, self.ref = estimator, observable.theta_ref
        self.x = np.asarray(as_observed(estimator, events.x), np.float64)
        self.weight = as_weight(events.weight, len(self.x))

    def at(self, point: np.ndarray) -> Weighted:
        if np.array_equal(point, self.ref):
            return self.x, self.weight
        log_ratio = self.estimator.log_ratio(self.x, point, self.ref)
        ratio = np.exp(log_ratio - log_ratio.max())
        effective = effective_size(ratio) / len(ratio)
        if effective < FEWEST_EFFECTIVE:
            raise ValueError(
                f"reweighting to θ = {np.round(point, 5).tolist()} would leave {effective:.1%} of "
                "the events effective; use a smaller shift or simulate there."
            )
        return self.x, ratio * self.weight

    def shifts(self, directions: Directions, wanted: Mapping[str, float]) -> dict[str, float]:
        return dict(wanted)  # any shift serves
