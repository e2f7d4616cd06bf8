r"""Maximum likelihood with a learned potential: \(\hat\theta=\arg\max\sum_i\varphi(x_i,\theta)\).

iminuit does the fit, fed with our compiled value and exact gradient; sums over events are done in
float64. The errors quoted here are those of the learned likelihood: an error of φ that is small for
one event adds up coherently over many, so they are too small when the model's bias is not.
"""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..estimator import AbstractEstimator, Estimator, with_network
from ..inputs import Input, as_floats, as_rows, require_finite
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
        kind = type(estimator).__name__ if isinstance(estimator, AbstractEstimator) else estimator
        raise TypeError(f"maximum_likelihood needs a potential (ist.Estimator); got {kind}.")
    names = estimator.theta_names
    rows = as_rows(x, "x", columns=len(estimator.x_names), of="observables")
    if len(rows) == 0:
        raise ValueError("there are no observed events: x has no rows.")
    require_finite(rows, "x", "Remove or repair these events.")
    estimator.warn_outside(rows)
    likelihood = _Likelihood(estimator, rows)
    low, high = estimator.region.theta_low, estimator.region.theta_high
    if start is None:
        begin = _best_start(likelihood, low, high)
    else:
        begin = as_floats(start, "start")
        if begin.shape != (len(names),):
            raise ValueError(f"start must have {len(names)} values; got shape {begin.shape}.")
    minuit = minuit_class(likelihood.value, begin, grad=likelihood.gradient, name=names)
    minuit.errordef = minuit_class.LIKELIHOOD
    minuit.limits = list(zip(low, high, strict=True))
    # The value is a float32 network summed in float64: the default 1e-4 × tolerance is below its
    # rounding for many events.
    minuit.precision = 1e-7
    minuit.migrad()
    minuit.hesse()
    return _result(minuit, names, low, high, throw=throw)


def _iminuit() -> type:
    try:
        from iminuit import Minuit
    except ImportError as error:
        raise ImportError(
            "maximum_likelihood uses iminuit: pip install 'inferostatic[inference]'"
        ) from error
    return Minuit


class _Likelihood:
    """−Σφ(x, θ) and its gradient, compiled once for a set of events."""

    def __init__(self, estimator: Estimator, rows: np.ndarray) -> None:
        self.model = estimator.model
        size = min(CHUNK, 1 << max(4, (len(rows) - 1).bit_length()))
        self.chunks = []
        for first in range(0, len(rows), size):
            part = np.asarray(rows[first : first + size], np.float32)
            padded = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            self.chunks.append((jnp.asarray(padded), len(part)))
        self.last: tuple[bytes, float, np.ndarray] | None = None

    def both(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        theta = np.asarray(theta, np.float64)
        key = theta.tobytes()
        if self.last is None or self.last[0] != key:
            value, gradient = 0.0, np.zeros(len(theta))
            for chunk, count in self.chunks:
                phi, score = _value_and_score(self.model, chunk, jnp.asarray(theta, jnp.float32))
                value -= np.asarray(phi, np.float64)[:count].sum()
                gradient -= np.asarray(score, np.float64)[:count].sum(axis=0)
            self.last = (key, float(value), gradient)
        return self.last[1], self.last[2]

    def value(self, theta: np.ndarray) -> float:
        return self.both(theta)[0]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.both(theta)[1]


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
    minuit: "object", names: tuple[str, ...], low: np.ndarray, high: np.ndarray, *, throw: bool
) -> MaximumLikelihood:
    from iminuit import Minuit

    assert isinstance(minuit, Minuit)
    theta = np.array(minuit.values)
    span = high - low
    at_edge = (theta - low < 1e-4 * span) | (high - theta < 1e-4 * span)
    message = "converged"
    if not minuit.valid or minuit.covariance is None:
        minimum = minuit.fmin
        message = f"iminuit did not converge: {minimum.edm if minimum else 'no minimum'} edm"
    elif at_edge.any():
        edges = ", ".join(np.array(names)[at_edge])
        message = f"the estimate lies at the edge of the trained region in {edges}"
        warnings.warn(message + "; its errors are not meaningful. Simulate wider.", stacklevel=3)
    d = len(names)
    covariance = np.full((d, d), np.nan)
    if minuit.covariance is not None:
        covariance = np.array(minuit.covariance)
    result = MaximumLikelihood(
        theta=theta,
        covariance=covariance,
        log_likelihood=-float(minuit.fval or np.nan),
        valid=bool(minuit.valid),
        message=message,
        names=names,
    )
    if throw and not result.valid:
        raise NotConverged(
            f"{message}. Look at the likelihood, try start=, or pass throw=False to see the result."
        )
    return result
