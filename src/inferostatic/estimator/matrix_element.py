r"""`MatrixElement`: \(p(x;\theta) = \int dz\,p(z;\theta)\,T(x|z)\), each value with its error.

The proposal is a flow q(z|x) trained on the events, whose θ are those of the prior, so that the
same draws serve every θ: ratios and scores are far more precise than the densities themselves.
Beside it, a part of the draws is from Student distributions around the draws of each event and
around those of all events, which bound the weights where the flow is too narrow.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..archive import write_archive
from ..bounds import within
from ..files import require_file
from ..inputs import (
    Input,
    as_count,
    as_floats,
    as_path,
    as_rows,
    as_seed,
    column_names,
    require_finite,
    require_float32,
    require_order,
    warn_user,
)
from ..models.features.invertible import log_jacobian, undone
from ..models.matrix_element import (
    FEWEST_SAMPLES,
    MEM,
    Estimated,
    HeavyTails,
    Strata,
    around,
    log_mean,
    log_mean_ratio,
    mean_slope,
)
from ..serial import UserObject, describe
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, list_names, tabulate_facts, tabulate_first
from ..world.priors.prior import AbstractPrior
from .card import ModelCard, describe_matrix_element
from .density import DensityEstimator
from .estimator import broadcast_rows
from .provenance import Provenance
from .soundness import require_matrix_element

#: What it can be asked for.
OFFERS = "log_prob, log_ratio and score, each with its error"
#: Part of the draws that comes from around the event's own draws.
LOCAL = 0.2
#: Part of the draws that comes from around those of all events.
BROAD = 0.05
#: Draws by which the centre and the size of an event's latent variables are found.
PILOT = 64
#: Draws that are held in memory at a time.
HELD = 1 << 18
#: Draws that are evaluated in one call.
CALL = 1 << 14


@dataclasses.dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of z for some events, with everything of their weights that does not depend on θ."""

    z: np.ndarray
    log_part: np.ndarray
    strata: Strata


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class MatrixElement(AbstractSummarised):
    """A density by the matrix-element method; every answer is a value and its standard error.

    The errors are those of the importance sampling. A learned transfer density has an error of its
    own, which they do not contain.

    Attributes:
        method: the density of the latent variables, and the settings.
        transfer: the learned transfer density T(x|z); None where it was given.
        proposal: the learned density of z given x.
        x_names, theta_names: names of the columns.
        theta_low, theta_high: where the proposal was trained, the support of the prior or the
            range of the events' θ.
        prior: distribution of the θ of the events.
        provenance: of which events, with which seed and by which versions it was made.
    """

    method: MEM
    transfer: DensityEstimator | None
    proposal: DensityEstimator
    x_names: tuple[str, ...]
    theta_names: tuple[str, ...]
    theta_low: np.ndarray
    theta_high: np.ndarray
    prior: AbstractPrior | None = None
    provenance: Provenance | None = None

    @property
    def card(self) -> ModelCard:
        """What a user of it has to know, as text and as JSON; its files hold all of that."""
        return describe_matrix_element(self, OFFERS)

    def log_prob(
        self, x: Input, theta: Input, *, samples: int | None = None, seed: int = 0
    ) -> Estimated:
        """Ln p(x; θ) in the units of x, and its standard error, each of shape (n,).

        Args:
            x: events, shape (n, D), or (D,) for one event.
            theta: parameters, shape (n, d), or (d,) for all events.
            samples: draws of z for each event; the method's number by default.
            seed: of the draws. They do not depend on θ, so that with one seed the result is a
                smooth function of θ.
        """

        def of(draws: _Draws, theta: np.ndarray) -> Estimated:
            return log_mean(draws.log_part + self._latent(draws.z, theta), draws.strata)

        return self._averaged(of, self._checked(x, theta), samples, seed)

    def log_ratio(
        self, x: Input, theta0: Input, theta1: Input, *, samples: int | None = None, seed: int = 0
    ) -> Estimated:
        """Ln p(x; θ0) − ln p(x; θ1) from the same draws, and its standard error, shape (n,)."""

        def of(draws: _Draws, *thetas: np.ndarray) -> Estimated:
            first, second = (draws.log_part + self._latent(draws.z, theta) for theta in thetas)
            return log_mean_ratio(first, second, draws.strata)

        return self._averaged(of, self._checked(x, theta0, theta1), samples, seed)

    def score(
        self, x: Input, theta: Input, *, samples: int | None = None, seed: int = 0
    ) -> Estimated:
        """∇θ ln p(x; θ), the gradient of the log of the average, and its standard error, (n, d)."""

        def of(draws: _Draws, theta: np.ndarray) -> Estimated:
            log_weights = draws.log_part + self._latent(draws.z, theta)
            return mean_slope(log_weights, self._latent_score(draws.z, theta), draws.strata)

        return self._averaged(of, self._checked(x, theta), samples, seed)

    def save(self, path: str | Path) -> None:
        """Write everything to one file; `ist.load` reads it.

        The user's own densities are stored by name only: supply them again on loading,
        `ist.load(path, supplied={name: function})`.
        """
        path = as_path(path)
        require_file(path)
        try:
            require_matrix_element(self)
        except ValueError as error:
            raise ValueError(f"cannot save this estimator to {path}: {error}.") from error
        write_archive(path, *self.described())

    def described(
        self, users: dict[str, UserObject] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A header and arrays, from which `read_described` makes the same again."""
        header: dict[str, Any] = {
            "kind": type(self).__name__,
            "method": describe(self.method, users),
            "x_names": self.x_names,
            "theta_names": self.theta_names,
            "prior": describe(self.prior, users),
            "provenance": describe(self.provenance, users),
        }
        arrays: dict[str, Any] = {"low": self.theta_low, "high": self.theta_high}
        for name in ("proposal", "transfer"):
            part = getattr(self, name)
            if part is not None:
                header[name], inner = part.described(users)
                arrays |= {f"{name}/{key}": array for key, array in inner.items()}
        return header, arrays

    def __repr__(self) -> str:
        """Columns and what is integrated over, in a line."""
        transfer = "given" if self.transfer is None else "learned"
        return (
            f"MatrixElement({list_names(self.x_names)} | {list_names(self.theta_names)}; "
            f"{len(self.proposal.x_names)} latent variables, {transfer} transfer, "
            f"{self.method.samples} samples)"
        )

    def _summarise(self) -> Summary:
        facts = {
            "observables": list_names(self.x_names),
            "latent variables": list_names(self.proposal.x_names),
            "transfer density": "given" if self.transfer is None else repr(self.transfer),
            "proposal": repr(self.proposal),
            "draws of each event": f"{self.method.samples:,}",
        }
        parameters = {
            "parameter": list(self.theta_names),
            "proposal trained from": [f"{value:.4g}" for value in self.theta_low],
            "to": [f"{value:.4g}" for value in self.theta_high],
        }
        title = "Density by the matrix-element method"
        return Summary(title, (tabulate_facts(facts), *tabulate_first(parameters)))

    def _averaged(
        self, of: Callable[..., Estimated], tables: list[np.ndarray], samples: int | None, seed: int
    ) -> Estimated:
        """`of` the draws of some events and their θ, for all events."""
        count = self.method.samples if samples is None else as_count(samples, "samples")
        if count < FEWEST_SAMPLES:
            raise ValueError(f"samples must be at least {FEWEST_SAMPLES}; got {samples}.")
        rows = max(1, HELD // count)
        x, *thetas = tables
        parts, stream = [], Stream(as_seed(seed), Purpose.MATRIX_ELEMENT)
        for start in range(0, len(x), rows):
            some = slice(start, start + rows)
            draws = self._draws(x[some], count, stream.block(start))
            parts.append(of(draws, *(theta[some] for theta in thetas)))
        values, errors = zip(*parts, strict=True)
        return Estimated(np.concatenate(values), np.concatenate(errors))

    def _draws(self, x: np.ndarray, count: int, stream: Stream) -> _Draws:
        """Draws of z for each event from all components of the proposal."""
        local, broad = max(2, round(LOCAL * count)), max(2, round(BROAD * count))
        strata = Strata((count - local - broad, local, broad))
        rng = stream.generator(0)
        learned = self._learned_draws(x, PILOT + strata.sizes[0], stream.key(1))
        near = around(learned[:, :PILOT])
        far = HeavyTails(*(np.repeat(part, len(x), axis=0) for part in self._everywhere))
        u = np.concatenate(
            [learned[:, PILOT:], near.draw(local, rng), far.draw(broad, rng)], axis=1
        )
        # In float32 from here on, as the functions see it.
        z = undone(self.proposal.model.x_features, u.reshape(-1, u.shape[-1])).astype(np.float32)
        function = functools.partial(_jacobian, self.proposal.model.x_features)
        jacobian = _evaluate_in_calls(function, z).reshape(u.shape[:2])
        repeated = np.repeat(x, count, axis=0)
        densities = [
            self.proposal.log_prob_anywhere(z, repeated).reshape(u.shape[:2]),
            near.log_prob(u) + jacobian,
            far.log_prob(u) + jacobian,
        ]
        log_q = np.logaddexp.reduce(densities + strata.log_shares[:, None, None], axis=0)
        log_t = self._transfer(repeated, z).reshape(u.shape[:2])
        # Draws beyond all values that z can take, where the features end, count for nothing.
        with np.errstate(invalid="ignore"):
            part = np.where(np.isfinite(jacobian), log_t - log_q, -np.inf)
        return _Draws(z.reshape(u.shape), part, strata)

    def _learned_draws(self, x: np.ndarray, count: int, key: Array) -> np.ndarray:
        """Features of z drawn from the flow, shape (n, count, k)."""
        drawn = self.proposal.sample_features(np.repeat(x, count, axis=0), key)
        return drawn.reshape(len(x), count, -1)

    @functools.cached_property
    def _everywhere(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and size of the features of z over all events: they are standardised."""
        region = self.proposal.region
        ends = np.stack([region.x_low, region.x_high]).astype(np.float32)
        ends = np.asarray(jax.vmap(self.proposal.model.x_features)(jnp.asarray(ends)), np.float64)
        # A sixth of the range of all events is more than a standard deviation, or not much less.
        half = np.maximum((ends[1] - ends[0]) / 6, 1e-3)
        return ends.mean(axis=0)[None], np.diag(half)[None]

    def _transfer(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        if self.transfer is not None:
            return self.transfer.log_prob_anywhere(x, z)
        return evaluate_log_density(self.method.transfer, "transfer", x, z)

    def _latent(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """ln p(z; θ) of every draw of every event."""
        flat, repeated = _paired(z, theta)
        function = self.method.latent_log_prob
        values = evaluate_log_density(function, "latent_log_prob", flat, repeated)
        return values.reshape(z.shape[:2])

    def _latent_score(self, z: np.ndarray, theta: np.ndarray) -> np.ndarray:
        flat, repeated = _paired(z, theta)
        function = functools.partial(_slopes, self.method.latent_log_prob)
        values = _evaluate_in_calls(function, flat, repeated)
        return values.reshape(*z.shape[:2], -1)

    def _checked(self, x: Input, *thetas: Input) -> list[np.ndarray]:
        require_order(column_names(x), self.x_names, "x")
        tables = [_table(x, self.x_names, "x")]
        for theta in thetas:
            require_order(column_names(theta), self.theta_names, "theta")
            rows = _table(theta, self.theta_names, "theta")
            if not within(rows, self.theta_low, self.theta_high).all():
                warn_user(
                    "theta lies outside the range of the events; there the proposal may miss "
                    "latent variables that matter. Look at the errors."
                )
            tables.append(rows)
        return broadcast_rows(tables)


def _table(value: Input, names: tuple[str, ...], name: str) -> np.ndarray:
    rows = as_floats(value, name)
    one = rows.ndim == 1 and (name == "theta" or rows.size == len(names))
    rows = as_rows(rows[None] if one else rows, name)
    if rows.shape[1] != len(names) or len(rows) == 0:
        raise ValueError(
            f"expected {name} with {len(names)} columns ({', '.join(names)}); got shape "
            f"{rows.shape}."
        )
    require_finite(rows, name, "Remove or repair these rows.")
    require_float32(rows, names, name)
    return rows


def _paired(z: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return z.reshape(-1, z.shape[-1]), np.repeat(theta, z.shape[1], axis=0)


def evaluate_log_density(function: Any, name: str, *tables: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """A user's function of all pairs of rows, which may be −∞ but neither NaN nor +∞."""
    values = _evaluate_in_calls(functools.partial(_apply_to_rows, function), *tables)
    bad = np.isnan(values) | np.isposinf(values)
    if bad.any():
        raise ValueError(
            f"{name} is NaN or infinite for {bad.sum()} of {len(bad)} draws of z. It must be a "
            "number for every z, and −∞ for those that cannot be."
        )
    return values


def _evaluate_in_calls(function: Any, *tables: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """`function` of many rows, always in calls of the same size, so that it is compiled once."""
    parts = []
    for start in range(0, len(tables[0]), CALL):
        some = [np.asarray(table[start : start + CALL], np.float32) for table in tables]
        count = len(some[0])
        some = [np.concatenate([t, np.repeat(t[-1:], CALL - count, axis=0)]) for t in some]
        parts.append(np.asarray(function(*some), np.float64)[:count])
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnums=0)
def _apply_to_rows(function: Any, first: Array, second: Array) -> Array:  # noqa: ANN401
    return jax.vmap(lambda a, b: jnp.asarray(function(a, b), jnp.float32))(first, second)


@functools.partial(jax.jit, static_argnums=0)
def _slopes(function: Any, z: Array, theta: Array) -> Array:  # noqa: ANN401
    return jax.vmap(jax.grad(lambda z, theta: jnp.asarray(function(z, theta)), argnums=1))(z, theta)


@jax.jit
def _jacobian(features: Any, z: Array) -> Array:  # noqa: ANN401
    return jax.vmap(lambda one: log_jacobian(features, one))(z)
