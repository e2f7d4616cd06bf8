"""Writing: whole files or none, behind links, never over what is no file, nothing left over."""

import contextlib
import errno
import multiprocessing
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from inferostatic import files
from inferostatic.files import write_whole

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/elsewhere/.model.0123.part")


def test_a_link_stays_one_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real.isn", tmp_path / "link.isn"
    real.write_bytes(b"old")
    link.symlink_to(real)
    (tmp_path / "second.isn").symlink_to("link.isn")
    for path in (link, tmp_path / "second.isn"):
        content = path.name.encode()
        assert write_whole(path, content) == path
        assert link.is_symlink()
        assert real.read_bytes() == content
    real.unlink()  # a link that leads to nothing yet
    write_whole(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert os.listdir(tmp_path / "store") == ["real.isn"]


def test_what_is_no_regular_file_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(fifo)
    names = ["fifo", "link", "socket"]
    with contextlib.suppress(PermissionError):  # a null device of our own, which only root makes
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names.append("null")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # a socket's path must be short
        server.bind("socket")
        for name in names:
            path = tmp_path / name
            with pytest.raises(OSError, match=rf"not a regular file.*{name}"):
                write_whole(path, b"")
    assert fifo.is_fifo()
    assert "null" not in names or (tmp_path / "null").is_char_device()
    with pytest.raises(IsADirectoryError, match=r"this is a folder.*" + tmp_path.name):
        write_whole(tmp_path, b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match=r"loop'$"):
        write_whole(loop, b"")
    with pytest.raises(OSError, match=r"fifo/model\.isn"):
        write_whole(fifo / "model.isn", b"")


@pytest.mark.parametrize("name", ["m" * 255, "ü" * 127, "m", "[a]*?.isn", ".part"])
def test_names_up_to_the_limit_of_the_system_work(name: str, tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        write_whole(tmp_path / name, content)
        assert (tmp_path / name).read_bytes() == content
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(OSError, match="too long.*" + "n" * 256):
        write_whole(tmp_path / ("n" * 256), b"")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_errors_name_the_users_path_and_leave_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.isn"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise NO_SPACE

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert ".part" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.isn"]


#: Writes for ever, and says when the partial file is there.
WRITER = """
import sys, time, os
from inferostatic import files
def stay(_):
    print("writing", flush=True)
    time.sleep(60)
files.os.fsync = stay
files.write_whole(sys.argv[1], b"x" * 1000)
"""


def test_partial_files_are_removed_once_their_process_is_gone(tmp_path: Path) -> None:
    """Those of a process that still writes are left, and so are other files."""
    path = tmp_path / ("model" * 40)
    kept = {".model.part", ".model.0123456789ab.part", ".other.0123456789ab.part"}
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    command = [sys.executable, "-c", WRITER, str(path)]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        (partial,) = set(os.listdir(tmp_path)) - kept
        write_whole(path, b"ours")
        assert set(os.listdir(tmp_path)) == kept | {partial, path.name}
        writer.kill()
        writer.wait()
    write_whole(path, b"again")
    assert set(os.listdir(tmp_path)) == kept | {path.name}
    assert path.read_bytes() == b"again"


@pytest.mark.skipif(files.fcntl is None, reason="no locks of this kind here")
def test_a_new_partial_file_that_another_process_takes_for_stale_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between being made and being locked a partial file looks like one that was left behind."""
    lock, removers = files.fcntl.flock, []

    def remove_later(path: str, held: IO[bytes]) -> None:
        time.sleep(0.2)
        os.unlink(path)
        held.close()

    def flock_after_another(stream: IO[bytes], operation: int) -> None:
        if not removers:
            held = open(stream.name, "rb")
            lock(held, files.fcntl.LOCK_EX)
            removers.append(threading.Thread(target=remove_later, args=(stream.name, held)))
            removers[0].start()
        lock(stream, operation)

    monkeypatch.setattr(files.fcntl, "flock", flock_after_another)
    # Long enough for the other one to remove what is being written.
    monkeypatch.setattr(files.os, "fsync", lambda _: [r.join() for r in removers])
    write_whole(tmp_path / "model.isn", b"ours")
    assert len(removers) == 1
    assert os.listdir(tmp_path) == ["model.isn"]
    assert (tmp_path / "model.isn").read_bytes() == b"ours"


def _write_often(path: str, content: bytes) -> None:
    until = time.monotonic() + 1
    while time.monotonic() < until:
        write_whole(path, content)


def test_processes_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "model.isn"
    contents = [bytes([i]) * 100_000 for i in range(3)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        waiting = [pool.apply_async(_write_often, (str(path), c)) for c in contents[:2]]
        _write_often(str(path), contents[2])
        for result in waiting:
            result.get(60)
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["model.isn"]
