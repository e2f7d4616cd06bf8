"""Calibrated limits with potentials that are wrong, against closed forms of a normal mean."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.special import ndtr

import inferostatic as ist
from exact_estimators import exact_normal
from parameters import slow

N = 200
#: A potential whose maximum is off by several errors, and whose curvature is wrong.
WRONG = exact_normal(tilt=0.4, stretch=1.5)
NAME = WRONG.theta_names[0]
THRESHOLD = 0.05


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def observed(theta: float, seed: int = 1) -> np.ndarray:
    return normal(np.full((N, 1), theta), np.random.default_rng(seed))


def stored(n: int = 60_000) -> ist.Events:
    rng = np.random.default_rng(4)
    theta = rng.uniform(-3, 3, size=(n, 1))
    names = WRONG.theta_names, WRONG.x_names
    return ist.Events(theta=theta, x=normal(theta, rng), theta_names=names[0], x_names=names[1])


def exact_limit(mean: float, *, cls: bool) -> float:
    """Of a normal mean with error 1/√N, above 0."""
    error = 1 / np.sqrt(N)
    below = ndtr(mean / error) if cls else 1.0

    def above(mu: float) -> float:
        return float(ndtr((mean - mu) / error) / below - THRESHOLD)

    found: Any = optimize.brentq(above, -1.0, 3.0)
    return float(found)


@pytest.mark.parametrize(
    ("method", "calibration"),
    # How confidences are combined has nothing to do with where events come from.
    [(ist.CLs, normal), slow(ist.CLsb, stored())],
    ids=["CLs-simulator", "CLsb-events"],
)
def test_the_limit_of_a_wrong_potential_is_the_exact_one(method: Any, calibration: Any) -> None:
    x = observed(0.1)
    error = 1 / np.sqrt(N)
    cls = method is ist.CLs
    found = ist.upper_limit(WRONG, x, NAME, method(calibration=calibration), background=0.0, seed=1)
    exact = exact_limit(float(x.mean()), cls=cls)
    assert found.observed == pytest.approx(exact, abs=0.4 * error)
    expected = [exact_limit(band * error, cls=cls) for band in (-2, -1, 0, 1, 2)]
    # By CLs+b a large downward fluctuation excludes every signal.
    away = found.expected - np.maximum(expected, 0)
    # Means at both ends are known to some 0.1 errors by 100,000 events; fewer widen the limit.
    assert np.all(np.abs(away) < 0.4 * error)
    assert found.method == "calibrated"
    assert found.bias is None
    assert found.test_at(found.observed)[0] == pytest.approx(THRESHOLD, rel=0.01)
    # The plain limit of the same potential is off by far more.
    plain = ist.upper_limit(WRONG, x, NAME, ist.CLsb(), background=0.0)
    assert abs(plain.observed - exact_limit(float(x.mean()), cls=False)) > 2 * error


@pytest.mark.slow
def test_the_number_of_events_counts() -> None:
    """With a rate, shape and number are two measurements of the mean."""

    def rate(theta: np.ndarray) -> np.ndarray:
        return 200 * (1 + 0.5 * theta[0])

    x = observed(0.1)
    bounds = {NAME: (-1.5, 2.5)}
    likelihood = ist.Likelihood(WRONG, x, rate=rate, bounds=bounds)
    fit = ist.calibrated_fit(likelihood, simulator=normal, seed=2)
    # Errors 1/√N of the shape and √ν/ν' of the number, whose own estimate is 0.
    information = N + 100**2 / (200 * (1 + 0.5 * fit.theta[0]))
    assert fit.errors[0] == pytest.approx(1 / np.sqrt(information), rel=0.05)
    assert fit.theta[0] == pytest.approx(N * x.mean() / information, abs=0.15 * fit.errors[0])
    alone = ist.calibrated_fit(WRONG, x, simulator=normal, seed=2)
    assert alone.errors[0] == pytest.approx(1 / np.sqrt(N), rel=0.05)


PAIR = exact_normal(dim=2, tilt=(0.3, -0.2))


def shifted(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x1 ~ N(μ + ν, 1) and x2 ~ N(ν, 1)."""
    return normal(theta @ np.array([[1.0, 0.0], [1.0, 1.0]]), rng)


def observed_pair() -> np.ndarray:
    return shifted(np.tile([0.2, 0.5], (N, 1)), np.random.default_rng(3))


@pytest.mark.slow
def test_a_nuisance_parameter_is_profiled() -> None:
    """μ̂ is the mean of x1 − x2, with error √(2/N)."""
    x, method = observed_pair(), ist.CLsb(calibration=shifted)
    free = ist.upper_limit(PAIR, x, PAIR.theta_names[0], method, background=-2.0, seed=1)
    apart = float((x[:, 0] - x[:, 1]).mean())
    assert free.observed == pytest.approx(apart + 1.6449 * np.sqrt(2 / N), abs=0.02)


@pytest.mark.slow
def test_a_nuisance_parameter_that_is_known_well_is_held() -> None:
    """Then x2 does not matter."""
    x, method = observed_pair(), ist.CLsb(calibration=shifted)
    a, b = PAIR.theta_names
    measured = ist.Likelihood(PAIR, x, constraints={b: (0.5, 0.001)})
    held = ist.upper_limit(measured, a, method, background=-2.0, seed=1)
    exact = float(x[:, 0].mean()) - 0.5 + 1.6449 / np.sqrt(N)
    assert held.observed == pytest.approx(exact, abs=0.02)


def test_what_a_calibration_cannot_be_is_refused() -> None:
    x = observed(0.1)
    with pytest.raises(TypeError, match="calibration must be simulated"):
        ist.upper_limit(WRONG, x, NAME, ist.CLs(calibration=3), background=0.0)
    with pytest.raises(ValueError, match="a method of its own"):
        ist.CLs(toys=10, simulator=normal, calibration=normal)
    method = ist.CLs(calibration=normal)
    with pytest.raises(ValueError, match="scan holds values to test with toys"):
        ist.upper_limit(WRONG, x, NAME, method, background=0.0, scan=[0.1, 0.2])


@pytest.mark.slow
def test_finite_simulation_is_told_and_warned_of() -> None:
    """Its part of the error falls with the root of the number of stored events."""
    parts = []
    for count in (4_000, 16_000):
        method = ist.CLs(calibration=stored(count))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ist.upper_limit(WRONG, observed(0.1), NAME, method, background=0.0)
        (note,) = [one for one in found.notes if "by finitely many simulated events" in one]
        parts.append(float(note.split(" is ")[1].split(" of ")[0]))
        warned = [one for one in caught if "near the estimate, or a simulator" in str(one.message)]
        assert len(warned) == (parts[-1] > 0.25)
    few, many = parts
    assert few > 0.25 > many
    # Two digits of each; how far events of other θ help changes a little with their number.
    assert few / many == pytest.approx(2, rel=0.2)


@pytest.mark.slow
def test_a_calibration_of_another_estimator_is_refused() -> None:
    # Simulation adds 0.16 statistical errors of 1/√N, 7% of the limit; above 0.25 it is warned of.
    x, events = observed(0.1), stored(20_000)
    other = exact_normal(tilt=0.4)
    for estimators in (other, [other, WRONG]):
        method = ist.CLs(calibration=ist.ScoreCalibration(estimators, events))
        with pytest.raises(ValueError, match="made for another estimator; make one for this"):
            ist.upper_limit(WRONG, x, NAME, method, background=0.0)
    own = ist.CLs(calibration=ist.ScoreCalibration(WRONG, events))
    found = ist.upper_limit(WRONG, x, NAME, own, background=0.0)
    assert found.observed == pytest.approx(exact_limit(float(x.mean()), cls=True), rel=0.2)
