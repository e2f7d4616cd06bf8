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
from ..training.members import MemberSetting, TrainedModel, join_members
from ..training.options import Training, count_steps
from .trials import (
    CLEARLY,
    Trials,
    describe_choice,
    describe_cost,
    find_excess_and_error,
    find_first_within_error,
    find_within_error,
)

#: e-folds by which an idle weight shrinks during training: what is tried with few events, from
#: weak to strong. Sharp structures need the weakest, many parameters and few events the strongest.
SHRINKS = (0.15, 0.6, 2.3, 4.0)
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
#: Standard errors within which a loss counts as the best.
WITHIN = 1.0
#: Decays that are tried first.
FIRST = 2
#: Standard errors by which the weaker of these must be worse for still weaker ones to be left out.
HOPELESS = 2.0


@dataclasses.dataclass(frozen=True)
class TriedDecays:
    """Networks that validation cannot tell from the best, and the decay of the strongest."""

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
    """Train a network for every decay; keep those as good as the best, or the first of them.

    The two strongest come first. If the weaker of them is clearly worse, still weaker ones are left
    out, and others with the kept decay take their place in the ensemble.
    """
    began, training = time.perf_counter(), trials.training
    shrinks = SHRINKS[::-1]
    # Members of an ensemble begin apart; one that is followed by others is the first of them.
    starts = range(len(shrinks)) if members is None else [0] * len(shrinks)
    settings = [_setting(trials, architecture, *each) for each in zip(shrinks, starts, strict=True)]
    tried = trials.run(architecture, training, settings[:FIRST], "weight decay")
    losses = np.concatenate([one.event_losses for one in tried])
    excess, error = find_excess_and_error(losses, 0)
    if excess[-1] <= HOPELESS * error[-1]:
        tried += trials.run(architecture, training, settings[FIRST:], "weight decay")
        losses = np.concatenate([one.event_losses for one in tried])
    # Latent information makes targets so precise that the best is simply taken.
    errors = 0.0 if trials.problem.dataset.reads_latent else WITHIN
    kept = find_within_error(losses, errors)
    names = [f"shrinking by e^{shrink:g}" for shrink in shrinks[: len(tried)]]
    reason = describe_choice("weight decay", names, losses, int(kept[0]))
    chosen = [tried[j] for j in kept]
    if members is not None:
        chosen = chosen[:1]
    elif len(kept) > 1:
        others = ", ".join(f"e^{shrinks[j]:g}" for j in kept[1:])
        reason += f"; as good as the best are {others} too, so all of these are members"
    if members is None and len(tried) < len(settings):
        more = [
            dataclasses.replace(settings[kept[0]], start=settings[j].start)
            for j in range(len(tried), len(settings))
        ]
        chosen += trials.run(architecture, training, more, "members")
        reason += f"; {len(more)} more members with {names[kept[0]]}"
    ready = functools.reduce(join_members, chosen)
    reason = f"{reason} {describe_cost(trials, training, began)}"
    return TriedDecays(settings[kept[0]].weight_decay, reason, ready)


def choose_by_short_trials(
    trials: Trials, architectures: list[AbstractArchitecture]
) -> ShortChoice:
    """The network and its decay by the loss on validation events after a short training.

    The first architecture is taken unless another is clearly better.
    """
    began, training = time.perf_counter(), trials.shorten(PART)
    candidates: list[tuple[AbstractArchitecture, float]] = []
    names, losses = [], []
    for architecture in architectures:
        towers = isinstance(architecture, Potential) and isinstance(architecture.network, TwoTower)
        shrinks = (TOWER_SHRINK,) if towers and len(architectures) > 1 else FEWER_SHRINKS
        settings = [_setting(trials, architecture, shrink) for shrink in shrinks]
        tried = trials.run(architecture, training, settings, "network and weight decay")
        losses += [one.event_losses for one in tried]
        candidates += [(architecture, shrink) for shrink in shrinks]
        kind = "two towers, " if towers else "residual network, " if len(architectures) > 1 else ""
        names += [f"{kind}shrinking by e^{shrink:g}" for shrink in shrinks]
    every = np.concatenate(losses)
    preferred = find_first_within_error(every, CLEARLY)
    best = find_first_within_error(every, WITHIN)
    if candidates[preferred][0] is architectures[0] and len(architectures) > 1:
        best = preferred
    what = "network and weight decay" if len(architectures) > 1 else "weight decay"
    reason = describe_choice(what, names, every, best)
    architecture, shrink = candidates[best]
    return ShortChoice(architecture, shrink, f"{reason} {describe_cost(trials, training, began)}")


def _setting(
    trials: Trials, architecture: AbstractArchitecture, shrink: float, start: int = 0
) -> MemberSetting:
    """The decay of a whole training, whatever the length of the trial."""
    decay = set_shrink(trials.training, shrink, trials.events).weight_decay or 0.0
    return MemberSetting(architecture.x_features, decay, start)
