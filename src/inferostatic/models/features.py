"""Preprocessing that lives inside the model, so that results are in the user's units.

A feature *choice* (`Raw`, `Standardised`, `Quantile`) learns a fixed map from the training events;
the map is part of the model, is saved with it, and is never trained.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..inputs import FLOAT32_TINY
from ..serial import known

#: A standard deviation below this many times the mean is rounding: the column is constant.
SMALLEST_SPREAD = 4 * float(np.finfo(np.float32).eps)
#: Knots lie on this grid, so that no slope between two of them exceeds float32.
KNOT_GRID = 16 * FLOAT32_TINY
#: Normal scores between the outermost knot and the furthest event, at most.
TAIL = 3.0


def as_jax(value: Any) -> Array:  # noqa: ANN401
    """A float32 array of JAX, also where a file gave NumPy."""
    return jnp.asarray(value, jnp.float32)


class AbstractFeatureMap(eqx.Module):
    """A fixed map of one vector."""

    @abc.abstractmethod
    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The features."""


@known
class Identity(AbstractFeatureMap):
    """The values as they are."""

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The value itself."""
        return value


@known
class Affine(AbstractFeatureMap):
    """(value − centre)/scale."""

    centre: Float[Array, " dim"] = eqx.field(converter=as_jax)
    scale: Float[Array, " dim"] = eqx.field(converter=as_jax)

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Standardised values."""
        return (value - self.centre) / self.scale


@known
class QuantileMap(AbstractFeatureMap):
    """A monotone piecewise-linear map of each component to normal scores.

    Written as a sum of clipped segments rather than a search, so that it is cheap in compiled
    loops and can be exported. The outermost segments go on for ever: values beyond the training
    range keep their order instead of collapsing.
    """

    start: Float[Array, " dim"] = eqx.field(converter=as_jax)
    lower: Float[Array, "dim segments"] = eqx.field(converter=as_jax)
    upper: Float[Array, "dim segments"] = eqx.field(converter=as_jax)
    origin: Float[Array, "dim segments"] = eqx.field(converter=as_jax)
    slope: Float[Array, "dim segments"] = eqx.field(converter=as_jax)

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Normal scores."""
        inside = jnp.clip(value[:, None], self.lower, self.upper) - self.origin
        return self.start + jnp.sum(self.slope * inside, axis=1)


class AbstractFeatures(eqx.Module):
    """A choice of features, before any data have been seen."""

    @abc.abstractmethod
    def learn(self, rows: np.ndarray) -> AbstractFeatureMap:
        """The map for data like these, shape (n, dim)."""


@known
class Raw(AbstractFeatures):
    """No preprocessing."""

    def learn(self, rows: np.ndarray) -> Identity:
        """The identity."""
        del rows
        return Identity()


@known
class Standardised(AbstractFeatures):
    """Mean 0 and standard deviation 1 on the training events."""

    def learn(self, rows: np.ndarray) -> Affine:
        """Mean and standard deviation; a constant column is only centred."""
        rows = np.asarray(rows, np.float64)
        return affine(rows.mean(axis=0), rows.std(axis=0))


@known
class Quantile(AbstractFeatures):
    """Each observable through its empirical distribution to a normal score.

    Heavy tails and boundaries (ln x → −∞) become visible to a network.

    Args:
        segments: pieces of the piecewise-linear map.
    """

    segments: int = eqx.field(static=True, default=32)

    def __check_init__(self) -> None:
        """At least two pieces."""
        if self.segments < 2:
            raise ValueError(f"Quantile needs at least 2 segments; got {self.segments}.")

    def learn(self, rows: np.ndarray) -> QuantileMap:
        """Knots at equally spaced normal scores of the empirical distribution."""
        columns = [_segments(column, self.segments) for column in np.asarray(rows, np.float64).T]
        return QuantileMap(
            start=jnp.asarray([c.start for c in columns], jnp.float32),
            lower=jnp.asarray(np.stack([c.lower for c in columns]), jnp.float32),
            upper=jnp.asarray(np.stack([c.upper for c in columns]), jnp.float32),
            origin=jnp.asarray(np.stack([c.origin for c in columns]), jnp.float32),
            slope=jnp.asarray(np.stack([c.slope for c in columns]), jnp.float32),
        )


@dataclasses.dataclass(frozen=True)
class _Segments:
    start: float
    lower: np.ndarray
    upper: np.ndarray
    origin: np.ndarray
    slope: np.ndarray


def _segments(column: np.ndarray, count: int) -> _Segments:
    """Knots of one column; tied knots share the mean of their scores, so discrete values fit."""
    from scipy.special import ndtr, ndtri

    # The outermost knots are the quantiles that 8 events lie beyond, far enough in to be stable.
    edge = float(ndtri(1 - min(0.25, 8 / len(column)))) if len(column) > 1 else 1.0
    scores = np.linspace(-edge, edge, count + 1)
    knots = np.quantile(column, ndtr(scores))
    knots = (np.round(knots / KNOT_GRID) * KNOT_GRID).astype(np.float32)
    values, index = np.unique(knots.astype(np.float64), return_inverse=True)
    merged = np.bincount(index.ravel(), weights=scores) / np.bincount(index.ravel())
    slope = np.diff(merged) / np.diff(values)
    # Both tails go on in a straight line, less steeply where some event would land too far out.
    first, last = (slope[0], slope[-1]) if len(slope) else (1.0, 1.0)
    below, above = values[0] - column.min(), column.max() - values[-1]
    first = min(first, TAIL / below) if below > 0 else first
    last = min(last, TAIL / above) if above > 0 else last
    pad = np.full(count + 1 - len(values), values[-1])
    return _Segments(
        start=float(merged[0]),
        lower=np.concatenate([[-np.inf], values, pad]),
        upper=np.concatenate([values, [np.inf], pad]),
        origin=np.concatenate([values[:1], values, pad]),
        slope=np.concatenate([[first], slope, [last], np.zeros(len(pad))]),
    )


def affine(centre: np.ndarray, scale: np.ndarray) -> Affine:
    """An affine map; a vanishing scale becomes 1."""
    safe = safe_scale(centre, scale)
    return Affine(jnp.asarray(centre, jnp.float32), jnp.asarray(safe, jnp.float32))


def safe_scale(centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The scale, or 1 where it is nothing but rounding around the centre."""
    return np.where(np.asarray(scale) > SMALLEST_SPREAD * np.abs(centre), scale, 1.0)
