"""Functions and numbers on their way to other processes, where they must mean the same."""

import importlib.util
import pickle
from typing import Any, NamedTuple

import jax

from ...inputs import in_short

#: Settings of JAX on which the numbers of a simulation depend: precision and random streams.
NUMERIC_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)


def sends_code() -> bool:
    """Whether functions can be sent that the other process could not import: by cloudpickle."""
    return importlib.util.find_spec("cloudpickle") is not None


def pack(value: object, what: str) -> bytes:
    """`value` as bytes; raises TypeError with what to do where it cannot be pickled."""
    try:
        if sends_code():
            import cloudpickle

            return cloudpickle.dumps(value)
        return pickle.dumps(value)
    except Exception as error:  # objects raise their own kinds
        hint = "" if sends_code() else " or install cloudpickle, which can send more: "
        command = "" if sends_code() else "pip install 'inferostatic[processes]'"
        raise TypeError(
            f"{what} cannot be sent to another process: {in_short(error)}. Use a function that is "
            "defined in a module, or ist.PerWorker(factory), which makes the simulator in every "
            f"process{hint}{command}."
        ) from error


class PackedFunction(NamedTuple):
    """A function as bytes, with the settings of JAX that it was to be run with."""

    function: bytes
    settings: tuple[tuple[str, Any], ...]


def pack_function(function: object) -> PackedFunction:
    """The function that tasks are run by."""
    settings = tuple((name, getattr(jax.config, name)) for name in NUMERIC_SETTINGS)
    return PackedFunction(pack(function, "the simulator"), settings)


def load_function(packed: PackedFunction) -> Any:  # noqa: ANN401
    """The function, in a process with these settings; raises whatever its modules raise."""
    for name, value in packed.settings:
        if getattr(jax.config, name) != value:
            jax.config.update(name, value)
    return pickle.loads(packed.function)
