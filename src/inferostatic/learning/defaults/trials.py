"""Short trainings in which open settings are tried, and how the best is distinguished from chance.

Candidates are trained side by side in one compiled batch, for a shorter time and, where events are
many, on a part of them. All are judged on the same validation events with the same candidate sets,
so differences between them are far less noisy than the losses themselves.
"""

import dataclasses

import numpy as np

from ...models.architecture import AbstractArchitecture
from ..training.members import LearningProblem, MemberSetting, TrainedModel, train_side_by_side
from ..training.options import Training

#: Events up to which candidates are trained on all of them.
TRY_ALL = 15_000
#: Training events that they get where there are more.
TRY_ON = 10_000
#: Validation events below which no difference is significant.
FEWEST_VALIDATION_EVENTS = 20
#: Standard errors by which a candidate must be better to displace one that is preferred.
CLEARLY = 3.0


@dataclasses.dataclass(frozen=True)
class Trials:
    """Events and a training to try candidates with.

    Attributes:
        problem: the fit's, with all events or a part of them.
        training: whose epochs are taken, or a part of them.
        on_all: whether these are all events, so that the best candidate can be kept.
    """

    problem: LearningProblem
    training: Training
    on_all: bool

    @property
    def x(self) -> np.ndarray:
        """Observables of the training events."""
        train = self.problem.split.train
        return self.problem.dataset.x[train.some(len(train))]

    def shorten(self, part: float) -> Training:
        """The training with a part of its epochs."""
        epochs = max(1, round(part * (self.training.epochs or 1)))
        return dataclasses.replace(self.training, epochs=epochs)

    def run(
        self,
        architecture: AbstractArchitecture,
        training: Training,
        settings: list[MemberSetting],
        what: str,
    ) -> list[TrainedModel]:
        """A trained network for each setting."""
        title = f"choosing {what}"
        return train_side_by_side(self.problem, architecture, training, settings, title=title)


def wants_trials(training: Training) -> bool:
    """Whether open settings are chosen by trying them out."""
    return training.epochs is None if training.choose is None else training.choose


def select_trial_events(problem: LearningProblem) -> LearningProblem:
    """The events that candidates are tried on; those for validation stay as they are."""
    dataset, split = problem.dataset, problem.split
    if len(dataset) <= TRY_ALL and dataset.in_memory:
        return problem
    part, split = dataset.select(split.train.some(TRY_ON), split.validation)
    return dataclasses.replace(problem, dataset=part, split=split)


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
