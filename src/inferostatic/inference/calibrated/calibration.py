r"""What simulated events expect of the scores at a fixed point, as a function of their θ."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...estimator.estimator import Estimator, ScoreEstimator
from ...events.events import Events
from ...inputs import kind_of
from .mean_test import MeanTest
from .response_model import Coordinates, SmoothCovariance, SmoothMean, learn_covariance, learn_mean

#: Highest degree of the mean and of ln C, over the whole region and near an estimate.
DEGREES, LOCAL_DEGREES = (6, 1), (4, 2)
#: Anchors lie on a lattice of so many cells in each parameter, so that many fits share them.
CELLS = 8
#: Parts of the events, those nearest to the anchor, from which the mean may be learned; by how much
#: a smaller one must predict the nearest events better, in nats; and how many those are.
PARTS, BETTER, NEAR_EVENTS = (1.0, 0.4, 0.15), 2.0, 4000
#: Events nearest to an anchor that are used at all: more would hardly tell more there.
MOST_EVENTS = 500_000
#: Events from which the scatter is learned, at most.
SCATTER_EVENTS = 20_000
FEWEST_EVENTS = 1000


@dataclasses.dataclass(frozen=True)
class Expectation:
    """Of statistics t = unit · score(x; anchor).

    Attributes:
        anchor: θ at which scores are taken.
        unit: brings their scatter near the anchor to one, shape (d, d).
        mean: of t at each θ.
        covariance: of t at each θ.
        theta, x: simulated events near the anchor, from which it was learned.
    """

    anchor: np.ndarray
    unit: np.ndarray
    mean: SmoothMean
    covariance: SmoothCovariance
    theta: np.ndarray
    x: np.ndarray


class Calibration:
    """Estimators with simulated events that they were not trained on.

    What is learned from the events is kept, so that many data sets share the work.

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

    def expectation(self, theta: np.ndarray) -> Expectation:
        """By the stored events, with an anchor near θ."""
        width = (self.high - self.low) / CELLS
        anchor = self.low + (np.clip((theta - self.low) // width, 0, CELLS - 1) + 0.5) * width
        key = anchor.tobytes()
        if key not in self._known:
            self._known[key] = self._learned(anchor)
        return self._known[key]

    def _learned(self, anchor: np.ndarray) -> Expectation:
        theta, x, weight = self.rows
        box = Coordinates.of_box(self.low, self.high)
        order = np.argsort(np.sum(np.square(box(theta) - box(anchor[None])), axis=1))
        order = order[:MOST_EVENTS]
        theta, x, weight = theta[order], x[order], weight[order]
        score = self._unseen(order, x, anchor)
        near = slice(0, NEAR_EVENTS)
        # What scatters in the observed events is the mean over the estimators.
        scattered = score[near] if len(self.events) == 1 else self.score(x[near], anchor)
        unit = _unit(theta[near], scattered, weight[near])
        white = score @ unit.T
        count = int(_chosen(theta, white, weight) * len(theta))
        theta, white, weight = theta[:count], white[:count], weight[:count]
        mean = learn_mean(theta, white, _box(theta), degree=DEGREES[0], weight=weight)
        covariance = learn_covariance(
            theta[near],
            scattered @ unit.T - mean.at(theta[near]),
            _box(theta[near]),
            degree=DEGREES[1],
            weight=weight[near],
        )
        return Expectation(anchor, unit, mean, covariance, theta, x[:count])

    def _unseen(self, rows: np.ndarray, x: np.ndarray, anchor: np.ndarray) -> np.ndarray:
        """Each event's score by the estimator that was not trained on it, or by all of them."""
        if len(self.events) == 1:
            return self.score(x, anchor)
        ends = np.cumsum([len(part) for part in self.events])
        owner = np.searchsorted(ends, rows, side="right")
        score = np.empty((len(rows), len(self.names)))
        for number, estimator in enumerate(self.estimators):
            mine = owner == number
            if mine.any():
                score[mine] = estimator.score(x[mine], anchor)
        return score

    def expectation_near(
        self,
        anchor: np.ndarray,
        coordinates: Coordinates,
        theta: np.ndarray,
        x: np.ndarray,
        free: int,
    ) -> Expectation:
        """By fresh events, simulated near an anchor; `free` as in `learn_mean`."""
        score = self.score(x, anchor)
        place = np.sum(np.square(coordinates(theta)), axis=1)
        near = np.argsort(place)[:NEAR_EVENTS]
        unit = _unit(theta[near], score[near], np.ones(len(near)))
        white = score @ unit.T
        mean = learn_mean(theta, white, coordinates, degree=LOCAL_DEGREES[0], free=free)
        some = some_of(len(theta), SCATTER_EVENTS)
        covariance = learn_covariance(
            theta[some],
            white[some] - mean.at(theta[some]),
            coordinates,
            degree=LOCAL_DEGREES[1],
        )
        return Expectation(anchor, unit, mean, covariance, theta, x)

    def test(self, x: np.ndarray, expected: Expectation) -> MeanTest:
        """Of observed events against an expectation."""
        seen = expected.unit @ self.score(x, expected.anchor).mean(axis=0, dtype=np.float64)
        return MeanTest(seen, len(x), expected.mean, expected.covariance, self.low, self.high)


def some_of(count: int, most: int) -> np.ndarray:
    """At most so many row numbers, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def _box(theta: np.ndarray) -> Coordinates:
    return Coordinates.of_box(theta.min(axis=0), theta.max(axis=0))


def _unit(theta: np.ndarray, score: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The inverse root of the scatter of scores about a mean that is linear in θ."""
    scale = np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    design = np.concatenate([np.ones((len(theta), 1)), (theta - theta.mean(axis=0)) / scale], 1)
    root = np.sqrt(np.abs(weight))[:, None]
    left = score - design @ np.linalg.lstsq(root * design, root * score, rcond=None)[0]
    size, vectors = np.linalg.eigh((left * weight[:, None]).T @ left / weight.sum())
    size = np.maximum(size, 1e-12 * max(size[-1], np.finfo(float).tiny))
    return (vectors / np.sqrt(size)) @ vectors.T


def _chosen(theta: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
    """The part of the events, nearest first, that predicts left-out ones near the anchor best."""
    learning = slice(0, None, 2)
    testing = slice(1, NEAR_EVENTS + 1, 2)
    losses = []
    for part in PARTS:
        count = int(part * len(theta[learning]))
        if count < NEAR_EVENTS // 2:
            break
        rows = slice(0, 2 * count, 2)
        mean = learn_mean(
            theta[rows], values[rows], _box(theta[rows]), degree=DEGREES[0], weight=weight[rows]
        )
        left = values[testing] - mean.at(theta[testing])
        losses.append(0.5 * float(weight[testing] @ np.sum(np.square(left), axis=1)))
    best = int(np.argmin(losses)) if losses else 0
    return PARTS[best] if losses and losses[best] < losses[0] - BETTER else PARTS[0]
