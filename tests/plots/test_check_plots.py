"""Figures of checks hold what the records hold."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, exact_normal


@pytest.fixture(scope="module")
def events() -> ist.Events:
    prior = exact_normal().prior
    assert prior is not None
    return ist.simulate(
        lambda theta, rng: theta + rng.normal(size=theta.shape), prior, 3000, seed=1
    )


def test_a_diagnosis_has_four_panels(events) -> None:
    found = ist.diagnose(exact_normal(), events)
    figure = ist.plots.diagnosis(found)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["mean score", "calibration", "ranks (SBC)", "coverage"]
    assert found.mean_score is not None
    points = figure.axes[0].lines[-1].get_ydata()
    np.testing.assert_array_equal(points, found.mean_score.z[:, 0])
    assert figure.get_suptitle() == found.verdict


def test_a_score_alone_has_one(events) -> None:
    found = ist.diagnose(as_direct(ist.ScoreEstimator, exact_normal()), events)
    assert [axes.get_title() for axes in ist.plots.diagnosis(found).axes] == ["mean score"]


def test_contours_are_closed() -> None:
    outline = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    figure = ist.plots.contours({"68%": outline}, ["a", "b"], truth=[0.5, 0.3])
    drawn = np.asarray(figure.axes[0].lines[0].get_data())
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, -1])
    assert figure.axes[0].get_xlabel() == "a"
    with pytest.raises(ValueError, match="shape .n, 2."):
        ist.plots.contours({"68%": outline[:, :1]}, ["a", "b"])
    with pytest.raises(ValueError, match="two names"):
        ist.plots.contours({"68%": outline}, ["a"])
