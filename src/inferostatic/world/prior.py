"""Laws of the parameters θ: the prior of a study, and the law that stored θ follow.

Two faces: `sample` and `log_prob` are for people (NumPy, batched, seeded); `draw`,
`log_density` and `step` act on one θ inside compiled loops. `step` is the important one: a random
move that is *reversible* with respect to the law, π(a) q(b|a) = π(b) q(a|b), which is what makes
partners and candidates drawn around stored events exchangeable with them (docs/equations.md).
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jaxtyping import Array, Float, PRNGKeyArray

from ..inputs import Input, as_count, as_floats, as_names, as_rows, as_seed
from ..serial import Absent, known

#: Distance kept from 0 and 1 when mapping through a distribution function in float32.
UNIT_MARGIN = 1e-6
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
#: Draws used to learn centre and scale of a user-supplied prior.
SCALE_DRAWS = 4096


class AbstractPrior(eqx.Module):
    """A law of θ that can be drawn from and whose density is known."""

    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""

    @abc.abstractmethod
    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ), −inf outside the support."""

    @abc.abstractmethod
    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """A π-reversible move whose size is `fraction`, in (0, 1], of the law's own width."""

    @property
    @abc.abstractmethod
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edges of the support, ±inf where there is none."""

    @property
    @abc.abstractmethod
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each component, by which models standardise θ."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    def sample(self, n: int, *, seed: int) -> np.ndarray:
        """`n` parameter points, shape (n, d).

        >>> Uniform([0.0, 1.0], [1.0, 3.0]).sample(2, seed=1).round(3).tolist()
        [[0.475, 1.266], [0.329, 2.838]]
        """
        keys = jax.random.split(jax.random.key(as_seed(seed)), as_count(n, "n"))
        return np.asarray(_draw_many(self, keys), dtype=np.float64)

    def log_prob(self, theta: Input) -> np.ndarray:
        """ln π(θ) of one θ with shape (d,), or of many with shape (n, d)."""
        theta = as_floats(theta, "theta")
        rows = as_rows(theta[None] if theta.ndim == 1 else theta, "theta", columns=self.dim)
        values = np.asarray(_log_density_many(self, jnp.asarray(rows, jnp.float32)), np.float64)
        return values[0] if theta.ndim == 1 else values

    def contains(self, theta: np.ndarray) -> np.ndarray:
        """Which rows lie within the edges of the support (closed, to float32 rounding)."""
        low, high = self.support
        slack = 1e-6 * np.maximum(np.abs(np.stack([low, high])), 1e-30)
        with np.errstate(invalid="ignore"):
            below = theta < low - np.where(np.isfinite(low), slack[0], 0)
            above = theta > high + np.where(np.isfinite(high), slack[1], 0)
        return np.logical_not(np.any(below | above, axis=1))


@eqx.filter_jit
def _draw_many(prior: AbstractPrior, keys: Array) -> Array:
    return jax.vmap(lambda key: prior.draw(key=key))(keys)


@eqx.filter_jit
def _log_density_many(prior: AbstractPrior, theta: Array) -> Array:
    return jax.vmap(prior.log_density)(theta)


def reflect(value: Array, low: Array, high: Array) -> Array:
    """Fold `value` back into [low, high] at the walls, as often as needed.

    For any symmetric step this leaves the uniform law reversible; clipping or redrawing does not.
    """
    length = high - low
    folded = jnp.mod(value - low, 2 * length)
    return low + jnp.where(folded > length, 2 * length - folded, folded)


def _vector(value: Input, name: str) -> np.ndarray:
    array = np.atleast_1d(as_floats(value, name)).astype(np.float32)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be a number or a list of d numbers; got shape {array.shape}."
        )
    return array


def _same_length(**arrays: np.ndarray) -> list[np.ndarray]:
    sizes = {len(array) for array in arrays.values()} - {1}
    if len(sizes) > 1:
        lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise ValueError(f"one value for each parameter was expected; {lengths}.")
    size = sizes.pop() if sizes else 1
    return [np.broadcast_to(array, (size,)).copy() for array in arrays.values()]


@known
class Uniform(AbstractPrior):
    """Uniform on the box [low, high).

    >>> Uniform([0.5, 0.5], [5, 5], names=["a", "b"]).log_prob([1.0, 1.0]).round(4).item()
    -3.0082
    """

    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, low: Input, high: Input, names: Sequence[str] | None = None) -> None:
        """Edges as numbers or lists, one for each parameter."""
        self.low, self.high = _same_length(low=_vector(low, "low"), high=_vector(high, "high"))
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise ValueError("a uniform prior needs finite edges; use Normal for an open range.")
        if not (self.low < self.high).all():
            raise ValueError(f"low must lie below high; got low={self.low}, high={self.high}.")
        self.names = as_names(names, len(self.low), "theta")

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        return jax.random.uniform(key, self.low.shape, minval=self.low, maxval=self.high)

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ)."""
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        volume = jnp.sum(jnp.log(jnp.asarray(self.high) - self.low))
        return jnp.where(inside, -volume, -jnp.inf)

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """A rectangular step of half-width `fraction` of the box, folded back at the walls.

        At `fraction` = 1 it is exactly an independent draw.
        """
        t = jax.random.uniform(key, theta.shape, minval=-1.0, maxval=1.0)
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return reflect(theta + t * fraction * (high - low), low, high)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The box."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Middle and width/√12."""
        low, high = self.support
        return (low + high) / 2, (high - low) / np.sqrt(12)


@known
class Normal(AbstractPrior):
    """Independent normal components."""

    mean: np.ndarray
    std: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, mean: Input, std: Input, names: Sequence[str] | None = None) -> None:
        """Means and standard deviations as numbers or lists."""
        self.mean, self.std = _same_length(mean=_vector(mean, "mean"), std=_vector(std, "std"))
        _check_std(self.std)
        self.names = as_names(names, len(self.mean), "theta")

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        return jnp.asarray(self.mean) + self.std * jax.random.normal(key, self.mean.shape)

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ)."""
        return _normal_log_density(theta, jnp.asarray(self.mean), jnp.asarray(self.std))

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """The autoregressive move m + √(1−f²)(θ−m) + fσξ; at f = 1 an independent draw."""
        noise = jax.random.normal(key, theta.shape)
        kept = jnp.sqrt(jnp.maximum(1 - fraction**2, 0.0))
        mean, std = jnp.asarray(self.mean), jnp.asarray(self.std)
        return mean + kept * (theta - mean) + fraction * std * noise

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole line."""
        edge = np.full(len(self.mean), np.inf)
        return -edge, edge

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation."""
        return np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)


@known
class TruncatedNormal(AbstractPrior):
    """Independent normal components cut off at `low` and `high` (either may be infinite)."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        mean: Input,
        std: Input,
        low: Input = -np.inf,
        high: Input = np.inf,
        names: Sequence[str] | None = None,
    ) -> None:
        """Mean and standard deviation are those before the cut."""
        self.mean, self.std, self.low, self.high = _same_length(
            mean=_vector(mean, "mean"),
            std=_vector(std, "std"),
            low=_vector(low, "low"),
            high=_vector(high, "high"),
        )
        _check_std(self.std)
        if not (self.low < self.high).all():
            raise ValueError(f"low must lie below high; got low={self.low}, high={self.high}.")
        cut_low, cut_high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        if (np.maximum(cut_low, -cut_high) > 5).any():
            raise ValueError(
                "the kept range lies more than 5 standard deviations from the mean, where the "
                "distribution function cannot be resolved; use Uniform over the range instead."
            )
        self.names = as_names(names, len(self.mean), "theta")

    def _cuts(self) -> tuple[Array, Array]:
        return (
            jnp.asarray((self.low - self.mean) / self.std),
            jnp.asarray((self.high - self.mean) / self.std),
        )

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        low, high = self._cuts()
        t = jax.random.truncated_normal(key, low, high, self.mean.shape)
        return jnp.clip(self.mean + self.std * t, self.low, self.high)

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ)."""
        low, high = self._cuts()
        # ln(Φ(b) − Φ(a)) by log_ndtr, on the side where both terms are small.
        flip = low > 0
        a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
        mass = log_ndtr(b) + jnp.log1p(-jnp.exp(log_ndtr(a) - log_ndtr(b)))
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        value = _normal_log_density(theta, jnp.asarray(self.mean), jnp.asarray(self.std)) - jnp.sum(
            mass
        )
        return jnp.where(inside, value, -jnp.inf)

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """A reflected step in the unit box of the distribution function, mapped back."""
        low, high = self._cuts()
        start, mass = ndtr(low), ndtr(high) - ndtr(low)
        unit = (ndtr((theta - self.mean) / self.std) - start) / mass
        t = jax.random.uniform(key, theta.shape, minval=-1.0, maxval=1.0)
        moved = reflect(unit + t * fraction, jnp.zeros_like(unit), jnp.ones_like(unit))
        moved = jnp.clip(start + mass * moved, UNIT_MARGIN, 1 - UNIT_MARGIN)
        return jnp.clip(self.mean + self.std * ndtri(moved), self.low, self.high)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The kept range."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation after the cut."""
        from scipy.special import ndtr as cdf

        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        low, high = ((edge - mean) / std for edge in self.support)
        mass = cdf(high) - cdf(low)
        density = [np.exp(-np.square(t) / 2) / np.sqrt(2 * np.pi) for t in (low, high)]
        # t·φ(t) → 0 at an infinite edge, where the product would be inf·0.
        tilted = [
            np.where(np.isfinite(t), np.where(np.isfinite(t), t, 0) * f, 0)
            for t, f in zip((low, high), density, strict=True)
        ]
        shift = (density[0] - density[1]) / mass
        variance = 1 + (tilted[0] - tilted[1]) / mass - np.square(shift)
        return mean + std * shift, std * np.sqrt(variance)


@known
class Product(AbstractPrior):
    """Independent priors side by side: `Product([Uniform(0, 1), Normal(0, 2)])`."""

    parts: tuple[AbstractPrior, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, parts: Sequence[AbstractPrior], names: Sequence[str] | None = None) -> None:
        """The parts in the order of their parameters; names default to the parts' own."""
        if not parts or not all(isinstance(part, AbstractPrior) for part in parts):
            raise TypeError("Product expects a non-empty list of priors, such as [Uniform(0, 1)].")
        self.parts = tuple(parts)
        own = [name for part in self.parts for name in part.names]
        count = len(own)
        self.names = as_names(names or (own if len(set(own)) == count else None), count, "theta")

    def _split(self, theta: Array) -> list[Array]:
        edges = np.cumsum([part.dim for part in self.parts])[:-1]
        return jnp.split(theta, edges)

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        keys = jax.random.split(key, len(self.parts))
        return jnp.concatenate([part.draw(key=k) for part, k in zip(self.parts, keys, strict=True)])

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ), a sum over the parts."""
        pieces = zip(self.parts, self._split(theta), strict=True)
        return jnp.stack([part.log_density(piece) for part, piece in pieces]).sum()

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """Every part makes its own reversible step."""
        keys = jax.random.split(key, len(self.parts))
        pieces = zip(self.parts, self._split(theta), keys, strict=True)
        return jnp.concatenate([part.step(piece, fraction, key=k) for part, piece, k in pieces])

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The parts' supports, joined."""
        low, high = zip(*(part.support for part in self.parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """The parts' centres and scales, joined."""
        centre, scale = zip(*(part.centre_and_scale for part in self.parts), strict=True)
        return np.concatenate(centre), np.concatenate(scale)


@known
class Discrete(AbstractPrior):
    """A finite set of parameter points with probabilities: benchmark samples, or stored θ.

    Also the exact law of events whose prior is unknown: drawing candidates from the stored θ
    themselves, in proportion to their weight, is always reversible.
    """

    points: np.ndarray
    probability: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self, points: Input, probability: Input | None = None, names: Sequence[str] | None = None
    ) -> None:
        """Points of shape (m, d); probabilities need not be normalised; equal when omitted."""
        self.points = as_rows(points, "points", of="parameters").astype(np.float32)
        count = len(self.points)
        given = np.ones(count) if probability is None else as_floats(probability, "probability")
        if given.shape != (count,):
            raise ValueError(f"{count} points need {count} probabilities; got shape {given.shape}.")
        if not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError(
                "every point needs a positive total probability; got "
                f"{given[~(given > 0)][:3]} among them. Drop such points, or check event weights "
                "of both signs that cancel."
            )
        self.probability = (given / given.sum()).astype(np.float32)
        self.names = as_names(names, self.points.shape[1], "theta")

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One of the points."""
        edges = jnp.cumsum(jnp.asarray(self.probability))
        u = jax.random.uniform(key) * edges[-1]
        return jnp.asarray(self.points)[jnp.searchsorted(edges, u, side="right")]

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """Ln of the probability of the point θ, −inf elsewhere."""
        here = jnp.all(jnp.isclose(self.points, theta, rtol=1e-6, atol=0), axis=1)
        return jnp.log(jnp.sum(jnp.where(here, self.probability, 0.0)))

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """An independent draw, reversible for any set of points."""
        del theta, fraction
        return self.draw(key=key)

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


@known
class CustomPrior(AbstractPrior):
    """A prior given by two JAX functions of the user.

    Args:
        draw_one: `key -> θ` of shape (d,).
        log_density_of: `θ -> ln π(θ)`, a scalar, up to a constant.
        low, high: edges of the support where there are any.
        names: of the parameters.
    """

    draw_one: Callable[..., Any] = eqx.field(static=True)
    log_density_of: Callable[..., Any] = eqx.field(static=True)
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    centre: np.ndarray = eqx.field(init=False)
    scale: np.ndarray = eqx.field(init=False)

    def __init__(
        self,
        draw_one: Callable[..., Any],
        log_density_of: Callable[..., Any],
        low: Input | None = None,
        high: Input | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Both functions are traced once here, so that a failure is told early."""
        self.draw_one, self.log_density_of = draw_one, log_density_of
        dim = _traced_dim(draw_one, log_density_of, names)
        self.low = np.full(dim, -np.inf, np.float32) if low is None else _vector(low, "low")
        self.high = np.full(dim, np.inf, np.float32) if high is None else _vector(high, "high")
        self.low, self.high = _same_length(low=self.low, high=self.high)
        self.names = as_names(names, dim, "theta")
        self.centre, self.scale = np.zeros(dim, np.float32), np.ones(dim, np.float32)
        if not isinstance(draw_one, Absent):
            keys = jax.random.split(jax.random.key(0), SCALE_DRAWS)
            draws = np.asarray(jax.jit(jax.vmap(draw_one))(keys), np.float32)
            self.centre, self.scale = draws.mean(axis=0), draws.std(axis=0)

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        return jnp.asarray(self.draw_one(key), jnp.float32)

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ)."""
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        return jnp.where(inside, jnp.asarray(self.log_density_of(theta), jnp.float32), -jnp.inf)

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        """A Metropolis step: propose with the prior's scale, accept with π(b)/π(a)."""
        propose, accept = jax.random.split(key)
        noise = jax.random.normal(propose, theta.shape)
        proposal = theta + fraction * self.scale * noise
        log_odds = self.log_density(proposal) - self.log_density(theta)
        return jnp.where(jnp.log(jax.random.uniform(accept)) < log_odds, proposal, theta)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The edges given."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a fixed set of draws."""
        return np.asarray(self.centre, np.float64), np.asarray(self.scale, np.float64)


def _traced_dim(
    draw: Callable[..., Any], log_density: Callable[..., Any], names: Sequence[str] | None
) -> int:
    if isinstance(draw, Absent) or isinstance(log_density, Absent):
        return len(names or ())
    try:
        theta = jax.eval_shape(draw, jax.random.key(0))
        value = jax.eval_shape(log_density, jax.ShapeDtypeStruct(theta.shape, jnp.float32))
    except Exception as error:
        raise TypeError(
            "a user-supplied prior is used inside compiled loops, so its functions must be "
            f"JAX-traceable (jax.numpy, jax.random); tracing failed with: {error}"
        ) from error
    if len(theta.shape) != 1:
        raise ValueError(f"draw_one must return one θ of shape (d,); got shape {theta.shape}.")
    if value.shape != ():
        raise ValueError(f"log_density_of must return a scalar; got shape {value.shape}.")
    return theta.shape[0]


def _check_std(std: np.ndarray) -> None:
    if not (np.isfinite(std).all() and (std > 0).all()):
        raise ValueError(f"standard deviations must be positive; got {std}.")


def _normal_log_density(theta: Array, mean: Array, std: Array) -> Array:
    t = (theta - mean) / std
    return -jnp.sum(t**2) / 2 - jnp.sum(jnp.log(std)) - len(t) * LOG_ROOT_TWO_PI
