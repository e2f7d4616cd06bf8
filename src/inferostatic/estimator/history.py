"""What training leaves beside the model: what happened, and where the model can be trusted."""

import dataclasses

import numpy as np

from ..bounds import within

#: Fields of `Region`, the names of its arrays in a file.
REGION = ("theta_low", "theta_high", "x_low", "x_high")
#: Arrays of `History`, by their names in a file.
HISTORY = ("train_loss", "validation_loss", "seconds", "best_epoch")


@dataclasses.dataclass(frozen=True)
class History:
    """What happened during training, for every epoch and member.

    Attributes:
        train_loss: mean training loss, shape (epochs, members).
        validation_loss: loss on validation events, shape (epochs, members); NaN without a split.
        seconds: wall time of each epoch, shape (epochs,).
        best_epoch: the epoch whose weights are used, counted from 1, shape (members,).
        stopped: why training stopped, in words.
        warnings: remarks made during training.
        choices: what was chosen by validation loss before training, in words.
        resumed: whether the fit went on from a checkpoint; seconds are those of the epochs as they
            were first made.
    """

    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray
    best_epoch: np.ndarray
    stopped: str
    warnings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    resumed: bool = False


@dataclasses.dataclass(frozen=True)
class Region:
    """Where the model was trained: θ that can be trusted, and the range of each observable.

    Attributes:
        theta_low, theta_high: edges of the trained region, shape (d,).
        x_low, x_high: range of each observable in the training events, shape (D,).
    """

    theta_low: np.ndarray
    theta_high: np.ndarray
    x_low: np.ndarray
    x_high: np.ndarray

    def bound_x(self, x: np.ndarray) -> np.ndarray:
        """The observables, brought to a range where their means exist."""
        middle, width = (self.x_low + self.x_high) / 2, self.x_high - self.x_low
        return np.tanh(4 * (np.asarray(x, np.float64) - middle) / np.maximum(width, 1e-300))

    def contains_theta(self, theta: np.ndarray) -> np.ndarray:
        """Which θ lie in the region, to rounding: shape (n, d) gives (n,), and (d,) gives ()."""
        return np.asarray(within(theta, self.theta_low, self.theta_high).all(axis=-1))

    def contains_x(self, x: np.ndarray) -> np.ndarray:
        """Which events lie in the range of every observable, to rounding; as `contains_theta`."""
        return np.asarray(within(x, self.x_low, self.x_high).all(axis=-1))
