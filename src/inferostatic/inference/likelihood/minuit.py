"""iminuit around an objective with an exact gradient: starts, bounds and fixed parameters."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ...inputs import Input, as_count, as_floats
from ..arguments import values_by_name


class Objective(Protocol):
    """A function of θ with its gradient, scaled so that ½ above the minimum is one sigma."""

    def value(self, theta: np.ndarray) -> float:
        """The function."""
        ...

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient, shape (d,)."""
        ...


class NotConverged(RuntimeError):
    """The minimiser did not converge."""


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """An objective on the trained region, some parameters held fixed.

    Attributes:
        objective: what is minimised.
        names: of the parameters.
        low, high: the region, shape (d,).
        fixed: values of the parameters that are held, by name.
    """

    objective: Objective
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    fixed: Mapping[str, float]

    @property
    def free(self) -> np.ndarray:
        """Which parameters are fitted, shape (d,)."""
        return np.array([name not in self.fixed for name in self.names])

    def held(self, theta: np.ndarray) -> np.ndarray:
        """θ with the fixed parameters at their values."""
        theta = np.array(theta, np.float64)
        for name, value in self.fixed.items():
            theta[list(self.names).index(name)] = value
        return theta

    def minuit(self, begin: np.ndarray, steps: np.ndarray | None = None) -> Any:  # noqa: ANN401
        """A minimiser at `begin`, not yet run; `steps` are expected errors."""
        minuit_class = iminuit_class()
        minuit = minuit_class(
            self.objective.value, self.held(begin), grad=self.objective.gradient, name=self.names
        )
        minuit.errordef = minuit_class.LIKELIHOOD
        minuit.limits = list(zip(self.low, self.high, strict=True))
        if steps is not None:
            minuit.errors = np.where(steps > 0, steps, 0.01 * (self.high - self.low))
        for name in self.fixed:
            minuit.fixed[name] = True
        return minuit

    def starts(self, start: Input | None, starts: int) -> np.ndarray:
        """Where to begin, shape (starts, d).

        The given point, then the best of the centre and a fixed scatter of points in the region.
        """
        wanted = as_count(starts, "starts")
        given = [] if start is None else [self.checked_start(start)]
        if len(given) == wanted:
            return np.array(given)
        size = len(self.names)
        rng = np.random.default_rng(0)
        scatter = rng.uniform(0.1, 0.9, (max(4 * size, 4 * (wanted - 1)), size))
        inside = np.concatenate([np.full((1, size), 0.5), scatter])
        points = [self.held(p) for p in self.low + (self.high - self.low) * inside]
        order = np.argsort([self.objective.value(point) for point in points], kind="stable")
        return np.array([*given, *(points[i] for i in order)])[:wanted]

    def checked_start(self, start: Input) -> np.ndarray:
        """One θ in the region, or a sentence."""
        return point_inside(start, "start", self.names, self.low, self.high)

    def lowest(self, begins: np.ndarray, *, hesse: bool = True) -> tuple[Any, int]:
        """The best of the fits from all starts, and how many found that same minimum.

        Args:
            begins: where to start, shape (starts, d).
            hesse: whether the covariance is to be that of the Hessian at the minimum. It costs two
                thirds of all evaluations, and is rough otherwise.
        """
        fits = [self._fitted(begin, hesse=hesse) for begin in begins]
        best = min(fits, key=lambda minuit: (not minuit.valid, minuit.fval))
        # A difference of 0.01 in −ln L is a hundredth of the rise that makes one sigma.
        same = sum(fit.valid and fit.fval < best.fval + 0.01 for fit in fits)
        return best, same

    def _fitted(self, begin: np.ndarray, *, hesse: bool) -> Any:  # noqa: ANN401
        minuit = self.minuit(begin)
        if not hesse:
            minuit.strategy = 0
            minuit.migrad()
            if minuit.valid:
                return minuit
            minuit.strategy = 1
        minuit.migrad()
        minuit.hesse()
        return minuit

    def at_edge(self, theta: np.ndarray) -> np.ndarray:
        """Which fitted parameters lie at the edge of the region."""
        margin = 1e-4 * (self.high - self.low)
        return self.free & ((theta - self.low < margin) | (self.high - theta < margin))

    def verdict(self, minuit: Any) -> tuple[bool, str]:  # noqa: ANN401
        """Whether the fit is good, and a sentence."""
        valid = bool(minuit.valid and minuit.covariance is not None)
        message = "converged"
        if not minuit.valid:
            edm = minuit.fmin.edm if minuit.fmin else np.nan
            message = f"iminuit did not converge: estimated distance to the minimum {edm:.3g}"
        elif not valid:
            message = "iminuit found no Hessian that can be inverted: the likelihood is flat"
        edge = self.at_edge(np.array(minuit.values))
        if valid and edge.any():
            edges = ", ".join(np.array(self.names)[edge])
            message = f"the estimate lies at the edge of the trained region in {edges}"
        return valid, message


def point_inside(
    point: Input, what: str, names: tuple[str, ...], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """One θ in the trained region, or a sentence."""
    values = as_floats(point, what).astype(np.float64)
    if values.shape != (len(names),):
        raise ValueError(
            f"{what} must have one value for each of {', '.join(names)}; got shape {values.shape}."
        )
    if not np.all((values >= low) & (values <= high)):
        raise ValueError(
            f"{what} must lie in the trained region, {low.tolist()} to {high.tolist()}; got "
            f"{values.tolist()}."
        )
    return values


def checked_fixed(
    fixed: Mapping[str, float] | None, names: tuple[str, ...], low: np.ndarray, high: np.ndarray
) -> dict[str, float]:
    """Values of the fixed parameters, inside the region, with something left to fit."""
    values = values_by_name(fixed, names, "fixed")
    for name, value in values.items():
        place = names.index(name)
        number = as_floats(value, f"the fixed value of {name}")
        if number.shape != () or not low[place] <= number <= high[place]:
            raise ValueError(
                f"the fixed value of {name} must lie in the trained region, {low[place]:.5g} to "
                f"{high[place]:.5g}; got {value!r}."
            )
        values[name] = float(number)
    if len(values) == len(names):
        raise ValueError("every parameter is fixed, so nothing is left to fit; free at least one.")
    return values


def iminuit_class() -> Any:  # noqa: ANN401
    """iminuit's Minuit, loaded on first use."""
    try:
        from iminuit import Minuit
    except ImportError as error:
        raise ImportError(
            "maximum_likelihood uses iminuit: pip install 'inferostatic[inference]'"
        ) from error
    return Minuit
