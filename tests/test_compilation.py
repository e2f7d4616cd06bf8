"""Options of XLA."""

import equinox as eqx
import jax.numpy as jnp
import pytest

from inferostatic.compilation import _accepts, compile_briefly, compile_with_options


def cubic(scale, x):
    return scale * x**3 - x


def test_a_program_compiled_briefly_gives_the_same_numbers():
    x = jnp.linspace(-1.0, 1.0, 7)
    assert compile_briefly(cubic) is compile_briefly(cubic)
    assert jnp.allclose(compile_briefly(cubic)(2.0, x), eqx.filter_jit(cubic)(2.0, x), atol=1e-6)


@pytest.mark.parametrize("options", [{"no_such_option_of_xla": 1}, {}])
def test_unknown_options_are_left_out(options):
    assert compile_with_options(cubic, options)(2.0, jnp.array(1.0)) == 1.0
    assert _accepts(tuple(options.items())) == (not options)
