r"""Confidence sets: the θ that the observed events do not reject.

Every θ is tested by the likelihood ratio to the best fit in the physical region. By Wilks' theorem
the statistic follows χ², which holds for the true likelihood, many events, and θ away from edges.
The Neyman construction finds its law from toys at every θ instead, and holds for any estimator and
any number of events.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import special

from ...estimator.estimator import Estimator
from ...events.events import Events
from ...inputs import Input, as_count, as_floats, as_seed, warn_user
from ...progress import progress
from ...world.simulator import Simulator
from ..arguments import as_level, parameter_index
from ..likelihood.event_sets import SetLikelihood
from ..likelihood.minuit import NotConverged
from ..likelihood.summed_potential import potential_and_rows
from .grids import WHOLE_LEVEL, Tested, found_grid, given_grid, inside_box
from .lattice import hull
from .neyman import ObservedSet, ToyFitter, observe, p_value
from .toys import ToyMaker, source_of

#: Fraction of toy fits without convergence that is worth a warning.
TOLERATED_FAILURES = 0.01


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ConfidenceSet:
    """A test of every point of a grid, and of any other point on request.

    Attributes:
        names: of the parameters of interest.
        points: where they were tested, shape (m, k).
        statistic: observed −2 ln of the likelihood ratio to the best fit, shape (m,).
        p_value: of the statistic at each point, shape (m,).
        theta: all parameters at each point, the others profiled, shape (m, d).
        best: all parameters at the best fit in the physical region, shape (d,).
        theta_names: of all parameters.
        method: "wilks" or "neyman".
        level: used where none is given.
        converged: whether the best fit was found.
        notes: how the p-values were found.
        axes: of a grid that is a lattice, one array for each parameter of interest.
    """

    names: tuple[str, ...]
    points: np.ndarray
    statistic: np.ndarray
    p_value: np.ndarray
    theta: np.ndarray
    best: np.ndarray
    theta_names: tuple[str, ...]
    method: str
    level: float
    converged: bool
    notes: tuple[str, ...]
    axes: tuple[np.ndarray, ...] | None
    _test: Callable[[np.ndarray], Tested] = dataclasses.field(repr=False)
    _box: tuple[np.ndarray, np.ndarray] = dataclasses.field(repr=False)

    def accepted(self, level: float | None = None) -> np.ndarray:
        """Which of the points belong to the set, shape (m,)."""
        return self.p_value > 1 - self._level(level)

    def interval(self, level: float | None = None) -> np.ndarray:
        """The smallest and largest value of each parameter of interest in the set, shape (k, 2).

        Between a point that is accepted and a neighbour that is not, the edge is interpolated. For
        several parameters this is the hull of their joint set, wider than an interval of a single
        one; for that, name it in `parameters=` and let the others be profiled.
        """
        wanted = self._level(level)
        ends, cut = self._ends(wanted)
        if np.isnan(ends).any():
            warn_user(
                f"no point of the grid is accepted at level {wanted:.3g}: it is too coarse or lies "
                f"elsewhere (largest p-value {self.p_value.max():.3g}); give another grid=."
            )
        elif cut:
            warn_user(
                f"the set of level {wanted:.3g} reaches the edge of the grid in "
                f"{', '.join(self.names[i] for i in cut)}; give a wider grid=."
            )
        return ends

    def _ends(self, level: float) -> tuple[np.ndarray, list[int]]:
        """The interval, and the parameters in which the grid cuts it off."""
        inside = self.accepted(level)
        if not inside.any():
            return np.full((len(self.names), 2), np.nan), []
        if self.axes is None:
            chosen = self.points[inside]
            return np.stack([chosen.min(axis=0), chosen.max(axis=0)], axis=1), []
        return hull(self.axes, self._size(self.p_value), self._size(1 - level), self._box)

    def p_value_at(self, theta: Input) -> float:
        """Test one point, values of the parameters of interest, which need not be in the grid."""
        return float(self._test(self._one(theta))[1][0])

    def contains(self, theta: Input, level: float | None = None) -> bool:
        """Whether one point belongs to the set; it is tested itself, without the grid."""
        return self.p_value_at(theta) > 1 - self._level(level)

    def summary(self) -> str:
        """A table of intervals, and how they were found."""
        levels = sorted({self.level, WHOLE_LEVEL})
        width = max(9, *(len(name) for name in self.names))
        heads = "".join(f"  {f'{level:.4g} interval':>24}" for level in levels)
        lines = [f"{'parameter':<{width}}  {'best fit':>10}{heads}"]
        each = [self._ends(level) for level in levels]
        for i, name in enumerate(self.names):
            best = self.best[self.theta_names.index(name)]
            ends = [f"{e[i, 0]:.5g} to {e[i, 1]:.5g}{'*' * (i in cut)}" for e, cut in each]
            lines.append(f"{name:<{width}}  {best:>10.5g}" + "".join(f"  {e:>24}" for e in ends))
        if any(cut for _, cut in each):
            lines.append("* the set goes on beyond the grid")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        """The intervals at the set's level."""
        inside = self.accepted()
        if not inside.any():
            said = "no point accepted"
        else:
            low, high = self.points[inside].min(axis=0), self.points[inside].max(axis=0)
            said = ", ".join(
                f"{name} from {a:.4g} to {b:.4g}"
                for name, a, b in zip(self.names, low, high, strict=True)
            )
        return (
            f"ConfidenceSet({said}; {int(inside.sum())} of {len(inside)} points accepted at "
            f"{self.level:.4g}, {self.method})"
        )

    def _size(self, p: np.ndarray | float) -> np.ndarray:
        """A p-value as the distance in standard errors that has it: nearly linear in θ."""
        return np.sqrt(2 * special.gammainccinv(len(self.names) / 2, np.asarray(p)))

    def _level(self, level: float | None) -> float:
        return self.level if level is None else as_level(level)

    def _one(self, theta: Input) -> np.ndarray:
        values = np.atleast_1d(as_floats(theta, "theta")).astype(np.float64)
        if values.ndim == 2 and len(values) == 1:
            values = values[0]
        if values.shape != (len(self.names),):
            raise ValueError(
                f"theta must have one value for each of {', '.join(self.names)}; got shape "
                f"{values.shape}."
            )
        return inside_box(values[None], self.names, self._box, "theta")


def confidence_set(
    estimator: Estimator,
    x: Input,
    *,
    method: str = "wilks",
    parameters: Sequence[str | int] | str | None = None,
    grid: Input | Mapping[str, Input] | None = None,
    simulator: Simulator | None = None,
    toys_from: Events | None = None,
    toys: int = 1000,
    pool: int | None = None,
    constraints: Mapping[str, tuple[float, float]] | None = None,
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    level: float = 0.68,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> ConfidenceSet:
    r"""Test the parameters of interest on a grid: the set that the events `x` do not reject.

    The statistic is \(q=-2\ln[\max_\nu L(\theta_I,\nu)/\max_\theta L]\) in the physical region.

    Args:
        estimator: a trained potential.
        x: observed events, shape (n, D), all made at one unknown θ; one event may have shape (D,).
        method: "wilks", q follows χ² with as many degrees of freedom as parameters of interest; or
            "neyman", its law is that among toys at each θ, with nuisance parameters at their fitted
            values. For all parameters of interest and a simulator, the coverage is then exact for
            any estimator; profiled nuisance parameters or stored events make it approximate.
        parameters: those of interest; the others are profiled. All unless given.
        grid: points of shape (m, k), or axes by name, {"a": values, …}; found if omitted.
        simulator: function (theta, rng) -> x for the toys.
        toys_from: simulated events at many θ, from which toys are drawn if there is no simulator:
            those nearest to the θ that is tested. `notes` says how many and from how far.
        toys: at each point.
        pool: events simulated at each point, from which toys are drawn without replacement; all of
            them independent for few events, otherwise at least 20 times the events of a toy.
        constraints: measurements of single parameters made elsewhere, {"name": (mean, sd)}; in
            every toy they are made again.
        fixed: parameters that are held, {"name": value}.
        bounds: physical bounds inside the trained region, {"name": (low, high)}.
        level: confidence level of the set where none is given.
        seed: of the toys.
        progress_bar: force the display on or off.
    """
    estimator, rows = potential_and_rows(estimator, x, "confidence_set")
    level = as_level(level)
    if method not in ("wilks", "neyman"):
        raise ValueError(f"method must be 'wilks' or 'neyman'; got {method!r}.")
    space = SetLikelihood.of(estimator, constraints=constraints, fixed=fixed, bounds=bounds)
    places = interesting(parameters, space)
    notes = [f"{len(rows)} event{'s' if len(rows) > 1 else ''}"]
    fitter = None
    if method == "neyman":
        count = as_count(toys, "toys")
        asked = None if pool is None else as_count(pool, "pool")
        maker = ToyMaker(
            source_of(estimator, simulator, toys_from),
            count,
            len(rows),
            ToyMaker.size_of_pool(count, len(rows), asked),
            space.precision,
            as_seed(seed),
        )
    elif simulator is not None or toys_from is not None:
        raise ValueError(
            "simulator and toys_from are used by method='neyman' only; add it, or leave them out."
        )
    else:
        maker = None
    observed = observed_or_told(space, rows)
    if maker is not None:
        fitter = ToyFitter(space, observed, maker)
    tester = _Tester(observed, places, fitter)
    names = tuple(space.names[i] for i in places)
    box = (space.low[places], space.high[places])
    if grid is None:
        points, axes, tested = found_grid(tester, names, box, show=progress_bar)
    else:
        points, axes = given_grid(grid, names, box)
        tested = tester(points, show=progress_bar)
    statistic, p_values, theta = tested
    if maker is not None and fitter is not None:
        notes += _of_toys(maker, fitter)
    notes += _of_space(space, places, constraints)
    return ConfidenceSet(
        names=names,
        points=points,
        statistic=statistic,
        p_value=p_values,
        theta=theta,
        best=tester.observed.theta,
        theta_names=space.names,
        method=method,
        level=level,
        converged=observed.converged,
        notes=tuple(notes),
        axes=axes,
        _test=tester,
        _box=box,
    )


class _Tester:
    """Statistic, p-value and θ at points of the parameters of interest."""

    def __init__(self, observed: ObservedSet, places: list[int], fitter: ToyFitter | None) -> None:
        self.observed, self.places, self.fitter = observed, places, fitter

    @property
    def exact(self) -> bool:
        """Whether the test needs no more than χ²."""
        return self.fitter is None

    def __call__(self, points: np.ndarray, *, show: bool | None = False) -> Tested:
        statistic, theta = self.wilks(points)
        if self.fitter is None:
            return statistic, special.gammaincc(len(self.places) / 2, statistic / 2), theta
        values = np.empty(len(points))
        with progress("toys", len(points), show=show) as advance:
            for i, point in enumerate(theta):
                values[i] = p_value(self.fitter.statistic(point, self.places), statistic[i])
                advance(1)
        return statistic, values, theta

    def wilks(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The observed statistic, and θ with the others profiled."""
        statistic, found = self.observed.statistic(self.places, points)
        lost = ~found.converged
        if lost.any():
            warn_user(
                f"the fit of the profiled parameters did not converge at {int(lost.sum())} of "
                f"{len(points)} points, such as {np.round(points[lost][0], 5).tolist()}."
            )
        # A point above the best fit is a better best fit; θ that were tested before keep theirs.
        best = int(np.argmax(found.value))
        if found.value[best] > self.observed.value + 1e-6:
            again = self.observed.space.maximum(
                self.observed.x[None], found.theta[best][None], weight=self.observed.weight
            )
            self.observed = dataclasses.replace(
                self.observed, value=float(again.value[0]), theta=again.theta[0]
            )
            statistic = np.maximum(2 * (self.observed.value - found.value), 0.0)
        return statistic, found.theta


def observed_or_told(space: SetLikelihood, rows: np.ndarray) -> ObservedSet:
    """The best fit, or a sentence."""
    observed = observe(space, rows)
    if not np.isfinite(observed.value):
        raise NotConverged(
            "ln L of the observed events is not finite anywhere in the region; look at "
            "estimator.potential(x, theta)."
        )
    if not observed.converged:
        warn_user(
            "the best fit did not converge, so the statistic may be too small; it lies near "
            f"θ = {np.round(observed.theta, 5).tolist()}."
        )
    return observed


def interesting(
    parameters: Sequence[str | int] | str | int | None, space: SetLikelihood
) -> list[int]:
    """The numbers of the parameters of interest."""
    if parameters is None:
        return np.flatnonzero(space.free).tolist()
    given = [parameters] if isinstance(parameters, str | int) else list(parameters)
    places = [parameter_index(parameter, space.names) for parameter in given]
    if not places or len(set(places)) < len(places):
        raise ValueError(
            f"parameters must name different parameters of {', '.join(space.names)}; got {given}."
        )
    for place in places:
        if not space.free[place]:
            raise ValueError(f"{space.names[place]} is fixed, so it cannot be tested.")
    return places


def _of_toys(maker: ToyMaker, fitter: ToyFitter) -> list[str]:
    notes = [f"{maker.toys:,} toys at each point; {maker.source.describe()}"]
    if maker.shared > 0:
        # The variance of a mean of indicators whose correlation is at most the shared fraction.
        error = np.sqrt(0.25 * (1 / maker.toys + maker.shared))
        notes.append(
            f"two toys share {maker.shared:.2%} of their events on average, so a p-value's "
            f"standard error is at most {error:.3f}; give a larger pool= to lower it"
        )
    if fitter.failed:
        share = fitter.failed / fitter.fits
        notes.append(f"{fitter.failed:,} of {fitter.fits:,} fits of toys did not converge")
        if share > TOLERATED_FAILURES:
            warn_user(
                f"{share:.1%} of the fits of toys did not converge; the set is still valid, as the "
                "observed events are treated alike, but may be larger than need be."
            )
    return notes


def _of_space(
    space: SetLikelihood,
    places: list[int],
    constraints: Mapping[str, tuple[float, float]] | None,
) -> list[str]:
    notes = []
    others = space.free.copy()
    others[places] = False
    if others.any():
        notes.append(f"profiled: {', '.join(np.array(space.names)[others])}")
    held = [f"{space.names[i]} = {space.low[i]:.5g}" for i in np.flatnonzero(~space.free)]
    if held:
        notes.append(f"fixed: {', '.join(held)}")
    if constraints:
        said = (f"{name} = {mean:.5g} ± {sd:.3g}" for name, (mean, sd) in constraints.items())
        notes.append(f"constraints: {', '.join(said)}")
    return notes
