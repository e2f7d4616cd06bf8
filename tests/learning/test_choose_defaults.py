"""What `fit` chooses by itself, and that it says so."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.defaults.trials import describe_choice, find_first_within_error
from inferostatic.learning.defaults.weight_decay import SHRINKS, set_shrink
from inferostatic.learning.training.best_epoch import is_clearly_better

PRIOR = ist.Uniform([-1.0], [1.0])
NETWORK = ist.MLP((8, 8), output_bias=False)
TRYING = ist.Training(epochs=6, batch_size=64, choose=True, progress_bar=False)


def over_decades(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """ln x = 6 (θ + noise): standardised, nearly all events lie on top of each other."""
    return np.exp(6 * (theta + rng.standard_normal(theta.shape)))


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(over_decades, PRIOR, 3000, seed=1)


@pytest.fixture(scope="module")
def estimator(events: ist.Events) -> ist.Estimator:
    return ist.fit(events, network=NETWORK, training=TRYING, members=2, seed=1)


def test_features_that_hide_the_data_are_not_chosen(estimator: ist.Estimator) -> None:
    assert not isinstance(estimator.architecture.x_features, ist.Standardised | ist.Automatic)


def test_the_decay_is_one_of_those_tried(estimator: ist.Estimator) -> None:
    tried = [set_shrink(estimator.training, shrink, 2700).weight_decay for shrink in SHRINKS]
    assert estimator.training.weight_decay in tried


def test_the_choice_is_told(estimator: ist.Estimator, tmp_path: Any) -> None:
    features, decay = estimator.history.choices
    assert features.startswith(f"features: {type(estimator.architecture.x_features).__name__};")
    assert "Standardised +" in features
    assert decay.startswith("weight decay: shrinking by e^")
    estimator.save(tmp_path / "model.isn")
    again = ist.load(tmp_path / "model.isn")
    assert again.history.choices == estimator.history.choices
    assert again.training == estimator.training


def test_the_members_are_complete(estimator: ist.Estimator, events: ist.Events) -> None:
    """The network that was tried is the first member; the second was trained afterwards."""
    assert estimator.members == 2
    assert estimator.history.train_loss.shape == (6, 2)
    assert estimator.history.best_epoch.shape == (2,)
    training = dataclasses.replace(estimator.training, choose=False)
    architecture: Any = estimator.architecture
    alone: Any = ist.fit(events, network=architecture, training=training, members=2, seed=1)
    x, theta = events.x[:200], events.theta[:200]
    np.testing.assert_allclose(
        alone.score(x, theta), estimator.score(x, theta), rtol=1e-3, atol=1e-3
    )


def test_what_was_given_is_not_tried(events: ist.Events) -> None:
    given = ist.Potential(NETWORK, ist.Standardised())
    training = dataclasses.replace(TRYING, weight_decay=0.01)
    fitted = ist.fit(events, network=given, training=training, members=1, seed=1)
    assert fitted.history.choices == ()
    assert fitted.architecture == given
    assert fitted.training.weight_decay == 0.01


@pytest.mark.slow
def test_a_part_of_many_events_is_enough_for_the_choice(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_ALL", 1000)
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_ON", 500)
    fitted = ist.fit(events, network=NETWORK, training=TRYING, members=1, seed=1)
    assert len(fitted.history.choices) == 2
    assert fitted.members == 1
    assert len(fitted.history.train_loss) == 6


def test_too_few_held_out_events_decide_nothing(events: ist.Events) -> None:
    fitted = ist.fit(events[:100], network=NETWORK, training=TRYING, members=1, seed=1)
    assert fitted.history.choices == ()


def test_the_first_that_is_as_good_as_the_best_is_taken() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(size=400)
    judged = np.stack([common + 0.5, common + rng.normal(0.02, 1, 400), common])
    assert find_first_within_error(judged, 1.0) == 1
    assert find_first_within_error(judged[[0, 2]], 1.0) == 1
    assert find_first_within_error(judged[[2, 0]], 1.0) == 0
    near = np.stack([common + 0.01 + rng.normal(0, 0.1, 400), common])
    assert find_first_within_error(near, 3.0) == 0
    # Ever so clearly better, but hardly by anything.
    surely = np.stack([common + 0.005, common])
    assert find_first_within_error(surely, 3.0) == 1
    assert find_first_within_error(surely, 3.0, worth=0.01) == 0
    assert find_first_within_error(surely, 3.0, worth=0.004) == 1
    assert (
        "B; validation loss of the others, relative to it: A +0.5000 ± 0.0000"
        in describe_choice("x", ["A", "B"], judged[[0, 2]], 1)
    )


def test_an_earlier_epoch_needs_to_be_clearly_better() -> None:
    rng = np.random.default_rng(2)
    last = rng.normal(size=(3, 1000))
    noise = rng.normal(scale=0.1, size=(3, 1000))
    error = 0.1 / np.sqrt(1000)
    first = last + noise - noise.mean(axis=1, keepdims=True)
    first -= error * np.array([[1.0], [4.0], [-4.0]])
    np.testing.assert_array_equal(is_clearly_better(first, last), [False, True, False])
