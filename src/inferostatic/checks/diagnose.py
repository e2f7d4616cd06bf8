"""`diagnose`: the default set of checks on validation events, and a verdict in words."""

import dataclasses
import math
from typing import Any

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..events.events import Events
from ..inputs import as_count, as_seed
from ..summary import AbstractSummarised, Summary, count
from .calibration import CalibrationCurve, compute_calibration
from .coverage import DEFAULT_EVENTS, Coverage, compute_coverage
from .finding import Finding, Grade, judge_together, tabulate_findings
from .learned_bias import BiasOverTheta, compute_bias
from .mean_score import MeanScore, compute_mean_score
from .pair_identities import PairIdentities, compute_identities
from .validation_events import draw_pairs, select_events

#: What to do where posteriors do not cover.
POSTERIORS = "do not use its posteriors as they are, but train on more events or with more effort"
#: What to do about a check that fails, by its name.
ADVICE = {
    "mean score": "centre it (ist.centre), train longer or on more events, or use "
    "ist.calibrated_fit for many events",
    "calibration": "train on more events, average several members, or recalibrate its ratios "
    "(ist.checks.recalibrate)",
    "SBC": POSTERIORS,
    "expected coverage": POSTERIORS,
}


@dataclasses.dataclass(frozen=True, repr=False)
class Diagnosis(AbstractSummarised):
    """What the checks found; `summary()` is the text, `ist.plots.diagnosis` the figure.

    Attributes:
        findings: one for each check.
        events: number of validation events within the trained region.
        dropped: number of those outside, which were not used.
        mean_score, identities, calibration, coverage: the records, where the estimator offers
            what the check needs.
        bias: of estimates by its score, as a function of θ, where it is a potential.
        n_observed: number of observed events for which it was judged, where one was given.
    """

    findings: tuple[Finding, ...]
    events: int
    dropped: int
    mean_score: MeanScore | None = None
    identities: PairIdentities | None = None
    calibration: CalibrationCurve | None = None
    coverage: Coverage | None = None
    bias: BiasOverTheta | None = None
    n_observed: int | None = None

    @property
    def passed(self) -> bool:
        """Whether no check found it wrong, and it may be trusted for `n_observed` events."""
        trusted = self.n_observed is None or self.n_observed <= (self.trusted_events or 0)
        return trusted and not self._names("wrong")

    @property
    def trusted_events(self) -> int | None:
        """Observed events up to which estimates are not biased; None where that was not measured.

        For at least nine of ten θ the learned score shifts an estimate by less than 0.3 standard
        errors, and this is certain to two standard errors.
        """
        return None if self.bias is None else self.bias.trusted_events

    @property
    def verdict(self) -> str:
        """What the findings amount to, and what to do about them."""
        checks, observed = self._verdict_of_checks(), self.n_observed
        if self.bias is None:
            return checks
        bias = self.bias.describe(observed)
        # What decides comes first, so that no "good" stands before a bias.
        biased = observed is not None and self.bias.verdict(observed) == "biased"
        return f"{bias} {checks}" if biased else f"{checks} {bias}"

    def to_dict(self) -> dict[str, Any]:
        """Verdict and findings as plain values, which `est.with_diagnosis` keeps in the card."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "events": self.events,
            "n_observed": self.n_observed,
            "trusted_events": self.trusted_events,
            "bias_events": None if self.bias is None else float(self.bias.events),
            "findings": [
                {
                    "check": one.name,
                    "grade": one.grade,
                    "p_value": float(one.p_value) if math.isfinite(one.p_value) else None,
                    "found": one.description,
                }
                for one in self.findings
            ],
        }

    def _verdict_of_checks(self) -> str:
        wrong, small = self._names("wrong"), self._names("small")
        if wrong:
            advice = list(dict.fromkeys(ADVICE[name] for name in wrong if name in ADVICE))
            return f"Not to be trusted: it fails {', '.join(wrong)}." + (
                f" What to do: {'; '.join(advice)}." if advice else ""
            )
        if small:
            return (
                f"Good for single events: deviations in {', '.join(small)} are significant but "
                "small. Over many events they add up; use ist.calibrated_fit there."
            )
        notable = self._names("notable")
        if notable:
            smallest = min(f.p_value for f in self.findings if f.grade == "notable")
            return (
                f"No fault proven, but {', '.join(notable)} deviates notably: the smallest of "
                f"{len(self.findings)} p-values is that small, {smallest:.2g}, in "
                f"{len(self.findings) * smallest:.1%} of exact estimators at most. More validation "
                "events would decide."
            )
        return f"No fault found in {len(self.findings)} checks on {self.events:,} events."

    def _summarise(self) -> Summary:
        head = f"Diagnosis on {self.events:,} validation events"
        if self.dropped:
            head += f" ({self.dropped:,} outside the trained region were not used)"
        return Summary(head, (tabulate_findings(self.findings), self.verdict))

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def __repr__(self) -> str:
        """The verdict, in a line."""
        wrong, small = self._names("wrong"), self._names("small")
        verdict = f"FAILS {', '.join(wrong)}" if wrong else "passed"
        if not wrong and not self.passed:
            verdict = f"NOT to be trusted for {self.n_observed:,} events"
        if small:
            verdict += f", small deviations in {', '.join(small)}"
        if notable := self._names("notable"):
            verdict += f", notable but unproven ones in {', '.join(notable)}"
        if self.trusted_events is not None:
            verdict += f", trusted up to {self.trusted_events:,} observed events"
        checks = count(len(self.findings), "check")
        return f"Diagnosis({verdict}; {checks} on {count(self.events, 'event')})"

    def _names(self, grade: Grade) -> list[str]:
        return [finding.name for finding in self.findings if finding.grade == grade]


def diagnose(
    estimator: AbstractEstimator, events: Events, *, n_observed: int | None = None, seed: int = 0
) -> Diagnosis:
    """Run the checks that need no truth, on events that the estimator was not trained on.

    The mean of the score, identities and calibration of the ratio, and the coverage of single-event
    posteriors (SBC, TARP and highest-density sets), as far as the estimator offers them.
    `print(diagnose(…).summary())` shows what was found.

    Args:
        estimator: to be judged.
        events: that it was not trained on; some thousands at least, and to be trusted for N
            observed events about 200 N or more.
        n_observed: number of observed events for which to judge it.
        seed: of partners, candidates and the choice of events.
    """
    kinds = (Estimator, ScoreEstimator, RatioEstimator)
    seed = as_seed(seed)
    if n_observed is not None:
        n_observed = as_count(n_observed, "n_observed")
    selected = select_events(estimator, events, check="diagnose", kinds=kinds, seed=seed)
    score = identities = curve = sets = bias = None
    findings: list[Finding] = []
    if isinstance(estimator, Estimator | ScoreEstimator):
        score = compute_mean_score(estimator, selected)
        findings.append(score.finding)
    if isinstance(estimator, Estimator | RatioEstimator):
        pairs = draw_pairs(estimator, selected, seed)
        identities, curve = compute_identities(pairs), compute_calibration(pairs)
        findings += [*identities.findings, curve.finding]
    if isinstance(estimator, Estimator):
        sets = compute_coverage(estimator, selected.first(DEFAULT_EVENTS), seed=seed)
        findings += sets.findings
        bias = compute_bias(estimator, events)
    return Diagnosis(
        findings=judge_together(findings),
        events=len(events) - selected.dropped,
        dropped=selected.dropped,
        mean_score=score,
        identities=identities,
        calibration=curve,
        coverage=sets,
        bias=bias,
        n_observed=n_observed,
    )
