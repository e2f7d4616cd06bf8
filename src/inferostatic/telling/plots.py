"""Figures: the Dirichlet toy, errors of networks, truth against prediction, training.

Every function takes plain arrays and returns a `matplotlib.figure.Figure` that belongs to the
caller. Nothing touches `pyplot`, so no window opens, no figure is kept alive behind the scenes and
a machine without a display is enough. Colours are the Okabe-Ito set and perceptually uniform maps,
which stay distinct for colour-blind readers and in print.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from .check_plots import contours, diagnosis
from .look import BLUE as _BLUE
from .look import FAINT as _FAINT
from .look import HEAT as _HEAT
from .look import INK as _INK
from .look import VERMILION as _VERMILION
from .look import fix_ticks as _fix_ticks
from .look import look as _look
from .look import open_frame as _open_frame
from .look import panels as _panels

if TYPE_CHECKING:
    from ..learning.choose_width import WidthChoice

__all__ = [
    "contours",
    "diagnosis",
    "dirichlet_triangles",
    "error_by_instance",
    "training_history",
    "true_against_predicted",
    "width_choice",
]

# Sequences are named beside ArrayLike because its protocols reject tuples when checked at run time.
_Numbers = ArrayLike | Sequence[Any]

# A quantity that spans more than this factor is unreadable on a linear axis that starts at zero.
_LOG_ABOVE = 20.0


def _colour_bar(
    figure: Figure,
    image: ScalarMappable,
    panels: list[Axes],
    *,
    label: str,
    shrink: float = 1.0,
    extend: Literal["neither", "max"] = "neither",
) -> None:
    bar = figure.colorbar(
        image, ax=panels, extend=extend, shrink=shrink, aspect=20 * shrink, pad=0.02
    )
    _fix_ticks(bar.ax)
    bar.set_label(label)
    bar.outline.set_visible(False)


def _spans_decades(values: NDArray[np.float64]) -> bool:
    return bool(values.min() > 0 and values.max() > _LOG_ABOVE * values.min())


def _log_axis(axes: Axes, low: float, high: float) -> None:
    """Logarithmic y axis labelled with plain numbers at 1, 2 and 5 of each decade."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    decades = np.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator() if decades < 3 else LogLocator(subs="auto"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if decades < 6:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _finite(values: _Numbers, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{what} must be finite to be drawn: {int(bad.sum())} of {array.size} entries are not, "
            f"the first at index {first}; remove or repair those entries"
        )
    return array


def dirichlet_triangles(
    thetas: _Numbers = ((1.0, 2.0, 2.0), (1.5, 3.0, 5.0), (3.0, 3.0, 3.0)),
    *,
    names: Sequence[str] = ("$x_1$", "$x_2$", "$x_3$"),
    resolution: int = 400,
) -> Figure:
    """Densities of three-dimensional Dirichlet distributions on their triangle.

    Each point of the triangle is one x with x1 + x2 + x3 = 1; at the corner called xi that
    component is 1. The colour is the density with respect to dx1 dx2,
    Γ(Σθ) ∏ xᵢ^(θᵢ-1) / Γ(θᵢ), on one scale for all panels.

    Args:
        thetas: Parameter points, shape (n, 3) or (3,), all positive; one panel each.
        names: Labels of the three corners.
        resolution: Pixels along the base of a triangle.

    Returns:
        A figure with n panels and one colour bar.

    Raises:
        ValueError: If a parameter point is not three positive numbers.
    """
    points = np.atleast_2d(_finite(thetas, "thetas"))
    if points.ndim != 2 or points.shape[1] != 3 or points.shape[0] == 0 or (points <= 0).any():
        raise ValueError(
            "expected parameter points of three positive numbers each, shape (n, 3); "
            f"got shape {np.shape(thetas)} with values {points.tolist()}"
        )
    if len(names) != 3:
        raise ValueError(f"expected three corner names, got {len(names)}: {list(names)}")

    height = np.sqrt(3.0) / 2.0
    across = (np.arange(resolution) + 0.5) / resolution
    up = (np.arange(round(resolution * height)) + 0.5) / round(resolution * height)
    x3 = np.broadcast_to(up[:, None], (up.size, across.size))
    x2 = across[None, :] - x3 / 2.0
    simplex = np.stack([1.0 - x2 - x3, x2, x3])
    inside = (simplex > 0).all(axis=0)
    # Pixels cut by an edge have their centre just outside; they take the density on the edge, so
    # that the clipped image has no dark rim.
    log_x = np.log(np.clip(simplex, 1e-6, None))

    densities = []
    for theta in points:
        log_norm = gammaln(theta.sum()) - gammaln(theta).sum()
        densities.append(np.exp(log_norm + np.tensordot(theta - 1.0, log_x, axes=1)))
    # Below θ = 1 the density diverges at an edge: the scale then ends at a high quantile.
    diverges = bool((points < 1).any())
    tops = [
        np.quantile(density[inside], 0.99) if (theta < 1).any() else density[inside].max()
        for theta, density in zip(points, densities, strict=True)
    ]
    norm = Normalize(0.0, float(max(tops)))

    with _look():
        count = len(points)
        figure, panels = _panels(count, width=2.55 * count + 0.9, height=2.95, fixed_aspect=True)
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, height]])
        images = []
        for axes, theta, density in zip(panels, points, densities, strict=True):
            outline = Polygon(corners, closed=True, fill=False, edgecolor=_INK, linewidth=0.9)
            axes.add_patch(outline)
            image = axes.imshow(
                density,
                origin="lower",
                extent=(0.0, 1.0, 0.0, height),
                norm=norm,
                cmap=_HEAT,
                interpolation="bilinear",
            )
            image.set_clip_path(outline)
            images.append(image)
            sides = ("top", "top", "bottom")
            for corner, name, side in zip(corners, names, sides, strict=True):
                axes.text(
                    corner[0],
                    corner[1] + (0.025 if side == "bottom" else -0.03),
                    name,
                    horizontalalignment="center",
                    verticalalignment=side,
                    fontsize=12,
                )
            axes.set_title(rf"$\theta = ({', '.join(f'{t:g}' for t in theta)})$", fontsize=11)
            axes.set_xlim(-0.06, 1.06)
            axes.set_ylim(-0.12, height + 0.1)
            axes.set_aspect("equal")
            axes.set_axis_off()
        _colour_bar(
            figure,
            images[-1],
            panels,
            label=r"density $p(x;\theta)$",
            shrink=0.8,
            extend="max" if diverges else "neither",
        )
    return figure


def error_by_instance(
    errors: Mapping[str, _Numbers],
    standard_errors: Mapping[str, _Numbers],
    *,
    title: str,
    published: Mapping[str, float] | None = None,
    direct: Collection[str] | None = None,
    label: str = "mean squared error",
) -> Figure:
    """Error of every trained instance of every network on one task, best network first.

    Networks stand along the x axis in the order of their median error. The y axis starts at zero,
    or is logarithmic where the errors span more than a factor of 20.

    Args:
        errors: For each network the errors of its instances, shape (instances,).
        standard_errors: The statistical uncertainty of each of those, with the same keys and
            shapes; drawn as error bars.
        title: Title of the figure.
        published: Medians to compare with, for all or some of the networks.
        direct: The names of the networks that model their target directly; the others are drawn as
            inferostatic networks (ISN). By default those whose name contains "dir".
        label: What the errors are, for the y axis.

    Returns:
        A figure with one panel.

    Raises:
        ValueError: If names or shapes do not match, or a number is not finite.
    """
    if not errors:
        raise ValueError("expected the errors of at least one network, got an empty mapping")
    if set(errors) != set(standard_errors):
        raise ValueError(
            "errors and standard_errors must name the same networks: "
            f"got {sorted(errors)} and {sorted(standard_errors)}"
        )
    values = {name: _finite(errors[name], f"errors of {name!r}") for name in errors}
    bars = {name: _finite(standard_errors[name], f"standard errors of {name!r}") for name in errors}
    for name in values:
        if values[name].ndim != 1 or values[name].size == 0:
            raise ValueError(
                f"errors of {name!r}: expected shape (instances,), got {values[name].shape}"
            )
        if bars[name].shape != values[name].shape or (bars[name] < 0).any():
            raise ValueError(
                f"standard errors of {name!r}: expected {values[name].size} numbers that are not "
                f"negative, got shape {bars[name].shape} with minimum {bars[name].min():g}"
            )
    marks = dict(published or {})
    unknown = set(marks) - set(values) | set(direct or ()) - set(values)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are not among the networks {sorted(values)}")
    is_direct = set(direct) if direct is not None else {n for n in values if "dir" in n.lower()}

    order = sorted(values, key=lambda name: float(np.median(values[name])))
    with _look():
        figure, (axes,) = _panels(1, width=1.6 + 0.95 * max(len(order), 3), height=3.4)
        _open_frame(axes)
        for column, name in enumerate(order):
            colour, marker, size = (
                (_VERMILION, "s", 3.2) if name in is_direct else (_BLUE, "o", 3.6)
            )
            count = values[name].size
            place = column + (np.linspace(-0.26, 0.26, count) if count > 1 else np.zeros(1))
            axes.errorbar(
                place,
                values[name],
                yerr=bars[name],
                fmt=marker,
                color=colour,
                markersize=size,
                elinewidth=1.1,
                capsize=2.6,
                capthick=1.1,
                zorder=3,
                label=name,
            )
            axes.hlines(
                float(np.median(values[name])),
                column - 0.38,
                column + 0.38,
                colors=colour,
                linewidth=2.0,
                alpha=0.45,
                zorder=1.5,
            )
            if name in marks:
                axes.hlines(
                    marks[name],
                    column - 0.38,
                    column + 0.38,
                    colors=_INK,
                    linewidth=1.2,
                    linestyles=(0, (4, 2)),
                    zorder=2,
                )
        every = np.concatenate([*values.values(), np.array([*marks.values()], dtype=np.float64)])
        highest = max(float((values[n] + bars[n]).max()) for n in order)
        highest = max(highest, *marks.values()) if marks else highest
        if _spans_decades(every):
            _log_axis(axes, float(every.min()) / 1.35, highest * 1.35)
        else:
            axes.set_ylim(0.0, highest * 1.08 if highest > 0 else 1.0)
        axes.set_xlim(-0.6, len(order) - 0.4)
        axes.set_xticks(range(len(order)), [textwrap.fill(name, 12) for name in order])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel(label)
        axes.set_title(title)
        handles = _error_legend(
            isn=any(n not in is_direct for n in order),
            direct=any(n in is_direct for n in order),
            published=bool(marks),
        )
        # Outside the axes, because no corner is free of points for every set of errors.
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _error_legend(*, isn: bool, direct: bool, published: bool) -> list[Line2D]:
    dots: dict[str, Any] = {"linestyle": "none", "markersize": 4.5}
    handles = []
    if isn:
        handles.append(Line2D([], [], color=_BLUE, marker="o", label="ISN", **dots))
    if direct:
        handles.append(Line2D([], [], color=_VERMILION, marker="s", label="direct", **dots))
    handles.append(Line2D([], [], color=_FAINT, alpha=0.8, linewidth=2, label="median"))
    if published:
        handles.append(
            Line2D(
                [], [], color=_INK, linewidth=1.2, linestyle=(0, (4, 2)), label="published median"
            )
        )
    return handles


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
