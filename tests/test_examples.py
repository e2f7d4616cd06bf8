"""The examples run, here at a small size, and print learned beside exact values.

`examples/quickstart.py`, which holds the README's code block, is run by `test_readme.py`.
"""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = ["--events", "1500", "--epochs", "2"]


def run(name: str, arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(EXAMPLES / name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", [path, *arguments])
    # A network that is compiled quickly.
    monkeypatch.setattr("inferostatic.learning.arguments.choose_network_size", lambda _: (8, 1))
    runpy.run_path(path, run_name="__main__")


def test_every_example_is_run() -> None:
    tested = {"quickstart.py", "finite_points.py", "peak_on_falling_spectrum.py"}
    # In tests/examples, where their simulators are looked for.
    tested |= {"pythia_weights.py", "pythia_store.py", "msprime_coalescent.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


@pytest.mark.slow
def test_finite_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("finite_points.py", SMALL, tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert "unknown prior" in printed
    # All 15 pairs of the six points, and the one with a point between them.
    assert sum(line.lstrip().startswith("(") for line in printed.splitlines()) == 16


# After so little training the estimate may lie at an edge, of which users are warned.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the estimate lies at the edge")
def test_peak_on_falling_spectrum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "scan.png"
    arguments = [*SMALL, "--figure", str(figure)]
    run("peak_on_falling_spectrum.py", arguments, tmp_path, monkeypatch)
    assert "signal_fraction" in capsys.readouterr().out
    assert figure.is_file()
