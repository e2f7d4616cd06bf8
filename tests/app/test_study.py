"""A tiny study by the command line: done once, again where something changed, and reported."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.app.study.build import load_simulator
from inferostatic.app.study.folder import open_study
from tiny_study import STUDY, call, write_study

TITLES = ["simulate", "fit", "diagnose", "maximum likelihood"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose steps are all done; tests copy it."""
    folder = write_study(tmp_path_factory.mktemp("studies") / "finished")
    result = call("run", folder)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    shutil.copytree(finished, folder)
    (folder / "imported").unlink()
    return folder


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "study.toml").read_text()
    assert old in text
    (folder / "study.toml").write_text(text.replace(old, new))


def test_a_run_leaves_everything(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"report.html", "report.json", "run", "study.toml"} <= names
    told = json.loads((finished / "report.json").read_text())
    assert list(told["numbers"]) == TITLES
    assert told["settings"]["fit"]["epochs"] == 20
    assert told["settings"]["fit"]["effort"] is None
    assert told["versions"]["inferostatic"] == ist.__version__
    assert set(told["seeds"].values()).isdisjoint({3})
    config = json.loads((finished / "run" / "config.json").read_text())
    assert config["settings"] == told["settings"]
    (model,) = (finished / "run" / "fit").glob("*/model.isn")
    estimator = ist.load(model)
    assert (estimator.x_names, estimator.theta_names) == (("m", "t"), ("a", "b"))
    (data,) = (finished / "run" / "data").glob("*/x.npy")
    fit = ist.maximum_likelihood(estimator, np.load(data))
    assert told["numbers"]["maximum likelihood"]["a"] == fit.theta[0]
    log = (finished / "run" / "log.txt").read_text()
    assert all(f"{title}: done in" in log for title in TITLES)
    page = (finished / "report.html").read_text()
    assert "What was asked" in page


def test_validation_events_measure_the_bias_of_answers(finished: Path) -> None:
    told = json.loads((finished / "report.json").read_text())
    (model,) = (finished / "run" / "fit").glob("*/model.isn")
    assert ist.load(model).score_bias is None  # 600 events are too few to keep some back
    (record,) = (finished / "run" / "infer").glob("*/record.json")
    text = json.loads(record.read_text())["text"]
    assert "learned bias: " in text
    assert "not measured" not in text
    assert told["numbers"]["maximum likelihood"]


def test_the_answers_stand_side_by_side(study: Path) -> None:
    more = "[infer.calibrated_fit]\n[[infer.confidence_set]]\nparameters = ['a']\nlevel = 0.95\n"
    change(study, "[infer.maximum_likelihood]", f"[infer.maximum_likelihood]\n{more}")
    assert call("run", study).exit_code == 0
    page = (study / "report.html").read_text()
    (data,) = re.findall(r'id="table-2-1-data">(.*?)</script>', page)
    table = json.loads(data)
    assert [row[:2] for row in table["rows"]] == [
        ["a", "maximum likelihood"],
        ["a", "calibrated fit"],
        ["a", "confidence set 1, a"],
        ["b", "maximum likelihood"],
        ["b", "calibrated fit"],
    ]
    assert [row[-2:] for row in table["rows"][:3]] == [["68%", 0.5], ["68%", 0.5], ["95%", 0.5]]


def test_nothing_is_done_twice(study: Path) -> None:
    before = (study / "report.json").read_bytes()
    result = call("run", study)
    assert result.exit_code == 0
    assert all(f"{title}: done already" in result.stderr for title in TITLES)
    assert not (study / "imported").exists()  # the simulator was not needed
    assert (study / "report.json").read_bytes() == before
    assert f"next: open {study / 'report.html'}" in result.stdout


def test_a_change_redoes_what_depends_on_it_and_says_so(study: Path) -> None:
    before = json.loads((study / "report.json").read_text())["numbers"]
    change(study, "events = 30", "events = 40")
    result = call("run", study)
    assert result.exit_code == 0, result.output
    assert "fit: done already" in result.stderr
    assert "maximum likelihood: begins, again: data.events: 30 → 40" in result.stderr
    changed = json.loads((study / "report.json").read_text())["numbers"]
    assert changed["fit"] == before["fit"]
    assert changed["maximum likelihood"] != before["maximum likelihood"]
    change(study, "events = 40", "events = 30")  # an earlier result is found again
    result = call("infer", study)
    assert "maximum likelihood: done already" in result.stderr


def test_more_events_are_appended_and_another_simulator_makes_its_own(study: Path) -> None:
    change(study, "events = 600", "events = 800")
    result = call("simulate", study)
    assert result.exit_code == 0, result.output
    assert "training: made 200 events" in result.stdout
    assert "validation: nothing was missing" in result.stdout
    assert len(list((study / "run" / "events").glob("training-*"))) == 1
    file = study / "simulator_of_a_study.py"
    file.write_text(file.read_text().replace("rng.normal", "2 * rng.normal"))
    result = call("simulate", study, "--json")
    assert json.loads(result.stdout)["made"]["training"]["events"] == 800
    stores = [ist.Store(path).events().x for path in (study / "run" / "events").glob("training-*")]
    assert sorted(round(float(np.std(x[:, 0] - x[:, 1]))) for x in stores) == [2, 3]
    assert "the simulator's file or the data file has changed" in result.stderr


def test_shares(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", STUDY.replace("events = 600", "events = 1000"))
    result = call("simulate", folder, "--parts", "1/2")
    assert result.exit_code == 0, result.output
    assert "next: the other shares, --parts 0/2 to 1/2" in result.stdout
    status = call("status", folder)
    assert status.exit_code == 1
    assert "simulate            begun" in status.stdout
    result = call("fit", folder)
    assert result.exit_code == 1
    assert "missing" in result.stderr
    assert call("simulate", folder, "--parts", "0/2").exit_code == 0
    assert "simulate            done" in call("status", folder).stdout
    for options in (["--events", "5"], ["--seed", "1"], ["--store", "x"]):
        assert call("simulate", folder, *options).exit_code == 2


def test_status_report_compare_and_info_run_no_code_of_the_user(study: Path) -> None:
    status = call("status", study, "--json")
    assert status.exit_code == 0, status.output
    told = json.loads(status.stdout)
    assert [step["state"] for step in told["steps"]] == ["done"] * 4
    assert told["stores"]["training"]["present"] == 600
    assert call("status", study, "--verify").exit_code == 0
    (study / "report.html").unlink()
    assert call("report", study).exit_code == 0
    assert (study / "report.html").exists()
    compared = json.loads(call("compare", study, study, "--json").stdout)
    assert compared["same"] is True
    assert len(compared["numbers"]) > 10
    (model,) = (study / "run" / "fit").glob("*/model.isn")
    told = json.loads(call("info", model, "--json").stdout)
    assert (told["kind"], told["theta_names"]) == ("Estimator", ["a", "b"])
    card = told["card"]
    assert card["simulated"] == {
        "simulator": "simulator of simulator_of_a_study.py",
        "version": None,
        "seed": json.loads((study / "run" / "config.json").read_text())["seeds"]["training"],
        "source": None,
        "events": 600,
        "effective_events": None,
    }
    assert card["parameters"][0] == {"name": "a", "low": -2.0, "high": 2.0}
    assert card["diagnosis"] is None
    text = call("info", model).stdout
    assert "600 events, by simulator of simulator_of_a_study.py, seed" in text
    assert "chosen" in text or "choices: " in text
    (judged,) = (study / "run" / "diagnose").glob("*/model.isn")
    judged_card = json.loads(call("info", judged, "--json").stdout)["card"]
    numbers = json.loads((study / "report.json").read_text())["numbers"]["diagnose"]
    assert judged_card["diagnosis"]["passed"] == bool(numbers["passed"])
    for name in ("diagnosis", "trusted_events", "trusted_because"):
        del card[name], judged_card[name]
    assert judged_card == card
    assert not (study / "imported").exists()


def test_comparing_two_runs(study: Path, finished: Path) -> None:
    change(study, "[infer.maximum_likelihood]", "[infer.maximum_likelihood]\nlevel = 0.9")
    call("infer", study)
    result = call("compare", finished, study)
    assert "infer.maximum_likelihood.level: 0.6826894921370859 and 0.9" in result.stdout
    (line,) = [line for line in result.stdout.splitlines() if "hood: a: upper end" in line]
    assert float(line.split()[-1]) > 0
    (line,) = [line for line in result.stdout.splitlines() if "hood: a: error" in line]
    assert float(line.split()[-1]) == 0


def test_steps_in_the_wrong_order(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study")
    result = call("fit", folder)
    assert result.exit_code == 1
    assert "there are no training events yet: `inferostatic simulate" in result.stderr
    result = call("infer", folder)
    assert result.exit_code == 1
    assert "there is no estimator of these settings yet: `inferostatic fit" in result.stderr
    result = call("report", folder)
    assert result.exit_code == 1
    assert "there is nothing to report yet" in result.stderr
    assert not (folder / "report.html").exists()
    assert call("reweight", folder).exit_code == 2


def test_a_question_that_fails_leaves_the_others(study: Path) -> None:
    change(study, "[infer.simulated]", "[infer.fixed]\na = 7.0\n[infer.simulated]")
    result = call("run", study)
    assert result.exit_code == 1
    assert "inferostatic: maximum likelihood: " in result.stderr
    assert "Traceback" not in result.output
    told = json.loads((study / "report.json").read_text())
    assert list(told["failed"]) == ["maximum likelihood"]
    assert list(told["numbers"]) == TITLES[:3]
    assert "Traceback" in (study / "run" / "log.txt").read_text()


def test_a_simulator_that_fails(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", simulator="def simulator(theta, rng):\n    1 / 0\n")
    result = call("run", folder)
    assert result.exit_code == 1
    assert "simulator_of_a_study.py" in result.stderr
    assert "ZeroDivisionError" in result.stderr
    (folder / "simulator_of_a_study.py").write_text("import nothing_of_this_name")
    result = call("run", folder)
    assert result.exit_code == 1
    assert "could not be imported: No module named 'nothing_of_this_name'" in result.stderr


def test_strict(study: Path) -> None:
    passed = json.loads((study / "report.json").read_text())["numbers"]["diagnose"]["passed"]
    assert call("diagnose", study, "--strict").exit_code == (0 if passed else 3)
    assert call("diagnose", study).exit_code == 0


def test_data_files_give_the_same_numbers(study: Path) -> None:
    (data,) = (study / "run" / "data").glob("*/x.npy")
    x = np.load(data)
    before = json.loads((study / "report.json").read_text())["numbers"]["maximum likelihood"]
    np.save(study / "observed.npy", x)
    np.savetxt(
        study / "observed.csv", x[:, ::-1], delimiter=",", header="t,m", comments="", fmt="%.17g"
    )
    start = STUDY.index("[infer.simulated]")
    for name in ("observed.npy", "observed.csv"):
        text = f'{STUDY[:start]}[infer]\ndata = "{name}"\n[infer.maximum_likelihood]\n'
        (study / "study.toml").write_text(text)
        result = call("infer", study, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["steps"]["maximum likelihood"]["numbers"] == before
    (study / "observed.csv").write_text("m,u\n1,2\n")
    result = call("infer", study)
    assert result.exit_code == 1
    assert "lacks t; its columns are m, u" in result.stderr
    (study / "observed.csv").unlink()
    result = call("infer", study)
    assert result.exit_code == 2
    assert 'infer.data names "observed.csv", which cannot be read: No such file' in result.stderr


def test_a_file_of_the_study_may_be_named_alone_in_a_command(tmp_path: Path) -> None:
    """It is found from any folder; what is on PATH, or made by a run, keeps its meaning."""
    words = ["python3", "generate.py", "x.csv", "other.py", "{theta}", "{x}", "{seed}"]
    text = STUDY.replace('file = "simulator_of_a_study.py"', f"command = {json.dumps(words)}")
    folder = write_study(tmp_path / "study", text)
    for name in ("python3", "generate.py", "x.csv"):
        (folder / name).touch()
    command = load_simulator(open_study(folder)).command
    assert command == ("python3", str(folder / "generate.py"), *words[2:])


def test_a_program_of_the_study_without_its_folder_is_refused_at_once(tmp_path: Path) -> None:
    command = 'command = ["generate", "{theta}", "{x}", "{seed}"]'
    text = STUDY.replace('file = "simulator_of_a_study.py"', command)
    folder = write_study(tmp_path / "study", text)
    (folder / "generate").write_text("#!/bin/sh\n")
    result = call("simulate", folder)
    assert result.exit_code == 1
    assert 'write "./generate" there' in result.output


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("{'m': theta[:, 0], 't': ['a'] * len(theta)}", "column 't' of the simulator's x holds"),
        ("{'m': theta[:, 0], 'u': theta[:, 1]}", "columns m, u, but .* are m, t. Remove x_names"),
    ],
)
def test_a_frame_that_does_not_fit_is_no_failure_of_the_simulator(
    tmp_path: Path, columns: str, said: str
) -> None:
    pytest.importorskip("pandas")
    own = f"import pandas\n\n\ndef simulator(theta, rng):\n    return pandas.DataFrame({columns})\n"
    result = call("simulate", write_study(tmp_path / "study", simulator=own))
    assert result.exit_code == 1
    assert re.search(said, " ".join(result.output.split()))
    for misleading in ("failed for", "JaxSimulator", "narrow the prior"):
        assert misleading not in result.output
