r"""Methods that learn a normalised density: neural density estimation, alone and with scores.

The minimiser of the mean of \(-\ln\hat p(x;\theta)\) is the density itself. Its logarithm is a
potential, so everything that is done with scores and ratios can be done with it.
"""

import jax
from jaxtyping import Array

from ..inputs import Input, as_number
from ..serial import known
from ..supervision.density import MadeAt
from ..supervision.records import (
    AbstractRecord,
    DensityTarget,
    JointScoreTarget,
    Number,
    Numbers,
    Questioned,
)
from .latent_methods import score_method
from .losses import AbstractLoss
from .methods import Method, MixedMethod


@known
class NegativeLogLikelihood(AbstractLoss):
    """−ln p̂(x; θ)."""

    def __call__(self, prediction: Array, answer: Array) -> Number:
        """The loss."""
        del answer
        return -prediction


@known
class DensityWithScores(MixedMethod):
    """A density and its score, learned from one evaluation of both.

    Evaluated one after the other, as in any other mixture, they would cost half as much again.
    """

    def losses_of(self, model: Questioned, x: Array, record: tuple[AbstractRecord, ...]) -> Numbers:
        """The weighted sum for a batch; both records ask about the θ that made x."""
        density, scores = record
        assert isinstance(density, DensityTarget)
        assert isinstance(scores, JointScoreTarget)
        both = jax.vmap(jax.value_and_grad(model.log_prob, argnums=1))
        value, slope = both(x, density.theta)
        terms = (
            density.weight * jax.vmap(self.methods[0].loss)(value, density.answer),
            scores.weight * jax.vmap(self.methods[1].loss)(scores.unit * slope, scores.answer),
        )
        return self.weights[0] * terms[0] + self.weights[1] * terms[1]


def NDE() -> Method:
    """Neural Density Estimation: a conditional flow, `ist.Flow()`, of maximum likelihood.

    Losses are in the units of the features; `log_prob` of the estimator is in those of x.
    """
    return Method("NDE", MadeAt(), NegativeLogLikelihood())


def SCANDAL(alpha: float = 1.0, *, unit: Input | None = None) -> MixedMethod:
    r"""NDE and \(\alpha\,|\nabla_\theta\ln\hat p - t|^2\) at the θ that made the event.

    Args:
        alpha: weight of the score term \(\alpha\sum_i u_i^2(\hat s_i - t_i)^2\).
        unit: u, the unit of θ in which α is stated, one number or one for each parameter. The
            default is the standard deviation of the prior, so that α is a pure number.
    """
    score = score_method("joint score", None, None, unit)
    return DensityWithScores((NDE(), score), (1.0, as_number(alpha, "alpha", above=0)), "SCANDAL")
