"""Estimators whose potential is an exact ln p(x; θ), or one that is wrong in a known way."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

import inferostatic as ist
from inferostatic.estimator import Estimator, Region, with_network


class Exact(eqx.Module):
    """(stretch) ln p(x; θ) + tilt·θ: exact for stretch 1 and tilt 0."""

    stretch: Any
    tilt: Any
    kind: str = eqx.field(static=True)

    def __call__(self, both):
        half = len(both) // 2
        x, theta = both[:half], both[half:]
        if self.kind == "Dirichlet":
            log_p = gammaln(theta.sum()) - gammaln(theta).sum() + ((theta - 1) * jnp.log(x)).sum()
        else:  # x ~ Normal(θ, 1) in each component
            log_p = -0.5 * ((x - theta) ** 2).sum()
        return (self.stretch * log_p + self.tilt @ theta)[None]


def exact_dirichlet(*, low=0.1, high=5.4, stretch=1.0, tilt: Any = 0.0, members=1) -> Estimator:
    """The paper's toy, three parameters."""
    prior = ist.Uniform([low] * 3, [high] * 3, names=["a", "b", "c"])
    return _exact("Dirichlet", prior, np.zeros(3), np.ones(3), stretch, tilt, members)


def exact_normal(*, dim=1, width=3.0, stretch=1.0, tilt: Any = 0.0, members=1) -> Estimator:
    """x ~ Normal(θ, 1) with θ uniform on ±width."""
    prior = ist.Uniform([-width] * dim, [width] * dim)
    x_high = np.full(dim, width + 4.0)
    return _exact("Normal", prior, -x_high, x_high, stretch, tilt, members)


def _exact(kind, prior, x_low, x_high, stretch, tilt, members) -> Estimator:
    dim = len(x_low)
    architecture = ist.Potential(ist.MLP((4,)), ist.Raw(), ist.Raw())
    rows = np.random.default_rng(0).uniform(x_low, x_high, (100, dim))
    shapes = architecture.shapes(rows, np.zeros(dim), np.ones(dim))
    model = architecture.build(shapes, key=jax.random.key(0))
    tilts = jnp.broadcast_to(jnp.asarray(tilt, jnp.float32), (members, dim))
    network = Exact(jnp.full(members, stretch, jnp.float32), tilts, kind)
    low, high = prior.support
    nothing = np.zeros((1, members))
    return Estimator(
        model=with_network(model, network),
        architecture=architecture,
        shapes=shapes,
        method=ist.KCE(),
        prior=prior,
        region=Region(np.asarray(low), np.asarray(high), x_low, x_high),
        x_names=tuple(f"x{i}" for i in range(dim)),
        theta_names=tuple(prior.names),
        history=ist.History(nothing, nothing, np.ones(1), np.ones(members), "never trained"),
    )
