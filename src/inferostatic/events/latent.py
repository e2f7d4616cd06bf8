r"""Latent information of events: what the simulator knows of each beyond x.

With z the latent variables of an event and \(p_\mathrm{lat}(x, z;\theta)\) their joint density with
x, the joint ratio and the joint score \(t = \nabla_\theta\ln p_\mathrm{lat}(x, z;\theta)\) are far
less noisy targets than labels: their means given x are functions of the ratio and the score of x.
They come in three ways: a density of (x, z, θ), numbers stored for each event, or weights at
benchmark points with a morphing between them.
"""

import abc
import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..inputs import (
    Input,
    as_floats,
    as_text,
    column_names,
    in_short,
    kind_of,
    require_finite,
    require_order,
)
from ..memory_map import is_mapped, require_whole

#: Name of the latent array of joint scores, at the θ of each event.
JOINT_SCORE = "joint_score"
#: Name of the latent array of ln p_lat at the θ of the event less ln p_lat at its partner.
LOG_JOINT_RATIO = "log_joint_ratio"
#: Name of the latent array of the other θ of each pair.
PARTNER = "partner"
#: Joint scores of the events of pairs with a reference; 0 for those at the reference.
SCORE_OFF_REFERENCE = "joint_score_off_reference"
#: Other names that users and MadMiner have for them, for suggestions in errors.
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    JOINT_SCORE: ("t_xz", "t_xz0", "t", "score", "scores"),
    LOG_JOINT_RATIO: ("r_xz", "log_r_xz", "joint_ratio", "log_ratio", "log_r"),
    PARTNER: ("theta1", "theta_1", "theta_partner", "other_theta"),
}
#: What an array of each name holds.
MEANING = {
    JOINT_SCORE: "the joint score at the event's θ",
    LOG_JOINT_RATIO: "ln p_lat at the event's θ less ln p_lat at 'partner'",
    PARTNER: "the other θ of the pair",
}


class AbstractJoint(eqx.Module):
    """ln p_lat(x, z; θ) of one event at any θ, up to a term that does not depend on θ."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The latent arrays that are read."""

    @abc.abstractmethod
    def log_prob(
        self, x: Float[Array, " x_dim"], latent: Mapping[str, Array], theta: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """Its value, in JAX."""

    @property
    def uses_x(self) -> bool:
        """Whether it reads x."""
        return True

    def score(
        self, x: Float[Array, " x_dim"], latent: Mapping[str, Array], theta: Float[Array, " d"]
    ) -> Float[Array, " d"]:
        """The joint score t(x, z; θ)."""
        return jax.grad(self.log_prob, argnums=2)(x, latent, theta)


class JointDensity(AbstractJoint):
    """A user's own ln p_lat.

    Args:
        function: `(x (D,), z, θ (d,)) -> number` in JAX, for one event; terms without θ may be
            left out.
        name: the latent array that is handed over as z.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    name: str = eqx.field(static=True, default="z")

    def __check_init__(self) -> None:
        """A function of three arguments is needed."""
        if not callable(self.function) or isinstance(self.function, type):
            raise TypeError(
                "JointDensity takes a JAX function (x, z, theta) of one event that returns one "
                f"number; got {kind_of(self.function)}."
            )
        as_text(self.name, "name")
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # some compiled functions have none
            return
        try:
            signature.bind(None, None, None)
        except TypeError as error:
            raise TypeError(
                "JointDensity calls its function with three arguments, (x, z, theta) of one event; "
                f"got one that takes {signature}. Make it a function of these three alone."
            ) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The array of latent variables."""
        return (self.name,)

    def log_prob(
        self, x: Float[Array, " x_dim"], latent: Mapping[str, Array], theta: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """The function's value."""
        z = latent[self.name]
        try:
            value = jnp.asarray(self.function(x, z, theta))
        except Exception as error:  # whatever a user's function raises
            remedy = ""
            if isinstance(error, jax.errors.JAXTypeError):
                remedy = (
                    " Use jax.numpy and no float() or Python branches on values; where that cannot "
                    f"be, store its results as arrays, latent={{'{JOINT_SCORE}': …}}."
                )
            raise TypeError(
                f"the joint density failed on one event with shapes x {jnp.shape(x)}, {self.name} "
                f"{jnp.shape(z)}, θ {jnp.shape(theta)}: it must be a JAX function (x, z, theta) of "
                f"one event that returns one number; {in_short(error)}.{remedy}"
            ) from error
        if value.shape != ():
            raise ValueError(
                "a joint density takes one event (x, z, θ) and gives one number, of shape (); got "
                f"shape {value.shape}."
            )
        return value


class Latent(Mapping[str, np.ndarray]):
    """Latent arrays by name, one row for each event, and the joint density that reads them.

    Args:
        arrays: by name.
        joint: such as `ist.JointDensity(function)` or a morphing; None where the arrays
            themselves are joint scores (`joint_score`, at the θ of the event) or joint ratios
            (`log_joint_ratio`, ln p_lat at the θ of the event less ln p_lat at `partner`).
    """

    arrays: dict[str, np.ndarray]
    columns: dict[str, tuple[str, ...] | None]

    def __init__(self, arrays: Mapping[str, Input], joint: AbstractJoint | None = None) -> None:
        """Check and copy; memory-mapped arrays stay in their files."""
        if not isinstance(arrays, Mapping):
            raise TypeError(
                "latent must be a dictionary of arrays by name, such as {'joint_score': scores}; "
                f"got {kind_of(arrays)}."
            )
        if joint is not None and not isinstance(joint, AbstractJoint):
            raise TypeError(
                "joint must be such as ist.JointDensity(function) or an ist.Morphing; got "
                f"{kind_of(joint)}."
            )
        self.arrays = {
            str(name): freeze(as_floats(values, f"latent {name!r}"))
            for name, values in arrays.items()
        }
        self.columns = {str(name): column_names(values) for name, values in arrays.items()}
        self.joint = joint
        missing = [name for name in (joint.names if joint else ()) if name not in self.arrays]
        if missing:
            raise ValueError(
                f"the joint density reads the latent array {missing[0]!r}, which is not among "
                f"those given, {sorted(self.arrays) or 'none'}."
                f"{did_you_mean(missing[:1], self.arrays)}"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        """One array."""
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self.arrays)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.arrays)

    def __repr__(self) -> str:
        """Names and shapes."""
        shapes = ", ".join(f"{name}: {values.shape}" for name, values in self.arrays.items())
        joint = "" if self.joint is None else f"; {type(self.joint).__name__}"
        return f"Latent({shapes}{joint})"

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> "Latent":
        """The same with every array changed."""
        changed = object.__new__(Latent)
        changed.arrays = {name: change(values) for name, values in self.arrays.items()}
        changed.columns, changed.joint = self.columns, self.joint
        return changed


def check_latent(latent: Latent, theta: np.ndarray, names: Sequence[str]) -> None:
    """Refuse latent arrays that do not fit the events."""
    n, dim = theta.shape
    for name, values in latent.items():
        if values.ndim == 0 or len(values) != n:
            raise ValueError(
                f"latent {name!r} must have one row for each of the {n} events; got shape "
                f"{values.shape}."
            )
        shapes = dict.fromkeys((JOINT_SCORE, SCORE_OFF_REFERENCE, PARTNER), (n, dim))
        expected = (shapes | {LOG_JOINT_RATIO: (n,)}).get(name)
        if expected is not None and values.shape != expected:
            raise ValueError(
                f"latent {name!r} must have shape {expected}; got {values.shape}."
                + (f" For one parameter use {name}[:, None]." if values.shape == (n,) else "")
            )
        if expected == (n, dim):
            require_order(latent.columns[name], names, f"latent {name!r}")
        require_whole(values, f"latent {name!r}")
        require_finite(values, f"latent {name!r}", "Repair the simulator's latent output there.")


def did_you_mean(wanted: Iterable[str], given: Iterable[str]) -> str:
    """A suggestion for an error, where latent arrays seem to have other names; else empty."""
    left = {name.lower(): name for name in given if name not in MEANING}
    found = []
    for name in wanted:
        other = [left[key] for key in OTHER_NAMES.get(name, ()) if key in left]
        other += [left[key] for key in difflib.get_close_matches(name.lower(), left, cutoff=0.8)]
        if other:
            meaning = f" ({MEANING[name]})" if name in MEANING else ""
            found.append(f"{name!r}{meaning} in place of {other[0]!r}")
    return f" Did you mean {' and '.join(found)}?" if found else ""


def freeze(array: np.ndarray) -> np.ndarray:
    """A copy, or a view of a memory-mapped file, that cannot be written to."""
    frozen = array.view(np.ndarray) if is_mapped(array) else array.copy()
    frozen.setflags(write=False)
    return frozen
