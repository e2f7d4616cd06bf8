"""What `fit` chooses by itself, and that it says so."""

import contextlib
import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.defaults import choose, depth, weight_decay
from inferostatic.learning.defaults.depth import choose_depth, deepen
from inferostatic.learning.defaults.trials import (
    Trials,
    describe_choice,
    find_first_within_error,
)
from inferostatic.learning.defaults.weight_decay import (
    FEWER_SHRINKS,
    PREFERRED,
    STRONGEST,
    WEAKER,
    WEAKEST,
    set_shrink,
)
from inferostatic.learning.training.best_epoch import is_clearly_better
from inferostatic.learning.training.members import extract_weights
from inferostatic.learning.training.options import count_steps

PRIOR = ist.Uniform([-1.0], [1.0])
NETWORK = ist.MLP((8, 8), output_bias=False)
TRYING = ist.Training(epochs=6, batch_size=64, choose=True, centre=False, progress_bar=False)


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
    shrinks = (STRONGEST, PREFERRED, WEAKER, WEAKEST)
    tried = [set_shrink(estimator.training, shrink, 2700).weight_decay for shrink in shrinks]
    assert estimator.training.weight_decay in tried


def test_the_choice_is_told(estimator: ist.Estimator, tmp_path: Any) -> None:
    features, decay = estimator.history.choices
    assert features.startswith(f"features: {type(estimator.architecture.x_features).__name__};")
    assert "Standardised +" in features
    assert decay.startswith(f"weight decay: {estimator.training.weight_decay:.2g};")
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


@pytest.mark.parametrize(
    ("sharp", "within", "shrinks"),
    [
        (1e9, 1e9, [2.3, 2.3]),
        (1e9, -1e9, [4.0, 2.3, 2.3]),
        (-1e9, 1e9, [0.15, 0.15]),
        (-1e9, -1e9, [0.6, 0.15, 0.15]),
    ],
)
def test_the_better_decay_and_its_neighbour_are_the_ensemble(
    events: ist.Events,
    monkeypatch: pytest.MonkeyPatch,
    sharp: float,
    within: float,
    shrinks: list[float],
) -> None:
    """Two networks with the preferred or the weakest decay, and one next to it if it is better."""
    monkeypatch.setattr(weight_decay, "SHARP", sharp)
    monkeypatch.setattr(weight_decay, "WITHIN", within)
    fitted: Any = ist.fit(events, network=NETWORK, training=TRYING, seed=1)
    count = len(events) * 9 // 10
    decays: list[Any] = [set_shrink(fitted.training, e, count).weight_decay for e in shrinks]
    named = ", ".join(f"{decay:.2g}" for decay in decays)
    assert f"; members have {named} (" in fitted.history.choices[1]
    assert fitted.members == len(shrinks)
    assert fitted.history.train_loss.shape == (6, fitted.members)
    assert fitted.training.weight_decay == pytest.approx(decays[0])
    # Each began elsewhere.
    first, *others = np.asarray(fitted.model.network.layers[1].weight)
    assert all(np.abs(first - other).max() > 0.01 for other in others)


@pytest.mark.parametrize(("sharp", "taken"), [(1e9, 2.3), (-1e9, 0.15)])
def test_a_quick_look_takes_the_better_of_two_decays(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch, sharp: float, taken: float
) -> None:
    monkeypatch.setattr(weight_decay, "SHARP", sharp)
    quick = ist.Training(effort=0.002, progress_bar=False)
    fitted: Any = ist.fit(events, network=NETWORK, training=quick, seed=1)
    (choice,) = fitted.history.choices
    expected: Any = set_shrink(fitted.training, taken, len(events) * 9 // 10).weight_decay
    assert choice.startswith(f"weight decay: {expected:.2g};")
    assert fitted.training.weight_decay == pytest.approx(expected)
    assert fitted.members == 1
    # Others are trained alike, from other weights.
    three: Any = ist.fit(events, network=NETWORK, training=quick, members=3, seed=1)
    assert three.members == 3
    first, *others = np.asarray(three.model.network.layers[1].weight)
    np.testing.assert_array_equal(first, fitted.model.network.layers[1].weight[0])
    assert all(np.abs(first - other).max() > 0.01 for other in others)
    for given in ({"weight_decay": 0.01}, {"choose": False}, {"epochs": 2}):
        plain = dataclasses.replace(quick, **given)
        assert ist.fit(events, network=NETWORK, training=plain, seed=1).history.choices == ()


@pytest.mark.parametrize(("ahead", "expected"), [(0.5, 1), (-0.5, 0), (0.0, 0)])
def test_the_weakest_decay_is_taken_where_its_loss_is_lower(ahead: float, expected: int) -> None:
    losses = np.random.default_rng(3).normal(size=(2, 1, 200))
    preferred, weakest = (SimpleNamespace(event_losses=one) for one in losses + [[[ahead]], [[0]]])
    found: Any = weight_decay.find_better
    assert found(preferred, weakest) == expected


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 3,000 events were many."""
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_ALL", 1000)


@pytest.mark.usefixtures("many")
def test_many_events_are_tried_shortly(events: ist.Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_SHORTLY", 2000)
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_ON", 500)
    fitted = ist.fit(events, network=NETWORK, training=TRYING, seed=1)
    features, decay = fitted.history.choices
    assert "(500 events, 1 epochs each," in features
    assert decay.startswith("weight decay: ")
    assert fitted.members == 2
    assert len(fitted.history.train_loss) == 6


@pytest.mark.usefixtures("many")
def test_short_trials_have_the_decay_of_the_whole_training(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is tried in a part of the epochs is the decay that is taken, not its product."""
    tried: list[tuple[str, int | None, set[float]]] = []
    run = Trials.run

    def record(self: Trials, groups: Any, training: Any, what: str) -> Any:
        decays = {one.weight_decay for _, settings in groups for one in settings}
        tried.append((what, training.epochs, decays))
        return run(self, groups, training, what)

    monkeypatch.setattr(Trials, "run", record)
    training = dataclasses.replace(TRYING, learning_rate=0.05)
    fitted = ist.fit(events, network=NETWORK, training=training, seed=1)
    (_, epochs, decays) = next(one for one in tried if one[0] == "network and weight decay")
    assert epochs == 2
    assert fitted.training.epochs == 6
    assert fitted.training.weight_decay in decays
    whole = count_steps(fitted.training, 2700)
    shrinks = sorted(0.5 * fitted.training.learning_rate * whole * decay for decay in decays)
    assert shrinks == pytest.approx(sorted(FEWER_SHRINKS))


@pytest.mark.parametrize(
    ("most", "stacked"), [pytest.param(10_000, True, marks=pytest.mark.slow), (1000, False)]
)
def test_the_display_counts_the_steps_that_are_made(
    events: ist.Events,
    most: int,
    stacked: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exactly, but for features or networks that are not tried."""
    planned, made = [], []

    @contextlib.contextmanager
    def count(label: str, total: int, **options: Any) -> Iterator[Any]:
        planned.append(total)
        yield lambda steps, note="": made.append(steps)

    monkeypatch.setattr("inferostatic.learning.train_estimator.progress", count)
    monkeypatch.setattr("inferostatic.learning.defaults.trials.TRY_ALL", most)
    if not stacked:
        monkeypatch.setattr("inferostatic.learning.training.members.is_small", lambda _: False)
    training = dataclasses.replace(TRYING, epochs=40, batch_size=500)
    fitted = ist.fit(events, network=NETWORK, training=training, seed=1)
    whole = count_steps(fitted.training, 2700)
    features = 0.125 if most > len(events) else 0.05  # 5 and 2 of 40 epochs
    decays = 4 if most > len(events) else 2 + 2 * 0.25
    assert sum(made) == round((3 * features + decays) * whole)
    unused = 0 if most > len(events) else 0.25  # two towers, which do not stand in for this network
    assert planned == [sum(made) + round(unused * whole)]


def test_more_effort_joins_more_members(events: ist.Events) -> None:
    training = dataclasses.replace(TRYING, epochs=2, effort=4.0)
    fitted = ist.fit(events, network=NETWORK, training=training, seed=1)
    assert fitted.members == 6
    _, weights = extract_weights(fitted.model)
    assert len(np.unique(np.asarray(weights), axis=0)) == 6


class MovingPeak:
    """A narrow peak at θ, which a sum of few products cannot follow; or a normal distribution."""

    def __init__(self, width: float) -> None:
        self.width = width

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + self.width * rng.standard_normal(theta.shape)


@pytest.mark.slow
@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("width", "towers"), [(1.0, True), (0.003, False)])
def test_the_kind_of_network_is_chosen_by_many_events(width: float, towers: bool) -> None:  # noqa: FBT001
    events = ist.simulate(MovingPeak(width), PRIOR, 20_000, seed=1, progress_bar=False)
    training = ist.Training(epochs=8, batch_size=128, choose=True, centre=False, progress_bar=False)
    fitted: Any = ist.fit(events, training=training, seed=1)
    assert isinstance(fitted.architecture.network, ist.TwoTower) == towers
    assert fitted.history.choices[-1].startswith("network and weight decay: ")


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


def place_squared_points(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The public task SLCP: four points whose spreads are squares of θ, so that modes mirror."""
    s0, s1, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, np.tanh(theta[:, 4])
    u, v = rng.standard_normal((2, len(theta), 4))
    first = theta[:, :1] + s0[:, None] * u
    second = theta[:, 1:2] + s1[:, None] * (rho[:, None] * u + np.sqrt(1 - rho**2)[:, None] * v)
    return np.concatenate([first, second], axis=1)


@pytest.mark.slow
def test_a_deep_network_is_taken_where_it_is_clearly_better() -> None:
    events = ist.simulate(place_squared_points, ist.Uniform([-3.0] * 5, [3.0] * 5), 10_000, seed=1)
    fitted: Any = ist.fit(events, seed=1)
    assert fitted.architecture.network.blocks == 6
    assert "depth: 6 blocks; validation loss of the others" in "".join(fitted.history.choices)


def draw_moons(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The public task two_moons: a thin crescent whose place depends on |θ0 + θ1| and θ1 − θ0."""
    angle = rng.uniform(-np.pi / 2, np.pi / 2, len(theta))
    radius = rng.normal(0.1, 0.01, len(theta))
    first = radius * np.cos(angle) + 0.25 - np.abs(theta[:, 0] + theta[:, 1]) / np.sqrt(2)
    second = radius * np.sin(angle) + (theta[:, 1] - theta[:, 0]) / np.sqrt(2)
    return np.stack([first, second], axis=1)


@pytest.mark.slow
def test_a_deep_network_is_taken_with_few_events_too() -> None:
    events = ist.simulate(draw_moons, ist.Uniform([-1.0] * 2, [1.0] * 2), 1000, seed=1)
    fitted: Any = ist.fit(events, training=ist.Training(progress_bar=False), seed=1)
    assert fitted.architecture.network.blocks == 6


@pytest.mark.slow
def test_a_shallow_network_is_kept_where_depth_gains_nothing() -> None:
    training = ist.Training(epochs=8, batch_size=200, choose=True, centre=False, progress_bar=False)
    plain = ist.simulate(
        lambda theta, rng: theta + rng.standard_normal(theta.shape), PRIOR, 1000, seed=1
    )
    fitted: Any = ist.fit(plain, training=training, members=1, seed=1)
    assert fitted.architecture.network.blocks == 2
    assert fitted.history.choices[1].startswith("depth: 2 blocks; ")
    given = ist.fit(plain, training=training, network=ist.Residual(), members=1, seed=1)
    assert not any(choice.startswith("depth") for choice in given.history.choices)


def test_no_longer_trial_is_made_where_depth_promises_little() -> None:
    shallow = ist.Potential(ist.Residual())
    deep = deepen(shallow, 1000)
    assert deep is not None
    losses = np.random.default_rng(1).normal(size=200)
    nothing: Any = None
    for lead in (-1.0, 0.0, 0.009):
        taken, reasons = choose_depth(nothing, shallow, deep, np.stack([losses, losses - lead]))
        assert taken is shallow
        assert len(reasons) == 1


def test_a_promising_lead_must_be_beyond_its_error() -> None:
    shallow = ist.Potential(ist.Residual())
    deep = deepen(shallow, 1000)
    assert deep is not None
    nothing: Any = None
    one, other = np.random.default_rng(2).normal(size=(2, 200))
    # The mean lead is 0.05, its error 0.1.
    other += one.mean() - other.mean() - 0.05
    taken, reasons = choose_depth(nothing, shallow, deep, np.stack([one, other]))
    assert taken is shallow
    assert len(reasons) == 1


@pytest.mark.parametrize(("lead", "blocks"), [(0.02, 2), (0.04, 6)])
def test_the_longer_trial_asks_for_more_than_the_short_one(
    lead: float, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow = ist.Potential(ist.Residual())
    deep = deepen(shallow, 1000)
    assert deep is not None
    losses = np.random.default_rng(1).normal(size=200)

    def run(*_: Any) -> Any:
        return [[SimpleNamespace(event_losses=each[None])] for each in (losses, losses - lead)]

    monkeypatch.setattr(depth, "make_setting", lambda *_: None)
    monkeypatch.setattr(depth, "describe_cost", lambda *_: "")
    monkeypatch.setattr(depth, "_hide_steps", lambda _: SimpleNamespace(run=run))
    trials: Any = SimpleNamespace(shorten=lambda _: None)
    taken: Any = choose_depth(trials, shallow, deep, np.stack([losses, losses - 0.02]))[0]
    assert taken.network.blocks == blocks


# 0.02 is the smallest lead seen on a problem whose errors six blocks lowered threefold.
@pytest.mark.slow
@pytest.mark.parametrize("lead", [1.0, 0.02])
def test_a_longer_trial_decides_where_the_deep_network_only_learns_faster(
    lead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = choose.choose_features

    def favour_depth(*given: Any) -> Any:
        choice = first(*given)
        shallow, _ = choice.event_losses
        return dataclasses.replace(choice, event_losses=np.stack([shallow, shallow - lead]))

    monkeypatch.setattr(choose, "choose_features", favour_depth)
    training = ist.Training(epochs=8, batch_size=200, choose=True, centre=False, progress_bar=False)
    plain = ist.simulate(
        lambda theta, rng: theta + rng.standard_normal(theta.shape), PRIOR, 1000, seed=1
    )
    fitted: Any = ist.fit(plain, training=training, members=1, seed=1)
    _, short, long, _ = fitted.history.choices
    assert short.startswith("depth: 6 blocks; ")
    assert long.startswith("depth: 2 blocks; ")
    assert "(900 events, 2 epochs each, " in long
    assert fitted.architecture.network.blocks == 2
