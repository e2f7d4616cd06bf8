"""A mass spectrum as in a search for a resonance: a peak on a falling background."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import erf, erfinv, expit, exprel

from ...inputs import as_number
from .toy import (
    FRACTION,
    POSITIVE,
    AbstractToy,
    Domain,
    PerEvent,
    Theta,
    X,
    refuse_rows,
    require_positive,
)


@final
@dataclass(frozen=True)
class FallingSpectrumWithPeak(AbstractToy):
    r"""An invariant mass in a window, $\theta = (f, M, \lambda)$: signal fraction, mass, slope.

    Signal and background are each normalised on the window $[\ell, h]$ of length $L = h - \ell$:

    $$p = f\,S + (1-f)\,B, \qquad
    S = \frac{\varphi((x-M)/w)}{w\,Z}, \quad Z = \Phi(b) - \Phi(a), \qquad
    B = \frac{\lambda\,e^{-\lambda(x-\ell)}}{1 - e^{-\lambda L}},$$

    where $a = (\ell-M)/w$, $b = (h-M)/w$, and $\varphi$, $\Phi$ are the standard normal density
    and distribution function. With the probability $\gamma = fS/p$ that the event is signal,

    $$s_f = \frac{\gamma}{f} - \frac{1-\gamma}{1-f}, \quad
    s_M = \frac{\gamma}{w}\left(\frac{x-M}{w} - \frac{\varphi(a)-\varphi(b)}{Z}\right), \quad
    s_\lambda = (1-\gamma)\left(\frac1\lambda - \frac{L}{e^{\lambda L}-1} - (x-\ell)\right).$$

    The terms without x come from the truncation; they are the means of the truncated shapes.
    The domain is $0 < f < 1$, $\ell < M < h$, $\lambda > 0$.

    Attributes:
        low: Lower edge of the mass window, in GeV.
        high: Upper edge of the mass window, in GeV.
        width: The fixed mass resolution $w$ of the peak, in GeV.

    Example:
        >>> toy = FallingSpectrumWithPeak()
        >>> theta = [0.2, 125.0, 0.03]
        >>> x = toy(np.tile(theta, (3, 1)), np.random.default_rng(1))
        >>> x.round(2)
        array([[166.16],
               [111.11],
               [124.61]])
        >>> toy.log_prob([[125.0], [175.0]], theta).round(4)
        array([-2.9496, -5.8846])
    """

    low: float = 100.0
    high: float = 180.0
    width: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a window or a width that leaves no density."""
        if not as_number(self.low, "low") < as_number(self.high, "high"):
            raise ValueError(
                f"The window must be finite with low < high, got low={self.low!r} and "
                f"high={self.high!r}; give its two edges in increasing order."
            )
        require_positive(self.width, "width", "give the standard deviation of the peak in GeV")

    def _domain(self) -> Domain:
        inside = (self.low, self.high)
        return {"signal_fraction": FRACTION, "peak_mass_GeV": inside, "slope_per_GeV": POSITIVE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`mass_GeV`."""
        return ("mass_GeV",)

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        fraction, mass, slope = theta.T
        is_signal = rng.random(len(theta)) < fraction
        uniform = rng.random(len(theta))
        # Each shape by inverting its distribution function.
        below, above = self._edges(mass)
        signal = mass + np.sqrt(2) * self.width * erfinv(below + uniform * (above - below))
        background = self.low - np.log1p(uniform * np.expm1(-slope * self._length())) / slope
        # Only rounding can lead outside the window.
        return np.clip(np.where(is_signal, signal, background), self.low, self.high)[:, None]

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        fraction = theta[:, 0]
        log_signal, log_background = self._log_shapes(x, theta)
        return np.logaddexp(np.log(fraction) + log_signal, np.log1p(-fraction) + log_background)

    def _score(self, x: X, theta: Theta) -> Theta:
        fraction, mass, slope = theta.T
        log_signal, log_background = self._log_shapes(x, theta)
        log_odds = np.log(fraction) - np.log1p(-fraction) + log_signal - log_background
        # 1 - gamma is sigmoid(-log_odds), which does not cancel where gamma is nearly one.
        signal, background = expit(log_odds), expit(-log_odds)
        a, b = (self.low - mass) / self.width, (self.high - mass) / self.width
        below, above = self._edges(mass)
        mean_of_signal = (_normal_density(a) - _normal_density(b)) * 2 / (above - below)
        mean_of_background = self._length() * _mean_of_unit_window(slope * self._length())
        along_fraction = signal / fraction - background / (1 - fraction)
        along_mass = signal * ((x[:, 0] - mass) / self.width - mean_of_signal) / self.width
        along_slope = background * (mean_of_background - (x[:, 0] - self.low))
        return np.stack([along_fraction, along_mass, along_slope], axis=1)

    def _check_support(self, x: X) -> None:
        # Events stored in float32 may sit on an edge that was itself rounded outwards.
        low = min(self.low, float(np.float32(self.low)))
        high = max(self.high, float(np.float32(self.high)))
        refuse_rows(
            np.any((x < low) | (x > high), axis=1),
            x,
            expected=f"x inside the mass window, {self.low:g} <= x <= {self.high:g}",
            remedy="Select events inside the window, or build the toy with a wider one",
        )

    def _log_shapes(self, x: X, theta: Theta) -> tuple[PerEvent, PerEvent]:
        mass, slope = theta[:, 1], theta[:, 2]
        below, above = self._edges(mass)
        z = (x[:, 0] - mass) / self.width
        log_signal = (
            -(z**2) / 2 - np.log(self.width) - np.log(2 * np.pi) / 2 - np.log((above - below) / 2)
        )
        # exprel(-y) = (1 - exp(-y)) / y is one at y = 0, where the background becomes uniform.
        log_integral = np.log(self._length() * exprel(-slope * self._length()))
        return log_signal, -slope * (x[:, 0] - self.low) - log_integral

    def _edges(self, mass: PerEvent) -> tuple[PerEvent, PerEvent]:
        # erf = 2 Phi - 1 is negative at the lower and positive at the upper edge, because the peak
        # lies between them, so the difference 2 Z never cancels.
        scale = np.sqrt(2) * self.width
        return erf((self.low - mass) / scale), erf((self.high - mass) / scale)

    def _length(self) -> float:
        return self.high - self.low


def _normal_density(z: PerEvent) -> PerEvent:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _mean_of_unit_window(y: PerEvent) -> PerEvent:
    """The mean 1/y - 1/(exp(y) - 1) of an exponential of slope y truncated to [0, 1]."""
    small = y < 0.2
    safe = np.where(small, 1.0, y)
    direct = 1 / safe - np.exp(-safe) / -np.expm1(-safe)
    # The two terms cancel at small y. The generating function of the Bernoulli numbers gives the
    # series; at y = 0.2 the first omitted term is below 1e-16.
    square = y**2
    odd = 1 / 12 - square * (
        1 / 720 - square * (1 / 30240 - square * (1 / 1209600 - square / 47900160))
    )
    return np.where(small, 0.5 - y * odd, direct)
