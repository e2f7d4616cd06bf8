"""`RatioRegressor`: `ist.fit` behind the interface of scikit-learn."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..chunks import spread_rows
from ..events.events import Events
from ..inputs import Input, as_count, column_names
from ..learning.fit import fit as fit_events
from ..models.architecture import DirectRatio, DirectScore
from ..models.matrix_element import MEM
from ..world.priors.prior import AbstractPrior

#: scikit-learn states no types, and those of the default values are not what it takes.
_validate: Any = validate_data
#: Seeds are below this, as scikit-learn's are.
MOST_SEEDS = np.iinfo(np.int32).max
#: Events for which the potential at all points is held at a time.
HELD = 1 << 12


class RatioRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Scores and likelihood ratios in the manner of scikit-learn: X are observables, y is θ.

    `fit(X, y)` trains `ist.fit` on events X that were simulated at the parameters y. The ratio,
    its logarithm and the score are asked for with the points that they compare; `predict` is
    E[θ|x], what every regressor aims at, for θ distributed as in the training. Works in
    pipelines, grid searches and cross-validation, and can be cloned and pickled.

    Args:
        method: such as `ist.KCE()`; see `ist.fit`.
        network: of a potential or a flow, such as `ist.MLP((32, 32))`.
        members: networks trained side by side and averaged.
        training: its settings, such as `ist.Training(epochs=20)`.
        prior: the distribution that y was drawn from, if it is known.
        points: of the θ of the training, at most, over which `predict` averages.
        random_state: a whole number for the same result each time.

    Attributes:
        estimator_: the trained `ist.Estimator`, with everything else that it can do.
        n_features_in_: number of observables.
        feature_names_in_: their names, where X was a data frame.
    """

    def __init__(
        self,
        *,
        method: Any = None,  # noqa: ANN401
        network: Any = None,  # noqa: ANN401
        members: int | None = None,
        training: Any = None,  # noqa: ANN401
        prior: AbstractPrior | None = None,
        points: int = 1000,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.method = method
        self.network = network
        self.members = members
        self.training = training
        self.prior = prior
        self.points = points
        self.random_state = random_state

    def fit(self, X: Input, y: Input, sample_weight: Input | None = None) -> "RatioRegressor":  # noqa: N803
        """Train on events X, shape (n, D), simulated at y, shape (n,) or (n, d).

        Args:
            X: observables.
            y: the parameters of each event.
            sample_weight: a weight for each event.
        """
        self._require_potential()
        points = as_count(self.points, "points")
        names = column_names(y)
        rows, theta = _validate(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self._flat = np.ndim(theta) == 1
        theta = np.asarray(theta, np.float64).reshape(len(rows), -1)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        events = Events(
            x=rows,
            theta=theta,
            weight=weight,
            prior=self.prior,
            x_names=getattr(self, "feature_names_in_", None),
            theta_names=names,
        )
        self.estimator_: Any = fit_events(
            events,
            self.method,
            network=self.network,
            members=self.members,
            training=self.training,
            seed=int(check_random_state(self.random_state).randint(MOST_SEEDS)),
        )
        chosen = spread_rows(len(theta), points)
        self._theta, self._weight = events.theta[chosen], events.weight[chosen]
        return self

    def predict(self, X: Input) -> np.ndarray:  # noqa: N803
        """E[θ|x] of each event, with the shape of y: the mean over θ of the training.

        Each θ counts by its likelihood of the event, exp φ(x, θ).
        """
        rows = self._read(X)
        means = [self._average(rows[start : start + HELD]) for start in range(0, len(rows), HELD)]
        found = np.concatenate(means)
        return found[:, 0] if self._flat else found

    def log_ratio(self, X: Input, theta0: Input, theta1: Input) -> np.ndarray:  # noqa: N803
        """Ln p(x; θ0) − ln p(x; θ1), shape (n,).

        Args:
            X: observables.
            theta0: a point of shape (d,), or one for each event, (n, d); numbers in place of
                vectors where y had one axis.
            theta1: likewise.
        """
        rows = self._read(X)
        return self.estimator_.log_ratio(rows, self._as_theta(theta0), self._as_theta(theta1))

    def predict_probability(
        self,
        X: Input,  # noqa: N803
        theta0: Input,
        theta1: Input,
    ) -> np.ndarray:
        """P(θ0|x) and P(θ1|x) where both are equally probable, shape (n, 2).

        This is `predict_proba` of a classifier between events of θ0, with label 0, and as many of
        θ1, with label 1: r/(1 + r) and 1/(1 + r).
        """
        log_r = self.log_ratio(X, theta0, theta1)
        return expit(np.stack([log_r, -log_r], axis=1))

    def score_function(self, X: Input, theta: Input) -> np.ndarray:  # noqa: N803
        """∇θ ln p(x; θ), with the shape of y; `score(X, y)` is scikit-learn's R²."""
        rows = self._read(X)
        found = self.estimator_.score(rows, self._as_theta(theta))
        return found[:, 0] if self._flat else found

    def _require_potential(self) -> None:
        """Refuse, before anything is trained, what cannot answer all questions."""
        chosen = self.method if isinstance(self.method, MEM) else self.network
        if isinstance(chosen, MEM | DirectScore | DirectRatio):
            raise TypeError(
                "RatioRegressor needs a potential or a flow, which offers score and ratio; got "
                f"{type(chosen).__name__}. Leave it out, or give network=ist.Potential(…)."
            )

    def _read(self, X: Input) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        return _validate(self, X, dtype=np.float64, reset=False)

    def _as_theta(self, theta: Input) -> Input:
        values = np.asarray(theta)
        return values.reshape(-1, 1) if self._flat and values.ndim < 2 else theta

    def _average(self, rows: np.ndarray) -> np.ndarray:
        phi = self.estimator_.potential_grid(rows, self._theta)
        weight = self._weight * np.exp(phi - phi.max(axis=1, keepdims=True))
        return weight @ self._theta / weight.sum(axis=1, keepdims=True)
