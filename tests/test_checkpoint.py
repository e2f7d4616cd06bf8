"""Checkpoints as such: what is kept comes back, and what does not belong there is refused."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic import checkpoint
from inferostatic.checkpoint import (
    AbstractSavedWork,
    NotSaved,
    SavedInFolder,
    Step,
    as_checkpoint,
    open_checkpoint,
)
from inferostatic.fingerprint import identify


def open_at(path: object, **changes: Any) -> AbstractSavedWork:
    parts = {"seed": 1, "events": np.arange(3.0)} | changes
    return open_checkpoint(path, "study", lambda: identify(parts))


def step(number: float) -> Callable[[], Step]:
    return lambda: Step({"number": number, "texts": ["ä"]}, {"x": np.full((2, 3), number)})


def files(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if name.endswith(".isc"))


def test_steps_come_back_in_another_opening(tmp_path: Path) -> None:
    with open_at(tmp_path / "c") as work:
        assert work.recall("a-1") is None
        work.keep("a-1", step(1.5))
        work.keep("a-1", step(2.5))
        work.keep("b", step(3.0))
        found = work.recall("a-1")
        assert found is not None
        assert found.values["number"] == 2.5
        assert not work.resumed
    with open_at(tmp_path / "c") as again:
        found = again.recall("a-1")
        assert found is not None
        assert found.values == {"number": 2.5, "texts": ["ä"]}
        np.testing.assert_array_equal(found.arrays["x"], np.full((2, 3), 2.5))
        assert again.recall("other") is None
        assert again.resumed


def test_when_steps_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("inferostatic.checkpoint.time.monotonic", lambda: now)
    path = tmp_path / "c"
    with open_at(ist.Checkpoint(path, minutes=2)) as work:
        work.keep("a", step(1))
        now += 119
        work.keep("b", step(1))
        assert files(path) == []
        work.keep("c", step(1), now=True)
        assert files(path) == ["c.isc"]
        now += 1
        work.keep("d", step(1))
        assert files(path) == ["a.isc", "b.isc", "c.isc", "d.isc"]
        work.keep("e", step(1))
    assert "e.isc" in files(path)
    with open_at(ist.Checkpoint(path, minutes=0)) as work:
        work.keep("f", step(1))
        assert "f.isc" in files(path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_whatever_ends_the_work_it_is_saved(
    tmp_path: Path, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        with open_at(tmp_path) as work:
            work.keep("a", step(1))
            raise error

    with pytest.raises(error):
        fails()
    assert files(tmp_path) == ["a.isc"]
    told = capsys.readouterr().err
    assert (f"saved in {tmp_path}: the same call goes on there" in told) is (
        error is KeyboardInterrupt
    )
    assert told.count("\n") <= 1


def test_a_request_to_end_saves_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_ended() -> None:
        with open_at(tmp_path) as work:
            work.keep("a", step(1))
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as found:
        is_ended()
    assert found.value.code == 143
    assert files(tmp_path) == ["a.isc"]
    assert "interrupted, and saved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "other seed: 1 before, 2 now"),
        ({"events": np.arange(3.0) + 1}, r"other events: array\(\[0., 1., 2.\]\) before"),
        ({"more": 1}, "more was not given before"),
    ],
)
def test_other_data_or_settings_are_refused(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with open_at(tmp_path):
        pass
    with pytest.raises(ValueError, match=named):
        open_at(tmp_path, **changes)
    with open_at(tmp_path):
        pass


def test_other_versions_and_other_work_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_at(tmp_path):
        pass
    with pytest.raises(ValueError, match="it holds a study, and this is a fit"):
        open_checkpoint(tmp_path, "fit", lambda: identify({}))
    now = checkpoint.package_versions() | {"jax": "99.0"}
    monkeypatch.setattr(checkpoint, "package_versions", lambda: now)
    with pytest.raises(ValueError, match=r"another study: jax [\d.]+ before, 99.0 now"):
        open_at(tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"is no checkpoint, it holds other files such as thesis"):
        open_at(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(OSError, match="must be a folder"):
        open_at(tmp_path / "thesis.tex")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no manifest"),
        ("[]", "no manifest"),
        ("{}", "no manifest"),
        ("edited", "its checksum does not match"),
        ("newer", "has format version 2"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with open_at(tmp_path):
        pass
    path = tmp_path / "manifest.json"
    if text in ("edited", "newer"):
        manifest = json.loads(path.read_text())
        manifest |= {"work": "fit"} if text == "edited" else {"version": 2}
        if text == "newer":
            del manifest["checksum"]
            manifest["checksum"] = checkpoint._checksum(manifest)
        text = json.dumps(manifest)
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        open_at(tmp_path)


def test_a_damaged_step_is_made_again(tmp_path: Path) -> None:
    with open_at(tmp_path) as work:
        work.keep("a", step(1))
        work.keep("b", step(2))
    path = tmp_path / "a.isc"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-400] + b"!" + whole[-399:]):
        path.write_bytes(damaged)
        with (
            open_at(tmp_path) as work,
            pytest.warns(UserWarning, match="This step is made again, to the same result"),
        ):
            assert work.recall("a") is None
    # One of another name, or of another checkpoint, is none of ours.
    path.write_bytes((tmp_path / "b.isc").read_bytes())
    with open_at(tmp_path) as work, pytest.warns(UserWarning, match="belongs to another"):
        assert work.recall("a") is None
    with open_at(tmp_path / "inside", seed=5) as other:
        other.keep("a", step(1))
    path.write_bytes((tmp_path / "inside" / "a.isc").read_bytes())
    with open_at(tmp_path) as work, pytest.warns(UserWarning, match="belongs to another"):
        assert work.recall("a") is None


def test_work_goes_on_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    writing = checkpoint.write_archive
    with open_at(tmp_path) as work:
        monkeypatch.setattr(checkpoint, "write_archive", full)
        with pytest.warns(UserWarning, match="could not be written.*No space left"):
            work.keep("a", step(1), now=True)
        monkeypatch.setattr(checkpoint, "write_archive", writing)
    # It is tried again.
    assert files(tmp_path) == ["a.isc"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    code = (
        "import sys; from inferostatic.checkpoint import open_checkpoint as o\n"
        "with o(sys.argv[1], 'study', dict): print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"
        work = open_checkpoint(tmp_path, "study", dict)
        with pytest.raises(RuntimeError, match="another process.* works with the checkpoint"):
            work.__enter__()
        other.kill()
    with work, work:  # also twice in one piece of work
        pass


def test_what_a_user_may_give(tmp_path: Path) -> None:
    assert as_checkpoint(None) is None
    assert isinstance(open_at(None), NotSaved)
    given = as_checkpoint(str(tmp_path))
    assert given is not None
    assert (given.minutes, given.epochs) == (1.0, None)
    assert isinstance(open_at(ist.Checkpoint(tmp_path)), SavedInFolder)
    assert given.part("fold-1").path == tmp_path / "fold-1"
    for wrong in (1, True, [], b"path"):
        with pytest.raises(TypeError, match="checkpoint must be"):
            as_checkpoint(wrong)
    with pytest.raises(ValueError, match="minutes must be a finite number"):
        ist.Checkpoint(tmp_path, minutes=-1)
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        ist.Checkpoint(tmp_path, epochs=0)


def test_work_that_is_not_saved() -> None:
    with NotSaved() as work:
        work.keep("a", step(1), now=True)
        work.save()
        assert work.recall("a") is None
        assert not work.resumed
        assert work.epochs is None
