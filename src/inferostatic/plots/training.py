"""Losses during training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..estimator.history import History
from ..inputs import as_floats, as_number
from .arrays import Numbers, as_label
from .style import (
    BLUE,
    INK,
    VERMILION,
    make_panels,
    open_frame,
    spans_decades,
    use_log_axis,
    use_style,
)


def training_history(
    train_loss: History | Numbers,
    validation_loss: Numbers | None = None,
    *,
    title: str = "",
    label: str = "loss",
    best_epoch: Sequence[int] | None = None,
    truth: float | None = None,
) -> Figure:
    """Training and validation loss per epoch of one or several members.

    Each member is a thin line and the median over members a thick one. Members that stopped early
    may be padded with NaN at the end.

    Args:
        train_loss: The `history` of an estimator, which has everything; or training losses of
            shape (epochs,) or (members, epochs).
        validation_loss: The same for the validation events.
        title: Title of the figure.
        label: What the loss is, for the y axis.
        best_epoch: For each member the epoch that was kept, counted from 1; marked on the
            validation line (the training line where there is no validation).
        truth: The loss of the exact likelihood, as a line to compare with.
    """
    if isinstance(train_loss, History):
        history = train_loss
        train_loss, best_epoch = history.train_loss.T, history.best_epoch.tolist()
        if np.isfinite(history.validation_loss).any():
            validation_loss = history.validation_loss.T
    title, label = as_label(title, "title"), as_label(label, "label")
    truth = None if truth is None else as_number(truth, "truth")
    train = _as_losses(train_loss, "train_loss")
    curves = [_Curve("training", train, BLUE, "solid")]
    if validation_loss is not None:
        validation = _as_losses(validation_loss, "validation_loss")
        curves.append(_Curve("validation", validation, VERMILION, "dashed"))
    best = _as_epochs(best_epoch)
    _check_losses(curves, best)
    with use_style():
        figure, (axes,) = make_panels(1, width=5.0, height=3.2)
        open_frame(axes)
        for curve in curves:
            _draw_curve(axes, curve)
        if best:
            _mark_epochs(axes, curves[-1], best)
        if truth is not None:
            axes.axhline(truth, color=INK, linewidth=1.0, linestyle=(0, (1, 1.5)), label="truth")
        shown = np.concatenate([curve.losses[np.isfinite(curve.losses)] for curve in curves])
        if spans_decades(shown):
            low = min(float(shown.min()), truth if truth and truth > 0 else np.inf)
            use_log_axis(axes, low / 1.2, float(shown.max()) * 1.2)
        length = train.shape[1]
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlim=(1 - 0.02 * length, length * 1.02), xlabel="epoch", ylabel=label)
        if title:
            axes.set_title(title)
        axes.legend(loc="best")
    return figure


def _as_losses(losses: Numbers, name: str) -> NDArray[np.float64]:
    """Losses of shape (members, epochs); NaN pads members that stopped early."""
    table = np.atleast_2d(as_floats(losses, name).astype(np.float64))
    if np.isinf(table).any():
        raise ValueError(f"{name} must be finite to be drawn, or NaN where a member had stopped")
    return table


def _as_epochs(epochs: Sequence[int] | None) -> list[int]:
    given = np.zeros(0) if epochs is None else as_floats(epochs, "best_epoch")
    if given.ndim != 1 or not np.isfinite(given).all() or (given != np.rint(given)).any():
        raise ValueError(f"best_epoch must be one whole number for each member, got {epochs!r}")
    return [int(epoch) for epoch in given]


class _Curve(NamedTuple):
    """Losses of shape (members, epochs), and how they are drawn."""

    name: str
    losses: NDArray[np.float64]
    colour: str
    dashes: str


def _check_losses(curves: list[_Curve], best: list[int]) -> None:
    train = curves[0].losses
    if curves[-1].losses.shape != train.shape:
        raise ValueError(
            "expected training and validation losses of one shape, "
            f"got {train.shape} and {curves[-1].losses.shape}"
        )
    if train.ndim != 2 or not np.isfinite(train).any():
        raise ValueError(
            "expected finite losses of shape (epochs,) or (members, epochs), "
            f"got shape {train.shape} with {int(np.isfinite(train).sum())} finite entries"
        )
    members, length = train.shape
    if best and (len(best) != members or min(best) < 1 or max(best) > length):
        raise ValueError(
            f"expected best_epoch to hold {members} epochs between 1 and {length}, got {best}"
        )


def _draw_curve(axes: Axes, curve: _Curve) -> None:
    members, length = curve.losses.shape
    epochs = np.arange(1, length + 1)
    if members > 1:
        for member in curve.losses:
            axes.plot(epochs, member, color=curve.colour, linewidth=0.8, alpha=0.45)
    axes.plot(
        epochs,
        _median_of_members(curve.losses),
        color=curve.colour,
        linewidth=1.8,
        linestyle=curve.dashes,
        label=f"{curve.name}, median of {members}" if members > 1 else curve.name,
        marker="o" if length == 1 else None,
    )


def _mark_epochs(axes: Axes, curve: _Curve, best: list[int]) -> None:
    losses = curve.losses[np.arange(len(best)), np.asarray(best) - 1]
    rings: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": curve.colour}
    axes.plot(best, losses, "o", markersize=5, **rings, label="epoch kept", zorder=4)


def _median_of_members(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    # `nanmedian` warns on columns without any number, which padding makes ordinary here.
    middle = np.full(losses.shape[1], np.nan)
    filled = np.isfinite(losses).any(axis=0)
    middle[filled] = np.nanmedian(losses[:, filled], axis=0)
    return middle
