"""Which networks compete where none was given and events are many enough to tell them apart.

Two towers are exact for exponential families and far better at far ratios, but cannot follow a
narrow structure that moves with θ, such as a peak; a residual network of x and θ together can.
"""

import dataclasses

from ...models.architecture import AbstractArchitecture, Potential
from ...models.networks.networks import Residual
from ...models.networks.two_tower import TwoTower

#: Products of the default two towers.
PRODUCTS = 32


def list_networks(architecture: AbstractArchitecture) -> list[AbstractArchitecture]:
    """The default architecture, preceded by two towers of its size where these can stand in."""
    if not isinstance(architecture, Potential) or not isinstance(architecture.network, Residual):
        return [architecture]
    tower = architecture.network
    towers = dataclasses.replace(architecture, network=TwoTower(PRODUCTS, tower, tower))
    return [towers, architecture]
