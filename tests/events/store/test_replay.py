"""One part of a store, or one event of it, simulated again alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines.engine import InProcess
from store_simulators import PRIOR, Counting, shifted_normal


@pytest.fixture
def store(tmp_path: Path) -> ist.Store:
    store = ist.Store(tmp_path, events_per_part=600)
    ist.simulate(shifted_normal, PRIOR, 2000, store=store, seed=1)
    return store


def test_a_part_is_played_again(store: ist.Store):
    events = store.events()
    for simulator in (shifted_normal, InProcess()(shifted_normal)):
        played = ist.replay(store, 2, simulator=simulator)
        np.testing.assert_array_equal(played.x, events.x[1200:1800])
        np.testing.assert_array_equal(played.theta, events.theta[1200:1800])
    # Beyond what is shown there are events as well.
    assert len(ist.replay(store.path, 3, simulator=shifted_normal)) == 600


def test_one_event_is_played_again(store: ist.Store):
    events, counting = store.events(), Counting()
    for row in (0, 199, 200, 599):
        counting.events = 0
        played = ist.replay(store, 1, row, simulator=counting)
        assert counting.events == 200
        assert len(played) == 1
        np.testing.assert_array_equal(played.x[0], events.x[600 + row])
        np.testing.assert_array_equal(played.theta[0], events.theta[600 + row])


def test_the_names_of_a_toy_come_along(tmp_path: Path):
    toy, prior = ist.toys.GaussianChain(), ist.Uniform([-1.0, -0.5], [1.0, 0.5])
    events = ist.simulate(toy, prior, 300, store=tmp_path, seed=4)
    played = ist.replay(tmp_path, 0, simulator=toy)
    assert played.x_names == events.x_names
    np.testing.assert_array_equal(played.latent["z"][:300], events.latent["z"])


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ((4,), ValueError, "part must be at most 3; got 4"),
        ((-1,), ValueError, "part must be at least 0"),
        ((0, 600), ValueError, "row must be at most 599"),
        ((0.5,), TypeError, "part must be a whole number"),
    ],
)
def test_misuse_is_refused(store: ist.Store, arguments: Any, kind: type[Exception], said: str):
    with pytest.raises(kind, match=said):
        ist.replay(store, *arguments, simulator=shifted_normal)


def test_events_from_elsewhere_cannot_be_played(tmp_path: Path):
    events = ist.Events(x=np.ones((5, 1)), theta=np.arange(10.0).reshape(5, 2))
    ist.Store(tmp_path).write(events, seed=1)
    with pytest.raises(ValueError, match="come from elsewhere, which cannot be simulated again"):
        ist.replay(tmp_path, 0, simulator=shifted_normal)
