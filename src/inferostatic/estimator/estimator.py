"""The trained artefact: batched, in the user's units, with errors for what it cannot do.

Four kinds: `Estimator` (a potential: potential, score, log ratio), `DensityEstimator` (a flow: the
normalised density besides), `ScoreEstimator` and `RatioEstimator` (direct networks). Each holds one
or more members, averaged in the quantity they model.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..archive import package_versions, write_archive
from ..chunks import FEWEST_ROWS, MOST_POINTS, bytes_allowed, padded, power_of_two, rows_within
from ..compilation import compile_untried
from ..files import require_file
from ..inputs import (
    Input,
    as_event_rows,
    as_floats,
    as_path,
    as_rows,
    bad_rows,
    column_names,
    require_finite,
    require_float32,
    require_order,
    warn_user,
)
from ..models.architecture import AbstractArchitecture, Shapes
from ..models.members import evaluate, grid, keep_members, mean, standard_deviation
from ..models.memory_footprint import bytes_of, one_member, vector
from ..models.potential import AbstractModel, AbstractScoreModel, PotentialModel
from ..serial import UserObject, describe
from ..summary import (
    AbstractSummarised,
    Summary,
    count,
    list_names,
    shorten,
    tabulate_facts,
    tabulate_first,
)
from ..world.priors.prior import AbstractPrior
from .card import ModelCard, count_weights, describe_estimator
from .history import HISTORY, REGION, History, Region
from .measured_mean import MeasuredMean
from .provenance import Diagnosed, DiagnosisNote, Provenance, note_diagnosis
from .soundness import require_estimator

#: Fraction of events beyond the training range of some observable that calls for a warning.
TOLERATED_OUTSIDE = 0.01
#: Characters of the method's name in a summary, at most.
SHOWN_METHOD = 200


class CapabilityError(AttributeError):
    """A model was asked for something that it does not model."""


#: Records that a file describes in its header: attributes of estimators, each with the name of its
#: class, which may be defined in a later folder. Only the method is never None.
RECORDS = {
    "method": "AbstractMethod",
    "prior": "AbstractPrior",
    "training": "Training",
    "score_bias": "MeasuredMean",
    "x_mean": "MeasuredMean",
    "provenance": "Provenance",
    "diagnosis": "DiagnosisNote",
}
#: Fields that no number of an estimator depends on.
REMARKS = ("history", "training", "provenance", "diagnosis")
#: What each kind offers, for messages.
_OFFERS = {
    "Estimator": "potential, score and log_ratio",
    "DensityEstimator": "log_prob, sample, potential, score and log_ratio",
    "ScoreEstimator": "only score",
    "RatioEstimator": "only log_ratio",
}
#: Methods of potentials and direct networks.
_QUESTIONS = ("potential", "score", "log_ratio", "potential_grid")
#: Methods of densities alone.
_OF_DENSITIES = ("log_prob", "sample")


def broadcast_rows(tables: list[np.ndarray]) -> list[np.ndarray]:
    """x and θ with equal numbers of rows, where one row serves for all."""
    count = max(len(rows) for rows in tables)
    if any(len(rows) not in (1, count) for rows in tables):
        x, *thetas = tables
        raise ValueError(
            f"x has {len(x)} rows and theta {[len(t) for t in thetas]}; give one θ for each event, "
            "one θ for all events, or one event for all θ."
        )
    return [np.broadcast_to(rows, (count, rows.shape[1])) for rows in tables]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class AbstractEstimator(AbstractSummarised):
    """A trained model with everything needed to use, judge, save and continue it.

    Attributes:
        model: the model; its network's arrays have a leading axis of members.
        architecture: the choice it was built from.
        shapes: what the architecture learned from the data.
        method: the method it was trained with.
        prior: distribution of the θ it was trained on.
        region: where it can be trusted.
        x_names, theta_names: names of the columns.
        history: losses and why training stopped.
        training: how it was trained, with all defaults filled in.
        score_bias: the mean of a potential's score at each θ, measured by events that had no part
            in the training; None where there are none.
        x_mean: means of the observables, brought to a bounded range, at each θ; likewise.
        provenance: of which events, with which seed and by which versions it was made.
        diagnosis: what a diagnosis found, in short; see `with_diagnosis`.
    """

    model: AbstractModel
    architecture: AbstractArchitecture
    shapes: Shapes
    method: Any
    prior: AbstractPrior | None
    region: Region
    x_names: tuple[str, ...]
    theta_names: tuple[str, ...]
    history: History
    training: Any = None
    score_bias: MeasuredMean | None = None
    x_mean: MeasuredMean | None = None
    provenance: Provenance | None = None
    diagnosis: DiagnosisNote | None = None

    @property
    def card(self) -> ModelCard:
        """What a user of it has to know, as text and as JSON; its files hold all of that."""
        return describe_estimator(self, _OFFERS[type(self).__name__])

    def with_diagnosis(self, diagnosis: Diagnosed) -> Self:
        """The same estimator with the verdict and the findings of a diagnosis in its card.

        Args:
            diagnosis: of this estimator, `ist.diagnose(est, events)`.
        """
        return dataclasses.replace(self, diagnosis=note_diagnosis(diagnosis))

    @property
    def members(self) -> int:
        """Number of networks averaged."""
        return int(jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array))[0].shape[0])

    def save(self, path: str | Path) -> None:
        """Write everything to one file, without pickle; `ist.load` reads it.

        A user's own network, prior or width function is stored by name only and has to be supplied
        again on loading. A symbolic link is followed, and what is no regular file is refused.
        """
        path = as_path(path)
        require_file(path)
        try:
            require_estimator(self)
        except ValueError as error:
            raise ValueError(f"cannot save this estimator to {path}: {error}.") from error
        write_archive(path, *self.described())

    def checkpoint_identity(self) -> object:
        """What checkpoints compare: all but how it was made, in its own time, and judged."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {k: value for k, value in fields.items() if k not in REMARKS}

    def described(
        self, users: dict[str, UserObject] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A header and arrays, from which `read_described` makes the same again."""
        leaves = jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array))
        header = {
            "kind": type(self).__name__,
            "packages": package_versions(),
            "architecture": describe(self.architecture, users),
            "shapes": describe(self.shapes, users),
            "x_names": self.x_names,
            "theta_names": self.theta_names,
            "stopped": self.history.stopped,
            "warnings": self.history.warnings,
            "choices": self.history.choices,
            "resumed": self.history.resumed,
            "centring": describe(getattr(self.model, "centring", None), users),
        }
        header |= {name: describe(getattr(self, name), users) for name in RECORDS}
        arrays = {f"network/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {f"region/{f}": getattr(self.region, f) for f in REGION}
        arrays |= {f"history/{f}": getattr(self.history, f) for f in HISTORY}
        return header, arrays

    def __repr__(self) -> str:
        """Columns, method and loss, in a line."""
        best = self.history.best_loss
        loss = "" if np.isnan(best) else f", validation loss {best:.4f}"
        return (
            f"{type(self).__name__}({list_names(self.x_names)} | {list_names(self.theta_names)}; "
            f"{self.method}; {count(self.members, 'member')}{loss})"
        )

    def _summarise(self) -> Summary:
        weights = count_weights(self.model.network) // self.members
        history, best = self.history, self.history.best_loss
        facts = {
            "offers": _OFFERS[type(self).__name__],
            "method": shorten(str(self.method), SHOWN_METHOD),
            "network": f"{type(self.architecture).__name__}, {count(self.members, 'member')} of "
            f"{count(weights, 'weight')}",
            "training": f"{count(len(history.seconds), 'epoch')} in {history.seconds.sum():.3g} s, "
            f"stopped: {history.stopped}",
            "validation loss": "not measured" if np.isnan(best) else f"{best:.5g}",
            "prior": "unknown, the stored θ" if self.prior is None else repr(self.prior),
        }
        parameters = {
            "parameter": list(self.theta_names),
            "trained from": [f"{value:.4g}" for value in self.region.theta_low],
            "to": [f"{value:.4g}" for value in self.region.theta_high],
        }
        observables = {
            "observable": list(self.x_names),
            "seen from": [f"{value:.4g}" for value in self.region.x_low],
            "to": [f"{value:.4g}" for value in self.region.x_high],
        }
        return Summary(
            f"{type(self).__name__} of {count(len(self.x_names), 'observable')} and "
            f"{count(len(self.theta_names), 'parameter')}",
            (
                tabulate_facts(facts),
                *tabulate_first(parameters),
                *tabulate_first(observables),
                *(f"! {warning}" for warning in history.warnings),
            ),
        )

    if not TYPE_CHECKING:
        # Hidden from the type checker, which should see only what each class truly offers.
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """Raise, with advice, where a capability is missing."""
            kind = type(self).__name__
            if name in _QUESTIONS:
                raise CapabilityError(
                    f"this is a {kind}, which offers {_OFFERS[kind]}; it has no {name}. Train a "
                    "potential instead (the default network, or network=ist.Potential(…)): it "
                    "offers potential, score and log_ratio."
                )
            if name in _OF_DENSITIES:
                raise CapabilityError(
                    f"this is a {kind}, which offers {_OFFERS[kind]}; it has no {name}. Train a "
                    "normalised density instead: ist.fit(events, ist.NDE(), seed=…)."
                )
            raise AttributeError(f"{kind} has no attribute {name!r}")

    def _check(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        """x and θ as matrices with equal numbers of rows, checked against the trained region."""
        tables = self._read(x, *thetas)
        rows = broadcast_rows(tables)
        self._check_region(tables[0], tables[1:])
        return rows

    def _read(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        """x and θ as matrices with the right columns."""
        x_rows = as_event_rows(x, self.x_names)
        theta_rows = [self._read_theta(theta) for theta in thetas]
        self._check_columns(x_rows, theta_rows)
        if min(len(rows) for rows in (x_rows, *theta_rows)) == 0:
            raise ValueError("there are no events to evaluate: x or theta has no rows.")
        require_finite(x_rows, "x", "Remove or repair these events.")
        require_float32(x_rows, self.x_names, "x")
        return [x_rows, *theta_rows]

    def _read_theta(self, theta: Input) -> np.ndarray:
        require_order(column_names(theta), self.theta_names, "theta")
        rows = as_floats(theta, "theta")
        return as_rows(rows[None] if rows.ndim == 1 else rows, "theta", of="parameters")

    def _check_region(self, x: np.ndarray, thetas: list[np.ndarray]) -> None:
        """Refuse θ that are no numbers, and warn outside the trained region."""
        for rows in thetas:
            self._check_theta(rows)
        self.warn_outside(x)

    def _check_columns(self, x: np.ndarray, thetas: list[np.ndarray]) -> None:
        x_dim, theta_dim = len(self.x_names), len(self.theta_names)
        wrong = [rows for rows in thetas if rows.shape[1] != theta_dim]
        if x.shape[1] == x_dim and not wrong:
            return
        flat = theta_dim == 1 and bool(wrong) and len(wrong[0]) == 1
        swapped = bool(wrong) and x.shape[1] == theta_dim and wrong[0].shape[1] == x_dim
        raise ValueError(
            f"expected x with {x_dim} columns ({', '.join(self.x_names)}) and theta with "
            f"{theta_dim} ({', '.join(self.theta_names)}); got x of shape {x.shape} and theta of "
            f"shape {(wrong or thetas)[0].shape}."
            + (" They look swapped: the order is (x, theta)." if swapped else "")
            + (" For many values of one parameter use theta[:, None]." if flat else "")
        )

    def _check_theta(self, theta: np.ndarray) -> None:
        require_finite(theta, "theta", "Give finite parameters.")
        require_float32(theta, self.theta_names, "theta")
        low, high = self.region.theta_low, self.region.theta_high
        good = self.region.contains_theta(theta)
        if not good.all():
            warn_user(
                f"theta lies outside the trained region, {np.round(low, 4).tolist()} to "
                f"{np.round(high, 4).tolist()}, in {bad_rows(good)}; values there are "
                "extrapolated. Simulate wider than you evaluate."
            )

    def warn_outside(self, x: np.ndarray) -> None:
        """Warn where more than a few events lie beyond the range of x seen in training."""
        outside = ~self.region.contains_x(x)
        if outside.mean() > TOLERATED_OUTSIDE:
            warn_user(
                f"{outside.mean():.1%} of the events lie outside the range of x seen in training "
                f"({bad_rows(~outside)}); values there are extrapolated. Are x and theta in the "
                "right order and units?"
            )

    def _map(
        self,
        question: str,
        arrays: list[np.ndarray],
        memory_mb: float | None,
        *,
        over: Callable[[Array], Array] = mean,
    ) -> np.ndarray:
        """Evaluate in padded chunks within a bound on memory; members are averaged."""
        count = len(arrays[0])
        rows = self._count_rows(count, memory_mb)
        parts = []
        for start in range(0, count, rows):
            chunk = [padded(array[start : start + rows], rows) for array in arrays]
            values = np.asarray(compile_untried(evaluate)(question, over, self.model, *chunk))
            parts.append(values[: count - start])
        return np.concatenate(parts).astype(np.float64)

    def _count_rows(self, count: int, memory_mb: float | None) -> int:
        """Rows of one call; few shapes, so few compilations."""
        # A power of two for small inputs, the bound for large.
        rows = rows_within(bytes_allowed(memory_mb) / (self.members * self._bytes_each))
        return min(rows, max(FEWEST_ROWS, power_of_two(count)))

    def _deviation(
        self, question: str, arrays: list[np.ndarray], memory_mb: float | None
    ) -> np.ndarray:
        """The standard deviation over members."""
        if self.members == 1:
            raise ValueError(
                "the spread is that of an estimator's members, and this one has a single member; "
                "train several: ist.fit(…, members=5)."
            )
        return self._map(question, arrays, memory_mb, over=standard_deviation)

    @functools.cached_property
    def _bytes_each(self) -> int:
        """All that one member computes for one event: more than is ever held at a time."""
        model = one_member(self.model)
        x, theta = (vector(len(names)) for names in (self.x_names, self.theta_names))
        if isinstance(model, PotentialModel):
            # A score carries a derivative by each parameter along with every number.
            return (len(self.theta_names) + 1) * bytes_of(model, "potential", x, theta)
        if isinstance(model, AbstractScoreModel):
            return bytes_of(model, "score", x, theta)
        return bytes_of(model, "log_ratio", x, theta, theta)


class Estimator(AbstractEstimator):
    """A trained potential φ(x, θ): potential, score and log ratio."""

    def potential(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """φ(x, θ), shape (n,): models ln p(x; θ) + c(x) with an arbitrary c.

        Args:
            x: events, shape (n, D), or (D,) for one event.
            theta: parameters, shape (n, d), or (d,) for all events.
            memory_mb: bound on the memory of the evaluation.
        """
        return self._map("potential", self._check(x, theta), memory_mb)

    def score(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """∇θ φ, shape (n, d): the score s(x; θ) = ∇θ ln p(x; θ)."""
        return self._map("score", self._check(x, theta), memory_mb)

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """φ(x, θ0) − φ(x, θ1), shape (n,): ln p(x; θ0) − ln p(x; θ1)."""
        return self._map("log_ratio", self._check(x, theta0, theta1), memory_mb)

    def potential_grid(
        self, x: Input, thetas: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """φ of every event at every θ, shape (n, m).

        Much faster than `potential` of n·m pairs: what the network makes of x alone and of θ alone
        is computed once for many pairs.

        Args:
            x: events, shape (n, D), or (D,) for one event.
            thetas: parameters, shape (m, d).
            memory_mb: bound on the memory of the evaluation, besides the result.
        """
        x_rows, theta_rows = self._read(x, thetas)
        self._check_region(x_rows, [theta_rows])
        rows, points = self._block(len(x_rows), len(theta_rows), bytes_allowed(memory_mb))
        table = np.empty((len(x_rows), len(theta_rows)))
        theta_chunks = [
            (start, padded(theta_rows[start : start + points], points))
            for start in range(0, len(theta_rows), points)
        ]
        for first in range(0, len(x_rows), rows):
            x_chunk = padded(x_rows[first : first + rows], rows)
            for start, thetas_chunk in theta_chunks:
                block = table[first : first + rows, start : start + points]
                values = np.asarray(grid(self.model, x_chunk, thetas_chunk))
                block[:] = values[: block.shape[0], : block.shape[1]]
        return table

    def _block(self, n: int, m: int, allowed: float) -> tuple[int, int]:
        """Events and θ of one call within the bound."""
        each_x, each_theta, each_pair = (self.members * size for size in self._bytes_of_grid)
        points = min(power_of_two(m), MOST_POINTS)
        while True:
            rows = (allowed - points * each_theta) / (each_x + points * each_pair)
            if rows >= FEWEST_ROWS or points <= FEWEST_ROWS:
                return min(rows_within(rows), power_of_two(n)), points
            points //= 2

    @functools.cached_property
    def _bytes_of_grid(self) -> tuple[int, int, int]:
        """As `_bytes_each`, for one event, one θ and one pair of them."""
        model = one_member(self.model)
        x, theta = (vector(len(names)) for names in (self.x_names, self.theta_names))
        parts = (
            eqx.filter_eval_shape(lambda m, x: m.embed_x(x), model, x),
            eqx.filter_eval_shape(lambda m, theta: m.embed_theta(theta), model, theta),
        )
        return (
            bytes_of(model, "embed_x", x),
            bytes_of(model, "embed_theta", theta),
            bytes_of(model, "join", *parts),
        )

    def spread(
        self, x: Input, theta: Input, theta1: Input | None = None, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """How far the members differ: their standard deviation, one network beside another.

        Given (x, θ), that of the score, shape (n, d); given (x, θ0, θ1), that of the log ratio,
        shape (n,). The mean over the members, which `score` and `log_ratio` give, scatters less,
        about by √members. A bias that all members share is not seen.

        Args:
            x: events, shape (n, D), or (D,) for one event.
            theta: parameters, shape (n, d), or (d,) for all events; θ0 of the log ratio.
            theta1: θ1 of the log ratio.
            memory_mb: bound on the memory of the evaluation.
        """
        if theta1 is None:
            return self._deviation("score", self._check(x, theta), memory_mb)
        return self._deviation("log_ratio", self._check(x, theta, theta1), memory_mb)

    def member_scores(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The score by each member at one θ, shape (n, members, d), of events already checked."""
        thetas = np.broadcast_to(theta, (len(x), len(theta)))
        arrays = [np.asarray(part, np.float32) for part in (x, thetas)]
        return self._map("score", arrays, None, over=keep_members)


class ScoreEstimator(AbstractEstimator):
    """A trained direct score network: the score only."""

    def score(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The score s(x; θ) = ∇θ ln p(x; θ), shape (n, d)."""
        return self._map("score", self._check(x, theta), memory_mb)

    def spread(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The standard deviation of the score over members, shape (n, d)."""
        return self._deviation("score", self._check(x, theta), memory_mb)


class RatioEstimator(AbstractEstimator):
    """A trained direct ratio network: the log ratio only."""

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """Ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        return self._map("log_ratio", self._check(x, theta0, theta1), memory_mb)

    def spread(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """The standard deviation of the log ratio over members, shape (n,)."""
        return self._deviation("log_ratio", self._check(x, theta0, theta1), memory_mb)
