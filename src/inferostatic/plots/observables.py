"""Distributions of observables: data against simulation, and the learned score."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..chunks import spread_rows
from ..estimator.estimator import Estimator, ScoreEstimator
from ..events.events import Events
from ..inference.observables.reweight import Reweighting
from ..inputs import Input, as_floats, kind_of
from ..memory_map import read_rows
from .arrays import as_finite, require_names
from .names import show_name
from .style import FAINT, INK, choose_colour, fix_ticks, make_panels, open_frame, use_style

#: Observables that a figure shows at most: the first ones.
MOST_SHOWN = 8
#: Panels side by side, at most.
ACROSS = 4
#: Bins of a histogram.
BINS = 30
#: Events that a figure of the score evaluates, at most.
MOST_EVALUATED = 5000
#: Bins of an observable in which scores are averaged.
SCORE_BINS = 20


class _Sample(NamedTuple):
    """Events of shape (n, D) with weights."""

    x: np.ndarray
    weight: np.ndarray


def data_against_simulation(
    data: Input | Events,
    simulations: Mapping[str, Reweighting | Events | Input],
    names: Sequence[str] | None = None,
) -> Figure:
    """Observed events as points and simulated ones as lines, one panel for each observable.

    Simulations have the normalisation of the data; below each panel is their ratio to it. One
    sample reweighted to several θ shows which θ the data prefer. At most the first eight
    observables are drawn.

    Args:
        data: observed events, shape (n, D).
        simulations: reweighted events (`ist.reweight`), `ist.Events`, or arrays of shape (m, D), by
            what they are, such as "mass = 91".
        names: of the observables; by default those of the simulations.
    """
    if not isinstance(simulations, Mapping) or not simulations:
        raise ValueError(f"expected a dictionary of simulations, got {simulations!r}")
    observed = _read_sample(data, "data")
    samples = {str(label): _read_sample(one, str(label)) for label, one in simulations.items()}
    count = observed.x.shape[1]
    for label, sample in samples.items():
        if sample.x.shape[1] != count:
            raise ValueError(
                f"the data have {count} observables and {label!r} has {sample.x.shape[1]}"
            )
    if names is None:
        named = [
            one.x_names for one in simulations.values() if isinstance(one, Reweighting | Events)
        ]
        names = named[0] if named else [f"x{k}" for k in range(count)]
    return _compare("data", observed, samples, require_names(names, count, str(count)))


def reweighting(found: Reweighting, direct: Input | Events | None = None) -> Figure:
    """Events before and after reweighting, one panel for each observable.

    Args:
        found: the result of `ist.reweight`.
        direct: events simulated at the θ that the weights stand for, drawn as points with which
            the others are compared; by default the events before.
    """
    if not isinstance(found, Reweighting):
        raise TypeError(f"expected the result of ist.reweight, got {kind_of(found)}")
    before, after = _Sample(found.x, found.input_weight), _read_sample(found, "reweighted")
    if direct is None:
        return _compare("before", before, {"reweighted": after}, found.x_names)
    expected = _read_sample(direct, "direct")
    if expected.x.shape[1] != len(found.x_names):
        raise ValueError(
            f"direct must have {len(found.x_names)} observables, got {expected.x.shape[1]}"
        )
    return _compare(
        "simulated there", expected, {"reweighted": after, "before": before}, found.x_names
    )


def _compare(
    label: str, observed: _Sample, samples: Mapping[str, _Sample], names: Sequence[str]
) -> Figure:
    """One sample as points, the others as lines with its normalisation."""
    with use_style():
        figure, pairs = _make_pairs(min(len(names), MOST_SHOWN), f"ratio to {label}")
        for k, (upper, lower) in enumerate(pairs):
            edges = _choose_edges([observed.x[:, k], *(one.x[:, k] for one in samples.values())])
            _draw_comparison(upper, lower, k, edges, (label, observed), samples)
            lower.set_xlabel(show_name(names[k]))
        handles, labels = pairs[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 4))
    return figure


def _make_pairs(count: int, ratio: str) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """Panels with a narrow one below each."""
    across = min(count, ACROSS)
    down = -(-count // across)
    figure = Figure(figsize=(0.7 + 2.7 * across, 0.5 + 3.1 * down), layout="constrained")
    grid = figure.subplots(
        2 * down, across, squeeze=False, gridspec_kw={"height_ratios": [3, 1] * down}
    )
    pairs = []
    for place in range(down * across):
        row, column = divmod(place, across)
        upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
        if place >= count:
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        for axes in (upper, lower):
            fix_ticks(axes)
            open_frame(axes)
        upper.tick_params(labelbottom=False)
        if column == 0:
            upper.set_ylabel("events per bin")
            lower.set_ylabel(ratio, fontsize=8)
        pairs.append((upper, lower))
    return figure, pairs


def _draw_comparison(
    upper: Axes,
    lower: Axes,
    k: int,
    edges: np.ndarray,
    reference: tuple[str, _Sample],
    samples: Mapping[str, _Sample],
) -> None:
    name, observed = reference
    counts, _ = np.histogram(observed.x[:, k], edges, weights=observed.weight)
    squares, _ = np.histogram(observed.x[:, k], edges, weights=observed.weight**2)
    error, middles = np.sqrt(squares), (edges[1:] + edges[:-1]) / 2
    some = counts > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / counts
        for number, (label, sample) in enumerate(samples.items()):
            scale = observed.weight.sum() / sample.weight.sum()
            own, _ = np.histogram(sample.x[:, k], edges, weights=scale * sample.weight)
            style = {"color": choose_colour(number), "linewidth": 1.3}
            upper.stairs(own, edges, label=show_name(label), baseline=None, **style)
            lower.stairs(np.where(some, own / counts, np.nan), edges, baseline=None, **style)
    points = {"fmt": "o", "color": INK, "markersize": 2.8, "linewidth": 0.9}
    upper.errorbar(middles[some], counts[some], error[some], label=name, **points)
    lower.axhline(1.0, color=FAINT, linewidth=0.8)
    lower.errorbar(middles[some], np.ones(some.sum()), relative[some], **points)
    for axes in (upper, lower):
        axes.set_xlim(edges[0], edges[-1])
    upper.set_ylim(bottom=0)
    lower.set_ylim(0.4, 1.6)
    lower.locator_params(axis="x", nbins=5)


def _choose_edges(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Edges of bins over the range that holds 99.8% of each sample; whole numbers stay apart."""
    low = min(float(np.quantile(column, 0.001)) for column in columns)
    high = max(float(np.quantile(column, 0.999)) for column in columns)
    if all(np.array_equal(column, np.rint(column)) for column in columns) and high - low < 2 * BINS:
        # Some counts have every second value only, such as charged particles in pairs.
        values = np.unique(np.concatenate([np.unique(column) for column in columns]))
        step = int(np.gcd.reduce(np.diff(values).astype(int))) or 1
        first = values[np.searchsorted(values, low)]
        return np.arange(first, high + 1.5 * step, step) - 0.5 * step
    if high <= low:
        high = low + max(abs(low), 1.0)
    return np.linspace(low, high, BINS + 1)


def _read_sample(given: Input | Events | Reweighting, what: str) -> _Sample:
    if isinstance(given, Reweighting):
        return _Sample(given.x, given.normalised)
    if isinstance(given, Events):
        rows = spread_rows(len(given), 1_000_000)
        x, weight = (read_rows(part, rows).astype(float) for part in (given.x, given.weight))
        return _Sample(x, weight)
    x = as_finite(as_floats(given, what), what)
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"{what} must be events of shape (n, D), got shape {x.shape}")
    return _Sample(x, np.ones(len(x)))


def score_by_observable(
    estimator: Estimator | ScoreEstimator, events: Events, theta: Input | None = None
) -> Figure:
    """The learned score at one θ as a function of each observable, averaged over the others.

    Lines are means in bins of the observable, bands hold 68% of the events in each. It shows what
    the network looks at: where a line is steep, the observable tells values of the parameter apart.

    Args:
        estimator: offers a score.
        events: whose x are used, whatever θ they were made at.
        theta: where the score is taken; by default the middle of the trained region.
    """
    if not isinstance(estimator, Estimator | ScoreEstimator):
        raise TypeError(f"estimator must offer a score, got {kind_of(estimator)}")
    if not isinstance(events, Events):
        raise TypeError(f"events must be ist.Events, got {kind_of(events)}")
    region = estimator.region
    point = (region.theta_low + region.theta_high) / 2
    point = point if theta is None else as_finite(theta, "theta")
    x = read_rows(events.x, spread_rows(len(events), MOST_EVALUATED)).astype(np.float64)
    score = estimator.score(x, point)
    shown = min(x.shape[1], MOST_SHOWN)
    across = min(shown, ACROSS)
    with use_style():
        figure, panels = make_panels(shown, width=0.8 + 2.6 * across, height=2.9, across=across)
        for k, axes in enumerate(panels):
            open_frame(axes)
            edges = _choose_score_edges(x[:, k])
            for j, name in enumerate(estimator.theta_names):
                _draw_score(axes, x[:, k], score[:, j], edges, choose_colour(j), show_name(name))
            axes.set_xlabel(show_name(estimator.x_names[k]))
            axes.locator_params(axis="x", nbins=5)
            if k % across == 0:
                axes.set_ylabel("score")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6))
    return figure


def _choose_score_edges(x: np.ndarray) -> np.ndarray:
    """Quantiles; each value by itself where there are few, as of counts and categories."""
    values = np.unique(x)
    if len(values) <= SCORE_BINS:
        return np.append(values, values[-1] + 1)
    return np.unique(np.quantile(x, np.linspace(0, 1, SCORE_BINS + 1)))


def _draw_score(
    axes: Axes, x: np.ndarray, score: np.ndarray, edges: np.ndarray, colour: str, name: str
) -> None:
    if len(edges) < 2:
        edges = np.array([edges[0] - 0.5, edges[0] + 0.5])
    index = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    some = np.unique(index)
    middle = np.array([x[index == i].mean() for i in some])
    mean = np.array([score[index == i].mean() for i in some])
    ends = np.array([np.quantile(score[index == i], [0.16, 0.84]) for i in some]).T
    axes.fill_between(middle, *ends, color=colour, alpha=0.16, linewidth=0)
    marker = "o" if len(some) < 3 else None
    axes.plot(middle, mean, color=colour, linewidth=1.5, label=name, marker=marker)
