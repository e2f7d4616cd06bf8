"""NumPy's random numbers are JAX's, and no program is compiled for them."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from inferostatic.streams import Purpose, Stream
from inferostatic.threefry import draw_uniform, fold_in, make_key, split_key, stack_keys

KEYS = [jax.random.key(seed) for seed in (0, 1, 4_000_000_000)]
SHAPES = [(64, 6), (64, 64), (1, 64), (33, 64), (0, 3)]


def words(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize("pair", [(0, 0), (1, 2), (2**31, 2**32 - 1), (123456789, 987654321)])
def test_keys_of_two_words(pair: tuple[int, int]) -> None:
    given = np.array(pair, np.uint32)
    expected = jax.random.fold_in(jax.random.key(given[0]), given[1])
    np.testing.assert_array_equal(words(make_key(given)), words(expected))
    traced = jax.jit(lambda both: jax.random.key_data(make_key(both)))(given)
    np.testing.assert_array_equal(traced, words(expected))


@pytest.mark.parametrize("key", KEYS)
def test_split_keys(key: jax.Array) -> None:
    for count in (1, 2, 14):
        found = np.stack([words(one) for one in split_key(key, count)])
        np.testing.assert_array_equal(found, words(jax.random.split(key, count)))


@pytest.mark.parametrize("key", KEYS)
def test_numbers_folded_in(key: jax.Array) -> None:
    for number in (0, 1, 2**31):
        expected = jax.random.fold_in(key, np.uint32(number))
        np.testing.assert_array_equal(words(fold_in(key, number)), words(expected))


def test_stacked_keys() -> None:
    for keys in (KEYS, [jax.random.key(seed, impl="rbg") for seed in (1, 2)]):
        found, expected = stack_keys(keys), jnp.stack(keys)
        assert jax.random.key_impl(found) == jax.random.key_impl(expected)
        np.testing.assert_array_equal(words(found), words(expected))


@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_numbers(shape: tuple[int, int]) -> None:
    limit = 0.3
    for key in KEYS:
        expected = jax.random.uniform(key, shape, minval=-limit, maxval=limit)
        found = draw_uniform(key, shape, limit)
        assert found.dtype == expected.dtype
        # A processor that does not multiply and add in one instruction rounds twice.
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit * 2**-23)


def test_traced_keys_and_those_of_another_generator_are_left_to_jax() -> None:
    key, other = KEYS[0], jax.random.key(1, impl="rbg")
    traced = jax.jit(lambda k: draw_uniform(k, (5,), 1.0))(key)
    np.testing.assert_allclose(traced, draw_uniform(key, (5,), 1.0), rtol=0, atol=2**-22)
    expected = jax.random.uniform(other, (5,), minval=-1.0, maxval=1.0)
    np.testing.assert_array_equal(draw_uniform(other, (5,), 1.0), expected)
    one, two = split_key(other, 2)
    assert not np.array_equal(words(one), words(two))
    raw = jax.random.PRNGKey(3)
    np.testing.assert_array_equal(split_key(raw, 3), jax.random.split(raw, 3))


def test_nothing_is_compiled() -> None:
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        del duration_secs
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    # Of sizes that no other test has.
    keys = split_key(fold_in(Stream(5, Purpose.WEIGHTS).key(7), 11), 13)
    draw_uniform(keys[0], (17, 19), 0.1)
    assert not compiled
    jax.jit(lambda a: a + 1)(np.zeros((17, 23), np.float32))
    assert compiled
