"""Worker processes: they may raise, hang or die, and nothing is lost or left over."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines import pickling, worker_process
from inferostatic.events.engines.engine import TaskError

PRIOR = ist.Uniform([0.0], [1.0], names=["a"])


@pytest.fixture(scope="module")
def pool() -> Iterator[ist.ProcessPool]:
    with ist.ProcessPool(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def hasty() -> Iterator[ist.ProcessPool]:
    """One that does not wait long."""
    with ist.ProcessPool(2, time_limit=0.5) as pool:
        yield pool


def square(task: int) -> int:
    return task**2


def pid(task: object) -> int:
    return os.getpid()


def is_running(process: int) -> bool:
    """Whether there is such a process; one that only waits to be asked for has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def noisy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


# --- The work ------------------------------------------------------------------------------------


def test_every_task_is_run_once_and_the_workers_stay(pool: ist.ProcessPool) -> None:
    assert dict(pool.run(square, range(50))) == {i: i**2 for i in range(50)}
    first: set[int] = set()
    # One worker may be done with all of them before the other has started.
    until = time.monotonic() + 60
    while len(first) < 2 and time.monotonic() < until:
        first |= set(dict(pool.run(pid, range(20))).values())
    assert os.getpid() not in first
    assert len(first) == 2
    assert set(dict(pool.run(pid, range(20))).values()) <= first


def test_functions_of_a_script_can_be_sent(pool: ist.ProcessPool) -> None:
    offset = 3
    assert dict(pool.run(lambda task: task + offset, range(3))) == {0: 3, 1: 4, 2: 5}


def test_a_function_is_loaded_once(pool: ist.ProcessPool) -> None:
    seen: list[int] = []  # a copy in each worker

    def count(task: int) -> int:
        seen.append(task)
        return len(seen)

    counts = [c for _ in range(2) for c in dict(pool.run(count, range(40))).values()]
    assert sorted(counts)[-1] > 30
    assert len(counts) == 80


def test_large_tasks_and_results_pass(pool: ist.ProcessPool) -> None:
    tasks = [np.full(500_000, float(i)) for i in range(6)]
    for index, made in pool.run(lambda task: task + 1, tasks):
        np.testing.assert_array_equal(made, tasks[index] + 1)


def test_workers_start_when_asked_and_work_while_results_are_used(pool: ist.ProcessPool) -> None:
    def stamp(task: int) -> float:
        time.sleep(0.02)
        return time.time()

    running = pool.run(stamp, range(4))
    next(running)
    time.sleep(0.3)
    used = time.time()
    assert all(stamp < used for _, stamp in [next(running), next(running)])
    list(running)


def test_two_calls_at_a_time_do_not_mix(pool: ist.ProcessPool) -> None:
    first = pool.run(lambda task: task + 100, range(30))
    found = dict([next(first)])
    assert dict(pool.run(lambda task: task + 200, range(1))) == {0: 200}
    found.update(first)
    assert found == {i: i + 100 for i in range(30)}
    worker_process.end_workers(pool._idle[2:])
    del pool._idle[2:]


def test_whoever_leaves_early_leaves_nothing_running(pool: ist.ProcessPool) -> None:
    def linger(task: int) -> int:
        if task > 0:
            time.sleep(60)
        return os.getpid()

    running = pool.run(linger, range(2))
    next(running)
    running.close()  # type: ignore[attr-defined]
    began = time.monotonic()
    assert dict(pool.run(square, range(3))) == {0: 0, 1: 1, 2: 4}
    assert time.monotonic() - began < 30


# --- Tasks that fail -----------------------------------------------------------------------------


def test_an_exception_is_reported_when_the_others_are_done(pool: ist.ProcessPool) -> None:
    done: list[int] = []
    with pytest.raises(TaskError) as caught:
        done.extend(i for i, _ in pool.run(lambda task: 1 / (task - 2), range(4)))
    assert caught.value.index == 2
    assert caught.value.task == 2
    assert "division by zero. This happened in all of 2 attempts." in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "1 / (task - 2)" in caught.value.__cause__.__notes__[0]
    assert {0, 1} <= set(done)


def once(path: Path, act: Callable[[], object]) -> Callable[[int], int]:
    """A function that acts up in its first call for task 1."""

    def run(task: int) -> int:
        if task == 1 and not path.exists():
            path.touch()
            act()
        return task

    return run


def stop_thinking() -> None:
    time.sleep(60)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("act", [stop_thinking, die, sys.exit, lambda: 1 / 0])
def test_a_task_is_tried_again(
    hasty: ist.ProcessPool, tmp_path: Path, act: Callable[[], object]
) -> None:
    assert dict(hasty.run(once(tmp_path / "tried", act), range(4))) == {i: i for i in range(4)}


def simulated_by(pool: ist.ProcessPool, act: Callable[[], object]) -> str:
    """What is said when the third block of a simulation acts up, always."""

    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if 0.6 < theta[0, 0]:
            act()
        return noisy(theta, rng)

    theta = np.repeat([[0.2], [0.4], [0.7], [0.3]], 200, axis=0)
    from inferostatic.events.simulate import simulate_at
    from inferostatic.streams import Purpose, Stream

    stream = Stream(5, Purpose.SIMULATE)
    with pytest.raises(TaskError) as caught:
        simulate_at(pool(simulator), theta, stream, x_names=["x"])
    return str(caught.value)


WHERE = (
    "events 400 to 599, with θ between [0.7] and [0.7] (random stream SIMULATE of seed 5, from "
    "block 2 on)"
)


def test_a_worker_that_dies_says_how_and_where(pool: ist.ProcessPool) -> None:
    said = simulated_by(pool, die)
    assert "the worker process was ended by signal SIGKILL, which is what the system does" in said
    assert WHERE in said


@pytest.mark.slow
def test_a_simulator_that_fills_the_memory(pool: ist.ProcessPool) -> None:
    resource = pytest.importorskip("resource")

    def leak() -> None:
        used = re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
        assert used is not None
        before = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (int(used[1]) * 1024 + 2**28, before[1]))
        kept = []
        try:
            while True:
                kept.append(np.ones(2**22))
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)

    assert "the simulator failed for θ between [0.7]" in (said := simulated_by(pool, leak))
    assert "MemoryError" in said


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        (lambda t, r: np.where(t > 0.5, np.nan, t), "returned NaN or infinite x in row"),
        (lambda t, r: t[:-1], "returned 199 rows for 200 parameter points"),
        (lambda t, r: t[:, 0], "must return x with two axes"),
        (lambda t, r: [][1], "the simulator failed for θ between .*IndexError"),
    ],
)
def test_what_is_wrong_in_process_is_wrong_here(
    pool: ist.ProcessPool, simulator: Any, message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        ist.simulate(simulator, PRIOR, 300, engine=pool, seed=1)


def test_columns_are_compared_between_workers(pool: ist.ProcessPool) -> None:
    def changing(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.ones((len(theta), 1 + int(theta[0, 0] > 0.5)))

    with pytest.raises(ValueError, match="number of observables changed between calls"):
        ist.simulate(changing, PRIOR, 3000, engine=pool, seed=1)


def test_the_processes_of_a_program_end_with_a_hanging_worker(
    hasty: ist.ProcessPool, tmp_path: Path
) -> None:
    started = tmp_path / "pid"
    script = f"sleep 60 & echo $! >> {started}; wait"
    program = ist.Program(["/bin/sh", "-c", script], deterministic=True)
    message = "took more than 0.5 seconds, the time limit, and was ended, in the task: events 0 to"
    with pytest.raises(TaskError, match=message):
        ist.simulate(program, PRIOR, 10, engine=hasty, seed=1)
    pids = [int(line) for line in started.read_text().split()]
    assert len(pids) == 2
    assert wait_until(lambda: not any(map(is_running, pids)))


@pytest.mark.slow
def test_a_worker_that_died_in_between_is_replaced(pool: ist.ProcessPool) -> None:
    before = set(dict(pool.run(pid, range(20))).values())
    victim = before.pop()
    os.kill(victim, signal.SIGKILL)
    assert wait_until(lambda: not is_running(victim))
    after = set(dict(pool.run(pid, range(20))).values())
    assert victim not in after
    assert dict(pool.run(square, range(4))) == {0: 0, 1: 1, 2: 4, 3: 9}


# --- What cannot be sent -------------------------------------------------------------------------


class Stubborn:
    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta

    def __reduce__(self) -> Any:
        raise pickle.PicklingError("no")


def test_what_cannot_be_pickled_is_named(pool: ist.ProcessPool) -> None:
    with pytest.raises(TypeError, match=r"the simulator cannot be sent .* ist.PerWorker\(factory"):
        ist.simulate(Stubborn(), PRIOR, 10, engine=pool, seed=1)


def test_without_cloudpickle_a_script_cannot_be_sent(
    pool: ist.ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickling, "sends_code", lambda: False)
    with pytest.raises(TypeError, match=re.escape("pip install 'inferostatic[processes]'")):
        dict(pool.run(lambda task: task, range(2)))
    assert dict(pool.run(square, range(2))) == {0: 0, 1: 1}


def test_what_a_worker_cannot_load_is_named(
    pool: ist.ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("only_here")
    exec("def f(task): return task", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    monkeypatch.setattr(pickling, "sends_code", lambda: False)
    with pytest.raises(TypeError, match="cannot be loaded in a worker process: No module named"):
        dict(pool.run(module.f, range(2)))


# --- Beginning and end ---------------------------------------------------------------------------


def test_a_pool_is_a_record(pool: ist.ProcessPool) -> None:
    assert pickle.loads(pickle.dumps(pool)) == pool == ist.ProcessPool(2)
    assert repr(pool) == "ProcessPool(n=2, time_limit=None, retries=1, failures=None)"
    assert pickle.loads(pickle.dumps(pool))._idle == []


def test_workers_have_few_threads_and_end_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    main = sys.modules["__main__"]
    with ist.ProcessPool(8) as pool:
        [(_, (found, worker))] = pool.run(
            lambda task: ([os.environ[name] for name in names], os.getpid()), [0]
        )
        assert is_running(worker)
        assert len(pool._idle) == 1  # one task needs one worker
        assert dict(pool.run(square, [])) == {}
    assert found == ["1", "7"]
    assert not is_running(worker)
    assert "OMP_NUM_THREADS" not in os.environ
    assert sys.modules["__main__"] is main
    assert pool._idle == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
def test_workers_end_with_the_process_that_started_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    script, mark = tmp_path / "script.py", tmp_path / "mark"
    # A sleeping interpreter, and for SIGKILL one that never lets another thread have its turn.
    body = "time.sleep(60)" if number is signal.SIGINT else "sum(range(10**11))"
    script.write_text(
        "import os, signal, sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import inferostatic as ist\n"
        "mark = sys.argv[2]\n"
        "def work(task):\n"
        "    open(f'{mark}.{os.getpid()}', 'w').close()\n"
        f"    {body}\n"
        # A shell that runs the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "list(ist.ProcessPool(1).run(work, range(4)))\n"
    )
    source = Path(ist.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, str(script), str(source), str(mark)],
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        assert wait_until(lambda: len(list(tmp_path.glob("mark.*"))) == 1, 60)
        workers = [int(path.suffix[1:]) for path in tmp_path.glob("mark.*")]
        if number is signal.SIGINT:
            os.kill(workers[0], number)
            time.sleep(0.5)
            assert is_running(workers[0])
            os.killpg(process.pid, number)  # as a terminal does
        else:
            os.kill(process.pid, number)
        _, said = process.communicate(timeout=30)
        assert wait_until(lambda: not any(map(is_running, workers)))
    finally:
        # Only where something failed is anything left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if number is signal.SIGINT:
        assert said.count("Traceback") == 1
        assert "KeyboardInterrupt" in said


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"n": 0}, ValueError, "n must be at least 1"),
        ({"n": "two"}, TypeError, "n must be a whole number"),
        ({"time_limit": 0.0}, ValueError, "time_limit must be a finite number above 0"),
        ({"retries": -1}, ValueError, "retries must be at least 0"),
        ({"failures": ist.Drop}, TypeError, "failures must be ist.Drop"),
    ],
)
def test_bad_settings_are_refused(options: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ist.ProcessPool(**options)


def test_how_a_process_ended_is_said() -> None:
    assert worker_process.describe_exit(2) == "ended with exit code 2"
    assert worker_process.describe_exit(-11) == "was ended by signal SIGSEGV"
    assert worker_process.describe_exit(-64).startswith("was ended by signal ")
