"""Two counting experiments with uncertain backgrounds: a pyhf model, and how pyhf judges it.

The model is `pyhf.simplemodels.uncorrelated_background`: n_i ~ Poisson(μ s_i + γ_i b_i), and the
auxiliary counts a_i ~ Poisson(γ_i τ_i) with τ_i = (b_i/δb_i)² constrain the backgrounds. One event
is x = (n_1, n_2, a_1, a_2); θ = (μ, γ_1, γ_2).
"""

from functools import cache
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq

import inferostatic as ist

SIGNAL, BACKGROUND, UNCERTAINTY = np.array([[12.0, 11.0], [50.0, 52.0], [3.0, 7.0]])
TAU: Final = (BACKGROUND / UNCERTAINTY) ** 2
PRIOR: Final = ist.Uniform([-1.2, 0.7, 0.4], [6.0, 1.3, 1.6], names=["mu", "gamma1", "gamma2"])
#: pyhf's own bounds stop μ at 0, where intervals may reach below. Inside these all counts expected
#: are positive.
BOUNDS: Final = [(-2.0, 12.0), (0.5, 3.0), (0.5, 3.0)]


def expected(theta: np.ndarray) -> np.ndarray:
    """Expected counts, shape (n, 4), which are also the Asimov events."""
    mu, gamma = theta[:, :1], theta[:, 1:]
    return np.concatenate([mu * SIGNAL + gamma * BACKGROUND, gamma * TAU], axis=1)


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Events of this model, shape (n, 4)."""
    return rng.poisson(expected(theta)).astype(float)


@cache
def model() -> Any:  # noqa: ANN401
    """The pyhf model, fitted by MINUIT."""
    import pyhf

    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer())
    return pyhf.simplemodels.uncorrelated_background(
        signal=SIGNAL.tolist(), bkg=BACKGROUND.tolist(), bkg_uncertainty=UNCERTAINTY.tolist()
    )


class PyhfProfile:
    """−2 ln λ(μ) of one event by pyhf's fits."""

    def __init__(self, x: np.ndarray) -> None:
        from pyhf.infer import mle

        self._fit, self._data = mle, np.asarray(x, float).tolist()
        self.theta, best = self._fit.fit(
            self._data, model(), par_bounds=BOUNDS, return_fitted_val=True
        )
        self._best = float(best)

    def q(self, mu: float) -> float:
        """−2 ln of the likelihood ratio, the backgrounds fitted again."""
        _, value = self._fit.fixed_poi_fit(
            mu, self._data, model(), par_bounds=BOUNDS, return_fitted_val=True
        )
        return float(value) - self._best

    def interval(self, quantile: float) -> np.ndarray:
        """Where −2 ln λ reaches the quantile on either side."""
        ends = [
            brentq(lambda mu: self.q(mu) - quantile, float(self.theta[0]), edge, xtol=1e-4)
            for edge in BOUNDS[0]
        ]
        return np.array(ends)

    def cls(self, mu: float) -> float:
        """The observed CLs by asymptotic formulae, as pyhf has it."""
        import pyhf

        found: Any = pyhf.infer.hypotest(mu, self._data, model(), test_stat="qtilde")
        return float(found)

    def limit(self, *, level: float = 0.95) -> float:
        """The upper limit of μ: where CLs falls to 1 − level."""
        target, high = np.log(1 - level), PRIOR.support[1][0]
        found: Any = brentq(lambda mu: np.log(self.cls(mu)) - target, 0.2, high, xtol=1e-3)
        return float(found)


class LearnedProfile:
    """Intervals, CLs and limits of one event by a learned likelihood."""

    def __init__(self, estimator: ist.Estimator, x: np.ndarray) -> None:
        self.fit = ist.maximum_likelihood(estimator, x[None])
        method = ist.CLs(asimov=lambda theta: expected(theta[None])[0])
        self._limit = ist.upper_limit(estimator, x, "mu", method, background=0.0)

    def interval(self, level: float) -> np.ndarray:
        """Of μ."""
        return self.fit.interval(level)[0]

    def cls(self, mu: float) -> float:
        """The observed CLs of q̃_μ by asymptotic formulae."""
        return self._limit.test_at(mu)[0]

    def limit(self) -> float:
        """The upper limit of μ, at 95%."""
        return self._limit.observed
