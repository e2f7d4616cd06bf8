r"""The expected number of events ν(θ), for extended likelihoods.

To \(\ln L\) it adds the Poisson term \(W\ln\nu(\theta)-\nu(\theta)\) with W the sum of weights. The
slopes of ν are JAX's where the function can be traced, and numerical otherwise.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...inputs import in_short, kind_of, rounded
from .float64 import float64

#: Step of numerical slopes as a part of the region: the best for central differences in float64.
SLOPE_STEP = 1e-5
#: Step of numerical second derivatives as a part of the region, likewise.
CURVATURE_STEP = 1e-3


class Rate(eqx.Module):
    """ν(θ) as a JAX function.

    Attributes:
        function: the user's own.
        traceable: whether JAX can differentiate it; otherwise slopes are differences.
        low, high: the region, one number for each parameter; differences stay inside.
    """

    function: Callable[[Any], Any] = eqx.field(static=True)
    traceable: bool = eqx.field(static=True)
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        """ν(θ), traced."""
        if self.traceable:
            return jnp.reshape(jnp.asarray(self.function(theta)), ())
        return _called_back(self, theta)

    def log_term(self, theta: Array, total: Array) -> Array:
        """W ln ν(θ) − ν(θ), traced."""
        expected = self(theta)
        return total * jnp.log(expected) - expected

    def expected(self, theta: np.ndarray) -> float:
        """ν at one θ, checked."""
        return self.value_and_slope(theta)[0]

    def value_and_slope(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """ν and its gradient at one θ, checked."""
        theta = np.asarray(theta, np.float64)
        if self.traceable:
            with float64():
                found = _value_and_slope(self.function, jnp.asarray(theta))
                value, slope = float(found[0]), np.asarray(found[1], np.float64)
        else:
            value, slope = self._called(theta), self._slopes(theta)
        return self._checked(theta, value, slope), slope

    def values(self, thetas: np.ndarray) -> np.ndarray:
        """ν at many θ, shape (m,)."""
        return np.array([self.expected(theta) for theta in thetas])

    def checked_value(self, theta: np.ndarray) -> float:
        """ν at one θ, of a function that cannot be traced."""
        return self._checked(theta, self._called(theta), np.zeros(0))

    def checked_slopes(self, theta: np.ndarray) -> np.ndarray:
        """Its slopes, shape (d,)."""
        slopes = self._slopes(theta)
        self._checked(theta, 1.0, slopes)
        return slopes

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Its second derivatives, shape (d, d)."""
        curvature = np.zeros((len(theta), len(theta)))
        for i in range(len(theta)):
            ends, width = self._ends(theta, i, CURVATURE_STEP)
            if width > 0:
                curvature[i] = (self._slopes(ends[1]) - self._slopes(ends[0])) / width
        return (curvature + curvature.T) / 2

    def _checked(self, theta: np.ndarray, value: float, slope: np.ndarray) -> float:
        if not (np.isfinite(value) and value > 0 and np.isfinite(slope).all()):
            raise ValueError(
                "rate must be positive and finite, with finite slopes, in the whole trained "
                f"region; at θ = {rounded(theta)} it is {value:.4g}."
            )
        return value

    def _slopes(self, theta: np.ndarray) -> np.ndarray:
        slopes = np.zeros(len(theta))
        for i in range(len(theta)):
            ends, width = self._ends(theta, i, SLOPE_STEP)
            if width > 0:
                slopes[i] = (self._called(ends[1]) - self._called(ends[0])) / width
        return slopes

    def _ends(self, theta: np.ndarray, i: int, step: float) -> tuple[np.ndarray, float]:
        """Two points around θ; at and beyond the edge of the region differences are one-sided."""
        ends = np.stack([theta, theta])
        reach = step * (self.high[i] - self.low[i])
        low, high = min(self.low[i], theta[i]), max(self.high[i], theta[i])
        ends[:, i] = np.clip(theta[i] + np.array([-reach, reach]), low, high)
        return ends, float(ends[1, i] - ends[0, i])

    def _called(self, theta: np.ndarray) -> float:
        try:
            value = np.asarray(self.function(theta.copy()), np.float64).reshape(())
        except Exception as error:
            raise ValueError(
                f"rate failed at θ = {rounded(theta)} ({in_short(error)}); it must take θ of shape "
                f"({len(theta)},) and return one number."
            ) from error
        return float(value)


# What JAX asks for is computed and no more: a value costs one call of the user's function, a
# gradient 2d further ones, and a Hessian 4d².


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _called_back(rate: Rate, theta: Array) -> Array:
    return _call_back(rate.checked_value, theta, ())


@_called_back.defjvp
def _(rate: Rate, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    slopes = _slopes_called_back(rate, primals[0])
    return _called_back(rate, primals[0]), slopes @ tangents[0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slopes_called_back(rate: Rate, theta: Array) -> Array:
    return _call_back(rate.checked_slopes, theta, theta.shape)


@_slopes_called_back.defjvp
def _(rate: Rate, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    curvature = _call_back(rate.curvature, primals[0], 2 * primals[0].shape)
    return _slopes_called_back(rate, primals[0]), curvature @ tangents[0]


def _call_back(
    function: Callable[[np.ndarray], Any], theta: Array, shape: tuple[int, ...]
) -> Array:
    """A function of NumPy inside a compiled one.

    Numbers travel as bits, because a callback runs outside `float64()`, where JAX would round them.
    Where the function is not a rate the result is NaN: JAX would hide the message of an error, and
    who reads the NaN calls `value_and_slope`, which raises it.
    """

    def of_bits(bits: Any) -> np.ndarray:  # noqa: ANN401
        point = np.ascontiguousarray(bits).view(np.float64)[:, 0]
        found = np.full((*shape, 1), np.nan)
        with contextlib.suppress(ValueError):
            found = np.asarray(function(point), np.float64).reshape(*shape, 1)
        return np.ascontiguousarray(found).view(np.uint32)

    bits = jax.lax.bitcast_convert_type(theta, jnp.uint32)
    result = jax.ShapeDtypeStruct((*shape, 2), jnp.uint32)
    found = jax.pure_callback(of_bits, result, bits, vmap_method="sequential")
    return jax.lax.bitcast_convert_type(found, jnp.float64)


@eqx.filter_jit
def _value_and_slope(function: Callable[[Any], Any], theta: Array) -> Any:  # noqa: ANN401
    return jax.value_and_grad(lambda theta: jnp.reshape(jnp.asarray(function(theta)), ()))(theta)


def read_rate(function: object, low: np.ndarray, high: np.ndarray) -> Rate:
    """A user's rate, tried at the centre of the region."""
    if not callable(function):
        raise TypeError(
            "rate must be a function of θ, shape (d,), that returns the expected number of "
            f"events; got {kind_of(function)}. For a constant rate leave it out."
        )
    middle, edges = (low + high) / 2, (tuple(low.tolist()), tuple(high.tolist()))
    traceable = True
    try:
        with float64():
            _value_and_slope(function, jnp.asarray(middle))
    except Exception:  # noqa: BLE001 (whatever a function of NumPy does with a tracer)
        traceable = False
    rate = Rate(function, traceable, *edges)
    rate.expected(middle)
    return rate
