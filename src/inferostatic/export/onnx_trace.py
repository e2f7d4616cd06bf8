"""The functions of a model as a graph: JAX traces them, and each primitive becomes some nodes.

The number of events stays a symbol. Weights are arguments of what is traced, so that one trace
serves all members; whatever depends on weights alone is computed here and not in the graph.
"""

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.export import symbolic_shape
from jax.extend.core import Literal

from ..estimator.estimator import AbstractEstimator
from ..models.features.per_particle import PerParticleMap
from ..models.members import with_network
from .onnx_arrays import RULES
from .onnx_elementwise import RULES as ELEMENTWISE
from .onnx_elementwise import number
from .onnx_graph import BATCH, Graph, Length, Value, constant, is_known
from .parity import ExportError
from .particle_order import in_any_order
from .ratio_difference import log_ratio_of

#: Primitives that call another function, and where they keep it.
CALLS = {
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}
#: What NumPy does to constants, without compiling anything.
NUMPY: dict[str, np.ufunc] = {
    "add": np.add,
    "add_any": np.add,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "neg": np.negative,
    "sub": np.subtract,
}
#: Primitives whose rules take constants themselves.
BY_SHAPE = ("broadcast_in_dim", "reshape", "slice", "squeeze", "transpose")
#: Which inputs a question takes besides x.
THETAS: dict[str, tuple[str, ...]] = {
    "potential": ("theta",),
    "score": ("theta",),
    "log_ratio": ("theta0", "theta1"),
}


def start_graph(estimator: AbstractEstimator, questions: tuple[str, ...]) -> Graph:
    """A graph with the inputs of these questions."""
    events = symbolic_shape(BATCH)[0]
    names = dict.fromkeys(name for question in questions for name in THETAS[question])
    lengths = {"x": len(estimator.x_names)} | dict.fromkeys(names, len(estimator.theta_names))
    shapes = {name: (events, length) for name, length in lengths.items()}
    kind = np.dtype(np.float32)
    return Graph({name: Value(shape, shape, kind, name) for name, shape in shapes.items()})


def add_question(graph: Graph, estimator: AbstractEstimator, question: str) -> Value:
    """The answer to a question, averaged over the members."""
    model = estimator.model
    if isinstance(model.x_features, PerParticleMap):
        model = in_any_order(model)
    weights, rest = eqx.partition(model.network, eqx.is_array)
    inputs = [graph.inputs[name] for name in ("x", *THETAS[question])]

    def ask(arrays: Any, *rows: jax.Array) -> jax.Array:  # noqa: ANN401
        member = with_network(model, eqx.combine(arrays, rest))
        of_ratio = functools.partial(log_ratio_of, member)
        return jax.vmap(of_ratio if question == "log_ratio" else getattr(member, question))(*rows)

    one = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape[1:], array.dtype), weights)
    rows = [jax.ShapeDtypeStruct(value.shape, jnp.float32) for value in inputs]
    traced = jax.make_jaxpr(ask)(one, *rows)
    total = None
    for member in range(estimator.members):
        own = [constant(np.asarray(array[member])) for array in jax.tree.leaves(weights)]
        answer = walk(graph, traced.jaxpr, traced.consts, [*own, *inputs])[0]
        total = answer if total is None else graph.elementwise("Add", total, answer)
    assert total is not None
    if estimator.members == 1:
        return total
    return graph.elementwise("Div", total, number(estimator.members, total))


def walk(graph: Graph, jaxpr: Any, consts: Any, arguments: list[Value]) -> list[Value]:  # noqa: ANN401
    """The outputs of a traced function, with a node for whatever depends on the events."""
    known: dict[Any, Value] = dict(zip(jaxpr.invars, arguments, strict=True))
    known |= {var: constant(np.asarray(c)) for var, c in zip(jaxpr.constvars, consts, strict=True)}

    def read(atom: Any) -> Value:  # noqa: ANN401
        if not isinstance(atom, Literal):
            return known[atom]
        kind: Any = atom.aval
        return constant(np.asarray(atom.val, kind.dtype))

    for step in jaxpr.eqns:
        outputs = _emit(graph, step, [read(atom) for atom in step.invars])
        known |= dict(zip(step.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _emit(graph: Graph, step: Any, inputs: list[Value]) -> list[Value]:  # noqa: ANN401
    name = step.primitive.name
    if name in CALLS:
        called = step.params[CALLS[name]]
        inner = getattr(called, "jaxpr", called)
        return walk(graph, inner, getattr(called, "consts", ()), inputs)
    shapes: list[tuple[Length, ...]] = [tuple(var.aval.shape) for var in step.outvars]
    arrays = [value.array for value in inputs if value.array is not None and not value.flipped]
    if len(arrays) == len(inputs) and name in ELEMENTWISE:
        found = _compute(step, np.broadcast_arrays(*arrays))
        return [Value(shapes[0], found.shape, found.dtype, array=found)]
    if len(arrays) == len(inputs) and name not in BY_SHAPE and _all_known(inputs, shapes):
        whole = [
            np.broadcast_to(array, value.shape) for array, value in zip(arrays, inputs, strict=True)
        ]
        found = step.primitive.bind(*whole, **step.params)
        found = found if step.primitive.multiple_results else [found]
        return [constant(np.asarray(array)) for array in found]
    if name not in RULES:
        raise ExportError(
            f"the network uses `{name}` of JAX, which has no counterpart in ONNX files here. "
            "Write it with elementwise functions, sums, products of matrices and fixed indices, or "
            "export by ist.export.stablehlo, which takes every function of JAX."
        )
    return RULES[name](graph, inputs, step.params, shapes)


def _compute(step: Any, arrays: Sequence[np.ndarray]) -> np.ndarray:  # noqa: ANN401
    """A function of single numbers, of constants."""
    numpy = NUMPY.get(step.primitive.name)
    if numpy is not None and all(array.dtype == np.float32 for array in arrays):
        return np.asarray(numpy(*arrays))
    return np.asarray(step.primitive.bind(*arrays, **step.params))


def _all_known(inputs: list[Value], shapes: list[tuple[Length, ...]]) -> bool:
    """Whether nothing has one row for each event."""
    both = [*(value.shape for value in inputs), *shapes]
    return all(is_known(length) for shape in both for length in shape)
