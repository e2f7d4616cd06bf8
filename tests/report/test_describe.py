"""Every kind of result becomes sections, which say what the result says."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.checks.learned_bias import BiasOverTheta
from inferostatic.inference.likelihood.learned_bias import LearnedBias
from inferostatic.report.describe import describe
from inferostatic.report.section import Cell, Level, Mark, Section, Table
from inferostatic.report.section_files import load_sections, save_sections
from report_results import EVIL, NAMES, TRUTH


def column(table: Table, name: str) -> list:
    index = list(table.header).index(name)
    values = [row[index] for row in table.rows]
    return [value.value if isinstance(value, Cell) else value for value in values]


@pytest.mark.parametrize(
    ("kind", "titles", "level"),
    [
        ("events", ["Events", "Prior"], None),
        ("prior", ["Prior"], None),
        ("estimator", ["Estimator", "Training"], None),
        ("diagnosis", ["Diagnosis"], Level.GOOD),
        ("coverage", ["Coverage"], Level.GOOD),
        ("fit", ["Maximum likelihood"], Level.CAUTION),
        ("calibrated", ["Calibrated fit"], Level.CAUTION),  # by 3,000 events for 200
        ("set", ["Confidence set"], Level.CAUTION),
        ("interval", ["Confidence set"], Level.CAUTION),
        ("limit", [f"Upper limit of {NAMES[0]}"], Level.CAUTION),
        ("posterior", ["Posterior"], Level.CAUTION),
        ("reweighting", ["Reweighting"], Level.GOOD),
        ("closure", ["Closure"], Level.GOOD),
        ("information", ["Fisher information"], Level.GOOD),
    ],
)
def test_each_result_has_its_sections(results, kind, titles, level) -> None:
    sections = describe(results[kind])
    assert [section.title for section in sections] == titles
    found = sections[0].verdict
    assert (None if found is None else found.level) is level
    assert all(section.tables for section in sections)
    assert all(item.caption for section in sections for item in section.figures)


def test_the_numbers_are_those_of_the_result(results) -> None:
    fit = results["fit"]
    (section,) = describe(fit, title="My fit", truth=TRUTH)
    assert section.title == "My fit"
    table = section.tables[0]
    np.testing.assert_allclose(column(table, "estimate"), fit.theta)
    pulls = (fit.theta - list(TRUTH.values())) / fit.errors
    np.testing.assert_allclose(column(table, "pull"), pulls)
    (section,) = describe(results["limit"])
    limits = [results["limit"].observed, *results["limit"].expected]
    np.testing.assert_allclose(column(section.tables[0], f"limit of {NAMES[0]}"), limits)
    (section,) = describe(results["posterior"])
    np.testing.assert_allclose(column(section.tables[0], "mean"), results["posterior"].mean)


@pytest.mark.parametrize(
    ("bias", "error", "level"),
    [(0.0, 1e-4, Level.GOOD), (0.1, 1e-3, Level.BAD), (0.01, 0.1, Level.CAUTION)],
)
def test_a_diagnosis_is_bad_only_where_something_is_proven(results, bias, error, level) -> None:
    """For 100 events: not biased, biased by one standard error, and not known."""
    names, shape = results["diagnosis"].bias.names, results["diagnosis"].bias.bias.shape
    measured = BiasOverTheta(
        names, np.zeros(shape), np.full(shape, bias), np.full(shape, error), 1e4
    )
    found = dataclasses.replace(results["diagnosis"], bias=measured, n_observed=100)
    verdict = describe(found)[0].verdict
    assert verdict is not None
    assert verdict.level is level


@pytest.mark.parametrize("kind", ["fit", "calibrated", "posterior"])
def test_intervals_have_the_level_that_was_asked_for(results, kind) -> None:
    (section,) = describe(results[kind], level=0.95)
    (table,) = [one for one in section.tables if "95% from" in one.header]
    ends = results[kind].interval(0.95)
    np.testing.assert_allclose(column(table, "95% from"), ends[:, 0])
    np.testing.assert_allclose(column(table, "to"), ends[:, 1])
    headers = [name for one in describe(results[kind])[0].tables for name in one.header]
    assert "95% from" not in headers
    assert ("68% from" in headers) == (kind != "fit")
    with pytest.raises(ValueError, match="level"):
        describe(results[kind], level=1.5)


def test_verdicts_follow_the_result(results) -> None:
    broken = dataclasses.replace(results["fit"], valid=False, message="no minimum")
    verdict = describe(broken)[0].verdict
    assert verdict is not None
    assert verdict.level is Level.BAD
    assert "did not converge" in verdict.text
    far = dataclasses.replace(results["calibrated"], p_value=1e-5)
    verdict = describe(far)[0].verdict
    assert verdict is not None
    assert verdict.level is Level.BAD
    assert "At the estimate the observed events are not like" in verdict.text
    for more, advised in ((0.04, False), (3.0, True)):  # √0.04 = 0.2, √3 = 1.7
        few = results["calibrated"]
        few = dataclasses.replace(few, p_value=0.5, covariance=few.statistical * (1 + more))
        verdict = describe(few)[0].verdict
        assert verdict is not None
        assert ("an error of 1.7 times the statistical one" in verdict.text) == advised
        assert verdict.level is (Level.CAUTION if advised else Level.GOOD)
    not_closing = dataclasses.replace(results["closure"], auc=0.7)
    verdict = describe(not_closing)[0].verdict
    assert verdict is not None
    assert verdict.level is Level.BAD


def test_a_measured_bias_decides(results) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = ist.measure_bias(results["estimator"], results["events"])
        fit = ist.maximum_likelihood(known, results["events"].x[:100] * 0 + [0.4, -0.3])
    assert fit.bias is not None
    for shift, level in ((0.0, Level.GOOD), (5.0, Level.BAD)):
        bias = dataclasses.replace(
            fit.bias, bias=np.full(2, shift), error=np.full(2, 0.01), events=10_000.0
        )
        section = describe(dataclasses.replace(fit, bias=bias))[0]
        assert section.verdict is not None
        assert section.verdict.level is level
        assert column(section.tables[-1], "bias") == [shift, shift]


def test_each_parameter_is_marked_by_its_own_bias(results) -> None:
    bias = LearnedBias(
        NAMES,
        shift=np.zeros(2),
        bias=np.array([-6.4, -0.5]),
        error=np.array([1.6, 1.8]),
        observed=150,
        events=250,
    )
    assert bias.verdict == "biased"
    assert bias.verdicts == ("biased", "cannot be told")
    (section,) = describe(dataclasses.replace(results["fit"], bias=bias))
    marks = [one.mark for row in section.tables[-1].rows for one in row if isinstance(one, Cell)]
    assert marks == [Mark.BAD, Mark.NOTE]


def test_a_bias_that_was_not_measured_is_told_once_with_what_to_do(results) -> None:
    (section,) = describe(results["fit"])
    assert section.verdict is not None
    assert "Whether it is biased was not measured: ist.measure_bias" in section.verdict.text
    assert "measure" not in section.text


def test_the_card_does_not_deny_a_diagnosis_that_follows_it(results) -> None:
    card = describe(results["estimator"])[0].tables[1]
    assert "diagnosis" not in [row[0] for row in card.rows]
    diagnosed = results["estimator"].with_diagnosis(results["diagnosis"])
    card = describe(diagnosed)[0].tables[1]
    assert "diagnosis" in [row[0] for row in card.rows]


def test_a_set_by_toys_is_drawn_as_a_band_without_the_lines_of_wilks(results) -> None:
    by_toys = dataclasses.replace(results["interval"], method="neyman")
    axes = ist.plots.likelihood_scan(by_toys).axes[0]
    assert [text.get_text() for text in axes.texts] == []
    (band,) = axes.patches
    ends = axes.transData.inverted().transform(band.get_window_extent())[:, 0]
    assert ends == pytest.approx(by_toys.hull()[0])
    assert "band" in describe(by_toys)[0].figures[0].caption
    both = ist.plots.likelihood_scan({"toys": by_toys, "Wilks": results["interval"]}).axes[0]
    assert [text.get_text() for text in both.texts] == ["68%", "95%"]


def test_fixed_parameters_have_no_error(results) -> None:
    (section,) = describe(results["fit"])
    assert "fixed" not in column(section.tables[0], "standard error")
    free = np.array([[1.0, 0.0], [0.0, 0.0]])
    (section,) = describe(dataclasses.replace(results["fit"], covariance=free), truth=TRUTH)
    assert column(section.tables[0], "standard error") == [1.0, "fixed"]
    assert column(section.tables[0], "pull")[1] is None


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(TypeError, match="a posterior, a reweighting, or sections; got ndarray"):
        describe(np.zeros(3))
    with pytest.raises(TypeError, match="needs something to report"):
        ist.report("report.html")


def test_a_page_of_everything(results, tmp_path) -> None:
    extra = Section("In the end", "All is said.")
    path = ist.report(tmp_path / "new" / "report.html", *results.values(), extra, title="All")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 3e6
    assert "All is said." in text
    assert "&lt;script&gt;document.title" in text
    assert EVIL not in text
    assert f"inferostatic</th><td>{ist.__version__}" in text


# Files -------------------------------------------------------------------------------------------


def test_sections_come_back_from_files(results, tmp_path) -> None:
    sections = [one for name in results for one in describe(results[name])]
    nan = Table(["a", "b"], [[float("nan"), Cell(np.float64("-inf"))], [True, "nan"]])
    sections.append(Section("Numbers", tables=[nan]))
    save_sections(sections, tmp_path)
    loaded = load_sections(tmp_path)
    for one, other in zip(sections, loaded, strict=True):
        assert (one.title, one.text, one.verdict) == (other.title, other.text, other.verdict)
        for a, b in zip(one.tables, other.tables, strict=True):
            assert (list(a.header), a.caption) == (list(b.header), b.caption)
            if one.title != "Numbers":
                assert [list(row) for row in a.rows] == [list(row) for row in b.rows]
        for item, again in zip(one.figures, other.figures, strict=True):
            assert item.caption == again.caption
            assert isinstance(again.figure, bytes)
            assert again.width
    rows: Any = loaded[-1].tables[0].rows
    assert np.isnan(rows[0][0])
    assert rows[0][1] == float("-inf")
    assert rows[1] == (True, "nan")


def test_equal_sections_are_equal_bytes(results, tmp_path) -> None:
    for folder in ("one", "two", "two"):
        save_sections(describe(results["diagnosis"]), tmp_path / folder)
    found = [
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("one", "two")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 1 + len(describe(results["diagnosis"])[0].figures)
    # What was loaded is written as it was.
    save_sections(load_sections(tmp_path / "one"), tmp_path / "three")
    again = {path.name: path.read_bytes() for path in (tmp_path / "three").iterdir()}
    assert again == found[0]


def test_figures_that_are_no_longer_needed_go(results, tmp_path) -> None:
    (tmp_path / "mine.svg").write_text("<svg/>")
    save_sections(describe(results["diagnosis"]), tmp_path)
    save_sections([Section("A")], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.svg", "sections.json"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format": 1', '"format": 2', "reads format 1"),
        ('"file": "figure-', '"file": "../figure-', "no name of a figure"),
        ('"title"', '"titel"', "KeyError"),
        ('"level": "good"', '"level": "great"', "great"),
        ("{", "", "is damaged"),
    ],
)
def test_files_that_are_not_sections_are_refused(results, tmp_path, old, new, message) -> None:
    path = save_sections(describe(results["diagnosis"]), tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        load_sections(tmp_path)


# Figures -----------------------------------------------------------------------------------------


def test_figures_of_real_results_hold_their_numbers(results) -> None:
    limit = results["limit"]
    axes: Any = ist.plots.limit_scan(limit).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    for name, curve, end in (
        ("observed", limit.scan, limit.observed),
        ("expected", limit.expected_scan[:, 2], limit.expected[2]),
    ):
        x, y = lines[name].get_data()
        shown = np.interp(limit.values, x, y)
        np.testing.assert_allclose(shown, curve, atol=1e-9)
        assert np.interp(end, x, y) == pytest.approx(0.05)
    assert f"{limit.observed:.4g}" in axes.get_title()
    axes = ist.plots.confidence_region(results["set"], truth=TRUTH).axes[0]
    assert axes.get_xlabel() == NAMES[0]
    outline = axes.collections[-1].get_paths()[0].vertices
    p_values = [results["set"].p_value_at(point) for point in outline[::20]]
    np.testing.assert_allclose(p_values, 1 - 0.68, atol=0.03)
    scan = ist.plots.likelihood_scan(results["interval"])
    assert scan.axes[0].get_xlabel() == NAMES[0]
    coverage = results["coverage"]
    axes = ist.plots.coverage(coverage).axes[0]
    drawn = axes.containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, coverage.expected)
    for draw in (ist.plots.coverage, ist.plots.ranks, ist.plots.calibration, ist.plots.mean_score):
        with pytest.raises(TypeError, match="got Posterior"):
            draw(results["posterior"])


def test_reweighted_events_are_like_direct_ones(results) -> None:
    found = results["reweighting"]
    rng = np.random.default_rng(9)
    direct = rng.normal(size=(4000, 2)) + [0.8, 0.2]
    panels: list[Any] = ist.plots.reweighting(found, direct).axes
    points = panels[0].containers[0].lines[0].get_ydata()
    after, before = (patch.get_data().values for patch in panels[0].patches[:2])
    some = slice(8, 22)
    assert np.abs(after[some] / points[some] - 1).mean() < 0.12
    assert np.abs(before[some] / points[some] - 1).mean() > 0.15
    with pytest.raises(ValueError, match="2 observables"):
        ist.plots.reweighting(found, direct[:, :1])
