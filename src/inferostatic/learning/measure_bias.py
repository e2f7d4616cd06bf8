"""Measuring the mean of a learned score, with events that had no part in its training."""

import dataclasses
import warnings
from typing import TypeVar

import numpy as np

from ..chunks import spread_rows
from ..estimator.estimator import AbstractEstimator, Estimator
from ..estimator.measured_mean import FEWEST_EVENTS, measure_mean
from ..events.events import Events
from ..inputs import kind_of, require_order, warn_user
from ..memory_map import read_rows
from ..models.architecture import AbstractArchitecture
from ..models.members import with_centring
from ..models.potential import PotentialModel
from ..streams import Purpose, Stream
from ..supervision.records import Capability
from ..weights import warn_few_effective
from .centring import find_subtracted_score
from .draw import Records
from .training.options import Training

E = TypeVar("E", bound=AbstractEstimator)

#: Test events, at most: more would train better than they measure.
MOST_TEST_EVENTS = 20_000
#: Events that are used in one measurement, at most; then its error is that of the polynomial.
MOST_EVENTS = 500_000


def choose_test_rows(
    events: Events | Records, architecture: AbstractArchitecture, training: Training
) -> np.ndarray:
    """Rows that training must not see; the same ones whenever the same events are trained on."""
    nothing = np.zeros(0, np.int64)
    if not isinstance(events, Events) or Capability.POTENTIAL not in architecture.capabilities:
        return nothing
    count = min(round(training.test_fraction * len(events)), MOST_TEST_EVENTS)
    if count < FEWEST_EVENTS:
        return nothing
    # No seed of the user's: whatever trains or centres on the same events keeps the same ones back.
    rng = Stream(0, Purpose.TEST_ROWS).generator()
    return np.sort(rng.choice(len(events), count, replace=False))


def measure_on_rows(estimator: E, events: Events | Records, rows: np.ndarray) -> E:
    """The estimator with the means of its score and of x, as far as these events tell them."""
    if len(rows) == 0 or not isinstance(estimator, Estimator) or not isinstance(events, Events):
        return estimator
    x, theta, weight = (
        np.asarray(read_rows(part, rows), np.float64)
        for part in (events.x, events.theta, events.weight)
    )
    inside = estimator.region.contains_theta(theta)
    with warnings.catch_warnings():
        # Of events that were kept back, a few always lie beyond the range of x seen in training.
        warnings.simplefilter("ignore", UserWarning)
        score = _find_score(estimator, x[inside], theta[inside])
    bias = measure_mean(score, theta[inside], weight[inside], about_zero=True)
    means = measure_mean(estimator.region.bound_x(x), theta, weight, about_zero=False)
    return dataclasses.replace(estimator, score_bias=bias, x_mean=means)


def _find_score(estimator: Estimator, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The score by the program that centring used, less the gradient of what it subtracts."""
    model = estimator.model
    centring = model.centring if isinstance(model, PotentialModel) else None
    bare = dataclasses.replace(estimator, model=with_centring(model, None))
    score = bare.score(x, theta)
    if centring is None:
        return score
    return score - find_subtracted_score(centring, theta)


def measure_bias(estimator: Estimator, events: Events) -> Estimator:
    """The estimator with the mean of its learned score, measured by events it was not trained on.

    `fit` does this with the events that it keeps back (`Training(test_fraction=…)`). More events
    tell for more observed ones whether a result is biased. They replace those of before.

    Args:
        estimator: a trained potential.
        events: simulated at many θ, not used in its training or centring.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            "measure_bias needs a potential (ist.Estimator), which ist.fit(events, seed=…) trains "
            f"by default; got {kind_of(estimator)}."
        )
    if not isinstance(events, Events):
        raise TypeError(
            f"measure_bias takes ist.Events that it was not trained on; got {kind_of(events)}."
        )
    require_order(events.x_names, estimator.x_names, "x")
    require_order(events.theta_names, estimator.theta_names, "theta")
    warn_few_effective(events.weight, "the events' weight")
    rows = spread_rows(len(events), MOST_EVENTS)
    estimator.warn_outside(read_rows(events.x, rows))
    found = measure_on_rows(estimator, events, rows)
    if found.score_bias is None:
        warn_user(
            f"{len(events)} events are too few to measure a bias with; simulate some thousand."
        )
    return found
