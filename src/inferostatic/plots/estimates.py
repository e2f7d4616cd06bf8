"""What figures read off fits and posteriors: values, covariances and samples by parameter."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..inference.arguments import ONE_SIGMA
from ..inference.calibrated.calibrated_fit import CalibratedFit
from ..inference.confidence.confidence_set import ConfidenceSet
from ..inference.likelihood.cross_entropy import CrossEntropyFit
from ..inference.likelihood.maximum_likelihood import MaximumLikelihood
from ..inference.posterior.posterior import Posterior
from ..inputs import Input, as_floats, kind_of
from .arrays import as_finite, require_names
from .names import show_name
from .style import FAINT, choose_colour, make_panels, open_frame, use_style

Fit = MaximumLikelihood | CalibratedFit | CrossEntropyFit
Estimates = Fit | Posterior


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """Where parameters lie: samples, or an estimate with its covariance."""

    names: tuple[str, ...]
    mean: np.ndarray
    covariance: np.ndarray
    samples: np.ndarray | None = None

    @property
    def free(self) -> tuple[str, ...]:
        """The parameters that are not fixed."""
        own = zip(self.names, np.diag(self.covariance), strict=True)
        return tuple(name for name, variance in own if variance > 0)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Where some parameters stand."""
        return [self.names.index(name) for name in names]


def read_spreads(results: object, names: Sequence[str] | None) -> dict[str, Spread]:
    """One or several results by what they are; the names of arrays of samples are given."""
    if not isinstance(results, Mapping):
        results = {"": results}
    if not results:
        raise ValueError("expected at least one result, got an empty dictionary")
    found = {str(label): _read_spread(one, names) for label, one in results.items()}
    shared = set.intersection(*(set(one.free) for one in found.values()))
    if not shared:
        raise ValueError(
            "the results have no free parameter in common: "
            + "; ".join(f"{label}: {', '.join(one.names)}" for label, one in found.items())
        )
    return found


def shared_names(spreads: Mapping[str, Spread]) -> tuple[str, ...]:
    """The free parameters of all results, in the order of the first."""
    first, *others = spreads.values()
    return tuple(name for name in first.free if all(name in other.free for other in others))


def read_truth(truth: object, names: Sequence[str]) -> list[float | None]:
    """True values of some parameters, from a dictionary by name; None where one is not known."""
    if truth is None:
        return [None] * len(names)
    if not isinstance(truth, Mapping):
        raise TypeError(f"truth must be a dictionary of values by parameter, got {kind_of(truth)}")
    if truth and not any(name in truth for name in names):
        raise ValueError(
            f"truth has values of {', '.join(map(str, truth))}, and the figure shows "
            f"{', '.join(names)}"
        )
    return [float(as_finite(truth[name], "truth")) if name in truth else None for name in names]


def _read_spread(result: Any, names: Sequence[str] | None) -> Spread:  # noqa: ANN401
    if isinstance(result, Posterior):
        return Spread(result.names, result.mean, result.covariance, result.samples)
    if isinstance(result, Fit):
        return Spread(result.names, result.theta, result.covariance)
    samples: np.ndarray
    try:
        samples = as_floats(result, "samples").astype(np.float64)
    except (TypeError, ValueError):
        samples = np.zeros((0, 0))
    if samples.ndim != 2 or len(samples) < 2 or names is None or len(names) != samples.shape[1]:
        raise TypeError(
            "expected posteriors, fits, or samples of shape (n, d) with names= of their columns; "
            f"got {kind_of(result)}" + (f" of shape {samples.shape}" if samples.size else "")
        )
    samples = as_finite(samples, "samples")
    covariance = np.atleast_2d(np.cov(samples.T))
    return Spread(tuple(names), samples.mean(axis=0), covariance, samples)


def intervals(
    results: Mapping[str, Estimates | ConfidenceSet], *, truth: Mapping[str, float] | None = None
) -> Figure:
    """Estimates of several results side by side, with their 68% intervals.

    One panel for each parameter. Of a posterior it is the mean and the central interval, of a
    confidence set the best fit and the interval of one parameter.

    Args:
        results: fits, posteriors and confidence sets of one parameter, by what they are.
        truth: true values by parameter, drawn as lines.
    """
    if not isinstance(results, Mapping) or not results:
        raise ValueError(f"expected a dictionary of results by what they are, got {results!r}")
    rows = {str(label): _read_interval(one) for label, one in results.items()}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    true = read_truth(truth, names)
    with use_style():
        height = 1.1 + 0.32 * len(rows)
        figure, panels = make_panels(len(names), width=1.4 + 2.6 * len(names), height=height)
        for axes, name, value in zip(panels, names, true, strict=True):
            open_frame(axes)
            axes.grid(visible=False, axis="y")
            for number, row in enumerate(rows.values()):
                if name in row:
                    middle, low, high = row[name]
                    bars = [[max(middle - low, 0.0)], [max(high - middle, 0.0)]]
                    axes.errorbar(
                        middle,
                        number,
                        xerr=bars,
                        fmt="o",
                        markersize=4,
                        capsize=3,
                        color=choose_colour(number),
                    )
            if value is not None:
                axes.axvline(value, color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)))
            labels = [show_name(label) for label in rows]
            axes.set_yticks(range(len(rows)), labels if axes is panels[0] else [""] * len(rows))
            axes.set(xlabel=show_name(name), ylim=(len(rows) - 0.5, -0.5))
    return figure


def _read_interval(result: object) -> dict[str, tuple[float, float, float]]:
    """Estimate and ends of the 68% interval, by parameter."""
    if isinstance(result, ConfidenceSet):
        ends = result.hull(ONE_SIGMA)
        best = result.best[[result.theta_names.index(name) for name in result.names]]
        names = result.names
    elif isinstance(result, Estimates):
        spread = _read_spread(result, None)
        best, names = spread.mean, result.names
        error = np.sqrt(np.diag(spread.covariance))
        ends = np.stack([best - error, best + error], axis=1)
        if isinstance(result, Posterior | CalibratedFit):
            ends = result.interval(ONE_SIGMA)
    else:
        raise TypeError(f"expected a fit, a posterior or a confidence set, got {kind_of(result)}")
    each = zip(names, best, ends, strict=True)
    return {n: (float(b), float(e[0]), float(e[1])) for n, b, e in each if e[1] > e[0]}


def pulls(values: Input, names: Sequence[str]) -> Figure:
    """Histograms of pulls, (estimate − truth) / error, beside the unit normal distribution.

    If errors are right and nothing is biased, the pulls of repeated fits have mean 0 and width 1.

    Args:
        values: pulls, shape (fits, parameters).
        names: of the parameters.
    """
    table = as_finite(values, "values")
    if table.ndim != 2 or len(table) < 2:
        raise ValueError(
            f"expected pulls of shape (fits, parameters) with at least two fits, got {table.shape}"
        )
    names = require_names(names, table.shape[1], str(table.shape[1]))
    reach = max(4.0, float(np.quantile(np.abs(table), 0.99)) * 1.1)
    edges = np.linspace(-reach, reach, int(np.clip(np.sqrt(len(table)) * 1.5, 8, 40)) + 1)
    grid = np.linspace(-reach, reach, 201)
    with use_style():
        figure, panels = make_panels(len(names), width=0.6 + 2.7 * len(names), height=2.9)
        for k, (axes, name) in enumerate(zip(panels, names, strict=True)):
            open_frame(axes)
            own, colour = table[:, k], choose_colour(k)
            count, _ = np.histogram(own, edges)
            density = count / len(own) / np.diff(edges)
            axes.stairs(density, edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(density, edges, color=colour)
            normal = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
            axes.plot(grid, normal, color=FAINT, linestyle=(0, (4, 2)))
            error = own.std() / np.sqrt(len(own))
            axes.set_title(
                f"mean {own.mean():.2f} ± {error:.2f}, width {own.std(ddof=1):.2f} ± "
                f"{own.std() / np.sqrt(2 * (len(own) - 1)):.2f}",
                fontsize=8.5,
            )
            axes.set(xlabel=f"pull of {show_name(name)}", ylabel="density" if k == 0 else "")
    return figure
