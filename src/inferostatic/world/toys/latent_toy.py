r"""The interface of a toy that also returns what happened inside it.

Simulators make an event in steps, and the steps are known while it is made: with the latent
variables z of all of them, the joint density \(p(x, z;\theta)\) is a product of simple factors
even where \(p(x;\theta)\), its integral over z, is hopeless. In these toys that integral is known
too, so that what is learned from the joint density can be compared with the right answer.
"""

import abc

import numpy as np
from jaxtyping import Array, Float, Float64
from numpy.typing import ArrayLike

from .toy import AbstractToy, Theta, X, refuse_infinite_events

#: Latent variables, one row per event.
Z = Float64[np.ndarray, "n z_dim"]
#: One event in JAX.
OneX = Float[Array, " x_dim"]
#: Its latent variables.
OneZ = Float[Array, " z_dim"]
#: One number in JAX.
Number = Float[Array, ""]


class AbstractLatentToy(AbstractToy):
    r"""A toy that hands over its latent variables z and knows $\ln p(x, z;\theta)$.

    Any object with `simulate_latent` and `joint_log_prob` is a latent-aware simulator; a concrete
    toy supplies `joint_log_prob`, the names of z and, instead of `_draw`, the formula
    `_draw_latent`. For $(x, z) \sim p(\cdot;\theta)$ the joint score $t = \nabla_\theta \ln
    p(x, z;\theta)$ and the joint ratio are unbiased for what one wants to know,

    $$E[t \mid x, \theta] = s(x;\theta), \qquad
    E\left[\frac{p(x, z;\theta_0)}{p(x, z;\theta)} \,\Big|\, x, \theta\right] =
    \frac{p(x;\theta_0)}{p(x;\theta)}.$$
    """

    @property
    @abc.abstractmethod
    def z_names(self) -> tuple[str, ...]:
        """Names of the k latent variables, in the order of the columns of z."""

    @abc.abstractmethod
    def joint_log_prob(self, x: OneX, z: OneZ, theta: Float[Array, " theta_dim"]) -> Number:
        r"""$\ln p(x, z;\theta)$ of one event in JAX, up to terms without θ."""

    @abc.abstractmethod
    def _draw_latent(self, theta: Theta, rng: np.random.Generator) -> tuple[X, Z]:
        """One event and its latent variables for each row of theta."""

    def simulate_latent(self, theta: ArrayLike, rng: np.random.Generator) -> tuple[X, Z]:
        r"""Draw one event with its latent variables, $(x, z) \sim p(x, z;\theta)$, for each row.

        Args:
            theta: Parameters, shape (n, d), strictly inside the domain.
            rng: The source of randomness; in the same state, `toy(theta, rng)` gives the same x.

        Example:
            >>> from inferostatic.world.toys import GaltonBoard
            >>> x, z = GaltonBoard(rows=4).simulate_latent([[0.5], [0.5]], np.random.default_rng(1))
            >>> x
            array([[2.],
                   [2.]])
            >>> z
            array([[1., 0., 0., 1.],
                   [1., 1., 0., 0.]])
        """
        table = self._check_parameters(theta, rng)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            x, z = self._draw_latent(table, rng)
        refuse_infinite_events(np.concatenate([x, z], axis=1), table)
        return x, z

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        return self._draw_latent(theta, rng)[0]
