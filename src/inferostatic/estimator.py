"""The trained artefact: batched, in the user's units, honest about what it cannot do.

Four kinds: `Estimator` (a potential: potential, score, log ratio), `DensityEstimator` (a flow: the
normalised density besides), `ScoreEstimator` and `RatioEstimator` (direct networks). Each holds one
or more members, averaged in the quantity they model.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .archive import read_archive, write_archive
from .inputs import (
    Input,
    as_floats,
    as_rows,
    bad_rows,
    column_names,
    require_finite,
    require_float32,
    require_order,
    warn_user,
)
from .models.architecture import AbstractArchitecture, PairChoice, Shapes
from .models.invertible import undone
from .models.networks import NetworkChoice
from .models.potential import AbstractModel, AbstractScoreModel, PotentialModel
from .models.theta_potential import ThetaPotential
from .serial import absent_names, describe, restore
from .world.prior import AbstractPrior

#: Default bound on the memory that one evaluation may take, in megabytes.
MEMORY_MB = 256.0
#: Fraction of events beyond the training range of some observable that calls for a warning.
TOLERATED_OUTSIDE = 0.01
#: Fewest and most events, and most θ, of one call.
FEWEST_ROWS, MOST_ROWS, MOST_POINTS = 16, 1 << 20, 1 << 10


@dataclasses.dataclass(frozen=True)
class History:
    """What happened during training, for every epoch and member.

    Attributes:
        train_loss: mean training loss, shape (epochs, members).
        validation_loss: loss on held-out events, shape (epochs, members); NaN without a split.
        seconds: wall time of each epoch, shape (epochs,).
        best_epoch: the epoch whose weights were kept, counted from 1, shape (members,).
        stopped: why training stopped, in words.
        warnings: remarks made during training.
        choices: what was chosen by validation loss before training, in words.
    """

    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray
    best_epoch: np.ndarray
    stopped: str
    warnings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Region:
    """Where the model was trained: θ that can be trusted, and the range of each observable."""

    theta_low: np.ndarray
    theta_high: np.ndarray
    x_low: np.ndarray
    x_high: np.ndarray


class CapabilityError(AttributeError):
    """A model was asked for something that it does not model."""


_OFFERS = {
    "Estimator": "potential, score and log_ratio",
    "DensityEstimator": "log_prob, sample, potential, score and log_ratio",
    "ScoreEstimator": "only score",
    "RatioEstimator": "only log_ratio",
}
_QUESTIONS = ("potential", "score", "log_ratio", "potential_grid")
_OF_DENSITIES = ("log_prob", "sample")
_REGION = ("theta_low", "theta_high", "x_low", "x_high")
_HISTORY = ("train_loss", "validation_loss", "seconds", "best_epoch")


def _mean(values: Array) -> Array:
    return jnp.mean(values, axis=0)


def _log_mean_exp(values: Array) -> Array:
    return jax.nn.logsumexp(values, axis=0) - np.log(len(values)).astype(np.float32)


def _standard_deviation(values: Array) -> Array:
    return jnp.std(values, axis=0, ddof=1)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class AbstractEstimator:
    """A trained model with everything needed to use, judge, save and continue it.

    Attributes:
        model: the model; its network's arrays have a leading axis of members.
        architecture: the choice it was built from.
        shapes: what the architecture learned from the data.
        method: the method it was trained with.
        prior: law of the θ it was trained on.
        region: where it can be trusted.
        x_names, theta_names: names of the columns.
        history: losses and why training stopped.
        training: how it was trained, with everything that was left open filled in.
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

    @property
    def members(self) -> int:
        """Number of networks averaged."""
        return int(jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array))[0].shape[0])

    def save(self, path: str | Path) -> None:
        """Write everything to one file, without pickle; `ist.load` reads it.

        A user's own network, prior or width function is stored by name only and has to be supplied
        again on loading.
        """
        write_archive(path, *self.described())

    def described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A header and arrays, from which `described_estimator` makes the same again."""
        leaves = jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array))
        header = {
            "kind": type(self).__name__,
            "packages": _versions(),
            "architecture": describe(self.architecture),
            "shapes": describe(self.shapes),
            "method": describe(self.method),
            "prior": describe(self.prior),
            "x_names": self.x_names,
            "theta_names": self.theta_names,
            "stopped": self.history.stopped,
            "warnings": self.history.warnings,
            "choices": self.history.choices,
            "training": describe(self.training),
            "centring": describe(getattr(self.model, "centring", None)),
        }
        arrays = {f"network/{i}": leaf for i, leaf in enumerate(leaves)}
        arrays |= {f"region/{f}": getattr(self.region, f) for f in _REGION}
        arrays |= {f"history/{f}": getattr(self.history, f) for f in _HISTORY}
        return header, arrays

    def __repr__(self) -> str:
        """What it is, in a line."""
        losses = self.history.validation_loss
        loss = "" if not np.isfinite(losses).any() else f", validation loss {np.nanmin(losses):.4f}"
        return (
            f"{type(self).__name__}({', '.join(self.x_names)} | {', '.join(self.theta_names)}; "
            f"{self.method}; {self.members} member{'s' if self.members > 1 else ''}{loss})"
        )

    if not TYPE_CHECKING:
        # Hidden from the type checker, which should see only what each class truly offers.
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """A sentence where a capability is missing."""
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

    def _checked(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        """x and θ as matrices with equal numbers of rows, checked against the trained region."""
        x_rows, *theta_rows = self._read(x, *thetas)
        count = max(len(rows) for rows in (x_rows, *theta_rows))
        for rows in (x_rows, *theta_rows):
            if len(rows) not in (1, count):
                raise ValueError(
                    f"x has {len(x_rows)} rows and theta {[len(t) for t in theta_rows]}; give one "
                    "θ for each event, one θ for all events, or one event for all θ."
                )
        self._check_region(x_rows, theta_rows)
        return [np.broadcast_to(rows, (count, rows.shape[1])) for rows in (x_rows, *theta_rows)]

    def _read(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        """x and θ as matrices with the right columns."""
        require_order(column_names(x), self.x_names, "x")
        for theta in thetas:
            require_order(column_names(theta), self.theta_names, "theta")
        x_rows = as_rows(x, "x", of="observables")
        theta_rows = [as_floats(theta, "theta") for theta in thetas]
        theta_rows = [t[None] if t.ndim == 1 else t for t in theta_rows]
        for rows in theta_rows:
            as_rows(rows, "theta", of="parameters")
        self._check_columns(x_rows, theta_rows)
        if min(len(rows) for rows in (x_rows, *theta_rows)) == 0:
            raise ValueError("there are no events to evaluate: x or theta has no rows.")
        require_finite(x_rows, "x", "Remove or repair these events.")
        require_float32(x_rows, self.x_names, "x")
        return [x_rows, *theta_rows]

    def _check_region(self, x: np.ndarray, thetas: list[np.ndarray]) -> None:
        """Refuse θ that are no numbers, and warn outside the trained region."""
        for rows in thetas:
            require_finite(rows, "theta", "Give finite parameters.")
            require_float32(rows, self.theta_names, "theta")
            self._warn_theta(rows)
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

    def _warn_theta(self, theta: np.ndarray) -> None:
        low, high = self.region.theta_low, self.region.theta_high
        slack = 1e-6 * (np.abs(low) + np.abs(high))
        good = np.asarray(np.all((theta >= low - slack) & (theta <= high + slack), axis=1))
        if not good.all():
            warn_user(
                f"theta lies outside the trained region, {np.round(low, 4).tolist()} to "
                f"{np.round(high, 4).tolist()}, in {bad_rows(good)}; values there are "
                "extrapolated. Simulate wider than you evaluate."
            )

    def warn_outside(self, x: np.ndarray) -> None:
        """Warn where more than a few events lie beyond the range of x seen in training."""
        low, high = self.region.x_low, self.region.x_high
        slack = 1e-6 * (np.abs(low) + np.abs(high))  # the range is known in float32
        beyond = (x < low - slack) | (x > high + slack)
        outside = np.asarray(np.any(beyond, axis=1))
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
        over: Callable[[Array], Array] = _mean,
    ) -> np.ndarray:
        """Evaluate in padded chunks within a bound on memory; members are averaged."""
        count = len(arrays[0])
        # Few shapes, so few compilations: a power of two for small inputs, the bound for large.
        rows = _rows_within(_bytes_allowed(memory_mb) / (self.members * self._bytes_each))
        rows = min(rows, max(FEWEST_ROWS, _power_of_two(count)))
        parts = []
        for start in range(0, count, rows):
            chunk = [_padded(array[start : start + rows], rows) for array in arrays]
            values = np.asarray(_evaluate(question, over, self.model, *chunk))
            parts.append(values[: count - start])
        return np.concatenate(parts).astype(np.float64)

    def _deviation(
        self, question: str, arrays: list[np.ndarray], memory_mb: float | None
    ) -> np.ndarray:
        """The standard deviation over members."""
        if self.members == 1:
            raise ValueError(
                "the spread is that of an estimator's members, and this one has a single member; "
                "train several: ist.fit(…, members=5)."
            )
        return self._map(question, arrays, memory_mb, over=_standard_deviation)

    @functools.cached_property
    def _bytes_each(self) -> int:
        """All that one member computes for one event: more than is ever held at a time."""
        model = _one_member(self.model)
        x, theta = (_vector(len(names)) for names in (self.x_names, self.theta_names))
        if isinstance(model, PotentialModel):
            # A score carries a derivative by each parameter along with every number.
            return (len(self.theta_names) + 1) * _bytes_of(model, "potential", x, theta)
        if isinstance(model, AbstractScoreModel):
            return _bytes_of(model, "score", x, theta)
        return _bytes_of(model, "log_ratio", x, theta, theta)


def _bytes_allowed(memory_mb: float | None) -> float:
    bound = MEMORY_MB if memory_mb is None else memory_mb
    if not bound > 0:
        raise ValueError(f"memory_mb must be positive; got {memory_mb}.")
    return bound * 1e6


def _rows_within(bound: float) -> int:
    """A power of two of rows up to the bound, and not too few nor too many."""
    return 1 << (int(np.clip(bound, FEWEST_ROWS, MOST_ROWS)).bit_length() - 1)


def _power_of_two(count: int) -> int:
    """The smallest that is not below."""
    return 1 << (count - 1).bit_length()


def _padded(rows: np.ndarray, count: int) -> Array:
    """`count` rows in float32, the last one repeated."""
    padding = np.repeat(rows[-1:], count - len(rows), axis=0)
    return jnp.asarray(np.concatenate([rows, padding]), jnp.float32)


def _vector(size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size,), jnp.float32)


def _one_member(model: AbstractModel) -> Any:  # noqa: ANN401
    """The model with the shapes of a single member's arrays."""
    network = jax.tree.map(
        lambda leaf: (
            jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) if eqx.is_array(leaf) else leaf
        ),
        model.network,
    )
    return with_network(model, network)


def _bytes_of(model: Any, question: str, *arguments: Any) -> int:  # noqa: ANN401
    """Bytes of all that is computed for each of many rows, read off the traced program."""

    def of_rows(count: int) -> int:
        rows = jax.tree.map(
            lambda one: jax.ShapeDtypeStruct((count, *one.shape), one.dtype), arguments
        )
        traced = eqx.filter_make_jaxpr(lambda m, *r: jax.vmap(getattr(m, question))(*r))
        return _bytes_in(traced(model, *rows)[0].jaxpr)

    # The difference leaves out what does not grow with the rows.
    return max(1, of_rows(2) - of_rows(1))


def _bytes_in(program: Any) -> int:  # noqa: ANN401
    total = 0
    for step in program.eqns:
        inner = [getattr(value, "jaxpr", value) for value in step.params.values()]
        inner = [value for value in inner if getattr(value, "eqns", None) is not None]
        results = [] if inner else [value.aval for value in step.outvars]
        total += sum(_bytes_in(value) for value in inner)
        total += sum(value.size * value.dtype.itemsize for value in results)
    return total


def with_network(model: AbstractModel, network: Any) -> Any:  # noqa: ANN401
    """The same model around another network."""
    return eqx.tree_at(lambda m: m.network, model, network)


def with_centring(model: AbstractModel, centring: ThetaPotential | None) -> Any:  # noqa: ANN401
    """The same model with another function of θ alone subtracted."""
    if not isinstance(model, PotentialModel):
        return model
    return dataclasses.replace(model, centring=centring)


def each_member(model: AbstractModel, function: Callable[[Any], Array]) -> Array:
    """`function` of every member's model."""
    one = eqx.filter_vmap(lambda network: function(with_network(model, network)))
    return one(model.network)


def over_members(model: AbstractModel, function: Callable[[Any], Array]) -> Array:
    """`function` of every member's model, averaged."""
    return _mean(each_member(model, function))


@eqx.filter_jit
def _evaluate(
    question: str, over: Callable[[Array], Array], model: AbstractModel, *arrays: Array
) -> Array:
    values = each_member(model, lambda member: jax.vmap(getattr(member, question))(*arrays))
    return over(values)


@eqx.filter_jit
def _grid(model: AbstractModel, x: Array, thetas: Array) -> Array:
    return over_members(model, lambda member: member.grid(x, thetas))


class Estimator(AbstractEstimator):
    """A trained potential φ(x, θ): potential, score and log ratio."""

    def potential(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """φ(x, θ), shape (n,): models ln p(x; θ) + c(x) with an arbitrary c.

        Args:
            x: events, shape (n, D).
            theta: parameters, shape (n, d), or (d,) for all events.
            memory_mb: bound on the memory of the evaluation.
        """
        return self._map("potential", self._checked(x, theta), memory_mb)

    def score(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """∇θ φ, shape (n, d): the score s(x; θ) = ∇θ ln p(x; θ)."""
        return self._map("score", self._checked(x, theta), memory_mb)

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """φ(x, θ0) − φ(x, θ1), shape (n,): ln p(x; θ0) − ln p(x; θ1)."""
        return self._map("log_ratio", self._checked(x, theta0, theta1), memory_mb)

    def potential_grid(
        self, x: Input, thetas: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """φ of every event at every θ, shape (n, m).

        Much faster than `potential` of n·m pairs: what the network makes of x alone and of θ alone
        is computed once for many pairs.

        Args:
            x: events, shape (n, D).
            thetas: parameters, shape (m, d).
            memory_mb: bound on the memory of the evaluation, besides the result.
        """
        x_rows, theta_rows = self._read(x, thetas)
        self._check_region(x_rows, [theta_rows])
        rows, points = self._block(len(x_rows), len(theta_rows), _bytes_allowed(memory_mb))
        table = np.empty((len(x_rows), len(theta_rows)))
        theta_chunks = [
            (start, _padded(theta_rows[start : start + points], points))
            for start in range(0, len(theta_rows), points)
        ]
        for first in range(0, len(x_rows), rows):
            x_chunk = _padded(x_rows[first : first + rows], rows)
            for start, thetas_chunk in theta_chunks:
                place = table[first : first + rows, start : start + points]
                values = np.asarray(_grid(self.model, x_chunk, thetas_chunk))
                place[:] = values[: place.shape[0], : place.shape[1]]
        return table

    def _block(self, n: int, m: int, allowed: float) -> tuple[int, int]:
        """Events and θ of one call within the bound."""
        each_x, each_theta, each_pair = (self.members * size for size in self._bytes_of_grid)
        points = min(_power_of_two(m), MOST_POINTS)
        while True:
            rows = (allowed - points * each_theta) / (each_x + points * each_pair)
            if rows >= FEWEST_ROWS or points <= FEWEST_ROWS:
                return min(_rows_within(rows), _power_of_two(n)), points
            points //= 2

    @functools.cached_property
    def _bytes_of_grid(self) -> tuple[int, int, int]:
        """As `_bytes_each`, for one event, one θ and one pair of them."""
        model = _one_member(self.model)
        x, theta = (_vector(len(names)) for names in (self.x_names, self.theta_names))
        parts = (
            eqx.filter_eval_shape(lambda m, x: m.embed_x(x), model, x),
            eqx.filter_eval_shape(lambda m, theta: m.embed_theta(theta), model, theta),
        )
        return (
            _bytes_of(model, "embed_x", x),
            _bytes_of(model, "embed_theta", theta),
            _bytes_of(model, "join", *parts),
        )

    def spread(
        self,
        x: Input,
        theta: Input,
        theta1: Input | None = None,
        *,
        memory_mb: float | None = None,
    ) -> np.ndarray:
        """How far the members differ: their standard deviation, one network beside another.

        Given (x, θ), that of the score, shape (n, d); given (x, θ0, θ1), that of the log ratio,
        shape (n,). The mean over the members, which `score` and `log_ratio` give, scatters less,
        about by √members. A bias that all members share is not seen.

        Args:
            x: events, shape (n, D).
            theta: parameters, shape (n, d), or (d,) for all events; θ0 of the log ratio.
            theta1: θ1 of the log ratio.
            memory_mb: bound on the memory of the evaluation.
        """
        if theta1 is None:
            return self._deviation("score", self._checked(x, theta), memory_mb)
        return self._deviation("log_ratio", self._checked(x, theta, theta1), memory_mb)


class DensityEstimator(Estimator):
    """A trained flow, ln p(x; θ): a potential that is the logarithm of a normalised density.

    Several members are averaged in two ways. The density is their mixture, the mean of their
    densities, which is normalised. The potential, with its scores and log ratios, is the mean of
    their potentials, as in every `Estimator`; so a difference of `log_prob` is the log ratio for a
    single member only.
    """

    def log_prob(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """Ln p(x; θ), shape (n,): normalised, in the units of x.

        Args:
            x: events, shape (n, D).
            theta: parameters, shape (n, d), or (d,) for all events.
            memory_mb: bound on the memory of the evaluation.
        """
        return self._map("log_prob", self._checked(x, theta), memory_mb, over=_log_mean_exp)

    def log_prob_anywhere(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The same of finite rows, without a word on those far from the training events."""
        return self._map("log_prob", [x, theta], None, over=_log_mean_exp)

    def sample(self, theta: Input, *, seed: int) -> np.ndarray:
        """One event x drawn at each θ, shape (n, D).

        Args:
            theta: parameters, shape (n, d), or (d,) for one event.
            seed: the same seed gives the same events.
        """
        require_order(column_names(theta), self.theta_names, "theta")
        rows = as_floats(theta, "theta")
        rows = as_rows(rows[None] if rows.ndim == 1 else rows, "theta", of="parameters")
        self._check_thetas(rows)
        return undone(self.model.x_features, self.sample_features(rows, jax.random.key(seed)))

    def sample_features(self, theta: np.ndarray, key: Array) -> np.ndarray:
        """Features of one event drawn at each θ."""
        count = len(theta)
        rows = _rows_within(_bytes_allowed(None) / (self.members * self._bytes_each))
        rows = min(rows, max(FEWEST_ROWS, _power_of_two(count)))
        parts = []
        for start in range(0, count, rows):
            chunk = _padded(theta[start : start + rows], rows)
            drawn = _draw(self.model, chunk, jax.random.fold_in(key, start))
            parts.append(np.asarray(drawn)[: count - start])
        return np.concatenate(parts).astype(np.float64)

    def _check_thetas(self, rows: np.ndarray) -> None:
        if rows.shape[1] != len(self.theta_names) or len(rows) == 0:
            raise ValueError(
                f"expected theta with {len(self.theta_names)} columns "
                f"({', '.join(self.theta_names)}) and a row for each event; got shape {rows.shape}."
            )
        require_finite(rows, "theta", "Give finite parameters.")
        require_float32(rows, self.theta_names, "theta")
        self._warn_theta(rows)


@eqx.filter_jit
def _draw(model: AbstractModel, theta: Array, key: Array) -> Array:
    """Features drawn at each θ, each by one of the members, chosen at random."""
    choosing, drawing = jax.random.split(key)
    keys = jax.random.split(drawing, len(theta))
    drawn = each_member(
        model,
        lambda member: jax.vmap(lambda t, k: member.sample_features(t, key=k))(theta, keys),
    )
    chosen = jax.random.randint(choosing, (len(theta),), 0, len(drawn))
    return drawn[chosen, jnp.arange(len(theta))]


class ScoreEstimator(AbstractEstimator):
    """A trained direct score network: the score only."""

    def score(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The score s(x; θ) = ∇θ ln p(x; θ), shape (n, d)."""
        return self._map("score", self._checked(x, theta), memory_mb)

    def spread(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The standard deviation of the score over members, shape (n, d)."""
        return self._deviation("score", self._checked(x, theta), memory_mb)


class RatioEstimator(AbstractEstimator):
    """A trained direct ratio network: the log ratio only."""

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """Ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        return self._map("log_ratio", self._checked(x, theta0, theta1), memory_mb)

    def spread(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """The standard deviation of the log ratio over members, shape (n,)."""
        return self._deviation("log_ratio", self._checked(x, theta0, theta1), memory_mb)


_KINDS: dict[str, type[AbstractEstimator]] = {
    kind.__name__: kind for kind in (Estimator, DensityEstimator, ScoreEstimator, RatioEstimator)
}
#: Readers of what is made of several estimators, by kind.
READERS: dict[str, Callable[[dict[str, Any], dict[str, Any], Path, Mapping[str, object]], Any]] = {}


def load(
    path: str | Path,
    network: NetworkChoice | PairChoice | None = None,
    *,
    supplied: Mapping[str, object] | None = None,
) -> Any:  # noqa: ANN401
    """Read an estimator that `save` wrote.

    Args:
        path: the file.
        network: the user's own network function, if the model was built with one.
        supplied: the user's own prior or width functions by the names under which they were
            stored (their `__qualname__`); the error for a missing one names it.
    """
    header, arrays = read_archive(path)
    if header.get("kind") in READERS:
        return READERS[header["kind"]](header, arrays, Path(path), dict(supplied or {}))
    return described_estimator(header, arrays, path, network, supplied)


def described_estimator(
    header: Mapping[str, Any],
    arrays: Mapping[str, Any],
    path: str | Path,
    network: NetworkChoice | PairChoice | None = None,
    supplied: Mapping[str, object] | None = None,
) -> Any:  # noqa: ANN401
    """The estimator that was `described`; `path` is where that was read."""
    supplied = dict(supplied or {})
    try:
        kind = _KINDS[header["kind"]]
        architecture = _architecture(header["architecture"], network, supplied)
        shapes = restore(header["shapes"])
        region = Region(**{field: arrays[f"region/{field}"] for field in _REGION})
        history = History(
            **{field: arrays[f"history/{field}"] for field in _HISTORY},
            stopped=header["stopped"],
            warnings=tuple(header["warnings"]),
            choices=tuple(header.get("choices", ())),
        )
        model = _filled(architecture, shapes, arrays, path)
        model = with_centring(model, restore(header.get("centring")))
        return kind(
            model=model,
            architecture=architecture,
            shapes=shapes,
            method=restore(header["method"], supplied),
            prior=restore(header["prior"], supplied),
            region=region,
            x_names=tuple(header["x_names"]),
            theta_names=tuple(header["theta_names"]),
            history=history,
            training=restore(header.get("training")),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} is an inferostatic model file, but parts of it are missing or malformed "
            f"({type(error).__name__}: {error}); save it again."
        ) from error


def _architecture(
    described: dict[str, Any],
    network: NetworkChoice | PairChoice | None,
    supplied: Mapping[str, object],
) -> AbstractArchitecture:
    """The stored architecture, with user-written parts of its network supplied again."""
    architecture = restore(described, supplied)
    missing = [name for name in absent_names(described) if name not in supplied]
    if missing and network is not None:
        return dataclasses.replace(architecture, network=network)
    if missing:
        raise ValueError(
            f"the model's network was built with the user-written {missing[0]!r}, which a file "
            "cannot hold; supply it again: ist.load(path, network=…) or "
            f"ist.load(path, supplied={{{missing[0]!r}: …}})."
        )
    return architecture


def _filled(
    architecture: AbstractArchitecture, shapes: Shapes, arrays: Mapping[str, Any], path: str | Path
) -> AbstractModel:
    """The architecture's model with the stored weights in place."""
    model = architecture.build(shapes, key=jax.random.key(0))
    dynamic, static = eqx.partition(model.network, eqx.is_array)
    leaves, structure = jax.tree.flatten(dynamic)
    stored = [arrays.get(f"network/{i}") for i in range(len(leaves))]
    count = sum(name.startswith("network/") for name in arrays)
    fits = count == len(leaves) and all(
        value is not None
        and value.shape[1:] == leaf.shape
        and np.issubdtype(value.dtype, np.number)
        for value, leaf in zip(stored, leaves, strict=True)
    )
    if not fits:
        raise ValueError(
            f"the weights in {path} do not fit the network that was described or supplied; "
            "supply the same network that was trained."
        )
    filled = jax.tree.unflatten(structure, [jnp.asarray(value) for value in stored])
    return with_network(model, eqx.combine(filled, static))


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("inferostatic", "jax", "equinox", "optax")}
