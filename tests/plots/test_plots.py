import io
import subprocess
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LogNorm, to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import inferostatic as ist
from inferostatic import plots

ERRORS = {
    "KLRE Dir.": np.array([16.7, 15.1, 18.2, 17.0, 16.0]),
    "CARL ISN": np.array([3.3, 3.1, 3.6, 2.9, 3.2]),
    "KSE ISN": np.array([3.7, 3.5, 4.4, 3.6, 9.0]),
    "CARL Dir.": np.array([5.8, 5.2, 6.6, 6.0, 5.5]),
}
STANDARD_ERRORS = {name: 0.01 * values + 0.02 for name, values in ERRORS.items()}
ODD_SETTINGS: Any = {
    "font.size": 30.0,
    "axes.facecolor": "red",
    "axes.grid": True,
    "lines.linewidth": 9.0,
    "xtick.labelsize": 30.0,
    "xtick.minor.visible": True,
    "ytick.direction": "in",
    "grid.linestyle": ":",
}
BY_MEDIAN = ["CARL ISN", "KSE ISN", "CARL Dir.", "KLRE Dir."]


def draw(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=50)
    return stream.getvalue()


def bars_of(axes: Axes) -> list[ErrorbarContainer]:
    return [c for c in axes.containers if isinstance(c, ErrorbarContainer)]


def mesh_of(axes: Axes) -> QuadMesh:
    (mesh,) = (c for c in axes.collections if isinstance(c, QuadMesh))
    return mesh


def ys(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def tick_names(axes: Axes) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in axes.get_xticklabels()]


@pytest.mark.parametrize(
    "figure",
    [
        plots.dirichlet_triangles(),
        plots.dirichlet_triangles([0.5, 0.8, 2.0]),
        plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="Task 3"),
        plots.true_against_predicted(np.arange(9.0), np.arange(9.0)),
        plots.true_against_predicted(np.zeros(4), np.zeros(4)),
        plots.training_history([3.0, 2.0, 1.5], [3.1, 2.2, 1.7]),
        plots.training_history([3.0]),
    ],
)
def test_figures_can_be_drawn_without_a_display(figure):
    assert draw(figure).startswith(b"\x89PNG")


def test_nothing_global_is_touched():
    code = (
        "import sys, matplotlib\n"
        # Looking up the backend would itself load pyplot.
        "settings = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams"
        " if k != 'backend'}\n"
        "before = settings()\n"
        "from inferostatic import plots; plots.dirichlet_triangles()\n"
        "assert settings() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_look_does_not_depend_on_the_settings_of_the_user():
    plain = draw(plots.training_history([3.0, 2.0]))
    with mpl.rc_context(ODD_SETTINGS):
        assert draw(plots.training_history([3.0, 2.0])) == plain


# Dirichlet ---------------------------------------------------------------------------------------


def test_triangles_have_a_panel_each_and_a_colour_bar():
    figure = plots.dirichlet_triangles()
    *panels, bar = figure.axes
    assert [panel.get_title() for panel in panels] == [
        r"$\theta = (1, 2, 2)$",
        r"$\theta = (1.5, 3, 5)$",
        r"$\theta = (3, 3, 3)$",
    ]
    assert "density" in bar.get_ylabel()
    for panel in panels:
        assert [text.get_text() for text in panel.texts] == ["$x_1$", "$x_2$", "$x_3$"]
        assert panel.images[0].get_clip_path() is not None
        assert panel.images[0].get_clim() == panels[0].images[0].get_clim()


def image_on_simplex(theta: list[float]) -> tuple[np.ndarray, np.ndarray]:
    (panel, _) = plots.dirichlet_triangles(theta, resolution=300).axes
    density = np.asarray(panel.images[0].get_array())
    rows, columns = density.shape
    x3 = (np.arange(rows)[:, None] + 0.5) / rows
    x2 = (np.arange(columns)[None, :] + 0.5) / columns - x3 / 2
    x3 = np.broadcast_to(x3, x2.shape)
    simplex = np.stack([1 - x2 - x3, x2, x3], axis=-1)
    inside = (simplex > 0).all(axis=-1)
    return simplex[inside], density[inside]


def test_triangle_shows_the_dirichlet_density():
    x, density = image_on_simplex([1.5, 3.0, 5.0])
    # The triangle has area 1/2 in (x1, x2).
    assert density.mean() / 2 == pytest.approx(1.0, abs=2e-3)
    mean = (x * density[:, None]).mean(axis=0) / density.mean()
    np.testing.assert_allclose(mean, np.array([1.5, 3.0, 5.0]) / 9.5, atol=2e-3)
    mode = np.array([0.5, 2.0, 4.0]) / 6.5
    np.testing.assert_allclose(x[density.argmax()], mode, atol=5e-3)


def test_diverging_density_is_cut_and_the_bar_says_so():
    (panel, _) = plots.dirichlet_triangles([0.5, 2.0, 2.0]).axes
    shown = np.asarray(panel.images[0].get_array())
    assert np.isfinite(shown).all()
    assert panel.images[0].norm.vmax < shown.max()
    assert panel.images[0].colorbar is not None
    assert panel.images[0].colorbar.extend == "max"


@pytest.mark.parametrize("thetas", [[1.0, 2.0], [1.0, -2.0, 3.0], [[1.0, 2.0, 3.0, 4.0]]])
def test_triangles_refuse_other_parameters(thetas):
    with pytest.raises(ValueError, match="three positive numbers"):
        plots.dirichlet_triangles(thetas)


# Errors ------------------------------------------------------------------------------------------


def test_networks_stand_in_the_order_of_their_median():
    figure = plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="Task 3")
    (axes,) = figure.axes
    assert tick_names(axes) == BY_MEDIAN
    assert [bar.get_label() for bar in bars_of(axes)] == BY_MEDIAN
    assert axes.get_title() == "Task 3"


def test_points_and_error_bars_are_those_given():
    (axes,) = plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="").axes
    for column, bar in enumerate(bars_of(axes)):
        name = BY_MEDIAN[column]
        points, _, (segments,) = bar.lines
        assert points is not None
        np.testing.assert_allclose(ys(points), ERRORS[name])
        assert np.all(np.abs(np.asarray(points.get_xdata()) - column) < 0.5)
        ends = np.array(segments.get_segments())[:, :, 1]
        np.testing.assert_allclose(ends[:, 0], ERRORS[name] - STANDARD_ERRORS[name])
        np.testing.assert_allclose(ends[:, 1], ERRORS[name] + STANDARD_ERRORS[name])


def test_kinds_of_network_differ_in_colour_and_marker():
    (axes,) = plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="").axes
    looks = {}
    for bar in bars_of(axes):
        points = bar.lines[0]
        assert points is not None
        looks[bar.get_label()] = (to_hex(points.get_color()), points.get_marker())
    assert looks["CARL ISN"] == looks["KSE ISN"]
    assert looks["CARL Dir."] == looks["KLRE Dir."]
    assert looks["CARL ISN"][0] != looks["CARL Dir."][0]
    assert looks["CARL ISN"][1] != looks["CARL Dir."][1]


def test_direct_networks_can_be_named():
    one = {"a": [1.0, 2.0], "b": [2.0, 3.0]}
    figure = plots.error_by_instance(one, one, title="", direct=["b"])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ISN", "direct", "median"]
    first, second = bars_of(figure.axes[0])
    assert first.lines[0] is not None
    assert second.lines[0] is not None
    assert first.lines[0].get_marker() != second.lines[0].get_marker()


def test_published_medians_are_marked_at_their_place():
    published = {"CARL ISN": 3.272, "KLRE Dir.": 16.721}
    figure = plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="", published=published)
    (axes,) = figure.axes
    lines = [
        segment
        for collection in axes.collections
        if isinstance(collection, LineCollection)
        for segment in np.array(collection.get_segments())
        if segment[0, 1] == segment[1, 1]
    ]
    for name, value in published.items():
        column = BY_MEDIAN.index(name)
        (mark,) = [line for line in lines if line[0, 1] == value]
        assert mark[0, 0] < column < mark[1, 0]
    medians = [float(np.median(ERRORS[name])) for name in BY_MEDIAN]
    assert {line[0, 1] for line in lines} == {*medians, *published.values()}
    (legend,) = figure.legends
    assert legend.get_texts()[-1].get_text() == "published median"


def test_axis_starts_at_zero_or_is_logarithmic():
    (axes,) = plots.error_by_instance(ERRORS, STANDARD_ERRORS, title="").axes
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] == 0.0
    wide = {**ERRORS, "KCE ISN": np.full(5, 0.2)}
    bars = {**STANDARD_ERRORS, "KCE ISN": np.full(5, 0.01)}
    (axes,) = plots.error_by_instance(wide, bars, title="").axes
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] < 0.2
    assert axes.get_ylim()[1] > 18.2


def test_error_figure_explains_what_does_not_match():
    good = {"a": np.ones(5)}
    with pytest.raises(ValueError, match="same networks"):
        plots.error_by_instance(good, {"b": np.ones(5)}, title="")
    with pytest.raises(ValueError, match="expected 5 numbers"):
        plots.error_by_instance(good, {"a": np.ones(4)}, title="")
    with pytest.raises(ValueError, match=r"first at index \(2,\)"):
        plots.error_by_instance({"a": [1.0, 1.0, np.nan]}, {"a": np.ones(3)}, title="")
    with pytest.raises(ValueError, match="not among the networks"):
        plots.error_by_instance(good, good, title="", published={"c": 1.0})
    with pytest.raises(ValueError, match="at least one network"):
        plots.error_by_instance({}, {}, title="")


# Truth against prediction ------------------------------------------------------------------------


def test_one_heat_map_for_each_column_with_its_diagonal():
    rng = np.random.default_rng(1)
    true = rng.normal(size=(20_000, 3))
    predicted = true + 0.1 * rng.normal(size=true.shape)
    names = ["first", "second", "third"]
    figure = plots.true_against_predicted(true, predicted, names=names, label="score")
    *panels, bar = figure.axes
    assert [panel.get_title() for panel in panels] == names
    assert panels[0].get_ylabel() == "predicted score"
    assert "events" in bar.get_ylabel()
    for panel in panels:
        assert panel.get_xlabel() == "true score"
        (diagonal,) = panel.get_lines()
        np.testing.assert_array_equal(diagonal.get_xdata(), ys(diagonal))
        assert tuple(np.asarray(diagonal.get_xdata())) == panel.get_xlim() == panel.get_ylim()
        assert isinstance(mesh_of(panel).norm, LogNorm)
        assert mesh_of(panel).get_rasterized()


def test_every_event_is_in_the_map_or_counted_beside_it():
    rng = np.random.default_rng(2)
    true = rng.standard_cauchy(10_000)
    figure = plots.true_against_predicted(true, true, label="log ratio")
    panel, _ = figure.axes
    shown = np.ma.sum(np.ma.asarray(mesh_of(panel).get_array()))
    beyond = 100 * (1 - shown / true.size)
    assert 0 < beyond < 0.2
    assert panel.texts[0].get_text() == f"{beyond:.2g}% outside"


def test_truth_is_along_x_and_empty_cells_are_blank():
    true = np.repeat([0.0, 1.0], 500)
    predicted = np.zeros(1000)
    panel, _ = plots.true_against_predicted(true, predicted, bins=10).axes
    counts = np.ma.asarray(mesh_of(panel).get_array())
    assert counts.count() == 2
    rows, columns = np.nonzero(counts.filled(0))
    assert len(set(rows)) == 1
    assert sorted(columns) == [0, 9]


def test_comparison_explains_what_does_not_match():
    with pytest.raises(ValueError, match=r"got \(3,\) and \(4,\)"):
        plots.true_against_predicted(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match=r"1 of 3 entries.*index \(1,\)"):
        plots.true_against_predicted(np.zeros(3), [0.0, np.inf, 0.0])
    with pytest.raises(ValueError, match="expected 2 names"):
        plots.true_against_predicted(np.zeros((3, 2)), np.zeros((3, 2)), names=["a"])


# Training ----------------------------------------------------------------------------------------


def test_history_shows_members_and_their_median():
    rng = np.random.default_rng(3)
    train = 1.0 + rng.random((5, 20))
    validation = train + 0.1
    figure = plots.training_history(train, validation, title="KSE", truth=0.9)
    (axes,) = figure.axes
    lines = axes.get_lines()
    assert len(lines) == 2 * (5 + 1) + 1
    np.testing.assert_array_equal(np.array([ys(line) for line in lines[:5]]), train)
    np.testing.assert_array_equal(lines[0].get_xdata(), np.arange(1, 21))
    np.testing.assert_allclose(ys(lines[5]), np.median(train, axis=0))
    np.testing.assert_allclose(ys(lines[11]), np.median(validation, axis=0))
    np.testing.assert_array_equal(ys(lines[12]), [0.9, 0.9])
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "training, median of 5",
        "validation, median of 5",
        "truth",
    ]


def test_a_history_is_drawn_as_it_is() -> None:
    losses = np.array([[3.0, 4.0], [2.0, 2.5], [1.5, 2.6]])
    nothing = np.full_like(losses, np.nan)
    best = np.array([3, 2])
    for validation, given in ((losses + 0.1, (losses.T + 0.1,)), (nothing, ())):
        history = ist.History(losses, validation, np.ones(3), best, "all 3 epochs were run")
        drawn = draw(plots.training_history(history))
        assert drawn == draw(plots.training_history(losses.T, *given, best_epoch=[3, 2]))


def test_history_of_members_that_stopped_early():
    train = np.array([[3.0, 2.0, 1.0, np.nan], [3.2, 2.4, np.nan, np.nan]])
    (axes,) = plots.training_history(train, best_epoch=[3, 2]).axes
    lines = axes.get_lines()
    np.testing.assert_allclose(ys(lines[2]), [3.1, 2.2, 1.0, np.nan])
    np.testing.assert_array_equal(lines[3].get_xdata(), [3, 2])
    np.testing.assert_array_equal(ys(lines[3]), [1.0, 2.4])


def test_history_is_logarithmic_where_losses_span_decades():
    (axes,) = plots.training_history([1000.0, 10.0, 1.0]).axes
    assert axes.get_yscale() == "log"
    (axes,) = plots.training_history([-1.0, -10.0, -300.0]).axes
    assert axes.get_yscale() == "linear"


def test_history_explains_what_does_not_match():
    with pytest.raises(ValueError, match="one shape"):
        plots.training_history([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="finite losses"):
        plots.training_history([np.nan, np.nan])
    with pytest.raises(ValueError, match="between 1 and 2"):
        plots.training_history([1.0, 2.0], best_epoch=[0])
