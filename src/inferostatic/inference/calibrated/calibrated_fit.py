r"""A fit whose errors can be trusted even if the network cannot.

The learned score at a point θ* near the estimate, \(t(x)=\hat s(x;\theta^*)\), is a statistic
with one component for each parameter. Its mean as a function of θ is learned from simulated events,
and θ is where it equals the observed mean. If the network is good, this is nearly the best that can
be done; if it is not, errors are larger, and still right. What finitely many simulated events leave
open is part of the result; given a simulator, it is made small.

Why not the score at θ itself, whose mean should vanish: its dependence on θ was learned from events
as well, wiggles with their noise, and where the same events calibrate it, it looks better than it
is. The mean at a fixed θ* is as smooth as the simulator.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...checkpoint import AbstractSavedWork, CheckpointChoice, NotSaved, open_checkpoint
from ...estimator.estimator import Estimator, ScoreEstimator
from ...events.events import Events
from ...fingerprint import identify
from ...inputs import Input, as_seed, warn_user
from ...summary import Summary, SummaryTable, list_estimates
from ...world.simulator import Simulator
from ..arguments import (
    ONE_SIGMA,
    Parameter,
    as_events,
    as_level,
    parameter_index,
    parameter_indices,
    read_point,
)
from ..chi_square import chi2_quantile
from ..likelihood.likelihood import Likelihood
from .averaged_score import AveragedScore
from .goodness_of_fit import UNLIKE, goodness_of_fit
from .mean_test import MeanTest
from .nearby_simulation import NearbySimulation, Solution, find_bound, fit_nearby
from .observed_data import ObservedData
from .score_calibration import ScoreCalibration, compare_means
from .starting_point import choose_start, find_most_likely

#: Times that the anchor is moved to the estimate.
MOVES = 4
#: Distance from an edge of the simulated region, as a part of its width, that counts as at it.
EDGE = 1e-4


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CalibratedFit:
    """The result of a calibrated fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: of the estimate, with the error by finitely many simulated events; 0 for a
            fixed parameter.
        statistical: of the estimate, by the observed events and constraints alone.
        p_value: of the means of the observables, given the estimate: small if the data look like
            none of the simulated events.
        sensitivity: error that the learned Fisher information promises over that reached, for each
            parameter; near 1 if nothing was lost, NaN for a fixed one.
        events: observed events.
        simulated: simulated events behind the expectation.
        names: of the parameters.
    """

    theta: np.ndarray
    covariance: np.ndarray
    statistical: np.ndarray
    p_value: float
    sensitivity: np.ndarray
    events: int
    simulated: int
    names: tuple[str, ...]
    _test: MeanTest = dataclasses.field(repr=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, shape (d,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def simulation_fraction(self) -> np.ndarray:
        """Error by finitely many simulated events over the statistical one, for each parameter."""
        total, statistical = np.diag(self.covariance), np.diag(self.statistical)
        return np.sqrt(np.maximum(total / np.where(total > 0, statistical, 1) - 1, 0))

    def distance(self, theta: Input, parameters: Sequence[Parameter] | None = None) -> float:
        """How far θ is from the data: a χ² with as many degrees of freedom as parameters are fixed.

        Args:
            theta: a point, shape (d,).
            parameters: those that are fixed there, by name or index; the others are chosen as the
                data like them best. All by default.
        """
        point = read_point(theta, self.names)
        chosen = range(len(self.names)) if parameters is None else parameters
        fixed = sorted(parameter_indices(chosen, self.names))
        for j in set(fixed) - set(self._test.free):
            if point[j] != self.theta[j]:
                raise ValueError(
                    f"{self.names[j]} was fixed at {self.theta[j]:.6g} in this fit; got "
                    f"{point[j]:.6g}. Leave it there, or fit again with it free."
                )
        return self._test.profile(point, fixed, self.theta)

    def interval(self, level: float = ONE_SIGMA) -> np.ndarray:
        """Confidence interval of each parameter, shape (d, 2), the others profiled."""
        bound, each = chi2_quantile(as_level(level), 1), range(len(self.theta))
        return np.array([self._test.find_ends(j, bound, self.theta) for j in each])

    def contour(
        self, first: Parameter, second: Parameter, level: float = ONE_SIGMA, *, points: int = 60
    ) -> np.ndarray:
        """Outline of the confidence region of two parameters, shape (points, 2)."""
        bound = chi2_quantile(as_level(level), 2)
        pair = [parameter_index(one, self.names) for one in (first, second)]
        if pair[0] == pair[1]:
            raise ValueError(f"contour takes two different parameters; got {first!r} twice.")
        for j in pair:
            if j not in self._test.free:
                raise ValueError(f"contour takes two free parameters; {self.names[j]} was fixed.")
        return self._test.trace_outline(pair, bound, self.theta, points)

    def summary(self, level: float = ONE_SIGMA) -> str:
        """A table of the parameters, with the p-value of the fit.

        Args:
            level: of the intervals.
        """
        return self._summarise(level).text()

    def _repr_html_(self) -> str:
        """The summary, in a notebook."""
        return self._summarise(ONE_SIGMA).html()

    def _summarise(self, level: float) -> Summary:
        columns = {
            "parameter": list(self.names),
            "estimate": [f"{value:.5g}" for value in self.theta],
            "error": [f"{error:.2g}" if error > 0 else "fixed" for error in self.errors],
            f"{level:.0%} interval": [f"{a:.5g} to {b:.5g}" for a, b in self.interval(level)],
            "simulation": [f"{part:.2f}" for part in self.simulation_fraction],
            "sensitivity": [f"{value:.2f}" for value in self.sensitivity],
        }
        unlike = (
            ", not to be relied on: at the estimate the observed events are unlike simulated ones, "
            "or too few events were given to calibrate with"
            if self.p_value < UNLIKE
            else ""
        )
        return Summary(
            f"Calibrated fit to {self.events:,} events, expectation from {self.simulated:,} "
            "simulated ones",
            (
                SummaryTable(columns),
                "simulation: error by simulated events over the statistical one; sensitivity: "
                "error that the learned likelihood promises over this one",
                f"p-value of the observables' means: {self.p_value:.3g}{unlike}",
            ),
        )

    def __repr__(self) -> str:
        """The values with errors."""
        text = list_estimates(self.names, self.theta, self.errors)
        return f"CalibratedFit({text}; p = {self.p_value:.2g})"


def calibrated_fit(
    likelihood: Likelihood | Estimator | ScoreEstimator | Sequence[Any],
    x: Input | None = None,
    *,
    events: Events | Sequence[Events] | ScoreCalibration | None = None,
    simulator: Simulator | NearbySimulation | None = None,
    seed: int | None = None,
    checkpoint: CheckpointChoice = None,
    progress_bar: bool | None = None,
) -> CalibratedFit:
    """Fit θ to observed events with errors calibrated by simulated ones.

    Give simulated events, a simulator, or both. A simulator makes its own events near the estimate,
    as many as the errors need. Events given beside it set the range of θ, and for a score network
    the first estimate; without them, that range is the trained region.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)` with weights, rate, constraints, fixed values
            and bounds; or in its place a trained potential or score network, or several that were
            trained on different events, followed by `x`.
        x: observed events, shape (n, D), all made at one unknown θ.
        events: simulated `Events` that the estimator was not trained on, for several estimators a
            set for each; or a `ScoreCalibration`, which keeps what it learned for many fits.
        simulator: a function `(theta (n, d), rng) -> x (n, D)`, or a `NearbySimulation` with
            options.
        seed: of the simulation; needed with a simulator, and refused without.
        checkpoint: a folder, or `ist.Checkpoint(path, minutes=…)`, in which simulated events are
            kept: the same call goes on where it stopped, to the same numbers.
        progress_bar: of the simulation, forced on or off.
    """
    if events is None and simulator is None:
        raise TypeError(
            "calibrated_fit needs simulated events that the estimator was not trained on, "
            "events=…, or a simulator that makes them, simulator=… with seed=1."
        )
    estimators: Any = likelihood
    if isinstance(likelihood, Likelihood):
        estimators = estimators_of(likelihood, x)
    calibration = as_calibration(estimators, events)
    score = AveragedScore.of(estimators) if calibration is None else calibration.score
    if isinstance(likelihood, Likelihood):
        data = data_of(likelihood)
    elif x is None:
        raise TypeError("calibrated_fit takes a likelihood, or an estimator and events x.")
    else:
        data = ObservedData.of_events(as_events(score.estimators[0], x, "x"), len(score.names))
    simulation = _as_simulation(simulator, seed)
    number = None if seed is None else as_seed(seed)
    parts = {
        "estimators": score.estimators,
        "observed events": data,
        "events": None if calibration is None else calibration.events,
        "simulator": simulation,
        "seed": number,
    }
    with open_checkpoint(checkpoint, "calibrated fit", lambda: identify(parts)) as saved:
        return fit_calibrated(
            score,
            data,
            calibration=calibration,
            simulation=simulation,
            seed=number,
            progress_bar=progress_bar,
            saved=saved,
        )


def estimators_of(likelihood: Likelihood, x: Input | None) -> list[Any]:
    """Those of the one channel, whose events it holds already."""
    if x is not None:
        raise TypeError("the likelihood holds the observed events already; leave out x.")
    if len(likelihood.model.channels) > 1:
        raise ValueError("a calibration takes one channel; fit the channels one by one.")
    return list(likelihood.estimators)


def data_of(likelihood: Likelihood) -> ObservedData:
    """Observed events, their rate, and what the user set of bounds, values and constraints."""
    # The trained region is no bound here: events may be simulated beyond it.
    low, high = likelihood.bounds
    low = np.where(likelihood.free, np.nan_to_num(low, nan=-np.inf), likelihood.low)
    high = np.where(likelihood.free, np.nan_to_num(high, nan=np.inf), likelihood.high)
    known, data = likelihood.model.constraints, likelihood.data
    return ObservedData(
        data.x[0][0],
        data.weight[0][0],
        low,
        high,
        known.mean,
        known.precision,
        likelihood.model.channels[0].rate,
    )


def as_calibration(estimator: Any, events: Any) -> ScoreCalibration | None:  # noqa: ANN401
    """Simulated events with this estimator; refused if they were prepared for another one."""
    if events is None:
        return None
    if not isinstance(events, ScoreCalibration):
        return ScoreCalibration(estimator, events)
    given = AveragedScore.of(estimator).estimators
    known = events.score.estimators
    if len(given) != len(known) or any(a is not b for a, b in zip(given, known, strict=True)):
        raise ValueError(
            "this ScoreCalibration was made for another estimator; make one for this estimator, "
            "ist.ScoreCalibration(estimator, events), or pass the estimator it was made for."
        )
    return events


def _as_simulation(simulator: Any, seed: object) -> NearbySimulation | None:  # noqa: ANN401
    if simulator is None:
        if seed is not None:
            raise TypeError(
                "seed belongs to a simulator, and without one nothing is drawn; leave seed out, or "
                "give simulator=…."
            )
        return None
    if seed is None:
        raise TypeError("calibrated_fit with a simulator needs a seed, for example seed=1.")
    return simulator if isinstance(simulator, NearbySimulation) else NearbySimulation(simulator)


def fit_calibrated(
    score: AveragedScore,
    data: ObservedData,
    *,
    calibration: ScoreCalibration | None = None,
    simulation: NearbySimulation | None = None,
    seed: int | None = None,
    progress_bar: bool | None = None,
    saved: AbstractSavedWork | None = None,
) -> CalibratedFit:
    """The core of `calibrated_fit`, with weights, bounds, fixed parameters and constraints.

    The score is that of the calibration where there is one; a simulation near the estimate takes
    the place of its stored events.
    """
    solution, walls = solve_calibrated(
        score,
        data,
        calibration=calibration,
        simulation=simulation,
        seed=seed,
        progress_bar=progress_bar,
        saved=saved,
    )
    theta, test = solution.theta, solution.test
    data = test.data
    _warn_at_edge(theta, data, walls, score.names)
    covariance = test.covariance(theta)
    with np.errstate(invalid="ignore"):
        bound = find_bound(score, data, score.clip(theta))
        sensitivity = np.sqrt(np.diag(bound) / np.diag(covariance))
    return CalibratedFit(
        theta=theta,
        covariance=covariance,
        statistical=test.covariance(theta, simulation=False),
        p_value=goodness_of_fit(score, theta, test, solution.expected),
        sensitivity=sensitivity,
        events=len(data.x),
        simulated=solution.expected.mean.events,
        names=score.names,
        _test=test,
    )


def solve_calibrated(
    score: AveragedScore,
    data: ObservedData,
    *,
    calibration: ScoreCalibration | None = None,
    simulation: NearbySimulation | None = None,
    seed: int | None = None,
    progress_bar: bool | None = None,
    saved: AbstractSavedWork | None = None,
) -> tuple[Solution, tuple[np.ndarray, np.ndarray]]:
    """The estimate with its test, and the walls of the region where it was looked for."""
    walls = (score.low, score.high) if simulation is None else simulation.find_walls(score)
    data = data.clip_bounds(*walls, score.names)
    _require_enough(data)
    if simulation is None:
        assert calibration is not None
        return _fit_stored(calibration, data), walls
    start = np.clip(_find_first(score, data, calibration), data.low, data.high)
    seed = as_seed(0 if seed is None else seed)
    found = fit_nearby(
        simulation,
        score,
        data,
        start,
        seed=seed,
        progress_bar=progress_bar,
        saved=NotSaved() if saved is None else saved,
    )
    return found, walls


def _require_enough(data: ObservedData) -> None:
    if len(data.x) < len(data.low) + 2:
        raise ValueError(
            f"a calibrated fit compares means, for which {len(data.x)} observed events are too "
            "few; for single events use ist.confidence_set."
        )
    if not len(data.free):
        raise ValueError("every parameter is fixed, so nothing is left to fit; free at least one.")


def _find_first(
    score: AveragedScore, data: ObservedData, calibration: ScoreCalibration | None
) -> np.ndarray:
    """The first estimate: the network's own maximum, or that by stored events."""
    if calibration is None or isinstance(score.estimators[0], Estimator):
        return find_most_likely(score, data)
    return _fit_stored(calibration, data).theta


def _fit_stored(calibration: ScoreCalibration, data: ObservedData) -> Solution:
    """The fit by stored events, with an anchor that follows the estimate."""
    score = calibration.score
    data = data.clip_bounds(score.low, score.high, score.names)
    theta = choose_start(score, data)
    expected = calibration.expectation(theta)
    for _ in range(MOVES):
        test = compare_means(score, data, expected)
        theta, _ = test.solve(np.clip(expected.anchor, data.low, data.high))
        moved = calibration.expectation(theta)
        if moved is expected:
            break
        expected = moved
    return Solution(theta, compare_means(score, data, expected), expected)


def _warn_at_edge(
    theta: np.ndarray, data: ObservedData, walls: Sequence[np.ndarray], names: Sequence[str]
) -> None:
    """Warn where the simulated region, and no bound of the data, ends the fit."""
    margin = EDGE * (data.high - data.low)
    low = (theta - data.low < margin) & (data.low == walls[0])
    high = (data.high - theta < margin) & (data.high == walls[1])
    if np.any(low | high):
        warn_user(
            "the estimate lies at the edge of the simulated region in "
            f"{', '.join(np.array(names)[low | high])}: simulate wider."
        )
