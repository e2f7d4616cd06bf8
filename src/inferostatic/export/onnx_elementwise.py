"""Functions of single numbers, in operators of ONNX.

What ROOT's SOFIE lacks is written in operators that it has: an inverse hyperbolic sine, a sign, the
opposite of a truth value.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .onnx_graph import Graph, Value, constant, joint_shape
from .parity import ExportError

#: A primitive of JAX as nodes of a graph: its inputs and its options.
Rule = Callable[[Graph, list[Value], dict[str, Any]], Value]

#: Primitives of JAX that are an operator of ONNX.
SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "add": "Add",
    "add_any": "Add",
    "asin": "Asin",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "div": "Div",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "logistic": "Sigmoid",
    "max": "Max",
    "min": "Min",
    "mul": "Mul",
    "neg": "Neg",
    "pow": "Pow",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "sub": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
}
#: Comparisons, and whether the operator says the opposite.
COMPARISONS = {
    "eq": ("Equal", False),
    "ne": ("Equal", True),
    "lt": ("Less", False),
    "le": ("LessOrEqual", False),
    "gt": ("Greater", False),
    "ge": ("GreaterOrEqual", False),
}
#: Primitives that change nothing in a graph.
NOTHING = ("copy", "copy_p", "optimization_barrier", "stop_gradient")


def number(value: float, like: Value) -> Value:
    """A scalar of the same type as another value."""
    return constant(np.asarray(value, like.dtype))


def _plain(operator: str) -> Rule:
    def rule(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
        return graph.elementwise(operator, *inputs)

    return rule


def _comparison(operator: str, *, opposite: bool) -> Rule:
    def rule(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
        if inputs[0].dtype == bool:
            inputs = [cast(graph, value, np.float32) for value in inputs]
        found = graph.elementwise(operator, *inputs, dtype=bool)
        return dataclasses.replace(found, flipped=opposite)

    return rule


def cast(graph: Graph, value: Value, dtype: Any) -> Value:  # noqa: ANN401
    """The value in another type; an opposite becomes 1 − it."""
    dtype = np.dtype(dtype)
    if value.dtype == dtype:
        return value
    if value.array is not None:
        array = value.array.astype(dtype)
        return dataclasses.replace(value, dtype=dtype, array=array)
    if dtype == np.dtype(bool):
        zero = constant(np.zeros((), value.dtype))
        return dataclasses.replace(
            graph.elementwise("Equal", value, zero, dtype=bool), flipped=True
        )
    plain = dataclasses.replace(value, flipped=False)
    found = graph.add(
        "Cast", [plain], plain.held, shape=plain.shape, dtype=dtype, to=_type_number(dtype)
    )
    return graph.elementwise("Sub", number(1, found), found) if value.flipped else found


def choose(graph: Graph, condition: Value, yes: Value, no: Value) -> Value:
    """One value where a condition holds, another elsewhere."""
    if yes.dtype == bool:
        # onnxruntime chooses between numbers only.
        found = choose(graph, condition, *(cast(graph, value, np.float32) for value in (yes, no)))
        return graph.elementwise("Greater", found, number(0.5, found), dtype=bool)
    if condition.flipped:
        yes, no = no, yes
    inputs = [dataclasses.replace(condition, flipped=False), graph.straight(yes)]
    inputs.append(graph.straight(no))
    held = joint_shape([value.held for value in inputs])
    shape = joint_shape([value.shape for value in inputs])
    return graph.add("Where", inputs, held, shape=shape, dtype=yes.dtype)


def _select(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    which, *cases = inputs
    if which.dtype != bool or len(cases) != 2:
        raise ExportError("a choice among more than two cases has no operator of ONNX.")
    return choose(graph, which, cases[1], cases[0])


def _convert(graph: Graph, inputs: list[Value], options: dict[str, Any]) -> Value:
    return cast(graph, inputs[0], options["new_dtype"])


def _log1p(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    # Wrong by 1e-7 at most, which next to numbers of order one is rounding.
    return graph.elementwise("Log", graph.elementwise("Add", inputs[0], number(1, inputs[0])))


def _expm1(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    return graph.elementwise("Sub", graph.elementwise("Exp", inputs[0]), number(1, inputs[0]))


def _asinh(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    """The sign of x times ln(|x| + √(x² + 1)).

    All is in units of max(|x|, 1), in which squares are always finite.
    """
    x, one = inputs[0], number(1, inputs[0])
    size = graph.elementwise("Abs", x)
    unit = graph.elementwise("Max", size, one)
    parts = [graph.elementwise("Div", part, unit) for part in (size, one)]
    squares = [graph.elementwise("Mul", part, part) for part in parts]
    root = graph.elementwise("Sqrt", graph.elementwise("Add", *squares))
    reach = graph.elementwise("Add", parts[0], root)
    value = graph.elementwise("Add", *(graph.elementwise("Log", part) for part in (unit, reach)))
    negative = graph.elementwise("Less", x, number(0, x), dtype=bool)
    return choose(graph, negative, graph.elementwise("Neg", value), value)


def _sign(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    x = inputs[0]
    zero, one = number(0, x), number(1, x)
    below = graph.elementwise("Less", x, zero, dtype=bool)
    above = graph.elementwise("Greater", x, zero, dtype=bool)
    return choose(graph, above, one, choose(graph, below, number(-1, x), zero))


def _square(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    return graph.elementwise("Mul", inputs[0], inputs[0])


def _one_minus_square(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    """As JAX 0.11 writes the slope of tanh."""
    x, one = inputs[0], number(1, inputs[0])
    return graph.elementwise("Sub", one, graph.elementwise("Mul", x, x))


def _integer_power(graph: Graph, inputs: list[Value], options: dict[str, Any]) -> Value:
    """By multiplications, which are exact to rounding for negative numbers too."""
    x, power = inputs[0], int(options["y"])
    found, step, left = None, x, abs(power)
    while left:
        if left % 2:
            found = step if found is None else graph.elementwise("Mul", found, step)
        left //= 2
        step = graph.elementwise("Mul", step, step) if left else step
    found = number(1, x) if found is None else found
    return graph.elementwise("Div", number(1, x), found) if power < 0 else found


def _rsqrt(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    return graph.elementwise("Div", number(1, inputs[0]), graph.elementwise("Sqrt", inputs[0]))


def _exp2(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    return graph.elementwise(
        "Exp", graph.elementwise("Mul", inputs[0], number(np.log(2), inputs[0]))
    )


def _erfc(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    return graph.elementwise("Sub", number(1, inputs[0]), graph.elementwise("Erf", inputs[0]))


def _clamp(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    low, x, high = inputs
    return graph.elementwise("Min", graph.elementwise("Max", x, low), high)


def _is_finite(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
    size = graph.elementwise("Abs", inputs[0])
    return graph.elementwise("Less", size, number(np.inf, size), dtype=bool)


def _logical(operator: str) -> Rule:
    def rule(graph: Graph, inputs: list[Value], _: dict[str, Any]) -> Value:
        if inputs[0].dtype != bool:
            raise ExportError("bits of whole numbers have no place in an ONNX graph.")
        return graph.elementwise(operator, *inputs, dtype=bool)

    return rule


def _not(_: Graph, inputs: list[Value], __: dict[str, Any]) -> Value:
    value = inputs[0]
    return dataclasses.replace(value, flipped=not value.flipped)


def _itself(_: Graph, inputs: list[Value], __: dict[str, Any]) -> Value:
    return inputs[0]


def _type_number(dtype: np.dtype) -> int:
    """What ONNX calls a type."""
    names = {"float32": 1, "int32": 6, "int64": 7, "bool": 9}
    if dtype.name not in names:
        raise ExportError(f"numbers of type {dtype.name} cannot be exported; use float32.")
    return names[dtype.name]


#: Rules by the names of primitives.
RULES: dict[str, Rule] = (
    {name: _plain(operator) for name, operator in SAME.items()}
    | {name: _comparison(op, opposite=not_) for name, (op, not_) in COMPARISONS.items()}
    | dict.fromkeys(NOTHING, _itself)
    | {
        "and": _logical("And"),
        "asinh": _asinh,
        "clamp": _clamp,
        "convert_element_type": _convert,
        "erfc": _erfc,
        "exp2": _exp2,
        "expm1": _expm1,
        "integer_pow": _integer_power,
        "is_finite": _is_finite,
        "log1p": _log1p,
        "not": _not,
        "one_minus_square": _one_minus_square,
        "or": _logical("Or"),
        "rsqrt": _rsqrt,
        "select_n": _select,
        "sign": _sign,
        "square": _square,
    }
)
