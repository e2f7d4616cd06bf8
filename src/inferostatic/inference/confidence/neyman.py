r"""Confidence sets by the Neyman construction: p-values from toys at every θ.

The statistic is the likelihood ratio to the best fit in the physical region (Feldman and Cousins,
Phys. Rev. D57, 3873; with the other parameters profiled). Its p-value is that among toys simulated
at θ_I and the fitted values of the other parameters. It is right whatever the estimator, because
the same function of the data is applied to the toys; a bad estimator gives larger sets, not wrong
ones. One difference is left: toys of 50 or more events are maximised around the θ at which they
were made, and a second maximum far away, which the fit of the observed events would find, is not
looked for in them.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...checkpoint import CheckpointChoice, as_checkpoint, open_checkpoint
from ...inputs import as_count, warn_user
from ...progress import progress
from ..lattice import Axes, lattice
from ..likelihood.likelihood import Likelihood
from .method import AbstractConfidenceMethod, AbstractPointTest
from .observed_fit import ObservedFit
from .saved_toys import SavedToys, identify_toys
from .toy_fits import ToyFitter
from .toys import FEW_EVENTS, ToyMaker, ToySource, describe_toys, make_toy_maker, require_source

#: Statistics that differ by less are equal: discrete data repeat values up to rounding.
TIE = 1e-4
#: Evaluations of a network from which on toys are made at few points of a lattice: some 20 s.
LATTICE_PAYS = 20_000_000
#: Points of these along each axis, by the number of parameters of interest.
COARSE_POINTS = {1: 7, 2: 4, 3: 3}
#: p-values at which interpolated ones are compared with toys at the point itself.
CHECKED_AT = (0.05, 0.1, 0.32)
#: Standard errors by which they may differ.
CHECK_SIGMAS = 4.0
#: Part of the fits of toys without convergence above which there is a warning.
TOLERATED_FAILURES = 0.01


@dataclasses.dataclass(frozen=True)
class Neyman(AbstractConfidenceMethod):
    """The distribution of the statistic is that among toys at each θ.

    For all parameters of interest and a simulator, the coverage is exact for any estimator;
    profiled nuisance parameters or stored events make it approximate.

    Args:
        simulator: function (theta, rng) -> x; or simulated `ist.Events` at many θ, of which those
            nearest to the θ that is tested are used. For several channels a list, one for each.
        toys: at each point.
        pool: events simulated at each point, from which toys are drawn without replacement; by
            default all of them independent for few events, otherwise at least 20 times the events
            of a toy.
        checkpoint: a folder, or `ist.Checkpoint(path, minutes=…)`, in which the statistics of toys
            are kept by point: the same call goes on where it stopped, to the same numbers. Each
            likelihood needs a folder of its own.
    """

    name: ClassVar[str] = "neyman"
    random: ClassVar[bool] = True
    trusts_potential: ClassVar[bool] = False

    simulator: ToySource | Sequence[ToySource]
    toys: int = 1000
    pool: int | None = None
    checkpoint: CheckpointChoice = None

    def __post_init__(self) -> None:
        """Check the options."""
        require_source(self.simulator)
        as_checkpoint(self.checkpoint)
        as_count(self.toys, "toys")
        if self.pool is not None:
            as_count(self.pool, "pool")

    def prepare(
        self, likelihood: Likelihood, observed: ObservedFit, *, seed: int
    ) -> AbstractPointTest:
        """Toys of this likelihood."""
        options = (self.simulator, self.toys, self.pool, seed)
        fitter = ToyFitter(observed, make_toy_maker(likelihood, observed.model, *options))
        saved = open_checkpoint(
            self.checkpoint, "set by Neyman", lambda: identify_toys(likelihood, *options)
        )
        return _ToyTest(SavedToys(fitter, saved))


@dataclasses.dataclass(frozen=True, eq=False)
class _ToyTest(AbstractPointTest):
    toys: SavedToys
    #: What was said of interpolated p-values.
    interpolated: list[str] = dataclasses.field(default_factory=list)

    @property
    def fitter(self) -> ToyFitter:
        return self.toys.fitter

    def p_values(
        self,
        statistic: np.ndarray,
        theta: np.ndarray,
        indices: list[int],
        *,
        axes: Axes | None = None,
        show: bool | None,
    ) -> np.ndarray:
        """From toys at every point, or, on a lattice that takes long, between toys at few points.

        The distribution of the statistic changes little from one θ to the next: shares of toys
        above it are interpolated linearly, and compared with toys at some other points.
        """
        with self.toys.saved:
            return self._find(statistic, theta, indices, axes, show=show)

    def _find(
        self,
        statistic: np.ndarray,
        theta: np.ndarray,
        indices: list[int],
        axes: Axes | None,
        *,
        show: bool | None,
    ) -> np.ndarray:
        if axes is None:
            return self._at_every_point(statistic, theta, indices, show=show)
        coarse = _thin_axes(axes)
        few = max(self.fitter.maker.events) < FEW_EVENTS  # the distribution changes much with θ
        long = len(theta) * self.fitter.count_evaluations() >= LATTICE_PAYS
        if few or not long or len(theta) < 2 * len(lattice(coarse)):
            return self._at_every_point(statistic, theta, indices, show=show)
        nodes, maker = lattice(coarse), _share_pools(self.fitter.maker)
        profiled = self.fitter.observed.conditional(indices, nodes).theta
        toys = np.empty((len(nodes), maker.toys))
        with progress("toys", len(nodes) + len(CHECKED_AT), show=show) as advance:
            for row, point in enumerate(profiled):
                toys[row] = np.sort(self.toys.statistic(point, indices, maker))
                advance(1)
            weights = _multilinear(coarse, theta[:, indices])
            values = np.array(
                [
                    p_value_between(toys, weight, one)
                    for weight, one in zip(weights, statistic, strict=True)
                ]
            )
            # Where it matters most: near the edges of usual sets, and far from the toys.
            away = (weights**2).sum(axis=1)
            error = 0.0
            for level in CHECKED_AT:
                row = int(np.argmin(np.abs(np.log(values / level)) + away))
                there = p_value(self.toys.statistic(theta[row], indices, maker), statistic[row])
                error = max(error, abs(there - values[row]))
                # Two-sided statistics are correlated by the square of what toys share.
                spread = np.sqrt(max(there, values[row]) * (1 / maker.toys + maker.shared**2))
                if abs(there - values[row]) > CHECK_SIGMAS * spread:
                    return self._at_every_point(statistic, theta, indices, show=show)
                advance(1)
        self.interpolated[:] = [
            f"toys were made at {len(nodes)} points of the grid's region, from pools of which two "
            f"toys share {maker.shared:.2%}, and p-values interpolated between them; at "
            f"{len(CHECKED_AT)} other points they differ by up to {error:.2g} from those of toys "
            "there (a grid that is given has toys at every point)"
        ]
        return values

    def _at_every_point(
        self, statistic: np.ndarray, theta: np.ndarray, indices: list[int], *, show: bool | None
    ) -> np.ndarray:
        values = np.empty(len(theta))
        with progress("toys", len(theta), show=show) as advance:
            for i, point in enumerate(theta):
                values[i] = p_value(self.toys.statistic(point, indices), statistic[i])
                advance(1)
        return values

    def notes(self) -> list[str]:
        fitter, maker = self.fitter, self.fitter.maker
        notes = describe_toys(maker)
        if maker.shared > 0:
            # The variance of a mean of indicators whose correlation is at most the shared fraction.
            error = np.sqrt(0.25 * (1 / maker.toys + maker.shared))
            notes.append(
                f"two toys share {maker.shared:.2%} of their events on average, so a p-value's "
                f"standard error is at most {error:.3f}"
            )
        if fitter.failed > TOLERATED_FAILURES * fitter.fits:
            warn_user(
                f"{fitter.failed / fitter.fits:.1%} of the fits of toys did not converge; the set "
                "is still valid, as the observed events are treated alike, but may be larger than "
                "need be."
            )
        return notes + self.interpolated + fitter.describe_failures()


def p_value_between(toys: np.ndarray, weight: np.ndarray, observed: float) -> float:
    """The same from sorted toys at several θ, shape (points, toys), by the weight of each."""
    used = np.flatnonzero(weight)
    count = toys.shape[1]
    below = np.array([np.searchsorted(toys[k], observed - TIE, side="left") for k in used])
    return float((1 + weight[used] @ (count - below)) / (1 + count))


def _thin_axes(axes: Axes) -> Axes:
    """Few values over the same range."""
    count = COARSE_POINTS.get(len(axes), min(COARSE_POINTS.values()))
    return tuple(np.linspace(axis[0], axis[-1], count) for axis in axes)


def _share_pools(maker: ToyMaker) -> ToyMaker:
    """Smaller pools: where p-values are interpolated, several of them serve together."""
    if maker.pool is not None:
        return maker
    return dataclasses.replace(
        maker, pool_times=maker.pool_times // 2, pool_least=maker.pool_least // 4
    )


def _multilinear(axes: Axes, points: np.ndarray) -> np.ndarray:
    """Weights of the points of a lattice, shape (m, lattice), for linear interpolation."""
    weights = np.ones((len(points), 1))
    for axis, values in zip(axes, points.T, strict=True):
        where = np.clip((values - axis[0]) / (axis[1] - axis[0]), 0, len(axis) - 1)
        along = np.maximum(1 - np.abs(where[:, None] - np.arange(len(axis))), 0.0)
        weights = (weights[:, :, None] * along[:, None, :]).reshape(len(points), -1)
    return weights


def p_value(toys: np.ndarray, observed: float) -> float:
    """The observed set counts as one more toy: then P(p ≤ α) ≤ α for any number of toys."""
    return float((1 + np.sum(toys >= observed - TIE)) / (1 + len(toys)))
