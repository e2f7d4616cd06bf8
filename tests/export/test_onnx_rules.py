"""Functions of JAX as ONNX graphs, against JAX itself, in onnxruntime and at any number of rows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.export import symbolic_shape
from jax.extend.core import Primitive
from jax.interpreters import batching

import inferostatic as ist
from inferostatic.export.onnx_file import SOFIE_OPERATORS, open_session
from inferostatic.export.onnx_graph import BATCH, Graph, Value
from inferostatic.export.onnx_trace import walk
from inferostatic.export.particle_order import rank_rows
from inferostatic.models.features.per_particle import sort_rows

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

COLUMNS = 4
INDEX = np.array([[3, 1], [0, 1]])


def build(function: Callable[[Any], Any], opset: int = 17) -> Any:
    """A file of a function of one row."""
    shape = (symbolic_shape(BATCH)[0], COLUMNS)
    graph = Graph({"x": Value(shape, shape, np.dtype(np.float32), "x")})
    traced = jax.make_jaxpr(jax.vmap(function))(jax.ShapeDtypeStruct(shape, jnp.float32))
    output = walk(graph, traced.jaxpr, traced.consts, [graph.inputs["x"]])[0]
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(
        graph.proto({"y": output}, "test"),
        opset_imports=opsets,
        ir_version=onnx.helper.find_min_ir_version_for(opsets),
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def evaluate(model: Any, x: np.ndarray) -> np.ndarray:
    return open_session(model.SerializeToString(), runtime).run(["y"], {"x": x})[0]


def rows(count: int = 200, scale: float = 3.0) -> np.ndarray:
    x = np.random.default_rng(5).normal(size=(count, COLUMNS)) * scale
    x[:10] = [0.0, -0.0, 1e-4, -1e-4]
    x[10:20, 1:] = x[10:20, :1]  # ties
    return x.astype(np.float32)


def square_matrix(x: Any) -> Any:
    return x.reshape(2, 2)


SMOOTH = {
    "asinh": jnp.arcsinh,
    "celu": jax.nn.celu,
    "elu": jax.nn.elu,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "exp2": lambda x: jnp.exp2(x / 4),
    "gelu": jax.nn.gelu,
    "exact gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "log1p": lambda x: jnp.log1p(x**2),
    "mish": jax.nn.mish,
    "power": lambda x: (x**2 + 1) ** -3 + (x**2 + 0.1) ** 0.3,
    "relu": jax.nn.relu,
    "rsqrt": lambda x: jax.lax.rsqrt(x**2 + 1),
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}
#: Absolute errors where rounding of large terms cancels, in JAX as well.
ROUNDING = {"gelu": 2e-5, "mish": 1e-5}
OTHERS = {
    "all": lambda x: jnp.where(jnp.all(x > -1), x, 0),
    "any differs": lambda x: jnp.where(jnp.any(x != x[0]), x, 5),
    "clamp": lambda x: jnp.clip(x, -1, jnp.arange(4.0)),
    "finite": lambda x: jnp.where(jnp.isfinite(x), x, 0),
    "inner products": lambda x: jnp.outer(x, x) @ square_matrix(x).ravel(),
    "logical": lambda x: jnp.where((x > 0) & ~(x > 1) | (x < -2), x, 7),
    "maximum": lambda x: jnp.max(jnp.outer(x, jnp.arange(7.0) - 3), axis=1),
    "minimum": lambda x: jnp.stack([jnp.min(x), jnp.max(x)]),
    "matrices": lambda x: square_matrix(x) @ square_matrix(x).T @ jnp.arange(6.0).reshape(2, 3),
    "number of truths": lambda x: jnp.sum(x != 0, dtype=x.dtype)[None] + 1 - (x <= 0),
    "outer": lambda x: jnp.outer(x, jnp.arange(3.0)).T,
    "pad": lambda x: jnp.pad(x, (1, 2), constant_values=3.0),
    "picked": lambda x: x[INDEX],
    "picked pairs": lambda x: jnp.stack([x, x**2])[np.array([1, 0, 1]), np.array([2, 2, 0])],
    "product": lambda x: jnp.prod(x) + x,
    "gradient of a product": jax.grad(lambda x: jnp.prod(x[INDEX])),
    "repeated constant": lambda x: jnp.concatenate([jnp.ones(2), x]),
    "reversed": lambda x: x[::-1] + x[np.array([3, 2, 1, 0])],
    "sign": lambda x: jnp.sign(x) * 2,
    "softmax": jax.nn.softmax,
    "sorted": lambda x: rank_rows(square_matrix(x)),
    "steps": lambda x: x[::2],
    "truth of a choice": lambda x: jnp.where(jnp.where(x > 0, x < 1, x < -1), x, -9),
    "weights first": lambda x: jnp.arange(12.0).reshape(3, 4) @ x,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_functions_of_one_number_and_their_slopes(name: str) -> None:
    def both(x: Any) -> Any:
        return jnp.stack([SMOOTH[name](x), jax.vmap(jax.grad(SMOOTH[name]))(x)])

    x = rows()
    model = build(both)
    expected = np.asarray(jax.jit(jax.vmap(both))(x))
    np.testing.assert_allclose(
        evaluate(model, x), expected, rtol=2e-6, atol=ROUNDING.get(name, 1e-6)
    )
    assert {node.op_type for node in model.graph.node} <= SOFIE_OPERATORS


@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_arrays(name: str) -> None:
    x = rows()
    expected = np.asarray(jax.jit(jax.vmap(OTHERS[name]))(x))
    model = build(OTHERS[name])
    for count in (200, 1):
        np.testing.assert_allclose(
            evaluate(model, x[:count]), expected[:count], rtol=2e-6, atol=1e-5
        )


def test_an_inverse_sinh_is_finite_and_odd_everywhere() -> None:
    x = np.array([[1e-30, 1e-6, 1e19, 3e38], [-1e-30, -1e-6, -1e19, -3e38]], np.float32)
    found = evaluate(build(jnp.arcsinh), x)
    np.testing.assert_allclose(found, np.arcsinh(x.astype(np.float64)), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found[0], -found[1])


def test_rows_are_ranked_as_they_are_sorted() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        table = rng.integers(0, 3, size=(6, 3)).astype(np.float32)
        np.testing.assert_array_equal(rank_rows(jnp.asarray(table)), sort_rows(jnp.asarray(table)))


def test_what_is_common_is_computed_once() -> None:
    model = build(lambda x: jnp.exp(x) + jnp.exp(x) * jnp.exp(x))
    assert [node.op_type for node in model.graph.node].count("Exp") == 1


def test_what_is_not_needed_is_left_out() -> None:
    model = build(lambda x: jnp.stack([x, jnp.exp(x)])[0])
    assert "Exp" in {node.op_type for node in model.graph.node}  # a part of the stack
    model = build(lambda x: (jnp.sin(x), x)[1] + 1)
    assert "Sin" not in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (jnp.sort, "sort"),
        (lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x), "while|scan"),
        (lambda x: x[jnp.argmax(x)], "argmax|depend on the event"),
    ],
)
def test_what_has_no_counterpart_is_named(function: Any, named: str) -> None:
    with pytest.raises(ist.export.ExportError, match=named):
        build(function)


def test_the_primitive_of_newer_versions() -> None:
    """JAX 0.11 writes the slope of tanh by it; here it is made for this test."""
    primitive = Primitive("one_minus_square")
    primitive.def_abstract_eval(lambda x: x)
    batching.defvectorized(primitive)
    x = rows()
    np.testing.assert_allclose(evaluate(build(primitive.bind), x), 1 - x**2, rtol=1e-6, atol=1e-6)
