r"""Histograms of an observable at a reference point and at shifts of every parameter.

Three sources of events serve: a simulator, stored events made at exactly these points, or events at
the reference alone that are reweighted by the learned ratio. The first two are valid whatever the
network learned; the last has much less noise in its shifts, and trusts the ratio.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...events.events import Events
from ...inputs import as_count, as_flag, as_number, as_text, kind_of, warn_user
from ...summary import AbstractSummarised, Summary, SummaryTable, count, list_parts, shorten
from ..information.symmetric_matrices import relative_eigenvalues
from .histograms import Bins, Histogram, Sample, choose_bins, fill_histogram
from .observable import Observable
from .template_events import Directions, Reweighted, Simulated, open_source

#: Shifts of templates in units of the expected error: larger ones have less noise and more
#: curvature beyond the second order.
SHIFT_ERRORS = 4.0
#: Smallest shift in units of the expected error that still determines a slope.
LEAST_SHIFT_ERRORS = 0.5
#: Noise in the slopes, as a part of the information, that calls for a warning.
TOLERATED_NOISE = 0.05
#: A direction counts as measured if its information is this many times what noise alone gives.
ABOVE_FLOOR = 4.0
#: Parts into which samples are divided to see their noise: its variance is then known to a third.
BATCHES = 20


@dataclasses.dataclass(frozen=True)
class Templates:
    """How templates are made and binned.

    Attributes:
        source: `Simulated(simulator, seed=1)`; Events made at θ_ref and at θ_ref ± a shift of each
            parameter; or `Reweighted(x)` with events at θ_ref.
        shift: size of the shift along each direction, by name; four expected errors by default.
        bins: bins to use; chosen from the templates by default.
        max_relative_error: bound on the statistical error of each bin of each template.
        most_bins: number of bins at most.
        mc_errors: whether the finite number of simulated events enters the model.
    """

    source: Simulated | Reweighted | Events
    shift: Mapping[str, float] | None = None
    bins: Bins | None = None
    max_relative_error: float = 0.1
    most_bins: int = 20
    mc_errors: bool = True

    def __post_init__(self) -> None:
        """Check the source and the number of bins."""
        if isinstance(self.source, Simulated | Reweighted | Events):
            as_count(self.most_bins, "most_bins")
            as_number(self.max_relative_error, "max_relative_error", above=0)
            as_flag(self.mc_errors, "mc_errors")
            if not isinstance(self.bins, Bins | None):
                raise TypeError(f"bins must be what choose_bins returns; got {kind_of(self.bins)}.")
            if not isinstance(self.shift, Mapping | None):
                raise TypeError(
                    "shift must be a size for each parameter by name, such as {'mu': 0.1}; got "
                    f"{kind_of(self.shift)}."
                )
            for name, size in (self.shift or {}).items():
                as_text(name, "the name of a shift")
                as_number(size, f"the shift along {name}", above=0)
            return
        needed = " A simulator needs a seed: ist.Simulated(simulator, seed=1)."
        hint = needed if callable(self.source) else ""
        raise TypeError(
            "templates are made from a simulator, ist.Simulated(simulator, seed=1), from Events at "
            "theta_ref and at shifted points, or from Reweighted(x) with events at theta_ref; got "
            f"{kind_of(self.source)}.{hint}"
        )

    def choose_bins(self, samples: list[Sample]) -> Bins:
        """The given bins, or those in which all samples are known well enough."""
        if self.bins is not None:
            return self.bins
        return choose_bins(samples, max_relative_error=self.max_relative_error, most=self.most_bins)


def as_templates(templates: Any) -> Templates:  # noqa: ANN401
    """Options, or those of a bare source."""
    return templates if isinstance(templates, Templates) else Templates(templates)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class TemplateHistograms(AbstractSummarised):
    """Histograms of unit sum at θ_ref and at shifts along directions.

    Attributes:
        directions: changes of θ by name, shape (d,) each.
        shift: size of the shift along each, by name.
        error: expected error along each, by name, from the bins.
        nominal: at θ_ref.
        low, high: at θ_ref ∓ shift × direction, by name, less the part of their curvature that is
            noise.
        noise: what the templates' own statistical noise adds to the information on each direction,
            as a part of it.
        kept: information in the bins as a part of that in the mean of the observable; along
            directions that it was not made for, its shape can hold more than its mean.
    """

    directions: Directions
    shift: Mapping[str, float]
    error: Mapping[str, float]
    nominal: Histogram
    low: Mapping[str, Histogram]
    high: Mapping[str, Histogram]
    noise: Mapping[str, float]
    kept: Mapping[str, float]

    def __repr__(self) -> str:
        """Bins and directions, in a line."""
        bins = count(len(self.nominal.values), "bin")
        shifts = list_parts(f"{shorten(name)} ± {self.shift[name]:.3g}" for name in self.directions)
        return f"TemplateHistograms({bins}; {shifts})"

    def _summarise(self) -> Summary:
        names = list(self.directions)
        columns = {
            "direction": names,
            "shift": [f"{self.shift[name]:.3g}" for name in names],
            "expected error": [f"{self.error[name]:.3g}" for name in names],
            "kept by bins": [f"{self.kept[name]:.1%}" for name in names],
            "noise": [f"{self.noise[name]:.1%}" for name in names],
        }
        title = f"Templates in {count(len(self.nominal.values), 'bin')}"
        return Summary(title, (SummaryTable(columns),))


def make_templates(
    observable: Observable,
    options: Templates,
    *,
    expected: float,
    directions: Directions,
    precision: Mapping[str, float],
) -> TemplateHistograms:
    """Templates for `expected` events, with constraints of the given precision on directions."""
    source = open_source(options.source, observable, expected)
    x, weight = source.at(observable.theta_ref)
    reference = observable(x), weight
    # Coarse bins of the reference alone say how well each direction will be known.
    coarse = options.choose_bins([reference])
    basis = np.stack(list(directions.values()))
    binned = basis @ observable.binned_information(x, coarse, weight) @ basis.T
    total = expected * binned + np.diag([precision.get(name, 0.0) for name in directions])
    floor = expected * len(coarse) / len(x) * (basis @ observable.information(x, weight) @ basis.T)
    if relative_eigenvalues(total, floor)[0] < ABOVE_FLOOR:
        raise ValueError(
            f"the observable ({', '.join(observable.names)}) says too little to measure "
            f"{', '.join(directions)} at once; free fewer parameters, constrain them more, use an "
            "observable with more columns, or give more events."
        )
    sizes = np.sqrt(np.diag(np.linalg.inv(total)))
    error = {name: float(size) for name, size in zip(directions, sizes, strict=True)}
    shift = source.shifts(directions, _choose_shifts(observable, directions, error, options))
    samples: dict[tuple[str, int], Sample] = {}
    for name, direction in directions.items():
        for sign in (-1, 1):
            point = observable.theta_ref + sign * shift[name] * direction
            x_shifted, weight_shifted = source.at(point)
            samples[name, sign] = observable(x_shifted), weight_shifted
    bins = options.choose_bins([reference, *samples.values()])
    filled = {key: fill_histogram(bins, *one).scale_to(1.0) for key, one in samples.items()}
    nominal = fill_histogram(bins, *reference).scale_to(1.0)
    if np.any(nominal.values <= 0):
        raise ValueError(
            f"{np.sum(nominal.values <= 0)} of the {len(bins)} bins have no positive content at "
            "theta_ref; give coarser bins or more events."
        )
    binned = np.diag(basis @ observable.binned_information(x, bins, weight) @ basis.T)
    in_mean = np.diag(_information_in_mean(observable, x, weight, basis))
    scale = dict(zip(directions, binned, strict=True))
    low, high, noise = {}, {}, {}
    for name in directions:
        three = (reference, samples[name, -1], samples[name, 1])
        slope_noise, curvature_noise = _measure_noise(bins, three, shift[name])
        noise[name] = float(np.sum(slope_noise / nominal.values) / scale[name])
        low[name], high[name] = _shrink_curvature(
            nominal, filled[name, -1], filled[name, 1], curvature_noise, shift[name]
        )
    for name, part in noise.items():
        if part > TOLERATED_NOISE:
            warn_user(
                f"the statistical noise of the templates adds {part:.0%} to the information on "
                f"{name}, so its error will look too small; use more simulated events, fewer bins "
                "or a larger shift (ist.Templates)."
            )
    kept = {n: float(b / t) for n, b, t in zip(directions, binned, in_mean, strict=True)}
    return TemplateHistograms(directions, shift, error, nominal, low, high, noise, kept)


def _information_in_mean(
    observable: Observable, x: np.ndarray, weight: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """The information on the directions in the means of one event's observable."""
    information, projection = observable.information(x, weight), observable.projection
    slopes = projection @ information @ basis.T
    return slopes.T @ np.linalg.solve(projection @ information @ projection.T, slopes)


def _choose_shifts(
    observable: Observable, directions: Directions, error: Mapping[str, float], options: Templates
) -> dict[str, float]:
    """Shifts that stay inside the trained region."""
    region, point, wanted = observable.estimator.region, observable.theta_ref, {}
    for name, direction in directions.items():
        moves = direction != 0
        room = np.minimum(point - region.theta_low, region.theta_high - point)
        most = float(np.min(room[moves] / np.abs(direction[moves])))
        given = (options.shift or {}).get(name)
        shift = min(SHIFT_ERRORS * error[name], most) if given is None else float(given)
        if not 0 < shift <= most * (1 + 1e-9):
            raise ValueError(
                f"the shift along {name} must be positive and keep theta_ref ± shift in the "
                f"trained region, so at most {most:.4g}; got {shift:.4g}."
            )
        if shift < LEAST_SHIFT_ERRORS * error[name]:
            raise ValueError(
                f"theta_ref lies so near to the edge of the trained region that the templates of "
                f"{name} can be shifted by {shift:.3g} only, where its expected error is "
                f"{error[name]:.3g}; choose another theta_ref or simulate wider."
            )
        wanted[name] = shift
    return wanted


def _measure_noise(
    bins: Bins, samples: tuple[Sample, Sample, Sample], shift: float
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of the slopes and curvatures of all bins, from the scatter of batches.

    Rows of one number stay together, so it holds too where the same events, or the same random
    numbers, stand behind all three templates.
    """
    slopes, curvatures = [], []
    for first in range(BATCHES):
        contents = []
        for values, weights in samples:
            part = slice(first, None, BATCHES)
            sums = np.bincount(bins.index(values[part]), weights[part], minlength=len(bins))
            contents.append(sums / weights[part].sum())
        nominal, low, high = contents
        slopes.append((high - low) / (2 * shift))
        curvatures.append((high + low - 2 * nominal) / shift**2)
    slope_noise, curvature_noise = np.var([slopes, curvatures], axis=1, ddof=1) / BATCHES
    return slope_noise, curvature_noise


def _shrink_curvature(
    nominal: Histogram, low: Histogram, high: Histogram, variance: np.ndarray, shift: float
) -> tuple[Histogram, Histogram]:
    """The shifted templates with their noisy curvature drawn towards zero.

    The curvature c enters the observed information by Σ (n − ν) c/p, whose variance goes with
    Σ c²/p. Multiplying c by signal / (signal + noise) of that sum makes the squared error smallest.
    """
    bend = (high.values + low.values - 2 * nominal.values) / shift**2
    measured, noise = (float(np.sum(v / nominal.values)) for v in (bend**2, variance))
    kept = max(0.0, 1 - noise / measured) if measured > 0 else 1.0
    change = 0.5 * (1 - kept) * shift**2 * bend
    below = dataclasses.replace(low, values=low.values - change)
    return below, dataclasses.replace(high, values=high.values - change)
