"""Scans of a likelihood, limits by CLs, and confidence regions of two parameters."""

import warnings
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..inference.confidence.confidence_set import ConfidenceSet
from ..inference.confidence.upper_limit import UpperLimit
from ..inference.likelihood.profile import Profile
from ..inputs import kind_of
from .estimates import read_truth
from .names import show_name
from .style import BLUE, FAINT, INK, VERMILION, choose_colour, make_panels, open_frame, use_style

#: −2 ln λ of one parameter at confidence levels, by their names.
CROSSINGS = {"68%": 1.0, "95%": 3.841}
#: Levels of the outlines of a region.
LEVELS = (0.68, 0.95)

Scan = Profile | ConfidenceSet


def likelihood_scan(
    scans: Scan | Mapping[str, Scan], *, truth: Mapping[str, float] | None = None
) -> Figure:
    """−2 ln λ as a function of one parameter, the others profiled; a panel for each parameter.

    Dotted lines are the values of 68% and 95% confidence level where Wilks' theorem holds. A set by
    toys is drawn as a band instead, since these lines do not bound it.

    Args:
        scans: `fit.profile(name, values)` or a confidence set of one parameter; or several by what
            they are.
        truth: true values by parameter, drawn as lines.
    """
    given = scans if isinstance(scans, Mapping) else {"": scans}
    if not given:
        raise ValueError("expected at least one scan, got an empty dictionary")
    given = {str(label): scan for label, scan in given.items()}
    curves = {label: _read_scan(scan) for label, scan in given.items()}
    names = list(dict.fromkeys(name for name, _, _ in curves.values()))
    true = read_truth(truth, names)
    with use_style():
        figure, panels = make_panels(len(names), width=0.9 + 3.4 * len(names), height=3.1)
        for axes, name, value in zip(panels, names, true, strict=True):
            open_frame(axes)
            top = 0.0
            for number, (label, (own, x, q)) in enumerate(curves.items()):
                if own == name:
                    colour, shown = choose_colour(number), show_name(label) if label else None
                    axes.plot(x, q, ".-", color=colour, linewidth=1.4, markersize=3, label=shown)
                    top = max(top, float(q.max()))
                    _draw_band(axes, given[label], colour)
            shown_here = [given[label] for label, (own, _, _) in curves.items() if own == name]
            for label, height in CROSSINGS.items():
                if height < 1.15 * top and not all(map(_is_by_toys, shown_here)):
                    axes.axhline(height, color=FAINT, linewidth=0.9, linestyle=(0, (1, 1.5)))
                    axes.text(
                        0.99, height, label, color=FAINT, fontsize=8, ha="right", va="bottom",
                        transform=axes.get_yaxis_transform(),
                    )  # fmt: skip
            if value is not None:
                style = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
                axes.axvline(value, label="truth", **style)
            axes.set(
                xlabel=show_name(name), ylabel=r"$-2\,\ln\lambda$", ylim=(0, min(top, 12) * 1.05)
            )
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
    return figure


def _is_by_toys(scan: Scan) -> bool:
    return isinstance(scan, ConfidenceSet) and scan.method != "wilks"


def _draw_band(axes: Axes, scan: Scan, colour: str) -> None:
    """The values that a set by toys holds."""
    if not isinstance(scan, ConfidenceSet) or not _is_by_toys(scan):
        return
    with warnings.catch_warnings():
        # Whoever asks for the interval itself is warned of the grid.
        warnings.simplefilter("ignore", UserWarning)
        low, high = scan.hull()[0]
    if np.isfinite([low, high]).all():
        name = f"{100 * scan.level:.3g}% set by toys".replace("68.3%", "68%")
        axes.axvspan(low, high, color=colour, alpha=0.15, linewidth=0, label=name)


def _read_scan(scan: object) -> tuple[str, np.ndarray, np.ndarray]:
    if isinstance(scan, Profile):
        name, x, q = scan.name, scan.values, scan.q
    elif isinstance(scan, ConfidenceSet) and len(scan.names) == 1:
        name, x, q = scan.names[0], scan.points[:, 0], scan.statistic
    else:
        raise TypeError(
            "expected fit.profile(name, values) or a confidence set of one parameter, got "
            f"{kind_of(scan)}"
        )
    order = np.argsort(x)
    finite = np.isfinite(q[order])
    return name, x[order][finite], q[order][finite]


def limit_scan(limit: UpperLimit) -> Figure:
    """CLs, or CLs+b, of each tested value: observed, expected, and its bands of 1 and 2 sigma.

    The limits are where the curves fall below the dotted line, 1 − confidence level.

    Args:
        limit: the result of `ist.upper_limit`.
    """
    if not isinstance(limit, UpperLimit):
        raise TypeError(f"limit must be the result of ist.upper_limit, got {kind_of(limit)}")
    x = np.unique(
        [*limit.values, *(v for v in (limit.observed, *limit.expected) if np.isfinite(v))]
    )
    observed = _pass_through(limit, x, limit.scan, limit.observed)
    each = zip(limit.expected_scan.T, limit.expected, strict=True)
    bands = np.stack([_pass_through(limit, x, curve, end) for curve, end in each], axis=1)
    with use_style():
        figure, (axes,) = make_panels(1, width=5.2, height=3.5)
        open_frame(axes)
        if np.isfinite(bands).any():
            names = {0: "expected ± 2σ", 1: "expected ± 1σ"}
            for k, alpha in ((0, 0.16), (1, 0.3)):
                axes.fill_between(
                    x, bands[:, k], bands[:, 4 - k], color=BLUE, alpha=alpha, linewidth=0,
                    label=names[k],
                )  # fmt: skip
            axes.plot(x, bands[:, 2], color=BLUE, linestyle="dashed", label="expected")
        axes.plot(x, observed, color=INK, linewidth=1.6, label="observed")
        threshold = 1 - limit.level
        axes.axhline(threshold, color=VERMILION, linewidth=1.1, linestyle=(0, (1, 1.5)))
        axes.text(
            x[0], threshold, f" {threshold:.2g}", color=VERMILION, fontsize=8, va="bottom",
        )  # fmt: skip
        title = f"no limit at {limit.level:.0%}"
        if np.isfinite(limit.observed):
            axes.plot([limit.observed] * 2, [0, threshold], color=INK, linewidth=1.0)
            title = f"{show_name(limit.name)} < {limit.observed:.4g} at {limit.level:.0%}"
        last = np.nanmax([limit.observed, *limit.expected, limit.values[0]])
        axes.set(
            xlabel=show_name(limit.name),
            ylabel=limit.test,
            title=title,
            ylim=(0, 1.02),
            xlim=(x[0], min(float(x[-1]), float(last) * 1.3 - 0.3 * limit.background)),
        )
        axes.legend()
    return figure


def _pass_through(limit: UpperLimit, x: np.ndarray, curve: np.ndarray, end: float) -> np.ndarray:
    """A curve at more values: linear in its logarithm, and at the threshold where its limit is."""
    values = limit.values
    if np.isfinite(end) and end not in values:
        place = int(np.searchsorted(values, end))
        values = np.insert(values, place, end)
        curve = np.insert(curve, place, 1 - limit.level)
    return np.exp(np.interp(x, values, np.log(np.maximum(curve, 1e-300))))


def confidence_region(found: ConfidenceSet, *, truth: Mapping[str, float] | None = None) -> Figure:
    """The joint confidence set of two parameters: where the p-value exceeds 1 − level.

    Args:
        found: a confidence set of two parameters.
        truth: true values by parameter, drawn as a cross.
    """
    if not isinstance(found, ConfidenceSet) or len(found.names) != 2:
        what = kind_of(found)
        if isinstance(found, ConfidenceSet):
            what = f"one of {len(found.names)}: {', '.join(found.names)}"
        raise TypeError(f"expected a confidence set of two parameters, got {what}")
    true = read_truth(truth, found.names)
    with use_style():
        figure, (axes,) = make_panels(1, width=4.8, height=4.2)
        open_frame(axes)
        if found.axes is None:
            _draw_points(axes, found)
        else:
            _draw_outlines(axes, found)
        best = [found.best[found.theta_names.index(name)] for name in found.names]
        axes.plot(*best, "o", color=BLUE, markersize=5, label="best fit")
        point = [value for value in true if value is not None]
        if len(point) == 2:
            axes.plot(*point, "+", color=INK, markersize=10, markeredgewidth=1.5, label="truth")
        axes.set(xlabel=show_name(found.names[0]), ylabel=show_name(found.names[1]))
        axes.legend()
    return figure


def _draw_outlines(axes: Axes, found: ConfidenceSet) -> None:
    assert found.axes is not None
    one, two = found.axes
    p = found.p_value.reshape(len(one), len(two))
    for number, level in enumerate(sorted({*LEVELS, round(found.level, 2)}, reverse=True)):
        if p.max() <= 1 - level:
            continue
        colour = choose_colour(number)
        axes.contourf(one, two, p.T, [1 - level, 1.1], colors=[colour], alpha=0.15)
        lines = axes.contour(one, two, p.T, [1 - level], colors=[colour], linewidths=1.4)
        axes.plot([], [], color=lines.get_edgecolor()[0], label=f"{level:.0%}")


def _draw_points(axes: Axes, found: ConfidenceSet) -> None:
    inside = found.accepted()
    axes.plot(*found.points[~inside].T, ".", color=FAINT, markersize=2, label="rejected")
    axes.plot(
        *found.points[inside].T,
        ".",
        color=BLUE,
        markersize=4,
        label=f"accepted at {found.level:.0%}",
    )
