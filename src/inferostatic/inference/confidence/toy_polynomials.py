r"""Maxima of many toys from one table: ln L of a toy is a sum of rows of φ(pool, nodes).

Toys of many events share a pool. φ of every pool event is tabulated at a few nodes around where
the toys have their maxima, the toys' ln L at the nodes are one matrix product, and a polynomial of
θ through them is maximised. The nodes follow the toys: they are laid around the last round's maxima
until these lie inside. The few toys that stay outside, or that the polynomial does not fit, are
maximised with their own events.
"""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..likelihood.event_sum import Derivatives
from ..likelihood.float64 import float64
from ..likelihood.model import LikelihoodModel
from ..likelihood.newton import AbstractSurface, maximise
from ..tables.point_sequences import kronecker_sequence, map_to_ball
from .observed_fit import Fits
from .toys import Toys

#: Degree of the polynomial by the number of free parameters, from so many events in a toy on: the
#: fewer, the further ln L is from a parabola. Errors in ln L were below 0.02 on Dirichlet events.
DEGREES = (
    (1000, {1: 6, 2: 4, 3: 3, 4: 3, 5: 3, 6: 2}),
    (200, {1: 6, 2: 5, 3: 4, 4: 4, 5: 3, 6: 3}),
    (0, {1: 9, 2: 7, 3: 6, 4: 5, 5: 4, 6: 3}),
)
#: The degree for more parameters.
LEAST_DEGREE = 2
#: Nodes for each coefficient.
NODES_EACH = 1.8
#: Radius of the nodes in standard deviations of the maxima.
RADIUS = 4.5
#: The part of the radius in which a maximum is trusted.
TRUSTED = 0.97
#: Part of the toys that may lie outside before nodes are laid again.
TOLERATED = 0.01
#: Times that nodes are laid, at most.
ROUNDS = 6
#: Misfit of a polynomial in ln L above which a toy is maximised by itself.
MOST_MISFIT = 0.05
#: Depth below the maximum, in ln L, within which that misfit counts.
NEAR = 6.0
#: From this many events on, φ is tabulated in float64: a rounding common to all events adds up.
MANY_EVENTS = 10_000


class _Polynomial(AbstractSurface):
    """Polynomials of u = A(θ − c), plus constraints; the data are coefficients and measurements."""

    to_unit: Array
    centre: Array
    precision: Array
    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def differentiate(self, data: Any) -> Callable[[Array], Derivatives]:  # noqa: ANN401
        """Of one toy."""
        return partial(self.derivatives, *data)

    def derivatives(self, coefficients: Array, measured: Array, theta: Array) -> Derivatives:
        """Written out: automatic differentiation of as many products takes a minute to compile."""
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

        def add_terms(*replaced: tuple[int, Array]) -> Array:
            term, factors = coefficients, [zeroth] * len(u)
            for k, factor in replaced:
                factors[k] = factor
            for k, factor in enumerate(factors):
                term = term * factor[:, k]
            return jnp.sum(term)

        gradient = jnp.stack([add_terms((k, first)) for k in range(len(u))])
        each = [
            add_terms((i, second)) if i == j else add_terms((i, first), (j, first))
            for i, j in itertools.product(range(len(u)), repeat=2)
        ]
        hessian = jnp.stack(each).reshape(len(u), len(u))
        pull = self.precision * (theta - measured)
        return Derivatives(
            add_terms() - 0.5 * jnp.sum(pull * (theta - measured)),
            self.to_unit.T @ gradient - pull,
            self.to_unit.T @ hessian @ self.to_unit - jnp.diag(self.precision),
        )


def _exponents(dim: int, events: int) -> tuple[tuple[int, ...], ...]:
    degree = next(by for least, by in DEGREES if events >= least).get(dim, LEAST_DEGREE)
    every = itertools.product(range(degree + 1), repeat=dim)
    return tuple(e for e in every if sum(e) <= degree)


def count_nodes(dim: int, events: int) -> int:
    """Nodes for toys of so many events."""
    return int(np.ceil(NODES_EACH * len(_exponents(dim, events))))


@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """Where a pool is tabulated: a ball of unit radius mapped by `spread` around `centre`.

    Both in the free parameters; `spread` is a triangular root of their covariance.
    """

    centre: np.ndarray
    spread: np.ndarray


class Rise:
    """ln L of toys at any θ, less that at their own, both without constraints."""

    wide: bool

    def __init__(self, model: LikelihoodModel, toys: Toys, *, wide: bool = False) -> None:
        self.wide = wide or toys.most_events >= MANY_EVENTS
        self._toys, truth = toys, toys.theta[None]
        self._parts = [
            (channel, part, channel.tabulate(part.pool, truth, wide=self.wide))
            for channel, part in zip(model.channels, toys.channels, strict=True)
        ]

    def __call__(self, thetas: np.ndarray) -> np.ndarray:
        """Of every toy at each of the θ, shape (t, m)."""
        total = np.zeros((len(self._toys.measured), len(thetas)))
        for channel, part, at_truth in self._parts:
            total += part.add_up(channel.tabulate(part.pool, thetas, wide=self.wide) - at_truth)
            total += channel.rate_term(thetas, part.totals)
            total -= channel.rate_term(self._toys.theta[None], part.totals)
        return total

    def at_truth(self, which: np.ndarray) -> np.ndarray:
        """ln L of some toys at their own θ, without constraints, shape (number of these,)."""
        total = np.zeros(len(which))
        for channel, part, table in self._parts:
            phi = table.astype(np.float64)[part.rows[which], 0]
            total += np.sum(part.weight[which] * phi, axis=1)
            total += channel.rate_term(self._toys.theta[None], part.totals[which])[:, 0]
        return total


def toy_maxima(
    model: LikelihoodModel, toys: Toys, guess: Nodes | None
) -> tuple[Fits, Nodes | None]:
    """Maximise every toy in the box of `model`, with a rough `guess` of where the maxima lie.

    Values are less ln L at the toys' own θ without constraints. The nodes of the last round are for
    the next pool.
    """
    free, count = np.flatnonzero(model.free), len(toys.measured)
    if len(free) == 0:
        theta = np.repeat(model.low[None], count, axis=0)
        value = model.constraints.value(theta, toys.measured)
        if not np.array_equal(model.low, toys.theta):
            value = value + Rise(model, toys)(model.low[None])[:, 0]
        return Fits(value, theta, np.ones(count, bool)), None
    rise = Rise(model, toys)
    if guess is None:
        guess = Nodes(toys.theta[free], np.diag(0.05 * (model.high - model.low)[free]))
    exponents = _exponents(len(free), toys.most_events)
    unit = _unit_nodes(len(free), count_nodes(len(free), toys.most_events))
    value = theta = alone = np.zeros(0)
    for turn in range(ROUNDS):
        thetas = np.repeat(model.low[None], len(unit), axis=0)
        thetas[:, free] = guess.centre + RADIUS * unit @ guess.spread.T
        thetas = np.clip(thetas, model.low, model.high)
        if not rise.wide:  # where the table is evaluated, to the last digit
            thetas = thetas.astype(np.float32).astype(np.float64)
        value, theta, outside, misfit = _on_polynomial(
            model, toys, guess, thetas, rise(thetas), exponents
        )
        alone = outside | misfit
        if outside.mean() <= TOLERATED or turn == ROUNDS - 1:
            break
        guess = _next_nodes(guess, theta[:, free], outside, model)
    converged = np.ones(count, bool)
    late = np.flatnonzero(alone)
    if len(late):
        found = model.maximum(toys.data(late), theta[late])
        value[late], theta[late] = found.value - rise.at_truth(late), found.theta
        converged[late] = found.converged
    return Fits(value, theta, converged), guess


def _on_polynomial(
    model: LikelihoodModel,
    toys: Toys,
    nodes: Nodes,
    thetas: np.ndarray,
    rise: np.ndarray,
    exponents: tuple[tuple[int, ...], ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values, θ, which toys lie outside of the nodes and which are not fitted well."""
    free = np.flatnonzero(model.free)
    to_unit = np.zeros((len(free), len(model.low)))
    to_unit[:, free] = np.linalg.inv(nodes.spread) / RADIUS
    centre = model.low.copy()
    centre[free] = nodes.centre
    u = (thetas - centre) @ to_unit.T
    design = np.prod(u[:, None, :] ** np.array(exponents)[None], axis=2)
    full = rise + model.constraints.value(thetas[None], toys.measured[:, None])
    below = full.max(axis=1, keepdims=True) - full
    # What counts is the neighbourhood of the maxima, not how deep the far nodes lie.
    trust = 1 / (1 + np.median(below, axis=0) / NEAR)
    coefficients = (rise * trust) @ np.linalg.pinv(design * trust[:, None]).T
    reach = RADIUS * np.sqrt((nodes.spread**2).sum(axis=1))
    low, high = model.low.copy(), model.high.copy()
    low[free] = np.clip(nodes.centre - reach, model.low[free], model.high[free])
    high[free] = np.clip(nodes.centre + reach, model.low[free], model.high[free])
    start = thetas[np.argmax(full, axis=1)]
    with float64():
        unit, middle, precision = map(jnp.asarray, (to_unit, centre, model.constraints.precision))
        surface = _Polynomial(unit, middle, precision, exponents)
        box = (np.broadcast_to(edge, start.shape) for edge in (low, high))
        found = maximise(surface, (coefficients, toys.measured), start, *box)
    away = np.sqrt((((found.theta - centre) @ to_unit.T) ** 2).sum(axis=1))
    residual = np.abs(rise - coefficients @ design.T)
    residual = np.max(np.where(below < NEAR, residual, 0.0), axis=1)
    misfit = ~found.converged | (residual > MOST_MISFIT)
    # A polynomial that does not fit may have its maximum anywhere.
    theta = np.where(misfit[:, None], start, found.theta)
    return found.value, theta, away > TRUSTED, misfit


def _next_nodes(
    last: Nodes, theta: np.ndarray, outside: np.ndarray, model: LikelihoodModel
) -> Nodes:
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
    width = (model.high - model.low)[model.free]
    largest = np.max(RADIUS * np.sqrt((spread**2).sum(axis=1)) / width)
    return Nodes(centre, spread / max(1.0, largest))


def _unit_nodes(dim: int, count: int) -> np.ndarray:
    """Points spread in the unit ball."""
    if dim == 1:
        return np.cos(np.pi * (np.arange(count)[:, None] + 0.5) / count)
    direction, radius = map_to_ball(kronecker_sequence(count, dim + 1))
    return direction * radius[:, None]
