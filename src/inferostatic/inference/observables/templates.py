r"""Histograms of an observable at a reference point and at shifts of every parameter.

Three sources of events serve: a simulator, stored events made at exactly these points, or events at
the reference alone that are reweighted by the learned ratio. The first two are valid whatever the
network learned; the last has much less noise in its shifts, and trusts the ratio.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from ...estimator.estimator import Estimator
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import Input, as_seed, kind_of, warn_user
from ...world.simulator import Simulator
from ..arguments import as_observed
from ..arguments import as_weight as event_weights
from .histograms import Bins, Histogram, Sample, choose_bins, fill
from .observable import Observable

#: Shifts of templates in units of the expected error: larger ones have less noise and more
#: curvature beyond the second order.
SHIFT_ERRORS = 4.0
#: Simulated events at each point for one expected event, and their bounds: in twenty bins the
#: noise of the slopes then adds less than 1% to the information.
EVENTS_EACH, FEWEST_EVENTS, MOST_EVENTS = 120, 100_000, 1_000_000
#: Noise in the slopes, as a part of the information, that calls for a warning.
TOLERATED_NOISE = 0.05
#: A direction counts as measured if its information is this many times what noise alone gives.
ABOVE_FLOOR = 4.0
#: Parts into which samples are divided to see their noise.
BATCHES = 20
#: Effective fraction of events below which reweighting is refused.
FEWEST_EFFECTIVE = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Reweighted:
    """Events at the reference point alone; shifts are made by weights from the learned ratio.

    Attributes:
        x: events simulated at θ_ref, shape (n, D).
        weight: one weight for each, of either sign.
    """

    x: Input
    weight: Input | None = None


@dataclasses.dataclass(frozen=True)
class TemplateChoices:
    """How templates are made.

    Attributes:
        shift: size of the shift along each direction, by name; four expected errors unless given.
        events: simulated at each point; enough for the expected number unless given.
        bins: bins to use; chosen from the templates unless given.
        max_relative_error: bound on the statistical error of each bin of each template.
        most_bins: number of bins at most.
        mc_errors: whether the finite number of simulated events enters the model.
    """

    shift: Mapping[str, float] | None = None
    events: int | None = None
    bins: Bins | None = None
    max_relative_error: float = 0.1
    most_bins: int = 20
    mc_errors: bool = True


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Templates:
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
            directions that it was not made for, its shape can tell more than its mean.
    """

    directions: Mapping[str, np.ndarray]
    shift: Mapping[str, float]
    error: Mapping[str, float]
    nominal: Histogram
    low: Mapping[str, Histogram]
    high: Mapping[str, Histogram]
    noise: Mapping[str, float]
    kept: Mapping[str, float]


def make_templates(
    observable: Observable,
    source: Simulator | Events | Reweighted,
    *,
    expected: float,
    directions: Mapping[str, np.ndarray],
    precision: Mapping[str, float],
    choices: TemplateChoices,
    seed: int | None,
) -> Templates:
    """Templates for `expected` events, with constraints of the given precision on directions."""
    sampler = _sampler(observable, source, expected, choices, seed)
    x, weight = sampler.at(observable.theta_ref)
    reference = _valued(observable, x, weight)
    # Coarse bins of the reference alone say how well each direction will be known.
    coarse = choices.bins or _chosen([reference], choices)
    basis = np.stack(list(directions.values()))
    binned = basis @ observable.binned_information(x, coarse, weight) @ basis.T
    total = expected * binned + np.diag([precision.get(name, 0.0) for name in directions])
    floor = expected * len(coarse) / len(x) * (basis @ observable.information(x, weight) @ basis.T)
    if _smallest_ratio(total, floor) < ABOVE_FLOOR:
        raise ValueError(
            f"the observable ({', '.join(observable.names)}) tells too little to measure "
            f"{', '.join(directions)} at once; free fewer parameters, constrain them more, use an "
            "observable with more columns, or give more events."
        )
    sizes = np.sqrt(np.diag(np.linalg.inv(total)))
    error = {name: float(size) for name, size in zip(directions, sizes, strict=True)}
    shift = sampler.shifts(directions, _wanted_shift(observable, directions, error, choices))
    samples: dict[tuple[str, int], Sample] = {}
    for name, direction in directions.items():
        for sign in (-1, 1):
            point = observable.theta_ref + sign * shift[name] * direction
            samples[name, sign] = _valued(observable, *sampler.at(point))
    bins = choices.bins or _chosen([reference, *samples.values()], choices)
    filled = {key: fill(bins, *sample).scaled(1.0) for key, sample in samples.items()}
    nominal = fill(bins, *reference).scaled(1.0)
    if np.any(nominal.values <= 0):
        raise ValueError(
            f"{np.sum(nominal.values <= 0)} of the {len(bins)} bins have no positive content at "
            "theta_ref; give coarser bins or more events."
        )
    binned = np.diag(basis @ observable.binned_information(x, bins, weight) @ basis.T)
    told = np.diag(_told(observable, x, weight, basis))
    scale = dict(zip(directions, binned, strict=True))
    low, high, noise = {}, {}, {}
    for name in directions:
        three = (reference, samples[name, -1], samples[name, 1])
        slope_noise, curvature_noise = _batch_noise(bins, three, shift[name])
        noise[name] = float(np.sum(slope_noise / nominal.values) / scale[name])
        low[name], high[name] = _shrunk(
            nominal, filled[name, -1], filled[name, 1], curvature_noise, shift[name]
        )
    for name, part in noise.items():
        if part > TOLERATED_NOISE:
            warn_user(
                f"the statistical noise of the templates adds {part:.0%} to the information on "
                f"{name}, so its error will look too small; use more simulated events, fewer bins "
                "or a larger shift (TemplateChoices)."
            )
    kept = {n: float(b / t) for n, b, t in zip(directions, binned, told, strict=True)}
    return Templates(directions, shift, error, nominal, low, high, noise, kept)


def _valued(observable: Observable, x: np.ndarray, weight: np.ndarray | None) -> Sample:
    return observable(x), np.ones(len(x)) if weight is None else weight


def _chosen(samples: list[Sample], choices: TemplateChoices) -> Bins:
    return choose_bins(
        samples, max_relative_error=choices.max_relative_error, most=choices.most_bins
    )


def _smallest_ratio(matrix: np.ndarray, floor: np.ndarray) -> float:
    """The smallest of matrix / floor over all directions."""
    root = np.linalg.cholesky(floor)
    half = np.linalg.solve(root, matrix)
    return float(np.linalg.eigvalsh(np.linalg.solve(root, half.T))[0])


def _told(
    observable: Observable, x: np.ndarray, weight: np.ndarray | None, basis: np.ndarray
) -> np.ndarray:
    """The information on the directions in the means of one event's observable."""
    information, projection = observable.information(x, weight), observable.projection
    slopes = projection @ information @ basis.T
    return slopes.T @ np.linalg.solve(projection @ information @ projection.T, slopes)


def _wanted_shift(
    observable: Observable,
    directions: Mapping[str, np.ndarray],
    error: Mapping[str, float],
    choices: TemplateChoices,
) -> dict[str, float]:
    """Shifts that stay inside the trained region."""
    region, wanted = observable.estimator.region, {}
    for name, direction in directions.items():
        moves = direction != 0
        room = np.minimum(
            observable.theta_ref - region.theta_low, region.theta_high - observable.theta_ref
        )
        most = float(np.min(room[moves] / np.abs(direction[moves])))
        given = (choices.shift or {}).get(name)
        shift = min(SHIFT_ERRORS * error[name], most) if given is None else float(given)
        if not 0 < shift <= most * (1 + 1e-9):
            raise ValueError(
                f"the shift along {name} must be positive and keep theta_ref ± shift in the "
                f"trained region, so at most {most:.4g}; got {shift:.4g}."
            )
        if shift < 0.5 * error[name]:
            raise ValueError(
                f"theta_ref lies so near to the edge of the trained region that the templates of "
                f"{name} can be shifted by {shift:.3g} only, where its expected error is "
                f"{error[name]:.3g}; choose another theta_ref or simulate wider."
            )
        wanted[name] = shift
    return wanted


class _Simulated:
    """Events from a simulator."""

    def __init__(self, simulator: Simulator, count: int, seed: int) -> None:
        self.simulator, self.count, self.seed = simulator, count, seed

    def at(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        # The same random numbers at every point: much of the noise cancels in the differences.
        return simulate_at(self.simulator, np.tile(point, (self.count, 1)), seed=self.seed), None

    def shifts(
        self, directions: Mapping[str, np.ndarray], wanted: Mapping[str, float]
    ) -> dict[str, float]:
        return dict(wanted)


class _Stored:
    """Events that were made at θ_ref and at shifts of single parameters."""

    def __init__(self, observable: Observable, events: Events) -> None:
        self.events, self.ref = events, observable.theta_ref
        self.scale = observable.estimator.region.theta_high - observable.estimator.region.theta_low

    def _near(self, point: np.ndarray) -> np.ndarray:
        away = np.abs(np.asarray(self.events.theta, np.float64) - point)
        return np.all(away <= 1e-6 * self.scale, axis=1)

    def at(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        rows = self._near(point)
        if not rows.any():
            raise ValueError(
                f"no events were made at θ = {np.round(point, 6).tolist()}; templates need events "
                "at theta_ref and at theta_ref ± one shift of each free parameter. Simulate them "
                "there, or give a simulator, or Reweighted(x) with events at theta_ref."
            )
        return np.asarray(self.events.x[rows], np.float64), self.events.weight[rows]

    def shifts(
        self, directions: Mapping[str, np.ndarray], wanted: Mapping[str, float]
    ) -> dict[str, float]:
        """The shifts at which there are events on both sides."""
        points = np.unique(np.asarray(self.events.theta, np.float64), axis=0)
        found = {}
        for name, direction in directions.items():
            sizes = (points - self.ref) @ direction / (direction @ direction)
            away = np.abs(points - self.ref - sizes[:, None] * direction)
            along = np.all(away <= 1e-6 * self.scale, axis=1)
            both = [
                size
                for size in sizes[along & (sizes > 0)]
                if self._near(self.ref - size * direction).any()
            ]
            if not both:
                raise ValueError(
                    f"there are no events at two points theta_ref ± shift along {name}; simulate "
                    f"some, for example at a shift of {wanted[name]:.4g}."
                )
            found[name] = float(min(both, key=lambda size: abs(size - wanted[name])))
        return found


class _ByRatio:
    """Events at θ_ref with weights from the learned ratio."""

    def __init__(self, observable: Observable, events: Reweighted) -> None:
        estimator = observable.estimator
        if not isinstance(estimator, Estimator):
            raise TypeError(
                "Reweighted needs the log ratios of a potential (ist.Estimator); got a "
                f"{kind_of(estimator)}. Give a simulator or events at the shifted points."
            )
        self.estimator, self.ref = estimator, observable.theta_ref
        self.x = np.asarray(as_observed(estimator, events.x), np.float64)
        self.weight = event_weights(events.weight, len(self.x))

    def at(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if np.array_equal(point, self.ref):
            return self.x, self.weight
        log_ratio = self.estimator.log_ratio(self.x, point, self.ref)
        ratio = np.exp(log_ratio - log_ratio.max())
        effective = ratio.sum() ** 2 / (ratio @ ratio) / len(ratio)
        if effective < FEWEST_EFFECTIVE:
            raise ValueError(
                f"reweighting to θ = {np.round(point, 5).tolist()} would leave {effective:.1%} of "
                "the events effective; use a smaller shift or simulate there."
            )
        return self.x, ratio if self.weight is None else ratio * self.weight

    def shifts(
        self, directions: Mapping[str, np.ndarray], wanted: Mapping[str, float]
    ) -> dict[str, float]:
        return dict(wanted)


def _batch_noise(
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
    each = (np.var(rows, axis=0, ddof=1) / BATCHES for rows in (slopes, curvatures))
    return next(each), next(each)


def _shrunk(
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
    below, above = (
        dataclasses.replace(histogram, values=histogram.values - change)
        for histogram in (low, high)
    )
    return below, above


def _sampler(
    observable: Observable,
    source: Simulator | Events | Reweighted,
    expected: float,
    choices: TemplateChoices,
    seed: int | None,
) -> _Simulated | _Stored | _ByRatio:
    if isinstance(source, Reweighted):
        return _ByRatio(observable, source)
    if isinstance(source, Events):
        return _Stored(observable, source)
    if not callable(source):
        raise TypeError(
            "templates are made from a simulator, from Events at theta_ref and at shifted points, "
            f"or from Reweighted(x) with events at theta_ref; got {kind_of(source)}."
        )
    if seed is None:
        raise ValueError("a simulator needs a seed, for example seed=1.")
    count = choices.events
    if count is None:
        count = int(np.clip(EVENTS_EACH * expected, FEWEST_EVENTS, MOST_EVENTS))
    return _Simulated(source, count, as_seed(seed))
