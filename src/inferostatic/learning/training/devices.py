"""Several devices: which part of a training each of them gets.

Where members are as many as devices, or a multiple, each device trains some of them and none waits
for another. Otherwise every batch is divided, and the gradients of its parts are added up in every
step. JAX does both by itself, once arrays are placed; sums are then made in another order, so that
weights agree with those of one device to rounding and not bit by bit.
"""

import dataclasses
import math
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

#: Name of the one axis along which devices lie.
AXIS = "devices"

_Tree = TypeVar("_Tree")


def count_devices() -> int:
    """Devices that trainings are divided among: all of one kind, or the one that the user chose."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return 1 if chosen is not None else jax.local_device_count()


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the arrays of a training lie.

    Attributes:
        mesh: the devices; None for a single one, where nothing is placed.
        members: whether members are divided; otherwise batches are.
    """

    mesh: Mesh | None
    members: bool = False

    def place_members(self, tree: _Tree) -> _Tree:
        """Arrays with an axis of members in front, such as weights."""
        return self._place(tree, PartitionSpec(AXIS) if self.members else PartitionSpec())

    def place_order(self, order: np.ndarray, *, own: bool) -> jax.Array | np.ndarray:
        """Numbers of the events in each batch; `own` where each member has an order of its own."""
        if self.members:
            return self._place(order, PartitionSpec(AXIS) if own else PartitionSpec())
        return self._place(order, PartitionSpec(*[None] * (order.ndim - 1), AXIS))

    def repeat(self, tree: _Tree) -> _Tree:
        """Arrays that every device has as a whole; those that are not JAX's may lie in files."""
        if self.mesh is None:
            return tree
        ours, others = eqx.partition(tree, lambda leaf: isinstance(leaf, jax.Array))
        return eqx.combine(self._place(ours, PartitionSpec()), others)

    def _place(self, tree: _Tree, spec: PartitionSpec) -> _Tree:
        return tree if self.mesh is None else jax.device_put(tree, NamedSharding(self.mesh, spec))


def choose_placement(members: int, batch: int) -> Placement:
    """Divide the members if that uses all devices, or else whichever can be divided further.

    What cannot be divided evenly leaves some devices idle.
    """
    devices = count_devices()
    by_members, by_batch = math.gcd(members, devices), math.gcd(batch, devices)
    most = max(by_members, by_batch)
    if most == 1:
        return Placement(None)
    mesh = Mesh(np.array(jax.local_devices()[:most]), (AXIS,))
    return Placement(mesh, members=by_members == most)
