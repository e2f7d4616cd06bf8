"""Fits, confidence sets, limits and Fisher information as sections of a report."""

import warnings
from typing import Any

import numpy as np

from ... import plots
from ...inference.calibrated.calibrated_fit import CalibratedFit
from ...inference.calibrated.goodness_of_fit import UNLIKE
from ...inference.confidence.asymptotics import BANDS
from ...inference.confidence.confidence_set import ConfidenceSet
from ...inference.confidence.upper_limit import UpperLimit
from ...inference.information.fisher_information import DOUBTFUL, FisherInformation
from ...inference.likelihood.cross_entropy import CrossEntropyFit
from ...inference.likelihood.learned_bias import LearnedBias
from ...inference.likelihood.maximum_likelihood import MaximumLikelihood
from ...inference.likelihood.profile import Profile
from ...inference.posterior.posterior import Posterior
from ...plots.corner import MOST_PARAMETERS
from ..section import Cell, FigureItem, Level, Mark, Section, Table, Verdict
from .context import (
    NOT_MEASURED,
    Context,
    join_notes,
    join_verdicts,
    matrix_table,
    sentence,
)

#: p-value below which there is a remark.
NOTABLE_P_VALUE = 0.05
#: Error by simulation over the statistical one from which more simulated events are advised: a
#: calibrated fit that simulates goes on until it is less.
NOTABLE_SIMULATION = 0.3
#: How a bias is marked.
BIAS_MARKS = {"biased": Mark.BAD, "not biased": Mark.GOOD, "cannot be told": Mark.NOTE}
#: Methods of confidence sets, by the names that these have for them.
METHODS = {"wilks": "Wilks' theorem", "neyman": "Neyman's construction"}


def judge_bias(bias: LearnedBias | None, notes: tuple[str, ...]) -> Verdict | None:
    """What the learned bias means for a result; None where the result does not depend on it."""
    if bias is None:
        if any(note.startswith(NOT_MEASURED) for note in notes):
            return Verdict(
                Level.CAUTION,
                "Whether it is biased was not measured: ist.measure_bias(estimator, events) does, "
                "with events that were not trained on.",
            )
        return None
    levels = {"biased": Level.BAD, "not biased": Level.GOOD, "cannot be told": Level.CAUTION}
    return Verdict(levels[bias.verdict], sentence(bias.describe()))


def bias_table(bias: LearnedBias) -> Table:
    """The learned bias of each parameter."""
    rows = [
        [name, Cell(float(value), BIAS_MARKS[verdict]), float(error)]
        for name, value, error, verdict in zip(
            bias.names, bias.bias, bias.error, bias.verdicts, strict=True
        )
    ]
    caption = f"Bias by the learned score, in standard errors of the estimate: {bias.verdict}"
    return Table(("parameter", "bias", "known to ±"), rows, caption, ".2f")


def estimate_table(
    names: tuple[str, ...], theta: np.ndarray, errors: np.ndarray, truth: np.ndarray | None
) -> Table:
    """Estimates with errors, and pulls where the truth is known."""
    header = ["parameter", "estimate", "standard error"]
    rows: list[list[str | float | None]] = []
    for k, name in enumerate(names):
        fitted = bool(errors[k] != 0)
        row = [name, float(theta[k]), float(errors[k]) if fitted else "fixed"]
        if truth is not None:
            pull = float((theta[k] - truth[k]) / errors[k]) if fitted else None
            row += [float(truth[k]), pull]
        rows.append(row)
    if truth is not None:
        header += ["truth", "pull"]
    return Table(header, rows, number_format=".5g")


def bias_figure(bias: LearnedBias | None) -> list[FigureItem]:
    """The learned bias of each parameter, where it was measured."""
    if bias is None:
        return []
    caption = (
        "Shift of each estimate by the learned score, with two standard errors of that shift; in "
        "the band it does no harm."
    )
    return [FigureItem(plots.learned_bias(bias), caption)]


def corner_figure(fit: Any, context: Context) -> list[FigureItem]:  # noqa: ANN401
    """Estimates of every parameter and pair."""
    free = [name for name, v in zip(fit.names, np.diag(fit.covariance), strict=True) if v > 0]
    if not free or not np.isfinite(fit.covariance).all():
        return []
    text = "Normal distributions of the estimate's covariance"
    if isinstance(fit, Posterior):
        text = "The posterior"
    text += " of each parameter and each pair; outlines hold 68% and 95%"
    if len(free) > MOST_PARAMETERS:
        text += f"; the first {MOST_PARAMETERS} of {len(free)} parameters"
    shown = free[:MOST_PARAMETERS]
    lines = "" if context.true_values(tuple(shown)) is None else "; lines mark the truth"
    figure = plots.corner(fit, parameters=shown, truth=context.truth)
    return [FigureItem(figure, f"{text}{lines}.")]


def correlation_table(covariance: np.ndarray, names: tuple[str, ...]) -> list[Table]:
    """Correlations of the parameters that were fitted; nothing for a single one."""
    errors = np.sqrt(np.diag(covariance))
    free = np.flatnonzero(errors > 0)
    if len(free) < 2 or not np.isfinite(covariance).all():
        return []
    correlation = covariance[np.ix_(free, free)] / np.outer(errors[free], errors[free])
    kept = tuple(names[k] for k in free)
    return [matrix_table(correlation, kept, "Correlations of the estimates", ".2f")]


def describe_fit(fit: MaximumLikelihood | CrossEntropyFit, context: Context) -> list[Section]:
    """Estimates, errors, correlations and the learned bias."""
    errors = np.sqrt(np.diag(fit.covariance))
    truth = context.true_values(fit.names)
    tables = [estimate_table(fit.names, fit.theta, errors, truth)]
    if isinstance(fit, MaximumLikelihood) and context.level is not None:
        tables.append(_interval_table(fit, context))
    tables += correlation_table(fit.covariance, fit.names)
    tables += [] if fit.bias is None else [bias_table(fit.bias)]
    converged = None
    if not fit.valid:
        converged = Verdict(Level.BAD, f"The fit did not converge: {sentence(fit.message)}")
    verdict = join_verdicts(converged, judge_bias(fit.bias, fit.notes))
    title = "Maximum likelihood" if isinstance(fit, MaximumLikelihood) else "Cross-entropy fit"
    text = join_notes((fit.message, *fit.notes))
    figures = [*corner_figure(fit, context), *bias_figure(fit.bias)]
    return [Section(context.heading(title), text, tables, figures, verdict)]


def _interval_table(fit: MaximumLikelihood, context: Context) -> Table:
    """Intervals of the profile likelihood, which need not be symmetric."""
    ends = fit.interval(context.interval_level)
    rows = [
        [name, float(low), float(high)]
        for name, (low, high) in zip(fit.names, ends, strict=True)
        if low < high
    ]
    caption = "Intervals of the profile likelihood (MINOS)"
    return Table(("parameter", *context.interval_columns), rows, caption, ".5g")


def describe_calibrated(fit: CalibratedFit, context: Context) -> list[Section]:
    """Estimates with calibrated errors, and whether the data look like simulated events."""
    truth = context.true_values(fit.names)
    ends, free = fit.interval(context.interval_level), fit.errors > 0
    rows = [
        [name, float(low), float(high), float(part), float(reached)]
        for name, (low, high), part, reached in zip(
            fit.names, ends, fit.simulation_fraction, fit.sensitivity, strict=True
        )
    ]
    columns = ("parameter", *context.interval_columns, "simulation", "sensitivity")
    caption = (
        "simulation: error by finitely many simulated events over the statistical one; "
        "sensitivity: error that the learned likelihood promises over this one"
    )
    tables = [
        estimate_table(fit.names, fit.theta, fit.errors, truth),
        Table(columns, [row for row, own in zip(rows, free, strict=True) if own], caption),
        *correlation_table(fit.covariance, fit.names),
    ]
    text = (
        f"Fit to {fit.events:,} events with errors calibrated by {fit.simulated:,} simulated ones; "
        "they hold for any network."
    )
    heading, figures = context.heading("Calibrated fit"), corner_figure(fit, context)
    return [Section(heading, text, tables, figures, _judge_calibrated(fit))]


def _judge_calibrated(fit: CalibratedFit) -> Verdict:
    p = f"p-value {fit.p_value:.2g}"
    if fit.p_value < UNLIKE:
        return Verdict(
            Level.BAD,
            f"At the estimate the observed events are not like simulated ones ({p}): nothing that "
            "was simulated describes them, or the calibration found a wrong solution, which few "
            "stored events often do. To tell, calibrate with the simulator, or with more events.",
        )
    if fit.p_value < NOTABLE_P_VALUE:
        return Verdict(Level.CAUTION, f"The observed events hardly look like simulated ones ({p}).")
    part = np.nanmax(fit.simulation_fraction[fit.errors > 0], initial=0.0)
    text = (
        f"The errors are calibrated by simulation, and the observed events look like simulated "
        f"ones ({p})."
    )
    if part <= NOTABLE_SIMULATION:
        return Verdict(Level.GOOD, text)
    return Verdict(
        Level.CAUTION,
        f"{text} But the simulated events are few: they add an error of {part:.1f} times the "
        "statistical one, and intervals may be too short. Calibrate with the simulator, or with "
        "more events.",
    )


def describe_set(found: ConfidenceSet, context: Context) -> list[Section]:
    """Intervals or hulls, and how the p-values were found."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ends = found.hull()
    joint = len(found.names) > 1
    best = {name: float(value) for name, value in zip(found.theta_names, found.best, strict=True)}
    rows = [
        [name, best[name], float(low), float(high)]
        for name, (low, high) in zip(found.names, ends, strict=True)
    ]
    method = METHODS.get(found.method, found.method)
    caption = f"{100 * found.level:.4g}% confidence level, by {method}" + (
        "; the smallest and largest value of each parameter in the joint set" if joint else ""
    )
    tables = [Table(("parameter", "best fit", "from", "to"), rows, caption, ".5g")]
    tables += [] if found.bias is None else [bias_table(found.bias)]
    converged = None
    if not found.converged:
        converged = Verdict(Level.BAD, "The best fit was not found.")
    elif np.isnan(ends).any():
        converged = Verdict(Level.BAD, "No point of the grid is accepted.")
    elif warned:
        converged = Verdict(Level.CAUTION, " ".join(sentence(str(one.message)) for one in warned))
    trusted = judge_bias(found.bias, found.notes)
    if trusted is None:
        trusted = Verdict(Level.GOOD, "The p-values are those of simulated toys.")
    text = join_notes(found.notes)
    verdict = join_verdicts(converged, trusted)
    figures = [*_draw_set(found, context), *bias_figure(found.bias)]
    return [Section(context.heading("Confidence set"), text, tables, figures, verdict)]


def _draw_set(found: ConfidenceSet, context: Context) -> list[FigureItem]:
    if len(found.names) == 1:
        caption = f"−2 ln λ of {found.names[0]}, the others profiled."
        if found.method == "neyman":
            caption += " The band is the confidence set by toys."
        return [FigureItem(plots.likelihood_scan(found, truth=context.truth), caption)]
    if len(found.names) == 2:
        caption = f"Joint confidence sets of {' and '.join(found.names)}."
        return [FigureItem(plots.confidence_region(found, truth=context.truth), caption)]
    return []


def describe_profile(found: Profile, context: Context) -> list[Section]:
    """A scan of the profile likelihood."""
    rows = [[float(value), float(q)] for value, q in zip(found.values, found.q, strict=True)]
    table = Table((found.name, "−2 ln λ"), rows)
    caption = f"−2 ln λ of {found.name}, the others profiled."
    item = FigureItem(plots.likelihood_scan(found, truth=context.truth), caption)
    title = context.heading(f"Profile likelihood of {found.name}")
    return [Section(title, "", [table], [item])]


def describe_limit(limit: UpperLimit, context: Context) -> list[Section]:
    """Observed and expected limits."""
    bands = ["median" if band == 0 else f"{band:+.0f} standard deviations" for band in BANDS]
    rows = [["observed", _finite(limit.observed)]]
    rows += [
        [f"expected, {band}", _finite(value)]
        for band, value in zip(bands, limit.expected, strict=True)
    ]
    caption = f"Upper limits of {limit.name} at {limit.level:.4g} by {limit.test}, {limit.method}"
    tables = [Table(("case", f"limit of {limit.name}"), rows, caption, ".5g")]
    tables += [] if limit.bias is None else [bias_table(limit.bias)]
    found = None
    if np.isnan(limit.observed):
        found = Verdict(Level.BAD, "No limit was found in the region that was scanned.")
    trusted = judge_bias(limit.bias, limit.notes)
    if trusted is None:
        trusted = Verdict(Level.GOOD, "Its distribution was found by simulation.")
    text = join_notes(limit.notes)
    title = context.heading(f"Upper limit of {limit.name}")
    caption = (
        f"{limit.test} of each value of {limit.name}; the limits are where the curves fall below "
        "the dotted line."
    )
    figures = [FigureItem(plots.limit_scan(limit), caption), *bias_figure(limit.bias)]
    return [Section(title, text, tables, figures, join_verdicts(found, trusted))]


def describe_information(found: FisherInformation, context: Context) -> list[Section]:
    """The information of one event, in both forms."""
    rows = [
        [name, float(value), float(one), float(e1), float(two), float(e2)]
        for name, value, one, e1, two, e2 in zip(
            found.names,
            found.theta,
            np.diag(found.score_information),
            np.diag(found.score_error),
            np.diag(found.hessian_information),
            np.diag(found.hessian_error),
            strict=True,
        )
    ]
    header = ("parameter", "θ", "E[ŝŝᵀ]", "± (1)", "−E[∇²φ]", "± (2)")
    tables = [
        Table(header, rows, "Fisher information of one event, in two forms that should agree"),
        matrix_table(found.score_information, found.names, "E[ŝŝᵀ]", ".4g"),
    ]
    differ = found.disagreement
    text = f"From {len(found.scores):,} events ({found.n_effective:,.0f} effectively)."
    said = f"The two forms differ by at most {differ.relative:.2%} (p-value {differ.p_value:.2g})"
    doubtful = differ.p_value < DOUBTFUL
    end = ", more than chance explains: prefer the sandwich." if doubtful else "."
    verdict = Verdict(Level.CAUTION if doubtful else Level.GOOD, said + end)
    return [Section(context.heading("Fisher information"), text, tables, [], verdict)]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
