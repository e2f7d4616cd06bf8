r"""The statistical model behind a likelihood: everything but the data.

\[\ln L(\theta)=\sum_c\Big[\sum_i w_i\varphi_c(x_i,\theta)+W_c\ln\nu_c(\theta)-\nu_c(\theta)\Big]
  -\frac12\sum_k\Big(\frac{\theta_k-m_k}{\sigma_k}\Big)^2\]

over channels c, each with potentials φ, and with a rate ν where the number of events counts. Data
sets are the observed one, or many toys at once, which differ in events, weights and in what the
constraints measured.
"""

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.estimator import AbstractEstimator
from ..tables.point_sequences import scatter_points
from .constraints import Constraints
from .event_sum import Derivatives, cut_in_chunks, embed_events, tabulate
from .float64 import as_models_read, float64, in_float64
from .log_likelihood import LogLikelihood, ThetaTerms
from .newton import AbstractSurface, Maximum, maximise
from .rate import Rate

#: Events of all sets in one compiled call of the maximisation.
MOST_TOGETHER = 1 << 13
#: θ at which a set is evaluated before it is maximised, by the number of free parameters.
TRIED_POINTS = {0: 1, 1: 64, 2: 256, 3: 512}
#: Pairs of event and θ that are spent on that, at most.
TRIED_PAIRS = 1 << 20
#: Fewest θ that are tried.
FEWEST_TRIED = 16


@dataclasses.dataclass(frozen=True, eq=False)
class Channel:
    """Events of one kind, without the events.

    Attributes:
        estimators: one, or several that were trained on different events, whose φ are averaged.
        rate: ν(θ), if the number of events counts.
        indices: of its parameters among those of the whole model.
    """

    estimators: tuple[AbstractEstimator, ...]
    rate: Rate | None
    indices: tuple[int, ...]

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the observables."""
        return self.estimators[0].x_names

    @cached_property
    def wide_models(self) -> tuple[Any, ...]:
        """The models in float64."""
        with float64():
            return tuple(in_float64(one.model) for one in self.estimators)

    def tabulate(self, x: np.ndarray, thetas: np.ndarray, *, wide: bool = False) -> np.ndarray:
        """φ of every event at every θ of the whole model, shape (n, m), in float32 by default."""
        models = self.wide_models if wide else tuple(one.model for one in self.estimators)
        return tabulate(models, x, thetas[:, list(self.indices)], wide=wide)

    def expected(self, thetas: np.ndarray) -> np.ndarray:
        """ν at θ of the whole model, shape (m,)."""
        if self.rate is None:
            raise ValueError("this channel has no rate.")
        return self.rate.values(np.atleast_2d(thetas)[:, list(self.indices)])

    def rate_term(self, thetas: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """W ln ν(θ) − ν(θ) for sets of total weight W, shape (sets, m); 0 without a rate."""
        if self.rate is None:
            return np.zeros((len(totals), len(thetas)))
        expected = self.expected(thetas)
        return totals[:, None] * np.log(expected) - expected


@dataclasses.dataclass(frozen=True, eq=False)
class DataSets:
    """Data sets of one model, which all have the same numbers of events, padding included.

    Attributes:
        x: of each channel, shape (sets, n, D).
        weight: of each channel, shape (sets, n); 0 for padding.
        measured: by the constraints, shape (sets, d).
    """

    x: tuple[np.ndarray, ...]
    weight: tuple[np.ndarray, ...]
    measured: np.ndarray

    @property
    def totals(self) -> list[np.ndarray]:
        """Sum of weights of each channel, shape (sets,)."""
        return [weight.sum(axis=1) for weight in self.weight]

    @property
    def events(self) -> int:
        """Events of one set, in all channels."""
        return sum(x.shape[1] for x in self.x)


class _Surface(AbstractSurface):
    """ln L of many data sets for the batched maximisation; the data are chunked events."""

    models: tuple[tuple[Any, ...], ...]
    precision: Array
    rates: tuple[Rate | None, ...]
    indices: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    free: tuple[bool, ...] | None = eqx.field(static=True, default=None)

    def differentiate(self, data: Any) -> Callable[[Array], Derivatives]:  # noqa: ANN401
        """Of one data set."""
        return self.prepare(data).derivatives

    def prepare(self, data: Any) -> LogLikelihood:  # noqa: ANN401
        """Embed the events, once for the whole maximisation."""
        (x, weight, totals), measured = data
        sums = tuple(
            embed_events(models, events, weights)
            for models, events, weights in zip(self.models, x, weight, strict=True)
        )
        alone = ThetaTerms(measured, self.precision, totals, self.rates, self.indices)
        return LogLikelihood(alone, sums, self.free)


@dataclasses.dataclass(frozen=True, eq=False)
class LikelihoodModel:
    """Channels, constraints and the box of θ.

    Attributes:
        channels: the kinds of events.
        names: of the parameters.
        low, high: the box, shape (d,); equal for a fixed parameter.
        constraints: measurements of single parameters made elsewhere.
    """

    channels: tuple[Channel, ...]
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    constraints: Constraints

    @property
    def free(self) -> np.ndarray:
        """Which parameters are not fixed, shape (d,)."""
        return self.high > self.low

    def hold(self, indices: list[int], theta: np.ndarray) -> "LikelihoodModel":
        """The same with these parameters fixed at their values in θ."""
        low, high = self.low.copy(), self.high.copy()
        low[indices] = high[indices] = theta[indices]
        return dataclasses.replace(self, low=low, high=high)

    def measure(self, mean: np.ndarray) -> "LikelihoodModel":
        """The same with other measurements of the constrained parameters."""
        constraints = dataclasses.replace(self.constraints, mean=mean)
        return dataclasses.replace(self, constraints=constraints)

    def log_likelihood(self, data: DataSets) -> LogLikelihood:
        """ln L of the first data set as a JAX function."""
        with float64():
            shared, measured = _chunked(data, same=True)
            return eqx.filter_jit(_Surface.prepare)(
                self._surface, (shared, jnp.asarray(measured[0]))
            )

    @property
    def _surface(self) -> _Surface:
        return _Surface(
            tuple(channel.wide_models for channel in self.channels),
            jnp.asarray(self.constraints.precision),
            tuple(channel.rate for channel in self.channels),
            tuple(channel.indices for channel in self.channels),
        )

    def maximum(
        self,
        data: DataSets,
        start: np.ndarray,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
    ) -> Maximum:
        """Maximise ln L from each start, in boxes that are by default the model's, shapes (b, d).

        There is one data set for each start, or one for all.
        """
        same = len(data.measured) == 1
        box = [
            np.broadcast_to(ours if given is None else given, start.shape)
            for given, ours in ((low, self.low), (high, self.high))
        ]
        with float64():
            events, measured = _chunked(data, same=same)
            measured = np.broadcast_to(measured, start.shape)
            rows = sum(weight.shape[-1] for weight in events[1])
            return maximise(
                dataclasses.replace(self._surface, free=tuple(self.free.tolist())),
                measured if same else (events, measured),
                start,
                *box,
                shared=events if same else None,
                batch=max(1, MOST_TOGETHER // rows),
            )

    def best_of(self, data: DataSets, points: np.ndarray) -> np.ndarray:
        """The best of some θ for each data set, shape (sets, d)."""
        total = self.constraints.value(points[None], data.measured[:, None])
        channels = zip(self.channels, data.x, data.weight, data.totals, strict=True)
        for channel, x, weight, totals in channels:
            table = channel.tabulate(x.reshape(-1, x.shape[2]), points).astype(np.float64)
            table = table.reshape(*weight.shape, len(points))
            total = total + np.einsum("snm,sn->sm", table, weight)
            total = total + channel.rate_term(points, totals)
        return points[np.argmax(np.where(np.isnan(total), -np.inf, total), axis=1)]

    def best_start(self, data: DataSets, also: np.ndarray) -> np.ndarray:
        """The best of a scatter of θ and of those in `also`, for each data set, shape (sets, d)."""
        free = int(self.free.sum())
        most = TRIED_POINTS.get(free, max(TRIED_POINTS.values()))
        tried = TRIED_PAIRS // (len(data.measured) * max(1, data.events))
        count = int(np.clip(tried, FEWEST_TRIED, most)) if free else 0
        points = np.concatenate([also, scatter_points(self.low, self.high, count)])
        return self.best_of(data, np.clip(points, self.low, self.high))


def _chunked(data: DataSets, *, same: bool) -> tuple[Any, np.ndarray]:
    """Events, weights and totals of each channel in chunks, without the axis of sets if shared."""
    x = tuple(as_models_read(cut_in_chunks(events)) for events in data.x)
    weight = tuple(cut_in_chunks(weight[..., None], 0.0)[..., 0] for weight in data.weight)
    events = (x, weight, tuple(data.totals))
    if same:
        events = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), events)
    return events, data.measured
