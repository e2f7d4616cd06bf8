"""Supervised records: a question that a model can answer, and the answer it is trained towards.

A method is supervision × loss: the record asks the model something about one event x, and the
loss compares what comes back with `answer`. `weight` multiplies the loss of the record. Records of
latent information hold joint ratios and scores, and probabilities of candidates.
"""

import abc
import enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

#: A random key of JAX.
Key = PRNGKeyArray
#: The observables of one event.
Event = Float[Array, " x_dim"]
#: The observables of a batch of events.
EventBatch = Float[Array, "batch x_dim"]
#: One θ.
Theta = Float[Array, " theta_dim"]
#: One θ for each event of a batch.
Thetas = Float[Array, "batch theta_dim"]
#: A number for one event.
Number = Float[Array, ""]
#: A number for each event of a batch.
Numbers = Float[Array, " batch"]


class Capability(enum.Enum):
    """What a model can be asked for."""

    POTENTIAL = "potential"
    SCORE = "score"
    LOG_RATIO = "log_ratio"
    DENSITY = "density"


#: Whatever answers the question that a record puts: a model with the capability it asks for.
Questioned = Any


class AbstractRecord(eqx.Module):
    """One supervised example without its event x, which is kept beside it."""

    weight: eqx.AbstractVar[Float[Array, "*n"]]

    @abc.abstractmethod
    def ask(self, model: Questioned, x: Array) -> Array:
        """The model's prediction."""

    @abc.abstractmethod
    def ask_all(self, model: Questioned, x: Array) -> Array:
        """The same for a batch of records and events, in the order of axes that runs fastest."""

    @property
    @abc.abstractmethod
    def answer(self) -> Array:
        """What the prediction is compared with."""


class AbstractPlainRecord(AbstractRecord):
    """A record for which a batch is asked as fast by asking each of its events."""

    def ask_all(self, model: Questioned, x: Array) -> Array:
        """The predictions for every event."""
        return jax.vmap(lambda record, event: record.ask(model, event))(self, x)


class ScoreTarget(AbstractPlainRecord):
    """Regress the score at (x, θ) on `target`."""

    theta: Float[Array, "*n theta_dim"]
    target: Float[Array, "*n theta_dim"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """ŝ(x; θ)."""
        return model.score(x, self.theta)

    @property
    def answer(self) -> Array:
        """The target y."""
        return self.target


class LabelledPair(AbstractRecord):
    """Classify x between θ0 (label 0) and θ1 (label 1)."""

    theta0: Float[Array, "*n theta_dim"]
    theta1: Float[Array, "*n theta_dim"]
    label: Float[Array, "*n"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """Ln r̂(x; θ0, θ1)."""
        return model.log_ratio(x, self.theta0, self.theta1)

    def ask_all(self, model: Questioned, x: Array) -> Array:
        """Ln r̂ of every event."""
        return model.log_ratios(x, self.theta0, self.theta1)

    @property
    def answer(self) -> Array:
        """The label y."""
        return self.label


class ReferenceLabel(AbstractRecord):
    """Classify x between θ (label 0) and a reference density p_ref (label 1).

    The potential is then ln p(x; θ) − ln p_ref(x) itself.
    """

    theta: Float[Array, "*n theta_dim"]
    label: Float[Array, "*n"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """φ̂(x, θ)."""
        return model.potentials(x, self.theta[None])[0]

    def ask_all(self, model: Questioned, x: Array) -> Array:
        """φ̂ of every event."""
        return model.potential_table(x, self.theta[None])[0]

    @property
    def answer(self) -> Array:
        """The label y."""
        return self.label


class CandidateSet(AbstractRecord):
    """Find the θ that made x among K+1 exchangeable candidates, of which the first is right."""

    thetas: Float[Array, "*n candidates theta_dim"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """φ̂(x, θ^k) of every candidate."""
        return model.potentials(x, self.thetas)

    def ask_all(self, model: Questioned, x: Array) -> Array:
        """φ̂ of every candidate of every event."""
        return model.potential_table(x, jnp.swapaxes(self.thetas, 0, 1)).T

    @property
    def answer(self) -> Array:
        """The position of the true one, 0."""
        return jnp.zeros(self.weight.shape, jnp.int32)


class DensityTarget(AbstractPlainRecord):
    """How probable is x at the θ that made it."""

    theta: Float[Array, "*n theta_dim"]
    weight: Float[Array, "*n"]

    def ask(self, model: Questioned, x: Array) -> Array:
        """Ln p̂(x; θ)."""
        return model.log_prob(x, self.theta)

    @property
    def answer(self) -> Array:
        """Nothing: the more probable, the better."""
        return jnp.zeros(self.weight.shape)


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


class Row(eqx.Module):
    """One stored event as supervision sees it."""

    x: Float[Array, "*n x_dim"]
    theta: Float[Array, "*n theta_dim"]
    is_reference: Float[Array, "*n"]
    #: Latent arrays by name, those that the supervision reads.
    latent: dict[str, Array] = eqx.field(default_factory=dict)
