"""Upper limits of one parameter, observed and expected, by CLs or CLs+b."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...estimator.estimator import Estimator
from ...events.simulate import simulate_at
from ...inputs import Input, as_count, as_floats, as_rows, as_seed, require_finite, warn_user
from ...progress import progress
from ...world.simulator import Simulator, require_simulator
from ..arguments import as_level, parameter_index
from ..likelihood.event_sets import SetLikelihood
from ..likelihood.summed_potential import potential_and_rows
from .asymptotics import BANDS
from .confidence_set import observed_or_told
from .grids import inside_box
from .limit_curves import Asymptotic, WithToys, crossings, interpolated, statistic
from .neyman import ObservedSet, ToyFitter, observe
from .toys import Simulated, ToyMaker

#: Values that are scanned first.
SCANNED = 40
#: Values that are tested with toys.
TESTED = 12
#: An Asimov set of simulated events has this many times the observed events, or this many.
ASIMOV_TIMES, ASIMOV_LEAST = 100, 50_000
#: Pools of toys are larger than those of two-sided tests, as a common shift of all toys moves a
#: one-sided p-value in first order.
POOL_TIMES, POOL_LEAST = 100, 50_000
#: Beyond this statistic no limit is looked for with toys.
LARGEST_STATISTIC = 16.0


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class UpperLimit:
    """Upper limits of one parameter.

    Attributes:
        name: of the parameter.
        observed: the limit.
        expected: limits for background alone that fluctuates by −2, −1, 0, 1 and 2 standard
            deviations, shape (5,); NaN where there is no Asimov set and no toys.
        level: the confidence level.
        test: "cls" or "clsb".
        method: "asymptotic" or "toys".
        background: value of the parameter without signal.
        best: all parameters at the best fit, shape (d,).
        values: of the parameter that were scanned, shape (m,).
        scan: CLs, or CLs+b, of the observed events at each, shape (m,).
        expected_scan: the same for the background's fluctuations, shape (m, 5).
        notes: how it was found.
    """

    name: str
    observed: float
    expected: np.ndarray
    level: float
    test: str
    method: str
    background: float
    best: np.ndarray
    values: np.ndarray
    scan: np.ndarray
    expected_scan: np.ndarray
    notes: tuple[str, ...]
    _test: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    _box: tuple[np.ndarray, np.ndarray]

    def test_at(self, value: float) -> tuple[float, np.ndarray]:
        """CLs, or CLs+b, of one value: of the observed events, and of the five fluctuations."""
        point = np.atleast_1d(as_floats(value, "value")).astype(np.float64)
        if point.shape != (1,):
            raise ValueError(f"value must be one number; got shape {point.shape}.")
        inside_box(point[None], (self.name,), self._box, "value")
        observed, expected = self._test(point)
        return float(observed[0]), expected[0]

    def summary(self) -> str:
        """A table of the limits."""
        kind = {"cls": "CLs", "clsb": "CLs+b"}[self.test]
        lines = [f"upper limit of {self.name} at {self.level:.4g}, {kind}, {self.method}"]
        lines.append(f"{'observed':<22}{self.observed:>10.5g}")
        for band, limit in zip(BANDS, self.expected, strict=True):
            said = "expected, median" if band == 0 else f"expected, {band:+.0f} sigma"
            lines.append(f"{said:<22}{limit:>10.5g}")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        """Observed and expected."""
        low, middle, high = self.expected[[1, 2, 3]]
        return (
            f"UpperLimit({self.name} < {self.observed:.4g} at {self.level:.4g}, expected "
            f"{middle:.4g} [{low:.4g}, {high:.4g}]; {self.test}, {self.method})"
        )


def upper_limit(
    estimator: Estimator,
    x: Input,
    parameter: str | int,
    *,
    level: float = 0.95,
    test: str = "cls",
    background: float | None = None,
    simulator: Simulator | None = None,
    toys: int | None = None,
    asimov: Input | Callable[[np.ndarray], Input] | None = None,
    scan: Input | None = None,
    pool: int | None = None,
    constraints: Mapping[str, tuple[float, float]] | None = None,
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> UpperLimit:
    r"""Upper limit of one parameter from the events `x`, with the statistic \(\tilde q_\mu\).

    Args:
        estimator: a trained potential.
        x: observed events, shape (n, D); one event may have shape (D,).
        parameter: the one that is limited; the others are profiled.
        level: confidence level.
        test: "cls", or "clsb" for CLs+b, which covers exactly but excludes signals that the events
            cannot tell from background.
        background: the parameter's value without signal, below which no fit goes; the lower end of
            its region unless given.
        simulator: function (theta, rng) -> x, for toys and for the Asimov set of many events.
        toys: number of toys at each value, with and without signal; asymptotic formulae if omitted.
        asimov: the data set that the background predicts, for n = 1 event x: an event, or a
            function of the fitted θ without signal that returns it. Simulated for many events.
        scan: values to test with toys; found if omitted.
        pool: events simulated at each θ, from which toys are drawn without replacement.
        constraints: measurements of single parameters made elsewhere, {"name": (mean, sd)}.
        fixed: parameters that are held, {"name": value}.
        bounds: physical bounds inside the trained region, {"name": (low, high)}.
        seed: of toys and Asimov set.
        progress_bar: force the display on or off.
    """
    estimator, rows = potential_and_rows(estimator, x, "upper_limit")
    level, seed = as_level(level), as_seed(seed)
    if test not in ("cls", "clsb"):
        raise ValueError(f"test must be 'cls' or 'clsb' (CLs+b); got {test!r}.")
    space = SetLikelihood.of(estimator, constraints=constraints, fixed=fixed, bounds=bounds)
    place = parameter_index(parameter, space.names)
    if not space.free[place]:
        raise ValueError(f"{space.names[place]} is fixed, so it has no limit.")
    space, nothing = _above_background(space, place, background)
    if toys is not None and simulator is None:
        raise ValueError("toys are simulated: give simulator=, or leave out toys=.")
    observed = observed_or_told(space, rows)
    quiet = observed.conditional([place], np.array([[nothing]])).theta[0]
    set_without_signal, notes = _asimov(estimator, observed, quiet, asimov, simulator, seed)
    curves: Asymptotic | WithToys = Asymptotic(observed, set_without_signal, place, test)
    high = float(space.high[place])
    cell = (high - nothing) / SCANNED
    values = nothing + cell * np.arange(1, SCANNED + 1)
    notes.insert(0, f"{len(rows)} event{'s' if len(rows) > 1 else ''}")
    if toys is None:
        if set_without_signal is None and test == "cls":
            raise ValueError(
                "CLs by asymptotic formulae needs the Asimov data set: give asimov= (for one event "
                "x) or simulator= (for many), or toys= with simulator=."
            )
        limits = crossings(curves, values, 1 - level, nothing)
        scanned = curves(values)
    else:
        assert simulator is not None
        maker = ToyMaker(
            Simulated(simulator, estimator),
            as_count(toys, "toys"),
            len(rows),
            _pool(as_count(toys, "toys"), len(rows), pool),
            space.precision,
            seed,
        )
        with_toys = WithToys(observed, ToyFitter(space, observed, maker), quiet, place, test)
        chosen = _chosen(scan, curves, values, 1 - level, nothing, space, place)
        values = chosen
        table = np.empty((len(values), 6))
        with progress("toys", len(values), show=progress_bar) as advance:
            for i, value in enumerate(values):
                one, five = with_toys(values[i : i + 1])
                table[i] = one[0], *five[0]
                advance(1, f"{space.names[place]} = {value:.4g}")
        limits = np.array([interpolated(values, column, 1 - level) for column in table.T])
        notes.append(
            f"{maker.toys:,} toys at each value with and without signal; " + maker.source.describe()
        )
        if with_toys.fitter.failed:
            notes.append(
                f"{with_toys.fitter.failed:,} of {with_toys.fitter.fits:,} fits of toys did not "
                "converge"
            )
        curves = with_toys
        scanned = table[:, 0], table[:, 1:]
    if np.isnan(limits[0]):
        warn_user(
            f"no limit was found between {values[0]:.5g} and {values[-1]:.5g}: the smallest "
            f"{test} there is {scanned[0].min():.3g}; the limit lies outside the trained region or "
            "the scan."
        )
    return UpperLimit(
        name=space.names[place],
        observed=float(limits[0]),
        expected=limits[1:],
        level=level,
        test=test,
        method="asymptotic" if toys is None else "toys",
        background=nothing,
        best=observed.theta,
        values=values,
        scan=scanned[0],
        expected_scan=scanned[1],
        notes=tuple(notes),
        _test=curves,
        _box=(space.low[[place]], space.high[[place]]),
    )


def _above_background(
    space: SetLikelihood, place: int, background: float | None
) -> tuple[SetLikelihood, float]:
    low, high = space.low[place], space.high[place]
    if background is None:
        return space, float(low)
    value = as_floats(background, "background")
    if value.shape != () or not low <= value < high:
        raise ValueError(
            f"background must be a value of {space.names[place]} in its region, {low:.5g} to "
            f"{high:.5g}; got {background!r}."
        )
    lows = space.low.copy()
    lows[place] = value
    return dataclasses.replace(space, low=lows), float(value)


def _asimov(
    estimator: Estimator,
    observed: ObservedSet,
    theta: np.ndarray,
    given: Any,  # noqa: ANN401
    simulator: Simulator | None,
    seed: int,
) -> tuple[ObservedSet | None, list[str]]:
    """The data set that θ predicts, its constraints measured at θ too."""
    space = dataclasses.replace(observed.space, measured=theta)
    if given is not None:
        made: Any = given(theta.copy()) if callable(given) else given
        x = as_floats(made, "asimov")
        x = x[None] if x.ndim == 1 else x
        x = as_rows(x, "asimov", columns=len(estimator.x_names), of="observables")
        require_finite(x, "asimov", "Give finite observables.")
        if len(x) == 0:
            raise ValueError("asimov has no rows; give the event that the background predicts.")
        weight = np.full(len(x), len(observed.x) / len(x))
        return observe(space, x, weight=weight), ["Asimov data as given"]
    if simulator is None or len(observed.x) == 1:
        return None, []
    require_simulator(simulator)
    count = max(ASIMOV_LEAST, ASIMOV_TIMES * len(observed.x))
    x = simulate_at(simulator, np.repeat(theta[None], count, axis=0), seed=seed, progress_bar=False)
    x = as_rows(x, "the simulator's x", columns=len(estimator.x_names), of="observables")
    share = len(observed.x) / count
    note = (
        f"Asimov data: {count:,} simulated events of weight {share:.3g}; they shift the median "
        f"expected limit by up to {np.sqrt(share):.2g} standard errors"
    )
    return observe(space, x, weight=np.full(count, share)), [note]


def _pool(toys: int, events: int, asked: int | None) -> int:
    if asked is not None:
        return ToyMaker.size_of_pool(toys, events, as_count(asked, "pool"))
    return ToyMaker.size_of_pool(toys, events, max(POOL_TIMES * events, POOL_LEAST))


def _chosen(
    scan: Input | None,
    curves: Asymptotic,
    values: np.ndarray,
    threshold: float,
    nothing: float,
    space: SetLikelihood,
    place: int,
) -> np.ndarray:
    """Values to test with toys: those given, or around where the formulae put the limits."""
    if scan is not None:
        given = np.unique(as_floats(scan, "scan")).astype(np.float64)
        if len(given) < 2:
            raise ValueError("scan must have at least two values.")
        box = (space.low[[place]], space.high[[place]])
        return inside_box(given[:, None], (space.names[place],), box, "scan")[:, 0]
    limits = crossings(curves, values, threshold, nothing)
    if curves.asimov is not None and not np.isnan(limits[[0, 5]]).any():
        top = 1.2 * (np.nanmax(limits) - nothing)
    else:
        far = np.flatnonzero(statistic(curves.observed, place, values) > LARGEST_STATISTIC)
        top = (values[far[0]] if len(far) else values[-1]) - nothing
    top = min(top, values[-1] - nothing)
    return nothing + top * np.arange(1, TESTED + 1) / TESTED
