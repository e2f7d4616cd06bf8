r"""A fit whose errors can be trusted even if the network cannot.

At every θ the learned score of the observed events has a mean. For the true θ and an exact score it
would be zero; for a learned score it is what simulated events say it is, each event's score taken
at its own θ. The estimate is where observation and expectation agree. The error of the expectation,
from finitely many simulated events, is part of the result; given a simulator, it is made small.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..estimator import Estimator, ScoreEstimator
from ..events.events import Events
from ..events.simulate import simulate_at
from ..inputs import Input, as_seed, kind_of, warn_user
from ..world.prior import AbstractPrior
from ..world.simulator import Simulator
from .checked import checked_events
from .goodness import goodness_of_fit
from .profile import as_level, chi2_quantile, place_of
from .score_test import Expectation, ScoreTest
from .smooth import Coordinates, learn_covariance, learn_mean

#: Degrees of the expected score and of ln C, over the whole region and near an estimate.
DEGREES, LOCAL_DEGREES = (6, 4), (2, 1)
#: Anchors lie on a lattice of so many cells in each parameter, so that many fits share them, and
#: are moved to the estimate so many times; the scatter there comes from so many events.
CELLS, MOVES, NEAR_EVENTS = 8, 4, 4000
#: Events from which the scatter of the score is learned, at most.
SCATTER_EVENTS = 40_000
#: Events and points at which the fit looks for its start.
START_EVENTS, START_POINTS = 500, 400
#: Second-stage events: width of their law in units of the error, and how many to begin with.
WIDTH, FIRST_EVENTS = 1.5, 20_000
#: Times that a second stage simulates again, because it needs more or was elsewhere.
STAGES = 4
FEWEST_EVENTS = 1000


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CalibratedFit:
    """The result of a calibrated fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: of the estimate, with the error by finitely many simulated events.
        statistical: of the estimate, by the observed events alone.
        p_value: of the means of the observables, given the estimate: small if the data look like
            none of the simulated events.
        sensitivity: error of an ideal fit by the learned Fisher information over that reached, for
            each parameter; near 1 if nothing was lost.
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
    _test: ScoreTest = dataclasses.field(repr=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, shape (d,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def simulation_fraction(self) -> np.ndarray:
        """Error by finitely many simulated events over the statistical one, for each parameter."""
        statistical = np.diag(self.statistical)
        return np.sqrt(np.maximum(np.diag(self.covariance) / statistical - 1, 0))

    def distance(self, theta: Input, parameters: Sequence[str | int] | None = None) -> float:
        """How far θ is from the data: a χ² with as many degrees of freedom as parameters are fixed.

        Args:
            theta: a point, shape (d,).
            parameters: those that are fixed there, by name or number; the others are chosen as the
                data like them best. All unless given.
        """
        point = np.asarray(theta, np.float64)
        if point.shape != self.theta.shape:
            raise ValueError(
                f"theta must be one point of {len(self.names)} parameters; got shape {point.shape}."
            )
        chosen = range(len(self.names)) if parameters is None else parameters
        fixed = sorted(place_of(parameter, self.names) for parameter in chosen)
        return self._test.profiled(point, fixed, self.theta)

    def interval(self, level: float = 0.68) -> np.ndarray:
        """Confidence interval of each parameter, shape (d, 2), the others profiled."""
        bound = chi2_quantile(as_level(level), 1)
        ends = [self._test.ends(j, bound, self.theta, error) for j, error in enumerate(self.errors)]
        return np.array(ends)

    def contour(
        self, first: str | int, second: str | int, level: float = 0.68, *, points: int = 60
    ) -> np.ndarray:
        """Outline of the confidence region of two parameters, shape (points, 2)."""
        bound = chi2_quantile(as_level(level), 2)
        i, j = place_of(first, self.names), place_of(second, self.names)
        if i == j:
            raise ValueError(f"contour takes two different parameters; got {first!r} twice.")
        return self._test.outline(i, j, bound, self.theta, points)

    def summary(self, level: float = 0.68) -> str:
        """A table in words."""
        width = max(len("parameter"), *(len(name) for name in self.names))
        lines = [
            f"Calibrated fit to {self.events:,} events, expectation from {self.simulated:,} "
            "simulated ones",
            f"{'parameter':{width}}    estimate     error   {f'{level:.0%} interval':24}"
            "simulation  sensitivity",
        ]
        rows = zip(
            self.names,
            self.theta,
            self.errors,
            self.interval(level),
            self.simulation_fraction,
            self.sensitivity,
            strict=True,
        )
        for name, value, error, (low, high), part, sensitivity in rows:
            interval = f"{low:.5g} to {high:.5g}"
            lines.append(
                f"{name:{width}}{value:12.5g}{error:10.2g}   {interval:24}{part:10.2f}"
                f"{sensitivity:13.2f}"
            )
        lines.append(
            "simulation: error by simulated events over the statistical one; sensitivity: error of "
            "an ideal fit over this one"
        )
        lines.append(f"p-value of the observables' means: {self.p_value:.3g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(f"{name} = {value:.4g} ± {error:.2g}" for name, value, error in values)
        return f"CalibratedFit({text}; p = {self.p_value:.2g})"


class Calibration:
    """Estimators with simulated events that they were not trained on.

    What is learned from the events is kept, so that many data sets share the work.

    With one set of events each event's score is taken at its own θ. With a set for each estimator
    (`cross_fit`) the events that calibrate one have trained the others, whose θ-dependence follows
    their noise: taken at their own θ, scores would look better than they are. There the scores at
    one point near the estimate are statistics, whose mean is learned as a function of θ.

    Args:
        estimators: one, or several whose scores are averaged.
        events: `Events` that none of them was trained on; or, for each estimator, a set that it was
            not trained on.
    """

    def __init__(self, estimators: Any, events: Events | Sequence[Events]) -> None:  # noqa: ANN401
        several = isinstance(estimators, list | tuple)
        self.estimators: tuple[Estimator | ScoreEstimator, ...] = (
            tuple(estimators) if several else (estimators,)
        )
        sets: Any = events if isinstance(events, list | tuple) else (events,)
        self.events: tuple[Events, ...] = tuple(sets)
        self.crossed = len(self.events) > 1
        self._check()
        self.names = self.estimators[0].theta_names
        thetas = [np.asarray(part.theta, np.float64) for part in self.events]
        self.low = np.min([theta.min(axis=0) for theta in thetas], axis=0)
        self.high = np.max([theta.max(axis=0) for theta in thetas], axis=0)
        self._known: dict[bytes, Expectation] = {}

    def _check(self) -> None:
        for estimator in self.estimators:
            if not isinstance(estimator, Estimator | ScoreEstimator):
                raise TypeError(
                    "a calibrated fit needs an estimator that offers a score (a potential or a "
                    f"direct score network); got {kind_of(estimator)}."
                )
        for part in self.events:
            if not isinstance(part, Events):
                raise TypeError(
                    "calibration takes ist.Events, simulated at many θ and not used in training; "
                    f"got {kind_of(part)}."
                )
        if len(self.events) not in (1, len(self.estimators)):
            raise ValueError(
                "give one set of events, or one for each estimator; got "
                f"{len(self.estimators)} estimators and {len(self.events)} sets."
            )
        first = self.estimators[0]
        for estimator in self.estimators:
            same = estimator.theta_names == first.theta_names
            if not same or estimator.x_names != first.x_names:
                raise ValueError("the estimators differ in their observables or parameters.")
        for part in self.events:
            shape = (len(first.x_names), len(first.theta_names))
            if (part.x.shape[1], part.theta.shape[1]) != shape:
                raise ValueError(
                    f"calibration events must have {shape[0]} observables and {shape[1]} "
                    f"parameters like the estimator; got {part.x.shape[1]} and "
                    f"{part.theta.shape[1]}."
                )
        count = sum(len(part) for part in self.events)
        if count < FEWEST_EVENTS:
            raise ValueError(
                f"{count} calibration events are too few to learn an expectation from; simulate "
                f"some {FEWEST_EVENTS * 10:,} or more."
            )

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The mean score of the estimators, shape (n, d)."""
        return np.mean([estimator.score(x, theta) for estimator in self.estimators], axis=0)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """θ, x and weight of all events."""
        theta, x, weight = (
            np.concatenate([np.asarray(getattr(part, name)) for part in self.events])
            for name in ("theta", "x", "weight")
        )
        return theta.astype(np.float64), x, weight.astype(np.float64)

    def test(self, x: np.ndarray, theta: np.ndarray) -> ScoreTest:
        """For observed events, near θ."""
        if not self.crossed:
            expected = self._learned(b"", None)
            return ScoreTest(
                lambda theta: _mean(self.score(x, theta)), len(x), expected, self.low, self.high
            )
        width = (self.high - self.low) / CELLS
        anchor = self.low + (np.clip((theta - self.low) // width, 0, CELLS - 1) + 0.5) * width
        expected = self._learned(anchor.tobytes(), anchor)
        seen = _mean(self.score(x, anchor))
        return ScoreTest(lambda _: seen, len(x), expected, self.low, self.high)

    def _learned(self, key: bytes, anchor: np.ndarray | None) -> Expectation:
        if key not in self._known:
            theta, x, weight = self.rows
            box = Coordinates.of_box(self.low, self.high)
            if anchor is None:
                self._known[key] = self.learn(theta, x, box, DEGREES, weight)
            else:
                self._known[key] = self._anchored(anchor, theta, x, box, weight)
        return self._known[key]

    def learn(
        self,
        theta: np.ndarray,
        x: np.ndarray,
        coordinates: Coordinates,
        degrees: tuple[int, int],
        weight: np.ndarray | None = None,
    ) -> Expectation:
        """The expectation of the score at each event's own θ."""
        score = self.score(x, theta)
        some = _some(len(theta), SCATTER_EVENTS)
        covariance = learn_covariance(
            theta[some],
            score[some],
            coordinates,
            degree=degrees[1],
            weight=None if weight is None else weight[some],
        )
        white = np.einsum("nab,nb->na", covariance.power(theta, -0.5), score)
        mean = learn_mean(theta, white, coordinates, degree=degrees[0], weight=weight)
        return Expectation(covariance, mean)

    def _anchored(
        self,
        anchor: np.ndarray,
        theta: np.ndarray,
        x: np.ndarray,
        box: Coordinates,
        weight: np.ndarray,
    ) -> Expectation:
        """The expectation of the score at the anchor, as a function of the events' θ."""
        pairs = zip(self.estimators, self.events, strict=True)
        score = np.concatenate([estimator.score(part.x, anchor) for estimator, part in pairs])
        distance = np.sum(np.square(box(theta) - box(anchor[None])), axis=1)
        near = np.argsort(distance)[:NEAR_EVENTS]
        # What scatters in the observed events is the mean over the estimators; about its own mean,
        # which changes over the neighbourhood.
        design = np.concatenate([np.ones((len(near), 1)), theta[near] - anchor], axis=1)
        values = self.score(x[near], anchor)
        values = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        covariance = learn_covariance(theta[near], values, box, degree=0, weight=weight[near])
        white = score @ covariance.power(anchor[None], -0.5)[0]
        return Expectation(
            covariance, learn_mean(theta, white, box, degree=DEGREES[0], weight=weight)
        )


def _mean(scores: np.ndarray) -> np.ndarray:
    return scores.mean(axis=0, dtype=np.float64)


def _some(count: int, most: int) -> np.ndarray:
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def calibrated_fit(
    estimator: Any,  # noqa: ANN401
    x_observed: Input,
    calibration: Events | Sequence[Events] | Calibration,
    simulator: Simulator | None = None,
    prior: AbstractPrior | None = None,
    *,
    fraction: float = 0.3,
    most_events: int = 2_000_000,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> CalibratedFit:
    """Fit θ to observed events with errors calibrated by simulated ones.

    Args:
        estimator: a trained potential or score network; or several, trained on different events.
        x_observed: observed events, shape (n, D), all made at one unknown θ.
        calibration: simulated `Events` that the estimator was not trained on, for several
            estimators a set for each; or a `Calibration`, which keeps what it learned.
        simulator: with it, a second stage simulates near the first estimate.
        prior: where it may simulate; the range of the calibration events unless given.
        fraction: simulate until the error by simulation is below this part of the statistical
            one, for every parameter.
        most_events: but no more than so many.
        seed: of the second stage.
        progress_bar: of the simulation, forced on or off.
    """
    if not isinstance(calibration, Calibration):
        calibration = Calibration(estimator, calibration)
    x = checked_events(calibration.estimators[0], x_observed, "x_observed")
    dim = len(calibration.names)
    if len(x) < dim + 2:
        raise ValueError(
            f"a calibrated fit compares means, for which {len(x)} observed events are too few; for "
            "single events use ist.confidence_set."
        )
    if not 0 < fraction < 10:
        raise ValueError(f"fraction must be positive, such as 0.3; got {fraction}.")

    theta, local = _first_stage(calibration, x)
    events = list(calibration.rows[:2])
    if simulator is not None:
        theta, local, events = _second_stage(
            calibration,
            x,
            (theta, local),
            simulator,
            prior,
            fraction=fraction,
            most_events=most_events,
            seed=as_seed(seed),
            progress_bar=progress_bar,
        )
    _warn_edges(theta, calibration)
    covariance = local.covariance(theta)
    bound = np.linalg.pinv(np.atleast_2d(np.cov(calibration.score(x, theta), rowvar=False))) / len(
        x
    )
    return CalibratedFit(
        theta=theta,
        covariance=covariance,
        statistical=local.covariance(theta, simulation=False),
        p_value=goodness_of_fit(
            calibration.score, calibration.estimators[0].region, x, theta, local, *events
        ),
        sensitivity=np.sqrt(np.diag(bound) / np.diag(covariance)),
        events=len(x),
        simulated=local.expected.mean.events,
        names=calibration.names,
        _test=local,
    )


def _first_stage(calibration: Calibration, x: np.ndarray) -> tuple[np.ndarray, ScoreTest]:
    guess = _start(calibration, x)
    theta, local = calibration.test(x, guess).settled(guess)
    for _ in range(MOVES if calibration.crossed else 0):
        again = calibration.test(x, theta)
        if again.expected is local.expected:
            break
        theta, local = again.settled(theta)
    return theta, local


def _start(calibration: Calibration, x: np.ndarray) -> np.ndarray:
    """A first guess by some of the events: the most likely, or least unlikely, of some points."""
    rows = x[_some(len(x), START_EVENTS)]
    low, high = calibration.low, calibration.high
    points = low + np.random.default_rng(0).uniform(size=(START_POINTS, len(low))) * (high - low)
    first = calibration.estimators[0]
    if isinstance(first, Estimator):
        return points[np.argmax(first.potential_grid(rows, points).sum(axis=0, dtype=np.float64))]
    scores = [calibration.score(rows, point) for point in points]
    return points[np.argmin([np.sum(_mean(s) ** 2 / s.var(axis=0)) for s in scores])]


def _second_stage(
    calibration: Calibration,
    observed: np.ndarray,
    first: tuple[np.ndarray, ScoreTest],
    simulator: Simulator,
    prior: AbstractPrior | None,
    *,
    fraction: float,
    most_events: int,
    seed: int,
    progress_bar: bool | None,
) -> tuple[np.ndarray, ScoreTest, list[np.ndarray]]:
    """Simulate near the first estimate until the expectation is known well enough."""
    theta, local = first
    low, high = calibration.low, calibration.high
    if prior is not None:
        low, high = np.maximum(low, prior.support[0]), np.minimum(high, prior.support[1])
    number, worst = min(FIRST_EVENTS, most_events), np.inf
    simulated: list[np.ndarray] = []
    for stage in range(STAGES):
        centre, errors = theta, WIDTH**2 * local.covariance(theta)
        rng = np.random.default_rng([seed, stage])
        points = _near(rng, centre, errors, low, high, number)
        x = simulate_at(simulator, points, seed=int(rng.integers(2**31)), progress_bar=progress_bar)
        expected = calibration.learn(
            points, x, Coordinates.of_normal(centre, errors), LOCAL_DEGREES
        )
        simulated = [points, x]
        test = ScoreTest(
            lambda theta: _mean(calibration.score(observed, theta)),
            len(observed),
            expected,
            low,
            high,
        )
        theta, local = test.settled(centre)
        total, statistical = (
            np.diag(local.covariance(theta, simulation=both)) for both in (True, False)
        )
        worst = float(np.sqrt(np.max(total / statistical) - 1))
        away = theta - centre
        inside = away @ np.linalg.solve(errors, away) < len(theta)
        if inside and worst <= fraction:
            break
        if worst > fraction:
            number = int(np.clip(1.3 * number * (worst / fraction) ** 2, number, most_events))
    if worst > 1.2 * fraction:
        warn_user(
            f"after {number:,} simulated events their error is still {worst:.2f} of the "
            f"statistical one (wanted {fraction}); it is part of the quoted errors. Allow more "
            "with most_events."
        )
    return theta, local, simulated


def _near(
    rng: np.random.Generator,
    centre: np.ndarray,
    covariance: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    number: int,
) -> np.ndarray:
    """Normal about the centre, within the walls: what falls outside is mirrored back in."""
    points = rng.multivariate_normal(centre, covariance, size=number, method="cholesky")
    points = np.where(points < low, 2 * low - points, points)
    points = np.where(points > high, 2 * high - points, points)
    return np.clip(points, low, high)


def _warn_edges(theta: np.ndarray, calibration: Calibration) -> None:
    margin = 1e-6 * (calibration.high - calibration.low)
    near = (theta - calibration.low < margin) | (calibration.high - theta < margin)
    if near.any():
        names = ", ".join(np.array(calibration.names)[near])
        warn_user(
            f"the estimate lies at the edge of the simulated region in {names}: simulate wider."
        )
