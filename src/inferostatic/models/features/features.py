"""Preprocessing that lives inside the model, so that results are in the user's units.

A feature *choice* (`Natural`, `Standardised`, `Quantile`, `Raw`) learns a fixed map from the
training events; the map is part of the model, is saved with it, and is never trained.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...inputs import FLOAT32_TINY, as_count
from ...serial import known
from .coordinates import Kind, kind_of_column, natural_map
from .feature_map import AbstractFeatureMap, Affine, Chained, IdentityMap, affine, as_jax

#: Knots lie on this grid, so that no slope between two of them exceeds float32.
KNOT_GRID = 16 * FLOAT32_TINY
#: Normal scores between the outermost knot and the furthest event, at most.
TAIL = 3.0


#: Most pieces of a piecewise-linear map: no sample fixes more of them.
MOST_SEGMENTS = 10_000


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

    def learn(self, rows: np.ndarray) -> IdentityMap:
        """The identity."""
        del rows
        return IdentityMap()


@known
class Standardised(AbstractFeatures):
    """Mean 0 and standard deviation 1 on the training events."""

    def learn(self, rows: np.ndarray) -> Affine:
        """Mean and standard deviation; a constant column is only centred."""
        rows = np.asarray(rows, np.float64)
        return affine(rows.mean(axis=0), rows.std(axis=0))


@known
class Natural(AbstractFeatures):
    """Each observable in a natural coordinate, standardised.

    A logarithm for positive observables that span decades, log-odds for fractions that come close
    to 0 and 1, an inverse hyperbolic sine for heavy tails, and otherwise the observable itself.
    """

    def learn(self, rows: np.ndarray) -> AbstractFeatureMap:
        """Coordinates by the quantiles of each column."""
        rows = np.asarray(rows, np.float64)
        kinds = [kind_of_column(column) for column in rows.T]
        if all(kind is Kind.LINEAR for kind in kinds):
            return Standardised().learn(rows)
        return natural_map(rows, kinds)


@known
class Automatic(AbstractFeatures):
    """Features that `fit` chooses by validation loss; natural ones where nothing is tried."""

    def learn(self, rows: np.ndarray) -> AbstractFeatureMap:
        """Natural coordinates."""
        return Natural().learn(rows)


@known
class Quantile(AbstractFeatures):
    """Each observable through its empirical distribution to a normal score.

    Heavy tails and boundaries (ln x → −∞) become visible to a network. Between the knots, and
    beyond them, scores are interpolated in the natural coordinate (see `Natural`).

    Args:
        segments: pieces of the piecewise-linear map.
    """

    segments: int = eqx.field(static=True, default=32)

    def __check_init__(self) -> None:
        as_count(self.segments, "segments", least=2, most=MOST_SEGMENTS)

    def learn(self, rows: np.ndarray) -> AbstractFeatureMap:
        """Knots at equally spaced normal scores of the empirical distribution."""
        coordinates = Natural().learn(rows)
        if isinstance(coordinates, Affine):
            return self.scores(np.asarray(rows, np.float64))
        inner = np.asarray(jax.jit(jax.vmap(coordinates))(jnp.asarray(rows, jnp.float32)))
        return Chained(coordinates, self.scores(inner.astype(np.float64)))

    def scores(self, rows: np.ndarray) -> QuantileMap:
        """The piecewise-linear map of these columns."""
        columns = [_segments(column, self.segments) for column in np.asarray(rows, np.float64).T]
        return QuantileMap(**{name: np.stack([c[name] for c in columns]) for name in columns[0]})


def _segments(column: np.ndarray, count: int) -> dict[str, Any]:
    """Fields of `QuantileMap` for one column.

    Knots of one column; tied knots share the mean of their scores, so discrete values fit.
    """
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
    return {
        "start": merged[0],
        "lower": np.concatenate([[-np.inf], values, pad]),
        "upper": np.concatenate([values, [np.inf], pad]),
        "origin": np.concatenate([values[:1], values, pad]),
        "slope": np.concatenate([[first], slope, [last], np.zeros(len(pad))]),
    }
