"""The mean score of one or several estimators, and the region in which it can be taken."""

import dataclasses
from typing import Any

import numpy as np

from ...estimator.estimator import Estimator, ScoreEstimator
from ...estimator.history import Region
from ..arguments import as_estimators, common_region


@dataclasses.dataclass(frozen=True, eq=False)
class AveragedScore:
    """Scores averaged over estimators.

    Attributes:
        estimators: one, or several that were trained on different events.
        low, high: where θ is looked for, and at which θ scores are taken, shape (d,).
    """

    estimators: tuple[Estimator | ScoreEstimator, ...]
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, estimators: Any) -> "AveragedScore":  # noqa: ANN401
        """Of an estimator, or a list of them, in the region where all were trained."""
        need = "a calibrated fit needs an estimator that offers a score"
        each = as_estimators(estimators, (Estimator, ScoreEstimator), need)
        return cls(each, *common_region(each))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return self.estimators[0].theta_names

    @property
    def region(self) -> Region:
        """Of the first estimator, with the range of its observables."""
        return self.estimators[0].region

    def __call__(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The mean score, shape (n, d)."""
        return np.mean([estimator.score(x, theta) for estimator in self.estimators], axis=0)

    def clip(self, theta: np.ndarray) -> np.ndarray:
        """The nearest θ at which scores can be taken."""
        return np.clip(theta, self.low, self.high)
