"""Log ratios that round like themselves, and not like the two potentials they are made of.

φ(x, θ0) and φ(x, θ1) can be large and close to each other, and sums of many terms, which every
program orders in its own way, round by parts of their largest terms. So two points pass through a
network together, as their middle and half their difference: a linear layer maps each of the two by
itself, and at an activation they become the middle and half the difference of σ(z + h) and
σ(z − h). At equal θ the result is 0, and exchanging θ0 and θ1 changes its sign alone.
"""

from typing import Any

from jaxtyping import Array, Float

from ..models.networks.networks import LinearLayer, MLPNetwork, ResidualNetwork
from ..models.networks.particle_set import ParticleNetwork
from ..models.networks.two_tower import TwoTowerNetwork
from ..models.potential import AbstractModel, PotentialModel
from ..supervision.records import Event, Number, Theta

#: The middle of two vectors, and half their difference.
Pair = tuple[Float[Array, " width"], Float[Array, " width"]]


def log_ratio_of(model: AbstractModel, x: Event, theta0: Theta, theta1: Theta) -> Number:
    """φ(x, θ0) − φ(x, θ1) of one member; for networks that are not ours, its own log ratio."""
    if not isinstance(model, PotentialModel) or not _is_known(model.network):
        return model.log_ratio(x, theta0, theta1)  # type: ignore[attr-defined]
    return _subtract(model, model.embed_x(x), model.embed_theta(theta0), model.embed_theta(theta1))


def _is_known(network: Any) -> bool:  # noqa: ANN401
    if isinstance(network, ParticleNetwork):
        return _is_known(network.joined.network)
    return isinstance(network, TwoTowerNetwork | MLPNetwork | ResidualNetwork)


def _subtract(model: PotentialModel, x_part: Any, part0: Any, part1: Any) -> Number:  # noqa: ANN401
    if model.centring is not None:
        (part0, centring0), (part1, centring1) = part0, part1
        return _subtract_joined(model.network, x_part, part0, part1) - (centring0 - centring1)
    return _subtract_joined(model.network, x_part, part0, part1)


def _subtract_joined(network: Any, x_part: Any, part0: Any, part1: Any) -> Number:  # noqa: ANN401
    if isinstance(network, ParticleNetwork):
        return _subtract(network.joined, x_part, part0, part1)
    if isinstance(network, TwoTowerNetwork):
        return network.join(x_part, part0 - part1)  # linear in what comes of θ
    pair = x_part + 0.5 * (part0 + part1), 0.5 * (part0 - part1)
    if isinstance(network, MLPNetwork):
        *layers, last = network.layers[1:]
        for layer in layers:
            pair = _apply(layer, _activate(network, pair))
    else:
        last = network.leave
        for one, two in network.blocks:
            step = _apply(two, _activate(network, _apply(one, _activate(network, pair))))
            pair = pair[0] + step[0], pair[1] + step[1]
    return 2.0 * (_activate(network, pair)[1] @ last.weight.T)[0]


def _activate(network: MLPNetwork | ResidualNetwork, pair: Pair) -> Pair:
    above, below = network.activation(pair[0] + pair[1]), network.activation(pair[0] - pair[1])
    return 0.5 * (above + below), 0.5 * (above - below)


def _apply(layer: LinearLayer, pair: Pair) -> Pair:
    return layer(pair[0]), pair[1] @ layer.weight.T
