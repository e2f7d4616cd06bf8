"""Checks of weights, and the effective sample size."""

import numpy as np
import pytest

from inferostatic.weights import effective_size, require_weights


def test_equal_weights_count_and_others_count_less() -> None:
    assert effective_size(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_size(np.array([2.0, 1.0])) == pytest.approx(9 / 5)
    assert effective_size(np.array([1.0, 1.0, -1.0])) == pytest.approx(1 / 3)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scale_does_not_matter(scale: float) -> None:
    assert effective_size(scale * np.array([2.0, 1.0])) == pytest.approx(9 / 5)


def test_no_weight_counts_nothing() -> None:
    assert effective_size(np.zeros(3)) == 0
    assert effective_size(np.zeros(0)) == 0


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"w must have shape \(2,\), one for each event; got \(3,\)"),
        (np.array([1.0, np.nan]), "w has NaN or infinite values in row 1"),
        (np.array([1.0, -1.0]), "w adds up to 0; negative weights are allowed"),
    ],
)
def test_weights_that_cannot_be_are_refused(weight: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_weights(weight, 2, "w")
    require_weights(np.array([2.0, -1.0]), 2)
