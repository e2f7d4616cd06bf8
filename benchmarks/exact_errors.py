"""Errors against exact truth: the paper's three tasks, and any toy."""

from functools import cache
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

import inferostatic as ist
from inferostatic.supervision.supervision import supervise_many

#: The paper's prior, on which its tasks are evaluated, and a wider one to simulate on.
PAPER_BOX = ([0.5] * 3, [5.0] * 3)
WIDE_BOX = ([0.1] * 3, [5.4] * 3)
TASKS = {
    "T1": ist.KSE(ist.Delta(0.25)),
    "T2": ist.KLRE(ist.Rectangular(0.4)),
    "T3": ist.CARL(),
}
#: The paper's best network for each task (median of five), from its table.
PAPER_BEST = {"T1": 0.279, "T2": 0.049, "T3": 3.272}
EVALUATED = 100_000


@cache
def _task_set(task: str) -> ist.Records:
    toy, prior = ist.toys.Dirichlet(), ist.Uniform(*PAPER_BOX)
    number = 900 + list(TASKS).index(task)
    return ist.draw(TASKS[task], toy, prior, EVALUATED, seed=number, progress_bar=False)


def task_inputs(task: str) -> dict[str, np.ndarray]:
    """The points of a task: x and theta for the score, x, theta0 and theta1 for ln r."""
    records = _task_set(task)
    names = ("theta",) if task == "T1" else ("theta0", "theta1")
    thetas = {name: np.asarray(getattr(records.record, name), np.float64) for name in names}
    return {"x": records.x, **thetas}


def task_errors(estimator: Any) -> dict[str, float]:  # noqa: ANN401
    """Mean squared error on each task's own law: of score components, or of ln r.

    `estimator` needs score(x, theta) and log_ratio(x, theta0, theta1).
    """
    found = {}
    for task in TASKS:
        predict = estimator.score if task == "T1" else estimator.log_ratio
        found[task] = predict(*task_inputs(task).values())
    return prediction_errors(found)


def prediction_errors(found: dict[str, np.ndarray]) -> dict[str, float]:
    """The same for what was predicted at the points of each task."""
    return {task: float(np.mean((found[task] - _task_truth(task)) ** 2)) for task in TASKS}


def _task_truth(task: str) -> np.ndarray:
    toy = ist.toys.Dirichlet()
    x, *thetas = task_inputs(task).values()
    if task == "T1":
        return toy.score(x, *thetas)
    one, two = (toy.log_prob(x, theta) for theta in thetas)
    return one - two


class ExactToy:
    """The truth of a toy, asked like an estimator."""

    def __init__(self, toy: Any) -> None:  # noqa: ANN401
        self.toy = toy

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """∇θ ln p(x; θ)."""
        return self.toy.score(x, theta)

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        """ln p(x; θ0) − ln p(x; θ1)."""
        return self.toy.log_prob(x, theta0) - self.toy.log_prob(x, theta1)


#: Toys with the box of θ they are simulated on.
TOYS: dict[str, tuple[Any, tuple[list[float], list[float]]]] = {
    "Dirichlet, 3 parameters": (ist.toys.Dirichlet(), WIDE_BOX),
    "correlated Gaussian": (ist.toys.CorrelatedGaussian(), ([-2, -2, 0.5], [2, 2, 2])),
    "Gaussian mixture": (ist.toys.GaussianMixture(), ([0.5, 0.05], [4, 0.95])),
    "peak on a falling spectrum": (
        ist.toys.FallingSpectrumWithPeak(),
        ([0.05, 110, 0.01], [0.4, 160, 0.05]),
    ),
    "Poisson counts (discrete)": (ist.toys.PoissonCounts(), ([1, 2, 0.1], [8, 8, 0.8])),
    "smeared spectrum, 8 parameters": (ist.toys.SmearedSpectrum(), ([-2] * 8, [2] * 8)),
    "ring": (ist.toys.Ring(), ([-2] * 2, [2] * 2)),
    "12 parameters": (ist.toys.ManyParameters(), ([-2] * 12, [2] * 12)),
}


def toy_errors(name: str, estimator: ist.Estimator, *, seed: int = 999) -> dict[str, float]:
    """Errors on fresh events at θ from the simulated box, relative to the spread of the truth.

    `score` and `log_ratio` are mean squared errors divided by the mean square of the true score
    (by component, then averaged) and by the variance of the true ln r; `excess` is the loss of
    multi-scale candidates above that of the exact density, in nats.
    """
    toy, box = TOYS[name]
    prior = ist.Uniform(*box)
    events = ist.simulate(toy, prior, 20_000, seed=seed, progress_bar=False)
    x, theta = events.x, events.theta
    truth = toy.score(x, theta)
    score = estimator.score(x, theta)
    points = (x, theta, prior.sample(len(x), seed=seed + 1))
    near = (prior, theta, score, truth)
    return {
        "score": score_error(score, truth),
        "log_ratio": log_ratio_error(
            estimator.log_ratio(*points), ExactToy(toy).log_ratio(*points)
        ),
        "excess": excess_loss(toy, prior, x, theta, estimator),
        "edge": edge_error(*near),
        "edge_relative": edge_error(*near, relative=True),
    }


def score_error(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean squared error over the mean square of the truth, by component, then averaged."""
    return float(np.mean(np.mean((found - truth) ** 2, axis=0) / np.mean(truth**2, axis=0)))


def log_ratio_error(found: np.ndarray, truth: np.ndarray, *, within: float = np.inf) -> float:
    """Σ(l̂ − l)² / Σ(l − mean of l)² over the pairs whose true |l| is below `within`."""
    part = np.abs(truth) < within
    return float(np.mean((found[part] - truth[part]) ** 2) / truth[part].var())


def edge_error(
    prior: ist.Uniform,
    theta: np.ndarray,
    score: np.ndarray,
    truth: np.ndarray,
    *,
    relative: bool = False,
) -> float:
    """Root mean square error of the score in the outer tenth of the prior, over that in the bulk.

    A point is in the outer tenth if any parameter is in its outer 5% on either side. `relative`
    takes each component's error in units of the score's own spread in that region, because true
    scores may be larger near an edge.
    """
    low, high = prior.support
    place = (theta - low) / (high - low)
    outer = ((place < 0.05) | (place > 0.95)).any(axis=1)
    errors = []
    for part in (~outer, outer):
        error = np.mean((score[part] - truth[part]) ** 2, axis=0)
        unit = np.mean(truth[part] ** 2, axis=0) if relative else 1.0
        errors.append(float(np.mean(error / unit)))
    return float(np.sqrt(errors[1] / errors[0]))


def excess_loss(
    toy: Any,  # noqa: ANN401
    prior: ist.Uniform,
    x: np.ndarray,
    theta: np.ndarray,
    estimator: ist.Estimator,
) -> float:
    """Loss of multi-scale candidates above that of the exact density, in nats."""
    method: Any = ist.KCE()
    supply = method.supply(ist.Events(x=x, theta=theta, prior=prior))
    keys = jax.random.split(jax.random.key(0), len(x))
    record: Any = supervise_many(method.supervision, supply.rows, supply.distribution, keys)
    thetas = np.asarray(record.thetas, np.float64)
    low, high = prior.support
    flat = np.clip(thetas.reshape(-1, theta.shape[1]), low, high)
    repeated = np.repeat(x, thetas.shape[1], axis=0)
    shape = thetas.shape[:2]
    loss = _cross_entropy(estimator.potential(repeated, flat).reshape(shape))
    exact = _cross_entropy(toy.log_prob(repeated, flat).reshape(shape))
    return float(np.mean(loss - exact))


def _cross_entropy(phi: np.ndarray) -> np.ndarray:
    return logsumexp(phi, axis=1) - phi[:, 0]
