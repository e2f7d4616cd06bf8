"""A user's file: imported by its name, with what is wrong said and shown."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.app.simulator_file import SimulatorFileError, find_trace, load_simulator

GOOD = """
import inferostatic as ist
prior = ist.Uniform([0.0], [1.0])
def simulator(theta, rng):
    return theta / 0 if theta[0, 0] < 0 else theta
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Modules and folders of one test are none of the others'."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path


def test_a_file_is_imported_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("PRIOR_LOW = 0.25\n")
    file = tmp_path / "my-simulator.py"
    file.write_text("from beside_it import PRIOR_LOW\n" + GOOD.replace("0.0", "PRIOR_LOW"))
    simulator, prior = load_simulator(str(file))
    assert isinstance(prior, ist.Uniform)
    assert float(prior.low[0]) == 0.25
    assert simulator(np.ones((1, 1)), np.random.default_rng(1)) == 1  # type: ignore[operator]
    # Worker processes import it by this name.
    assert getattr(simulator, "__module__", None) == "my-simulator"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.py", None, "is no file; give a Python file that defines a function `simulator"),
        ("text_of_mine.txt", GOOD, "must be a Python file, with .py at the end"),
        ("two.dots.py", GOOD, "no other dot"),
        ("json.py", GOOD, "json.py has the name of another module, json, .* rename the file"),
        ("a1.py", "prior = 3", "defines no `simulator`"),
        ("a2.py", "def simulator(theta, rng): return theta", "defines no `prior`"),
        ("a3.py", GOOD + "\nprior = 3", "`prior` in .* must be a prior such as .* got int"),
        ("a4.py", GOOD + "\nsimulator = 3", "`simulator` in .* is none: simulator must be a"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        load_simulator(str(tmp_path / name))


def test_a_script_without_a_guard_and_a_file_that_raises(tmp_path: Path) -> None:
    file = tmp_path / "b1.py"
    file.write_text(GOOD + "\nraise SystemExit(3)")
    with pytest.raises(SimulatorFileError, match=r"called exit\(3\) .* under `if __name__ =="):
        load_simulator(str(file))
    file = tmp_path / "b2.py"
    file.write_text("def half():\n    return 1 / 0\nhalf()\n")
    with pytest.raises(SimulatorFileError, match="b2.py could not be imported: division") as caught:
        load_simulator(str(file))
    trace = find_trace(caught.value, str(file))
    assert "importlib" not in trace
    assert "line 3, in <module>\n    half()\n" in trace
    assert trace.endswith("ZeroDivisionError: division by zero\n")


def test_a_trace_may_come_from_a_worker() -> None:
    inner = RuntimeError("of the worker")
    inner.add_note("In the worker process:\nline 7")
    outer = RuntimeError("of the pool")
    outer.__cause__ = inner
    assert find_trace(outer, "nowhere.py") == "In the worker process:\nline 7"
    assert find_trace(RuntimeError("plain"), "nowhere.py") == ""
