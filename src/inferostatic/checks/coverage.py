"""Coverage of single-event posteriors, without sampling a single one.

The θ of an event and M candidates drawn from the prior are exchangeable: given all M+1 and the
event, each was the true one with probability softmax φ. So any quantity of θ, ranked among those of
the candidates with these weights, is uniform for an exact potential, *at any M*. The quantity is a
parameter for simulation-based calibration (SBC), the distance to a random point for TARP, and the
posterior density for the expected coverage of highest-density sets.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..checkpoint import AbstractSavedWork, CheckpointChoice, NotSaved, Step, open_checkpoint
from ..estimator.estimator import Estimator
from ..events.events import Events
from ..fingerprint import identify
from ..inputs import as_count, as_seed, warn_user
from ..progress import progress
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..weights import effective_size
from ..world.priors.discrete import Discrete
from .finding import (
    Finding,
    combine_p_values,
    judge_together,
    list_grades,
    tabulate_findings,
    uniform_p_value,
)
from .validation_events import (
    FEWEST_EVENTS,
    ValidationEvents,
    select_events,
    suppress_repeated_warnings,
)

#: Events that are ranked by default: coverage is then known to 0.01.
DEFAULT_EVENTS = 2000
#: Candidates for each event by default.
DEFAULT_CANDIDATES = 1000
#: By how much the number of candidates grows where few of them count.
MORE_CANDIDATES = 8
#: Candidates for each of the events that share them: sharing makes ranks dependent, by a few per
#: cent of their variance at this rate.
CANDIDATES_PER_EVENT = 64
#: Events that share their candidates, at most, for the same reason.
MOST_SHARING = 64
#: Bins of ranks.
BINS = 10
#: Bins of ranks in each part of the posterior means, which has fewer events.
RANK_BINS_GIVEN_ESTIMATE = 5
#: Parts of equal numbers of posterior means, or of equal numbers of true θ.
PARTS = 5
#: Credible levels that are reported.
LEVELS = np.array([0.5, 0.68, 0.9, 0.95])
#: Credible levels that are named in the description.
SHOWN_LEVELS = np.array([0.68, 0.95])
#: Levels at which ranks are compared with uniform ones.
COMPARED_LEVELS = np.linspace(0.05, 0.95, 19)
#: Difference between nominal and actual coverage that is tolerated.
TOLERATED_DIFFERENCE = 0.03
#: Effective number of candidates below which ranks are mostly chance.
FEWEST_CANDIDATES = 10.0


@dataclasses.dataclass(frozen=True, repr=False)
class Coverage(AbstractSummarised):
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
        effective_candidates: median over events of the effective number of candidates.
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
    effective_candidates: float
    names: tuple[str, ...]
    findings: tuple[Finding, ...]

    def curve(self, ranks: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Fraction of events with a rank up to each level: the diagonal if exact."""
        return _fraction_below(np.asarray(ranks), self.weight, np.asarray(levels))

    def __repr__(self) -> str:
        """Coverage at some levels, and the verdicts, in a line."""
        shown = [i for i, level in enumerate(self.levels) if level in SHOWN_LEVELS]
        reached = ", ".join(
            f"{self.expected[i]:.3f} ± {self.error[i]:.3f} at {self.levels[i]:g}" for i in shown
        )
        return f"Coverage({reached}; {len(self.ranks):,} events; {list_grades(self.findings)})"

    def _summarise(self) -> Summary:
        levels = {
            "credible level": [f"{level:g}" for level in self.levels],
            "coverage": [f"{value:.3f}" for value in self.expected],
            "error": [f"{value:.3f}" for value in self.error],
        }
        parameters = {"parameter": list(self.names)} | {
            f"p of {name}": [f"{p:.2g}" for p in values]
            for name, values in self.p_values.items()
            if np.shape(values) == (len(self.names),) and name.startswith("SBC")
        }
        return Summary(
            f"Coverage of the posteriors of {len(self.ranks):,} single events, each with "
            f"{self.effective_candidates:,.0f} effective candidates",
            (tabulate_findings(self.findings), SummaryTable(levels), SummaryTable(parameters)),
        )


def coverage(
    estimator: Estimator,
    events: Events,
    *,
    most_events: int = DEFAULT_EVENTS,
    candidates: int = DEFAULT_CANDIDATES,
    seed: int = 0,
    checkpoint: CheckpointChoice = None,
    progress_bar: bool | None = None,
) -> Coverage:
    """Test the posteriors of single validation events, under the prior that their θ follow.

    Args:
        estimator: a potential.
        events: that it was not trained on.
        most_events: number of events used, at most.
        candidates: other θ for each event; eight times as many where few of them count.
        seed: of the candidates and of the choice of events.
        checkpoint: a folder, or `ist.Checkpoint(path, minutes=…)`, in which ranks are kept: the
            same call goes on where it stopped, to the same numbers.
        progress_bar: force the display on or off.
    """
    most = as_count(most_events, "most_events", least=FEWEST_EVENTS)
    selected = select_events(
        estimator, events, check="coverage", kinds=(Estimator,), most=most, seed=seed
    )
    count = as_count(candidates, "candidates")
    parts = {"estimator": estimator, "events": events, "most_events": most}
    parts |= {"candidates": count, "seed": seed}
    with open_checkpoint(checkpoint, "coverage study", lambda: identify(parts)) as saved:
        return compute_coverage(
            estimator,
            selected,
            candidates=count,
            seed=seed,
            progress_bar=progress_bar,
            saved=saved,
        )


def compute_coverage(
    estimator: Estimator,
    events: ValidationEvents,
    *,
    candidates: int = DEFAULT_CANDIDATES,
    seed: int,
    progress_bar: bool | None = None,
    saved: AbstractSavedWork | None = None,
) -> Coverage:
    """The tests on events that are already selected, all of them."""
    count, candidates_of = candidates, Stream(as_seed(seed), Purpose.CANDIDATES)
    some = slice(0, FEWEST_EVENTS)
    trial = _Ranking(estimator, events, some, events.draw_candidates(count, candidates_of.block(0)))
    if np.median(trial.effective) < 2 * FEWEST_CANDIDATES:
        count *= MORE_CANDIDATES
    size = int(np.clip(count // CANDIDATES_PER_EVENT, 1, MOST_SHARING))
    starts = range(0, len(events.x), size)
    drawn = events.draw_candidates(len(starts) * count, candidates_of.block(1))
    # References of TARP may be any points that are independent of the truth.
    references = events.draw_candidates(len(events.x), Stream(seed, Purpose.REFERENCES))
    rng = Stream(seed, Purpose.RANKS).generator()
    parts, saved = [], NotSaved() if saved is None else saved
    with progress("ranking θ among candidates", len(events.x), show=progress_bar) as advance:
        for start, theta in zip(starts, drawn.reshape(len(starts), count, -1), strict=True):
            rows = slice(start, min(start + size, len(events.x)))
            # For every quantity that is ranked, whether or not these ranks are known already.
            ties = rng.random((theta.shape[1] + 2, rows.stop - rows.start))
            found = _recall_ranks(saved, start)
            if found is None:
                found = _Ranking(estimator, events, rows, theta).ranks(references[rows], ties)
                _keep_ranks(saved, start, found)
            parts.append(found)
            advance(rows.stop - rows.start)
    ranks = _Ranks(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if np.median(ranks.effective) < FEWEST_CANDIDATES:
        warn_user(
            f"of {count} candidate θ only {np.median(ranks.effective):.1f} compete with the true "
            "one for a typical event, so coverage is tested with little power; raise candidates=, "
            "or give events from a narrower prior."
        )
    return _summarise(events, ranks, estimator.theta_names)


class _Ranks(NamedTuple):
    """Of the parameters, the distance and the density; posterior mean; effective candidates."""

    parameters: np.ndarray
    distance: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    effective: np.ndarray


def _recall_ranks(saved: AbstractSavedWork, start: int) -> _Ranks | None:
    """Of the events from a row on, as an earlier process found them."""
    found = saved.recall(f"ranks-{start:07d}")
    return None if found is None else _Ranks(*(found.arrays[name] for name in _Ranks._fields))


def _keep_ranks(saved: AbstractSavedWork, start: int, found: _Ranks) -> None:
    saved.keep(f"ranks-{start:07d}", lambda: Step({}, found._asdict()))


class _Ranking:
    """Some events and the candidates that they share, with the probability of each θ."""

    def __init__(
        self, estimator: Estimator, events: ValidationEvents, rows: slice, candidates: np.ndarray
    ) -> None:
        x, theta = events.x[rows], events.theta[rows]
        with suppress_repeated_warnings():
            own = estimator.potential(x, theta)[:, None]
            potential = np.concatenate([own, estimator.potential_grid(x, candidates)], axis=1)
        self.probability = softmax(potential, axis=1)
        self.effective = 1 / np.square(self.probability).sum(axis=1)
        self.density = potential + _log_prior(events, theta, candidates)
        self.scale = events.prior.centre_and_scale[1]
        others = np.broadcast_to(candidates, (len(theta), *candidates.shape))
        #: The truth first, shape (events, 1 + candidates, d).
        self.theta = np.concatenate([theta[:, None], others], axis=1)

    def ranks(self, references: np.ndarray, ties: np.ndarray) -> _Ranks:
        """Their ranks; `ties` are uniform numbers for each quantity that is ranked."""
        away = (self.theta - references[:, None]) / self.scale
        parameters = np.moveaxis(self.theta, 2, 0)
        return _Ranks(
            parameters=np.stack(list(map(self._rank, parameters, ties)), axis=1),
            distance=self._rank(np.square(away).sum(axis=2), ties[-2]),
            density=self._rank(-self.density, ties[-1]),
            # The truth is among those that the mean is taken of, as every candidate is.
            mean=np.einsum("nm,nmd->nd", self.probability, self.theta),
            effective=self.effective,
        )

    def _rank(self, values: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Probability below the first column, and a random part of that which is equal to it."""
        below = np.sum(self.probability * (values < values[:, :1]), axis=1)
        equal = np.sum(self.probability * (values == values[:, :1]), axis=1)
        return below + ties * equal


def _log_prior(events: ValidationEvents, theta: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    if isinstance(events.prior, Discrete):
        # Sets of highest likelihood: as good for a test, and stored θ have no density.
        return np.zeros((len(theta), 1 + len(candidates)))
    own, others = events.prior.log_prob(theta)[:, None], events.prior.log_prob(candidates)[None]
    return np.concatenate([own, np.broadcast_to(others, (len(theta), len(candidates)))], axis=1)


def _summarise(events: ValidationEvents, found: _Ranks, names: tuple[str, ...]) -> Coverage:
    weight, (ranks, tarp, density, mean, effective) = events.weight, found
    size, each = effective_size(weight), range(ranks.shape[1])
    p_values = {
        "SBC": np.array([uniform_p_value(_count(ranks[:, i], weight), size) for i in each]),
        "SBC given the estimate": np.array(
            [uniform_p_value(_count_in_parts(mean[:, i], ranks[:, i], weight), size) for i in each]
        ),
        "TARP": np.array([uniform_p_value(_count(tarp, weight), size)]),
        "density": np.array([uniform_p_value(_count(density, weight), size)]),
    }
    over = _compute_over_theta(events.theta, density, weight)
    return Coverage(
        ranks=ranks,
        tarp=tarp,
        density_ranks=density,
        mean=mean,
        theta=events.theta,
        weight=weight,
        levels=LEVELS,
        expected=_fraction_below(density, weight, LEVELS),
        error=_nominal_error(LEVELS, weight),
        over_theta=over.value,
        over_theta_error=over.error,
        theta_edges=over.edges,
        p_values=p_values,
        effective_candidates=float(np.median(effective)),
        names=names,
        findings=judge_together(_judge(found, weight, p_values, names)),
    )


def _fraction_below(ranks: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Fraction of the events with a rank up to each level."""
    return weight @ (ranks[:, None] <= levels) / weight.sum()


def _nominal_error(level: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Standard error of a coverage that is equal to its level: it does not vanish at 0 and 1."""
    return np.sqrt(level * (1 - level) / effective_size(weight))


def _count(ranks: np.ndarray, weight: np.ndarray, bins: int = BINS) -> np.ndarray:
    return np.histogram(ranks, bins, (0.0, 1.0), weights=weight)[0]


def _count_in_parts(mean: np.ndarray, ranks: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Ranks in parts of equal numbers of posterior means."""
    part = np.searchsorted(np.quantile(mean, np.arange(1, PARTS) / PARTS), mean)
    rows = [
        _count(ranks[part == i], weight[part == i], RANK_BINS_GIVEN_ESTIMATE) for i in range(PARTS)
    ]
    return np.stack([row for row in rows if row.sum() > 0])


class _OverTheta(NamedTuple):
    edges: np.ndarray
    value: np.ndarray
    error: np.ndarray


def _compute_over_theta(theta: np.ndarray, density: np.ndarray, weight: np.ndarray) -> _OverTheta:
    """Coverage in parts of equal numbers of true θ; NaN where a part is empty."""
    edges = np.quantile(theta, np.linspace(0, 1, PARTS + 1), axis=0).T
    value, error = np.full((2, theta.shape[1], PARTS, len(LEVELS)), np.nan)
    for j, (column, cuts) in enumerate(zip(theta.T, edges, strict=True)):
        part = np.searchsorted(cuts[1:-1], column, side="right")
        for i in np.unique(part):
            own = weight[part == i]
            value[j, i] = _fraction_below(density[part == i], own, LEVELS)
            error[j, i] = _nominal_error(LEVELS, own)
    return _OverTheta(edges, value, error)


def _judge(
    found: _Ranks, weight: np.ndarray, p_values: dict[str, np.ndarray], names: tuple[str, ...]
) -> tuple[Finding, ...]:
    off = [_largest_difference(column, weight) for column in found.parameters.T]
    worst = int(np.argmax(np.abs(off)))
    sbc = _make_finding(
        "SBC",
        np.array([p_values["SBC"], p_values["SBC given the estimate"]]),
        off[worst],
        f"the ranks of {names[worst]} in its posterior differ from uniform ones by "
        f"{off[worst]:+.3f} at most",
    )
    fractions = _fraction_below(found.density, weight, SHOWN_LEVELS)
    covered = [
        f"{level:.0%} sets cover {value:.3f}"
        for level, value in zip(SHOWN_LEVELS, fractions, strict=True)
    ]
    sets = _make_finding(
        "expected coverage",
        p_values["density"],
        _largest_difference(found.density, weight),
        f"highest-density {', '.join(covered)} (± {_nominal_error(SHOWN_LEVELS, weight)[0]:.3f})",
    )
    off_tarp = _largest_difference(found.distance, weight)
    differs = f"expected coverage differs by {off_tarp:+.3f} at most"
    return sbc, sets, _make_finding("TARP", p_values["TARP"], off_tarp, differs)


def _make_finding(name: str, p_values: np.ndarray, off: float, description: str) -> Finding:
    p_value = combine_p_values(p_values)
    return Finding(name, p_value, abs(off), TOLERATED_DIFFERENCE, description)


def _largest_difference(ranks: np.ndarray, weight: np.ndarray) -> float:
    """The largest difference between the fraction of ranks below a level and the level."""
    away = _fraction_below(ranks, weight, COMPARED_LEVELS) - COMPARED_LEVELS
    return float(away[np.argmax(np.abs(away))])
