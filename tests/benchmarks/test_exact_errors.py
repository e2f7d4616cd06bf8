"""The errors that benchmarks report: zero for the truth, and known ones beside it."""

from typing import Any

import numpy as np
import pytest
from benchmarks.exact_errors import TOYS, task_errors, toy_errors

import inferostatic as ist
from benchmarks import exact_errors

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

NAME = "Poisson counts (discrete)"


class Known:
    """The exact answers, the score off by a constant and the potential off by a·θ₁."""

    def __init__(self, toy: Any, score_off: float = 0.0, slope: float = 0.0) -> None:
        self.toy, self.score_off, self.slope = toy, score_off, slope

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return self.toy.score(x, theta) + self.score_off

    def potential(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return self.toy.log_prob(x, theta) + self.slope * theta[:, 0]

    def log_ratio(self, x: np.ndarray, theta0: np.ndarray, theta1: np.ndarray) -> np.ndarray:
        return self.potential(x, theta0) - self.potential(x, theta1)


@pytest.fixture(autouse=True)
def _few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_errors, "EVALUATED", 4000)
    exact_errors._task_set.cache_clear()


def test_the_truth_has_no_errors_on_the_tasks() -> None:
    assert task_errors(Known(ist.toys.Dirichlet())) == {"T1": 0.0, "T2": 0.0, "T3": 0.0}


def test_errors_on_the_tasks_are_mean_squares() -> None:
    """Off by a (θ0 − θ1)₁: in T2 a kernel of half-width 0.4, in T3 a box of width 4.5."""
    errors = task_errors(Known(ist.toys.Dirichlet(), 0.5, 2.0))
    assert errors["T1"] == pytest.approx(0.25)
    # Five standard errors of the mean square of a uniform and of a triangular variable.
    assert errors["T2"] == pytest.approx(4 * 0.4**2 / 3, rel=5 * np.sqrt(0.8 / 4000))
    assert errors["T3"] == pytest.approx(4 * 4.5**2 / 6, rel=5 * np.sqrt(1.4 / 4000))


def test_the_truth_has_no_errors_on_a_toy() -> None:
    known: Any = Known(TOYS[NAME][0], 1e-9)
    errors = toy_errors(NAME, known)
    assert errors["log_ratio"] == 0.0
    assert errors["score"] < 1e-15
    assert abs(errors["excess"]) < 1e-12


def test_errors_on_a_toy_are_relative_and_the_loss_is_higher() -> None:
    known: Any = Known(TOYS[NAME][0], 0.5, 0.3)
    errors = toy_errors(NAME, known)
    toy, box = TOYS[NAME]
    prior = ist.Uniform(*box)
    events = ist.simulate(toy, prior, 20_000, seed=5)
    other = prior.sample(20_000, seed=6)
    information = np.mean(toy.score(events.x, events.theta) ** 2, axis=0)
    ratio = toy.log_prob(events.x, events.theta) - toy.log_prob(events.x, other)
    assert errors["score"] == pytest.approx(np.mean(0.25 / information), rel=0.1)
    expected = 0.09 * 7.0**2 / 6 / ratio.var()
    assert errors["log_ratio"] == pytest.approx(expected, rel=0.1)
    assert errors["excess"] > 0.01


def test_the_edge_is_compared_with_the_bulk_as_a_root_mean_square() -> None:
    """Errors of 3 near the walls and 1 elsewhere, of a truth that is twice as large there."""
    prior = ist.Uniform([0.0, 0.0], [1.0, 2.0])
    theta = prior.sample(5000, seed=1)
    near = ((theta < [0.05, 0.1]) | (theta > [0.95, 1.9])).any(axis=1)
    truth = np.where(near, 2.0, 1.0)[:, None] * np.ones(2)
    score = truth + np.where(near, 3.0, 1.0)[:, None]
    assert exact_errors.edge_error(prior, theta, score, truth) == pytest.approx(3)
    assert exact_errors.edge_error(prior, theta, score, truth, relative=True) == pytest.approx(1.5)
