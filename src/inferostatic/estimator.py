"""The trained artefact: batched, in the user's units, honest about what it cannot do.

Three kinds, one for each capability: `Estimator` (a potential: potential, score, log ratio),
`ScoreEstimator` and `RatioEstimator` (direct networks). Each holds one or more members, averaged
in the quantity they model.
"""

import dataclasses
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
from .models.architecture import AbstractArchitecture, Shapes
from .models.networks import NetworkChoice
from .models.potential import AbstractModel
from .serial import absent_names, describe, restore
from .world.prior import AbstractPrior

#: Default bound on the memory that one evaluation may take, in megabytes.
MEMORY_MB = 256.0
#: Fraction of events beyond the training range of some observable that calls for a warning.
TOLERATED_OUTSIDE = 0.01
#: Estimated live copies of every activation during an evaluation.
LIVE_COPIES = 6


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
    """

    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray
    best_epoch: np.ndarray
    stopped: str
    warnings: tuple[str, ...] = ()


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
    "ScoreEstimator": "only score",
    "RatioEstimator": "only log_ratio",
}
_QUESTIONS = ("potential", "score", "log_ratio")
_REGION = ("theta_low", "theta_high", "x_low", "x_high")
_HISTORY = ("train_loss", "validation_loss", "seconds", "best_epoch")


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

    @property
    def members(self) -> int:
        """Number of networks averaged."""
        return int(jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array))[0].shape[0])

    def save(self, path: str | Path) -> None:
        """Write everything to one file, without pickle; `ist.load` reads it.

        A user's own network, prior or width function is stored by name only and has to be supplied
        again on loading.
        """
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
        }
        arrays = {f"network/{i}": leaf for i, leaf in enumerate(leaves)}
        arrays |= {f"region/{f}": getattr(self.region, f) for f in _REGION}
        arrays |= {f"history/{f}": getattr(self.history, f) for f in _HISTORY}
        write_archive(path, header, arrays)

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
            raise AttributeError(f"{kind} has no attribute {name!r}")

    def _checked(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        """x and θ as matrices with equal numbers of rows, checked against the trained region."""
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
        count = max(len(rows) for rows in (x_rows, *theta_rows))
        for rows in (x_rows, *theta_rows):
            if len(rows) not in (1, count):
                raise ValueError(
                    f"x has {len(x_rows)} rows and theta {[len(t) for t in theta_rows]}; give one "
                    "θ for each event, one θ for all events, or one event for all θ."
                )
        for rows in theta_rows:
            require_finite(rows, "theta", "Give finite parameters.")
            require_float32(rows, self.theta_names, "theta")
            self._warn_theta(rows)
        self.warn_outside(x_rows)
        return [np.broadcast_to(rows, (count, rows.shape[1])) for rows in (x_rows, *theta_rows)]

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

    def _map(self, question: str, arrays: list[np.ndarray], memory_mb: float | None) -> np.ndarray:
        """Evaluate in padded chunks within a bound on memory; members are averaged."""
        bound = MEMORY_MB if memory_mb is None else memory_mb
        rows = _chunk_rows(self, bound)
        count = len(arrays[0])
        # Few shapes, so few compilations: a power of two for small inputs, the bound for large.
        rows = min(rows, 1 << max(4, (count - 1).bit_length()))
        parts = []
        for start in range(0, count, rows):
            chunk = [array[start : start + rows] for array in arrays]
            size = len(chunk[0])
            padded = [np.concatenate([c, np.repeat(c[-1:], rows - size, axis=0)]) for c in chunk]
            inputs = [jnp.asarray(c, jnp.float32) for c in padded]
            parts.append(np.asarray(_evaluate(question, self.model, *inputs))[:size])
        return np.concatenate(parts).astype(np.float64)


def _chunk_rows(estimator: AbstractEstimator, memory_mb: float) -> int:
    if not memory_mb > 0:
        raise ValueError(f"memory_mb must be positive; got {memory_mb}.")
    leaves = jax.tree.leaves(eqx.filter(estimator.model.network, eqx.is_inexact_array))
    activations = sum(leaf.shape[1] for leaf in leaves if leaf.ndim > 1)
    columns = (len(estimator.theta_names) + 1) * activations * estimator.members * LIVE_COPIES
    rows = int(memory_mb * 1e6 / (4 * max(columns, 1)))
    return 1 << max(4, min(rows, 1 << 20).bit_length() - 1)


def with_network(model: AbstractModel, network: Any) -> Any:  # noqa: ANN401
    """The same model around another network."""
    return eqx.tree_at(lambda m: m.network, model, network)


def over_members(model: AbstractModel, function: Callable[[Any], Array]) -> Array:
    """`function` of every member's model, averaged."""
    one = eqx.filter_vmap(lambda network: function(with_network(model, network)))
    return jnp.mean(one(model.network), axis=0)


@eqx.filter_jit
def _evaluate(question: str, model: AbstractModel, *arrays: Array) -> Array:
    return over_members(model, lambda member: jax.vmap(getattr(member, question))(*arrays))


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


class ScoreEstimator(AbstractEstimator):
    """A trained direct score network: the score only."""

    def score(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """The score s(x; θ) = ∇θ ln p(x; θ), shape (n, d)."""
        return self._map("score", self._checked(x, theta), memory_mb)


class RatioEstimator(AbstractEstimator):
    """A trained direct ratio network: the log ratio only."""

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, memory_mb: float | None = None
    ) -> np.ndarray:
        """Ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        return self._map("log_ratio", self._checked(x, theta0, theta1), memory_mb)


_KINDS: dict[str, type[AbstractEstimator]] = {
    kind.__name__: kind for kind in (Estimator, ScoreEstimator, RatioEstimator)
}


def load(
    path: str | Path,
    network: NetworkChoice | None = None,
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
        )
        model = _filled(architecture, shapes, arrays, path)
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
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} is an inferostatic model file, but parts of it are missing or malformed "
            f"({type(error).__name__}: {error}); save it again."
        ) from error


def _architecture(
    described: dict[str, Any], network: NetworkChoice | None, supplied: Mapping[str, object]
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
