"""Several short epochs in one compiled call are those that are made one by one."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.dataset import memory
from inferostatic.learning.training import options, train
from inferostatic.learning.training.options import (
    Training,
    count_epochs_together,
    round_epochs,
)
from inferostatic.learning.training.validation import find_event_losses

NETWORK = ist.Residual(16, 1)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    prior = ist.Uniform([-1.0], [1.0])

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + rng.normal(scale=0.3, size=theta.shape)

    return ist.simulate(simulate, prior, 400, seed=3)


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of epochs of each call from now on."""
    calls: list[int] = []
    real = train._add_epochs

    def add(task: Any, run: Any, validation: Any, epochs: Any, placement: Any) -> Any:
        calls.append(len(epochs))
        return real(task, run, validation, epochs, placement)

    monkeypatch.setattr(train, "_add_epochs", add)
    return calls


@pytest.mark.parametrize("shared", [True, False])
def test_epochs_made_together_are_those_made_one_by_one(
    events: ist.Events,
    monkeypatch: pytest.MonkeyPatch,
    shared: bool,  # noqa: FBT001
) -> None:
    # 360 events in batches of 64 are 6 steps, the last of 40 events.
    training = Training(epochs=20, batch_size=64, shared_batches=shared)
    calls = count_calls(monkeypatch)

    def fit() -> ist.Estimator:
        return ist.fit(events, network=NETWORK, members=2, training=training, seed=1)

    together = fit()
    assert set(calls) == {20}
    monkeypatch.setattr(options, "STEPS_TOGETHER", 1)
    calls.clear()
    alone = fit()
    assert set(calls) == {1}
    for name in ("train_loss", "validation_loss"):
        found, expected = getattr(together.history, name), getattr(alone.history, name)
        assert found.shape == (20, 2)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_array_equal(together.history.best_epoch, alone.history.best_epoch)
    assert together.history.seconds.shape == (20,)
    score = [one.score(events.x, events.theta) for one in (together, alone)]
    np.testing.assert_allclose(*score, rtol=1e-3, atol=1e-3)


def test_the_best_epoch_may_lie_within_a_call(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So long a training of a network without decay is best long before its end."""
    training = Training(
        epochs=60,
        batch_size=12,
        learning_rate=0.03,
        schedule=ist.Constant(),
        weight_decay=0.0,
        validation_fraction=0.8,
    )
    few = events[:120]
    estimator = ist.fit(few, network=ist.MLP((64, 64)), training=training, seed=1)
    history = estimator.history
    assert count_epochs_together(training, 24) == 60
    best = int(history.best_epoch[0])
    assert 1 <= best < 60
    assert best == 1 + int(np.argmin(history.validation_loss[:, 0]))
    # Its weights, not those of the epoch before or after.
    monkeypatch.setattr(options, "STEPS_TOGETHER", 1)
    alone = ist.fit(few, network=ist.MLP((64, 64)), training=training, seed=1)
    points = np.linspace(-0.6, 0.6, 20)[:, None]
    scores = [one.score(points, -points) for one in (estimator, alone)]
    np.testing.assert_allclose(*scores, rtol=1e-2, atol=1e-3)
    for wrong in (best - 1, best + 1):
        short = dataclasses.replace(training, epochs=wrong, keep_best=False)
        other = ist.fit(few, network=ist.MLP((64, 64)), training=short, seed=1)
        assert np.abs(other.score(points, -points) - scores[0]).max() > 0.1


def test_the_last_validation_is_that_of_epochs_alone(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sets of weights by the program of five epochs, of which it evaluates two."""
    tasks: list[Any] = []
    real = train._finish

    def finish(task: Any, *more: Any) -> Any:
        tasks.append(task)
        return real(task, *more)

    monkeypatch.setattr(train, "_finish", finish)
    training = Training(epochs=5, batch_size=64)
    ist.fit(events, network=NETWORK, members=2, training=training, seed=1)
    (task,) = tasks
    arrays = jax.tree.leaves(eqx.filter(task.job.model.network, eqx.is_inexact_array))
    size = sum(array.size for array in arrays)
    weights = np.random.default_rng(1).normal(size=(2, 2, size)).astype(np.float32)
    together, alone = (find_event_losses(task, weights, number) for number in (5, 1))
    assert together.shape == (2, 2, len(task.split.validation))
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    assert np.abs(alone[0] - alone[1]).max() > 0.1


def test_epochs_that_could_stop_early_are_made_one_by_one(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch)
    training = Training(epochs=4, batch_size=64, patience=3)
    ist.fit(events, network=NETWORK, training=training, seed=1)
    assert set(calls) == {1}


@pytest.mark.parametrize("bound", [(memory, "BLOCK_NUMBERS", 1), (train, "MOST_KEPT", 100)])
def test_epochs_of_several_pieces_or_of_many_weights_are_made_one_by_one(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch, bound: tuple[Any, str, int]
) -> None:
    training = Training(epochs=4, batch_size=64)

    def fit() -> ist.Estimator:
        return ist.fit(events, network=NETWORK, training=training, seed=1)

    calls = count_calls(monkeypatch)
    together = fit()
    assert set(calls) == {4}
    calls.clear()
    monkeypatch.setattr(*bound)
    alone = fit()
    assert set(calls) == {1}
    losses = [one.history.train_loss for one in (together, alone)]
    # Pieces have random candidates of their own.
    np.testing.assert_allclose(*losses, rtol=1e-4 if bound[0] is train else 0.3)


def test_a_loss_that_runs_away_within_a_call_names_its_epoch(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(
        epochs=6, batch_size=64, learning_rate=1e6, schedule=ist.Constant(), validation_fraction=0.0
    )
    deep = ist.MLP((8, 8, 8, 8, 8, 8))

    def say() -> str:
        with pytest.raises(ist.TrainingError, match="became NaN or infinite") as error:
            ist.fit(events, network=deep, training=training, seed=1)
        return str(error.value)

    together = say()
    monkeypatch.setattr(options, "STEPS_TOGETHER", 1)
    assert say() == together


def test_the_epoch_and_the_member_of_a_bad_loss_are_named(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = train._train_short_epochs

    def spoil(task: Any, state: Any, epochs: Any) -> Any:
        state, weights, losses = real(task, state, epochs)
        losses[2, 1] = losses[4, 0] = np.nan
        return state, weights, losses

    monkeypatch.setattr(train, "_train_short_epochs", spoil)
    training = Training(epochs=6, batch_size=64)
    with pytest.raises(ist.TrainingError, match=r"in epoch 3 \(member 1\)"):
        ist.fit(events, network=NETWORK, members=2, training=training, seed=1)


@pytest.mark.parametrize(
    ("count", "wanted", "epochs", "block"),
    [
        (900, 133.4, 136, 8),  # 15 steps each
        (900, 17, 16, 8),
        (900, 7.6, 8, 8),
        (900, 3.2, 3, 3),  # less than a call
        (900, 0.2, 1, 1),
        (540, 190, 195, 13),  # 9 steps each
        (2_700, 72.1, 72, 2),  # 43 steps each
        (30_000, 72.1, 72, 1),  # an epoch alone has 469
    ],
)
def test_lengths_are_whole_calls(count: int, wanted: float, epochs: int, block: int) -> None:
    rounded = round_epochs(Training(batch_size=64), wanted, count)
    assert rounded.epochs == epochs
    assert count_epochs_together(rounded, count) == block


def test_calls_divide_the_epochs_that_were_asked_for() -> None:
    # 15 steps each, so 8 of them could be made together.
    together = {1: 1, 7: 7, 8: 8, 12: 4, 13: 1, 100: 4}
    for epochs, expected in together.items():
        assert count_epochs_together(Training(epochs=epochs, batch_size=64), 900) == expected
