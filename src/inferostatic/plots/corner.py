"""Corner plots: every parameter, and every pair of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.ndimage import gaussian_filter

from ..inputs import Input, kind_of
from .estimates import Estimates, Spread, read_spreads, read_truth, shared_names
from .names import show_name
from .style import INK, choose_colour, fix_ticks, use_style

#: Parameters that a figure shows at most: more cannot be read.
MOST_PARAMETERS = 10
#: Probability inside the outlines.
LEVELS = (0.68, 0.95)
#: Cells of the histograms along each axis.
CELLS = 50
#: Width over which histograms are smoothed, in cells: their noise would fray the outlines.
SMOOTHING = 1.2
#: Dashes of the results, in their order, so that print without colours shows them.
DASHES = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1, 1, 1)))


def corner(
    results: Estimates | Input | Mapping[str, Estimates | Input],
    *,
    names: Sequence[str] | None = None,
    parameters: Sequence[str] | None = None,
    truth: Mapping[str, float] | None = None,
) -> Figure:
    """Posteriors and estimates: one parameter along the diagonal, two everywhere below it.

    Outlines hold 68% and 95% of the samples; a fit is drawn as the normal distribution of its
    covariance, whose outlines are ellipses.

    Args:
        results: a posterior, a fit or samples of shape (n, d); or several by what they are.
        names: of the columns of samples that are arrays.
        parameters: those to show, by default all free ones that the results share.
        truth: true values by parameter, drawn as lines.
    """
    spreads = read_spreads(results, names)
    if not (parameters is None or _are_texts(parameters)):
        raise TypeError(f"parameters must be a list of names, got {kind_of(parameters)}")
    shown = shared_names(spreads) if parameters is None else tuple(parameters)
    missing = [name for name in shown if name not in shared_names(spreads)]
    if missing or len(set(shown)) < len(shown) or not 0 < len(shown) <= MOST_PARAMETERS:
        raise ValueError(
            f"expected 1 to {MOST_PARAMETERS} different parameters among "
            f"{', '.join(shared_names(spreads))}; got {', '.join(shown)}. Choose by parameters=."
        )
    true = read_truth(truth, shown)
    spreads = {
        label: Spread(shown, one.mean[columns], one.covariance[np.ix_(columns, columns)], samples)
        for label, one in spreads.items()
        for columns in [one.columns(shown)]
        for samples in [None if one.samples is None else one.samples[:, columns]]
    }
    ranges = [_choose_range(list(spreads.values()), k, true[k]) for k in range(len(shown))]
    size = len(shown)
    with use_style():
        figure = Figure(figsize=(1.2 + 1.9 * size, 1.0 + 1.8 * size), layout="constrained")
        grid = figure.subplots(size, size, squeeze=False, sharex="col")
        for row in range(size):
            for column in range(size):
                axes = grid[row, column]
                if column > row:
                    axes.set_axis_off()
                    continue
                fix_ticks(axes)
                axes.spines[["top", "right"]].set_visible(False)
                for number, spread in enumerate(spreads.values()):
                    if row == column:
                        _draw_one(axes, spread, row, ranges[row], number)
                    else:
                        _draw_two(axes, spread, (column, row), ranges, number)
                _mark_truth(axes, true, row, column)
                _label_axes(axes, shown, row, column, ranges)
        if len(spreads) > 1:
            handles = [
                Line2D([], [], color=choose_colour(k), linestyle=_dashes(k), label=show_name(label))
                for k, label in enumerate(spreads)
            ]
            figure.legend(handles=handles, loc="outside upper right")
    return figure


def _are_texts(values: object) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(one, str) for one in values)


def _choose_range(spreads: list[Spread], k: int, true: float | None) -> tuple[float, float]:
    ends = []
    for spread in spreads:
        if spread.samples is None:
            reach = 3.5 * np.sqrt(spread.covariance[k, k])
            ends += [spread.mean[k] - reach, spread.mean[k] + reach]
        else:
            ends += list(np.quantile(spread.samples[:, k], [0.001, 0.999]))
    ends += [] if true is None else [true]
    low, high = float(min(ends)), float(max(ends))
    margin = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - margin, high + margin


def _draw_one(axes: Axes, spread: Spread, k: int, ends: tuple[float, float], number: int) -> None:
    colour = choose_colour(number)
    if spread.samples is None:
        x = np.linspace(*ends, 201)
        y = np.exp(-((x - spread.mean[k]) ** 2) / (2 * spread.covariance[k, k]))
        y = y / np.sqrt(2 * np.pi * spread.covariance[k, k])
        axes.plot(x, y, color=colour, linestyle=_dashes(number), linewidth=1.3)
    else:
        density, edges = np.histogram(spread.samples[:, k], CELLS, ends, density=True)
        axes.stairs(density, edges, color=colour, linewidth=1.3, linestyle=_dashes(number))
    axes.set_ylim(bottom=0)


def _draw_two(
    axes: Axes,
    spread: Spread,
    pair: tuple[int, int],
    ranges: list[tuple[float, float]],
    number: int,
) -> None:
    colour = choose_colour(number)
    if spread.samples is None:
        angle = np.linspace(0, 2 * np.pi, 121)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        root = np.linalg.cholesky(spread.covariance[np.ix_(pair, pair)])
        for level in LEVELS:
            # χ² of two degrees of freedom has the distribution function 1 − exp(−χ²/2).
            outline = spread.mean[list(pair), None] + np.sqrt(-2 * np.log1p(-level)) * root @ circle
            axes.plot(*outline, color=colour, linestyle=_dashes(number), linewidth=1.1)
        axes.plot(*spread.mean[list(pair)], "o", color=colour, markersize=2.5)
        return
    box = [ranges[pair[0]], ranges[pair[1]]]
    counts, *edges = np.histogram2d(*spread.samples[:, pair].T, bins=CELLS, range=box)
    smooth = gaussian_filter(counts, SMOOTHING)
    middles = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    heights = _find_heights(smooth)
    styles = [_dashes(number)] * len(heights)
    axes.contour(*middles, smooth.T, heights, colors=colour, linestyles=styles, linewidths=1.1)
    axes.contourf(*middles, smooth.T, [*heights, np.inf], colors=[colour], alpha=0.12)


def _find_heights(density: np.ndarray) -> list[float]:
    """Heights of the outlines that hold the levels, from low to high."""
    ordered = np.sort(density.ravel())[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    heights = {float(ordered[min(np.searchsorted(held, level), len(held) - 1)]) for level in LEVELS}
    return sorted(heights)


def _mark_truth(axes: Axes, true: Sequence[float | None], row: int, column: int) -> None:
    line = {"color": INK, "linewidth": 0.8, "linestyle": (0, (2, 2))}
    across, up = true[column], true[row]
    if across is not None:
        axes.axvline(across, **line)
    if row != column and up is not None:
        axes.axhline(up, **line)


def _label_axes(
    axes: Axes, names: Sequence[str], row: int, column: int, ranges: list[tuple[float, float]]
) -> None:
    axes.set_xlim(ranges[column])
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="x", labelrotation=30)
    if row == column:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    else:
        axes.set_ylim(ranges[row])
        axes.locator_params(axis="y", nbins=4)
        axes.tick_params(axis="y", labelleft=column == 0)
        if column == 0:
            axes.set_ylabel(show_name(names[row]))
    if row == len(names) - 1:
        axes.set_xlabel(show_name(names[column]))


def _dashes(number: int) -> Any:  # noqa: ANN401
    return DASHES[number % len(DASHES)]
