"""A Python file of the user that defines a simulator and a prior."""

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from ..world.priors.prior import AbstractPrior
from ..world.simulator import LatentSimulator, Simulator, require_simulator

#: What the file must define, for messages.
WANTED = "a function `simulator(theta, rng)`, or an ist.PerWorker, and a `prior`"


class SimulatorFileError(RuntimeError):
    """The code of the file raised an exception when it was imported."""


def load_simulator(path: str) -> tuple[Simulator | LatentSimulator, AbstractPrior]:
    """The `simulator` and the `prior` of a file.

    The file is imported by its name, with its folder in front of `sys.path`, so that worker
    processes can import it as well.
    """
    module = import_file(path)
    for name in ("simulator", "prior"):
        if getattr(module, name, None) is None:
            raise ValueError(f"{path!r} defines no `{name}`; it must define {WANTED}.")
    if not isinstance(module.prior, AbstractPrior):
        raise ValueError(
            f"`prior` in {path!r} must be a prior such as ist.Uniform(low, high); got "
            f"{type(module.prior).__name__}."
        )
    try:
        require_simulator(module.simulator)
    except TypeError as error:
        raise ValueError(f"`simulator` in {path!r} is none: {error}") from error
    return module.simulator, module.prior


def import_file(path: str, wanted: str = WANTED) -> Any:  # noqa: ANN401
    """The module that a file defines."""
    file = Path(os.path.abspath(path))
    if not file.is_file():
        raise ValueError(f"{path!r} is no file; give a Python file that defines {wanted}.")
    if file.suffix != ".py" or "." in file.stem:
        raise ValueError(
            f"{path!r} must be a Python file, with .py at the end of its name and no other dot, "
            f"that defines {wanted}."
        )
    loaded = sys.modules.get(file.stem)
    if loaded is not None and getattr(loaded, "__file__", None) != str(file):
        raise ValueError(
            f"{file.name} has the name of another module, {file.stem}, which is loaded already; "
            "rename the file."
        )
    if str(file.parent) not in sys.path[:1]:
        sys.path.insert(0, str(file.parent))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(file.stem)
    except SystemExit as error:
        raise SimulatorFileError(
            f"{file} called exit({error.code}) when it was imported; put what it runs as a script "
            'under `if __name__ == "__main__":`.'
        ) from error
    except Exception as error:  # whatever the user's code raises
        raise SimulatorFileError(f"{file} could not be imported: {error}") from error


def find_trace(error: BaseException | None, path: str) -> str:
    """Where in the user's file an exception was raised, here or in a worker; empty if not there."""
    file = os.path.abspath(path)
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [number for number, frame in enumerate(frames) if frame.filename == file]
        if own:
            lines = traceback.format_list(frames[own[0] :])
            return "".join([*lines, *traceback.format_exception_only(error)])
        for note in getattr(error, "__notes__", ()):
            return note
        error = error.__cause__
    return ""
