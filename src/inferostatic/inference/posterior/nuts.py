"""The No-U-Turn Sampler of blackjax on a posterior: many chains at once, with their diagnostics."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...progress import progress
from .convergence import bulk_ess, split_r_hat
from .density import Target
from .importance import approach
from .weighted_draws import tempered, weighted_moments

#: Steps of the warm-up, which finds step size and mass matrix.
WARMUP = 400
#: Acceptance aimed at; above the usual 0.8, because bounded parameters have steep edges.
ACCEPTANCE = 0.9
#: Up to this many parameters the mass matrix is dense.
DENSE_DIM = 20
#: Draws from the prior from which the starts are chosen, and how many of them should matter.
STARTING_DRAWS, STARTING_ESS = 2048, 64
#: Steps of one compiled call.
BLOCK = 250


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


def blackjax() -> Any:  # noqa: ANN401
    """The package, or how to get it."""
    try:
        import blackjax
    except ImportError as error:
        raise ImportError(
            "sampling a posterior by NUTS uses blackjax: pip install 'inferostatic[inference]' "
            "(method='importance', and 'grid' for one or two parameters, need nothing else)"
        ) from error
    return blackjax


def sample_nuts(
    target: Target, *, draws: int, chains: int, seed: int, show: bool | None = None
) -> Chains:
    """`draws` from each of `chains`, started at different places that the data do not exclude."""
    blackjax()
    mass = _first_mass(target, seed)
    mass = mass if len(mass) <= DENSE_DIM else np.diag(mass)
    starts = _starts(target, chains, seed)
    warming, *keys = jax.random.split(jax.random.key(seed), 1 + -(-draws // BLOCK))
    blocks = []
    with jax.enable_x64(True), progress("sampling", draws + WARMUP, show=show) as advance:  # noqa: FBT003
        free = jnp.asarray(target.coordinates.many_free(starts))
        state, parameters = _warm_up(target, free, jnp.asarray(mass), warming, WARMUP)
        jax.block_until_ready(state)
        advance(WARMUP)
        for key in keys:
            state, block = _sample(target, state, parameters, key, min(BLOCK, draws))
            blocks.append([np.asarray(part) for part in block])
            advance(len(blocks[-1][0][0]))
        free, log_prob, diverging, acceptance, steps = (
            np.concatenate(parts, axis=1)[:, :draws] for parts in zip(*blocks, strict=True)
        )
    theta = target.coordinates.many_theta(free.reshape(-1, free.shape[-1])).reshape(free.shape)
    r_hat, ess = split_r_hat(theta), bulk_ess(theta)
    return Chains(theta, log_prob, diverging, acceptance, steps, r_hat, ess)


def _starts(target: Target, chains: int, seed: int) -> np.ndarray:
    """Draws from a flattened posterior: dispersed, yet not where a chain would need long to leave.

    The likelihood is taken to the largest power β ≤ 1 that leaves enough draws of the prior.
    """
    theta = target.prior.sample(STARTING_DRAWS, seed=seed)
    weight, _ = tempered(target.many("log_likelihood", theta), max(STARTING_ESS, 4 * chains))
    # Without repetition: chains from one place could not disagree.
    weight = (weight + 1e-12) / (weight + 1e-12).sum()
    return theta[np.random.default_rng(seed).choice(len(theta), chains, replace=False, p=weight)]


def _first_mass(target: Target, seed: int) -> np.ndarray:
    """The covariance of the posterior, roughly: a first inverse mass matrix."""
    near = approach(target, seed)
    weight, _ = tempered(near.log_weight, STARTING_ESS)
    covariance = weighted_moments(near.free, weight)[1]
    return covariance + 1e-9 * np.diag(np.diag(covariance) + 1e-12)


@eqx.filter_jit
def _warm_up(target: Target, starts: Array, mass: Array, key: Array, steps: int) -> Any:  # noqa: ANN401
    from blackjax.adaptation.base import get_filter_adapt_info_fn

    package = blackjax()
    adaptation = package.window_adaptation(
        package.nuts,
        target.log_prob_free,
        is_mass_matrix_diagonal=mass.ndim == 1,
        initial_inverse_mass_matrix=mass,
        target_acceptance_rate=ACCEPTANCE,
        adaptation_info_fn=get_filter_adapt_info_fn(),
    )

    def one(key: Array, start: Array) -> tuple[Any, Any]:
        found, _ = adaptation.run(key, start, steps)
        return found.state, found.parameters

    return jax.vmap(one)(jax.random.split(key, len(starts)), starts)


@eqx.filter_jit
def _sample(target: Target, state: Any, parameters: Any, key: Array, draws: int) -> Any:  # noqa: ANN401
    kernel = blackjax().nuts.build_kernel()

    def one(key: Array, state: Any, parameters: Any) -> Any:  # noqa: ANN401
        def step(state: Any, key: Array) -> Any:  # noqa: ANN401
            state, info = kernel(key, state, target.log_prob_free, **parameters)
            # The density of θ, not that of the coordinates.
            log_prob = state.logdensity - target.coordinates.log_jacobian(state.position)
            kept = (state.position, log_prob, info.is_divergent, info.acceptance_rate)
            return state, (*kept, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(key, draws))

    chains = state.logdensity.shape[0]
    return jax.vmap(one)(jax.random.split(key, chains), state, parameters)
