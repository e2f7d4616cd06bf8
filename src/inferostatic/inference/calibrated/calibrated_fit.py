r"""A fit whose errors can be trusted even if the network cannot.

The learned score at a point θ* near the estimate, \(t(x)=\hat s(x;\theta^*)\), is a statistic
with one component for each parameter. Its mean as a function of θ is learned from simulated events,
and θ is where it equals the observed mean. If the network is good, this is nearly the best that can
be done; if it is not, errors are larger, and still right. What finitely many simulated events leave
open is part of the result; given a simulator, it is made small.

Why not the score at θ itself, whose mean should vanish: its dependence on θ was learned from events
as well, wiggles with their noise, and where the same events calibrate it, it looks better than it
is. The mean at a fixed θ* is as smooth as the simulator.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...estimator.estimator import Estimator
from ...events.events import Events
from ...events.simulate import simulate_at
from ...inputs import Input, as_seed, warn_user
from ...world.priors.prior import AbstractPrior
from ...world.simulator import Simulator
from ..arguments import as_events, as_level, parameter_index
from ..chi_square import chi2_quantile
from .calibration import Calibration, Expectation, some_of
from .goodness_of_fit import goodness_of_fit
from .mean_test import MeanTest
from .response_model import Coordinates

#: Times that the anchor is moved to the estimate.
MOVES = 4
#: Events and points at which the fit looks for its start.
START_EVENTS, START_POINTS = 500, 400
#: Events simulated to come near, then at least, and those added for each observed one.
FIRST_EVENTS, LEAST_EVENTS, EVENTS_PER_OBSERVED = 20_000, 150_000, 100
#: Width of their law in units of the error: narrow enough for the mean to be nearly linear there,
#: and wide enough for its slopes to be known to this part, or twice as much where it bends.
SLOPE_ERROR, WIDTHS, BENDING = 0.04, (1.5, 3.5), 2.5
#: Factors between the covariance and its bound that a design follows.
LIMITS = (0.5, 2.0)
#: Observed events up to which the network's own maximum is trusted to about its error.
TRUSTED_EVENTS = 1000
#: Error by simulation, in units of the statistical one, beyond which an estimate is no arrival: the
#: means hardly seem to change with θ there.
UNKNOWN = 5.0
#: Times that a second stage simulates few events to come near, and many as it needs more or was
#: elsewhere.
COMING, STAYING = 8, 3
#: Radii of its events by which an estimate may move at a time: further off their mean says little.
LONGEST = 2.0


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
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
        events: observed events.
        simulated: simulated events behind the expectation.
        names: of the parameters.
    """

    theta: np.ndarray
    covariance: np.ndarray
    statistical: np.ndarray
    p_value: float
    sensitivity: np.ndarray
    events: int
    simulated: int
    names: tuple[str, ...]
    _test: MeanTest = dataclasses.field(repr=False)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, shape (d,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def simulation_fraction(self) -> np.ndarray:
        """Error by finitely many simulated events over the statistical one, for each parameter."""
        statistical = np.diag(self.statistical)
        return np.sqrt(np.maximum(np.diag(self.covariance) / statistical - 1, 0))

    def distance(self, theta: Input, parameters: Sequence[str | int] | None = None) -> float:
        """How far θ is from the data: a χ² with as many degrees of freedom as parameters are fixed.

        Args:
            theta: a point, shape (d,).
            parameters: those that are fixed there, by name or number; the others are chosen as the
                data like them best. All unless given.
        """
        point = np.asarray(theta, np.float64)
        if point.shape != self.theta.shape:
            raise ValueError(
                f"theta must be one point of {len(self.names)} parameters; got shape {point.shape}."
            )
        chosen = range(len(self.names)) if parameters is None else parameters
        fixed = sorted(parameter_index(parameter, self.names) for parameter in chosen)
        return self._test.profiled(point, fixed, self.theta)

    def interval(self, level: float = 0.68) -> np.ndarray:
        """Confidence interval of each parameter, shape (d, 2), the others profiled."""
        bound = chi2_quantile(as_level(level), 1)
        return np.array([self._test.ends(j, bound, self.theta) for j in range(len(self.theta))])

    def contour(
        self, first: str | int, second: str | int, level: float = 0.68, *, points: int = 60
    ) -> np.ndarray:
        """Outline of the confidence region of two parameters, shape (points, 2)."""
        bound = chi2_quantile(as_level(level), 2)
        i, j = parameter_index(first, self.names), parameter_index(second, self.names)
        if i == j:
            raise ValueError(f"contour takes two different parameters; got {first!r} twice.")
        return self._test.outline(i, j, bound, self.theta, points)

    def summary(self, level: float = 0.68) -> str:
        """A table in words."""
        width = max(len("parameter"), *(len(name) for name in self.names))
        lines = [
            f"Calibrated fit to {self.events:,} events, expectation from {self.simulated:,} "
            "simulated ones",
            f"{'parameter':{width}}    estimate     error   {f'{level:.0%} interval':24}"
            "simulation  sensitivity",
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
                f"{name:{width}}{value:12.5g}{error:10.2g}   {interval:24}{part:10.2f}"
                f"{sensitivity:13.2f}"
            )
        lines.append(
            "simulation: error by simulated events over the statistical one; sensitivity: error of "
            "an ideal fit over this one"
        )
        lines.append(f"p-value of the observables' means: {self.p_value:.3g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(f"{name} = {value:.4g} ± {error:.2g}" for name, value, error in values)
        return f"CalibratedFit({text}; p = {self.p_value:.2g})"


def calibrated_fit(
    estimator: Any,  # noqa: ANN401
    x_observed: Input,
    calibration: Events | Sequence[Events] | Calibration,
    simulator: Simulator | None = None,
    prior: AbstractPrior | None = None,
    *,
    fraction: float = 0.3,
    most_events: int = 2_000_000,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> CalibratedFit:
    """Fit θ to observed events with errors calibrated by simulated ones.

    Args:
        estimator: a trained potential or score network; or several, trained on different events.
        x_observed: observed events, shape (n, D), all made at one unknown θ.
        calibration: simulated `Events` that the estimator was not trained on, for several
            estimators a set for each; or a `Calibration`, which keeps what it learned.
        simulator: with it, a second stage simulates near the first estimate.
        prior: where it may simulate; the range of the calibration events unless given. It may
            be wider than that range, which helps where the estimate is near its edge: scores are
            taken at one point, and only the events are simulated elsewhere.
        fraction: simulate until the error by simulation is below this part of the statistical
            one, for every parameter.
        most_events: but no more than so many.
        seed: of the second stage.
        progress_bar: of the simulation, forced on or off.
    """
    if not isinstance(calibration, Calibration):
        calibration = Calibration(estimator, calibration)
    x = as_events(calibration.estimators[0], x_observed, "x_observed")
    dim = len(calibration.names)
    if len(x) < dim + 2:
        raise ValueError(
            f"a calibrated fit compares means, for which {len(x)} observed events are too few; for "
            "single events use ist.confidence_set."
        )
    if not 0 < fraction < 10:
        raise ValueError(f"fraction must be positive, such as 0.3; got {fraction}.")

    if simulator is None:
        theta, test, expected = _first_stage(calibration, x)
    else:
        theta, test, expected = _second_stage(
            calibration,
            x,
            simulator,
            prior,
            fraction=fraction,
            most_events=most_events,
            seed=as_seed(seed),
            progress_bar=progress_bar,
        )
    _warn_edges(theta, test, calibration.names)
    covariance = test.covariance(theta)
    bound = _bound(calibration, x, np.clip(theta, calibration.low, calibration.high))
    return CalibratedFit(
        theta=theta,
        covariance=covariance,
        statistical=test.covariance(theta, simulation=False),
        p_value=goodness_of_fit(calibration, x, theta, test, expected),
        sensitivity=np.sqrt(np.diag(bound) / np.diag(covariance)),
        events=len(x),
        simulated=expected.mean.events,
        names=calibration.names,
        _test=test,
    )


_Stage = tuple[np.ndarray, MeanTest, Expectation]


def _first_stage(calibration: Calibration, x: np.ndarray) -> _Stage:
    theta = _start(calibration, x)
    expected = calibration.expectation(theta)
    for _ in range(MOVES):
        test = calibration.test(x, expected)
        theta, _ = test.solve(np.clip(expected.anchor, test.low, test.high))
        moved = calibration.expectation(theta)
        if moved is expected:
            break
        expected = moved
    return theta, calibration.test(x, expected), expected


def _start(calibration: Calibration, x: np.ndarray) -> np.ndarray:
    """A first guess by some of the events: the most likely, or least unlikely, of some points."""
    rows = x[some_of(len(x), START_EVENTS)]
    low, high = calibration.low, calibration.high
    points = low + np.random.default_rng(0).uniform(size=(START_POINTS, len(low))) * (high - low)
    first = calibration.estimators[0]
    if isinstance(first, Estimator):
        return points[np.argmax(first.potential_grid(rows, points).sum(axis=0, dtype=np.float64))]
    scores = [calibration.score(rows, point) for point in points]
    return points[np.argmin([np.sum(s.mean(axis=0) ** 2 / s.var(axis=0)) for s in scores])]


def _most_likely(calibration: Calibration, x: np.ndarray) -> np.ndarray:
    """Where the summed potential is largest; of score networks, by the stored events."""
    from scipy import optimize

    first = calibration.estimators[0]
    if not isinstance(first, Estimator):
        return _first_stage(calibration, x)[0]
    low, high = calibration.low, calibration.high

    def loss(unit: np.ndarray) -> tuple[float, np.ndarray]:
        theta = low + unit * (high - low)
        value = first.potential(x, theta).sum(dtype=np.float64)
        slope = first.score(x, theta).sum(axis=0, dtype=np.float64)
        return -float(value) / len(x), -slope * (high - low) / len(x)

    start = (_start(calibration, x) - low) / (high - low)
    minimize: Any = optimize.minimize
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(low))
    return low + found.x * (high - low)


def _second_stage(
    calibration: Calibration,
    observed: np.ndarray,
    simulator: Simulator,
    prior: AbstractPrior | None,
    *,
    fraction: float,
    most_events: int,
    seed: int,
    progress_bar: bool | None,
) -> _Stage:
    """Simulate near the most likely θ until the means are known well enough."""
    theta = _most_likely(calibration, observed)
    # How far it is off in units of the error grows with the number of events.
    doubt = 1 + len(observed) / TRUSTED_EVENTS
    low, high = calibration.low, calibration.high
    if prior is not None:
        low, high = (np.asarray(wall, np.float64) for wall in prior.support)
    number, worst = min(FIRST_EVENTS, most_events), np.inf
    test = expected = None
    stayed = -1  # how often many events were simulated; below 0 while coming near
    for stage in range(COMING + STAYING):
        within = np.clip(theta, calibration.low, calibration.high)
        bound = _bound(calibration, observed, within)
        centre = theta
        errors = doubt * bound if test is None else _limited(test.covariance(theta), bound)
        # Not wider than a quarter of the region in any parameter.
        width = float(np.clip(1.5 * np.sqrt(len(observed) / number) / SLOPE_ERROR, *WIDTHS))
        errors = width**2 * errors
        shrink = np.minimum(1, (high - low) / 4 / np.sqrt(np.diag(errors)))
        errors = errors * np.outer(shrink, shrink)
        rng = np.random.default_rng([seed, stage])
        points = _near(rng, centre, errors, low, high, number)
        x = simulate_at(simulator, points, seed=int(rng.integers(2**31)), progress_bar=progress_bar)
        coordinates = Coordinates.of_normal(centre, errors)
        # Of few events the errors are so large that the mean bends over them.
        free = 3 if width < BENDING else 2
        anchor = np.clip(centre, calibration.low, calibration.high)
        expected = calibration.expectation_near(anchor, coordinates, points, x, free)
        test = dataclasses.replace(calibration.test(observed, expected), low=low, high=high)
        theta, _ = test.solve(centre)
        total, statistical = (
            np.diag(test.covariance(theta, simulation=both)) for both in (True, False)
        )
        worst = float(np.sqrt(np.max(total / statistical) - 1))
        away = theta - centre
        distance = np.sqrt(away @ np.linalg.solve(errors, away) / (len(theta) + 2))
        inside = distance**2 < len(theta) / (len(theta) + 2)
        arrived = inside and worst < UNKNOWN
        if stayed < 0 and (arrived or stage == COMING - 1):
            stayed = 0
            number = max(number, LEAST_EVENTS + EVENTS_PER_OBSERVED * len(observed))
        elif stayed >= 0:
            # The estimate before may have been much worse than the data allow.
            narrow = np.all(np.diag(errors) < total * (1.5 * width) ** 2) or stayed > 0
            stayed += 1
            if (inside and narrow and worst <= fraction) or stayed == STAYING:
                break
            number = max(number, int(1.3 * number * (worst / fraction) ** 2))
        number = min(number, most_events)
        theta = centre + away * min(1.0, LONGEST / max(distance, 1e-9))
    assert test is not None
    assert expected is not None
    if worst > 1.2 * fraction:
        warn_user(
            f"after {expected.mean.events:,} simulated events their error is still {worst:.2f} of "
            f"the statistical one (wanted {fraction}); it is part of the quoted errors. Allow more "
            "with most_events."
        )
    return theta, test, expected


def _bound(calibration: Calibration, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The covariance that the learned information allows."""
    scores = calibration.score(x, theta)
    return np.linalg.pinv(np.atleast_2d(np.cov(scores, rowvar=False))) / len(x)


def _limited(covariance: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """A covariance that differs from a bound by limited factors: slopes may be noisy."""
    root = np.linalg.cholesky(bound)
    inverse = np.linalg.inv(root)
    sizes, vectors = np.linalg.eigh(inverse @ covariance @ inverse.T)
    whole = root @ vectors
    return (whole * np.clip(sizes, *LIMITS)) @ whole.T


def _near(
    rng: np.random.Generator,
    centre: np.ndarray,
    covariance: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    number: int,
) -> np.ndarray:
    """Uniform in an ellipsoid, within the walls: what falls outside is mirrored back in."""
    dim = len(centre)
    drawn = rng.normal(size=(number, dim))
    # Of this radius, a ball has unit variance in each direction.
    radius = np.sqrt(dim + 2) * rng.uniform(size=number) ** (1 / dim)
    drawn *= (radius / np.linalg.norm(drawn, axis=1))[:, None]
    points = centre + drawn @ np.linalg.cholesky(covariance).T
    points = np.where(points < low, 2 * low - points, points)
    points = np.where(points > high, 2 * high - points, points)
    return np.clip(points, low, high)


def _warn_edges(theta: np.ndarray, test: MeanTest, names: Sequence[str]) -> None:
    margin = 1e-4 * (test.high - test.low)
    near = (theta - test.low < margin) | (test.high - theta < margin)
    if near.any():
        warn_user(
            "the estimate lies at the edge of the simulated region in "
            f"{', '.join(np.array(names)[near])}: simulate wider."
        )
