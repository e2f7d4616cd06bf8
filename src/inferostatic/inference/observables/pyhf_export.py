r"""An optimal observable as a HistFactory workspace that pyhf reads.

One channel with the observable's bins and one sample, whose content follows each parameter by a
`histosys`: the parabola through the templates at θ_ref and θ_ref ± shift. HistFactory ties a unit
Gaussian to every `histosys`, which would pull free parameters; their unit is therefore set to
thirty expected errors, which leaves the pull below 0.2% of the information. pyhf's default
interpolation, code4p, is \(\nu_0+S\alpha+A(15\alpha^2-10\alpha^4+3\alpha^6)\) with S and A from
`lo_data` and `hi_data`; for free parameters these are chosen so that it is the parabola near α = 0.
They are then no templates at ±1, and another interpolation code would give a wrong curvature.
Products of shifts of two parameters are left out.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...events.events import Events
from ...inputs import Input, as_floats, as_number, as_path, call_function, kind_of
from ...packages import import_package
from ...summary import AbstractSummarised, Summary, SummaryTable, list_names
from ..arguments import ONE_SIGMA, as_level, as_observed, values_by_name
from ..chi_square import chi2_quantile
from ..likelihood.constraints import read_constraints
from ..likelihood.minuit import NotConverged
from .histograms import fill_histogram
from .observable import Observable
from .template_events import Reweighted, Simulated
from .templates import TemplateHistograms, Templates, as_templates, make_templates

#: The unit of a free parameter in expected errors: the Gaussian of HistFactory then adds 0.1%.
UNIT_ERRORS = 30.0
#: How far a free parameter may move, in expected errors.
REACH_ERRORS = 10.0
#: How far a constrained parameter may move, in standard deviations of its constraint.
REACH_CONSTRAINT = 5.0
#: How far the luminosity may move, in its uncertainties.
REACH_LUMINOSITY = 6.0
#: A constraint narrower than this many expected errors (without it) is modelled at its own ±1.
NARROW = 3.0
#: Name of the channel in the workspace.
CHANNEL = "observable"
#: Name of the free factor of the normalisation.
NORMALISATION = "normalisation"
#: Name of the luminosity, which pyhf prescribes.
LUMINOSITY = "lumi"


@dataclasses.dataclass(frozen=True)
class UncertainRate:
    """An expected number of events with a common relative uncertainty.

    Attributes:
        rate: expected number of events ν(θ), a function of θ of shape (d,).
        luminosity: relative uncertainty of the rate, for example 0.02.
    """

    rate: Callable[[Any], Any]
    luminosity: float

    def __post_init__(self) -> None:
        """Check both."""
        if not callable(self.rate):
            raise TypeError(
                f"rate must be a function of θ of shape (d,); got {kind_of(self.rate)}. An "
                "uncertainty needs a rate: without one the normalisation is free."
            )
        try:
            as_number(self.luminosity, "luminosity", above=0, below=1)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"luminosity must lie between 0 and 1, like 0.02; got {self.luminosity!r}."
            ) from error


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PyhfWorkspace(AbstractSummarised):
    """A workspace with what is needed to read its parameters as θ.

    Attributes:
        workspace: the HistFactory JSON as a dictionary; `pyhf.Workspace(result.workspace)`.
        poi: name of the parameter of interest.
        reference: value of each parameter at α = 0, by name.
        unit: change of each parameter for α = 1, by name.
        templates: the histograms it was made of, with the noise and loss of the binning.
        expected: number of events at θ_ref.
    """

    workspace: dict[str, Any]
    poi: str
    reference: Mapping[str, float]
    unit: Mapping[str, float]
    templates: TemplateHistograms
    expected: float

    def theta(self, alpha: float, name: str | None = None) -> float:
        """The value of a parameter, by default that of interest, for pyhf's α."""
        name = self.poi if name is None else name
        return self.reference[name] + self.unit[name] * float(alpha)

    def alpha(self, theta: float, name: str | None = None) -> float:
        """pyhf's α for a value of the parameter."""
        name = self.poi if name is None else name
        return (float(theta) - self.reference[name]) / self.unit[name]

    @property
    def validity(self) -> dict[str, tuple[float, float]]:
        """Where the content of the bins is interpolated between templates; extrapolated beyond."""
        return {
            name: (self.reference[name] - shift, self.reference[name] + shift)
            for name, shift in self.templates.shift.items()
        }

    def model(self) -> Any:  # noqa: ANN401
        """The pyhf model, with pyhf's default interpolation codes, for which it was made."""
        return _pyhf().Workspace(self.workspace).model()

    def data(self) -> list[float]:
        """Observed content of the bins followed by the auxiliary data, as pyhf takes them."""
        return list(_pyhf().Workspace(self.workspace).data(self.model()))

    def interval(self, level: float = ONE_SIGMA) -> np.ndarray:
        """The profile-likelihood interval of the parameter of interest by pyhf, shape (2,).

        An end that would lie where the model is no longer positive is the edge of that range.
        """
        from scipy import optimize  # heavy, so loaded on first use

        pyhf, model, data = _pyhf(), self.model(), self.data()
        mle, index = pyhf.infer.mle, model.config.poi_index
        target = chi2_quantile(as_level(level), 1)
        step = self.templates.error[self.poi] / self.unit[self.poi] * np.sqrt(target)

        def excess(alpha: float) -> float:
            _, value = mle.fixed_poi_fit(alpha, data, model, return_fitted_val=True)
            return np.sqrt(max(float(value) - float(least), 0.0)) - np.sqrt(target)

        def find_end(edge: float) -> float:
            room, sign = abs(edge - best), np.sign(edge - best)
            inner, outer = 0.0, min(1.2 * step, room)
            while excess(best + sign * outer) < 0:
                if outer >= room:
                    return edge
                inner, outer = outer, min(1.5 * outer, room)
            found = optimize.root_scalar(
                lambda away: excess(best + sign * away), bracket=(inner, outer), xtol=1e-3 * step
            )
            return best + sign * found.root

        try:
            parameters, least = mle.fit(data, model, return_fitted_val=True)
            best = float(parameters[index])
            ends = [find_end(float(edge)) for edge in model.config.suggested_bounds()[index]]
        except pyhf.exceptions.FailedMinimization as error:
            raise NotConverged(
                f"pyhf's fit did not converge ({error}). Move theta_ref nearer to the data, or use "
                "fewer bins or parameters."
            ) from error
        return np.array([self.theta(alpha) for alpha in ends])

    def save(self, path: str | Path) -> None:
        """Write the workspace as JSON, for `pyhf` on the command line."""
        as_path(path).write_text(json.dumps(self.workspace, indent=1), encoding="utf-8")

    def __repr__(self) -> str:
        """Its size and parameters."""
        return (
            f"PyhfWorkspace({len(self.templates.nominal.bins)} bins, {self.expected:.5g} expected "
            f"events; {self.poi} of interest, parameters {list_names(self.templates.directions)})"
        )

    def _summarise(self) -> Summary:
        names, made = list(self.unit), self.templates
        columns = {
            "parameter": names,
            "reference": [f"{self.reference[name]:.4g}" for name in names],
            "per unit α": [f"{self.unit[name]:.3g}" for name in names],
            "valid from": [f"{self.validity[name][0]:.4g}" for name in names],
            "to": [f"{self.validity[name][1]:.4g}" for name in names],
            "kept by bins": [f"{made.kept[name]:.1%}" for name in names],
            "noise": [f"{made.noise[name]:.1%}" for name in names],
        }
        note = "θ = reference + α × unit; interpolation code4p (pyhf's default) is assumed"
        return Summary(repr(self), (SummaryTable(columns), note))


def to_pyhf(
    observable: Observable,
    templates: Templates | Simulated | Reweighted | Events,
    *,
    observed: Input | None = None,
    expected: float | Callable[[Any], Any] | UncertainRate | None = None,
    poi: str | None = None,
    constraints: Mapping[str, tuple[float, float]] | None = None,
) -> PyhfWorkspace:
    """A HistFactory workspace of an optimal observable, valid near its reference point.

    With a number of expected events only the shape counts: the normalisation is a free factor. With
    a rate ν(θ), the expected number of events follows θ.

    Args:
        observable: from `ist.observable`. Its score components or the named parameter are the
            free parameters; a projection onto a direction is measured by its "strength".
        templates: where their events come from: `Simulated(simulator, seed=1)`; Events made at
            θ_ref and at θ_ref ± a shift of each parameter; or `Reweighted(x)` with events at θ_ref.
            `Templates(source, …)` also says how they are shifted and binned.
        observed: observed events, shape (n, D); the expected content (Asimov data) by default.
        expected: number of events at θ_ref, that of the observed ones by default; or a rate, a
            function ν(θ) of θ of shape (d,); or `UncertainRate(rate, luminosity=0.02)`.
        poi: name of the parameter of interest, needed where there are several.
        constraints: measurements of parameters made elsewhere, {"name": (mean, sd)}. A constrained
            parameter enters the model even if the observable was not made for it.
    """
    _pyhf()
    if not isinstance(observable, Observable):
        needed = "to_pyhf needs an observable, ist.observable(est, theta_ref)"
        raise TypeError(f"{needed}; got {kind_of(observable)}.")
    names = observable.estimator.theta_names
    options = as_templates(templates)
    constrained = values_by_name(constraints, names, "constraints")
    checked = read_constraints(constrained, names)
    directions = {**observable.directions}
    for name in constrained:
        directions.setdefault(name, np.eye(len(names))[names.index(name)])
    poi = _choose_poi(poi, directions, tuple(observable.directions))
    rows = None if observed is None else as_observed(observable.estimator, observed, "observed")
    total = _as_rate(observable.theta_ref, expected, rows)
    made = make_templates(
        observable,
        options,
        expected=total(observable.theta_ref),
        directions=directions,
        precision={name: float(checked.precision[names.index(name)]) for name in constrained},
    )
    reference = {
        name: float(observable.theta_ref[names.index(name)]) if name in names else 0.0
        for name in directions
    }
    content = None
    if rows is not None:
        content = fill_histogram(made.nominal.bins, observable(rows)).values.tolist()
    builder = _Builder(made, observable.theta_ref, total, reference, constrained)
    workspace = builder.build_workspace(
        poi,
        content,
        free_normalisation=not (callable(expected) or isinstance(expected, UncertainRate)),
        luminosity=expected.luminosity if isinstance(expected, UncertainRate) else None,
        mc_errors=options.mc_errors,
    )
    _pyhf().Workspace(workspace)  # validates against the schema of HistFactory
    return PyhfWorkspace(workspace, poi, reference, builder.unit, made, total(observable.theta_ref))


class _Builder:
    """The parts of a workspace, from templates and the expected number of events at each θ."""

    def __init__(
        self,
        made: TemplateHistograms,
        theta_ref: np.ndarray,
        total: Callable[[np.ndarray], float],
        reference: Mapping[str, float],
        constrained: Mapping[str, tuple[float, float]],
    ) -> None:
        self.made, self.constrained, self.reference = made, constrained, reference
        self.nominal = made.nominal.scale_to(total(theta_ref))
        self.unit: dict[str, float] = {}
        self.lo: dict[str, np.ndarray] = {}
        self.hi: dict[str, np.ndarray] = {}
        for name, direction in made.directions.items():
            shift = made.shift[name]
            down, up = (
                histogram.scale_to(total(theta_ref + sign * shift * direction)).values
                for histogram, sign in ((made.low[name], -1), (made.high[name], 1))
            )
            slope = (up - down) / (2 * shift)
            curvature = (up + down - 2 * self.nominal.values) / shift**2
            self._set_shape(name, slope, curvature)

    def _set_shape(self, name: str, slope: np.ndarray, curvature: np.ndarray) -> None:
        # With hi + lo − 2ν0 = 16A, code4p has the curvature 30A at α = 0.
        unit, part = UNIT_ERRORS * self.made.error[name], 16 / 30
        if name in self.constrained:
            unit = float(self.constrained[name][1])
            if unit < NARROW * self.made.error[name]:
                part = 1.0  # α will explore ±1, so the templates there must be right
        bend = 0.5 * part * unit**2 * curvature
        self.unit[name] = unit
        self.lo[name] = self.nominal.values - unit * slope + bend
        self.hi[name] = self.nominal.values + unit * slope + bend

    def build_workspace(
        self,
        poi: str,
        observed: list[float] | None,
        *,
        free_normalisation: bool,
        luminosity: float | None,
        mc_errors: bool,
    ) -> dict[str, Any]:
        modifiers: list[dict[str, Any]] = []
        for name in self.unit:
            data = {"lo_data": self.lo[name].tolist(), "hi_data": self.hi[name].tolist()}
            modifiers.append({"name": name, "type": "histosys", "data": data})
        parameters = [self._describe(name) for name in self.unit]
        if free_normalisation:
            modifiers.append({"name": NORMALISATION, "type": "normfactor", "data": None})
            parameters.append({"name": NORMALISATION, "bounds": [[0.0, 10.0]], "inits": [1.0]})
        if luminosity is not None:
            modifiers.append({"name": LUMINOSITY, "type": "lumi", "data": None})
            reach = REACH_LUMINOSITY * luminosity
            bounds = [[max(0.0, 1 - reach), 1 + reach]]
            measured = {"auxdata": [1.0], "sigmas": [luminosity]}
            parameters.append({"name": LUMINOSITY, **measured, "bounds": bounds, "inits": [1.0]})
        if mc_errors:
            errors = np.sqrt(self.nominal.variances).tolist()
            modifiers.append({"name": f"staterror_{CHANNEL}", "type": "staterror", "data": errors})
        nominal = self.nominal.values.tolist()
        sample = {"name": "events", "data": nominal, "modifiers": modifiers}
        return {
            "version": "1.0.0",
            "channels": [{"name": CHANNEL, "samples": [sample]}],
            "observations": [{"name": CHANNEL, "data": nominal if observed is None else observed}],
            "measurements": [{"name": poi, "config": {"poi": poi, "parameters": parameters}}],
        }

    def _describe(self, name: str) -> dict[str, Any]:
        centre = 0.0
        described: dict[str, Any] = {"name": name}
        reach = REACH_ERRORS / UNIT_ERRORS
        if name in self.constrained:
            centre = (float(self.constrained[name][0]) - self.reference[name]) / self.unit[name]
            described["auxdata"] = [centre]
            reach = REACH_CONSTRAINT
        low, high = (self._find_positive(name, centre + sign * reach) for sign in (-1, 1))
        return {**described, "bounds": [[low, high]], "inits": [float(np.clip(centre, low, high))]}

    def _find_positive(self, name: str, furthest: float) -> float:
        """The α nearest to the furthest one up to which every bin keeps a positive content."""
        for alpha in furthest * np.linspace(0, 1, 101)[1:]:
            if np.any(self._content(name, alpha) <= 0):
                return float(alpha - 0.02 * furthest)
        return float(furthest)

    def _content(self, name: str, alpha: float) -> np.ndarray:
        """pyhf's code4p."""
        lo, hi, nominal = self.lo[name], self.hi[name], self.nominal.values
        if abs(alpha) > 1:
            return nominal + np.where(alpha > 0, hi - nominal, nominal - lo) * alpha
        even = (hi + lo - 2 * nominal) / 16 * alpha**2 * (15 - 10 * alpha**2 + 3 * alpha**4)
        return nominal + (hi - lo) / 2 * alpha + even


def _choose_poi(
    poi: str | None, directions: Mapping[str, np.ndarray], measured: tuple[str, ...]
) -> str:
    if poi is None and len(measured) == 1:
        return measured[0]
    if not isinstance(poi, str) or poi not in directions:
        raise ValueError(
            f"poi must name the parameter of interest, one of {', '.join(directions)}; got {poi!r}."
        )
    return poi


def _as_rate(
    theta_ref: np.ndarray,
    expected: float | Callable[[Any], Any] | UncertainRate | None,
    rows: np.ndarray | None,
) -> Callable[[np.ndarray], float]:
    """The expected number of events as a function of θ."""
    if expected is None and rows is None:
        raise ValueError(
            "how many events are expected at theta_ref? Give expected=, a number or a function of "
            "θ, or observed=."
        )
    given: Any = expected.rate if isinstance(expected, UncertainRate) else expected
    if given is None and rows is not None:
        given = len(rows)

    def total(theta: np.ndarray) -> float:
        if isinstance(given, type):
            raise TypeError(f"expected must be a number or a function of θ; got {kind_of(given)}.")
        what = "the expected number, a function of θ"
        value: Any = call_function(given, what, theta) if callable(given) else given
        number = as_floats(value, what)
        if number.shape != ():
            raise ValueError(
                "the expected number of events must be one number, or a function of θ that returns "
                f"one; got shape {number.shape}."
            )
        value = float(number)
        if not (np.isfinite(value) and value > 0):
            raise ValueError(
                "the expected number of events must be positive and finite; at θ = "
                f"{np.round(theta, 5).tolist()} it is {value}."
            )
        return value

    total(theta_ref)
    return total


def _pyhf() -> Any:  # noqa: ANN401
    return import_package("pyhf", "to_pyhf uses pyhf", "inference")
