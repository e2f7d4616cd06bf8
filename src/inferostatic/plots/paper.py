"""The figures of the paper: densities of the Dirichlet toy, and errors of networks by instance."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from scipy.special import gammaln

from .look import (
    BLUE,
    FAINT,
    HEAT,
    INK,
    VERMILION,
    colour_bar,
    log_axis,
    look,
    open_frame,
    panels,
    spans_decades,
)
from .numbers import Numbers, finite


def dirichlet_triangles(
    thetas: Numbers = ((1.0, 2.0, 2.0), (1.5, 3.0, 5.0), (3.0, 3.0, 3.0)),
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
    points = np.atleast_2d(finite(thetas, "thetas"))
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

    with look():
        count = len(points)
        figure, each = panels(count, width=2.55 * count + 0.9, height=2.95, fixed_aspect=True)
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, height]])
        images = []
        for axes, theta, density in zip(each, points, densities, strict=True):
            outline = Polygon(corners, closed=True, fill=False, edgecolor=INK, linewidth=0.9)
            axes.add_patch(outline)
            image = axes.imshow(
                density,
                origin="lower",
                extent=(0.0, 1.0, 0.0, height),
                norm=norm,
                cmap=HEAT,
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
        colour_bar(
            figure,
            images[-1],
            each,
            label=r"density $p(x;\theta)$",
            shrink=0.8,
            extend="max" if diverges else "neither",
        )
    return figure


def error_by_instance(
    errors: Mapping[str, Numbers],
    standard_errors: Mapping[str, Numbers],
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
    values = {name: finite(errors[name], f"errors of {name!r}") for name in errors}
    bars = {name: finite(standard_errors[name], f"standard errors of {name!r}") for name in errors}
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
    with look():
        figure, (axes,) = panels(1, width=1.6 + 0.95 * max(len(order), 3), height=3.4)
        open_frame(axes)
        for column, name in enumerate(order):
            colour, marker, size = (VERMILION, "s", 3.2) if name in is_direct else (BLUE, "o", 3.6)
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
                    colors=INK,
                    linewidth=1.2,
                    linestyles=(0, (4, 2)),
                    zorder=2,
                )
        every = np.concatenate([*values.values(), np.array([*marks.values()], dtype=np.float64)])
        highest = max(float((values[n] + bars[n]).max()) for n in order)
        highest = max(highest, *marks.values()) if marks else highest
        if spans_decades(every):
            log_axis(axes, float(every.min()) / 1.35, highest * 1.35)
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
        handles.append(Line2D([], [], color=BLUE, marker="o", label="ISN", **dots))
    if direct:
        handles.append(Line2D([], [], color=VERMILION, marker="s", label="direct", **dots))
    handles.append(Line2D([], [], color=FAINT, alpha=0.8, linewidth=2, label="median"))
    if published:
        handles.append(
            Line2D(
                [], [], color=INK, linewidth=1.2, linestyle=(0, (4, 2)), label="published median"
            )
        )
    return handles
