"""How hard XLA optimises a program: compiling is most of the time of what runs for a moment."""

import functools
from typing import Any

import equinox as eqx
import jax

#: Takes half the time to compile. Polynomials do not suffer, networks are five times as slow.
BRIEF = {"xla_backend_optimization_level": 0}


@functools.cache
def compile_briefly(function: Any) -> Any:  # noqa: ANN401
    """`eqx.filter_jit(function)` with as little optimisation as XLA allows."""
    return compile_with_options(function, BRIEF)


def compile_with_options(function: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401
    """`eqx.filter_jit(function)` with options of XLA on a CPU, if this version knows them."""
    compile_: Any = eqx.filter_jit
    if jax.default_backend() != "cpu" or not _accepts(tuple(options.items())):
        return compile_(function)
    return compile_(function, compiler_options=options)


@functools.cache
def _accepts(options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether this version of XLA knows the options."""
    try:
        jax.jit(lambda x: x, compiler_options=dict(options))(1.0)
    except Exception:  # noqa: BLE001 (whatever it raises, the answer is no)
        return False
    return True
