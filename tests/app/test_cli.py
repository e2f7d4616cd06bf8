"""The command in odd surroundings: it says what is wrong before it works, and loses no file.

Where streams and signals matter, the command runs in a process of its own. Its experiment is
replaced by made-up results, so that each test takes as long as the import;
`tests/paper/test_paper.py` runs the experiment itself.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from inferostatic.app.cli import app
from inferostatic.paper import experiment, report
from inferostatic.paper.experiment import (
    COLUMNS,
    METRICS,
    PUBLISHED,
    TASKS,
    PaperResults,
    Prediction,
    check_settings,
)

DRIVER = """
import signal
# Shells start background jobs with Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
import os, pickle, signal, sys, threading, time
from pathlib import Path
from inferostatic.app import cli

mode = os.environ["MODE"]
sys.argv = ["inferostatic", *sys.argv[1:]]
if mode == "untouched":
    cli.main()

from inferostatic.paper import experiment, report

def reproduce(**settings):
    Path(os.environ["STARTED"]).write_text("")
    if mode == "waits":
        # A training in another thread, which Ctrl-C does not reach.
        worker = threading.Thread(target=time.sleep, args=(60,))
        worker.start()
        worker.join()
    return pickle.loads(Path(os.environ["RESULTS"]).read_bytes())

def write_results(results, folder):
    (folder / "table.json").write_text("whole")
    return folder / "index.html"

experiment.reproduce = reproduce
if mode != "writes":
    report.write_results = write_results
cli.main()
"""


def published_results() -> PaperResults:
    """As if one instance had found the published numbers."""
    scores = {
        task: {
            column: {"standard_error": [0.01], **{name: [found[name]] for name in METRICS}}
            for column, found in PUBLISHED[task].items()
        }
        for task in TASKS
    }
    rng = np.random.default_rng(5)
    losses = {column: rng.uniform(size=(2, 1, 20)) for column in COLUMNS}
    return PaperResults(
        scores=scores,
        truth={task: PUBLISHED["truth"][task]["loss"] for task in TASKS},
        settings={"instances": 1, "events": 200, "epochs": 20, "seed": 5},
        predictions={
            "score": Prediction(rng.normal(size=(200, 3)), rng.normal(size=(200, 3))),
            "ratio": Prediction(rng.uniform(size=200), rng.uniform(size=200)),
        },
        histories={
            column: (training, validation) for column, (training, validation) in losses.items()
        },
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.pickle"
    path.write_bytes(pickle.dumps(published_results()))
    return path


class Command:
    """Runs `inferostatic paper` in a shell, in a folder of its own."""

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder, self.started = folder, folder / "started"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHONIO", "COLUMNS"))},
            "RESULTS": str(results),
            "STARTED": str(self.started),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COLUMNS": "1000",
        }

    def start(self, line: str, mode: str = "plain", **changes: str) -> "subprocess.Popen[str]":
        (self.folder / "driver.py").write_text(DRIVER)
        return subprocess.Popen(
            line.replace("inferostatic", f"exec {sys.executable} driver.py", 1),
            shell=True,
            executable="/bin/bash",
            cwd=self.folder,
            env={**self.environment, "MODE": mode, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )

    def __call__(self, line: str, mode: str = "plain", **changes: str) -> tuple[int, str, str]:
        process = self.start(line, mode, **changes)
        out, error = process.communicate(timeout=120)
        assert "Traceback" not in error
        assert "Exception ignored" not in error
        return process.returncode, out, error


@pytest.fixture
def command(tmp_path: Path, results: Path) -> Command:
    return Command(tmp_path, results)


@pytest.mark.slow
def test_the_files_are_written_though_nobody_listens(command: Command, tmp_path: Path) -> None:
    code, out, error = command("inferostatic paper --out o >&- 2>&-", "writes")
    assert (code, out, error) == (0, "", "")
    assert {path.name for path in (tmp_path / "o").iterdir()} == set(report.FILES)


@pytest.mark.parametrize(
    ("line", "code", "fragment"),
    [
        ("inferostatic paper --out o >&-", 0, ""),
        pytest.param("inferostatic paper --out o 2>&-", 0, "", marks=pytest.mark.slow),
        pytest.param("inferostatic paper --out o 2> /dev/full", 0, "", marks=pytest.mark.slow),
        ("inferostatic paper --out o > /dev/full", 1, "could not be shown (No space left on"),
    ],
)
def test_broken_streams(command: Command, line: str, code: int, fragment: str) -> None:
    found, out, error = command(line)
    assert found == code
    assert fragment in error
    assert (command.folder / "o" / "table.json").read_text() == "whole"
    if ">&-" not in line and "> /dev/full" not in line:
        assert "Report: o/index.html" in out


def test_a_reader_that_leaves(command: Command) -> None:
    line = "set -o pipefail; (inferostatic paper --out o) | head -c 0"
    code, out, error = command(line)
    assert (code, out, error) == (0, "", "")
    assert (command.folder / "o" / "table.json").read_text() == "whole"


def test_a_terminal_without_utf8(command: Command) -> None:
    code, out, error = command("inferostatic paper --out $'o\\xff'", PYTHONIOENCODING="ascii")
    assert (code, error) == (0, "")
    assert "published medians in brackets" in out
    assert "  -  " in out
    assert "Report: o\\udcff/index.html" in out


@pytest.mark.slow
def test_help_without_utf8_and_to_a_full_disk(command: Command) -> None:
    code, out, error = command("inferostatic paper --help", PYTHONIOENCODING="ascii")
    assert (code, error) == (0, "")
    assert out.isascii()
    code, out, error = command("inferostatic --help > /dev/full")
    assert (code, error.strip()) == (1, "inferostatic: [Errno 28] No space left on device")


def test_ctrl_c_while_it_works(command: Command) -> None:
    (command.folder / "o").mkdir()
    before = command.folder / "o" / "table.json"
    before.write_text("of a run before")
    process = command.start("inferostatic paper --out o", "waits")
    while not command.started.exists():
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode == 130
    assert (out, error.strip()) == ("", "Interrupted; files written before are as they were.")
    assert before.read_text() == "of a run before"


Paper = Callable[[], Result]


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """Runs `inferostatic paper --out o` in this process, with made-up results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "reproduce", lambda **_: published_results())
    return lambda: CliRunner().invoke(app, ["paper", "--out", "o"])


def test_ctrl_c_while_it_writes(
    paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: PaperResults, folder: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        (folder / "table.json").write_text("whole")
        return folder / "index.html"

    monkeypatch.setattr(report, "write_results", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may ignore it
    try:
        found = paper()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.exit_code == 130
    assert "published medians in brackets" in found.stdout
    assert found.stderr.strip() == "Interrupted when all was done; the report is o/index.html."
    assert (tmp_path / "o" / "table.json").read_text() == "whole"


def test_what_cannot_be_written_is_shown(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(results: PaperResults, folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "write_results", fails)
    found = paper()
    assert found.exit_code == 1
    assert "published medians in brackets" in found.stdout
    assert "could not be written to o: [Errno 28] No space left on device" in found.stderr


REFUSED = {
    "seed": ("--out o --seed 4294967296", "seed must lie in [0, 2**32); got 4294967296"),
    "events": (f"--out o --events {10**30}", "events must be at most 100,000,000"),
    "no events": ("--out o --events 3", "events must be at least 20"),
    "text": ("--out o --events 1e30", "--events"),
    "instances": ("--out o --instances 1000000000", "instances must be at most 1,000"),
    "epochs": ("--out o --epochs 0", "epochs must be at least 1; got 0"),
    "memory": ("--out o --events 100000000 --instances 1000", "GB of memory"),
    "empty": ("--out ''", "'' is no name of a folder"),
    "a file": ("--out driver.py", "driver.py is not a folder"),
    "below a file": ("--out driver.py/x", "driver.py/x lies below a file"),
    "in /proc": ("--out /proc/x", "/proc/x cannot be written to"),
    "a long name": (f"--out {300 * 'a'}", "cannot be written to (File name too long)"),
    "a folder in place of a file": ("--out taken", "taken/index.html is not a file"),
    "a link to nothing": ("--out dangling", "dangling is not a folder"),
    "a full disk": ("--out /dev/full/x", "/dev/full/x lies below a file"),
}


def test_what_cannot_work_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, because each takes the same way."""

    def work(**settings: Any) -> PaperResults:
        raise AssertionError(f"work has begun with {settings}")

    monkeypatch.setattr(experiment, "reproduce", work)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "driver.py").write_text("")
    (tmp_path / "taken" / "index.html").mkdir(parents=True)
    (tmp_path / "dangling").symlink_to("nowhere")
    for line, fragment in REFUSED.values():
        arguments = [part.strip("'") for part in line.split(" ")]
        result = CliRunner().invoke(app, ["paper", *arguments])
        assert result.exit_code == 2, (line, result.output, result.exception)
        assert fragment in result.output, line
        assert isinstance(result.exception, SystemExit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "fragment", "changes"),
    [
        ("paper --out o --seed 4294967296", "seed must lie in", {}),
        ("paper --out o", "MPLBACKEND", {"MPLBACKEND": "no"}),
        ("paper --out o", "backend 'no'", {"JAX_PLATFORMS": "no"}),
    ],
)
def test_the_process_ends_with_a_message(
    command: Command, line: str, fragment: str, changes: dict[str, str]
) -> None:
    code, out, error = command(f"inferostatic {line}", "untouched", **changes)
    assert (code, out) == (2, "")
    assert fragment in error
    assert not command.started.exists()


@pytest.mark.slow
def test_no_home_folder(command: Command) -> None:
    """And a cache folder is never made in the folder where one happens to be."""
    code, out, _ = command("unset HOME; inferostatic --version", XDG_CACHE_HOME="")
    assert code == 0
    assert out.strip()
    assert not (command.folder / "inferostatic").exists()


def test_the_settings_of_the_paper_are_allowed() -> None:
    check_settings(instances=5, events=100_000, epochs=20, seed=0)


def test_a_folder_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("")
    assert report.prepare_folder(str(tmp_path)) == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_every_command_speaks_to_scripts_and_is_listed_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import typer
    from typer.testing import CliRunner

    from inferostatic.app.cli import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) >= 12
    for name, one in commands.items():
        assert any("--json" in option.opts for option in one.params), name
    monkeypatch.setenv("COLUMNS", "80")
    listed = CliRunner().invoke(app, ["--help"]).output
    words = listed.split()
    for name, one in commands.items():
        first = one.callback.__doc__.partition("\n")[0].split()
        begin = next(i for i, word in enumerate(words) if word == name and words[i + 1] == first[0])
        assert words[begin + 1 : begin + 1 + len(first)] == first


def test_the_paper_as_json(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from inferostatic.app.cli import app
    from inferostatic.paper import experiment

    found = pickle.loads(results.read_bytes())
    monkeypatch.setattr(experiment, "reproduce", lambda **settings: found)
    monkeypatch.setattr(report, "write_results", lambda results, folder: folder / "index.html")
    result = CliRunner().invoke(app, ["paper", "--out", str(tmp_path / "o"), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told.pop("report") == str(tmp_path / "o" / "index.html")
    assert told == json.loads(json.dumps(found.table()))
