"""Ctrl-C and SIGTERM leave a study that the same command completes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import inferostatic as ist
from tiny_study import SIMULATOR, STUDY, call, write_study

#: Shells start background jobs with Ctrl-C ignored, and children inherit that.
DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from inferostatic.app.cli import main
sys.argv[0] = "inferostatic"
main()
"""
#: Seconds after which a process that does not get there is given up.
TOO_LONG = 100.0


def start(*arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *(str(argument) for argument in arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: "subprocess.Popen[str]", folder: Path, pattern: str, count: int = 1) -> None:
    until = time.monotonic() + TOO_LONG
    while len(list(folder.glob(pattern))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_ctrl_c_while_it_simulates(tmp_path: Path) -> None:
    slow = SIMULATOR.replace("    return", "    import time\n    time.sleep(0.15)\n    return")
    text = STUDY.replace("events = 600", "events = 4000")
    folder = write_study(tmp_path / "study", text, slow)
    process = start("run", folder)
    wait_for(process, folder, "run/events/training-*/parts/*.parquet", 2)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in error
    assert f"Go on with: inferostatic run {folder}" in error
    (path,) = folder.glob("run/events/training-*")
    store = ist.Store(path).status()
    assert 0 < store.present < 4000
    assert not store.damaged
    status = call("status", folder)
    assert status.exit_code == 1
    assert "simulate            begun" in status.output


@pytest.mark.slow
def test_sigterm_while_it_trains(tmp_path: Path) -> None:
    text = STUDY.replace("epochs = 20", "epochs = 100000").replace("validation = 400", "")
    folder = write_study(tmp_path / "study", text)
    process = start("run", folder)
    wait_for(process, folder, "run/fit/*/checkpoint-*/manifest.json")
    time.sleep(10)  # compiles, and makes some epochs
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert "Traceback" not in error
    assert "Stopped; what was done is kept in" in error
    assert list(folder.glob("run/fit/*/checkpoint-*/*.isc"))  # the epochs so far
    assert not list(folder.rglob("*.part"))
    assert not list(folder.glob("run/fit/*/record.json"))
