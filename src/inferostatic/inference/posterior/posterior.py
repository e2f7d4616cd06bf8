r"""The posterior given events: \(p(\theta|x)\propto\pi(\theta)\,\exp\sum_i\varphi(x_i,\theta)\).

For one or two parameters it is tabulated on a grid; for more it is sampled by NUTS; importance
resampling needs no chains and serves as a second opinion. For many events the potential's own error
adds up coherently, and no sampler can repair that: `calibrated_fit` and the checks are for it.
"""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np

from ...estimator.estimator import Estimator
from ...inputs import Input, as_count, as_seed, kind_of, warn_user
from ...world.priors.discrete import Discrete
from ...world.priors.prior import AbstractPrior
from ..arguments import as_level
from ..likelihood.summed_potential import potential_and_rows, summed_potential
from .density import Target, coordinates_of
from .grid import (
    Grid,
    draw_from_grid,
    enumerate_posterior,
    grid_moments,
    grid_posterior,
)
from .importance import importance_posterior, resample
from .nuts import sample_nuts
from .weighted_draws import weighted_moments

METHODS = ("nuts", "grid", "importance")
#: Most parameters of a grid.
GRID_DIM = 2
#: What calls for a warning: split R-hat above, effective draws below, fraction of θ outside above.
MOST_R_HAT, FEWEST_EFFECTIVE, MOST_OUTSIDE = 1.01, 400.0, 0.01


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the samples were made, and whether they can be relied on.

    Attributes:
        method: "nuts", "grid" or "importance".
        chains: number of chains; 1 for the others.
        r_hat: rank-normalised split R-hat of each parameter; NaN without chains.
        ess: effective number of draws for each parameter (bulk), shape (d,).
        divergences: number of divergent transitions.
        diverging, acceptance, steps: of every transition, shape (chains, draws); empty otherwise.
        remarks: what was warned about.
    """

    method: str
    chains: int
    r_hat: np.ndarray
    ess: np.ndarray
    divergences: int = 0
    diverging: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), bool))
    acceptance: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    steps: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), int))
    remarks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Posterior:
    """Samples of a posterior, with moments and intervals.

    Attributes:
        samples: draws of θ, shape (n, d); those of each chain one after the other.
        log_prob: ln of the posterior density at each draw, up to a constant, shape (n,).
        mean: posterior mean, shape (d,); of a grid exact, not that of the samples.
        covariance: posterior covariance, shape (d, d).
        names: of the parameters.
        events: number of observed events.
        sampling: how it was done.
        grid: the tabulated density, for one or two parameters by method "grid".
    """

    samples: np.ndarray
    log_prob: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    events: int
    sampling: Sampling
    grid: Grid | None = None

    @property
    def std(self) -> np.ndarray:
        """Posterior standard deviations, shape (d,)."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = 0.68) -> np.ndarray:
        """Central credible intervals, shape (d, 2): equal probability is left on either side."""
        level = as_level(level)
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        if self.grid is not None:
            return np.stack([self.grid.quantile(i, tails) for i in range(len(self.names))])
        return np.quantile(self.samples, tails, axis=0).T

    def summary(self) -> str:
        """A table of the parameters, and what is to be said about the sampling."""
        how = self.sampling
        width = max(len("parameter"), *(len(name) for name in self.names))
        head = f"{'parameter':{width}}        mean          sd   68% interval"
        lines = [repr(self), f"{head:{width + 53}}  R-hat    ESS"]
        for i, name in enumerate(self.names):
            low, high = self.interval(0.68)[i]
            r_hat = "    -" if np.isnan(how.r_hat[i]) else f"{how.r_hat[i]:5.3f}"
            lines.append(
                f"{name:{width}}  {self.mean[i]:10.4g}  {self.std[i]:10.3g}   "
                f"{f'{low:.4g} to {high:.4g}':26}  {r_hat}  {how.ess[i]:5.0f}"
            )
        return "\n".join([*lines, *how.remarks])

    def __repr__(self) -> str:
        """Mean and standard deviation of each parameter."""
        values = zip(self.names, self.mean, self.std, strict=True)
        text = ", ".join(f"{name} = {mean:.4g} ± {std:.2g}" for name, mean, std in values)
        count = f"{self.events} event{'s' if self.events > 1 else ''}"
        how = f"{len(self.samples)} samples by {self.sampling.method}"
        return f"Posterior({text}; {count}; {how})"

    def to_arviz(self) -> Any:  # noqa: ANN401
        """An ArviZ `InferenceData` with the samples by parameter and the sampler's statistics."""
        arviz, how = _arviz(), self.sampling
        shape = (how.chains, len(self.samples) // how.chains)
        statistics: dict[str, np.ndarray] = {"lp": self.log_prob.reshape(shape)}
        if how.diverging.size:
            statistics |= {
                "diverging": how.diverging,
                "acceptance_rate": how.acceptance,
                "n_steps": how.steps,
            }
        columns = zip(self.names, self.samples.T, strict=True)
        return arviz.from_dict(
            posterior={name: column.reshape(shape) for name, column in columns},
            sample_stats=statistics,
        )


def posterior(
    estimator: Estimator,
    x: Input,
    prior: AbstractPrior | None = None,
    *,
    method: str | None = None,
    draws: int = 8000,
    chains: int = 8,
    seed: int,
    progress_bar: bool | None = None,
) -> Posterior:
    """The posterior of θ given the events `x`, all made at one unknown θ.

    Args:
        estimator: a trained potential.
        x: observed events, shape (n, D), or one event of shape (D,).
        prior: law of θ; the one the estimator was trained under unless given. It should not reach
            beyond the trained region.
        method: "grid" (exact; one or two parameters, or a discrete prior), "nuts", or
            "importance"; the grid where it is possible and NUTS elsewhere unless given.
        draws: samples in all, a multiple of `chains` (else rounded up to one) for NUTS.
        chains: of NUTS, run side by side.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    estimator, rows = potential_and_rows(estimator, x, "posterior")
    law = _checked_prior(estimator, prior)
    chosen = _checked_method(method, law)
    draws, chains, seed = as_count(draws, "draws"), as_count(chains, "chains"), as_seed(seed)
    with jax.enable_x64(True):  # noqa: FBT003
        target = Target(summed_potential(estimator, rows), law, coordinates_of(law))
    if chosen == "nuts":
        result = _by_nuts(target, draws, chains, seed, show=progress_bar)
    elif isinstance(law, Discrete):
        result = _by_enumeration(target, law, draws, seed)
    elif chosen == "grid":
        result = _by_grid(target, draws, seed)
    else:
        result = _by_importance(target, draws, seed)
    outside = _outside(estimator, result.samples)
    remarks = result.sampling.remarks + ((outside,) if outside else ())
    for remark in remarks:
        warn_user(remark)
    return dataclasses.replace(
        result,
        names=estimator.theta_names,
        events=len(rows),
        sampling=dataclasses.replace(result.sampling, remarks=remarks),
    )


def _checked_prior(estimator: Estimator, prior: AbstractPrior | None) -> AbstractPrior:
    law = estimator.prior if prior is None else prior
    if law is None:
        raise ValueError(
            "the estimator was trained on events without a prior, so posterior needs one: "
            "prior=ist.Uniform(low, high), for example."
        )
    if not isinstance(law, AbstractPrior):
        raise TypeError(
            "prior must be one of the priors of this package, such as ist.Uniform(low, high), or "
            f"an ist.CustomPrior; got {kind_of(law)}."
        )
    names = estimator.theta_names
    if law.dim != len(names):
        raise ValueError(
            f"the estimator has {len(names)} parameters ({', '.join(names)}), the prior "
            f"{law.dim} ({', '.join(law.names)}); one for each is needed."
        )
    if law.names != names and sorted(law.names) == sorted(names):
        raise ValueError(
            f"the prior's parameters are {', '.join(law.names)}, but the estimator's order is "
            f"{', '.join(names)}; give the prior in that order."
        )
    return law


def _checked_method(method: str | None, law: AbstractPrior) -> str:
    possible = isinstance(law, Discrete) or law.dim <= GRID_DIM
    if method is None:
        return "grid" if possible else "nuts"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    if method == "grid" and not possible:
        raise ValueError(
            f"a grid serves one or two parameters; here are {law.dim} ({', '.join(law.names)}). "
            "Use method='nuts'."
        )
    if method == "nuts" and isinstance(law, Discrete):
        raise ValueError(
            "NUTS needs a prior with a density, and this one is a finite set of points; use "
            "method='grid', which goes through them, or give prior=."
        )
    return method


def _result(
    samples: np.ndarray,
    log_prob: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray],
    sampling: Sampling,
    grid: Grid | None = None,
) -> Posterior:
    """Names and number of events are filled in at the end."""
    return Posterior(samples, log_prob, *moments, names=(), events=0, sampling=sampling, grid=grid)


def _by_nuts(target: Target, draws: int, chains: int, seed: int, *, show: bool | None) -> Posterior:
    found = sample_nuts(target, draws=-(-draws // chains), chains=chains, seed=seed, show=show)
    samples = found.theta.reshape(-1, found.theta.shape[-1])
    remarks, divergences = [], int(found.diverging.sum())
    if divergences:
        remarks.append(
            f"{divergences} of {found.diverging.size} transitions diverged: the sampler did not "
            "follow the posterior everywhere. Compare with method='importance', and look whether "
            "the potential is smooth there."
        )
    # A chain of few draws has an R-hat of no meaning; the number of draws is told then.
    if not (found.r_hat <= MOST_R_HAT).all():
        remarks.append(
            f"the chains do not agree with each other (split R-hat up to {found.r_hat.max():.3f}, "
            f"above {MOST_R_HAT}); draw more, or look for several modes."
        )
    if found.ess.min() < FEWEST_EFFECTIVE:
        remarks.append(
            f"the samples are worth only {found.ess.min():.0f} independent ones, below "
            f"{FEWEST_EFFECTIVE:.0f}; raise draws=."
        )
    sampling = Sampling(
        method="nuts",
        chains=chains,
        r_hat=found.r_hat,
        ess=found.ess,
        divergences=divergences,
        diverging=found.diverging,
        acceptance=found.acceptance,
        steps=found.steps,
        remarks=tuple(remarks),
    )
    moments = samples.mean(axis=0), np.atleast_2d(np.cov(samples.T))
    return _result(samples, found.log_prob.ravel(), moments, sampling)


def _independent(method: str, dim: int, ess: float, remarks: tuple[str, ...] = ()) -> Sampling:
    return Sampling(method, 1, np.full(dim, np.nan), np.full(dim, ess), remarks=remarks)


def _by_grid(target: Target, draws: int, seed: int) -> Posterior:
    grid = grid_posterior(target)
    samples, log_prob = draw_from_grid(grid, draws, np.random.default_rng(seed))
    sampling = _independent("grid", samples.shape[1], draws)
    return _result(samples, log_prob, grid_moments(grid), sampling, grid)


def _by_enumeration(target: Target, law: Discrete, draws: int, seed: int) -> Posterior:
    probability, log_prob = enumerate_posterior(target, law)
    points = np.asarray(law.points, np.float64)
    chosen = np.random.default_rng(seed).choice(len(points), draws, p=probability)
    sampling = _independent("grid", points.shape[1], draws)
    moments = weighted_moments(points, probability)
    return _result(points[chosen], log_prob[chosen], moments, sampling)


def _by_importance(target: Target, draws: int, seed: int) -> Posterior:
    weighted = importance_posterior(target, draws, seed)
    chosen = resample(weighted, draws, np.random.default_rng(seed))
    remarks: tuple[str, ...] = ()
    if weighted.ess < FEWEST_EFFECTIVE:
        remarks = (
            f"{len(weighted.theta)} weighted draws are worth only {weighted.ess:.0f}, below "
            f"{FEWEST_EFFECTIVE:.0f}: the posterior is too narrow or too bent for importance "
            "resampling; use method='nuts'.",
        )
    sampling = _independent(
        "importance", weighted.theta.shape[1], min(weighted.ess, draws), remarks
    )
    moments = weighted_moments(weighted.theta, weighted.probability)
    return _result(weighted.theta[chosen], weighted.log_prob[chosen], moments, sampling)


def _outside(estimator: Estimator, samples: np.ndarray) -> str:
    """A sentence where the posterior reaches beyond the trained region."""
    low, high = estimator.region.theta_low, estimator.region.theta_high
    slack = 1e-6 * (np.abs(low) + np.abs(high))
    beyond = np.any((samples < low - slack) | (samples > high + slack), axis=1)
    if beyond.mean() <= MOST_OUTSIDE:
        return ""
    return (
        f"{beyond.mean():.0%} of the posterior lies outside the trained region, "
        f"{np.round(low, 4).tolist()} to {np.round(high, 4).tolist()}, where the potential is "
        "extrapolated; narrow the prior or simulate wider."
    )


def _arviz() -> Any:  # noqa: ANN401
    try:
        with warnings.catch_warnings():
            # It announces its next version once a day.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise ImportError("to_arviz uses ArviZ: pip install 'inferostatic[inference]'") from error
    return arviz
