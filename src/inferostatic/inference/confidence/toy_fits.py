r"""Maxima of many toys from one table: ln L of a toy is a sum of rows of φ(pool, nodes).

Toys of many events share a pool. φ of every pool event is tabulated at a few nodes around where
the toys have their maxima, the toys' ln L at the nodes are one matrix product, and a polynomial of
θ through them is climbed. The nodes follow the toys: they are laid around the last round's maxima
until these lie inside. The few toys that stay outside, or that the polynomial does not fit, are
climbed with their own events.
"""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import ndtri

from ..likelihood.event_sets import SetLikelihood, kronecker
from ..likelihood.newton import AbstractSurface, climb

#: Degree of the polynomial by the number of free parameters, from so many events in a toy on: the
#: fewer, the further ln L is from a parabola. Errors in ln L were below 0.02 on Dirichlet events.
DEGREES = (
    (1000, {1: 6, 2: 4, 3: 3, 4: 3, 5: 3, 6: 2}),
    (200, {1: 6, 2: 5, 3: 4, 4: 4, 5: 3, 6: 3}),
    (0, {1: 9, 2: 7, 3: 6, 4: 5, 5: 4, 6: 3}),
)
#: The degree for more parameters, and nodes for each coefficient.
LEAST_DEGREE, NODES_EACH = 2, 1.8
#: Radius of the nodes in standard deviations of the maxima, and the part of it that is trusted.
RADIUS, TRUSTED = 4.5, 0.97
#: Fraction of toys that may lie outside before nodes are laid again, and the most rounds.
TOLERATED, ROUNDS = 0.01, 6
#: Misfit of a polynomial, in ln L near its maximum, above which a toy is climbed by itself.
MOST_MISFIT, NEAR = 0.05, 6.0
#: From this many events on, φ is tabulated in float64: a rounding common to all events adds up.
MANY = 10_000
#: Toys whose rows are added up in one product.
TOYS_TOGETHER = 256


class _Polynomial(AbstractSurface):
    """Polynomials of u = A(θ − c), plus constraints; the data are coefficients and measurements."""

    to_unit: Array
    centre: Array
    precision: Array
    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def derivatives(self, data: Any, theta: Array) -> tuple[Array, Array, Array]:  # noqa: ANN401
        """Written out: automatic differentiation of as many products takes a minute to compile."""
        coefficients, measured = data
        u = self.to_unit @ (theta - self.centre)
        e = np.array(self.exponents)
        powers = [jnp.ones_like(u)]
        for _ in range(int(e.max())):
            powers.append(powers[-1] * u)
        table = jnp.stack([jnp.zeros_like(u), jnp.zeros_like(u), *powers])
        # In every term the power of each variable, and its first two derivatives.
        columns = np.arange(len(u))
        zeroth = table[e + 2, columns]
        first = jnp.asarray(e) * table[e + 1, columns]
        second = jnp.asarray(e * (e - 1)) * table[e, columns]

        def summed(*replaced: tuple[int, Array]) -> Array:
            term = coefficients
            factors = [zeroth[:, k] for k in range(len(u))]
            for k, factor in replaced:
                factors[k] = factor[:, k]
            for factor in factors:
                term = term * factor
            return jnp.sum(term)

        gradient = jnp.stack([summed((k, first)) for k in range(len(u))])
        rows = [
            [
                summed((i, second)) if i == j else summed((i, first), (j, first))
                for j in range(len(u))
            ]
            for i in range(len(u))
        ]
        hessian = jnp.stack([jnp.stack(row) for row in rows])
        pull = self.precision * (theta - measured)
        return (
            summed() - 0.5 * jnp.sum(pull * (theta - measured)),
            self.to_unit.T @ gradient - pull,
            self.to_unit.T @ hessian @ self.to_unit - jnp.diag(self.precision),
        )


def _exponents(dim: int, events: int) -> tuple[tuple[int, ...], ...]:
    degree = next(by for least, by in DEGREES if events >= least).get(dim, LEAST_DEGREE)
    every = itertools.product(range(degree + 1), repeat=dim)
    return tuple(e for e in every if sum(e) <= degree)


@dataclasses.dataclass(frozen=True, eq=False)
class Toys:
    """Toys of n events each, drawn from one pool of simulated events.

    Attributes:
        pool: events, shape (p, D).
        rows: of the pool that make up each toy, shape (t, n).
        measured: what the toys' constraints measured, shape (t, d).
        theta: where the pool was simulated, shape (d,).
    """

    pool: np.ndarray
    rows: np.ndarray
    measured: np.ndarray
    theta: np.ndarray

    def sums(self, table: np.ndarray) -> np.ndarray:
        """Of the toys' rows of a table (p, m), shape (t, m)."""
        toys, events = self.rows.shape
        # Without their mean the entries are small, and float32 adds them up well enough.
        mean = table.mean(axis=0, dtype=np.float64)
        centred = (table - mean).astype(np.float32)
        total = np.empty((toys, table.shape[1]))
        for first in range(0, toys, TOYS_TOGETHER):
            rows = self.rows[first : first + TOYS_TOGETHER]
            members = np.zeros((len(rows), len(table)), np.float32)
            np.put_along_axis(members, rows, 1.0, axis=1)
            total[first : first + len(rows)] = members @ centred
        return total + events * mean


@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """Where a pool is tabulated: a ball of unit radius mapped by `spread` around `centre`.

    Both in the free parameters; `spread` is a triangular root of their covariance.
    """

    centre: np.ndarray
    spread: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class ToyMaxima:
    """Maxima of ln L(θ) − Σφ(x, θ of the toys), and how they were found.

    Attributes:
        value: shape (t,).
        theta: shape (t, d).
        converged: shape (t,).
        nodes: of the last round, for the next pool.
        alone: number of toys that were climbed by themselves.
    """

    value: np.ndarray
    theta: np.ndarray
    converged: np.ndarray
    nodes: Nodes | None
    alone: int


def toy_maxima(space: SetLikelihood, toys: Toys, guess: Nodes | None) -> ToyMaxima:
    """Maximise every toy in the box of `space`.

    Args:
        space: the likelihood and the box.
        toys: the toys.
        guess: where their maxima lie, roughly.
    """
    free = np.flatnonzero(space.free)
    wide = toys.rows.shape[1] >= MANY
    count = len(toys.rows)
    if len(free) == 0:
        theta = np.repeat(space.low[None], count, axis=0)
        value = space.constraint(theta, toys.measured)
        if not np.array_equal(space.low, toys.theta):
            both = np.stack([space.low, toys.theta])
            table = space.table(toys.pool, both, wide=wide)
            value = value + toys.sums(table[:, :1] - table[:, 1:])[:, 0]
        return ToyMaxima(value, theta, np.ones(count, bool), None, 0)
    at_truth = space.table(toys.pool, toys.theta[None], wide=wide)
    if guess is None:
        guess = Nodes(toys.theta[free], np.diag(0.05 * (space.high - space.low)[free]))
    exponents = _exponents(len(free), toys.rows.shape[1])
    unit = _unit_nodes(len(free), int(np.ceil(NODES_EACH * len(exponents))))
    value = theta = alone = np.zeros(0)
    for turn in range(ROUNDS):
        thetas = np.repeat(space.low[None], len(unit), axis=0)
        thetas[:, free] = guess.centre + RADIUS * unit @ guess.spread.T
        thetas = np.clip(thetas, space.low, space.high)
        if not wide:  # where the table is evaluated, to the last digit
            thetas = thetas.astype(np.float32).astype(np.float64)
        rise = toys.sums(space.table(toys.pool, thetas, wide=wide) - at_truth)
        value, theta, outside, misfit = _on_polynomial(space, toys, guess, thetas, rise, exponents)
        alone = outside | misfit
        if outside.mean() <= TOLERATED or turn == ROUNDS - 1:
            break
        guess = _next_nodes(guess, theta[:, free], outside, space)
    converged = np.ones(count, bool)
    late = np.flatnonzero(alone)
    if len(late):
        x = toys.pool[toys.rows[late]]
        found = space.maximum(x, theta[late], measured=toys.measured[late])
        base = toys.sums(at_truth.astype(np.float64))[late, 0]
        value[late], theta[late] = found.value - base, found.theta
        converged[late] = found.converged
    return ToyMaxima(value, theta, converged, guess, len(late))


def _on_polynomial(
    space: SetLikelihood,
    toys: Toys,
    nodes: Nodes,
    thetas: np.ndarray,
    rise: np.ndarray,
    exponents: tuple[tuple[int, ...], ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values, θ, which toys lie outside of the nodes and which are not fitted well."""
    free = np.flatnonzero(space.free)
    to_unit = np.zeros((len(free), len(space.low)))
    to_unit[:, free] = np.linalg.inv(nodes.spread) / RADIUS
    centre = space.low.copy()
    centre[free] = nodes.centre
    u = (thetas - centre) @ to_unit.T
    design = np.prod(u[:, None, :] ** np.array(exponents)[None], axis=2)
    full = rise + space.constraint(thetas[None], toys.measured[:, None])
    below = full.max(axis=1, keepdims=True) - full
    # What counts is the neighbourhood of the maxima, not how deep the far nodes lie.
    trust = 1 / (1 + np.median(below, axis=0) / NEAR)
    coefficients = (rise * trust) @ np.linalg.pinv(design * trust[:, None]).T
    reach = RADIUS * np.sqrt((nodes.spread**2).sum(axis=1))
    low, high = space.low.copy(), space.high.copy()
    low[free] = np.clip(nodes.centre - reach, space.low[free], space.high[free])
    high[free] = np.clip(nodes.centre + reach, space.low[free], space.high[free])
    start = thetas[np.argmax(full, axis=1)]
    with jax.enable_x64(True):  # noqa: FBT003
        surface = _Polynomial(
            jnp.asarray(to_unit), jnp.asarray(centre), jnp.asarray(space.precision), exponents
        )
        box = (np.broadcast_to(edge, start.shape) for edge in (low, high))
        found = climb(surface, (coefficients, toys.measured), start, *box)
    away = np.sqrt((((found.theta - centre) @ to_unit.T) ** 2).sum(axis=1))
    residual = np.abs(rise - coefficients @ design.T)
    residual = np.max(np.where(below < NEAR, residual, 0.0), axis=1)
    misfit = ~found.converged | (residual > MOST_MISFIT)
    # A polynomial that does not fit may have its maximum anywhere.
    theta = np.where(misfit[:, None], start, found.theta)
    return found.value, theta, away > TRUSTED, misfit


def _next_nodes(last: Nodes, theta: np.ndarray, outside: np.ndarray, space: SetLikelihood) -> Nodes:
    """Around the maxima found so far, and wider if many of them lay at the end of the nodes."""
    centre = np.median(theta, axis=0)
    away = np.linalg.solve(last.spread, (theta - centre).T).T
    if outside.mean() > 0.2:
        spread = 2.0 * last.spread
    else:
        covariance = np.cov(away.T).reshape(len(centre), -1) * 1.2**2
        # Where all maxima lie at an edge of the region they do not scatter.
        spread = last.spread @ np.linalg.cholesky(covariance + 0.02 * np.eye(len(centre)))
    # No wider than the region.
    width = (space.high - space.low)[space.free]
    largest = np.max(RADIUS * np.sqrt((spread**2).sum(axis=1)) / width)
    return Nodes(centre, spread / max(1.0, largest))


def _unit_nodes(dim: int, count: int) -> np.ndarray:
    """Points spread in the unit ball."""
    if dim == 1:
        return np.cos(np.pi * (np.arange(count)[:, None] + 0.5) / count)
    cube = np.clip(kronecker(count, dim + 1), 1e-6, 1 - 1e-6)
    normal = ndtri(cube[:, :dim])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return normal / np.maximum(length, 1e-9) * cube[:, dim:] ** (1 / dim)
