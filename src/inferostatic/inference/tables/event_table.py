r"""A table of \(\sum_iw_i\varphi(x_i,\theta)\): a polynomial fitted to exact sums.

A sampler or a scan asks for ln L of the same events thousands of times, but it is a smooth function
of a few parameters. The sum is evaluated at nodes in an ellipsoid around where ln L is large, and a
polynomial is fitted. The nodes follow what the polynomial shows of ln L, and its degree is raised
until it predicts nodes that were not used in the fit. Where that does not come about, there is no
table and the exact sums serve.
"""

import dataclasses
from collections.abc import Callable
from math import comb, gamma

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial.chebyshev import chebvander

from ...polynomials import list_powers
from ..likelihood.event_sum import Derivatives
from ..likelihood.float64 import float64
from .point_sequences import kronecker_sequence, map_to_ball

#: Evaluations of a network from which on a table pays: some 10 s.
PAYS = 5_000_000
#: Events with which it is looked where ln L is large, and whether it is in several places.
FEW_EVENTS = 128
#: Error of ln L that is tolerated near the maximum: a posterior mean or the end of an interval is
#: shifted by at most about so many standard errors.
TOLERANCE = 0.003
#: Depth below the maximum, in ln L, from which on more is tolerated, in proportion to its square.
TOLERANT_DEPTH = 5.0
#: Depth to which nodes count fully in the fit: what matters is the neighbourhood of the maximum.
NEAR = 6.0
#: Total degrees that are tried, by the number of free parameters.
DEGREES: dict[int, tuple[int, ...]] = {
    1: (6, 10, 15, 22, 32),
    2: (4, 6, 8, 11, 15, 20),
    3: (4, 6, 8, 10, 12, 15, 18),
    4: (3, 4, 6, 8),
    5: (3, 4, 5, 6),
    6: (3, 4, 5),
}
#: Nodes for each coefficient.
NODES_EACH = 1.6
#: New nodes of a turn, at least, as a part of all that a degree needs: they check the last fit.
NEW_PART = 0.3
#: New nodes of a turn at least.
FEWEST_NEW = 12
#: Turns of laying nodes and fitting, at most.
MOST_TURNS = 14
#: Every third node lies in this part of the radius, where ln L is large.
INNER = 0.5
#: Points that are tried for every node, some of which lie outside.
TRIED_EACH = 4
#: Times that so many are tried, at most.
MOST_FILLS = 8
#: A box is filled, rather than the ellipsoid in it, up to this ratio of their volumes.
BOX_FACTOR = 1.5
#: Points at which a polynomial is looked at to find where ln L is large.
EXPLORED = 3000
#: How far beyond the nodes it is looked at, in radii.
BEYOND = 1.15
#: Fewest of these points from which the next ellipsoid is found.
FEWEST_FOUND = 150
#: The next ellipsoid is wider than these points by this factor.
MARGIN = 1.03
#: Shift of the centre, in radii, from which on nodes are laid again.
MOST_SHIFT = 0.2
#: Relative change of a radius from which on nodes are laid again.
SMALLEST_RADIUS, LARGEST_RADIUS = 0.7, 1.12


class EventTable(eqx.Module):
    """A polynomial of the k free parameters in an ellipsoid; beyond it falls like a Gaussian.

    Attributes:
        centre, to_ball: of the ellipsoid, |to_ball (θ − centre)| ≤ 1.
        middle, to_cube: of the coordinates v = to_cube (θ − middle) of the polynomial.
        coefficients: of products of Chebyshev polynomials, k axes of degree + 1.
        fall: of the value for every unit of the squared distance beyond the ellipsoid.
    """

    centre: Array
    to_ball: Array
    middle: Array
    to_cube: Array
    coefficients: Array
    fall: Array

    def __call__(self, point: Float[Array, " free_dim"]) -> Float[Array, ""]:
        """The sum over events at a point of the free parameters."""
        away = point - self.centre
        squared = jnp.sum((self.to_ball @ away) ** 2)
        beyond = jnp.maximum(squared, 1.0)
        v = self.to_cube @ (self.centre + away / jnp.sqrt(beyond) - self.middle)
        powers = [jnp.ones_like(v), v]
        for _ in range(self.coefficients.shape[0] - 2):
            powers.append(2 * v * powers[-1] - powers[-2])
        value, table = self.coefficients, jnp.stack(powers)
        for k in range(len(point)):
            value = jnp.tensordot(table[:, k], value, axes=1)
        return value - self.fall * (beyond - 1.0)

    def derivatives(self, point: Float[Array, " free_dim"]) -> Derivatives:
        """The same with gradient and Hessian."""
        return Derivatives(*jax.value_and_grad(self)(point), jax.hessian(self)(point))


@dataclasses.dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Points centre + root u with |u| ≤ 1, inside a box that may be open."""

    centre: np.ndarray
    root: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def distance(self, points: np.ndarray) -> np.ndarray:
        """|u| of points, shape (m,)."""
        return np.linalg.norm(np.linalg.solve(self.root, (points - self.centre).T), axis=0)

    def fill(self, count: int, first: int, reach: float = 1.0) -> np.ndarray:
        """Up to `count` evenly spread points; `first` numbers those that were laid before."""
        dim, found = len(self.centre), np.zeros((0, len(self.centre)))
        corners = np.sqrt((self.root**2).sum(axis=1)) * reach
        low = np.maximum(self.centre - corners, self.low)
        high = np.minimum(self.centre + corners, self.high)
        ball = abs(np.linalg.det(reach * self.root)) * np.pi ** (dim / 2) / gamma(dim / 2 + 1)
        for turn in range(MOST_FILLS):
            start = TRIED_EACH * (MOST_FILLS * first + turn * count)
            cube = kronecker_sequence(TRIED_EACH * count, dim + 1, first=start)
            if np.prod(high - low) < BOX_FACTOR * ball:
                # Denser towards the sides, as polynomials need it.
                laid = low + (high - low) * (1 - np.cos(np.pi * cube[:, :dim])) / 2
            else:
                direction, radius = map_to_ball(cube)
                # Denser towards the surface, but every third near the centre.
                radius = np.sin(np.pi / 2 * radius)
                radius[::3] *= INNER
                laid = self.centre + reach * radius[:, None] * direction @ self.root.T
                # Some of those that a side of the box cuts off are moved to it.
                laid[::4] = np.clip(laid[::4], self.low, self.high)
            inside = np.all((laid >= self.low) & (laid <= self.high), axis=1)
            laid = laid[inside & (self.distance(laid) <= reach * (1 + 1e-9))]
            found = np.unique(np.concatenate([found, laid]), axis=0) if turn else laid
            if len(found) >= count:
                break
        return found[:count]

    def differs(self, other: "Ellipsoid") -> bool:
        """Whether another is so different that nodes must be laid again."""
        shift = self.distance(other.centre[None])[0]
        radii = np.linalg.svd(np.linalg.solve(self.root, other.root), compute_uv=False)
        return bool(
            shift > MOST_SHIFT or radii.min() < SMALLEST_RADIUS or radii.max() > LARGEST_RADIUS
        )


@dataclasses.dataclass(frozen=True, eq=False)
class CheckedTable:
    """A table with what is known of its error.

    Attributes:
        table: the polynomial.
        ellipsoid: where it holds.
        nodes: exact sums that were evaluated.
        error: largest error at nodes that were not fitted, within `NEAR` of the maximum.
        best: point with the largest ln L among the nodes, shape (k,).
    """

    table: EventTable
    ellipsoid: Ellipsoid
    nodes: int
    error: float
    best: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class TableProblem:
    """What is tabulated, as functions of points of the free parameters, shape (m, k) to (m,).

    Attributes:
        sum_events: the exact sums; they cost much.
        rest: what is added to them for ln L, or for the posterior; it costs little.
        depth: below the maximum to which a table must reach, in ln L.
        most: exact sums that may be evaluated.
    """

    sum_events: Callable[[np.ndarray], np.ndarray]
    rest: Callable[[np.ndarray], np.ndarray]
    depth: float
    most: int


class _Fit:
    """A polynomial of some total degree through exact sums in an ellipsoid."""

    def __init__(
        self,
        ellipsoid: Ellipsoid,
        degree: int,
        points: np.ndarray,
        sums: np.ndarray,
        below: np.ndarray,
        depth: float,
    ) -> None:
        self.ellipsoid, self.degree, self.fall = ellipsoid, degree, depth
        self.powers = list_powers(points.shape[1], degree)
        to_ball = np.linalg.inv(ellipsoid.root)
        inner = points @ to_ball.T
        low, high = inner.min(axis=0), inner.max(axis=0)
        half = np.maximum((high - low) / 2, 1e-9)
        self.to_ball, self.to_cube = to_ball, to_ball / half[:, None]
        self.middle = ellipsoid.root @ ((low + high) / 2)
        trust = 1 / (1 + below / NEAR)
        # Less a constant, which would only cost digits.
        self.level = float(np.median(sums))
        design = self._design(points) * trust[:, None]
        self.coefficients = np.linalg.lstsq(design, trust * (sums - self.level), rcond=1e-12)[0]

    def _design(self, points: np.ndarray) -> np.ndarray:
        v = (points - self.middle) @ self.to_cube.T
        table = np.ones((len(points), len(self.powers)))
        for k in range(v.shape[1]):
            table *= chebvander(v[:, k], self.degree)[:, self.powers[:, k]]
        return table

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """As the table, in NumPy: its degree changes often while it is sought."""
        away = points - self.ellipsoid.centre
        beyond = np.maximum(((away @ self.to_ball.T) ** 2).sum(axis=1), 1.0)
        inside = self.ellipsoid.centre + away / np.sqrt(beyond)[:, None]
        value = self.level + self._design(inside) @ self.coefficients
        return value - self.fall * (beyond - 1.0)

    def table(self) -> EventTable:
        """The polynomial in JAX."""
        dense = np.zeros([self.degree + 1] * self.powers.shape[1])
        dense[tuple(self.powers.T)] = self.coefficients
        dense.flat[0] += self.level
        parts = (self.ellipsoid.centre, self.to_ball, self.middle, self.to_cube, dense, self.fall)
        with float64():
            return EventTable(*(jnp.asarray(part, jnp.float64) for part in parts))


def tabulate_sums(
    problem: TableProblem, guess: Ellipsoid, advance: Callable[[int], None] | None = None
) -> CheckedTable | None:
    """A checked table around where ln L is large; None where none holds the tolerance.

    Args:
        problem: what is tabulated.
        guess: where to begin.
        advance: is told how many exact sums were evaluated.
    """
    dim, region = len(guess.centre), guess
    degrees = DEGREES.get(dim, ())
    points, sums, full = np.zeros((0, dim)), np.zeros(0), np.zeros(0)
    fit, level, settled, laid = None, 0, False, 0
    for _ in range(MOST_TURNS):
        if level == len(degrees):
            return None
        needed = int(np.ceil(NODES_EACH * comb(dim + degrees[level], dim)))
        there = region.distance(points) <= 1.0
        fresh = max(needed - int(there.sum()), int(NEW_PART * needed), FEWEST_NEW)
        if len(points) + fresh > problem.most:
            return None
        new = region.fill(fresh, first=laid)
        laid += fresh
        if len(new) < fresh / 2:
            return None
        exact = problem.sum_events(new)
        if advance is not None:
            advance(len(new))
        total = exact + problem.rest(new)
        # A node outside of the prior's support has no density, but ln L is known there.
        if not np.isfinite(exact).all() or not np.isfinite(total).any():
            return None
        points, sums = np.concatenate([points, new]), np.concatenate([sums, exact])
        full = np.concatenate([full, np.where(np.isfinite(total), total, -np.inf)])
        below = full.max() - full
        if fit is not None:
            error = np.abs(fit(new) - exact)
            depth = below[-len(new) :]
            wrong = error > TOLERANCE * (1 + (depth / TOLERANT_DEPTH) ** 2)
            near = depth < NEAR
            if settled and not wrong.any() and near.any():
                there = region.distance(points) <= 1.0
                # The same degree with more nodes: what was checked is the worse of both.
                fit = _Fit(region, fit.degree, points[there], sums[there], below[there], fit.fall)
                best = points[int(np.argmax(full))]
                worst = float(error[near].max())
                return CheckedTable(fit.table(), region, len(points), worst, best)
            level += settled
        if level == len(degrees):
            return None
        there = region.distance(points) <= 1.0
        degree = _affordable(degrees[level], dim, int(there.sum()))
        fit = _Fit(region, degree, points[there], sums[there], below[there], problem.depth)
        following = _find_region(problem, fit, region, full.max())
        settled = not region.differs(following)
        region = region if settled else following
    return None


def usual_nodes(dim: int) -> int:
    """Nodes that a table of so many parameters usually takes."""
    degrees = DEGREES.get(dim, (1,))
    return int(2 * NODES_EACH * comb(dim + degrees[min(1, len(degrees) - 1)], dim))


def _affordable(degree: int, dim: int, count: int) -> int:
    """The degree, lowered to what so many nodes determine."""
    while degree > 1 and 1.3 * comb(dim + degree, dim) > count:
        degree -= 1
    return degree


def _find_region(problem: TableProblem, fit: _Fit, region: Ellipsoid, largest: float) -> Ellipsoid:
    """The ellipsoid of all points whose value by the fit lies not too deep."""
    points = region.fill(EXPLORED, first=0, reach=BEYOND)
    values = fit(points) + problem.rest(points)
    values = np.where(np.isfinite(values), values, -np.inf)
    below = max(largest, values.max()) - values
    depth = max(problem.depth, np.sort(below)[min(FEWEST_FOUND, len(below)) - 1])
    found = points[below <= depth]
    centre = found.mean(axis=0)
    scatter = np.cov(found.T).reshape(len(centre), -1)
    root = np.linalg.cholesky(scatter + 1e-9 * np.diag(np.diag(scatter)))
    furthest = np.linalg.norm(np.linalg.solve(root, (found - centre).T), axis=0).max()
    return Ellipsoid(centre, MARGIN * furthest * root, region.low, region.high)
