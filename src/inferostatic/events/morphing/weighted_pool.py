"""A pool of weighted events: what readers of foreign files give, and what events are drawn from."""

import copy
import dataclasses
import importlib
import re
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ...inputs import Input, require_order
from ...world.priors.prior import AbstractPrior
from ..events import Events
from .morphed_events import morphed_events
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
        prior: AbstractPrior | Input | str,
        n: int,
        *,
        seed: int,
        morphing: Morphing | None = None,
        progress_bar: bool | None = None,
    ) -> Events:
        """Draw `n` events, θ from `prior` or all at one θ, as `ist.morphed_events` does.

        Args:
            prior: law of θ, nuisance parameters last, or one θ. The name of a benchmark stands
                for its θ, with nuisance parameters at 0.
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
        if isinstance(prior, str):
            prior = self._benchmark(prior, chosen)
        if isinstance(prior, AbstractPrior):
            if theta_names is not None and prior.dim == len(theta_names):
                prior = _named(prior, theta_names)
            theta_names = prior.names if theta_names is None else theta_names
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

    def _benchmark(self, name: str, morphing: Morphing) -> np.ndarray:
        """θ of the benchmark of this name."""
        if len(morphing.benchmarks) != len(self.weight_names):
            raise ValueError(
                f"the morphing has {len(morphing.benchmarks)} benchmarks and this pool "
                f"{len(self.weight_names)} weights, {', '.join(self.weight_names)}; give one "
                "benchmark for each of these, in their order."
            )
        if name not in self.weight_names:
            raise ValueError(
                "prior must be a prior such as ist.Uniform(low, high), one θ or the name of a "
                f"benchmark; the pool has these benchmarks, and {closest(name, self.weight_names)}."
            )
        point = morphing.benchmarks[self.weight_names.index(name)]
        return np.concatenate([point, np.zeros(morphing.nuisances)])


def _named(prior: AbstractPrior, names: Sequence[str]) -> AbstractPrior:
    """A prior whose parameters, or some of them, nobody named takes the names of the pool."""
    given = [name for name in prior.names if name in names or not re.fullmatch(r"theta\d+", name)]
    if not set(given) <= set(names):
        raise ValueError(
            f"the parameters of the prior are {', '.join(prior.names)}, and those of this pool "
            f"{', '.join(names)}; make the prior with names={list(names)}."
        )
    require_order(prior.names, names, "the prior")
    if any(own in names and own != name for own, name in zip(prior.names, names, strict=True)):
        raise ValueError(
            f"the parameters of the prior are {', '.join(prior.names)}, but the order here is "
            f"{', '.join(names)}; make the prior in this order."
        )
    if not any(field.name == "names" for field in dataclasses.fields(prior)):
        return prior
    # A copy: not all priors are made from the same fields that they keep.
    renamed = copy.copy(prior)
    object.__setattr__(renamed, "names", tuple(names))
    return renamed


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
