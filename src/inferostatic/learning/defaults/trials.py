"""Trainings in which open settings are tried, and how the best is distinguished from chance.

All are judged on the same validation events with the same candidate sets, so differences between
them are far less noisy than the losses themselves.
"""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from ...models.architecture import AbstractArchitecture
from ..dataset.dataset import AbstractDataset
from ..training.members import LearningProblem, MemberSetting, TrainedModel, train_side_by_side
from ..training.options import Training, round_epochs
from .sizes import FEW_EVENTS

#: Events up to which networks of every weight decay are trained to the end on all of them.
TRY_ALL = FEW_EVENTS
#: Events up to which short trials use all of them.
TRY_SHORTLY = 40_000
#: Training events that short trials get where there are more, or where they are in files.
TRY_ON = 30_000
#: Validation events below which no difference is significant.
FEWEST_VALIDATION_EVENTS = 20
#: Standard errors by which a candidate must be better to displace one that is preferred.
CLEARLY = 3.0
#: Effort below which nothing is tried but two decays with few events.
LEAST_EFFORT = 0.5


@dataclasses.dataclass(frozen=True)
class Trials:
    """Events and a training to try candidates with.

    Attributes:
        problem: the fit's, with all events or a part of them.
        training: for so many events, with the default decay.
        to_the_end: whether candidates are trained as the fit itself, so that they can be kept.
    """

    problem: LearningProblem
    training: Training
    to_the_end: bool

    @property
    def x(self) -> np.ndarray:
        """Observables of the training events."""
        train = self.problem.split.train
        return self.problem.dataset.x[train.some(len(train))]

    @property
    def events(self) -> int:
        """Number of training events."""
        return len(self.problem.split.train)

    def shorten(self, part: float) -> Training:
        """The training with a part of its epochs."""
        return shorten(self.training, part, self.events)

    def run(
        self,
        groups: Sequence[tuple[AbstractArchitecture, Sequence[MemberSetting]]],
        training: Training,
        what: str,
    ) -> list[list[TrainedModel]]:
        """A trained network for each setting of each architecture."""
        return train_side_by_side(self.problem, groups, training, title=f"choosing {what}")


def shorten(training: Training, part: float, training_events: int) -> Training:
    """The training with a part of its epochs."""
    return round_epochs(training, part * (training.epochs or 1), training_events)


def wants_trials(training: Training) -> bool:
    """Whether open settings are chosen by trying them out."""
    if training.choose is not None:
        return training.choose
    return training.epochs is None and training.effort >= LEAST_EFFORT


def makes_trials(problem: LearningProblem, training: Training) -> bool:
    """Whether they are, with so many validation events."""
    return wants_trials(training) and len(problem.split.validation) >= FEWEST_VALIDATION_EVENTS


def makes_a_quick_trial(problem: LearningProblem, training: Training) -> bool:
    """Whether a fit of little effort has so few events that two decays are tried to the end."""
    open_ = training.choose is None and training.epochs is None and training.weight_decay is None
    quick = open_ and training.effort < LEAST_EFFORT and tries_to_the_end(problem.dataset)
    return quick and len(problem.split.validation) >= FEWEST_VALIDATION_EVENTS


def tries_all_events(dataset: AbstractDataset) -> bool:
    """Whether candidates are tried on all events."""
    return len(dataset) <= TRY_SHORTLY and dataset.in_memory


def tries_to_the_end(dataset: AbstractDataset) -> bool:
    """Whether candidates are trained as the fit itself."""
    return len(dataset) <= TRY_ALL and tries_all_events(dataset)


def count_tried(problem: LearningProblem) -> int:
    """Training events that trials get."""
    count = len(problem.split.train)
    return count if tries_all_events(problem.dataset) else min(count, TRY_ON)


def plan_trials(problem: LearningProblem) -> tuple[LearningProblem, bool]:
    """The events that candidates are tried on, and whether they are trained to the end."""
    dataset, split = problem.dataset, problem.split
    if tries_all_events(dataset):
        return problem, tries_to_the_end(dataset)
    part, split = dataset.select(split.train.some(TRY_ON), split.validation)
    return dataclasses.replace(problem, dataset=part, split=split), False


def find_first_within_error(losses: np.ndarray, errors: float, worth: float = 0.0) -> int:
    """The first candidate whose loss is within so many standard errors, or `worth`, of the lowest.

    Candidates come in the order of preference, and `losses` are those of the same events.
    """
    best = int(np.argmin(losses.mean(axis=1)))
    excess, error = find_excess_and_error(losses, best)
    return int(np.flatnonzero(excess <= np.maximum(errors * error, worth))[0])


def find_excess_and_error(losses: np.ndarray, best: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss above that of `best`, and its standard error over events, for each candidate."""
    excess = losses - losses[best]
    error = excess.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    return excess.mean(axis=1), error


def describe_choice(what: str, names: list[str], losses: np.ndarray, best: int) -> str:
    """The choice in words, with what it was chosen among."""
    excess, error = find_excess_and_error(losses, best)
    others = ", ".join(
        f"{name} {value:+.4f} ± {sigma:.4f}"
        for j, (name, value, sigma) in enumerate(zip(names, excess, error, strict=True))
        if j != best
    )
    return f"{what}: {names[best]}; validation loss of the others, relative to it: {others}"


def describe_cost(trials: Trials, training: Training, began: float) -> str:
    """What trials cost, in words."""
    seconds = time.perf_counter() - began
    return f"({trials.events:,} events, {training.epochs} epochs each, {seconds:.1f} s in all)"
