"""The default features, by trials: the preferred ones unless others are clearly better."""

import dataclasses
import time

import numpy as np

from ...models.architecture import AbstractArchitecture
from ...models.features.feature_map import Affine
from ...models.features.features import AbstractFeatures, Natural, Quantile, Standardised
from ..training.members import MemberSetting
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
    """Features, the choice in words, and what their short trainings tell about depth.

    Attributes:
        features: the chosen ones.
        reason: in words.
        event_losses: of the network with the preferred features and, where one was given, of the
            deeper network with them, shape (1 or 2, validation events).
    """

    features: AbstractFeatures
    reason: str
    event_losses: np.ndarray


def choose_features(
    trials: Trials, architecture: AbstractArchitecture, deeper: AbstractArchitecture | None = None
) -> FeatureChoice:
    """The features by the loss on validation events after a short training.

    A deeper network is trained at the same time, with the preferred features.
    """
    part = choose_features_part(to_the_end=trials.to_the_end)
    began, training = time.perf_counter(), trials.shorten(part)
    kinds = _list_candidates(trials.x)
    decay = set_shrink(training, DEFAULT_SHRINK, trials.events).weight_decay or 0.0
    settings = [MemberSetting(kind, decay) for kind in kinds]
    groups = [(architecture, settings)]
    if deeper is not None:
        groups.append((deeper, settings[:1]))
    what = "features" if deeper is None else "features and depth"
    tried, *deep = trials.run(groups, training, what)
    losses = np.concatenate([one.event_losses for one in tried])
    best = find_first_within_error(losses, CLEARLY, WORTH)
    reason = describe_choice("features", [type(kind).__name__ for kind in kinds], losses, best)
    reason = f"{reason} {describe_cost(trials, training, began)}"
    of_depth = [losses[:1], *(one.event_losses for group in deep for one in group)]
    return FeatureChoice(kinds[best], reason, np.concatenate(of_depth))


def choose_features_part(*, to_the_end: bool) -> float:
    """Part of the epochs of a trial, where decays are tried to the end or shortly."""
    return PART if to_the_end else PART_OF_MANY


def _list_candidates(x: np.ndarray) -> list[AbstractFeatures]:
    """Features worth trying on such events; the first extrapolate furthest and are preferred."""
    natural = Natural()
    if isinstance(natural.learn(x), Affine):
        return [Standardised(), Quantile()]
    return [natural, Standardised(), Quantile()]
