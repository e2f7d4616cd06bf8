"""How long to train and how large a network: sensible for any number of events, if left open."""

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.arguments import as_architecture
from inferostatic.learning.defaults.choose import complete_training
from inferostatic.learning.defaults.sizes import choose_members, choose_network_size
from inferostatic.learning.defaults.trials import wants_trials
from inferostatic.learning.defaults.weight_decay import set_shrink
from inferostatic.learning.training.options import Training, count_steps

EVENTS = [10**power for power in range(2, 8)]


def complete(events: int, training: Training | None = None) -> tuple[Training, int]:
    """The training for so many events, nine in ten of them to train on, and its steps."""
    train = round(0.9 * events)
    found = complete_training(ist.Training() if training is None else training, events, train)
    return found, count_steps(found, train)


def test_more_events_get_more_steps_in_batches_that_are_not_smaller() -> None:
    plans = [complete(events) for events in EVENTS]
    for (fewer, steps), (more, more_steps) in itertools.pairwise(plans):
        assert steps < more_steps
        assert fewer.batch_size is not None
        assert more.batch_size is not None
        assert fewer.batch_size <= more.batch_size


def test_ten_times_the_events_cost_less_than_ten_times_the_steps() -> None:
    """Beyond a thousand events; otherwise large samples would never be trained on."""
    steps = [complete(events)[1] for events in EVENTS if events >= 1000]
    for fewer, more in itertools.pairwise(steps):
        assert 1.5 < more / fewer < 5


def test_batches_stay_between_what_is_fast_and_what_fits() -> None:
    for events in (1, 7, *EVENTS, 10**9):
        batch = complete_training(ist.Training(), events, events).batch_size
        assert batch is not None
        assert 16 <= batch <= 4096


def test_a_handful_of_events_can_be_planned_for() -> None:
    for events in (1, 2, 10, 100):
        plan = complete_training(ist.Training(), events, events)
        assert isinstance(plan.batch_size, int)
        assert count_steps(plan, events) >= 1


def test_what_was_given_stays() -> None:
    given = ist.Training(epochs=7, batch_size=33, weight_decay=0.2)
    assert complete(10_000, given)[0] == given
    for name, value in (("epochs", 7), ("batch_size", 33), ("weight_decay", 0.0)):
        partly = dataclasses.replace(ist.Training(), **{name: value})
        found = complete(10_000, partly)[0]
        assert getattr(found, name) == value
        assert None not in (found.epochs, found.batch_size, found.weight_decay)


def test_the_untried_decay_falls_with_the_length_and_is_never_strong() -> None:
    decays = [complete(1000, ist.Training(epochs=n))[0].weight_decay for n in (1, 10, 100, 1000)]
    assert all(decay is not None and 0 < decay <= 0.5 for decay in decays)
    for shorter, longer in itertools.pairwise(decays):
        assert shorter is not None
        assert longer is not None
        assert longer <= shorter
    assert decays[-1] != decays[0]


def test_steps_grow_with_events_and_more_slowly_with_many() -> None:
    few, some, many, most = (complete(n)[1] for n in (3000, 30_000, 100_000, 1_000_000))
    assert some / few == pytest.approx(10**0.4, rel=0.05)
    assert many / some == pytest.approx((10 / 3) ** 0.3, rel=0.05)
    assert most / many == pytest.approx(10**0.3, rel=0.1)


def test_effort_is_more_work() -> None:
    efforts = [0.1, 0.5, 1.0, 2.0, 4.0, 10.0]
    for events, longer in ((10_000, 1), (20_000, 1.5)):
        steps = [complete(events, ist.Training(effort=effort))[1] for effort in efforts]
        assert steps == sorted(steps)
        assert steps[0] == pytest.approx(3000, rel=0.05)
        assert steps[4] / steps[2] == pytest.approx(longer, rel=0.05)
    quick, whole = (complete(100_000, ist.Training(effort=effort))[1] for effort in (0.1, 1.0))
    assert quick / whole == pytest.approx(np.sqrt(0.1), rel=0.05)
    quick, whole = (complete(1000, ist.Training(effort=effort))[1] for effort in (0.1, 1.0))
    assert quick == whole
    assert complete(20_000, ist.Training(effort=0.01))[1] < 1000
    for events, tried, expected in ((10_000, True, 6), (10_000, False, 6), (20_000, True, 4)):
        members = [choose_members(ist.Training(effort=e), events, tried=tried) for e in efforts]
        assert members == sorted(members)
        assert members[2] == (2 if tried else 1)
        assert members[-1] == expected
    assert not wants_trials(ist.Training(effort=0.1))
    assert wants_trials(ist.Training(effort=0.1, choose=True))
    with pytest.raises(ValueError, match="effort must be a finite number above 0"):
        ist.Training(effort=0)


def test_networks_grow_wider_with_events() -> None:
    widths, blocks = zip(*(choose_network_size(n) for n in EVENTS), strict=True)
    assert list(widths) == sorted(widths)
    assert widths[0] < widths[-1]
    assert len(set(blocks)) == 1


@pytest.mark.parametrize("events", [200, 100_000])
def test_the_default_network_has_the_chosen_size(events: int) -> None:
    network: Any = as_architecture(None, events)
    assert (network.network.width, network.network.blocks) == choose_network_size(events)


def test_settings_are_tried_where_the_epochs_are_open() -> None:
    assert wants_trials(ist.Training())
    assert not wants_trials(ist.Training(epochs=5))
    assert wants_trials(ist.Training(epochs=5, choose=True))
    assert not wants_trials(ist.Training(choose=False))


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
    training = set_shrink(training, shrink, 500)
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
