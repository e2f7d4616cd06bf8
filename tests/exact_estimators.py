"""Estimators whose potential is an exact ln p(x; θ), or one that is wrong in a known way.

An exact potential is a network that computes ln p(x; θ) itself, so that every difference from a
known answer is due to what is done with it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array

import inferostatic as ist
from inferostatic.estimator.history import Region
from inferostatic.models.architecture import Shapes
from inferostatic.models.features.feature_map import IdentityMap
from inferostatic.models.potential import PotentialModel

LogP = Callable[[Array, Array], Array]


class Exact(eqx.Module):
    """A "network" that is strength × f(x, θ), with one strength for each member."""

    strength: Array
    f: LogP = eqx.field(static=True)
    x_dim: int = eqx.field(static=True)

    def __call__(self, inputs: Array) -> Array:
        return (self.strength * self.f(inputs[: self.x_dim], inputs[self.x_dim :]))[None]


def dirichlet(x: Array, theta: Array) -> Array:
    """Of the toy of the paper."""
    return gammaln(theta.sum()) - gammaln(theta).sum() + jnp.sum((theta - 1) * jnp.log(x))


def gaussian(x: Array, theta: Array) -> Array:
    """x ~ Normal(θ, 1) in each component."""
    return -jnp.sum((x - theta) ** 2) / 2


def exact_estimator(
    f: LogP,
    prior: Any,
    x_low: np.ndarray,
    x_high: np.ndarray,
    *,
    strengths: Sequence[float] = (1.0,),
    theta_range: tuple[np.ndarray, np.ndarray] | None = None,
    x_names: Sequence[str] | None = None,
) -> ist.Estimator:
    """An estimator around f, for θ in the support of the prior unless a range is given."""
    x_dim, theta_dim = len(x_low), prior.dim
    low, high = prior.support if theta_range is None else theta_range
    nothing = np.zeros((1, len(strengths)))
    return ist.Estimator(
        model=PotentialModel(IdentityMap(), IdentityMap(), Exact(jnp.array(strengths), f, x_dim)),
        architecture=ist.Potential(x_features=ist.Raw(), theta_features=ist.Raw()),
        shapes=Shapes(IdentityMap(), x_dim, np.zeros(theta_dim), np.ones(theta_dim)),
        method=ist.KCE(),
        prior=prior,
        region=Region(np.asarray(low), np.asarray(high), x_low, x_high),
        x_names=tuple(x_names or (f"x{i}" for i in range(x_dim))),
        theta_names=tuple(prior.names),
        history=ist.History(
            nothing, nothing, np.ones(1), np.ones(len(strengths), int), "never trained"
        ),
    )


def exact_dirichlet(*, low=0.1, high=5.4, stretch=1.0, tilt: Any = 0.0, members=1) -> ist.Estimator:
    """The paper's toy, three parameters: stretch · ln p + tilt · θ."""
    prior = ist.Uniform([low] * 3, [high] * 3, names=["a", "b", "c"])
    f = _wrong(dirichlet, stretch, tilt)
    return exact_estimator(f, prior, np.zeros(3), np.ones(3), strengths=[1.0] * members)


def exact_normal(*, dim=1, width=3.0, stretch=1.0, tilt: Any = 0.0, members=1) -> ist.Estimator:
    """x ~ Normal(θ, 1) with θ uniform on ±width: stretch · ln p + tilt · θ."""
    prior = ist.Uniform([-width] * dim, [width] * dim)
    x_high = np.full(dim, width + 4.0)
    f = _wrong(gaussian, stretch, tilt)
    return exact_estimator(f, prior, -x_high, x_high, strengths=[1.0] * members)


def _wrong(f: LogP, stretch: float, tilt: Any) -> LogP:
    return _same_wrong(f, stretch, tuple(tilt) if np.ndim(tilt) else tilt)


@functools.cache
def _same_wrong(f: LogP, stretch: float, tilt: Any) -> LogP:
    """The same function for the same numbers, so that what was compiled for it is used again."""
    return lambda x, theta: stretch * f(x, theta) + jnp.sum(jnp.asarray(tilt) * theta)


def as_direct(kind, estimator: ist.Estimator) -> Any:
    """The same model as a `ScoreEstimator` or `RatioEstimator`, which offers less."""
    return kind(**{field.name: getattr(estimator, field.name) for field in fields(estimator)})
