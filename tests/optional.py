"""Packages that only some tests need: a test that uses one which is not installed is skipped."""

import importlib
import importlib.util
from typing import Any

import pytest

#: Imported by the library on first use, each named by an extra.
EXTRAS = {
    "inference": ("iminuit", "blackjax", "arviz", "pyhf"),
    "flows": ("flowjax", "paramax"),
    "readers": ("h5py", "uproot", "awkward", "pylhe"),
    "numpyro": ("numpyro",),
    "processes": ("cloudpickle",),
    "dask": ("dask", "distributed"),
    "export": ("onnx", "onnxruntime"),
    "sklearn": ("sklearn",),
}
#: Those that are not installed; found before any test hides a package.
MISSING = frozenset(
    name for names in EXTRAS.values() for name in names if importlib.util.find_spec(name) is None
)


class OptionalPackage:
    """A package that is imported when a test asks for something in it.

    Args:
        name: the package.
        modules: modules of it that are imported as well.
    """

    def __init__(self, name: str, *modules: str) -> None:
        self._name, self._modules = name, modules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # somebody looks at this object, not for something in the package
            raise AttributeError(name)
        package = pytest.importorskip(self._name, reason=f"{self._name} is not installed")
        for module in self._modules:
            importlib.import_module(f"{self._name}.{module}")
        return getattr(package, name)


def find_missing(error: BaseException | None) -> str | None:
    """The extra's package for want of which `error` was raised; None if that was not the reason."""
    while error is not None:
        name = getattr(error, "name", None) if isinstance(error, ImportError) else None
        if name is not None and name.partition(".")[0] in MISSING:
            return name.partition(".")[0]
        error = error.__cause__ or error.__context__
    return None
