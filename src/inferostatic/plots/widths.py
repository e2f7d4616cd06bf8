"""The choice of a kernel's width."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from ..inputs import kind_of
from ..learning.choose_width import WidthChoice
from .names import show_name
from .style import BLUE, FAINT, INK, VERMILION, make_panels, open_frame, use_log_axis, use_style


def width_choice(choice: WidthChoice) -> Figure:
    """What `ist.choose_width` found: errors, variance of the targets and saturation by width.

    The first panel has the predicted error of Kernel Score Estimation, its two parts, squared bias
    and noise, and the squared bias with x drawn at θ instead of θ + ε; a vertical line marks the
    recommended width. Where widths differ between parameters, the axis is that of the one whose
    widths span the most.

    Args:
        choice: The result of `ist.choose_width`.
    """
    if not isinstance(choice, WidthChoice):
        raise TypeError(f"choice must be the result of ist.choose_width, got {kind_of(choice)}")
    widths = np.asarray(choice.widths, dtype=np.float64)
    column = int(np.argmax(widths.max(axis=0) / widths.min(axis=0)))
    order = np.argsort(widths[:, column], kind="stable")
    width = widths[order, column]
    same = bool(np.all(np.ptp(widths, axis=1) <= 1e-6 * widths.max(axis=1)))
    of_one = "" if same else f" of {show_name(choice.theta_names[column])}"
    with use_style():
        figure, (errors, variance, saturation) = make_panels(3, width=9.6, height=3.2)
        _draw_errors(errors, choice, width, order)
        dots: dict[str, Any] = {"color": INK, "marker": "o", "markersize": 3.5}
        variance.plot(width, choice.variance[order], **dots)
        variance.set_yscale("log")
        saturation.plot(width, 100 * choice.saturation[order], **dots)
        saturation.set_ylim(bottom=0.0)
        titles = ("error of the score", "variance of the target", "saturated scores, %")
        for axes, title in zip((errors, variance, saturation), titles, strict=True):
            open_frame(axes)
            if len(width) > 1:
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axes.xaxis.set_minor_locator(NullLocator())
            best = widths[choice.best, column]
            axes.axvline(best, color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)))
            axes.set(title=title, xlabel=f"width{of_one}")
        figure.legend(*errors.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_errors(
    axes: Axes, choice: WidthChoice, width: NDArray[np.float64], order: NDArray[np.intp]
) -> None:
    noise = choice.predicted_error - choice.bias
    lines: list[tuple[str, NDArray[np.float64], dict[str, Any]]] = [
        ("predicted error", choice.predicted_error, {"color": INK, "linewidth": 2.0}),
        ("squared bias", choice.bias, {"color": BLUE, "marker": "o", "markersize": 3.5}),
        ("the same, x at θ", choice.bias_at_theta, {"color": BLUE, "linestyle": (0, (1, 1.5))}),
        ("noise", noise, {"color": VERMILION, "linestyle": "dashed"}),
    ]
    for name, values, style in lines:
        axes.plot(width, values[order], label=name, **style)
    low = np.maximum(choice.bias - choice.bias_error, 0.0)
    high = choice.bias + choice.bias_error
    axes.fill_between(width, low[order], high[order], color=BLUE, alpha=0.2, linewidth=0)
    shown = np.concatenate([choice.bias, noise, choice.predicted_error])
    shown = shown[shown > 0]
    if shown.size:
        # Far below the predicted error no line matters any more.
        low = max(float(shown.min()), float(choice.predicted_error.min()) / 100)
        use_log_axis(axes, low / 1.5, float(shown.max()) * 1.5)
