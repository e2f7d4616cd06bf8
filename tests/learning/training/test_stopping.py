"""When training stops, and which epoch is kept."""

import jax.numpy as jnp
import numpy as np

from inferostatic.learning.training.best_epoch import BestEpoch, KeptEpoch, choose_epoch
from inferostatic.learning.training.stopping import StoppingRule, find_last_improvement


def test_training_runs_to_the_end_without_patience() -> None:
    rule = StoppingRule(epochs=3, patience=None)
    rising = np.array([[1.0], [2.0], [3.0]])
    assert rule.decide(np.zeros((0, 1))) is None
    assert rule.decide(rising[:2]) is None
    stop = rule.decide(rising)
    assert stop is not None
    assert not stop.early
    assert stop.reason == "all 3 epochs were run"


def test_training_stops_early_when_no_member_improves() -> None:
    rule = StoppingRule(epochs=10, patience=2)
    losses = np.array([[3.0, 3.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
    assert all(rule.decide(losses[:n]) is None for n in range(5))
    stop = rule.decide(np.concatenate([losses, [[1.5, 1.5]]]))
    assert stop is not None
    assert stop.early
    assert stop.reason == "no better validation loss in 2 epochs, at epoch 5 of 10"


def test_losses_that_are_not_finite_improve_nothing() -> None:
    losses = np.array([[2.0], [np.nan], [np.inf]])
    np.testing.assert_array_equal(find_last_improvement(losses), [1])


def test_each_member_remembers_its_own_best_epoch() -> None:
    best = BestEpoch.before_training(jnp.zeros((2, 1)))
    for epoch, loss in enumerate(([2.0, 1.0], [1.0, 2.0], [3.0, 3.0]), start=1):
        weights = np.full((2, 1), float(epoch))
        best = best.update(weights, np.array(loss), epoch, keep_best=True)
    np.testing.assert_array_equal(best.epoch, [2, 1])
    np.testing.assert_array_equal(np.asarray(best.weights)[:, 0], [2.0, 1.0])
    np.testing.assert_array_equal(best.loss, [1.0, 1.0])
    last = best.update(np.full((2, 1), 4.0), np.array([9.0, 9.0]), 4, keep_best=False)
    np.testing.assert_array_equal(last.epoch, [4, 4])


def test_the_best_epoch_is_kept_after_an_early_stop_or_if_clearly_better() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2, 400))
    last = KeptEpoch(np.full((2, 1), 9.0), np.array([9, 9]), noise)
    best = BestEpoch(np.full((2, 1), 5.0), np.zeros(2), np.array([5, 5]))
    # The first member was clearly better in epoch 5, the second by less than its noise.
    gain = np.array([[0.5], [0.001]]) + rng.normal(scale=0.1, size=(2, 400))
    kept = choose_epoch(best, last, noise - gain, stopped_early=False)
    np.testing.assert_array_equal(kept.epoch, [5, 9])
    np.testing.assert_array_equal(np.asarray(kept.weights)[:, 0], [5.0, 9.0])
    np.testing.assert_array_equal(kept.event_losses[1], noise[1])
    early = choose_epoch(best, last, noise - gain, stopped_early=True)
    np.testing.assert_array_equal(early.epoch, [5, 5])
