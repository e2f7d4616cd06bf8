"""Networks: vectors in, vectors out.

A network *choice* such as `MLP((64, 64))` is called with the sizes and a key and returns an Equinox
module; a user's own function with the same signature serves as well. The layers are our own, in
plain `jnp`, because exporters cannot differentiate through library layers.
"""

import abc
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...inputs import as_count, as_flag, as_function, kind_of
from ...serial import known, picklable, register
from ...supervision.records import Number, Theta
from ...threefry import draw_uniform, split_key

#: A function of one number, applied to each unit.
Activation = Callable[[Array], Array]

#: Units of one layer, at most: a matrix between two such layers takes 17 GB.
MOST_UNITS = 1 << 16
#: Layers of one network, at most: compilation time grows with each.
MOST_LAYERS = 1000
#: Activations that files store by name.
_NAMES = ("selu", "silu", "softplus", "gelu", "elu", "relu", "sigmoid", "celu", "mish")
#: The same functions by name.
_ACTIVATIONS = {name: getattr(jax.nn, name) for name in _NAMES} | {"tanh": jnp.tanh}
for _name, _activation in _ACTIVATIONS.items():
    register(_name, _activation)


@runtime_checkable
class NetworkChoice(Protocol):
    """Builds a network with the given sizes."""

    def __call__(self, in_size: int, out_size: int, *, key: PRNGKeyArray) -> eqx.Module:
        """A module that maps a vector of `in_size` to one of `out_size`."""
        ...


class AbstractInitial(eqx.Module):
    """How weights start."""

    @abc.abstractmethod
    def __call__(self, out_size: int, in_size: int, *, key: PRNGKeyArray) -> Array:
        """A weight matrix."""


@known
class GlorotUniform(AbstractInitial):
    """Uniform on ±√(6/(in+out)), Keras' default and the paper's."""

    def __call__(self, out_size: int, in_size: int, *, key: PRNGKeyArray) -> Array:
        """A weight matrix."""
        limit = np.sqrt(6 / (in_size + out_size))
        return draw_uniform(key, (out_size, in_size), limit)


@known
class LecunNormal(AbstractInitial):
    """Normal with variance 1/in."""

    def __call__(self, out_size: int, in_size: int, *, key: PRNGKeyArray) -> Array:
        """A weight matrix."""
        return jax.random.normal(key, (out_size, in_size)) / np.sqrt(in_size).astype(np.float32)


def _make_zeros(size: int) -> Array:
    """Biases, by NumPy: `jnp.zeros` compiles a program for every size."""
    return jax.device_put(np.zeros(size, np.float32))


class LinearLayer(eqx.Module):
    """W a + b."""

    weight: Float[Array, "out_size in_size"]
    bias: Float[Array, " out_size"] | None

    def __call__(self, a: Float[Array, "in_size *columns"]) -> Float[Array, "out_size *columns"]:
        """The affine map, of one vector or of columns.

        Columns, because the weight's gradient is then a product of two wide matrices; of two tall
        ones it takes XLA twice the time on a CPU.
        """
        # One vector from the left: mapped over a few events that is faster for small matrices.
        product = a @ self.weight.T if a.ndim == 1 else jnp.tensordot(self.weight, a, axes=1)
        if self.bias is None:
            return product
        return product + self.bias.reshape(-1, *[1] * (a.ndim - 1))


class AbstractPairNetwork(eqx.Module):
    """A potential in three parts: what it needs of x, what it needs of θ, and how the two meet.

    N events at M points then cost N + M passes through the first two parts, and only the last is
    done N·M times; in training, the part of x is shared by all candidates of an event.
    """

    @abc.abstractmethod
    def embed_x(self, x: Float[Array, " features"]) -> Any:  # noqa: ANN401
        """What is needed of one event."""

    @abc.abstractmethod
    def embed_theta(self, theta: Theta) -> Any:  # noqa: ANN401
        """What is needed of one θ."""

    @abc.abstractmethod
    def join(self, x_part: Any, theta_part: Any) -> Number:  # noqa: ANN401
        """The potential."""


class AbstractFeedForward(eqx.Module):
    """A network of one vector that begins with a linear layer.

    It can carry its own θ-derivative forward (Appendix B of the paper), and as a potential it
    divides its first layer into a part of x and a part of θ.
    """

    @property
    @abc.abstractmethod
    def first(self) -> LinearLayer:
        """The first layer."""

    @abc.abstractmethod
    def after_first(self, z: Float[Array, "width *columns"]) -> Float[Array, "out_size *columns"]:
        """The output, from what the first layer gives; of one vector or of columns."""

    def __call__(self, a: Float[Array, "in_size *columns"]) -> Float[Array, "out_size *columns"]:
        """The output."""
        return self.after_first(self.first(a))

    @abc.abstractmethod
    def with_tangents(
        self, a: Float[Array, " in_size"], tangents: Float[Array, "theta_dim in_size"]
    ) -> tuple[Float[Array, " out_size"], Float[Array, "theta_dim out_size"]]:
        """The output and its derivatives along the rows of `tangents`, in one forward pass."""


class MLPNetwork(AbstractFeedForward):
    """A multilayer perceptron with its weights."""

    layers: tuple[LinearLayer, ...]
    activation: Activation = eqx.field(static=True)

    @property
    def first(self) -> LinearLayer:
        """The first layer."""
        return self.layers[0]

    def after_first(self, z: Float[Array, "width *columns"]) -> Float[Array, "out_size *columns"]:
        """The other layers, each after an activation."""
        for layer in self.layers[1:]:
            z = layer(self.activation(z))
        return z

    def with_tangents(
        self, a: Float[Array, " in_size"], tangents: Float[Array, "theta_dim in_size"]
    ) -> tuple[Float[Array, " out_size"], Float[Array, "theta_dim out_size"]]:
        r"""Carry a and \(B_{ij}=\partial a_i/\partial\theta_j\) with the same weights.

        `eq:gradient_computation`: B → W B at a linear layer, B → σ'(z) ∘ B at an activation.
        Between hidden layers the value and its derivatives share one matrix product. The first
        layer keeps them apart, because there B is the same for every event, and so does the last,
        whose value a score does not need.
        """
        slope = jax.vmap(jax.grad(self.activation))
        first, *hidden, last = self.layers
        z, tangents = first(a), tangents @ first.weight.T
        for layer in hidden:
            rows = jnp.concatenate([self.activation(z)[None], slope(z)[None] * tangents])
            product = rows @ layer.weight.T
            value, tangents = jax.lax.split(product, (1, len(tangents)))
            z = value[0] if layer.bias is None else value[0] + layer.bias
        return last(self.activation(z)), (slope(z)[None] * tangents) @ last.weight.T


class ResidualNetwork(AbstractFeedForward):
    """Blocks that each add a correction to what came before, with its weights."""

    enter: LinearLayer
    blocks: tuple[tuple[LinearLayer, LinearLayer], ...]
    leave: LinearLayer
    activation: Activation = eqx.field(static=True)

    @property
    def first(self) -> LinearLayer:
        """The first layer."""
        return self.enter

    def after_first(self, z: Float[Array, "width *columns"]) -> Float[Array, "out_size *columns"]:
        """z → z + W₂ σ(W₁ σ(z) + b₁) + b₂ in every block, then the last layer."""
        for one, two in self.blocks:
            z = z + two(self.activation(one(self.activation(z))))
        return self.leave(self.activation(z))

    def with_tangents(
        self, a: Float[Array, " in_size"], tangents: Float[Array, "theta_dim in_size"]
    ) -> tuple[Float[Array, " out_size"], Float[Array, "theta_dim out_size"]]:
        """The same with derivatives: a skip connection adds its tangents as they are."""
        slope = jax.vmap(jax.grad(self.activation))

        def layer(linear: LinearLayer, z: Array, along: Array) -> tuple[Array, Array]:
            """A linear layer of the activation of z, with its derivatives."""
            moved = (slope(z)[None] * along) @ linear.weight.T
            return linear(self.activation(z)), moved

        z, along = self.enter(a), tangents @ self.enter.weight.T
        for one, two in self.blocks:
            step, step_along = layer(two, *layer(one, z, along))
            z, along = z + step, along + step_along
        return layer(self.leave, z, along)


def _as_widths(widths: Any) -> tuple[int, ...]:  # noqa: ANN401
    listed = isinstance(widths, list | tuple | range | np.ndarray | Iterator)
    if not listed or (isinstance(widths, np.ndarray) and widths.ndim != 1):
        raise TypeError(f"widths must be a list such as (64, 64); got {widths!r}.")
    values = tuple(as_count(width, "every width", most=MOST_UNITS) for width in widths)
    if not values:
        raise ValueError(f"an MLP needs at least one hidden layer of positive width; got {widths}.")
    as_count(len(values), "the number of layers", most=MOST_LAYERS)
    return values


#: What an activation is, for messages.
ACTIVATION = "a JAX function of one number, such as jax.nn.silu"
#: What a network of one vector is, for messages.
NETWORK = "such as ist.MLP((64, 64)), or a function (in_size, out_size, *, key)"


def _check_start(choice: "MLP | Residual") -> None:
    if not isinstance(choice.initial, AbstractInitial):
        raise TypeError(
            f"initial must be such as ist.GlorotUniform(); got {kind_of(choice.initial)}."
        )
    as_flag(choice.output_bias, "output_bias")
    as_function(choice.activation, "activation", ACTIVATION)


def _check_elementwise(activation: Activation) -> None:
    """Refuse functions that mix units, such as softmax: `with_tangents` relies on σ'(z) alone."""
    if any(activation is ours for ours in _ACTIVATIONS.values()):
        return
    remedy = (
        "an MLP takes elementwise JAX functions such as jax.nn.silu. For layers that mix units "
        "write your own network, a function (in_size, out_size, *, key)."
    )
    try:
        # Values, also where a network is built by its shapes alone.
        with jax.ensure_compile_time_eval():
            z = jnp.asarray([-1.5, -0.25, 0.5, 2.0])
            one_by_one = jnp.stack([activation(unit) for unit in z])
            same = bool(jnp.allclose(activation(z), one_by_one, rtol=1e-4, atol=1e-6))
    except (TypeError, IndexError, ValueError) as error:
        wrong = f"could not be applied to single numbers ({error})"
        raise TypeError(f"the activation {activation!r} {wrong}; {remedy}") from error
    if not same:
        raise TypeError(f"the activation {activation!r} mixes units; {remedy}")


@picklable
@known
class MLP(eqx.Module):
    """A choice of multilayer perceptron.

    Args:
        widths: of the hidden layers.
        activation: a JAX function of one number, applied to each unit. Anything that uses second
            derivatives of the potential needs a twice differentiable one (SiLU, tanh, softplus),
            not SELU or ReLU.
        initial: how weights start; biases start at zero.
        output_bias: whether the last layer has a bias. A potential does not need one: a constant
            cancels in every score and ratio.
    """

    widths: tuple[int, ...] = eqx.field(static=True, converter=_as_widths, default=(64, 64, 64))
    activation: Activation = eqx.field(static=True, default=jax.nn.silu)
    initial: AbstractInitial = eqx.field(default_factory=GlorotUniform)
    output_bias: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        """How weights start."""
        _check_start(self)

    def __call__(self, in_size: int, out_size: int, *, key: PRNGKeyArray) -> MLPNetwork:
        """Build the network."""
        _check_elementwise(self.activation)
        sizes = (in_size, *self.widths, out_size)
        keys = split_key(key, len(sizes) - 1)
        layers = []
        for i, k in enumerate(keys):
            bias = i < len(keys) - 1 or self.output_bias
            weight = self.initial(sizes[i + 1], sizes[i], key=k)
            layers.append(LinearLayer(weight, _make_zeros(sizes[i + 1]) if bias else None))
        return MLPNetwork(tuple(layers), self.activation)


@picklable
@known
class Residual(eqx.Module):
    """A choice of residual network, the default: deep without being hard to train.

    Args:
        width: of every layer.
        blocks: each of two layers, added to what came before.
        activation: a JAX function of one number; see `MLP`.
        initial: how weights start; biases start at zero.
        output_bias: whether the last layer has a bias; a potential does not need one.
    """

    width: int = eqx.field(static=True, default=64)
    blocks: int = eqx.field(static=True, default=2)
    activation: Activation = eqx.field(static=True, default=jax.nn.silu)
    initial: AbstractInitial = eqx.field(default_factory=GlorotUniform)
    output_bias: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        """Positive whole numbers."""
        as_count(self.width, "width", most=MOST_UNITS)
        as_count(self.blocks, "blocks", most=MOST_LAYERS)
        _check_start(self)

    def __call__(self, in_size: int, out_size: int, *, key: PRNGKeyArray) -> ResidualNetwork:
        """Build the network."""
        _check_elementwise(self.activation)
        keys = iter(split_key(key, 2 * self.blocks + 2))

        def linear(rows: int, columns: int, *, bias: bool = True) -> LinearLayer:
            weight = self.initial(rows, columns, key=next(keys))
            return LinearLayer(weight, _make_zeros(rows) if bias else None)

        enter = linear(self.width, in_size)
        blocks = tuple(
            (linear(self.width, self.width), linear(self.width, self.width))
            for _ in range(self.blocks)
        )
        leave = linear(out_size, self.width, bias=self.output_bias)
        return ResidualNetwork(enter, blocks, leave, self.activation)


def parameter_count(network: Any) -> int:  # noqa: ANN401
    """Number of trainable numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))
