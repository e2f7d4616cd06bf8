"""How long to train: sensible from a hundred events to ten million, and only where left open."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from inferostatic.learning.training.plan import (
    planned,
    total_steps,
    tries_out,
    usual_members,
    usual_size,
    with_shrink,
)

import inferostatic as ist
from inferostatic.learning.fit import as_architecture


@pytest.mark.parametrize(
    ("events", "batch", "steps"),
    [(1000, 64, 2000), (10_000, 128, 5300), (100_000, 256, 13_800), (10_000_000, 1024, 96_000)],
)
def test_more_events_get_more_steps_in_larger_batches(events: int, batch: int, steps: int) -> None:
    plan = planned(ist.Training(), events, round(0.9 * events))
    assert plan.batch_size == batch
    assert total_steps(plan, round(0.9 * events)) == pytest.approx(steps, rel=0.1)


def test_a_handful_of_events_can_be_planned_for() -> None:
    for events in (1, 2, 10, 100):
        plan = planned(ist.Training(), events, events)
        assert isinstance(plan.batch_size, int)
        assert total_steps(plan, events) >= 1


def test_what_was_given_stays() -> None:
    given = ist.Training(epochs=7, batch_size=33, weight_decay=0.2)
    assert planned(given, 10_000, 9000) == given


def test_the_usual_decay_of_a_short_training_is_gentle() -> None:
    decay = planned(ist.Training(epochs=1), 1000, 900).weight_decay
    assert decay == pytest.approx(0.1)


def test_members_and_size_follow_the_events() -> None:
    assert usual_members(1000, ist.Training()) == 3
    assert usual_members(100_000, ist.Training()) == 1
    assert usual_members(1000, ist.Training(epochs=3)) == 1
    assert usual_members(1000, ist.Training(epochs=3, choose=True)) == 3
    widths, blocks = zip(*(usual_size(n) for n in (1000, 1_000_000, 10_000_000)), strict=True)
    assert widths[0] < widths[1] < widths[2]
    assert blocks[0] > blocks[1] == blocks[2]


@pytest.mark.parametrize("events", [200, 100_000])
def test_the_default_network_has_the_usual_size(events: int) -> None:
    network: Any = as_architecture(None, events)
    assert (network.network.width, network.network.blocks) == usual_size(events)


def test_settings_are_tried_unless_the_epochs_are_given() -> None:
    assert tries_out(ist.Training())
    assert not tries_out(ist.Training(epochs=5))
    assert tries_out(ist.Training(epochs=5, choose=True))
    assert not tries_out(ist.Training(choose=False))


def same(theta: jax.Array, key: jax.Array) -> jax.Array:
    del key
    return theta


@pytest.mark.parametrize("shrink", [0.15, 1.3])
def test_an_idle_weight_shrinks_by_what_was_asked(shrink: float) -> None:
    """Pairs (θ, θ) have ln r = 0 whatever the weights: no gradient, only decay acts."""
    prior = ist.Uniform([-1.0], [1.0])
    events = ist.simulate(lambda t, r: t + r.standard_normal(t.shape), prior, 500, seed=1)
    nothing = ist.CARL(pairs=ist.CustomPairs(draw_partner=same))
    training = ist.Training(
        epochs=20,
        batch_size=50,
        learning_rate=0.02,
        epsilon=1.0,  # so that rounding in place of a gradient does nothing
        validation_fraction=0.0,
        schedule=ist.Cosine(warm_up=0.0),
    )
    training = with_shrink(training, shrink, 500)
    frozen = dataclasses.replace(training, epochs=1, learning_rate=1e-30)
    network = ist.MLP((8, 8), output_bias=False)
    ended, began = (
        np.asarray(
            ist.fit(events, nothing, network=network, training=t, seed=1)
            .model.network.layers[1]
            .weight
        )
        for t in (training, frozen)
    )
    assert np.log(np.linalg.norm(began) / np.linalg.norm(ended)) == pytest.approx(shrink, rel=0.03)
