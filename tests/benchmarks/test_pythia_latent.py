"""The measure of a statistic's worth, on Gaussians whose information is known; without Pythia."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
latent = importlib.import_module("pythia_latent")

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

#: Of ten observables the first two follow θ, with slopes and widths that differ.
SLOPE, WIDTH = np.array([4.0, -2.0]), np.array([2.0, 0.5])
FAR = 4.2


@pytest.fixture(autouse=True)
def _gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)

    def drawn(shift: float) -> np.ndarray:
        x = rng.normal(size=(latent.HELD_OUT, 10))
        x[:, :2] = WIDTH * x[:, :2] + SLOPE * shift
        return x

    sets = tuple(drawn(shift) for shift in (latent.DELTA, -latent.DELTA, 0.0))
    monkeypatch.setattr(latent, "held_out", lambda: sets)


@pytest.mark.parametrize("which", [0, 1])
def test_information_and_its_error(which: int) -> None:
    exact = (SLOPE[which] / WIDTH[which]) ** 2
    value, error = latent.with_error(latent.information(lambda x: 3 - 7 * x[:, which]))
    # That of the two means and of the variance; the jackknife has 20 parts.
    of_means = np.sqrt(2 * exact / latent.HELD_OUT) / latent.DELTA
    expected = np.hypot(of_means, exact * np.sqrt(2 / latent.HELD_OUT))
    assert abs(value - exact) < FAR * expected
    assert abs(np.log(error / expected)) < FAR / np.sqrt(2 * (latent.PARTS - 1))


def test_a_quadratic_finds_the_optimal_combination() -> None:
    x = np.random.default_rng(2).normal(size=(5000, 10)) * np.r_[WIDTH, np.ones(8)]
    score = x[:, :2] @ (SLOPE / WIDTH**2)
    value, error = latent.with_error(latent.information(latent.quadratic(x, score)))
    assert abs(value - ((SLOPE / WIDTH) ** 2).sum()) < FAR * error


def test_stored_events_are_handed_out_once_and_by_their_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    above = np.tile(np.arange(1.0, 101)[:, None], (1, 10))
    monkeypatch.setattr(latent, "kept", lambda name, _: above if name[0] == "+" else -above)
    simulator = latent.stored(0.1, 0)
    theta = latent.STRANGE + np.array([0.1, -0.1, -0.1, 0.1])[:, None]
    rng = np.random.default_rng(0)
    assert simulator(theta, rng)[:, 0].tolist() == [1, -1, -2, 2]
    assert simulator(theta, rng)[:, 9].tolist() == [3, -3, -4, 4]
