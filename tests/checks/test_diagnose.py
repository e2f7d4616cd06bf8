"""The whole set of checks, and its verdict in words."""

import dataclasses
import inspect
import re
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_dirichlet
from inferostatic.checks.diagnose import Diagnosis, diagnose
from inferostatic.checks.finding import Finding, combine_p_values, judge_together
from inferostatic.checks.learned_bias import BiasOverTheta
from inferostatic.checks.validation_events import ValidationEvents, select_events
from inferostatic.estimator.history import Region


def dirichlet(**changes: Any) -> ist.Estimator:
    return exact_dirichlet(low=0.5, high=5.0, **changes)


@pytest.fixture(scope="module")
def right(events: ist.Events) -> Diagnosis:
    return diagnose(dirichlet(), events)


def test_the_truth_has_no_fault(
    events: ist.Events, right: Diagnosis, capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnose(dirichlet(), events)
    assert found.passed
    assert found.verdict.startswith("No fault found in 7 checks on 20,000 events. Estimates from")
    assert capsys.readouterr().out == ""
    assert repr(found).startswith("Diagnosis(passed, trusted up to ")
    head, _, first, *_, last = found.summary().splitlines()
    assert head == "Diagnosis on 20,000 validation events"
    assert re.match(r"good  mean score         +0\.\d+  E\[s\] differs", first)
    assert last == found.verdict
    names = [finding.name for finding in found.findings]
    assert names == [
        "mean score",
        "bounded identity",
        "mean ratio",
        "calibration",
        "SBC",
        "expected coverage",
        "TARP",
    ]
    assert found.coverage is not None
    assert right.summary() == found.summary()


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"stretch": 1.5}, {"calibration", "expected coverage"}),
        ({"tilt": 0.3}, {"mean score", "bounded identity", "SBC"}),
    ],
)
def test_faults_are_reported_in_words(events: ist.Events, changes: Any, failed: set[str]) -> None:
    found = diagnose(dirichlet(**changes), events)
    wrong = {finding.name for finding in found.findings if finding.grade == "wrong"}
    assert failed <= wrong
    assert not found.passed
    assert "Not to be trusted: it fails" in found.summary()
    assert repr(found).startswith("Diagnosis(FAILS ")
    assert "\n" not in repr(found)
    assert "What to do: " in found.verdict


def test_a_small_fault_is_called_small(events: ist.Events) -> None:
    found = diagnose(dirichlet(tilt=0.025), events)
    assert found.passed
    assert found.findings[0].grade == "small"
    assert "Good for single events" in found.verdict
    assert "passed, small deviations in mean score" in repr(found)


@pytest.mark.slow
def test_events_are_selected_once(events: ist.Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check gets the same events, and each finds what it finds by itself."""
    calls = []

    def count(*arguments: Any, **options: Any) -> ValidationEvents:
        calls.append(options["check"])
        return select_events(*arguments, **options)

    # By the function's globals, because the package's attribute of that name is the function.
    monkeypatch.setitem(inspect.unwrap(diagnose).__globals__, "select_events", count)
    found = diagnose(dirichlet(), events, seed=4)
    assert calls == ["diagnose"]
    assert found.mean_score is not None
    assert found.calibration is not None
    assert found.coverage is not None
    alone = ist.checks.mean_score(dirichlet(), events, seed=4)
    np.testing.assert_array_equal(found.mean_score.mean, alone.mean)
    alone = ist.checks.calibration(dirichlet(), events, seed=4)
    np.testing.assert_array_equal(found.calibration.observed, alone.observed)
    alone = ist.checks.coverage(dirichlet(), events, seed=4)
    np.testing.assert_array_equal(found.coverage.ranks, alone.ranks)


def test_direct_estimators_get_the_checks_they_can(events: ist.Events) -> None:
    score = diagnose(as_direct(ist.ScoreEstimator, dirichlet()), events)
    assert [finding.name for finding in score.findings] == ["mean score"]
    assert score.calibration is None
    ratio = diagnose(as_direct(ist.RatioEstimator, dirichlet()), events)
    assert [f.name for f in ratio.findings] == ["bounded identity", "mean ratio", "calibration"]
    assert ratio.mean_score is None


def test_events_outside_the_region_are_counted(events: ist.Events) -> None:
    region = Region(np.full(3, 1.0), np.full(3, 4.5), np.zeros(3), np.ones(3))
    found = diagnose(dataclasses.replace(dirichlet(), region=region), events)
    assert found.passed
    assert f"({found.dropped:,} outside the trained region were not used)" in found.summary()


def test_misuse_raises(events: ist.Events) -> None:
    with pytest.raises(TypeError, match="diagnose needs ist.Estimator or .* got ndarray"):
        diagnose(events.x, events)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="seed must be an int"):
        diagnose(dirichlet(), events, seed=1.5)  # pyright: ignore[reportArgumentType]


def test_grades() -> None:
    def grade(p_value: float, size: float, tests: int = 1) -> str:
        return Finding("a check", p_value, size, 0.1, "a description", tests).grade

    assert [grade(0.5, 9), grade(1e-9, 0.05), grade(1e-9, 0.2)] == ["good", "small", "wrong"]
    assert grade(float("nan"), 0.2) == "good"
    # Between the two: not proven, but rarer than one in twenty among so many tests.
    assert [grade(0.003, s, 7) for s in (0.05, 0.2)] == ["notable", "notable"]
    assert [grade(0.03, 0.2, n) for n in (1, 7)] == ["notable", "good"]
    assert combine_p_values(np.array([0.01, 0.5, np.nan])) == 0.02


def test_exact_estimators_are_seldom_called_notable() -> None:
    """In 5% of diagnoses at most, however many tests they have."""
    p_values = np.random.default_rng(1).uniform(size=(4000, 7))
    notable = 0
    for row in p_values:
        findings = judge_together([Finding("a check", p, 0.0, 1.0, "") for p in row])
        notable += any(finding.grade != "good" for finding in findings)
    assert abs(notable / 4000 - 0.05) < 0.01


def test_an_unproven_deviation_is_not_called_good(right: Diagnosis) -> None:
    """E[r] = 1.036 ± 0.011 among seven checks: neither a fault nor nothing."""
    found = right
    deviation = Finding("mean ratio", 0.003, 0.036, 0.1, "E[r] = 1.036 ± 0.011")
    findings = tuple(deviation if f.name == "mean ratio" else f for f in found.findings)
    notable = dataclasses.replace(found, findings=judge_together(findings))
    assert notable.passed
    assert "No fault proven, but mean ratio deviates notably" in notable.verdict
    assert "the smallest of 7 p-values is that small, 0.003, in 2.1%" in notable.verdict
    assert "passed, notable but unproven ones in mean ratio" in repr(notable)
    assert str(notable.findings[2]).startswith("mean ratio: notable; E[r] = 1.036")


def test_a_verdict_never_trusts_estimates_from_no_events() -> None:
    def found(bias: float, error: float) -> BiasOverTheta:
        one = np.ones((20, 1))
        return BiasOverTheta(("a",), one, bias * one, error * one, 3000.0)

    few = found(0.01, 0.01)
    assert few.trusted_events in (99, 100)  # 0.3 = (0.01 + 2 * 0.01) √100, but for rounding
    assert f"from up to {few.trusted_events} observed events" in few.describe(None)
    for none in (found(0.0, 0.2), found(0.5, 0.0)):
        assert none.trusted_events == 0
        assert "up to 0" not in none.describe(None)
        assert "the 3,000 events that measured it are too few" in none.describe(None)
        assert "Use ist.calibrated_fit" in none.describe(None)


def test_a_bias_that_decides_stands_before_what_is_good(right: Diagnosis) -> None:
    one = np.ones((20, 1))
    findings = [Finding(f.name, 1e-9, 0.01, 0.1, f.description) for f in right.findings[:1]]
    for bias, first in ((0.5, "For 40 events: biased"), (0.0, "Good for single events")):
        found = dataclasses.replace(
            right,
            findings=judge_together((*findings, *right.findings[1:])),
            bias=BiasOverTheta(("a",), one, bias * one, 0.1 * one, 3000.0),
            n_observed=40,
        )
        assert found.verdict.startswith(first)
        assert "Good for single events" in found.verdict


def test_the_same_advice_is_given_once(right: Diagnosis) -> None:
    wrong = {"SBC", "expected coverage"}
    findings = tuple(
        Finding(f.name, 1e-9, 1.0, 0.1, f.description) if f.name in wrong else f
        for f in right.findings
    )
    verdict = dataclasses.replace(right, findings=judge_together(findings)).verdict
    assert "it fails SBC, expected coverage. What to do: do not use its posteriors" in verdict
    assert verdict.count("do not use its posteriors") == 1


@pytest.mark.slow
def test_trust_ends_with_a_number_of_observed_events(events: ist.Events) -> None:
    right = diagnose(dirichlet(), events, n_observed=10)
    assert right.passed
    assert right.trusted_events is not None
    assert right.trusted_events >= 10
    assert "For 10 events: not biased" in right.verdict
    # By 20,000 events nothing can be said of 10,000 observed ones.
    many = diagnose(dirichlet(), events, n_observed=10_000)
    assert not many.passed
    assert "For 10,000 events: cannot be told" in many.verdict
    assert "NOT to be trusted for 10,000 events" in repr(many)
    # A mean score of 0.1 shifts an estimate by 0.3 standard errors for some ten events.
    wrong = diagnose(dirichlet(tilt=0.1), events, n_observed=400)
    assert wrong.trusted_events is not None
    assert wrong.trusted_events < 20
    assert "For 400 events: biased" in wrong.verdict
    with pytest.raises(ValueError, match="n_observed"):
        diagnose(dirichlet(), events, n_observed=0)
