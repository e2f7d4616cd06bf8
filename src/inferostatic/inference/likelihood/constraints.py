r"""Gaussian constraints: measurements of single parameters made elsewhere.

Each adds \(-\frac12((\theta_k-m_k)/\sigma_k)^2\) to ln L. In a toy the measurement m is made again.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...inputs import as_floats
from ..arguments import values_by_name


@dataclasses.dataclass(frozen=True, eq=False)
class Constraints:
    """Measurements of the parameters.

    Attributes:
        mean: m, shape (d,); 0 for parameters without one.
        precision: 1/σ², shape (d,); 0 for parameters without one.
    """

    mean: np.ndarray
    precision: np.ndarray

    def value(self, theta: np.ndarray, measured: np.ndarray | None = None) -> np.ndarray:
        """The constraints' part of ln L, for θ and measurements that broadcast."""
        mean = self.mean if measured is None else measured
        return -0.5 * np.sum(self.precision * (theta - mean) ** 2, axis=-1)

    @property
    def deviation(self) -> np.ndarray:
        """σ, shape (d,); 0 for parameters without a constraint."""
        constrained = self.precision > 0
        return np.where(constrained, 1 / np.sqrt(np.where(constrained, self.precision, 1)), 0)

    def describe(self, names: Sequence[str]) -> str:
        """The measurements in a line; empty without any."""
        each = [
            f"{names[i]} = {self.mean[i]:.5g} ± {self.deviation[i]:.3g}"
            for i in np.flatnonzero(self.precision).tolist()
        ]
        return f"constraints: {', '.join(each)}" if each else ""


def read_constraints(constraints: object, names: Sequence[str]) -> Constraints:
    """Constraints as a user gives them, {"name": (mean, standard deviation)}."""
    mean, precision = np.zeros(len(names)), np.zeros(len(names))
    for name, pair in values_by_name(constraints, names, "constraints").items():
        values = as_floats(pair, f"the constraint of {name}")
        if values.shape != (2,) or not np.isfinite(values).all() or not values[1] > 0:
            raise ValueError(
                "a constraint is a pair (mean, standard deviation), both finite and the second "
                f"positive; got {pair!r} for {name}."
            )
        index = list(names).index(name)
        mean[index], precision[index] = values[0], 1 / values[1] ** 2
    return Constraints(mean, precision)
