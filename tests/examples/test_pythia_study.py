"""The study of Pythia: its simulator, and a small run of it by the command line."""

import json
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tiny_study import call

pytest.importorskip("pythia8mc")

STUDY = Path(__file__).parents[2] / "examples" / "pythia_study"
#: Makes it a matter of seconds.
SMALL = {
    "events = 60000": "events = 600",
    "validation = 10000": "validation = 400",
    "[fit]": '[fit]\nepochs = 3\nmembers = 1\nnetwork = { kind = "mlp", widths = [8] }',
    "events = 500": "events = 50",
    '[infer.calibrated_fit]\ncalibration = "validation"': "",
    "[infer.posterior]": "",
    "events = 4000": "events = 400",
}


def test_parameters_change_events_as_a_new_initialisation_does() -> None:
    """Pythia is told to read its settings again, and makes the events of a new one."""
    import pythia8mc

    example = SimpleNamespace(**runpy.run_path(str(STUDY / "simulator.py")))
    theta = np.array([[0.17, 0.5, 0.15], [0.11, 0.9, 0.3]])
    hadrons = example.make_hadrons()
    for point in theta.tolist():
        fresh = pythia8mc.Pythia("", False)  # noqa: FBT003
        for setting in example.PROCESS:
            assert fresh.readString(setting)
        for setting, value in zip(example.SETTINGS, point, strict=True):
            fresh.settings.parm(setting, value)
        higgs = pythia8mc.ResonanceGeneric(25)
        fresh.setResonancePtr(higgs)
        fresh.init()
        fresh.rndm.init(7)
        hadrons.pythia.rndm.init(7)
        for _ in range(3):
            found = hadrons.generate(point)
            fresh.next()
            assert found == hadrons._measure(fresh.event)


def test_events_follow_from_theta_and_the_generator() -> None:
    """Whatever the same Pythia made before: else events would depend on the order of blocks."""
    example = SimpleNamespace(**runpy.run_path(str(STUDY / "simulator.py")))
    theta = np.tile([0.1365, 0.68, 0.217], (10, 1))
    first = example.simulator(theta, np.random.default_rng(1))
    other = example.simulator(theta * [0.9, 1.1, 1.2], np.random.default_rng(2))
    again = example.simulator(theta, np.random.default_rng(1))
    np.testing.assert_array_equal(first, again)
    assert (first.to_numpy() != other.to_numpy()).any(axis=0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of small samples
def test_the_study_runs(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    text = (STUDY / "study.toml").read_text()
    for old, new in SMALL.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "study.toml").write_text(text)
    shutil.copy(STUDY / "simulator.py", folder)
    # Other studies of this process may have had a file of this name.
    sys.modules.pop("simulator", None)
    try:
        result = call("run", folder)
    finally:
        sys.modules.pop("simulator", None)
    assert result.exit_code == 0, result.output
    told = json.loads((folder / "report.json").read_text())
    assert told["failed"] == {}
    assert {"alpha_s", "a_lund", "strange"} <= set(told["numbers"]["maximum likelihood"])
