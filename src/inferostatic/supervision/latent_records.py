"""Records of latent information: joint ratios and scores, probabilities of candidates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .records import (
    AbstractPlainRecord,
    AbstractRecord,
    CandidateSet,
    Capability,
    LabelledPair,
    Questioned,
)


class RatioPair(AbstractRecord):
    """A labelled pair with the joint ratio ln r_lat(x, z; θ0, θ1)."""

    pair: LabelledPair
    log_joint_ratio: Float[Array, "*n"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """Ln r̂(x; θ0, θ1)."""
        return self.pair.ask(model, x)

    def ask_all(self, model: Questioned, x: Array) -> Array:
        """Ln r̂ of every event."""
        return self.pair.ask_all(model, x)

    @property
    def answer(self) -> Array:
        """(y, ln r_lat)."""
        return jnp.stack([self.pair.label, self.log_joint_ratio], axis=-1)


class SoftCandidateSet(CandidateSet):
    """Candidates with the probability of each, given the latent variables."""

    probability: Float[Array, "*n candidates"]

    @property
    def answer(self) -> Array:
        """The probabilities."""
        return self.probability


class JointScoreTarget(AbstractPlainRecord):
    """Regress the score at the θ that made x on the joint score, both in a stated unit of θ."""

    theta: Float[Array, "*n theta_dim"]
    target: Float[Array, "*n theta_dim"]
    unit: Float[Array, "*n theta_dim"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """ŝ(x; θ) in the unit."""
        return self.unit * model.score(x, self.theta)

    @property
    def answer(self) -> Array:
        """The joint score in the unit."""
        return self.unit * self.target


class PairScoreTarget(AbstractPlainRecord):
    """The same for a model of ratios: the derivative of ln r̂ by the θ that made x.

    A potential has it as its score at that θ. For a direct ratio network it is ∇θ0 ln r̂ where x
    came from θ0 and, with the opposite sign, ∇θ1 ln r̂ where it came from θ1.
    """

    pair: LabelledPair
    target: Float[Array, "*n theta_dim"]
    unit: Float[Array, "*n theta_dim"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """The derivative, in the unit."""
        theta0, theta1 = self.pair.theta0, self.pair.theta1
        from_1 = self.pair.label > 0
        if Capability.SCORE in model.capabilities:
            return self.unit * model.score(x, jnp.where(from_1, theta1, theta0))
        by_0, by_1 = jax.grad(model.log_ratio, argnums=(1, 2))(x, theta0, theta1)
        return self.unit * jnp.where(from_1, -by_1, by_0)

    @property
    def answer(self) -> Array:
        """The joint score in the unit."""
        return self.unit * self.target
