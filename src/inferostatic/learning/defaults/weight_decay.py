"""The default weight decay: by trials where they are made, otherwise from the number of steps.

What weight decay does is measured by how far it would shrink an idle weight in a whole training,
e^shrink. In a shorter training the decay itself, per unit of learning rate, stays the same: that is
what decides how large weights become.
"""

import dataclasses
import functools
import time

import numpy as np

from ...models.architecture import AbstractArchitecture, Potential
from ...models.networks.two_tower import TwoTower
from ..training.best_epoch import is_clearly_better
from ..training.members import MemberSetting, TrainedModel, join_members
from ..training.options import Training, count_steps
from .trials import (
    CLEARLY,
    Trials,
    describe_choice,
    describe_cost,
    find_first_within_error,
)

#: e-folds by which an idle weight shrinks during training: what nearly all problems want.
PREFERRED = 2.3
#: What sharp structures want.
WEAKEST = 0.15
#: What is tried beside the preferred one where that is not clearly worse than the weakest.
STRONGEST = 4.0
#: What is tried beside the weakest where that is clearly better than the preferred one.
WEAKER = 0.6
#: Networks that are trained to the end with few events: two decays, then two more networks.
TRIED_TO_THE_END = 4
#: What is tried shortly with many events, the preferred first.
FEWER_SHRINKS = (2.3, 0.6)
#: That of two towers, which hardly depend on it.
TOWER_SHRINK = 0.5
#: e-folds taken where nothing is tried.
DEFAULT_SHRINK = 1.3
#: The strongest decay of all, per unit of learning rate.
LARGEST_DECAY = 1.0
#: The strongest decay that is taken without having been tried.
LARGEST_UNTRIED_DECAY = 0.1
#: Part of the epochs for which decays and networks are tried shortly.
PART = 0.25
#: Standard errors by which a loss must be better than that of a preferred choice.
WITHIN = 1.0
#: Standard errors by which the weakest decay must be better than the preferred one to replace it.
SHARP = 2.0


@dataclasses.dataclass(frozen=True)
class TriedDecays:
    """Networks as good as the best, and its decay."""

    decay: float
    reason: str
    ready: TrainedModel


@dataclasses.dataclass(frozen=True)
class ShortChoice:
    """An architecture, the decay as a number of e-folds, and in words why."""

    architecture: AbstractArchitecture
    shrink: float
    reason: str


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


def train_all_decays(
    trials: Trials, architecture: AbstractArchitecture, members: int | None
) -> TriedDecays:
    """Train networks with several decays, and keep the best as an ensemble, or one of them.

    The preferred and the weakest decay come first. Then follow a second network with the better of
    them, and one with the decay next to it, which is kept where it is better still.
    """
    began, training = time.perf_counter(), trials.training
    alone = members is not None

    def train(shrinks: list[float], first: int) -> list[TrainedModel]:
        # Members of an ensemble begin apart; one that is followed by others is the first of them.
        starts = [0 if alone else first + j for j in range(len(shrinks))]
        settings = [
            make_setting(trials, architecture, *e) for e in zip(shrinks, starts, strict=True)
        ]
        (trained,) = trials.run([(architecture, settings)], training, "weight decay")
        return trained

    shrinks = [PREFERRED, WEAKEST]
    tried = train(shrinks, 0)
    better = find_better(*tried)
    neighbour = WEAKER if better == 1 else STRONGEST
    more = [neighbour] if alone else [neighbour, shrinks[better]]
    tried += train(more, len(shrinks))
    shrinks += more
    # Latent information makes targets so precise that whatever is better is taken.
    errors = 0.0 if trials.problem.dataset.reads_latent else WITHIN
    beside = tried[2].event_losses
    chosen = 2 if is_clearly_better(beside, tried[better].event_losses, errors).all() else better
    if alone:
        kept = [chosen]
    else:
        kept = [better, 3] if chosen == better else [chosen, better, 3]
    decays = [make_setting(trials, architecture, shrink).weight_decay for shrink in shrinks]
    names = [_name(decay) for decay in decays]
    if not alone:
        names[3] += " again"
    losses = np.concatenate([one.event_losses for one in tried])
    reason = describe_choice("weight decay", names, losses, chosen)
    if len(kept) > 1:
        reason += f"; members have {', '.join(_name(decays[j]) for j in kept)}"
    ready = functools.reduce(join_members, [tried[j] for j in kept])
    reason = f"{reason} {describe_cost(trials, training, began)}"
    return TriedDecays(decays[chosen], reason, ready)


def train_two_decays(trials: Trials, architecture: AbstractArchitecture) -> TriedDecays:
    """Train networks with the preferred and the weakest decay, and keep the better: a quick look.

    Both begin alike, as those of an ensemble of which one is kept.
    """
    began, training, shrinks = time.perf_counter(), trials.training, (PREFERRED, WEAKEST)
    settings = [make_setting(trials, architecture, shrink) for shrink in shrinks]
    (tried,) = trials.run([(architecture, settings)], training, "weight decay")
    better = find_better(*tried)
    names = [_name(setting.weight_decay) for setting in settings]
    losses = np.concatenate([one.event_losses for one in tried])
    reason = describe_choice("weight decay", names, losses, better)
    reason = f"{reason} {describe_cost(trials, training, began)}"
    return TriedDecays(settings[better].weight_decay, reason, tried[better])


def find_better(preferred: TrainedModel, weakest: TrainedModel) -> int:
    """0 for the preferred decay, 1 where the weakest is clearly better."""
    return int(is_clearly_better(weakest.event_losses, preferred.event_losses, SHARP).all())


def choose_by_short_trials(
    trials: Trials, architectures: list[AbstractArchitecture]
) -> ShortChoice:
    """The network and its decay by the loss on validation events after a short training.

    The first architecture is taken unless another is clearly better.
    """
    began, training = time.perf_counter(), trials.shorten(PART)
    candidates: list[tuple[AbstractArchitecture, float]] = []
    names, groups = [], []
    for architecture in architectures:
        towers = isinstance(architecture, Potential) and isinstance(architecture.network, TwoTower)
        shrinks = (TOWER_SHRINK,) if towers and len(architectures) > 1 else FEWER_SHRINKS
        settings = [make_setting(trials, architecture, shrink) for shrink in shrinks]
        groups.append((architecture, settings))
        candidates += [(architecture, shrink) for shrink in shrinks]
        kind = "two towers, " if towers else "residual network, " if len(architectures) > 1 else ""
        names += [kind + _name(setting.weight_decay) for setting in settings]
    tried = trials.run(groups, training, "network and weight decay")
    every = np.concatenate([one.event_losses for group in tried for one in group])
    preferred = find_first_within_error(every, CLEARLY)
    best = find_first_within_error(every, WITHIN)
    if candidates[preferred][0] is architectures[0] and len(architectures) > 1:
        best = preferred
    what = "network and weight decay" if len(architectures) > 1 else "weight decay"
    reason = describe_choice(what, names, every, best)
    architecture, shrink = candidates[best]
    return ShortChoice(architecture, shrink, f"{reason} {describe_cost(trials, training, began)}")


def _name(decay: float) -> str:
    """As one would set it: `Training(weight_decay=…)`."""
    return f"{decay:.2g}"


def make_setting(
    trials: Trials, architecture: AbstractArchitecture, shrink: float, start: int = 0
) -> MemberSetting:
    """The decay of a whole training, whatever the length of the trial."""
    decay = set_shrink(trials.training, shrink, trials.events).weight_decay or 0.0
    return MemberSetting(architecture.x_features, decay, start)
