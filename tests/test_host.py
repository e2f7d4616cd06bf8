"""What a GPU is spared runs on the host, with the same results."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.compilation import UNTRIED, compile_untried
from inferostatic.host import on_host, to_device
from inferostatic.learning.training.members import (
    derive_member_key,
    draw_weights,
    extract_weights,
    insert_weights,
)
from inferostatic.learning.training.steps import compile_with

PRIOR = ist.Uniform([-2.0], [2.0])


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library takes this machine's CPU for an accelerator that has another one beside it."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    forget_programs()
    yield
    forget_programs()


def forget_programs() -> None:
    for cached in (compile_with, compile_untried):
        cached.cache_clear()


def initial_weights() -> tuple[np.ndarray, np.ndarray]:
    """Those that are drawn, and the same after they have been in a model."""
    architecture = ist.Potential(ist.MLP((8,)), ist.Standardised())
    shapes = architecture.shapes(np.random.default_rng(1).normal(size=(50, 2)), *[np.ones(1)] * 2)
    keys = [derive_member_key(3, j) for j in range(2)]
    template, weights = draw_weights(architecture, shapes, keys)
    _, again = extract_weights(insert_weights(template, weights))
    return np.asarray(weights), np.asarray(again)


def test_initial_weights_are_the_same(request: pytest.FixtureRequest) -> None:
    here = initial_weights()
    np.testing.assert_array_equal(*here)
    request.getfixturevalue("as_on_a_gpu")
    np.testing.assert_array_equal(initial_weights(), here)


def test_fits_are_the_same(request: pytest.FixtureRequest) -> None:
    events = ist.simulate(
        lambda theta, rng: theta + rng.standard_normal(theta.shape), PRIOR, 400, seed=1
    )
    training = ist.Training(epochs=3, batch_size=50, progress_bar=False)
    options: dict[str, Any] = {
        "network": ist.MLP((8,)),
        "training": training,
        "members": 2,
        "seed": 2,
    }
    here = ist.fit(events, **options).score(events.x, events.theta)
    request.getfixturevalue("as_on_a_gpu")
    there = ist.fit(events, **options).score(events.x, events.theta)
    np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_an_accelerator_alone_is_used_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where JAX_PLATFORMS names it alone."""

    def refuse(**_: str) -> None:
        raise RuntimeError("Unknown backend cpu")

    monkeypatch.setattr(jax, "local_devices", refuse)
    with on_host():
        array = to_device(jax.numpy.ones(2))
    assert isinstance(array, jax.Array)


def test_only_long_trainings_try_out_kernels(
    as_on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del as_on_a_gpu
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(eqx, "filter_jit", lambda _, **options: given.append(options))
    monkeypatch.setattr("inferostatic.compilation._accepts", lambda _: True)
    compile_with(initial_weights, long=True)
    compile_with(initial_weights)
    compile_untried(initial_weights)
    assert given == [{}, *[{"compiler_options": UNTRIED}] * 2]
