"""A natural coordinate for every observable: itself, a logarithm, log-odds, or an inverse sinh.

Powers and exponentials near a boundary or in a tail are straight lines in such a coordinate, which
a network follows far beyond the events it was trained on.
"""

import dataclasses
import enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...inputs import FLOAT32_TINY
from ...serial import known
from .feature_map import AbstractFeatureMap, as_jax, safe_scale

#: Ratio of the 99.9% to the 0.1% quantile from which a positive observable spans decades. A
#: uniform one reaches 999, so that alone is no reason for a logarithm.
DECADES = 2000.0
#: Distance of the 0.1% or 99.9% quantile from the median, in units of that of the quartile, from
#: which a tail is heavy (Gaussian 4.6, exponential 8.9, Student with 3 degrees of freedom 13).
HEAVY_TAIL = 12.0
#: Half the distance from 1 to the largest float32 below it: 1 itself stays apart from that.
BELOW_ONE = float(np.finfo(np.float32).eps) / 4


class Kind(enum.Enum):
    """The shape of a coordinate."""

    LINEAR = "itself"
    LOG = "logarithm"
    LOG_NEGATIVE = "logarithm of its negative"
    LOG_ODDS = "log-odds"
    ASINH = "inverse hyperbolic sine"


def kind_of_column(column: np.ndarray) -> Kind:
    """Which coordinate suits these values."""
    quantiles = np.quantile(column, [0.001, 0.25, 0.5, 0.75, 0.999])
    low, quarter, middle, three, high = (float(q) for q in quantiles)
    if column.min() >= 0 and _spans_decades(column, low, high):
        upper = _spans_decades(1 - column, 1 - high, 1 - low) and column.max() <= 1
        return Kind.LOG_ODDS if upper else Kind.LOG
    if column.max() <= 0 and _spans_decades(-column, -high, -low):
        return Kind.LOG_NEGATIVE
    above, below = three - middle, middle - quarter
    heavy = high - middle > HEAVY_TAIL * above or middle - low > HEAVY_TAIL * below
    return Kind.ASINH if heavy and min(above, below) > 0 else Kind.LINEAR


def _spans_decades(column: np.ndarray, low: float, high: float) -> bool:
    """Whether positive values span decades; zeros count as the smallest positive value."""
    if low <= 0:
        positive = column[column > 0]
        if len(positive) < len(column) / 2:
            return False
        low = float(np.quantile(positive, 0.001))
    return bool(high > DECADES * low)


@known
class NaturalMap(AbstractFeatureMap):
    """A monotone, differentiable coordinate of each component, centred and scaled.

    u = linear·x + lower·ln(max(σx, tiny) + offset) − upper·ln max(1 − x, ¼ε)
    + curved·asinh((x − middle)/spread), where the terms that a component does not need have the
    factor 0; σ = −1 for negative observables, and the offset is for those that can be zero.
    """

    sign: Float[Array, " dim"] = eqx.field(converter=as_jax)
    offset: Float[Array, " dim"] = eqx.field(converter=as_jax)
    linear: Float[Array, " dim"] = eqx.field(converter=as_jax)
    lower: Float[Array, " dim"] = eqx.field(converter=as_jax)
    upper: Float[Array, " dim"] = eqx.field(converter=as_jax)
    curved: Float[Array, " dim"] = eqx.field(converter=as_jax)
    middle: Float[Array, " dim"] = eqx.field(converter=as_jax)
    spread: Float[Array, " dim"] = eqx.field(converter=as_jax)
    centre: Float[Array, " dim"] = eqx.field(converter=as_jax)
    scale: Float[Array, " dim"] = eqx.field(converter=as_jax)

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The standardised coordinates."""
        return (self.coordinate(value, jnp) - self.centre) / self.scale

    def coordinate(self, value: Any, math: Any) -> Any:  # noqa: ANN401
        """The coordinates as they are, by the functions of JAX or NumPy."""
        # Every term is finite for every component, so those not wanted vanish by their zero.
        return (
            self.linear * value
            + self.lower * math.log(math.maximum(self.sign * value, FLOAT32_TINY) + self.offset)
            - self.upper * math.log(math.maximum(1 - value, BELOW_ONE))
            + self.curved * math.arcsinh((value - self.middle) / self.spread)
        )


def natural_map(rows: np.ndarray, kinds: list[Kind]) -> NaturalMap:
    """The map with the given kinds, centred and scaled on these rows."""
    rows = np.asarray(rows, np.float64)
    dim = rows.shape[1]
    of = {kind: np.array([k is kind for k in kinds]) for kind in Kind}
    logged = of[Kind.LOG] | of[Kind.LOG_NEGATIVE] | of[Kind.LOG_ODDS]
    sign = np.where(of[Kind.LOG_NEGATIVE], -1.0, 1.0)
    offset = np.zeros(dim)
    for j in np.flatnonzero(logged):
        values = sign[j] * rows[:, j]
        if (values < FLOAT32_TINY).any():
            offset[j] = max(values[values >= FLOAT32_TINY].min() / 2, FLOAT32_TINY)
    middle, spread = np.zeros(dim), np.ones(dim)
    curved = of[Kind.ASINH]
    if curved.any():
        quarter, half, three = np.quantile(rows[:, curved], [0.25, 0.5, 0.75], axis=0)
        middle[curved], spread[curved] = half, safe_scale(half, three - quarter)
    plain = NaturalMap(
        sign=sign,
        offset=offset,
        linear=of[Kind.LINEAR].astype(float),
        lower=logged * sign,
        upper=of[Kind.LOG_ODDS].astype(float),
        curved=curved.astype(float),
        middle=middle,
        spread=spread,
        centre=np.zeros(dim),
        scale=np.ones(dim),
    )
    # In NumPy and float64, to learn mean and spread from.
    u = jax.tree.map(lambda part: np.asarray(part, np.float64), plain).coordinate(rows, np)
    centre = u.mean(axis=0)
    return dataclasses.replace(plain, centre=centre, scale=safe_scale(centre, u.std(axis=0)))
