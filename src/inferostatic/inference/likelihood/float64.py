"""Models in float64, for sums over many events and for second derivatives."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


def in_float64(model: Any) -> Any:  # noqa: ANN401
    """The same model with wider numbers; call it, and the model, where float64 is enabled."""

    def wide(leaf: Any) -> Any:  # noqa: ANN401
        return jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(wide, model)
