"""The one style of all figures."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE = "#0072B2"
VERMILION = "#D55E00"
INK = "#222222"
FAINT = "#8A8A8A"
HEAT = "viridis"

LOOK: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.titlepad": 8.0,
    "axes.axisbelow": True,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "mathtext.fontset": "cm",
    "figure.dpi": 100.0,
}


# Ticks are made when a figure is drawn, outside the style; these are fixed on the axes instead.
TICKS: dict[str, Any] = {
    "labelsize": 8.5,
    "colors": INK,
    "direction": "out",
    "width": 0.8,
    "pad": 3.5,
    "grid_color": "#DDDDDD",
    "grid_linewidth": 0.6,
    "grid_linestyle": "-",
    "grid_alpha": 1.0,
}

# Settings that a figure takes from matplotlib while it is built, by the start of their names.
SETTINGS = ("axes.", "figure.", "font.", "grid.", "image.", "legend.", "lines.", "mathtext.")
SETTINGS += ("text.", "xtick.", "ytick.")


def look() -> AbstractContextManager[None]:
    """The one style of all figures, in force only while a figure is built."""
    # Starting from the defaults keeps a user's own settings from half-restyling a figure.
    defaults: dict[Any, Any] = {
        name: value for name, value in mpl.rcParamsDefault.items() if name.startswith(SETTINGS)
    }
    return mpl.rc_context({**defaults, **LOOK})


def panels(
    count: int, *, width: float, height: float, fixed_aspect: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    # "compressed" closes the gaps that panels of a fixed aspect leave in "constrained".
    layout = "compressed" if fixed_aspect else "constrained"
    figure = Figure(figsize=(width, height), layout=layout)
    panels = list(figure.subplots(1, count, squeeze=False)[0])
    for axes in panels:
        fix_ticks(axes)
    return figure, panels


def fix_ticks(axes: Axes) -> None:
    """The ticks of the style, fixed on the axes."""
    axes.tick_params(which="major", length=3.5, **TICKS)
    axes.tick_params(which="minor", length=2.0, **{**TICKS, "width": 0.6})


def open_frame(axes: Axes) -> None:
    """Only the left and lower spine, and horizontal lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y")
