"""Figures: the Dirichlet toy, errors of networks, truth against prediction, training.

Every function takes plain arrays and returns a `matplotlib.figure.Figure` that belongs to the
caller. Nothing touches `pyplot`, so no window opens, no figure is kept alive behind the scenes and
a machine without a display is enough. Colours are the Okabe-Ito set and perceptually uniform maps,
which stay distinct for colour-blind readers and in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from .look import BLUE as _BLUE
from .look import FAINT as _FAINT
from .look import HEAT as _HEAT
from .look import INK as _INK
from .look import VERMILION as _VERMILION
from .look import colour_bar as _colour_bar
from .look import log_axis as _log_axis
from .look import look as _look
from .look import open_frame as _open_frame
from .look import panels as _panels
from .look import spans_decades as _spans_decades
from .numbers import Numbers as _Numbers
from .numbers import finite as _finite

if TYPE_CHECKING:
    from ..learning.choose_width import WidthChoice


def true_against_predicted(
    true: _Numbers,
    predicted: _Numbers,
    *,
    names: Sequence[str] | None = None,
    label: str = "value",
    bins: int = 120,
) -> Figure:
    """Density heat maps of predicted against true values, one panel for each column.

    The colour is the number of events in a cell, on a logarithmic scale shared by all panels;
    empty cells stay white and the dashed diagonal is a perfect prediction. Each panel shows the
    range that holds 99.9% of both quantities; a note says how many events lie beyond it.

    Args:
        true: Exact values, shape (n,) or (n, columns).
        predicted: Predictions, of the same shape.
        names: One name for each column, used as panel titles; none by default.
        label: The quantity, for the axis labels ("score" gives "true score").
        bins: Cells along each axis.

    Returns:
        A figure with one panel for each column and one colour bar.

    Raises:
        ValueError: If shapes or the number of names do not match, or a value is not finite.
    """
    truth, guess = _finite(true, "true"), _finite(predicted, "predicted")
    if truth.shape != guess.shape or truth.ndim not in (1, 2) or truth.size == 0:
        raise ValueError(
            "expected true and predicted of one shape, (n,) or (n, columns) with n > 0; "
            f"got {truth.shape} and {guess.shape}"
        )
    truth, guess = truth.reshape(len(truth), -1), guess.reshape(len(guess), -1)
    count = truth.shape[1]
    if names is not None and len(names) != count:
        raise ValueError(f"expected {count} names, one for each column, got {len(names)}")

    tables, edges = [], []
    for t, p in zip(truth.T, guess.T, strict=True):
        low, high = _common_range(t, p)
        edge = np.linspace(low, high, bins + 1)
        tables.append(np.histogram2d(t, p, bins=(edge, edge))[0])
        edges.append(edge)
    norm = LogNorm(1.0, max(2.0, *(float(table.max()) for table in tables)))

    with _look():
        figure, panels = _panels(
            count,
            width=2.75 * count + 1.2,
            height=3.05 if names is None else 3.3,
            fixed_aspect=True,
        )
        meshes = []
        for column, (axes, table, edge) in enumerate(zip(panels, tables, edges, strict=True)):
            # Rasterised, because thousands of vector cells would make an SVG of megabytes.
            counts = np.ma.masked_equal(table.T, 0)
            meshes.append(
                axes.pcolormesh(edge, edge, counts, norm=norm, cmap=_HEAT, rasterized=True)
            )
            axes.plot(
                edge[[0, -1]],
                edge[[0, -1]],
                color=_VERMILION,
                linewidth=1.3,
                linestyle=(0, (5, 3)),
                label="perfect prediction",
            )
            axes.set_xlim(edge[0], edge[-1])
            axes.set_ylim(edge[0], edge[-1])
            axes.set_aspect("equal")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.set_xlabel(f"true {label}")
            if column == 0:
                axes.set_ylabel(f"predicted {label}")
            if names is not None:
                axes.set_title(names[column], fontsize=11)
            beyond = len(truth) - int(table.sum())
            if beyond:
                axes.text(
                    0.97,
                    0.03,
                    f"{100.0 * beyond / len(truth):.2g}% outside",
                    fontsize=7.5,
                    transform=axes.transAxes,
                    horizontalalignment="right",
                    color=_FAINT,
                )
        _colour_bar(figure, meshes[-1], panels, label="events per cell")
    return figure


def _common_range(t: NDArray[np.float64], p: NDArray[np.float64]) -> tuple[float, float]:
    low = min(np.quantile(t, 0.0005), np.quantile(p, 0.0005))
    high = max(np.quantile(t, 0.9995), np.quantile(p, 0.9995))
    margin = 0.02 * (high - low)
    if margin == 0.0:
        # All values equal: any window around them will do.
        margin = max(abs(float(high)), 1.0) * 0.5
    return float(low - margin), float(high + margin)


def training_history(
    train_loss: _Numbers,
    validation_loss: _Numbers | None = None,
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
        train_loss: Shape (epochs,) or (members, epochs).
        validation_loss: The same for the validation events.
        title: Title of the figure.
        label: What the loss is, for the y axis.
        best_epoch: For each member the epoch that was kept, counted from 1; marked on the
            validation line (the training line where there is no validation).
        truth: The loss of the exact likelihood, as a line to compare with.

    Returns:
        A figure with one panel.

    Raises:
        ValueError: If shapes do not match.
    """
    train = np.atleast_2d(np.asarray(train_loss, dtype=np.float64))
    curves = [("training", train, _BLUE, "solid")]
    if validation_loss is not None:
        validation = np.atleast_2d(np.asarray(validation_loss, dtype=np.float64))
        if validation.shape != train.shape:
            raise ValueError(
                "expected training and validation losses of one shape, "
                f"got {train.shape} and {validation.shape}"
            )
        curves.append(("validation", validation, _VERMILION, "dashed"))
    if train.ndim != 2 or not np.isfinite(train).any():
        raise ValueError(
            "expected finite losses of shape (epochs,) or (members, epochs), "
            f"got shape {train.shape} with {int(np.isfinite(train).sum())} finite entries"
        )
    members, length = train.shape
    best = list(best_epoch) if best_epoch is not None else []
    if best and (len(best) != members or min(best) < 1 or max(best) > length):
        raise ValueError(
            f"expected best_epoch to hold {members} epochs between 1 and {length}, got {best}"
        )

    epochs = np.arange(1, length + 1)
    with _look():
        figure, (axes,) = _panels(1, width=5.0, height=3.2)
        _open_frame(axes)
        for name, losses, colour, dashes in curves:
            if members > 1:
                for member in losses:
                    axes.plot(epochs, member, color=colour, linewidth=0.8, alpha=0.45)
            note = f"{name}, median of {members}" if members > 1 else name
            axes.plot(
                epochs,
                _median_of_members(losses),
                color=colour,
                linewidth=1.8,
                linestyle=dashes,
                label=note,
                marker="o" if length == 1 else None,
            )
        if best:
            _, losses, colour, _ = curves[-1]
            axes.plot(
                best,
                losses[np.arange(members), np.asarray(best) - 1],
                linestyle="none",
                marker="o",
                markersize=5,
                markerfacecolor="white",
                markeredgecolor=colour,
                label="epoch kept",
                zorder=4,
            )
        if truth is not None:
            axes.axhline(truth, color=_INK, linewidth=1.0, linestyle=(0, (1, 1.5)), label="truth")
        shown = np.concatenate([losses[np.isfinite(losses)] for _, losses, _, _ in curves])
        if _spans_decades(shown):
            low = min(float(shown.min()), truth if truth and truth > 0 else np.inf)
            _log_axis(axes, low / 1.2, float(shown.max()) * 1.2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(1 - 0.02 * length, length * 1.02)
        axes.set_xlabel("epoch")
        axes.set_ylabel(label)
        if title:
            axes.set_title(title)
        axes.legend(loc="best")
    return figure


def _median_of_members(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    # `nanmedian` warns on columns without any number, which padding makes ordinary here.
    middle = np.full(losses.shape[1], np.nan)
    filled = np.isfinite(losses).any(axis=0)
    middle[filled] = np.nanmedian(losses[:, filled], axis=0)
    return middle


def width_choice(choice: WidthChoice) -> Figure:
    """What `ist.choose_width` found: errors, variance of the targets and saturation by width.

    The first panel has the predicted error of Kernel Score Estimation, its two parts, squared bias
    and noise, and the squared bias with x drawn at θ instead of θ + ε; a vertical line marks the
    recommended width. Where widths differ between parameters, the axis is that of the one whose
    widths span the most.

    Args:
        choice: The result of `ist.choose_width`.

    Returns:
        A figure with three panels.
    """
    widths = np.asarray(choice.widths, dtype=np.float64)
    column = int(np.argmax(widths.max(axis=0) / widths.min(axis=0)))
    order = np.argsort(widths[:, column], kind="stable")
    place = widths[order, column]
    same = bool(np.all(np.ptp(widths, axis=1) <= 1e-6 * widths.max(axis=1)))
    of_one = "" if same else f" of {choice.theta_names[column]}"
    noise = choice.predicted_error - choice.bias
    lines: list[tuple[str, NDArray[np.float64], dict[str, Any]]] = [
        ("predicted error", choice.predicted_error, {"color": _INK, "linewidth": 2.0}),
        ("squared bias", choice.bias, {"color": _BLUE, "marker": "o", "markersize": 3.5}),
        ("the same, x at θ", choice.bias_at_theta, {"color": _BLUE, "linestyle": (0, (1, 1.5))}),
        ("noise", noise, {"color": _VERMILION, "linestyle": "dashed"}),
    ]
    with _look():
        figure, (errors, variance, saturation) = _panels(3, width=9.6, height=3.2)
        for name, values, style in lines:
            errors.plot(place, values[order], label=name, **style)
        errors.fill_between(
            place,
            np.maximum(choice.bias - choice.bias_error, 0.0)[order],
            (choice.bias + choice.bias_error)[order],
            color=_BLUE,
            alpha=0.2,
            linewidth=0,
        )
        shown = np.concatenate([choice.bias, noise, choice.predicted_error])
        shown = shown[shown > 0]
        if shown.size:
            # Far below the predicted error no line matters any more.
            low = max(float(shown.min()), float(choice.predicted_error.min()) / 100)
            _log_axis(errors, low / 1.5, float(shown.max()) * 1.5)
        variance.plot(place, choice.variance[order], color=_INK, marker="o", markersize=3.5)
        variance.set_yscale("log")
        saturation.plot(
            place, 100 * choice.saturation[order], color=_INK, marker="o", markersize=3.5
        )
        saturation.set_ylim(bottom=0.0)
        titles = ("error of the score", "variance of the target", "saturated scores, %")
        for axes, title in zip((errors, variance, saturation), titles, strict=True):
            _open_frame(axes)
            if len(place) > 1:
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axes.xaxis.set_minor_locator(NullLocator())
            axes.axvline(
                widths[choice.best, column], color=_FAINT, linewidth=1.0, linestyle=(0, (4, 2))
            )
            axes.set_title(title)
            axes.set_xlabel(f"width{of_one}")
        figure.legend(
            *errors.get_legend_handles_labels(), loc="outside lower center", ncols=len(lines)
        )
    return figure
