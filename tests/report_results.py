"""Small results of every kind that a report can be made of, from an exact potential."""

import dataclasses
import warnings
from typing import Any

import numpy as np

import inferostatic as ist
from exact_estimators import exact_normal

#: A name with markup, which pages must show as text.
EVIL = "<script>document.title='owned'</script>"
#: Of the two parameters; the second one is set as mathematics in figures.
NAMES = ("mass [GeV]", r"$\alpha_s$")
TRUTH = {NAMES[0]: 0.4, NAMES[1]: -0.3}


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def make_results() -> dict[str, Any]:
    """Two parameters, two observables, x ~ Normal(θ, 1)."""
    plain = exact_normal(dim=2)
    losses = 1 + np.exp(-np.arange(30) / 5)[:, None] + np.array([0.0, 0.02])
    history = ist.History(losses, losses + 0.05, np.ones(30), np.array([28, 30]), "all 30 epochs")
    prior = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=NAMES)
    estimator = dataclasses.replace(
        plain, prior=prior, theta_names=NAMES, x_names=("pt", EVIL), history=history
    )
    drawn = ist.simulate(simulator, prior, 3000, seed=1)
    events = ist.Events(x=drawn.x, theta=drawn.theta, prior=prior, x_names=("pt", EVIL))
    truth = np.array(list(TRUTH.values()))
    rng = np.random.default_rng(3)
    x = simulator(np.tile(truth, (200, 1)), rng)
    far = simulator(np.tile([0.8, 0.2], (4000, 1)), rng)
    near = simulator(np.tile([0.4, 0.0], (4000, 1)), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = ist.diagnose(estimator, events)
        likelihood = ist.Likelihood(estimator, x)
        reweighting = ist.reweight(estimator, near, [0.4, 0.0], [0.8, 0.2])
        return {
            "events": events,
            "prior": prior,
            "estimator": estimator,
            "diagnosis": diagnosis,
            "coverage": diagnosis.coverage,
            "fit": ist.maximum_likelihood(likelihood),
            "calibrated": ist.calibrated_fit(estimator, x, events=events),
            "set": ist.confidence_set(likelihood),
            "interval": ist.confidence_set(likelihood, parameters=[NAMES[0]]),
            "limit": ist.upper_limit(
                likelihood.fix(**{NAMES[1]: -0.3}),
                NAMES[0],
                ist.CLs(simulator=simulator),
                background=0.0,
            ),
            "posterior": ist.posterior(likelihood, seed=1),
            "reweighting": reweighting,
            "closure": ist.closure(reweighting, far, seed=1),
            "information": ist.fisher(estimator, x, truth),
        }
