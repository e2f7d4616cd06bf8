"""The No-U-Turn Sampler of blackjax on a posterior: many chains at once, with their diagnostics."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...compilation import compile_briefly
from ...inputs import as_count
from ...progress import Advance, progress
from ...streams import Purpose, Stream
from ...world.priors.discrete import Discrete
from ..likelihood.float64 import float64
from .arviz_bridge import judge_chains, load_arviz
from .importance import FirstDraws, approach, draw_first
from .log_posterior import LogPosterior, Target
from .sampler import DRAWS, FEWEST_EFFECTIVE, AbstractSampler, Samples, Sampling
from .tabulated_target import sample_with_table
from .weighted_draws import temper_weights, weighted_moments

#: Steps of one compiled call.
BLOCK = 25
#: Blocks of the warm-up's windows, as Stan has them. In the first and the last the step size alone
#: is adapted; at the end of the others the mass matrix is renewed.
WINDOWS = (3, 1, 2, 8, 2)
#: Steps of the warm-up.
WARMUP = BLOCK * sum(WINDOWS)
#: Draws that the mass matrix of a window is shrunk by, as in Stan.
SHRINKING_DRAWS = 5
#: What it is shrunk to, as in Stan.
SMALL_MASS = 1e-3
#: Acceptance aimed at; above the usual 0.8, because bounded parameters have steep edges.
ACCEPTANCE = 0.9
#: Up to this many parameters the mass matrix is dense.
DENSE_DIM = 20
#: How many of the first draws should matter for the starts and the first mass matrix.
STARTING_ESS = 64
#: Evaluations of the density that a step costs: some seven gradients, of three evaluations each.
STEP_COST = 20
#: Split R-hat above which there is a warning.
MOST_R_HAT = 1.01


@dataclasses.dataclass(frozen=True)
class NUTS(AbstractSampler):
    """The No-U-Turn Sampler, for any number of parameters.

    Args:
        draws: samples in all; rounded up to a multiple of `chains`.
        chains: run side by side.
    """

    draws: int = DRAWS
    chains: int = 8

    def __post_init__(self) -> None:
        """Check the options."""
        as_count(self.draws, "draws")
        as_count(self.chains, "chains")

    def sample(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        """Run the chains."""
        if isinstance(target.density.prior, Discrete):
            raise ValueError(
                "NUTS needs a prior with a density, and this one is a finite set of points; use "
                "ist.Grid(), which goes through them, or give prior=."
            )
        evaluations = STEP_COST * (self.draws + self.chains * WARMUP)
        draw = partial(self._draw, seed=seed, show=show)
        return sample_with_table(target, draw, evaluations, seed=seed, show=show)

    def _draw(self, target: Target, *, seed: int, show: bool | None) -> Samples:
        draws = -(-self.draws // self.chains)
        found = sample_nuts(target, draws=draws, chains=self.chains, seed=seed, show=show)
        points = found.theta.reshape(-1, found.theta.shape[-1])
        sampling = Sampling(
            method="nuts",
            chains=self.chains,
            r_hat=found.r_hat,
            ess=found.ess,
            divergences=int(found.diverging.sum()),
            diverging=found.diverging,
            acceptance=found.acceptance,
            steps=found.steps,
            remarks=_remarks(found),
        )
        moments = points.mean(axis=0), np.atleast_2d(np.cov(points.T))
        return Samples(points, found.log_prob.ravel(), *moments, sampling)


class Chains(NamedTuple):
    """What the sampler gives.

    theta: shape (chains, draws, d); log_prob, diverging, acceptance, steps: (chains, draws);
    r_hat and ess: (d,).
    """

    theta: np.ndarray
    log_prob: np.ndarray
    diverging: np.ndarray
    acceptance: np.ndarray
    steps: np.ndarray
    r_hat: np.ndarray
    ess: np.ndarray


def _remarks(found: Chains) -> tuple[str, ...]:
    remarks, divergences = [], int(found.diverging.sum())
    if divergences:
        remarks.append(
            f"{divergences} of {found.diverging.size} transitions diverged: the sampler did not "
            "follow the posterior everywhere. Compare with ist.Importance(), and look whether "
            "the potential is smooth there."
        )
    # A chain of few draws has an R-hat of no meaning; the number of draws is reported then.
    if not (found.r_hat <= MOST_R_HAT).all():
        remarks.append(
            f"the chains do not agree with each other (split R-hat up to {found.r_hat.max():.3f}, "
            f"above {MOST_R_HAT}); draw more, or look for several modes."
        )
    if found.ess.min() < FEWEST_EFFECTIVE:
        remarks.append(
            f"the samples are worth only {found.ess.min():.0f} independent ones, below "
            f"{FEWEST_EFFECTIVE:.0f}; raise draws=."
        )
    return tuple(remarks)


def load_blackjax() -> Any:  # noqa: ANN401
    """The package, or how to get it."""
    try:
        import blackjax
    except ImportError as error:
        raise ImportError(
            "sampling a posterior by NUTS uses blackjax: pip install 'inferostatic[inference]' "
            "(ist.Importance(), and ist.Grid() for one or two parameters, need nothing else)"
        ) from error
    return blackjax


def sample_nuts(
    target: Target, *, draws: int, chains: int, seed: int, show: bool | None = None
) -> Chains:
    """`draws` from each of `chains`, started at different places that the data do not exclude."""
    load_blackjax()
    load_arviz()  # judges the chains in the end; better missed now than then
    density, first = target.density, draw_first(target, seed, show=show)
    mass = _first_mass(target, first, seed, show=show)
    mass = mass if len(mass) <= DENSE_DIM else np.diag(mass)
    starts = _starts(first, chains, seed)
    with float64(), progress("sampling", draws + WARMUP, show=show) as advance:
        position = jnp.asarray(density.coordinates.many_free(starts))
        key = Stream(seed, Purpose.NUTS).key()
        running = _Chains(density, position, jnp.asarray(mass), key)
        running.warm_up(advance)
        blocks = [running.run(advance) for _ in range(-(-draws // BLOCK))]
    free, log_prob, diverging, acceptance, steps = (
        np.concatenate(parts, axis=1)[:, :draws] for parts in zip(*blocks, strict=True)
    )
    theta = density.coordinates.many_theta(free.reshape(-1, free.shape[-1])).reshape(free.shape)
    r_hat, ess = judge_chains(theta)
    return Chains(theta, log_prob, diverging, acceptance, steps, r_hat, ess)


def _starts(first: FirstDraws, chains: int, seed: int) -> np.ndarray:
    """Draws from a flattened posterior: dispersed, yet not where a chain would need long to leave.

    The likelihood is taken to the largest power β ≤ 1 that leaves enough draws of the prior.
    """
    weight, _ = temper_weights(first.log_likelihood, max(STARTING_ESS, 4 * chains))
    # Without repetition: chains from one place could not disagree.
    weight = (weight + 1e-12) / (weight + 1e-12).sum()
    rng = Stream(seed, Purpose.NUTS_STARTS).generator()
    return first.theta[rng.choice(len(first.theta), chains, replace=False, p=weight)]


def _first_mass(target: Target, first: FirstDraws, seed: int, *, show: bool | None) -> np.ndarray:
    """The covariance of the posterior, roughly: a first inverse mass matrix."""
    near = approach(target, first, seed, show=show)
    weight, _ = temper_weights(near.log_weight, STARTING_ESS)
    covariance = weighted_moments(near.free, weight)[1]
    return covariance + 1e-9 * np.diag(np.diag(covariance) + 1e-12)


class _Chains:
    """Chains side by side, in unconstrained coordinates, with what is adapted in the warm-up.

    One compiled program makes every block, of the warm-up and after it: to compile a sampler takes
    longer than to run it on a table.
    """

    def __init__(self, density: LogPosterior, position: Array, mass: Array, key: Array) -> None:
        self.density, self.position, self.mass, self.key = density, position, mass, key
        # A table costs so little that compiling is what takes time.
        brief = density.likelihood.events_at_once == 0
        self._run = compile_briefly(_run_block) if brief else eqx.filter_jit(_run_block)
        self._restart(np.zeros(len(position)))

    def warm_up(self, advance: Advance) -> None:
        """Find a step size for each chain, and a mass matrix for all of them."""
        last = len(WINDOWS) - 1
        for number, blocks in enumerate(WINDOWS):
            points = np.concatenate([self.run(advance, adapting=True)[0] for _ in range(blocks)], 1)
            if 0 < number < last:
                self._renew_mass(points.reshape(-1, points.shape[-1]))
                self._restart(self.tuning.log_step_size_avg)

    def run(self, advance: Advance, *, adapting: bool = False) -> list[np.ndarray]:
        """What is kept of the next block of steps, axes (chains, steps)."""
        self.key, key = jax.random.split(self.key)
        given = (self.position, self.mass, self.tuning, key, jnp.asarray(adapting))
        self.position, self.tuning, kept = self._run(self.density, *given)
        advance(BLOCK)
        return [np.asarray(part) for part in kept]

    def _restart(self, log_step_size: np.ndarray | Array) -> None:
        """Adapt the step sizes anew, beginning with these."""
        begun = compile_briefly(_begin)(jnp.asarray(log_step_size))
        # NumPy's arrays have no weak types, for which the block would be compiled once more.
        self.tuning = jax.tree.map(np.asarray, begun)

    def _renew_mass(self, points: np.ndarray) -> None:
        """The covariance of points of all chains, shape (m, d), slightly shrunk."""
        count, dim = points.shape
        covariance = np.cov(points.T).reshape(dim, dim)
        mass = count * covariance + SHRINKING_DRAWS * SMALL_MASS * np.eye(dim)
        mass = mass / (count + SHRINKING_DRAWS)
        self.mass = jnp.asarray(mass if self.mass.ndim == 2 else np.diag(mass))


def _adaptation() -> Any:  # noqa: ANN401
    """Functions that begin, go on with and end the adaptation of a step size."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(ACCEPTANCE)


def _begin(log_step_size: Array) -> Any:  # noqa: ANN401
    return jax.vmap(_adaptation()[0])(jnp.exp(log_step_size))


def _run_block(
    density: LogPosterior,
    position: Array,
    mass: Array,
    tuning: Any,  # noqa: ANN401
    key: Array,
    adapting: Array,
) -> Any:  # noqa: ANN401
    """Steps of all chains: their ends, their step sizes and what is kept of every step."""
    nuts, (_, adapt, _) = load_blackjax().nuts, _adaptation()
    kernel = nuts.build_kernel()

    def one(position: Array, tuning: Any, key: Array) -> Any:  # noqa: ANN401
        def step(carried: Any, key: Array) -> Any:  # noqa: ANN401
            state, tuning = carried
            size = jnp.exp(jnp.where(adapting, tuning.log_step_size, tuning.log_step_size_avg))
            state, info = kernel(key, state, density.log_prob_unconstrained, size, mass)
            adapted = adapt(tuning, info.acceptance_rate)
            tuning = jax.tree.map(partial(jnp.where, adapting), adapted, tuning)
            # The density of θ, not that of the coordinates.
            log_prob = state.logdensity - density.coordinates.log_jacobian(state.position)
            kept = (state.position, log_prob, info.is_divergent, info.acceptance_rate)
            return (state, tuning), (*kept, info.num_integration_steps)

        state = nuts.init(position, density.log_prob_unconstrained)
        (state, tuning), kept = jax.lax.scan(step, (state, tuning), jax.random.split(key, BLOCK))
        return state.position, tuning, kept

    return jax.vmap(one)(position, tuning, jax.random.split(key, len(position)))
