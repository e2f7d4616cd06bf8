r"""Fisher information of one event, learned: \(I=E[ss^T]=-E[\nabla^2\ln p]\).

For the true score both forms are equal. For a learned one they differ, and by how much is a
diagnostic; the errors of an estimate that solves Σŝ = 0 are then the sandwich
\(H^{-1}\mathrm{Cov}(\hat s)H^{-1}/N\). It repairs the variance and not the bias,
\(H^{-1}E[\hat s]\), reported beside it. Only for a ŝ whose mean is zero at every θ (see centring)
is it a bound from above: where the mean changes with θ, \(-E[\nabla^2\hat\varphi]\) changes too.
"""

import numpy as np

from ...estimator.estimator import Estimator, ScoreEstimator
from ...events.simulate import simulate_at
from ...inputs import Input, as_count, as_seed, warn_user
from ...progress import progress
from ...streams import Purpose, Stream
from ...weights import effective_size, mean_and_error
from ...world.simulator import Simulator, require_simulator
from ..arguments import as_events, as_trained_point, as_weight
from ..likelihood.second_derivatives import Curvature
from .fisher_information import FisherInformation
from .score_response import require_score
from .symmetric_matrices import Moments, pack_triangle, standard_errors, unpack_triangle

#: Events that a simulator makes by default.
EVENTS = 100_000
#: Effective events for each number of the two matrices, below which errors are not to be trusted.
FEWEST_EACH = 10


def fisher(
    estimator: Estimator | ScoreEstimator,
    x: Input | Simulator,
    theta: Input,
    *,
    weight: Input | None = None,
    n: int | None = None,
    seed: int | None = None,
) -> FisherInformation:
    r"""The Fisher information of one event at `theta`, from events simulated there.

    $$I(\theta) = E[\hat s\hat s^T] \quad\text{and}\quad -E[\nabla^2\hat\varphi]$$

    over x drawn at θ. Give the events, `fisher(est, x, theta)`, or a simulator that makes them,
    `fisher(est, simulator, theta, n=100_000, seed=1)`. Second derivatives are automatic if the
    network is twice differentiable in θ (SiLU, tanh, softplus); with SELU, ReLU and the like the
    mean score is differentiated numerically instead, and the result says so. `ist.score_response`
    simulates a third form, which is wrong only by the square of the score's error.

    Args:
        estimator: a trained potential, or a direct score network.
        x: events simulated at `theta`, shape (n, D); or a simulator `(theta (n, d), rng) -> x`.
        theta: one parameter point, shape (d,), inside the trained region.
        weight: one for each event, of either sign; 1 by default.
        n: number of events that a simulator makes, 100,000 by default.
        seed: of the simulation, needed with a simulator.
    """
    require_score(estimator, "fisher")
    point = as_trained_point(estimator, theta)
    if not callable(x):
        if n is not None or seed is not None:
            raise TypeError(
                "n and seed belong to a simulator, fisher(est, simulator, theta, n=…, seed=1); "
                "here x are events, so leave them out."
            )
        rows = as_events(estimator, x)
        return _find_information(estimator, rows, point, as_weight(weight, len(rows)))
    require_simulator(x)
    if weight is not None:
        raise TypeError("weight belongs to events given as x; a simulator's have weight 1.")
    if seed is None:
        raise TypeError("fisher with a simulator needs a seed, for example seed=1.")
    many = np.tile(point, (as_count(EVENTS if n is None else n, "n"), 1))
    stream = Stream(as_seed(seed), Purpose.FISHER)
    rows = as_events(estimator, simulate_at(x, many, stream, x_names=estimator.x_names))
    return _find_information(estimator, rows, point, np.ones(len(rows)))


def _find_information(
    estimator: Estimator | ScoreEstimator, rows: np.ndarray, point: np.ndarray, weight: np.ndarray
) -> FisherInformation:
    dim = len(point)
    numbers = dim * (dim + 1)
    enough = effective_size(weight)
    if len(rows) < 2:
        raise ValueError("fisher needs events, many of them, to take means; got 1.")
    if enough < FEWEST_EACH * numbers:
        warn_user(
            f"{enough:.0f} effective events are few for the {numbers} numbers of two information "
            f"matrices; give at least {FEWEST_EACH * numbers}."
        )
    curvature = Curvature(estimator, rows, point)
    moments, scores, done = Moments(numbers), [], 0
    with progress("Fisher information", len(rows)) as advance:
        for part in curvature:
            outer = part.score[:, :, None] * part.score[:, None, :]
            each = np.concatenate([pack_triangle(outer), pack_triangle(part.curvature)], axis=1)
            moments.add(each, weight[done : done + len(each)])
            scores.append(part.score)
            done += len(each)
            advance(len(each))
    scores = np.concatenate(scores)
    mean_score, mean_score_error = mean_and_error(scores, weight)
    means, errors = (
        [unpack_triangle(half, dim) for half in np.split(values, 2)]
        for values in (moments.mean, standard_errors(moments.covariance))
    )
    return FisherInformation(
        theta=point,
        names=estimator.theta_names,
        score_information=means[0],
        score_error=errors[0],
        hessian_information=means[1],
        hessian_error=errors[1],
        automatic=curvature.automatic,
        remark=curvature.reason,
        mean_score=mean_score,
        mean_score_error=mean_score_error,
        scores=scores,
        weight=weight,
        n_effective=enough,
        _covariance=moments.covariance,
    )
