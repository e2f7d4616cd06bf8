"""The ruler of default fits: its points, errors and comparisons, and that it goes on."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
defaults = importlib.import_module("defaults")
workers = importlib.import_module("workers")

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

#: A library whose potential is x₁ θ₁ on every toy, and whose training takes no time.
STAND_IN = """
import types
import numpy as np

Estimator = object

def Uniform(low, high):
    return (low, high)

def Events(x, theta, prior):
    assert len(x) == len(theta) and len(prior) == 2
    return x, theta

class Fitted:
    history = types.SimpleNamespace(choices=("decay: none",), seconds=[0.0] * 7)

    def score(self, x, theta):
        return np.concatenate([x[:, :1], 0 * theta[:, 1:]], axis=1)

    def log_ratio(self, x, theta0, theta1):
        return x[:, 0] * (theta0 - theta1)[:, 0]

def fit(events, seed):
    return Fitted()
"""


def options(*line: str) -> Any:
    return defaults.read_arguments(line)


def row(version: str, toy: str, events: int, seed: int, **errors: float) -> dict[str, Any]:
    names = ("score", "far", "within", "near", "score_squared", "far_squared")
    times = {"seconds": 1.0, "cpu_seconds": 2.0}
    key = {"version": version, "toy": toy, "events": events, "seed": seed}
    return key | dict.fromkeys(names, 0.1) | times | errors


@pytest.mark.parametrize("name", defaults.MEASURED)
def test_the_truth_has_no_errors_and_points_lie_where_they_should(name: str) -> None:
    points, truth = defaults.draw_points(name), defaults.find_truth(name)
    assert set(defaults.find_errors(name, truth).values()) == {0.0}
    low, high = np.array(
        defaults.PAPER_BOX if name == defaults.DIRICHLET else defaults.TOYS[name][1]
    )
    for theta in (points["score/theta"], points["far/theta1"], points["near/theta1"]):
        assert len(theta) >= 20_000
        assert np.all((theta >= low) & (theta <= high))
    distance = np.abs(points["near/theta1"] - points["near/theta0"]) / (high - low)
    assert 0.09 < distance.max() <= defaults.NEAR + 1e-12
    # Near pairs are closer in ln r than those anywhere in the prior.
    assert truth["near"].var() < truth["far"].var()


def test_errors_are_relative_to_the_spread_of_the_truth() -> None:
    truth = defaults.find_truth(defaults.RING)
    found = {"score": 1.5 * truth["score"], "far": truth["far"] + 3.0, "near": truth["near"]}
    found["far"][np.abs(truth["far"]) >= 10] = 0.0
    errors = defaults.find_errors(defaults.RING, found)
    inside = truth["far"][np.abs(truth["far"]) < 10]
    assert errors["score"] == pytest.approx(0.25)
    assert errors["score_squared"] == pytest.approx(np.mean(truth["score"] ** 2) / 4)
    assert errors["within"] == pytest.approx(9 / inside.var())
    assert errors["far"] > errors["within"]
    assert errors["near"] == 0.0


def test_points_beyond_a_wall_are_mirrored() -> None:
    low, high = np.zeros(3), np.full(3, 2.0)
    np.testing.assert_allclose(
        defaults.fold(np.array([-0.5, 1.0, 2.25]), low, high), [0.5, 1, 1.75]
    )


def test_many_events_have_one_seed_and_few_come_first() -> None:
    cells = defaults.list_cells("after", ["ring"], [100_000, 1_000], [0, 1])
    assert [(c["events"], c["seed"]) for c in cells] == [(1_000, 0), (100_000, 0), (1_000, 1)]


def test_cells_compare_the_seeds_of_both_by_their_geometric_mean() -> None:
    rows = [
        row("before", "ring", 1_000, 0, within=0.1, far=1.0),
        row("before", "ring", 1_000, 1, within=0.2),
        row("before", "ring", 1_000, 2, within=1e-9),
        row("after", "ring", 1_000, 0, within=0.2, far=50.0),
        row("after", "ring", 1_000, 1, within=0.1),
        row("after", "ring", 3_000, 0),
        row("before", defaults.DIRICHLET, 1_000, 0, far=0.4),
        row("after", defaults.DIRICHLET, 1_000, 0, far=0.1, within=9.0),
    ]
    assert defaults.list_ratios(rows, "before", "after") == {
        (defaults.DIRICHLET, 1_000, "score"): pytest.approx(1.0),
        (defaults.DIRICHLET, 1_000, "far"): pytest.approx(0.25),
        ("ring", 1_000, "score"): pytest.approx(1.0),
        ("ring", 1_000, "within"): pytest.approx(1.0),
    }


def test_the_table_names_the_worst_cell_and_where_more_events_did_not_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        row("before", "ring", 1_000, 0),
        row("after", "ring", 1_000, 0, score=0.4, within=0.025),
        row("after", "ring", 30_000, 0, score=0.1, within=0.05),
        row(defaults.PEER, "ring", 30_000, 0, score=0.7),
    ]
    defaults.print_table(rows, "before", "after")
    told = capsys.readouterr().out
    assert "geometric mean of 2 cells: 1.000" in told
    assert "worst: 4.000, ring, 1,000 events, score" in told
    assert "more events did not help: ring, within, × 2.00 at 30,000" in told
    assert "ring at 30,000 events: 0.0500 (at most 0.03)" in told
    assert "sbi NRE_B" in told
    assert defaults.list_rises([row("after", "ring", n, 0) for n in (1, 2)], "after") == []


def test_nothing_is_measured_twice_and_fresh_forgets_what_is_asked_for(tmp_path: Path) -> None:
    log = defaults.Log(tmp_path / "rows.json", fresh=False)
    log.rows = [row("before", "ring", 1_000, 0), row("after", "ring", 1_000, 0)]
    cells = defaults.list_cells("after", ["ring"], [1_000], [0, 1])
    asked: list[int] = []

    def one(cell: dict[str, Any], cores: Any) -> dict[str, Any]:
        asked.append(cell["seed"])
        return {"score": 7.0}

    defaults.measure_all(log, cells, one, options("fits", "--minutes", "-1"))
    assert asked == []
    defaults.measure_all(log, cells, one, options("fits"))
    assert asked == [1]
    defaults.measure_all(log, cells, one, options("fits", "--fresh", "--processes", "2"))
    assert sorted(asked) == [0, 1, 1]
    assert len(json.loads(log.path.read_text())["rows"]) == 3
    assert log.has({"version": "before"})

    def fail(cell: dict[str, Any], cores: Any) -> dict[str, Any]:
        if cell["seed"] == 0:
            raise RuntimeError("no fit")
        return {"score": 8.0}

    with pytest.raises(SystemExit, match="no fit"):
        defaults.measure_all(log, cells, fail, options("fits", "--fresh"))
    assert log.has({"seed": 1, "score": 8.0})


def test_each_process_has_cores_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults.os, "sched_getaffinity", lambda _: {4, 5, 6, 7})
    assert defaults.share_cores(2, 2) == [[4, 5], [6, 7]]
    assert defaults.share_cores(3, 0) == [[], [], []]
    with pytest.raises(SystemExit, match="need 6, and there are 4"):
        defaults.share_cores(3, 2)


def test_rows_of_other_machines_join(tmp_path: Path) -> None:
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    old, new = row("after", "ring", 1_000, 0), row("after", "ring", 1_000, 1)
    here.write_text(json.dumps({"rows": [old]}))
    there.write_text(json.dumps({"rows": [old | {"score": 5.0}, new]}))
    defaults.join(options("join", str(there), "--out", str(here)))
    assert json.loads(here.read_text())["rows"] == [old, new]


def test_another_checkout_trains(tmp_path: Path) -> None:
    """The worker takes the library of the checkout, here a stand-in, and never this one."""
    package = tmp_path / "src" / "inferostatic"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    out = tmp_path / "rows.json"
    line = ("fits", "--checkout", str(tmp_path), "--only", "ring", "--events", "50", "--seeds", "1")
    defaults.run_fits(options(*line, "--out", str(out)))
    (found,) = json.loads(out.read_text())["rows"]
    assert found["version"] == "before"
    assert found["choices"] == ["decay: none"]
    assert found["epochs"] == 7
    assert found["seconds"] < 1
    points, truth = defaults.draw_points("ring"), defaults.find_truth("ring")
    far = points["far/x"][:, 0] * (points["far/theta0"] - points["far/theta1"])[:, 0]
    assert found["far_squared"] == pytest.approx(np.mean((far - truth["far"]) ** 2))
    # Its events are always the same.
    events = [defaults.draw_events("ring", 50, 0)["x"] for _ in range(2)]
    np.testing.assert_array_equal(*events)


def test_timings_alternate_and_compare_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def timed(ask: Any, toy: str, events: int, seed: int, cores: Any) -> dict[str, Any]:
        asked.append("before" if ask.args == (tmp_path,) else "after")
        seconds = len(asked) * (2.0 if asked[-1] == "before" else 1.0)
        return {"seconds": seconds, "cpu_seconds": 3 * seconds}

    monkeypatch.setattr(defaults, "measure", timed)
    line = ("timings", "--checkout", str(tmp_path), "--events", "9", "--rounds", "3")
    defaults.run_timings(options(*line, "--out", str(tmp_path / "rows.json")))
    assert asked == ["before", "after", "after", "before", "before", "after"]
    # Rounds of 2 → 2, 8 → 3 and 10 → 6 seconds.
    assert "8.0 →      3.0   × 0.600  (3 rounds)" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="needs --checkout"):
        defaults.run_timings(options("timings"))


def test_a_worker_that_fails_says_why(tmp_path: Path) -> None:
    package = tmp_path / "src" / "inferostatic"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('half a library')")
    with pytest.raises(RuntimeError, match="half a library"):
        workers.ask_checkout(tmp_path, {"x": np.zeros((1, 1))}, 0)
