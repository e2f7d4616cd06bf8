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

from ..inputs import (
    Input,
    as_count,
    as_floats,
    as_names,
    as_rows,
    as_seed,
    bad_rows,
    require_finite,
)
from ..serial import Absent, known

#: Distance kept from 0 and 1 when mapping through a distribution function: float32's own.
UNIT_MARGIN = 2.0**-24
#: A truncated normal must lie no further out, and be no narrower, in standard deviations.
FURTHEST_CUT, NARROWEST_CUT = 5.0, 1e-3
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
        [[0.703, 1.47], [0.404, 2.098]]
        """
        keys = jax.random.split(jax.random.key(as_seed(seed)), as_count(n, "n"))
        return np.asarray(_draw_many(self, keys), dtype=np.float64)

    def log_prob(self, theta: Input) -> np.ndarray:
        """ln π(θ) of one θ with shape (d,), or of many with shape (n, d)."""
        theta = as_floats(theta, "theta")
        of = f"parameters ({', '.join(self.names)})"
        rows = as_rows(theta[None] if theta.ndim == 1 else theta, "theta", columns=self.dim, of=of)
        is_number = np.asarray(np.all(~np.isnan(rows), axis=1))
        if not is_number.all():
            raise ValueError(f"theta has NaN in {bad_rows(is_number)}; give numbers.")
        with np.errstate(over="ignore"):
            points = jnp.asarray(rows.astype(np.float32))
        values = np.asarray(_log_density_many(self, points), np.float64)
        return values.reshape(theta.shape[:-1])

    def contains(self, theta: np.ndarray) -> np.ndarray:
        """Which rows lie within the edges of the support (closed, to float32 rounding)."""
        low, high = self.support
        slack_low, slack_high = (1e-6 * np.maximum(np.abs(edge), 1e-30) for edge in (low, high))
        # NaN compares false with everything, and so lies outside.
        inside = (theta >= low - slack_low) & (theta <= high + slack_high)
        return np.asarray(np.all(inside, axis=1))


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
    with np.errstate(over="ignore"):
        array = np.atleast_1d(as_floats(value, name)).astype(np.float32)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"{name} must be a number or a list of d numbers, one for each parameter; got shape "
            f"{array.shape}."
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
        with np.errstate(over="ignore", invalid="ignore"):
            widths = self.high - self.low
        if not np.isfinite(widths).all():
            raise ValueError(
                "a uniform prior needs finite edges within float32's range; got "
                f"low={self.low}, high={self.high}. Use Normal for an open range."
            )
        _check_order(self.low, self.high)
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
        _check_mean_and_std(self.mean, self.std)
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
        _check_mean_and_std(self.mean, self.std)
        _check_order(self.low, self.high)
        cut_low, cut_high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        if (np.maximum(cut_low, -cut_high) > FURTHEST_CUT).any():
            raise ValueError(
                f"the kept range lies more than {FURTHEST_CUT:g} standard deviations from the "
                "mean, where the distribution function cannot be resolved; use Uniform over the "
                "range instead."
            )
        if (cut_high - cut_low < NARROWEST_CUT).any():
            raise ValueError(
                f"the kept range is narrower than {NARROWEST_CUT:g} standard deviations, where "
                "float32 cannot resolve the distribution function; use Uniform instead."
            )
        self.names = as_names(names, len(self.mean), "theta")

    def _cuts(self) -> tuple[Array, Array, Array]:
        """A sign and the standardised cuts of sign·t, mirrored if both lie above the mean.

        float32 resolves a distribution function finely in its lower tail only.
        """
        low = jnp.asarray((self.low - self.mean) / self.std)
        high = jnp.asarray((self.high - self.mean) / self.std)
        above = low > 0
        sign = jnp.where(above, -1.0, 1.0).astype(low.dtype)
        return sign, jnp.where(above, -high, low), jnp.where(above, -low, high)

    def _from_unit(self, unit: Float[Array, " theta_dim"]) -> Float[Array, " theta_dim"]:
        """The inverse of the distribution function of sign·θ."""
        sign, low, high = self._cuts()
        unit = jnp.clip(unit, UNIT_MARGIN, 1 - UNIT_MARGIN)
        probability = ndtr(low) + unit * (ndtr(high) - ndtr(low))
        t = sign * ndtri(jnp.minimum(probability, 1 - UNIT_MARGIN))
        return jnp.clip(self.mean + self.std * t, self.low, self.high)

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One θ."""
        return self._from_unit(jax.random.uniform(key, self.mean.shape))

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ln π(θ)."""
        # ln(Φ(b) − Φ(a)) by log_ndtr, on the side where both terms are small.
        _, a, b = self._cuts()
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
        sign, low, high = self._cuts()
        start, mass = ndtr(low), ndtr(high) - ndtr(low)
        unit = (ndtr(sign * (theta - self.mean) / self.std) - start) / mass
        t = jax.random.uniform(key, theta.shape, minval=-1.0, maxval=1.0)
        return self._from_unit(
            reflect(unit + t * fraction, jnp.zeros_like(unit), jnp.ones_like(unit))
        )

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The kept range."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation after the cut."""
        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        low, high = ((edge - mean) / std for edge in self.support)
        # By quadrature: the closed form cancels for narrow and far ranges. Nine standard
        # deviations beyond the nearer of mean and cut, nothing is left of the density.
        low, high = (
            np.maximum(low, np.minimum(high, 0) - 9),
            np.minimum(high, np.maximum(low, 0) + 9),
        )
        nodes, weights = np.polynomial.legendre.leggauss(128)
        t = (low + high) / 2 + (high - low) / 2 * nodes[:, None]
        nearest = np.clip(0, low, high)
        density = weights[:, None] * np.exp((np.square(nearest) - np.square(t)) / 2)
        density /= density.sum(axis=0)
        centre = np.sum(density * t, axis=0)
        scale = np.sqrt(np.sum(density * np.square(t - centre), axis=0))
        return mean + std * centre, std * scale


@known
class Product(AbstractPrior):
    """Independent priors side by side: `Product([Uniform(0, 1), Normal(0, 2)])`."""

    parts: tuple[AbstractPrior, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, parts: Sequence[AbstractPrior], names: Sequence[str] | None = None) -> None:
        """The parts in the order of their parameters; names default to the parts' own."""
        if (
            not isinstance(parts, Sequence)
            or not parts
            or not all(isinstance(part, AbstractPrior) for part in parts)
        ):
            raise TypeError(
                "Product expects a non-empty list of priors, such as "
                f"[ist.Uniform(0, 1), ist.Normal(0, 1)]; got {parts!r}."
            )
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
    edges: np.ndarray

    def __init__(
        self, points: Input, probability: Input | None = None, names: Sequence[str] | None = None
    ) -> None:
        """Points of shape (m, d); probabilities need not be normalised; equal when omitted."""
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

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        """One of the points."""
        u = jax.random.bits(key, (), jnp.uint32)
        return jnp.asarray(self.points)[jnp.searchsorted(jnp.asarray(self.edges), u, side="right")]

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """Ln of the probability of the point θ, −inf elsewhere."""
        here = jnp.all(jnp.isclose(self.points, theta[None], rtol=1e-6, atol=0), axis=1)
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
    centre: np.ndarray
    scale: np.ndarray

    def __init__(
        self,
        draw_one: Callable[..., Any],
        log_density_of: Callable[..., Any],
        low: Input | None = None,
        high: Input | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Both functions are tried here, so that a failure is told early."""
        self.draw_one, self.log_density_of = draw_one, log_density_of
        dim = _traced_dim(draw_one, log_density_of, names)
        self.low, self.high, _ = _same_length(
            low=_vector(-np.inf if low is None else low, "low"),
            high=_vector(np.inf if high is None else high, "high"),
            draw_one=np.zeros(dim),
        )
        if len(self.low) != dim:
            raise ValueError(
                f"draw_one returns {dim} parameter, but low or high has {len(self.low)} values."
            )
        _check_order(self.low, self.high)
        self.names = as_names(names, dim, "theta")
        self.centre, self.scale = np.zeros(dim, np.float32), np.ones(dim, np.float32)
        if not isinstance(draw_one, Absent):
            draws = _tried_draws(self)
            self.centre, self.scale = draws.mean(axis=0), draws.std(axis=0)

    def stored_fields(self) -> dict[str, Any]:
        """What a file keeps: centre and scale follow from the draws."""
        fields = ("draw_one", "log_density_of", "low", "high", "names")
        return {field: getattr(self, field) for field in fields}

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
        """Mean and standard deviation of a fixed set of draws; 1 for a constant component."""
        centre, scale = np.asarray(self.centre, np.float64), np.asarray(self.scale, np.float64)
        return centre, np.where(scale > 0, scale, 1.0)


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
    if len(theta.shape) != 1 or theta.shape[0] == 0:
        raise ValueError(f"draw_one must return one θ of shape (d,); got shape {theta.shape}.")
    if value.shape != ():
        raise ValueError(f"log_density_of must return a scalar; got shape {value.shape}.")
    return theta.shape[0]


def _tried_draws(prior: CustomPrior) -> np.ndarray:
    """A fixed set of draws, refused if they contradict the density or the edges."""
    keys = jax.random.split(jax.random.key(0), SCALE_DRAWS)
    draws = np.asarray(jax.jit(jax.vmap(prior.draw_one))(keys), np.float32)
    require_finite(draws, "θ from draw_one", "Mend draw_one.")
    inside = prior.contains(draws)
    if not inside.all():
        raise ValueError(
            f"draw_one left the support, low={prior.low.tolist()} to high={prior.high.tolist()}: "
            f"it drew θ = {draws[~inside][0].tolist()}. Make the edges and the draws agree."
        )
    if not isinstance(prior.log_density_of, Absent):
        values = jax.jit(jax.vmap(prior.log_density_of))(jnp.asarray(draws))
        good = np.isfinite(np.asarray(values))
        if not good.all():
            raise ValueError(
                "log_density_of is NaN or infinite where draw_one draws, for example at "
                f"θ = {draws[~good][0].tolist()}. Make the density and the draws agree."
            )
    return draws


def _check_mean_and_std(mean: np.ndarray, std: np.ndarray) -> None:
    if not np.isfinite(mean).all():
        raise ValueError(f"means must be finite numbers; got {mean}.")
    if not (np.isfinite(std).all() and (std > 0).all()):
        raise ValueError(f"standard deviations must be positive and finite; got {std}.")


def _check_order(low: np.ndarray, high: np.ndarray) -> None:
    if not (low < high).all():
        raise ValueError(
            f"low must lie below high, also in float32; got low={low}, high={high}. Swap them, or "
            "widen the range."
        )


def _normal_log_density(theta: Array, mean: Array, std: Array) -> Array:
    t = (theta - mean) / std
    return -jnp.sum(t**2) / 2 - jnp.sum(jnp.log(std)) - len(t) * LOG_ROOT_TWO_PI
