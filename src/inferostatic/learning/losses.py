r"""Losses: per event and unreduced, always in terms of l = ln r̂, with hard or soft labels.

Label y = 0: x came from θ0 (the numerator of r); y = 1: from θ1. A classifier that calls class 1
the numerator has the opposite sign. Every loss is invariant under y → 1 − y, l → −l.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..inputs import as_number
from ..serial import known


class AbstractLoss(eqx.Module):
    """Compares a prediction with an answer, for one event."""

    @abc.abstractmethod
    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""

    @property
    def limit(self) -> float | None:
        """|l| beyond which the loss is continued linearly, if it is."""
        return None


class AbstractRatioLoss(AbstractLoss):
    """A proper loss for the log ratio (`eq:proper_losses`)."""

    @property
    def needs_joint_ratio(self) -> bool:
        """Whether the answer is (y, ln r_lat) in place of y."""
        return False


@known
class Logistic(AbstractRatioLoss):
    """y softplus(l) + (1−y) softplus(−l)."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        log_r, y = prediction, answer
        # softplus(±l) = max(±l, 0) + ln(1 + e^−|l|): the common term is computed once.
        linear = y * jnp.maximum(log_r, 0.0) + (1 - y) * jnp.maximum(-log_r, 0.0)
        return linear + jnp.log1p(jnp.exp(-jnp.abs(log_r)))


@known
class Square(AbstractRatioLoss):
    """(sigmoid(−l) − y)²."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        return jnp.square(jax.nn.sigmoid(-prediction) - answer)


@known
class Savage(AbstractRatioLoss):
    """y sigmoid(l)² + (1−y) sigmoid(−l)²; equal to `Square` plus y(1−y)."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        log_r, y = prediction, answer
        one, zero = jax.nn.sigmoid(log_r), jax.nn.sigmoid(-log_r)
        return y * jnp.square(one) + (1 - y) * jnp.square(zero)


@known
class Exponential(AbstractRatioLoss):
    """y e^{l/2} + (1−y) e^{−l/2}, continued linearly beyond |l| = 60.

    The continuation keeps float32 from overflowing (at l = 178) and changes the minimiser where
    the true |ln r| is larger; training warns with the fraction of events affected.
    """

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        half, y = prediction / 2, answer
        return y * _guarded_exp(half, 30.0) + (1 - y) * _guarded_exp(-half, 30.0)

    @property
    def limit(self) -> float:
        """60."""
        return 60.0


@known
class ROLRLoss(AbstractRatioLoss):
    """y (r̂ − r)² + (1−y)(1/r̂ − 1/r)², r the joint ratio (`eq:ROLR`).

    Both ratios are continued linearly beyond |ln r| = `edge`, because their squares overflow and
    because single events with huge ratios would drown all others. That changes the minimiser where
    the true |ln r| is larger; training warns with the fraction of events affected.
    """

    edge: float = eqx.field(static=True, default=10.0)

    def __check_init__(self) -> None:
        """The squares must stay finite in float32."""
        as_number(self.edge, "edge", above=0, most=40)

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        label, log_r = answer[..., 0], answer[..., 1]
        ratio = _guarded_exp(prediction, self.edge) - _guarded_exp(log_r, self.edge)
        inverse = _guarded_exp(-prediction, self.edge) - _guarded_exp(-log_r, self.edge)
        return label * jnp.square(ratio) + (1 - label) * jnp.square(inverse)

    @property
    def limit(self) -> float:
        """The edge."""
        return self.edge

    @property
    def needs_joint_ratio(self) -> bool:
        """It does."""
        return True


def _guarded_exp(value: Array, edge: float) -> Array:
    inside = jnp.exp(jnp.minimum(value, edge))
    return inside * (1 + jnp.maximum(value - edge, 0.0))


@known
class SquaredError(AbstractLoss):
    """Mean over components of (prediction − target)² (`eq:loss_KSE`)."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        return jnp.mean(jnp.square(prediction - answer))


@known
class SoftmaxCrossEntropy(AbstractLoss):
    """logsumexp_j φ(x, θ^j) − φ(x, θ^k), k the position of the true candidate."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        return jax.nn.logsumexp(prediction) - prediction[answer]


@known
class SoftCandidateCrossEntropy(AbstractLoss):
    """logsumexp_j φ(x, θ^j) − Σ_k P_k φ(x, θ^k), P_k the probability of each candidate."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        return jax.nn.logsumexp(prediction) - jnp.sum(answer * prediction)


@known
class SummedSquares(AbstractLoss):
    """Σ_i (prediction_i − target_i)²."""

    def __call__(self, prediction: Array, answer: Array) -> Float[Array, ""]:
        """The loss."""
        return jnp.sum(jnp.square(prediction - answer))
