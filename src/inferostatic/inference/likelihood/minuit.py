"""iminuit around an objective with an exact gradient: starts, bounds and fixed parameters."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...inputs import Input, as_count, warn_user
from ...packages import import_package
from ...streams import Purpose, Stream
from ..arguments import as_point

#: Rise of −ln L within which two minima are the same: a hundredth of that of one sigma.
SAME_MINIMUM = 0.01
#: Distance from an edge, as a part of the region, at which an estimate lies at the edge.
EDGE = 1e-4


@runtime_checkable
class AbstractObjective(Protocol):
    """A function of θ with its gradient, scaled so that ½ above the minimum is one sigma."""

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The function and its gradient, shape (d,)."""
        ...


class NotConverged(RuntimeError):
    """The minimiser did not converge."""


class _LastPoint:
    """An objective evaluated once at each θ: Minuit asks for value and gradient separately."""

    def __init__(self, objective: AbstractObjective) -> None:
        self._objective = objective
        self._last: tuple[bytes, float, np.ndarray] | None = None

    def _at(self, theta: np.ndarray) -> tuple[bytes, float, np.ndarray]:
        theta = np.asarray(theta, np.float64)
        if not np.isfinite(theta).all():  # where a function is flat, Minuit's steps are NaN
            return b"", np.nan, np.full(len(theta), np.nan)
        key = theta.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = (key, *self._objective.value_and_gradient(theta))
        return self._last

    def value(self, theta: np.ndarray) -> float:
        return self._at(theta)[1]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self._at(theta)[2]


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """An objective in a box.

    Attributes:
        objective: what is minimised.
        names: of the parameters.
        low, high: the box, shape (d,); equal for a fixed parameter.
    """

    objective: AbstractObjective
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """Which parameters are fitted, shape (d,)."""
        return self.high > self.low

    def hold(self, indices: list[int], values: np.ndarray) -> "Problem":
        """The same with some parameters fixed."""
        low, high = self.low.copy(), self.high.copy()
        low[indices] = high[indices] = values
        return dataclasses.replace(self, low=low, high=high)

    def value(self, theta: np.ndarray) -> float:
        """The objective."""
        return self.objective.value_and_gradient(np.asarray(theta, np.float64))[0]

    def minuit(self, begin: np.ndarray, steps: np.ndarray | None = None) -> Any:  # noqa: ANN401
        """A minimiser at `begin`, not yet run; `steps` are expected errors."""
        minuit_class = load_iminuit()
        objective = _LastPoint(self.objective)
        begin = np.clip(begin, self.low, self.high)
        minuit = minuit_class(objective.value, begin, grad=objective.gradient, name=self.names)
        minuit.errordef = minuit_class.LIKELIHOOD
        free = self.free
        for name, low, high, is_free in zip(self.names, self.low, self.high, free, strict=True):
            if is_free:
                minuit.limits[name] = (low, high)
            else:
                minuit.fixed[name] = True
        if steps is not None:
            default = np.where(free, 0.01 * (self.high - self.low), 1)
            minuit.errors = np.where(steps > 0, steps, default)
        return minuit

    def starts(self, start: Input | None, starts: int) -> np.ndarray:
        """Where to begin, shape (starts, d).

        The given point, then the best of the centre and a fixed scatter of points in the box.
        """
        wanted = as_count(starts, "starts")
        box = (self.low, self.high)
        given = [] if start is None else [as_point(start, self.names, box, "start")]
        if len(given) == wanted:
            return np.array(given)
        size = len(self.names)
        rng = Stream(1, Purpose.MINUIT_STARTS).generator()
        scatter = rng.uniform(0.1, 0.9, (max(4 * size, 4 * (wanted - 1)), size))
        inside = np.concatenate([np.full((1, size), 0.5), scatter])
        points = self.low + (self.high - self.low) * inside
        order = np.argsort([self.value(point) for point in points], kind="stable")
        return np.array([*given, *points[order]])[:wanted]

    def lowest(self, begins: np.ndarray, *, hesse: bool = True) -> tuple[Any, int]:
        """The best of the fits from all starts, shape (starts, d), and how many found the same.

        With `hesse` the covariance is that of the Hessian at the minimum, which costs two thirds of
        all evaluations; it is rough otherwise.
        """
        fits = [self._fit(begin, hesse=hesse) for begin in begins]
        best = min(fits, key=lambda minuit: (not minuit.valid, minuit.fval))
        same = sum(fit.valid and fit.fval < best.fval + SAME_MINIMUM for fit in fits)
        return best, same

    def _fit(self, begin: np.ndarray, *, hesse: bool) -> Any:  # noqa: ANN401
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
        margin = EDGE * (self.high - self.low)
        return self.free & ((theta - self.low < margin) | (self.high - theta < margin))

    def report(
        self, theta: np.ndarray, message: str, advice: str, *, valid: bool, throw: bool
    ) -> None:
        """Warn of an estimate at an edge; raise if there is none and `throw` is set."""
        if valid and self.at_edge(theta).any():
            warn_user(message + "; its errors are not meaningful. Simulate wider.")
        if throw and not valid:
            raise NotConverged(f"{message}. {advice}, or pass throw=False to see the result.")

    def verdict(self, minuit: Any) -> tuple[bool, str]:  # noqa: ANN401
        """Whether the fit is good, and a message."""
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


def load_iminuit() -> Any:  # noqa: ANN401
    """iminuit's Minuit, loaded on first use."""
    return import_package("iminuit", "maximum_likelihood uses iminuit", "inference").Minuit
