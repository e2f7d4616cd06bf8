"""Functions of whole arrays, in operators of ONNX: shapes, sums, products and fixed indices."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .onnx_elementwise import RULES as ELEMENTWISE
from .onnx_elementwise import cast, number
from .onnx_graph import Graph, Length, Value, constant, is_known
from .parity import ExportError

#: A primitive of JAX as nodes of a graph: its inputs, its options and the shapes of its outputs.
ArrayRule = Callable[[Graph, list[Value], dict[str, Any], list[tuple[Length, ...]]], list[Value]]
#: Inputs, options and shapes of outputs of a primitive.
Shapes = list[tuple[Length, ...]]


def _broadcast(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    places = [int(axis) for axis in options["broadcast_dimensions"]]
    return [graph.place_axes(inputs[0], shapes[0], places)]


def _reshape(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    value = inputs[0]
    if options.get("dimensions") is not None:
        value = graph.transpose(value, options["dimensions"])
    return [graph.reshape(value, shapes[0])]


def _squeeze(graph: Graph, inputs: list[Value], options: dict[str, Any], _: Shapes) -> list[Value]:
    return [graph.squeeze(inputs[0], options["dimensions"])]


def _transpose(
    graph: Graph, inputs: list[Value], options: dict[str, Any], _: Shapes
) -> list[Value]:
    return [graph.transpose(inputs[0], options["permutation"])]


def _slice(graph: Graph, inputs: list[Value], options: dict[str, Any], _: Shapes) -> list[Value]:
    bounds = (options["start_indices"], options["limit_indices"], options["strides"])
    return [graph.cut(inputs[0], *bounds)]


def _cut_axis(graph: Graph, value: Value, axis: int, start: int, end: int) -> Value:
    starts: list[Length] = [0] * len(value.shape)
    ends = list(value.shape)
    starts[axis], ends[axis] = start, end
    return graph.cut(value, starts, ends)


def _reverse(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    value = graph.whole(inputs[0])
    for axis in options["dimensions"]:
        backwards = graph.integers(range(int(value.shape[axis]))[::-1])
        value = graph.add("Gather", [value, backwards], shapes[0], axis=int(axis))
    return [value]


def _split(graph: Graph, inputs: list[Value], options: dict[str, Any], _: Shapes) -> list[Value]:
    edges = np.cumsum([0, *options["sizes"]])
    axis = options["axis"]
    pairs = zip(edges[:-1], edges[1:], strict=True)
    return [_cut_axis(graph, inputs[0], axis, int(start), int(end)) for start, end in pairs]


def _unstack(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    axis = options["axis"] % len(inputs[0].shape)
    parts = [_cut_axis(graph, inputs[0], axis, i, i + 1) for i in range(len(shapes))]
    return [graph.squeeze(part, [axis]) for part in parts]


def _join(graph: Graph, inputs: list[Value], axis: int, shape: tuple[Length, ...]) -> list[Value]:
    parts = [graph.whole(value) for value in inputs]
    return [graph.add("Concat", parts, shape, axis=int(axis)) if len(parts) > 1 else parts[0]]


def _concatenate(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    return _join(graph, inputs, options["dimension"], shapes[0])


def _stack(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    axis = options["axis"] % len(shapes[0])
    places = [i for i in range(len(shapes[0])) if i != axis]
    one = (*shapes[0][:axis], 1, *shapes[0][axis + 1 :])
    return _join(graph, [graph.place_axes(v, one, places) for v in inputs], axis, shapes[0])


def _pad(graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes) -> list[Value]:
    value, filling = inputs
    config = [tuple(int(part) for part in axis) for axis in options["padding_config"]]
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        raise ExportError("padding between elements, or less than none, cannot be exported.")
    widths = graph.integers([axis[0] for axis in config] + [axis[1] for axis in config])
    return [graph.add("Pad", [graph.whole(value), widths, filling], shapes[0], mode="constant")]


def _sum(graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes) -> list[Value]:
    axes = graph.integers(options["axes"])
    return [graph.add("ReduceSum", [graph.whole(inputs[0]), axes], shapes[0], keepdims=0)]


def _halving(operator: str) -> ArrayRule:
    """A reduction by an operator of two values, half of an axis with the other half.

    SOFIE has no maximum along an axis, and opsets write it differently.
    """

    def rule(graph: Graph, inputs: list[Value], options: dict[str, Any], _: Shapes) -> list[Value]:
        value = inputs[0]
        for axis in options["axes"]:
            while (length := int(value.shape[axis])) > 1:
                half = length // 2
                parts = [_cut_axis(graph, value, axis, start, start + half) for start in (0, half)]
                pair = graph.elementwise(operator, *parts)
                rest = _cut_axis(graph, value, axis, 2 * half, length)
                value = pair
                if length % 2:
                    shape = (*pair.shape[:axis], half + 1, *pair.shape[axis + 1 :])
                    value = _join(graph, [pair, rest], axis, shape)[0]
        return [graph.squeeze(value, options["axes"])]

    return rule


def _any(graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes) -> list[Value]:
    """Whether some are true; of opposites, whether not all are."""
    return [_count(graph, inputs[0], options, shapes, every=False)]


def _all(graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes) -> list[Value]:
    return [_count(graph, inputs[0], options, shapes, every=True)]


def _count(
    graph: Graph, value: Value, options: dict[str, Any], shapes: Shapes, *, every: bool
) -> Value:
    # "Some are not" is the opposite of "all are", and so on.
    opposite, every = value.flipped, every != value.flipped
    plain = cast(graph, dataclasses.replace(value, flipped=False), np.float32)
    found = _sum(graph, [plain], options, shapes)[0]
    least = math.prod(int(value.shape[axis]) for axis in options["axes"]) if every else 1
    found = graph.elementwise("Greater", found, number(least - 0.5, found), dtype=bool)
    return dataclasses.replace(found, flipped=opposite)


def _dot(graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes) -> list[Value]:
    """A product over common axes, as a product of matrices."""
    (left_over, right_over), (left_batch, right_batch) = options["dimension_numbers"]
    left, right = (graph.whole(value) for value in inputs)
    left_free = _others(left, left_over, left_batch)
    right_free = _others(right, right_over, right_batch)
    if not left_batch and left.array is not None and right.array is None:
        # The constant one comes second, where leading axes of the first need no care.
        swapped = {
            "dimension_numbers": ((right_over, left_over), ((), ())),
        }
        order = [*range(len(right_free), len(right_free) + len(left_free)), *range(len(right_free))]
        shape = tuple(
            value.shape[i] for value, free in ((right, right_free), (left, left_free)) for i in free
        )
        product = _dot(graph, [right, left], swapped, [shape])[0]
        return [graph.transpose(product, order)]
    a = graph.transpose(left, [*left_batch, *left_free, *left_over])
    b = graph.transpose(right, [*right_batch, *right_over, *right_free])
    batch = tuple(left.shape[i] for i in left_batch)
    rows = tuple(left.shape[i] for i in left_free)
    columns = tuple(right.shape[i] for i in right_free)
    inner = math.prod(int(left.shape[i]) for i in left_over)
    if batch:
        rows = (math.prod(rows),) if len(rows) != 1 else rows
    a = graph.reshape(a, (*batch, *(rows or (1,)), inner))
    b = graph.reshape(b, (*batch, inner, math.prod(columns)))
    held = (*batch, *(rows or (1,)), math.prod(columns))
    return [graph.reshape(graph.add("MatMul", [a, b], held), shapes[0])]


def _others(value: Value, *taken: Sequence[int]) -> list[int]:
    gone = {int(axis) for axes in taken for axis in axes}
    return [axis for axis in range(len(value.shape)) if axis not in gone]


def _gather(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    """Elements at fixed places, the same in every event."""
    value, indices = inputs
    event = _event_axis(value.shape)
    lengths = tuple(1 if i == event else int(n) for i, n in enumerate(value.shape))
    sizes = tuple(1 if i == event else int(n) for i, n in enumerate(options["slice_sizes"]))
    if not indices.is_constant or options["slice_sizes"][event] != value.shape[event]:
        raise ExportError("elements at places that depend on the event cannot be exported.")
    numbers = np.arange(math.prod(lengths), dtype=np.int32).reshape(lengths)
    places = np.asarray(
        jax.lax.gather_p.bind(
            numbers, np.asarray(indices.array), **(options | {"slice_sizes": sizes})
        )
    )
    if places.min() < 0:
        raise ExportError("an index lies outside its array.")
    rows = _events_first(graph, value, event)
    picks = constant(places.ravel().astype(np.int64))
    found = graph.add("Gather", [rows, picks], (rows.shape[0], places.size), axis=1)
    return [_events_back(graph, found, shapes[0])]


def _scatter_add(
    graph: Graph, inputs: list[Value], options: dict[str, Any], shapes: Shapes
) -> list[Value]:
    """Sums into fixed places, the same in every event: a product with a matrix."""
    value, indices, updates = inputs
    event, of_updates = _event_axis(value.shape), _event_axis(updates.shape)
    if not indices.is_constant:
        raise ExportError("sums into places that depend on the event cannot be exported.")
    before = tuple(1 if i == of_updates else int(n) for i, n in enumerate(updates.shape))
    after = tuple(1 if i == event else int(n) for i, n in enumerate(value.shape))
    size = math.prod(before)
    each = np.eye(size, dtype=np.float32).reshape(size, *before)
    empty, places = np.zeros(after, np.float32), np.asarray(indices.array)
    placed = jax.vmap(lambda one: jax.lax.scatter_add_p.bind(empty, places, one, **options))(each)
    rows = _events_first(graph, updates, of_updates)
    matrix = constant(np.asarray(placed).reshape(size, -1))
    found = graph.add("MatMul", [rows, matrix], (rows.shape[0], math.prod(after)))
    return [graph.elementwise("Add", value, _events_back(graph, found, shapes[0]))]


def _event_axis(shape: tuple[Length, ...]) -> int:
    axes = [axis for axis, length in enumerate(shape) if not is_known(length)]
    if len(axes) != 1:
        raise ExportError(f"an array of shape {shape} is indexed, which cannot be exported.")
    return axes[0]


def _events_first(graph: Graph, value: Value, event: int) -> Value:
    """One row for each event."""
    order = [event, *(axis for axis in range(len(value.shape)) if axis != event)]
    columns = math.prod(int(n) for i, n in enumerate(value.shape) if i != event)
    return graph.reshape(graph.transpose(value, order), (value.shape[event], columns))


def _events_back(graph: Graph, rows: Value, shape: tuple[Length, ...]) -> Value:
    """Rows of events in a shape that has the events on some axis."""
    event = _event_axis(shape)
    others = tuple(length for axis, length in enumerate(shape) if axis != event)
    order = [*range(1, event + 1), 0, *range(event + 1, len(shape))]
    return graph.transpose(graph.reshape(rows, (shape[event], *others)), order)


def _of_one(rule: Callable[..., Value]) -> ArrayRule:
    return lambda graph, inputs, options, _: [rule(graph, inputs, options)]


#: Rules by the names of primitives.
RULES: dict[str, ArrayRule] = {name: _of_one(rule) for name, rule in ELEMENTWISE.items()} | {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "dot_general": _dot,
    "gather": _gather,
    "pad": _pad,
    "reduce_and": _all,
    "reduce_max": _halving("Max"),
    "reduce_min": _halving("Min"),
    "reduce_or": _any,
    "reduce_prod": _halving("Mul"),
    "reduce_sum": _sum,
    "reshape": _reshape,
    "rev": _reverse,
    "scatter-add": _scatter_add,
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "transpose": _transpose,
    "unstack": _unstack,
}
