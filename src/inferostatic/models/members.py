"""A model of several members, networks whose arrays are stacked along a leading axis.

The same model around another network, all members at once, and what is made of their answers.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .potential import AbstractModel, PotentialModel
from .theta_potential import ThetaPotential


def mean(values: Array) -> Array:
    """The mean over members."""
    return jnp.mean(values, axis=0)


def keep_members(values: Array) -> Array:
    """All members, on the second axis."""
    return jnp.moveaxis(values, 0, 1)


def log_mean_exp(values: Array) -> Array:
    """The logarithm of the mean over members, of logarithms."""
    return jax.nn.logsumexp(values, axis=0) - np.log(len(values)).astype(np.float32)


def standard_deviation(values: Array) -> Array:
    """The standard deviation over members."""
    return jnp.std(values, axis=0, ddof=1)


def with_network(model: AbstractModel, network: Any) -> Any:  # noqa: ANN401
    """The same model around another network."""
    return eqx.tree_at(lambda m: m.network, model, network)


def with_centring(model: AbstractModel, centring: ThetaPotential | None) -> Any:  # noqa: ANN401
    """The same model with another function of θ alone subtracted."""
    if not isinstance(model, PotentialModel):
        return model
    return dataclasses.replace(model, centring=centring)


def each_member(model: AbstractModel, function: Callable[[Any], Array]) -> Array:
    """`function` of every member's model."""
    one = eqx.filter_vmap(lambda network: function(with_network(model, network)))
    return one(model.network)


def over_members(model: AbstractModel, function: Callable[[Any], Array]) -> Array:
    """`function` of every member's model, averaged."""
    return mean(each_member(model, function))


@eqx.filter_jit
def evaluate(
    question: str, over: Callable[[Array], Array], model: AbstractModel, *arrays: Array
) -> Array:
    """The answers of all members to a question about each row, taken together by `over`."""
    values = each_member(model, lambda member: jax.vmap(getattr(member, question))(*arrays))
    return over(values)


@eqx.filter_jit
def grid(model: AbstractModel, x: Array, thetas: Array) -> Array:
    """The potential of every event at every θ, averaged over members."""
    return over_members(model, lambda member: member.grid(x, thetas))
