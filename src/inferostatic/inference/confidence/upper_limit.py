"""Upper limits of one parameter, observed and expected, by CLs or CLs+b."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ...inputs import (
    Input,
    as_floats,
    as_seed,
    kind_of,
    warn_user,
)
from ...progress import progress
from ...streams import Purpose
from ...summary import AbstractSummarised, Summary, SummaryTable, shorten
from ..arguments import Parameter, as_level, as_point, as_points, parameter_index
from ..likelihood.learned_bias import LearnedBias
from ..likelihood.likelihood import Likelihood
from ..likelihood.model import LikelihoodModel
from ..likelihood.observed_check import judge_observed, judge_result
from ..likelihood.short_form import of_likelihood
from .asimov import predict_asimov
from .asymptotics import BANDS
from .calibrated_limit import calibrate_limit
from .limit_curves import (
    AsymptoticCurves,
    Curves,
    ToyCurves,
    find_crossings,
    interpolate_crossing,
    upper_statistic,
)
from .limit_methods import LimitMethod
from .observed_fit import ObservedFit, fit_observed
from .toy_fits import ToyFitter
from .toys import describe_toys, make_toy_maker

#: Values that are scanned first.
SCANNED = 40
#: Parts of that scan, after each of which the display advances.
SCAN_PARTS = 5
#: Fits of each data set that a limit needs, roughly.
PLANNED_FITS = 300
#: Correction of a statistic at a limit above which tables are discarded.
MOST_CORRECTION = 0.1
#: Values that are tested with toys.
TESTED = 12
#: Pools of toys are this many times a toy, more than for two-sided tests: a common shift of all
#: toys moves a one-sided p-value in first order.
POOL_TIMES = 100
#: Events of such a pool at least.
POOL_LEAST = 50_000
#: Beyond this statistic no limit is looked for with toys.
LARGEST_STATISTIC = 16.0
#: A calibrated scan ends at this many times the largest limit.
BEYOND = 1.2
#: What to do about a bias.
CURE = "ist.CLs(calibration=…), or toys with a simulator, which hold for any network"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class UpperLimit(AbstractSummarised):
    """Upper limits of one parameter.

    Attributes:
        name: of the parameter.
        observed: the limit.
        expected: limits for background alone that fluctuates by −2, −1, 0, 1 and 2 standard
            deviations, shape (5,); NaN where there is no Asimov set and no toys.
        level: the confidence level.
        test: "CLs" or "CLs+b".
        method: "asymptotic", "toys" or "calibrated".
        background: value of the parameter without signal.
        best: all parameters at the best fit, shape (d,).
        values: of the parameter that were scanned, shape (m,).
        scan: CLs, or CLs+b, of the observed events at each, shape (m,).
        expected_scan: the same for the background's fluctuations, shape (m, 5).
        notes: how it was found.
        bias: of the best fit by the learned score, where the limit trusts it; None otherwise.
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
    bias: LearnedBias | None
    _curves: Curves
    _box: tuple[np.ndarray, np.ndarray]

    def test_at(self, value: float) -> tuple[float, np.ndarray]:
        """CLs, or CLs+b, of one value: of the observed events, and of the five fluctuations."""
        point = as_point(value, (self.name,), self._box, "value", axes=(0, 1))
        observed, expected = self._curves(point)
        return float(observed[0]), expected[0]

    def _summarise(self) -> Summary:
        bands = ["median" if band == 0 else f"{band:+.0f} sigma" for band in BANDS]
        columns = {
            "": ["observed", *(f"expected, {band}" for band in bands)],
            "limit": [f"{limit:.5g}" for limit in (self.observed, *self.expected)],
        }
        head = f"upper limit of {self.name} at {self.level:.4g}, {self.test}, {self.method}"
        return Summary(head, (SummaryTable(columns), *self.notes))

    def __repr__(self) -> str:
        """Observed and expected."""
        low, middle, high = self.expected[[1, 2, 3]]
        return (
            f"UpperLimit({shorten(self.name)} < {self.observed:.4g} at {self.level:.4g}, expected "
            f"{middle:.4g} [{low:.4g}, {high:.4g}]; {self.test}, {self.method})"
        )


@of_likelihood
def upper_limit(
    likelihood: Likelihood,
    parameter: Parameter,
    method: LimitMethod,
    *,
    level: float = 0.95,
    background: float | None = None,
    scan: Input | None = None,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> UpperLimit:
    r"""Upper limit of one parameter, with the statistic \(\tilde q_\mu\).

    `upper_limit(estimator, x, parameter, …)` is the short form.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)`, or an estimator and events in its place.
        parameter: the one that is limited; the others are profiled.
        method: `ist.CLs(…)` or `ist.CLsb(…)`. With `calibration=` it holds for any network, and
            with toys too; asymptotic formulae, by a simulator or an Asimov set, trust the learned
            likelihood.
        level: confidence level.
        background: the parameter's value without signal, below which no fit goes; by default the
            lower end of its region.
        scan: values to test with toys; found by default.
        seed: of toys and Asimov set.
        progress_bar: force the display on or off.
    """
    if not isinstance(method, LimitMethod):
        raise TypeError(f"method must be ist.CLs(…) or ist.CLsb(…); got {kind_of(method)}.")
    level, seed = as_level(level), as_seed(seed)
    model = likelihood.model
    index = parameter_index(parameter, model.names)
    if not model.free[index]:
        raise ValueError(f"{model.names[index]} is fixed, so it has no limit.")
    if scan is not None and method.toys is None:
        raise ValueError("scan holds values to test with toys: give toys=, or leave out scan=.")
    model, no_signal = _above_background(model, index, background)
    asked = _Asked(likelihood, model, index, method, 1 - level, no_signal, scan, seed, progress_bar)
    found = _find_plain(asked) if method.calibration is None else _find_calibrated(asked)
    values, limits, table = found.values, found.limits, found.table
    if np.isnan(limits[0]):
        warn_user(
            f"no limit was found between {values[0]:.5g} and {values[-1]:.5g}: the smallest "
            f"{method.name} there is {table[0].min():.3g}; the limit lies outside the trained "
            "region or the scan."
        )
    return UpperLimit(
        name=model.names[index],
        observed=float(limits[0]),
        expected=limits[1:],
        level=level,
        test=method.name,
        method=found.how,
        background=no_signal,
        best=found.best,
        values=values,
        scan=table[0],
        expected_scan=table[1],
        notes=(*likelihood.describe(), *found.notes),
        bias=found.bias,
        _curves=found.curves,
        _box=(model.low[[index]], model.high[[index]]),
    )


class _Asked(NamedTuple):
    """The question, with a threshold for CLs or CLs+b, and how it is to be answered."""

    likelihood: Likelihood
    model: LikelihoodModel
    parameter: int
    method: LimitMethod
    threshold: float
    no_signal: float
    scan: Input | None
    seed: int
    show: bool | None


class _Found(NamedTuple):
    """A limit by one of the methods; limits (6,) and table of the observed and expected curves."""

    how: str
    curves: Curves
    best: np.ndarray
    values: np.ndarray
    table: tuple[np.ndarray, np.ndarray]
    limits: np.ndarray
    notes: list[str]
    bias: LearnedBias | None


def _find_plain(asked: _Asked) -> _Found:
    """By the ratio of learned likelihoods, with asymptotic formulae or toys."""
    likelihood, model, index, method, threshold, no_signal, scan, seed, show = asked
    observed = fit_observed(likelihood, model)
    background_theta = observed.conditional([index], np.array([[no_signal]])).theta[0]
    options: dict[str, Any] = {"fits": PLANNED_FITS, "show": show}
    asimov, notes = predict_asimov(likelihood, observed, background_theta, method, seed, **options)
    if asimov is not None or method.toys is None:
        observed = observed.with_table(**options)
    asymptotic = AsymptoticCurves(observed, asimov, index, method)
    step = (float(model.high[index]) - no_signal) / SCANNED
    values = no_signal + step * np.arange(1, SCANNED + 1)
    if method.toys is None:
        if asimov is None and method.needs_background:
            raise ValueError(
                f"{method.name} by asymptotic formulae needs the Asimov data set: give "
                "ist.CLs(asimov=…), events that the background predicts, or ist.CLs(simulator=…), "
                "which makes them where there are many events; or toys= with simulator=."
            )
        found = _scan_asymptotic(asymptotic, values, threshold, no_signal, show=show)
        bias, remarks = judge_result(
            likelihood, observed.theta, hessian=observed.hessian, cure=CURE
        )
        notes += [*found.notes, *remarks]
        return found._replace(notes=notes, bias=bias)
    curves, fitter = _toy_curves(likelihood, observed, background_theta, method, index, seed)
    values = _values_to_test(scan, asymptotic, values, threshold, no_signal, show=show)
    table = _scan_with_toys(curves, values, model.names[index], show=show)
    columns = np.column_stack(table).T
    limits = np.array([interpolate_crossing(values, curve, threshold) for curve in columns])
    notes += [*describe_toys(fitter.maker), *fitter.describe_failures()]
    notes += judge_observed(likelihood, observed.theta, hessian=observed.hessian)
    return _Found("toys", curves, observed.theta, values, table, limits, notes, None)


def _scan_asymptotic(
    curves: AsymptoticCurves,
    values: np.ndarray,
    threshold: float,
    no_signal: float,
    *,
    show: bool | None,
) -> _Found:
    """The limits, by tables of ln L and then by exact statistics where the tables put them."""
    observed, asimov = curves.observed, curves.asimov
    scanned, notes = _scan(curves, values, show=show), []
    limits = find_crossings(curves, values, scanned, threshold, no_signal, show=show)
    tables = [fit.table for fit in (observed, asimov) if fit is not None and fit.table is not None]
    if tables:
        curves = curves.correct(limits)
        largest = max(np.abs(curves.corrections[1:]).max(), 0.0) if curves.corrections else 0.0
        if not largest <= MOST_CORRECTION:
            without = dataclasses.replace(observed, table=None)
            if asimov is not None:
                asimov = dataclasses.replace(asimov, table=None).improve(asimov.theta)
            exact = dataclasses.replace(curves, observed=without, asimov=asimov, corrections=None)
            return _scan_asymptotic(exact, values, threshold, no_signal, show=show)
        scanned = _scan(curves, values, show=show)
        limits = find_crossings(curves, values, scanned, threshold, no_signal, show=show)
        sums = " and ".join(str(table.checked.nodes) for table in tables)
        notes = [
            f"ln L from tables of {sums} exact sums; the statistics at the limits are exact, and "
            f"differ from those of the tables by up to {largest:.1g}"
        ]
    theta = observed.theta
    return _Found("asymptotic", curves, theta, values, scanned, limits, notes, None)


def _scan(
    curves: AsymptoticCurves, values: np.ndarray, *, show: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    # A table answers at once.
    parts = np.array_split(values, SCAN_PARTS if curves.observed.table is None else 1)
    rows = []
    with progress("scanning for the limits", len(values), show=show) as advance:
        for part in parts:
            rows.append(curves(part))
            advance(len(part))
    observed, expected = zip(*rows, strict=True)
    return np.concatenate(observed), np.concatenate(expected)


def _find_calibrated(asked: _Asked) -> _Found:
    """By the mean score, whose distribution simulated events give."""
    likelihood, model, index, method, threshold, no_signal, _, seed, show = asked
    curves, best, notes = calibrate_limit(
        likelihood, index, method, no_signal, seed=seed, progress_bar=show
    )
    highest = float(min(model.high[index], curves.tests[0].data.high[index]))
    limits = curves.find_limits(threshold, highest)
    top = highest if np.isnan(limits).any() else min(highest, BEYOND * limits.max())
    values = np.linspace(no_signal, top, SCANNED + 1)[1:]
    return _Found("calibrated", curves, best, values, curves(values), limits, notes, None)


def _above_background(
    model: LikelihoodModel, index: int, background: float | None
) -> tuple[LikelihoodModel, float]:
    low, high = model.low[index], model.high[index]
    if background is None:
        return model, float(low)
    value = as_floats(background, "background")
    if value.shape != () or not low <= value < high:
        raise ValueError(
            f"background must be a value of {model.names[index]} in its region, {low:.5g} to "
            f"{high:.5g}; got {background!r}."
        )
    lows = model.low.copy()
    lows[index] = value
    return dataclasses.replace(model, low=lows), float(value)


def _toy_curves(
    likelihood: Likelihood,
    observed: ObservedFit,
    background_theta: np.ndarray,
    method: LimitMethod,
    index: int,
    seed: int,
) -> tuple[ToyCurves, ToyFitter]:
    assert method.toys is not None
    assert method.simulator is not None
    maker = make_toy_maker(
        likelihood, observed.model, method.simulator, method.toys, method.pool, seed
    )
    maker = dataclasses.replace(
        maker, pool_times=POOL_TIMES, pool_least=POOL_LEAST, purpose=Purpose.LIMIT_TOYS
    )
    fitter = ToyFitter(observed, maker)
    return ToyCurves(observed, fitter, background_theta, index, method), fitter


def _scan_with_toys(
    curves: Curves, values: np.ndarray, name: str, *, show: bool | None
) -> tuple[np.ndarray, np.ndarray]:
    rows = []
    with progress("toys", len(values), show=show) as advance:
        for value in values:
            rows.append(curves(np.array([value])))
            advance(1, f"{name} = {value:.4g}")
    observed, expected = zip(*rows, strict=True)
    return np.concatenate(observed), np.concatenate(expected)


def _values_to_test(
    scan: Input | None,
    curves: AsymptoticCurves,
    values: np.ndarray,
    threshold: float,
    no_signal: float,
    *,
    show: bool | None,
) -> np.ndarray:
    """Values to test with toys: those given, or around where the formulae put the limits."""
    model, index = curves.observed.model, curves.index
    if scan is not None:
        given = np.unique(as_floats(scan, "scan")).astype(np.float64)
        if len(given) < 2:
            raise ValueError("scan must have at least two values.")
        box = (model.low[[index]], model.high[[index]])
        return as_points(given[:, None], (model.names[index],), box, "scan")[:, 0]
    scanned = _scan(curves, values, show=show)
    limits = find_crossings(curves, values, scanned, threshold, no_signal, show=show)
    if curves.asimov is not None and not np.isnan(limits[[0, 5]]).any():
        top = 1.2 * (np.nanmax(limits) - no_signal)
    else:
        far = np.flatnonzero(upper_statistic(curves.observed, index, values) > LARGEST_STATISTIC)
        top = (values[far[0]] if len(far) else values[-1]) - no_signal
    top = min(top, values[-1] - no_signal)
    return no_signal + top * np.arange(1, TESTED + 1) / TESTED
