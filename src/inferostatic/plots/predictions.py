"""Predictions against true values, as heat maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..inputs import as_count
from .arrays import Numbers, as_finite, as_label, require_names
from .names import show_name
from .style import FAINT, HEAT, VERMILION, add_colour_bar, make_panels, use_style

#: Most cells along an axis of a heat map.
MOST_CELLS = 10_000


def true_against_predicted(
    true: Numbers,
    predicted: Numbers,
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
    """
    truth, guess = as_finite(true, "true"), as_finite(predicted, "predicted")
    if truth.shape != guess.shape or truth.ndim not in (1, 2) or truth.size == 0:
        raise ValueError(
            "expected true and predicted of one shape, (n,) or (n, columns) with n > 0; "
            f"got {truth.shape} and {guess.shape}"
        )
    truth, guess = truth.reshape(len(truth), -1), guess.reshape(len(guess), -1)
    count = truth.shape[1]
    names = None if names is None else require_names(names, count, str(count))
    label, bins = as_label(label, "label"), as_count(bins, "bins", most=MOST_CELLS)

    edges = [_choose_edges(t, p, bins) for t, p in zip(truth.T, guess.T, strict=True)]
    tables = [
        np.histogram2d(t, p, bins=(edge, edge))[0]
        for t, p, edge in zip(truth.T, guess.T, edges, strict=True)
    ]
    norm = LogNorm(1.0, max(2.0, *(float(table.max()) for table in tables)))

    width, height = 2.75 * count + 1.2, 3.05 if names is None else 3.3
    with use_style():
        figure, panels = make_panels(count, width=width, height=height, fixed_aspect=True)
        meshes = []
        for column, (axes, table, edge) in enumerate(zip(panels, tables, edges, strict=True)):
            meshes.append(_draw_heat_map(axes, table, edge, norm=norm, events=len(truth)))
            axes.set_xlabel(f"true {label}")
            if column == 0:
                axes.set_ylabel(f"predicted {label}")
            if names is not None:
                axes.set_title(show_name(names[column]), fontsize=11)
        add_colour_bar(figure, meshes[-1], panels, label="events per cell")
    return figure


def _choose_edges(t: NDArray[np.float64], p: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Edges of cells over the range that holds 99.9% of both quantities."""
    low = min(np.quantile(t, 0.0005), np.quantile(p, 0.0005))
    high = max(np.quantile(t, 0.9995), np.quantile(p, 0.9995))
    margin = 0.02 * (high - low)
    if margin == 0.0:
        # All values equal: any window around them will do.
        margin = max(abs(float(high)), 1.0) * 0.5
    return np.linspace(float(low - margin), float(high + margin), bins + 1)


def _draw_heat_map(
    axes: Axes, table: NDArray[np.float64], edge: NDArray[np.float64], *, norm: LogNorm, events: int
) -> QuadMesh:
    counts = np.ma.masked_equal(table.T, 0)
    # Rasterised, because thousands of vector cells would make an SVG of megabytes.
    mesh = axes.pcolormesh(edge, edge, counts, norm=norm, cmap=HEAT, rasterized=True)
    ends = edge[[0, -1]]
    dashes = (0, (5, 3))
    axes.plot(
        ends, ends, color=VERMILION, linewidth=1.3, linestyle=dashes, label="perfect prediction"
    )
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    beyond = events - int(table.sum())
    if beyond:
        note = f"{100.0 * beyond / events:.2g}% outside"
        axes.text(0.97, 0.03, note, fontsize=7.5, color=FAINT, ha="right", transform=axes.transAxes)
    return mesh
