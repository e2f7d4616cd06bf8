"""The interface of supervision, and the distribution of stored θ that it works with.

A supervision makes records in two ways: `supervise` draws a fresh record for a stored event
inside the compiled loop, and `draw` follows the paper's flowcharts, choosing θ first and
simulating where the flowchart says.
"""

import abc
import dataclasses

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.latent import AbstractJoint
from ..events.simulate import simulated_events
from ..host import put_array
from ..inputs import rounded, row_slices, warn_user
from ..streams import Purpose, Stream
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior, draw_points
from ..world.simulator import Simulator
from .kernels import find_kernels
from .records import AbstractRecord, Capability, Key, Row

#: More distinct θ than this look like draws from an unknown continuous prior.
FINITE_SET = 1000
#: Standard errors between the weighted θ and the prior that call for a warning.
LARGEST_PULL = 6.0


class ThetaDistribution(eqx.Module):
    """The prior π that stored θ follow, and the region of θ where targets can be trusted.

    Attributes:
        prior: of the stored θ.
        low, high: the region.
        joint: the joint density of the events and their latent variables, if it is asked for.
        unit: of θ, in which errors of the score are measured, if they are.
    """

    prior: AbstractPrior
    low: np.ndarray
    high: np.ndarray
    joint: AbstractJoint | None = None
    unit: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Supply:
    """Stored events made ready for supervision: rows, weights, and the distribution of their θ."""

    rows: Row
    weight: np.ndarray
    distribution: ThetaDistribution


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Events simulated by a flowchart, with their fixed records."""

    x: np.ndarray
    record: AbstractRecord
    x_names: tuple[str, ...] | None = None


class AbstractSupervision(eqx.Module):
    """A way of asking."""

    @property
    @abc.abstractmethod
    def capability(self) -> Capability:
        """What a model must offer to be asked."""

    @property
    @abc.abstractmethod
    def needs_all_events(self) -> bool:
        """Whether `supply` must see all events at once, which then cannot stay in files.

        Otherwise it is shown some of them, and `supervise` is given the others as they are read.
        """

    @property
    def reads_x(self) -> bool:
        """Whether `supervise` looks at the observables of a row, beyond what a joint density does.

        By default, whether the width of a kernel does. Where not, batches need not carry them
        beside their features.
        """
        return any(kernel.depends_on_x for kernel in find_kernels(self))

    @abc.abstractmethod
    def supply(self, events: Events) -> Supply:
        """Check that these stored events can be used, and lay them out."""

    @abc.abstractmethod
    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> AbstractRecord:
        """A fresh record for one stored event."""

    @abc.abstractmethod
    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """`n` events and fixed records by the flowchart of this supervision."""


class AbstractStoredSupervision(AbstractSupervision):
    """A way of asking whose flowchart is that of stored events: simulate at θ ~ π, then ask."""

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """Events at θ ~ π with one fixed record each."""
        theta = draw_points(prior, n, Stream(seed, Purpose.DRAW_THETA))
        stream = Stream(seed, Purpose.DRAW)
        events = simulated_events(simulator, theta, prior, stream, progress_bar=show)
        supply = self.supply(events)
        keys = jax.random.split(Stream(seed, Purpose.DRAW_RECORDS).key(), n)
        record = supervise_many(self, supply.rows, supply.distribution, keys)
        return Drawn(events.x, record, events.x_names)


def find_prior(events: Events) -> AbstractPrior:
    """The prior of the stored θ: the given one, or the stored θ themselves."""
    if events.prior is not None:
        _compare_with_weights(events, events.prior)
        return events.prior
    prior = events.stored_prior()
    if len(prior.points) > FINITE_SET:
        warn_user(
            "these events have no prior=, the distribution their θ were drawn from. Candidates are "
            "taken from the stored θ themselves, which is exact but never local, and the trusted "
            "region is their range. Give Events(..., prior=ist.Uniform(low, high)) to use kernels."
        )
    return prior


def _compare_with_weights(events: Events, prior: AbstractPrior) -> None:
    """Warn where weighted θ do not follow the prior: ln E[w|θ] would be learned with ln p.

    With weights, `prior` must be the distribution of the *weighted* θ.
    """
    weight = events.weight
    if (weight == weight[0]).all():
        return
    centre, scale = prior.centre_and_scale
    away = events.theta - centre
    mean = weight @ away / weight.sum()
    # A user's prior knows its centre only from a few thousand draws.
    error = np.hypot(np.sqrt(weight**2 @ away**2) / weight.sum(), scale / 64)
    pull = np.abs(mean) / error
    if (pull > LARGEST_PULL).any():
        worst = int(np.argmax(pull))
        warn_user(
            f"the weighted mean of {events.theta_names[worst]} is {(mean + centre)[worst]:.4g}, "
            f"{pull[worst]:.0f} standard errors from the prior's {centre[worst]:.4g}: the weights "
            "depend on θ, and the model would learn their mean along with the density. `prior` "
            "must be the distribution of the weighted θ; divide the weights by their mean at each "
            "θ."
        )


def plain_rows(events: Events) -> Row:
    """Rows without any reference events."""
    return Row(
        x=put_array(events.x),
        theta=put_array(events.theta),
        is_reference=put_array(np.zeros(len(events))),
    )


def trusted_region(
    prior: AbstractPrior, theta: np.ndarray, reach: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The support eroded by `reach`; where it is open, the range of the stored θ."""
    low, high = prior.support
    open_low, open_high = ~np.isfinite(low), ~np.isfinite(high)
    return (
        np.where(open_low, theta.min(axis=0), low + reach),
        np.where(open_high, theta.max(axis=0), high - reach),
    )


def lie_at_one_point(events: Events) -> bool:
    """Whether all events have the same θ, and no density of θ says that others were possible."""
    if events.prior is not None and not isinstance(events.prior, Discrete):
        return False
    return all((events.theta[rows] == events.theta[0]).all() for rows in row_slices(events.theta))


def require_several_points(events: Events) -> None:
    """Raise where all events have one θ, which says nothing about how p(x; θ) changes with it."""
    if lie_at_one_point(events):
        raise ValueError(
            f"all {len(events):,} events lie at one θ, {rounded(events.theta[0])}, so nothing says "
            "how they change with θ, and what is learned would be no score and no ratio. Simulate "
            "at several θ, ist.simulate(simulator, prior, n, seed=1); or, where the events carry "
            "joint scores, use ist.SALLY()."
        )


def warn_of_one_point(events: Events, learned: str) -> None:
    """Warn where all events have one θ: what is learned holds there, its derivatives nowhere."""
    if lie_at_one_point(events):
        warn_user(
            f"all {len(events):,} events lie at one θ, {rounded(events.theta[0])}: {learned} is "
            "learned there, but nothing about its change with θ, so scores and ratios between θ "
            "mean nothing. Simulate at several θ for these."
        )


def plain_supply(events: Events, prior: AbstractPrior | None = None) -> Supply:
    """Rows, weights and distribution of events that need no further preparation."""
    prior = find_prior(events) if prior is None else prior
    low, high = trusted_region(prior, events.theta)
    return Supply(plain_rows(events), events.weight, ThetaDistribution(prior, low, high))


@eqx.filter_jit
def supervise_many(
    supervision: AbstractSupervision, rows: Row, distribution: ThetaDistribution, keys: Array
) -> AbstractRecord:
    """Records for many rows at once."""
    return jax.vmap(lambda row, key: supervision.supervise(row, distribution, key=key))(rows, keys)


def refuse_discrete(prior: AbstractPrior, what: str) -> None:
    """Raise where θ is known only at a finite set of points but a density is needed."""
    if isinstance(prior, Discrete):
        raise ValueError(
            f"{what} needs the density of θ at every point, but these events are stored at a "
            "finite set of parameter points or have no prior=. Give the continuous prior the θ "
            "were drawn from, or use CARL or KCE(ist.Independent()), which are exact for any set."
        )
