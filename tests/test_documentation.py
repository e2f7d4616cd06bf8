"""The code of the documentation runs as it stands there, and what it names exists.

Estimators are exact instead of trained, or trained for an epoch, and samples are smaller;
everything else is as on the page.
"""

import ast
import inspect
import multiprocessing
import re
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pytest

import inferostatic as ist
from page_blocks import ROOT, ExactFit, read_blocks, run_blocks

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
]
#: Pages whose code runs with exact potentials in place of trained ones.
EXACT = [
    "docs/quickstart.md",
    "docs/howto/categories.md",
    "docs/howto/cost.md",
    "docs/howto/external_program.md",
    "docs/howto/from_pyhf.md",
    "docs/howto/from_sbi.md",
    "docs/howto/signal_over_background.md",
]
#: Toys, NUTS, classifiers or many simulated events.
SLOW = ["README.md", "docs/inference.md", "docs/figures.md", "docs/report.md"]
#: Pages about training, whose networks are trained for an epoch.
TRAINED = ["docs/choosing.md", "docs/export_cpp.md", "docs/latent.md"]
#: Their recipes are files, which tests/examples/test_many_events.py runs.
RECIPES = ["docs/many_events.md"]
#: Run by tests/export/test_python_page.py, with networks of random weights.
EXPORTED_PYTHON = ["docs/export_python.md"]
#: Files that studies and exports make.
MADE = ["report.json", "config.json", "log.txt", "metadata.json"]
#: Signatures in place of code.
SIGNATURES = ["docs/api.md"]
#: Needs a network, since an exact potential cannot be exported; trained for an epoch.
EXPORTED = ["docs/export.md"]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def use_exact_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = ExactFit()
    monkeypatch.setattr(ist, "fit", exact)
    monkeypatch.setattr(ist, "cross_fit", exact.cross_fit)
    monkeypatch.setattr(ist, "load", exact.load)


def test_every_page_with_code_is_run() -> None:
    with_code = {page.relative_to(ROOT).as_posix() for page in PAGES if read_blocks(page)}
    exported = {*EXPORTED, *EXPORTED_PYTHON}
    assert with_code == {*EXACT, *SLOW, *TRAINED, *RECIPES, *SIGNATURES, *exported}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXACT)
def test_the_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_exact_fits(monkeypatch)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    run_blocks(ROOT / name, tmp_path, {"__name__": "page"})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*EXACT, *SLOW])
def test_all_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those marked as slow, and those that start processes."""
    use_exact_fits(monkeypatch)
    if name == "docs/quickstart.md":
        # What stands in for a fit exists in this process only; a worker would end without a word.
        threads = SimpleNamespace(Pool=ThreadPool)
        monkeypatch.setattr(multiprocessing, "get_context", lambda kind: {"spawn": threads}[kind])
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    run_blocks(ROOT / name, tmp_path, {"__name__": "__main__"}, slow=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*TRAINED, *EXPORTED])
def test_the_blocks_train(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = ist.fit

    def train_shortly(*args: Any, **options: Any) -> Any:
        return trained(*args, **{"training": ist.Training(epochs=1), **options})

    monkeypatch.setattr(ist, "fit", train_shortly)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    begun: dict[str, Any] = {"__name__": "page"}
    if name == "docs/choosing.md":  # which goes on from the quickstart
        first = read_blocks(ROOT / "docs/quickstart.md")[0].code.replace("20_000", "2_000")
        exec(first, begun)  # noqa: S102
    run_blocks(ROOT / name, tmp_path, begun, slow=True)


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signatures_are_right(name: str) -> None:
    calls = 0
    for block in read_blocks(ROOT / name):
        for node in ast.walk(ast.parse(block.code.replace(", …)", ")"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("ist."):
                called = getattr(ist, ast.unparse(node.func).removeprefix("ist."))
                keywords = {str(word.arg): word.value for word in node.keywords}
                inspect.signature(called).bind(*node.args, **keywords)
                calls += 1
    assert calls > 20


def find_names(page: Path) -> set[str]:
    return set(re.findall(r"\bist\.([A-Za-z_][\w.]*\w|[A-Za-z_])", read(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_exists(page: Path) -> None:
    if page.stem == "CHANGELOG":
        return  # which lists former names
    missing = []
    for name in sorted(find_names(page)):
        found: Any = ist
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            missing.append(f"ist.{name}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_exists(page: Path) -> None:
    roots = [ROOT, ROOT / "src" / "inferostatic", ROOT / "benchmarks"]
    roots += [ROOT / "examples" / folder for folder in ("many_events", "cpp")]
    paths = set(re.findall(r"`([\w/]+\.(?:py|md|txt|json))", read(page)))
    missing = []
    for path in sorted(paths):
        made = path in MADE or any(block.title == path for block in read_blocks(page))
        beside = made or "/" not in path and list((ROOT / "src").rglob(path))
        if not beside and not any((root / path).is_file() for root in roots):
            missing.append(path)
    assert missing == []
