"""Sets by Neyman's construction that are interrupted and repeated: the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_normal
from inferostatic.checkpoint import open_checkpoint
from inferostatic.inference.confidence.observed_fit import fit_observed
from inferostatic.inference.confidence.saved_toys import SavedToys
from inferostatic.inference.confidence.toy_fits import ToyFitter
from inferostatic.inference.confidence.toys import ToyMaker, make_toy_maker
from parameters import slow

MEANS = exact_normal(dim=2, width=8.0)
GRID = np.linspace(-0.5, 0.5, 5)


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


STORED = ist.simulate(normal, ist.Uniform([-8.0] * 2, [8.0] * 2), 2000, seed=9)


def interrupt_toys(monkeypatch: pytest.MonkeyPatch, points: int | None) -> list[int]:
    """Ctrl-C when toys at so many more points are made; the list counts them."""
    made = [0]
    real = ToyMaker.at

    def at(self: ToyMaker, theta: np.ndarray) -> Any:
        if points is not None and made[0] >= points:
            raise KeyboardInterrupt
        made[0] += 1
        return real(self, theta)

    monkeypatch.setattr(ToyMaker, "at", at)
    return made


@pytest.mark.parametrize(
    ("events", "source"),  # toys fitted one by one, and all together
    [(5, normal), (60, STORED), slow(5, STORED), slow(60, normal)],
    ids=["simulator", "stored", "few stored", "many simulated"],
)
def test_an_interrupted_set_goes_on_to_the_same_numbers(
    tmp_path: Path, events: int, source: Any
) -> None:
    x = np.random.default_rng(1).normal(size=(events, 2))
    likelihood = ist.Likelihood(MEANS, x, constraints={"theta1": (0.0, 0.5)})

    def find(checkpoint: Path | None) -> Any:
        method = ist.Neyman(source, toys=40, checkpoint=checkpoint)
        found = ist.confidence_set(likelihood, method, parameters=["theta0"], grid=GRID, seed=3)
        return found, found.p_value_at([0.123])

    whole, at = find(None)
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            interrupt_toys(patch, 2)
            with pytest.raises(KeyboardInterrupt):
                find(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        made = interrupt_toys(patch, None)
        found, found_at = find(tmp_path)
    assert made == [2]  # the last of five points and the one between
    np.testing.assert_array_equal(found.p_value, whole.p_value)
    assert found_at == at
    assert found.notes == whole.notes
    with pytest.MonkeyPatch.context() as patch:
        made = interrupt_toys(patch, None)
        again, _ = find(tmp_path)
    assert made == [0]
    np.testing.assert_array_equal(again.p_value, whole.p_value)


def test_what_guides_the_next_fits_comes_back(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(60, 2))
    likelihood = ist.Likelihood(MEANS, x)
    observed = fit_observed(likelihood, likelihood.model)
    points = np.array([[0.0, 0.0], [0.1, 0.2], [0.3, -0.1]])

    def find(path: Path | None, count: int) -> tuple[ToyFitter, list[np.ndarray]]:
        fitter = ToyFitter(
            observed, make_toy_maker(likelihood, likelihood.model, normal, 40, None, 3)
        )
        with open_checkpoint(path, "toys", dict) as saved:
            toys = SavedToys(fitter, saved)
            return fitter, [toys.statistic(point, [0]) for point in points[:count]]

    whole, statistics = find(None, 3)
    find(tmp_path, 2)
    found, again = find(tmp_path, 3)
    np.testing.assert_array_equal(again, statistics)
    assert (found.fits, found.failed) == (whole.fits, whole.failed)
    assert found.seen.keys() == whole.seen.keys() == {(), (0,)}
    for key in whole.seen:
        assert len(found.seen[key]) == len(whole.seen[key]) == 3
        for one, two in zip(found.seen[key], whole.seen[key], strict=True):
            np.testing.assert_array_equal(one[0], two[0])
            np.testing.assert_array_equal(one[1], two[1])
            np.testing.assert_array_equal(one[2].centre, two[2].centre)
            np.testing.assert_array_equal(one[2].spread, two[2].spread)


def test_other_data_or_options_are_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(5, 2))

    def find(x: np.ndarray = x, *, seed: int = 3, toys: int = 20, simulator: Any = normal) -> None:
        method = ist.Neyman(simulator, toys=toys, checkpoint=tmp_path)
        grid = {"theta0": [0.0], "theta1": [0.0]}
        ist.confidence_set(MEANS, x, method, grid=grid, seed=seed)

    find()
    find()
    with pytest.raises(ValueError, match="other observed events"):
        find(x + 0.1)
    with pytest.raises(ValueError, match="other toys: 20 before, 30 now; other seed"):
        find(seed=4, toys=30)
    with pytest.raises(ValueError, match="other simulator"):
        find(simulator=lambda theta, rng: theta + 2 * rng.normal(size=theta.shape))
    with pytest.raises(TypeError, match="checkpoint must be"):
        ist.Neyman(normal, checkpoint=3)  # type: ignore[arg-type]
