"""A rate that is quadratic in two couplings, as of an amplitude squared, seen by a detector.

Since rates are polynomials in the couplings, the rates at six benchmark points give that at any
point; this is morphing. Interference has either sign, so the rate is no mixture of densities.
"""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int64
from numpy.typing import ArrayLike

from .latent_toy import AbstractLatentToy, Number, OneX, OneZ, Z
from .toy import FREE, Domain, PerEvent, Theta, X, as_float64, refuse_infinite, require_positive

#: Centres of the normal densities whose roots are the three amplitudes.
_CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [-0.5, 1.2]])
#: Their variances.
_VARIANCES = np.array([1.0, 0.49, 0.64])
#: Variance of the background: larger than theirs, so that it dominates far out and rates stay
#: positive.
_WIDE = 4.0
#: Exponents of the couplings in each monomial of the rate.
_POWERS = np.array([[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]])


@final
@dataclass(frozen=True)
class TwoCouplings(AbstractLatentToy):
    r"""Interfering amplitudes over a background, $\theta = (\theta_1, \theta_2)$, two couplings.

    A point z of a two-dimensional phase space is produced at the differential rate

    $$\frac{d\sigma}{dz} = b(z) + \bigl(a_0(z) + \theta_1 a_1(z) + \theta_2 a_2(z)\bigr)^2, \qquad
    a_i = \sqrt{N(z; c_i, v_i)}, \quad b = \beta N(z; 0, v_b),$$

    and observed with an error, $x \sim N(z, \tau^2)$. With $\vartheta = (1, \theta_1, \theta_2)$
    and $a_i a_j = G_{ij} N(z; c_{ij}, v_{ij})$, again a normal density, where

    $$v_{ij} = \frac{2 v_i v_j}{v_i + v_j}, \quad
    c_{ij} = \frac{v_j c_i + v_i c_j}{v_i + v_j}, \quad
    G_{ij} = \frac{v_{ij}}{\sqrt{v_i v_j}}\, e^{-|c_i - c_j|^2/4(v_i + v_j)},$$

    everything is known: the total rate $\sigma(\theta) = \beta + \vartheta^\top G\,\vartheta$, the
    density $p(z;\theta) = (d\sigma/dz)/\sigma(\theta)$, and, with $M_{ij} = G_{ij}\,
    N(x; c_{ij}, v_{ij} + \tau^2)$,

    $$p = \frac{\beta N(x; 0, v_b + \tau^2) + \vartheta^\top M\,\vartheta}{\sigma(\theta)}, \qquad
    s_i = \frac{2(M\vartheta)_i}{p\,\sigma(\theta)} - \frac{2(G\vartheta)_i}{\sigma(\theta)}.$$

    Couplings between -1 and 1 show interference of both signs; any others are allowed.

    Attributes:
        smearing: The resolution $\tau$.
        background: The rate $\beta$ of the background.

    Example:
        >>> toy = TwoCouplings()
        >>> theta = [0.8, -0.5]
        >>> x, z = toy.simulate_latent([theta], np.random.default_rng(1))
        >>> x.round(4), z.round(4)
        (array([[ 0.6287, -0.3899]]), array([[ 0.4464, -0.537 ]]))
        >>> toy.score(x, theta).round(4)
        array([[0.1421, 0.011 ]])
        >>> toy.rate([theta, [0.0, 0.0]]).round(4)
        array([2.4286, 1.5   ])
    """

    smearing: float = 0.5
    background: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what leaves no density."""
        for name in ("smearing", "background"):
            require_positive(getattr(self, name), name, "a small one will do")

    def _domain(self) -> Domain:
        return {"coupling_1": FREE, "coupling_2": FREE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and `x_2`."""
        return ("x_1", "x_2")

    @property
    def z_names(self) -> tuple[str, ...]:
        """`z_1` and `z_2`."""
        return ("z_1", "z_2")

    @property
    def powers(self) -> Int64[np.ndarray, "components theta_dim"]:
        r"""Exponents of the monomials $\prod_i \theta_i^{n_{ci}}$ of the rate, shape (6, 2)."""
        return _POWERS.copy()

    def components(self, z: ArrayLike) -> Float64[np.ndarray, "n components"]:
        r"""The functions $f_c$ in $d\sigma/dz = \sum_c f_c(z) \prod_i \theta_i^{n_{ci}}$.

        Their values, shape (n, 6), are in the order of `powers`. Those of odd powers come from
        interference and multiply couplings of either sign.

        Args:
            z: Points of the phase space, shape (n, 2).

        Example:
            >>> toy = TwoCouplings()
            >>> toy.components([[0.5, 0.5]]).round(4)
            array([[0.1426, 0.2121, 0.1962, 0.0907, 0.1678, 0.0776]])
        """
        points = _as_points(z)
        wide = np.exp(-(points**2).sum(axis=1) / (2 * _WIDE)) / (2 * np.pi * _WIDE)
        first, second, third = self._amplitudes(points).T
        constant, linear = 1 + first**2, (2 * first * second, 2 * first * third)
        values = (constant, *linear, second**2, 2 * second * third, third**2)
        return self.background * wide[:, None] * np.stack(values, axis=1)

    def rate(self, theta: ArrayLike) -> Float64[np.ndarray, "*n"]:
        r"""The total rate $\sigma(\theta) = \int dz\, d\sigma/dz$.

        Args:
            theta: Couplings, shape (n, 2), or one point of shape (2,), whose rate has shape ().

        Example:
            >>> float(TwoCouplings().rate([0.0, 0.0]))
            1.5
        """
        return np.asarray(self.background + _square(_overlaps(), self._parameters(theta)))

    def weights(
        self, z: ArrayLike, benchmarks: ArrayLike, theta: ArrayLike | None = None
    ) -> Float64[np.ndarray, "n benchmarks"]:
        r"""Weights of events at benchmark points, shape (n, B): differential rates over a density.

        $$w_{ib} = \frac{1}{q(z_i)}\,\frac{d\sigma}{dz}(z_i;\theta_b)$$

        Here $q$ is the density from which the events were drawn, so that the weights of a column
        have the mean $\sigma(\theta_b)$. What is common to all columns cancels in ratios and
        scores: for these the weights serve events from any $q$, even one of other units.

        Args:
            z: Latent variables of events, shape (n, 2).
            benchmarks: Couplings, shape (B, 2).
            theta: The couplings at which the events were drawn, shape (n, 2), or (2,) for all of
                them: $q(z) = p(z;\theta)$. Left out, $q$ is the density of the background.

        Example:
            >>> toy, theta = TwoCouplings(), np.tile([0.2, 0.1], (10_000, 1))
            >>> x, z = toy.simulate_latent(theta, np.random.default_rng(1))
            >>> toy.weights(z, [[0.2, 0.1], [0.8, -0.5]], theta).mean(axis=0).round(2)
            array([1.97, 2.41])
            >>> toy.rate([[0.2, 0.1], [0.8, -0.5]]).round(2)
            array([1.97, 2.43])
        """
        points = _as_points(z)
        table = self._parameters(benchmarks)
        if table.ndim != 2:
            raise ValueError(
                f"benchmarks must have shape (B, 2), one row per benchmark point; got shape "
                f"{table.shape}. Write benchmarks[None, :] for a single point."
            )
        amplitudes = self._amplitudes(points)
        # Rates relative to the background's: far out, both vanish but not their ratio.
        weights = self.background * (1 + (amplitudes @ _with_one(table).T) ** 2)
        if theta is None:
            return weights
        drawn = self._parameters(theta)
        if drawn.ndim == 2 and len(drawn) != len(points):
            raise ValueError(
                f"z and theta must have equally many rows; got {len(points)} rows of z and "
                f"{len(drawn)} of theta. Give one theta per event, or a single theta of shape (2,)."
            )
        relative = self.background * (1 + (amplitudes * _with_one(drawn)).sum(axis=1) ** 2)
        weights = weights * (self.rate(drawn) / relative)[:, None]
        refuse_infinite(weights, "weights at theta")
        return weights

    def joint_log_prob(self, x: OneX, z: OneZ, theta: Float[Array, " 2"]) -> Number:
        r"""$\ln (d\sigma/dz) - \ln b(z) - \ln\sigma(\theta)$ of one event.

        Left out are the background $b(z)$ and the transfer $p(x|z)$, which are without θ.

        Args:
            x: One event, shape (2,).
            z: Its latent variables, shape (2,).
            theta: Couplings, shape (2,).

        Example:
            >>> toy, point = TwoCouplings(), jnp.array([0.5, 0.5])
            >>> round(float(toy.joint_log_prob(point, point, jnp.zeros(2))), 4)
            1.6269
        """
        del x
        peak, centre, steep = (part.astype(z.dtype) for part in self._relative_amplitudes())
        amplitudes = peak * jnp.exp(-steep * ((z[None, :] - centre) ** 2).sum(axis=1))
        couplings = jnp.concatenate([jnp.ones(1, theta.dtype), theta])
        overlaps = _overlaps().astype(theta.dtype)
        # Sums, not matrix products, which accelerators round to fewer digits.
        rate = self.background + (overlaps * couplings[:, None] * couplings[None, :]).sum()
        return jnp.log1p((amplitudes * couplings).sum() ** 2) - jnp.log(rate)

    def latent_log_prob(self, z: OneZ, theta: Float[Array, " 2"]) -> Number:
        r"""$\ln p(z;\theta)$ of one event in JAX, normalised in z.

        Args:
            z: Latent variables, shape (2,).
            theta: Couplings, shape (2,).

        Example:
            >>> round(float(TwoCouplings().latent_log_prob(jnp.zeros(2), jnp.zeros(2))), 4)
            -2.1256
        """
        background = np.log(self.background / (2 * np.pi * _WIDE)).item()
        return self.joint_log_prob(z, z, theta) + background - (z**2).sum() / (2 * _WIDE)

    def transfer_log_prob(self, x: OneX, z: OneZ) -> Number:
        r"""$\ln p(x|z)$ of one event in JAX, normalised in x; it does not depend on θ.

        Args:
            x: One event, shape (2,).
            z: Its latent variables, shape (2,).

        Example:
            >>> round(float(TwoCouplings().transfer_log_prob(jnp.zeros(2), jnp.zeros(2))), 4)
            -0.4516
        """
        normaliser = np.log(2 * np.pi * self.smearing**2).item()
        return -(((x - z) / self.smearing) ** 2).sum() / 2 - normaliser

    def _draw_latent(self, theta: Theta, rng: np.random.Generator) -> tuple[X, Z]:
        # The square of a sum is at most sum_j |c_j| times sum_i |c_i| a_i^2 (Cauchy-Schwarz), hence
        # the rate at most a mixture of normal densities: draw from that, and accept in proportion.
        couplings = _with_one(theta)
        size = np.abs(couplings)
        bound = size * size.sum(axis=1, keepdims=True)
        shares = np.cumsum(
            np.concatenate([np.full((len(theta), 1), self.background), bound], axis=1), axis=1
        )
        centres = np.concatenate([np.zeros((1, 2)), _CENTRES])
        widths = np.sqrt(np.concatenate([[_WIDE], _VARIANCES]))
        z = np.full((len(theta), 2), np.nan)
        # Couplings whose squares overflow would never be accepted; they stay NaN.
        waiting = np.flatnonzero(shares[:, -1] < 1e300)
        while waiting.size:
            u = rng.random((waiting.size, 1)) * shares[waiting, -1:]
            part = (u >= shares[waiting, :-1]).sum(axis=1)
            tried = centres[part] + widths[part, None] * rng.standard_normal((waiting.size, 2))
            amplitudes = self._amplitudes(tried)
            rate = 1 + (amplitudes * couplings[waiting]).sum(axis=1) ** 2
            most = 1 + (amplitudes**2 * bound[waiting]).sum(axis=1)
            accepted = rng.random(waiting.size) * most < rate
            z[waiting[accepted]] = tried[accepted]
            waiting = waiting[~accepted]
        return z + self.smearing * rng.standard_normal(z.shape), z

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        wide = _WIDE + self.smearing**2
        relative = self.background + _square(self._smeared_overlaps(x), theta)
        log_wide = -(x**2).sum(axis=1) / (2 * wide) - np.log(2 * np.pi * wide)
        return log_wide + np.log(relative) - np.log(self.rate(theta))

    def _score(self, x: X, theta: Theta) -> Theta:
        couplings = _with_one(theta)[:, :, None]
        smeared = self._smeared_overlaps(x)
        relative = self.background + _square(smeared, theta)
        shape = (smeared @ couplings)[:, 1:, 0] / relative[:, None]
        total = (_overlaps() @ couplings)[:, 1:, 0] / self.rate(theta)[:, None]
        return 2 * (shape - total)

    def _check_support(self, x: X) -> None:
        """Every finite x is in the support."""

    def _amplitudes(self, z: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n 3"]:
        """The amplitudes relative to the root of the background."""
        peak, centre, steep = self._relative_amplitudes()
        return peak * np.exp(-steep * ((z[:, None, :] - centre) ** 2).sum(axis=2))

    def _relative_amplitudes(
        self,
    ) -> tuple[Float64[np.ndarray, "3"], Float64[np.ndarray, "3 2"], Float64[np.ndarray, "3"]]:
        """Height, centre and steepness of them, as functions of z."""
        height, centre, steep = _relative_normal(_CENTRES, _VARIANCES, _WIDE)
        return np.sqrt(height / self.background), centre, steep / 2

    def _smeared_overlaps(self, x: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n 3 3"]:
        """M, relative to the smeared background of unit rate."""
        variance, other, smear = _VARIANCES[:, None], _VARIANCES[None, :], self.smearing**2
        total = variance + other
        centre = other[..., None] * _CENTRES[:, None] + variance[..., None] * _CENTRES
        wider = 2 * variance * other / total + smear
        height, centre, steep = _relative_normal(centre / total[..., None], wider, _WIDE + smear)
        distance = ((x[:, None, None, :] - centre) ** 2).sum(axis=3)
        return _overlaps() * height * np.exp(-steep * distance)

    def _parameters(self, theta: ArrayLike) -> Float64[np.ndarray, "*n 2"]:
        table = as_float64(theta, "theta")
        if table.ndim not in (1, 2) or table.shape[-1] != 2:
            raise ValueError(
                "theta must have shape (n, 2), or (2,) for a single point, with columns "
                f"{', '.join(self.theta_names)}; got shape {table.shape}."
            )
        self._check_domain(np.atleast_2d(table))
        return table


def _overlaps() -> Float64[np.ndarray, "3 3"]:
    """G, the integrals of the products of two amplitudes."""
    total = _VARIANCES[:, None] + _VARIANCES
    distance = ((_CENTRES[:, None] - _CENTRES) ** 2).sum(axis=2)
    return 2 * np.sqrt(np.outer(_VARIANCES, _VARIANCES)) / total * np.exp(-distance / (4 * total))


def _relative_normal(
    centre: Float64[np.ndarray, "*parts 2"], variance: Float64[np.ndarray, "*parts"], wide: float
) -> tuple[
    Float64[np.ndarray, "*parts"], Float64[np.ndarray, "*parts 2"], Float64[np.ndarray, "*parts"]
]:
    """N(z; c, v) / N(z; 0, wide) = height exp(-steep |z - centre|^2), which is finite for all z."""
    excess = wide - variance
    height = wide / variance * np.exp((centre**2).sum(axis=-1) / (2 * excess))
    return height, centre * (wide / excess)[..., None], excess / (2 * variance * wide)


def _with_one(theta: Float64[np.ndarray, "*n 2"]) -> Float64[np.ndarray, "*n 3"]:
    return np.concatenate([np.ones((*theta.shape[:-1], 1)), theta], axis=-1)


def _square(
    matrix: Float64[np.ndarray, "*matrices 3 3"], theta: Float64[np.ndarray, "*n 2"]
) -> Float64[np.ndarray, "*n"]:
    couplings = _with_one(theta)
    return np.asarray((couplings[..., None] * matrix * couplings[..., None, :]).sum(axis=(-2, -1)))


def _as_points(z: ArrayLike) -> Float64[np.ndarray, "n 2"]:
    points = as_float64(z, "z")
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(
            f"z must have shape (n, 2) with columns z_1, z_2; got shape {points.shape}. "
            "Write z[None, :] for a single event."
        )
    refuse_infinite(points, "z")
    return points
