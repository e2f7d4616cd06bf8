r"""Upper limits by the mean learned score, whose distribution is that of simulated events.

A plain limit takes the learned potential for the truth. Here the score at one θ is only a
statistic: its mean and scatter at every θ are learned from simulated events, as in
`calibrated_fit`, so a poor network weakens the limit and does not falsify it. Let
\(r(\mu)=\pm\sqrt{\chi^2_\mathrm{profile}(\mu)-\chi^2_\mathrm{min}}\), negative below the best fit,
which may lie below the background's value. Then
\[\mathrm{CL}_{s+b}=\Phi(-r(\mu)),\qquad\mathrm{CL}_b=\Phi(-r(\mu_b)).\]
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.special import ndtr

from ...estimator.response_model import PolynomialCoordinates
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import kind_of
from ...streams import Purpose, Stream
from ..calibrated.averaged_score import AveragedScore
from ..calibrated.calibrated_fit import as_calibration, data_of, estimators_of, solve_calibrated
from ..calibrated.mean_test import MeanTest, find_root
from ..calibrated.nearby_simulation import NearbySimulation, Solution
from ..calibrated.observed_data import ObservedData
from ..calibrated.score_calibration import ScoreCalibration, compare_means, learn_nearby
from ..likelihood.likelihood import Likelihood
from .asymptotics import BANDS, Confidence
from .limit_methods import LimitMethod

#: Standard errors above the estimate, or the background, to which events are simulated.
REACH = 6.0
#: Standard errors above the estimate, or the background, where scores are taken.
ANCHOR = 1.0
#: The same on both sides of the other parameters.
REACH_OTHERS = 4.0
#: Simulated events for each observed one: their error is then some 10% of the statistical one.
EVENTS_PER_OBSERVED = 400
#: Simulated events, at least.
LEAST_EVENTS = 100_000
#: Degree up to which coefficients of the mean have no prior.
FREE_DEGREE = 3


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratedCurves:
    """CLs or CLs+b from the test of the observed means and of those that background predicts.

    Attributes:
        tests: of the observed data, and of data as expected where the background fluctuates by
            each of `BANDS`.
        background: all parameters without signal, shape (d,).
        index: of the parameter that is limited.
        method: how confidences are combined.
    """

    tests: tuple[MeanTest, ...]
    background: np.ndarray
    index: int
    method: LimitMethod

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observed and expected."""
        each = np.stack([self._of_test(k, values) for k in range(len(self.tests))], axis=1)
        return each[:, 0], each[:, 1:]

    def find_limits(self, threshold: float, highest: float) -> np.ndarray:
        """Where each curve falls below the threshold, NaN beyond the highest value, shape (6,)."""
        limits = np.full(len(self.tests), np.nan)
        lowest = float(self.background[self.index])
        for k in range(len(self.tests)):

            def above(value: float, k: int = k) -> float:
                return float(self._of_test(k, np.array([value]))[0]) - threshold

            if above(lowest) <= 0:  # CLs+b may exclude every signal
                limits[k] = lowest
            elif above(highest) < 0:
                limits[k] = find_root(above, lowest, highest, 1e-5 * (highest - lowest))
        return limits

    @functools.cached_property
    def _without_signal(self) -> np.ndarray:
        """CLb of every test, the same for all values, shape (6,)."""
        roots = [test.signed_root(self.background, self.index) for test in self.tests]
        return ndtr(-np.array(roots))

    def _of_test(self, k: int, values: np.ndarray) -> np.ndarray:
        points = np.tile(self.background, (len(values), 1))
        points[:, self.index] = values
        roots = [self.tests[k].signed_root(point, self.index) for point in points]
        without = np.full(len(values), self._without_signal[k])
        return self.method.combine(Confidence(ndtr(-np.array(roots)), without))


def calibrate_limit(
    likelihood: Likelihood,
    index: int,
    method: LimitMethod,
    background: float,
    *,
    seed: int,
    progress_bar: bool | None,
) -> tuple[CalibratedCurves, np.ndarray, list[str]]:
    """Curves of one parameter, the best fit of all parameters, and how they were found."""
    score, data = AveragedScore.of(estimators_of(likelihood, None)), data_of(likelihood)
    calibration, simulation = _read(method.calibration, score)
    if simulation is None:
        assert calibration is not None
        test, notes = _by_events(calibration, data, index, background)
    else:
        test, notes = _by_simulation(
            simulation, score, data, index, background, seed=seed, progress_bar=progress_bar
        )
    no_signal = test.solve(_start(test, index, background), [index])[0]
    unbounded = _extend(test, index, background)
    best = unbounded.solve(no_signal)[0]
    # Data as expected where the background looks like a signal of so many standard errors.
    covariance = unbounded.covariance(no_signal)
    step = covariance[:, index] / np.sqrt(covariance[index, index])
    expected = [_as_expected(unbounded, no_signal + band * step) for band in BANDS]
    curves = CalibratedCurves((unbounded, *expected), no_signal, index, method)
    return curves, np.clip(best, test.data.low, test.data.high), notes


def _read(
    given: Any,  # noqa: ANN401
    score: AveragedScore,
) -> tuple[ScoreCalibration | None, NearbySimulation | None]:
    if isinstance(given, Events | ScoreCalibration):
        return as_calibration(score.estimators, given), None
    if isinstance(given, NearbySimulation):
        return None, given
    if callable(given):
        simulator: Any = given
        return None, NearbySimulation(simulator)
    raise TypeError(
        "calibration must be simulated ist.Events that the estimator was not trained on, an "
        "ist.ScoreCalibration, a simulator (theta, rng) -> x or an ist.NearbySimulation; got "
        f"{kind_of(given)}."
    )


def _find_box(
    found: Solution, data: ObservedData, index: int, background: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where θ may lie, from the background up to far beyond any limit, the others near the fit.

    Then the θ at which scores are taken.
    """
    theta, errors = found.theta, np.sqrt(np.diag(found.test.covariance(found.theta)))
    reach = REACH_OTHERS * errors
    low, high = np.maximum(theta - reach, data.low), np.minimum(theta + reach, data.high)
    low[index] = background
    best = max(theta[index], background)
    high[index] = min(best + REACH * errors[index], data.high[index])
    # A score between the best fit and the limit tells these apart best.
    anchor = np.clip(theta, data.low, data.high)
    anchor[index] = min(best + ANCHOR * errors[index], high[index])
    return low, high, anchor


def _by_events(
    calibration: ScoreCalibration, data: ObservedData, index: int, background: float
) -> tuple[MeanTest, list[str]]:
    score = calibration.score
    data = data.clip_bounds(score.low, score.high, score.names)
    found, _ = solve_calibrated(score, data, calibration=calibration)
    low, high, anchor = _find_box(found, data, index, background)
    expected = calibration.expectation_between(low, high, score.clip(anchor))
    note = f"means and scatter of the score from {expected.mean.events:,} stored events"
    return compare_means(score, data, expected), [note]


def _by_simulation(
    simulation: NearbySimulation,
    score: AveragedScore,
    data: ObservedData,
    index: int,
    background: float,
    *,
    seed: int,
    progress_bar: bool | None,
) -> tuple[MeanTest, list[str]]:
    (own,) = Stream(seed, Purpose.LIMIT_FIT).seeds(1)
    found, _ = solve_calibrated(
        score, data, simulation=simulation, seed=own, progress_bar=progress_bar
    )
    data = data.clip_bounds(*simulation.find_walls(score), score.names)
    low, high, anchor = _find_box(found, data, index, background)
    count = int(max(LEAST_EVENTS, EVENTS_PER_OBSERVED * data.size))
    count = min(count, simulation.most_events)
    rng = Stream(seed, Purpose.LIMIT_POINTS).generator()
    points = rng.uniform(low, high, size=(count, len(low)))
    x = simulate_at(
        simulation.simulator,
        points,
        Stream(seed, Purpose.LIMIT_EVENTS),
        x_names=score.estimators[0].x_names,
        progress_bar=progress_bar,
    )
    box = PolynomialCoordinates.of_box(low, high)
    expected = learn_nearby(score, box, points, x, FREE_DEGREE, score.clip(anchor))
    note = f"means and scatter of the score from {count:,} events simulated for this limit"
    return compare_means(score, data, expected), [note]


def _start(test: MeanTest, index: int, value: float) -> np.ndarray:
    """One parameter as given, the others where they are constrained or events were simulated."""
    data, centre = test.data, test.mean.coordinates.centre
    point = np.where(data.constraint_precision > 0, data.constraint_mean, centre)
    point = np.clip(point, data.low, data.high)
    point[index] = value
    return point


def _extend(test: MeanTest, index: int, background: float) -> MeanTest:
    """The same with a best fit that may lie below the background, as that of a fluctuation does."""
    low = test.data.low.copy()
    low[index] = background - (test.data.high[index] - background)
    return dataclasses.replace(test, data=dataclasses.replace(test.data, low=low))


def _as_expected(test: MeanTest, theta: np.ndarray) -> MeanTest:
    """The test of data whose means, constraints and number are what θ predicts."""
    rate = test.data.rate
    number = None if rate is None else rate.expected(theta)
    data = dataclasses.replace(test.data, constraint_mean=theta, number=number)
    return dataclasses.replace(test, observed=test.mean(theta)[0], data=data)
