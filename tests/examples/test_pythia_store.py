"""Pythia as a simulator of blocks, and the example that fills a store with it."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pythia8mc")

EXAMPLE = Path(__file__).parents[2] / "examples" / "pythia_store.py"


def test_events_follow_from_theta_and_the_generator() -> None:
    """Whatever the same Pythia made before: else events would depend on the order of blocks."""
    example = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    simulator, theta = example.make_simulator(), np.tile(example.TRUTH, (10, 1))
    first = simulator(theta, np.random.default_rng(1))
    other = simulator(theta * [0.9, 1.1, 1.2], np.random.default_rng(2))
    again = simulator(theta, np.random.default_rng(1))
    np.testing.assert_array_equal(first, again)
    assert (first.to_numpy() != other.to_numpy()).any(axis=0).all()
    assert tuple(first.columns) == example.X_NAMES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of small samples
def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--events", "1600", "--epochs", "2", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), *small])
    monkeypatch.setattr("inferostatic.learning.arguments.choose_network_size", lambda _: (8, 1))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "missing parts" in printed
    assert "as in one process, bit by bit: True" in printed
    assert "of as many bare generators" in printed
