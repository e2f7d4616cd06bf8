"""Checks of weights, and the effective sample size."""

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, gaussian
from inferostatic.weights import effective_size, require_weights, warn_few_effective


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


PRIOR = ist.Uniform([-3.0, -3.0], [3.0, 3.0])
ESTIMATOR = exact_estimator(gaussian, PRIOR, np.full(2, -9.0), np.full(2, 9.0))
X = np.random.default_rng(5).normal(size=(2000, 2))
ONE = np.eye(2000)[0]
STORED = ist.Events(x=X, theta=np.linspace(-2, 2, 4000).reshape(2000, 2), weight=ONE, prior=PRIOR)
REFERENCE = ist.Events(x=X, theta=[0.0, 0.0], weight=ONE)


def fit_stored() -> object:
    return ist.fit(STORED, network=ist.MLP((2,)), training=ist.Training(epochs=1), seed=1)


ENTRIES: dict[str, Callable[[], object]] = {
    "maximum_likelihood": lambda: ist.maximum_likelihood(ist.Likelihood(ESTIMATOR, X, weight=ONE)),
    "fit": fit_stored,
    "fisher": lambda: ist.fisher(ESTIMATOR, X, [0.0, 0.0], weight=ONE),
    "diagnose": lambda: ist.diagnose(ESTIMATOR, STORED),
    "centre": lambda: ist.centre(ESTIMATOR, STORED),
    "measure_bias": lambda: ist.measure_bias(ESTIMATOR, STORED),
    "calibrated_fit": lambda: ist.calibrated_fit(ESTIMATOR, X[:50], events=STORED),
    "cross_entropy_fit": lambda: ist.cross_entropy_fit(ESTIMATOR, X, reference=REFERENCE),
    "Neyman": lambda: ist.confidence_set(
        ESTIMATOR,
        X[:20],
        ist.Neyman(STORED, toys=20),
        parameters=["theta0"],
        grid={"theta0": [0.0]},
        seed=1,
    ),
    "reweight": lambda: ist.reweight(ESTIMATOR, X, [0.0, 0.0], [0.1, 0.0], weight=ONE),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_weights_that_leave_one_event_are_reported_wherever_they_enter(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError, RuntimeError):  # some refuse them as well
            ENTRIES[name]()
    said = [str(one.message) for one in caught]
    assert any("2,000 events amount to 1 effective event, (Σw)²/Σw²" in text for text in said), said


def test_weights_that_are_merely_uneven_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_few_effective(np.random.default_rng(1).exponential(size=500))
        warn_few_effective(np.array([1.0, 1.0, -0.1]))
        warn_few_effective(np.ones(1))
    with pytest.warns(UserWarning, match=r"w: 5,000 events amount to 20 effective events"):
        warn_few_effective((np.arange(5000) < 20).astype(float), "w")
