"""Centring: what events say about a potential's part that depends on θ alone.

The mean of the true score over events simulated at θ is 0 for every θ. Where that of a learned
one is m(θ) instead, subtracting a B(θ) with ∇B = m repairs it, as far as m is a gradient.
Contrastive losses fix that part poorly near the walls of a prior, where candidates lie on one side
only, while the mean score is measured there as well as anywhere.

B is linear in its coefficients, so the best one solves a linear system, and how well it would do on
events that it has not seen follows from the same sums over folds.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.polynomial import legendre

from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator, Estimator
from ..events.events import Events
from ..models.members import with_centring
from ..models.theta_potential import MARGIN, ThetaPotential
from ..streams import Purpose, Stream
from ..supervision.candidates import CandidateSets
from .dataset.dataset import NO_ROWS, AbstractDataset
from .defaults.trials import wants_trials
from .draw import Records
from .methods import AbstractMethod
from .training.options import Training

#: Degrees that are tried: a term is taken if the product of its degrees plus one is at most
#: the degree plus one, so that mixed terms are of a lower order.
DEGREES = (1, 2, 3, 4, 6, 8, 12, 16)
#: Terms of B(θ), at most.
MOST_TERMS = 400
#: Events for each term, at least.
EVENTS_PER_TERM = 50
#: Parts of the events that are left out in turn.
FOLDS = 5
#: Standard errors by which B(θ) must bring the mean score closer to 0 on events that it was not
#: found with. Where scores are large, chance alone gives it a slope that ruins far ratios. Of the
#: degrees that do, the one that does so most is taken: preferring lower ones that are not clearly
#: worse raised the errors of the score on five toys by 1 to 4%.
CLEARLY = 3.0
#: Events that are used, at most.
MOST_EVENTS = 200_000
#: Events whose terms are computed at a time, to bound the memory.
CHUNK = 8192
#: Weights of events by the spread of the score at their θ differ by at most this factor.
WEIGHT_RANGE = 1e4
#: Events from which default fits are centred, on the events of the training. On eight toys with
#: 500 to 30,000 events that lowered most errors of the score, by up to a half, and raised none by
#: more than chance.
CENTRED_EVENTS = 500

_Box = tuple[np.ndarray, np.ndarray]
_Terms = list[tuple[int, ...]]
#: For each θ_j, which terms depend on it, and their ∂/∂θ_j, shape (n, these terms).
_Gradients = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Centring:
    """How far a score is from being centred, and what was subtracted.

    Attributes:
        terms: of B(θ); 0 where none does any good.
        degree: which of the tried degrees.
        before: root mean square of the mean score E[ŝ | θ], in units of the score's spread, as far
            as a B(θ) repairs it on events that it was not found with; 0 where none does.
        events: number of events used.
    """

    terms: int
    degree: int
    before: float
    events: int


def centre_score(
    estimator: Estimator,
    x: np.ndarray,
    theta: np.ndarray,
    weight: np.ndarray,
    *,
    seed: int,
    afresh: bool = True,
    test: np.ndarray = NO_ROWS,
) -> tuple[Estimator, Centring]:
    """The estimator with a B(θ) subtracted that brings the mean score at every θ close to 0.

    What was subtracted before is forgotten. Where `afresh` is false it is kept, and only the record
    counts. Rows in `test` are left out.
    """
    bare = estimator
    if afresh:
        model = with_centring(estimator.model, None)
        # What a diagnosis found of it is not true of another function.
        bare = dataclasses.replace(estimator, model=model, diagnosis=None)
    rng = Stream(seed, Purpose.CENTRE).generator()
    rows = np.delete(np.arange(len(x)), test)
    if len(rows) > MOST_EVENTS:
        rows = np.sort(rng.choice(rows, MOST_EVENTS, replace=False))
    x, theta, weight = x[rows], theta[rows], weight[rows]
    theta = np.asarray(theta, np.float64)
    box = theta.min(axis=0), theta.max(axis=0)
    score = bare.score(x, theta)
    points = min(len(x) // EVENTS_PER_TERM, len(np.unique(theta, axis=0)) // 2, MOST_TERMS)
    choices = _affordable(theta.shape[1], points)
    if not choices or np.any(box[0] == box[1]):
        return bare, Centring(0, 0, 0.0, len(x))
    every = choices[-1][1]
    weights = _by_spread(score, theta, box) * (weight / weight.mean())[:, None]
    sample = _Sample(score, theta, weights, box, rng.integers(0, FOLDS, len(x)))
    sums = _Sums.over(sample, every)
    indices = [[every.index(term) for term in terms] for _, terms in choices]
    gains = np.array([sums.gain(index) for index in indices])
    # Weighted, so in units of the spread of the score at each θ.
    before = float(np.sqrt(max(gains.max(), 0.0) / np.sum(weights * score**2)))
    for best in np.argsort(-gains):
        degree, terms = choices[best]
        each = sums.gain_of_events(indices[best], sample, terms)
        if gains[best] > CLEARLY * each.std() * np.sqrt(len(each)):
            break
    else:
        return bare, Centring(0, 0, before, len(x))
    coefficients = sums.solution(indices[best])
    centring = ThetaPotential(*box, degrees=tuple(terms), coefficients=coefficients)
    model = with_centring(estimator.model, centring)
    record = Centring(len(terms), degree, before, len(x))
    return dataclasses.replace(estimator, model=model, diagnosis=None), record


def wants_centring(training: Training, method: AbstractMethod, events: int) -> bool:
    """Whether the score is centred after training."""
    if training.centre is not None:
        return training.centre
    of_sets = any(isinstance(one, CandidateSets) for one in method.supervisions)
    alone = len(method.supervisions) == 1
    return of_sets and alone and wants_trials(training) and events >= CENTRED_EVENTS


def centre_after_training(
    estimator: AbstractEstimator,
    events: Events | Records,
    dataset: AbstractDataset,
    training: Training,
    seed: int,
    test: np.ndarray,
) -> AbstractEstimator:
    """The estimator centred on all events but the test events, where wanted and possible."""
    if not isinstance(estimator, Estimator) or isinstance(estimator, DensityEstimator):
        return estimator
    if not isinstance(events, Events) or not wants_centring(
        training, estimator.method, len(dataset)
    ):
        return estimator
    # Reference events, which may follow the others, have no θ of their own.
    x, weight = dataset.x[: len(events)], dataset.weight[: len(events)]
    result, record = centre_score(estimator, x, events.theta, weight, seed=seed, test=test)
    reason = "not centred: the mean score at θ cannot be distinguished from 0"
    if record.terms:
        reason = (
            f"centred: the mean score at θ was {record.before:.1%} of a score's spread, and a "
            f"function of θ with {record.terms} terms is subtracted"
        )
    history = dataclasses.replace(result.history, choices=(*result.history.choices, reason))
    return dataclasses.replace(result, history=history)


def _affordable(dim: int, most: int) -> list[tuple[int, _Terms]]:
    """Degrees with their terms, as long as these are not too many."""
    choices = []
    for degree in DEGREES:
        # One after the other, because with many parameters those of a high degree are countless.
        terms = terms_of(dim, degree)
        if len(terms) > most:
            break
        choices.append((degree, terms))
    return choices


def terms_of(dim: int, degree: int) -> _Terms:
    """Degrees of the products that belong to a degree, without the constant, in a fixed order."""
    terms: _Terms = [()]
    for _ in range(dim):
        terms = [
            (*term, n)
            for term in terms
            for n in range(degree + 1)
            if np.prod([m + 1 for m in (*term, n)]) <= degree + 1
        ]
    return [term for term in terms if any(term)]


def gradients(theta: np.ndarray, box: _Box, terms: _Terms) -> np.ndarray:
    """∂/∂θ_j of every term, shape (d, n, terms)."""
    result = np.zeros((theta.shape[1], len(theta), len(terms)))
    for j, (own, columns) in enumerate(_own_gradients(theta, box, terms)):
        result[j][:, own] = columns
    return result


def _own_gradients(theta: np.ndarray, box: _Box, terms: _Terms) -> _Gradients:
    # Only of the terms that depend on θ_j: with many parameters each contains few of them.
    low, high = box
    dim, highest = theta.shape[1], max(max(term) for term in terms)
    position = 2 * (theta - low) / (high - low) - 1
    values = [legendre.legvander(position[:, j], highest) for j in range(dim)]
    slope = legendre.legder(np.eye(highest + 1))  # a column for each polynomial
    degrees = np.array(terms)
    for j in range(dim):
        own = np.flatnonzero(degrees[:, j])
        slopes = values[j][:, :highest] @ slope * 2 / (high[j] - low[j])
        columns = slopes[:, degrees[own, j]]
        for i in set(range(dim)) - {j}:
            mixed = np.flatnonzero(degrees[own, i])
            if len(mixed):
                columns[:, mixed] *= values[i][:, degrees[own[mixed], i]]
        yield own, columns


def find_subtracted_score(centring: ThetaPotential, theta: np.ndarray) -> np.ndarray:
    """∇B, shape (n, d), by NumPy; 0 along a parameter beyond the box, where B is a constant."""
    low, high = (np.asarray(edge, np.float64) for edge in (centring.low, centring.high))
    coefficients, terms = np.asarray(centring.coefficients, np.float64), list(centring.degrees)
    margin = MARGIN * (high - low) / 2
    bounded = np.clip(theta, low - margin, high + margin)
    chunks = [bounded[first : first + CHUNK] for first in range(0, len(theta), CHUNK)]
    slopes = [(gradients(chunk, (low, high), terms) @ coefficients).T for chunk in chunks]
    return np.where(theta == bounded, np.concatenate(slopes), 0.0)


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Scores ŝ at the events' θ, with a weight for each component, in folds."""

    score: np.ndarray
    theta: np.ndarray
    weights: np.ndarray
    box: _Box
    fold: np.ndarray

    def chunks(self, fold: int, terms: _Terms) -> Iterator[tuple[np.ndarray, _Gradients]]:
        """Rows of a fold, a few at a time, with the gradients of the terms there."""
        rows = np.flatnonzero(self.fold == fold)
        for first in range(0, len(rows), CHUNK):
            part = rows[first : first + CHUNK]
            yield part, _own_gradients(self.theta[part], self.box, terms)


@dataclasses.dataclass(frozen=True)
class _Sums:
    """Normal equations of the weighted least squares of ŝ by ∇B, one for each fold."""

    matrix: np.ndarray
    vector: np.ndarray

    @classmethod
    def over(cls, sample: _Sample, terms: _Terms) -> "_Sums":
        matrix = np.zeros((FOLDS, len(terms), len(terms)))
        vector = np.zeros((FOLDS, len(terms)))
        for fold in range(FOLDS):
            for part, slopes in sample.chunks(fold, terms):
                for j, (own, columns) in enumerate(slopes):
                    weighted = columns * sample.weights[part, j : j + 1]
                    matrix[fold][np.ix_(own, own)] += weighted.T @ columns
                    vector[fold][own] += weighted.T @ sample.score[part, j]
        return cls(matrix, vector)

    def gain(self, index: list[int]) -> float:
        """By how much the weighted squares fall on the folds that were left out."""
        matrix, vector = self.matrix[:, index][:, :, index], self.vector[:, index]
        total = 0.0
        for fold in range(FOLDS):
            found = self.solution(index, without=fold)
            total += 2 * vector[fold] @ found - found @ matrix[fold] @ found
        return float(total)

    def gain_of_events(self, index: list[int], sample: _Sample, terms: _Terms) -> np.ndarray:
        """What each event of the sample contributes to the gain; `terms` are those of `index`."""
        gains = np.empty(len(sample.score))
        for fold in range(FOLDS):
            found = self.solution(index, without=fold)
            for part, slopes in sample.chunks(fold, terms):
                slope = np.stack([columns @ found[own] for own, columns in slopes], axis=1)
                fall = sample.weights[part] * slope * (2 * sample.score[part] - slope)
                gains[part] = fall.sum(axis=1)
        return gains

    def solution(self, index: list[int], without: int | None = None) -> np.ndarray:
        """The coefficients by all events, or by those of the other folds."""
        matrix, vector = self.matrix[:, index][:, :, index], self.vector[:, index]
        if without is not None:
            rest = np.arange(FOLDS) != without
            matrix, vector = matrix[rest], vector[rest]
        return _solve(matrix.sum(axis=0), vector.sum(axis=0))


def _solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    # Scaled to a unit diagonal, because slopes of high degrees are large.
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    return np.linalg.lstsq(matrix / np.outer(scale, scale), vector / scale, rcond=1e-10)[0] / scale


def _by_spread(score: np.ndarray, theta: np.ndarray, box: _Box) -> np.ndarray:
    """Weights by the inverse variance of each component of the score at an event's θ.

    The variance as exp of a cubic in θ, from the logarithms of the squares: those of a variable of
    a given shape differ from the logarithm of its variance by a constant only.
    """
    position = 2 * (theta - box[0]) / (box[1] - box[0]) - 1
    dim = position.shape[1]
    pairs = [position[:, [i]] * position[:, [j]] for i in range(dim) for j in range(i)]
    columns = [np.ones((len(position), 1)), position, position**2, position**3, *pairs]
    design = np.concatenate(columns, axis=1)
    squares = score**2
    floor = 1e-6 * squares.mean(axis=0) + np.finfo(float).tiny
    logs = np.log(squares + floor)
    fitted = design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    fitted -= fitted.mean(axis=0)
    # In units of each component's variance, so that B may couple components of different units.
    common = np.exp(-np.clip(fitted, *(np.array([-0.5, 0.5]) * np.log(WEIGHT_RANGE))))
    return common / (np.mean(common * squares, axis=0) + np.finfo(float).tiny)
