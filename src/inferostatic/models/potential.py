r"""The inferostatic potential: one scalar φ(x, θ) that models ln p(x; θ) + c(x).

Its θ-gradient is the score and its differences are log likelihood ratios (`eq:hat_s_r_def`), so the
identities `eq:neat_relations` (zero circulation, chain rule, antisymmetry, r(θ, θ) = 1) hold by
construction. Everything acts on one event and one θ.
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ..inputs import as_floats, in_short
from ..supervision.records import Capability, Event, EventBatch, Number, Numbers, Theta, Thetas
from .features.feature_map import AbstractFeatureMap
from .networks.networks import AbstractFeedForward, AbstractPairNetwork, LinearLayer
from .theta_potential import ThetaPotential

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

#: From this many θ for each event on, dividing the first layer pays for itself.
SPLIT_POINTS = 4
#: Up to this many parameters one forward pass carrying all derivatives beats reverse mode.
FORWARD_SCORE_DIM = 4
#: What a potential offers: it is ln p only up to a function of x.
WITHOUT_DENSITY = frozenset(Capability) - {Capability.DENSITY}


class AbstractModel(eqx.Module):
    """A trained or untrained model: fixed features around a trainable network."""

    x_features: AbstractFeatureMap
    theta_features: AbstractFeatureMap
    network: Any
    #: What this model can be asked for.
    capabilities: AbstractClassVar[frozenset[Capability]]


class AbstractScoreModel(AbstractModel):
    """A model that offers the score."""

    @abc.abstractmethod
    def score(self, x: Event, theta: Theta) -> Theta:
        """ŝ(x; θ)."""


class PotentialModel(AbstractScoreModel):
    """φ(x, θ) = network(features(x), features(θ)) − B(θ), where B, if any, centres the score."""

    capabilities: ClassVar[frozenset[Capability]] = WITHOUT_DENSITY
    centring: ThetaPotential | None = None

    def potential(self, x: Event, theta: Theta) -> Number:
        """φ(x, θ)."""
        x_part, theta_part = self.x_features(x), self.theta_features(theta)
        if isinstance(self.network, AbstractPairNetwork):
            network = self.network
            value = network.join(network.embed_x(x_part), network.embed_theta(theta_part))
        else:
            value = self.network(jnp.concatenate([x_part, theta_part]))[0]
        return value if self.centring is None else value - self.centring(theta)

    def embed_x(self, x: Event) -> Any:  # noqa: ANN401
        """What `join` needs of one event: computed once, however many θ it is evaluated at."""
        return self._embed_x_features(self.x_features(x))

    def _embed_x_features(self, features: Float[Array, "features *columns"]) -> Any:  # noqa: ANN401
        if isinstance(self.network, AbstractPairNetwork):
            return self.network.embed_x(features)
        if isinstance(self.network, AbstractFeedForward):
            weight = self.network.first.weight[:, : len(features)]
            return LinearLayer(weight, None)(features)
        return features

    def embed_theta(self, theta: Theta) -> Any:  # noqa: ANN401
        """What `join` needs of one θ."""
        part = self._embed_theta_features(self.theta_features(theta))
        return part if self.centring is None else (part, self.centring(theta))

    def _embed_theta_features(self, features: Float[Array, "features *columns"]) -> Any:  # noqa: ANN401
        if isinstance(self.network, AbstractPairNetwork):
            return self.network.embed_theta(features)
        if isinstance(self.network, AbstractFeedForward):
            first = self.network.first
            return LinearLayer(first.weight[:, -len(features) :], first.bias)(features)
        return features

    def join(self, x_part: Any, theta_part: Any) -> Number:  # noqa: ANN401
        """φ, from what `embed_x` and `embed_theta` gave."""
        if self.centring is None:
            return self._join_parts(x_part, theta_part)
        theta_part, centring = theta_part
        return self._join_parts(x_part, theta_part) - centring

    def _join_parts(self, x_part: Any, theta_part: Any) -> Number:  # noqa: ANN401
        if isinstance(self.network, AbstractPairNetwork):
            return self.network.join(x_part, theta_part)
        if isinstance(self.network, AbstractFeedForward):
            return self.network.after_first(x_part + theta_part)[0]
        return self.network(jnp.concatenate([x_part, theta_part]))[0]

    def potentials(
        self, x: Event, thetas: Float[Array, "points theta_dim"]
    ) -> Float[Array, " points"]:
        """φ(x, θ) at several θ."""
        theta_parts = jax.vmap(self.embed_theta)(thetas)
        return jax.vmap(self.join, in_axes=(None, 0))(self.embed_x(x), theta_parts)

    def potential_table(
        self, x: EventBatch, thetas: Float[Array, "points batch theta_dim"]
    ) -> Float[Array, "points batch"]:
        """φ of a batch of events, each at several θ of its own.

        The axis of points is the outermost one: for small networks that order compiles to half
        the time of mapping `potentials` over events.
        """
        if len(thetas) < SPLIT_POINTS and not isinstance(self.network, AbstractPairNetwork):
            return jax.vmap(jax.vmap(self.potential), in_axes=(None, 0))(x, thetas)
        if isinstance(self.network, AbstractFeedForward):
            return self._table_by_columns(x, thetas)
        theta_parts = jax.vmap(jax.vmap(self.embed_theta))(thetas)
        return jax.vmap(jax.vmap(self.join), in_axes=(None, 0))(
            jax.vmap(self.embed_x)(x), theta_parts
        )

    def _table_by_columns(
        self, x: EventBatch, thetas: Float[Array, "points batch theta_dim"]
    ) -> Float[Array, "points batch"]:
        """The same, of all events at all their θ as columns of one matrix.

        Those of an event lie side by side, so that a batch can be divided among devices.
        """
        points, batch, dim = thetas.shape
        rows = jnp.swapaxes(thetas, 0, 1).reshape(batch * points, dim)
        x_part = self._embed_x_features(jax.vmap(self.x_features, out_axes=1)(x))
        theta_part = self._embed_theta_features(jax.vmap(self.theta_features, out_axes=1)(rows))
        table = self._join_parts(jnp.repeat(x_part, points, axis=1), theta_part)
        if self.centring is not None:
            table = table - jax.vmap(self.centring)(rows)
        return table.reshape(batch, points).T

    def grid(
        self, x: Float[Array, "events x_dim"], thetas: Float[Array, "points theta_dim"]
    ) -> Float[Array, "events points"]:
        """φ of every event at every θ."""
        x_parts, theta_parts = jax.vmap(self.embed_x)(x), jax.vmap(self.embed_theta)(thetas)
        across = jax.vmap(self.join, in_axes=(None, 0))
        return jax.vmap(across, in_axes=(0, None))(x_parts, theta_parts)

    def log_ratios(self, x: EventBatch, theta0: Thetas, theta1: Thetas) -> Numbers:
        """Log ratios of a batch of events."""
        values = self.potential_table(x, jnp.stack([theta0, theta1]))
        return values[0] - values[1]

    def score(self, x: Event, theta: Theta) -> Theta:
        """∇θ φ, by whichever of the two equal computations is faster for this dimension."""
        if isinstance(self.network, AbstractFeedForward) and len(theta) <= FORWARD_SCORE_DIM:
            return forward_score(self, x, theta)
        return jax.grad(self.potential, argnums=1)(x, theta)

    def log_ratio(self, x: Event, theta0: Theta, theta1: Theta) -> Number:
        """φ(x, θ0) − φ(x, θ1)."""
        values = self.potentials(x, jnp.stack([theta0, theta1]))
        return values[0] - values[1]


def forward_score(model: PotentialModel, x: Event, theta: Theta) -> Theta:
    """The explicit score network of Appendix B: one forward pass with the potential's weights.

    B⁰ is the derivative of the features on the θ rows and 0 on the x rows.
    """
    if not isinstance(model, PotentialModel) or not isinstance(model.network, AbstractFeedForward):
        raise TypeError(
            "forward_score needs the model of one member with a feed-forward network such as "
            "ist.MLP((64,)), and x and θ of one event."
        )
    try:
        return _forward_score(model, _one_row(x, "x"), _one_row(theta, "theta"))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            "forward_score takes x of shape (D,) and θ of shape (d,), as floating-point numbers; "
            f"{in_short(error)}."
        ) from error


def _one_row(value: Any, name: str) -> Array:  # noqa: ANN401
    """x or θ of one event; inside compiled functions its numbers are not known."""
    if not isinstance(value, Tracer):
        value = as_floats(value, name).astype(np.float32)
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite in float32")
    if np.ndim(value) != 1:
        raise ValueError(f"{name} has shape {np.shape(value)}")
    return jnp.asarray(value)


def _forward_score(model: PotentialModel, x: Event, theta: Theta) -> Theta:
    x_part, theta_part = model.x_features(x), model.theta_features(theta)
    jacobian = jax.jacfwd(model.theta_features)(theta)
    tangents = jnp.concatenate([jnp.zeros((len(theta), len(x_part))), jacobian.T], axis=1)
    inputs = jnp.concatenate([x_part, theta_part])
    score = model.network.with_tangents(inputs, tangents)[1][:, 0]
    return score if model.centring is None else score - jax.grad(model.centring)(theta)
