"""The style of all figures: colours, fonts, axes.

Nothing touches `pyplot`, so no window opens, no figure stays alive behind the scenes and a machine
without a display is enough. Colours are the Okabe-Ito set and perceptually uniform maps, which stay
distinct for colour-blind readers and in print.
"""

from contextlib import AbstractContextManager
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

#: First colour of a figure (Okabe-Ito).
BLUE = "#0072B2"
#: Second colour of a figure (Okabe-Ito).
VERMILION = "#D55E00"
#: Text, axes and reference values: softer than black.
INK = "#222222"
#: Lines and notes in the background.
FAINT = "#8A8A8A"
#: Bands in the background.
BAND = "#EEEEEE"
#: Colours of parameters or contours, in their order; they differ in lightness, too.
COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
#: Colour map of densities, perceptually uniform.
HEAT = "viridis"
#: Matplotlib's settings while a figure is built.
STYLE: dict[Any, Any] = {
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
    "mathtext.fontset": "dejavusans",
    "figure.dpi": 100.0,
}

#: Ticks are made when a figure is drawn, outside the style; these are fixed on the axes instead.
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

#: Settings that a figure takes from matplotlib while it is built, by the start of their names.
SETTINGS = ("axes.", "figure.", "font.", "grid.", "image.", "legend.", "lines.", "mathtext.",
            "text.", "xtick.", "ytick.")  # fmt: skip

#: A quantity that spans more than this factor is unreadable on a linear axis that starts at zero.
LOG_ABOVE = 20.0


def use_style() -> AbstractContextManager[None]:
    """The one style of all figures, in force only while a figure is built."""
    # Starting from the defaults keeps a user's own settings from half-restyling a figure.
    defaults: dict[Any, Any] = {
        name: value for name, value in mpl.rcParamsDefault.items() if name.startswith(SETTINGS)
    }
    return mpl.rc_context({**defaults, **STYLE})


def make_panels(
    count: int,
    *,
    width: float,
    height: float,
    fixed_aspect: bool = False,
    across: int | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side; `across` in a row of the given height, by default all."""
    # "compressed" closes the gaps that panels of a fixed aspect leave in "constrained".
    layout = "compressed" if fixed_aspect else "constrained"
    columns = count if across is None else across
    rows = -(-count // columns)
    figure = Figure(figsize=(width, rows * height), layout=layout)
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for empty in panels[count:]:
        empty.set_axis_off()
    panels = panels[:count]
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


def add_colour_bar(
    figure: Figure,
    image: ScalarMappable,
    panels: list[Axes],
    *,
    label: str,
    shrink: float = 1.0,
    extend: Literal["neither", "max"] = "neither",
) -> None:
    """A colour bar beside the panels."""
    bar = figure.colorbar(
        image, ax=panels, extend=extend, shrink=shrink, aspect=20 * shrink, pad=0.02
    )
    fix_ticks(bar.ax)
    bar.set_label(label)
    bar.outline.set_visible(False)


def spans_decades(values: NDArray[np.float64]) -> bool:
    """Whether a linear axis that starts at zero would be unreadable."""
    return bool(values.min() > 0 and values.max() > LOG_ABOVE * values.min())


def use_log_axis(axes: Axes, low: float, high: float) -> None:
    """Logarithmic y axis labelled with plain numbers at 1, 2 and 5 of each decade."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    decades = np.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator() if decades < 3 else LogLocator(subs="auto"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if decades < 6:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def choose_colour(number: int) -> str:
    """The colour of the parameter or contour with this number."""
    return COLOURS[number % len(COLOURS)]
