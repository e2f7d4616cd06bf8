"""What a feature map is, and the affine one."""

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ...host import put_array
from ...serial import known

#: A standard deviation below this many times the mean is rounding: the column is constant.
SMALLEST_SPREAD = 4 * float(np.finfo(np.float32).eps)


def as_jax(value: Any) -> Array:  # noqa: ANN401
    """A float32 array of JAX, also where a file gave NumPy."""
    return put_array(value)


class AbstractFeatureMap(eqx.Module):
    """A fixed map of one vector."""

    @abc.abstractmethod
    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " features"]:
        """The features."""


@known
class IdentityMap(AbstractFeatureMap):
    """The values as they are."""

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The value itself."""
        return value


@known
class Affine(AbstractFeatureMap):
    """(value − centre)/scale."""

    centre: Float[Array, " dim"] = eqx.field(converter=as_jax)
    scale: Float[Array, " dim"] = eqx.field(converter=as_jax)

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Standardised values."""
        return (value - self.centre) / self.scale


@known
class Chained(AbstractFeatureMap):
    """One map after another."""

    first: AbstractFeatureMap
    second: AbstractFeatureMap

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " features"]:
        """The second of the first."""
        return self.second(self.first(value))


def affine(centre: np.ndarray, scale: np.ndarray) -> Affine:
    """An affine map; a vanishing scale becomes 1."""
    return Affine(centre, safe_scale(centre, scale))


def safe_scale(centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The scale, or 1 where it is nothing but rounding around the centre."""
    return np.where(np.asarray(scale) > SMALLEST_SPREAD * np.abs(centre), scale, 1.0)
