"""Packages that not everybody needs: imported on first use."""

import importlib
from typing import Any


def import_package(name: str, use: str, extra: str) -> Any:  # noqa: ANN401
    """The package or module; raises ImportError with its use and the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{use}: pip install 'inferostatic[{extra}]'") from error
