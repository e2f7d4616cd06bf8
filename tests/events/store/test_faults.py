"""What can go wrong with a store ends in a clear message, and the store is intact."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines.engine import InProcess, TaskError
from inferostatic.events.store.parts import DamagedPart, part_path, read_part
from permissions import as_nobody
from store_simulators import PRIOR, Failing, shifted_normal

#: Run in a process of its own, with the folder, the number of events and the share.
PROGRAM = """
import sys
import inferostatic as ist
from store_simulators import PRIOR, slow
store = ist.Store(sys.argv[1], name="toy", events_per_part=400)
ist.simulate(slow, PRIOR, int(sys.argv[2]), store=store, seed=1)
"""


def start(folder: Path, n: int) -> subprocess.Popen[bytes]:
    paths = [str(Path(ist.__file__).parents[1]), str(Path(__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(n)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def make(folder: Path, n: int = 2000) -> ist.Events:
    store = ist.Store(folder, name="toy", events_per_part=400)
    return ist.simulate(shifted_normal, PRIOR, n, store=store, seed=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "parts").iterdir()}


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """A limit on the size of files, which the system reports like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_part_that_was_cut_short_is_found_and_made_again(tmp_path: Path):
    make(tmp_path)
    before, path = contents(tmp_path), part_path(tmp_path, 2)
    for size in (len(before[path.name]) - 1, 100, 0):
        path.write_bytes(before[path.name][:size])
        status = ist.Store(tmp_path).status()
        assert list(status.damaged) == [2]
        assert status.present == 1600
        assert "damaged part 2: the file is cut short" in status.summary()
        with pytest.raises(ValueError, match="of 5 parts, 2 cut short"):
            ist.Store(tmp_path).events()
        make(tmp_path)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("offset", [40, 2000, -2000])
def test_an_edited_part_is_found_when_it_is_read(tmp_path: Path, offset: int):
    assert make(tmp_path).x.shape == (2000, 2)  # a cache of the former part is not taken
    path = part_path(tmp_path, 1)
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x55
    path.write_bytes(bytes(content))
    status = ist.Store(tmp_path).status(verify=True)
    assert list(status.damaged) == [1]
    assert not status.complete
    events = ist.Store(tmp_path).events()
    with pytest.raises(ValueError, match=r"part-000001\.parquet is damaged or was edited"):
        assert events.x.shape
    path.unlink()
    np.testing.assert_array_equal(
        make(tmp_path).x, ist.simulate(shifted_normal, PRIOR, 2000, seed=1).x
    )


def test_no_edit_of_a_part_goes_unnoticed(tmp_path: Path):
    make(tmp_path, 200)
    store, path = ist.Store(tmp_path), part_path(tmp_path, 0)
    content = path.read_bytes()
    expected = read_part(tmp_path, store.manifest(), 0)
    rng = np.random.default_rng(1)
    # Half of them in the footer, which holds names, offsets and the checksum itself.
    places = [*rng.integers(len(content), size=60), *(len(content) - rng.integers(3000, size=60))]
    found = 0
    for place in places:
        edited = bytearray(content)
        edited[min(place, len(content) - 1)] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(edited))
        try:
            arrays = read_part(tmp_path, store.manifest(), 0)
        except DamagedPart:
            found += 1
        else:  # such as a letter in the name of the program that wrote the file
            for name, values in arrays.items():
                np.testing.assert_array_equal(values, expected[name])
    assert found > 80


def test_a_part_in_the_wrong_place_is_found(tmp_path: Path):
    make(tmp_path / "one")
    ist.simulate(
        shifted_normal, PRIOR, 2000, store=ist.Store(tmp_path / "two", events_per_part=400), seed=2
    )
    part_path(tmp_path / "one", 1).write_bytes(part_path(tmp_path / "two", 1).read_bytes())
    part_path(tmp_path / "one", 3).write_bytes(part_path(tmp_path / "one", 2).read_bytes())
    damaged = ist.Store(tmp_path / "one").status(verify=True).damaged
    assert "it belongs to another store" in damaged[1]
    assert "it is part 2" in damaged[3]
    assert len(damaged) == 2


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"seed": 1', '"seed": 2'),
        lambda text: text.replace("0.5", "0.6").replace("3.0", "3.5"),
        lambda text: text[:-30],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace("inferostatic store", "another thing"),
    ],
)
def test_an_edited_manifest_is_refused(tmp_path: Path, edit: Any):
    make(tmp_path)
    manifest, before = tmp_path / "manifest.json", contents(tmp_path)
    text = manifest.read_text()
    manifest.write_text(edit(text))
    for use in (ist.Store(tmp_path).events, ist.Store(tmp_path).status, lambda: make(tmp_path)):
        with pytest.raises(ValueError, match=r"manifest\.json is damaged or was edited"):
            use()
    assert contents(tmp_path) == before
    manifest.write_text(text)
    assert ist.Store(tmp_path).status(verify=True).complete


def test_a_newer_format_is_refused(tmp_path: Path):
    make(tmp_path)
    manifest = tmp_path / "manifest.json"
    data = json.loads(manifest.read_text()) | {"format": 2}
    manifest.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="has format 2.*reads up to 1; install a newer one"):
        ist.Store(tmp_path).events()


def test_a_read_only_folder(tmp_path: Path):
    # Others must get there: pytest's folders are its own, one more of them where tests run at once.
    root = next(i for i, above in enumerate(tmp_path.parents) if "pytest-of-" in above.name)
    for folder in (tmp_path, *tmp_path.parents[: root + 1]):
        folder.chmod(0o755)
    made = make(tmp_path / "store", 800)
    for folder in (tmp_path / "store", tmp_path / "store" / "parts", tmp_path):
        folder.chmod(0o555)
    try:
        with as_nobody():
            with pytest.raises(PermissionError, match="could not be written. What it held is inta"):
                make(tmp_path / "store", 1200)
            with pytest.raises(PermissionError, match="Permission denied; the store in"):
                make(tmp_path / "another")
            # It can be read, though not from files.
            events = ist.Store(tmp_path / "store").events()
            with pytest.warns(UserWarning, match="cannot be written .*read into memory"):
                x = events.x
    finally:
        for folder in (tmp_path, tmp_path / "store", tmp_path / "store" / "parts"):
            folder.chmod(0o755)
    assert not events.mapped
    np.testing.assert_array_equal(x, made.x)
    assert ist.Store(tmp_path / "store").status(verify=True).complete


def test_a_full_disk(tmp_path: Path):
    make(tmp_path, 800)
    before = contents(tmp_path)
    with small_files(8000), pytest.raises(OSError, match="goes on from there") as caught:
        make(tmp_path)
    assert "part-000002.parquet" in str(caught.value)
    assert contents(tmp_path) == before  # nothing half-written is left
    status = ist.Store(tmp_path).status(verify=True)
    assert (status.present, status.events, status.missing) == (800, 2000, (2, 3, 4))
    events = make(tmp_path)
    with small_files(20_000), pytest.raises(OSError, match="cache of the store takes .* GB beside"):
        assert events.x.shape
    assert list((tmp_path / "cache").iterdir()) == []
    np.testing.assert_array_equal(events.x, ist.simulate(shifted_normal, PRIOR, 2000, seed=1).x)


def test_a_damaged_cache_is_built_again(tmp_path: Path):
    expected = make(tmp_path).x.copy()
    (folder,) = (tmp_path / "cache").iterdir()
    for damage in (b"", (folder / "x.npy").read_bytes()[:-8]):
        (folder / "x.npy").write_bytes(damage)
        np.testing.assert_array_equal(ist.Store(tmp_path).events().x, expected)
    # What a killed process left is removed when the next cache is built.
    abandoned = tmp_path / "cache" / ".building-0123456789ab"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    more = make(tmp_path, 2400)
    assert len(more.x) == 2400
    (now,) = (tmp_path / "cache").iterdir()
    assert now != folder


def test_a_killed_process_leaves_what_it_made(tmp_path: Path):
    process = start(tmp_path / "store", 40_000)
    parts = tmp_path / "store" / "parts"
    deadline = time.monotonic() + 120
    while len(list(parts.glob("part-*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    status = ist.Store(tmp_path / "store").status(verify=True)
    assert status.events == 40_000
    assert 3 <= status.parts - len(status.missing) < 100
    assert status.damaged == {}
    kept = {file: file.stat().st_mtime_ns for file in parts.glob("part-*")}
    (parts / ".part-000099.parquet.0123456789ab.part").touch()  # what a kill may leave
    events = make(tmp_path / "store", 40_000)
    assert all(file.stat().st_mtime_ns == changed for file, changed in kept.items())
    assert len(list(parts.iterdir())) == 100
    np.testing.assert_array_equal(events.x, ist.simulate(shifted_normal, PRIOR, 40_000, seed=1).x)


@pytest.mark.slow
def test_two_processes_write_one_store(tmp_path: Path):
    # They create it at the same time and make the same parts, one of them more.
    processes = [start(tmp_path / "store", n) for n in (6000, 8000)]
    for process in processes:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said.decode()
    assert len(list((tmp_path / "store" / "parts").iterdir())) == 20
    assert ist.Store(tmp_path / "store").status(verify=True).complete
    events = ist.Store(tmp_path / "store").events()
    np.testing.assert_array_equal(events.x, ist.simulate(shifted_normal, PRIOR, 8000, seed=1).x)


def test_many_at_once_agree_on_one_manifest(tmp_path: Path):
    # Each would choose another size of the parts.
    found: list[int] = []

    def run(events_per_part: int) -> None:
        with contextlib.suppress(ValueError):  # those that come too late are refused
            store = ist.Store(tmp_path, events_per_part=events_per_part)
            ist.simulate(shifted_normal, PRIOR, 2400, store=store, seed=1, progress_bar=False)
            found.append(events_per_part)

    sizes = [200, 400, 600, 800]
    threads = [threading.Thread(target=run, args=[size]) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert ist.Store(tmp_path).status(verify=True).complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "parts"]


def test_a_simulator_that_raises(tmp_path: Path):
    store = ist.Store(tmp_path, name="toy", events_per_part=200)
    theta = ist.simulate(shifted_normal, PRIOR, 2000, seed=1).theta[:, 0].reshape(10, 200)
    first = int(np.argmax(theta.max(axis=1) > (limit := np.sort(theta.max(axis=1))[-2])))
    failing = Failing(limit)
    with pytest.raises(RuntimeError, match=f"part {first}, block {first} of the store") as caught:
        ist.simulate(failing, PRIOR, 2000, store=store, seed=1)
    for said in ("ArithmeticError: too large", "intact", f"{first}, 0, simulator=…) runs it alone"):
        assert said in str(caught.value)
    status = store.status(verify=True)
    assert list(status.failed) == [first]
    assert status.missing == tuple(range(first, 10))
    note = json.loads((tmp_path / "failures" / f"part-{first:06d}.json").read_text())
    assert (note["part"], note["block"], note["seed"], note["row"]) == (first, first, 1, 0)
    np.testing.assert_array_equal(np.array(note["theta"])[:, 0], theta[first])
    assert "too large" in status.summary()
    with pytest.raises(RuntimeError, match="too large"):
        ist.replay(store, first, simulator=failing)
    # Mended, it goes on, and the failure is forgotten.
    failing.limit = 2.0
    np.testing.assert_array_equal(
        ist.replay(store, first, simulator=failing).theta[:, 0], theta[first]
    )
    events = ist.simulate(failing, PRIOR, 2000, store=store, seed=1)
    assert store.status().failed == {}
    np.testing.assert_array_equal(events.x, ist.simulate(shifted_normal, PRIOR, 2000, seed=1).x)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x: np.where(x > 3.5, np.nan, x), "returned NaN or infinite x in row"),
        (lambda x: x * 1e60, "exceeds float32's largest number"),
    ],
)
def test_bad_events_are_not_written(tmp_path: Path, spoil: Any, said: str):
    def bad(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = shifted_normal(theta, rng)
        return spoil(x) if rng.bit_generator.state["state"]["inc"] % 7 == 3 else x

    with pytest.raises(RuntimeError, match=said):
        ist.simulate(bad, PRIOR, 8000, store=ist.Store(tmp_path, events_per_part=400), seed=1)
    status = ist.Store(tmp_path).status(verify=True)
    assert len(status.failed) == 1
    assert status.damaged == {}


def test_a_simulator_that_fails_at_once_leaves_nothing(tmp_path: Path):
    with pytest.raises(RuntimeError, match="the simulator failed for θ between"):
        ist.simulate(Failing(-1.0), PRIOR, 100, store=tmp_path / "store", seed=1)
    assert not (tmp_path / "store").exists()


class Dying(InProcess):
    """An engine whose workers die at the third part."""

    def run(self, function: Any, tasks: Any) -> Any:
        for index in range(len(tasks)):
            if len(tasks) > 1 and index == 2:
                raise TaskError(index, tasks[index], "the worker was killed by signal 9")
            yield index, function(tasks[index])


def test_a_worker_that_dies_is_recorded(tmp_path: Path):
    store = ist.Store(tmp_path, events_per_part=400)
    with pytest.raises(RuntimeError, match=r"part 2 of the store in .* killed by signal 9\. The"):
        ist.simulate(shifted_normal, PRIOR, 2000, store=store, engine=Dying(), seed=1)
    assert store.status().failed == {2: "the worker was killed by signal 9"}
    ist.simulate(shifted_normal, PRIOR, 2000, store=store, seed=1)
    assert store.status().failed == {}
