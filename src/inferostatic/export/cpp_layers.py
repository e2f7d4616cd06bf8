"""Networks as types of C++, and their weights in the order in which these read them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..models.networks.networks import LinearLayer, MLPNetwork, ResidualNetwork
from ..models.networks.particle_set import ParticleNetwork
from ..models.networks.two_tower import TwoTowerNetwork
from .parity import ExportError

#: Activations of `cpp_source/arithmetic.h`.
ACTIVATIONS: dict[Callable[..., Any], str] = {
    jax.nn.silu: "Silu",
    jax.nn.selu: "Selu",
    jax.nn.elu: "Elu",
    jax.nn.celu: "Elu",
    jax.nn.relu: "Relu",
    jax.nn.softplus: "Softplus",
    jax.nn.gelu: "Gelu",
    jax.nn.sigmoid: "Sigmoid",
    jax.nn.mish: "Mish",
    jnp.tanh: "Tanh",
}
#: What else can be exported, for messages.
ALTERNATIVE = "Export it by ist.export.onnx or ist.export.stablehlo, which take any network."


@dataclasses.dataclass(frozen=True)
class CppNetwork:
    """A network for a header.

    type: as C++ writes it.
    weights: of all members, shape (members, numbers).
    inputs, outputs: its sizes; of a potential, those of x and 1.
    widest: units of its widest layer.
    """

    type: str
    weights: np.ndarray
    inputs: int
    outputs: int
    widest: int


def write_vector_network(network: Any) -> CppNetwork:  # noqa: ANN401
    """A network of one vector."""
    if isinstance(network, MLPNetwork):
        layers = network.layers
        sizes = [np.shape(layers[0].weight)[2], *(np.shape(layer.weight)[1] for layer in layers)]
        name = f"MLP<{_name_activation(network)}, {', '.join(map(str, sizes))}>"
    elif isinstance(network, ResidualNetwork):
        layers = [network.enter, *(layer for block in network.blocks for layer in block)]
        layers.append(network.leave)
        _, width, inputs = np.shape(network.enter.weight)
        sizes = [inputs, width, np.shape(network.leave.weight)[1]]
        counts = f"{inputs}, {width}, {len(network.blocks)}, {sizes[-1]}"
        name = f"Residual<{_name_activation(network)}, {counts}>"
    else:
        raise ExportError(
            "the C++ header is written for ist.MLP, ist.Residual, ist.TwoTower and "
            f"ist.ParticleSet; this model has a network {type(network).__name__}. {ALTERNATIVE}"
        )
    weights = np.concatenate([_pack_layer(layer) for layer in layers], axis=1)
    return CppNetwork(name, weights, sizes[0], sizes[-1], max(sizes))


def write_potential_network(network: Any, theta_dim: int) -> CppNetwork:  # noqa: ANN401
    """A network of x and θ with one output."""
    if isinstance(network, TwoTowerNetwork):
        towers = [write_vector_network(part) for part in (network.x_tower, network.theta_tower)]
        name = f"TwoTower<{towers[0].type}, {towers[1].type}>"
        return _join(name, towers, towers[0].inputs)
    if isinstance(network, ParticleNetwork):
        each = write_vector_network(network.each)
        joined = write_potential_network(network.joined.network, theta_dim)
        name = f"ParticleSet<{each.type}, {joined.type}, {network.particles}>"
        inputs = network.particles * (network.width + 1) + joined.inputs - 3 * each.outputs
        return _join(name, [each, joined], inputs)
    one = write_vector_network(network)
    inputs = one.inputs - theta_dim
    return dataclasses.replace(one, type=f"Joint<{one.type}, {inputs}>", inputs=inputs)


def _join(name: str, parts: list[CppNetwork], inputs: int) -> CppNetwork:
    weights = np.concatenate([part.weights for part in parts], axis=1)
    return CppNetwork(name, weights, inputs, 1, max(inputs, *(part.widest for part in parts)))


def _pack_layer(layer: LinearLayer) -> np.ndarray:
    """Matrix, (in, out), and bias of every member; a layer without one has zeros."""
    weight = np.asarray(layer.weight, np.float32)
    members, outputs, _ = weight.shape
    zeros = np.zeros((members, outputs), np.float32)
    bias = zeros if layer.bias is None else np.asarray(layer.bias, np.float32)
    return np.concatenate([weight.swapaxes(1, 2).reshape(members, -1), bias], axis=1)


def _name_activation(network: MLPNetwork | ResidualNetwork) -> str:
    for function, name in ACTIVATIONS.items():
        if network.activation is function:
            return name
    raise ExportError(
        f"the C++ header knows the activations {', '.join(_names())}; this network has "
        f"{network.activation!r}. {ALTERNATIVE}"
    )


def _names() -> list[str]:
    return sorted(getattr(function, "__name__", name) for function, name in ACTIVATIONS.items())
