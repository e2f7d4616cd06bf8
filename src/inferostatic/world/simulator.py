"""Simulators: any function that makes events at given parameters.

A simulator is a plain function `f(theta, rng) -> x` with `theta` of shape (n, d), a NumPy
generator `rng`, and one row of x for each row of theta. `JaxSimulator` turns a JAX function of one
θ and a key into one.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..inputs import SHOWN_ROWS, Input, as_rows, bad_rows, finite_rows


@runtime_checkable
class Simulator(Protocol):
    """Events `x`, shape (n, D), at the parameters `theta`, shape (n, d)."""

    def __call__(self, theta: np.ndarray, rng: np.random.Generator, /) -> Input:
        """Simulate one event for each row of theta."""
        ...


class JaxSimulator(eqx.Module):
    """A simulator from a JAX function `(theta (d,), key) -> x (D,)` of one event."""

    simulate_one: Callable[..., Any] = eqx.field(static=True)

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Simulate one event for each row of theta, compiled and vectorised."""
        key = jax.random.key(int(rng.integers(2**32)))
        keys = jax.random.split(key, len(theta))
        return np.asarray(_simulate_many(self.simulate_one, jnp.asarray(theta, jnp.float32), keys))


@eqx.filter_jit
def _simulate_many(simulate_one: Callable[..., Any], theta: jax.Array, keys: jax.Array) -> Any:  # noqa: ANN401
    return jax.vmap(simulate_one)(theta, keys)


def run_simulator(
    simulator: Simulator, theta: np.ndarray, rng: np.random.Generator, *, asked_because: str = ""
) -> np.ndarray:
    """Call a simulator and check what it returned.

    Args:
        simulator: the function.
        theta: parameters, shape (n, d).
        rng: generator for this call alone.
        asked_because: a sentence on why θ may lie outside the prior, added to errors.
    """
    low, high = theta.min(axis=0), theta.max(axis=0)
    region = f"θ between {np.round(low, 4).tolist()} and {np.round(high, 4).tolist()}"
    try:
        x = simulator(theta, rng)
    except Exception as error:
        raise RuntimeError(
            f"the simulator failed for {region}: {type(error).__name__}: {error}. {asked_because}"
        ) from error
    x = as_rows(x, "the simulator's x", of="observables")
    if len(x) != len(theta):
        raise ValueError(
            f"the simulator returned {len(x)} rows for {len(theta)} parameter points; it must "
            "return exactly one row of x for each row of theta."
        )
    good = finite_rows(x)
    if not good.all():
        shown = np.round(theta[~good][:SHOWN_ROWS], 4).tolist()
        raise ValueError(
            f"the simulator returned NaN or infinite x in {bad_rows(good)}, at θ = {shown}. "
            f"{asked_because or 'Mend the simulator or narrow the prior there.'}"
        )
    return x
