"""By default `fit` uses the latent information that events carry, and says so."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.defaults.method import choose_method
from inferostatic.supervision.joint_identities import joint_scores

CHAIN = ist.toys.GaussianChain()
PRIOR = ist.Uniform([-1.0, -0.5], [1.0, 0.5], names=["mean", "log_width"])
NETWORK = ist.Potential(ist.MLP((32, 32)), ist.Standardised())
TRAINING = ist.Training(epochs=100, batch_size=64, progress_bar=False)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(CHAIN, PRIOR, 4000, seed=1, progress_bar=False)


def keep_scores(events: ist.Events, factor: float = 1.0) -> ist.Events:
    """The events with their joint scores alone, times a factor that should be 1."""
    return dataclasses.replace(events, latent={"joint_score": factor * joint_scores(events)})


def find_error(estimator: ist.Estimator) -> float:
    """Mean squared error of ln r in units of its variance."""
    rng = np.random.default_rng(5)
    theta0, theta1 = PRIOR.sample(4000, seed=8), PRIOR.sample(4000, seed=9)
    theta = np.where(rng.integers(2, size=(4000, 1)) == 1, theta1, theta0)
    x = CHAIN(theta, rng)
    exact = CHAIN.log_prob(x, theta0) - CHAIN.log_prob(x, theta1)
    return float(np.mean((estimator.log_ratio(x, theta0, theta1) - exact) ** 2) / exact.var())


# Few events are trained on, and some of many others lie beyond them.
@pytest.mark.filterwarnings("ignore:.*outside the range of x seen in training:UserWarning")
@pytest.mark.slow
def test_latent_information_that_events_carry_pays_without_asking(events: ist.Events) -> None:
    """With 500 events both a joint density and joint scores more than halve the error of ln r.

    The mean of four sets: ratios of single ones are 0.27 to 0.51.
    """
    sets = [events[first : first + 500] for first in range(0, 2000, 500)]

    def find_mean(method: Any, prepare: Callable[[ist.Events], ist.Events]) -> float:  # noqa: ANN401
        fits = [
            ist.fit(prepare(one), method, network=NETWORK, training=TRAINING, seed=2 + j)
            for j, one in enumerate(sets)
        ]
        return float(np.mean([find_error(estimator) for estimator in fits]))

    labels = find_mean(ist.KCE(), lambda one: one)
    assert find_mean(None, lambda one: one) < labels / 2
    assert find_mean(None, keep_scores) < labels / 2


def test_the_method_follows_what_the_events_carry_and_is_reported(events: ist.Events) -> None:
    once = ist.Training(epochs=1, batch_size=64, progress_bar=False)
    events, network = events[:500], ist.MLP((8,))
    density, scores = choose_method(events), choose_method(keep_scores(events))
    assert str(density.method) == "latent KCE"
    assert str(scores.method) == "Mix(1 KCE + 1 SALLY)"
    (reason,) = scores.reasons
    assert reason.startswith("method: KCE with the stored joint scores as a second teacher")
    found = ist.fit(events, network=network, training=once, seed=2)
    assert found.method == density.method
    assert found.history.choices == density.reasons
    (reason,) = density.reasons
    assert reason.startswith("method: latent KCE, because the events carry a joint density")
    labels = ist.fit(events, ist.KCE(), network=network, training=once, seed=2)
    assert labels.history.choices == ()
    again = ist.fit(events, start=labels, training=once, seed=2)
    assert str(again.method) == "KCE"


def test_events_without_it_are_trained_by_plain_kce(events: ist.Events) -> None:
    choice = choose_method(dataclasses.replace(events, latent=None))
    assert str(choice.method) == "KCE"
    assert choice.reasons == ()
    # Latent variables alone, without a density of them, say nothing.
    z_alone = dataclasses.replace(events, latent={"z": events.latent["z"]})
    assert choose_method(z_alone).reasons == ()


@pytest.mark.parametrize("factor", [-1.0, 3.0])
def test_wrong_scores_are_left_out_with_a_warning(events: ist.Events, factor: float) -> None:
    with pytest.warns(UserWarning, match="latent information is not used. .* violates an identity"):
        choice = choose_method(keep_scores(events, factor))
    assert str(choice.method) == "KCE"
    (reason,) = choice.reasons
    assert "latent information is not used: " in reason


def test_scores_of_infinite_variance_are_left_out(events: ist.Events) -> None:
    """Noise of mean 0 leaves all identities alone, but no regression survives a Cauchy one."""
    scores = joint_scores(events)
    noise = np.random.default_rng(3).standard_cauchy(scores.shape)
    noisy = dataclasses.replace(events, latent={"joint_score": scores + 10 * noise})
    choice = choose_method(noisy)
    assert str(choice.method) == "KCE"
    (reason,) = choice.reasons
    assert "a few of them rule the mean square" in reason
