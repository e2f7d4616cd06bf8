"""Two towers: a potential that is a dot product of what x and θ give, each by its own network.

Everything that costs time is done once for each event and once for each θ, so a grid of many
events at many θ is almost free, in evaluation and in training with many candidates.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...inputs import as_count, as_function
from ...serial import known
from ...supervision.records import Number, Theta
from ...threefry import split_key
from ..architecture import build_vector
from .networks import MOST_UNITS, NETWORK, AbstractPairNetwork, Residual


class TwoTowerNetwork(AbstractPairNetwork):
    """Two towers with their weights."""

    x_tower: Any
    theta_tower: Any

    def embed_x(self, x: Float[Array, " features"]) -> Float[Array, " size"]:
        """f(x)/√size."""
        f = self.x_tower(x)
        return f / len(f) ** 0.5

    def embed_theta(self, theta: Theta) -> Float[Array, " outputs"]:
        """g(θ), and h(θ) as the last of size + 1 values."""
        return self.theta_tower(theta)

    def join(self, x_part: Float[Array, " size"], theta_part: Float[Array, " outputs"]) -> Number:
        """Σ f g/√size + h."""
        # As fast as a matrix product on grids, and exporters read it.
        return jnp.sum(x_part * theta_part[:-1]) + theta_part[-1]


@known
class TwoTower(eqx.Module):
    r"""A choice of potential for many θ: φ(x, θ) = Σₖ fₖ(x) gₖ(θ)/√size + h(θ).

    N events at M points cost N passes through f, M through g and h, and N·M dot products. An
    exponential family has this form exactly, with one product for each sufficient statistic; other
    distributions need more products. Increase `size` where `ist.Residual()`, which mixes x and θ in
    every layer, reaches a better validation loss.

    Args:
        size: number of products.
        x_network: of f, a network of one vector such as `ist.Residual()` or `ist.MLP((64, 64))`.
        theta_network: of g and h.

    Example:
        >>> import jax, inferostatic as ist
        >>> network = ist.TwoTower(size=8)(x_size=3, theta_size=2, key=jax.random.key(0))
        >>> network.embed_x(jax.numpy.ones(3)).shape
        (8,)
    """

    size: int = eqx.field(static=True, default=32)
    x_network: Any = eqx.field(default_factory=Residual)
    theta_network: Any = eqx.field(default_factory=Residual)

    def __check_init__(self) -> None:
        """A whole number of products."""
        as_count(self.size, "size", most=MOST_UNITS)
        for name in ("x_network", "theta_network"):
            as_function(getattr(self, name), name, NETWORK)

    def __call__(self, x_size: int, theta_size: int, *, key: PRNGKeyArray) -> TwoTowerNetwork:
        """Build both towers."""
        x_key, theta_key = split_key(key, 2)
        return TwoTowerNetwork(
            build_vector(self.x_network, x_size, self.size, key=x_key),
            build_vector(self.theta_network, theta_size, self.size + 1, key=theta_key),
        )
