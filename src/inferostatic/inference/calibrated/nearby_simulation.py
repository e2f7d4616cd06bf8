"""Simulation near the estimate until the expected means are known well enough."""

import dataclasses

import numpy as np

from ...checkpoint import AbstractSavedWork
from ...estimator.response_model import PolynomialCoordinates
from ...events.saved_tasks import SavedTasks
from ...events.simulate import simulate_at
from ...inputs import as_count, as_number, kind_of, warn_user
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ...world.simulator import Simulator, require_simulator
from .averaged_score import AveragedScore
from .mean_test import MeanTest
from .observed_data import ObservedData
from .score_calibration import Expectation, compare_means, learn_nearby

#: Events that are simulated at a time to come near the estimate.
FIRST_EVENTS = 20_000
#: Events that are simulated at least once the estimate is near.
LEAST_EVENTS = 150_000
#: Events that are simulated for each observed one, in addition.
EVENTS_PER_OBSERVED = 100
#: Relative error of the slopes of the mean that sets the width of the simulated ellipsoid.
SLOPE_ERROR = 0.04
#: Narrowest and widest ellipsoid in units of the error: narrow enough for the mean to be nearly
#: linear, and wide enough for its slopes to be known.
WIDTHS = (1.5, 3.5)
#: Width from which on the mean bends over the ellipsoid, so that fewer terms are without a prior.
BENDING = 2.5
#: Factors between the covariance and its bound that an ellipsoid follows: slopes may be noisy.
LIMITS = (0.5, 2.0)
#: Observed events up to which the network's own maximum is trusted to about its error.
TRUSTED_EVENTS = 1000
#: Error by simulation, in units of the statistical one, beyond which an estimate is no arrival: the
#: means hardly seem to change with θ there.
UNKNOWN = 5.0
#: Times that few events are simulated to come near, at most.
APPROACHES = 8
#: Times that many events are simulated, as more are needed or the estimate was elsewhere.
REPEATS = 3
#: Radii of the ellipsoid by which an estimate may move at a time: further off its events say
#: little.
LONGEST = 2.0
#: Widths of the trained region by which it is left at most, where a prior has no edge.
BEYOND = 10.0


@dataclasses.dataclass(frozen=True)
class NearbySimulation:
    """How a calibrated fit simulates near its estimate.

    Attributes:
        simulator: a function `(theta (n, d), rng) -> x (n, D)`.
        prior: where it may simulate, within the edges of its support; by default the range of the
            calibration events, or the trained region without any. It may be wider, which helps
            where the estimate is near an edge: scores are taken at one point inside, and only the
            events are simulated elsewhere.
        fraction: simulate until the error by simulation is below this part of the statistical
            one, for every parameter.
        most_events: but no more events than this at a time. How long so many will take is
            announced after the first thousand of them.
    """

    simulator: Simulator
    prior: AbstractPrior | None = None
    fraction: float = 0.3
    most_events: int = 2_000_000

    def __post_init__(self) -> None:
        """Check the options."""
        require_simulator(self.simulator)
        if self.prior is not None and not isinstance(self.prior, AbstractPrior):
            raise TypeError(
                "prior must be a prior such as ist.Uniform(low, high), in whose support events may "
                f"be simulated; got {kind_of(self.prior)}."
            )
        as_number(self.fraction, "fraction", above=0, below=10)
        as_count(self.most_events, "most_events")

    def find_walls(self, score: AveragedScore) -> tuple[np.ndarray, np.ndarray]:
        """Between which θ it may simulate, shapes (d,)."""
        if self.prior is None:
            return score.low, score.high
        low, high = (np.asarray(wall, np.float64) for wall in self.prior.support)
        if low.shape != score.low.shape:
            raise ValueError(
                f"the prior of the simulation must have {len(score.low)} parameters like the "
                f"estimator ({', '.join(score.names)}); got {len(low)}."
            )
        reach = BEYOND * (score.high - score.low)
        low = np.where(np.isfinite(low), low, score.low - reach)
        return low, np.where(np.isfinite(high), high, score.high + reach)


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """An estimate, with the test and the expectation that it comes from.

    Attributes:
        theta: the estimate, shape (d,).
        test: of the observed means, as a function of θ.
        expected: means by simulated events.
    """

    theta: np.ndarray
    test: MeanTest
    expected: Expectation

    @property
    def simulation_error(self) -> float:
        """Largest error by simulation over the statistical one, of all free parameters."""
        total, statistical = (
            np.diag(self.test.covariance(self.theta, simulation=with_simulation))[self.test.free]
            for with_simulation in (True, False)
        )
        return float(np.sqrt(np.max(total / statistical) - 1))


@dataclasses.dataclass(frozen=True, eq=False)
class _Ellipsoid:
    """Where events are simulated.

    Attributes:
        centre: shape (d,).
        covariance: of θ in the ellipsoid, for the free parameters, shape (k, k).
        free: their indices.
        width: in units of the error.
    """

    centre: np.ndarray
    covariance: np.ndarray
    free: np.ndarray
    width: float

    def draw(self, rng: np.random.Generator, data: ObservedData, number: int) -> np.ndarray:
        """Uniform points, within the bounds: what falls outside is mirrored back in."""
        dim = len(self.free)
        drawn = rng.normal(size=(number, dim))
        # Of this radius, a ball has unit variance in each direction.
        radius = np.sqrt(dim + 2) * rng.uniform(size=number) ** (1 / dim)
        drawn *= (radius / np.linalg.norm(drawn, axis=1))[:, None]
        points = np.tile(self.centre, (number, 1))
        points[:, self.free] += drawn @ np.linalg.cholesky(self.covariance).T
        points = np.where(points < data.low, 2 * data.low - points, points)
        points = np.where(points > data.high, 2 * data.high - points, points)
        return np.clip(points, data.low, data.high)

    def distance(self, theta: np.ndarray) -> float:
        """Of a point from the centre, in radii."""
        away = (theta - self.centre)[self.free]
        dim = len(self.free)
        return float(np.sqrt(away @ np.linalg.solve(self.covariance, away) / (dim + 2)))

    def holds(self, theta: np.ndarray) -> bool:
        """Whether a point is among its events, within one standard deviation in each direction."""
        dim = len(self.free)
        return self.distance(theta) ** 2 < dim / (dim + 2)


def fit_nearby(
    options: NearbySimulation,
    score: AveragedScore,
    data: ObservedData,
    start: np.ndarray,
    *,
    seed: int,
    progress_bar: bool | None,
    saved: AbstractSavedWork,
) -> Solution:
    """Simulate near θ, from `start` on, until the means are known well enough."""
    theta, solution = start, None
    number, error = min(FIRST_EVENTS, options.most_events), np.inf
    repeats = -1  # how often many events were simulated; below 0 while coming near
    for stage in range(APPROACHES + REPEATS):
        ellipsoid = _choose_ellipsoid(score, data, theta, solution, number)
        rng = Stream(seed, Purpose.CALIBRATED_POINTS).generator(stage)
        points = ellipsoid.draw(rng, data, number)
        x = simulate_at(
            options.simulator,
            points,
            Stream(seed, Purpose.CALIBRATED_EVENTS, (stage,)),
            x_names=score.estimators[0].x_names,
            progress_bar=progress_bar,
            saved=SavedTasks(saved, f"simulated-{stage:02d}"),
        )
        coordinates = PolynomialCoordinates.of_normal(
            ellipsoid.centre, ellipsoid.covariance, ellipsoid.free
        )
        # Of few events the errors are so large that the mean bends over them.
        free = 3 if ellipsoid.width < BENDING else 2
        expected = learn_nearby(score, coordinates, points, x, free)
        test = compare_means(score, data, expected)
        solution = Solution(test.solve(ellipsoid.centre)[0], test, expected)
        error = solution.simulation_error
        inside = ellipsoid.holds(solution.theta)
        if repeats < 0 and ((inside and error < UNKNOWN) or stage == APPROACHES - 1):
            repeats = 0
            number = max(number, int(LEAST_EVENTS + EVENTS_PER_OBSERVED * data.size))
        elif repeats >= 0:
            # The estimate before may have been much worse than the data allow.
            narrow = repeats > 0 or _is_narrow(ellipsoid, solution)
            repeats += 1
            if (inside and narrow and error <= options.fraction) or repeats == REPEATS:
                break
            number = max(number, int(1.3 * number * (error / options.fraction) ** 2))
        number = min(number, options.most_events)
        part = min(1.0, LONGEST / max(ellipsoid.distance(solution.theta), 1e-9))
        theta = ellipsoid.centre + part * (solution.theta - ellipsoid.centre)
    assert solution is not None
    if error > 1.2 * options.fraction:
        warn_user(
            f"after {solution.expected.mean.events:,} simulated events their error is still "
            f"{error:.2f} of the statistical one (wanted {options.fraction}); it is part of the "
            "quoted errors. Allow more with most_events."
        )
    return solution


def _is_narrow(ellipsoid: _Ellipsoid, solution: Solution) -> bool:
    """Whether an ellipsoid is not much wider than the errors that came out."""
    errors = np.diag(solution.test.covariance(solution.theta))[ellipsoid.free]
    return bool(np.all(np.diag(ellipsoid.covariance) < errors * (1.5 * ellipsoid.width) ** 2))


def _choose_ellipsoid(
    score: AveragedScore, data: ObservedData, centre: np.ndarray, last: Solution | None, number: int
) -> _Ellipsoid:
    """Some errors wide around the estimate, but at most a quarter of the region in a parameter."""
    free, block = data.free, np.ix_(data.free, data.free)
    bound = find_bound(score, data, score.clip(centre))[block]
    if last is None:
        # How far the start is off, in units of the error, grows with the number of events.
        errors = (1 + data.size / TRUSTED_EVENTS) * bound
    else:
        errors = _limit_ratio(last.test.covariance(centre)[block], bound)
    width = float(np.clip(1.5 * np.sqrt(data.size / number) / SLOPE_ERROR, *WIDTHS))
    errors = width**2 * errors
    shrink = np.minimum(1, (data.high - data.low)[free] / 4 / np.sqrt(np.diag(errors)))
    return _Ellipsoid(centre, errors * np.outer(shrink, shrink), free, width)


def find_bound(score: AveragedScore, data: ObservedData, theta: np.ndarray) -> np.ndarray:
    """The covariance that the learned information and the constraints allow; 0 where fixed."""
    scores = np.asarray(score(data.x, theta), np.float64)
    away = scores - data.average(scores)
    information = (away * data.share[:, None]).T @ away * data.size / (data.size - 1)
    slopes = data.side_slopes(theta)
    information += slopes.T @ slopes / data.size
    bound, block = np.zeros_like(information), np.ix_(data.free, data.free)
    bound[block] = np.linalg.pinv(information[block]) / data.size
    return bound


def _limit_ratio(covariance: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """A covariance that differs from a bound by limited factors: slopes may be noisy."""
    root = np.linalg.cholesky(bound)
    inverse = np.linalg.inv(root)
    sizes, vectors = np.linalg.eigh(inverse @ covariance @ inverse.T)
    axes = root @ vectors
    return (axes * np.clip(sizes, *LIMITS)) @ axes.T
