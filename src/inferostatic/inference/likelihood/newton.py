r"""Many maximisations in a box at once, each by damped Newton steps.

A confidence set by toys needs a maximum for every toy at every θ, so all of them run side by side
in one compiled loop. The Hessian is used with the sign of each of its eigenvalues made negative,
which leads away from saddles, and a step that does not gain is shortened. A fixed parameter has
equal bounds.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...compilation import compile_briefly
from .event_sum import Derivatives

#: A maximum is found when the next Newton step would gain less than this in ln L.
TOLERANCE = 1e-6
#: Steps of all starts together.
FIRST_STEPS = 8
#: Further steps of those that have not converged by then.
MOST_STEPS = 60
#: The longest step, as a part of the box.
LONGEST_STEP = 0.3
#: Damping, in units of the largest curvature, at which a maximisation stops: no step that
#: floating-point numbers can resolve gains anything, as on the ridge of a kinked function.
STUCK = 1e14
#: Up to so many starts, all of them go on with those that are late, for which another program would
#: have to be compiled.
FEW_STARTS = 64


class AbstractSurface(eqx.Module):
    """A function of θ, one for each start's data, with its first two derivatives."""

    @abc.abstractmethod
    def differentiate(self, data: Any) -> Callable[[Array], Derivatives]:  # noqa: ANN401
        """The derivatives as a function of θ; what data alone decide is computed at once."""


class Maximum(NamedTuple):
    """Maxima that were found: value (b,), theta (b, d), converged (b,), hessian (b, d, d)."""

    value: np.ndarray
    theta: np.ndarray
    converged: np.ndarray
    hessian: np.ndarray


class _State(NamedTuple):
    theta: Array
    found: Derivatives
    step: Array
    damping: Array
    largest: Array
    done: Array
    steps: Array


def _maximise(
    surface: AbstractSurface,
    data: Any,  # noqa: ANN401
    shared: Any,  # noqa: ANN401
    start: Array,
    low: Array,
    high: Array,
    most: Array,
) -> _State:
    def one(data: Any, theta: Array, low: Array, high: Array) -> _State:  # noqa: ANN401
        # Steps are measured in the box, so that parameters may have any units.
        scale = jnp.where(high > low, high - low, 1.0)
        derivatives = surface.differentiate(data if shared is None else (shared, data))

        def newton(theta: Array, found: Derivatives, damping: Array) -> tuple[Array, Array, Array]:
            slope = found.gradient * scale
            stays = (theta <= low) & (slope <= 0) | (theta >= high) & (slope >= 0)
            free = ~(stays | (low >= high))
            slope = jnp.where(free, slope, 0.0)
            both = free[:, None] & free[None, :]
            curvature = jnp.where(both, found.hessian * scale[:, None] * scale[None, :], 0.0)
            size, axes = jnp.linalg.eigh(curvature)
            size = jnp.abs(size)
            size = jnp.maximum(size, 1e-9 * jnp.max(size) + 1e-12)
            along = axes.T @ slope
            step = axes @ (along / (size + damping))
            step = step / jnp.maximum(1.0, jnp.max(jnp.abs(step)) / LONGEST_STEP)
            return step, 0.5 * jnp.sum(along**2 / size), jnp.max(size)

        def advance(state: _State) -> _State:
            trial = jnp.clip(state.theta + scale * state.step, low, high)
            found = derivatives(trial)
            finite = jnp.isfinite(found.value) & jnp.all(jnp.isfinite(found.gradient))
            better = finite & jnp.all(jnp.isfinite(found.hessian))
            better = better & (found.value >= state.found.value)
            largest = state.largest
            weaker = jnp.where(state.damping < 1e-3 * largest, 0.0, state.damping / 10)
            stronger = jnp.maximum(10 * state.damping, 1e-2 * largest)
            old = (state.theta, state.found)
            theta, found = jax.tree.map(partial(jnp.where, better), (trial, found), old)
            damping = jnp.where(better, weaker, stronger)
            step, gain, largest = newton(theta, found, damping)
            done = (gain < TOLERANCE) | (damping > STUCK * largest)
            return _State(theta, found, step, damping, largest, done, state.steps + 1)

        # The first step goes nowhere and only evaluates: one copy of the surface to compile.
        zero, zeros = jnp.zeros(()), jnp.zeros(len(theta))
        state = _State(
            theta=jnp.clip(theta, low, high),
            found=Derivatives(jnp.array(-jnp.inf), zeros, jnp.zeros((len(theta), len(theta)))),
            step=zeros,
            damping=zero,
            largest=zero,
            done=jnp.zeros((), bool),
            steps=jnp.zeros((), int),
        )
        return jax.lax.while_loop(lambda s: ~s.done & (s.steps < most), advance, state)

    return jax.vmap(one)(data, start, low, high)


def maximise(
    surface: AbstractSurface,
    data: Any,  # noqa: ANN401
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    shared: Any = None,  # noqa: ANN401
    batch: int = 8192,
    brief: bool = False,
) -> Maximum:
    """Maximise from every start, in a box of its own, shapes (b, d); call it inside `float64()`.

    The arrays of `data` have a leading axis of starts. The surface is given them, or the pair
    (shared, data). One compiled call takes `batch` starts. A `brief` surface costs so little that
    compiling is what takes time.
    """
    compiled = compile_briefly(_maximise) if brief else eqx.filter_jit(_maximise)
    count = len(start)
    value, theta = np.empty(count), np.array(start, np.float64)
    done, hessian = np.zeros(count, bool), np.zeros((count, theta.shape[1], theta.shape[1]))
    # Late ones go on among themselves, so that the others do not wait in the same loop.
    for most in (FIRST_STEPS, MOST_STEPS):
        left = np.flatnonzero(~done)
        if len(left) and count <= FEW_STARTS:
            left = np.arange(count)
        # Few shapes, so few compilations.
        size = min(batch, max(4, 4 ** -(-max(len(left) - 1, 0).bit_length() // 2)))
        for first in range(0, len(left), size):
            rows = left[first : first + size]
            padded = np.resize(rows, size)
            part = jax.tree.map(lambda leaf, rows=padded: jnp.asarray(leaf[rows]), data)
            begin, below, above = (jnp.asarray(a[padded], jnp.float64) for a in (theta, low, high))
            end = compiled(surface, part, shared, begin, below, above, jnp.asarray(most))
            value[rows], theta[rows], done[rows], hessian[rows] = (
                np.asarray(a)[: len(rows)]
                for a in (end.found.value, end.theta, end.done, end.found.hessian)
            )
            done[rows] &= np.isfinite(value[rows])
    return Maximum(value, theta, done, hessian)
