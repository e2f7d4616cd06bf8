"""`choose_defaults`: open settings of a fit, from the number of events and by trials."""

import dataclasses

from ...models.architecture import AbstractArchitecture
from ...models.features.features import Automatic
from ..training.members import LearningProblem, TrainedModel
from ..training.options import Training, count_steps
from .depth import choose_depth, deepen
from .features import MOST_CANDIDATES, choose_features, choose_features_part
from .network import list_networks
from .sizes import PAIR, choose_members, set_length
from .trials import (
    Trials,
    count_tried,
    makes_a_quick_trial,
    makes_trials,
    plan_trials,
    shorten,
    tries_all_events,
    tries_to_the_end,
)
from .weight_decay import (
    FEWER_SHRINKS,
    TRIED_TO_THE_END,
    choose_by_short_trials,
    set_shrink,
    set_untried_decay,
    train_all_decays,
    train_two_decays,
)
from .weight_decay import PART as DECAY_PART


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What was chosen, in words why, members trained so already, and how many are still missing.

    `begun` networks have been trained, kept or not; the missing ones begin from other weights.
    """

    architecture: AbstractArchitecture
    training: Training
    reasons: tuple[str, ...] = ()
    ready: TrainedModel | None = None
    missing: int = 1
    begun: int = 0


@dataclasses.dataclass(frozen=True)
class OpenSettings:
    """What is chosen by trials: nothing where none are made."""

    features: bool
    decay: bool

    @property
    def any(self) -> bool:
        """Whether trials are made."""
        return self.features or self.decay


def _find_open(
    problem: LearningProblem, architecture: AbstractArchitecture, training: Training
) -> OpenSettings:
    if not makes_trials(problem, training):
        return OpenSettings(features=False, decay=False)
    features = isinstance(architecture.x_features, Automatic)
    return OpenSettings(features, training.weight_decay is None)


def _count_members(
    training: Training, members: int | None, events: int, open_: OpenSettings
) -> int:
    return choose_members(training, events, tried=open_.any) if members is None else members


def complete_training(training: Training, events: int, training_events: int) -> Training:
    """The training with its open fields set for this number of events, without any trials."""
    return set_untried_decay(set_length(training, events, training_events), training_events)


def count_planned_steps(
    problem: LearningProblem,
    architecture: AbstractArchitecture,
    training: Training,
    members: int | None,
    *,
    open_network: bool,
) -> int:
    """Steps of all trainings of a fit, at most, for its display."""
    dataset, count = problem.dataset, len(problem.split.train)
    whole = count_steps(complete_training(training, len(dataset), count), count)
    open_ = _find_open(problem, architecture, training)
    wanted = _count_members(training, members, len(dataset), open_)
    if makes_a_quick_trial(problem, training):
        return (wanted + 1) * whole
    if not open_.any:
        return wanted * whole
    part, to_the_end = count_tried(problem), tries_to_the_end(dataset)
    events = len(dataset) if tries_all_events(dataset) else part
    trial = complete_training(training, events, part)
    steps = 0
    if open_.features:
        short = shorten(trial, choose_features_part(to_the_end=to_the_end), part)
        deep = deepen(architecture, part) if open_network else None
        steps += (MOST_CANDIDATES + (deep is not None)) * count_steps(short, part)
    if not open_.decay:
        return steps + wanted * whole
    if to_the_end:
        ready = PAIR if members is None else 1
        return steps + (TRIED_TO_THE_END + max(wanted - ready, 0)) * whole
    # Two towers are tried once.
    steps += (1 + len(FEWER_SHRINKS)) * count_steps(shorten(trial, DECAY_PART, part), part)
    return steps + wanted * whole


def choose_defaults(
    problem: LearningProblem,
    architecture: AbstractArchitecture,
    training: Training,
    *,
    members: int | None = None,
    open_network: bool = False,
) -> Defaults:
    """The architecture with its features, and the training with its weight decay.

    Where no network was given, a deeper one is taken if it is clearly better in a short training.
    With few events, networks of every decay are trained to the end, and those that validation
    cannot tell from the best are the ensemble. With many, short trainings decide, also between
    networks where none was given, and one network is trained.
    """
    split = problem.split
    complete = complete_training(training, len(problem.dataset), len(split.train))
    open_ = _find_open(problem, architecture, training)
    wanted = _count_members(training, members, len(problem.dataset), open_)
    if makes_a_quick_trial(problem, training):
        quick = train_two_decays(Trials(problem, complete, to_the_end=True), architecture)
        chosen = dataclasses.replace(complete, weight_decay=quick.decay)
        return Defaults(
            architecture, chosen, (quick.reason,), quick.ready, missing=wanted - 1, begun=1
        )
    if not open_.any:
        return Defaults(architecture, complete, missing=wanted)
    part, on_all = plan_trials(problem)
    count = len(part.split.train)
    plan = complete if on_all else complete_training(training, count, count)
    trials = Trials(part, plan, on_all)
    reasons = []
    if open_.features:
        deep = deepen(architecture, trials.events) if open_network else None
        choice = choose_features(trials, architecture, deep)
        reasons.append(choice.reason)
        architecture = dataclasses.replace(architecture, x_features=choice.features)
        if deep is not None:
            deep = dataclasses.replace(deep, x_features=choice.features)
            architecture, why = choose_depth(trials, architecture, deep, choice.event_losses)
            reasons += why
    if not open_.decay:
        return Defaults(architecture, complete, tuple(reasons), missing=wanted)
    if on_all:
        tried = train_all_decays(trials, architecture, members)
        ready, chosen = tried.ready, dataclasses.replace(complete, weight_decay=tried.decay)
        missing = max(wanted - ready.members, 0)
        # Networks that were tried alone all began as the first member.
        begun = TRIED_TO_THE_END if members is None else 1
        return Defaults(architecture, chosen, (*reasons, tried.reason), ready, missing, begun)
    networks = list_networks(architecture) if open_network else [architecture]
    short = choose_by_short_trials(trials, networks)
    chosen = set_shrink(complete, short.shrink, len(split.train))
    return Defaults(short.architecture, chosen, (*reasons, short.reason), missing=wanted)
