"""`Events`: simulated events with the parameters they were made at, checked when they are made."""

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ..inputs import (
    Input,
    as_floats,
    as_names,
    as_rows,
    as_text,
    bad_rows,
    column_names,
    kind_of,
    require_finite,
    require_float32,
    require_order,
    rounded,
    row_slices,
    warn_user,
)
from ..memory_map import is_mapped, read_rows, require_whole
from ..summary import (
    AbstractSummarised,
    Summary,
    count,
    list_names,
    shorten,
    tabulate_arrays,
    tabulate_facts,
    tabulate_first,
)
from ..weights import effective_size, require_weights
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior
from .latent import Latent, check_latent, freeze
from .origin import Origin, join_origins

#: Different θ of memory-mapped events without a prior, at most: their list is held in memory.
MOST_MAPPED_POINTS = 1000


class EventArrays(NamedTuple):
    """The arrays of a set of events, as they were checked."""

    x: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    latent: Latent


class AbstractEventSource(abc.ABC):
    """Where events come from that are read on first use.

    Attributes:
        count: number of events.
        weighted: whether there are weights other than 1.
    """

    count: int
    weighted: bool

    @abc.abstractmethod
    def read(self) -> EventArrays:
        """The arrays; those that may be larger than the memory are memory-mapped."""


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Events(AbstractSummarised):
    """Events x, the parameters θ they were simulated at, weights and names.

    Arrays in memory are copied. Memory-mapped ones, from `np.load(path, mmap_mode="r")` or
    `np.memmap`, stay in their files, which may be larger than the memory; leave the files as they
    are while the events are in use.

    Args:
        x: observables, shape (n, D). In a data frame booleans are read as 0 and 1; categories, text
            and dates must be encoded first.
        theta: parameters, shape (n, d); one θ of shape (d,) serves all events.
        weight: one weight for each event, of either sign; default 1.
        latent: latent information: arrays by name, one row for each event, such as `joint_score`,
            the joint score at the event's θ; or `ist.Latent(arrays, joint)`.
        prior: the distribution that `theta` was drawn from. Without it methods draw candidates
            from the stored θ themselves, which is exact but less local.
        x_names, theta_names: names of the columns.
    """

    x: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    latent: Latent
    prior: AbstractPrior | None
    x_names: tuple[str, ...]
    theta_names: tuple[str, ...]
    #: A text that stands for all arrays, where whoever made them knows one: see `identified`.
    identity: str | None = dataclasses.field(init=False, default=None)
    #: Where they come from, as far as whoever made them said it: see `made_by` and `with_origin`.
    origin: Origin | None = dataclasses.field(init=False, default=None)

    def __init__(
        self,
        *,
        x: Input,
        theta: Input,
        weight: Input | None = None,
        latent: Mapping[str, Input] | None = None,
        prior: AbstractPrior | None = None,
        x_names: Sequence[str] | None = None,
        theta_names: Sequence[str] | None = None,
    ) -> None:
        """Check everything; nothing is dropped or repaired silently.

        The arrays are copied and can no longer be written to, so what was checked stays true; of
        memory-mapped arrays only a view is taken, through which nothing can be written.
        """
        renamed = theta_names is not None
        for table, new, name in ((x, x_names, "x"), (theta, theta_names, "theta")):
            if new is None or isinstance(new, str) or not isinstance(new, Sequence):
                continue
            if all(isinstance(one, str) for one in new):  # or they are refused below
                require_order(column_names(table), new, name, renamed=True)
        x_names = column_names(x) if x_names is None else x_names
        theta_names = column_names(theta) if theta_names is None else theta_names
        x_rows = as_rows(x, "x", of="observables")
        mapped = is_mapped(x_rows)
        if len(x_rows) == 0:
            raise ValueError("x holds no events; at least one is needed.")
        if x_rows.shape[1] == 0:
            raise ValueError("x has no columns; at least one observable is needed.")
        theta_rows = as_floats(theta, "theta")
        one_theta = theta_rows.ndim == 1
        if one_theta:
            theta_rows = _one_theta(theta_rows, len(x_rows), prior)
        theta_rows = as_rows(theta_rows, "theta", of="parameters")
        if theta_rows.shape[1] == 0:
            raise ValueError("theta has no columns; at least one parameter is needed.")
        if len(theta_rows) != len(x_rows):
            raise ValueError(
                f"x has {len(x_rows)} rows and theta {len(theta_rows)}; each event needs the θ it "
                "was simulated at."
            )
        for given, rows, name in ((x, x_rows, "x"), (theta, theta_rows, "theta")):
            _warn_of_copy(given, rows, name)
            require_whole(rows, name)
        remedy = "Remove or repair these events, and find out why the simulator made them."
        require_finite(x_rows, "x", remedy)
        require_finite(theta_rows, "theta", remedy)
        if prior is not None:
            _check_prior(theta_rows, x_rows, prior)
            theta_names = prior.names if theta_names is None else theta_names
            theta_names = as_names(theta_names, theta_rows.shape[1], "theta")
            require_order(theta_names, prior.names, "theta", renamed=renamed)
        names = as_names(x_names, x_rows.shape[1], "x")
        parameters = as_names(theta_names, theta_rows.shape[1], "theta")
        require_float32(x_rows, names, "x")
        require_float32(theta_rows, parameters, "theta")
        assign = object.__setattr__
        assign(self, "x", freeze(x_rows))
        assign(self, "theta", theta_rows if one_theta and mapped else freeze(theta_rows))
        assign(self, "weight", _check_weight(weight, len(x_rows), mapped=mapped))
        found = latent if isinstance(latent, Latent) else Latent({} if latent is None else latent)
        check_latent(found, theta_rows, parameters)
        assign(self, "latent", found)
        assign(self, "prior", prior)
        assign(self, "x_names", names)
        assign(self, "theta_names", parameters)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """The arrays of events that are read on first use."""
        source = self.__dict__.get("_source")
        if source is None or name not in EventArrays._fields:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(source.read()._asdict())
        return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; it reads arrays that have a source for itself."""
        left_out = EventArrays._fields if "_source" in self.__dict__ else ()
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __len__(self) -> int:
        """Number of events."""
        source = self.__dict__.get("_source")
        return len(self.x) if source is None else source.count

    @property
    def mapped(self) -> bool:
        """Whether x stays in its file, memory-mapped."""
        return is_mapped(self.x)

    def __getitem__(self, rows: slice | Input) -> "Events":
        """The chosen events: a slice, a mask or row numbers.

        A slice of memory-mapped events stays in the file; a mask or row numbers copy the chosen
        events into memory.
        """
        index = rows if isinstance(rows, slice) else _row_index(rows, len(self))
        return Events(
            x=self.x[index],
            theta=self.theta[index],
            weight=self.weight[index],
            latent=self.latent.map(lambda values: values[index]),
            prior=self.prior,
            x_names=self.x_names,
            theta_names=self.theta_names,
        ).with_origin(self.origin)

    def made_by(self, simulator: str, *, version: str | None = None) -> "Events":
        """The same events with the name of the simulator that made them.

        The card of a model that is trained on them says it. `ist.simulate` knows it already.

        Args:
            simulator: its name, such as "MadGraph and Delphes".
            version: of the simulator.

        >>> events = Events(x=[[1.0], [2.0]], theta=[[0.0], [1.0]])
        >>> events.made_by("MadGraph", version="3.5.1").origin
        Origin(simulator='MadGraph', version='3.5.1', seed=None, source=None)
        """
        named = dataclasses.replace(self.origin or Origin(), simulator=simulator, version=version)
        return self.with_origin(named)

    def with_origin(self, origin: Origin | None) -> "Events":
        """The same events with a record of where they come from."""
        copied = object.__new__(Events)
        vars(copied).update(vars(self), origin=origin)
        return copied

    def identified(self, identity: str) -> "Events":
        """The same events with a text that no others have, such as the checksum of a store.

        A checkpoint compares it in place of the arrays, which need not be read for that.
        """
        copied = object.__new__(Events)
        vars(copied).update(vars(self), identity=as_text(identity, "identity"))
        return copied

    def checkpoint_identity(self) -> dict[str, object]:
        """What the checkpoint of a fit to these events is compared by."""
        arrays = {"x": self.x, "theta": self.theta, "weight": self.weight}
        if self.identity is not None:
            arrays = {"identity": self.identity}
        latent = {} if self.identity is not None else dict(self.latent)
        return {
            **arrays,
            "latent": (sorted(self.latent), latent, self.latent.joint),
            "prior": self.prior,
            "names": (self.x_names, self.theta_names),
        }

    def __iter__(self) -> Iterator[object]:
        """Refuse: looping over events in Python is never what is wanted."""
        raise TypeError("Events is not iterable; use events.x and events.theta, or slices of it.")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Refuse: which of its arrays would be meant?"""
        raise TypeError("this is a set of Events, not an array; pass its .x or .theta")

    def __repr__(self) -> str:
        """Number, names and prior, in a line."""
        prior = "unknown prior" if self.prior is None else type(self.prior).__name__
        return (
            f"Events({count(len(self), 'event')}, x: {list_names(self.x_names)}; "
            f"theta: {list_names(self.theta_names)}; {prior}{', weighted' * self.weighted})"
        )

    @property
    def weighted(self) -> bool:
        """Whether some event has another weight than 1."""
        source = self.__dict__.get("_source")
        return not (self.weight == 1).all() if source is None else bool(source.weighted)

    def _summarise(self) -> Summary:
        facts = {"prior of theta": "unknown" if self.prior is None else repr(self.prior)}
        lazy = "_source" in self.__dict__ and "x" not in self.__dict__
        if lazy or self.mapped:
            # What lies in a file, perhaps larger than the memory, is not read for a table.
            where = "not read yet" if lazy else "memory-mapped"
            facts |= {"observables": list_names(self.x_names), "arrays": where}
            facts |= {"weights": "of the events' own"} if self.weighted else {}
            parameters = {"parameter": list(self.theta_names)}
            return Summary(self._title, (tabulate_facts(facts), *tabulate_first(parameters)))
        if self.origin is not None and self.origin.simulator is not None:
            facts["simulator"] = shorten(self.origin.simulator)
        if self.weighted:
            facts["weights"] = (
                f"sum {self.weight.sum():.5g}, from {self.weight.min():.4g} to "
                f"{self.weight.max():.4g}; as good as {effective_size(self.weight):,.0f} equal ones"
            )
        if self.latent:
            facts["latent"] = list_names(self.latent)
        tables = (
            *tabulate_arrays("observable", self.x_names, self.x),
            *tabulate_arrays("parameter", self.theta_names, self.theta),
        )
        return Summary(self._title, (tabulate_facts(facts), *tables))

    @property
    def _title(self) -> str:
        return (
            f"{count(len(self), 'event')} of {count(len(self.x_names), 'observable')} and "
            f"{count(len(self.theta_names), 'parameter')}"
        )

    @staticmethod
    def concatenate(parts: Sequence["Events"], *, prior: AbstractPrior | None = None) -> "Events":
        """Join event sets with the same columns, such as one sample for each parameter point.

        The θ of the joined set follow `prior`; leave it None for samples at a finite set of points,
        whose distribution is read off the events themselves. The joined set lies in memory, also
        where the parts are memory-mapped.
        """
        if not isinstance(parts, Sequence) or not all(isinstance(part, Events) for part in parts):
            raise TypeError("concatenate takes a list of event sets, [events_1, events_2, …].")
        if not parts:
            raise ValueError("concatenate needs at least one event set.")
        first = parts[0]
        for part in parts:
            if _shapes(part.latent) != _shapes(first.latent):
                raise ValueError(
                    "event sets to be joined must have the same latent information; got "
                    f"{_shapes(first.latent)} and {_shapes(part.latent)} (names and shapes of a "
                    "row)."
                )
            if not eqx.tree_equal(part.latent.joint, first.latent.joint):
                raise ValueError(
                    "event sets to be joined must have the same joint density; got two, "
                    f"{type(first.latent.joint).__name__} and {type(part.latent.joint).__name__}. "
                    "Draw the second set with that of the first: pool.events(…, "
                    "morphing=events.latent.joint), or ist.JointDensity with the same function."
                )
            if (part.x_names, part.theta_names) != (first.x_names, first.theta_names):
                raise ValueError(
                    "event sets to be joined must have the same names; got "
                    f"{first.x_names + first.theta_names} and {part.x_names + part.theta_names}."
                )
        return Events(
            x=np.concatenate([part.x for part in parts]),
            theta=np.concatenate([part.theta for part in parts]),
            weight=np.concatenate([part.weight for part in parts]),
            latent=Latent(
                {name: np.concatenate([p.latent[name] for p in parts]) for name in first.latent},
                first.latent.joint,
            ),
            prior=prior,
            x_names=first.x_names,
            theta_names=first.theta_names,
        ).with_origin(join_origins([part.origin for part in parts]))

    def stored_prior(self) -> Discrete:
        """The distribution of the stored θ themselves, weights included."""
        points, total = _count_in_pieces(self) if self.mapped else _count_points(self, slice(None))
        if (total <= 0).any():
            raise ValueError(
                "the distribution of θ is read off the events, in proportion to their weights, but "
                f"{int((total <= 0).sum())} parameter point(s) have a total weight that is not "
                f"positive, such as θ = {rounded(points[total <= 0][0])}. Give prior=, the "
                "distribution the θ were drawn from, or remove those points."
            )
        return Discrete(points, total, names=self.theta_names)


def lazy_events(
    source: AbstractEventSource,
    prior: AbstractPrior | None,
    *,
    x_names: tuple[str, ...],
    theta_names: tuple[str, ...],
) -> Events:
    """Events that were checked before, whose arrays are read on first use."""
    events = object.__new__(Events)
    values = {"_source": source, "prior": prior, "x_names": x_names, "theta_names": theta_names}
    vars(events).update(values)
    return events


def in_memory(events: Events, index: np.ndarray | slice, prior: AbstractPrior | None) -> Events:
    """Some memory-mapped events read into memory, as they were checked, with another prior."""
    part = object.__new__(Events)

    def read(array: np.ndarray) -> np.ndarray:
        return array[index].copy() if isinstance(index, slice) else read_rows(array, index)

    values = {
        "x": read(events.x),
        "theta": read(events.theta),
        "weight": read(events.weight).astype(np.float64),
        "latent": events.latent.map(read),
        "prior": prior,
        "x_names": events.x_names,
        "theta_names": events.theta_names,
        "origin": events.origin,
    }
    for name, value in values.items():
        object.__setattr__(part, name, value)
    return part


def _warn_of_copy(given: object, read: np.ndarray, name: str) -> None:
    """Warn where a memory-mapped array could not be left in its file."""
    if isinstance(given, np.ndarray) and is_mapped(given) and not is_mapped(read):
        warn_user(
            f"{name} is memory-mapped as {given.dtype.str} and is read into memory, because only "
            f"{np.dtype(np.float32).str} and {np.dtype(np.float64).str} can stay in their files. "
            "Write the file as float32 if it is large."
        )


def _count_points(events: Events, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """The different θ of these rows, and the total weight of each."""
    points, index = np.unique(events.theta[rows], axis=0, return_inverse=True)
    return points, np.bincount(index.ravel(), weights=events.weight[rows], minlength=len(points))


def _count_in_pieces(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """The same for all rows, without sorting them all at once."""
    points, total = np.zeros((0, events.theta.shape[1]), events.theta.dtype), np.zeros(0)
    for rows in row_slices(events.theta):
        more, weight = _count_points(events, rows)
        points, index = np.unique(np.concatenate([points, more]), axis=0, return_inverse=True)
        weight = np.concatenate([total, weight])
        total = np.bincount(index.ravel(), weights=weight, minlength=len(points))
        if len(points) > MOST_MAPPED_POINTS:
            raise ValueError(
                f"these memory-mapped events have more than {MOST_MAPPED_POINTS} different θ and "
                "no prior=, the distribution these were drawn from. Give it, or load the events "
                "into memory (np.load without mmap_mode), where it can be read off any number of θ."
            )
    return points, total


def _row_index(rows: Input, n: int) -> np.ndarray:
    """A mask of n events or row numbers, from a list, an array or one number."""
    try:
        index = np.asarray(rows)
    except Exception as error:  # foreign arrays raise their own kinds
        raise TypeError(
            f"events are chosen by a slice, a mask or row numbers; got {kind_of(rows)}."
        ) from error
    if index.ndim == 0:
        index = index[None]
    numbers = index.dtype.kind in "iu" and bool(np.all((index >= -n) & (index < n)))
    mask = index.dtype == bool and len(index) == n
    if isinstance(rows, tuple) or index.ndim != 1 or not (numbers or mask):
        got = f"{index.dtype} of shape {index.shape}" if index.size != 1 else repr(index.item())
        raise IndexError(
            f"events are chosen by a slice, a mask of {n} booleans or row numbers below {n}, such "
            f"as events[:100] or events[events.theta[:, 0] > 1]; got {got}."
        )
    return index


def _shapes(latent: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: values.shape[1:] for name, values in sorted(latent.items())}


def _one_theta(theta: np.ndarray, n: int, prior: AbstractPrior | None) -> np.ndarray:
    if len(theta) == n and n > 1 and (prior is None or prior.dim != n):
        raise ValueError(
            f"theta must have two axes, (events, parameters); got shape {theta.shape}. "
            f"For one parameter use theta[:, None], for one θ of all events "
            f"np.tile(theta, ({n}, 1))."
        )
    return np.broadcast_to(theta.copy(), (n, len(theta)))


def _check_prior(theta: np.ndarray, x: np.ndarray, prior: object) -> None:
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            "prior must be one of the priors of this package, such as ist.Uniform(low, high), or "
            f"an ist.CustomPrior; got {kind_of(prior)}."
        )
    swapped = " Were x and theta swapped?" if x.shape[1] == prior.dim else ""
    if theta.shape[1] != prior.dim:
        raise ValueError(
            f"theta has shape {theta.shape}, but the prior has {prior.dim} parameters "
            f"({', '.join(prior.names)}): one column for each is needed.{swapped}"
        )
    pieces = list(row_slices(theta))
    good = np.concatenate([prior.contains(theta[rows]) for rows in pieces])
    if isinstance(prior, Discrete) and good.all():
        good = np.concatenate([_among(theta[rows], prior) for rows in pieces])
        if not good.all():
            raise ValueError(
                f"theta is none of the prior's {len(prior.points)} points in {bad_rows(good)}: "
                f"{rounded(theta[~good][0])}. `prior` must be the distribution the stored θ were "
                f"drawn from; leave it out for a finite set of points.{swapped}"
            )
    if not good.all():
        low, high = prior.support
        raise ValueError(
            f"theta lies outside the prior's support, {rounded(low)} to {rounded(high)}, in "
            f"{bad_rows(good)}: {rounded(theta[~good][0])}. `prior` must be the distribution "
            f"the stored θ were drawn from.{swapped}"
        )


def _among(theta: np.ndarray, prior: Discrete) -> np.ndarray:
    """Which θ are points of the prior, to float32 rounding."""
    points, index = np.unique(theta.astype(np.float32), axis=0, return_inverse=True)
    known = {point.tobytes() for point in prior.points}
    good = [
        point.tobytes() in known
        or bool(np.isclose(prior.points, point, rtol=1e-6, atol=0).all(axis=1).any())
        for point in points
    ]
    return np.array(good)[index.ravel()]


def _check_weight(weight: Input | None, n: int, *, mapped: bool) -> np.ndarray:
    if weight is None:
        ones = np.broadcast_to(np.ones(()), (n,))
        return ones if mapped else freeze(ones)
    values = as_floats(weight, "weight")
    _warn_of_copy(weight, values, "weight")
    require_whole(values, "weight")
    require_weights(values, n)
    return freeze(values if is_mapped(values) else values.astype(np.float64))
