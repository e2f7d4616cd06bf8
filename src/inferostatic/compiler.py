"""Keeps a compiler of JAX 0.10 from giving wrong sums on a CPU.

XLA as of jaxlib 0.10 hands some reductions to a library (YNNPACK) together with what is done to
their results, and mixes up the rows of a broadcast operand there: derivatives of a softmax
cross-entropy with several directions at a time come out wrong by their own size, silently. Matrix
products, the library's real purpose, are right. In jaxlib 0.11 the sums are right as well.
"""

import os
import warnings
from importlib import metadata

#: The flag that selects what the library is used for.
FLAG = "--xla_cpu_experimental_ynn_fusion_type"
#: Matrix products only.
VALUE = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"


def avoid_wrong_sums() -> None:
    """Set the flag, unless there is one or this version does not need it.

    XLA reads its flags when the first array is made, so this comes before that.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if not metadata.version("jaxlib").startswith("0.10.") or FLAG in flags:
        return
    if _is_running():
        warnings.warn(
            "JAX was used before inferostatic was imported, too late to keep jaxlib 0.10 from a "
            "fault that makes some sums wrong on CPUs. Import inferostatic first, set the "
            f"environment variable XLA_FLAGS={FLAG}={VALUE}, or use jaxlib 0.11 (Python 3.12).",
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}={VALUE}".strip()


def _is_running() -> bool:
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()
