r"""The skewness of means, and what it does to their tails.

A mean of n skewed values is not quite normal: its skewness falls as \(1/\sqrt n\), and moves a
one-sided limit in first order. A gamma distribution of the same skewness γ has tails that the
formula of Wilson and Hilferty (1931) brings to those of a normal one,
\[z\mapsto\frac6\gamma\left[\left(1+\frac{\gamma z}2\right)^{1/3}-1\right]+\frac\gamma6
= z-\frac\gamma6(z^2-1)+O(\gamma^2).\]
"""

import dataclasses

import numpy as np

from ...estimator.response_model import PolynomialCoordinates
from ...polynomials import evaluate_legendre, list_degrees

#: Smaller ones move a limit by less than a millionth of its error.
SMALLEST = 1e-6


@dataclasses.dataclass(frozen=True)
class ThirdMoment:
    """E[t t t] of values t about their mean, a linear function of θ.

    Attributes:
        coordinates: in which it is linear; beyond −1 to 1 it stays as it is there.
        coefficients: shape (terms, p, p, p).
    """

    coordinates: PolynomialCoordinates
    coefficients: np.ndarray

    def __call__(self, theta: np.ndarray, direction: np.ndarray) -> float:
        """E[(w·t)³] at θ, in one direction w, shape (p,)."""
        terms = _terms(self.coordinates, theta[None])[0]
        return float(
            np.einsum("k,kabc,a,b,c->", terms, self.coefficients, direction, direction, direction)
        )


def learn_third_moment(
    theta: np.ndarray, left: np.ndarray, coordinates: PolynomialCoordinates, weight: np.ndarray
) -> ThirdMoment:
    """From values minus their mean, shape (n, p)."""
    design = _terms(coordinates, theta)
    weighted = design * weight[:, None]
    cubes = np.einsum("nk,na,nb,nc->kabc", weighted, left, left, left, optimize=True)
    inverse = np.linalg.pinv(weighted.T @ design, hermitian=True)
    return ThirdMoment(coordinates, np.tensordot(inverse, cubes, 1))


def _terms(coordinates: PolynomialCoordinates, theta: np.ndarray) -> np.ndarray:
    return evaluate_legendre(np.clip(coordinates(theta), -1, 1), list_degrees(coordinates.dim, 1))


def to_normal(z: float, skewness: float) -> float:
    """The normal deviate with the same lower tail as a deviate of a skewed mean."""
    if abs(skewness) < SMALLEST:
        return z
    base = np.cbrt(max(1 + skewness * z / 2, 0.0))
    return float(6 / skewness * (base - 1) + skewness / 6)


def from_normal(z: float, skewness: float) -> float:
    """The deviate of a skewed mean with the same lower tail as a normal deviate."""
    if abs(skewness) < SMALLEST:
        return z
    base = max(1 + skewness / 6 * (z - skewness / 6), 0.0)
    return float(2 / skewness * (base**3 - 1))
