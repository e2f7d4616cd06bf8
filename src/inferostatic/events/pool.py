"""A pool of weighted events: what readers of foreign files give, and what events are drawn from."""

import dataclasses
import importlib
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..inputs import Input, require_order
from ..world.prior import AbstractPrior
from .events import Events
from .morphed import morphed_events
from .morphing import Morphing
from .nuisance import Exponents


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class WeightedPool:
    """Weighted events with weights at several benchmarks.

    A part of it, `pool[:1000]` or `pool[rows]`, is a pool too. Draw training and test events from
    parts without common events: drawn from one pool, both would hold the same events.

    Attributes:
        x: observables, shape (n, D).
        weights: at the benchmarks, shape (n, B).
        x_names, weight_names: names of their columns.
        morphing: the polynomial between the benchmarks, where the file says it.
        theta_names: of the parameters, nuisance parameters last, where the file says them.
        nuisance: exponents of the nuisance parameters of every event, where there are any.
    """

    x: np.ndarray
    weights: np.ndarray
    x_names: tuple[str, ...]
    weight_names: tuple[str, ...]
    morphing: Morphing | None = None
    theta_names: tuple[str, ...] | None = None
    nuisance: Exponents | None = None

    def __len__(self) -> int:
        """Number of events."""
        return len(self.x)

    def __getitem__(self, rows: slice | np.ndarray) -> "WeightedPool":
        """A part of the pool: a slice, a mask or row numbers."""
        part = None if self.nuisance is None else Exponents(*(v[rows] for v in self.nuisance))
        return dataclasses.replace(self, x=self.x[rows], weights=self.weights[rows], nuisance=part)

    def __repr__(self) -> str:
        """One line."""
        theta = "" if self.theta_names is None else f"; theta: {', '.join(self.theta_names)}"
        return (
            f"WeightedPool({len(self):,} events, x: {', '.join(self.x_names)}{theta}; "
            f"{len(self.weight_names)} weights)"
        )

    def events(
        self,
        prior: AbstractPrior | Input,
        n: int,
        *,
        seed: int,
        morphing: Morphing | None = None,
        progress_bar: bool | None = None,
    ) -> Events:
        """Draw `n` events, θ from `prior` or all at one θ, as `ist.morphed_events` does.

        Args:
            prior: law of θ, nuisance parameters last, or one θ.
            n: number of events.
            seed: everything random follows from it.
            morphing: in place of the file's own, or where it has none.
            progress_bar: force the display on or off.
        """
        chosen = self.morphing if morphing is None else morphing
        if chosen is None:
            raise ValueError(
                "this pool does not know the parameters of its benchmarks; give morphing=, such "
                f"as ist.Morphing.of_degree(2, benchmarks) with the {len(self.weight_names)} "
                f"benchmarks in the order of {', '.join(self.weight_names)}."
            )
        theta_names = self.theta_names
        if isinstance(prior, AbstractPrior):
            if theta_names is not None:
                prior = _named(prior, theta_names)
                require_order(prior.names, theta_names, "the prior")
            theta_names = prior.names
        return morphed_events(
            self.x,
            self.weights,
            chosen,
            prior,
            n,
            seed=seed,
            nuisance=self.nuisance,
            x_names=self.x_names,
            theta_names=theta_names,
            progress_bar=progress_bar,
        )


def _named(prior: AbstractPrior, names: Sequence[str]) -> AbstractPrior:
    """A prior whose parameters nobody named takes the names of the pool."""
    unnamed = tuple(f"theta{i}" for i in range(prior.dim))
    fields = {field.name for field in dataclasses.fields(prior)}
    if prior.names != unnamed or "names" not in fields or len(names) != prior.dim:
        return prior
    return dataclasses.replace(prior, names=tuple(names))


def import_reader(name: str, what: str) -> ModuleType:
    """An optional package, imported on first use, or a sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"reading {what} uses {name}: pip install 'inferostatic[readers]'"
        ) from error


def closest(missing: str, names: Sequence[str]) -> str:
    """The names that were found, for a message about one that was not."""
    shown = ", ".join(sorted(names)[:20]) or "none"
    return f"{missing!r} is not among them: {shown}{', …' if len(names) > 20 else ''}"
