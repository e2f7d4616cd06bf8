r"""Upper limits by the mean learned score, whose distribution is that of simulated events.

A plain limit takes the learned potential for the truth. Here the score at one θ is only a
statistic: its mean and scatter at every θ are learned from simulated events, as in
`calibrated_fit`, so a poor network weakens the limit and does not falsify it. Let
\(r(\mu)=\pm\sqrt{\chi^2_\mathrm{profile}(\mu)-\chi^2_\mathrm{min}}\), negative below the best fit,
which may lie below the background's value. Then
\[\mathrm{CL}_{s+b}=\Phi(-r(\mu)),\qquad\mathrm{CL}_b=\Phi(-r(\mu_b)),\]
with r corrected for the skewness of the mean score (`third_moment`).
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.special import ndtr

from ...estimator.response_model import PolynomialCoordinates
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import kind_of, warn_user
from ...streams import Purpose, Stream
from ..calibrated.averaged_score import AveragedScore
from ..calibrated.calibrated_fit import as_calibration, data_of, estimators_of, solve_calibrated
from ..calibrated.mean_test import MeanTest, find_root
from ..calibrated.nearby_simulation import NearbySimulation, Solution
from ..calibrated.observed_data import ObservedData
from ..calibrated.score_calibration import (
    Expectation,
    ScoreCalibration,
    compare_means,
    learn_nearby,
)
from ..calibrated.third_moment import from_normal, to_normal
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
EVENTS_PER_OBSERVED = 1600
#: Simulated events, at least.
LEAST_EVENTS = 100_000
#: Error by the simulated events, as a part of the statistical one, beyond which a limit warns.
TOLERATED_PART = 0.25
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
        return ndtr([self._deviate(test, self.background) for test in self.tests])

    def _of_test(self, k: int, values: np.ndarray) -> np.ndarray:
        points = np.tile(self.background, (len(values), 1))
        points[:, self.index] = values
        tails = ndtr([self._deviate(self.tests[k], point) for point in points])
        without = np.full(len(values), self._without_signal[k])
        return self.method.combine(Confidence(tails, without))

    def _deviate(self, test: MeanTest, theta: np.ndarray) -> float:
        point, root = test.signed_root(theta, self.index)
        return to_normal(-root, test.skewness(point, self.index))


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
    within = np.clip(best, test.data.low, test.data.high)
    within[index] = max(within[index], background)
    notes = [*notes, _judge_simulation(unbounded, within, index)]
    # Data as expected where the background looks like a signal of so many standard errors.
    covariance = unbounded.covariance(no_signal)
    step = covariance[:, index] / np.sqrt(covariance[index, index])
    skewness = unbounded.skewness(no_signal, index)
    expected = [
        _as_expected(unbounded, no_signal + from_normal(band, skewness) * step) for band in BANDS
    ]
    curves = CalibratedCurves((unbounded, *expected), no_signal, index, method)
    return curves, within, notes


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
    return _test_within(score, data, expected, index), [note]


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
    points = rng.uniform(size=(count, len(low)))
    # A polynomial is known as well at its ends, the background's and the largest, as between them.
    points[:, index] = np.sin(np.pi / 2 * points[:, index]) ** 2
    points = low + points * (high - low)
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
    return _test_within(score, data, expected, index), [note]


def _test_within(
    score: AveragedScore, data: ObservedData, expected: Expectation, index: int
) -> MeanTest:
    """The test up to the largest simulated value: beyond, nothing is known of the means."""
    high = data.high.copy()
    high[index] = min(high[index], expected.theta[:, index].max())
    return compare_means(score, dataclasses.replace(data, high=high), expected)


def _judge_simulation(test: MeanTest, theta: np.ndarray, index: int) -> str:
    """How much the finite number of simulated events adds; a warning where it is too much."""
    every, statistical = (
        test.covariance(theta, simulation=simulation)[index, index] for simulation in (True, False)
    )
    part = float(np.sqrt(max(every / statistical - 1, 0.0)))
    note = f"the error by finitely many simulated events is {part:.2g} of the statistical one"
    if part > TOLERATED_PART:
        warn_user(
            f"{note}; it is counted, but moves observed and expected limits together. Give some "
            f"{(part / TOLERATED_PART) ** 2:.2g} times as many near the estimate, or a simulator."
        )
    return note


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
