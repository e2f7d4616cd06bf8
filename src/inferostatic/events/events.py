"""`Events`: simulated events with the parameters they were made at, checked once and for all."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..inputs import (
    Input,
    as_floats,
    as_names,
    as_rows,
    bad_rows,
    require_finite,
    require_float32,
)
from ..world.prior import AbstractPrior, Discrete


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Events:
    """Events x, the parameters θ they were simulated at, weights and names.

    Args:
        x: observables, shape (n, D).
        theta: parameters, shape (n, d); one θ of shape (d,) serves all events.
        weight: one weight for each event, of either sign; 1 when omitted.
        latent: arrays of latent information, one row for each event, by name.
        prior: the law that `theta` was drawn from. When it is absent, methods draw candidates
            from the stored θ themselves, which is exact but less local.
        x_names, theta_names: names of the columns.
    """

    x: np.ndarray
    theta: np.ndarray
    weight: np.ndarray
    latent: Mapping[str, np.ndarray]
    prior: AbstractPrior | None
    x_names: tuple[str, ...]
    theta_names: tuple[str, ...]

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
        """Check everything; nothing is dropped or repaired silently."""
        x_names = _column_names(x) if x_names is None else x_names
        theta_names = _column_names(theta) if theta_names is None else theta_names
        x_rows = as_rows(x, "x", of="observables")
        if len(x_rows) == 0:
            raise ValueError("x holds no events; at least one is needed.")
        if x_rows.shape[1] == 0:
            raise ValueError("x has no columns; at least one observable is needed.")
        theta_rows = as_floats(theta, "theta")
        if theta_rows.ndim == 1:
            theta_rows = _one_theta(theta_rows, len(x_rows), prior)
        theta_rows = as_rows(theta_rows, "theta", of="parameters")
        if len(theta_rows) != len(x_rows):
            raise ValueError(
                f"x has {len(x_rows)} rows and theta {len(theta_rows)}; each event needs the θ it "
                "was simulated at."
            )
        remedy = "Remove or repair these events, and find out why the simulator made them."
        require_finite(x_rows, "x", remedy)
        require_finite(theta_rows, "theta", remedy)
        if prior is not None:
            _check_prior(theta_rows, x_rows, prior)
            theta_names = prior.names if theta_names is None else theta_names
        names = as_names(x_names, x_rows.shape[1], "x")
        require_float32(x_rows, names, "x")
        assign = object.__setattr__
        assign(self, "x", x_rows)
        assign(self, "theta", theta_rows)
        assign(self, "weight", _check_weight(weight, len(x_rows)))
        assign(self, "latent", _check_latent(latent, len(x_rows)))
        assign(self, "prior", prior)
        assign(self, "x_names", names)
        assign(self, "theta_names", as_names(theta_names, theta_rows.shape[1], "theta"))

    def __len__(self) -> int:
        """Number of events."""
        return len(self.x)

    def __getitem__(self, rows: slice | Input) -> "Events":
        """The chosen events: a slice, a mask or row numbers."""
        index: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(index, slice) and index.ndim == 0:
            index = index[None]
        return Events(
            x=self.x[index],
            theta=self.theta[index],
            weight=self.weight[index],
            latent={name: values[index] for name, values in self.latent.items()},
            prior=self.prior,
            x_names=self.x_names,
            theta_names=self.theta_names,
        )

    def __iter__(self) -> Iterator[object]:
        """Refuse: looping over events in Python is never what is wanted."""
        raise TypeError("Events is not iterable; use events.x and events.theta, or slices of it.")

    def __repr__(self) -> str:
        """One line."""
        prior = "unknown prior" if self.prior is None else type(self.prior).__name__
        weighted = "" if (self.weight == 1).all() else ", weighted"
        return (
            f"Events({len(self):,} events, x: {', '.join(self.x_names)}; "
            f"theta: {', '.join(self.theta_names)}; {prior}{weighted})"
        )

    @staticmethod
    def concatenate(parts: Sequence["Events"], *, prior: AbstractPrior | None = None) -> "Events":
        """Join event sets with the same columns, such as one sample for each parameter point.

        The joined set follows the law `prior`; leave it None for samples at a finite set of
        points, whose law is read off the events themselves.
        """
        if not parts:
            raise ValueError("concatenate needs at least one event set.")
        first = parts[0]
        for part in parts:
            if (part.x_names, part.theta_names) != (first.x_names, first.theta_names):
                raise ValueError(
                    "event sets to be joined must have the same names; got "
                    f"{first.x_names + first.theta_names} and {part.x_names + part.theta_names}."
                )
        shared = set(first.latent).intersection(*(part.latent for part in parts))
        return Events(
            x=np.concatenate([part.x for part in parts]),
            theta=np.concatenate([part.theta for part in parts]),
            weight=np.concatenate([part.weight for part in parts]),
            latent={name: np.concatenate([p.latent[name] for p in parts]) for name in shared},
            prior=prior,
            x_names=first.x_names,
            theta_names=first.theta_names,
        )

    def stored_law(self) -> Discrete:
        """The law of the stored θ themselves, weights included."""
        points, index = np.unique(self.theta, axis=0, return_inverse=True)
        total = np.bincount(index.ravel(), weights=self.weight, minlength=len(points))
        if (total <= 0).any():
            raise ValueError(
                "the law of θ is read off the events, in proportion to their weights, but "
                f"{int((total <= 0).sum())} parameter point(s) have a total weight that is not "
                f"positive, such as θ = {points[total <= 0][0].tolist()}. Give prior=, the law the "
                "θ were drawn from, or remove those points."
            )
        return Discrete(points, total, names=self.theta_names)


def _column_names(table: object) -> tuple[str, ...] | None:
    """Column names of a data frame, if it is one."""
    columns = getattr(table, "columns", None)
    return None if columns is None else tuple(str(column) for column in columns)


def _one_theta(theta: np.ndarray, n: int, prior: AbstractPrior | None) -> np.ndarray:
    if len(theta) == n and n > 1 and (prior is None or prior.dim != n):
        raise ValueError(
            f"theta must have two axes, (events, parameters); got shape {theta.shape}. "
            "For one parameter use theta[:, None]."
        )
    return np.broadcast_to(theta, (n, len(theta))).copy()


def _check_prior(theta: np.ndarray, x: np.ndarray, prior: AbstractPrior) -> None:
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            "prior must be one of the priors of this package, such as ist.Uniform(low, high), or "
            f"an ist.CustomPrior; got {type(prior).__name__}."
        )
    swapped = "Were x and theta swapped?" if x.shape[1] == prior.dim else ""
    if theta.shape[1] != prior.dim:
        raise ValueError(
            f"theta has {theta.shape[1]} columns but the prior has {prior.dim} parameters "
            f"({', '.join(prior.names)}). {swapped}"
        )
    good = prior.contains(theta)
    if not good.all():
        low, high = prior.support
        raise ValueError(
            f"theta lies outside the prior's support, {low.tolist()} to {high.tolist()}, in "
            f"{bad_rows(good)}: {theta[~good][0].tolist()}. `prior` must be the law the stored θ "
            f"were drawn from. {swapped}"
        )


def _check_weight(weight: Input | None, n: int) -> np.ndarray:
    if weight is None:
        return np.ones(n)
    values = as_floats(weight, "weight")
    if values.shape != (n,):
        raise ValueError(f"weight must have shape ({n},), one for each event; got {values.shape}.")
    require_finite(values, "weight", "Give every event a finite weight.")
    if values.sum() <= 0:
        raise ValueError(
            f"the weights add up to {values.sum():.4g}; negative weights are allowed, but their "
            "sum must be positive."
        )
    return values.astype(np.float64)


def _check_latent(latent: Mapping[str, Input] | None, n: int) -> Mapping[str, np.ndarray]:
    checked = {
        name: as_floats(values, f"latent {name!r}") for name, values in (latent or {}).items()
    }
    for name, values in checked.items():
        if values.ndim == 0 or len(values) != n:
            raise ValueError(
                f"latent {name!r} must have one row for each of the {n} events; got shape "
                f"{values.shape}."
            )
        require_finite(values, f"latent {name!r}", "Repair the simulator's latent output there.")
    return checked
