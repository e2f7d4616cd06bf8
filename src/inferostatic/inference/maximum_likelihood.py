r"""Maximum likelihood with a learned potential: \(\hat\theta=\arg\max\sum_i\varphi(x_i,\theta)\).

iminuit does the fit, fed with our compiled value and exact gradient, both in float64: in float32
the rounding of θ is common to all events, and over many of them it hides the minimum. The errors
quoted here are those of the learned likelihood: an error of φ that is small for
one event adds up coherently over many, so they are too small when the model's bias is not.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..estimator import Estimator, with_network
from ..inputs import (
    Input,
    as_floats,
    as_rows,
    column_names,
    kind_of,
    require_finite,
    require_float32,
    require_order,
    warn_user,
)
from ..models.potential import AbstractModel

#: Events evaluated in one compiled call.
CHUNK = 8192


@dataclasses.dataclass(frozen=True, repr=False)
class MaximumLikelihood:
    """The result of a fit.

    Attributes:
        theta: the estimate, shape (d,).
        covariance: inverse of the Hessian of −ln L, shape (d, d).
        log_likelihood: Σφ at the estimate, up to a constant that does not depend on θ.
        valid: whether the minimiser converged.
        message: what it says about convergence.
        names: of the parameters.
    """

    theta: np.ndarray
    covariance: np.ndarray
    log_likelihood: float
    valid: bool
    message: str
    names: tuple[str, ...]

    @property
    def errors(self) -> np.ndarray:
        """Standard errors, from the diagonal of the covariance."""
        return np.sqrt(np.diag(self.covariance))

    def __repr__(self) -> str:
        """The values with errors."""
        values = zip(self.names, self.theta, self.errors, strict=True)
        text = ", ".join(f"{name} = {value:.4g} ± {error:.2g}" for name, value, error in values)
        return f"MaximumLikelihood({text}{'' if self.valid else '; NOT CONVERGED'})"


class NotConverged(RuntimeError):
    """The minimiser did not converge."""


def maximum_likelihood(
    estimator: Estimator,
    x: Input,
    *,
    start: Input | None = None,
    throw: bool = True,
) -> MaximumLikelihood:
    """Fit θ to the observed events `x`, shape (n, D), all made at one unknown θ.

    Args:
        estimator: a trained potential.
        x: observed events.
        start: where to begin; the best of a few points of the trained region unless given.
        throw: raise if the minimiser does not converge; otherwise the result says so.
    """
    minuit_class = _iminuit()
    if not isinstance(estimator, Estimator):
        raise TypeError(
            "maximum_likelihood needs a potential (ist.Estimator), which ist.fit(events, seed=…) "
            f"trains by default; got {kind_of(estimator)}."
        )
    names = estimator.theta_names
    require_order(column_names(x), estimator.x_names, "x")
    rows = as_rows(x, "x", columns=len(estimator.x_names), of="observables")
    if len(rows) == 0:
        raise ValueError("there are no observed events: x has no rows.")
    require_finite(rows, "x", "Remove or repair these events.")
    require_float32(rows, estimator.x_names, "x")
    estimator.warn_outside(rows)
    likelihood = _Likelihood(estimator, rows)
    low, high = estimator.region.theta_low, estimator.region.theta_high
    if start is None:
        begin = _best_start(likelihood, low, high)
    else:
        begin = _checked_start(start, names, low, high)
    minuit = minuit_class(likelihood.value, begin, grad=likelihood.gradient, name=names)
    minuit.errordef = minuit_class.LIKELIHOOD
    minuit.limits = list(zip(low, high, strict=True))
    minuit.migrad()
    minuit.hesse()
    return _result(minuit, names, low, high, throw=throw)


def _checked_start(
    start: Input, names: tuple[str, ...], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    begin = as_floats(start, "start")
    if begin.shape != (len(names),):
        raise ValueError(
            f"start must have one value for each of {', '.join(names)}; got shape {begin.shape}."
        )
    if not np.all((begin >= low) & (begin <= high)):
        raise ValueError(
            f"start must lie in the trained region, {low.tolist()} to {high.tolist()}; got "
            f"{begin.tolist()}."
        )
    return begin


def _iminuit() -> Any:  # noqa: ANN401
    try:
        from iminuit import Minuit
    except ImportError as error:
        raise ImportError(
            "maximum_likelihood uses iminuit: pip install 'inferostatic[inference]'"
        ) from error
    return Minuit


class _Likelihood:
    """−Σφ(x, θ) and its gradient in float64, compiled once for a set of events."""

    def __init__(self, estimator: Estimator, rows: np.ndarray) -> None:
        size = min(CHUNK, 1 << max(4, (len(rows) - 1).bit_length()))
        self.chunks = []
        self.last: tuple[bytes, float, np.ndarray] | None = None
        with jax.enable_x64(True):  # noqa: FBT003
            self.model = jax.tree.map(_widened, estimator.model)
            for first in range(0, len(rows), size):
                part = np.asarray(rows[first : first + size], np.float32).astype(np.float64)
                padded = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
                self.chunks.append((jnp.asarray(padded), len(part)))

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        theta = np.asarray(theta, np.float64)
        key = theta.tobytes()
        if self.last is None or self.last[0] != key:
            value, gradient = 0.0, np.zeros(len(theta))
            with jax.enable_x64(True):  # noqa: FBT003
                for chunk, count in self.chunks:
                    phi, score = _value_and_score(self.model, chunk, jnp.asarray(theta))
                    value -= np.asarray(phi)[:count].sum()
                    gradient -= np.asarray(score)[:count].sum(axis=0)
            self.last = (key, float(value), gradient)
        return self.last[1], self.last[2]

    def value(self, theta: np.ndarray) -> float:
        return self.both(theta)[0]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.both(theta)[1]


def _widened(leaf: Any) -> Any:  # noqa: ANN401
    return jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array(leaf) else leaf


@eqx.filter_jit
def _value_and_score(model: AbstractModel, x: Array, theta: Array) -> tuple[Array, Array]:
    def member(network: object) -> tuple[Array, Array]:
        potential = with_network(model, network).potential
        return jax.vmap(jax.value_and_grad(potential, argnums=1), in_axes=(0, None))(x, theta)

    values, scores = eqx.filter_vmap(member)(model.network)
    return jnp.mean(values, axis=0), jnp.mean(scores, axis=0)


def _best_start(likelihood: _Likelihood, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The best of the centre and a fixed scatter of points in the trained region."""
    scatter = np.random.default_rng(0).uniform(0.1, 0.9, (4 * len(low), len(low)))
    points = low + (high - low) * np.concatenate([np.full((1, len(low)), 0.5), scatter])
    return points[np.argmin([likelihood.value(point) for point in points])]


def _result(
    minuit: Any,  # noqa: ANN401
    names: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
    *,
    throw: bool,
) -> MaximumLikelihood:
    theta = np.array(minuit.values)
    valid = bool(minuit.valid and minuit.covariance is not None)
    message = "converged"
    if not minuit.valid:
        edm = minuit.fmin.edm if minuit.fmin else np.nan
        message = f"iminuit did not converge: estimated distance to the minimum {edm:.3g}"
    elif not valid:
        message = "iminuit found no Hessian that can be inverted: the likelihood is flat"
    margin = 1e-4 * (high - low)
    at_edge = (theta - low < margin) | (high - theta < margin)
    if valid and at_edge.any():
        edges = ", ".join(np.array(names)[at_edge])
        message = f"the estimate lies at the edge of the trained region in {edges}"
        warn_user(message + "; its errors are not meaningful. Simulate wider.")
    nowhere = np.full((len(names), len(names)), np.nan)
    result = MaximumLikelihood(
        theta=theta,
        covariance=nowhere if minuit.covariance is None else np.array(minuit.covariance),
        log_likelihood=-float(minuit.fval),
        valid=valid,
        message=message,
        names=names,
    )
    if throw and not result.valid:
        raise NotConverged(
            f"{message}. Look at the likelihood, try start=, or pass throw=False to see the result."
        )
    return result
