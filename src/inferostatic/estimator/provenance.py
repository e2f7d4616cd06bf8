"""What a model file says of an estimator's making that its weights do not show.

`Provenance` is written by the fit, `DiagnosisNote` after a diagnosis. Both hold plain values, for
files and model cards.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol

from ..events.origin import Origin
from ..inputs import kind_of
from ..serial import known

#: Grades of a finding.
GRADES = ("good", "notable", "small", "wrong")
#: Findings of a diagnosis, at most.
MOST_FINDINGS = 100
#: Packages whose versions are kept, at most.
MOST_PACKAGES = 100


@known
@dataclasses.dataclass(frozen=True)
class Provenance:
    """Of what a fit made an estimator.

    Attributes:
        events: number of events, with those that validated and tested.
        effective_events: so many equal ones are as good, where they have weights.
        origin: where they come from; None where nobody said.
        seed: of the fit.
        continued: whether it went on from another estimator, whose events are not counted.
        packages: versions of the packages that trained it; of files that do not say it, of those
            that wrote the file.
    """

    events: int | None = None
    effective_events: float | None = None
    origin: Origin | None = None
    seed: int | None = None
    packages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    continued: bool = False

    def __post_init__(self) -> None:
        """Refuse what no fit leaves behind."""
        for name in ("events", "seed"):
            _require_count(getattr(self, name), f"{name} of its provenance")
        _require_number(self.effective_events, "the effective number of events")
        if self.origin is not None and not isinstance(self.origin, Origin):
            raise TypeError(f"the origin of its events is {kind_of(self.origin)}")
        if not isinstance(self.continued, bool):
            raise TypeError(f"continued of its provenance is {kind_of(self.continued)}")
        named = isinstance(self.packages, Mapping) and len(self.packages) <= MOST_PACKAGES
        if not named or not all(isinstance(t, str) for pair in self.packages.items() for t in pair):
            raise TypeError("its packages are no list of names and versions")


@known
@dataclasses.dataclass(frozen=True)
class FindingNote:
    """What one check found, in short.

    Attributes:
        check: its name.
        grade: "good", "notable", "small" or "wrong".
        p_value: None where there is none.
        found: in words.
    """

    check: str
    grade: str
    p_value: float | None
    found: str

    def __post_init__(self) -> None:
        """Refuse what no check says."""
        for name in ("check", "found"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} of a finding is {kind_of(getattr(self, name))}")
        if self.grade not in GRADES:
            raise ValueError(f"the grade of a finding is none of {', '.join(GRADES)}")
        _require_number(self.p_value, "a p-value", most=1.0)


@known
@dataclasses.dataclass(frozen=True)
class DiagnosisNote:
    """What `ist.diagnose` found, in short.

    Attributes:
        passed: whether no check found it wrong.
        verdict: in words.
        events: number of validation events.
        n_observed: number of observed events for which it was judged.
        trusted_events: observed events up to which estimates are not biased; None where that was
            not measured.
        bias_events: effective number of events with which that was measured.
        findings: of each check.
    """

    passed: bool
    verdict: str
    events: int
    n_observed: int | None = None
    trusted_events: int | None = None
    bias_events: float | None = None
    findings: tuple[FindingNote, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no diagnosis says."""
        if not isinstance(self.passed, bool) or not isinstance(self.verdict, str):
            raise TypeError("its diagnosis has no verdict")
        if self.events is None:
            raise TypeError("its diagnosis has no number of events")
        for name in ("events", "n_observed", "trusted_events"):
            _require_count(getattr(self, name), f"{name} of its diagnosis")
        _require_number(self.bias_events, "the events of its diagnosis")
        listed = isinstance(self.findings, tuple) and len(self.findings) <= MOST_FINDINGS
        if not listed or not all(isinstance(one, FindingNote) for one in self.findings):
            raise TypeError("the findings of its diagnosis are no list of findings")

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self) | {"findings": [vars(one).copy() for one in self.findings]}


class Diagnosed(Protocol):
    """A diagnosis, such as `ist.diagnose` returns."""

    def to_dict(self) -> dict[str, Any]:
        """Its verdict and findings as plain values."""
        ...


def note_diagnosis(diagnosis: Diagnosed | Mapping[str, Any]) -> DiagnosisNote:
    """The short form of a diagnosis, or of its plain values."""
    try:
        given = diagnosis if isinstance(diagnosis, Mapping) else diagnosis.to_dict()
        findings = tuple(FindingNote(**one) for one in given["findings"])
        return DiagnosisNote(**{**given, "findings": findings})
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise TypeError(
            "with_diagnosis takes what ist.diagnose(est, events) returns, or its to_dict(); got "
            f"{kind_of(diagnosis)} ({error})."
        ) from error


def _require_count(value: object, what: str) -> None:
    """A whole number from 0, or None."""
    if value is not None and not (type(value) is int and 0 <= value < 1 << 63):
        raise ValueError(f"{what} is no number of 0 or more")


def _require_number(value: object, what: str, most: float = math.inf) -> None:
    """A finite number from 0, or None."""
    if value is None:
        return
    if type(value) not in (int, float) or not 0 <= value <= most or math.isinf(value):  # type: ignore[operator,arg-type]
        raise ValueError(f"{what} is no number of 0 or more")
