"""The recipes of "Many events, many machines" stand on the page as they are here, and work.

HTCondor's is not run, because it needs a pool of HTCondor.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from slurm_node import NoSlurm, slurm_node

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "many_events"
PAGE = ROOT / "docs" / "many_events.md"
#: Sizes on the page, and smaller ones for the tests; trainings are a quick look.
EVENTS, SHARES = 4000, 3
SMALLER = {
    "1_000_000": f"{EVENTS:_}",
    "1000000": f"{EVENTS}",
    "SHARES = 16": f"SHARES = {SHARES}",
    "0-99": f"0-{SHARES - 1}",
    "/100": f"/{SHARES}",
    'checkpoint", seed=2': 'checkpoint", training=ist.Training(effort=0.05), seed=2',
}
#: Is installed once, into an environment of its own: it needs other versions of some packages.
SNAKEMAKE = "snakemake==9.27.1"


def shrink(text: str) -> str:
    for large, small in sorted(SMALLER.items(), key=lambda item: -len(item[0])):
        text = text.replace(large, small)
    return text


def blocks(language: str) -> list[str]:
    pattern = rf"^( *)```{language}\n(.*?)^\1```$"
    found = re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recipes with few events, in the current folder."""
    for file in RECIPES.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(shrink(file.read_text()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """`python` and `inferostatic` are those of the tests."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}


def judge(folder: Path) -> None:
    """The store is that of a simulation in memory."""
    user = runpy.run_path(str(folder / "simulator.py"))
    expected = ist.simulate(user["simulator"], user["prior"], EVENTS, seed=1)
    store = ist.Store(folder / "events")
    assert store.status(verify=True).complete
    np.testing.assert_array_equal(store.events().x, expected.x)
    np.testing.assert_array_equal(store.events().theta, expected.theta)


def run(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    made = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return made


def test_the_page_has_every_recipe_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = [file for file in sorted(RECIPES.iterdir()) if file.is_file()]
    assert len(files) == 8
    for file in files:
        assert f"\n{file.read_text(encoding='utf-8')}```\n" in page, file.name
        assert f"`{file.name}`" in page


def test_the_commands_of_the_page_are_those_of_the_recipes() -> None:
    """A share is the same wherever it is made, so that one may go on with another recipe."""
    for name in ("Snakefile", "slurm.sh", "htcondor.sub"):
        text = (RECIPES / name).read_text().replace('"\n        "', "").replace(" \\\n   ", "")
        assert "--events 1000000 --store events --seed 1 --parts " in text, name
    assert [large for large in SMALLER if large not in PAGE.read_text(encoding="utf-8")] == []


@pytest.mark.slow
def test_a_laptop(folder: Path, environment: dict[str, str]) -> None:
    run([sys.executable, "laptop.py"], environment)
    judge(folder)
    assert ist.load("model.isn").x_names == ("x0",)
    before = (folder / "model.isn").stat().st_mtime_ns
    run([sys.executable, "train.py"], environment)  # which only opens the checkpoint
    assert (folder / "model.isn").stat().st_mtime_ns > before


@pytest.mark.slow
def test_a_dask_cluster_on_this_machine(folder: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("distributed")
    made = run([sys.executable, "dask_cluster.py"], environment)
    assert f"{EVENTS:,} of {EVENTS:,} events" in made.stdout
    judge(folder)


@pytest.mark.slow
def test_a_dask_cluster_that_exists(folder: Path, environment: dict[str, str]) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        run([sys.executable, "dask_cluster.py", cluster.scheduler_address], environment)
    judge(folder)


@pytest.fixture(scope="module")
def snakemake() -> str:
    place = ROOT / ".pytest_cache" / SNAKEMAKE.replace("==", "-")
    program = place / "bin" / "snakemake"
    if not program.exists():
        venv.create(place, with_pip=True, clear=True)
        made = subprocess.run(
            [place / "bin" / "python", "-m", "pip", "install", "-qq", SNAKEMAKE],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            shutil.rmtree(place)
            pytest.skip(f"{SNAKEMAKE} could not be installed: {made.stderr[-300:]}")
    return str(program)


@pytest.mark.slow
def test_snakemake(folder: Path, environment: dict[str, str], snakemake: str) -> None:
    # Snakemake is a program of another environment, which must not see the packages of this one.
    (folder / "bin").mkdir()
    for name in ("python", "inferostatic"):
        script = folder / "bin" / name
        own = Path(sys.executable).parent / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "src"}" exec "{own}" "$@"\n')
        script.chmod(0o755)
    clean = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
    clean |= {"PATH": f"{folder / 'bin'}:{environment['PATH']}", "HOME": str(folder)}
    run([snakemake, "--cores", "2"], clean)
    judge(folder)
    assert (folder / "model.isn").is_file()
    again = run([snakemake, "--cores", "2"], clean)
    assert "Nothing to be done" in again.stdout + again.stderr


@pytest.fixture
def slurm() -> Iterator[dict[str, str]]:
    try:
        with slurm_node() as environment:
            yield environment
    except NoSlurm as reason:
        pytest.skip(f"the SLURM recipe is not run: {reason}")


@pytest.mark.slow
def test_slurm(folder: Path, environment: dict[str, str], slurm: dict[str, str]) -> None:
    used = environment | {"SLURM_CONF": slurm["SLURM_CONF"]}
    run(["sbatch", "--wait", "slurm.sh"], used)
    judge(folder)
    logs = sorted(folder.glob("slurm-*.out"))
    assert len(logs) == SHARES
    assert "share 2 of 0 to 2: made" in logs[2].read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of small samples
def test_the_blocks_of_the_page_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, without the files, which the tests above run."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "simulator", raising=False)
    names: dict[str, Any] = {}
    files = {file.read_text(encoding="utf-8") for file in RECIPES.glob("*.py")}
    for number, block in enumerate(block for block in blocks("python") if block not in files):
        exec(compile(shrink(block), f"{PAGE.name}, block {number}", "exec"), names)  # noqa: S102
    sys.modules.pop("simulator", None)
