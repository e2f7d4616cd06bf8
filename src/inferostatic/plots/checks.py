"""Figures of checks and of confidence regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..weights import effective_size
from .look import BLUE, FAINT, INK, VERMILION, look, open_frame, panels

if TYPE_CHECKING:
    from ..checks.diagnose import Diagnosis
    from ..inputs import Input

#: In the order of parameters or of contours; they differ in lightness, too.
COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
LEVELS = np.linspace(0, 1, 101)


def diagnosis(found: Diagnosis) -> Figure:
    """What `ist.diagnose` found, one panel for each record that it holds.

    The mean score in cells of θ, in standard errors; observed against predicted probabilities of
    σ(ln r); how far the ranks of simulation-based calibration are from uniform, with the band that
    95% of exact ones stay in at each rank; and actual against nominal coverage.

    Args:
        found: the result of `ist.diagnose`.

    Returns:
        A figure with up to four panels.
    """
    drawn: list[Callable[[Axes], None]] = []
    if found.mean_score is not None:
        drawn.append(lambda axes: _mean_score(axes, found))
    if found.calibration is not None:
        drawn.append(lambda axes: _calibration(axes, found))
    if found.coverage is not None:
        drawn += [lambda axes: _ranks(axes, found), lambda axes: _coverage(axes, found)]
    with look():
        figure, each = panels(len(drawn), width=3.3 * len(drawn), height=3.4)
        for draw, axes in zip(drawn, each, strict=True):
            open_frame(axes)
            draw(axes)
        figure.suptitle(found.verdict, fontsize=9.5, color=INK, wrap=True)
    return figure


def _mean_score(axes: Axes, found: Diagnosis) -> None:
    record = found.mean_score
    assert record is not None
    axes.axhspan(-2, 2, color="#EEEEEE", linewidth=0)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        low, high = record.theta[:, j].min(), record.theta[:, j].max()
        place = (record.theta[:, j] - low) / max(high - low, np.finfo(float).tiny)
        axes.plot(place, record.z[:, j], "o", markersize=3, color=_colour(j), label=name)
    axes.set(
        title="mean score", xlabel="parameter, from lowest to highest", ylabel="standard errors"
    )
    axes.legend()


def _calibration(axes: Axes, found: Diagnosis) -> None:
    record = found.calibration
    assert record is not None
    axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        some = record.events[j] > 0
        axes.errorbar(
            record.predicted[j][some],
            record.observed[j][some],
            record.error[j][some],
            fmt="o",
            markersize=3,
            linewidth=0.8,
            color=_colour(j),
            label=name,
        )
    axes.set(title="calibration", xlabel="predicted", ylabel="observed", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def _ranks(axes: Axes, found: Diagnosis) -> None:
    record = found.coverage
    assert record is not None
    band = 1.96 * np.sqrt(LEVELS * (1 - LEVELS) / effective_size(record.weight))
    axes.fill_between(LEVELS, -band, band, color="#EEEEEE", linewidth=0)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        axes.plot(
            LEVELS,
            record.curve(record.ranks[:, j], LEVELS) - LEVELS,
            color=_colour(j),
            linewidth=1.2,
            label=name,
        )
    axes.set(title="ranks (SBC)", xlabel="rank", ylabel="fraction below, less rank", xlim=(0, 1))
    axes.legend()


def _coverage(axes: Axes, found: Diagnosis) -> None:
    record = found.coverage
    assert record is not None
    axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.8)
    axes.errorbar(
        record.levels,
        record.expected,
        record.error,
        fmt="o",
        markersize=3.5,
        color=BLUE,
        label="highest density",
    )
    axes.plot(LEVELS, record.curve(record.tarp, LEVELS), color=VERMILION, label="TARP")
    axes.set(title="coverage", xlabel="credible level", ylabel="actual", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def contours(
    outlines: Mapping[str, Input], names: Sequence[str], *, truth: Input | None = None
) -> Figure:
    """Outlines of confidence regions of two parameters, on top of each other.

    Args:
        outlines: by what they are; points of shape (n, 2), as `fit.contour(a, b, level)` gives.
        names: of the two parameters.
        truth: a point to mark, shape (2,).

    Returns:
        A figure with one panel.

    Raises:
        ValueError: If an outline is not of shape (n, 2).
    """
    if len(names) != 2 or not outlines:
        raise ValueError(
            f"expected two names and at least one outline, got {len(names)} and {len(outlines)}"
        )
    with look():
        figure, (axes,) = panels(1, width=4.6, height=4.0)
        open_frame(axes)
        for number, (label, outline) in enumerate(outlines.items()):
            points = np.asarray(outline, np.float64)
            if points.ndim != 2 or points.shape[1] != 2:
                raise ValueError(
                    f"expected an outline of shape (n, 2), got {points.shape} for {label!r}"
                )
            closed = np.concatenate([points, points[:1]])
            axes.plot(*closed.T, color=_colour(number), linewidth=1.4, label=label)
        if truth is not None:
            place = np.asarray(truth, np.float64)
            axes.plot(*place, "+", color=INK, markersize=9, markeredgewidth=1.4, label="truth")
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.legend()
    return figure


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
