"""Programs as simulators: files out and back, and whatever a program may do wrong."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.world.program import NamedColumns

THETA = np.array([[1 / 3, 2.0], [1e-300, -5e10], [0.1, 7.0]])
PYTHON = [sys.executable, "-S", "-E"]
#: Adds uniform noise to the first parameter; no package is imported, since that takes long.
GENERATE = """
import csv, random, sys
into, out, seed = sys.argv[1:]
random.seed(int(seed))
with open(into) as stream, open(out, "w") as made:
    rows = list(csv.reader(stream))
    print("sum,u", file=made)
    for row in rows[1:]:
        print(repr(float(row[0]) + float(row[1])), repr(random.random()), sep=",", file=made)
"""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shell(script: str, *arguments: str, **options: Any) -> ist.Program:
    """A program of one line: its arguments are $1, $2 and so on."""
    return ist.Program(["/bin/sh", "-c", script, "sh", *arguments, "{seed}"], **options)


def wait_for_end(pid: int) -> bool:
    """Whether a process ends within half a minute; one that nobody waits for has ended too."""
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def _own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def generate(tmp_path: Path) -> ist.Program:
    script = tmp_path / "generate.py"
    script.write_text(GENERATE)
    return ist.Program([*PYTHON, script, "{theta}", "{x}", "{seed}"], theta_names=["a", "b"])


def test_theta_goes_out_and_x_comes_back_with_its_names(generate: ist.Program) -> None:
    x = generate(THETA, rng(1))
    assert isinstance(x, NamedColumns)
    assert x.columns == ("sum", "u")
    np.testing.assert_array_equal(np.asarray(x)[:, 0], THETA.sum(axis=1))
    np.testing.assert_array_equal(x, generate(THETA, rng(1)))
    assert (np.asarray(x)[:, 1] != np.asarray(generate(THETA, rng(2)))[:, 1]).all()
    assert len(x) == 3


def test_simulate_keeps_the_names(generate: ist.Program) -> None:
    events = ist.simulate(generate, ist.Uniform([0, 0], [1, 1], names=["a", "b"]), 30, seed=1)
    assert events.x_names == ("sum", "u")
    np.testing.assert_allclose(events.x[:, 0], events.theta.sum(axis=1), rtol=1e-6)


def test_it_can_be_pickled(generate: ist.Program) -> None:
    copy = pickle.loads(pickle.dumps(generate))
    assert copy == generate
    np.testing.assert_array_equal(copy(THETA, rng(1)), generate(THETA, rng(1)))


def test_columns_are_chosen_by_name(generate: ist.Program) -> None:
    assert generate.theta_names == ("a", "b")
    chosen = ist.Program(generate.command, x_names=["u"])(THETA, rng(1))
    assert isinstance(chosen, NamedColumns)
    assert chosen.columns == ("u",)
    np.testing.assert_array_equal(
        np.asarray(chosen)[:, 0], np.asarray(generate(THETA, rng(1)))[:, 1]
    )
    with pytest.raises(RuntimeError, match="'v' is not among them: sum, u"):
        ist.Program(generate.command, x_names=["v"])(THETA, rng())
    with pytest.raises(RuntimeError, match="has 2 columns without names, but x_names has 1: v"):
        shell("tail -n +2 $1 > $2", "{theta}", "{x}", x_names=["v"])(THETA, rng())


def test_csv_without_names() -> None:
    x = shell("tail -n +2 $1 > $2", "{theta}", "{x}")(THETA, rng())
    assert isinstance(x, np.ndarray)
    np.testing.assert_array_equal(x, THETA)


def test_npy_goes_out_and_comes_back() -> None:
    copy = shell("cp $1 $2", "{theta}", "{x}", theta="theta.npy", x="x.npy")
    np.testing.assert_array_equal(copy(THETA, rng()), THETA)


def test_json_holds_names_theta_and_the_seed(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    program = ist.Program(
        ["/bin/sh", "-c", f"cp $1 {kept}; echo 1 > $2", "sh", "{theta}", "{x}"],
        theta="theta.json",
        theta_names=["a", "b"],
    )
    assert np.asarray(program(THETA[:1], rng(3))).tolist() == [[1.0]]
    found = json.loads(kept.read_text())
    assert found == {
        "names": ["a", "b"],
        "theta": THETA[:1].tolist(),
        "seed": 1 + int(rng(3).integers(2**31 - 1)),
    }


def named_npy(path: Path) -> None:
    np.save(path, np.array([(1, 2.0), (3, 4.0)], dtype=[("k", int), ("l", float)]))


def flat_npy(path: Path) -> None:
    np.save(path, np.array([1.0, 3.0]))


def parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"k": [1, 3], "l": [2.0, 4.0]}), path)


def one_tree(path: Path) -> None:
    import uproot

    with uproot.recreate(path) as file:
        file.mktree("events", {"k": "int32", "l": "float64"}).extend(
            {"k": np.array([1, 3], np.int32), "l": np.array([2.0, 4.0])}
        )


def two_trees(path: Path) -> None:
    import uproot

    with uproot.recreate(path) as file:
        file.mktree("other", {"m": "float64"}).extend({"m": np.zeros(2)})
        file.mktree("events", {"k": "float64", "l": "float64"}).extend(
            {"k": np.array([1.0, 3.0]), "l": np.array([2.0, 4.0])}
        )


@pytest.mark.parametrize(
    ("write", "name", "columns"),
    [
        (named_npy, "x.npy", ("k", "l")),
        (flat_npy, "x.npy", None),
        (parquet, "x.parquet", ("k", "l")),
        (one_tree, "x.root", ("k", "l")),
        (two_trees, "x.root:events", ("k", "l")),
    ],
)
def test_files_of_x(tmp_path: Path, write: Any, name: str, columns: Any) -> None:
    source = tmp_path / f"written{Path(name.partition(':')[0]).suffix}"
    write(source)
    x = shell(f"cp {source} $1", "{x}", x=name)(THETA[:2], rng())
    expected = [[1.0, 2.0], [3.0, 4.0]] if columns else [[1.0], [3.0]]
    np.testing.assert_array_equal(np.asarray(x), expected)
    assert getattr(x, "columns", None) == columns


def test_a_tree_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    two_trees(tmp_path / "two.root")
    with pytest.raises(RuntimeError, match=r"2 trees, events, other; name .* x='x.root:TREE'"):
        shell(f"cp {tmp_path}/two.root $1", "{x}", x="x.root")(THETA, rng())
    with pytest.raises(RuntimeError, match="'none' is not among them: events, other"):
        shell(f"cp {tmp_path}/two.root $1", "{x}", x="x.root:none")(THETA, rng())


def test_seed_and_count_are_filled_in_and_other_braces_stay() -> None:
    program = shell("echo n={n} seed=$1 {other} >&2; exit 3")
    with pytest.raises(RuntimeError) as caught:
        program(THETA, rng(4))
    seed = 1 + int(rng(4).integers(2**31 - 1))
    assert f"n=3 seed={seed} {{other}}" in str(caught.value)


def test_an_error_shows_exit_code_and_standard_error(tmp_path: Path) -> None:
    program = shell("echo what I did; echo no such mass >&2; exit 7")
    with pytest.raises(RuntimeError) as caught:
        program(THETA, rng())
    for part in ("'/bin/sh' ended with exit code 7", "standard error:\nno such mass", "what I did"):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="(?s)the simulator failed for θ between.*exit code 7"):
        ist.simulate(program, ist.Uniform([0], [1]), 3, seed=1)


def test_only_the_end_of_long_messages_is_shown() -> None:
    with pytest.raises(RuntimeError) as caught:
        shell("i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1")(
            THETA, rng()
        )
    assert "line 2999" in str(caught.value)
    assert len(str(caught.value)) < 2500


def test_a_program_that_kills_itself() -> None:
    with pytest.raises(RuntimeError, match="ended with signal SIGSEGV"):
        shell("kill -s SEGV $$")(THETA, rng())


def test_a_failed_run_can_be_kept(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="folder of this run is kept: ") as caught:
        shell("echo started > log; exit 1", keep_failed=True)(THETA, rng())
    (folder,) = tmp_path.iterdir()
    assert str(folder) in str(caught.value)
    assert (folder / "run" / "log").read_text() == "started\n"
    assert (folder / "run" / "theta.csv").is_file()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("touch y.csv", "did not write the file x.csv in its folder; there are theta.csv, y.csv"),
        ("touch $1", "x.csv cannot be read: ValueError: x.csv begins with an empty line"),
        ("echo a,b > $1; echo 1,two >> $1", "x.csv cannot be read: ValueError: could not convert"),
    ],
)
def test_a_file_that_is_not_there_or_not_readable(script: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        shell(script, "{x}")(THETA, rng())


def test_rows_and_finite_values_are_checked_like_those_of_any_simulator() -> None:
    prior = ist.Uniform([0], [1])
    with pytest.raises(ValueError, match="returned 1 rows for"):
        ist.simulate(shell("echo 1 > $1", "{x}"), prior, 3, seed=1)
    with pytest.raises(ValueError, match="returned NaN or infinite x in row"):
        ist.simulate(shell("sed '1d; s/.*/nan/' $1 > $2", "{theta}", "{x}"), prior, 3, seed=1)


def test_the_time_limit_ends_all_that_the_program_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    program = shell(f"echo late >&2; sleep 60 & echo $! > {started}; wait", time_limit=0.3)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="(?s)more than 0.3 seconds, its time limit.*late"):
        program(THETA, rng())
    assert time.monotonic() - began < 5
    assert wait_for_end(int(started.read_text()))
    assert list(tmp_path.iterdir()) == [started]


# A shell that runs the tests in the background has SIGINT ignored.
CALLING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
import numpy as np
from inferostatic.world.program import Program
script = f"sleep 60 & echo $! > {sys.argv[2]}.new; mv {sys.argv[2]}.new {sys.argv[2]}; wait"
Program(["/bin/sh", "-c", script], deterministic=True)(np.ones((2, 1)), np.random.default_rng(0))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_the_program_ends_with_the_process_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    started, source = tmp_path / "pid", Path(ist.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", CALLING, str(source), str(started)], stderr=subprocess.PIPE
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    # The program, and the shell that watches over it and must have learned its number.
    while not started.exists() or len(children.read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(process.pid, number)
    process.communicate()
    assert wait_for_end(int(started.read_text()))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"command": "generate {seed}"}, TypeError, "command must be a list of arguments"),
        ({"command": []}, TypeError, "command must be a list of arguments"),
        ({"command": ["a", 3]}, TypeError, "must be text or a path; got 3"),
        ({"command": ["", "{seed}"]}, ValueError, "begins with an empty text"),
        ({"command": ["a"]}, ValueError, "no argument of the command has {seed}"),
        ({"theta": "theta.txt"}, ValueError, "theta must end with .csv or .npy or .json"),
        ({"x": "x.txt"}, ValueError, "x must end with .csv or .npy or .parquet or .root"),
        ({"x": "sub/x.csv"}, ValueError, "without a folder; got 'sub/x.csv'"),
        ({"x": "theta.csv"}, ValueError, "two files"),
        ({"x": 3}, TypeError, "x must be a text"),
        ({"time_limit": 0}, ValueError, "time_limit must be a finite number above 0"),
        ({"keep_failed": "no"}, TypeError, "keep_failed must be True or False"),
        ({"x_names": ["a", "a"]}, ValueError, "names must differ"),
        ({"x_names": 3}, TypeError, "x_names"),
    ],
)
def test_what_could_not_be_run_is_refused(options: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ist.Program(**{"command": ["generate", "{seed}"], **options})


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(RuntimeError, match=r"'no-such-program' could not be started: No such file"):
        ist.Program(["no-such-program", "{seed}"])(THETA, rng())


def test_a_program_that_may_not_be_executed(tmp_path: Path) -> None:
    script = tmp_path / "generate"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(RuntimeError, match=r"not executable: `chmod \+x .*generate` makes it so"):
        ist.Program([script, "{seed}"])(THETA, rng())
    script.write_text("exit 0\n")
    script.chmod(0o755)
    with pytest.raises(RuntimeError, match="A script must begin with a line such as #!/bin/sh"):
        ist.Program([script, "{seed}"])(THETA, rng())
    with pytest.raises(RuntimeError, match="found on PATH"):
        ist.Program(["no-such-program", "{seed}"])(THETA, rng())


def test_a_file_of_the_current_folder_is_not_in_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("generate.py").write_text("open('never', 'w')")
    program = [*PYTHON, "generate.py", "{theta}", "{x}", "{seed}"]
    expected = r"(?s)open file .*write pathlib\.Path\('generate\.py'\)"
    with pytest.raises(RuntimeError, match=expected):
        ist.Program(program)(THETA, rng())
    with pytest.raises(RuntimeError) as caught:
        shell("exit 1", "{theta}")(THETA, rng())
    assert "pathlib" not in str(caught.value)


def test_a_program_with_a_folder_in_its_name_is_found_from_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "copy").write_text("#!/bin/sh\ntail -n +2 $1 > $2\n")
    (own / "copy").chmod(0o755)
    monkeypatch.chdir(own)
    program = ist.Program(["./copy", "{theta}", "{x}"], deterministic=True)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(program(THETA, rng()), THETA)
