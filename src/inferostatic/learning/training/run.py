"""A training under way and what came of one."""

import dataclasses

import numpy as np

from ...estimator.history import History
from .best_epoch import BestEpoch
from .steps import State


@dataclasses.dataclass(frozen=True)
class Run:
    """All that the epochs so far have left: whoever has it can go on from here.

    Attributes:
        state: weights of all members and the optimiser's memory.
        best: the best epoch of every member.
        train_loss, validation_loss: of every epoch, shape (epochs, members).
        seconds: wall time of every epoch, shape (epochs,).
    """

    state: State
    best: BestEpoch
    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.seconds)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What came of a training.

    Attributes:
        weights: of every member, shape (members, parameters).
        history: losses by epoch.
        event_losses: loss of every validation event for every member, shape (members, events).
    """

    weights: np.ndarray
    history: History
    event_losses: np.ndarray
