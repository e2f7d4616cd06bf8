"""Calibrated fits that are interrupted while they simulate, and repeated: the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_normal
from inferostatic.events import tasks

WRONG = exact_normal(dim=2, stretch=0.6, tilt=np.array([0.5, -0.3]))
OBSERVED = np.array([0.7, -0.4]) + np.random.default_rng(2).normal(size=(100, 2))


def shifted(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def find(**options: Any) -> Any:
    simulation = ist.NearbySimulation(options.pop("simulator", shifted), most_events=60_000)
    return ist.calibrated_fit(WRONG, OBSERVED, simulator=simulation, seed=1, **options)


def interrupt(patch: pytest.MonkeyPatch, calls: int | None) -> list[int]:
    """Ctrl-C in the task of the simulation after so many; the list counts them."""
    made, real = [0], tasks.run_blocks

    def run(*arguments: Any, **options: Any) -> Any:
        if calls is not None and made[0] >= calls:
            raise KeyboardInterrupt
        made[0] += 1
        return real(*arguments, **options)

    patch.setattr(tasks, "run_blocks", run)
    return made


def test_an_interrupted_fit_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        all_calls = interrupt(patch, None)
        whole = find()
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, 3)
            with pytest.raises(KeyboardInterrupt):
                find(checkpoint=tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        made = interrupt(patch, None)
        found = find(checkpoint=tmp_path)
    assert made[0] == all_calls[0] - 6
    np.testing.assert_array_equal(found.theta, whole.theta)
    np.testing.assert_array_equal(found.covariance, whole.covariance)
    assert found.p_value == whole.p_value
    with pytest.MonkeyPatch.context() as patch:
        made = interrupt(patch, 0)
        again = find(checkpoint=tmp_path)
    np.testing.assert_array_equal(again.theta, whole.theta)


def test_other_data_are_refused(tmp_path: Path) -> None:
    assert WRONG.prior is not None
    events = ist.simulate(shifted, WRONG.prior, 2000, seed=1)
    ist.calibrated_fit(WRONG, OBSERVED, events=events, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="other observed events"):
        ist.calibrated_fit(WRONG, OBSERVED + 1, events=events, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="other estimators"):
        ist.calibrated_fit(exact_normal(dim=2), OBSERVED, events=events, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="other events"):
        ist.calibrated_fit(WRONG, OBSERVED, events=events[:1999], checkpoint=tmp_path)
