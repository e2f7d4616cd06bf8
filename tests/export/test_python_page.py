"""The code of the page about other Python programs runs, with random weights for trained ones."""

from pathlib import Path
from typing import Any

import pytest

import inferostatic as ist
from page_blocks import ROOT, run_blocks
from random_estimators import random_estimator

PAGE = ROOT / "docs" / "export_python.md"


def run_page(folder: Path, monkeypatch: pytest.MonkeyPatch, *, slow: bool) -> None:
    def make_random(events: Any, **_: object) -> Any:
        return random_estimator(ist.Potential(ist.MLP((8,))), x_names=events.x_names)

    monkeypatch.setattr(ist, "fit", make_random)
    monkeypatch.chdir(folder)
    run_blocks(PAGE, folder, {"__name__": "page"}, slow=slow)
    exec((folder / "load.py").read_text(encoding="utf-8"), {"__name__": "page"})  # noqa: S102


def test_the_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(tmp_path, monkeypatch, slow=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(tmp_path, monkeypatch, slow=True)
