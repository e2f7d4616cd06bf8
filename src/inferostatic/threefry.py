"""JAX's random numbers computed by NumPy: the same ones, with no program to compile.

A network's initial weights are a few thousand numbers of as many shapes as it has layers. JAX
compiles a program for each shape, which takes longer than all of them together, in every process.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PRNGKeyArray

#: JAX's name of this generator, its default.
THREEFRY = "threefry2x32"
#: Bits by which words are rotated, in rounds of four.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
#: The third word of a key, before the other two are mixed in.
_PARITY = np.uint32(0x1BD11BDA)
#: Bits of 1.0 in single precision, and how many bits follow its exponent.
_ONE, _MANTISSA = np.uint32(0x3F800000), 23


def make_key(words: np.ndarray | Array) -> PRNGKeyArray:
    """A key from two words of 32 bits: `jax.random.fold_in(jax.random.key(words[0]), words[1])`."""
    if not isinstance(words, np.ndarray) or not _is_usual():
        return jax.random.fold_in(jax.random.key(words[0]), words[1])
    return _mix(np.array([0, words[0]], np.uint32), words[1])


def split_key(key: PRNGKeyArray, count: int) -> list[PRNGKeyArray]:
    """`jax.random.split`."""
    if not _is_computable(key):
        return list(jax.random.split(key, count))
    return [_wrap(row) for row in np.stack(_encipher(_unwrap(key), _count(count)), axis=-1)]


def fold_in(key: PRNGKeyArray, number: int) -> PRNGKeyArray:
    """`jax.random.fold_in`."""
    if not _is_computable(key):
        return jax.random.fold_in(key, number)
    return _mix(_unwrap(key), number)


def stack_keys(keys: Sequence[PRNGKeyArray]) -> PRNGKeyArray:
    """`jnp.stack`."""
    if not all(map(_is_computable, keys)):
        return jnp.stack(keys)
    return _wrap(np.stack([_unwrap(key) for key in keys]))


def draw_uniform(key: PRNGKeyArray, shape: tuple[int, ...], limit: float) -> Array:
    """`jax.random.uniform` on ±limit, up to rounding."""
    if not _is_computable(key):
        return jax.random.uniform(key, shape, minval=-limit, maxval=limit)
    high, low = _encipher(_unwrap(key), _count(int(np.prod(shape))))
    bits = ((high ^ low) >> np.uint32(32 - _MANTISSA)) | _ONE
    unit = bits.view(np.float32).reshape(shape) - np.float32(1)
    # Rounded once, as by a processor that multiplies and adds in one instruction.
    edge = np.float64(np.float32(limit))
    return jax.device_put((unit * (edge + edge) - edge).astype(np.float32))


def _is_usual() -> bool:
    """Whether JAX makes random numbers as below by default; its user may change that."""
    config: Any = jax.config
    return config.jax_threefry_partitionable and config.jax_default_prng_impl == THREEFRY


def _is_computable(key: PRNGKeyArray) -> bool:
    """Whether the key is of this kind, and a value: it may be traced."""
    if isinstance(key, Tracer) or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return False
    return _is_usual() and str(jax.random.key_impl(key)) == THREEFRY


def _mix(key: np.ndarray, number: int | np.integer) -> PRNGKeyArray:
    return _wrap(np.concatenate(_encipher(key, np.array([number], np.uint32))))


def _wrap(words: np.ndarray) -> PRNGKeyArray:
    return jax.random.wrap_key_data(jax.device_put(words))


def _unwrap(key: PRNGKeyArray) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _count(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint32)


def _encipher(key: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two words for each count, by Threefry 2x32 with 20 rounds."""
    first, second = key[:1], key[1:]
    words = (first, second, first ^ second ^ _PARITY)
    one, two = np.zeros_like(counts) + first, counts + second
    for i in range(5):
        for bits in _ROTATIONS[i % 2]:
            one = one + two
            two = ((two << np.uint32(bits)) | (two >> np.uint32(32 - bits))) ^ one
        one = one + words[(i + 1) % 3]
        two = two + words[(i + 2) % 3] + np.uint32(i + 1)
    return one, two
