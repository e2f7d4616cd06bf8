"""What training leaves beside the model: what happened, and where the model can be trusted."""

import dataclasses

import numpy as np

REGION = ("theta_low", "theta_high", "x_low", "x_high")
HISTORY = ("train_loss", "validation_loss", "seconds", "best_epoch")


@dataclasses.dataclass(frozen=True)
class History:
    """What happened during training, for every epoch and member.

    Attributes:
        train_loss: mean training loss, shape (epochs, members).
        validation_loss: loss on held-out events, shape (epochs, members); NaN without a split.
        seconds: wall time of each epoch, shape (epochs,).
        best_epoch: the epoch whose weights were kept, counted from 1, shape (members,).
        stopped: why training stopped, in words.
        warnings: remarks made during training.
        choices: what was chosen by validation loss before training, in words.
    """

    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray
    best_epoch: np.ndarray
    stopped: str
    warnings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Region:
    """Where the model was trained: θ that can be trusted, and the range of each observable."""

    theta_low: np.ndarray
    theta_high: np.ndarray
    x_low: np.ndarray
    x_high: np.ndarray
