"""Events with unequal numbers of particles, from lists or awkward arrays, as columns of x."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...inputs import (
    Input,
    as_count,
    as_flag,
    as_floats,
    as_names,
    as_number,
    as_rows,
    bad_rows,
    column_names,
    require_finite,
)
from ...summary import AbstractSummarised, Summary, count, list_names, tabulate_arrays

#: Message about input in which all events are empty.
NO_PARTICLE = "no event has any particle."


#: Most slots for particles of one event.
MOST_PARTICLES = 1_000_000


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ParticleTable(AbstractSummarised):
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

    def __repr__(self) -> str:
        """Number and columns, in a line."""
        return f"ParticleTable({count(len(self), 'event')}, {list_names(self.columns)})"

    def _summarise(self) -> Summary:
        title = f"{count(len(self), 'event')} of particles in {count(len(self.columns), 'column')}"
        return Summary(title, tabulate_arrays("column", self.columns, self.x))

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
        names: of the features; default those of the records, or x0, x1, ….
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
    particles = as_count(particles, "particles", most=MOST_PARTICLES)
    padding, truncate = as_number(padding, "padding"), as_flag(truncate, "truncate")
    ragged = _from_awkward(events) if _is_awkward(events) else _from_list(events)
    number, flat = ragged.number, ragged.flat
    _check_particles(ragged, particles, padding, truncate=truncate)
    features = flat.shape[1]
    first = np.cumsum(number) - number
    row = np.repeat(np.arange(len(number)), number)
    slot = np.arange(len(flat)) - np.repeat(first, number)
    fits = slot < particles
    slots = np.full((len(number), particles, features), padding)
    slots[row[fits], slot[fits]] = flat[fits]
    stems = as_names(ragged.names if names is None else names, features, "x")
    columns = [f"{stem}_{i + 1}" for i in range(particles) for stem in stems]
    parts = [slots.reshape(len(number), -1)]
    if event is not None:
        rows = as_rows(event, "event", of="columns")
        require_finite(rows, "event", "Remove or repair these events.")
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
    bare = isinstance(events, np.ndarray) and events.ndim == 0
    if bare or not isinstance(events, list | tuple | np.ndarray | Iterator):
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
    padded = (
        f"has {padding:g} in all its features and would be taken for padding; choose another "
        "padding=, and the same in ist.PerParticle(…)"
    )
    for wrong, fault in (
        (~np.isfinite(flat).all(axis=1), "has NaN or infinite features"),
        ((flat.astype(np.float32) == np.float32(padding)).all(axis=1), padded),
    ):
        if wrong.any():
            good = ~np.bincount(row[wrong], minlength=len(number)).astype(bool)
            raise ValueError(f"some particle {fault}: {bad_rows(good)}.")
