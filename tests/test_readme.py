"""The quickstart runs, the links of the README lead somewhere, and the API page is complete."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

import inferostatic as ist

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
EXAMPLE = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
#: Lines of the example that the page does without.
ADDED = "# not on the page"
#: Lines of the README before the citation: two screens.
SHORT = 90

QUICKSTART = """\
import numpy as np
import inferostatic as ist

def my_simulator(theta, rng):                                       # theta (n,d) -> x (n,D), plain NumPy
    g = rng.standard_gamma(theta)
    return g / g.sum(axis=1, keepdims=True)

prior   = ist.Uniform([0.5, 0.5, 0.5], [5, 5, 5], names=["a", "b", "c"])
events  = ist.simulate(my_simulator, prior, 100_000, seed=1)
est     = ist.fit(events, seed=2)                                   # best default method (multi-scale KCE), sensible network
est     = ist.fit(events, ist.KLRE(ist.Rectangular(0.4)), network=ist.MLP((32, 32, 32)), members=5, seed=2)
records = ist.draw(ist.KSE(ist.Delta(0.25)), my_simulator, prior, 100_000, seed=3)   # the paper's flowcharts
est     = ist.fit(records, seed=4)

x, theta = events.x[:5], events.theta[:5]
est.score(x, theta); est.log_ratio(x, theta, [1, 2, 2]); est.potential(x, theta)      # batched NumPy
est.save("model.isn"); est = ist.load("model.isn")
x_observed = my_simulator(np.tile([1.5, 3.0, 4.0], (1000, 1)), np.random.default_rng(7))
ist.maximum_likelihood(est, x_observed).theta
"""  # noqa: E501


def test_the_page_has_the_quickstart() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert QUICKSTART in blocks


def test_the_readme_fits_on_two_screens() -> None:
    lines = README.partition("## Citation")[0].splitlines()
    assert len(lines) < SHORT
    assert sum(line.startswith("|") for line in lines) == 0  # tables are on the site


def test_the_example_has_the_quickstart() -> None:
    block = EXAMPLE.partition("# fmt: off\n")[2].partition("# fmt: on\n")[0]
    lines = [line for line in block.splitlines(keepends=True) if ADDED not in line]
    assert "".join(lines) == QUICKSTART


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShortTraining(ist.Training):
    epochs: int = 5


# After so little training the estimates may lie at an edge, of which users are warned.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the estimate lies at the edge")
@pytest.mark.filterwarnings("ignore:.*the members disagree")
def test_the_quickstart_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "quickstart.py"
    text = EXAMPLE.replace("100_000", "2_000").replace("NEW_EVENTS = 20_000", "NEW_EVENTS = 200")
    small.write_text(text, encoding="utf-8")
    monkeypatch.setattr("inferostatic.learning.arguments.Training", ShortTraining)
    monkeypatch.setattr("inferostatic.learning.arguments.choose_network_size", lambda _: (8, 1))
    monkeypatch.setattr("sys.argv", [str(small), "--figure", "scores.png"])
    monkeypatch.chdir(tmp_path)
    left = runpy.run_path(str(small), run_name="__main__")
    assert [str(e.method) for e in left["estimators"].values()] == ["KCE", "KLRE", "KSE", "KCE"]
    assert [e.members for e in left["estimators"].values()] == [1, 5, 1, 1]
    assert left["est"].theta_names == ("a", "b", "c")
    # The exact answer does not depend on any training.
    assert "1.46 ± 0.05   2.88 ± 0.09   4.02 ± 0.13" in capsys.readouterr().out
    assert (tmp_path / "model.isn").is_file()
    assert (tmp_path / "scores.png").is_file()


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_the_commands(command: str) -> None:
    assert command in README
    target = command.removeprefix("make ")
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README) + re.findall(r'src="([^"]+)"', README)
    local = [link for link in links if not link.startswith("http")]
    assert local
    assert [link for link in local if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", dir(ist))
def test_the_api_page_has_every_public_name(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.search(rf"^::: inferostatic\.{name}$|^`ist\.{name}` ", page, re.MULTILINE)
