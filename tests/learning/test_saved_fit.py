"""Fits that are interrupted and repeated: the same weights bit by bit as without interruption."""

import dataclasses
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic import checkpoint
from inferostatic.learning.training import train
from parameters import slow_but

PRIOR = ist.Uniform([-1.0], [1.0])
SMALL = ist.MLP((4,))
#: Too large to be stacked, so each member has a thread.
LARGE = ist.Potential(ist.MLP((32, 32), output_bias=False), ist.Raw())
#: Two calls of two epochs each: 60 steps are an epoch, and 120 are made together.
TRAINING = ist.Training(epochs=4, batch_size=6, progress_bar=False)
TRIED = ist.Training(effort=0.02, choose=True, batch_size=100, progress_bar=False)


def normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.standard_normal(theta.shape)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(normal, PRIOR, 400, seed=1)


def weights(estimator: Any) -> bytes:
    arrays = jax.tree.leaves(eqx.filter(estimator.model, eqx.is_array))
    return b"".join(np.asarray(array).tobytes() for array in arrays)


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Ctrl-C in the call of that number that makes epochs, counted over all trainings."""
    real, lock = train._add_epochs, threading.Lock()
    left: list[int | None] = [None]

    def add_epochs(*arguments: Any) -> Any:
        with lock:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(train, "_add_epochs", add_epochs)
    return lambda number: left.__setitem__(0, number)


SETTINGS: dict[str, dict[str, Any]] = {
    "stacked": {"network": SMALL, "members": 2, "training": TRAINING},
    "in threads": {"network": LARGE, "members": 2, "training": TRAINING},
    "with trials": {"network": SMALL, "training": TRIED},
    "trials, then members": {"network": SMALL, "members": 2, "training": TRIED},
    "early stopping": {
        "network": SMALL,
        "training": ist.Training(epochs=9, patience=1, learning_rate=0.5, progress_bar=False),
    },
    "without validation": {
        "network": SMALL,
        "training": dataclasses.replace(TRAINING, validation_fraction=0.0),
    },
}


@pytest.mark.parametrize(
    "name", slow_but(SETTINGS, "stacked", "trials, then members", "early stopping")
)
def test_an_interrupted_fit_goes_on_to_the_same_weights(
    name: str,
    events: ist.Events,
    tmp_path: Path,
    interrupt: Callable[[int | None], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = SETTINGS[name]
    whole = ist.fit(events, seed=2, **options)
    capsys.readouterr()
    # Every repetition gets one call further, at least; trials are many and short.
    further, interrupted = (7 if "trials" in name else 1), 0
    while True:
        interrupt(further)
        try:
            found = ist.fit(events, checkpoint=tmp_path, seed=2, **options)
        except KeyboardInterrupt:
            interrupted += 1
            assert capsys.readouterr().err.count("the same call goes on there") == 1
            continue
        break
    assert interrupted >= 1
    assert weights(found) == weights(whole)
    np.testing.assert_array_equal(found.history.train_loss, whole.history.train_loss)
    np.testing.assert_array_equal(found.history.validation_loss, whole.history.validation_loss)
    assert found.history.stopped == whole.history.stopped
    assert found.history.resumed
    assert not whole.history.resumed
    interrupt(0)  # nothing is trained any more
    again: Any = ist.fit(events, checkpoint=tmp_path, seed=2, **options)
    assert weights(again) == weights(found)
    np.testing.assert_array_equal(again.history.seconds, found.history.seconds)
    assert again.history.choices == found.history.choices


@pytest.mark.parametrize(
    ("minutes", "epochs", "writes"), [(60, None, 1), (0, None, 3), (60, 2, 3), (60, 3, 2)]
)
def test_epochs_are_saved_as_often_as_asked(
    events: ist.Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    minutes: float,
    epochs: int | None,
    writes: int,
) -> None:
    written: list[str] = []
    real = checkpoint.write_archive

    def write(path: Path, *more: Any) -> None:
        written.append(path.stem)
        real(path, *more)

    monkeypatch.setattr(checkpoint, "write_archive", write)
    kept = ist.Checkpoint(tmp_path, minutes=minutes, epochs=epochs)
    ist.fit(events, network=SMALL, training=TRAINING, checkpoint=kept, seed=2)
    assert written == ["00-members"] * writes + ["estimator"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 3}, "other seed: 2 before, 3 now"),
        ({"method": ist.CARL()}, "other method: None before, Method"),
        ({"network": ist.MLP((5,))}, "other network"),
        ({"members": 2}, "other members: None before, 2 now"),
        ({"training": ist.Training(epochs=5, batch_size=6)}, "training.epochs: 4 before, 5 now"),
    ],
)
def test_other_settings_are_refused(
    events: ist.Events, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "seed": 2}
    ist.fit(events, checkpoint=tmp_path, **options)
    with pytest.raises(ValueError, match=f"is of another fit: .*{named}"):
        ist.fit(events, checkpoint=tmp_path, **(options | change))
    # How much is shown does not matter.
    options["training"] = ist.Training(epochs=4, batch_size=6, progress_bar=True)
    ist.fit(events, checkpoint=tmp_path, **options)


def test_other_events_are_refused(events: ist.Events, tmp_path: Path) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "checkpoint": tmp_path}
    ist.fit(events, seed=2, **options)
    weighted = ist.Events(x=events.x, theta=events.theta, weight=events.x[:, 0] ** 2, prior=PRIOR)
    with pytest.raises(ValueError, match=r"other events.weight: .*Give another folder"):
        ist.fit(weighted, seed=2, **options)
    with pytest.raises(ValueError, match=r"other events.x.*; other events.theta"):
        ist.fit(events[:399], seed=2, **options)
    records = ist.draw(ist.KSE(ist.Delta(0.2)), normal, PRIOR, 400, seed=3)
    with pytest.raises(ValueError, match="records was not given before"):
        ist.fit(records, seed=2, **options)


def test_events_with_an_identity_are_not_read(events: ist.Events, tmp_path: Path) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "checkpoint": tmp_path}
    found: Any = ist.fit(events.identified("store 7"), seed=2, **options)
    again: Any = ist.fit(events[::-1].identified("store 7"), seed=2, **options)
    assert weights(again) == weights(found)
    with pytest.raises(ValueError, match=r"other events.identity: 'store 7' before, 'store 8'"):
        ist.fit(events.identified("store 8"), seed=2, **options)


def test_records_and_starts(
    events: ist.Events, tmp_path: Path, interrupt: Callable[[int | None], None]
) -> None:
    records = ist.draw(ist.KSE(ist.Delta(0.2)), normal, PRIOR, 400, seed=3)
    start = ist.fit(records, network=SMALL, training=TRAINING, seed=2)
    whole = ist.fit(records, start=start, training=TRAINING, seed=4)
    interrupt(1)
    with pytest.raises(KeyboardInterrupt):
        ist.fit(records, start=start, training=TRAINING, checkpoint=tmp_path, seed=4)
    interrupt(None)
    # The start may be another object, from a file, say.
    start.save(tmp_path / "start.isn")
    start = ist.load(tmp_path / "start.isn")
    found = ist.fit(records, start=start, training=TRAINING, checkpoint=tmp_path, seed=4)
    assert weights(found) == weights(whole)
    with pytest.raises(ValueError, match="other start"):
        ist.fit(records, start=whole, training=TRAINING, checkpoint=tmp_path, seed=4)


def width(x: Any, theta: Any) -> Any:
    return 0.2 + 0.0 * jnp.sum(theta) + 0.0 * jnp.sum(x)


def test_functions_of_the_user_come_back_as_they_are(
    events: ist.Events, tmp_path: Path, interrupt: Callable[[int | None], None]
) -> None:
    method = ist.KSE(ist.Delta(width))
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "checkpoint": tmp_path}
    found: Any = ist.fit(events, method, seed=2, **options)
    interrupt(0)
    again: Any = ist.fit(events, method, seed=2, **options)
    assert weights(again) == weights(found)
    assert again.method.supervision.kernel.width is width
    with pytest.raises(ValueError, match="other method"):
        ist.fit(events, ist.KSE(ist.Delta(lambda x, theta: 2 * width(x, theta))), seed=2, **options)


@pytest.mark.slow
def test_warnings_are_made_again(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(400, 2))
    x[:, 1] = 3.0
    events = ist.Events(x=x, theta=x[:, :1] / 9, prior=PRIOR)
    for _ in range(2):
        with pytest.warns(UserWarning, match="the same value in every event"):
            ist.fit(events, network=SMALL, training=TRAINING, checkpoint=tmp_path, seed=2)


@pytest.mark.parametrize("which", ["00-members.isc", "estimator.isc"])
def test_a_damaged_file_costs_time_only(events: ist.Events, tmp_path: Path, which: str) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "checkpoint": tmp_path}
    found: Any = ist.fit(events, seed=2, **options)
    if which == "00-members.isc":
        os.remove(tmp_path / "estimator.isc")
    content = (tmp_path / which).read_bytes()
    (tmp_path / which).write_bytes(content[:-50])
    with pytest.warns(UserWarning, match="made again, to the same result"):
        again: Any = ist.fit(events, seed=2, **options)
    assert weights(again) == weights(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the file is whole again
        assert weights(ist.fit(events, seed=2, **options)) == weights(found)


def test_a_training_of_another_version_is_refused(
    events: ist.Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "checkpoint": tmp_path}
    ist.fit(events, seed=2, **options)
    os.remove(tmp_path / "estimator.isc")
    monkeypatch.setattr("inferostatic.learning.train_estimator.derive_member_key", other_key)
    with pytest.raises(ValueError, match="another training as 00-members"):
        ist.fit(events, seed=2, **options)


def other_key(seed: int, member: int) -> Any:
    return jax.random.key(seed + member + 1)


@pytest.mark.slow
def test_cross_fits_have_a_folder_for_each_estimator(events: ist.Events, tmp_path: Path) -> None:
    options: dict[str, Any] = {"network": SMALL, "training": TRAINING, "folds": 2, "seed": 1}
    plain, _ = ist.cross_fit(events, **options)
    for _ in range(2):
        kept, _ = ist.cross_fit(events, checkpoint=tmp_path, **options)
        assert [weights(one) for one in kept] == [weights(one) for one in plain]
    assert sorted(os.listdir(tmp_path)) == ["fold-0", "fold-1"]
