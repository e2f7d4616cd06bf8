r"""Identities that hold for the true score and ratio, tested without knowing either.

\(E_\theta[s(x;\theta)]=0\) at every θ; \(E_{\theta_1}[\sigma(\ln r)]=E_{\theta_0}[\sigma(-\ln r)]\)
for every pair; \(E_{\theta_1}[r]=1\), tested only where the effective number of events is adequate:
for far pairs the variance of r is infinite, and the test would reject the true ratio.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, expit, fdtrc

from ..estimator.estimator import Estimator, RatioEstimator, ScoreEstimator
from ..events.events import Events
from ..inputs import Input, as_floats, require_finite
from .finding import Finding, effective_events, smallest, two_sided
from .held_out import DISTANCES, HeldOut, derived, hold_out

MOST_EVENTS = 50_000
#: Cells in θ, at most, and events in a cell, at least: scores have long tails.
MOST_CELLS, FEWEST_IN_CELL = 32, 1000
#: Effective fraction, and number, of events that a mean of r needs.
ADEQUATE_FRACTION, ADEQUATE_EVENTS = 0.7, 100.0
#: Sizes that are tolerated: of a bias in standard errors of one event, of probabilities, of r.
TOLERATED_BIAS, TOLERATED_DIFFERENCE, TOLERATED_MEAN = 0.25, 0.01, 0.02


@dataclasses.dataclass(frozen=True, repr=False)
class MeanScore:
    """The mean of the score at the θ each event was made at, in cells of θ; zero if exact.

    Attributes:
        theta: mean θ of each cell, shape (cells, d).
        events: effective number of events of each cell.
        mean, error: of the score, shape (cells, d).
        p_values: of each cell, all components together.
        bias: of the maximum-likelihood estimate, in standard errors of one event: root mean square
            over cells, with the part that statistics explain taken off.
        names: of the parameters.
        finding: the verdict.
    """

    theta: np.ndarray
    events: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    p_values: np.ndarray
    bias: float
    names: tuple[str, ...]
    finding: Finding

    @property
    def z(self) -> np.ndarray:
        """Means in standard errors, shape (cells, d)."""
        return self.mean / self.error

    def __repr__(self) -> str:
        """The verdict."""
        return f"MeanScore({self.finding})"


def mean_score(
    estimator: Estimator | ScoreEstimator, events: Events, *, seed: int = 0
) -> MeanScore:
    """Test E[s] = 0 in cells of θ, each event's score taken at its own θ.

    Args:
        estimator: offers a score.
        events: that it was not trained on; at one θ, at some, or drawn from a prior.
        seed: chooses the events where there are very many.
    """
    kinds = (Estimator, ScoreEstimator)
    held = hold_out(estimator, events, most=MOST_EVENTS, seed=seed, kinds=kinds, check="mean_score")
    score = estimator.score(held.x, held.theta)
    cells = [_cell(score[rows], held.weight[rows]) for rows in _cells(held.theta)]
    theta = np.stack([held.theta[rows].mean(axis=0) for rows in _cells(held.theta)])
    mean, error, p_values, size, effective = map(np.array, zip(*cells, strict=True))
    dim = score.shape[1]
    with np.errstate(divide="ignore"):
        total = chdtri(dim, np.clip(p_values, 1e-300, 1)).sum()
    p_value = smallest(np.array([smallest(p_values), chdtrc(dim * len(cells), total)]))
    squared = float(np.mean(size))
    # What statistics alone would make of it, at two standard deviations.
    noise = 2 * float(np.sqrt(2 * dim * np.sum(1 / np.square(effective)))) / len(cells)
    bias = float(np.sqrt(max(0.0, squared)))
    seen = f"a bias equal to its standard error for about {1 / max(squared, noise):.2g} events"
    if squared < noise:
        seen = f"no bias that {1 / (max(squared, 0) + noise):.2g} events would show"
    worst = np.unravel_index(np.argmax(np.abs(mean / error)), mean.shape)
    finding = Finding(
        name="mean score",
        p_value=p_value,
        size=bias,
        tolerance=TOLERATED_BIAS,
        sentence=(
            f"E[s] differs from 0 by up to {np.abs(mean / error).max():.1f} standard errors "
            f"(component {estimator.theta_names[worst[1]]}) in {len(cells)} cells of θ; an "
            f"estimate has {seen}"
        ),
    )
    return MeanScore(theta, effective, mean, error, p_values, bias, estimator.theta_names, finding)


def _cells(theta: np.ndarray) -> list[np.ndarray]:
    """Rows by cells: the points of a finite design, or halves of halves along the widest side."""
    points, index, counts = np.unique(theta, axis=0, return_inverse=True, return_counts=True)
    if len(points) <= MOST_CELLS and counts.min() >= FEWEST_IN_CELL:
        return [np.flatnonzero(index.ravel() == i) for i in range(len(points))]
    cells = [np.arange(len(theta))]
    scale = np.maximum(theta.std(axis=0), 1e-300)
    while 2 * len(cells) <= MOST_CELLS and min(map(len, cells)) >= 2 * FEWEST_IN_CELL:
        cells = [half for rows in cells for half in _halves(rows, theta[rows] / scale)]
    return cells


def _halves(rows: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(theta[:, np.argmax(np.ptp(theta, axis=0))], kind="stable")
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


class _Cell(NamedTuple):
    """The mean score of a cell; p-value by Hotelling's T²; squared bias less its expectation."""

    mean: np.ndarray
    error: np.ndarray
    p_value: float
    squared_bias: float
    events: float


def _cell(score: np.ndarray, weight: np.ndarray) -> _Cell:
    dim, effective = score.shape[1], effective_events(weight)
    mean = weight @ score / weight.sum()
    away = score - mean
    spread = (weight[:, None] ** 2 * away).T @ away / np.square(weight).sum()
    spread = spread + 1e-12 * np.trace(spread) / dim * np.eye(dim)
    squared = float(mean @ np.linalg.solve(spread, mean))
    freedom = max(effective - dim, 1.0)
    p_value = float(fdtrc(dim, freedom, squared * freedom / dim))
    error = np.sqrt(np.maximum(np.diag(spread), 1e-300) / effective)
    return _Cell(mean, error, p_value, squared - dim / effective, effective)


@dataclasses.dataclass(frozen=True, repr=False)
class PairIdentities:
    """Identities of ln r for pairs of θ, by distance and, for the first, by parameter.

    Attributes:
        distances: "near", "middle" and "far" partners, as far as there are any.
        difference, difference_error: E[σ(ln r)] from θ1 less E[σ(−ln r)] from θ0, where θ0 is the
            one with the larger value of a parameter; zero if exact, shape (distances, d).
        mean_ratio, mean_ratio_error: of r at its denominator; 1 if exact, shape (distances,).
        effective: effective fraction of the events in the mean of r.
        adequate: whether that is enough for the mean to be tested.
        names: of the parameters.
        findings: of both identities.
    """

    distances: tuple[str, ...]
    difference: np.ndarray
    difference_error: np.ndarray
    mean_ratio: np.ndarray
    mean_ratio_error: np.ndarray
    effective: np.ndarray
    adequate: np.ndarray
    names: tuple[str, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        """The verdicts."""
        return "PairIdentities(" + "; ".join(map(str, self.findings)) + ")"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Events with a partner θ: ln r of the true θ over the partner, and which is larger.

    Attributes:
        log_ratio: ln p(x; θ) − ln p(x; partner), shape (n,).
        larger: for each parameter, +1 where the true θ is the larger of the two, −1 where it is the
            smaller, 0 where they are equal, shape (n, d).
        distance: index of `DISTANCES`, shape (n,).
        weight: of the events.
    """

    log_ratio: np.ndarray
    larger: np.ndarray
    distance: np.ndarray
    weight: np.ndarray


def draw_pairs(estimator: Estimator | RatioEstimator, held: HeldOut, seed: int) -> Pairs:
    """One partner for each event."""
    partner, distance = held.partners(seed)
    kept = (distance >= 0) & np.any(partner != held.theta, axis=1)
    x, theta, partner = held.x[kept], held.theta[kept], partner[kept]
    return Pairs(
        log_ratio=estimator.log_ratio(x, theta, partner),
        larger=np.sign(theta - partner),
        distance=distance[kept],
        weight=held.weight[kept],
    )


def pair_identities(
    estimator: Estimator | RatioEstimator, events: Events, *, seed: int = 0
) -> PairIdentities:
    """Test what holds for the ratio of every pair of θ, on pairs around held-out events.

    Args:
        estimator: offers a log ratio.
        events: that it was not trained on.
        seed: of the pairs.
    """
    kinds = (Estimator, RatioEstimator)
    held = hold_out(
        estimator, events, most=MOST_EVENTS, seed=seed, kinds=kinds, check="pair_identities"
    )
    pairs = draw_pairs(estimator, held, derived(seed, 1))
    return identities_of(pairs, estimator.theta_names)


def identities_of(pairs: Pairs, names: tuple[str, ...]) -> PairIdentities:
    """Both identities, from pairs already drawn."""
    words = tuple(DISTANCES)
    used = [i for i in range(len(words)) if np.sum(pairs.distance == i) >= 2]
    differences, ratios = [], []
    for i in used:
        rows = pairs.distance == i
        log_ratio, weight = pairs.log_ratio[rows], pairs.weight[rows]
        # The true θ is either of the two with probability 1/2, hence the 2.
        terms = -2 * pairs.larger[rows] * expit(-log_ratio)[:, None]
        differences.append(_mean_and_error(terms, weight))
        ratios.append(mean_ratio(-log_ratio, weight))
    difference, error = (np.array(part) for part in zip(*differences, strict=True))
    value, value_error, effective, adequate = (np.array(p) for p in zip(*ratios, strict=True))
    distances = tuple(words[i] for i in used)
    findings = [_bounded_finding(difference, error, distances, names)]
    if adequate.any():
        findings.append(_mean_finding(value, value_error, adequate, distances))
    return PairIdentities(
        distances, difference, error, value, value_error, effective, adequate, names,
        tuple(findings),
    )  # fmt: skip


def _mean_and_error(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = weight @ values / weight.sum()
    return mean, np.sqrt(np.square(weight) @ np.square(values - mean)) / abs(weight.sum())


class MeanRatio(NamedTuple):
    """The mean of r over events from its denominator; 1 if r is exact.

    value, error: mean and standard error; effective: fraction of the events that counts,
    (Σr)²/(nΣr²); adequate: whether that is enough for the mean to be a test.
    """

    value: float
    error: float
    effective: float
    adequate: bool


class Difference(NamedTuple):
    """A value that is zero if the ratio is exact, and its standard error."""

    value: float
    error: float


def mean_ratio(log_ratio: Input, weight: Input | None = None) -> MeanRatio:
    """The mean of r = e^(ln r), and whether it can be trusted as a test.

    Args:
        log_ratio: ln r(x; θ0, θ1) of events made at θ1, shape (n,).
        weight: of the events.
    """
    values = as_floats(log_ratio, "log_ratio").astype(np.float64)
    require_finite(values[:, None], "log_ratio", "Remove these events.")
    weights = np.ones(len(values)) if weight is None else as_floats(weight, "weight")
    # In units of the largest, so that nothing overflows; few events then carry all the weight.
    top = max(float(values.max()), 0.0)
    mean, error = _mean_and_error(np.exp(values - top), weights)
    effective = effective_events(np.exp(values - top)) / len(values)
    adequate = effective >= ADEQUATE_FRACTION and effective * len(values) >= ADEQUATE_EVENTS
    with np.errstate(over="ignore"):
        scale = np.exp(top)
    return MeanRatio(float(mean * scale), float(error * scale), effective, adequate)


def bounded_difference(
    log_ratio_at_theta1: Input, log_ratio_at_theta0: Input
) -> tuple[float, float]:
    """E over θ1 of σ(ln r) less E over θ0 of σ(−ln r), with its standard error; 0 if exact.

    Holds for every pair of θ, however far apart, since nothing in it can be large.

    Args:
        log_ratio_at_theta1: ln r(x; θ0, θ1) of events made at θ1, shape (n,).
        log_ratio_at_theta0: the same ratio of events made at θ0, shape (m,).
    """
    mean, variance = [], []
    for sign, log_ratio in ((1, log_ratio_at_theta1), (-1, log_ratio_at_theta0)):
        values = expit(sign * as_floats(log_ratio, "log_ratio").astype(np.float64))
        mean.append(values.mean())
        variance.append(values.var(ddof=1) / len(values))
    return Difference(float(mean[0] - mean[1]), float(np.sqrt(sum(variance))))


def _bounded_finding(
    difference: np.ndarray, error: np.ndarray, distances: tuple[str, ...], names: tuple[str, ...]
) -> Finding:
    z = difference / np.maximum(error, 1e-300)
    worst = np.unravel_index(np.argmax(np.abs(z)), z.shape)
    return Finding(
        name="bounded identity",
        p_value=smallest(two_sided(z)),
        size=float(np.sqrt(max(0.0, np.max(np.square(difference) - np.square(error))))),
        tolerance=TOLERATED_DIFFERENCE,
        sentence=(
            "E[σ(ln r)] from θ1 and E[σ(−ln r)] from θ0 differ by "
            f"{difference[worst]:+.4f} ± {error[worst]:.4f} at most, for {distances[worst[0]]} "
            f"pairs ordered by {names[worst[1]]}"
        ),
    )


def _mean_finding(
    value: np.ndarray, error: np.ndarray, adequate: np.ndarray, distances: tuple[str, ...]
) -> Finding:
    z = (value - 1) / np.maximum(error, 1e-300)
    tested = np.flatnonzero(adequate)
    worst = tested[np.argmax(np.abs(z[tested]))]
    left_out = [distances[i] for i in np.flatnonzero(~adequate)]
    return Finding(
        name="mean ratio",
        p_value=smallest(two_sided(z[tested])),
        size=float(np.max(np.abs(value[tested] - 1))),
        tolerance=TOLERATED_MEAN,
        sentence=(
            f"E[r] = {value[worst]:.4f} ± {error[worst]:.4f} for {distances[worst]} pairs"
            + (f"; not tested for {' and '.join(left_out)} ones" if left_out else "")
        ),
    )
