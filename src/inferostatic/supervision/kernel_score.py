r"""Kernel Score Estimation: regression targets whose conditional mean is the score.

Form 1 (`eq:ksa`, by `draw`): θ ~ π, ε ~ K_θ, x ~ p(x; θ+ε), target ψ_i(ε)/E[ε_i ψ_i].
Form 2 (`eq:s_KSA2`, on stored events): from (θ', x), ε ~ K with width λ(x, θ'), θ = θ' − ε,
weight π(θ)/π(θ'), the same target with the width *at θ'*. What both converge to is the kernel score
approximation s^KSA, which differs from the score by a bias of second order in λ.
"""

import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.simulate import simulate_first
from ..inputs import rounded
from ..serial import known
from ..streams import Purpose, Stream
from ..world.priors.prior import AbstractPrior, draw_points
from ..world.simulator import Simulator
from .difference import AbstractDifference, Linear, score_target
from .kernels import AbstractKernel, largest_widths
from .records import Capability, Key, Row, ScoreTarget
from .supervision import (
    AbstractSupervision,
    Drawn,
    Supply,
    ThetaDistribution,
    find_prior,
    plain_rows,
    refuse_discrete,
    trusted_region,
)

#: Above this slope ∂λ/∂θ the bias of form 2 is no longer small (12% at 0.14).
LARGEST_SLOPE = 0.1
#: Stored events around which the prior's density is looked at.
TRIED_EVENTS = 1000


@known
class KernelScore(AbstractSupervision):
    """Targets for the score from displacements of θ."""

    kernel: AbstractKernel
    difference: AbstractDifference = eqx.field(default_factory=Linear)

    @property
    def capability(self) -> Capability:
        """The score."""
        return Capability.SCORE

    @property
    def needs_all_events(self) -> bool:
        """No: each event is asked about for itself."""
        return False

    def supply(self, events: Events) -> Supply:
        """Check support, reach and slope; the trusted region is eroded by the largest reach."""
        prior = find_prior(events)
        refuse_discrete(prior, "Kernel Score Estimation on stored events")
        low, high = prior.support
        bounded = bool(np.isfinite(np.concatenate([low, high])).any())
        if bounded and math.isinf(self.kernel.reach):
            raise ValueError(
                "an unbounded kernel on a bounded prior would need events simulated outside it; "
                "cut it off, for example ist.Gaussian(width, truncation=3)."
            )
        widths, slope = largest_widths(self.kernel, events.x, events.theta)
        reach = 0.0 if math.isinf(self.kernel.reach) else self.kernel.reach
        if slope * max(reach, 1.0) >= 1:
            raise ValueError(
                f"the width function changes too fast with θ (slope {slope:.2g}): θ' − uλ(x, θ') "
                "must be one-to-one. Flatten it to a slope well below 0.1."
            )
        if slope > LARGEST_SLOPE:
            warnings.warn(
                f"the kernel's width changes with θ at a slope of {slope:.2g}; above "
                f"{LARGEST_SLOPE} the score estimate is visibly biased. Flatten the width.",
                stacklevel=2,
            )
        farthest = widths * reach
        inner_low, inner_high = trusted_region(prior, events.theta, farthest)
        if not (inner_low < inner_high).all():
            raise ValueError(
                f"the kernel reaches {rounded(farthest.round(4))} and the simulated range is only "
                f"{rounded(low)} to {rounded(high)}: no θ has all its displacements inside it. Use "
                "a smaller width or simulate wider."
            )
        distribution = ThetaDistribution(
            prior, inner_low.astype(np.float32), inner_high.astype(np.float32)
        )
        _refuse_gaps(distribution, events.theta, farthest)
        return Supply(plain_rows(events), events.weight, distribution)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> ScoreTarget:
        """Form 2.

        A θ closer to the edge than the kernel reaches gets weight 0: displacements that would have
        needed θ' outside were never simulated, and would bias its target by ±1/λ.
        """
        widths = self.kernel.widths(row.x, row.theta)
        u = self.kernel.draw(len(row.theta), key=key)
        theta = row.theta - u * widths
        inside = jnp.all((theta >= distribution.low) & (theta <= distribution.high))
        log_weight = distribution.prior.log_density(theta) - distribution.prior.log_density(
            row.theta
        )
        weight = jnp.where(inside, jnp.exp(jnp.where(inside, log_weight, 0.0)), 0.0)
        target = score_target(self.kernel, self.difference, u, widths)
        return ScoreTarget(theta=theta, target=target, weight=weight)

    def draw(
        self, simulator: Simulator, prior: AbstractPrior, n: int, *, seed: int, show: bool | None
    ) -> Drawn:
        """Form 1: the simulator is called at θ + ε, outside the prior by up to the reach."""
        if self.kernel.depends_on_x:
            self.kernel.widths(None, jnp.zeros(prior.dim))
        theta = draw_points(prior, n, Stream(seed, Purpose.DRAW_THETA))
        keys = jax.random.split(Stream(seed, Purpose.DRAW_RECORDS).key(), n)
        theta32 = jnp.asarray(theta, jnp.float32)
        epsilon, target = _displace(self.kernel, self.difference, theta32, keys)
        reached = np.abs(np.asarray(epsilon, np.float64)).max(axis=0).round(4).tolist()
        because = (
            f"Kernel Score Estimation simulates at θ + ε, up to {reached} outside the prior; the "
            "simulator's valid domain must cover that. Narrow the prior, reduce the kernel's "
            "width, or use stored events: ist.fit(ist.simulate(…), ist.KSE(…))."
        )
        moved = theta + np.asarray(epsilon, np.float64)
        stream = Stream(seed, Purpose.DRAW)
        made = simulate_first(simulator, moved, stream, asked_because=because, progress_bar=show)
        record = ScoreTarget(theta=theta32, target=target, weight=jnp.ones(n))
        return Drawn(made.x, record, made.names)


def _refuse_gaps(distribution: ThetaDistribution, theta: np.ndarray, farthest: np.ndarray) -> None:
    """Raise where a user's density vanishes within its edges: at such walls nothing protects θ."""
    theta = theta[:TRIED_EVENTS]
    theta = theta[np.all((theta >= distribution.low) & (theta <= distribution.high), axis=1)]
    sign = Stream(0, Purpose.TRY_GAPS).generator().choice([-1.0, 1.0], size=theta.shape)
    if len(theta) == 0:
        return
    # A little less than the reach, since float32 may put a corner on a wall just outside it.
    for step in (0.999 * sign * farthest, -0.999 * sign * farthest):
        nowhere = np.isneginf(distribution.prior.log_prob(theta + step))
        if nowhere.any():
            where = rounded(theta[nowhere][0].round(4))
            raise ValueError(
                "the prior's density vanishes inside its edges low and high, within the kernel's "
                f"reach of θ = {where}: displacements from there were never simulated, which would "
                "bias the score by about 1/width. Give a prior on a box, or use ist.KCE() or "
                "ist.KLRE(…), which are exact for any prior."
            )


@eqx.filter_jit
def _displace(
    kernel: AbstractKernel, difference: AbstractDifference, theta: Array, keys: Array
) -> tuple[Array, Array]:
    def one(theta: Array, key: Array) -> tuple[Array, Array]:
        widths = kernel.widths(None, theta)
        u = kernel.draw(len(theta), key=key)
        return u * widths, score_target(kernel, difference, u, widths)

    return jax.vmap(one)(theta, keys)
