r"""Optimal observables: the score at a reference point, and its projections.

Near θ_ref the likelihood is \(p(x;\theta)\propto p(x;\theta_\mathrm{ref})
\exp[(\theta-\theta_\mathrm{ref})\cdot s(x;\theta_\mathrm{ref})]\) to first order, so the d numbers
s(x; θ_ref) hold all that an event says about small changes of θ (SALLY). Along one direction a
single number does: \((\theta-\theta_\mathrm{ref})\cdot s\) (SALLINO), and for one parameter with
the others free its efficient score \(s_a-I_{ab}I_{bb}^{-1}s_b\).
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from ...estimator.estimator import Estimator, ScoreEstimator
from ...inputs import Input, as_floats, kind_of, require_finite
from ...summary import (
    AbstractSummarised,
    Summary,
    SummaryTable,
    count,
    list_names,
    list_parts,
    shorten,
)
from ..arguments import as_trained_point, as_weight, parameter_index
from ..information.fisher_information import FisherInformation
from .histograms import Bins, Histogram, choose_bins, fill_histogram


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Observable(AbstractSummarised):
    """The score at θ_ref, projected: a function of events that is optimal near θ_ref.

    Call it with events, shape (n, D), to get its values, shape (n, k).

    Attributes:
        estimator: what gives the score.
        theta_ref: the reference point, shape (d,).
        projection: from the score to the values, shape (k, d); the unit matrix for the score.
        names: of the k columns.
        directions: what the values measure, each a change of θ, shape (d,), by name: the single
            parameters, the one that was named, or "strength" times the given direction.
    """

    estimator: Estimator | ScoreEstimator
    theta_ref: np.ndarray
    projection: np.ndarray
    names: tuple[str, ...]
    directions: Mapping[str, np.ndarray]

    def __call__(self, x: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The values of events, shape (n, k)."""
        scores = self.estimator.score(x, self.theta_ref, memory_mb=memory_mb)
        return scores @ self.projection.T

    def information(self, x: Input, weight: Input | None = None) -> np.ndarray:
        """The Fisher information of one event at θ_ref, shape (d, d), for a perfect score.

        It is the covariance of the score over events that were made at θ_ref.

        Args:
            x: events simulated at θ_ref.
            weight: one weight for each, of either sign.
        """
        scores, shares = self._centred_scores(x, weight)
        return (shares[:, None] * scores).T @ scores

    def binned_information(self, x: Input, bins: Bins, weight: Input | None = None) -> np.ndarray:
        """What is left of `information` when only the bin of the values is kept, shape (d, d)."""
        scores, shares = self._centred_scores(x, weight)
        index = bins.index(scores @ self.projection.T)
        columns = [shares, *(shares * column for column in scores.T)]
        content, *slopes = (np.bincount(index, column, minlength=len(bins)) for column in columns)
        filled = content > 0
        filled_slopes = np.stack(slopes)[:, filled]
        return (filled_slopes / content[filled]) @ filled_slopes.T

    def _centred_scores(self, x: Input, weight: Input | None) -> tuple[np.ndarray, np.ndarray]:
        """Scores less their mean, and the share of each event in the weight."""
        scores = self.estimator.score(x, self.theta_ref)
        weights = as_weight(weight, len(scores))
        shares = weights / weights.sum()
        return scores - shares @ scores, shares

    def choose_bins(
        self,
        x: Input,
        weight: Input | None = None,
        *,
        max_relative_error: float = 0.1,
        most: int = 20,
    ) -> Bins:
        """Bins of the values with a bounded statistical error; see `histograms.choose_bins`."""
        values = self(x)
        return choose_bins(values, weight=weight, max_relative_error=max_relative_error, most=most)

    def histogram(
        self,
        x: Input,
        weight: Input | None = None,
        *,
        bins: Bins | None = None,
        max_relative_error: float = 0.1,
    ) -> Histogram:
        """The histogram of the values of events, in given bins or in those chosen from them."""
        values = self(x)
        if bins is None:
            bins = choose_bins(values, weight=weight, max_relative_error=max_relative_error)
        return fill_histogram(bins, values, weight)

    def __repr__(self) -> str:
        """Which columns, and where."""
        values = zip(self.estimator.theta_names, self.theta_ref, strict=True)
        point = list_parts(f"{shorten(name)} = {value:.4g}" for name, value in values)
        return f"Observable({list_names(self.names)} at {point})"

    def _summarise(self) -> Summary:
        parameters = self.estimator.theta_names
        columns = {
            "parameter": list(parameters),
            "reference": [f"{value:.4g}" for value in self.theta_ref],
        }
        for name, row in zip(self.names, self.projection, strict=True):
            columns[f"{name} ×"] = [f"{value:.4g}" for value in row]
        title = f"Observable of {count(len(self.names), 'column')}: {list_names(self.names)}"
        note = "a column is the sum of score components, each times its number"
        return Summary(title, (SummaryTable(columns), note))


def observable(
    estimator: Estimator | ScoreEstimator,
    theta_ref: Input,
    *,
    direction: Input | str | None = None,
    information: Input | FisherInformation | None = None,
) -> Observable:
    r"""The locally optimal observable: the score at θ_ref, or a projection of it.

    Args:
        estimator: a trained potential or a direct score network.
        theta_ref: the reference point, shape (d,), at which or near which the data are expected.
        direction: None for all d components; a vector θ − θ_ref, shape (d,), for the one number
            \((\theta-\theta_\mathrm{ref})\cdot s\); or the name of one parameter.
        information: with a parameter's name, the Fisher information at θ_ref: the result of
            `fisher`, or a matrix of shape (d, d), as
            `observable(estimator, theta_ref).information(x_ref)` gives it. The others are then
            profiled: the efficient score does not change with them, to first order.
    """
    if not isinstance(estimator, Estimator | ScoreEstimator):
        raise TypeError(
            "observable needs a score, of a potential (ist.Estimator) or a ScoreEstimator; got "
            f"{kind_of(estimator)}."
        )
    names = estimator.theta_names
    point = as_trained_point(estimator, theta_ref, "theta_ref")
    projection, columns = np.eye(len(names)), tuple(f"score {name}" for name in names)
    measured = dict(zip(names, np.eye(len(names)), strict=True))
    if isinstance(direction, str):
        index = parameter_index(direction, names)
        projection, columns = projection[[index]], (columns[index],)
        measured = {names[index]: measured[names[index]]}
        if information is not None:
            # e_a − I_ab I_bb⁻¹, the row of the inverse scaled to 1 at the parameter.
            row = np.linalg.inv(_as_information(information, len(names)))[index]
            projection = (row / row[index])[None]
            columns = (f"efficient score {names[index]}",)
    elif information is not None:
        raise ValueError(
            "information serves to profile the other parameters, so direction must name one of "
            f"{', '.join(names)}; got direction={direction!r}."
        )
    elif direction is not None:
        projection, columns = _as_direction(direction, names), ("projected score",)
        measured = {"strength": projection[0]}
    return Observable(estimator, point, projection, columns, measured)


def _as_direction(direction: Input, names: tuple[str, ...]) -> np.ndarray:
    vector = as_floats(direction, "direction").astype(np.float64)
    if vector.shape != (len(names),) or not np.isfinite(vector).all() or not vector.any():
        raise ValueError(
            f"direction must be a vector with one finite value for each of {', '.join(names)}, "
            f"not all zero, or the name of one; got {np.asarray(direction).tolist()}."
        )
    return vector[None]


def _as_information(information: Input | FisherInformation, size: int) -> np.ndarray:
    if isinstance(information, FisherInformation):
        information = information.score_information
    matrix = as_floats(information, "information").astype(np.float64)
    if matrix.shape != (size, size):
        raise ValueError(f"information must have shape ({size}, {size}); got shape {matrix.shape}.")
    require_finite(matrix, "information", "Estimate it from more events.")
    matrix = (matrix + matrix.T) / 2
    smallest = np.linalg.eigvalsh(matrix)[0]
    if smallest <= 0:
        raise ValueError(
            f"information must be positive definite; got a matrix with smallest eigenvalue "
            f"{smallest:.3g}. Estimate it from more events, or fix a parameter that the events do "
            "not determine."
        )
    return matrix
