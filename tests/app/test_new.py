"""What `inferostatic new` writes is valid, and runs as it is, alone and by schedulers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import inferostatic as ist
from inferostatic.app.cli import app
from inferostatic.app.config.checks import list_missing_packages
from inferostatic.app.config.reading import read_study
from tiny_study import call

ROOT = Path(__file__).parents[2]
#: Installed there by the tests of the recipes.
SNAKEMAKE = ROOT / ".pytest_cache" / "snakemake-9.27.1" / "bin" / "snakemake"


def test_a_new_study_is_valid_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    folder = tmp_path / "deep" / "study"
    result = call("new", folder, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["files"] == [
        str(folder / "study.toml"),
        str(folder / "simulator.py"),
    ]
    study = read_study(folder)
    assert list(study.prior) == ["mass", "lifetime"]
    assert study.infer is not None
    assert study.infer.posterior is not None
    before = (folder / "study.toml").read_bytes()
    result = call("new", folder, "--slurm")
    assert result.exit_code == 2
    assert "has study.toml, simulator.py already" in result.output
    assert sorted(path.name for path in folder.iterdir()) == ["simulator.py", "study.toml"]
    assert (folder / "study.toml").read_bytes() == before


def test_lines_that_are_comments_are_valid_too(tmp_path: Path) -> None:
    """Keys that a user may take in by removing the sign."""
    call("new", tmp_path / "study")
    file = tmp_path / "study" / "study.toml"
    text = file.read_text()
    for line in ("# workers = 4", "# epochs = 20", "# members = 2", '# version = "1"', "# scale ="):
        assert f"\n{line}" in text, line
        text = text.replace(f"\n{line}", f"\n{line.removeprefix('# ')}")
    points = ("mass = 2.2, lifetime = 1.2", "mass = 2.4, lifetime = 1.0")
    for point in points:
        text = text.replace(point, f"{point}, scale = 1.0")
    file.write_text(text)
    study = read_study(tmp_path / "study")
    assert (study.simulate.workers, study.fit.members, study.simulator.version) == (4, 2, "1")


def test_without_iminuit_a_new_study_does_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "iminuit", None)
    result = call("new", tmp_path / "study")
    assert "[infer.maximum_likelihood] is left out, because iminuit is not inst" in result.output
    study = read_study(tmp_path / "study")
    assert study.infer is not None
    assert study.infer.maximum_likelihood is None
    assert study.infer.calibrated_fit is not None
    assert list_missing_packages(study) == []
    text = (tmp_path / "study" / "study.toml").read_text()
    command = "# needs pip install 'inferostatic[inference]'"
    assert f"\n# [infer.maximum_likelihood]             {command}\n" in text


def test_a_study_names_all_extras_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("new", tmp_path / "study")
    file = tmp_path / "study" / "study.toml"
    text = file.read_text().replace('# data = "observed.csv"', 'data = "observed.root"')
    simulated = text[text.index("[infer.simulated]") : text.index("# The questions")]
    file.write_text(text.replace(simulated, "").replace("# [infer.max", "[infer.max"))
    for name in ("iminuit", "uproot"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "study" / "observed.root").write_bytes(b"not read")
    result = call("infer", tmp_path / "study")
    assert result.exit_code == 1, result.output
    needs = "this study needs iminuit, uproot: pip install 'inferostatic[inference,readers]'."
    assert needs in result.output


def test_citation() -> None:
    cited = CliRunner().invoke(app, ["--cite"]).stdout
    citation = (ROOT / "CITATION.cff").read_text()
    assert ist.__version__ in cited
    assert "2210.01680" in cited
    assert "2210.01680" in citation
    for name in ("Kong", "Matchev", "Mrenna", "Shyamsundar"):
        assert name in cited
        assert name in citation
    assert cited.count("{") == cited.count("}")


def test_completion() -> None:
    environment = {
        "_INFEROSTATIC_COMPLETE": "complete_bash",
        "COMP_WORDS": "x di",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="inferostatic")
    assert result.stdout.split() == ["diagnose"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`inferostatic` is that of the tests."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "inferostatic"
    code = "from inferostatic.app.cli import main; import sys; sys.argv[0] = 'inferostatic'; main()"
    source = ROOT / "src"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {sys.executable} -c "{code}" "$@"\n')
    script.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return kept | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "JAX_PLATFORMS": "cpu"}


def shrink(folder: Path) -> None:
    file = folder / "study.toml"
    text = file.read_text().replace("# effort = 0.1 ", "epochs = 3 # ")
    assert "epochs = 3" in text
    file.write_text(text)


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    made = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.slow
def test_a_new_study_runs_as_it_is(tmp_path: Path, environment: dict[str, str]) -> None:
    call("new", tmp_path / "study")
    run(["inferostatic", "run", "study"], tmp_path, environment)
    assert (tmp_path / "study" / "report.html").stat().st_size < 3e6
    numbers = json.loads((tmp_path / "study" / "report.json").read_text())["numbers"]
    fit = numbers["calibrated fit"]
    for name, truth in (("mass", 2.2), ("lifetime", 1.2)):
        assert abs(fit[name] - truth) < 4 * fit[f"{name}: error"]


@pytest.mark.slow
def test_the_slurm_script(tmp_path: Path, environment: dict[str, str]) -> None:
    """As SLURM calls it: once for each share, then without a number."""
    folder = tmp_path / "study"
    call("new", folder, "--slurm")
    shrink(folder)
    for share in ("1", "0"):
        numbered = {"SLURM_ARRAY_TASK_ID": share, "SLURM_ARRAY_TASK_COUNT": "2"}
        run(["bash", "slurm.sh"], folder, environment | numbered)
    assert not (folder / "report.html").exists()
    run(["bash", "slurm.sh"], folder, environment)
    assert call("status", folder).exit_code == 0


@pytest.mark.slow
def test_the_snakefile(tmp_path: Path, environment: dict[str, str]) -> None:
    program = shutil.which("snakemake") or str(SNAKEMAKE)
    if not Path(program).exists():
        pytest.skip("snakemake is not installed; tests/examples/test_many_events.py does so")
    folder = tmp_path / "study"
    call("new", folder, "--snakemake")
    shrink(folder)
    run([program, "--cores", "2"], folder, environment | {"HOME": str(tmp_path)})
    assert call("status", folder).exit_code == 0
