"""`TorchEstimator`: a trained estimator that takes and gives PyTorch's tensors, with gradients.

JAX evaluates and differentiates; PyTorch sees functions whose derivatives are functions of the
same kind, so that they can be differentiated again.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ..chunks import FEWEST_ROWS, padded, power_of_two
from ..estimator.estimator import AbstractEstimator, CapabilityError
from .row_functions import list_questions, row_function


@dataclasses.dataclass(frozen=True, eq=False)
class TorchEstimator:
    """A trained estimator for PyTorch: tensors in and out, with gradients by x and θ.

    Everything is computed by JAX in float32, on JAX's device; tensors of other types and devices
    are converted, and results are like x. All events of a call are evaluated at once. Gradients
    can be differentiated again; forward mode and `torch.vmap` are not there, as rows are events.

    Args:
        estimator: of any kind but `ist.MatrixElement`.
    """

    estimator: AbstractEstimator

    def __post_init__(self) -> None:
        """Refuse what cannot be evaluated, and say which package is missing."""
        list_questions(self.estimator)
        _import_torch()

    def potential(self, x: Any, theta: Any) -> Any:  # noqa: ANN401
        """φ(x, θ), shape (n,), of x, shape (n, D), and θ, shape (n, d), or (d,) for all events."""
        return self._answer("potential", x, theta)

    def score(self, x: Any, theta: Any) -> Any:  # noqa: ANN401
        """The score ∇θ ln p(x; θ), shape (n, d)."""
        return self._answer("score", x, theta)

    def log_ratio(self, x: Any, theta0: Any, theta1: Any) -> Any:  # noqa: ANN401
        """Ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        return self._answer("log_ratio", x, theta0, theta1)

    def log_prob(self, x: Any, theta: Any) -> Any:  # noqa: ANN401
        """Ln p(x; θ) of a flow, shape (n,)."""
        return self._answer("log_prob", x, theta)

    def _answer(self, question: str, x: Any, *thetas: Any) -> Any:  # noqa: ANN401
        function = self._functions.get(question)
        if function is None:
            getattr(self.estimator, question)  # which raises, and says what to train
            raise CapabilityError(f"this estimator has no {question}.")
        tensors = _read_tensors(self.estimator, x, thetas)
        return _make_bridge().apply(function, *tensors)[0]

    @functools.cached_property
    def _functions(self) -> dict[str, "_RowFunction"]:
        """One for each question, so that each is compiled once."""
        return {
            question: _RowFunction(
                _as_tuple(row_function(self.estimator, question)),
                inputs=3 if question == "log_ratio" else 2,
                outputs=1,
            )
            for question in list_questions(self.estimator)
        }


@dataclasses.dataclass(frozen=True, eq=False)
class _RowFunction:
    """A JAX function of rows, to results for the same rows."""

    function: Callable[..., tuple[Array, ...]]
    inputs: int
    outputs: int

    @functools.cached_property
    def compiled(self) -> Callable[..., tuple[Array, ...]]:
        return jax.jit(self.function)

    @functools.cached_property
    def gradient(self) -> "_RowFunction":
        """The function of inputs and of the results' gradients that gives the inputs' gradients."""

        def pull_back(*rows: Array) -> tuple[Array, ...]:
            _, pull = jax.vjp(self.function, *rows[: self.inputs])
            return pull(rows[self.inputs :])

        return _RowFunction(pull_back, self.inputs + self.outputs, self.inputs)


def _as_tuple(function: Callable[..., Array]) -> Callable[..., tuple[Array, ...]]:
    return lambda *rows: (function(*rows),)


def _import_torch() -> Any:  # noqa: ANN401
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError("ist.export.TorchEstimator needs PyTorch: pip install torch") from error


def _read_tensors(estimator: AbstractEstimator, x: Any, thetas: tuple[Any, ...]) -> list[Any]:  # noqa: ANN401
    """x and θ with equal numbers of rows; refuses what is no table of the right columns."""
    torch = _import_torch()
    names = (estimator.x_names, *(estimator.theta_names for _ in thetas))
    tables = []
    for name, columns, tensor in zip(("x", "theta", "theta1"), names, (x, *thetas), strict=False):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            raise TypeError(
                f"{name} must be a tensor of floating-point numbers; got {type(tensor).__name__}"
                f"{f' of {tensor.dtype}' if isinstance(tensor, torch.Tensor) else ''}."
            )
        table = tensor[None] if tensor.ndim == 1 else tensor
        if table.ndim != 2 or table.shape[1] != len(columns):
            raise ValueError(
                f"expected {name} of shape (n, {len(columns)}), for {', '.join(columns)}; got "
                f"{tuple(tensor.shape)}."
            )
        tables.append(table)
    count = max(len(table) for table in tables)
    if min(len(table) for table in tables) == 0 or any(len(t) not in (1, count) for t in tables):
        raise ValueError(
            f"x and theta have {[len(table) for table in tables]} rows; give one θ for each event, "
            "one θ for all events, or one event for all θ."
        )
    return [table.expand(count, table.shape[1]) for table in tables]


@functools.cache
def _make_bridge() -> Any:  # noqa: ANN401
    """The `torch.autograd.Function` that calls a JAX function; its gradient is one again."""
    torch = _import_torch()

    class Bridge(torch.autograd.Function):
        @staticmethod
        def forward(function: _RowFunction, *tensors: Any) -> tuple[Any, ...]:  # noqa: ANN401
            rows = [tensor.detach().to("cpu", torch.float32).numpy() for tensor in tensors]
            count = len(rows[0])
            size = max(FEWEST_ROWS, power_of_two(count))  # few shapes, so few compilations
            results = function.compiled(*(padded(table, size) for table in rows))
            # A copy, because PyTorch may write to it.
            arrays = [np.array(result)[:count] for result in results]
            return tuple(torch.from_numpy(array).to(tensors[0]) for array in arrays)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ANN401
            ctx.function, *tensors = inputs
            ctx.save_for_backward(*tensors)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:  # noqa: ANN401
            tensors = ctx.saved_tensors
            # Results are like the first tensor, and gradients must be like their own.
            found = Bridge.apply(ctx.function.gradient, *tensors, *gradients)
            return None, *(one.to(tensor) for one, tensor in zip(found, tensors, strict=True))

    return Bridge
