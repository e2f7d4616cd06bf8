r"""The information that a learned score really holds, by simulating how its mean responds to θ.

As a statistic \(t(x)=\hat s(x;\theta)\), with θ held, a learned score has the information
\[I_t=J^TC^{-1}J,\qquad J=\partial_{\theta'}E_{\theta'}[t],\quad C=\mathrm{Cov}_\theta(t),\]
which is at most the true one and misses it only by the square of the score's error, where
\(E[\hat s\hat s^T]\) and \(-E[\nabla^2\hat\varphi]\) are off by the error itself. J is the slope of
a cubic through mean scores simulated at four values of each parameter.
"""

import dataclasses
import itertools

import numpy as np

from ...estimator.estimator import Estimator, ScoreEstimator
from ...events.simulate import simulate_at
from ...inputs import Input, as_count, as_seed, kind_of
from ...progress import progress
from ...streams import Purpose, Stream
from ...summary import AbstractSummarised, Summary, SummaryTable, list_parts, shorten
from ...world.simulator import Simulator, require_simulator
from ..arguments import as_events, as_trained_point

#: Events simulated at θ, and as many for each parameter around it, by default.
EVENTS = 100_000
#: How far from θ is simulated, in standard errors of one event with all other parameters known. A
#: wider reach means less noise; at 0.5 the cubic is good to 1% for a score like that of 1/θ.
REACH = 0.5


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ScoreResponse(AbstractSummarised):
    """How the mean of the learned score at one θ responds to the θ of the events.

    Attributes:
        theta: where, shape (d,).
        names: of the parameters.
        jacobian: J, shape (d, d): the derivative of component i by parameter j.
        covariance: C, shape (d, d).
        information: JᵀC⁻¹J less what the noise of J adds to it on average, shape (d, d).
        information_error: standard errors of its elements, from the finite number of events.
        events: how many were simulated in all.
    """

    theta: np.ndarray
    names: tuple[str, ...]
    jacobian: np.ndarray
    covariance: np.ndarray
    information: np.ndarray
    information_error: np.ndarray
    events: int

    def __repr__(self) -> str:
        """The diagonal of the information."""
        values, errors = np.diag(self.information), np.diag(self.information_error)
        rows = zip(self.names, values, errors, strict=True)
        text = list_parts(
            f"{shorten(name)}: {value:.4g} ± {error:.1g}" for name, value, error in rows
        )
        return f"ScoreResponse(information of one event {text}; {self.events:,} events)"

    def _summarise(self) -> Summary:
        pairs = zip(np.diag(self.information), np.diag(self.information_error), strict=True)
        columns = {
            "parameter": list(self.names),
            "θ": [f"{value:.4g}" for value in self.theta],
            "information": [f"{value:.4g} ± {error:.1g}" for value, error in pairs],
            "slope of the mean": [f"{value:.4g}" for value in np.diag(self.jacobian)],
            "variance": [f"{value:.4g}" for value in np.diag(self.covariance)],
        }
        title = f"Response of the mean score of one event, from {self.events:,} simulated events"
        return Summary(title, (SummaryTable(columns),))


def score_response(
    estimator: Estimator | ScoreEstimator,
    theta: Input,
    simulator: Simulator,
    *,
    n: int = EVENTS,
    seed: int,
) -> ScoreResponse:
    """Simulate how the mean of the score at `theta` responds to the θ of the events.

    The information that follows from it is wrong only by the square of the score's error, where
    both forms of `fisher` are off by the error itself.

    Args:
        estimator: a trained potential, or a direct score network.
        theta: one parameter point, shape (d,), inside the trained region.
        simulator: of the events.
        n: events simulated at θ, and as many for each parameter around it.
        seed: of the simulation.
    """
    require_score(estimator, "score_response")
    require_simulator(simulator)
    point, count = as_trained_point(estimator, theta), as_count(n, "n")
    region, stream = estimator.region, Stream(as_seed(seed), Purpose.SCORE_RESPONSE)
    numbers = itertools.count()

    def scores_of(at: np.ndarray, size: int) -> np.ndarray:
        own = stream.block(next(numbers))
        many = np.tile(at, (size, 1))
        x = simulate_at(simulator, many, own, x_names=estimator.x_names)
        return estimator.score(as_events(estimator, x), point)

    slopes, noises, events = [], [], count
    with progress("response", 1 + len(point)) as advance:
        covariance = np.atleast_2d(np.cov(scores_of(point, count).T))
        advance(1)
        for j, (low, high) in enumerate(zip(region.theta_low, region.theta_high, strict=True)):
            reach = REACH / np.sqrt(covariance[j, j])
            # Never outside the trained region: the simulator may refuse what lies beyond.
            ends = max(-reach, low - point[j]), min(reach, high - point[j])
            shifts, factors = _choose_slope_rule(*ends)
            sizes = np.ceil(count * np.abs(factors) / np.abs(factors).sum()).astype(int) + 1
            slope, noise = np.zeros(len(point)), np.zeros((len(point), len(point)))
            for shift, factor, size in zip(shifts, factors, sizes.tolist(), strict=True):
                at = point.copy()
                at[j] += shift
                scores = scores_of(at, size)
                slope += factor * scores.mean(axis=0)
                noise += factor**2 * np.atleast_2d(np.cov(scores.T)) / size
            slopes.append(slope)
            noises.append(noise)
            events += int(sizes.sum())
            advance(1)
    jacobian = np.stack(slopes, axis=1)
    information, error = _find_information(jacobian, covariance, noises)
    return ScoreResponse(
        theta=point,
        names=estimator.theta_names,
        jacobian=jacobian,
        covariance=covariance,
        information=information,
        information_error=error,
        events=events,
    )


def require_score(estimator: object, function: str) -> None:
    """Refuse an estimator without a score, in the name of the function that needs one."""
    if not isinstance(estimator, Estimator | ScoreEstimator):
        raise TypeError(
            f"{function} needs a score: a potential (ist.Estimator), which ist.fit(events, seed=…) "
            f"trains by default, or an ist.ScoreEstimator; got {kind_of(estimator)}."
        )


def _choose_slope_rule(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Four points from low to high, and factors that give the slope at 0 of a cubic through them.

    At the extrema of a Chebyshev polynomial, with numbers of events that go with the factors, the
    noise of the slope is the least possible (Elfving 1952).
    """
    width = high - low
    points = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * np.arange(4) / 3)
    unit = points / width
    factors = np.linalg.solve(np.vander(unit, increasing=True).T, [0.0, 1.0, 0.0, 0.0])
    return points, factors / width


def _find_information(
    jacobian: np.ndarray, covariance: np.ndarray, noises: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """JᵀC⁻¹J without the mean of its noise, and standard errors to first order."""
    weights = np.linalg.solve(covariance, jacobian)
    raw = jacobian.T @ weights
    # Columns of J are simulated independently: the noise adds to the diagonal alone.
    excess = [float(np.trace(np.linalg.solve(covariance, noise))) for noise in noises]
    # (JᵀC⁻¹J)_jk varies by w_k·δJ_j + w_j·δJ_k.
    each = np.array([np.einsum("ik,il,lk->k", weights, noise, weights) for noise in noises])
    variance = each + each.T
    variance[np.diag_indices(len(raw))] *= 2
    return raw - np.diag(excess), np.sqrt(variance)
