"""The default features, by trials: the preferred ones unless others are clearly better."""

import dataclasses
import time

import numpy as np

from ...models.architecture import AbstractArchitecture
from ...models.features.feature_map import Affine
from ...models.features.features import AbstractFeatures, Natural, Quantile, Standardised
from ..training.members import MemberSetting
from ..training.options import Training
from .trials import CLEARLY, Trials, describe_choice, describe_cost, find_first_within_error
from .weight_decay import DEFAULT_SHRINK, set_shrink

#: Part of the epochs for which features are tried with few events.
PART = 0.125
#: The same with many, where epochs are longer.
PART_OF_MANY = 0.06
#: Nats by which other features must be better as well: in a short training some only learn faster.
WORTH = 0.01
#: Features that are tried, at most.
MOST_CANDIDATES = 3


@dataclasses.dataclass(frozen=True)
class FeatureChoice:
    """The architecture with its features, the choice in words, and the short training behind it.

    `event_losses` are those of the network with these features, shape (1, validation events).
    """

    architecture: AbstractArchitecture
    reason: str
    training: Training
    decay: float
    event_losses: np.ndarray


def choose_features(trials: Trials, architecture: AbstractArchitecture) -> FeatureChoice:
    """The features by the loss on validation events after a short training."""
    part = choose_features_part(to_the_end=trials.to_the_end)
    began, training = time.perf_counter(), trials.shorten(part)
    kinds = _list_candidates(trials.x)
    decay = set_shrink(training, DEFAULT_SHRINK, trials.events).weight_decay or 0.0
    settings = [MemberSetting(kind, decay) for kind in kinds]
    tried = trials.run(architecture, training, settings, "features")
    losses = np.concatenate([one.event_losses for one in tried])
    best = find_first_within_error(losses, CLEARLY, WORTH)
    reason = describe_choice("features", [type(kind).__name__ for kind in kinds], losses, best)
    reason = f"{reason} {describe_cost(trials, training, began)}"
    chosen = dataclasses.replace(architecture, x_features=kinds[best])
    return FeatureChoice(chosen, reason, training, decay, tried[best].event_losses)


def choose_features_part(*, to_the_end: bool) -> float:
    """Part of the epochs of a trial, where decays are tried to the end or shortly."""
    return PART if to_the_end else PART_OF_MANY


def _list_candidates(x: np.ndarray) -> list[AbstractFeatures]:
    """Features worth trying on such events; the first extrapolate furthest and are preferred."""
    natural = Natural()
    if isinstance(natural.learn(x), Affine):
        return [Standardised(), Quantile()]
    return [natural, Standardised(), Quantile()]
