"""The prior of a finite set of parameter points."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ...inputs import Input, as_floats, as_names, bad_rows, require_finite
from ...serial import known
from ...summary import count
from .prior import AbstractPrior, Number, Theta, format_edges


@known
class Discrete(AbstractPrior):
    """A finite set of parameter points with probabilities: benchmark samples, or stored θ.

    Also the exact distribution of θ of events whose prior is unknown: drawing candidates from the
    stored θ themselves, in proportion to their weight, is always reversible.
    """

    points: np.ndarray
    probability: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    edges: np.ndarray

    def __init__(
        self, points: Input, probability: Input | None = None, names: Sequence[str] | None = None
    ) -> None:
        """Points of shape (m, d); probabilities need not be normalised; default equal."""
        rows = as_floats(points, "points")
        if rows.ndim != 2 or rows.size == 0:
            raise ValueError(
                "points must have two axes, (points, parameters), and at least one point; got "
                f"shape {rows.shape}. For points of one parameter use points[:, None]."
            )
        require_finite(rows, "points", "Give finite parameters.")
        self.points = rows.astype(np.float32)
        count = len(self.points)
        given = np.ones(count) if probability is None else as_floats(probability, "probability")
        if given.shape != (count,):
            raise ValueError(f"{count} points need {count} probabilities; got shape {given.shape}.")
        good = np.isfinite(given) & (given > 0)
        if not good.all():
            raise ValueError(
                "every point needs a positive, finite probability; got "
                f"{given[~good][:3].tolist()} in {bad_rows(good)}. Drop such points, or check "
                "event weights of both signs that cancel."
            )
        self.probability = (given / given.sum()).astype(np.float32)
        self.names = as_names(names, self.points.shape[1], "theta")
        # Cumulative probabilities in 32-bit integers: float32 has too few digits for a million
        # stored θ.
        cumulative = np.cumsum(self.probability.astype(np.float64))
        edges = np.round(cumulative[:-1] / cumulative[-1] * 2**32)
        self.edges = np.minimum(edges, 2**32 - 1).astype(np.uint32)

    def stored_fields(self) -> dict[str, Any]:
        """What the constructor takes."""
        return {"points": self.points, "probability": self.probability, "names": self.names}

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One of the points."""
        u = jax.random.bits(key, (), jnp.uint32)
        return jnp.asarray(self.points)[jnp.searchsorted(jnp.asarray(self.edges), u, side="right")]

    def log_density(self, theta: Theta) -> Number:
        """Ln of the probability of the point θ, −inf elsewhere."""
        here = jnp.all(jnp.isclose(self.points, theta[None], rtol=1e-6, atol=0), axis=1)
        return jnp.log(jnp.sum(jnp.where(here, self.probability, 0.0)))

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """An independent draw, reversible for any set of points."""
        del theta, fraction
        return self.draw(key=key)

    def describe_parameters(self) -> list[str]:
        """Ranges and number of the points."""
        points = count(len(self.points), "point")
        return [f"{edges} at {points}" for edges in format_edges(*self.support)]

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The range of the points."""
        points = np.asarray(self.points, np.float64)
        return points.min(axis=0), points.max(axis=0)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted mean and standard deviation."""
        points, weight = np.asarray(self.points, np.float64), np.asarray(self.probability)[:, None]
        centre = np.sum(weight * points, axis=0)
        scale = np.sqrt(np.sum(weight * np.square(points - centre), axis=0))
        return centre, np.where(scale > 0, scale, 1.0)
