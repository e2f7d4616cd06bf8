"""Packages that only readers of files use: imported on first use."""

import importlib
from types import ModuleType


def import_package(name: str, what: str) -> ModuleType:
    """The package that reads `what`; raises ImportError with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"reading {what} uses {name}: pip install 'inferostatic[readers]'"
        ) from error
