"""Train on simulations of a task; judge the posteriors, and the errors of ratios and scores.

C2ST is what sbibm publishes. It is blind to much (it looks at ten events) and noisy, so errors of
the log ratio and of the score on fresh events come with it: these tasks know the truth.
"""

import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

import inferostatic as ist
from inferostatic.models.members import over_members
from inferostatic.models.potential import PotentialModel

from .c2st import Pending, begin_c2st
from .sampler import Effort, LogFactor, sample_posterior
from .tasks import OBSERVATIONS, Task

#: Median C2ST over ten observations in arXiv:2101.04653, by task, method and simulations.
PUBLISHED: Final = {
    "two_moons": {
        "NRE": {1_000: 0.815, 10_000: 0.765, 100_000: 0.616},
        "SNRE": {1_000: 0.652, 10_000: 0.582, 100_000: 0.560},
        "NLE": {1_000: 0.789, 10_000: 0.693, 100_000: 0.641},
        "NPE": {1_000: 0.715, 10_000: 0.608, 100_000: 0.542},
    },
    "slcp": {
        "NRE": {1_000: 0.971, 10_000: 0.957, 100_000: 0.933},
        "SNRE": {1_000: 0.976, 10_000: 0.914, 100_000: 0.727},
        "NLE": {1_000: 0.954, 10_000: 0.756, 100_000: 0.691},
        "NPE": {1_000: 0.973, 10_000: 0.907, 100_000: 0.819},
    },
    "gaussian_linear": {
        "NRE": {1_000: 0.690, 10_000: 0.559, 100_000: 0.524},
        "SNRE": {1_000: 0.676, 10_000: 0.535, 100_000: 0.516},
        "NLE": {1_000: 0.611, 10_000: 0.543, 100_000: 0.512},
        "NPE": {1_000: 0.686, 10_000: 0.534, 100_000: 0.506},
    },
    "gaussian_linear_uniform": {
        "NRE": {1_000: 0.807, 10_000: 0.706, 100_000: 0.629},
        "SNRE": {1_000: 0.679, 10_000: 0.600, 100_000: 0.537},
        "NLE": {1_000: 0.714, 10_000: 0.543, 100_000: 0.506},
        "NPE": {1_000: 0.682, 10_000: 0.554, 100_000: 0.508},
    },
}

FRESH_EVENTS: Final = 10_000
#: Seeds of the fresh events and of their second θ: the same for every estimator, and no one's own.
FRESH_SEED, PARTNER_SEED = 4_000_000_001, 4_000_000_002
#: Largest true log ratio that counts as moderate.
MODERATE: Final = 10.0


class AbstractJudged(Protocol):
    """What is judged: something that models ln p(x; θ) up to a function of x."""

    def at(self, x: np.ndarray) -> LogFactor:
        """The JAX function of θ, (m, d) -> (m,), for one event of shape (D,)."""
        ...

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        """ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        ...

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """∇θ ln p(x; θ), shape (n, d)."""
        ...


#: Trains on events with a seed.
EstimatorFactory = Callable[[ist.Events, int], ist.Estimator | AbstractJudged]


@dataclass(frozen=True)
class Learned:
    """A trained potential."""

    estimator: ist.Estimator

    def at(self, x: np.ndarray) -> LogFactor:
        """φ(x, θ) of one event, averaged over the members."""
        return Partial(_potentials, self.estimator.model, jnp.asarray(x, jnp.float32))

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        """φ(x, θ0) − φ(x, θ1)."""
        return self.estimator.log_ratio(x, theta0, theta1)

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """∇θ φ(x, θ)."""
        return self.estimator.score(x, theta)


def _potentials(model: PotentialModel, x: Array, thetas: Array) -> Array:
    return over_members(model, lambda member: member.potentials(x, thetas))


@dataclass(frozen=True)
class Exact:
    """The task's own likelihood, the control."""

    task: Task

    def at(self, x: np.ndarray) -> LogFactor:
        """ln p(x; θ) of one event."""
        return self.task.at(x)

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        """ln p(x; θ0) − ln p(x; θ1)."""
        return self.task.log_likelihood(x, theta0) - self.task.log_likelihood(x, theta1)

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """∇θ ln p(x; θ)."""
        return self.task.score(x, theta)


@dataclass(frozen=True)
class Error:
    """How far an estimate is from the truth.

    Attributes:
        mean_square: mean of the squared error.
        relative: the same over the variance of the truth; 1 is what a constant achieves.
        typical: median of the squared error over the median of the truth's squared deviation from
            its median, for truths with tails so heavy that a few events make up their variance.
    """

    mean_square: float
    relative: float
    typical: float


@dataclass(frozen=True)
class Errors:
    """Errors on fresh events x drawn at θ0 from the prior, with an independent θ1.

    Attributes:
        log_ratio: of ln p(x; θ0) − ln p(x; θ1), over the pairs where it is finite.
        finite: the fraction of pairs where it is (p(x; θ1) may vanish).
        moderate: the same error over the pairs where the true log ratio is moderate, within ±10; in
            two_moons and slcp the others, up to 3·10⁸, make up the mean over all.
        probability: mean squared error of sigmoid(log ratio), over all pairs: what a classifier of
            the two θ loses in square loss.
        score: of each component of ∇θ ln p(x; θ0).
    """

    log_ratio: Error
    finite: float
    moderate: Error
    probability: float
    score: tuple[Error, ...]


@dataclass(frozen=True)
class Evaluation:
    """The result of one training.

    Attributes:
        task: its name.
        n_simulations: number of training events.
        seed: of the training events, the training and the sampler.
        c2st: C2ST by the number of the observation; 0.5 is best.
        errors: errors on fresh events.
        training_seconds, sampling_seconds: wall time of training and of all posteriors, compilation
            included.
    """

    task: str
    n_simulations: int
    seed: int
    c2st: dict[int, float]
    errors: Errors
    training_seconds: float
    sampling_seconds: float


@dataclass(frozen=True)
class Begun:
    """An evaluation whose C2STs are still being worked on, in other processes."""

    pending: dict[int, Pending]
    others: Evaluation

    def result(self) -> Evaluation:
        """Wait for them."""
        return replace(self.others, c2st={n: test.result() for n, test in self.pending.items()})


def begin(
    task: Task,
    n_simulations: int,
    seed: int,
    estimator_factory: EstimatorFactory,
    pool: Executor,
    observations: Iterable[int] = OBSERVATIONS,
) -> Begun:
    """Simulate, train, draw from the posteriors of the published observations, and judge.

    Args:
        task: one of `TASKS`.
        n_simulations: number of training events, with θ from the prior.
        seed: of the training events, handed to `estimator_factory`, and used for the sampler.
        estimator_factory: trains, such as `lambda events, seed: ist.fit(events, seed=seed)`.
        pool: works on the C2STs, which take the longest.
        observations: their numbers, from 1 to 10.
    """
    events = ist.simulate(task.simulate, task.prior, n_simulations, seed=seed, progress_bar=False)
    start = time.perf_counter()
    trained = estimator_factory(events, seed)
    training_seconds = time.perf_counter() - start
    judged = Learned(trained) if isinstance(trained, ist.Estimator) else trained
    pending = {}
    start = time.perf_counter()
    for number in observations:
        observation = task.observation(number)
        theta = draw_posterior(judged, task, observation.x, seed=100 * seed + number)
        pending[number] = begin_c2st(pool, observation.reference, theta)
    others = Evaluation(
        task=task.name,
        n_simulations=n_simulations,
        seed=seed,
        c2st={},
        training_seconds=training_seconds,
        sampling_seconds=time.perf_counter() - start,
        errors=exact_errors(judged, task),
    )
    return Begun(pending, others)


def draw_posterior(
    judged: AbstractJudged,
    task: Task,
    x: np.ndarray,
    n: int = 10_000,
    *,
    seed: int,
    effort: Effort | None = None,
) -> np.ndarray:
    """Draw from the posterior of one event under the task's prior, shape (n, d)."""
    return sample_posterior(judged.at(x), task.prior, n, seed=seed, effort=effort).theta


def exact_errors(judged: AbstractJudged, task: Task, n: int = FRESH_EVENTS) -> Errors:
    """Compare with the exact likelihood on `n` fresh events."""
    fresh = ist.simulate(task.simulate, task.prior, n, seed=FRESH_SEED, progress_bar=False)
    partner = task.prior.sample(n, seed=PARTNER_SEED)
    truth = Exact(task)
    log_r = truth.log_ratio(fresh.x, fresh.theta, partner)
    with warnings.catch_warnings():
        # Fresh events beyond the training events belong to the benchmark.
        warnings.filterwarnings("ignore", ".*outside the range of x seen in training", UserWarning)
        estimated_log_r = judged.log_ratio(fresh.x, fresh.theta, partner)
        score = judged.score(fresh.x, fresh.theta)
    finite, moderate = np.isfinite(log_r), np.abs(log_r) <= MODERATE
    return Errors(
        log_ratio=_error(estimated_log_r[finite], log_r[finite]),
        finite=float(finite.mean()),
        moderate=_error(estimated_log_r[moderate], log_r[moderate]),
        probability=float(np.mean((_sigmoid(estimated_log_r) - _sigmoid(log_r)) ** 2)),
        score=tuple(
            _error(*columns)
            for columns in zip(score.T, truth.score(fresh.x, fresh.theta).T, strict=True)
        ),
    )


def _error(estimate: np.ndarray, truth: np.ndarray) -> Error:
    square = (estimate - truth) ** 2
    return Error(
        mean_square=float(square.mean()),
        relative=float(square.mean() / truth.var()),
        typical=float(np.median(square) / np.median((truth - np.median(truth)) ** 2)),
    )


def _sigmoid(log_r: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -log_r))
