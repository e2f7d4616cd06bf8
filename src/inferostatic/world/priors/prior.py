"""Priors: distributions of the parameters θ that are drawn from, or that stored θ follow.

Two faces: `sample` and `log_prob` are for people (NumPy, batched, seeded); `draw`,
`log_density` and `step` act on one θ inside compiled loops. `step` is the important one: a random
move that is *reversible* with respect to the prior, π(a) q(b|a) = π(b) q(a|b), which is what makes
partners and candidates drawn around stored events exchangeable with them (docs/equations.md).
"""

import abc
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from ...inputs import (
    Input,
    as_count,
    as_floats,
    as_names,
    as_rows,
    as_seed,
    bad_rows,
    column_names,
    require_order,
)
from ...plain_method import plain_method
from ...serial import known
from ...streams import Purpose, Stream
from ...summary import (
    AbstractSummarised,
    Summary,
    count,
    list_names,
    list_parts,
    shorten,
    tabulate_first,
)

#: One θ, in JAX.
Theta = Float[Array, " theta_dim"]
#: One number, in JAX.
Number = Float[Array, ""]
#: ln √(2π), the normalisation of a normal density.
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class AbstractPrior(AbstractSummarised, eqx.Module):
    """A distribution of θ that can be drawn from and whose density is known."""

    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""

    @abc.abstractmethod
    def log_density(self, theta: Theta) -> Number:
        """ln π(θ), −inf outside the support."""

    @abc.abstractmethod
    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """A π-reversible move whose size is `fraction`, in (0, 1], of the prior's own width."""

    @property
    @abc.abstractmethod
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edges of the support, ±inf where there is none."""

    @property
    @abc.abstractmethod
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each component, by which models standardise θ."""

    @abc.abstractmethod
    def describe_parameters(self) -> list[str]:
        """The distribution of each parameter in words and numbers, such as "from 0 to 1"."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.names)

    def __repr__(self) -> str:
        """The distribution of each parameter; only the names where it is traced by JAX."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return f"{type(self).__name__}({list_names(self.names)})"
        each = zip(self.names, self.describe_parameters(), strict=True)
        text = list_parts(f"{shorten(name)} {described}" for name, described in each)
        return f"{type(self).__name__}({text})"

    def _summarise(self) -> Summary:
        centre, scale = self.centre_and_scale
        columns = {
            "parameter": list(self.names),
            "distribution": self.describe_parameters(),
            "mean": [f"{value:.4g}" for value in centre],
            "standard deviation": [f"{value:.4g}" for value in scale],
        }
        kind = type(self).__name__.removesuffix("Prior")
        title = f"{kind} prior of {count(self.dim, 'parameter')}"
        return Summary(title, tabulate_first(columns, left=("parameter", "distribution")))

    @plain_method
    def sample(self, n: int, *, seed: int) -> np.ndarray:
        """`n` parameter points, shape (n, d).

        Args:
            n: how many.
            seed: of the random numbers, an int; the same seed gives the same points.

        >>> Uniform([0.0, 1.0], [1.0, 3.0]).sample(2, seed=1).round(3).tolist()
        [[0.148, 2.062], [0.031, 2.587]]
        """
        return draw_points(self, as_count(n, "n"), Stream(as_seed(seed), Purpose.SAMPLE_PRIOR))

    @plain_method
    def log_prob(self, theta: Input) -> np.ndarray:
        """ln π(θ), −inf outside the support.

        Args:
            theta: one θ of shape (d,), or many of shape (n, d).
        """
        require_order(column_names(theta), self.names, "theta")
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

    @plain_method
    def contains(self, theta: np.ndarray) -> np.ndarray:
        """Which rows lie within the edges of the support (closed, to float32 rounding)."""
        low, high = self.support
        slack_low, slack_high = (1e-6 * np.maximum(np.abs(edge), 1e-30) for edge in (low, high))
        # NaN compares false with everything, and so lies outside.
        inside = (theta >= low - slack_low) & (theta <= high + slack_high)
        return np.asarray(np.all(inside, axis=1))


def draw_points(prior: AbstractPrior, n: int, stream: Stream) -> np.ndarray:
    """`n` parameter points from a random stream, shape (n, d)."""
    keys = jax.random.split(stream.key(), n)
    return np.asarray(_draw_many(prior, keys), dtype=np.float64)


@eqx.filter_jit
def _draw_many(prior: AbstractPrior, keys: Array) -> Array:
    return jax.vmap(lambda key: prior.draw(key=key))(keys)


@eqx.filter_jit
def _log_density_many(prior: AbstractPrior, theta: Array) -> Array:
    return jax.vmap(prior.log_density)(theta)


def reflect(value: Array, low: Array, high: Array) -> Array:
    """Fold `value` back into [low, high] at the walls, as often as needed.

    For any symmetric step this leaves the uniform distribution reversible; clipping or redrawing
    does not.
    """
    length = high - low
    folded = jnp.mod(value - low, 2 * length)
    return low + jnp.where(folded > length, 2 * length - folded, folded)


def _vector(value: Input, name: str) -> np.ndarray:
    """One number for each parameter, in float32."""
    with np.errstate(over="ignore"):
        array = np.atleast_1d(as_floats(value, name)).astype(np.float32)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"{name} must be a number or a list of d numbers, one for each parameter; got shape "
            f"{array.shape}."
        )
    return array


def read_vectors(**values: Input) -> list[np.ndarray]:
    """Vectors with one value for each parameter, in float32; a single value serves for all."""
    arrays = {name: _vector(value, name) for name, value in values.items()}
    sizes = {len(array) for array in arrays.values()} - {1}
    if len(sizes) > 1:
        lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise ValueError(f"one value for each parameter was expected; {lengths}.")
    size = sizes.pop() if sizes else 1
    return [np.broadcast_to(array, (size,)).copy() for array in arrays.values()]


@known
class Uniform(AbstractPrior):
    """Uniform on the box [low, high).

    >>> prior = Uniform([0.5, 0.5], [5, 5], names=["a", "b"])
    >>> prior
    Uniform(a from 0.5 to 5, b from 0.5 to 5)
    >>> prior.log_prob([1.0, 1.0]).round(4).item()
    -3.0082
    """

    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, low: Input, high: Input, names: Sequence[str] | None = None) -> None:
        """Edges as numbers or lists, one for each parameter."""
        self.low, self.high = read_vectors(low=low, high=high)
        with np.errstate(over="ignore", invalid="ignore"):
            widths = self.high - self.low
        if not np.isfinite(widths).all():
            raise ValueError(
                "a uniform prior needs finite edges within float32's range; got "
                f"low={self.low}, high={self.high}. Use Normal for an open range."
            )
        check_order(self.low, self.high)
        self.names = as_names(names, len(self.low), "theta")

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""
        return jax.random.uniform(key, self.low.shape, minval=self.low, maxval=self.high)

    def log_density(self, theta: Theta) -> Number:
        """ln π(θ)."""
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        volume = jnp.sum(jnp.log(jnp.asarray(self.high) - self.low))
        return jnp.where(inside, -volume, -jnp.inf)

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """A rectangular step of half-width `fraction` of the box, folded back at the walls.

        At `fraction` = 1 it is exactly an independent draw.
        """
        t = jax.random.uniform(key, theta.shape, minval=-1.0, maxval=1.0)
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return reflect(theta + t * fraction * (high - low), low, high)

    def describe_parameters(self) -> list[str]:
        """The edges of the box."""
        return format_edges(self.low, self.high)

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
        self.mean, self.std = read_vectors(mean=mean, std=std)
        check_mean_and_std(self.mean, self.std)
        self.names = as_names(names, len(self.mean), "theta")

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""
        return jnp.asarray(self.mean) + self.std * jax.random.normal(key, self.mean.shape)

    def log_density(self, theta: Theta) -> Number:
        """ln π(θ)."""
        return normal_log_density(theta, jnp.asarray(self.mean), jnp.asarray(self.std))

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """The autoregressive move m + √(1−f²)(θ−m) + fσξ; at f = 1 an independent draw."""
        noise = jax.random.normal(key, theta.shape)
        correlation = jnp.sqrt(jnp.maximum(1 - fraction**2, 0.0))
        mean, std = jnp.asarray(self.mean), jnp.asarray(self.std)
        return mean + correlation * (theta - mean) + fraction * std * noise

    def describe_parameters(self) -> list[str]:
        """Means and standard deviations."""
        return format_normal(self.mean, self.std)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole line."""
        edge = np.full(len(self.mean), np.inf)
        return -edge, edge

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation."""
        return np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)


def format_edges(low: np.ndarray, high: np.ndarray) -> list[str]:
    """Ranges, one for each parameter."""
    return [f"from {a:.6g} to {b:.6g}" for a, b in zip(low, high, strict=True)]


def format_normal(mean: np.ndarray, std: np.ndarray) -> list[str]:
    """Means and standard deviations, one for each parameter."""
    return [f"= {a:.6g} ± {b:.6g}" for a, b in zip(mean, std, strict=True)]


def check_mean_and_std(mean: np.ndarray, std: np.ndarray) -> None:
    """Refuse means and standard deviations that no normal distribution has."""
    if not np.isfinite(mean).all():
        raise ValueError(f"means must be finite numbers; got {mean}.")
    if not (np.isfinite(std).all() and (std > 0).all()):
        raise ValueError(f"standard deviations must be positive and finite; got {std}.")


def check_order(low: np.ndarray, high: np.ndarray) -> None:
    """Refuse edges that leave no room between them."""
    if not (low < high).all():
        raise ValueError(
            f"low must lie below high, also in float32; got low={low}, high={high}. Swap them, or "
            "widen the range."
        )


def normal_log_density(theta: Array, mean: Array, std: Array) -> Array:
    """The logarithm of the density of independent normal components."""
    t = (theta - mean) / std
    return -jnp.sum(t**2) / 2 - jnp.sum(jnp.log(std)) - len(t) * LOG_ROOT_TWO_PI
