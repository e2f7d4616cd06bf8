"""Sums that jaxlib 0.10 gets wrong on a CPU are right once the package is imported."""

import os
import subprocess
import sys
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from inferostatic.compiler import FLAG, VALUE

JAXLIB = metadata.version("jaxlib")
EVENTS, CANDIDATES, DIRECTIONS = 20_000, 4, 8


def test_derivatives_of_a_soft_cross_entropy_are_right() -> None:
    """Without the flag every direction but the first is wrong by several units."""
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal((EVENTS, CANDIDATES, DIRECTIONS)).astype(np.float32)
    start = rng.standard_normal((EVENTS, CANDIDATES)).astype(np.float32)
    target = rng.dirichlet(np.ones(CANDIDATES), EVENTS).astype(np.float32)

    @jax.jit
    def derivatives(slopes: Array, start: Array, target: Array) -> Array:
        def loss(c: Array) -> Array:
            value = (jnp.einsum("knd,d->kn", jnp.swapaxes(slopes, 0, 1), c) + start.T).T
            return jax.nn.logsumexp(value, axis=1) - jnp.sum(target * value, axis=1)

        return jax.jacfwd(loss)(jnp.zeros(DIRECTIONS))

    odds = np.exp(start.astype(np.float64))
    excess = odds / odds.sum(axis=1, keepdims=True) - target
    exact = np.einsum("nk,nkd->nd", excess, slopes.astype(np.float64))
    np.testing.assert_allclose(derivatives(slopes, start, target), exact, atol=1e-5)


def run(code: str, flags: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    if flags is not None:
        environment["XLA_FLAGS"] = flags
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_the_flag_is_set_once_and_added_to_others() -> None:
    code = "import os, inferostatic as ist; print(os.environ.get('XLA_FLAGS'))"
    mine = "--xla_force_host_platform_device_count=1"
    needed = JAXLIB.startswith("0.10.")
    assert run(code, mine).stdout.strip() == (f"{mine} {FLAG}={VALUE}" if needed else mine)
    own = f"{FLAG}=LIBRARY_FUSION_TYPE_DOT"
    assert run(code, own).stdout.strip() == own


def test_an_import_that_comes_too_late_is_told() -> None:
    result = run("import jax.numpy as jnp; jnp.ones(1); import inferostatic")
    told = "too late to keep jaxlib 0.10" in result.stderr
    assert told == JAXLIB.startswith("0.10.")
