"""Checks of an estimator as sections of a report."""

from collections.abc import Sequence

from ... import plots
from ...checks.closure import Closure
from ...checks.coverage import Coverage
from ...checks.diagnose import Diagnosis
from ...checks.finding import Finding
from ..section import Cell, FigureItem, Level, Mark, Section, Table, Verdict
from .context import Context

#: How each grade of a finding is marked.
MARKS = {"good": Mark.GOOD, "notable": Mark.NOTE, "small": Mark.NOTE, "wrong": Mark.BAD}


def describe_diagnosis(found: Diagnosis, context: Context) -> list[Section]:
    """The verdict, a line for each check, and its figures."""
    grades = {finding.grade for finding in found.findings}
    observed, bias = found.n_observed, found.bias
    biased = bias is not None and observed is not None and bias.verdict(observed) == "biased"
    level = Level.GOOD if found.passed else Level.CAUTION
    if grades & {"small", "notable"}:
        level = Level.CAUTION
    if biased or "wrong" in grades:
        level = Level.BAD
    text = f"Checks on {found.events:,} events that it was not trained on."
    if found.dropped:
        text += f" {found.dropped:,} outside the trained region were not used."
    figures = []
    if found.mean_score is not None:
        caption = "Mean of the score in cells of θ; the band is ± 2 standard errors."
        figures.append(FigureItem(plots.mean_score(found.mean_score), caption))
    if found.calibration is not None:
        caption = "Calibration of σ(ln r): observed against predicted; the line is exact."
        figures.append(FigureItem(plots.calibration(found.calibration), caption))
    if found.coverage is not None:
        figures += _draw_coverage(found.coverage)
    return [
        Section(
            context.heading("Diagnosis"),
            text,
            [findings_table(found.findings)],
            figures,
            Verdict(level, found.verdict),
        )
    ]


def _draw_coverage(found: Coverage) -> list[FigureItem]:
    return [
        FigureItem(
            plots.ranks(found),
            "Simulation-based calibration: ranks less uniform ones; 95% of exact ones stay in the "
            "band at each rank.",
        ),
        FigureItem(
            plots.coverage(found),
            "Actual against nominal coverage of credible sets; the line is exact.",
        ),
    ]


def findings_table(findings: Sequence[Finding]) -> Table:
    """A line for each check."""
    rows = [
        [
            finding.name,
            Cell(finding.grade, MARKS[finding.grade]),
            finding.p_text,
            finding.description,
        ]
        for finding in findings
    ]
    caption = (
        "good: nothing that chance does not explain; notable: not proven; small: proven, but "
        "tolerable; wrong: proven and too large"
    )
    return Table(("check", "grade", "p-value", "what was found"), rows, caption)


def judge_findings(findings: Sequence[Finding]) -> Verdict:
    """What some findings amount to."""
    grades = {
        grade: [f.name for f in findings if f.grade == grade]
        for grade in ("wrong", "small", "notable")
    }
    if grades["wrong"]:
        return Verdict(Level.BAD, f"It fails {', '.join(grades['wrong'])}.")
    if found := grades["small"] + grades["notable"]:
        return Verdict(Level.CAUTION, f"There are deviations in {', '.join(found)}.")
    return Verdict(Level.GOOD, f"No fault found in {len(findings)} checks.")


def describe_coverage(found: Coverage, context: Context) -> list[Section]:
    """How often credible sets hold the truth."""
    rows = [
        [float(level), float(value), float(error)]
        for level, value, error in zip(found.levels, found.expected, found.error, strict=True)
    ]
    text = (
        f"Posteriors of {len(found.theta):,} single events: how often their highest-density sets "
        "hold the θ that the event was simulated at."
    )
    tables = [
        Table(("credible level", "coverage", "standard error"), rows, number_format=".3f"),
        findings_table(found.findings),
    ]
    verdict = judge_findings(found.findings)
    return [Section(context.heading("Coverage"), text, tables, _draw_coverage(found), verdict)]


def describe_closure(found: Closure, context: Context) -> list[Section]:
    """Whether reweighted events are like directly simulated ones."""
    rows = [
        [name, float(distance), float(p)]
        for name, distance, p in zip(found.x_names, found.distance, found.p_value, strict=True)
    ]
    caption = "Largest difference of the distribution functions of each observable"
    text = (
        f"A classifier tries to tell {found.effective_size:,.0f} effective reweighted events from "
        f"{found.direct_effective_size:,.0f} simulated at the θ they should stand for. The area "
        f"under its curve is {found.auc:.4f} ± {found.auc_error:.4f}, 0.5 if the weights are "
        f"right; before reweighting it was {found.unweighted_auc:.4f} ± "
        f"{found.unweighted_auc_error:.4f}."
    )
    verdict = (
        Verdict(
            Level.GOOD, "The reweighting closes: nothing was found that chance does not explain."
        )
        if found.closes
        else Verdict(
            Level.BAD,
            "The reweighting does not close: they differ from events simulated there.",
        )
    )
    table = Table(("observable", "distance", "p-value"), rows, caption)
    return [Section(context.heading("Closure"), text, [table], [], verdict)]
