r"""\(\ln L(\theta)=\sum_iw_i\varphi(x_i,\theta)-\frac12\sum_k((\theta_k-a_k)/\sigma_k)^2\) of sets.

The sets are the observed one or many toys; a_k is what was measured elsewhere of a constrained
parameter, and differs from toy to toy as the events do.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.estimator import Estimator
from ...inputs import as_floats
from ...models.members import over_members
from ...models.potential import AbstractModel
from ..arguments import values_by_name
from .minuit import checked_fixed
from .newton import AbstractSurface, Maximum, climb
from .objective import Constraints

#: Events of a set that are summed in one step, events of all climbers in one compiled call, and
#: pairs of event and θ in one table.
MOST_ROWS, MOST_TOGETHER, MOST_PAIRS = 1024, 1 << 13, 1 << 13
#: θ at which a set is looked at before climbing, by the number of free parameters; and the most
#: pairs of event and θ that are spent on it.
LOOKS, LOOK_PAIRS, FEWEST_LOOKS = {0: 1, 1: 64, 2: 256, 3: 512}, 1 << 20, 16


class EventSurface(AbstractSurface):
    """ln L of a set of events; `shared` weights of shape (chunks, rows)."""

    model: Any
    weight: Array
    precision: Array
    #: Whether all climbers look at the same events.
    same: bool = eqx.field(static=True)

    def derivatives(self, data: Any, theta: Array) -> tuple[Array, Array, Array]:  # noqa: ANN401
        """Summed chunk by chunk, so that memory does not grow with the events."""
        x, measured = data

        def value(theta: Array, x: Array, weight: Array) -> Array:
            phi = over_members(
                self.model, lambda member: jax.vmap(member.potential, (0, None))(x, theta)
            )
            return jnp.sum(jnp.where(weight > 0, weight * phi, 0.0))

        def three(x: Array, weight: Array) -> tuple[Array, Array, Array]:
            def twice(theta: Array) -> tuple[Array, tuple[Array, Array]]:
                f, g = jax.value_and_grad(value)(theta, x, weight)
                return g, (f, g)

            hessian, (f, g) = jax.jacfwd(twice, has_aux=True)(theta)
            return f, g, hessian

        if len(self.weight) == 1:
            f, g, hessian = three(x[0], self.weight[0])
        else:

            def add(total: Any, chunk: tuple[Array, Array]) -> tuple[Any, None]:  # noqa: ANN401
                return jax.tree.map(jnp.add, total, three(*chunk)), None

            d = len(theta)
            nothing = (jnp.zeros(()), jnp.zeros(d), jnp.zeros((d, d)))
            (f, g, hessian), _ = jax.lax.scan(add, nothing, (x, self.weight))
        pull = self.precision * (theta - measured)
        return (
            f - 0.5 * jnp.sum(pull * (theta - measured)),
            g - pull,
            hessian - jnp.diag(self.precision),
        )


@eqx.filter_jit
def _table(model: AbstractModel, x: Array, thetas: Array) -> Array:
    return over_members(model, lambda member: member.grid(x, thetas))


@dataclasses.dataclass(frozen=True, eq=False)
class SetLikelihood:
    """ln L of sets of events in a box of θ.

    Attributes:
        narrow, wide: the estimator's model in float32 and float64.
        names: of the parameters.
        low, high: the physical region, shape (d,); equal for a fixed parameter.
        measured: of the constrained parameters, shape (d,).
        precision: of these measurements, shape (d,); 0 for parameters without one.
    """

    narrow: Any
    wide: Any
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    measured: np.ndarray
    precision: np.ndarray

    @staticmethod
    def of(
        estimator: Estimator,
        *,
        constraints: Mapping[str, tuple[float, float]] | None = None,
        fixed: Mapping[str, float] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> "SetLikelihood":
        """Read and check what restricts θ."""
        names, region = estimator.theta_names, estimator.region
        low, high = (np.asarray(a, np.float64) for a in (region.theta_low, region.theta_high))
        low, high = checked_bounds(bounds, names, low, high)
        for name, value in checked_fixed(fixed, names, low, high).items():
            low[names.index(name)] = high[names.index(name)] = value
        terms = Constraints(constraints or {}, names)
        with jax.enable_x64(True):  # noqa: FBT003
            wide = jax.tree.map(
                lambda leaf: jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array(leaf) else leaf,
                estimator.model,
            )
        return SetLikelihood(estimator.model, wide, names, low, high, terms.mean, terms.precision)

    @property
    def free(self) -> np.ndarray:
        """Which parameters are not fixed, shape (d,)."""
        return self.high > self.low

    def held(self, places: list[int], theta: np.ndarray) -> "SetLikelihood":
        """The same with these parameters fixed at their values in θ."""
        low, high = self.low.copy(), self.high.copy()
        low[places] = high[places] = theta[places]
        return dataclasses.replace(self, low=low, high=high)

    def table(self, x: np.ndarray, thetas: np.ndarray, *, wide: bool = False) -> np.ndarray:
        """φ of every event at every θ, shape (n, m), in float32 unless `wide`."""
        kind = np.float64 if wide else np.float32
        table = np.empty((len(x), len(thetas)), kind)
        # Blocks that stay in the cache: larger ones took up to five times as long.
        points = min(len(thetas), 128)
        rows = min(1 << (len(x) - 1).bit_length(), max(16, MOST_PAIRS // points // (1 + wide)))
        with jax.enable_x64(wide):
            model = self.wide if wide else self.narrow
            for start in range(0, len(thetas), points):
                part = thetas[start : start + points]
                some = jnp.asarray(_padded(part, points), kind)
                for first in range(0, len(x), rows):
                    place = table[first : first + rows, start : start + points]
                    events = jnp.asarray(_padded(x[first : first + rows], rows), kind)
                    place[:] = np.asarray(_table(model, events, some))[
                        : place.shape[0], : place.shape[1]
                    ]
        return table

    def constraint(self, thetas: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """The constraints' part of ln L, for θ and measurements that broadcast."""
        return -0.5 * np.sum(self.precision * (thetas - measured) ** 2, axis=-1)

    def maximum(
        self,
        x: np.ndarray,
        start: np.ndarray,
        *,
        measured: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
    ) -> Maximum:
        """Climb from each start, shape (b, d).

        Args:
            x: one set of events for each start, shape (b, n, D), or one for all, (1, n, D).
            start: where to begin.
            measured: what each set's constraints measured, (b, d); the observed values if omitted.
            weight: of the n events.
            low: lower ends of the boxes, (b, d) or (d,), if not the whole region.
            high: upper ends.
        """
        events = x.shape[1]
        rows = min(MOST_ROWS, 1 << (events - 1).bit_length())
        chunks = -(-events // rows)
        padding = chunks * rows - events
        full = np.concatenate([x, np.repeat(x[:, -1:], padding, axis=1)], axis=1)
        weights = np.concatenate([np.ones(events) if weight is None else weight, np.zeros(padding)])
        full = full.reshape(len(x), chunks, rows, -1).astype(np.float32).astype(np.float64)
        same = len(x) == 1
        measured = np.broadcast_to(self.measured if measured is None else measured, start.shape)
        box = [
            np.broadcast_to(ours if given is None else given, start.shape)
            for given, ours in ((low, self.low), (high, self.high))
        ]
        with jax.enable_x64(True):  # noqa: FBT003
            surface = EventSurface(
                self.wide,
                jnp.asarray(weights.reshape(chunks, rows)),
                jnp.asarray(self.precision),
                same,
            )
            return climb(
                surface,
                measured if same else (full, measured),
                start,
                *box,
                shared=jnp.asarray(full[0]) if same else None,
                batch=max(1, MOST_TOGETHER // rows),
            )

    def best_start(
        self, x: np.ndarray, *, also: np.ndarray, measured: np.ndarray | None = None
    ) -> np.ndarray:
        """The best of a scatter of θ for each set, shape (b, d), from sets of shape (b, n, D).

        Args:
            x: the sets.
            also: points that are looked at besides the scatter, shape (m, d).
            measured: what each set's constraints measured, (b, d).
        """
        sets, events = x.shape[:2]
        free = int(self.free.sum())
        looks = int(
            np.clip(
                LOOK_PAIRS // (sets * events), FEWEST_LOOKS, LOOKS.get(free, max(LOOKS.values()))
            )
        )
        points = np.concatenate([also, scatter(self.low, self.high, looks if free else 0)])
        points = np.clip(points, self.low, self.high)
        table = self.table(x.reshape(sets * events, -1), points).astype(np.float64)
        total = table.reshape(sets, events, -1).sum(axis=1)
        measured = self.measured[None] if measured is None else measured
        total = total + self.constraint(points[None], measured[:, None])
        return points[np.argmax(np.where(np.isnan(total), -np.inf, total), axis=1)]


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[-1:], count - len(rows), axis=0)])


def scatter(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """Evenly spread points in a box, without randomness: multiples of irrational numbers."""
    free = np.flatnonzero(high > low)
    points = np.repeat(low[None], count, axis=0)
    if len(free) == 1:
        unit = (np.arange(count)[:, None] + 0.5) / max(count, 1)
    else:
        unit = kronecker(count, len(free))
    points[:, free] = low[free] + unit * (high - low)[free]
    return points


def kronecker(count: int, dim: int) -> np.ndarray:
    """The additive sequence of the generalised golden ratio in the unit cube, (count, dim)."""
    ratio = 1.5
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (dim + 1))
    steps = ratio ** -np.arange(1.0, dim + 1)
    return (0.5 + np.arange(count)[:, None] * steps) % 1.0


def checked_bounds(
    bounds: Mapping[str, tuple[float, float]] | None,
    names: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The region cut by the user's bounds of single parameters."""
    low, high = low.copy(), high.copy()
    for name, pair in values_by_name(bounds, names, "bounds").items():
        place = names.index(name)
        values = as_floats(pair, f"the bounds of {name}")
        inside = values.shape == (2,) and low[place] <= values[0] < values[1] <= high[place]
        if not inside:
            raise ValueError(
                f"the bounds of {name} must be a pair (low, high) in the trained region, "
                f"{low[place]:.5g} to {high[place]:.5g}; got {pair!r}."
            )
        low[place], high[place] = values
    return low, high
