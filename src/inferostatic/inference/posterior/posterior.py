r"""The posterior given events: \(p(\theta|x)\propto\pi(\theta)\,\exp\sum_i\varphi(x_i,\theta)\).

For one or two parameters it is tabulated on a grid; for more it is sampled by NUTS; importance
resampling needs no chains and serves as a second opinion. For many events the potential's own error
adds up coherently, and no sampler can repair that: `calibrated_fit` and the checks are for it.
"""

import dataclasses
from typing import Any

import numpy as np

from ...bounds import within
from ...inputs import as_seed, kind_of, rounded, warn_user
from ...serial import describe
from ...summary import AbstractSummarised, Summary, SummaryTable, list_estimates
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from ...world.priors.prior import AbstractPrior
from ..arguments import ONE_SIGMA, as_level
from ..likelihood.learned_bias import LearnedBias
from ..likelihood.likelihood import Likelihood
from ..likelihood.observed_check import judge_result
from ..likelihood.short_form import of_likelihood
from .arviz_bridge import load_arviz
from .grid import MOST_PARAMETERS, Grid
from .log_posterior import build_target
from .nuts import NUTS
from .sampler import AbstractSampler, GridDensity, Samples, Sampling

#: Part of the posterior outside the trained region above which there is a warning.
MOST_OUTSIDE = 0.01
#: Relative difference of the sum of weights and the effective size that needs no warning.
NEGLIGIBLE = 0.01
#: What to do about a bias.
CURE = "ist.calibrated_fit for many events, or train on more"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Posterior(AbstractSummarised):
    """Samples of a posterior, with moments and intervals.

    Attributes:
        samples: draws of θ, shape (n, d); those of each chain one after the other.
        log_prob: ln of the posterior density at each draw, up to a constant, shape (n,).
        mean: posterior mean, shape (d,); of a grid exact, not that of the samples.
        covariance: posterior covariance, shape (d, d).
        names: of the parameters.
        events: number of observed events.
        sampling: how it was done.
        grid: the tabulated density of the free parameters, if `ist.Grid` made it.
        x_names: of the observables, unless there are several channels.
        bias: of the mean by the learned score, in posterior standard deviations; None where it was
            not measured.
        notes: on a table of ln L, on that bias, and on how the events compare with simulated ones.
    """

    samples: np.ndarray
    log_prob: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    events: int
    sampling: Sampling
    grid: GridDensity | None = None
    x_names: tuple[str, ...] = ()
    bias: LearnedBias | None = None
    notes: tuple[str, ...] = ()
    _free: tuple[int, ...] = ()

    @property
    def std(self) -> np.ndarray:
        """Posterior standard deviations, shape (d,)."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = ONE_SIGMA) -> np.ndarray:
        """Central credible intervals, shape (d, 2): equal probability is left on either side."""
        level = as_level(level)
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        ends = np.quantile(self.samples, tails, axis=0).T
        if self.grid is not None:
            for axis, index in enumerate(self._free):
                ends[index] = self.grid.quantile(axis, tails)
        return ends

    def _summarise(self) -> Summary:
        how = self.sampling
        ends = [f"{low:.4g} to {high:.4g}" for low, high in self.interval()]
        columns = {
            "parameter": list(self.names),
            "mean": [f"{value:.4g}" for value in self.mean],
            "sd": [f"{value:.3g}" if value > 0 else "fixed" for value in self.std],
            f"{ONE_SIGMA:.0%} interval": ends,
            "R-hat": ["-" if np.isnan(value) else f"{value:.3f}" for value in how.r_hat],
            "ESS": ["-" if np.isnan(value) else f"{value:.0f}" for value in how.ess],
        }
        return Summary(repr(self), (SummaryTable(columns), *how.remarks, *self.notes))

    def __repr__(self) -> str:
        """Mean and standard deviation of each parameter."""
        text = list_estimates(self.names, self.mean, self.std)
        count = f"{self.events} event{'s' if self.events > 1 else ''}"
        how = f"{len(self.samples)} samples by {self.sampling.method}"
        return f"Posterior({text}; {count}; {how})"

    def to_arviz(self) -> Any:  # noqa: ANN401
        """An ArviZ `InferenceData` with the samples by parameter and the sampler's statistics."""
        arviz, how = load_arviz(), self.sampling
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


@of_likelihood
def posterior(
    likelihood: Likelihood,
    prior: AbstractPrior | None = None,
    method: AbstractSampler | None = None,
    *,
    seed: int,
    progress_bar: bool | None = None,
) -> Posterior:
    """The posterior of θ given observed events; `posterior(estimator, x, …)` is the short form.

    Rate and constraints of the likelihood count. With fixed parameters it is the posterior of the
    others, given their values; bounds cut the support of the prior.

    Args:
        likelihood: `ist.Likelihood(estimator, x, …)`, or an estimator and events in its place.
        prior: of θ; by default the one that the estimator was trained under. It should not reach
            beyond the trained region.
        method: `ist.Grid()` (exact; one or two free parameters, or a discrete prior), `ist.NUTS()`
            or `ist.Importance()`; by default the grid where it is possible and NUTS elsewhere.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    chosen_prior = _read_prior(likelihood, prior)
    if method is None:
        few = int(likelihood.free.sum()) <= MOST_PARAMETERS
        method = Grid() if few or isinstance(chosen_prior, Discrete) else NUTS()
    if not isinstance(method, AbstractSampler):
        raise TypeError(
            f"method must be ist.Grid(…), ist.NUTS(…) or ist.Importance(…); got {kind_of(method)}."
        )
    target = build_target(likelihood, chosen_prior)
    found = method.sample(target, seed=as_seed(seed), show=progress_bar)
    samples = target.density.full_thetas(found.points)
    remarks = [*found.sampling.remarks]
    remarks += [text for text in (_outside(likelihood, samples), _of_weights(likelihood)) if text]
    for remark in remarks:
        warn_user(remark)
    return _assemble(likelihood, found, samples, tuple(remarks))


def _assemble(
    likelihood: Likelihood, found: Samples, samples: np.ndarray, remarks: tuple[str, ...]
) -> Posterior:
    """The result with all parameters; fixed ones have no spread and no diagnostics."""
    free, size = np.flatnonzero(likelihood.free), len(likelihood.names)
    channels = likelihood.model.channels
    mean, covariance = likelihood.low.copy(), np.zeros((size, size))
    mean[free], covariance[np.ix_(free, free)] = found.mean, found.covariance
    r_hat, ess = np.full(size, np.nan), np.full(size, np.nan)
    r_hat[free], ess[free] = found.sampling.r_hat, found.sampling.ess
    inside = np.clip(mean, *likelihood.region)
    bias, notes = judge_result(likelihood, inside, covariance, cure=CURE)
    return Posterior(
        samples=samples,
        log_prob=found.log_prob,
        mean=mean,
        covariance=covariance,
        names=likelihood.names,
        events=likelihood.events,
        sampling=dataclasses.replace(found.sampling, r_hat=r_hat, ess=ess, remarks=remarks),
        grid=found.grid,
        x_names=channels[0].x_names if len(channels) == 1 else (),
        bias=bias,
        notes=(*found.notes, *notes),
        _free=tuple(int(i) for i in free),
    )


def _read_prior(likelihood: Likelihood, prior: object) -> AbstractPrior:
    names = likelihood.names
    if prior is None:
        whole = [one for one in likelihood.estimators if one.theta_names == names]
        if not whole:
            raise ValueError(
                "no channel has all parameters, so posterior needs a prior of "
                f"{', '.join(names)}: prior=ist.Uniform(low, high, names=…), for example."
            )
        trained = [one.prior for one in whole if one.prior is not None]
        if not trained:
            raise ValueError(
                "the estimator was trained on events without a prior, so posterior needs one: "
                "prior=ist.Uniform(low, high), for example."
            )
        prior = trained[0]
        if any(describe(other) != describe(prior) for other in trained[1:]):
            raise ValueError(
                "the estimators were trained under different priors, so posterior needs one: "
                "prior=ist.Uniform(low, high), for example."
            )
    if not isinstance(prior, AbstractPrior):
        raise TypeError(
            "prior must be one of the priors of this package, such as ist.Uniform(low, high), or "
            f"an ist.CustomPrior; got {kind_of(prior)}."
        )
    if prior.dim != len(names):
        raise ValueError(
            f"the likelihood has {len(names)} parameters ({', '.join(names)}), the prior "
            f"{prior.dim} ({', '.join(prior.names)}); one for each is needed."
        )
    moved = [name for name, own in zip(prior.names, names, strict=True) if name != own]
    if any(name in names for name in moved):
        raise ValueError(
            f"the prior's parameters are {', '.join(prior.names)}, but the likelihood's order is "
            f"{', '.join(names)}; give the prior in that order."
        )
    return prior


def _outside(likelihood: Likelihood, samples: np.ndarray) -> str:
    """What to say where the posterior reaches beyond the trained region."""
    low, high = likelihood.region
    beyond = ~within(samples, low, high).all(axis=1)
    if beyond.mean() <= MOST_OUTSIDE:
        return ""
    return (
        f"{beyond.mean():.0%} of the posterior lies outside the trained region, {rounded(low)} to "
        f"{rounded(high)}, where the potential is extrapolated; narrow the prior or simulate wider."
    )


def _of_weights(likelihood: Likelihood) -> str:
    """What to say of weighted events, whose posterior has no exact meaning."""
    parts = zip(likelihood.data.weight, likelihood.weighted, strict=True)
    weight = np.concatenate([np.zeros(0), *(part[0] for part, weighted in parts if weighted)])
    if len(weight) == 0 or abs(weight.sum() / effective_size(weight) - 1) < NEGLIGIBLE:
        return ""
    return (
        f"the events have weights: Σwφ is taken as the log likelihood of {weight.sum():.4g} "
        f"events, but they are worth {effective_size(weight):.4g}, so the width of the posterior "
        "is only right where both numbers agree. Scale the weights to that sum, or use "
        "ist.maximum_likelihood, whose errors count the scatter of the weights."
    )
