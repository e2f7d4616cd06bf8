"""`stablehlo`: programs that JAX alone runs, for Python without this library.

One zip archive holds a program for each question, as `jax.export` serialises it, and what
describes the model. Weights, preprocessing and the mean over members are inside the programs.
"""

import json
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

from ..archive import pack
from ..estimator.estimator import AbstractEstimator
from ..estimator.soundness import require_estimator
from ..files import require_file, write_whole
from ..inputs import as_path, in_short
from ..versions import find_version
from .metadata import list_facts
from .parity import ExportError, Points, choose_points, reference_values, require_parity
from .row_functions import list_questions, row_function

#: Devices that the programs run on.
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
#: How often the functions that are loaded can be differentiated, by reverse mode.
DERIVATIVES = 1
#: Member of the archive that describes the model; questions are members of their own, `.bin`.
METADATA = "metadata.json"


def stablehlo(estimator: AbstractEstimator, path: str | Path) -> Path:
    """Write an estimator for JAX without this library, and check it before it is kept.

    The file is a zip archive: `potential.bin`, `score.bin` and `log_ratio.bin`, those that the
    estimator offers (flows: `log_prob.bin` too), and `metadata.json` with names, trained region
    and hash. `jax.export.deserialize(archive.read("score.bin")).call(x, theta)` evaluates any
    number of events, x of shape (n, D) and theta of shape (n, d) in float32, on CPUs, GPUs and
    TPUs, and can be differentiated once by `jax.grad`.

    Args:
        estimator: of any kind but `ist.MatrixElement`, also with a network of your own.
        path: of the file; `.zip` is a good ending.

    Returns:
        The path.
    """
    path = as_path(path)
    questions = list_questions(estimator)
    require_file(path)
    try:
        require_estimator(estimator)
    except ValueError as error:
        raise ExportError(f"cannot export this estimator to {path}: {error}.") from error
    points = choose_points(estimator)
    programs = {}
    for question in questions:
        program = _serialise(estimator, question, points)
        values = _run(program, points.inputs(question))
        # The estimator's own arithmetic, so that it rounds as the estimator does.
        reference = reference_values(estimator, question, points)
        require_parity(question, values, reference, "the StableHLO program")
        programs[f"{question}.bin"] = program
    members = {METADATA: json.dumps(_describe(estimator, questions), indent=1).encode()}
    return write_whole(path, pack(members | programs))


def _serialise(estimator: AbstractEstimator, question: str, points: Points) -> bytes:
    """The program of a question, for any number of rows."""
    (rows,) = jax.export.symbolic_shape("n")
    shapes = [
        jax.ShapeDtypeStruct((rows, table.shape[1]), np.float32)
        for table in points.inputs(question).values()
    ]
    function = jax.jit(row_function(estimator, question))
    try:
        exported = jax.export.export(function, platforms=PLATFORMS)(*shapes)
        return bytes(exported.serialize(vjp_order=DERIVATIVES))
    except Exception as error:  # whatever JAX says of a network that is not written for any n
        raise ExportError(
            f"jax.export cannot write the {question} of this estimator for any number of events "
            f"and for all of {', '.join(PLATFORMS)}: {in_short(error)}. No file was written. A "
            "network of your own must be made of JAX functions that need no particular device "
            "and make no choices by the number of events."
        ) from error


def _run(program: bytes, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What somebody gets who loads the program."""
    return np.asarray(jax.export.deserialize(bytearray(program)).call(*inputs.values()))


def _describe(estimator: AbstractEstimator, questions: tuple[str, ...]) -> dict[str, Any]:
    inputs = {
        question: ["x", "theta0", "theta1"] if question == "log_ratio" else ["x", "theta"]
        for question in questions
    }
    versions = {name: find_version(name) for name in ("inferostatic", "jax", "jaxlib")}
    return list_facts(estimator) | {
        "inputs": inputs,
        "platforms": PLATFORMS,
        "versions": versions,
    }
