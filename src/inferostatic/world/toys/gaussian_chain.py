"""A chain of Gaussian steps from a parton to a detector: all of it is Gaussian, hidden or not."""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import expit

from ...inputs import as_number
from .latent_toy import AbstractLatentToy, Number, OneX, OneZ, Z
from .toy import FREE, Domain, PerEvent, Theta, X, require_positive, require_whole_number

#: ln 2π, of normal densities.
_LOG_TWO_PI = float(np.log(2 * np.pi))


@final
@dataclass(frozen=True)
class GaussianChain(AbstractLatentToy):
    r"""Two noisy readings at the end of a chain, $\theta = (m, \ell)$: mean and log width of $z_1$.

    $$z_1 \sim N(m, e^{2\ell}), \qquad z_{i+1} = a z_i + b\,\epsilon_i, \qquad
    x_1 = z_{k-1} + c\,\epsilon, \quad x_2 = z_k + c\,\epsilon'.$$

    Only $z_1$ knows $\theta$: the joint score is $t = (\zeta e^{-\ell},\, \zeta^2 - 1)$ with
    $\zeta = (z_1 - m)e^{-\ell}$, and what the transfer $p(x|z)$ adds is free of $\theta$. Given
    $z_1$, the readings have means $g z_1$ with $g = (a^{k-2}, a^{k-1})$ and a fixed covariance $N$.
    All they say of $z_1$ is $u = g^\top N^{-1} x / h$ with $h = g^\top N^{-1} g$, hence

    $$u \sim N(m, S^2), \quad S^2 = e^{2\ell} + 1/h, \qquad
    s = \left(\frac{u - m}{S^2},\; \frac{e^{2\ell}}{S^2}
    \left[\frac{(u-m)^2}{S^2} - 1\right]\right),$$

    $$\ln p = -\tfrac12\left[\frac{(u-m)^2}{S^2} + (x - gu)^\top N^{-1} (x - gu) + \ln S^2 + \ln h
    + \ln\det N\right] - \ln 2\pi.$$

    At $\ell = 0$ the default chain leaves in x $1/(1 + 1/h)$ = 61% of what z knows of the mean.

    Attributes:
        length: The number $k$ of latent variables, at least 2.
        coupling: The factor $a$ of each step.
        step: The noise $b$ of each step.
        reading: The noise $c$ of each reading.

    Example:
        >>> toy = GaussianChain()
        >>> theta = [1.0, 0.0]
        >>> x, z = toy.simulate_latent([theta], np.random.default_rng(1))
        >>> x.round(4), z.round(4)
        (array([[0.6232, 1.7995]]), array([[1.3456, 1.4051, 1.2563]]))
        >>> toy.score(x, theta).round(4)
        array([[ 0.2458, -0.5494]])
        >>> import jax
        >>> event, latent, point = (jnp.asarray(values) for values in (x[0], z[0], theta))
        >>> np.asarray(jax.grad(toy.joint_log_prob, argnums=2)(event, latent, point)).round(4)
        array([ 0.3456, -0.8806], dtype=float32)
    """

    length: int = 3
    coupling: float = 0.8
    step: float = 0.4
    reading: float = 0.6

    def __post_init__(self) -> None:
        """Refuse what is no chain."""
        require_whole_number(self.length, "length", 2, "the last two latent variables are read out")
        try:
            size = abs(as_number(self.coupling, "coupling"))
        except (TypeError, ValueError):
            size = 0.0
        if not size > 0:
            raise ValueError(
                f"coupling must be a finite number other than zero, got {self.coupling!r}; "
                "at zero the readings would know nothing of the start of the chain."
            )
        for name in ("step", "reading"):
            require_positive(getattr(self, name), name, "give a standard deviation")

    def _domain(self) -> Domain:
        return {"mean": FREE, "log_width": FREE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and `x_2`."""
        return ("x_1", "x_2")

    @property
    def z_names(self) -> tuple[str, ...]:
        """`z_1` and so on along the chain."""
        return tuple(f"z_{i + 1}" for i in range(self.length))

    def joint_log_prob(self, x: OneX, z: OneZ, theta: Float[Array, " 2"]) -> Number:
        r"""$\ln N(z_1; m, e^{2\ell})$ of one event; all other factors are without θ.

        Args:
            x: One event, shape (2,).
            z: Its latent variables, shape (k,).
            theta: Parameters, shape (2,).
        """
        del x
        return _log_start(z, theta)

    def latent_log_prob(self, z: OneZ, theta: Float[Array, " 2"]) -> Number:
        r"""$\ln p(z;\theta)$ of one event in JAX, normalised in z.

        Args:
            z: Latent variables, shape (k,).
            theta: Parameters, shape (2,).

        Example:
            >>> round(float(GaussianChain().latent_log_prob(jnp.zeros(3), jnp.zeros(2))), 4)
            -0.9242
        """
        steps = _log_normal((z[1:] - self.coupling * z[:-1]) / self.step) - np.log(self.step).item()
        return _log_start(z, theta) + steps.sum()

    def transfer_log_prob(self, x: OneX, z: OneZ) -> Number:
        r"""$\ln p(x|z)$ of one event in JAX, normalised in x; it does not depend on θ.

        Args:
            x: One event, shape (2,).
            z: Its latent variables, shape (k,).

        Example:
            >>> round(float(GaussianChain().transfer_log_prob(jnp.ones(2), jnp.ones(3))), 4)
            -0.8162
        """
        return (_log_normal((x - z[-2:]) / self.reading) - np.log(self.reading).item()).sum()

    def _draw_latent(self, theta: Theta, rng: np.random.Generator) -> tuple[X, Z]:
        z = rng.standard_normal((len(theta), self.length))
        z[:, 0] = theta[:, 0] + np.exp(theta[:, 1]) * z[:, 0]
        for i in range(1, self.length):
            z[:, i] = self.coupling * z[:, i - 1] + self.step * z[:, i]
        return z[:, -2:] + self.reading * rng.standard_normal((len(theta), 2)), z

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        slope, covariance = self._readings_given_start()
        inverse = np.linalg.inv(covariance)
        found, information = self._start_from_readings(x)
        log_square = np.logaddexp(2 * theta[:, 1], -np.log(information))
        rest = x - found[:, None] * slope
        # Squares of u - m and of what u leaves of x: nothing cancels, however wide the start.
        squares = (found - theta[:, 0]) ** 2 * np.exp(-log_square) + (rest @ inverse * rest).sum(1)
        log_determinant = log_square + np.log(information * np.linalg.det(covariance))
        return -(squares + log_determinant) / 2 - _LOG_TWO_PI

    def _score(self, x: X, theta: Theta) -> Theta:
        found, information = self._start_from_readings(x)
        width = np.exp(np.logaddexp(2 * theta[:, 1], -np.log(information)) / 2)
        share = expit(2 * theta[:, 1] + np.log(information))
        pull = (found - theta[:, 0]) / width
        return np.stack([pull / width, share * (pull**2 - 1)], axis=1)

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""

    def _readings_given_start(
        self,
    ) -> tuple[Float64[np.ndarray, " x_dim"], Float64[np.ndarray, "x_dim x_dim"]]:
        """g and N: the readings' means per unit of the first latent variable, and covariance."""
        variance = 0.0
        for _ in range(self.length - 2):
            variance = self.coupling**2 * variance + self.step**2
        shared = self.coupling * variance
        last = self.coupling * shared + self.step**2
        covariance = np.array([[variance, shared], [shared, last]]) + self.reading**2 * np.eye(2)
        return self.coupling ** np.arange(self.length - 2.0, self.length), covariance

    def _start_from_readings(self, x: X) -> tuple[PerEvent, float]:
        """u and h: the best reading of the first latent variable, and its inverse variance."""
        slope, covariance = self._readings_given_start()
        weight = np.linalg.solve(covariance, slope)
        information = float(slope @ weight)
        return x @ weight / information, information


def _log_start(z: OneZ, theta: Float[Array, " 2"]) -> Number:
    return _log_normal((z[0] - theta[0]) * jnp.exp(-theta[1])) - theta[1]


def _log_normal(deviation: Float[Array, "..."]) -> Float[Array, "..."]:
    return -(deviation**2) / 2 - _LOG_TWO_PI / 2
