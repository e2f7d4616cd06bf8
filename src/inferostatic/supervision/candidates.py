r"""Candidate sets for Kernel Contrastive Estimation (KCE).

From a stored event (θ', x): a centre c ~ q(·|θ') and candidates θ^1 … θ^K ~ q(·|c), with θ^0 = θ'
and q reversible with respect to the prior of θ'. Given c the K+1 candidates are exchangeable, so
\(P(k\mid x) = p(x;\theta^k)/\sum_j p(x;\theta^j)\) exactly, at any kernel width. The centre is
obligatory for K > 1: candidates drawn around θ' itself would betray it as their middle.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..events.events import Events
from ..inputs import as_count, as_number
from ..serial import known
from ..world.priors.prior import AbstractPrior
from .kernels import AbstractKernel
from .pairs import kernel_step
from .records import CandidateSet, Capability, Key, Row
from .supervision import (
    AbstractStoredSupervision,
    Supply,
    ThetaDistribution,
    plain_supply,
    require_several_points,
)

#: Candidates of one event, at most: every event of a batch is evaluated at all of them.
MOST_CANDIDATES = 10_000


class AbstractCandidates(eqx.Module):
    """How the other candidates of an event are drawn."""

    @abc.abstractmethod
    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: Key) -> Array:
        """`number` candidates, exchangeable with the event's own θ."""


@known
class FromPrior(AbstractCandidates):
    """Independent candidates from the prior of θ."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: Key) -> Array:
        """Independent draws."""
        del row
        return jax.vmap(lambda k: prior.draw(key=k))(jax.random.split(key, number))


@known
class AroundCentre(AbstractCandidates):
    """Candidates from one kernel around a centre that is one kernel step from θ'."""

    kernel: AbstractKernel

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: Key) -> Array:
        """A step to the centre, then independent steps from it."""
        first, *rest = jax.random.split(key, number + 1)
        centre = kernel_step(prior, self.kernel, row.theta, row.x, key=first)
        return jax.vmap(lambda k: kernel_step(prior, self.kernel, centre, row.x, key=k))(
            jnp.stack(rest)
        )


@known
class MultiScale(AbstractCandidates):
    """A width for every event, log-uniform between two fractions of the prior's width.

    Narrow sets teach the score, wide ones far ratios, and no width has to be chosen. The width is
    drawn once for the event, independently of θ', and is shared by the centre and all candidates:
    a centre found by steps of another width would give θ' away.
    """

    smallest: float = eqx.field(static=True, default=0.02)
    largest: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        """Fractions in (0, 1], in order."""
        smallest, largest = (as_number(getattr(self, n), n) for n in ("smallest", "largest"))
        if not 0 < smallest <= largest <= 1:
            raise ValueError(
                "MultiScale takes fractions of the prior's width, 0 < smallest <= largest <= 1; "
                f"got {self.smallest} and {self.largest}."
            )

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: Key) -> Array:
        """A width, a step to the centre, then independent steps of the same width."""
        scale, first, rest = jax.random.split(key, 3)
        low, high = jnp.log(self.smallest), jnp.log(self.largest)
        fraction = jnp.exp(low + (high - low) * jax.random.uniform(scale))
        centre = prior.step(row.theta, fraction, key=first)
        keys = jax.random.split(rest, number)
        return jax.vmap(lambda k: prior.step(centre, fraction, key=k))(keys)


@known
class CandidateSets(AbstractStoredSupervision):
    """Records of K+1 exchangeable candidates, the true one first."""

    candidates: AbstractCandidates
    number: int = eqx.field(static=True, default=7)

    def __check_init__(self) -> None:
        """At least one other candidate."""
        if as_count(self.number, "number", least=0, most=MOST_CANDIDATES) < 1:
            raise ValueError(f"at least one candidate besides θ' is needed; got {self.number}.")

    @property
    def capability(self) -> Capability:
        """The potential."""
        return Capability.POTENTIAL

    @property
    def needs_all_events(self) -> bool:
        """No: each event is asked about for itself."""
        return False

    def supply(self, events: Events) -> Supply:
        """Stored events as they are."""
        require_several_points(events)
        return plain_supply(events)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> CandidateSet:
        """The event's own θ and the others."""
        others = self.candidates.draw(row, distribution.prior, self.number, key=key)
        thetas = jnp.concatenate([row.theta[None], others])
        return CandidateSet(thetas=thetas, weight=jnp.ones(()))
