"""Posterior predictive check: would the fitted simulator make events like the observed ones?"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import fdtri

from ..events.simulate import simulate_at
from ..inference.posterior.posterior import Posterior
from ..inputs import (
    Input,
    as_count,
    as_event_rows,
    as_floats,
    as_function,
    as_names,
    as_rows,
    as_seed,
    call_function,
    column_names,
    kind_of,
    require_finite,
)
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, shorten, tabulate_first
from ..world.simulator import Simulator, require_simulator
from .finding import SIGNIFICANT, Finding, tabulate_findings

#: Distance of the observed statistics that is tolerated, in standard deviations of replicated ones.
TOLERATED_DISTANCE = 3.0
#: Characters of the verdict in a line, at most.
SHOWN_FINDING = 300
#: Spread of a statistic that rounding in float64 explains, as a part of its size.
FLOAT64_ROUNDING = 1e-12
#: Difference of two statistics that rounding of the data to float32 explains, likewise.
FLOAT32_ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True, repr=False)
class PosteriorPredictive(AbstractSummarised):
    """Statistics of the observed events among those of replicated ones.

    Attributes:
        observed: statistics of the data, shape (k,).
        replicated: of data sets simulated at draws from the posterior, shape (draws, k).
        p_values: two-sided, of each statistic.
        p_value: of all together, by their distance from the mean of the replicated ones.
        names: of the statistics.
        finding: the verdict.
    """

    observed: np.ndarray
    replicated: np.ndarray
    p_values: np.ndarray
    p_value: float
    names: tuple[str, ...]
    finding: Finding

    def __repr__(self) -> str:
        """The verdict."""
        return f"PosteriorPredictive({shorten(str(self.finding), SHOWN_FINDING)})"

    def _summarise(self) -> Summary:
        low, middle, high = np.quantile(self.replicated, [0.16, 0.5, 0.84], axis=0)
        columns = {
            "statistic": list(self.names),
            "observed": [f"{value:.4g}" for value in self.observed],
            "replicated": [f"{value:.4g}" for value in middle],
            "68% from": [f"{value:.4g}" for value in low],
            "to": [f"{value:.4g}" for value in high],
            "p": [f"{p:.2g}" for p in self.p_values],
        }
        title = f"Posterior predictive check with {len(self.replicated):,} replicated data sets"
        return Summary(title, (tabulate_findings([self.finding]), *tabulate_first(columns)))


def posterior_predictive(
    posterior: Posterior,
    x: Input,
    simulator: Simulator,
    *,
    statistic: Callable[[np.ndarray], Input] | None = None,
    names: Sequence[str] | None = None,
    draws: int = 1000,
    seed: int,
    progress_bar: bool | None = None,
) -> PosteriorPredictive:
    """Simulate data sets like `x` at draws from the posterior and compare statistics.

    The data are used twice, for the posterior and for the check, so p-values lean towards the
    middle: a small one means all the more.

    Args:
        posterior: from `ist.posterior(estimator, x, …)`.
        x: the observed events it was made from, shape (n, D), or one event of shape (D,).
        simulator: a function `(theta (n, d), rng) -> x (n, D)`.
        statistic: `x (n, D) -> (k,)`; by default mean and standard deviation of each observable
            (for one event, the observables themselves).
        names: of the statistics.
        draws: replicated data sets; with fewer than a thousand no p-value can prove anything, and
            the distance decides where it is the smallest possible.
        seed: of the simulation.
        progress_bar: force the display on or off.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(
            "posterior_predictive needs the result of ist.posterior(estimator, x, seed=…); got "
            f"{kind_of(posterior)}."
        )
    columns = posterior.x_names or as_names(column_names(x), np.shape(x)[-1], "x")
    rows = as_rows(as_event_rows(x, columns), "x", columns=len(columns), of="observables")
    if len(rows) != posterior.events:
        raise ValueError(
            f"x has {len(rows)} events, but the posterior was made from {posterior.events}; give "
            "the same events."
        )
    require_finite(rows, "x", "Remove or repair these events.")
    require_simulator(simulator)
    if statistic is not None:
        as_function(statistic, "statistic", "a function of events of shape (n, D)")
    count = as_count(draws, "draws")
    rng = Stream(as_seed(seed), Purpose.PREDICTIVE_DRAWS).generator()
    theta = posterior.samples[rng.integers(len(posterior.samples), size=count)]
    simulated = simulate_at(
        simulator,
        np.repeat(theta, len(rows), axis=0),
        Stream(as_seed(seed), Purpose.PREDICTIVE),
        x_names=columns,
        progress_bar=progress_bar,
    )

    def compute(part: np.ndarray) -> np.ndarray:
        values = _compute_moments(part)
        if statistic is not None:
            values = call_function(statistic, "the statistic, a function of x", part)
        return np.atleast_1d(as_floats(values, "the statistic"))

    observed, sets = compute(rows), [*map(compute, np.split(simulated, count))]
    if observed.ndim > 1 or any(values.shape != observed.shape for values in sets):
        raise ValueError(
            "the statistic must give as many numbers, in one row, for every data set; got shapes "
            f"{sorted({values.shape for values in [observed, *sets]})}."
        )
    replicated = np.stack(sets)
    require_finite(observed, "the statistic of x", "Give a statistic that is always finite.")
    require_finite(replicated, "the statistic of replicated data", "It must always be finite.")
    if statistic is None:
        kinds = ("",) if len(rows) == 1 else ("mean of ", "sd of ")
        names = [kind + column for kind in kinds for column in columns]
    return _compare(observed, replicated, as_names(names, len(observed), "statistic"))


def _compute_moments(x: np.ndarray) -> np.ndarray:
    return x[0] if len(x) == 1 else np.concatenate([x.mean(axis=0), x.std(axis=0, ddof=1)])


def _compare(
    observed: np.ndarray, replicated: np.ndarray, names: tuple[str, ...]
) -> PosteriorPredictive:
    draws, count = replicated.shape
    if draws < count + 2:
        raise ValueError(
            f"the spread of {count} statistics is known from {count + 2} draws at least; got "
            f"draws={draws}."
        )
    above = (1 + np.sum(replicated >= observed, axis=0)) / (1 + draws)
    below = (1 + np.sum(replicated <= observed, axis=0)) / (1 + draws)
    p_values = np.minimum(1.0, 2 * np.minimum(above, below))
    mean, spread = replicated.mean(axis=0), replicated.std(axis=0, ddof=1)
    # A statistic that is the same in every replicated data set has no spread to be compared with:
    # any difference from it that rounding does not explain is beyond all bounds.
    sizes = np.maximum(np.abs(mean), np.abs(observed))
    constant = spread <= FLOAT64_ROUNDING * sizes
    away = (observed - mean) / np.where(constant, 1.0, spread)
    beyond = np.where(np.abs(observed - mean) > FLOAT32_ROUNDING * sizes, np.inf, 0.0)
    away = np.where(constant, beyond, away)
    standard = np.where(constant, 0.0, (replicated - mean) / np.where(constant, 1.0, spread))
    own, p_value = np.inf, 1 / (1 + draws)
    if np.isfinite(away).all():
        own = float(_distances(away[None], standard)[0])
        # The data among the replicated sets in the mean and covariance: otherwise they alone lie
        # outside of what these were made from, and are the furthest too often.
        together = np.concatenate([away[None], standard])
        distances = _distances(together - together.mean(axis=0), together)
        p_value = float(np.mean(distances >= distances[0] * (1 - FLOAT64_ROUNDING)))
    worst = int(np.argmax(np.abs(away)))
    finding = Finding(
        name="posterior predictive",
        p_value=p_value,
        size=own,
        tolerance=_tolerate(draws, count),
        description=(
            f"the data lie {own:.1f} standard deviations from those simulated at the posterior; "
            f"{names[worst]} stands out most, by {away[worst]:+.1f}"
        ),
        smallest_p_value=1 / (1 + draws),
    )
    return PosteriorPredictive(observed, replicated, p_values, p_value, names, finding)


def _distances(values: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """The length of each row in standard deviations of a sample (Mahalanobis)."""
    # The pseudo-inverse: observables may be bound to each other, as parts of a whole are.
    inverse = np.linalg.pinv(np.atleast_2d(np.cov(sample.T)), rcond=1e-9, hermitian=True)
    return np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", values, inverse, values), 0))


def _tolerate(draws: int, count: int) -> float:
    """The distance that is tolerated.

    Few draws know the spread badly and cannot prove anything by their number. There it is the
    distance that normal statistics exceed once in a thousand times, by Hotelling's T².
    """
    if 1 / (1 + draws) < SIGNIFICANT:
        return TOLERATED_DISTANCE
    free = draws - count
    quantile = fdtri(count, free, 1 - SIGNIFICANT)
    squared = (draws + 1) * (draws - 1) * count / (draws * free) * quantile
    return max(TOLERATED_DISTANCE, float(np.sqrt(squared)))
