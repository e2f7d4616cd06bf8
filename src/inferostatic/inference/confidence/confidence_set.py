r"""Confidence sets: the θ that the observed events do not reject.

Every θ is tested by the likelihood ratio to the best fit in the physical region. How its p-value is
found is a method of its own: `Wilks` or `Neyman`, or another one beside them.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import special

from ...inputs import Input, as_seed, kind_of, warn_user
from ...summary import AbstractSummarised, Summary, SummaryTable, list_ranges
from ..arguments import ONE_SIGMA, Parameter, as_level, as_point, parameter_indices
from ..lattice import hull as lattice_hull
from ..lattice import lattice
from ..likelihood.learned_bias import LearnedBias
from ..likelihood.likelihood import Likelihood
from ..likelihood.model import LikelihoodModel
from ..likelihood.observed_check import judge_observed, judge_result
from ..likelihood.short_form import of_likelihood
from .grids import WHOLE_LEVEL, Tested, Tester, count_fits, lay_grid, read_grid
from .method import AbstractConfidenceMethod
from .observed_fit import fit_observed
from .wilks import Wilks

#: What to do about a bias.
CURE = "ist.Neyman(simulator) or ist.calibrated_fit, which hold for any network"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ConfidenceSet(AbstractSummarised):
    """A test of every point of a grid, and of any other point on request.

    Attributes:
        names: of the parameters of interest.
        points: where they were tested, shape (m, k).
        statistic: observed −2 ln of the likelihood ratio to the best fit, shape (m,).
        p_value: of the statistic at each point, shape (m,).
        theta: all parameters at each point, the others profiled, shape (m, d).
        best: all parameters at the best fit in the physical region, shape (d,).
        theta_names: of all parameters.
        method: name of the method, such as "wilks" or "neyman".
        level: used where none is given.
        converged: whether the best fit was found.
        notes: how the p-values were found.
        bias: of the best fit by the learned score, where the method trusts it; None otherwise.
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
    bias: LearnedBias | None
    axes: tuple[np.ndarray, ...] | None
    _test: Callable[[np.ndarray], Tested] = dataclasses.field(repr=False)
    _box: tuple[np.ndarray, np.ndarray] = dataclasses.field(repr=False)
    #: The set of one parameter, the others profiled.
    _alone: "Callable[[str], ConfidenceSet]" = dataclasses.field(repr=False)

    def accepted(self, level: float | None = None) -> np.ndarray:
        """Which of the points belong to the set, shape (m,)."""
        return self.p_value > 1 - self._level(level)

    def interval(self, level: float | None = None) -> np.ndarray:
        """The confidence interval of each parameter of interest by itself, shape (k, 2).

        All others are profiled, as MINOS does. Of several parameters each gets a set of its own,
        which is made on the first call; what the joint set spans is `hull`.
        """
        if len(self.names) == 1:
            return self.hull(level)
        return np.concatenate([self._alone(name).hull(self._level(level)) for name in self.names])

    def hull(self, level: float | None = None) -> np.ndarray:
        """The smallest and largest value of each parameter in the joint set, shape (k, 2).

        For several parameters it is wider than the interval of each. Between a point that is
        accepted and a neighbour that is not, the edge is interpolated.
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
        """The hull, and the parameters in which the grid cuts it off."""
        inside = self.accepted(level)
        if not inside.any():
            return np.full((len(self.names), 2), np.nan), []
        if self.axes is None:
            chosen = self.points[inside]
            return np.stack([chosen.min(axis=0), chosen.max(axis=0)], axis=1), []
        threshold = float(self._size(np.array([1 - level]))[0])
        return lattice_hull(self.axes, self._size(self.p_value), threshold, self._box)

    def p_value_at(self, theta: Input) -> float:
        """Test one point, values of the parameters of interest, which need not be in the grid."""
        point = as_point(theta, self.names, self._box, axes=(0, 1, 2))
        return float(self._test(point[None])[1][0])

    def contains(self, theta: Input, level: float | None = None) -> bool:
        """Whether one point belongs to the set; it is tested itself, without the grid."""
        return self.p_value_at(theta) > 1 - self._level(level)

    def _summarise(self) -> Summary:
        levels = sorted({self.level, WHOLE_LEVEL})
        each = [self._ends(level) for level in levels]
        columns = {
            "parameter": list(self.names),
            "best fit": [f"{self.best[self.theta_names.index(name)]:.5g}" for name in self.names],
        }
        for level, (ends, cut) in zip(levels, each, strict=True):
            columns[f"{level:.4g} {'interval' if len(self.names) == 1 else 'hull'}"] = [
                f"{low:.5g} to {high:.5g}{'*' * (i in cut)}" for i, (low, high) in enumerate(ends)
            ]
        notes = list(self.notes)
        if any(cut for _, cut in each):
            notes.insert(0, "* the set goes on beyond the grid")
        title = f"Confidence set of {', '.join(self.names)} by {self.method}"
        return Summary(title, (SummaryTable(columns), *notes))

    def __repr__(self) -> str:
        """What the set spans at its level."""
        inside, (ends, _) = self.accepted(), self._ends(self.level)
        said = "no point accepted"
        if inside.any():
            said = list_ranges(self.names, ends)
        joint = "" if len(self.names) == 1 else "hull of the joint set: "
        return (
            f"ConfidenceSet({joint}{said}; {int(inside.sum())} of {len(inside)} points accepted at "
            f"{self.level:.4g}, {self.method})"
        )

    def _size(self, p: np.ndarray) -> np.ndarray:
        """A p-value as the distance in standard errors that has it: nearly linear in θ."""
        return np.sqrt(2 * special.gammainccinv(len(self.names) / 2, p))

    def _level(self, level: float | None) -> float:
        return self.level if level is None else as_level(level)


@of_likelihood
def confidence_set(
    likelihood: Likelihood,
    method: AbstractConfidenceMethod | None = None,
    *,
    parameters: Sequence[Parameter] | Parameter | None = None,
    grid: Input | Mapping[str, Input] | None = None,
    level: float = ONE_SIGMA,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> ConfidenceSet:
    r"""Test the parameters of interest on a grid: the set that the events do not reject.

    The statistic is \(q=-2\ln[\max_\nu L(\theta_I,\nu)/\max_\theta L]\) in the physical region.
    `confidence_set(estimator, x, …)` is the short form.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)`, or an estimator and events in its place.
        method: `ist.Wilks()`, the default, or `ist.Neyman(simulator)`, which holds for any
            estimator.
        parameters: those of interest, by default all; the others are profiled.
        grid: points of shape (m, k), or axes by name, {"a": values, …}; found by default.
        level: default confidence level of the set.
        seed: of the toys.
        progress_bar: force the display on or off.
    """
    method = Wilks() if method is None else method
    if not isinstance(method, AbstractConfidenceMethod):
        raise TypeError(
            f"method must be ist.Wilks() or ist.Neyman(simulator, …); got {kind_of(method)}."
        )
    level, model = as_level(level), likelihood.model
    indices = _of_interest(parameters, model)
    names = tuple(model.names[i] for i in indices)
    box = (model.low[indices], model.high[indices])
    given = None if grid is None else read_grid(grid, names, box)
    fits = count_fits(None if given is None else len(given[0]), indices, model)
    observed = fit_observed(likelihood, model).with_table(fits, show=progress_bar)
    test = method.prepare(likelihood, observed, seed=as_seed(seed))
    tester = Tester(observed, indices, test, random=method.random)
    if given is None:
        axes, tested = lay_grid(tester, names, box, show=progress_bar)
        points = lattice(axes)
    else:
        points, axes = given
        tested = tester(points, show=progress_bar)
    statistic, p_values, theta = tested
    data, *restrictions = likelihood.describe()
    bias, best, hessian = None, tester.observed.theta, tester.observed.hessian
    if method.trusts_potential:
        bias, remarks = judge_result(likelihood, best, hessian=hessian, cure=CURE)
    else:
        remarks = judge_observed(likelihood, best, hessian=hessian)
    return ConfidenceSet(
        names=names,
        points=points,
        statistic=statistic,
        p_value=p_values,
        theta=theta,
        best=best,
        theta_names=model.names,
        method=method.name,
        level=level,
        converged=observed.converged,
        notes=(
            data,
            *observed.notes,
            *test.notes(),
            *_profiled(model, indices),
            *restrictions,
            *remarks,
        ),
        bias=bias,
        axes=axes,
        _test=tester,
        _box=box,
        _alone=functools.cache(
            lambda name: confidence_set(
                likelihood, method, parameters=[name], seed=seed, progress_bar=progress_bar
            )
        ),
    )


def _of_interest(
    parameters: Sequence[Parameter] | Parameter | None, model: LikelihoodModel
) -> list[int]:
    """The indices of the parameters of interest."""
    if parameters is None:
        return np.flatnonzero(model.free).tolist()
    indices = parameter_indices(parameters, model.names)
    for index in indices:
        if not model.free[index]:
            raise ValueError(f"{model.names[index]} is fixed, so it cannot be tested.")
    return indices


def _profiled(model: LikelihoodModel, indices: list[int]) -> list[str]:
    others = model.free.copy()
    others[indices] = False
    return [f"profiled: {', '.join(np.array(model.names)[others])}"] if others.any() else []
