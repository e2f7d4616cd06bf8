"""Float64, for sums over many events and for second derivatives.

Models compute in float32. In a sum over N events the rounding of θ is common to all of them and
grows with N, so likelihoods are summed in float64. JAX's global switch is never touched: float64
holds inside `with float64():` alone.
"""

from contextlib import AbstractContextManager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def float64(wide: bool = True) -> AbstractContextManager[Any]:  # noqa: FBT001, FBT002
    """A context in which JAX computes in float64; in float32 if `wide` is false."""
    return jax.enable_x64(wide)


def in_float64(model: Any) -> Any:  # noqa: ANN401
    """The same model in float64; call it, and the model, inside `float64()`."""

    def widen(leaf: Any) -> Any:  # noqa: ANN401
        # By NumPy, which needs no program for each shape.
        return jnp.asarray(np.asarray(leaf, np.float64)) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(widen, model)


def as_models_read(rows: np.ndarray) -> np.ndarray:
    """Observables as float32 models read them, in float64: Σφ is then the sum of `potential`."""
    return np.asarray(rows, np.float32).astype(np.float64)
