r"""A fit whose errors can be trusted even if the network cannot.

The learned score at an anchor θ*, \(t(x)=\hat s(x;\theta^*)\), is a statistic with one component
for each parameter. How its mean responds to θ is learned from simulated events, and θ is where the
response equals the observed mean. If the network is good, this is nearly the best that can be
done; if it is not, errors are larger, and still right. The error of the response, from finitely
many simulated events, is part of the result; given a simulator, it is made small.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..estimator import AbstractEstimator, Estimator, ScoreEstimator
from ..events.events import Events
from ..events.simulate import simulate
from ..inputs import Input, as_rows, column_names, kind_of, require_finite, require_order, warn_user
from ..world.prior import AbstractPrior, Uniform
from .response import Response, mean_of, respond

#: Anchors lie on a lattice of this many cells in each parameter, so that many fits share them.
CELLS = 12
#: Times that an anchor is moved to the estimate, at most.
MOVES = 4
#: Second-stage events are simulated within this many errors of the first estimate.
REACH = 4.0
FIRST_EVENTS = 20_000
SIMULATED_BY_ERRORS = 3


@dataclasses.dataclass(frozen=True, repr=False)
class CalibratedFit:
    """The result of a calibrated fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: of the estimate, with the error by finitely many simulated events.
        statistical: of the estimate, by the observed events alone.
        p_value: of the means of the observables, given the estimate: small if the data look like
            none of the simulated events.
        sensitivity: error of an ideal fit by the learned Fisher information over that reached, for
            each parameter; near 1 if nothing was lost.
        anchor: θ* of the statistics.
        events: observed events.
        simulated: simulated events behind the response.
        names: of the parameters.
    """

    theta: np.ndarray
    covariance: np.ndarray
    statistical: np.ndarray
    p_value: float
    sensitivity: np.ndarray
    anchor: np.ndarray
    events: int
    simulated: int
    names: tuple[str, ...]
    _problem: "_Problem" = dataclasses.field(repr=False, compare=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def simulation_fraction(self) -> np.ndarray:
        """Error by finitely many simulated events over the statistical one, for each parameter."""
        statistical = np.diag(self.statistical)
        return np.sqrt(np.maximum(np.diag(self.covariance) - statistical, 0) / statistical)

    def distance(self, theta: Input, parameters: Sequence[str | int] | None = None) -> float:
        """How far θ is from the data: a χ² with as many degrees of freedom as parameters are fixed.

        Args:
            theta: a point, shape (d,).
            parameters: those that are fixed there, by name or number; the others are chosen as the
                data like them best. All unless given.
        """
        point = np.asarray(theta, np.float64)
        fixed = (
            range(len(self.names)) if parameters is None else [self._place(p) for p in parameters]
        )
        return self._problem.profiled(point, sorted(fixed), self.theta)

    def interval(self, level: float = 0.6827) -> np.ndarray:
        """Confidence interval of each parameter, shape (d, 2), the others profiled."""
        from scipy.stats import chi2

        _check_level(level)
        bound = float(chi2.ppf(level, 1))
        return np.array(
            [
                self._problem.ends(j, bound, self.theta, self.errors[j])
                for j in range(len(self.theta))
            ]
        )

    def contour(
        self, first: str | int, second: str | int, level: float = 0.6827, *, points: int = 60
    ) -> np.ndarray:
        """Outline of the confidence region of two parameters, shape (points, 2)."""
        from scipy.stats import chi2

        _check_level(level)
        i, j = self._place(first), self._place(second)
        if i == j:
            raise ValueError(f"contour takes two different parameters; got {first!r} twice.")
        return self._problem.outline(
            i, j, float(chi2.ppf(level, 2)), self.theta, self.covariance, points
        )

    def summary(self, level: float = 0.6827) -> str:
        """A table in words."""
        lines = [
            f"Calibrated fit to {self.events:,} events, response from {self.simulated:,} simulated",
            f"{'':12}{'estimate':>12}{'error':>10}{f'{level:.1%} interval':>26}{'simulation':>12}"
            f"{'sensitivity':>13}",
        ]
        rows = zip(
            self.names,
            self.theta,
            self.errors,
            self.interval(level),
            self.simulation_fraction,
            self.sensitivity,
            strict=True,
        )
        for name, value, error, (low, high), part, sensitivity in rows:
            interval = f"{low:.5g} to {high:.5g}"
            lines.append(
                f"{name:12}{value:12.5g}{error:10.2g}{interval:>26}{part:12.2f}{sensitivity:13.2f}"
            )
        lines.append(f"p-value of the observables' means: {self.p_value:.3g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(f"{name} = {value:.4g} ± {error:.2g}" for name, value, error in values)
        return f"CalibratedFit({text}; p = {self.p_value:.2g})"

    def _place(self, parameter: str | int) -> int:
        if isinstance(parameter, str):
            if parameter not in self.names:
                raise ValueError(
                    f"there is no parameter {parameter!r}; they are {', '.join(self.names)}."
                )
            return self.names.index(parameter)
        if not 0 <= parameter < len(self.names):
            raise ValueError(
                f"parameters are numbered 0 to {len(self.names) - 1}; got {parameter}."
            )
        return int(parameter)


class Calibration:
    """Estimators with the simulated events by which their scores are calibrated.

    Responses are learned where they are needed and kept, so that many data sets share the work.

    Args:
        estimators: one, or several that were trained on different events. Scores are averaged.
        events: as many sets of events, each without those its estimator was trained on.
    """

    def __init__(
        self,
        estimators: Any,  # noqa: ANN401
        events: Events | Sequence[Events],
        *,
        seed: int = 0,  # noqa: ANN401
    ) -> None:
        self.estimators = (
            tuple(estimators) if isinstance(estimators, list | tuple) else (estimators,)
        )
        self.events = tuple(events) if isinstance(events, list | tuple) else (events,)
        for estimator in self.estimators:
            if not isinstance(estimator, Estimator | ScoreEstimator):
                raise TypeError(
                    "a calibrated fit needs estimators that offer a score (a potential or a direct "
                    f"score network); got {kind_of(estimator)}."
                )
        for part in self.events:
            if not isinstance(part, Events):
                raise TypeError(
                    f"calibration takes ist.Events, simulated at many θ; got {kind_of(part)}."
                )
        if len(self.estimators) != len(self.events):
            raise ValueError(
                f"give one set of events for each estimator; got {len(self.estimators)} estimators "
                f"and {len(self.events)} sets."
            )
        self.seed = seed
        thetas = np.concatenate([np.asarray(part.theta, np.float64) for part in self.events])
        self.low, self.high = thetas.min(axis=0), thetas.max(axis=0)
        self._known: dict[bytes, Response] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return self.estimators[0].theta_names

    def snapped(self, theta: np.ndarray) -> np.ndarray:
        """The middle of the lattice cell that θ lies in."""
        width = (self.high - self.low) / CELLS
        cell = np.clip(np.floor((theta - self.low) / width), 0, CELLS - 1)
        return self.low + (cell + 0.5) * width

    def scores(self, x: np.ndarray, anchor: np.ndarray) -> np.ndarray:
        """The statistic: the estimators' mean score at the anchor, shape (n, d)."""
        return np.mean([estimator.score(x, anchor) for estimator in self.estimators], axis=0)

    def response(self, anchor: np.ndarray) -> Response:
        """Of the scores at an anchor, then of the observables, near the anchor."""
        key = np.asarray(anchor, np.float64).tobytes()
        if key not in self._known:
            self._known[key] = _response(
                self.estimators, self.events, anchor, seed=self.seed, degree=None
            )
        return self._known[key]


def _response(
    estimators: Sequence[AbstractEstimator],
    events: Sequence[Events],
    anchor: np.ndarray,
    *,
    seed: int,
    degree: int | None,
) -> Response:
    """The mean of the estimators' responses, each on its own events."""
    parts = []
    for estimator, part in zip(estimators, events, strict=True):
        x = np.asarray(part.x, np.float64)
        own = estimator.score(x, anchor)  # type: ignore[attr-defined]
        statistics = np.concatenate([own, _bounded(estimator, x)], axis=1)
        weight = np.asarray(part.weight, np.float64)
        response = respond(
            np.asarray(part.theta, np.float64),
            statistics,
            anchor,
            weight=weight,
            degree=degree,
            judged=own.shape[1],
        )
        if len(estimators) > 1:
            every = np.mean([e.score(x, anchor) for e in estimators], axis=0)  # type: ignore[attr-defined]
            full = np.concatenate([every, statistics[:, own.shape[1] :]], axis=1)
            fitted = respond(
                np.asarray(part.theta, np.float64),
                full,
                anchor,
                weight=weight,
                degree=response.degree,
            )
            response = dataclasses.replace(response, scatter=fitted.scatter)
        parts.append(response)
    return mean_of(parts)


def _bounded(estimator: AbstractEstimator, x: np.ndarray) -> np.ndarray:
    """The observables, brought to a range where their means exist, to judge the fit by."""
    low, high = estimator.region.x_low, estimator.region.x_high
    middle, width = (low + high) / 2, np.maximum(high - low, np.finfo(float).tiny)
    return np.tanh(4 * (x - middle) / width)


@dataclasses.dataclass(frozen=True)
class _Problem:
    """Observed means and their response."""

    observed: np.ndarray
    response: Response
    scatter: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def residual(self, theta: np.ndarray) -> np.ndarray:
        """Observed minus expected, in units of its error."""
        difference = self.observed - self.response.mean(theta)
        root = np.linalg.cholesky(self.scatter + self.response.error(theta))
        return np.linalg.solve(root, difference)

    def solve(self, start: np.ndarray, fixed: Sequence[int] = ()) -> tuple[np.ndarray, float]:
        """The best θ, and its χ²."""
        from scipy.optimize import least_squares

        free = [j for j in range(len(start)) if j not in fixed]
        point = start.copy()
        if not free:
            return point, float(np.sum(self.residual(point) ** 2))

        def residual(values: np.ndarray) -> np.ndarray:
            point[free] = values
            return self.residual(point)

        def slope(values: np.ndarray) -> np.ndarray:
            # The error's own change with θ is left out: it moves steps, not where they end.
            point[free] = values
            root = np.linalg.cholesky(self.scatter + self.response.error(point))
            return -np.linalg.solve(root, self.response.jacobian(point)[:, free])

        inside = 1e-9 * (self.high - self.low)
        begin = np.clip(start, self.low + inside, self.high - inside)[free]
        found = least_squares(
            residual,
            begin,
            jac=slope,
            bounds=(self.low[free], self.high[free]),
            x_scale="jac",
            xtol=1e-10,
            ftol=1e-10,
            gtol=1e-10,
        )
        point[free] = found.x
        return point, float(2 * found.cost)

    def profiled(self, theta: np.ndarray, fixed: Sequence[int], best: np.ndarray) -> float:
        """χ² with some parameters fixed, above that of the best θ."""
        start = best.copy()
        start[list(fixed)] = theta[list(fixed)]
        lowest = float(np.sum(self.residual(best) ** 2))
        return max(self.solve(start, fixed)[1] - lowest, 0.0)

    def ends(self, j: int, bound: float, best: np.ndarray, error: float) -> tuple[float, float]:
        """Where the profiled χ² of one parameter reaches the bound, or the wall of the region."""
        from scipy.optimize import brentq

        def above(value: float) -> float:
            point = best.copy()
            point[j] = value
            return self.profiled(point, [j], best) - bound

        ends = []
        for sign, wall in ((-1, self.low[j]), (1, self.high[j])):
            reach = np.sqrt(bound) * error
            inner = best[j]
            while True:
                outer = np.clip(best[j] + sign * reach, self.low[j], self.high[j])
                if above(outer) > 0:
                    ends.append(float(brentq(above, *sorted((inner, outer)), xtol=1e-4 * error)))
                    break
                if outer == wall:
                    ends.append(float(wall))
                    break
                inner, reach = outer, 1.5 * reach
        return ends[0], ends[1]

    def outline(
        self, i: int, j: int, bound: float, best: np.ndarray, covariance: np.ndarray, points: int
    ) -> np.ndarray:
        from scipy.optimize import brentq

        root = np.linalg.cholesky(covariance[np.ix_([i, j], [i, j])])
        outline = []
        for angle in np.linspace(0, 2 * np.pi, points, endpoint=False):
            direction = root @ np.array([np.cos(angle), np.sin(angle)])

            def above(length: float, direction: np.ndarray = direction) -> float:
                point = best.copy()
                point[[i, j]] = np.clip(
                    best[[i, j]] + length * direction, self.low[[i, j]], self.high[[i, j]]
                )
                return self.profiled(point, [i, j], best) - bound

            far = np.sqrt(bound)
            while above(far) < 0 and far < 50:
                far *= 1.5
            length = brentq(above, 0, far, xtol=1e-3) if above(far) > 0 else far
            outline.append(
                np.clip(best[[i, j]] + length * direction, self.low[[i, j]], self.high[[i, j]])
            )
        return np.array(outline)


def calibrated_fit(
    est: Any,  # noqa: ANN401
    x_observed: Input,
    calibration: Events | Sequence[Events] | Calibration,
    simulator: Callable[..., Any] | None = None,
    prior: AbstractPrior | None = None,
    *,
    fraction: float = 0.3,
    most_events: int = 2_000_000,
    seed: int = 0,
) -> CalibratedFit:
    """Fit θ to observed events with errors calibrated by simulated ones.

    Args:
        est: a trained potential or score network; or several, trained on different events.
        x_observed: observed events, shape (n, D), all made at one unknown θ.
        calibration: simulated `Events` that the estimator was not trained on; one set for each
            estimator; or a `Calibration`, which keeps what it learned for the next data set.
        simulator: with it, a second stage simulates near the first estimate.
        prior: where it may simulate; the range of the calibration events unless given.
        fraction: simulate until the error by simulation is below this part of the statistical
            one, for every parameter.
        most_events: but no more than so many.
        seed: of everything random.
    """
    if not isinstance(calibration, Calibration):
        calibration = Calibration(est, calibration, seed=seed)
    x = _observed(calibration.estimators[0], x_observed)
    theta = (calibration.low + calibration.high) / 2
    problem, anchor = None, calibration.snapped(theta)
    for _ in range(MOVES):
        problem = _problem(calibration, x, anchor, calibration.response(anchor))
        theta, _chi2 = problem.solve(np.clip(theta, calibration.low, calibration.high))
        moved = calibration.snapped(theta)
        if np.array_equal(moved, anchor):
            break
        anchor = moved
    assert problem is not None
    result = _result(calibration, x, problem, theta, anchor)
    if simulator is not None:
        result = _second_stage(
            calibration, x, result, simulator, prior, fraction, most_events, seed
        )
    _warn_edges(result, calibration)
    return result


def _observed(estimator: AbstractEstimator, x: Input) -> np.ndarray:
    require_order(column_names(x), estimator.x_names, "x")
    rows = as_rows(x, "x", columns=len(estimator.x_names), of="observables")
    if len(rows) < len(estimator.theta_names) + 2:
        raise ValueError(
            f"a calibrated fit compares means, for which {len(rows)} observed events are too few; "
            "for single events use ist.confidence_set."
        )
    require_finite(rows, "x", "Remove or repair these events.")
    estimator.warn_outside(rows)
    return rows


def _problem(
    calibration: Calibration, x: np.ndarray, anchor: np.ndarray, response: Response
) -> _Problem:
    dim = len(calibration.names)
    observed = calibration.scores(x, anchor).mean(axis=0)
    scores = response.first(dim)
    return _Problem(observed, scores, scores.scatter / len(x), calibration.low, calibration.high)


def _result(
    calibration: Calibration,
    x: np.ndarray,
    problem: _Problem,
    theta: np.ndarray,
    anchor: np.ndarray,
    response: Response | None = None,
) -> CalibratedFit:
    response = calibration.response(anchor) if response is None else response
    both = problem.scatter + problem.response.error(theta)
    statistical = np.linalg.inv(problem.response.information(theta, problem.scatter))
    total = np.linalg.inv(problem.response.information(theta, both))
    bound = _fisher_bound(calibration, theta, x)
    return CalibratedFit(
        theta=theta,
        covariance=total,
        statistical=statistical,
        p_value=_p_value(calibration, x, theta, anchor, response),
        sensitivity=np.sqrt(np.diag(bound) / np.diag(total)),
        anchor=anchor,
        events=len(x),
        simulated=response.events,
        names=calibration.names,
        _problem=problem,
    )


def _fisher_bound(calibration: Calibration, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Inverse of the learned information in the observed events, by the score at the estimate."""
    scores = calibration.scores(x, theta)
    return np.linalg.pinv(np.atleast_2d(np.cov(scores, rowvar=False)) * len(x))


def _p_value(
    calibration: Calibration,
    x: np.ndarray,
    theta: np.ndarray,
    anchor: np.ndarray,
    response: Response,
) -> float:
    """Of the observables' means, once θ was fitted by the scores."""
    from scipy.stats import chi2

    dim = len(theta)
    means = np.concatenate(
        [
            calibration.scores(x, anchor).mean(axis=0),
            _bounded(calibration.estimators[0], x).mean(axis=0),
        ]
    )
    difference = means - response.mean(theta)
    covariance = response.scatter / len(x) + response.error(theta)
    slopes = response.jacobian(theta)
    # What moving θ takes away: the fit makes the scores agree.
    project = np.eye(len(means))
    project[:, :dim] -= slopes @ np.linalg.pinv(slopes[:dim])
    left, spread = (project @ difference)[dim:], (project @ covariance @ project.T)[dim:, dim:]
    unit = np.sqrt(np.diag(spread)) + np.finfo(float).tiny
    values, vectors = np.linalg.eigh(spread / np.outer(unit, unit))
    kept = values > 1e-6
    distance = np.sum((vectors[:, kept].T @ (left / unit)) ** 2 / values[kept])
    return float(chi2.sf(distance, int(kept.sum())))


def _second_stage(
    calibration: Calibration,
    x: np.ndarray,
    first: CalibratedFit,
    simulator: Callable[..., Any],
    prior: AbstractPrior | None,
    fraction: float,
    most_events: int,
    seed: int,
) -> CalibratedFit:
    """Simulate near the first estimate until the response is known well enough."""
    low, high = calibration.low, calibration.high
    if prior is not None:
        low, high = (np.asarray(wall, np.float64) for wall in prior.support)
    result, events, number = first, [], FIRST_EVENTS
    for stage in range(SIMULATED_BY_ERRORS):
        reach = REACH * result.errors
        walls = np.maximum(result.theta - reach, low), np.minimum(result.theta + reach, high)
        box = Uniform(*walls, names=list(calibration.names))
        events = simulate(
            simulator, box, number, seed=seed + 1000 * (stage + 1), progress_bar=False
        )
        anchor = result.theta
        sets = [events] * len(calibration.estimators)
        response = _shared_response(calibration.estimators, sets[0], anchor, seed)
        local = dataclasses.replace(
            _problem(calibration, x, anchor, response), low=walls[0], high=walls[1]
        )
        theta, _ = local.solve(anchor)
        result = _result(calibration, x, local, theta, anchor, response)
        if np.all(result.simulation_fraction <= fraction) or number >= most_events:
            break
        wanted = number * float(np.max(result.simulation_fraction / fraction)) ** 2
        number = int(min(max(1.3 * wanted, 2 * number), most_events))
    if np.any(result.simulation_fraction > 1.2 * fraction):
        warn_user(
            f"after {number:,} events the error by simulation is still "
            f"{result.simulation_fraction.max():.2f} of the statistical one (wanted {fraction}); "
            "it is part of the quoted errors. Allow more with most_events."
        )
    return result


def _shared_response(
    estimators: Sequence[AbstractEstimator], events: Events, anchor: np.ndarray, seed: int
) -> Response:
    """The response of the mean score, on events that no estimator was trained on."""
    x = np.asarray(events.x, np.float64)
    scores = np.mean([e.score(x, anchor) for e in estimators], axis=0)  # type: ignore[attr-defined]
    statistics = np.concatenate([scores, _bounded(estimators[0], x)], axis=1)
    return respond(np.asarray(events.theta, np.float64), statistics, anchor, degree=2)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.68; got {level}.")


def _warn_edges(result: CalibratedFit, calibration: Calibration) -> None:
    margin = 1e-6 * (calibration.high - calibration.low)
    near = (result.theta - calibration.low < margin) | (calibration.high - result.theta < margin)
    if near.any():
        warn_user(
            f"the estimate lies at the edge of the simulated region in "
            f"{', '.join(np.array(result.names)[near])}; simulate wider."
        )
