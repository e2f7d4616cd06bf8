"""Outlines of confidence regions."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..inputs import Input
from .arrays import as_finite, require_names
from .names import show_name
from .style import INK, choose_colour, make_panels, open_frame, use_style


def contours(
    outlines: Mapping[str, Input], names: Sequence[str], *, truth: Input | None = None
) -> Figure:
    """Outlines of confidence regions of two parameters, on top of each other.

    Args:
        outlines: by what they are; points of shape (n, 2), as `fit.contour(a, b, level)` gives.
        names: of the two parameters.
        truth: a point to mark, shape (2,).
    """
    if not isinstance(outlines, Mapping) or not outlines:
        raise ValueError(
            f"expected a dictionary with at least one outline by its name, got {outlines!r}"
        )
    names = require_names(names, 2, "two")
    point = None if truth is None else as_finite(truth, "truth")
    if point is not None and point.shape != (2,):
        raise ValueError(f"truth must be a point of shape (2,), got shape {point.shape}")
    with use_style():
        figure, (axes,) = make_panels(1, width=4.6, height=4.0)
        open_frame(axes)
        for number, (label, outline) in enumerate(outlines.items()):
            points = as_finite(outline, f"the outline {label!r}")
            if points.ndim != 2 or points.shape[1] != 2:
                raise ValueError(
                    f"expected an outline of shape (n, 2), got {points.shape} for {label!r}"
                )
            closed = np.concatenate([points, points[:1]])
            axes.plot(*closed.T, color=choose_colour(number), linewidth=1.4, label=show_name(label))
        if point is not None:
            axes.plot(*point, "+", color=INK, markersize=9, markeredgewidth=1.4, label="truth")
        axes.set(xlabel=show_name(names[0]), ylabel=show_name(names[1]))
        axes.legend()
    return figure
