"""Whether observed events look like events that were simulated at the estimate.

The means of the observables, brought to a bounded range, are compared with those of simulated
events (`estimator/measured_mean`). Estimators whose members disagree about the estimate are
reported as well: where nothing was simulated, each network answers as it likes.
"""

import numpy as np

from ...estimator.estimator import Estimator
from ...inputs import warn_user
from ...weights import effective_size
from ..chi_square import chi2_p_value
from .learned_bias import LearnedBias, find_covariance, judge_bias
from .likelihood import Likelihood
from .model import Channel

#: Observed events from which on their mean is nearly normal.
FEWEST_EVENTS = 20
#: p-value below which observed events are called unlike simulated ones.
UNLIKE = 1e-4
#: p-value below which they are no longer called alike.
DOUBTFUL = 0.05
#: What to use where networks that were trained alike do not agree.
CURE = "ist.calibrated_fit, which holds for any network"
#: Standard errors by which members may scatter about the estimate.
MOST_SPREAD = 1.0
#: Step of slopes, as a part of a standard error.
STEP = 0.1


def judge_result(
    likelihood: Likelihood,
    theta: np.ndarray,
    covariance: np.ndarray | None = None,
    *,
    hessian: np.ndarray | None = None,
    cure: str,
) -> tuple[LearnedBias | None, list[str]]:
    """How far a result that trusts the potential can be trusted, with notes; warns where not.

    Args:
        likelihood: of the observed events.
        theta: the estimate, shape (d,).
        covariance: of the estimate; by default from the likelihood's curvature.
        hessian: of ln L at the estimate, where it is known already.
        cure: what to use in place of this result.
    """
    bias, note = judge_bias(likelihood, theta, covariance, hessian=hessian, cure=cure)
    return bias, [note, *judge_observed(likelihood, theta, covariance, hessian=hessian)]


def judge_observed(
    likelihood: Likelihood,
    theta: np.ndarray,
    covariance: np.ndarray | None = None,
    *,
    hessian: np.ndarray | None = None,
) -> list[str]:
    """Notes on how the observed events compare; warns where they are unlike simulated ones.

    Args:
        likelihood: of the observed events.
        theta: the estimate, shape (d,).
        covariance: of the estimate; by default from the likelihood's curvature.
        hessian: of ln L at the estimate, where it is known already.
    """
    if not _is_judged(likelihood):
        return []
    if covariance is None:
        covariance = find_covariance(likelihood, theta, hessian)
    notes = []
    sets = zip(likelihood.model.channels, likelihood.data.x, likelihood.data.weight, strict=True)
    for channel, x, weight in sets:
        note, unlike = _compare_means(channel, x[0], weight[0], theta, covariance)
        if unlike:
            warn_user(f"{'; '.join(note)}. Look at the events, or simulate more like them.")
        spread = _spread_of_members(channel, x[0], weight[0], theta, covariance)
        if spread > MOST_SPREAD:
            said = f"the members disagree by {spread:.1f} standard errors of the estimate"
            warn_user(f"{said}. Train on more events or with more members, or use {CURE}.")
            note = [*note, said]
        notes += note
    return notes


def _is_judged(likelihood: Likelihood) -> bool:
    """Whether something is known by which a result can be judged."""
    return likelihood.events > 0 and any(
        one.x_mean is not None or one.score_bias is not None or one.members > 1
        for one in likelihood.estimators
    )


def _compare_means(
    channel: Channel,
    x: np.ndarray,
    weight: np.ndarray,
    theta: np.ndarray,
    covariance: np.ndarray,
) -> tuple[list[str], bool]:
    """A sentence on the means of the observables, and whether they are unlike simulated ones."""
    expected, size = channel.estimators[0].x_mean, effective_size(weight) if len(x) else 0.0
    if expected is None or size < FEWEST_EVENTS:
        return [], False
    index = list(channel.indices)
    point, block = theta[index], np.nan_to_num(covariance[np.ix_(index, index)])
    mean, spread = expected(point)
    values = channel.estimators[0].region.bound_x(x)
    away = weight @ values / weight.sum() - mean
    total = expected.covariance(point) / size + spread
    # The expected means share the error of the estimate, which was fitted to the same events: to
    # count it in full makes the test less strict, never too strict.
    sizes, vectors = np.linalg.eigh(block)
    for step in (vectors * np.sqrt(np.maximum(sizes, 0))).T:
        slope = (expected(point + STEP * step)[0] - expected(point - STEP * step)[0]) / (2 * STEP)
        total = total + np.outer(slope, slope)
    errors = np.sqrt(np.diag(total))
    unit = total / np.outer(errors, errors) + 1e-9 * np.eye(len(errors))
    pulls = away / errors
    p_value = float(chi2_p_value(pulls @ np.linalg.solve(unit, pulls), len(pulls)))
    worst = int(np.argmax(np.abs(pulls)))
    unlike = p_value < UNLIKE
    how = "unlike" if unlike else "hardly like" if p_value < DOUBTFUL else "like"
    text = (
        f"observed events are {how} simulated ones at the estimate: "
        f"p = {p_value:.2g} for the means of the observables, the largest deviation "
        f"{pulls[worst]:+.1f} standard errors in {channel.x_names[worst]}"
    )
    return [text], unlike


def _spread_of_members(
    channel: Channel,
    x: np.ndarray,
    weight: np.ndarray,
    theta: np.ndarray,
    covariance: np.ndarray,
) -> float:
    """The largest scatter over members of a parameter's estimate, in its standard errors."""
    index = list(channel.indices)
    shifts = []
    for estimator in channel.estimators:
        if isinstance(estimator, Estimator) and estimator.members > 1 and len(x):
            each = estimator.member_scores(x, theta[index])
            shifts.append(np.einsum("i,imj->mj", weight, each) @ covariance[np.ix_(index, index)])
    if not shifts:
        return 0.0
    errors = np.sqrt(np.diag(covariance))[index]
    scatter = [np.std(shift, axis=0, ddof=1) for shift in shifts]
    with np.errstate(invalid="ignore", divide="ignore"):
        pulls = np.nan_to_num(np.array(scatter) / errors, posinf=0.0)
    return float(np.max(pulls, initial=0.0))
