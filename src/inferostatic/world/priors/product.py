"""The prior of independent parameters, made of the priors of each."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ...inputs import as_names
from ...serial import known
from .prior import AbstractPrior, Number, Theta


@known
class Product(AbstractPrior):
    """Independent priors side by side: `Product([Uniform(0, 1), Normal(0, 2)])`."""

    parts: tuple[AbstractPrior, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, parts: Sequence[AbstractPrior], names: Sequence[str] | None = None) -> None:
        """The parts in the order of their parameters; names default to the parts' own."""
        listed = isinstance(parts, Sequence) and len(parts) > 0
        if not listed or not all(isinstance(part, AbstractPrior) for part in parts):
            raise TypeError(
                "Product expects a non-empty list of priors, such as "
                f"[ist.Uniform(0, 1), ist.Normal(0, 1)]; got {parts!r}."
            )
        self.parts = tuple(parts)
        own = [name for part in self.parts for name in part.names]
        count = len(own)
        own_names = own if len(set(own)) == count else None
        self.names = as_names(own_names if names is None else names, count, "theta")

    def _split(self, theta: Array) -> list[Array]:
        edges = np.cumsum([part.dim for part in self.parts])[:-1]
        return jnp.split(theta, edges)

    def draw(self, *, key: PRNGKeyArray) -> Theta:
        """One θ."""
        keys = jax.random.split(key, len(self.parts))
        return jnp.concatenate([part.draw(key=k) for part, k in zip(self.parts, keys, strict=True)])

    def log_density(self, theta: Theta) -> Number:
        """ln π(θ), a sum over the parts."""
        pieces = zip(self.parts, self._split(theta), strict=True)
        return jnp.stack([part.log_density(piece) for part, piece in pieces]).sum()

    def step(self, theta: Theta, fraction: Number, *, key: PRNGKeyArray) -> Theta:
        """Every part makes its own reversible step."""
        keys = jax.random.split(key, len(self.parts))
        pieces = zip(self.parts, self._split(theta), keys, strict=True)
        return jnp.concatenate([part.step(piece, fraction, key=k) for part, piece, k in pieces])

    def describe_parameters(self) -> list[str]:
        """The parts' own, one after another."""
        return [text for part in self.parts for text in part.describe_parameters()]

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
