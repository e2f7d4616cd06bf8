"""Features of events made of a variable number of particles, in any order.

x holds the features of every particle, slot by slot, padded where an event has fewer particles than
slots, and after them any columns that belong to the event as a whole. `ist.pad_particles` makes
such x out of ragged arrays, and `ist.ParticleSet` is a network for them.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...inputs import as_count, as_number, kind_of
from ...serial import Absent, known
from .feature_map import AbstractFeatureMap, as_jax
from .features import AbstractFeatures, Standardised


def _as_float32(value: float) -> float:
    """What models see of a number."""
    return float(np.float32(as_number(value, "padding")))


@known
class Layout(eqx.Module):
    """Where the particles are in x, and which of them are there."""

    particles: int = eqx.field(static=True)
    features: int = eqx.field(static=True)
    padding: float = eqx.field(static=True)
    mask: int | None = eqx.field(static=True)

    @property
    def columns(self) -> int:
        """Columns of x that belong to particles."""
        return self.particles * self.features

    @property
    def width(self) -> int:
        """Features of a particle besides the mask."""
        return self.features - (self.mask is not None)

    def present(self, slots: Any) -> Any:  # noqa: ANN401
        """Which slots, shape (…, particles, features), hold a particle."""
        if self.mask is not None:
            return slots[..., self.mask] != 0
        return (slots != self.padding).any(axis=-1)

    def measured(self, slots: Any) -> Any:  # noqa: ANN401
        """The slots without the mask."""
        others = np.array([i for i in range(self.features) if i != self.mask])
        return slots if self.mask is None else slots[..., others]


@known
class PerParticleMap(AbstractFeatureMap):
    """(features, presence) of every slot, then ln(1 + number of particles) and the event's columns.

    An absent slot is 0 throughout; the presence of a particle is 1/√(mean number of particles), by
    which sums over particles come out of order one. The slots are put into an order that depends
    on their contents alone, absent ones last. That matters for rounding only: it makes sums over
    particles the same to the last digit, in whatever order the particles came.
    """

    each: AbstractFeatureMap
    event: AbstractFeatureMap
    presence: Float[Array, ""] = eqx.field(converter=as_jax)
    layout: Layout

    def __call__(self, value: Float[Array, " dim"]) -> Float[Array, " features"]:
        """The features of one event."""
        return self.arrange(value, sort_rows)

    def arrange(
        self, value: Float[Array, " dim"], order: Callable[[Array], Array]
    ) -> Float[Array, " features"]:
        """The features of one event, with the slots put in order by a function of them."""
        layout = self.layout
        slots = value[: layout.columns].reshape(layout.particles, layout.features)
        present = layout.present(slots)[:, None]
        scaled = jax.vmap(self.each)(layout.measured(slots))
        rows = jnp.concatenate([scaled, jnp.full((len(slots), 1), self.presence)], axis=1)
        rows = order(jnp.where(present, rows, 0))
        number = jnp.log1p(jnp.sum(present, dtype=value.dtype))
        event = self.event(jnp.concatenate([number[None], value[layout.columns :]]))
        return jnp.concatenate([rows.ravel(), event])


def sort_rows(rows: Float[Array, "particles width"]) -> Float[Array, "particles width"]:
    """The rows in descending order of the last column, then of the one before it, and so on."""
    return rows[jnp.lexsort([-column for column in rows.T])]


@known
class PerParticle(AbstractFeatures):
    """Features of particles, standardised alike in every slot, on the particles that are there.

    x has `particles`·`features` columns, particle by particle, and after them any number of
    columns that belong to the whole event. A slot is absent where all its features equal
    `padding`, or, with `mask`, where that feature is 0.

    Args:
        particles: number of slots.
        features: number of columns of one particle, the mask included.
        padding: what stands in absent slots.
        mask: index of the feature, counted from 0, that is 0 in absent slots and another number
            where there is a particle; it is not used as a feature.
        scaling: of the particles' features, and separately of the event's columns.
    """

    particles: int = eqx.field(static=True)
    features: int = eqx.field(static=True)
    padding: float = eqx.field(static=True, default=0.0, converter=_as_float32)
    mask: int | None = eqx.field(static=True, default=None)
    scaling: AbstractFeatures = eqx.field(default_factory=Standardised)

    def __check_init__(self) -> None:
        as_count(self.particles, "particles")
        as_count(self.features, "features")
        if not isinstance(self.scaling, AbstractFeatures | Absent):
            raise TypeError(
                f"scaling must be such as ist.Standardised(); got {kind_of(self.scaling)}."
            )
        if self.mask is None:
            return
        if isinstance(self.mask, bool) or not isinstance(self.mask, int):
            raise TypeError(f"mask must be the index of a feature; got {self.mask!r}.")
        if not 0 <= self.mask < self.features:
            raise ValueError(
                f"mask must be the index of one of the {self.features} features of a particle, "
                f"counted from 0; got {self.mask}."
            )
        if self.features == 1:
            raise ValueError("a particle needs a feature besides the mask.")

    @property
    def layout(self) -> Layout:
        """The layout of x."""
        return Layout(self.particles, self.features, self.padding, self.mask)

    def learn(self, rows: np.ndarray) -> PerParticleMap:
        """Constants from the particles that are there."""
        layout = self.layout
        rows = np.asarray(rows, np.float32).astype(np.float64)
        if rows.shape[1] < layout.columns:
            raise ValueError(
                f"{self.particles} particles of {self.features} features need {layout.columns} "
                f"columns of x, but it has {rows.shape[1]}."
            )
        slots = rows[:, : layout.columns].reshape(len(rows), self.particles, self.features)
        present = layout.present(slots)
        if not present.any():
            cause = f"equals padding={self.padding:g}" if self.mask is None else "has a mask of 0"
            raise ValueError(f"no event has any particle: every slot {cause}.")
        number = present.sum(axis=1)
        event = np.column_stack([np.log1p(number), rows[:, layout.columns :]])
        return PerParticleMap(
            each=self.scaling.learn(layout.measured(slots)[present]),
            event=self.scaling.learn(event),
            presence=1 / np.sqrt(number.mean()),
            layout=layout,
        )
