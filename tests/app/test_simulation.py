"""`inferostatic simulate` and `inferostatic status`, in this process and in others."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import inferostatic as ist
from inferostatic.app.cli import app
from parameters import slow

#: A simulator that takes some time, and fails where a file says so.
FILE = """
import time
from pathlib import Path
import inferostatic as ist

prior = ist.Uniform([0.0], [1.0], names=["a"])
SLOW, FAILING = Path(__file__).with_name("slow"), Path(__file__).with_name("failing")


def simulator(theta, rng):
    if SLOW.exists():
        time.sleep(0.02)
    if FAILING.exists() and theta[0, 0] > 0.5:
        raise ArithmeticError("the mass is negative")
    return theta + rng.normal(size=theta.shape)
"""
#: Shells start background jobs with Ctrl-C ignored, and children inherit that.
DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from inferostatic.app.cli import main
sys.argv[0] = "inferostatic"
main()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a simulator in it, which is the current one."""
    (tmp_path / "simulator_of_a_user.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    path = list(sys.path)
    yield tmp_path
    sys.modules.pop("simulator_of_a_user", None)
    sys.path[:] = path


def line(*more: str, events: int = 4000, store: str = "events") -> list[str]:
    options = ["--events", str(events), "--store", store, "--seed", "1"]
    return ["simulate", "simulator_of_a_user.py", *options, *more]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "JAX_PLATFORMS": "cpu",
        "COLUMNS": "1000",
    }
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((store / "parts").iterdir())}


def create(folder: Path, name: str = "events", part: int = 200) -> None:
    """An empty store with parts of a known size; in use it is chosen by a timing."""
    from inferostatic.events.engines.engine import InProcess
    from inferostatic.events.store.creation import create_store

    user = runpy.run_path(str(folder / "simulator_of_a_user.py"))
    store = ist.Store(folder / name, events_per_part=part)
    bound = InProcess()(user["simulator"])
    create_store(store, bound, user["prior"], 4000, seed=1, shares=1)


def test_shares_in_any_order_make_the_store_of_one_call(folder: Path) -> None:
    for name in ("events", "whole"):
        create(folder, name)
    whole = call(*line(store="whole"))
    assert whole.exit_code == 0
    assert whole.output.startswith("the store: made 20 parts, 4,000 events, in ")
    assert "next: events = ist.Store('whole').events() in Python" in whole.output
    for share in (2, 0):
        assert call(*line("--parts", f"{share}/3")).exit_code == 0
    found = call("status", "events")
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "store of simulator in events",
        "2,600 of 4,000 events, in 13 of 20 parts",
        "missing parts: 1, 4, 7, 10, 13, … (7 in all)",
    ]
    last = call(*line("--parts", "1/3"))
    assert last.output.startswith("share 1 of 0 to 2: made 7 parts, 1,400 events, in ")
    assert contents(folder / "events") == contents(folder / "whole")
    assert call("status", "events", "--verify").exit_code == 0
    user = runpy.run_path("simulator_of_a_user.py")
    in_memory = ist.simulate(user["simulator"], user["prior"], 4000, seed=1)
    np.testing.assert_array_equal(ist.Store("events").events().x, in_memory.x)


def test_what_is_there_is_not_made_again(folder: Path) -> None:
    create(folder)
    assert call(*line("--parts", "0/2")).exit_code == 0
    assert "share 0 of 0 to 1: nothing was missing" in call(*line("--parts", "0/2")).output
    second = call(*line())
    assert second.output.startswith("the store: made 10 parts, 2,000 events")
    more = call(*line(events=4100))
    assert more.output.startswith("the store: made 1 part, 100 events")
    less = call(*line(events=200))
    assert less.exit_code == 0
    assert less.output.startswith("the store: nothing was missing\n")
    # More shares than parts: some have nothing to do.
    assert "share 70 of 0 to 99: nothing" in call(*line("--parts", "70/100")).output


def test_json(folder: Path) -> None:
    create(folder)
    told = json.loads(call(*line("--parts", "1/4", "--json")).stdout)
    assert told["share"] == {"index": 1, "count": 4}
    assert (told["made"]["parts"], told["made"]["events"]) == (5, 1000)
    assert told["store"]["complete"] is False
    assert told["store"]["missing"] == [part for part in range(20) if part % 4 != 1]
    (folder / "simulator_of_a_user.py").unlink()  # which a status does not need
    status = call("status", "events", "--json")
    assert status.exit_code == 1
    assert json.loads(status.stdout) == told["store"]
    # What a script asks for is as Python has it.
    assert told["store"]["present"] == ist.Store("events").status().present == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (line("--parts", "10/10"), "--parts: the shares of 10 are 0/10 to 9/10; got '10/10'"),
        (line("--parts", "3"), "--parts: must be i/N, the i-th of N shares, i from 0"),
        (line("--parts", "-1/4"), "got '-1/4'"),
        (line("--parts", "0/0"), "N must be at least 1"),
        (line("--parts", "a/b"), "got 'a/b'"),
        (line(events=0), "--events"),
        (line("--workers", "0"), "--workers"),
        (line("--seed", "-1"), "--seed"),
        (line(store="simulator_of_a_user.py"), "--store: 'simulator_of_a_user.py' is no folder"),
        (line(store=""), "--store: '' is no folder"),
        (["simulate", "nowhere.py", *line()[2:]], "FILE: 'nowhere.py' is no file"),
        (line()[:2], "Missing option"),
        (["status", "simulator_of_a_user.py"], "PATH: 'simulator_of_a_user.py' is no folder"),
        (["status"], "Missing argument"),
    ],
)
def test_wrong_arguments(folder: Path, arguments: list[str], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not (folder / "events").exists()


def test_other_failures(folder: Path) -> None:
    result = call("status", "nothing_here")
    assert result.exit_code == 1
    assert "inferostatic: there is no store in nothing_here" in result.output
    create(folder)
    assert call(*line("--parts", "0/2")).exit_code == 0
    before = contents(folder / "events")
    result = call(*line("--seed", "2"))
    assert result.exit_code == 1
    assert "was made otherwise: seed: 1 in the store, 2 here" in result.output
    assert contents(folder / "events") == before
    (folder / "raises.py").write_text("1 / 0")
    result = call("simulate", "raises.py", *line()[2:])
    assert result.exit_code == 1
    assert "raises.py could not be imported: division by zero" in result.output


@pytest.mark.parametrize("more", [[], pytest.param(["--workers", "1"], marks=pytest.mark.slow)])
def test_a_simulator_that_fails_is_shown_and_mended(folder: Path, more: list[str]) -> None:
    create(folder)
    (folder / "failing").touch()
    result = call(*line(*more))
    assert result.exit_code == 1
    assert 'raise ArithmeticError("the mass is negative")' in result.output
    assert result.output.count("Traceback") == bool(more)
    assert f"ist.replay('{folder / 'events'}', " in result.output
    status = call("status", "events")
    assert status.exit_code == 1
    assert "the mass is negative" in status.output
    (folder / "failing").unlink()
    assert call(*line(*more)).exit_code == 0
    create(folder, "whole")
    call(*line(store="whole"))
    assert contents(folder / "events") == contents(folder / "whole")


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


@pytest.mark.parametrize(
    ("number", "status", "more"),
    [
        (signal.SIGTERM, 143, []),
        slow(signal.SIGINT, 130, []),
        slow(signal.SIGTERM, 143, ["--workers", "2"]),
    ],
)
def test_a_signal_leaves_a_store_that_the_same_command_completes(
    folder: Path, number: int, status: int, more: list[str]
) -> None:
    for name in ("events", "whole"):
        create(folder, name)
    (folder / "slow").touch()
    process = start(folder, *line(*more))
    while len(list((folder / "events" / "parts").glob("*.parquet"))) < 2:
        time.sleep(0.01)
        assert process.poll() is None
    others = children(process.pid)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, "")
    assert error.strip().endswith("Run the same command again, which makes the rest.")
    assert "Traceback" not in error
    until = time.monotonic() + 20
    while any(map(is_running, others)):
        assert time.monotonic() < until
        time.sleep(0.05)
    (folder / "slow").unlink()
    left = ist.Store("events").status()
    assert left.missing
    assert not left.damaged
    assert call(*line(*more)).exit_code == 0
    call(*line(store="whole"))
    assert contents(folder / "events") == contents(folder / "whole")


@pytest.mark.slow
def test_two_processes_make_one_store(folder: Path) -> None:
    processes = [start(folder, *line("--parts", f"{share}/2")) for share in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    for process in processes:
        out, error = process.communicate()
        assert ("made" in out, error) == (True, "")
    assert ist.Store(folder / "events").status(verify=True).complete
