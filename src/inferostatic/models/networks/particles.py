"""Events made of a variable number of particles, in any order.

x holds the features of every particle, slot by slot, padded where an event has fewer particles than
slots, and after them any columns that belong to the event as a whole. `PerParticle` turns that into
standardised features and a mask; `ParticleSet` is a potential that does not depend on the order of
the particles nor on the number of empty slots; `pad_particles` makes x out of ragged arrays.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ...inputs import Input, as_count, as_floats, as_names, as_rows, bad_rows, column_names
from ...serial import known
from ..architecture import build_pair, build_vector, takes_pairs
from ..features.feature_map import AbstractFeatureMap, IdentityMap, as_jax
from ..features.features import AbstractFeatures, Standardised
from ..potential import PotentialModel
from .networks import MLP, AbstractPairNetwork, Residual

NO_PARTICLE = "no event has any particle."


def _as_float32(value: float) -> float:
    """What models see of a number."""
    return float(np.float32(value))


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
        kept = np.array([i for i in range(self.features) if i != self.mask])
        return slots if self.mask is None else slots[..., kept]


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
        layout = self.layout
        slots = value[: layout.columns].reshape(layout.particles, layout.features)
        present = layout.present(slots)[:, None]
        scaled = jax.vmap(self.each)(layout.measured(slots))
        rows = jnp.concatenate([scaled, jnp.full((len(slots), 1), self.presence)], axis=1)
        rows = in_order(jnp.where(present, rows, 0))
        number = jnp.log1p(jnp.sum(present, dtype=value.dtype))
        event = self.event(jnp.concatenate([number[None], value[layout.columns :]]))
        return jnp.concatenate([rows.ravel(), event])


def in_order(rows: Float[Array, "particles width"]) -> Float[Array, "particles width"]:
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
        """Whole numbers, and a mask among the features."""
        as_count(self.particles, "particles")
        as_count(self.features, "features")
        if not np.isfinite(self.padding):
            raise ValueError(f"padding must be finite; got {self.padding}. Events refuse NaN in x.")
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
            told = f"equals padding={self.padding:g}" if self.mask is None else "has a mask of 0"
            raise ValueError(f"no event has any particle: every slot {told}.")
        number = present.sum(axis=1)
        event = np.column_stack([np.log1p(number), rows[:, layout.columns :]])
        return PerParticleMap(
            each=self.scaling.learn(layout.measured(slots)[present]),
            event=self.scaling.learn(event),
            presence=jnp.asarray(1 / np.sqrt(number.mean()), jnp.float32),
            layout=layout,
        )


class ParticleNetwork(AbstractPairNetwork):
    """A deep set with its weights."""

    each: Any
    joined: PotentialModel
    particles: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def summary(self, x: Float[Array, " features"]) -> Float[Array, " summary"]:
        """Sum, mean and maximum over the particles, and what belongs to the whole event."""
        count = self.particles * (self.width + 1)
        rows = x[:count].reshape(self.particles, self.width + 1)
        presence = rows[:, -1]
        present = presence > 0
        some = jnp.any(present)
        embedded = jax.vmap(self.each)(rows[:, :-1])
        total = jnp.sum(embedded * presence[:, None], axis=0)
        mean = total / jnp.where(some, jnp.sum(presence), 1)
        largest = jnp.max(jnp.where(present[:, None], embedded, -jnp.inf), axis=0)
        return jnp.concatenate([total, mean, jnp.where(some, largest, 0), x[count:]])

    def embed_x(self, x: Float[Array, " features"]) -> Any:  # noqa: ANN401
        """What the joining network needs of the summary."""
        return self.joined.embed_x(self.summary(x))

    def embed_theta(self, theta: Float[Array, " theta_dim"]) -> Any:  # noqa: ANN401
        """What the joining network needs of θ."""
        return self.joined.embed_theta(theta)

    def join(self, x_part: Any, theta_part: Any) -> Float[Array, ""]:  # noqa: ANN401
        """The potential."""
        return self.joined.join(x_part, theta_part)


@known
class ParticleSet(eqx.Module):
    """A choice of potential for events of particles: a deep set, joined with θ.

    Every particle passes through the same network; the sum, the mean and the maximum of what it
    gives, the logarithm of the number of particles and the columns of the whole event are joined
    with θ by another. The result depends neither on the order of the particles nor on the number
    of empty slots. How x is laid out, `ist.PerParticle` tells.

    Args:
        particles: number of slots in x.
        features: number of columns of one particle.
        size: number of values that are pooled over the particles.
        particle_network: of one particle, such as `ist.MLP((64, 64))`.
        join_network: of the pooled values and θ, such as `ist.Residual()` or, for grids of many
            events and θ, `ist.TwoTower()`. For second derivatives by θ it needs a smooth
            activation.
        x_features: `ist.PerParticle(particles, features, …)` with other padding, a mask or another
            scaling.
    """

    particles: int = eqx.field(static=True)
    features: int = eqx.field(static=True)
    size: int = eqx.field(static=True, default=32)
    particle_network: Any = eqx.field(default_factory=lambda: MLP((64, 64)))
    join_network: Any = eqx.field(default_factory=Residual)
    x_features: PerParticle | None = None

    def __post_init__(self) -> None:
        """The usual features."""
        if self.x_features is None:
            self.x_features = PerParticle(self.particles, self.features)

    def __check_init__(self) -> None:
        """One layout of x, not two."""
        as_count(self.size, "size")
        given = self.x_features
        if not isinstance(given, PerParticle):
            raise TypeError(f"x_features must be ist.PerParticle(…); got {given!r}.")
        if (given.particles, given.features) != (self.particles, self.features):
            raise ValueError(
                f"ParticleSet has {self.particles} particles of {self.features} features, but its "
                f"x_features {given.particles} of {given.features}."
            )

    def __call__(self, x_size: int, theta_size: int, *, key: PRNGKeyArray) -> ParticleNetwork:
        """Build the network."""
        assert self.x_features is not None
        layout = self.x_features.layout
        event = x_size - layout.particles * (layout.width + 1)
        if event < 1:
            raise ValueError(f"ParticleSet needs the features {self.x_features}.")
        each_key, join_key = jax.random.split(key)
        each = build_vector(self.particle_network, layout.width, self.size, key=each_key)
        summary = 3 * self.size + event
        if takes_pairs(self.join_network):
            network = build_pair(self.join_network, summary, theta_size, key=join_key)
        else:
            network = build_vector(self.join_network, summary + theta_size, 1, key=join_key)
        # A potential of the summary and θ, whichever kind of network it has.
        joined = PotentialModel(IdentityMap(), IdentityMap(), network)
        return ParticleNetwork(each, joined, layout.particles, layout.width)


@dataclasses.dataclass(frozen=True, eq=False)
class ParticleTable:
    """Events of particles as a matrix with named columns, which `Events` and estimators read.

    Attributes:
        x: shape (n, particles·features + event columns).
        columns: such as pt_1, eta_1, pt_2, eta_2, …
    """

    x: np.ndarray
    columns: tuple[str, ...]

    def __len__(self) -> int:
        """Number of events."""
        return len(self.x)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: ANN401, FBT001
        """The matrix."""
        return np.array(self.x, dtype=dtype, copy=copy)


def pad_particles(
    events: Any,  # noqa: ANN401
    *,
    particles: int,
    names: Sequence[str] | None = None,
    event: Input | None = None,
    padding: float = 0.0,
    truncate: bool = False,
) -> ParticleTable:
    """Events with unequal numbers of particles as the matrix that `ist.ParticleSet` takes.

    Args:
        events: a list with an array of shape (particles, features) for each event, or an awkward
            array of the same, or one of records such as {pt, eta, phi}.
        particles: number of slots for each event; what is left over is padded.
        names: of the features; those of the records, or x0, x1, ….
        event: further columns that belong to the whole event, shape (n, columns).
        padding: what stands in empty slots. No particle may have this value in all its features.
        truncate: keep the first `particles` of events that have more, instead of refusing them.
            Sort the particles first, for example by descending transverse momentum.

    Example:
        >>> import inferostatic as ist
        >>> table = ist.pad_particles([[[7.0, 0.5]], []], particles=2, names=["pt", "eta"])
        >>> table.columns
        ('pt_1', 'eta_1', 'pt_2', 'eta_2')
        >>> table.x
        array([[7. , 0.5, 0. , 0. ],
               [0. , 0. , 0. , 0. ]])
    """
    particles, padding = as_count(particles, "particles"), float(padding)
    ragged = _from_awkward(events) if _is_awkward(events) else _from_list(events)
    number, flat = ragged.number, ragged.flat
    _check_particles(ragged, particles, padding, truncate=truncate)
    features = flat.shape[1]
    first = np.cumsum(number) - number
    row = np.repeat(np.arange(len(number)), number)
    slot = np.arange(len(flat)) - np.repeat(first, number)
    kept = slot < particles
    slots = np.full((len(number), particles, features), padding)
    slots[row[kept], slot[kept]] = flat[kept]
    stems = as_names(ragged.names if names is None else names, features, "x")
    columns = [f"{stem}_{i + 1}" for i in range(particles) for stem in stems]
    parts = [slots.reshape(len(number), -1)]
    if event is not None:
        rows = as_rows(event, "event", of="columns")
        if len(rows) != len(number):
            raise ValueError(f"there are {len(number)} events, but event has {len(rows)} rows.")
        parts.append(rows)
        columns += as_names(column_names(event), rows.shape[1], "event")
    return ParticleTable(np.concatenate(parts, axis=1), tuple(columns))


@dataclasses.dataclass(frozen=True)
class _Ragged:
    """All particles one after another, and how many each event has."""

    number: np.ndarray
    flat: np.ndarray
    names: tuple[str, ...] | None = None


def _is_awkward(events: object) -> bool:
    return type(events).__module__.partition(".")[0] == "awkward"


def _from_awkward(events: Any) -> _Ragged:  # noqa: ANN401
    import awkward as ak

    names = tuple(events.fields) or None
    try:
        number = as_floats(ak.num(events, axis=1), "the numbers of particles").astype(int)
        particles = ak.flatten(events, axis=1)
        if names is not None:
            columns = [as_floats(particles[name], name) for name in names]
            return _Ragged(number, np.stack(columns, axis=1).astype(np.float64), names)
        flat = as_floats(particles, "the particles").astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "an awkward array of particles has one list of particles for each event, and each "
            f"particle the same numbers of features or the same fields: {error}"
        ) from error
    if not number.any():
        raise ValueError(NO_PARTICLE)
    return _Ragged(number, _as_matrix(flat, "the particles"))


def _from_list(events: Any) -> _Ragged:  # noqa: ANN401
    if isinstance(events, str | bytes | Mapping) or not isinstance(events, Iterable):
        raise TypeError(
            "pad_particles takes a list with an array of shape (particles, features) for each "
            f"event, or an awkward array; got {type(events).__name__}."
        )
    arrays = [as_floats(one, f"event {i}") for i, one in enumerate(events)]
    filled = [i for i, array in enumerate(arrays) if array.size]
    if not filled:
        raise ValueError(NO_PARTICLE)
    features = _as_matrix(arrays[filled[0]], f"event {filled[0]}").shape[1]
    for i in filled:
        if _as_matrix(arrays[i], f"event {i}").shape[1] != features:
            raise ValueError(
                f"all particles need the same features; event {filled[0]} has {features} of them "
                f"and event {i} {arrays[i].shape[1]}."
            )
    number = np.array([len(array) if array.size else 0 for array in arrays])
    return _Ragged(number, np.concatenate([arrays[i] for i in filled]).astype(np.float64))


def _as_matrix(array: np.ndarray, name: str) -> np.ndarray:
    if array.ndim != 2:
        raise ValueError(
            f"{name} must have two axes, (particles, features); got shape {array.shape}. For one "
            "feature of each particle use [:, None]."
        )
    return array


def _check_particles(ragged: _Ragged, particles: int, padding: float, *, truncate: bool) -> None:
    number, flat = ragged.number, ragged.flat
    row = np.repeat(np.arange(len(number)), number)
    fits = number <= particles
    if not fits.all() and not truncate:
        raise ValueError(
            f"there are more than {particles} particles in {bad_rows(fits)}, up to "
            f"{number.max()}. Raise particles=, or keep the first {particles} of each event with "
            "truncate=True."
        )
    for wrong, told in (
        (~np.isfinite(flat).all(axis=1), "has NaN or infinite features"),
        (
            (flat.astype(np.float32) == np.float32(padding)).all(axis=1),
            f"has {padding:g} in all its features and would be taken for padding; choose another "
            "padding=, and the same in ist.PerParticle(…)",
        ),
    ):
        if wrong.any():
            good = ~np.bincount(row[wrong], minlength=len(number)).astype(bool)
            raise ValueError(f"some particle {told}: {bad_rows(good)}.")
