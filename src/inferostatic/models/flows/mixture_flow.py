"""The default flow, in the terms of flowjax, which is imported here and nowhere else.

Autoregressive conditionals that are mixtures of Gaussians, behind autoregressive affine layers. All
of it is infinitely differentiable, in θ and in x, unlike splines, whose score jumps at the knots.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax
from flowjax.bijections import Affine, Chain, Flip, Invert, MaskedAutoregressive
from flowjax.bijections.masked_autoregressive import masked_autoregressive_mlp
from flowjax.distributions import AbstractDistribution, Transformed
from jaxtyping import Array, PRNGKeyArray
from paramax.utils import inv_softplus

#: Smallest width of a Gaussian, in units of the features, which have spread 1: narrower ones would
#: fit single events.
SMALLEST_SCALE = 1e-3
#: Smallest stretch of an affine layer, for the same reason.
SMALLEST_STRETCH = 1e-2
#: The components of an untrained mixture lie between ± this, in units of the features.
SPREAD = 1.5
#: Width of the components of an untrained mixture, in units of the features.
FIRST_SCALE = 1.0


class Mixtures(AbstractDistribution):
    """p(u; θ) = Π_i Σ_k w_ik N(u_i; μ_ik, σ_ik), with w, μ and σ functions of u_1…u_{i−1} and θ."""

    network: eqx.nn.MLP
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: tuple[int, ...] | None = eqx.field(static=True)

    def _components(self, u: Array, condition: Array) -> tuple[Array, Array, Array]:
        """Log weights, means and scales, each of shape (dim, components)."""
        outputs = self.network(jnp.concatenate([u, condition]))
        logits, means, scales = jnp.moveaxis(outputs.reshape(len(u), 3, -1), 1, 0)
        scales = jax.nn.softplus(scales) + SMALLEST_SCALE
        return jax.nn.log_softmax(logits, axis=-1), means, scales

    def _log_prob(self, x: Array, condition: Array | None = None) -> Array:
        assert condition is not None
        log_weights, means, scales = self._components(x, condition)
        away = (x[:, None] - means) / scales
        terms = log_weights - jnp.square(away) / 2 - jnp.log(scales)
        values = jax.nn.logsumexp(terms, axis=-1)
        return jnp.sum(values) - len(x) * jnp.log(2 * jnp.pi) / 2

    def _sample(self, key: PRNGKeyArray, condition: Array | None = None) -> Array:
        assert condition is not None
        (size,) = self.shape
        chosen, normal = jax.random.split(key)
        noise = jax.random.normal(normal, (size,))

        def one(u: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
            i, key = step
            log_weights, means, scales = self._components(u, condition)
            k = jax.random.categorical(key, log_weights[i])
            return u.at[i].set(means[i, k] + scales[i, k] * noise[i]), None

        steps = (jnp.arange(size), jax.random.split(chosen, size))
        return jax.lax.scan(one, jnp.zeros(size, noise.dtype), steps)[0]


def mixtures(
    sizes: tuple[int, int], components: int, width: int, hidden: dict[str, Any], key: PRNGKeyArray
) -> Mixtures:
    """Untrained conditionals, the components of each spread over the range of the features.

    `hidden` are the depth and the activation of the network.
    """
    x_size, theta_size = sizes
    network = masked_autoregressive_mlp(
        # The parameters come before every observable.
        jnp.concatenate([jnp.arange(x_size), jnp.full(theta_size, -1)]),
        jnp.arange(width) % x_size - 1,
        jnp.repeat(jnp.arange(x_size), 3 * components),
        key=key,
        **hidden,
    )
    reach = SPREAD if components > 1 else 0.0
    first = jnp.stack(
        [
            jnp.zeros(components),
            jnp.linspace(-reach, reach, components),
            jnp.full(components, inv_softplus(jnp.asarray(FIRST_SCALE))),
        ]
    )
    bias = jnp.broadcast_to(first, (x_size, *first.shape)).ravel()
    network = eqx.tree_at(lambda mlp: mlp.layers[-1].bias, network, bias)
    return Mixtures(network=network, shape=(x_size,), cond_shape=(theta_size,))


def mixture_flow(
    x_size: int,
    theta_size: int,
    *,
    layers: int,
    components: int,
    width: int,
    depth: int,
    activation: Callable[..., Any],
    key: PRNGKeyArray,
) -> AbstractDistribution:
    """Affine layers, the order of the features reversed after each, and then the mixtures."""
    last, *keys = jax.random.split(key, layers + 1)
    hidden = {"depth": depth, "activation": activation}
    base = mixtures((x_size, theta_size), components, width, hidden, last)
    steps: list[Any] = []
    for k in keys:
        steps.append(
            MaskedAutoregressive(
                k,
                transformer=_affine(),
                dim=x_size,
                cond_dim=theta_size,
                nn_width=width,
                nn_depth=depth,
                nn_activation=activation,
            )
        )
        if x_size > 1:
            steps.append(Flip((x_size,)))
    return Transformed(base, Invert(Chain(steps))) if steps else base


def _affine() -> Affine:
    """A shift and a positive stretch, at first the identity."""
    one = inv_softplus(jnp.asarray(1.0 - SMALLEST_STRETCH))
    stretch = paramax.Parameterize(_stretch, one)
    return eqx.tree_at(lambda affine: affine.scale, Affine(), stretch)


def _stretch(raw: Array) -> Array:
    return jax.nn.softplus(raw) + SMALLEST_STRETCH
