"""What training leaves beside the model: what happened, and where the model can be trusted."""

import dataclasses

import numpy as np

from ..bounds import within
from ..summary import AbstractSummarised, Summary, SummaryTable, count, list_parts, tabulate_first

#: Fields of `Region`, the names of its arrays in a file.
REGION = ("theta_low", "theta_high", "x_low", "x_high")
#: Arrays of `History`, by their names in a file.
HISTORY = ("train_loss", "validation_loss", "seconds", "best_epoch")


@dataclasses.dataclass(frozen=True, repr=False)
class History(AbstractSummarised):
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

    @property
    def best_loss(self) -> float:
        """The smallest validation loss of all members; NaN where none was measured."""
        measured = self.validation_loss[np.isfinite(self.validation_loss)]
        return float(measured.min()) if len(measured) else float("nan")

    def __repr__(self) -> str:
        """Length, loss and why it ended, in a line."""
        epochs, members = np.shape(self.train_loss)
        loss = "" if np.isnan(self.best_loss) else f"; validation loss {self.best_loss:.4f}"
        return (
            f"History({count(epochs, 'epoch')} of {count(members, 'member')} in "
            f"{np.sum(self.seconds):.3g} s{loss}; {self.stopped})"
        )

    def _summarise(self) -> Summary:
        epochs, members = np.shape(self.train_loss)
        best = np.clip(np.asarray(self.best_epoch, int), 1, max(epochs, 1)) - 1
        rows = range(members if epochs else 0)
        columns = {
            "member": [f"{member + 1}" for member in rows],
            "epoch kept": [f"{self.best_epoch[member]}" for member in rows],
            "training loss": [f"{self.train_loss[best[m], m]:.5g}" for m in rows],
            "validation loss": [f"{self.validation_loss[best[m], m]:.5g}" for m in rows],
        }
        again = ", resumed from a checkpoint" if self.resumed else ""
        return Summary(
            f"Training: {count(epochs, 'epoch')} in {np.sum(self.seconds):.3g} s{again}",
            (
                SummaryTable(columns),
                f"stopped: {self.stopped}",
                *(f"chosen: {choice}" for choice in self.choices),
                *(f"! {warning}" for warning in self.warnings),
            ),
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Region(AbstractSummarised):
    """Where the model was trained: θ that can be trusted, and the range of each observable.

    Attributes:
        theta_low, theta_high: edges of the trained region, shape (d,).
        x_low, x_high: range of each observable in the training events, shape (D,).
    """

    theta_low: np.ndarray
    theta_high: np.ndarray
    x_low: np.ndarray
    x_high: np.ndarray

    def __repr__(self) -> str:
        """The edges, in a line."""
        ends = zip(self.theta_low, self.theta_high, strict=True)
        theta = list_parts(f"{low:.4g} to {high:.4g}" for low, high in ends)
        return f"Region(theta: {theta}; {count(len(self.x_low), 'observable')})"

    def _summarise(self) -> Summary:
        def edges(name: str, low: np.ndarray, high: np.ndarray) -> tuple[SummaryTable | str, ...]:
            columns = {
                name: [f"{number}" for number in range(len(low))],
                "from": [f"{value:.4g}" for value in low],
                "to": [f"{value:.4g}" for value in high],
            }
            return tabulate_first(columns)

        parts = edges("parameter", self.theta_low, self.theta_high)
        return Summary("Trained region", parts + edges("observable", self.x_low, self.x_high))

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
