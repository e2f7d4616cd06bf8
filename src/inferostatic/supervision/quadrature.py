r"""A kernel as a weighted sum, and what Kernel Score Estimation converges to for a known density.

\(s^\mathrm{KSA}_i=\sum_u K(u)\,y_i(u)\,p(x;\theta+\lambda u)\,/\,\sum_u
K(u)\,p(x;\theta+\lambda u)\) with the targets \(y_i=\psi_i(u)/(\lambda_i E[u_i\psi_i])\): over the
corners of a delta kernel exactly, by a product quadrature for other kernels, and over drawn
displacements where a grid would have too many points.
"""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax

from ..streams import Stream
from .difference import AbstractDifference, Linear, score_target
from .kernels import AbstractKernel, AbstractProductKernel, Delta

#: Quadrature nodes on either side of zero, at most. Three give the mean squared bias of the
#: Dirichlet toy to 1%, two to 5%, at widths that saturate.
NODES = 3
#: Points in all dimensions together, at most, to bound the time.
MOST_POINTS = 2048
#: Displacements for each event where that would be exceeded: pairs ±u in two halves.
DRAWS = 1024
#: How far an unbounded kernel is taken to reach there.
FURTHEST_DRAW = 4.0
#: |s^KSA| above this fraction of the largest target counts as saturated.
SATURATED = 0.9


@dataclasses.dataclass(frozen=True, eq=False)
class KernelSum:
    """A kernel of one width as a weighted sum over displacements u λ.

    Attributes:
        kernel: the kernel.
        difference: the difference function of the targets.
        widths: λ for each parameter, shape (d,).
        points: u, shape (M, d); None where they are drawn for each event.
        log_weight: ln of the weights of the points, shape (M,).
    """

    kernel: AbstractKernel
    difference: AbstractDifference
    widths: np.ndarray
    points: np.ndarray | None
    log_weight: np.ndarray

    @property
    def reach(self) -> np.ndarray:
        """How far θ is displaced, for each parameter."""
        furthest = self.kernel.reach
        if math.isinf(furthest):
            furthest = FURTHEST_DRAW if self.points is None else float(np.abs(self.points).max())
        return self.widths * furthest

    @property
    def bound(self) -> np.ndarray:
        """The largest target of each parameter, infinite for unbounded kernels."""
        if math.isinf(self.kernel.reach):
            return np.full(len(self.widths), np.inf)
        furthest = np.full((1, len(self.widths)), self.kernel.reach)
        some = furthest if self.points is None else np.concatenate([furthest, self.points])
        return np.abs(self.targets(some)).max(axis=0)

    def displacements(self, count: int, *, stream: Stream) -> np.ndarray:
        """u for `count` events, shape (count, M, d), or (1, M, d) where all share them."""
        if self.points is not None:
            return self.points[None]
        pairs = draw_standard(self.kernel, count * DRAWS // 2, len(self.widths), stream=stream)
        pairs = pairs.reshape(count, DRAWS // 2, -1)
        # ±u side by side, so that each half of the draws holds whole pairs.
        return np.stack([pairs, -pairs], axis=2).reshape(count, DRAWS, -1)

    def targets(self, u: np.ndarray) -> np.ndarray:
        """y_i = ψ_i(u)/(λ_i E[u_i ψ_i]), for u of shape (…, d)."""
        widths = jnp.asarray(self.widths, jnp.float32)
        flat = jnp.asarray(u.reshape(-1, u.shape[-1]), jnp.float32)
        one = jax.vmap(lambda row: score_target(self.kernel, self.difference, row, widths))
        return np.asarray(one(flat), np.float64).reshape(u.shape)

    def approximate(
        self, log_p: np.ndarray, log_p_here: np.ndarray, score: np.ndarray, u: np.ndarray
    ) -> "Approximation":
        """Bias and variance from ln p at all displaced points, up to a constant for each event.

        Args:
            log_p: at θ + λu, shape (n, M).
            log_p_here: at θ, shape (n,).
            score: at θ, shape (n, d).
            u: the displacements, shape (n, M, d) or (1, M, d).
        """
        log_terms = log_p + self.log_weight
        target = self.targets(u)
        # A sum over drawn displacements is noisy, and its square too large by the variance of
        # that noise; the product of two independent halves is not.
        middle = len(self.log_weight) // 2
        halves = (slice(middle), slice(middle, None))
        if self.points is not None:
            halves = (slice(None), slice(None))
        first, second = (_mean(log_terms[:, half], target[:, half]) for half in halves)
        middle_of_both = (first + second) / 2
        return Approximation(
            kernel_score=middle_of_both,
            squared_bias=(first - score) * (second - score),
            squared_score=first * second,
            variance=_mean(log_terms, target**2) - first * second,
            saturated=np.abs(middle_of_both) > SATURATED * self.bound,
            density_ratio=np.exp(log_p_here - logsumexp(log_terms, axis=1)),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Approximation:
    """The kernel score approximation beside the score, for every event.

    Attributes:
        kernel_score: s^KSA, shape (n, d).
        squared_bias: (s^KSA − s)², shape (n, d).
        squared_score: (s^KSA)², shape (n, d).
        variance: E[y²|x, θ] − (s^KSA)², the variance of the target, shape (n, d).
        saturated: whether |s^KSA| is above 0.9 of the largest target, shape (n, d).
        density_ratio: p(x; θ) over the density of x in form 1, E_ε[p(x; θ + ε)],
            shape (n,).
    """

    kernel_score: np.ndarray
    squared_bias: np.ndarray
    squared_score: np.ndarray
    variance: np.ndarray
    saturated: np.ndarray
    density_ratio: np.ndarray


def merge(parts: list[Approximation]) -> Approximation:
    """Those of several sets of events, joined."""
    names = [field.name for field in dataclasses.fields(Approximation)]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Approximation(**joined)


def kernel_sum(
    kernel: AbstractKernel, dim: int, difference: AbstractDifference | None = None
) -> KernelSum:
    """The corners of a delta kernel, a product quadrature of others, or draws."""
    if callable(kernel.width):
        raise TypeError(
            "a width that is the same for all θ is needed here, and this kernel's is a function; "
            "make kernels with plain numbers."
        )
    widths = np.broadcast_to(np.asarray(kernel.width, np.float64), (dim,)).copy()
    difference = Linear() if difference is None else difference
    nodes = _nodes(kernel, dim)
    if not isinstance(kernel, AbstractProductKernel) or nodes == 0:
        return KernelSum(kernel, difference, widths, None, np.full(DRAWS, -math.log(DRAWS)))
    size, weight = half_line_rule(kernel, nodes)
    u = np.concatenate([-size, size])
    log_weight = np.log(np.concatenate([weight, weight]) / 2)
    points = np.array(list(itertools.product(u, repeat=dim)))
    log_weights = np.array(list(itertools.product(log_weight, repeat=dim))).sum(axis=1)
    return KernelSum(kernel, difference, widths, points, log_weights)


def _nodes(kernel: AbstractKernel, dim: int) -> int:
    """Nodes of |u_i| that the number of points allows; 0 where it allows too few."""
    if isinstance(kernel, Delta):
        return 1 if 2**dim <= MOST_POINTS else 0
    return next((m for m in range(NODES, 1, -1) if (2 * m) ** dim <= MOST_POINTS), 0)


def half_line_rule(kernel: AbstractProductKernel, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Gauss quadrature of E[f(|t|)] under κ, exact for polynomials below degree 2·`nodes`.

    From the moments \(\mu_k\) alone: the Cholesky factor of the matrix \(\mu_{i+j}\) holds the
    recurrence of the orthogonal polynomials, whose Jacobi matrix has the nodes as eigenvalues
    (Golub and Welsch, 1969). On the half line a sign or a kink at zero does no harm.

    >>> from inferostatic.supervision.kernels import Rectangular
    >>> [part.round(4).tolist() for part in half_line_rule(Rectangular(1.0), 2)]
    [[0.2113, 0.7887], [0.5, 0.5]]
    """
    unit = math.sqrt(kernel.moment(2))
    moments = np.array([kernel.moment(k) / unit**k for k in range(2 * nodes + 1)])
    if nodes == 1:
        return unit * moments[1:2], np.ones(1)
    order = np.arange(nodes + 1)
    factor = np.linalg.cholesky(moments[order[:, None] + order]).T
    diagonal = np.diag(factor)
    steps = np.diag(factor, 1) / diagonal[:-1]
    across = diagonal[1:-1] / diagonal[:-2]
    jacobi = np.diag(np.diff(steps, prepend=0.0)) + np.diag(across, 1) + np.diag(across, -1)
    values, vectors = np.linalg.eigh(jacobi)
    return unit * values, vectors[0] ** 2


def draw_standard(kernel: AbstractKernel, count: int, dim: int, *, stream: Stream) -> np.ndarray:
    """Standard displacements u, shape (count, dim)."""
    draws = jax.vmap(lambda k: kernel.draw(dim, key=k))(jax.random.split(stream.key(), count))
    return np.asarray(draws, np.float64)


def _mean(log_terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Σ e^l v / Σ e^l over the points; values of shape (n, M, d) or (1, M, d)."""
    share = softmax(log_terms, axis=1)
    return share @ values[0] if len(values) == 1 else np.einsum("np,npd->nd", share, values)
