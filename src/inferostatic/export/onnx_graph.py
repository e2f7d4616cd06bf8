"""An ONNX graph that grows node by node: values, constants, and what two of them share.

Values may be held in fewer numbers than their shape says, with an axis of length 1 where they
repeat; operators of ONNX repeat them on their own. Equal nodes and equal constants exist once, so
that what all members of an ensemble have in common is computed once.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..packages import import_package
from .parity import ExportError

#: Length of an axis: a number, or the number of events, which is not known.
Length = Any
#: What the number of events is called in a file.
BATCH = "events"


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph, or a constant.

    shape: as the model sees it.
    held: lengths of the axes that are there, 1 where the value repeats.
    array: the numbers of a constant, in the held shape.
    flipped: a truth value that stands for its opposite, as SOFIE knows no operator `Not`.
    """

    shape: tuple[Length, ...]
    held: tuple[Length, ...]
    dtype: np.dtype
    name: str = ""
    array: np.ndarray | None = None
    flipped: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether all of its numbers are known."""
        return self.array is not None and self.held == self.shape


def is_known(length: Length) -> bool:
    """Whether the length of an axis is a number."""
    return isinstance(length, int | np.integer)


def constant(array: Any) -> Value:  # noqa: ANN401
    """A constant."""
    array = np.asarray(array)
    return Value(array.shape, array.shape, array.dtype, array=array)


def joint_shape(shapes: Sequence[tuple[Length, ...]]) -> tuple[Length, ...]:
    """The shape of an elementwise function; scalars fit to everything."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(
        next((length for length in axis if not is_known(length) or length != 1), 1)
        for axis in zip(*padded, strict=True)
    )


class Graph:
    """Nodes and constants so far."""

    def __init__(self, inputs: Mapping[str, Value]) -> None:
        self.inputs: dict[str, Value] = dict(inputs)
        self.nodes: list[tuple[str, tuple[str, ...], str, dict[str, Any]]] = []
        self._same: dict[Any, Value] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._arrays: dict[str, np.ndarray] = {}
        self._transposed: dict[str, tuple[Value, tuple[int, ...]]] = {}

    def add(
        self,
        operator: str,
        inputs: Sequence[Value],
        held: tuple[Length, ...],
        *,
        shape: tuple[Length, ...] | None = None,
        dtype: Any = None,  # noqa: ANN401
        **attributes: Any,  # noqa: ANN401
    ) -> Value:
        """The output of a node, an older one if there is the same already."""
        names = tuple(self._name(value) for value in inputs)
        key = (operator, names, repr(attributes))
        shape = held if shape is None else shape
        if key not in self._same:
            output = f"{operator.lower()}_{len(self.nodes)}"
            self.nodes.append((operator, names, output, attributes))
            kind = np.dtype(dtype or inputs[0].dtype)
            self._same[key] = Value(held, held, kind, output)
        return dataclasses.replace(self._same[key], shape=shape)

    def elementwise(self, operator: str, *inputs: Value, dtype: Any = None) -> Value:  # noqa: ANN401
        """A node whose inputs are repeated to a joint shape."""
        inputs = tuple(self.straight(value) for value in inputs)
        held = joint_shape([value.held for value in inputs])
        shape = joint_shape([value.shape for value in inputs])
        return self.add(operator, inputs, held, shape=shape, dtype=dtype)

    def integers(self, numbers: Sequence[Any]) -> Value:
        """A constant for axes and lengths."""
        return constant(np.asarray([int(number) for number in numbers], np.int64))

    def straight(self, value: Value) -> Value:
        """The value itself where it stood for its opposite."""
        if not value.flipped:
            return value
        plain = dataclasses.replace(value, flipped=False)
        return self.add("Not", [plain], value.held, shape=value.shape)

    def whole(self, value: Value) -> Value:
        """The value with all of its numbers there."""
        value = self.straight(value)
        if value.held == value.shape:
            return value
        shape, batch = value.shape, [axis for axis in value.shape if not is_known(axis)]
        if value.array is not None and not batch:
            return constant(np.broadcast_to(value.array, shape))
        if any(length != batch[0] for length in batch):
            raise ExportError(f"an array of shape {shape} cannot be repeated in an ONNX graph.")
        x = next(iter(self.inputs.values()))
        counted = self.add("Shape", [x], (2,), dtype=np.int64)
        events = self.add(
            "Slice", [counted, self.integers([0]), self.integers([1])], (1,), dtype=np.int64
        )
        parts = [self.integers([length]) if is_known(length) else events for length in shape]
        lengths = self.add("Concat", parts, (len(shape),), axis=0) if len(parts) > 1 else parts[0]
        return self.add("Expand", [value, lengths], shape)

    def reshape(self, value: Value, shape: tuple[Length, ...]) -> Value:
        """The same numbers in another shape."""
        value = self.whole(value)
        if value.shape == shape:
            return value
        if value.array is not None:
            return constant(value.array.reshape(shape))
        target = [length if is_known(length) else -1 for length in shape]
        if target.count(-1) > 1 or 0 in target:
            raise ExportError(f"an ONNX graph cannot reshape {value.shape} to {shape}.")
        return self.add("Reshape", [value, self.integers(target)], shape)

    def place_axes(self, value: Value, shape: tuple[Length, ...], places: Sequence[int]) -> Value:
        """The value repeated to `shape`, with its axes at these places."""
        held: list[Length] = [1] * len(shape)
        for place, length in zip(places, value.held, strict=True):
            held[place] = length
        if value.array is not None:
            array = value.array.reshape([int(length) for length in held])
            return Value(shape, array.shape, value.dtype, array=array, flipped=value.flipped)
        new = [axis for axis in range(len(shape)) if axis not in set(places)]
        if not new:
            return dataclasses.replace(value, shape=shape)
        plain = dataclasses.replace(value, flipped=False)
        grown = self.add("Unsqueeze", [plain, self.integers(new)], tuple(held), shape=shape)
        return dataclasses.replace(grown, flipped=value.flipped)

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """The value without these axes, all of length 1."""
        axes = [axis % len(value.shape) for axis in axes]
        if not axes:
            return value
        keep = [axis for axis in range(len(value.shape)) if axis not in axes]
        held, shape = (tuple(part[i] for i in keep) for part in (value.held, value.shape))
        if value.array is not None:
            array = value.array.reshape(held)
            return Value(shape, held, value.dtype, array=array, flipped=value.flipped)
        plain = dataclasses.replace(value, flipped=False)
        found = self.add("Squeeze", [plain, self.integers(axes)], held, shape=shape)
        return dataclasses.replace(found, flipped=value.flipped)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Axes in another order; two such steps become one."""
        order = tuple(int(axis) for axis in order)
        if order == tuple(range(len(order))):
            return value
        value = self.straight(value)
        held, shape = (tuple(part[i] for i in order) for part in (value.held, value.shape))
        if value.array is not None:
            return Value(shape, held, value.dtype, array=value.array.transpose(order))
        if value.name in self._transposed:
            source, first = self._transposed[value.name]
            source = dataclasses.replace(source, shape=_undo(first, value.shape))
            return self.transpose(source, [first[axis] for axis in order])
        found = self.add("Transpose", [value], held, shape=shape, perm=order)
        self._transposed[found.name] = (value, order)
        return found

    def cut(self, value: Value, starts: Any, ends: Any, steps: Any = None) -> Value:  # noqa: ANN401
        """A part of the value."""
        steps = steps or [1] * len(value.shape)
        axes, shape, held = [], list(value.shape), list(value.held)
        for axis, (length, start, end, step) in enumerate(
            zip(value.shape, starts, ends, steps, strict=True)
        ):
            if (is_known(start) and start == 0) and end == length and step == 1:
                continue
            if not (is_known(length) and is_known(start) and is_known(end)):
                raise ExportError("a part of the events is taken, which no export can.")
            shape[axis] = math.ceil((end - start) / step)
            if value.held[axis] != 1 or length == 1:
                held[axis] = shape[axis]
                axes.append(axis)
        shape, held = tuple(shape), tuple(held)
        if not axes:
            return dataclasses.replace(value, shape=shape)
        if value.array is not None:
            parts = [slice(None)] * len(held)
            for axis in axes:
                parts[axis] = slice(int(starts[axis]), int(ends[axis]), int(steps[axis]))
            return dataclasses.replace(value, shape=shape, held=held, array=value.array[*parts])
        plain = dataclasses.replace(value, flipped=False)
        bounds = [self.integers([part[axis] for axis in axes]) for part in (starts, ends)]
        inputs = [plain, *bounds, self.integers(axes)]
        if any(steps[axis] != 1 for axis in axes):
            inputs.append(self.integers([steps[axis] for axis in axes]))
        found = self.add("Slice", inputs, held, shape=shape)
        return dataclasses.replace(found, flipped=value.flipped)

    def proto(self, outputs: Mapping[str, Value], name: str) -> Any:  # noqa: ANN401
        """The graph in ONNX' own form, with what the outputs need and nothing else."""
        onnx = import_package("onnx", "ONNX files need onnx and onnxruntime", "export")
        helper = onnx.helper
        final = {key: self.whole(value) for key, value in outputs.items()}
        named = [
            helper.make_node("Identity", [self._name(value)], [key]) for key, value in final.items()
        ]
        needed = {node.input[0] for node in named}
        nodes = []
        for operator, inputs, output, attributes in reversed(self.nodes):
            if output in needed:
                needed.update(inputs)
                nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        arrays = [
            onnx.numpy_helper.from_array(array, key)
            for key, array in self._arrays.items()
            if key in needed
        ]
        return helper.make_graph(
            [*reversed(nodes), *named],
            name,
            [_declare(helper, key, value.shape) for key, value in self.inputs.items()],
            [_declare(helper, key, value.shape) for key, value in final.items()],
            arrays,
        )

    def _name(self, value: Value) -> str:
        if value.array is None:
            return value.name
        array = np.ascontiguousarray(value.array).reshape(value.array.shape)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants)}"
            self._arrays[self._constants[key]] = array
        return self._constants[key]


def _undo(order: tuple[int, ...], shape: tuple[Length, ...]) -> tuple[Length, ...]:
    """The shape before its axes were put into this order."""
    found: list[Length] = [None] * len(order)
    for axis, place in enumerate(order):
        found[place] = shape[axis]
    return tuple(found)


def _declare(helper: Any, name: str, shape: tuple[Length, ...]) -> Any:  # noqa: ANN401
    lengths = [int(length) if is_known(length) else BATCH for length in shape]
    return helper.make_tensor_value_info(name, 1, lengths)  # 1 is float32
