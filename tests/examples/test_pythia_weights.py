"""Pythia's weights are joint ratios and scores: three identities, and the example using them."""

import importlib
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pythia8mc")

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

weights = importlib.import_module("zhadrons_weights")
DEFAULT, STEP = weights.DEFAULT, weights.STEP
weighted_events, direct_events = weights.weighted_events, weights.direct_events

EXAMPLE = ROOT / "examples" / "pythia_weights.py"
#: Errors by which a mean may miss: about one in 30,000 for each.
FAR = 4.2


@pytest.fixture(scope="module")
def example() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE)))


@pytest.mark.slow
def test_identities_of_joint_ratios_and_scores(example: SimpleNamespace) -> None:
    n = 4000
    events = weighted_events(DEFAULT, n, seed=11, targets=example.TARGETS)
    assert (events.x.shape, events.joint_score.shape) == ((n, 10), (n, 3))
    assert np.abs(example.errors_from_zero(np.exp(events.log_ratio) - 1)).max() < FAR
    assert np.abs(example.errors_from_zero(events.joint_score)).max() < FAR
    above, below = example.beside(example.STRANGE, n, seed=12)
    assert np.abs(example.slope_misses(events, above, below, example.STRANGE)).max() < FAR
    # Kaons do say something about strange quarks, so that the test is not one of noise.
    kaons = example.X_NAMES.index("n_K")
    zero = events._replace(joint_score=0 * events.joint_score)
    assert example.slope_misses(zero, above, below, example.STRANGE)[kaons] < -2 * FAR


def test_ratios_to_near_targets_are_scores() -> None:
    events = weighted_events(DEFAULT, 200, seed=21, targets=DEFAULT + np.diag(STEP / 10))
    found = events.log_ratio / (STEP / 10)
    # Of second order in the steps, in which the third derivative of a logarithm is moderate.
    np.testing.assert_allclose(found, events.joint_score, atol=0.25)
    assert (events.joint_score.std(axis=0) > [1, 2, 5]).all()


def test_the_seed_decides_everything() -> None:
    first, second = (weighted_events(DEFAULT, 20, seed=31) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.joint_score, second.joint_score)
    assert (direct_events(DEFAULT, 20, seed=31) != direct_events(DEFAULT, 20, seed=32)).any()


# After so few events, new ones may lie outside their range, of which users are warned.
@pytest.mark.filterwarnings("ignore:.*lie outside the range of x")
@pytest.mark.slow
def test_the_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), "--events", "600", "--epochs", "2"])
    monkeypatch.setattr("inferostatic.learning.arguments.choose_network_size", lambda _: (8, 1))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "learned score" in capsys.readouterr().out


@pytest.mark.slow
def test_identities_of_all_parameters_with_many_events(example: SimpleNamespace) -> None:
    n = 25_000
    events = weighted_events(DEFAULT, n, seed=41, targets=example.TARGETS)
    assert np.abs(example.errors_from_zero(np.exp(events.log_ratio) - 1)).max() < FAR
    assert np.abs(example.errors_from_zero(events.joint_score)).max() < FAR
    for which in range(3):
        above, below = example.beside(which, n, seed=50 + 10 * which)
        assert np.abs(example.slope_misses(events, above, below, which)).max() < FAR
