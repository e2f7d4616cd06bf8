"""When training stops: after all epochs, or early, when the validation loss no longer falls."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Stop:
    """Why training stopped, in words, and whether before the last epoch was due."""

    reason: str
    early: bool


@dataclasses.dataclass(frozen=True)
class StoppingRule:
    """Stop when no member has a better validation loss in `patience` epochs, or at the end.

    Attributes:
        epochs: to run at most.
        patience: epochs without improvement; None never stops early.
    """

    epochs: int
    patience: int | None

    def decide(self, validation_loss: np.ndarray) -> Stop | None:
        """Whether to stop after these losses, shape (epochs so far, members)."""
        done = len(validation_loss)
        if done and self.patience is not None:
            since = done - find_last_improvement(validation_loss)
            if (since >= self.patience).all():
                return Stop(
                    f"no better validation loss in {self.patience} epochs, at epoch {done} of "
                    f"{self.epochs}",
                    early=True,
                )
        return (
            None if done < self.epochs else Stop(f"all {self.epochs} epochs were run", early=False)
        )


def find_last_improvement(losses: np.ndarray) -> np.ndarray:
    """The epoch, counted from 1, with the lowest loss so far, for each member."""
    return np.argmin(np.where(np.isfinite(losses), losses, np.inf), axis=0) + 1
