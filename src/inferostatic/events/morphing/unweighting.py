"""Unweighting: for each θ one event of a weighted pool, drawn in proportion to its rate there.

The inverse of the cumulative rate gives the event. The pool is evaluated at some θ at a time, so
that memory stays bounded whatever its size.
"""

import numpy as np
from numpy import ndarray

from ...inputs import as_seed, rounded, warn_user
from ...progress import progress
from ...streams import Purpose, Stream
from .morphing import Morphing
from .nuisance import CHUNK_NUMBERS, Exponents

#: Effective events of the pool: fewer raise an error, because the same few would come every time.
FEWEST_EFFECTIVE = 10
#: Fraction of the pool below which its weights are reported not to overlap.
POOR_OVERLAP = 0.1
#: Times that an effective event may be drawn on average before a warning.
MOST_USES = 10


def draw_rows(
    weights: ndarray,
    theta: ndarray,
    morphing: Morphing,
    nuisance: Exponents | None,
    *,
    seed: int,
    show: bool | None,
) -> tuple[ndarray, ndarray]:
    """For each θ the row of an event of the pool, and the event's weight.

    Where all rates are positive the weights are 1. An event whose rate at its θ is negative is
    drawn by the size of it and has a negative weight; the weights at every θ then have mean 1.
    """
    components = morphing.components(weights)
    points, index = np.unique(theta, axis=0, return_inverse=True)
    order = np.argsort(index.ravel(), kind="stable")
    ends = np.searchsorted(index.ravel()[order], np.arange(len(points)), side="right")
    u = Stream(as_seed(seed), Purpose.POOL_EVENTS).generator().uniform(size=len(theta))
    chosen, weight = np.zeros(len(theta), np.int64), np.ones(len(theta))
    # Weights far from 1 would lose digits in the squares.
    components = components / np.abs(components).max()
    effective = np.zeros(len(points))
    size = max(1, CHUNK_NUMBERS // len(components))
    with progress("drawing events", len(theta), show=show) as advance:
        for start in range(0, len(points), size):
            part = points[start : start + size]
            rate = _rates_of_pool(components, part, morphing, nuisance)
            total = rate.sum(axis=1)
            effective[start : start + size] = _effective_sizes(rate, total, part)
            cumulative = np.cumsum(np.abs(rate), axis=1)
            first = ends[start - 1] if start else 0
            for k, edges in enumerate(cumulative):
                rows = order[first : ends[start + k]]
                first = ends[start + k]
                # Where the cumulative rate does not rise, nothing is drawn: side="right".
                found = np.searchsorted(edges, u[rows] * edges[-1], side="right")
                chosen[rows] = np.minimum(found, len(edges) - 1)
                if edges[-1] > total[k] * (1 + 1e-12):
                    weight[rows] = np.sign(rate[k, chosen[rows]]) * (edges[-1] / total[k])
                advance(len(rows))
    _check_overlap(effective, len(components), points, len(theta))
    return chosen, weight


def _rates_of_pool(
    components: ndarray, theta: ndarray, morphing: Morphing, nuisance: Exponents | None
) -> ndarray:
    """Rate of every event of the pool at some θ, shape (θ, events)."""
    rate = morphing.terms(theta) @ components.T
    if nuisance is not None:
        nu = theta[:, morphing.dim :]
        rate *= np.exp(nu @ np.asarray(nuisance[0]).T + nu**2 @ np.asarray(nuisance[1]).T)
    return rate


def _effective_sizes(rate: ndarray, total: ndarray, theta: ndarray) -> ndarray:
    """(Σ w)² / Σ w² at each θ."""
    good = total > 0
    if not good.all():
        raise ValueError(
            f"the total rate at θ = {rounded(theta[~good][0])} is {total[~good][0]:.3g} in units "
            "of the largest component; it must be positive. Is this θ too far from the "
            "benchmarks, or are the weights too noisy?"
        )
    return total**2 / np.einsum("ij,ij->i", rate, rate)


def _check_overlap(effective: ndarray, pool: int, theta: ndarray, n: int) -> None:
    """Raise or warn where few events carry the rate: weights that differ, or a small pool."""
    worst = int(np.argmin(effective))
    few = effective[worst]
    cause = "weights that do not overlap" if few < POOR_OVERLAP * pool else "a small pool"
    what = (
        f"{cause}: at θ = {rounded(theta[worst])} only {few:.3g} effective events, (Σw)²/Σw², of "
        f"the {pool} events of the pool carry the rate"
    )
    if few < FEWEST_EFFECTIVE:
        raise ValueError(
            f"{what}, and at least {FEWEST_EFFECTIVE} are needed. Generate events nearer to this "
            "θ, or restrict the prior to where the pool was generated."
        )
    if n > MOST_USES * few:
        warn_user(
            f"{what}, against {n} events to be drawn: the same events come again and again, and "
            "the result is no better than so few events. Enlarge the pool, or draw fewer."
        )
