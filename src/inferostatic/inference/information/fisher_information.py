"""The record of a Fisher information: bounds, profiles, ellipses, shares of events."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...inputs import FLOAT32_MAX, Input, as_count, as_floats, as_number, rounded
from ...summary import Summary, SummaryTable, list_parts, shorten
from ...weights import mean_and_error
from ..arguments import ONE_SIGMA, Parameter, as_level, parameter_index, parameter_indices
from .disagreement import SINGULAR, Disagreement, compare_forms
from .score_response import ScoreResponse
from .symmetric_matrices import map_congruence, standard_errors, unpack_triangle

#: Part of the events, the most informative ones, whose share of the information is shown.
TOP = 0.01
#: p-value below which a disagreement is called more than chance.
DOUBTFUL = 0.01

Which = Parameter | Sequence[Parameter]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FisherInformation:
    """Fisher information of one event at one θ, in both forms.

    Attributes:
        theta: where, shape (d,).
        names: of the parameters.
        score_information: E[ŝŝᵀ], shape (d, d).
        score_error: its standard errors, from the finite number of events.
        hessian_information: −E[∇²φ̂], shape (d, d).
        hessian_error: its standard errors.
        automatic: whether ∇²φ̂ comes from automatic differentiation, not from differences.
        remark: why differences were taken; empty otherwise.
        mean_score: E[ŝ], which is 0 for the true score, shape (d,).
        mean_score_error: its standard errors.
        scores: of every event, shape (n, d).
        weight: of every event, shape (n,).
        n_effective: number of events of equal weight that would know as much.
        response: the information of the score as a statistic, once `add_response` put it here. An
            error of the score touches it only in second order, the other forms in first.
    """

    theta: np.ndarray
    names: tuple[str, ...]
    score_information: np.ndarray
    score_error: np.ndarray
    hessian_information: np.ndarray
    hessian_error: np.ndarray
    automatic: bool
    remark: str
    mean_score: np.ndarray
    mean_score_error: np.ndarray
    scores: np.ndarray
    weight: np.ndarray
    n_effective: float
    # Covariance of both packed forms together.
    _covariance: np.ndarray
    # Where others were profiled: the whole, and which of its parameters these are.
    _within: "tuple[FisherInformation, list[int]] | None" = None
    response: ScoreResponse | None = None

    def bound(self, n_events: float = 1) -> np.ndarray:
        """The Cramér-Rao bound: the smallest covariance of an estimate from N events, (d, d)."""
        return _invert(self.score_information, self.names) / _as_event_number(n_events)

    def sandwich(self, n_events: float = 1) -> np.ndarray:
        """H⁻¹Cov(ŝ)H⁻¹/N, the covariance of the θ̂ that solves Σŝ = 0 for N events, (d, d)."""
        if self._within:
            whole, kept = self._within
            return whole.sandwich(n_events)[np.ix_(kept, kept)]
        inverse = _invert(self.hessian_information, self.names)
        away = self.scores - self.mean_score
        covariance = (away * self.weight[:, None]).T @ away / self.weight.sum()
        return inverse @ covariance @ inverse / _as_event_number(n_events)

    @property
    def bias(self) -> np.ndarray:
        """H⁻¹E[ŝ], shape (d,): how far θ̂ from arbitrarily many events is off, to first order."""
        if self._within:
            whole, kept = self._within
            return whole.bias[kept]
        return _invert(self.hessian_information, self.names) @ self.mean_score

    @property
    def bias_error(self) -> np.ndarray:
        """Standard errors of the bias, shape (d,)."""
        return np.sqrt(np.diag(self.sandwich(self.n_effective)))

    @property
    def disagreement(self) -> Disagreement:
        """The difference of both forms with its significance."""
        return compare_forms(self.score_information, self.hessian_information, self._covariance)

    def project(self, which: Which) -> "FisherInformation":
        """The information on some parameters where all others are known.

        Args:
            which: names or indices of the parameters to keep.
        """
        kept = parameter_indices(which, self.names)
        if self._within:
            # Known parameters are dropped first, from the whole; the rest is profiled as before.
            whole, ours = self._within
            fitted = [i for i in range(len(whole.names)) if i not in ours]
            fewer = whole.project([ours[i] for i in kept] + fitted)
            return fewer.profile(range(len(kept)))
        transform = np.eye(len(self.names))[kept]
        return self._transform(kept, transform, transform)

    def profile(self, which: Which) -> "FisherInformation":
        r"""The information on some parameters where all others are fitted too.

        The Schur complement \(I_{aa}-I_{ab}I_{bb}^{-1}I_{ba}\), which is the information of the
        part of the score \(s_a\) that no combination of the other components predicts.

        Args:
            which: names or indices of the parameters to keep.
        """
        kept = parameter_indices(which, self.names)
        if self._within:
            whole, ours = self._within
            return whole.profile([ours[i] for i in kept])
        others = [i for i in range(len(self.names)) if i not in kept]
        away = tuple(self.names[i] for i in others)

        def transform(information: np.ndarray) -> np.ndarray:
            result = np.eye(len(self.names))[kept]
            if others:
                inverse = _invert(information[np.ix_(others, others)], away)
                result[:, others] = -information[np.ix_(kept, others)] @ inverse
            return result

        forms = transform(self.score_information), transform(self.hessian_information)
        return dataclasses.replace(self._transform(kept, *forms), _within=(self, kept))

    def add_response(self, response: ScoreResponse) -> "FisherInformation":
        """The same with a simulated response at the same θ, which the summary then shows.

        Args:
            response: of `ist.score_response`.
        """
        if response.names != self.names or not np.array_equal(response.theta, self.theta):
            raise ValueError(
                f"the response must be that of {', '.join(self.names)} at θ = "
                f"{rounded(self.theta)}; got that of {', '.join(response.names)} at "
                f"{rounded(response.theta)}."
            )
        return dataclasses.replace(self, response=response)

    def per_event(self, direction: Parameter | Input) -> np.ndarray:
        """(u·ŝ)² of every event, whose weighted mean is uᵀIu, shape (n,).

        Args:
            direction: u, a parameter's name or index, or a vector of shape (d,).
        """
        return (self.scores @ self._direction(direction)) ** 2

    def concentration(self, direction: Parameter | Input, fraction: float = TOP) -> float:
        """Share of the information along `direction` in the most informative `fraction` of events.

        Where few events hold most of it, N must be large before errors become normal.
        """
        fraction = as_number(fraction, "fraction", above=0, most=1)
        each = self.per_event(direction)
        order = np.argsort(-each)
        size = np.abs(self.weight[order])
        top = order[np.cumsum(size) <= fraction * size.sum()]
        return float((self.weight * each)[top].sum() / (self.weight * each).sum())

    def ellipse(
        self,
        i: Parameter,
        j: Parameter,
        level: float = ONE_SIGMA,
        *,
        n_events: float = 1,
        sandwich: bool = False,
        points: int = 200,
    ) -> np.ndarray:
        """The border of the joint confidence region of two parameters around θ, (points, 2).

        All others are fitted too; for known others take `project([i, j]).ellipse(0, 1)`.

        Args:
            i: name or index of the first parameter.
            j: of the second.
            level: probability inside.
            n_events: of the experiment.
            sandwich: whether to use the sandwich covariance in place of the bound.
            points: on the border; the last is the first again.
        """
        pair = parameter_indices([i, j], self.names)
        covariance = self.sandwich(n_events) if sandwich else self.bound(n_events)
        root = np.linalg.cholesky(covariance[np.ix_(pair, pair)])
        angle = np.linspace(0, 2 * np.pi, as_count(points, "points"))
        # χ² of two degrees of freedom has the distribution function 1 − exp(−χ²/2).
        radius = np.sqrt(-2 * np.log1p(-as_level(level)))
        return self.theta[pair] + radius * np.stack([np.cos(angle), np.sin(angle)], 1) @ root.T

    def summary(self, n_events: float = 1) -> str:
        """A table: both forms of each parameter's information, errors of N events, and a verdict.

        Args:
            n_events: of the experiment whose errors are shown.
        """
        return self._summarise(n_events).text()

    def _repr_html_(self) -> str:
        """The summary for one event, in a notebook."""
        return self._summarise(1).html()

    def _summarise(self, n_events: float) -> Summary:
        bound, sandwich = self.bound(n_events), self.sandwich(n_events)
        known = np.sqrt(1 / np.diag(self.score_information) / n_events)

        def show_diagonal(matrix: np.ndarray, error: np.ndarray) -> list[str]:
            pairs = zip(np.diag(matrix), np.diag(error), strict=True)
            return [f"{value:.4g} ± {own:.1g}" for value, own in pairs]

        rows = range(len(self.names))
        columns = {
            "parameter": list(self.names),
            "θ": [f"{value:.4g}" for value in self.theta],
            "E[ŝŝᵀ]": show_diagonal(self.score_information, self.score_error),
            "−E[∇²φ]": show_diagonal(self.hessian_information, self.hessian_error),
            "others known": [f"{value:.3g}" for value in known],
            "others fitted": [f"{np.sqrt(bound[i, i]):.3g}" for i in rows],
            "sandwich": [f"{np.sqrt(sandwich[i, i]):.3g}" for i in rows],
            "bias": [f"{b:.2g} ± {e:.1g}" for b, e in zip(self.bias, self.bias_error, strict=True)],
            f"in {TOP:.0%}": [f"{self.concentration(i):.0%}" for i in rows],
        }
        found = self.disagreement
        title = (
            f"Fisher information of one event, from {len(self.scores):,} events "
            f"({self.n_effective:,.0f} effectively); standard errors of {n_events:,g} "
            f"event{'' if n_events == 1 else 's'}"
        )
        lines = [
            f"The two forms differ by at most {found.relative:.2%} (χ² = {found.chi2:.1f} for "
            f"{found.dof}, p = {found.p_value:.2g})"
            + (": more than chance; prefer the sandwich." if found.p_value < DOUBTFUL else "."),
        ]
        if self.response is not None:
            lines.append(f"Seen as a statistic, whose mean was simulated: {self.response!r}.")
        if self.remark:
            lines.append(f"∇²φ̂ is from differences of the mean score: {self.remark}.")
        return Summary(title, (SummaryTable(columns), *lines))

    def __str__(self) -> str:
        """The table."""
        return self.summary()

    def __repr__(self) -> str:
        """Errors of one event, in a line."""
        known = zip(self.names, self.theta, np.diag(self.score_information), strict=True)
        text = list_parts(f"{shorten(name)} = {value:.4g}: {own:.4g}" for name, value, own in known)
        return (
            f"FisherInformation({text}; {len(self.scores):,} events; forms differ by "
            f"{self.disagreement.relative:.2%})"
        )

    def _direction(self, direction: Parameter | Input) -> np.ndarray:
        if isinstance(direction, Parameter):
            return np.eye(len(self.names))[parameter_index(direction, self.names)]
        vector = as_floats(direction, "direction")
        inside = np.abs(vector) <= FLOAT32_MAX  # squares are summed in float64
        if vector.shape != (len(self.names),) or not inside.all():
            raise ValueError(
                f"direction must be a parameter's name or one finite number for each of "
                f"{', '.join(self.names)}; got {direction!r}."
            )
        return vector.astype(np.float64)

    def _transform(
        self, kept: list[int], score: np.ndarray, hessian: np.ndarray
    ) -> "FisherInformation":
        """Both forms as T I Tᵀ.

        To first order a Schur complement moves by T dI Tᵀ, so errors are transformed alike.
        """
        maps = map_congruence(score), map_congruence(hessian)
        nothing = np.zeros_like(maps[0])
        both = np.block([[maps[0], nothing], [nothing, maps[1]]])
        covariance = both @ self._covariance @ both.T
        scores = self.scores @ score.T
        mean_score, mean_score_error = mean_and_error(scores, self.weight)
        errors = standard_errors(covariance).reshape(2, -1)
        return dataclasses.replace(
            self,
            theta=self.theta[kept],
            names=tuple(self.names[i] for i in kept),
            score_information=score @ self.score_information @ score.T,
            score_error=unpack_triangle(errors[0], len(kept)),
            hessian_information=hessian @ self.hessian_information @ hessian.T,
            hessian_error=unpack_triangle(errors[1], len(kept)),
            mean_score=mean_score,
            mean_score_error=mean_score_error,
            scores=scores,
            _covariance=covariance,
            response=None,
        )


def _invert(information: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """The inverse of an information; raises with the direction in which there is none."""
    scale = np.sqrt(np.abs(np.diag(information)))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    if not values[0] > SINGULAR * values[-1]:
        weak = vectors[:, 0] / scale
        weak = weak / np.abs(weak).max()
        parts = [(part, name) for part, name in zip(weak, names, strict=True) if abs(part) > 0.01]
        text = " ".join(f"{part:+.2g}·{name}" for part, name in parts)
        raise ValueError(
            f"the information has no inverse: it is not positive along {text}, which these events "
            "do not determine. Use project(…) with the parameters that they do, or more events."
        )
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def _as_event_number(n_events: object) -> float:
    try:
        return as_number(n_events, "n_events", above=0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"n_events must be a positive number of events; got {str(n_events)[:40]}."
        ) from error
