"""Trained estimators for programs without Python, and for Python without this library.

What needs another package is imported on first use.
"""

from typing import TYPE_CHECKING, Any

from ..packages import import_package
from .cpp_header import cpp as cpp
from .onnx_file import onnx as onnx
from .parity import ExportError as ExportError
from .stablehlo_file import stablehlo as stablehlo
from .torch_estimator import TorchEstimator as TorchEstimator

if TYPE_CHECKING:
    from .ratio_regressor import RatioRegressor as RatioRegressor

__all__ = ["ExportError", "RatioRegressor", "TorchEstimator", "cpp", "onnx", "stablehlo"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import the class that inherits from scikit-learn's on its first use."""
    if name != "RatioRegressor":
        raise AttributeError(f"module 'inferostatic.export' has no attribute {name!r}")
    import_package("sklearn", "ist.export.RatioRegressor needs scikit-learn", "sklearn")
    from .ratio_regressor import RatioRegressor

    globals()[name] = RatioRegressor  # found without this function from now on
    return RatioRegressor


def __dir__() -> list[str]:
    """The exports."""
    return __all__
