"""A prior that the user wrote, tried before it is used."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ...inputs import Input, as_names, kind_of, require_finite, rounded
from ...serial import Absent, known
from ...streams import Purpose, Stream
from .prior import AbstractPrior, Number, Theta, check_order, format_edges, read_vectors

#: Draws used to learn centre and scale of a user-supplied prior.
SCALE_DRAWS = 4096


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
        """Try both functions, so that a failure shows early."""
        self.draw_one, self.log_density_of = draw_one, log_density_of
        dim = _trace_dim(draw_one, log_density_of, names)
        self.low, self.high, _ = read_vectors(
            low=-np.inf if low is None else low,
            high=np.inf if high is None else high,
            draw_one=np.zeros(dim),
        )
        if len(self.low) != dim:
            raise ValueError(
                f"draw_one returns {dim} parameter, but low or high has {len(self.low)} values."
            )
        check_order(self.low, self.high)
        self.names = as_names(names, dim, "theta")
        self.centre, self.scale = np.zeros(dim, np.float32), np.ones(dim, np.float32)
        if not isinstance(draw_one, Absent):
            draws = _check_draws(self)
            self.centre, self.scale = draws.mean(axis=0), draws.std(axis=0)

    def stored_fields(self) -> dict[str, Any]:
        """What a file keeps: centre and scale follow from the draws."""
        fields = ("draw_one", "log_density_of", "low", "high", "names")
        return {field: getattr(self, field) for field in fields}

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""
        return jnp.asarray(self.draw_one(key), jnp.float32)

    def log_density(self, theta: Theta) -> Number:
        """ln π(θ)."""
        inside = jnp.all((theta >= self.low) & (theta <= self.high))
        return jnp.where(inside, jnp.asarray(self.log_density_of(theta), jnp.float32), -jnp.inf)

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """A Metropolis step: propose with the prior's scale, accept with π(b)/π(a)."""
        propose, accept = jax.random.split(key)
        noise = jax.random.normal(propose, theta.shape)
        proposal = theta + fraction * self.scale * noise
        log_odds = self.log_density(proposal) - self.log_density(theta)
        return jnp.where(jnp.log(jax.random.uniform(accept)) < log_odds, proposal, theta)

    def describe_parameters(self) -> list[str]:
        """The edges given."""
        return format_edges(*self.support)

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """The edges given."""
        return np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a fixed set of draws; 1 for a constant component."""
        centre, scale = np.asarray(self.centre, np.float64), np.asarray(self.scale, np.float64)
        return centre, np.where(scale > 0, scale, 1.0)


def _trace_dim(
    draw: Callable[..., Any], log_density: Callable[..., Any], names: Sequence[str] | None
) -> int:
    if isinstance(draw, Absent) or isinstance(log_density, Absent):
        return len(names or ())
    try:
        theta = jax.eval_shape(draw, Stream(0, Purpose.TRY_PRIOR).key())
        value = jax.eval_shape(log_density, jax.ShapeDtypeStruct(theta.shape, jnp.float32))
    except Exception as error:
        raise TypeError(
            "a user-supplied prior is used inside compiled loops, so its functions must be "
            f"JAX-traceable (jax.numpy, jax.random); tracing failed with: {error}"
        ) from error
    if not isinstance(value, jax.ShapeDtypeStruct):
        raise TypeError(f"log_density_of must return a number; got {kind_of(value)}.")
    if len(theta.shape) != 1 or theta.shape[0] == 0:
        raise ValueError(f"draw_one must return one θ of shape (d,); got shape {theta.shape}.")
    if value.shape != ():
        raise ValueError(f"log_density_of must return a scalar; got shape {value.shape}.")
    return theta.shape[0]


def _draw_trial(prior: CustomPrior) -> np.ndarray:
    """Draws with fixed keys, by a function that is traced anew."""
    keys = jax.random.split(Stream(0, Purpose.TRY_PRIOR).key(), SCALE_DRAWS)
    return np.asarray(jax.jit(jax.vmap(lambda key: prior.draw_one(key)))(keys), np.float32)


def _require_key_is_used(draws: np.ndarray, again: np.ndarray) -> None:
    """Refuse draws that do not follow from the key: traced once, they would all be equal."""
    remedy = (
        "A compiled loop calls draw_one once and repeats what np.random or the module random gave "
        "it. Use jax.random with the key, for example jax.random.uniform(key, (2,))"
    )
    if not np.array_equal(draws, again):
        raise ValueError(f"draw_one gave other θ for the same keys in a second run. {remedy}.")
    if not np.ptp(draws, axis=0).any():
        raise ValueError(
            f"every draw of draw_one is the same θ, {rounded(draws[0])}. {remedy}; for a single "
            "point use ist.Discrete([point])."
        )


def _check_draws(prior: CustomPrior) -> np.ndarray:
    """A fixed set of draws, refused if they contradict the density or the edges."""
    draws = _draw_trial(prior)
    require_finite(draws, "θ from draw_one", "Mend draw_one.")
    _require_key_is_used(draws, _draw_trial(prior))
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
