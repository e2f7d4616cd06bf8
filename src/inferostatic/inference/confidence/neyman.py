r"""The likelihood ratio ordering, and its law at any θ from toys.

The statistic is \(q(\theta_I)=2[\max_\theta\ln L-\max_{\theta:\theta_I}\ln L]\), both maxima taken
in the physical region (Feldman and Cousins, Phys. Rev. D57, 3873; for θ_I only part of θ, with the
other parameters profiled). Its p-value is that among toys simulated at θ_I and the fitted value of
the other parameters. It is right whatever the estimator, because the same function of the data is
applied to the toys; a bad estimator gives larger sets, not wrong ones.
"""

import dataclasses

import numpy as np

from ..likelihood.event_sets import SetLikelihood, scatter
from ..likelihood.newton import Maximum
from .toy_fits import Nodes, ToyMaxima, Toys, toy_maxima
from .toys import FEW_EVENTS, ToyMaker

#: Pairs of event and θ spent on finding where to start the fits of nuisance parameters.
START_PAIRS, MOST_STARTS = 1 << 20, 64
#: Statistics that differ by less are equal: discrete data repeat values up to rounding.
TIE = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Conditional:
    """Fits with the parameters of interest held: value (m,), theta (m, d), converged (m,)."""

    value: np.ndarray
    theta: np.ndarray
    converged: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedSet:
    """One set of events with its best fit.

    Attributes:
        space: the likelihood and its box.
        x: the events, shape (n, D).
        weight: of the events.
        value, theta: ln L and θ at the maximum in the box.
        covariance: inverse of the curvature there, shape (d, d), 0 for fixed parameters.
        converged: whether the maximum was found.
    """

    space: SetLikelihood
    x: np.ndarray
    weight: np.ndarray | None
    value: float
    theta: np.ndarray
    covariance: np.ndarray
    converged: bool

    def conditional(self, places: list[int], values: np.ndarray) -> Conditional:
        """Maxima with some parameters held at each of the values, shape (m, k)."""
        space, count = self.space, len(values)
        held = np.repeat(self.theta[None], count, axis=0)
        held[:, places] = values
        nuisance = space.free.copy()
        nuisance[places] = False
        if not nuisance.any():
            return Conditional(self._values(held), held, np.ones(count, bool))
        low, high = (np.repeat(edge[None], count, axis=0) for edge in (space.low, space.high))
        low[:, places] = high[:, places] = values
        start = self._starts(places, held, low, high)
        found = space.maximum(self.x[None], start, weight=self.weight, low=low, high=high)
        return Conditional(found.value, found.theta, found.converged)

    def statistic(self, places: list[int], values: np.ndarray) -> tuple[np.ndarray, Conditional]:
        """q at each of the values, and the fits."""
        found = self.conditional(places, values)
        return np.maximum(2 * (self.value - found.value), 0.0), found

    def _values(self, thetas: np.ndarray) -> np.ndarray:
        phi = self.space.table(self.x, thetas, wide=True)
        total = phi.sum(axis=0) if self.weight is None else self.weight @ phi
        return total + self.space.constraint(thetas, self.space.measured)

    def _starts(
        self, places: list[int], held: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """The best of the ridge, of the estimate's nuisances and of a scatter, for each point."""
        count = len(held)
        block = self.covariance[np.ix_(places, places)]
        away = (held - self.theta)[:, places] @ np.linalg.pinv(block)
        ridge = np.clip(held + away @ self.covariance[places], low, high)
        ridge[:, places] = held[:, places]
        more = int(np.clip(START_PAIRS // (count * len(self.x)), 0, MOST_STARTS))
        nuisance = scatter(self.space.low, self.space.high, more)
        nuisance = np.repeat(nuisance[None], count, axis=0)
        nuisance[:, :, places] = held[:, None, places]
        every = np.concatenate([ridge[:, None], held[:, None], nuisance], axis=1)
        values = self._values(every.reshape(-1, held.shape[1])).reshape(count, -1)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        return every[np.arange(count), best]


def observe(
    space: SetLikelihood, x: np.ndarray, *, weight: np.ndarray | None = None
) -> ObservedSet:
    """Find the best fit of a set of events in the box."""
    x = x.astype(np.float32).astype(np.float64)
    centre = (space.low + space.high) / 2
    # The best of many looks at some of the events, then from a few of them with all.
    some = x[: max(1, min(len(x), 4096))]
    start = space.best_start(some[None], also=centre[None])
    starts = np.concatenate([start, scatter(space.low, space.high, 3)])
    found = space.maximum(x[None], starts, weight=weight)
    best = int(np.nanargmax(np.where(np.isfinite(found.value), found.value, -np.inf)))
    theta = found.theta[best]
    return ObservedSet(
        space=space,
        x=x,
        weight=weight,
        value=float(found.value[best]),
        theta=theta,
        covariance=_covariance(space, found.hessian[best]),
        converged=bool(found.converged[best]),
    )


def _covariance(space: SetLikelihood, hessian: np.ndarray) -> np.ndarray:
    """The inverse of −hessian in the free parameters."""
    free = np.flatnonzero(space.free)
    hessian = -hessian
    scale = (space.high - space.low)[free]
    size, axes = np.linalg.eigh(hessian[np.ix_(free, free)] * np.outer(scale, scale))
    # No direction is wider than the region, however flat.
    size = np.maximum(np.abs(size), 12.0)
    covariance = np.zeros_like(hessian)
    covariance[np.ix_(free, free)] = (axes / size) @ axes.T * np.outer(scale, scale)
    return covariance


@dataclasses.dataclass(frozen=True, eq=False)
class ToyFits:
    """Maxima of toys relative to Σφ at the toys' own θ: in the box, and with parameters held."""

    value: np.ndarray
    theta: np.ndarray
    converged: np.ndarray


class ToyFitter:
    """Maxima of toys by the means that suit their size; remembers where they lay at other θ."""

    def __init__(self, space: SetLikelihood, observed: ObservedSet, maker: ToyMaker) -> None:
        self.space, self.observed, self.maker = space, observed, maker
        self.seen: dict[tuple[int, ...], list[tuple[np.ndarray, np.ndarray, Nodes]]] = {}
        self.fits = self.failed = 0

    def fit(self, toys: Toys, places: list[int], values: np.ndarray | None = None) -> ToyFits:
        """Maximise every toy, with the parameters at `places`, if any, held at `values`."""
        space = self.space
        at = toys.theta.copy()
        if places:
            at[places] = values
            space = space.held(places, at)
        if toys.rows.shape[1] < FEW_EVENTS:
            found = self._alone(space, toys, at)
        else:
            found = self._together(space, toys, at, tuple(places))
        self.fits += len(found.value)
        self.failed += int((~found.converged).sum())
        return ToyFits(found.value, found.theta, found.converged)

    def _alone(self, space: SetLikelihood, toys: Toys, at: np.ndarray) -> Maximum:
        x = toys.pool[toys.rows]
        also = np.clip(np.stack([at, self.observed.theta]), space.low, space.high)
        start = space.best_start(x, also=also, measured=toys.measured)
        found = space.maximum(x, start, measured=toys.measured)
        base = space.table(toys.pool, toys.theta[None], wide=True)[toys.rows, 0].sum(axis=1)
        return found._replace(value=found.value - base)

    def _together(
        self, space: SetLikelihood, toys: Toys, at: np.ndarray, key: tuple[int, ...]
    ) -> ToyMaxima:
        free = space.free
        guess = None
        seen = self.seen.setdefault(key, [])
        if seen:
            scale = np.where(self.space.free, self.space.high - self.space.low, 1.0)
            _, shift, nodes = min(seen, key=lambda one: np.sum(((one[0] - at) / scale) ** 2))
            centre = np.clip(at + shift, space.low, space.high)[free]
            guess = dataclasses.replace(nodes, centre=centre)
        elif free.any():
            block = np.linalg.inv(
                self.observed.covariance[np.ix_(self.space.free, self.space.free)]
            )
            inner = free[self.space.free]
            spread = np.linalg.cholesky(np.linalg.inv(block[np.ix_(inner, inner)]))
            guess = Nodes(at[free], spread)
        found = toy_maxima(space, toys, guess)
        if found.nodes is not None:
            shift = np.zeros(len(at))
            shift[free] = found.nodes.centre - at[free]
            seen.append((at, shift, found.nodes))
        return found

    def statistic(self, theta: np.ndarray, places: list[int]) -> np.ndarray:
        """q of the toys at θ, shape (t,)."""
        toys = self.maker.at(theta)
        full = self.fit(toys, [])
        held = self.fit(toys, places, theta[places])
        return np.maximum(2 * (full.value - held.value), 0.0)


def p_value(toys: np.ndarray, observed: float) -> float:
    """The observed set counts as one more toy: then P(p ≤ α) ≤ α for any number of toys."""
    return float((1 + np.sum(toys >= observed - TIE)) / (1 + len(toys)))
