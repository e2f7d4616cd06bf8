"""Small programs on the host: an accelerator's compiler takes a tenth of a second for each.

Initial weights alone take some fifty programs of a single operation.
"""

import contextlib
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

_Tree = TypeVar("_Tree")


def on_host() -> contextlib.AbstractContextManager[object]:
    """Within it arrays are made by the CPU, where JAX may use that beside an accelerator."""
    if jax.default_backend() == "cpu":
        return contextlib.nullcontext()
    try:
        cpu = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return contextlib.nullcontext()
    return jax.default_device(cpu)


def to_device(tree: _Tree) -> _Tree:
    """The tree with what was made on the host where all other programs run."""
    if jax.default_backend() == "cpu":
        return tree
    return jax.tree.map(lambda a: jax.device_put(np.asarray(a)) if _moves(a) else a, tree)


def put_array(values: ArrayLike, dtype: type = np.float32) -> jax.Array:
    """`jnp.asarray(values, dtype)`, converted by NumPy: JAX compiles a program for every shape."""
    if isinstance(values, jax.Array):
        return jnp.asarray(values, dtype)
    return jax.device_put(np.asarray(values, dtype))


def _moves(leaf: object) -> bool:
    return isinstance(leaf, jax.Array) and eqx.is_inexact_array(leaf)
