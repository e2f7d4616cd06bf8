r"""Difference functions ψ: odd in their own component, even in the others.

Written in the standard displacement u = ε ⊘ λ. The regression target of Kernel Score Estimation
(`eq:ksa`) is \(\psi_i(\epsilon)/E[\epsilon_i\psi_i] = \psi_i(u)/(\lambda_i E[u_i\psi_i(u)])\).
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..inputs import as_function
from ..serial import known
from .kernels import AbstractKernel, AbstractProductKernel
from .records import Theta


class AbstractDifference(eqx.Module):
    """ψ as a function of the standard displacement."""

    @abc.abstractmethod
    def __call__(self, u: Theta) -> Theta:
        """ψ(u)."""

    @abc.abstractmethod
    def normalisation(self, kernel: AbstractKernel, dim: int) -> float | tuple[float, ...]:
        """E[u_i ψ_i(u)] under the standard kernel."""


@known
class Linear(AbstractDifference):
    """ψ_i = u_i, the paper's recommendation: E[u_i ψ_i] = μ₂."""

    def __call__(self, u: Theta) -> Theta:
        """U itself."""
        return u

    def normalisation(self, kernel: AbstractKernel, dim: int) -> float | tuple[float, ...]:
        """μ₂."""
        if isinstance(kernel.variance, tuple) and len(kernel.variance) not in (1, dim):
            raise ValueError(
                f"the kernel has {len(kernel.variance)} second moments but there are {dim} "
                "parameters."
            )
        return kernel.variance


@known
class Sign(AbstractDifference):
    """ψ_i = sign u_i: E[u_i ψ_i] = μ₁."""

    def __call__(self, u: Theta) -> Theta:
        """Its sign."""
        return jnp.sign(u)

    def normalisation(self, kernel: AbstractKernel, dim: int) -> float:
        """μ₁."""
        del dim
        return _product(kernel).moment(1)


@known
class Factorised(AbstractDifference):
    """ψ_i = sign(u_i) α(|u_i|) Π_{j≠i} β(|u_j|) (`eq:option_narrow`).

    Args:
        alpha, beta: JAX functions of |t|; E[u_i ψ_i] = a₁₁ b₁₀^{d−1} by quadrature.
    """

    alpha: Callable[..., Any] = eqx.field(static=True)
    beta: Callable[..., Any] = eqx.field(static=True)

    def __check_init__(self) -> None:
        """Two functions."""
        for name in ("alpha", "beta"):
            as_function(getattr(self, name), name, "a JAX function of |t|")

    def __call__(self, u: Theta) -> Theta:
        """ψ(u)."""
        size = jnp.abs(u)
        own = jnp.sign(u) * jnp.asarray(self.alpha(size), u.dtype)
        others = jnp.broadcast_to(jnp.asarray(self.beta(size), u.dtype), u.shape)
        dim = len(u)
        # The product over j ≠ i without dividing, so that zeros of β are harmless.
        masked = jnp.where(jnp.eye(dim, dtype=bool), 1.0, others[None, :])
        return own * jnp.prod(masked, axis=1)

    def normalisation(self, kernel: AbstractKernel, dim: int) -> float:
        """a₁₁ b₁₀^{d−1}."""
        product = _product(kernel)
        a11 = product.expectation(lambda t: t * self.alpha(t))
        value = a11 * product.expectation(self.beta) ** (dim - 1)
        if value == 0:
            raise ValueError(
                "E[u_i ψ_i] is zero for this kernel, so these alpha and beta give no target; "
                "choose functions that do not vanish where the kernel lies."
            )
        return value


def _product(kernel: AbstractKernel) -> AbstractProductKernel:
    if not isinstance(kernel, AbstractProductKernel):
        raise TypeError(
            "only the linear difference function is defined for a kernel that is not a product; "
            "use KSE(kernel) without difference=."
        )
    return kernel


def score_target(
    kernel: AbstractKernel, difference: AbstractDifference, u: Theta, widths: Theta
) -> Theta:
    """y_i = ψ_i(u) / (λ_i E[u_i ψ_i(u)])."""
    norm = jnp.asarray(difference.normalisation(kernel, len(u)), u.dtype)
    return difference(u) / (widths * norm)
