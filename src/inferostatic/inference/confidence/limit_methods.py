"""Methods for upper limits: CLs and CLs+b, by asymptotic formulae or by toys."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...inputs import Input, as_count
from ...world.simulator import Simulator
from .asymptotics import Confidence
from .toys import require_source

#: One simulator, or one for each channel.
Simulators = Simulator | Sequence[Simulator]
#: The data set that the background predicts, or a function of θ that returns it.
Asimov = Input | Callable[[np.ndarray], Input]


class AbstractLimitMethod(abc.ABC):
    """How a value of the parameter is excluded, with its options."""

    toys: int | None
    simulator: Simulators | None
    asimov: Any
    pool: int | None

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """For tables and messages."""

    @property
    @abc.abstractmethod
    def needs_background(self) -> bool:
        """Whether the background's distribution enters the observed limit."""

    @abc.abstractmethod
    def combine(self, confidence: Confidence) -> np.ndarray:
        """What must fall below 1 − level for a value to be excluded."""


@dataclasses.dataclass(frozen=True, eq=False)
class CLs(AbstractLimitMethod):
    """CLs = CLs+b / CLb: covers at least as often as stated, and excludes no signal blindly.

    Args:
        toys: number of toys at each value, with and without signal; asymptotic formulae by default.
        simulator: function (theta, rng) -> x, for toys and for the Asimov set of many events; for
            several channels a list, one for each.
        asimov: the data set that the background predicts, for one event x: an event, or a function
            of the fitted θ without signal that returns it. Simulated for many events.
        pool: events simulated at each θ, from which toys are drawn without replacement.
    """

    toys: int | None = None
    simulator: Simulators | None = None
    asimov: Any = None
    pool: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        _check_options(self)

    @property
    def name(self) -> str:
        """As in tables."""
        return "CLs"

    @property
    def needs_background(self) -> bool:
        """CLb is in the denominator."""
        return True

    def combine(self, confidence: Confidence) -> np.ndarray:
        """The ratio."""
        return confidence.signal / np.maximum(confidence.background, 1e-300)


@dataclasses.dataclass(frozen=True, eq=False)
class CLsb(AbstractLimitMethod):
    """CLs+b: covers exactly, but excludes signals to which the events are not sensitive.

    Args:
        toys: number of toys at each value, with and without signal; asymptotic formulae by default.
        simulator: function (theta, rng) -> x, for toys and for the Asimov set of many events; for
            several channels a list, one for each.
        asimov: the data set that the background predicts; see `CLs`.
        pool: events simulated at each θ, from which toys are drawn without replacement.
    """

    toys: int | None = None
    simulator: Simulators | None = None
    asimov: Any = None
    pool: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        _check_options(self)

    @property
    def name(self) -> str:
        """As in tables."""
        return "CLs+b"

    @property
    def needs_background(self) -> bool:
        """The observed limit does without."""
        return False

    def combine(self, confidence: Confidence) -> np.ndarray:
        """CLs+b itself."""
        return confidence.signal


def _check_options(method: AbstractLimitMethod) -> None:
    if method.simulator is not None:
        require_source(method.simulator)
    if method.toys is not None:
        as_count(method.toys, "toys")
        if method.simulator is None:
            raise ValueError("toys are simulated: give simulator=, or leave out toys=.")
    elif method.pool is not None:
        raise ValueError("pool is for toys: give toys= and simulator=, or leave out pool=.")
