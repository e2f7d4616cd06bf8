"""How hard XLA optimises a program: compiling is most of the time of what runs for a moment."""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax

#: Takes half the time to compile. Polynomials do not suffer, networks are five times as slow.
BRIEF: Mapping[str, Any] = {"xla_backend_optimization_level": 0}
#: No options.
NOTHING: Mapping[str, Any] = MappingProxyType({})
#: On a GPU: without trying out kernels a program compiles in a third of the time, and trains half
#: as fast.
UNTRIED: Mapping[str, Any] = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


@functools.cache
def compile_briefly(function: Any) -> Any:  # noqa: ANN401
    """`eqx.filter_jit(function)` with as little optimisation as XLA allows."""
    return compile_with_options(function, BRIEF)


@functools.cache
def compile_untried(function: Any) -> Any:  # noqa: ANN401
    """`eqx.filter_jit(function)`, on a GPU without trying out kernels: for what runs shortly."""
    return compile_with_options(function, {}, UNTRIED)


def compile_with_options(
    function: Any,  # noqa: ANN401
    cpu: Mapping[str, Any],
    gpu: Mapping[str, Any] = NOTHING,
) -> Any:  # noqa: ANN401
    """`eqx.filter_jit(function)` with options of XLA, as far as this version knows them."""
    compile_: Any = eqx.filter_jit
    options = {"cpu": cpu, "gpu": gpu}.get(jax.default_backend(), NOTHING)
    if not options or not _accepts(tuple(options.items())):
        return compile_(function)
    return compile_(function, compiler_options=dict(options))


@functools.cache
def _accepts(options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether this version of XLA knows the options."""
    try:
        jax.jit(lambda x: x, compiler_options=dict(options))(1.0)
    except Exception:  # noqa: BLE001 (whatever it raises, the answer is no)
        return False
    return True
