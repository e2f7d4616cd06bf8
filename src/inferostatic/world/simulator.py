"""Simulators: any function that makes events at given parameters.

A simulator is a plain function `f(theta, rng) -> x` with `theta` of shape (n, d), a NumPy
generator `rng`, and one row of x for each row of theta. `JaxSimulator` turns a JAX function of one
θ and a key into one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..inputs import SHOWN_ROWS, Input, as_floats, bad_rows, column_names, finite_rows, kind_of


@runtime_checkable
class Simulator(Protocol):
    """Events `x`, shape (n, D), at the parameters `theta`, shape (n, d)."""

    def __call__(self, theta: np.ndarray, rng: np.random.Generator, /) -> Input:
        """Simulate one event for each row of theta."""
        ...


@runtime_checkable
class LatentSimulator(Protocol):
    """A simulator that returns its latent variables and knows their joint density with x.

    It may be called like any other simulator as well.
    """

    def simulate_latent(
        self, theta: np.ndarray, rng: np.random.Generator, /
    ) -> tuple[Input, Input]:
        """Events x, shape (n, D), and their latent variables z, shape (n, k)."""
        ...

    def joint_log_prob(self, x: Any, z: Any, theta: Any, /) -> Any:  # noqa: ANN401
        """ln p(x, z; θ) of one event in JAX; terms without θ may be left out."""
        ...


class JaxSimulator(eqx.Module):
    """A simulator from a JAX function `(theta (d,), key) -> x (D,)` of one event."""

    simulate_one: Callable[..., Any] = eqx.field(static=True)

    def __check_init__(self) -> None:
        """A function is needed."""
        if not callable(self.simulate_one):
            raise TypeError(
                "JaxSimulator takes a JAX function (theta, key) -> x of one event; got "
                f"{kind_of(self.simulate_one)}."
            )

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Simulate one event for each row of theta, compiled and vectorised."""
        key = jax.random.key(int(rng.integers(2**32)))
        keys = jax.random.split(key, len(theta))
        return np.asarray(_simulate_many(self.simulate_one, jnp.asarray(theta, jnp.float32), keys))


@eqx.filter_jit
def _simulate_many(simulate_one: Callable[..., Any], theta: jax.Array, keys: jax.Array) -> Any:  # noqa: ANN401
    return jax.vmap(simulate_one)(theta, keys)


class SimulatorOutputError(ValueError):
    """A simulator ran, but what it returned cannot be used; raised by what wraps a simulator."""


class SimulatorOutput(NamedTuple):
    """Events x, latent variables z where they were asked for, and the names of the columns of x."""

    x: np.ndarray
    z: np.ndarray | None = None
    names: tuple[str, ...] | None = None
    z_names: tuple[str, ...] | None = None


def run_simulator(
    simulator: Simulator,
    theta: np.ndarray,
    rng: np.random.Generator,
    *,
    first_row: int = 0,
    asked_because: str = "",
    any_value: bool = False,
) -> SimulatorOutput:
    """Call a simulator with a generator for this call alone, and check what it returned.

    Messages count rows from `first_row`, and say why θ may lie outside the prior: `asked_because`.
    With `any_value` x may be NaN or infinite.
    """
    x = _call(simulator, theta, rng, asked_because)
    made = _check_shape(x, theta)
    if not any_value:
        _require_finite_x(made, theta, first_row, asked_because)
    return SimulatorOutput(made, names=column_names(x))


def run_latent_simulator(
    simulator: LatentSimulator,
    theta: np.ndarray,
    rng: np.random.Generator,
    *,
    first_row: int = 0,
    any_value: bool = False,
) -> SimulatorOutput:
    """The same for one that returns its latent variables: x and z."""
    made: Any = _call(simulator.simulate_latent, theta, rng, "")
    if not (isinstance(made, tuple | list) and len(made) == 2):
        raise TypeError(
            f"simulate_latent must return events and latent variables, (x, z); got {kind_of(made)}."
        )
    x, z = _check_shape(made[0], theta), as_floats(made[1], "the simulator's z")
    if not any_value:
        _require_finite_x(x, theta, first_row, "")
    if z.ndim == 0 or len(z) != len(theta):
        raise ValueError(
            f"simulate_latent must return one row of latent variables for each of the {len(theta)} "
            f"rows of theta; got shape {z.shape}."
        )
    return SimulatorOutput(x, z, column_names(made[0]), column_names(made[1]))


def _call(
    function: Callable[..., Any], theta: np.ndarray, rng: np.random.Generator, asked_because: str
) -> Any:  # noqa: ANN401
    try:
        # A copy: a simulator that changes θ in place must not change what is stored.
        return function(theta.copy(), rng)
    except SimulatorOutputError:
        raise  # it ran, and neither its signature nor θ is at fault
    except Exception as error:
        low, high = theta.min(axis=0), theta.max(axis=0)
        region = f"θ between {np.round(low, 4).tolist()} and {np.round(high, 4).tolist()}"
        reason = f"{type(error).__name__}: {str(error).rstrip().rstrip('.')}"
        raise RuntimeError(
            f"the simulator failed for {region}: {reason}. {asked_because or _signature(error)}"
        ) from error


def _check_shape(x: Input, theta: np.ndarray) -> np.ndarray:
    """The x of a simulator."""
    x = as_floats(x, "the simulator's x")
    if x.ndim != 2:
        flat = " For one observable return x[:, None]." if x.ndim == 1 else ""
        raise ValueError(
            "the simulator must return x with two axes, (n, observables), one row for each of "
            f"the {len(theta)} rows of theta; got shape {x.shape}.{flat}"
        )
    if len(x) != len(theta):
        raise ValueError(
            f"the simulator returned {len(x)} rows for {len(theta)} parameter points; it must "
            "return exactly one row of x for each row of theta."
        )
    if x.shape[1] == 0:
        raise ValueError("the simulator returned x without columns; at least one is needed.")
    return x


def _require_finite_x(x: np.ndarray, theta: np.ndarray, first_row: int, asked_because: str) -> None:
    good = finite_rows(x)
    if not good.all():
        shown = np.round(theta[~good][:SHOWN_ROWS], 4).tolist()
        numbered = np.concatenate([np.ones(first_row, bool), good])
        raise ValueError(
            f"the simulator returned NaN or infinite x in {bad_rows(numbered)}, at θ = {shown}. "
            f"{asked_because or 'Mend the simulator or narrow the prior there.'}"
        )


def require_simulator(simulator: object) -> None:
    """Refuse what cannot be called with (theta, rng)."""
    # One without the other would silently lose the latent variables.
    half = hasattr(simulator, "simulate_latent") and not hasattr(simulator, "joint_log_prob")
    if half and not isinstance(simulator, type):
        raise TypeError(
            f"this simulator, {kind_of(simulator)}, has the method simulate_latent but not "
            "joint_log_prob(x, z, theta), ln p(x, z; θ) of one event in JAX, which latent "
            "information needs; add that method, or pass a function (theta, rng) -> x for events "
            "without latent information."
        )
    usable = callable(simulator) or isinstance(simulator, LatentSimulator)
    if not usable or isinstance(simulator, type):
        raise TypeError(
            "simulator must be a function (theta, rng) -> x, a toy such as ist.toys.Dirichlet(), "
            f"or an ist.JaxSimulator; got {kind_of(simulator)}."
        )


def _signature(error: Exception) -> str:
    """What a simulator is, where the failure looks like a wrong signature."""
    if not isinstance(error, TypeError | AttributeError | jax.errors.JAXTypeError):
        return "Mend the simulator or narrow the prior."
    return (
        "A simulator is a NumPy function (theta (n, d), rng) -> x (n, D); a JAX function of one θ "
        "and a key is wrapped, ist.JaxSimulator(function), and must be JAX-traceable."
    )
