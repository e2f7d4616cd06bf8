r"""The best fit of a data set in the box, and fits with parameters held.

The statistic is the likelihood ratio to the best fit in the physical region,
\(q(\theta_I)=2[\max_\theta\ln L-\max_{\theta:\theta_I}\ln L]\), the other parameters profiled.
"""

import dataclasses
from functools import cached_property

import numpy as np

from ...inputs import rounded, warn_user
from ..likelihood.likelihood import Likelihood
from ..likelihood.log_likelihood import LogLikelihood
from ..likelihood.minuit import NotConverged
from ..likelihood.model import DataSets, LikelihoodModel
from ..likelihood.newton import Maximum
from ..likelihood.profile import variance_ratio
from ..tables.event_table import TOLERANCE
from ..tables.likelihood_table import (
    LikelihoodTable,
    maximise_likelihood,
    tabulate_likelihood,
)
from ..tables.point_sequences import scatter_points

#: Pairs of event and θ spent on finding where to start the fits of nuisance parameters.
START_PAIRS = 1 << 20
#: Most starts of a fit of nuisance parameters.
MOST_STARTS = 64
#: Events of a channel at which many θ are tried before the best fit.
TRIED_EVENTS = 4096
#: Scattered starts of the best fit, besides the best of many θ.
SCATTERED_STARTS = 3
#: Differences of ln L by which maximisations repeat.
ROUNDING = 1e-6
#: Precision of a parameter that is uniform over its region, in units of the width: the most that
#: a flat likelihood leaves open.
FLATTEST = 12.0


@dataclasses.dataclass(frozen=True, eq=False)
class Fits:
    """Maxima of ln L that were found: value (m,), theta (m, d), converged (m,)."""

    value: np.ndarray
    theta: np.ndarray
    converged: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedFit:
    """One data set with its best fit.

    Attributes:
        model: the likelihood's model and its box.
        data: the data set.
        value, theta: ln L and θ at the maximum in the box.
        covariance: inverse of the curvature there, shape (d, d), 0 for fixed parameters.
        converged: whether the maximum was found.
        hessian: of ln L there by automatic differentiation in the free parameters, shape (d, d).
        sandwich: the covariance that counts the scatter of weights, for weighted events.
        table: of ln L, where many fits with parameters held are to follow.
    """

    model: LikelihoodModel
    data: DataSets
    value: float
    theta: np.ndarray
    covariance: np.ndarray
    converged: bool
    hessian: np.ndarray
    sandwich: np.ndarray | None = None
    table: LikelihoodTable | None = None

    @cached_property
    def function(self) -> LogLikelihood:
        """ln L as a JAX function."""
        return self.model.log_likelihood(self.data)

    @cached_property
    def _table_shift(self) -> float:
        """Exact ln L at the best fit less that of the table."""
        assert self.table is not None
        return self.value - float(self.table.function.values(self.theta[None])[0])

    def with_table(self, fits: int, *, show: bool | None) -> "ObservedFit":
        """The same with a table for so many fits, if that pays and holds."""
        near = (self.theta, self.covariance)
        table = tabulate_likelihood(self.function, self.model, *near, fits, show=show)
        return dataclasses.replace(self, table=table)

    @property
    def resolution(self) -> float:
        """Differences of ln L that are not told from rounding, or from errors of the table."""
        return ROUNDING if self.table is None else TOLERANCE

    @property
    def notes(self) -> list[str]:
        """On the table, if there is one."""
        return [] if self.table is None else [self.table.describe()]

    def variance_ratio(self, indices: list[int]) -> float:
        """How much larger the variance is than the inverse curvature; 1 without weights.

        The statistic of weighted events is divided by it to follow χ² approximately.
        """
        if self.sandwich is None:
            return 1.0
        return variance_ratio(self.sandwich, self.covariance, indices)

    def conditional(self, indices: list[int], values: np.ndarray) -> Fits:
        """Maxima with some parameters held at each of the values, shape (m, k)."""
        model, count = self.model, len(values)
        held = np.repeat(self.theta[None], count, axis=0)
        held[:, indices] = values
        nuisance = model.free.copy()
        nuisance[indices] = False
        if not nuisance.any():
            return Fits(self._values(held), held, np.ones(count, bool))
        low, high = (np.repeat(edge[None], count, axis=0) for edge in (model.low, model.high))
        low[:, indices] = high[:, indices] = values
        starts = self._starts(indices, held, low, high)
        if self.table is None:
            found = model.maximum(self.data, starts, low, high)
            return Fits(found.value, found.theta, found.converged)
        found = maximise_likelihood(self.table.function, starts, low, high)
        return Fits(found.value + self._table_shift, found.theta, found.converged)

    def exact_values(self, thetas: np.ndarray) -> np.ndarray:
        """ln L at many θ from exact sums, with the programs that a table was made with."""
        return self.function.sum_events(thetas) + self.function.values_alone(thetas)

    def _values(self, thetas: np.ndarray) -> np.ndarray:
        """ln L at many θ, by the table if there is one."""
        if self.table is None:
            return self.function.values(thetas)
        return self.table.function.values(thetas) + self._table_shift

    def statistic(self, indices: list[int], values: np.ndarray) -> tuple[np.ndarray, Fits]:
        """q at each of the values, and the fits."""
        found = self.conditional(indices, values)
        return np.maximum(2 * (self.value - found.value), 0.0), found

    def improve(self, theta: np.ndarray) -> "ObservedFit":
        """The best fit again, started from a θ with a higher likelihood."""
        again = _take_fit(self.model, self.data, self.model.maximum(self.data, theta[None]), 0)
        again = dataclasses.replace(again, table=self.table)
        if self.sandwich is None:
            return again
        # The sandwich belongs to the covariance that was found with it.
        return dataclasses.replace(again, covariance=self.covariance, sandwich=self.sandwich)

    def _starts(
        self, indices: list[int], held: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """The best of the ridge, of the estimate's nuisances and of a scatter, for each point."""
        count = len(held)
        block = self.covariance[np.ix_(indices, indices)]
        away = (held - self.theta)[:, indices] @ np.linalg.pinv(block)
        ridge = np.clip(held + away @ self.covariance[indices], low, high)
        ridge[:, indices] = held[:, indices]
        events = 1 if self.table is not None else max(1, self.data.events)
        more = int(np.clip(START_PAIRS // (count * events), 0, MOST_STARTS))
        nuisance = scatter_points(self.model.low, self.model.high, more)
        nuisance = np.repeat(nuisance[None], count, axis=0)
        nuisance[:, :, indices] = held[:, None, indices]
        every = np.concatenate([ridge[:, None], held[:, None], nuisance], axis=1)
        values = self._values(every.reshape(-1, held.shape[1])).reshape(count, -1)
        return every[np.arange(count), np.argmax(values, axis=1)]


def fit_data(model: LikelihoodModel, data: DataSets) -> ObservedFit:
    """The best fit of one data set in the box."""
    centre = (model.low + model.high) / 2
    # The best of many θ with some of the events, then from a few of them with all.
    start = model.best_start(_some_events(data), centre[None])
    starts = np.concatenate([start, scatter_points(model.low, model.high, SCATTERED_STARTS)])
    found = model.maximum(data, starts)
    best = int(np.argmax(np.where(np.isfinite(found.value), found.value, -np.inf)))
    return _take_fit(model, data, found, best)


def fit_near(
    model: LikelihoodModel, data: DataSets, near: ObservedFit, fits: int, *, show: bool | None
) -> ObservedFit:
    """The best fit of data like those of another fit, by a table if many fits are to follow."""
    exact = model.log_likelihood(data)
    table = tabulate_likelihood(exact, model, near.theta, near.covariance, fits, show=show)
    if table is None:
        return fit_data(model, data)
    free, start = model.free, np.stack([near.theta, near.theta])
    start[1, free] = table.checked.best
    low, high = (np.broadcast_to(edge, start.shape) for edge in (model.low, model.high))
    found = maximise_likelihood(table.function, start, low, high)
    fitted = _take_fit(model, data, found, int(np.argmax(found.value)))
    return dataclasses.replace(fitted, table=table)


def _take_fit(model: LikelihoodModel, data: DataSets, found: Maximum, row: int) -> ObservedFit:
    """One of the maxima that were found."""
    return ObservedFit(
        model=model,
        data=data,
        value=float(found.value[row]),
        theta=found.theta[row],
        covariance=_invert_curvature(model, found.hessian[row]),
        converged=bool(found.converged[row]),
        hessian=found.hessian[row],
    )


def _some_events(data: DataSets) -> DataSets:
    """The first events of each channel, their weights scaled to the whole sum."""
    x, weights = [], []
    for events, weight in zip(data.x, data.weight, strict=True):
        some = weight[:, :TRIED_EVENTS]
        total = some.sum(axis=1, keepdims=True)
        whole = weight.sum(axis=1, keepdims=True)
        scale = np.where(total > 0, whole / np.where(total > 0, total, 1.0), 1.0)
        x.append(events[:, :TRIED_EVENTS])
        weights.append(scale * some)
    return DataSets(tuple(x), tuple(weights), data.measured)


def fit_observed(likelihood: Likelihood, model: LikelihoodModel) -> ObservedFit:
    """The best fit of the observed events, in the box of `model`; raises or warns without one."""
    observed = fit_data(model, likelihood.data)
    if not np.isfinite(observed.value):
        raise NotConverged(
            "ln L of the observed events is not finite anywhere in the region; look at "
            "estimator.potential(x, theta)."
        )
    if not observed.converged:
        warn_user(
            "the best fit did not converge, so the statistic may be too small; it lies near "
            f"θ = {rounded(observed.theta)}."
        )
    if any(likelihood.weighted):
        # Not the maximiser's own Hessian, which is wrong where the slope of an activation jumps.
        covariance = _invert_curvature(model, likelihood.hessian(observed.theta))
        sandwich = covariance @ likelihood.gradient_covariance(observed.theta) @ covariance
        observed = dataclasses.replace(observed, covariance=covariance, sandwich=sandwich)
    return observed


def _invert_curvature(model: LikelihoodModel, hessian: np.ndarray) -> np.ndarray:
    """The inverse of −hessian in the free parameters."""
    free = np.flatnonzero(model.free)
    scale = (model.high - model.low)[free]
    size, axes = np.linalg.eigh(-hessian[np.ix_(free, free)] * np.outer(scale, scale))
    # No direction is wider than the region, however flat.
    size = np.maximum(np.abs(size), FLATTEST)
    covariance = np.zeros_like(hessian)
    covariance[np.ix_(free, free)] = (axes / size) @ axes.T * np.outer(scale, scale)
    return covariance
