"""`choose_defaults`: open settings of a fit, from the number of events and by trials."""

import dataclasses

from ...models.architecture import AbstractArchitecture
from ...models.features.features import Automatic
from ..training.members import LearningProblem, TrainedModel
from ..training.options import Training
from .features import choose_features
from .sizes import set_length
from .trials import FEWEST_VALIDATION_EVENTS, Trials, select_trial_events, wants_trials
from .weight_decay import choose_weight_decay, set_shrink, set_untried_decay


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What was chosen, in words why, and a network trained so already, if there is one."""

    architecture: AbstractArchitecture
    training: Training
    reasons: tuple[str, ...] = ()
    ready: TrainedModel | None = None


def complete_training(training: Training, events: int, training_events: int) -> Training:
    """The training with its open fields set for this number of events, without any trials."""
    return set_untried_decay(set_length(training, events, training_events), training_events)


def choose_defaults(
    problem: LearningProblem, architecture: AbstractArchitecture, training: Training
) -> Defaults:
    """The architecture with its features, and the training with its weight decay."""
    split = problem.split
    complete = complete_training(training, len(problem.dataset), len(split.train))
    open_features = isinstance(architecture.x_features, Automatic)
    open_decay = training.weight_decay is None
    possible = wants_trials(training) and len(split.validation) >= FEWEST_VALIDATION_EVENTS
    if not possible or not (open_features or open_decay):
        return Defaults(architecture, complete)
    trials = _plan_trials(problem, training)
    reasons, ready = [], None
    if open_features:
        architecture, reason = choose_features(trials, architecture)
        reasons.append(reason)
    if open_decay:
        choice = choose_weight_decay(trials, architecture)
        complete = set_shrink(complete, choice.shrink, len(split.train))
        ready = choice.ready
        reasons.append(choice.reason)
    return Defaults(architecture, complete, tuple(reasons), ready)


def _plan_trials(problem: LearningProblem, training: Training) -> Trials:
    part = select_trial_events(problem)
    count = len(part.split.train)
    on_all = count == len(problem.split.train)
    plan = complete_training(training, len(problem.dataset) if on_all else count, count)
    return Trials(part, plan, on_all)
