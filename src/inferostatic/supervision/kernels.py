r"""Kernels \(K_\theta(\epsilon)=\prod_i \kappa(\epsilon_i/\lambda_i)/\lambda_i\).

A distribution of displacements around a parameter point: a standard shape κ on the scale 1 and a
width λ, which is a number, one number for each parameter, or a JAX function of θ (or of x and θ,
where events are stored). Absolute moments μ_k = E|t|^k and general expectations are exact or by
quadrature, never by sampling.
"""

import abc
import inspect
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..inputs import (
    FLOAT32_MAX,
    FLOAT32_TINY,
    as_floats,
    as_function,
    as_number,
    bad_rows,
    in_short,
    rounded,
)
from ..serial import Absent, known
from .records import Event, Key, Number, Theta

Width = float | tuple[float, ...] | Callable[..., Any]


#: Beyond so many standard deviations nothing of a normal distribution is left in float64.
MOST_DEVIATIONS = 40.0


def as_width(width: Any) -> Width:  # noqa: ANN401
    """A positive number, a tuple of them, or a function of θ or of (x, θ)."""
    if callable(width) and not isinstance(width, type):
        if not isinstance(width, Absent):
            _arguments(width)
        return width
    given: Any = width
    values = as_floats(given, "width")
    inside = (values >= FLOAT32_TINY) & (values <= FLOAT32_MAX)
    if values.ndim > 1 or not values.size or not inside.all():
        raise ValueError(
            "a kernel's width must be a positive number, a list of one for each parameter, or a "
            f"function of theta; got {width!r}."
        )
    return float(values) if values.ndim == 0 else tuple(float(v) for v in values)


def _arguments(width: Callable[..., Any]) -> int:
    count = len(inspect.signature(width).parameters)
    if count not in (1, 2):
        raise TypeError(
            "a width function takes theta, or x and theta, and returns one width for each "
            f"parameter; this one takes {count} arguments."
        )
    return count


class AbstractKernel(eqx.Module):
    """A distribution of displacements ε = u λ, symmetric in the sign of every component."""

    width: Width = eqx.field(static=True, converter=as_width)

    @abc.abstractmethod
    def draw(self, dim: int, *, key: Key) -> Theta:
        """A standard displacement u = ε ⊘ λ."""

    @abc.abstractmethod
    def log_density(self, u: Theta) -> Number:
        """Ln of the standard density at u."""

    @property
    @abc.abstractmethod
    def reach(self) -> float:
        """Largest |u_i|, infinite for unbounded kernels."""

    @property
    @abc.abstractmethod
    def variance(self) -> float | tuple[float, ...]:
        """μ₂ = E[u_i²], one for all parameters or one for each."""

    @property
    def depends_on_x(self) -> bool:
        """Whether the width is a function of x as well as θ."""
        return callable(self.width) and _arguments(self.width) == 2

    @property
    def constant(self) -> bool:
        """Whether the width is the same everywhere."""
        return not callable(self.width)

    def widths(self, x: Event | None, theta: Theta) -> Theta:
        """λ at (x, θ), one for each parameter."""
        if not callable(self.width):
            if isinstance(self.width, tuple) and len(self.width) != len(theta):
                raise ValueError(
                    f"the kernel has {len(self.width)} widths but there are {len(theta)} "
                    "parameters."
                )
            return jnp.broadcast_to(jnp.asarray(self.width, theta.dtype), theta.shape)
        if self.depends_on_x and x is None:
            raise ValueError(
                "this kernel's width is a function of x and theta, which only stored events can "
                "use: x is not known before it is simulated. Give a function of theta alone."
            )
        try:
            value = self.width(x, theta) if self.depends_on_x else self.width(theta)
        except jax.errors.JAXTypeError as error:
            raise TypeError(
                "a width function is used inside the compiled loop and must be JAX-traceable "
                f"(jax.numpy, no Python branches on values): {error}"
            ) from error
        try:
            return jnp.broadcast_to(jnp.asarray(value, theta.dtype), theta.shape)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"a width function must return one width, or one for each of the {len(theta)} "
                f"parameters; {in_short(error)}."
            ) from error


class AbstractProductKernel(AbstractKernel):
    """A kernel whose components are independent draws of one shape κ."""

    @abc.abstractmethod
    def moment(self, k: int) -> float:
        """μ_k = E|t|^k."""

    @abc.abstractmethod
    def expectation(self, f: Callable[[Any], Any]) -> float:
        """E[f(|t|)] by quadrature."""

    @property
    def variance(self) -> float:
        """μ₂."""
        return self.moment(2)


class AbstractBoxKernel(AbstractProductKernel):
    """A product kernel on |t| ≤ 1."""

    @property
    def reach(self) -> float:
        """1."""
        return 1.0


@known
class Delta(AbstractBoxKernel):
    """κ(t) = ½δ(t−1) + ½δ(t+1): the paper's recommendation, least bias for a given variance."""

    def draw(self, dim: int, *, key: Key) -> Theta:
        """A random corner of the cube."""
        return jax.random.rademacher(key, (dim,), jnp.float32)

    def log_density(self, u: Theta) -> Number:
        """Refuse: a delta kernel has no density."""
        raise TypeError(
            "the delta kernel has no density, which this use needs (a width that depends on θ, or "
            "stored parameter points); use Rectangular instead."
        )

    def moment(self, k: int) -> float:
        """μ_k = 1."""
        del k
        return 1.0

    def expectation(self, f: Callable[[Any], Any]) -> float:
        """f(1)."""
        return _number(f, 1.0)


@known
class Rectangular(AbstractBoxKernel):
    """κ(t) = ½ on [−1, 1)."""

    def draw(self, dim: int, *, key: Key) -> Theta:
        """Uniform in the cube."""
        return jax.random.uniform(key, (dim,), minval=-1.0, maxval=1.0)

    def log_density(self, u: Theta) -> Number:
        """−d ln 2 inside the cube."""
        return jnp.where(jnp.all(jnp.abs(u) <= 1), -len(u) * math.log(2.0), -jnp.inf)

    def moment(self, k: int) -> float:
        """μ_k = 1/(k+1)."""
        return 1 / (k + 1)

    def expectation(self, f: Callable[[Any], Any]) -> float:
        """∫₀¹ f(t) dt."""
        return _quadrature(f, lambda t: 1.0, 1.0)


@known
class Triangular(AbstractBoxKernel):
    """κ(t) = 1 − |t|."""

    def draw(self, dim: int, *, key: Key) -> Theta:
        """The difference of two uniform numbers."""
        two = jax.random.uniform(key, (2, dim))
        return two[0] - two[1]

    def log_density(self, u: Theta) -> Number:
        """Σ ln(1 − |u_i|)."""
        return jnp.sum(jnp.log(jnp.maximum(1 - jnp.abs(u), 0.0)))

    def moment(self, k: int) -> float:
        """μ_k = 2/((k+1)(k+2))."""
        return 2 / ((k + 1) * (k + 2))

    def expectation(self, f: Callable[[Any], Any]) -> float:
        """∫₀¹ 2(1−t) f(t) dt."""
        return _quadrature(f, lambda t: 2 * (1 - t), 1.0)


@known
class Epanechnikov(AbstractBoxKernel):
    """κ(t) = ¾(1 − t²)."""

    def draw(self, dim: int, *, key: Key) -> Theta:
        """The middle one of three uniform numbers on [−1, 1] has exactly this density."""
        return jnp.median(jax.random.uniform(key, (3, dim), minval=-1.0, maxval=1.0), axis=0)

    def log_density(self, u: Theta) -> Number:
        """Σ ln ¾(1 − u_i²)."""
        return jnp.sum(jnp.log(jnp.maximum(0.75 * (1 - u**2), 0.0)))

    def moment(self, k: int) -> float:
        """μ_k = 3/((k+1)(k+3))."""
        return 3 / ((k + 1) * (k + 3))

    def expectation(self, f: Callable[[Any], Any]) -> float:
        """∫₀¹ 3/2 (1−t²) f(t) dt."""
        return _quadrature(f, lambda t: 1.5 * (1 - t**2), 1.0)


@known
class Gaussian(AbstractProductKernel):
    """κ = N(0, 1), cut off at |t| = `truncation` if one is given.

    Without a truncation it reaches everywhere, which score estimation from events stored on a
    bounded region cannot use.
    """

    truncation: float | int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.truncation is not None:
            try:
                as_number(self.truncation, "truncation", above=0, most=MOST_DEVIATIONS)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"truncation must be a positive multiple of the width, up to "
                    f"{MOST_DEVIATIONS:g}; got {str(self.truncation)[:40]}."
                ) from error

    def draw(self, dim: int, *, key: Key) -> Theta:
        """Normal, or truncated normal, numbers."""
        if self.truncation is None:
            return jax.random.normal(key, (dim,))
        return jax.random.truncated_normal(key, -self.truncation, self.truncation, (dim,))

    def log_density(self, u: Theta) -> Number:
        """−½Σu² − ln of the normalisation."""
        inside = jnp.all(jnp.abs(u) <= self.reach)
        norm = len(u) * math.log(math.sqrt(2 * math.pi) * self._mass())
        return jnp.where(inside, -jnp.sum(u**2) / 2 - norm, -jnp.inf)

    @property
    def reach(self) -> float:
        """The truncation, or infinity."""
        return math.inf if self.truncation is None else float(self.truncation)

    def _mass(self) -> float:
        return math.erf(self.reach / math.sqrt(2))

    def moment(self, k: int) -> float:
        """E|t|^k by the recursion m_k = (k−1) m_{k−2} − boundary term."""
        edge = 0.0 if math.isinf(self.reach) else math.exp(-(self.reach**2) / 2)
        front = math.sqrt(2 / math.pi) / self._mass()
        power = 1.0 if math.isinf(self.reach) else self.reach
        values = [1.0, front * (1 - edge)]
        for j in range(2, k + 1):
            values.append((j - 1) * values[j - 2] - front * power ** (j - 1) * edge)
        return values[k]

    def expectation(self, f: Callable[[Any], Any]) -> float:
        """∫ f(t) 2φ(t) dt over the reach."""
        front = math.sqrt(2 / math.pi) / self._mass()
        return _quadrature(f, lambda t: front * math.exp(-(t**2) / 2), self.reach)


@known
class CustomKernel(AbstractKernel):
    """Any standard kernel K(u), not necessarily a product, symmetric under every reflection.

    Args:
        width: as for every kernel.
        draw_standard: JAX function `(dim, key) -> u` of shape (dim,).
        second_moment: E[u_i²], one number or one for each parameter.
        largest: |u_i| that can occur.
        log_standard_density: ln K(u), needed only for reversible steps in Metropolis form.
    """

    draw_standard: Callable[..., Any] = eqx.field(static=True)
    second_moment: Width = eqx.field(static=True, converter=as_width)
    largest: float = eqx.field(static=True, default=1.0)
    log_standard_density: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        """Functions and a number."""
        as_function(self.draw_standard, "draw_standard", "a JAX function (dim, key) -> u")
        as_number(self.largest, "largest", above=0)
        if self.log_standard_density is not None:
            what = "a JAX function of u, or None"
            as_function(self.log_standard_density, "log_standard_density", what)

    def draw(self, dim: int, *, key: Key) -> Theta:
        """The user's draw."""
        try:
            u = jnp.asarray(self.draw_standard(dim, key), jnp.float32)
        except Exception as error:  # whatever a user's function raises
            raise TypeError(
                "draw_standard must be a JAX function (dim, key) -> u of shape (dim,); "
                f"{in_short(error)}."
            ) from error
        if u.shape != (dim,):
            raise ValueError(f"draw_standard must return shape ({dim},); got {u.shape}.")
        return u

    def log_density(self, u: Theta) -> Number:
        """The user's density."""
        if self.log_standard_density is None:
            raise TypeError("this use of a CustomKernel needs its log_standard_density.")
        return jnp.asarray(self.log_standard_density(u), u.dtype)

    @property
    def reach(self) -> float:
        """As given."""
        return self.largest

    @property
    def variance(self) -> float | tuple[float, ...]:
        """As given."""
        if callable(self.second_moment):
            raise TypeError("second_moment must be a number or one for each parameter.")
        return self.second_moment


def find_kernels(tree: Any) -> list[AbstractKernel]:  # noqa: ANN401
    """All kernels in a method, or in a part of one."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, AbstractKernel))
    return [node for node in nodes if isinstance(node, AbstractKernel)]


def _number(f: Callable[[Any], Any], t: float) -> float:
    # Targets are built inside compiled loops, where jax.numpy would only be traced.
    with jax.ensure_compile_time_eval():
        return float(f(t))


def _quadrature(f: Callable[[Any], Any], density: Callable[[Any], Any], edge: float) -> float:
    from scipy.integrate import quad

    value, error = quad(lambda t: _number(f, t) * float(density(t)), 0.0, edge, limit=200)
    if not math.isfinite(value) or error > 1e-6 * max(abs(value), 1e-3):
        raise ValueError(
            f"the expectation of the difference function could not be integrated (value {value}, "
            f"error {error}); give smoother alpha and beta."
        )
    return value


def largest_widths(
    kernel: AbstractKernel, x: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, float]:
    """Largest λ_i over the stored events, and the largest slope Σ_j |∂λ_i/∂θ_j| there.

    θ' − uλ(x, θ') is one-to-one wherever this slope times the largest |u_i| lies below 1.
    """
    x32, theta32 = jnp.asarray(x, jnp.float32), jnp.asarray(theta, jnp.float32)
    if kernel.constant:
        return np.asarray(kernel.widths(x32[0], theta32[0]), np.float64), 0.0
    try:
        widths = np.asarray(jax.jit(jax.vmap(kernel.widths))(x32, theta32), np.float64)
    except jax.errors.JAXTypeError as error:
        raise TypeError(f"the width function must be JAX-traceable: {error}") from error
    good = np.all(np.isfinite(widths) & (widths > 0), axis=1)
    if not good.all():
        raise ValueError(
            f"the width function is not positive and finite in {bad_rows(good)}, for example "
            f"{rounded(widths[~good][0])} at θ = {rounded(theta[~good][0])}."
        )
    slopes = jax.jit(jax.vmap(jax.jacfwd(kernel.widths, argnums=1)))(x32, theta32)
    return widths.max(axis=0), float(jnp.max(jnp.sum(jnp.abs(slopes), axis=2)))
