r"""What simulated events expect of the scores at a fixed point, as a function of their θ."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...chunks import spread_rows
from ...estimator.response_model import (
    MeanResponse,
    PolynomialCoordinates,
    SmoothCovariance,
    learn_covariance,
    learn_mean,
    safe_eigh,
)
from ...events.events import Events
from ...inputs import kind_of, require_order
from ...weights import warn_few_effective
from .averaged_score import AveragedScore
from .mean_test import MeanTest
from .observed_data import ObservedData
from .third_moment import ThirdMoment, learn_third_moment

#: Highest degree of the mean over the whole region.
DEGREE = 6
#: Highest degree of ln C over the whole region.
SCATTER_DEGREE = 1
#: Highest degree of the mean near an estimate.
LOCAL_DEGREE = 4
#: Highest degree of ln C near an estimate.
LOCAL_SCATTER_DEGREE = 2
#: Anchors lie on a lattice of so many cells in each parameter, so that many fits share them.
CELLS = 8
#: Parts of the events, those nearest to the anchor, from which the mean may be learned.
PARTS = (1.0, 0.4, 0.15)
#: Nats by which a smaller part must predict the nearest events better than all of them.
BETTER = 2.0
#: Events nearest to the anchor by which parts are compared and the scatter is learned.
NEAR_EVENTS = 4000
#: Events nearest to an anchor that are used at all: more would hardly add anything there.
MOST_EVENTS = 500_000
#: Freshly simulated events from which the scatter is learned, at most.
SCATTER_EVENTS = 20_000
#: Events nearest to a box from which means are learned, where there are not more inside.
RANGE_EVENTS = 10_000
#: Fewest calibration events from which means can be learned.
FEWEST_EVENTS = 1000


@dataclasses.dataclass(frozen=True)
class Expectation:
    """Moments of statistics t = unit · score(x; anchor).

    Attributes:
        anchor: θ at which scores are taken.
        unit: brings their scatter near the anchor to one, shape (d, d).
        mean: of t at each θ.
        covariance: of t at each θ.
        third_moment: of t at each θ.
        theta, x: simulated events near the anchor, from which it was learned.
    """

    anchor: np.ndarray
    unit: np.ndarray
    mean: MeanResponse
    covariance: SmoothCovariance
    third_moment: ThirdMoment
    theta: np.ndarray
    x: np.ndarray


class ScoreCalibration:
    """Estimators with simulated events that they were not trained on.

    What is learned from the events is kept, so that many data sets share the work.

    Args:
        estimators: one, or several whose scores are averaged.
        events: `Events` that none of them was trained on; or, for each estimator, a set that it was
            not trained on.
    """

    score: AveragedScore

    def __init__(self, estimators: Any, events: Events | Sequence[Events]) -> None:  # noqa: ANN401
        score = AveragedScore.of(estimators)
        sets: Any = events if isinstance(events, list | tuple) else (events,)
        self.events: tuple[Events, ...] = tuple(sets)
        _require_events(self.events, score)
        thetas = [np.asarray(part.theta, np.float64) for part in self.events]
        self.score = dataclasses.replace(
            score,
            low=np.min([theta.min(axis=0) for theta in thetas], axis=0),
            high=np.max([theta.max(axis=0) for theta in thetas], axis=0),
        )
        self._known: dict[bytes, Expectation] = {}

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
        low, high = self.score.low, self.score.high
        width = (high - low) / CELLS
        cell = np.divide(theta - low, width, out=np.zeros_like(theta), where=width > 0)
        anchor = low + (np.clip(np.floor(cell), 0, CELLS - 1) + 0.5) * width
        key = anchor.tobytes()
        if key not in self._known:
            self._known[key] = self._learn(anchor)
        return self._known[key]

    def _learn(self, anchor: np.ndarray) -> Expectation:
        theta, x, weight = self.rows
        box = PolynomialCoordinates.of_box(self.score.low, self.score.high)
        order = np.argsort(np.sum(np.square(box(theta) - box(anchor[None])), axis=1))
        order = order[:MOST_EVENTS]
        theta, x, weight = theta[order], x[order], weight[order]
        score = self._score_unseen(order, x, anchor)
        near = slice(0, NEAR_EVENTS)
        # What scatters in the observed events is the mean over the estimators.
        scattered = score[near] if len(self.events) == 1 else self.score(x[near], anchor)
        unit = _find_unit(theta[near], scattered, weight[near])
        white = score @ unit.T
        count = int(_choose_part(theta, white, weight) * len(theta))
        theta, white, weight = theta[:count], white[:count], weight[:count]
        mean = learn_mean(theta, white, _box(theta), degree=DEGREE, weight=weight)
        left = scattered @ unit.T - mean.at(theta[near])
        scatter = _learn_scatter(theta[near], left, weight[near], SCATTER_DEGREE)
        return Expectation(anchor, unit, mean, *scatter, theta, x[:count])

    def expectation_between(
        self, low: np.ndarray, high: np.ndarray, anchor: np.ndarray
    ) -> Expectation:
        """By the stored events in a box of θ, or nearest to it, with scatter over all of it."""
        theta, x, weight = self.rows
        width = np.maximum(self.score.high - self.score.low, np.finfo(float).tiny)
        away = np.sum(np.square((np.clip(theta, low, high) - theta) / width), axis=1)
        order = np.argsort(away, kind="stable")[:MOST_EVENTS]
        inside = min(max(int(np.sum(away == 0)), RANGE_EVENTS), len(order))
        theta, x, weight = theta[order], x[order], weight[order]
        score = self._score_unseen(order, x, anchor)
        some = spread_rows(inside, SCATTER_EVENTS)
        scattered = score[some] if len(self.events) == 1 else self.score(x[some], anchor)
        unit = _find_unit(theta[some], scattered, weight[some])
        white = score @ unit.T
        # Events beyond the box hold the mean at its edges.
        count = max(int(_choose_part(theta, white, weight, inside) * len(theta)), inside)
        theta, white, weight = theta[:count], white[:count], weight[:count]
        mean = learn_mean(theta, white, _box(theta), degree=DEGREE, weight=weight)
        left = scattered @ unit.T - mean.at(theta[some])
        scatter = _learn_scatter(theta[some], left, weight[some], LOCAL_SCATTER_DEGREE)
        return Expectation(anchor, unit, mean, *scatter, theta, x[:count])

    def _score_unseen(self, rows: np.ndarray, x: np.ndarray, anchor: np.ndarray) -> np.ndarray:
        """Each event's score by the estimator that was not trained on it, or by all of them."""
        if len(self.events) == 1:
            return self.score(x, anchor)
        ends = np.cumsum([len(part) for part in self.events])
        owner = np.searchsorted(ends, rows, side="right")
        score = np.empty((len(rows), len(self.score.names)))
        for number, estimator in enumerate(self.score.estimators):
            mine = owner == number
            if mine.any():
                score[mine] = estimator.score(x[mine], anchor)
        return score


def learn_nearby(
    score: AveragedScore,
    coordinates: PolynomialCoordinates,
    theta: np.ndarray,
    x: np.ndarray,
    free: int,
    anchor: np.ndarray | None = None,
) -> Expectation:
    """An expectation by fresh events, simulated around the centre of some coordinates.

    Coefficients up to degree `free` have no prior, as in `learn_mean`. Scores are taken at the
    anchor, by default that centre.
    """
    anchor = score.clip(coordinates.centre) if anchor is None else anchor
    scores = score(x, anchor)
    near = np.argsort(np.sum(np.square(coordinates(theta)), axis=1))[:NEAR_EVENTS]
    unit = _find_unit(theta[near], scores[near], np.ones(len(near)))
    white = scores @ unit.T
    mean = learn_mean(theta, white, coordinates, degree=LOCAL_DEGREE, free=free)
    some = spread_rows(len(theta), SCATTER_EVENTS)
    left = white[some] - mean.at(theta[some])
    scatter = _learn_scatter(
        theta[some], left, np.ones(len(left)), LOCAL_SCATTER_DEGREE, coordinates
    )
    return Expectation(anchor, unit, mean, *scatter, theta, x)


def compare_means(score: AveragedScore, data: ObservedData, expected: Expectation) -> MeanTest:
    """The test of observed events against an expectation."""
    seen = expected.unit @ data.average(score(data.x, expected.anchor))
    return MeanTest(seen, expected.mean, expected.covariance, data, expected.third_moment)


def _learn_scatter(
    theta: np.ndarray,
    left: np.ndarray,
    weight: np.ndarray,
    degree: int,
    coordinates: PolynomialCoordinates | None = None,
) -> tuple[SmoothCovariance, ThirdMoment]:
    """Second and third moments of statistics minus their mean."""
    coordinates = _box(theta) if coordinates is None else coordinates
    covariance = learn_covariance(theta, left, coordinates, degree=degree, weight=weight)
    return covariance, learn_third_moment(theta, left, coordinates, weight)


def _require_events(sets: tuple[Any, ...], score: AveragedScore) -> None:
    for part in sets:
        if not isinstance(part, Events):
            raise TypeError(
                "a calibration takes ist.Events, simulated at many θ and not used in training; "
                f"got {kind_of(part)}."
            )
    if len(sets) not in (1, len(score.estimators)):
        raise ValueError(
            "give one set of events, or one for each estimator; got "
            f"{len(score.estimators)} estimators and {len(sets)} sets."
        )
    shape = (len(score.estimators[0].x_names), len(score.names))
    for part in sets:
        require_order(part.x_names, score.estimators[0].x_names, "the calibration events' x")
        require_order(part.theta_names, score.names, "the calibration events' theta")
        warn_few_effective(part.weight, "the calibration events' weight")
        if (part.x.shape[1], part.theta.shape[1]) != shape:
            raise ValueError(
                f"calibration events must have {shape[0]} observables and {shape[1]} parameters "
                f"like the estimator; got {part.x.shape[1]} and {part.theta.shape[1]}."
            )
    count = sum(len(part) for part in sets)
    if count < FEWEST_EVENTS:
        raise ValueError(
            f"{count} calibration events are too few to learn an expectation from; simulate "
            f"some {FEWEST_EVENTS * 10:,} or more."
        )


def _box(theta: np.ndarray) -> PolynomialCoordinates:
    return PolynomialCoordinates.of_box(theta.min(axis=0), theta.max(axis=0))


def _find_unit(theta: np.ndarray, score: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The inverse root of the scatter of scores about a mean that is linear in θ."""
    scale = np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    design = np.concatenate([np.ones((len(theta), 1)), (theta - theta.mean(axis=0)) / scale], 1)
    root = np.sqrt(np.abs(weight))[:, None]
    left = score - design @ np.linalg.lstsq(root * design, root * score, rcond=None)[0]
    size, vectors = safe_eigh((left * weight[:, None]).T @ left / weight.sum())
    return (vectors / np.sqrt(size)) @ vectors.T


def _choose_part(
    theta: np.ndarray, values: np.ndarray, weight: np.ndarray, near: int = NEAR_EVENTS
) -> float:
    """The part of the events, nearest first, that predicts left-out ones of the nearest best."""
    testing = slice(1, near + 1, 2)
    losses = []
    for part in PARTS:
        count = int(part * len(theta[::2]))
        if count < near // 2:
            break
        rows = slice(0, 2 * count, 2)
        box = _box(theta[rows])
        mean = learn_mean(theta[rows], values[rows], box, degree=DEGREE, weight=weight[rows])
        left = values[testing] - mean.at(theta[testing])
        losses.append(0.5 * float(weight[testing] @ np.sum(np.square(left), axis=1)))
    best = int(np.argmin(losses)) if losses else 0
    return PARTS[best] if losses and losses[best] < losses[0] - BETTER else PARTS[0]
