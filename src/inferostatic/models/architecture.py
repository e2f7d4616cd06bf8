"""Architectures: which quantity a network models, on which features, before data are seen.

`Potential` (the InferoStatic Network) offers potential, score and log ratio; `DirectScore` only the
score; `DirectRatio` only the log ratio. The paper's three networks are presets at the end.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..serial import known
from .direct import RatioModel, ScoreModel
from .features import (
    AbstractFeatureMap,
    AbstractFeatures,
    Identity,
    Quantile,
    Raw,
    Standardised,
    affine,
    safe_scale,
)
from .networks import MLP, GlorotUniform
from .potential import AbstractModel, PotentialModel


@known
class Shapes(eqx.Module):
    """What an architecture must know of the data."""

    x_features: AbstractFeatureMap
    x_dim: int = eqx.field(static=True)
    theta_centre: np.ndarray
    theta_scale: np.ndarray

    @property
    def theta_dim(self) -> int:
        """Number of parameters."""
        return len(self.theta_centre)


class AbstractArchitecture(eqx.Module):
    """A model waiting for data."""

    network: eqx.AbstractVar[Any]
    x_features: eqx.AbstractVar[AbstractFeatures]
    theta_features: eqx.AbstractVar[AbstractFeatures]

    @abc.abstractmethod
    def build(self, shapes: Shapes, *, key: PRNGKeyArray) -> AbstractModel:
        """An untrained model."""

    def shapes(self, x: np.ndarray, theta_centre: np.ndarray, theta_scale: np.ndarray) -> Shapes:
        """Learn the features of x; θ is standardised by the prior unless raw."""
        if isinstance(self.theta_features, Quantile):
            raise TypeError("theta_features must be ist.Standardised() or ist.Raw().")
        if isinstance(self.theta_features, Raw):
            theta_centre, theta_scale = np.zeros_like(theta_centre), np.ones_like(theta_scale)
        return Shapes(
            x_features=self.x_features.learn(x),
            x_dim=x.shape[1],
            theta_centre=np.asarray(theta_centre, np.float32),
            theta_scale=safe_scale(theta_centre, theta_scale).astype(np.float32),
        )


@known
class Potential(AbstractArchitecture):
    """The InferoStatic Network: φ(x, θ) with one output."""

    network: Any = eqx.field(default_factory=lambda: MLP(output_bias=False))
    x_features: AbstractFeatures = eqx.field(default_factory=Quantile)
    theta_features: AbstractFeatures = eqx.field(default_factory=Standardised)

    def build(self, shapes: Shapes, *, key: PRNGKeyArray) -> PotentialModel:
        """A potential with fresh weights."""
        network = _build(self.network, shapes.x_dim + shapes.theta_dim, 1, key=key)
        return PotentialModel(shapes.x_features, _theta_map(shapes), network)


@known
class DirectScore(AbstractArchitecture):
    """The score as the network's output, one for each parameter."""

    network: Any = eqx.field(default_factory=MLP)
    x_features: AbstractFeatures = eqx.field(default_factory=Quantile)
    theta_features: AbstractFeatures = eqx.field(default_factory=Standardised)

    def build(self, shapes: Shapes, *, key: PRNGKeyArray) -> ScoreModel:
        """A score network with fresh weights."""
        in_size = shapes.x_dim + shapes.theta_dim
        network = _build(self.network, in_size, shapes.theta_dim, key=key)
        scale = jnp.asarray(shapes.theta_scale)
        return ScoreModel(shapes.x_features, _theta_map(shapes), network, scale)


@known
class DirectRatio(AbstractArchitecture):
    """The log ratio as the difference of two outputs, given x, θ0 and θ1."""

    network: Any = eqx.field(default_factory=MLP)
    x_features: AbstractFeatures = eqx.field(default_factory=Quantile)
    theta_features: AbstractFeatures = eqx.field(default_factory=Standardised)

    def build(self, shapes: Shapes, *, key: PRNGKeyArray) -> RatioModel:
        """A ratio network with fresh weights."""
        network = _build(self.network, shapes.x_dim + 2 * shapes.theta_dim, 2, key=key)
        return RatioModel(shapes.x_features, _theta_map(shapes), network)


def _build(choice: Any, in_size: int, out_size: int, *, key: PRNGKeyArray) -> Any:  # noqa: ANN401
    """Build a network, which a user may have written, and check that it is one."""
    remedy = (
        "A network is built by a function (in_size, out_size, *, key) that returns an Equinox "
        f"module with weights, which maps a vector of {in_size} to one of {out_size} here."
    )
    try:
        network = choice(in_size, out_size, key=key)
        inputs = jax.ShapeDtypeStruct((in_size,), jnp.float32)
        output = eqx.filter_eval_shape(network, inputs)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        if isinstance(choice, MLP):
            raise
        told = str(error).rstrip(".")
        raise TypeError(f"the network could not be built or applied: {told}. {remedy}") from error
    shape = getattr(output, "shape", None)
    if shape != (out_size,):
        raise TypeError(f"the network gives an output of shape {shape}. {remedy}")
    if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
        raise TypeError(f"the network has no weights to train. {remedy}")
    return network


def _theta_map(shapes: Shapes) -> AbstractFeatureMap:
    centre, scale = np.asarray(shapes.theta_centre), np.asarray(shapes.theta_scale)
    raw = (centre == 0).all() and (scale == 1).all()
    return Identity() if raw else affine(centre, scale)


def _paper_mlp(*, output_bias: bool) -> MLP:
    return MLP((8, 16, 8), activation=jax.nn.selu, initial=GlorotUniform(), output_bias=output_bias)


#: The paper's ISN: hidden 8-16-8, SELU, raw inputs, no output bias; 344 parameters for 3 + 3.
paper_network = Potential(_paper_mlp(output_bias=False), Raw(), Raw())
#: The paper's direct score network: 363 parameters.
paper_score_network = DirectScore(_paper_mlp(output_bias=True), Raw(), Raw())
#: The paper's direct likelihood ratio network: 378 parameters.
paper_ratio_network = DirectRatio(_paper_mlp(output_bias=True), Raw(), Raw())
