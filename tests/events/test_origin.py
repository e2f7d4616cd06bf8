"""Events remember where they come from."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.events import in_memory
from inferostatic.events.origin import Origin, name_simulator

PRIOR = ist.Uniform(-1.0, 1.0)


def noisy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def one(theta: Any, key: Any) -> Any:
    return theta + jax.random.normal(key, theta.shape)


def test_simulated_events() -> None:
    events = ist.simulate(noisy, PRIOR, 300, seed=7)
    assert events.origin == Origin("noisy", None, 7)
    assert events[:10].origin == events[events.x[:, 0] > 0].origin == events.origin
    assert in_memory(events, slice(5), None).origin == events.origin
    assert "noisy" in events.summary()
    assert ist.draw(ist.CARL(), noisy, PRIOR, 20, seed=3).origin == Origin("noisy", seed=3)


def test_a_store(tmp_path: Path) -> None:
    store = ist.Store(tmp_path / "a", name="chain", version="2")
    made = ist.simulate(noisy, PRIOR, 300, store=store, seed=7)
    assert made.origin == ist.Store(tmp_path / "a").events().origin == Origin("chain", "2", 7)
    unnamed = ist.simulate(noisy, PRIOR, 300, store=tmp_path / "b", seed=7)
    assert unnamed.origin == Origin("noisy", None, 7)
    written = ist.Store(tmp_path / "c").write(made[:200], seed=1)
    assert written.origin is not None
    assert written.origin.simulator is None
    assert "elsewhere" in (written.origin.source or "")


def test_joined_events_have_what_they_share() -> None:
    first, second = (ist.simulate(noisy, PRIOR, 200, seed=seed) for seed in (1, 2))
    assert ist.Events.concatenate([first, second]).origin == Origin("noisy")
    assert ist.Events.concatenate([first, first]).origin == Origin("noisy", seed=1)
    named = second.made_by("other", version="1")
    assert ist.Events.concatenate([first, named]).origin == Origin("noisy, other")
    plain = ist.Events(x=first.x, theta=first.theta)
    assert plain.origin is None
    assert ist.Events.concatenate([first, plain]).origin is None


def test_a_user_names_the_simulator() -> None:
    events = ist.Events(x=[[1.0], [2.0]], theta=[[0.0], [1.0]])
    named = events.made_by("MadGraph", version="3.5.1")
    assert named.origin == Origin("MadGraph", "3.5.1")
    assert events.origin is None
    assert named.x is events.x
    with pytest.raises(TypeError, match="simulator must be a text"):
        events.made_by("")
    with pytest.raises(TypeError, match="version must be a text"):
        events.made_by("a", version=3)  # type: ignore[arg-type]


def test_an_origin_is_no_part_of_what_checkpoints_compare() -> None:
    from inferostatic.fingerprint import identify

    events = ist.simulate(noisy, PRIOR, 200, seed=1)
    assert identify(events.checkpoint_identity()) == identify(
        events.made_by("other").checkpoint_identity()
    )


def test_names_of_simulators() -> None:
    program = ist.Program(["python", Path("/home/me/generate.py"), "{theta}", "{x}", "{seed}"])
    assert name_simulator(program) == "python generate.py {theta} {x} {seed}"
    assert name_simulator(ist.JaxSimulator(one)) == "one"
    assert name_simulator(ist.InProcess()(noisy)) == "noisy"
    assert name_simulator(ist.toys.Dirichlet()) == "Dirichlet"
