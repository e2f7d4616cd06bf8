"""Which epoch's weights are kept: the best by validation loss, if clearly better than the last."""

import dataclasses

import numpy as np
from jaxtyping import Array

#: Standard errors by which an earlier epoch must be better than the last to be preferred: the
#: lowest of many noisy losses is low by chance.
CLEARLY_BETTER = 2.0


@dataclasses.dataclass(frozen=True)
class BestEpoch:
    """The best epoch of every member so far.

    Attributes:
        weights: of that epoch, shape (members, parameters).
        loss: its validation loss, shape (members,).
        epoch: its number, counted from 1, shape (members,).
    """

    weights: np.ndarray
    loss: np.ndarray
    epoch: np.ndarray

    @classmethod
    def before_training(cls, weights: Array) -> "BestEpoch":
        """Nothing yet."""
        # On the host, where the best are picked without a program.
        members = len(weights)
        return cls(np.asarray(weights), np.full(members, np.inf), np.zeros(members, int))

    def update(
        self, weights: np.ndarray, loss: np.ndarray, epoch: int, *, keep_best: bool
    ) -> "BestEpoch":
        """With another epoch, which replaces the best where it is better, or `keep_best` is off."""
        better = loss < self.loss if keep_best else np.ones(len(loss), bool)
        return BestEpoch(
            weights=np.where(better[:, None], weights, self.weights),
            loss=np.fmin(self.loss, loss),
            epoch=np.where(better, epoch, self.epoch),
        )


@dataclasses.dataclass(frozen=True)
class KeptEpoch:
    """What is kept of a training: weights, their epochs, and losses of the validation events."""

    weights: np.ndarray
    epoch: np.ndarray
    event_losses: np.ndarray


def choose_epoch(
    best: BestEpoch, last: KeptEpoch, best_losses: np.ndarray, *, stopped_early: bool
) -> KeptEpoch:
    """For each member the best epoch, if training stopped early or it is clearly better.

    Args:
        best: the best epoch of each member.
        last: the last epoch, with its losses of the validation events.
        best_losses: the same losses for the best epoch, shape (members, events).
        stopped_early: whether the last epochs brought nothing.
    """
    take = np.full(len(best.epoch), stopped_early)
    take = take | is_clearly_better(best_losses, last.event_losses)
    return KeptEpoch(
        weights=np.where(take[:, None], best.weights, last.weights),
        epoch=np.where(take, best.epoch, last.epoch),
        event_losses=np.where(take[:, None], best_losses, last.event_losses),
    )


def is_clearly_better(
    first: np.ndarray, second: np.ndarray, errors: float = CLEARLY_BETTER
) -> np.ndarray:
    """For each member, whether the first losses are lower by so many standard errors."""
    if first.shape[1] < 2:
        return np.asarray(first.mean(axis=1) < second.mean(axis=1))
    gain = second - first
    error = gain.std(axis=1, ddof=1) / np.sqrt(gain.shape[1])
    return np.asarray(gain.mean(axis=1) > errors * error)
