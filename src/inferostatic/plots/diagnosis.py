"""What the checks of an estimator found."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..checks.calibration import CalibrationCurve
from ..checks.coverage import Coverage
from ..checks.diagnose import Diagnosis
from ..checks.mean_score import MeanScore
from ..inputs import kind_of
from ..weights import effective_size
from .names import show_name
from .style import (
    BAND,
    BLUE,
    FAINT,
    INK,
    VERMILION,
    choose_colour,
    make_panels,
    open_frame,
    use_style,
)

#: Ranks and credible levels at which curves are drawn.
LEVELS = np.linspace(0, 1, 101)


def mean_score(record: MeanScore) -> Figure:
    """The mean score in cells of θ, in standard errors; exact ones stay within the band.

    Args:
        record: `.mean_score` of a diagnosis, or the result of `ist.checks.mean_score`.
    """
    return _draw_alone(record, MeanScore, _draw_mean_score)


def calibration(record: CalibrationCurve) -> Figure:
    """Observed against predicted probabilities of σ(ln r): exact ones lie on the diagonal.

    Args:
        record: `.calibration` of a diagnosis, or the result of `ist.checks.calibration`.
    """
    return _draw_alone(record, CalibrationCurve, _draw_calibration)


def ranks(record: Coverage) -> Figure:
    """How far the ranks of simulation-based calibration (SBC) are from uniform ones.

    The band is what 95% of exact ones stay in at each rank.

    Args:
        record: `.coverage` of a diagnosis, or the result of `ist.checks.coverage`.
    """
    return _draw_alone(record, Coverage, _draw_ranks)


def coverage(record: Coverage) -> Figure:
    """Actual against nominal coverage of credible sets: exact ones lie on the diagonal.

    Args:
        record: `.coverage` of a diagnosis, or the result of `ist.checks.coverage`.
    """
    return _draw_alone(record, Coverage, _draw_coverage)


def _draw_alone(record: Any, kind: type, draw: Callable[[Axes, Any], None]) -> Figure:  # noqa: ANN401
    if not isinstance(record, kind):
        raise TypeError(f"expected a {kind.__name__}, got {kind_of(record)}")
    with use_style():
        figure, (axes,) = make_panels(1, width=4.2, height=3.6)
        open_frame(axes)
        draw(axes, record)
        axes.legend()
    return figure


def diagnosis(found: Diagnosis) -> Figure:
    """What `ist.diagnose` found, one panel for each record that it holds.

    The mean score in cells of θ, in standard errors; observed against predicted probabilities of
    σ(ln r); how far the ranks of simulation-based calibration are from uniform, with the band that
    95% of exact ones stay in at each rank; and actual against nominal coverage.

    Args:
        found: the result of `ist.diagnose`.
    """
    if not isinstance(found, Diagnosis):
        raise TypeError(f"found must be the result of ist.diagnose, got {kind_of(found)}")
    score, curve, coverage = found.mean_score, found.calibration, found.coverage
    drawings: list[Callable[[Axes], None]] = []
    if score is not None:
        drawings.append(lambda axes: _draw_mean_score(axes, score))
    if curve is not None:
        drawings.append(lambda axes: _draw_calibration(axes, curve))
    if coverage is not None:
        drawings.append(lambda axes: _draw_ranks(axes, coverage))
        drawings.append(lambda axes: _draw_coverage(axes, coverage))
    with use_style():
        figure, panels = make_panels(len(drawings), width=3.3 * len(drawings), height=3.4)
        for draw, axes in zip(drawings, panels, strict=True):
            open_frame(axes)
            draw(axes)
            axes.legend()
        figure.suptitle(found.verdict, fontsize=9.5, color=INK, wrap=True)
    return figure


def _draw_mean_score(axes: Axes, record: MeanScore) -> None:
    axes.axhspan(-2, 2, color=BAND, linewidth=0)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        low, high = record.theta[:, j].min(), record.theta[:, j].max()
        position = (record.theta[:, j] - low) / max(high - low, np.finfo(float).tiny)
        axes.plot(
            position,
            record.z[:, j],
            "o",
            markersize=3,
            color=choose_colour(j),
            label=show_name(name),
        )
    axes.set(
        title="mean score", xlabel="parameter, from lowest to highest", ylabel="standard errors"
    )


def _draw_calibration(axes: Axes, record: CalibrationCurve) -> None:
    axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        some = record.events[j] > 0
        points = (part[j][some] for part in (record.predicted, record.observed, record.error))
        axes.errorbar(
            *points,
            fmt="o",
            markersize=3,
            linewidth=0.8,
            color=choose_colour(j),
            label=show_name(name),
        )
    axes.set(title="calibration", xlabel="predicted", ylabel="observed", xlim=(0, 1), ylim=(0, 1))


def _draw_ranks(axes: Axes, record: Coverage) -> None:
    band = 1.96 * np.sqrt(LEVELS * (1 - LEVELS) / effective_size(record.weight))
    axes.fill_between(LEVELS, -band, band, color=BAND, linewidth=0)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    for j, name in enumerate(record.names):
        away = record.curve(record.ranks[:, j], LEVELS) - LEVELS
        axes.plot(LEVELS, away, color=choose_colour(j), linewidth=1.2, label=show_name(name))
    axes.set(title="ranks (SBC)", xlabel="rank", ylabel="fraction below, less rank", xlim=(0, 1))


def _draw_coverage(axes: Axes, record: Coverage) -> None:
    axes.axline((0, 0), slope=1, color=FAINT, linewidth=0.8)
    points = (record.levels, record.expected, record.error)
    axes.errorbar(*points, fmt="o", markersize=3.5, color=BLUE, label="highest density")
    axes.plot(LEVELS, record.curve(record.tarp, LEVELS), color=VERMILION, label="TARP")
    axes.set(title="coverage", xlabel="credible level", ylabel="actual", xlim=(0, 1), ylim=(0, 1))
