"""Distributions of pairs, and labelled pairs: likelihood ratios as classification.

Any joint distribution of (θ0, θ1), a fair label y, and x ~ p(x; θ_y): the best classifier knows
ln r. From a stored event (θ', x) the partner must come from a kernel q that is reversible with
respect to the prior π of the stored θ', π(a) q(b|a) = π(b) q(a|b); then nothing is needed at the
edges. Clipping at the walls, or redrawing until inside, is not reversible and gives wrong ratios
there.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.simulate import simulate_first
from ..inputs import as_function
from ..serial import known
from ..streams import Purpose, Stream
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior, Uniform, reflect
from ..world.simulator import Simulator
from .kernels import AbstractKernel
from .records import Capability, Event, Key, LabelledPair, Row, Theta
from .supervision import (
    AbstractSupervision,
    Drawn,
    Supply,
    ThetaDistribution,
    plain_supply,
    require_several_points,
)

#: A kernel among stored parameter points compares each θ with all of them.
MOST_POINTS = 4096


def kernel_step(
    prior: AbstractPrior, kernel: AbstractKernel, theta: Theta, x: Event | None = None, *, key: Key
) -> Theta:
    """A step with the given kernel that is reversible with respect to `prior`.

    Uniform box and constant width: folded back at the walls. Stored points: a Metropolis move
    among them. Otherwise a Metropolis step, in which a refused move stays at θ.
    """
    if isinstance(prior, Discrete):
        return _step_among_points(prior, kernel, theta, x, key=key)
    move, accept = jax.random.split(key)
    widths = kernel.widths(x, theta)
    u = kernel.draw(len(theta), key=move)
    proposal = theta + u * widths
    if isinstance(prior, Uniform) and kernel.constant:
        return reflect(proposal, jnp.asarray(prior.low), jnp.asarray(prior.high))
    log_odds = prior.log_density(proposal) - prior.log_density(theta)
    if not kernel.constant:
        back = kernel.widths(x, proposal)
        log_odds += kernel.log_density((theta - proposal) / back) - jnp.sum(jnp.log(back))
        log_odds -= kernel.log_density(u) - jnp.sum(jnp.log(widths))
    return jnp.where(jnp.log(jax.random.uniform(accept)) < log_odds, proposal, theta)


def _step_among_points(
    prior: Discrete, kernel: AbstractKernel, theta: Array, x: Array | None, *, key: Key
) -> Array:
    """Propose point b with probability ∝ π_b K(b|a), accept with Z(a)/Z(b) (and K's ratio)."""
    points, log_mass = jnp.asarray(prior.points), jnp.log(jnp.asarray(prior.probability))
    if len(points) > MOST_POINTS:
        raise ValueError(
            f"a kernel among {len(points)} stored parameter points is not possible (at most "
            f"{MOST_POINTS}); give prior=, or use ist.CARL() or ist.KCE(ist.Independent())."
        )

    def log_kernel(start: Array, end: Array) -> Array:
        widths = kernel.widths(x, start)
        return kernel.log_density((end - start) / widths) - jnp.sum(jnp.log(widths))

    def logits(start: Array) -> Array:
        return log_mass + jax.vmap(lambda end: log_kernel(start, end))(points)

    choose, accept = jax.random.split(key)
    forward = logits(theta)
    proposal = points[jax.random.categorical(choose, forward)]
    log_odds = jax.nn.logsumexp(forward) - jax.nn.logsumexp(logits(proposal))
    if not kernel.constant:
        log_odds += log_kernel(proposal, theta) - log_kernel(theta, proposal)
    return jnp.where(jnp.log(jax.random.uniform(accept)) < log_odds, proposal, theta)


class AbstractPairs(eqx.Module):
    """A joint distribution of (θ0, θ1), and the reversible partner of a stored θ."""

    @abc.abstractmethod
    def pair(self, prior: AbstractPrior, *, key: Key) -> tuple[Array, Array]:
        """(θ0, θ1) for the flowchart."""

    @abc.abstractmethod
    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: Key) -> Array:
        """A partner for a stored θ such that the pair is exchangeable."""


@known
class Independent(AbstractPairs):
    """θ0 and θ1 independent, each from the prior (`eq:pi_pair_iid`): CARL."""

    def pair(self, prior: AbstractPrior, *, key: Key) -> tuple[Array, Array]:
        """Two draws."""
        first, second = jax.random.split(key)
        return prior.draw(key=first), prior.draw(key=second)

    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: Key) -> Array:
        """Another draw."""
        del theta, x
        return prior.draw(key=key)


@known
class KernelPairs(AbstractPairs):
    """The paper's symmetric mixture ½[π(θ0)K(θ1−θ0) + π(θ1)K(θ0−θ1)] (`eq:pi_pair_kernel`)."""

    kernel: AbstractKernel

    def pair(self, prior: AbstractPrior, *, key: Key) -> tuple[Array, Array]:
        """One from the prior, one displaced, in random order."""
        start, move, swap = jax.random.split(key, 3)
        theta = prior.draw(key=start)
        other = theta + self.kernel.draw(len(theta), key=move) * self.kernel.widths(None, theta)
        swapped = jax.random.bernoulli(swap)
        return jnp.where(swapped, other, theta), jnp.where(swapped, theta, other)

    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: Key) -> Array:
        """A π-reversible step."""
        return kernel_step(prior, self.kernel, theta, x, key=key)


@known
class CustomPairs(AbstractPairs):
    """A user's own distribution of pairs, in JAX functions.

    Args:
        draw_pair: `key -> (θ0, θ1)`, any joint distribution, for `ist.draw`.
        draw_partner: `(θ, key) -> partner`, for stored events; it must be reversible with respect
            to the prior of the stored θ, or the learned ratio is wrong.
    """

    draw_pair: Callable[..., Any] | None = eqx.field(static=True, default=None)
    draw_partner: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        """Functions, where there are any."""
        if self.draw_pair is not None:
            as_function(self.draw_pair, "draw_pair", "a JAX function of a key, or None")
        if self.draw_partner is not None:
            what = "a JAX function (theta, key) -> partner, or None"
            as_function(self.draw_partner, "draw_partner", what)

    def pair(self, prior: AbstractPrior, *, key: Key) -> tuple[Array, Array]:
        """The user's pair."""
        del prior
        if self.draw_pair is None:
            raise TypeError("ist.draw with CustomPairs needs its draw_pair function.")
        first, second = _trace(self.draw_pair, key)
        return jnp.asarray(first, jnp.float32), jnp.asarray(second, jnp.float32)

    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: Key) -> Array:
        """The user's partner."""
        del x, prior
        if self.draw_partner is None:
            raise TypeError("stored events with CustomPairs need its draw_partner function.")
        return jnp.asarray(_trace(self.draw_partner, theta, key), jnp.float32)


def _trace(function: Callable[..., Any], *arguments: Array) -> Any:  # noqa: ANN401
    try:
        return function(*arguments)
    except jax.errors.JAXTypeError as error:
        raise TypeError(
            "a user-supplied distribution of pairs is used inside the compiled loop and must be "
            f"JAX-traceable (jax.numpy, jax.random, no Python branches on values): {error}"
        ) from error


@known
class LabelledPairs(AbstractSupervision):
    """Records (θ0, θ1, y) with a fair label."""

    pairs: AbstractPairs

    @property
    def capability(self) -> Capability:
        """The log ratio."""
        return Capability.LOG_RATIO

    @property
    def needs_all_events(self) -> bool:
        """No: each event is asked about for itself."""
        return False

    def supply(self, events: Events) -> Supply:
        """Stored events as they are."""
        require_several_points(events)
        return plain_supply(events)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> LabelledPair:
        """A partner, and a fair coin for which of the two is called θ0."""
        move, flip = jax.random.split(key)
        partner = self.pairs.partner(row.theta, row.x, distribution.prior, key=move)
        came_from_1 = jax.random.bernoulli(flip)
        return LabelledPair(
            theta0=jnp.where(came_from_1, partner, row.theta),
            theta1=jnp.where(came_from_1, row.theta, partner),
            label=came_from_1.astype(jnp.float32),
            weight=jnp.ones(()),
        )

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """The flowchart `fig:kllr`: a pair, a fair label, an event at θ_y."""
        keys = jax.random.split(Stream(seed, Purpose.DRAW_THETA).key(), n)
        theta0, theta1 = _pair_many(self.pairs, prior, keys)
        return draw_labelled(simulator, prior, theta0, theta1, seed=seed, show=show)


@eqx.filter_jit
def _pair_many(pairs: AbstractPairs, prior: AbstractPrior, keys: Array) -> tuple[Array, Array]:
    return jax.vmap(lambda key: pairs.pair(prior, key=key))(keys)


def draw_labelled(
    simulator: Simulator,
    prior: AbstractPrior,
    theta0: Array,
    theta1: Array,
    *,
    seed: int,
    show: bool | None,
) -> Drawn:
    """A fair label for each pair and an event simulated at θ_y."""
    n = len(theta0)
    label = jax.random.bernoulli(Stream(seed, Purpose.DRAW_LABELS).key(), shape=(n,))
    origin = np.asarray(jnp.where(label[:, None], theta1, theta0), np.float64)
    outside = ~prior.contains(origin)
    because = (
        f"{outside.mean():.0%} of the pairs have the simulated θ outside the prior, by the "
        "kernel's reach; the simulator's valid domain must cover that. Narrow the prior, reduce "
        "the kernel's width, or use stored events: ist.fit(ist.simulate(…), ist.KLRE(…))."
        if outside.any()
        else ""
    )
    stream = Stream(seed, Purpose.DRAW)
    made = simulate_first(simulator, origin, stream, asked_because=because, progress_bar=show)
    record = LabelledPair(
        theta0=theta0, theta1=theta1, label=label.astype(jnp.float32), weight=jnp.ones(n)
    )
    return Drawn(made.x, record, made.names)
