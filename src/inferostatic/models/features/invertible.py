"""Features that can be undone: their Jacobian, and their inverse.

A density of features becomes one of x by ln|du/dx|, and draws of features become events by the
inverse. Both are simple because each feature is made of one observable alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .coordinates import NaturalMap
from .feature_map import AbstractFeatureMap, Affine, Chained, IdentityMap
from .features import AbstractFeatures, Automatic, Natural, Quantile, QuantileMap, Raw, Standardised


def invertible(features: object) -> AbstractFeatures:
    """A choice of features that can be undone; natural ones where the choice was left open.

    Losses of densities are in the units of the features, so that features cannot be chosen by
    them.
    """
    if isinstance(features, Automatic):
        return Natural()
    if isinstance(features, Raw | Standardised | Natural | Quantile):
        return features
    raise TypeError(
        "the density of a flow is in the units of x, so each of its features must be made of one "
        "observable and be invertible: ist.Natural(), ist.Standardised(), ist.Quantile() or "
        f"ist.Raw(); got {features!r}."
    )


def log_jacobian(features: AbstractFeatureMap, x: Float[Array, " dim"]) -> Float[Array, ""]:
    """ln|du/dx| of one event; −∞ where the features no longer distinguish x."""
    if isinstance(features, IdentityMap):
        return jnp.zeros((), x.dtype)
    # No feature depends on two observables, so one direction gives the whole diagonal.
    slopes = jax.jvp(features, (x,), (jnp.ones_like(x),))[1]
    return jnp.sum(jnp.log(jnp.abs(slopes)))


def undone(features: AbstractFeatureMap, u: np.ndarray) -> np.ndarray:
    """The events, shape (n, dim), that have these features, in float64."""
    u = np.asarray(u, np.float64)
    if isinstance(features, IdentityMap):
        return u
    if isinstance(features, Affine):
        return np.asarray(features.centre, np.float64) + u * np.asarray(features.scale, np.float64)
    if isinstance(features, Chained):
        return undone(features.first, undone(features.second, u))
    if isinstance(features, NaturalMap):
        return _invert_natural(features, u)
    if isinstance(features, QuantileMap):
        return np.stack([_invert_scores(features, j, u[:, j]) for j in range(u.shape[1])], axis=1)
    raise TypeError(f"no inverse is known of the features {type(features).__name__}.")


def _invert_natural(features: NaturalMap, u: np.ndarray) -> np.ndarray:
    part = {
        name: np.asarray(getattr(features, name), np.float64)
        for name in ("sign", "offset", "middle", "spread", "centre", "scale")
    }
    curved, upper, lower = (
        np.asarray(getattr(features, name)) != 0 for name in ("curved", "upper", "lower")
    )
    c = part["centre"] + u * part["scale"]
    # Each formula is used in its own columns only; elsewhere it may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp(part["sign"] * c)
        decades = part["sign"] * np.maximum(power - part["offset"], 0.0)
        # Two forms of one number, each without cancellation on its side.
        near_one = 1 - (1 + part["offset"]) / (1 + power)
        near_zero = (power - part["offset"]) / (1 + power)
        odds = np.maximum(np.where(power > 1, near_one, near_zero), 0.0)
        tails = part["middle"] + part["spread"] * np.sinh(c)
    x = np.where(curved, tails, c)
    x = np.where(lower & ~upper, decades, x)
    return np.where(upper, odds, x)


def _invert_scores(features: QuantileMap, j: int, u: np.ndarray) -> np.ndarray:
    lower, upper, slope = (
        np.asarray(getattr(features, name)[j], np.float64) for name in ("lower", "upper", "slope")
    )
    last = int(np.flatnonzero(np.isposinf(upper))[0])
    knots = upper[:last]
    steps = slope[1:last] * (knots[1:] - lower[1:last])
    scores = float(features.start[j]) + np.concatenate([[0.0], np.cumsum(steps)])
    x = np.interp(u, scores, knots)
    below, above = u < scores[0], u > scores[-1]
    x[below] = knots[0] + (u[below] - scores[0]) / slope[0]
    x[above] = knots[-1] + (u[above] - scores[-1]) / slope[last]
    return x
