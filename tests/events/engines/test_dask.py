"""Dask: few tasks under way, clear failures, and clusters that come, go or are lost."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines import dask as dask_engine
from inferostatic.events.engines.engine import TaskError

distributed = pytest.importorskip("distributed")

PRIOR = ist.Uniform([0.0], [1.0])


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A cluster whose workers are threads of this process, which start at once."""
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    with distributed.Client(**options, dashboard_address=":0", set_as_default=False) as client:
        yield client


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


def square(task: int) -> int:
    return task**2


class Counted(Sequence[int]):
    """Tasks that know how many of them were made."""

    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any) -> Any:
        self.made += 1
        return index


def test_every_task_is_run_once(client: Any) -> None:
    assert dict(ist.Dask(client).run(square, range(50))) == {i: i**2 for i in range(50)}
    assert dict(ist.Dask(client).run(square, [])) == {}
    offset = 3
    assert dict(ist.Dask(client).run(lambda task: task + offset, range(2))) == {0: 3, 1: 4}


def test_few_tasks_are_under_way(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Counted()
    running = ist.Dask(client).run(square, tasks)
    next(running)
    assert tasks.made <= dask_engine.FEWEST_TASKS
    monkeypatch.setattr(dask_engine, "FEWEST_TASKS", 1)
    few = Counted()
    others = ist.Dask(client).run(square, few)
    next(others)
    assert few.made == 2 * dask_engine.TASKS_PER_THREAD
    assert len(list(running)) == 99
    others.close()  # type: ignore[attr-defined]


def test_whoever_leaves_early_leaves_no_tasks(client: Any) -> None:
    running = ist.Dask(client).run(lambda task: time.sleep(0.2 * bool(task)), range(100))
    next(running)
    running.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 10
    while any(client.processing().values()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_exception_is_reported_when_the_others_are_done(client: Any) -> None:
    done: list[int] = []
    with pytest.raises(TaskError, match="division by zero") as caught:
        done.extend(i for i, _ in ist.Dask(client).run(lambda task: 1 / (task - 2), range(4)))
    assert (caught.value.index, caught.value.task) == (2, 2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert set(done) == {0, 1, 3}


@pytest.mark.parametrize("retries", [0, 2])
def test_a_task_is_tried_again(client: Any, tmp_path: Path, retries: int) -> None:
    def fail_first(task: int) -> int:
        tries = tmp_path / f"{task}"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        return 1 // (len(tries.read_text()) - 1)

    engine = ist.Dask(client, retries=retries)
    if retries:
        assert dict(engine.run(fail_first, range(3))) == dict.fromkeys(range(3), 1)
    else:
        with pytest.raises(TaskError):
            list(engine.run(fail_first, range(3)))
        assert (tmp_path / "0").read_text() == "x"


def test_what_cannot_be_sent_is_named(client: Any) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the simulator cannot be sent .* ist.PerWorker\(factory"):
        list(ist.Dask(client).run(lambda task: lock, range(2)))


def test_it_is_a_record(client: Any) -> None:
    assert pickle.loads(pickle.dumps(ist.Dask(retries=3))) == ist.Dask(retries=3)
    copy = pickle.loads(pickle.dumps(ist.Dask(client, time_limit=3.0)))
    assert copy == ist.Dask(client.scheduler.address, time_limit=3.0)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"cluster": 3}, TypeError, "cluster must be a distributed.Client"),
        ({"time_limit": -1.0}, ValueError, "time_limit must be a finite number above 0"),
        ({"retries": 0.5}, TypeError, "retries must be a whole number"),
        ({"failures": "drop"}, TypeError, "failures must be ist.Drop"),
    ],
)
def test_bad_settings_are_refused(options: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ist.Dask(**options)


def test_without_dask_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[dask\]'"):
        list(ist.Dask().run(square, range(2)))


@pytest.mark.slow
def test_a_cluster_on_this_machine_starts_and_ends() -> None:
    with ist.Dask() as engine:
        found = dict(engine.run(lambda task: os.getpid(), range(6)))
        assert os.getpid() not in found.values()
        x = ist.simulate(noisy, PRIOR, 500, engine=engine, seed=1).x
    np.testing.assert_array_equal(x, ist.simulate(noisy, PRIOR, 500, seed=1).x)
    for process in set(found.values()):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert engine._opened == []


def noisy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


@pytest.mark.slow
def test_an_address_is_enough(cluster: Any) -> None:
    with ist.Dask(cluster.scheduler_address) as engine:
        assert dict(engine.run(square, range(5))) == {i: i**2 for i in range(5)}
    hasty = pytest.importorskip("dask").config.set({"distributed.comm.timeouts.connect": "1s"})
    message = "no Dask scheduler answers at 'tcp://127.0.0.1:9'"
    with hasty, pytest.raises(ConnectionError, match=message):
        list(ist.Dask("tcp://127.0.0.1:9").run(square, range(2)))


@pytest.mark.slow
def test_a_lost_worker_is_survived(cluster: Any, tmp_path: Path) -> None:
    def die_once(task: int) -> int:
        if task == 3 and not (tmp_path / "tried").exists():
            (tmp_path / "tried").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with cluster.get_client() as client:
        assert dict(ist.Dask(client).run(die_once, range(9))) == {i: i for i in range(9)}


@pytest.mark.slow
def test_a_task_that_ends_every_worker_is_named(cluster: Any) -> None:
    def die(task: int) -> int:
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    def hang(task: int) -> int:
        if task == 3:
            time.sleep(100)
        return task

    with cluster.get_client() as client:
        with pytest.raises(TaskError, match="every worker that tried the task was lost") as caught:
            list(ist.Dask(client).run(die, range(9)))
        assert caught.value.task == 3
        with pytest.raises(TaskError, match="took more than the time limit, 0.5 s") as caught:
            list(ist.Dask(client, time_limit=0.5).run(hang, range(9)))
        assert caught.value.task == 3


@pytest.mark.slow
def test_a_lost_scheduler_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    options: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    cli = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    scheduler = subprocess.Popen(
        [*cli, "--dashboard-address", ":0", "--scheduler-file", str(file)], **options
    )
    cli = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
    worker = subprocess.Popen(
        [*cli, "--scheduler-file", str(file), "--no-dashboard", "--death-timeout", "5"], **options
    )
    try:
        with distributed.Client(scheduler_file=str(file), timeout="60s") as client:
            client.wait_for_workers(1, timeout=60)
            running = ist.Dask(client).run(lambda task: time.sleep(0.1), range(1000))
            next(running)
            scheduler.kill()
            with pytest.raises(ConnectionError, match="the Dask scheduler was lost"):
                list(running)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
