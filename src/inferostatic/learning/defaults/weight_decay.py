"""The default weight decay: by trials where they are made, otherwise from the number of steps.

What weight decay does is measured by how far it would shrink an idle weight in the whole training,
so that one value serves trainings of any length.
"""

import dataclasses

import numpy as np

from ...models.architecture import AbstractArchitecture
from ..training.members import MemberSetting, TrainedModel
from ..training.options import Training, count_steps
from .trials import CLEARLY, Trials, describe_choice, find_first_within_error

#: e-folds by which an idle weight shrinks during training: what is tried, from weak to strong.
SHRINKS = (0.15, 1.3, 4.0)
#: e-folds taken where nothing is tried.
DEFAULT_SHRINK = 1.3
#: The strongest decay of all, per unit of learning rate.
LARGEST_DECAY = 1.0
#: The strongest decay that is taken without having been tried.
LARGEST_UNTRIED_DECAY = 0.1
#: Part of the epochs for which decays are tried on a part of the events. On all events they are
#: trained to the end, because too little decay shows only there, and the best of them is kept.
PART = 0.5
#: Standard errors within which the strongest decay is preferred, where all events are trained on.
WITHIN = 1.0


@dataclasses.dataclass(frozen=True)
class DecayChoice:
    """The decay as a number of e-folds, in words why, and a network trained with it already."""

    shrink: float
    reason: str
    ready: TrainedModel | None


def set_shrink(training: Training, shrink: float, training_events: int) -> Training:
    """The training with the weight decay that shrinks an idle weight by this many e-folds."""
    # The mean of a cosine schedule is half its peak.
    travelled = 0.5 * training.learning_rate * count_steps(training, training_events)
    return dataclasses.replace(training, weight_decay=min(shrink / travelled, LARGEST_DECAY))


def set_untried_decay(training: Training, training_events: int) -> Training:
    """The training with the default decay, where it is open."""
    if training.weight_decay is not None:
        return training
    decay = set_shrink(training, DEFAULT_SHRINK, training_events).weight_decay or 0.0
    return dataclasses.replace(training, weight_decay=min(decay, LARGEST_UNTRIED_DECAY))


def choose_weight_decay(trials: Trials, architecture: AbstractArchitecture) -> DecayChoice:
    """The decay by the loss on validation events."""
    shrinks, errors, part = _list_candidates(trials)
    training = trials.shorten(part)
    count = len(trials.problem.split.train)
    settings = [
        MemberSetting(
            architecture.x_features, set_shrink(training, shrink, count).weight_decay or 0.0
        )
        for shrink in shrinks
    ]
    tried = trials.run(architecture, training, settings, "weight decay")
    losses = np.concatenate([one.event_losses for one in tried])
    best = find_first_within_error(losses, errors)
    names = [f"shrinking by e^{shrink:g}" for shrink in shrinks]
    reason = describe_choice("weight decay", names, losses, best)
    return DecayChoice(shrinks[best], reason, tried[best] if trials.on_all else None)


def _list_candidates(trials: Trials) -> tuple[tuple[float, ...], float, float]:
    """Shrinks in the order of preference, standard errors that it is worth, part of the epochs."""
    if not trials.on_all:
        others = [shrink for shrink in SHRINKS if shrink != DEFAULT_SHRINK]
        return (DEFAULT_SHRINK, *others), CLEARLY, PART
    # Latent information makes targets so precise that the best is simply taken.
    return SHRINKS[::-1], 0.0 if trials.problem.dataset.reads_latent else WITHIN, 1.0
