"""The comparison of observed means with expected ones that are known in closed form."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from exact_estimators import exact_normal
from inferostatic.inference.likelihood.model import Channel
from inferostatic.inference.likelihood.observed_check import _compare_means

N = 400
SLOPES = np.array([[0.5, -0.2], [0.1, 0.4]])
SCATTER = np.array([[0.05, 0.02], [0.02, 0.04]])
#: Of the error of the expected means themselves.
SPREAD = np.diag([1e-5, 2e-5])
#: Of three parameters, of which the channel has the last and the first: ρ = −0.9 between these.
COVARIANCE = np.array([[0.01, 0.0, -0.0135], [0.0, 1.0, 0.0], [-0.0135, 0.0, 0.0225]])
INDICES = (2, 0)
THETA = np.array([0.1, 7.0, -0.2])


class LinearMean:
    """Means SLOPES · θ."""

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return SLOPES @ theta, SPREAD

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        assert theta.shape == (2,)
        return SCATTER


def exact_p(away: np.ndarray, covariance: np.ndarray, size: float) -> tuple[float, float]:
    """With the error of the estimate, J C Jᵀ; and the largest pull."""
    total = SCATTER / size + SPREAD + SLOPES @ covariance @ SLOPES.T
    pulls = away / np.sqrt(np.diag(total))
    worst = pulls[np.argmax(np.abs(pulls))]
    return float(stats.chi2.sf(away @ np.linalg.solve(total, away), 2)), float(worst)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("away", [(0.06, 0.04), (0.04, -0.03), (0.12, 0.12)])
def test_the_error_of_the_estimate_counts_with_its_correlations(
    away: Any,
    weighted: bool,  # noqa: FBT001
) -> None:
    mean: Any = LinearMean()
    estimator = dataclasses.replace(exact_normal(dim=2), x_mean=mean)
    # Events around 0 whose mean, brought to the bounded range, is that expected and `away`.
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.2, 2, size=N) if weighted else np.ones(N)
    bounded = rng.uniform(-0.3, 0.3, size=(N, 2))
    point, block = THETA[list(INDICES)], COVARIANCE[np.ix_(INDICES, INDICES)]
    bounded += SLOPES @ point + away - weight @ bounded / weight.sum()
    # tanh(4x/14) with x between ±7.
    x = 3.5 * np.arctanh(bounded)
    text, unlike = _compare_means(
        Channel((estimator,), None, INDICES), x, weight, THETA, COVARIANCE
    )
    size = weight.sum() ** 2 / np.sum(weight**2)
    exact, worst = exact_p(np.array(away), block, size)
    found = re.search(r"p = (\S+) for .* deviation (\S+) standard", text[0])
    assert found is not None
    # Written with two digits, and one after the point.
    assert float(found[1]) == pytest.approx(exact, rel=0.06)
    assert float(found[2]) == pytest.approx(worst, abs=0.06)
    assert unlike is (exact < 1e-4)
    # Without the correlations the answer would be another.
    wrong, _ = exact_p(np.array(away), np.diag(np.diag(block)), size)
    assert abs(np.log(wrong / exact)) > 0.15
