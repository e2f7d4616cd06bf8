"""Networks that are trained at the same time, one in each thread."""

import threading
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.dataset.build import build_dataset
from inferostatic.learning.training.members import (
    LearningProblem,
    MemberSetting,
    run_in_threads,
    train_side_by_side,
)

PRIOR = ist.Uniform([-1.0], [1.0])
#: Too large to be stacked, so each member has a thread.
NETWORK = ist.Potential(ist.MLP((32, 32), output_bias=False), ist.Raw())


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.standard_normal(theta.shape)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(normal, PRIOR, 600, seed=1)


@pytest.fixture(scope="module")
def problem(events: ist.Events) -> LearningProblem:
    method: Any = ist.KCE()
    dataset = build_dataset(events, method)
    return LearningProblem(method, dataset, dataset.split(0.1, 1), 1)


@pytest.mark.slow
def test_members_are_the_same_in_threads_and_one_after_another(
    events: ist.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = ist.Training(epochs=3, batch_size=64, progress_bar=False)
    found: list[Any] = []
    for threads in (1, 3):
        monkeypatch.setattr(
            "inferostatic.learning.training.members.count_threads", lambda n=threads: n
        )
        found.append(ist.fit(events, network=NETWORK, training=training, members=3, seed=1))
    one, three = (np.asarray(each.model.network.layers[1].weight) for each in found)
    np.testing.assert_array_equal(one, three)
    # All members differ, and each is the one that a smaller ensemble has.
    assert not np.array_equal(one[0], one[1])
    fewer: Any = ist.fit(events, network=NETWORK, training=training, members=2, seed=1)
    np.testing.assert_array_equal(np.asarray(fewer.model.network.layers[1].weight), one[:2])


def test_each_architecture_gets_its_own_networks_in_order(problem: LearningProblem) -> None:
    """One that is stacked and one with a thread for each network: as if each were alone."""
    small: Any = ist.Potential(ist.MLP((4,), output_bias=False), ist.Raw())
    settings = [MemberSetting(ist.Raw(), decay) for decay in (0.0, 1.0)]
    groups: Any = [(NETWORK, settings), (small, settings[:1])]
    training: Any = ist.Training(epochs=1, batch_size=64, weight_decay=0.0, progress_bar=False)
    found: Any = train_side_by_side(problem, groups, training, title="both")
    assert [[len(one.model.network.layers) for one in group] for group in found] == [[3, 3], [2]]
    for group, trained in zip(groups, found, strict=True):
        (alone,) = train_side_by_side(problem, [group], training, title="alone")
        for one, two in zip(trained, alone, strict=True):
            np.testing.assert_array_equal(one.event_losses, two.event_losses)
    assert not np.array_equal(found[0][0].event_losses, found[0][1].event_losses)


def test_results_come_in_order(problem: LearningProblem) -> None:
    second = threading.Event()

    def first_waits(_: LearningProblem) -> int:
        assert second.wait(10)
        return 1

    def sets(_: LearningProblem) -> int:
        second.set()
        return 2

    assert run_in_threads(problem, [first_waits, sets]) == [1, 2]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_one_that_fails_ends_the_others(
    problem: LearningProblem, error: type[BaseException]
) -> None:
    steps = 0

    def goes_on(own: LearningProblem) -> None:
        nonlocal steps
        assert own.advance is not None
        while steps < 100_000:
            steps += 1
            own.advance(1)
            threading.Event().wait(0.001)

    def fails(_: LearningProblem) -> None:
        message = "a bad loss"
        raise error(message)

    with pytest.raises(error, match="a bad loss"):
        run_in_threads(problem, [goes_on, fails])
    assert steps < 100_000
