r"""Nuisance parameters of weighted events: a factor for each event, and what it does to the rate.

With weights known at \(\nu = 0\) and at \(\nu = \pm 1\), the weight of an event is multiplied by
\(\exp\sum_j(a_j\nu_j + b_j\nu_j^2)\), which is exact at the three points. The total rate is then a
sum of exponentials over all events, far too long for the compiled loop; its logarithm is smooth,
and a Chebyshev polynomial of ν, fitted once to the sums themselves, stands for it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from ...inputs import Input, as_floats, bad_rows, kind_of, require_finite, rounded, warn_user
from ...polynomials import list_powers
from ...serial import known
from ...streams import Purpose, Stream

#: Terms of the polynomial at most; with many nuisance parameters they bound its degree.
MOST_TERMS = 500
#: Degree at which the fit of the polynomial ends; one parameter rarely needs more than 10.
HIGHEST_DEGREE = 16
#: Error of ln rate, absolute, below which no higher degree is tried.
GOOD_ERROR = 1e-6
#: Error of ln rate, absolute, above which there is a warning.
WARNED_ERROR = 3e-3
#: Points at which the fitted polynomial is compared with the sums.
TEST_POINTS = 200
#: Numbers held at a time in sums over events.
CHUNK_NUMBERS = 1 << 22


class Exponents(NamedTuple):
    """Coefficients of ν and of ν² in the exponent, each of shape (events, nuisance parameters)."""

    a: ndarray
    b: ndarray

    def factor(self, nu: ndarray) -> Float[ndarray, "n m"]:
        """The factor of every event at every row of `nu`, shape (events, rows)."""
        return np.exp(self.a @ nu.T + self.b @ (nu**2).T)


def nuisance_exponents(
    nominal: Input,
    up: Sequence[Input] | ndarray,
    down: Sequence[Input | None] | ndarray | None = None,
) -> Exponents:
    r"""a and b of the factor \(\exp(a\nu + b\nu^2)\) of every event.

    Two-sided: \(a = \frac12\ln(w_+/w_-)\), \(b = \frac12\ln(w_+w_-/w_0^2)\). One-sided, where only
    \(w_+\) is known: \(a = \ln(w_+/w_0)\), b = 0.

    Args:
        nominal: weights w₀ of the events at ν = 0, shape (n,), at some θ.
        up: for each nuisance parameter the weights at ν = +1 and the same θ.
        down: for each the weights at ν = −1, or None where there are none.
    """
    central = _weights(nominal, "nominal", None)
    for name, listed in (("up", up), ("down", down)):
        missing = listed is None and name == "down"
        if not missing and not isinstance(listed, list | tuple | ndarray):
            raise TypeError(
                f"{name} must be a list with the weights of each nuisance parameter; got "
                f"{kind_of(listed)}."
            )
        if isinstance(listed, ndarray) and listed.ndim == 0:
            raise ValueError(f"{name} must be a list of arrays of weights; got shape ().")
    lows = [None] * len(up) if down is None else list(down)
    if len(lows) != len(up) or len(up) == 0:
        raise ValueError(
            f"up and down list one array of weights for each nuisance parameter; got {len(up)} "
            f"and {len(lows)}. Where an array is missing below, put None."
        )
    a, b = np.zeros((2, len(central), len(up)))
    for j, (high, low) in enumerate(zip(up, lows, strict=True)):
        plus = _log_ratio(_weights(high, f"up[{j}]", len(central)), central)
        if low is None:
            a[:, j] = plus
            continue
        minus = _log_ratio(_weights(low, f"down[{j}]", len(central)), central)
        finite = np.isfinite(plus) & np.isfinite(minus)
        a[:, j] = np.where(finite, (plus - minus) / 2, np.nan)
        b[:, j] = np.where(finite, (plus + minus) / 2, np.nan)
    good = np.asarray(np.isfinite(a).all(axis=1))
    if not good.all():
        warn_user(
            "the weights of a variation and the nominal one differ in sign, or one of them is 0, "
            f"in {bad_rows(good)}; no factor exp(a ν + b ν²) leads from one to the other, and "
            "those events are left unchanged by that nuisance parameter."
        )
    return Exponents(np.nan_to_num(a, nan=0.0), np.where(np.isnan(a), 0.0, b))


def _weights(values: Input, name: str, n: int | None) -> ndarray:
    array = as_floats(values, name).astype(np.float64)
    if array.ndim != 1 or (n is not None and len(array) != n):
        expected = "(n,)" if n is None else f"({n},)"
        raise ValueError(f"{name} must be weights of shape {expected}; got shape {array.shape}.")
    require_finite(array, name, "Repair these weights.")
    return array


def _log_ratio(varied: ndarray, nominal: ndarray) -> ndarray:
    """ln(varied / nominal); 0 where both vanish and NaN where it does not exist."""
    otherwise = np.where(varied == 0, 1.0, np.nan)
    ratio = np.divide(varied, nominal, out=otherwise, where=nominal != 0)
    return np.log(np.where(ratio > 0, ratio, np.nan))


@known
class RateResponse(eqx.Module):
    """ln of the rate at ν over the rate at 0, for every benchmark: a Chebyshev polynomial of ν.

    Attributes:
        orders: of the Chebyshev polynomial in each ν, one row for each term.
        coefficients: terms by benchmarks.
        reach: half-width of the range of ν it was fitted on; do not use it outside.
        error: largest difference from the sums over events, at points that were not fitted.
    """

    orders: ndarray
    coefficients: ndarray
    reach: float = eqx.field(static=True)
    error: float = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def log_change(self, nu: Float[Array, " k"]) -> Float[Array, " benchmarks"]:
        """ln R_b(ν) − ln R_b(0), in JAX."""
        terms = _chebyshev(nu / self.reach, jnp.asarray(self.orders), self.degree)
        origin = _chebyshev(jnp.zeros_like(nu), jnp.asarray(self.orders), self.degree)
        return (terms - origin) @ jnp.asarray(self.coefficients, terms.dtype)

    def log_changes(self, nu: ndarray) -> Float[ndarray, "m benchmarks"]:
        """The same for many ν, in float64."""
        terms = _chebyshev_rows(nu / self.reach, self.orders)
        origin = _chebyshev_rows(np.zeros((1, nu.shape[1])), self.orders)
        return (terms - origin) @ self.coefficients


def _chebyshev(t: Array, orders: Array, degree: int) -> Array:
    """Products of Chebyshev polynomials, one for each row of `orders`, by their recurrence."""
    rows = [jnp.ones_like(t), t]
    while len(rows) <= degree:
        rows.append(2 * t * rows[-1] - rows[-2])
    table = jnp.stack(rows)
    product = jnp.ones(len(orders), t.dtype)
    for j in range(t.shape[0]):
        product = product * table[orders[:, j], j]
    return product


def fit_response(weights: ndarray, exponents: Exponents, reach: float) -> RateResponse:
    """The response of the rates of this sample to ν, within ±reach."""
    dim = exponents.a.shape[1]
    rng = Stream(0, Purpose.NUISANCE_POINTS).generator()
    origin = _rates(weights, exponents, np.zeros((1, dim)))[0]
    test = reach * rng.uniform(-1, 1, (TEST_POINTS, dim))
    exact = _log_rates(weights, exponents, test, origin)
    # Exactly as many Chebyshev points as terms would do for one parameter; at random points of
    # the same density, three times as many keep the fit stable for several.
    points, values = np.zeros((0, dim)), np.zeros((0, weights.shape[1]))
    found = None
    for degree in range(2, HIGHEST_DEGREE + 1, 2):
        orders = list_powers(dim, degree)
        if degree > 2 and len(orders) > MOST_TERMS:
            break
        more = reach * np.cos(np.pi * rng.uniform(size=(3 * len(orders) + 20 - len(points), dim)))
        points = np.concatenate([points, more])
        values = np.concatenate([values, _log_rates(weights, exponents, more, origin)])
        design = _chebyshev_rows(points / reach, orders)
        coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
        error = float(np.abs(_chebyshev_rows(test / reach, orders) @ coefficients - exact).max())
        found = RateResponse(orders, coefficients, float(reach), error, degree)
        if error < GOOD_ERROR:
            break
    assert found is not None
    if found.error > WARNED_ERROR:
        warn_user(
            f"the total rate varies so strongly within |ν| ≤ {reach:g} that the polynomial that "
            f"stands for its logarithm is off by up to {found.error:.2g} there. Use a smaller "
            "reach, fewer nuisance parameters at a time, or look for single events whose weight "
            "changes much more than the others'."
        )
    return found


def _rates(weights: ndarray, exponents: Exponents, nu: ndarray) -> Float[ndarray, "m benchmarks"]:
    """Sums over events at each row of `nu`, in pieces."""
    total = np.zeros((len(nu), weights.shape[1]))
    size = max(1, CHUNK_NUMBERS // max(1, len(nu)))
    for start in range(0, len(weights), size):
        rows = slice(start, start + size)
        part = Exponents(exponents.a[rows], exponents.b[rows])
        total += part.factor(nu).T @ weights[rows]
    return total


def _log_rates(weights: ndarray, exponents: Exponents, nu: ndarray, origin: ndarray) -> ndarray:
    ratio = _rates(weights, exponents, nu) / origin
    good = (ratio > 0).all(axis=1)
    if not good.all():
        raise ValueError(
            "the total rate of the sample is not positive at every nuisance parameter within the "
            f"reach, such as ν = {rounded(nu[~good][0].round(3))}. Use a smaller reach, or find "
            "the negative weights that grow there."
        )
    return np.log(ratio)


def _chebyshev_rows(t: ndarray, orders: ndarray) -> Float[ndarray, "m terms"]:
    """The same as `_chebyshev` for many points, in float64."""
    table = np.polynomial.chebyshev.chebvander(t, int(orders.max()))
    factors = [table[:, j, orders[:, j]] for j in range(t.shape[1])]
    return np.prod(factors, axis=0)
