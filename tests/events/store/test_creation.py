"""Parts are sized by the time of the simulator, and one that does not repeat is reported."""

from pathlib import Path

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.store.creation import choose_part_blocks
from store_simulators import PRIOR, shifted_normal, slow


@pytest.mark.parametrize(
    ("blocks", "seconds", "shares", "expected"),
    [
        (1_000_000, 0.1, 1, 200),  # 20 s
        (1_000_000, 30.0, 1, 100),  # slower than a part should be, but no more than 10⁴ parts
        (100, 30.0, 1, 1),
        (100, 1e-4, 1, 100),  # less than a second in all: one part
        (1600, 0.1, 1, 100),  # sixteen parts for as many workers
        (100_000, 1e-3, 1, 4000),  # 64 MB
        (1600, 0.1, 100, 16),  # a part for each share
        (50, 0.1, 100, 1),
    ],
)
def test_parts_take_tens_of_seconds(blocks: int, seconds: float, shares: int, expected: int):
    found = choose_part_blocks(
        blocks, seconds, part_seconds=20.0, block_bytes=16_000, shares=shares
    )
    assert found == expected
    assert -(-blocks // found) <= 10_000


def test_a_part_is_as_long_as_asked_for(tmp_path: Path):
    store = ist.Store(tmp_path, part_seconds=0.05)
    ist.simulate(slow, PRIOR, 4000, store=store, seed=1)
    # A block of it takes 10 ms and a little more, on a busy computer much more.
    assert 1 <= store.manifest().blocks_per_part <= 5
    assert store.status().parts >= 4


class Drifting:
    """Not a function of θ and the generator: it counts its calls."""

    def __init__(self, after: int) -> None:
        self.calls, self.after = 0, after

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.calls += 1
        x = shifted_normal(theta, rng)
        return x + self.calls if self.calls > self.after else x


def test_a_simulator_that_does_not_repeat_is_reported(tmp_path: Path):
    with pytest.warns(UserWarning, match="the first block was simulated a second time"):
        ist.simulate(Drifting(0), PRIOR, 400, store=tmp_path / "first", seed=1)
    # Later on random blocks are tried.
    store = ist.Store(tmp_path / "second", events_per_part=2000)
    with pytest.warns(UserWarning, match=r"block \d+ of the store.*not a function of \(theta, rng"):
        ist.simulate(Drifting(2), PRIOR, 100 * 200, store=store, seed=1)


def test_a_simulator_that_changed_is_reported(tmp_path: Path):
    store = ist.Store(tmp_path, name="toy", events_per_part=2000)
    ist.simulate(shifted_normal, PRIOR, 100_000, store=store, seed=1)
    with pytest.warns(UserWarning, match="Either it changed since the store was begun"):
        ist.simulate(doubled, PRIOR, 120_000, store=store, seed=1)


def doubled(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 2 * shifted_normal(theta, rng)


def test_the_check_costs_little(tmp_path: Path):
    quiet = Drifting(10**9)
    store = ist.Store(tmp_path, events_per_part=2000)
    ist.simulate(quiet, PRIOR, 200 * 500, store=store, seed=1)
    assert quiet.calls == 2 + 500 + 3


def test_too_many_parts_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from inferostatic.events.store import production

    monkeypatch.setattr(production, "MOST_PARTS", 3)
    store = ist.Store(tmp_path, events_per_part=200)
    with pytest.warns(UserWarning, match=r"are 5 files.*events_per_part=400\)"):
        ist.simulate(shifted_normal, PRIOR, 1000, store=store, seed=1)
