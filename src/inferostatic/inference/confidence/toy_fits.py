"""Fits of toys: the maximum of every toy's likelihood, by the means that suit its size."""

import dataclasses

import numpy as np

from ..likelihood.model import LikelihoodModel
from .observed_fit import Fits, ObservedFit
from .toy_polynomials import Nodes, Rise, count_nodes, toy_maxima
from .toys import FEW_EVENTS, ToyMaker, Toys

#: Evaluations of an event in a toy that is maximised by itself: starts, and steps with Hessians.
EACH_COST = 200


class ToyFitter:
    """Maxima of toys less ln L at the toys' own θ; remembers where they lay at other θ."""

    model: LikelihoodModel
    observed: ObservedFit
    maker: ToyMaker
    fits: int
    failed: int

    def __init__(self, observed: ObservedFit, maker: ToyMaker) -> None:
        self.model, self.observed, self.maker = observed.model, observed, maker
        self.seen: dict[tuple[int, ...], list[tuple[np.ndarray, np.ndarray, Nodes]]] = {}
        self.fits = self.failed = 0

    def fit(self, toys: Toys, indices: list[int], values: np.ndarray | None = None) -> Fits:
        """Maximise every toy, with the parameters at `indices`, if any, held at `values`."""
        model = self.model
        at = toys.theta.copy()
        if indices:
            at[indices] = values
            model = model.hold(indices, at)
        if not model.free.any():
            found = toy_maxima(model, toys, None)[0]
        elif toys.most_events < FEW_EVENTS:
            found = self._fit_each(model, toys, at)
        else:
            found = self._fit_together(model, toys, at, tuple(indices))
        self.fits += len(found.value)
        self.failed += int((~found.converged).sum())
        return found

    def _fit_each(self, model: LikelihoodModel, toys: Toys, at: np.ndarray) -> Fits:
        """Every toy with its own events, from the best of many θ."""
        data = toys.data()
        also = np.clip(np.stack([at, self.observed.theta]), model.low, model.high)
        found = model.maximum(data, model.best_start(data, also))
        at_truth = Rise(model, toys, wide=True).at_truth(np.arange(len(toys.measured)))
        return Fits(found.value - at_truth, found.theta, found.converged)

    def _fit_together(
        self, model: LikelihoodModel, toys: Toys, at: np.ndarray, key: tuple[int, ...]
    ) -> Fits:
        """All toys by polynomials through a common table."""
        free, unheld = model.free, self.model
        guess = None
        seen = self.seen.setdefault(key, [])
        if seen:
            scale = np.where(unheld.free, unheld.high - unheld.low, 1.0)
            _, shift, nodes = min(seen, key=lambda one: np.sum(((one[0] - at) / scale) ** 2))
            centre = np.clip(at + shift, model.low, model.high)[free]
            guess = dataclasses.replace(nodes, centre=centre)
        elif free.any():
            block = np.linalg.inv(self.observed.covariance[np.ix_(unheld.free, unheld.free)])
            inner = free[unheld.free]
            spread = np.linalg.cholesky(np.linalg.inv(block[np.ix_(inner, inner)]))
            guess = Nodes(at[free], spread)
        found, nodes = toy_maxima(model, toys, guess)
        if nodes is not None:
            shift = np.zeros(len(at))
            shift[free] = nodes.centre - at[free]
            seen.append((at, shift, nodes))
        return found

    def statistic(
        self, theta: np.ndarray, indices: list[int], maker: ToyMaker | None = None
    ) -> np.ndarray:
        """The likelihood ratio statistic of the toys at θ, shape (t,), by default of its maker."""
        toys = (maker or self.maker).at(theta)
        full = self.fit(toys, [])
        held = self.fit(toys, indices, theta[indices])
        return np.maximum(2 * (full.value - held.value), 0.0)

    def count_evaluations(self) -> int:
        """Evaluations of members that the toys at one θ cost, roughly."""
        free = int(self.model.free.sum())
        total = 0
        for channel, events in zip(self.model.channels, self.maker.events, strict=True):
            each = count_nodes(free, events) if events >= FEW_EVENTS else EACH_COST
            members = sum(one.members for one in channel.estimators)
            total += self.maker.pool_size(events) * each * members
        return total

    def describe_failures(self) -> list[str]:
        """How many fits did not converge, if any."""
        if not self.failed:
            return []
        return [f"{self.failed:,} of {self.fits:,} fits of toys did not converge"]
