"""Methods for upper limits: CLs and CLs+b, by asymptotic formulae or by toys."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...inputs import as_count, as_floats, kind_of, require_finite
from ...world.simulator import Simulator
from .asymptotics import Confidence
from .toys import require_source

#: One simulator, or one for each channel.
Simulators = Simulator | Sequence[Simulator]


#: What an Asimov data set is, for messages.
ASIMOV = (
    "Give finite observables: the events that the background predicts, or a function of θ that "
    "returns them."
)


@dataclasses.dataclass(frozen=True, eq=False)
class LimitMethod:
    """How a value of the parameter is excluded, with its options; made by `CLs` or `CLsb`.

    Attributes:
        name: for tables and messages.
        combine: what must fall below 1 − level for a value to be excluded.
        toys, simulator, asimov, pool, calibration: as for `CLs`.
        needs_background: whether the background's distribution enters the observed limit.
    """

    name: str
    combine: Callable[[Confidence], np.ndarray]
    toys: int | None
    simulator: Simulators | None
    asimov: Any
    pool: int | None
    calibration: Any
    needs_background: bool

    def __post_init__(self) -> None:
        """Check the options."""
        others = (self.toys, self.simulator, self.asimov, self.pool)
        if self.calibration is not None and any(given is not None for given in others):
            raise ValueError(
                "calibration= is a method of its own: leave out toys=, simulator=, asimov= and "
                "pool=."
            )
        if self.simulator is not None:
            require_source(self.simulator)
        if self.pool is not None:
            as_count(self.pool, "pool")
        if self.asimov is not None and not callable(self.asimov):
            # Of several channels each has its own number of events.
            listed = isinstance(self.asimov, list | tuple)
            for part in self.asimov if listed else [self.asimov]:
                require_finite(np.atleast_1d(as_floats(part, "asimov")), "asimov", ASIMOV)
        if isinstance(self.asimov, type):
            raise TypeError(f"asimov must be events or a function; got {kind_of(self.asimov)}.")
        if self.toys is not None:
            as_count(self.toys, "toys")
            if self.simulator is None:
                raise ValueError("toys are simulated: give simulator=, or leave out toys=.")
        elif self.pool is not None:
            raise ValueError("pool is for toys: give toys= and simulator=, or leave out pool=.")


def CLs(
    toys: int | None = None,
    simulator: Simulators | None = None,
    asimov: Any = None,  # noqa: ANN401
    pool: int | None = None,
    calibration: Any = None,  # noqa: ANN401
) -> LimitMethod:
    """CLs = CLs+b / CLb: covers at least as often as stated, and excludes no signal blindly.

    Args:
        toys: number of toys at each value, with and without signal; asymptotic formulae by default.
        simulator: function (theta, rng) -> x, for toys and for the Asimov set of many events; for
            several channels a list, one for each.
        asimov: the data that the background predicts, in place of a simulator: events, which are
            weighted equally so that they add up to the expected number; or a function of the
            fitted θ without signal that returns them; for several channels a list, one for each.
            Where one event is the whole data set, it is the one event that is expected.
        pool: events simulated at each θ, from which toys are drawn without replacement.
        calibration: in place of all of these, simulated events that the estimator was not trained
            on (`ist.Events`, `ist.ScoreCalibration`), or a simulator (or `ist.NearbySimulation`).
            The mean learned score is then a statistic whose distribution they give, so the limit
            holds for any network.
    """

    def divide(confidence: Confidence) -> np.ndarray:
        return confidence.signal / np.maximum(confidence.background, 1e-300)

    return LimitMethod("CLs", divide, toys, simulator, asimov, pool, calibration, True)  # noqa: FBT003


def CLsb(
    toys: int | None = None,
    simulator: Simulators | None = None,
    asimov: Any = None,  # noqa: ANN401
    pool: int | None = None,
    calibration: Any = None,  # noqa: ANN401
) -> LimitMethod:
    """CLs+b: covers exactly, but excludes signals that the events cannot tell from background.

    Arguments as for `CLs`; the observed limit needs neither a simulator nor an Asimov set.
    """

    def take_signal(confidence: Confidence) -> np.ndarray:
        return confidence.signal

    return LimitMethod("CLs+b", take_signal, toys, simulator, asimov, pool, calibration, False)  # noqa: FBT003
