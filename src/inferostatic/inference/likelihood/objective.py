r"""What a fit minimises: \(-\ln L(\theta)\) of a set of events, its gradient, and added terms.

Sums over events are taken in float64: in float32 the rounding of θ is common to all events, and
over many of them it hides the minimum. To \(-\sum_i w_i\varphi(x_i,\theta)\) a Poisson term
\(\nu(\theta)-\sum_i w_i\ln\nu(\theta)\) and Gaussian constraints of single parameters can be added.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.estimator import AbstractEstimator, Estimator
from ...inputs import (
    Input,
    as_floats,
    kind_of,
    require_finite,
)
from ...models.members import with_network
from ...models.potential import AbstractModel
from ..arguments import values_by_name
from .float64 import in_float64

#: Events evaluated in one compiled call.
CHUNK = 8192
#: Step of numerical derivatives of a rate, as a fraction of the trained region: the best for
#: central differences of a smooth function in float64.
RATE_STEP = 1e-5


def event_weights(weight: Input | None, count: int, name: str = "weight") -> np.ndarray | None:
    """One finite weight for each event, with a positive sum; None stays None."""
    if weight is None:
        return None
    weights = as_floats(weight, name).astype(np.float64)
    if weights.shape != (count,):
        raise ValueError(
            f"{name} must have one value for each of the {count} events; got shape {weights.shape}."
        )
    require_finite(weights, name, "Remove or repair these events.")
    if not weights.sum() > 0:
        raise ValueError(
            f"{name} must have a positive sum, single weights may be negative; got "
            f"{weights.sum():.4g}."
        )
    return weights


class PerEvent:
    """φ(x, θ), or ln r(x; θ, against), of every event with its θ-gradient, in float64."""

    def __init__(
        self, estimator: AbstractEstimator, rows: np.ndarray, *, against: np.ndarray | None = None
    ) -> None:
        size = min(CHUNK, 1 << max(4, (len(rows) - 1).bit_length()))
        self.count = len(rows)
        self.chunks: list[tuple[Array, int]] = []
        with jax.enable_x64(True):  # noqa: FBT003
            self.model = in_float64(estimator.model)
            self.against = None if against is None else jnp.asarray(against, jnp.float64)
            for first in range(0, len(rows), size):
                part = np.asarray(rows[first : first + size], np.float32).astype(np.float64)
                padded = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
                self.chunks.append((jnp.asarray(padded), len(part)))

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values, shape (n,), and gradients, shape (n, d)."""
        values, gradients = [], []
        with jax.enable_x64(True):  # noqa: FBT003
            point = jnp.asarray(theta, jnp.float64)
            for chunk, count in self.chunks:
                value, gradient = _value_and_gradient(self.model, chunk, point, self.against)
                values.append(np.asarray(value)[:count])
                gradients.append(np.asarray(gradient)[:count])
        return np.concatenate(values), np.concatenate(gradients)


@eqx.filter_jit
def _value_and_gradient(
    model: AbstractModel, x: Array, theta: Array, against: Array | None
) -> tuple[Array, Array]:
    def member(network: object) -> tuple[Array, Array]:
        one = with_network(model, network)

        def quantity(x: Array, theta: Array) -> Array:
            return one.potential(x, theta) if against is None else one.log_ratio(x, theta, against)

        return jax.vmap(jax.value_and_grad(quantity, argnums=1), in_axes=(0, None))(x, theta)

    values, gradients = eqx.filter_vmap(member)(model.network)
    return jnp.mean(values, axis=0), jnp.mean(gradients, axis=0)


class Term(Protocol):
    """A term of −ln L that depends on θ alone."""

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        ...


class Poisson:
    r"""\(\nu(\theta) - n\ln\nu(\theta)\) for an observed (sum of weights) n.

    The gradient of ν is JAX's where the function can be traced, and numerical otherwise.
    """

    def __init__(
        self,
        rate: Callable[[Any], Any],
        observed: float,
        *,
        low: np.ndarray,
        high: np.ndarray,
        at: np.ndarray,
    ) -> None:
        if not callable(rate):
            raise TypeError(
                "rate must be a function of θ, shape (d,), that returns the expected number of "
                f"events; got {kind_of(rate)}. For a constant rate leave it out."
            )
        self.rate, self.observed, self.low, self.high = rate, observed, low, high
        self._compiled: Callable[[Any], Any] | None = jax.jit(
            jax.value_and_grad(lambda theta: jnp.reshape(jnp.asarray(rate(theta)), ()))
        )
        try:
            self._traced(at)
        except Exception:  # whatever a function of NumPy does with a tracer
            self._compiled = None
        self.both(at)

    @property
    def traceable(self) -> bool:
        """Whether the gradient is JAX's own."""
        return self._compiled is not None

    def expected(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """ν(θ) and its gradient."""
        if self._compiled is not None:
            value, gradient = self._traced(theta)
        else:
            value, gradient = self._called(theta), self._differences(theta)
        if not (np.isfinite(value) and value > 0 and np.isfinite(gradient).all()):
            raise ValueError(
                "rate must be positive and finite, with finite slopes, in the whole trained "
                f"region; at θ = {np.round(theta, 5).tolist()} it is {value:.4g}."
            )
        return value, gradient

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of the term."""
        expected, slope = self.expected(theta)
        value = expected - self.observed * np.log(expected)
        return value, (1 - self.observed / expected) * slope

    def _traced(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        assert self._compiled is not None
        with jax.enable_x64(True):  # noqa: FBT003
            value, gradient = self._compiled(jnp.asarray(theta, jnp.float64))
            return float(value), np.asarray(gradient, np.float64)

    def _called(self, theta: np.ndarray) -> float:
        try:
            value = np.asarray(self.rate(theta.copy()), np.float64).reshape(())
        except Exception as error:
            raise ValueError(
                f"rate failed at θ = {np.round(theta, 5).tolist()} "
                f"({type(error).__name__}: {error}); it must take θ of shape ({len(theta)},) and "
                "return one number."
            ) from error
        return float(value)

    def _differences(self, theta: np.ndarray) -> np.ndarray:
        slopes = np.zeros(len(theta))
        for i, step in enumerate(RATE_STEP * (self.high - self.low)):
            ends = np.stack([theta, theta])
            # At the edge of the region the difference becomes one-sided.
            ends[:, i] = np.clip(theta[i] + np.array([-step, step]), self.low[i], self.high[i])
            rise = self._called(ends[1]) - self._called(ends[0])
            slopes[i] = rise / (ends[1, i] - ends[0, i])
        return slopes


class Constraints:
    r"""\(\frac12\sum_k((\theta_k-m_k)/\sigma_k)^2\) of the constrained parameters."""

    def __init__(
        self, constraints: Mapping[str, tuple[float, float]], names: Sequence[str]
    ) -> None:
        self.mean = np.zeros(len(names))
        self.precision = np.zeros(len(names))
        for name, pair in values_by_name(constraints, names, "constraints").items():
            values = as_floats(pair, f"the constraint of {name}")
            if values.shape != (2,) or not np.isfinite(values).all() or not values[1] > 0:
                raise ValueError(
                    f"a constraint is a pair (mean, standard deviation), both finite and the "
                    f"second positive; got {pair!r} for {name}."
                )
            place = list(names).index(name)
            self.mean[place], self.precision[place] = values[0], 1 / values[1] ** 2

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of the term."""
        pull = self.precision * (theta - self.mean)
        return float(0.5 * pull @ (theta - self.mean)), pull


class NegativeLogLikelihood:
    """−Σ w φ(x, θ) plus terms of θ alone, and its gradient, evaluated once for each θ."""

    def __init__(
        self,
        estimator: Estimator,
        rows: np.ndarray,
        weight: np.ndarray | None = None,
        *,
        poisson: Poisson | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        self.events = PerEvent(estimator, rows)
        self.weight, self.poisson, self.constraints = weight, poisson, constraints
        self.terms: list[Term] = [term for term in (poisson, constraints) if term is not None]
        self.last: tuple[bytes, float, np.ndarray] | None = None

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        theta = np.asarray(theta, np.float64)
        if not np.isfinite(theta).all():  # where a function is flat, Minuit's steps are NaN
            return np.nan, np.full(len(theta), np.nan)
        key = theta.tobytes()
        if self.last is None or self.last[0] != key:
            phi, score = self.events(theta)
            if self.weight is None:
                value, gradient = -phi.sum(), -score.sum(axis=0)
            else:
                value, gradient = -self.weight @ phi, -self.weight @ score
            for term in self.terms:
                more, slope = term.both(theta)
                value, gradient = value + more, gradient + slope
            self.last = (key, float(value), gradient)
        return self.last[1], self.last[2]

    def value(self, theta: np.ndarray) -> float:
        """−ln L, up to a constant."""
        return self.both(theta)[0]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient, shape (d,)."""
        return self.both(theta)[1]

    def score_covariance(self, theta: np.ndarray) -> np.ndarray:
        """The covariance of the gradient over repetitions, estimated from the events themselves.

        Σ w² g gᵀ with g the score of an event, of a Poisson number of events where there is a rate,
        plus the precision of the constraints, which stand for auxiliary measurements.
        """
        _, each = self.events(theta)
        if self.poisson is not None:
            expected, slope = self.poisson.expected(theta)
            each = each + slope / expected
        if self.weight is not None:
            each = each * self.weight[:, None]
        total = each.T @ each
        if self.constraints is not None:
            total = total + np.diag(self.constraints.precision)
        return total
