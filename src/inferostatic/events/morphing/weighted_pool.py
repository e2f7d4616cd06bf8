"""A pool of weighted events: what readers of foreign files give, and what events are drawn from."""

import copy
import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from ...inputs import (
    Input,
    as_count,
    as_floats,
    as_names,
    as_rows,
    as_seed,
    column_names,
    describe_missing,
    kind_of,
    require_finite,
    require_order,
)
from ...streams import Purpose, Stream
from ...summary import (
    AbstractSummarised,
    Summary,
    count,
    list_names,
    tabulate_arrays,
    tabulate_facts,
    tabulate_first,
)
from ...world.priors.prior import AbstractPrior, draw_points
from ..events import Events
from ..origin import Origin
from .morphing import REACH, Morphing
from .nuisance import Exponents
from .unweighting import draw_rows

#: The rate is fitted to nuisance parameters a little further out than they were drawn.
REACH_MARGIN = 1.25


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class WeightedPool(AbstractSummarised):
    """Weighted events with weights at several benchmarks.

    A part of it, `pool[:1000]` or `pool[rows]`, is a pool too. Draw training and test events from
    parts without common events: drawn from one pool, both would hold the same events.

    Args:
        x: observables, shape (n, D).
        weights: at the benchmarks, shape (n, B).
        morphing: the polynomial between the benchmarks; without rates it takes those of the pool.
            Default None: `events` asks for it.
        nuisance: `ist.nuisance_exponents(…)` of every event, where there are nuisance parameters.
        x_names: names of the columns of x.
        weight_names: names of the benchmarks.
        theta_names: names of the parameters, nuisance parameters last; default those of the prior.
    """

    x: np.ndarray
    weights: np.ndarray
    morphing: Morphing | None
    nuisance: Exponents | None
    x_names: tuple[str, ...]
    weight_names: tuple[str, ...]
    theta_names: tuple[str, ...] | None

    def __init__(
        self,
        x: Input,
        weights: Input,
        morphing: Morphing | None = None,
        *,
        nuisance: Exponents | None = None,
        x_names: Sequence[str] | None = None,
        weight_names: Sequence[str] | None = None,
        theta_names: Sequence[str] | None = None,
    ) -> None:
        """Check that the arrays belong together."""
        x_names = column_names(x) if x_names is None else x_names
        weight_names = column_names(weights) if weight_names is None else weight_names
        rows = as_rows(x, "x", of="observables")
        table = as_rows(weights, "weights", of="weights, one per benchmark").astype(np.float64)
        if len(rows) != len(table):
            raise ValueError(f"x has {len(rows)} events and weights {len(table)}.")
        require_finite(rows, "x", "Remove or repair these events.")
        require_finite(table, "weights", "Remove or repair these events.")
        if morphing is not None and not isinstance(morphing, Morphing):
            raise TypeError(f"morphing must be an ist.Morphing; got {kind_of(morphing)}.")
        if nuisance is not None and not isinstance(nuisance, Exponents):
            raise TypeError(
                f"nuisance must come from ist.nuisance_exponents(…); got {kind_of(nuisance)}."
            )
        if theta_names is not None:
            count = None if morphing is None else morphing.dim + morphing.nuisances
            listed = theta_names if isinstance(theta_names, list | tuple) else [theta_names]
            theta_names = as_names(theta_names, count or len(listed), "theta")
        assign = object.__setattr__
        assign(self, "x", rows)
        assign(self, "weights", table)
        assign(self, "morphing", morphing)
        assign(self, "nuisance", nuisance)
        assign(self, "x_names", as_names(x_names, rows.shape[1], "x"))
        assign(self, "weight_names", as_names(weight_names, table.shape[1], "benchmark"))
        assign(self, "theta_names", theta_names)

    def __len__(self) -> int:
        """Number of events."""
        return len(self.x)

    def __getitem__(self, rows: slice | np.ndarray) -> "WeightedPool":
        """A part of the pool: a slice, a mask or row numbers."""
        part = None if self.nuisance is None else Exponents(*(v[rows] for v in self.nuisance))
        return dataclasses.replace(self, x=self.x[rows], weights=self.weights[rows], nuisance=part)

    def __repr__(self) -> str:
        """Number and names, in a line."""
        theta = "" if self.theta_names is None else f"; theta: {list_names(self.theta_names)}"
        return (
            f"WeightedPool({count(len(self), 'event')}, x: {list_names(self.x_names)}{theta}; "
            f"{count(len(self.weight_names), 'weight')})"
        )

    def _summarise(self) -> Summary:
        sums = np.asarray(self.weights, np.float64)
        weights = {
            "weight": list(self.weight_names),
            "sum": [f"{value:.5g}" for value in sums.sum(axis=0)],
            "negative": [f"{value:.2%}" for value in (sums < 0).mean(axis=0)],
        }
        facts = {"parameters": list_names(self.theta_names or ("unknown",))}
        return Summary(
            f"{count(len(self), 'event')} with {count(len(self.weight_names), 'weight')} each",
            (
                tabulate_facts(facts),
                *tabulate_arrays("observable", self.x_names, self.x),
                *tabulate_first(weights),
            ),
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
        """Draw `n` events: θ from `prior`, and for each θ an event in proportion to its rate there.

        Events come back with their components as latent information, so that joint ratios and
        joint scores are known at every θ. Where all rates are positive they have weight 1. An
        event whose rate at its θ is negative is drawn by the size of it and has a negative weight;
        the weights at every θ then have mean 1, so that the weighted θ still follow the prior.

        Args:
            prior: distribution of θ, nuisance parameters last; or one θ of shape (d,) for all
                events. The name of a benchmark stands for its θ, with nuisance parameters at 0.
            n: number of events to draw; events of the pool may serve several times.
            seed: everything random follows from it.
            morphing: default the pool's own.
            progress_bar: force the display on or off.

        Example:
            >>> import numpy as np, inferostatic as ist
            >>> x = np.linspace(-1.0, 1.0, 1000)[:, None]
            >>> benchmarks = [[0.0], [1.0]]
            >>> pool = ist.WeightedPool(x, np.hstack([np.ones_like(x), 1 + x / 2]))
            >>> linear = ist.Morphing.of_degree(1, benchmarks)
            >>> pool.events(ist.Uniform(0, 1), 100, seed=1, morphing=linear)
            Events(100 events, x: x0; theta: theta0; Uniform)
        """
        morphing = self.morphing if morphing is None else morphing
        if morphing is None:
            raise ValueError(
                "this pool does not know the parameters of its benchmarks; give morphing=, such "
                f"as ist.Morphing.of_degree(2, benchmarks) with the {len(self.weight_names)} "
                f"benchmarks in the order of {', '.join(self.weight_names)}."
            )
        if not isinstance(morphing, Morphing):
            raise TypeError(f"morphing must be an ist.Morphing; got {kind_of(morphing)}.")
        names = self.theta_names
        if isinstance(prior, str):
            prior = self._benchmark_theta(prior, morphing)
        if isinstance(prior, AbstractPrior):
            if names is not None and prior.dim == len(names):
                prior = _with_names(prior, names)
            names = prior.names if names is None else names
        theta = _draw_theta(prior, as_count(n, "n"), morphing, names, seed)
        nu = theta[:, morphing.dim :]
        reach = REACH_MARGIN * float(np.abs(nu).max()) if nu.size else 0.0
        if reach == 0:
            reach = REACH if morphing.response is None else morphing.response.reach
        morphing = morphing.with_sample(self.weights, self.nuisance, reach=reach)
        rows, weight = draw_rows(
            self.weights, theta, morphing, self.nuisance, seed=seed, show=progress_bar
        )
        drawn = self[rows]
        return Events(
            x=drawn.x,
            theta=theta,
            weight=weight,
            latent=morphing.latent(drawn.weights, theta, drawn.nuisance),
            prior=prior if isinstance(prior, AbstractPrior) else None,
            x_names=self.x_names,
            theta_names=names,
        ).with_origin(Origin(source=f"a pool of {len(self):,} weighted events", seed=seed))

    def _benchmark_theta(self, name: str, morphing: Morphing) -> np.ndarray:
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
                "benchmark; the pool has these benchmarks, and "
                f"{describe_missing(name, self.weight_names)}."
            )
        point = morphing.benchmarks[self.weight_names.index(name)]
        return np.concatenate([point, np.zeros(morphing.nuisances)])


def _draw_theta(
    prior: AbstractPrior | Input, n: int, morphing: Morphing, names: Sequence[str] | None, seed: int
) -> np.ndarray:
    """θ of every event, one row for each."""
    dim = morphing.dim + morphing.nuisances
    known = [] if names is None or len(names) != dim else list(names)
    if isinstance(prior, AbstractPrior):
        if prior.dim != dim:
            zeros, ones = [0] * morphing.nuisances, [1] * morphing.nuisances
            remedy = f"; add them last: ist.Product([prior, ist.Normal({zeros}, {ones})])"
            raise ValueError(
                f"the morphing has {morphing.dim} parameters{_in_brackets(known[: morphing.dim])} "
                f"and {morphing.nuisances} nuisance parameters"
                f"{_in_brackets(known[morphing.dim :])}, and the prior is one of {prior.dim}: "
                f"{', '.join(prior.names)}{remedy if prior.dim == morphing.dim else ''}."
            )
        return draw_points(prior, n, Stream(as_seed(seed), Purpose.POOL_THETA))
    point = as_floats(prior, "prior")
    if point.shape != (dim,) or not np.isfinite(point).all():
        raise ValueError(
            f"prior must be a prior such as ist.Uniform(low, high), or one θ of {dim} finite "
            f"numbers{_in_brackets(known)} for all events; got shape {point.shape}."
        )
    return np.tile(point.astype(np.float64), (n, 1))


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _with_names(prior: AbstractPrior, names: Sequence[str]) -> AbstractPrior:
    """The prior with the pool's names for those of its parameters that have default names."""
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
