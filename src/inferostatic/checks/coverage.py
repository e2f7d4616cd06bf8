"""Coverage of single-event posteriors, without sampling a single one.

An event made at θ and M rivals drawn from the law of θ are exchangeable: given all M+1 and the
event, each was the true one with probability softmax φ. So any quantity of θ, ranked among its
rivals with these weights, is uniform for an exact potential, *at any M*. The quantity is a
parameter for simulation-based calibration (SBC), the distance to a random point for TARP, and the
posterior density for the expected coverage of highest-density sets.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..estimator.estimator import Estimator
from ..events.events import Events
from ..inputs import as_count, warn_user
from ..progress import progress
from ..world.priors.discrete import Discrete
from .finding import Finding, effective_events, smallest, uniform_p_value
from .held_out import FEWEST_EVENTS, HeldOut, derived, hold_out, told_before

#: Rivals for each of the events that share them, and such events at most: sharing makes ranks
#: dependent, by a few per cent of their variance at this rate.
RIVALS_PER_EVENT, MOST_SHARING = 64, 64
#: Bins of ranks, and of posterior means for the ranks given the estimate.
BINS, ESTIMATE_BINS = 10, 5
LEVELS = np.array([0.5, 0.68, 0.9, 0.95])
#: Difference between nominal and actual coverage that is tolerated.
TOLERATED_DIFFERENCE = 0.03
#: Effective number of rivals below which ranks are mostly chance.
FEWEST_RIVALS = 10.0


@dataclasses.dataclass(frozen=True, repr=False)
class Coverage:
    """Ranks and coverages; all ranks are uniform on [0, 1] for an exact potential.

    Attributes:
        ranks: of each parameter in its posterior (SBC), shape (n, d).
        tarp: posterior probability nearer to a random point than the truth, shape (n,).
        density_ranks: smallest credible level whose highest-density set holds the truth, (n,).
        mean: posterior mean of each event, shape (n, d).
        theta: the truth, shape (n, d).
        weight: of the events.
        levels: credible levels.
        expected: coverage of the highest-density sets at these levels, with `error`.
        over_theta: the same in equal parts of each parameter's range, shape (d, parts, levels).
            An exact posterior need not cover a given θ with its level, only θ on average.
        over_theta_error: its standard error.
        theta_edges: edges of those parts, shape (d, parts + 1).
        p_values: of "SBC" and "SBC given the estimate" for each parameter, "TARP", "density".
        rivals: median effective number of rivals.
        names: of the parameters.
        findings: the verdicts.
    """

    ranks: np.ndarray
    tarp: np.ndarray
    density_ranks: np.ndarray
    mean: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    levels: np.ndarray
    expected: np.ndarray
    error: np.ndarray
    over_theta: np.ndarray
    over_theta_error: np.ndarray
    theta_edges: np.ndarray
    p_values: dict[str, np.ndarray]
    rivals: float
    names: tuple[str, ...]
    findings: tuple[Finding, ...]

    def curve(self, ranks: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Fraction of events with a rank up to each level: the diagonal if exact."""
        below = np.asarray(ranks)[:, None] <= np.asarray(levels)
        return self.weight @ below / self.weight.sum()

    def __repr__(self) -> str:
        """The verdicts."""
        return "Coverage(" + "; ".join(map(str, self.findings)) + ")"


def coverage(
    estimator: Estimator,
    events: Events,
    *,
    most: int = 2000,
    rivals: int = 1000,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> Coverage:
    """Test the posteriors of single held-out events, under the law that their θ follow.

    Args:
        estimator: a potential.
        events: that it was not trained on.
        most: events used.
        rivals: other θ for each event; eight times as many where few of them count.
        seed: of the rivals and of the choice of events.
        progress_bar: force the display on or off.
    """
    held = hold_out(
        estimator,
        events,
        most=as_count(most, "most"),
        seed=seed,
        kinds=(Estimator,),
        check="coverage",
    )
    count = as_count(rivals, "rivals")
    some = _Group(estimator, held, slice(0, FEWEST_EVENTS), held.rivals(count, derived(seed, 0)))
    if np.median(some.effective) < 2 * FEWEST_RIVALS:
        count *= 8
    size = int(np.clip(count // RIVALS_PER_EVENT, 1, MOST_SHARING))
    starts = range(0, len(held.x), size)
    drawn = held.rivals(len(starts) * count, derived(seed, 1)).reshape(len(starts), count, -1)
    # References of TARP may be any points that know nothing of the truth.
    references = held.rivals(len(held.x), derived(seed, 2))
    rng = np.random.default_rng(derived(seed, 3))
    parts = []
    with progress("ranking θ among others", len(held.x), show=progress_bar) as advance:
        for start, theta in zip(starts, drawn, strict=True):
            rows = slice(start, min(start + size, len(held.x)))
            parts.append(_Group(estimator, held, rows, theta).ranks(references[rows], rng))
            advance(rows.stop - rows.start)
    ranks = _Ranks(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if np.median(ranks.effective) < FEWEST_RIVALS:
        warn_user(
            f"of {count} other θ only {np.median(ranks.effective):.1f} compete with the true one "
            "for a typical event, so coverage is tested with little power; raise rivals=, or give "
            "events from a narrower prior."
        )
    return _record(held, ranks, estimator.theta_names)


class _Ranks(NamedTuple):
    """Of the parameters, the distance and the density; posterior mean; effective rivals."""

    parameters: np.ndarray
    distance: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    effective: np.ndarray


class _Group:
    """Some events and their rivals, with the probability that each was the true θ."""

    def __init__(
        self, estimator: Estimator, held: HeldOut, rows: slice, rivals: np.ndarray
    ) -> None:
        x, theta = held.x[rows], held.theta[rows]
        with told_before():
            own = estimator.potential(x, theta)[:, None]
            potential = np.concatenate([own, estimator.potential_grid(x, rivals)], axis=1)
        self.probability = softmax(potential, axis=1)
        self.effective = 1 / np.square(self.probability).sum(axis=1)
        self.density = potential + _log_prior(held, theta, rivals)
        self.scale = held.law.centre_and_scale[1]
        among = np.broadcast_to(rivals, (len(theta), *rivals.shape))
        #: The truth first, shape (events, 1 + rivals, d).
        self.candidates = np.concatenate([theta[:, None], among], axis=1)

    def ranks(self, references: np.ndarray, rng: np.random.Generator) -> _Ranks:
        away = (self.candidates - references[:, None]) / self.scale
        parameters = np.moveaxis(self.candidates, 2, 0)
        return _Ranks(
            parameters=np.stack([self._rank(values, rng) for values in parameters], axis=1),
            distance=self._rank(np.square(away).sum(axis=2), rng),
            density=self._rank(-self.density, rng),
            # The truth stands among those that the mean is taken of, as every rival does.
            mean=np.einsum("nm,nmd->nd", self.probability, self.candidates),
            effective=self.effective,
        )

    def _rank(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Probability below the first column, and a random part of that which is equal to it."""
        below = np.sum(self.probability * (values < values[:, :1]), axis=1)
        equal = np.sum(self.probability * (values == values[:, :1]), axis=1)
        return below + rng.random(len(values)) * equal


def _log_prior(held: HeldOut, theta: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    if isinstance(held.law, Discrete):
        # Sets of highest likelihood: as good for a test, and stored θ have no density.
        return np.zeros((len(theta), 1 + len(rivals)))
    own, others = held.law.log_prob(theta)[:, None], held.law.log_prob(rivals)[None]
    return np.concatenate([own, np.broadcast_to(others, (len(theta), len(rivals)))], axis=1)


def _record(held: HeldOut, found: _Ranks, names: tuple[str, ...]) -> Coverage:
    weight, (ranks, tarp, density, mean, effective) = held.weight, found
    worth, each = effective_events(weight), range(ranks.shape[1])
    p_values = {
        "SBC": np.array([uniform_p_value(_counts(ranks[:, i], weight), worth) for i in each]),
        "SBC given the estimate": np.array(
            [uniform_p_value(_table(mean[:, i], ranks[:, i], weight), worth) for i in each]
        ),
        "TARP": np.array([uniform_p_value(_counts(tarp, weight), worth)]),
        "density": np.array([uniform_p_value(_counts(density, weight), worth)]),
    }
    inside = density[:, None] <= LEVELS
    expected, error = _fraction(inside, weight)
    over = _over_theta(held.theta, inside, weight)
    return Coverage(
        ranks=ranks,
        tarp=tarp,
        density_ranks=density,
        mean=mean,
        theta=held.theta,
        weight=weight,
        levels=LEVELS,
        expected=expected,
        error=error,
        over_theta=over.value,
        over_theta_error=over.error,
        theta_edges=over.edges,
        p_values=p_values,
        rivals=float(np.median(effective)),
        names=names,
        findings=_findings(ranks, tarp, density, weight, p_values, names),
    )


def _counts(ranks: np.ndarray, weight: np.ndarray, bins: int = BINS) -> np.ndarray:
    return np.histogram(ranks, bins, (0.0, 1.0), weights=weight)[0]


def _table(mean: np.ndarray, ranks: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Ranks in parts of equal numbers of posterior means."""
    edges = np.quantile(mean, np.arange(1, ESTIMATE_BINS) / ESTIMATE_BINS)
    part = np.searchsorted(edges, mean)
    rows = [_counts(ranks[part == i], weight[part == i], 5) for i in range(ESTIMATE_BINS)]
    return np.stack([row for row in rows if row.sum() > 0])


def _fraction(inside: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = weight @ inside / weight.sum()
    worth = effective_events(weight)
    # The error that the nominal level would have: it does not vanish at 0 and 1.
    return value, np.sqrt(LEVELS * (1 - LEVELS) / worth)


class _OverTheta(NamedTuple):
    edges: np.ndarray
    value: np.ndarray
    error: np.ndarray


def _over_theta(theta: np.ndarray, inside: np.ndarray, weight: np.ndarray) -> _OverTheta:
    edges, values, errors = [], [], []
    for column in theta.T:
        cuts = np.quantile(column, np.linspace(0, 1, ESTIMATE_BINS + 1))
        part = np.clip(np.searchsorted(cuts[1:-1], column, side="right"), 0, ESTIMATE_BINS - 1)
        fractions = [
            _fraction(inside[part == i], weight[part == i])
            if (part == i).any()
            else (np.full(len(LEVELS), np.nan), np.full(len(LEVELS), np.nan))
            for i in range(ESTIMATE_BINS)
        ]
        edges.append(cuts)
        values.append([value for value, _ in fractions])
        errors.append([error for _, error in fractions])
    return _OverTheta(np.array(edges), np.array(values), np.array(errors))


def _findings(
    ranks: np.ndarray,
    tarp: np.ndarray,
    density: np.ndarray,
    weight: np.ndarray,
    p_values: dict[str, np.ndarray],
    names: tuple[str, ...],
) -> tuple[Finding, ...]:
    off = [_furthest(column, weight) for column in ranks.T]
    worst = int(np.argmax(np.abs(off)))
    sbc = Finding(
        name="SBC",
        p_value=smallest(np.array([p_values["SBC"], p_values["SBC given the estimate"]])),
        size=abs(off[worst]),
        tolerance=TOLERATED_DIFFERENCE,
        sentence=(
            f"the ranks of {names[worst]} in its posterior differ from uniform ones by "
            f"{off[worst]:+.3f} at most"
        ),
    )
    worth = effective_events(weight)
    covered = [f"{level:.0%} sets cover {value:.3f}" for level, value in _shown(density, weight)]
    error = np.sqrt(0.68 * 0.32 / worth)
    sets = Finding(
        name="expected coverage",
        p_value=smallest(p_values["density"]),
        size=abs(_furthest(density, weight)),
        tolerance=TOLERATED_DIFFERENCE,
        sentence=f"highest-density {', '.join(covered)} (± {error:.3f})",
    )
    balls = Finding(
        name="TARP",
        p_value=smallest(p_values["TARP"]),
        size=abs(_furthest(tarp, weight)),
        tolerance=TOLERATED_DIFFERENCE,
        sentence=f"expected coverage differs by {_furthest(tarp, weight):+.3f} at most",
    )
    return sbc, sets, balls


def _shown(ranks: np.ndarray, weight: np.ndarray) -> list[tuple[float, float]]:
    return [(level, float(weight @ (ranks <= level) / weight.sum())) for level in (0.68, 0.95)]


def _furthest(ranks: np.ndarray, weight: np.ndarray) -> float:
    """The largest difference between the fraction of ranks below a level and the level."""
    levels = np.linspace(0.05, 0.95, 19)
    away = weight @ (ranks[:, None] <= levels) / weight.sum() - levels
    return float(away[np.argmax(np.abs(away))])
