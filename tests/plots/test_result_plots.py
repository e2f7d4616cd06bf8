"""Figures of results hold what the results hold."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import inferostatic as ist
from inferostatic.inference.likelihood.learned_bias import LearnedBias
from inferostatic.inference.likelihood.maximum_likelihood import MaximumLikelihood
from inferostatic.inference.likelihood.profile import Profile
from inferostatic.plots.names import show_name
from inferostatic.report.pictures import as_svg
from random_estimators import random_estimator

NAMES = ("mass [GeV]", r"$\alpha_s$")


def fit_at(theta: list[float], covariance: list[list[float]]) -> MaximumLikelihood:
    return MaximumLikelihood(
        np.array(theta), np.array(covariance), -1.0, valid=True, message="converged", names=NAMES
    )


FIT = fit_at([1.0, -2.0], [[0.04, 0.01], [0.01, 0.09]])


def panels_of(figure: Figure) -> list[Any]:
    as_svg(figure)  # it can be drawn
    return [axes for axes in figure.axes if axes.axison]


def test_the_figures_are_these() -> None:
    assert dir(ist.plots) == sorted(ist.plots.__all__)
    for name in dir(ist.plots):
        assert callable(getattr(ist.plots, name)), name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r"$\alpha_s$", r"$\alpha_s$"),
        ("m_Z", "m_Z"),
        ("5$ off", r"5\$ off"),
        (r"$\nonsense{$", r"\$\nonsense{\$"),
        ("a\nb", "a b"),
        ("x" * 40, "x" * 27 + "…"),
    ],
)
def test_names_are_drawn_as_mathematics_where_they_can_be(name, shown) -> None:
    assert show_name(name) == shown
    figure = Figure()
    figure.subplots().set_xlabel(show_name(name))
    assert b"<svg" in as_svg(figure)


def test_a_name_with_an_underscore_keeps_its_place_in_a_legend() -> None:
    outline = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    figure = ist.plots.contours({"_hidden": outline}, NAMES)
    legend: Any = figure.axes[0].get_legend()
    assert [text.get_text().strip("\u200b") for text in legend.get_texts()] == ["_hidden"]


# Corner ------------------------------------------------------------------------------------------


def test_a_fit_is_an_ellipse_of_its_covariance() -> None:
    figure = ist.plots.corner(FIT, truth={NAMES[0]: 1.1, NAMES[1]: -2.1})
    first, below, second = panels_of(figure)
    inner, outer = (np.array(line.get_data()).T for line in below.lines[:2])
    for outline, level in ((inner, 0.68), (outer, 0.95)):
        away = outline - FIT.theta
        chi2 = np.einsum("ni,ij,nj->n", away, np.linalg.inv(FIT.covariance), away)
        np.testing.assert_allclose(chi2, -2 * np.log(1 - level))
    x, y = first.lines[0].get_data()
    assert np.asarray(x)[np.argmax(y)] == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(np.trapezoid(y, x), 1.0, atol=0.01)
    assert below.get_xlabel() == NAMES[0]
    assert below.get_ylabel() == NAMES[1]
    assert second.lines[-1].get_xdata()[0] == -2.1


def test_outlines_of_samples_hold_what_they_say() -> None:
    samples = np.random.default_rng(1).normal(size=(20_000, 2)) * [1.0, 2.0]
    figure = ist.plots.corner(samples, names=["a", "b"])
    below = panels_of(figure)[1]
    lines = below.collections[0]
    radii = [
        np.hypot(*(path.vertices / [1.0, 2.0]).T).mean()
        for path in lines.get_paths()
        if len(path.vertices)
    ]
    expected = [np.sqrt(-2 * np.log(1 - level)) for level in (0.95, 0.68)]
    np.testing.assert_allclose(sorted(radii, reverse=True), expected, rtol=0.06)


def test_several_results_share_a_corner() -> None:
    wider = fit_at([1.0, -2.0], [[0.16, 0.0], [0.0, 0.09]])
    figure = ist.plots.corner({"one": FIT, "two": wider})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    colours = [line.get_color() for line in panels_of(figure)[0].lines]
    assert len(set(colours)) == 2


def test_fixed_parameters_are_left_out() -> None:
    fixed = fit_at([1.0, -2.0], [[0.04, 0.0], [0.0, 0.0]])
    assert len(panels_of(ist.plots.corner(fixed))) == 1
    with pytest.raises(ValueError, match="Choose by parameters="):
        ist.plots.corner(fixed, parameters=[NAMES[1]])


def test_a_corner_explains_what_does_not_match() -> None:
    with pytest.raises(TypeError, match="names= of their columns; got ndarray of shape"):
        ist.plots.corner(np.zeros((10, 2)))
    with pytest.raises(TypeError, match="got str"):
        ist.plots.corner("posterior", names=["a"])
    with pytest.raises(ValueError, match="at least one result"):
        ist.plots.corner({})
    many = np.random.default_rng(1).normal(size=(50, 12))
    with pytest.raises(ValueError, match="1 to 10 different parameters"):
        ist.plots.corner(many, names=list("abcdefghijkl"))
    two = {"samples": many[:, :2]}
    with pytest.raises(ValueError, match="1 to 10 different parameters among a, b; got a, a"):
        ist.plots.corner(two, names=["a", "b"], parameters=["a", "a"])
    with pytest.raises(TypeError, match="parameters must be a list of names, got str"):
        ist.plots.corner(two, names=["a", "b"], parameters="ab")
    with pytest.raises(ValueError, match="truth has values of mass, and the figure shows a, b"):
        ist.plots.corner(two, names=["a", "b"], truth={"mass": 1.0})


# Intervals, pulls, bias --------------------------------------------------------------------------


def test_intervals_stand_in_rows() -> None:
    figure = ist.plots.intervals({"one": FIT, "two": FIT}, truth={NAMES[0]: 1.1})
    first, second = panels_of(figure)
    labels = [text.get_text() for text in first.get_yticklabels()]
    assert labels == ["one", "two"]
    bar = first.containers[0].lines[0]
    assert bar.get_xdata()[0] == 1.0
    (ends,) = first.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose(ends[:, 0], [0.8, 1.2])
    assert len(second.lines) < len(first.lines)  # the truth of one parameter alone
    with pytest.raises(TypeError, match="expected a fit"):
        ist.plots.intervals({"a": np.zeros(3)})  # type: ignore[dict-item]


def test_pulls_are_normalised_and_described() -> None:
    values = np.random.default_rng(1).normal(size=(4000, 2)) * [1.0, 2.0] + [0.0, 1.0]
    first, second = panels_of(ist.plots.pulls(values, NAMES))
    mean, width = values[:, 1].mean(), values[:, 1].std(ddof=1)
    assert second.get_title().startswith(f"mean {mean:.2f} ± 0.03, width {width:.2f} ± 0.02")
    density, edges, _ = first.patches[0].get_data()
    assert np.sum(density * np.diff(edges)) == pytest.approx(1.0, abs=0.01)
    with pytest.raises(ValueError, match="expected 1 names, got"):
        ist.plots.pulls(values[:, :1], NAMES)


def test_the_learned_bias_shows_its_error() -> None:
    bias = LearnedBias(
        NAMES, np.zeros(2), np.array([0.1, -1.0]), np.array([0.05, np.inf]), 100.0, 1000.0
    )
    figure = ist.plots.learned_bias(bias)
    (axes,) = panels_of(figure)
    assert axes.get_title() == bias.verdict
    np.testing.assert_array_equal(axes.containers[0].lines[0].get_xdata(), bias.bias)
    with pytest.raises(TypeError, match=r"\.bias of a result, got NoneType|got None"):
        ist.plots.learned_bias(None)  # type: ignore[arg-type]


# Scans -------------------------------------------------------------------------------------------


def test_a_scan_is_drawn_in_order_with_its_crossings() -> None:
    values = np.array([2.0, 0.0, 1.0, 3.0])
    scan = Profile("a", values, np.zeros((4, 1)), (values - 1) ** 2)
    (axes,) = panels_of(ist.plots.likelihood_scan({"fit": scan}, truth={"a": 1.2}))
    x, q = axes.lines[0].get_data()
    np.testing.assert_array_equal(x, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(q, [1.0, 0.0, 1.0, 4.0])
    assert [text.get_text() for text in axes.texts] == ["68%", "95%"]
    with pytest.raises(TypeError, match="confidence set of one parameter, got MaximumLikelihood"):
        ist.plots.likelihood_scan(FIT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="two parameters, got MaximumLikelihood"):
        ist.plots.confidence_region(FIT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="result of ist.upper_limit"):
        ist.plots.limit_scan(FIT)  # type: ignore[arg-type]


# Observables -------------------------------------------------------------------------------------


def test_simulations_have_the_normalisation_of_the_data() -> None:
    rng = np.random.default_rng(1)
    data, simulated = rng.normal(size=(300, 2)), rng.normal(size=(5000, 2))
    figure = ist.plots.data_against_simulation(data, {"here": simulated}, ["pt", "eta"])
    upper = [axes for axes in panels_of(figure) if axes.get_ylabel() == "events per bin"][0]
    drawn = upper.patches[0].get_data().values.sum()
    assert drawn == pytest.approx(300, rel=0.01)
    points = upper.containers[0].lines[0].get_ydata()
    assert 290 <= points.sum() <= 300
    with pytest.raises(ValueError, match="2 observables and 'here' has 1"):
        ist.plots.data_against_simulation(data, {"here": simulated[:, :1]})


def test_whole_numbers_have_bins_of_their_own() -> None:
    counts = np.random.default_rng(1).poisson(3.0, size=(500, 1))
    figure = ist.plots.data_against_simulation(counts, {"same": counts}, ["n"])
    edges = panels_of(figure)[0].patches[0].get_data().edges
    np.testing.assert_array_equal(np.diff(edges), 1.0)
    np.testing.assert_array_equal(edges % 1, 0.5)


def test_counts_in_pairs_have_no_empty_bins_between_them() -> None:
    counts = 2 * np.random.default_rng(1).poisson(6.0, size=(500, 1)) + 1
    figure = ist.plots.data_against_simulation(counts, {"same": counts}, ["n"])
    drawn = panels_of(figure)[0].patches[0].get_data()
    np.testing.assert_array_equal(np.diff(drawn.edges), 2.0)
    np.testing.assert_array_equal(drawn.edges % 2, 0.0)
    assert drawn.values.sum() >= 498


def test_the_score_is_drawn_for_every_observable() -> None:
    estimator = random_estimator(ist.Potential(ist.MLP((4,))))
    rng = np.random.default_rng(1)
    events = ist.Events(x=rng.uniform(-2, 2, size=(400, 3)), theta=[1.0, 0.0])
    panels = panels_of(ist.plots.score_by_observable(estimator, events))
    assert [axes.get_xlabel() for axes in panels] == ["pt", "eta", "phi"]
    assert len(panels[0].lines) == 2
    # Bins hold equal numbers of events, so the mean of their means is the mean.
    score = estimator.score(events.x, [2.0, 0.0])
    drawn = [np.mean(line.get_ydata()) for line in panels[0].lines]
    np.testing.assert_allclose(drawn, score.mean(axis=0), atol=0.05 * np.abs(score).max())
    ratio = random_estimator(ist.DirectRatio(ist.MLP((4,))))
    with pytest.raises(TypeError, match="must offer a score, got RatioEstimator"):
        ist.plots.score_by_observable(ratio, events)
    with pytest.raises(TypeError, match="events must be ist.Events, got ndarray"):
        ist.plots.score_by_observable(estimator, events.x)  # type: ignore[arg-type]


def test_the_score_is_drawn_at_every_value_of_a_category_and_of_a_count() -> None:
    estimator = random_estimator(ist.Potential(ist.MLP((4,))))
    rng = np.random.default_rng(1)
    counts = np.minimum(rng.poisson(1.0, 400), 2)
    x = np.stack([rng.random(400) < 0.3, counts, np.arange(400) == 7], axis=1)
    events = ist.Events(x=x.astype(float), theta=[1.0, 0.0])
    panels = panels_of(ist.plots.score_by_observable(estimator, events))
    score = estimator.score(events.x, [2.0, 0.0])
    for k, axes in enumerate(panels):
        values = np.unique(events.x[:, k])
        for j, line in enumerate(axes.lines):
            np.testing.assert_array_equal(line.get_xdata(), values)
            means = [score[events.x[:, k] == value, j].mean() for value in values]
            np.testing.assert_allclose(line.get_ydata(), means, rtol=1e-6)


def test_dense_figures_become_pictures_of_points() -> None:
    from inferostatic.report.pictures import is_dense

    assert not is_dense(ist.plots.corner(FIT))
    figure = Figure()
    figure.subplots().plot(np.arange(20_000), "o")
    assert is_dense(figure)
