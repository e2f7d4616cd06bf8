"""Nothing blows up at the edges of the prior of a stored set."""

from typing import Any

import numpy as np
import pytest

import inferostatic as ist

TOYS = {
    "correlated gaussian": (
        ist.toys.CorrelatedGaussian(),
        ist.Uniform([-2.0, -2.0, 0.5], [2.0, 2.0, 2.0]),
    ),
    "counts": (ist.toys.PoissonCounts(), ist.Uniform([1.0, 2.0, 0.1], [8.0, 8.0, 0.8])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TOYS))
def test_the_score_is_as_good_at_the_edges_as_elsewhere(name: str) -> None:
    """In the outer tenth of the prior the error is within three times that of the bulk.

    As it is, the root mean square; and, more strictly, the mean square relative to that of the true
    score, which itself changes over the prior: it is four times larger at the smallest scale of the
    Gaussian than at its largest.
    """
    toy, prior = TOYS[name]
    stored = ist.simulate(toy, prior, 20_000, seed=1)
    training = ist.Training(epochs=12, batch_size=256, centre=True)
    fitted = ist.fit(stored, network=ist.Residual(32), training=training, seed=1)
    fresh = ist.simulate(toy, prior, 20_000, seed=2)
    low, high = prior.support
    place = (fresh.theta - low) / (high - low)
    outer = ((place < 0.05) | (place > 0.95)).any(axis=1)
    assert 0.2 < outer.mean() < 0.4
    truth = toy.score(fresh.x, fresh.theta)
    square = (fitted.score(fresh.x, fresh.theta) - truth) ** 2
    parts = (outer, ~outer)
    edge, bulk = (np.sqrt(square[part].mean()) for part in parts)
    assert edge < 3 * bulk
    edge, bulk = (
        np.mean(square[part].mean(axis=0) / np.mean(truth[part] ** 2, axis=0)) for part in parts
    )
    assert bulk < 0.15
    assert edge < 3 * bulk


@pytest.mark.parametrize("method", [None, ist.KCE(), ist.CARL(), ist.KLRE(ist.Delta(0.2))], ids=str)
@pytest.mark.parametrize("prior", [None, ist.Discrete([[0.3]])], ids=["no prior", "one point"])
def test_events_at_one_theta_have_no_score(method: Any, prior: Any) -> None:
    x = np.random.default_rng(1).normal(size=(200, 1))
    events = ist.Events(x=x, theta=[0.3], prior=prior)
    with pytest.raises(ValueError, match=r"all 200 events lie at one θ, \[0.3\].*several θ"):
        ist.fit(events, method, seed=1)


def test_a_density_or_a_joint_score_can_be_learned_at_one_theta() -> None:
    small = ist.Training(epochs=1)
    x = np.random.default_rng(1).normal(size=(200, 1))
    events = ist.Events(x=x, theta=[0.3], latent={"joint_score": x - x.mean()})
    ist.fit(events, ist.SALLY(), network=ist.MLP((2,)), training=small, seed=1)
    reference = ist.Events(x=x + 0.1, theta=[0.0])
    method = ist.DCTR(reference=reference)
    with pytest.warns(UserWarning, match="the ratio to the reference events is learned there, but"):
        ist.fit(events, method, network=ist.MLP((2,)), training=small, seed=1)
