"""Unweighted events out of a weighted pool: θ from a prior, and for each θ an event of the pool.

An event is drawn in proportion to its rate at that very θ, by the inverse of the cumulative rate.
The pool is evaluated at some θ at a time, so that memory stays bounded whatever its size.
"""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from ...inputs import Input, as_count, as_floats, as_rows, as_seed, kind_of, rounded, warn_user
from ...progress import progress
from ...world.priors.prior import AbstractPrior
from ..events import Events
from .morphing import REACH, Morphing
from .nuisance import CHUNK_NUMBERS, Exponents

#: Effective events of the pool: fewer than this are refused.
FEWEST_EFFECTIVE = 10
#: Fraction of the pool below which its weights are said not to overlap.
POOR_OVERLAP = 0.1
#: How often an effective event may serve before the user is told.
MOST_USES = 10
#: The rate is fitted to nuisance parameters a little further out than they were drawn.
REACH_MARGIN = 1.25


def morphed_events(
    x: Input,
    weights: Input,
    morphing: Morphing,
    prior: AbstractPrior | Input,
    n: int,
    *,
    seed: int,
    nuisance: Exponents | None = None,
    x_names: Sequence[str] | None = None,
    theta_names: Sequence[str] | None = None,
    progress_bar: bool | None = None,
) -> Events:
    """Draw `n` events from a pool with weights at benchmarks.

    Events come back with their components as latent information, so that joint ratios and joint
    scores are known at every θ. Where all rates are positive they have weight 1. An event whose
    rate at its θ is negative is drawn by the size of it and has a negative weight; the weights
    at every θ then have mean 1, so that the weighted θ still follow the prior.

    Args:
        x: observables of the pool, shape (N, D).
        weights: of its events at the benchmarks, shape (N, B).
        morphing: the polynomial; without rates it takes those of the pool.
        prior: law of θ, nuisance parameters last; or one θ of shape (d,) for all events.
        n: number of events to draw; events of the pool may serve several times.
        seed: everything random follows from it.
        nuisance: `ist.nuisance_exponents(…)` of the pool, where there are nuisance parameters.
        x_names: names of the columns of x.
        theta_names: names of the columns of θ.
        progress_bar: force the display on or off.
    """
    if not isinstance(morphing, Morphing):
        raise TypeError(f"morphing must be an ist.Morphing; got {kind_of(morphing)}.")
    rows = as_rows(x, "x", of="observables")
    components = morphing.components(weights)
    if len(rows) != len(components):
        raise ValueError(f"x has {len(rows)} events and weights {len(components)}.")
    theta = _thetas(prior, as_count(n, "n"), morphing, theta_names, seed)
    table = np.asarray(weights, np.float64)
    nu = theta[:, morphing.dim :]
    reach = REACH_MARGIN * float(np.abs(nu).max()) if nu.size else 0.0
    if reach == 0 and morphing.response is None:
        reach = REACH
    morphing = morphing.with_sample(table, nuisance, reach=reach)
    chosen, weight = _draw(components, theta, morphing, nuisance, seed, show=progress_bar)
    known = isinstance(prior, AbstractPrior)
    drawn = None if nuisance is None else Exponents(nuisance[0][chosen], nuisance[1][chosen])
    return Events(
        x=rows[chosen],
        theta=theta,
        weight=weight,
        latent=morphing.latent(table[chosen], theta, drawn),
        prior=prior if known else None,
        x_names=x_names,
        theta_names=theta_names,
    )


def _thetas(
    prior: AbstractPrior | Input,
    n: int,
    morphing: Morphing,
    names: Sequence[str] | None,
    seed: int,
) -> ndarray:
    dim = morphing.dim + morphing.nuisances
    known = [] if names is None or len(names) != dim else list(names)
    if isinstance(prior, AbstractPrior):
        if prior.dim != dim:
            zeros, ones = [0] * morphing.nuisances, [1] * morphing.nuisances
            remedy = f"; add them last: ist.Product([prior, ist.Normal({zeros}, {ones})])"
            raise ValueError(
                f"the morphing has {morphing.dim} parameters{_listed(known[: morphing.dim])} and "
                f"{morphing.nuisances} nuisance parameters{_listed(known[morphing.dim :])}, and "
                f"the prior is one of {prior.dim}: {', '.join(prior.names)}"
                f"{remedy if prior.dim == morphing.dim else ''}."
            )
        return prior.sample(n, seed=seed)
    point = as_floats(prior, "prior")
    if point.shape != (dim,) or not np.isfinite(point).all():
        raise ValueError(
            f"prior must be a prior such as ist.Uniform(low, high), or one θ of {dim} finite "
            f"numbers{_listed(known)} for all events; got shape {point.shape}."
        )
    return np.tile(point.astype(np.float64), (n, 1))


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _draw(
    components: ndarray,
    theta: ndarray,
    morphing: Morphing,
    nuisance: Exponents | None,
    seed: int,
    *,
    show: bool | None,
) -> tuple[ndarray, ndarray]:
    """For each θ the row of an event of the pool, and its weight."""
    points, index = np.unique(theta, axis=0, return_inverse=True)
    order = np.argsort(index.ravel(), kind="stable")
    ends = np.searchsorted(index.ravel()[order], np.arange(len(points)), side="right")
    u = np.random.default_rng(np.random.SeedSequence([as_seed(seed), 1])).uniform(size=len(theta))
    chosen, weight = np.zeros(len(theta), np.int64), np.ones(len(theta))
    # Weights far from 1 would lose digits in the squares.
    components = components / np.abs(components).max()
    effective = np.zeros(len(points))
    size = max(1, CHUNK_NUMBERS // len(components))
    with progress("drawing events", len(theta), show=show) as advance:
        for start in range(0, len(points), size):
            part = points[start : start + size]
            rate = _rates(components, part, morphing, nuisance)
            total = rate.sum(axis=1)
            effective[start : start + size] = _effective(rate, total, part)
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
    _tell_overlap(effective, len(components), points, len(theta))
    return chosen, weight


def _rates(
    components: ndarray, theta: ndarray, morphing: Morphing, nuisance: Exponents | None
) -> ndarray:
    """Rate of every event of the pool at some θ, shape (θ, events)."""
    rate = morphing.terms(theta) @ components.T
    if nuisance is not None:
        nu = theta[:, morphing.dim :]
        rate *= np.exp(nu @ np.asarray(nuisance[0]).T + nu**2 @ np.asarray(nuisance[1]).T)
    return rate


def _effective(rate: ndarray, total: ndarray, theta: ndarray) -> ndarray:
    """(Σ w)² / Σ w² at each θ."""
    good = total > 0
    if not good.all():
        raise ValueError(
            f"the total rate at θ = {rounded(theta[~good][0])} is {total[~good][0]:.3g} in units "
            "of the largest component; it must be positive. Is this θ too far from the "
            "benchmarks, or are the weights too noisy?"
        )
    return total**2 / np.einsum("ij,ij->i", rate, rate)


def _tell_overlap(effective: ndarray, pool: int, theta: ndarray, n: int) -> None:
    """Say where few events carry the rate, because their weights differ or the pool is small."""
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
