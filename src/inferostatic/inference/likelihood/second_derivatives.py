r"""Scores and their θ-derivatives, ∇²φ, in float64, by a way that is right for the network.

Where the slope of an activation jumps, as SELU's and ReLU's does at 0, automatic differentiation
drops the jump and gives wrong Hessians without a word. The mean of the score over events is still
smooth, so its derivative is then taken from differences over a step that many jumps lie within.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.estimator import Estimator, ScoreEstimator
from ...models.members import over_members, with_network
from ...models.networks.networks import MLPNetwork, ResidualNetwork
from ...models.networks.particle_set import ParticleNetwork
from ...models.networks.two_tower import TwoTowerNetwork
from ...models.potential import AbstractModel
from .float64 import in_float64

#: Events evaluated in one compiled call.
CHUNK = 4096
#: Half-width of the differences, as a part of the trained region's extent.
STEP = 0.02
#: Where activations are searched for a jump of their slope, and how finely.
SEARCHED, CELLS = 12.0, 12_001
#: Standard errors by which automatic and numerical derivatives may differ.
TOLERATED = 5.0


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

    def __init__(
        self, estimator: Estimator | ScoreEstimator, rows: np.ndarray, theta: np.ndarray
    ) -> None:
        self._rows, self._theta = rows, theta
        self._size = min(CHUNK, 1 << max(4, (len(rows) - 1).bit_length()))
        region = estimator.region
        extent = np.asarray(region.theta_high - region.theta_low, np.float64)
        room = np.minimum(theta - region.theta_low, region.theta_high - theta)
        # Near an edge a narrower step, and at the edge itself one that reaches a little beyond.
        self._step = np.clip(room, STEP * extent / 10, STEP * extent)
        with jax.enable_x64(True):  # noqa: FBT003
            self._model = in_float64(estimator.model)
        self.reason = self._why_not(estimator)
        self.automatic = not self.reason

    def __iter__(self) -> Iterator[Slopes]:
        """All events, some at a time."""
        for first in range(0, len(self._rows), self._size):
            yield self._slopes(self._rows[first : first + self._size], automatic=self.automatic)

    def _slopes(self, rows: np.ndarray, *, automatic: bool) -> Slopes:
        part = rows.astype(np.float32).astype(np.float64)
        padded = np.concatenate([part, np.repeat(part[-1:], self._size - len(part), axis=0)])
        with jax.enable_x64(True):  # noqa: FBT003
            x = jnp.asarray(padded)
            if automatic:
                theta = jnp.asarray(self._theta)
                found = _score_and_derivative(self._model, x, theta)
                score, derivative = (np.asarray(array)[: len(part)] for array in found)
            else:
                scores = np.asarray(_scores(self._model, x, jnp.asarray(self._points)))
                score, derivative = self._differences(scores[:, : len(part)])
        # Exactly symmetric for a potential; a direct score network's need not be.
        return Slopes(score, -(derivative + derivative.swapaxes(1, 2)) / 2)

    @property
    def _points(self) -> np.ndarray:
        """θ, then for each parameter θ + h, θ − h, θ + h/2 and θ − h/2."""
        shifts = np.array([1.0, -1.0, 0.5, -0.5])[None, :, None] * np.diag(self._step)[:, None, :]
        return np.concatenate([self._theta[None], self._theta + shifts.reshape(-1, len(shifts))])

    def _differences(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Richardson's extrapolation of central differences: free of the error in h²."""
        d = len(self._theta)
        moved = scores[1:].reshape(d, 4, *scores.shape[1:])
        wide = (moved[:, 0] - moved[:, 1]) / (2 * self._step[:, None, None])
        narrow = (moved[:, 2] - moved[:, 3]) / self._step[:, None, None]
        return scores[0], np.moveaxis((4 * narrow - wide) / 3, 0, 2)

    def _why_not(self, estimator: Estimator | ScoreEstimator) -> str:
        """Why automatic differentiation must not be used, if so."""
        if not isinstance(estimator, Estimator):
            # The derivative of a direct score needs only one derivative of the activation.
            return ""
        network = _of_theta(estimator.model.network)
        activations = list(_functions(network))
        for activation in activations:
            if slope_jumps(activation):
                name = getattr(activation, "__name__", repr(activation))
                return f"the slope of the activation {name} jumps"
        if isinstance(network, MLPNetwork | ResidualNetwork):
            return ""
        # A user's own network may hide an activation in its code: let numbers tell.
        if self._agrees():
            return ""
        return "automatic second derivatives of this network differ from numerical ones"

    def _agrees(self) -> bool:
        rows = self._rows[: self._size]
        automatic = self._slopes(rows, automatic=True).curvature
        numerical = self._slopes(rows, automatic=False).curvature
        if not np.isfinite(automatic).all():
            return False
        difference = automatic - numerical
        error = difference.std(axis=0) / np.sqrt(len(rows))
        scale = np.abs(numerical.mean(axis=0)).max()
        allowed = TOLERATED * error + 1e-3 * scale
        return bool((np.abs(difference.mean(axis=0)) <= allowed).all())


def _of_theta(network: Any) -> Any:  # noqa: ANN401
    """The part that θ passes through: jumps in what is made of x alone do no harm."""
    if isinstance(network, TwoTowerNetwork):
        return network.theta_tower
    if isinstance(network, ParticleNetwork):
        return _of_theta(network.joined.network)
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
    with jax.enable_x64(True):  # noqa: FBT003
        slope = jax.vmap(jax.grad(lambda z: jnp.asarray(activation(z), jnp.float64)))

        def change(grid: np.ndarray) -> np.ndarray:
            return np.abs(np.diff(np.asarray(slope(jnp.asarray(grid)))))

        try:
            grid = np.linspace(-SEARCHED, SEARCHED, CELLS)
            coarse = change(grid)
            steepest = np.argsort(coarse)[-8:]
            fine = [change(np.linspace(grid[i], grid[i + 1], 101)).max() for i in steepest]
        except (TypeError, ValueError, IndexError):
            return False  # no function of one number: left to the comparison of derivatives
    return bool(np.any((coarse[steepest] > 1e-6) & (fine > 0.25 * coarse[steepest])))


@eqx.filter_jit
def _score_and_derivative(model: AbstractModel, x: Array, theta: Array) -> Any:  # noqa: ANN401
    def of_member(member: Any) -> Any:  # noqa: ANN401
        def both(one: Array, theta: Array) -> tuple[Array, Array]:
            score = member.score(one, theta)
            return score, score

        derivative = jax.jacfwd(both, argnums=1, has_aux=True)
        return jax.vmap(derivative, in_axes=(0, None))(x, theta)

    each = eqx.filter_vmap(lambda network: of_member(with_network(model, network)))
    derivatives, scores = each(model.network)
    return jnp.mean(scores, axis=0), jnp.mean(derivatives, axis=0)


@eqx.filter_jit
def _scores(model: AbstractModel, x: Array, thetas: Array) -> Array:
    def of_member(member: Any) -> Array:  # noqa: ANN401
        each = jax.vmap(member.score, in_axes=(0, None))
        return jax.lax.map(lambda theta: each(x, theta), thetas)

    return over_members(model, of_member)
