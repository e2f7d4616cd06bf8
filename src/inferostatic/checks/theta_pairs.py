"""Validation events with a partner θ each, and ln r of the true θ over the partner."""

import dataclasses

import numpy as np

from ..estimator.estimator import Estimator, RatioEstimator
from .validation_events import (
    ValidationEvents,
    derive_seed,
    require_kind,
    select_events,
    suppress_repeated_warnings,
)


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Events with a partner θ: ln r of the true θ over the partner, and which is the larger.

    Attributes:
        log_ratio: ln p(x; θ) − ln p(x; partner), shape (n,).
        larger: for each parameter, +1 where the true θ is the larger of the two, −1 where it is the
            smaller, 0 where they are equal, shape (n, d).
        distance: index of `DISTANCES`, shape (n,).
        weight: of the events.
        names: of the parameters.
    """

    log_ratio: np.ndarray
    larger: np.ndarray
    distance: np.ndarray
    weight: np.ndarray
    names: tuple[str, ...]


def select_pairs(estimator: object, events: object, *, check: str, seed: int) -> Pairs:
    """Pairs around at most so many events as a check uses."""
    kinds = (Estimator, RatioEstimator)
    estimator = require_kind(estimator, kinds, check)
    selected = select_events(estimator, events, check=check, kinds=kinds, seed=seed)
    return draw_pairs(estimator, selected, seed)


def draw_pairs(estimator: Estimator | RatioEstimator, events: ValidationEvents, seed: int) -> Pairs:
    """One partner for each event, near, middle or far."""
    partner, distance = events.draw_partners(derive_seed(seed, 1))
    kept = (distance >= 0) & np.any(partner != events.theta, axis=1)
    x, theta, partner = events.x[kept], events.theta[kept], partner[kept]
    with suppress_repeated_warnings():
        log_ratio = estimator.log_ratio(x, theta, partner)
    return Pairs(
        log_ratio=log_ratio,
        larger=np.sign(theta - partner),
        distance=distance[kept],
        weight=events.weight[kept],
        names=estimator.theta_names,
    )
