"""`diagnose`: the default set of checks on held-out events, and a verdict in words."""

import dataclasses

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..events.events import Events
from ..inputs import as_seed
from .calibration import Calibration, calibration_of
from .coverage import Coverage, coverage
from .finding import Finding
from .held_out import derived, hold_out
from .identities import (
    MOST_EVENTS,
    MeanScore,
    PairIdentities,
    draw_pairs,
    identities_of,
    mean_score,
)

ADVICE = {
    "mean score": "centre it (ist.centre), train longer or on more events, or use "
    "ist.calibrated_fit for many events",
    "calibration": "train on more events, average several members, or recalibrate its ratios",
    "SBC": "do not use its posteriors as they are",
    "expected coverage": "do not use its posteriors as they are: the sets have the wrong size",
}


@dataclasses.dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the checks found; plots draw the records in it.

    Attributes:
        findings: one for each check.
        mean_score, identities, calibration, coverage: the records, where the estimator offers
            what the check needs.
        events: number of held-out events within the trained region.
        dropped: number of those outside, which were not used.
    """

    findings: tuple[Finding, ...]
    events: int
    dropped: int
    mean_score: MeanScore | None = None
    identities: PairIdentities | None = None
    calibration: Calibration | None = None
    coverage: Coverage | None = None

    @property
    def passed(self) -> bool:
        """Whether no check found the estimator wrong."""
        return all(finding.grade != "wrong" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence."""
        wrong = [finding for finding in self.findings if finding.grade == "wrong"]
        small = [finding.name for finding in self.findings if finding.grade == "small"]
        if wrong:
            names = ", ".join(finding.name for finding in wrong)
            advice = [ADVICE[finding.name] for finding in wrong if finding.name in ADVICE]
            return f"Not to be trusted: it fails {names}." + (
                f" What to do: {'; '.join(advice)}." if advice else ""
            )
        if small:
            return (
                f"Good for single events: deviations in {', '.join(small)} are sure but small. "
                "Over many events they add up; use ist.calibrated_fit there."
            )
        return f"No fault found in {len(self.findings)} checks on {self.events:,} events."

    def summary(self) -> str:
        """The verdict and a line for each check."""
        head = f"Diagnosis on {self.events:,} held-out events"
        if self.dropped:
            head += f" ({self.dropped:,} outside the trained region were not used)"
        return "\n".join([head, *map(str, self.findings), self.verdict])

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()


def diagnose(estimator: AbstractEstimator, events: Events, *, seed: int = 0) -> Diagnosis:
    """Run the checks that need no truth on events the estimator has not seen; print a verdict.

    The mean of the score, identities and calibration of the ratio, and the coverage of single-event
    posteriors (SBC, TARP and highest-density sets), as far as the estimator offers them.

    Args:
        estimator: to be judged.
        events: that it was not trained on; some thousands at least.
        seed: of partners, rivals and the choice of events.
    """
    kinds = (Estimator, ScoreEstimator, RatioEstimator)
    seed = as_seed(seed)
    held = hold_out(estimator, events, most=MOST_EVENTS, seed=seed, kinds=kinds, check="diagnose")
    score = pairs = curves = sets = None
    findings: list[Finding] = []
    if isinstance(estimator, Estimator | ScoreEstimator):
        score = mean_score(estimator, events, seed=seed)
        findings.append(score.finding)
    if isinstance(estimator, Estimator | RatioEstimator):
        drawn = draw_pairs(estimator, held, derived(seed, 1))
        pairs = identities_of(drawn, estimator.theta_names)
        curves = calibration_of(drawn, estimator.theta_names)
        findings += [*pairs.findings, curves.finding]
    if isinstance(estimator, Estimator):
        sets = coverage(estimator, events, seed=seed)
        findings += sets.findings
    found = Diagnosis(
        findings=tuple(findings),
        events=len(events) - held.dropped,
        dropped=held.dropped,
        mean_score=score,
        identities=pairs,
        calibration=curves,
        coverage=sets,
    )
    print(found.summary())
    return found
