"""Held-out events as every check needs them: within the trained region, with partners and rivals.

All checks compare what an event says about the θ it was made at with what it says about other θ.
These are drawn so that they and the true θ are exchangeable: independently from the law of the
stored θ, or by a step that is reversible with respect to it. Restricting both to the trained region
keeps that, and then each check holds exactly for an exact estimator, at any number of draws.
"""

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..estimator.estimator import AbstractEstimator
from ..events.events import Events
from ..inputs import as_seed, kind_of, require_order
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior

#: Fewest events that a check says anything on.
FEWEST_EVENTS = 100
#: How far partners lie, as a fraction of the law's width, and what that is called.
DISTANCES = {"near": 0.05, "middle": 0.25, "far": 1.0}
MOST_TRIES = 100


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Events within the trained region, in random order.

    Attributes:
        x, theta, weight: of the events.
        law: that the θ follow, before they are restricted to the region.
        low, high: edges of the region.
        dropped: events outside of it.
    """

    x: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    law: AbstractPrior
    low: np.ndarray
    high: np.ndarray
    dropped: int

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """Which rows lie in the region."""
        slack = 1e-6 * (np.abs(self.low) + np.abs(self.high))
        return np.all((theta >= self.low - slack) & (theta <= self.high + slack), axis=-1)

    def rivals(self, n: int, seed: int) -> np.ndarray:
        """`n` independent θ from the law, within the region, shape (n, d)."""
        parts, count = [], 0
        for attempt in range(MOST_TRIES):
            more = self.law.sample(max(n, 16), seed=derived(seed, attempt))
            parts.append(more[self.inside(more)])
            count += len(parts[-1])
            if count >= n:
                return np.concatenate(parts)[:n]
        raise ValueError(
            "hardly any θ of the events' prior lies in the estimator's trained region, "
            f"{self.low.tolist()} to {self.high.tolist()}; give events simulated there."
        )

    def partners(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """A partner for each event and its distance, an index of `DISTANCES`.

        Rows whose partner lies outside the region have distance −1: leave them out.
        """
        rng = np.random.default_rng(seed)
        distance = rng.integers(len(DISTANCES), size=len(self.x))
        if isinstance(self.law, Discrete):
            # Its step is an independent draw, whatever the distance asked for.
            distance = np.full(len(self.x), len(DISTANCES) - 1)
        fraction = np.array(list(DISTANCES.values()))[distance]
        keys = jax.random.split(jax.random.key(seed), len(self.x))
        theta = jnp.asarray(self.theta, jnp.float32)
        partner = np.asarray(_step(self.law, theta, jnp.asarray(fraction, jnp.float32), keys))
        partner = partner.astype(np.float64)
        return partner, np.where(self.inside(partner), distance, -1)


@eqx.filter_jit
def _step(law: AbstractPrior, theta: Array, fraction: Array, keys: Array) -> Array:
    return jax.vmap(lambda t, f, k: law.step(t, f, key=k))(theta, fraction, keys)


def derived(seed: int, *path: int) -> int:
    """A seed of its own for each part of the work."""
    return int(np.random.SeedSequence([as_seed(seed), *path]).generate_state(1)[0])


def hold_out(
    estimator: AbstractEstimator,
    events: Events,
    *,
    most: int,
    seed: int,
    kinds: tuple[type[AbstractEstimator], ...],
    check: str,
) -> HeldOut:
    """At most so many events, checked against what the estimator was trained on."""
    if not isinstance(estimator, kinds):
        wanted = " or ".join(f"ist.{kind.__name__}" for kind in kinds)
        raise TypeError(f"{check} needs {wanted}; got {kind_of(estimator)}.")
    if not isinstance(events, Events):
        raise TypeError(
            f"{check} needs events that the estimator was not trained on, ist.Events(…) or "
            f"ist.simulate(…); got {kind_of(events)}."
        )
    for name in ("x", "theta"):
        own, given = getattr(estimator, f"{name}_names"), getattr(events, f"{name}_names")
        require_order(given, own, name)
        if len(given) != len(own):
            raise ValueError(
                f"the estimator has {len(own)} columns of {name} ({', '.join(own)}), the events "
                f"{len(given)} ({', '.join(given)})."
            )
    law = events.prior if events.prior is not None else events.stored_prior()
    region = estimator.region
    held = HeldOut(
        x=np.zeros((0, len(events.x_names))),
        theta=np.zeros((0, len(events.theta_names))),
        weight=np.zeros(0),
        law=law,
        low=np.asarray(region.theta_low, np.float64),
        high=np.asarray(region.theta_high, np.float64),
        dropped=0,
    )
    good = np.flatnonzero(held.inside(np.asarray(events.theta)))
    if len(good) < FEWEST_EVENTS:
        raise ValueError(
            f"{check} needs at least {FEWEST_EVENTS} events within the trained region; of "
            f"{len(events)} events {len(good)} lie there. Simulate more."
        )
    rows = np.sort(np.random.default_rng(seed).permutation(good)[:most])
    x = np.asarray(events.x[rows], np.float64)
    estimator.warn_outside(x)
    return dataclasses.replace(
        held,
        x=x,
        # As models and laws see it: a rival at the same point must be equal to it.
        theta=np.asarray(events.theta[rows], np.float32).astype(np.float64),
        weight=np.asarray(events.weight[rows], np.float64),
        dropped=len(events) - len(good),
    )


@contextmanager
def told_before() -> Iterator[None]:
    """No further warnings on x: `hold_out` gave them for all events, not for a few at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
