r"""Second derivatives ∇²φ in float64, by a way that is right for the network.

Where the slope of an activation jumps, as SELU's and ReLU's does at 0, automatic differentiation
drops the jump and gives wrong Hessians silently. The mean of the score over events is still smooth,
so its derivative is then taken from differences over a step that many jumps lie within.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.estimator import AbstractEstimator, Estimator, ScoreEstimator
from ...models.members import over_members
from ...models.networks.networks import MLPNetwork, ResidualNetwork
from ...models.networks.particle_set import ParticleNetwork
from ...models.networks.two_tower import TwoTowerNetwork
from ...models.potential import AbstractModel
from ..arguments import common_region
from .event_sum import cut_in_chunks, map_members
from .float64 import as_models_read, float64, in_float64

#: Half-width of the differences, as a part of the trained region's extent.
STEP = 0.02
#: Activations are searched for a jump of their slope between minus and plus this number.
SEARCHED = 12.0
#: Points of that search.
SEARCH_POINTS = 12_001
#: Standard errors by which automatic and numerical derivatives may differ.
TOLERATED = 5.0

Region = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Slopes:
    """Some events' scores, shape (n, d), and −∇ŝ, shape (n, d, d)."""

    score: np.ndarray
    curvature: np.ndarray


class Curvature:
    """Scores and −∇ŝ of events at one θ.

    Attributes:
        automatic: whether automatic differentiation is used, rather than differences.
        reason: why not, in words; empty if it is.
    """

    reason: str
    automatic: bool

    def __init__(
        self, estimator: Estimator | ScoreEstimator, rows: np.ndarray, theta: np.ndarray
    ) -> None:
        self._theta, self._count = theta, len(rows)
        self._chunks = as_models_read(cut_in_chunks(rows[None])[0])
        self._step = difference_steps(theta, *common_region([estimator]))
        with float64():
            self._model = in_float64(estimator.model)
        self.reason = self._why_not(estimator)
        self.automatic = not self.reason

    def __iter__(self) -> Iterator[Slopes]:
        """All events, one chunk at a time."""
        for number in range(len(self._chunks)):
            yield self._slopes(number, automatic=self.automatic)

    def _slopes(self, number: int, *, automatic: bool) -> Slopes:
        chunk = self._chunks[number]
        count = min(len(chunk), self._count - number * len(chunk))
        with float64():
            x = jnp.asarray(chunk)
            if automatic:
                found = _score_and_derivative(self._model, x, jnp.asarray(self._theta))
                score, derivative = (np.asarray(array)[:count] for array in found)
            else:
                points = jnp.asarray(difference_points(self._theta, self._step))
                scores = np.asarray(_scores(self._model, x, points))[:, :count]
                score = scores[0]
                derivative = np.moveaxis(extrapolate_differences(scores[1:], self._step), 0, 2)
        # Exactly symmetric for a potential; a direct score network's need not be.
        return Slopes(score, -(derivative + derivative.swapaxes(1, 2)) / 2)

    def _why_not(self, estimator: Estimator | ScoreEstimator) -> str:
        """Why automatic differentiation must not be used, if so."""
        reason = find_jump(estimator)
        # A user's own network may hide an activation in its code: let numbers decide.
        if reason is None and not self._agrees():
            return "automatic second derivatives of this network differ from numerical ones"
        return reason or ""

    def _agrees(self) -> bool:
        automatic = self._slopes(0, automatic=True).curvature
        numerical = self._slopes(0, automatic=False).curvature
        if not np.isfinite(automatic).all():
            return False
        difference = automatic - numerical
        error = difference.std(axis=0) / np.sqrt(len(difference))
        scale = np.abs(numerical.mean(axis=0)).max()
        allowed = TOLERATED * error + 1e-3 * scale
        return bool((np.abs(difference.mean(axis=0)) <= allowed).all())


def difference_steps(theta: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Half-widths of differences at θ, shape (d,).

    Narrower near an edge of the region; at the edge itself they reach a little beyond.
    """
    extent = high - low
    return np.clip(np.minimum(theta - low, high - theta), STEP * extent / 10, STEP * extent)


def difference_points(theta: np.ndarray, step: np.ndarray) -> np.ndarray:
    """θ, then for each parameter θ + h, θ − h, θ + h/2 and θ − h/2, shape (1 + 4d, d)."""
    shifts = np.array([1.0, -1.0, 0.5, -0.5])[None, :, None] * np.diag(step)[:, None, :]
    return np.concatenate([theta[None], theta + shifts.reshape(-1, len(theta))])


def extrapolate_differences(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Derivatives by Richardson's extrapolation, free of the error in h², shape (d, …).

    The values, shape (4d, …), are those at the points of `difference_points` but the first.
    """
    moved = values.reshape(len(step), 4, *values.shape[1:])
    width = step.reshape(-1, *(1,) * (values.ndim - 1))
    wide = (moved[:, 0] - moved[:, 1]) / (2 * width)
    narrow = (moved[:, 2] - moved[:, 3]) / width
    return (4 * narrow - wide) / 3


def differentiate_gradient(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], theta: np.ndarray, region: Region
) -> np.ndarray:
    """The Hessian of a function with its gradient, by differences of the latter, shape (d, d)."""
    step = difference_steps(theta, *region)
    values = np.stack([function(point)[1] for point in difference_points(theta, step)[1:]])
    hessian = extrapolate_differences(values, step)
    return (hessian + hessian.T) / 2


def find_jump(estimator: AbstractEstimator) -> str | None:
    """Where automatic second derivatives are wrong, in words.

    Empty where they are right; None for a user's own network, whose code may hide an activation.
    """
    if isinstance(estimator, ScoreEstimator):
        # The derivative of a direct score needs only one derivative of the activation.
        return ""
    network = _part_of_theta(estimator.model.network)
    for activation in _functions(network):
        if slope_jumps(activation):
            name = getattr(activation, "__name__", repr(activation))
            return f"the slope of the activation {name} jumps"
    return "" if isinstance(network, MLPNetwork | ResidualNetwork) else None


def _part_of_theta(network: Any) -> Any:  # noqa: ANN401
    """The part that θ passes through: jumps in what is made of x alone do no harm."""
    if isinstance(network, TwoTowerNetwork):
        return network.theta_tower
    if isinstance(network, ParticleNetwork):
        return _part_of_theta(network.joined.network)
    return network


def _functions(module: Any) -> Iterator[Callable[..., Any]]:  # noqa: ANN401
    """Functions stored in a module or in the modules within, such as activations."""
    if isinstance(module, eqx.Module) and dataclasses.is_dataclass(module):
        for field in dataclasses.fields(module):
            yield from _functions(getattr(module, field.name, None))
    elif isinstance(module, tuple | list):
        for part in cast("list[Any]", module):
            yield from _functions(part)
    elif callable(module) and not isinstance(module, type):
        yield module


def slope_jumps(activation: Callable[..., Any]) -> bool:
    """Whether the slope of a function of one number jumps somewhere.

    The steepest cells of a grid are divided again: over a smaller cell the slope of a smooth
    function changes less, but a jump stays.
    """
    with float64():
        slope = jax.jit(jax.vmap(jax.grad(lambda z: jnp.asarray(activation(z), jnp.float64))))

        def change(grid: np.ndarray) -> np.ndarray:
            return np.abs(np.diff(np.asarray(slope(jnp.asarray(grid.ravel()))).reshape(grid.shape)))

        try:
            grid = np.linspace(-SEARCHED, SEARCHED, SEARCH_POINTS)
            coarse = change(grid)
            steepest = np.argsort(coarse)[-8:]
            fine = change(np.linspace(grid[steepest], grid[steepest + 1], 101, axis=1)).max(axis=1)
        except (TypeError, ValueError, IndexError):
            return False  # no function of one number: left to the comparison of derivatives
    return bool(np.any((coarse[steepest] > 1e-6) & (fine > 0.25 * coarse[steepest])))


@eqx.filter_jit
def _score_and_derivative(model: AbstractModel, x: Array, theta: Array) -> Any:  # noqa: ANN401
    def of_member(member: Any) -> Any:  # noqa: ANN401
        def score_twice(one: Array, theta: Array) -> tuple[Array, Array]:
            score = member.score(one, theta)
            return score, score

        derivative = jax.jacfwd(score_twice, argnums=1, has_aux=True)
        return jax.vmap(derivative, in_axes=(0, None))(x, theta)

    derivatives, scores = map_members(model, of_member)
    return jnp.mean(scores, axis=0), jnp.mean(derivatives, axis=0)


@eqx.filter_jit
def _scores(model: AbstractModel, x: Array, thetas: Array) -> Array:
    def of_member(member: Any) -> Array:  # noqa: ANN401
        each = jax.vmap(member.score, in_axes=(0, None))
        return jax.lax.map(lambda theta: each(x, theta), thetas)

    return over_members(model, of_member)
