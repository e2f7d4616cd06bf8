"""A function of θ alone: a sum of products of Legendre polynomials on a box.

It is what centring subtracts from a potential (`learning/centring.py`): smooth, with an exact
gradient, and finest near the walls of the box, where it is needed most.
"""

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..serial import known
from .features.feature_map import as_jax

#: Beyond the box, by this part of its half-width, B goes on as a constant: a polynomial would
#: run away.
MARGIN = 1e-3


@known
class ThetaPotential(eqx.Module):
    """B(θ) = Σ_k c_k Π_j P_{n_kj}(u_j), with u = θ brought to [−1, 1].

    Attributes:
        low, high: the box, shape (d,).
        degrees: n_kj, one tuple for each term.
        coefficients: c_k, shape (terms,).
    """

    low: Float[Array, " theta_dim"] = eqx.field(converter=as_jax)
    high: Float[Array, " theta_dim"] = eqx.field(converter=as_jax)
    degrees: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    coefficients: Float[Array, " terms"] = eqx.field(converter=as_jax)

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """B(θ)."""
        u = 2 * (theta - self.low) / (self.high - self.low) - 1
        u = jnp.clip(u, -1 - MARGIN, 1 + MARGIN)
        values = [jnp.ones_like(u), u]
        degrees = np.array(self.degrees)
        for n in range(1, int(degrees.max())):
            values.append(((2 * n + 1) * u * values[n] - n * values[n - 1]) / (n + 1))
        table = jnp.stack(values)
        factors = table[degrees, np.arange(len(u))]
        # One by one, because the derivative of jnp.prod cannot be exported for any number of rows.
        products = functools.reduce(jnp.multiply, [factors[:, j] for j in range(len(u))])
        return self.coefficients @ products
