"""Validation events, as every check needs them: within the trained region, with other θ to compare.

All checks compare what an event says about the θ it was made at with what it says about other θ.
These are drawn so that they and the true θ are exchangeable: independently from the prior of the
stored θ, or by a step that is reversible with respect to it. Restricting both to the trained region
keeps that, and then each check holds exactly for an exact estimator, at any number of draws.
"""

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator
from ..estimator.history import Region
from ..events.events import Events
from ..inputs import as_seed, kind_of, require_order
from ..streams import Purpose, Stream
from ..weights import warn_few_effective
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior, draw_points

E = TypeVar("E", bound=AbstractEstimator)

#: Events that a check uses at most; more would take long and show nothing new.
MOST_EVENTS = 50_000
#: Events that a check needs at least: its p-values rest on normal approximations.
FEWEST_EVENTS = 100
#: How far partners lie, by name, as a fraction of the prior's width.
DISTANCES = {"near": 0.05, "middle": 0.25, "far": 1.0}
#: Rounds of drawing θ from the prior until enough of them lie in the trained region.
MOST_ROUNDS = 100


@dataclasses.dataclass(frozen=True)
class ValidationEvents:
    """Events within the trained region, in the order in which they were stored.

    Attributes:
        x, theta, weight: of the events.
        prior: distribution of θ, before it is restricted to the region.
        region: where the estimator was trained.
        order: a random order of the events, by which `first` takes some of them.
        dropped: number of events outside the region.
    """

    x: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    prior: AbstractPrior
    region: Region
    order: np.ndarray
    dropped: int

    def first(self, n: int) -> "ValidationEvents":
        """At most `n` of the events, chosen at random."""
        kept = self.order < n
        parts = {name: getattr(self, name)[kept] for name in ("x", "theta", "weight", "order")}
        return dataclasses.replace(self, **parts)

    def draw_candidates(self, n: int, stream: Stream) -> np.ndarray:
        """`n` independent θ from the prior, within the region, shape (n, d)."""
        parts, count = [], 0
        for number in range(MOST_ROUNDS):
            more = draw_points(self.prior, max(n, 16), stream.block(number))
            parts.append(more[self.region.contains_theta(more)])
            count += len(parts[-1])
            if count >= n:
                return np.concatenate(parts)[:n]
        raise ValueError(
            "hardly any θ of the events' prior lies in the estimator's trained region, "
            f"{self.region.theta_low.tolist()} to {self.region.theta_high.tolist()}; give events "
            "simulated there."
        )

    def draw_partners(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """A partner θ for each event and its distance, an index of `DISTANCES`.

        Rows whose partner lies outside the region have distance −1: leave them out.
        """
        rng = Stream(seed, Purpose.PARTNER_DISTANCES).generator()
        distance = rng.integers(len(DISTANCES), size=len(self.x))
        if isinstance(self.prior, Discrete):
            # Its step is an independent draw, whatever the distance asked for.
            distance = np.full(len(self.x), len(DISTANCES) - 1)
        fraction = np.array(list(DISTANCES.values()))[distance]
        keys = jax.random.split(Stream(seed, Purpose.PARTNERS).key(), len(self.x))
        theta = jnp.asarray(self.theta, jnp.float32)
        partner = np.asarray(_step(self.prior, theta, jnp.asarray(fraction, jnp.float32), keys))
        partner = partner.astype(np.float64)
        return partner, np.where(self.region.contains_theta(partner), distance, -1)


@eqx.filter_jit
def _step(prior: AbstractPrior, theta: Array, fraction: Array, keys: Array) -> Array:
    return jax.vmap(lambda t, f, k: prior.step(t, f, key=k))(theta, fraction, keys)


def require_kind(estimator: object, kinds: tuple[type[E], ...], check: str) -> E:
    """The estimator, if it is of one of the kinds that the check of this name can use."""
    if not isinstance(estimator, kinds):
        wanted = " or ".join(f"ist.{kind.__name__}" for kind in kinds)
        raise TypeError(f"{check} needs {wanted}; got {kind_of(estimator)}.")
    return estimator


def select_events(
    estimator: object,
    events: object,
    *,
    check: str,
    kinds: tuple[type[AbstractEstimator], ...],
    most: int = MOST_EVENTS,
    seed: int,
) -> ValidationEvents:
    """At most `most` events within the trained region, for the check of this name.

    Estimator and events are validated here: the estimator is of one of the `kinds`, columns agree,
    and enough events lie in the region. Warns where x lies outside the range seen in training.
    """
    estimator, seed = require_kind(estimator, kinds, check), as_seed(seed)
    if not isinstance(events, Events):
        raise TypeError(
            f"{check} needs events that the estimator was not trained on, ist.Events(…) or "
            f"ist.simulate(…); got {kind_of(events)}."
        )
    warn_few_effective(events.weight, "the events' weight")
    for name in ("x", "theta"):
        own, given = getattr(estimator, f"{name}_names"), getattr(events, f"{name}_names")
        require_order(given, own, name)
        if len(given) != len(own):
            raise ValueError(
                f"the estimator has {len(own)} columns of {name} ({', '.join(own)}), the events "
                f"{len(given)} ({', '.join(given)})."
            )
    inside = np.flatnonzero(estimator.region.contains_theta(np.asarray(events.theta)))
    if len(inside) < FEWEST_EVENTS:
        raise ValueError(
            f"{check} needs at least {FEWEST_EVENTS} events within the trained region; of "
            f"{len(events)} events {len(inside)} lie there. Simulate more."
        )
    drawn = Stream(as_seed(seed), Purpose.SELECT_EVENTS).generator().permutation(inside)[:most]
    order = np.argsort(drawn)
    rows = drawn[order]
    x = np.asarray(events.x[rows], np.float64)
    estimator.warn_outside(x)
    return ValidationEvents(
        x=x,
        # As models and priors see it: a candidate at the same point must be equal to it.
        theta=np.asarray(events.theta[rows], np.float32).astype(np.float64),
        weight=np.asarray(events.weight[rows], np.float64),
        prior=events.prior if events.prior is not None else events.stored_prior(),
        region=estimator.region,
        order=order,
        dropped=len(events) - len(inside),
    )


@contextmanager
def suppress_repeated_warnings() -> Iterator[None]:
    """No further warnings on x: `select_events` has given them, for all events at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Events with a partner θ: ln r of the true θ over the partner, and which is the larger.

    Attributes:
        log_ratio: ln p(x; θ) − ln p(x; partner), shape (n,).
        larger: for each parameter, +1 where the true θ is the larger of the two, −1 where it is the
            smaller, 0 where they are equal, shape (n, d).
        distance: index of `DISTANCES`, shape (n,).
        weight: of the events.
        names: of the parameters.
    """

    log_ratio: np.ndarray
    larger: np.ndarray
    distance: np.ndarray
    weight: np.ndarray
    names: tuple[str, ...]


def select_pairs(estimator: object, events: object, *, check: str, seed: int) -> Pairs:
    """Pairs around at most so many events as a check uses."""
    kinds = (Estimator, RatioEstimator)
    estimator = require_kind(estimator, kinds, check)
    selected = select_events(estimator, events, check=check, kinds=kinds, seed=seed)
    return draw_pairs(estimator, selected, seed)


def draw_pairs(estimator: Estimator | RatioEstimator, events: ValidationEvents, seed: int) -> Pairs:
    """One partner for each event, near, middle or far."""
    partner, distance = events.draw_partners(as_seed(seed))
    kept = (distance >= 0) & np.any(partner != events.theta, axis=1)
    x, theta, partner = events.x[kept], events.theta[kept], partner[kept]
    with suppress_repeated_warnings():
        log_ratio = estimator.log_ratio(x, theta, partner)
    return Pairs(
        log_ratio=log_ratio,
        larger=np.sign(theta - partner),
        distance=distance[kept],
        weight=events.weight[kept],
        names=estimator.theta_names,
    )
