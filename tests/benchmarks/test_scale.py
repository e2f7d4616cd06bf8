"""The ruler of engines and stores: its ratios, goals and extrapolation, and that it goes on."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
scale = importlib.import_module("scale")
large = importlib.import_module("large")
simulators = importlib.import_module("scale_simulators")

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

#: Seconds of all ways in one round.
SECONDS = {
    "bare 1": 10.0,
    "in-process 1": 10.1,
    "pool 1": 10.2,
    "dask 1": 10.4,
    "bare 2": 6.0,
    "pool 2": 6.3,
    "dask 2": 6.6,
    "pool 4": 6.0,
}


def engines(
    *, factor: float = 1.0, cores: int | None = 2, name: str = "busy 1 ms", number: int = 0
) -> dict[str, Any]:
    return {
        "kind": "engines",
        "simulator": name,
        "round": number,
        "events": 1000,
        "cores": cores,
        "load": 1.0,
        "seconds": {way: factor * value for way, value in SECONDS.items()},
        "startup": dict.fromkeys(SECONDS, 3.0),
        "cpu": dict.fromkeys(SECONDS, 9.0) | {"dask 2": 9.9},
    }


def store_row() -> dict[str, Any]:
    return {
        "kind": "store",
        "events": 10**7,
        "load": 1.0,
        "parts": 50,
        "parquet_bytes": 10**9,
        "cache_bytes": 2 * 10**9,
        "seconds_filled": 70.0,
        "seconds_simulated": 20.0,
        "seconds_verified": 10.0,
        "seconds_opened": 0.1,
        "seconds_cached": 20.0,
        "seconds_mapped_again": 0.01,
        "cpu_filled": 60.0,
        "cpu_simulated": 20.0,
        "cpu_verified": 10.0,
        "cpu_cached": 10.0,
    }


def other_rows() -> list[dict[str, Any]]:
    return [
        store_row(),
        {"kind": "tasks", "engine": "pool", "tasks_per_second": 5000.0},
        {"kind": "tasks", "engine": "dask", "tasks_per_second": 400.0},
        {
            "kind": "listing",
            "parts": 5000,
            "load": 1.0,
            "seconds_opened": 0.2,
            "seconds_status": 0.3,
            "seconds_nothing_missing": 0.3,
            "seconds_share_nothing_missing": 0.25,
        },
        {
            "kind": "training",
            "part": "speed",
            "slowdown": 1.05,
            "events_per_second": {"file": 10_000.0, "memory": 10_500.0},
        },
        {"kind": "training", "part": "memory", "fit_above_baseline_mb": 800.0},
        {"kind": "training", "part": "limited", "file_mb": 2000.0, "allowed_mb": 199.0},
    ]


def test_overheads_and_efficiencies_follow_their_definitions() -> None:
    found = scale.compare_engines([engines()])
    assert found["pool 1"]["overhead"] == pytest.approx(0.02)
    assert found["pool 1"]["beside"] == pytest.approx(0.02)
    assert found["pool 2"]["overhead"] == pytest.approx(2 * 6.3 / 10 - 1)
    assert found["pool 2"]["beside"] == pytest.approx(0.05)
    assert found["pool 2"]["efficiency"] == pytest.approx(10.2 / (2 * 6.3))
    assert found["dask 2"]["efficiency"] == pytest.approx(10.4 / (2 * 6.6))
    assert found["bare 2"]["efficiency"] == pytest.approx(10 / (2 * 6))
    # Four workers have two cores, unless they sleep.
    assert found["pool 4"]["overhead"] == pytest.approx(2 * 6.0 / 10 - 1)
    assert found["pool 4"]["beside"] is None
    sleeping = scale.compare_engines([engines(cores=None)])
    assert sleeping["pool 4"]["overhead"] == pytest.approx(4 * 6.0 / 10 - 1)
    assert found["dask 2"]["cpu"] == pytest.approx(0.1)
    assert sleeping["dask 2"]["cpu"] is None
    assert found["in-process 1"]["rate"] == pytest.approx(1000 / 10.1)


def test_ratios_are_taken_within_a_round() -> None:
    """A round on a busy machine changes the rates and none of the ratios."""
    slow = [engines(), engines(factor=3.0, number=1), engines(factor=5.0, number=2)]
    found, alone = scale.compare_engines(slow), scale.compare_engines([engines()])
    assert found["pool 2"]["rate"] == pytest.approx(alone["pool 2"]["rate"] / 3)
    for name in ("overhead", "beside", "efficiency"):
        assert found["pool 2"][name] == pytest.approx(alone["pool 2"][name])


def test_writing_is_what_the_store_adds_to_simulating() -> None:
    found = scale.compare_store(store_row())
    assert found["write"] == {
        "events_per_second": pytest.approx(10**7 / 50),
        "mb_per_second": pytest.approx(2000 / 50),
        "mb_per_cpu_second": pytest.approx(2000 / 40),
    }
    assert found["read"]["events_per_second"] == pytest.approx(10**6)
    assert found["cache"]["mb_per_second"] == pytest.approx(100)


def test_the_extrapolation_is_in_proportion() -> None:
    found = scale.extrapolate(other_rows())
    assert found["part_events"] == 10**5
    assert found["part_mb"] == pytest.approx(10.0)
    assert found["simulating_each"] == pytest.approx(1000)
    assert found["writing_each"] == pytest.approx(5.0)
    assert found["parquet_gb"] == pytest.approx(100)
    assert found["cache_gb"] == pytest.approx(200)
    assert found["written_mb_per_second"] == pytest.approx(100)
    assert found["verifying"] == pytest.approx(1000)
    assert found["building_cache"] == pytest.approx(2000)
    assert found["opening"] == pytest.approx(0.4)
    assert found["looking_each"] == pytest.approx(0.5)
    assert found["tasks_per_second_needed"] == pytest.approx(10)
    assert found["fastest_part_seconds_dask"] == pytest.approx(2.5)
    assert found["epoch"] == pytest.approx(10**5)


def test_goals_are_met_or_missed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [engines(), engines(name="Pythia"), *other_rows()]
    goals = {name: good for name, *_, good in scale.list_goals(rows)}
    assert goals == {
        "busy 1 ms, pool 1: beside bare": True,
        "busy 1 ms, dask 1: beside bare": True,
        "busy 1 ms, pool 2: beside bare": False,
        "busy 1 ms, dask 2: beside bare": False,
        "Pythia, pool 2: efficiency": False,
        "opening a store, s": True,
        "training, MB above the baseline": False,
        "epoch, store / memory": True,
        "trained from, in what was allowed": True,
    }
    scale.print_tables(rows)
    told = capsys.readouterr().out
    assert "MISSED" in told
    assert "on paper: 1,000,000,000 events, 1,000 workers" in told
    scale.print_tables([])


def test_simulators_keep_to_their_contract() -> None:
    theta = np.zeros((5, 2))
    for simulator in (simulators.Busy(3), simulators.Sleeping(0.0)):
        made = [simulator(theta, np.random.default_rng(1)) for _ in range(2)]
        np.testing.assert_array_equal(*made)
        assert made[0].shape == (5, 2)
    assert simulators.steps_within(1e-2) > 2 * simulators.steps_within(1e-3)


def test_a_store_is_measured_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    line = ("--only", "store", "listing", "--rows", "4000", "--folder", str(tmp_path))
    options = scale.read_arguments([*line, "--out", str(tmp_path / "rows.json")])
    options.parts = 7
    log = scale.Log(options.out, fresh=False)
    scale.measure(log, options)
    scale.measure(log, options)
    listing, store = json.loads(options.out.read_text())["rows"]
    assert (listing["kind"], listing["parts"]) == ("listing", 7)
    assert not (tmp_path / "listing-7").exists()
    assert store["cache_bytes"] == pytest.approx(4000 * (40 * 4 + 3 * 8), rel=0.01)
    assert options.allowed == pytest.approx(options.limited_rows * (40 * 4 + 3 * 8) / 10 / 1e6)
    events = ist.Store(large.store_path(tmp_path, 4000)).events()
    assert (len(events), events.mapped) == (4000, True)


def test_more_memory_than_is_allowed_is_refused() -> None:
    """In a process of its own: a limit cannot be taken back."""
    code = (
        "import large, numpy as np\n"
        "large.limit_memory(50)\n"
        "np.ones(20_000_000 // 8)\n"
        "try: np.ones(100_000_000 // 8)\n"
        "except MemoryError: print('refused')\n"
    )
    assert large.__file__ is not None
    folder = Path(large.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"
