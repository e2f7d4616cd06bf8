"""Compiled programs are kept unless the user decided otherwise, and never get in the way."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

from inferostatic import compilation_cache
from inferostatic.compilation_cache import LEAST_SECONDS, SWITCH, find_folder, prune

FOLDER = "jax_compilation_cache_dir"
SECONDS = "jax_persistent_cache_min_compile_time_secs"
ENABLED = "jax_enable_compilation_cache"

Keep = Callable[[], str | None]


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keep]:
    """Decides in a world where nothing was decided; the folder that JAX was given comes back."""
    before = {name: jax.config.values[name] for name in (FOLDER, SECONDS, ENABLED)}
    jax.config.update(FOLDER, None)
    jax.config.update(SECONDS, 1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(compilation_cache.atexit, "register", lambda *_: None)

    def decide() -> str | None:
        compilation_cache.keep_compilations()
        return jax.config.values[FOLDER]

    yield decide
    for name, value in before.items():
        jax.config.update(name, value)


def test_small_programs_are_kept_in_the_folder_of_the_user(keep: Keep, tmp_path: Path) -> None:
    folder = tmp_path / "caches" / "inferostatic"
    assert keep() == str(folder)
    assert jax.config.values[SECONDS] == LEAST_SECONDS
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_switch_turns_it_off(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert keep() is None
    assert jax.config.values[SECONDS] == 1.0
    monkeypatch.setenv(SWITCH, "1")
    assert keep() is not None


@pytest.mark.parametrize("chosen", ["mine", ""])
def test_a_folder_of_the_user_stays(keep: Keep, tmp_path: Path, chosen: str) -> None:
    jax.config.update(FOLDER, chosen)
    assert keep() == chosen
    assert jax.config.values[SECONDS] == 1.0
    assert not (tmp_path / "caches").exists()


def test_where_jax_keeps_nothing_no_folder_is_made(keep: Keep, tmp_path: Path) -> None:
    jax.config.update(ENABLED, False)  # noqa: FBT003 (JAX's own)
    assert keep() is None
    assert not (tmp_path / "caches").exists()


def test_other_seconds_of_the_user_stay(keep: Keep) -> None:
    jax.config.update(SECONDS, 2.0)
    assert keep() is not None
    assert jax.config.values[SECONDS] == 2.0


def test_a_folder_that_cannot_be_written_is_no_error(
    keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "caches").write_text("a file where the folder should be")
    assert keep() is None
    (tmp_path / "caches").unlink()
    with monkeypatch.context() as patch:  # a disk that is mounted to be read only
        patch.setattr(os, "access", lambda *_: False)
        assert keep() is None
    with monkeypatch.context() as patch:  # somebody else's, who could put any code there
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert keep() is None
    assert keep() is not None


def test_the_folder_follows_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert find_folder() == Path.home() / ".cache" / "inferostatic"

    def fail() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", fail)
    assert find_folder() is None


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for used, name in enumerate(("oldest", "inner/old", "new", "newest"), start=1):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (used, used))
    os.utime(tmp_path / "oldest", (5, 1))  # read since it was written
    prune(tmp_path, 399)
    assert not (tmp_path / "inner" / "old").exists()
    prune(tmp_path, 200)
    assert sorted(path.name for path in tmp_path.glob("*")) == ["inner", "newest", "oldest"]
    prune(tmp_path / "gone", 0)


#: Compiles before and after the import, and prints how many programs came from the folder.
PROCESS = """
import jax, warnings
jax.jit(lambda x: x + 1.0)(1.0)
warnings.filterwarnings("ignore", "JAX was used before")
import inferostatic
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("cache_hits")))
jax.jit(lambda x: x + 2.0)(1.0)
print(sum(hits), len(list(inferostatic.compilation_cache.find_folder().glob("jit*"))))
"""


def test_the_next_process_reads_what_this_one_compiled(tmp_path: Path) -> None:
    kept = os.environ | {SWITCH: "1", "XDG_CACHE_HOME": str(tmp_path)}
    for expected in ("0 1", "1 1", "0 1"):
        done = subprocess.run(
            [sys.executable, "-c", PROCESS], env=kept, capture_output=True, text=True, check=True
        )
        assert (done.stdout.strip(), done.stderr) == (expected, "")
        for program in (tmp_path / "inferostatic").glob("jit*"):
            if expected == "1 1":  # as by a full disk: it is compiled again, and nothing is said
                program.write_bytes(program.read_bytes()[:50])
