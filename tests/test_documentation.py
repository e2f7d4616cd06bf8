"""The code of the documentation runs as it stands there, and what it names exists.

Estimators are exact instead of trained, and samples smaller; everything else is as on the page.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest
from jax.scipy.stats import expon, norm

import inferostatic as ist
from exact_estimators import dirichlet, exact_estimator

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
]
#: Smaller numbers of events and toys, for those on the pages.
SMALLER = {"100_000": "3_000", "50_000": "6_000", "20_000": "4_000", "toys=1000": "toys=40"}
#: Signal, background and resolution of the channels, in the order in which they are fitted.
CHANNELS = [(20, 100, 0.05), (30, 150, 0.1)]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def python_blocks(page: Path) -> list[str]:
    found = re.findall(r"^( *)```python\n(.*?)^\1```$", read(page), flags=re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def peak(signal: float, background: float, resolution: float) -> Any:
    """The density of the two-channel example."""

    def log_prob(x: Any, theta: Any) -> Any:
        share = signal * theta[0] / (signal * theta[0] + background)
        mass = x[0]
        tail = jnp.where(mass > 0, expon.pdf(jnp.maximum(mass, 0.0)), 0.0)
        return jnp.log(share * norm.pdf(mass, 1.0, resolution) + (1 - share) * tail)

    return log_prob


class ExactFit:
    """In place of `fit`: the exact potential of the simulator on the page."""

    def __init__(self) -> None:
        self.channels: Iterator[tuple[float, float, float]] = iter(CHANNELS)

    def __call__(self, events: Any, *_: object, **__: object) -> ist.Estimator:
        prior = events.prior
        if events.theta_names == ("mu",):
            density = peak(*next(self.channels))
            return exact_estimator(density, prior, np.array([-1.0]), np.array([20.0]))
        if prior is None:
            prior = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
        return exact_estimator(dirichlet, prior, np.zeros(3), np.ones(3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        "docs/quickstart.md",
        # Toys, NUTS and classifiers of several examples each.
        pytest.param("docs/inference.md", marks=pytest.mark.slow),
        pytest.param("docs/figures.md", marks=pytest.mark.slow),
        pytest.param("docs/report.md", marks=pytest.mark.slow),
        pytest.param("README.md", marks=pytest.mark.slow),
    ],
)
def test_the_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = ExactFit()

    def cross_fit(events: ist.Events, *, folds: int, seed: int) -> Any:
        del seed
        parts = [events[i::folds] for i in range(folds)]
        return [exact(part) for part in parts], parts

    trained: list[ist.Estimator] = []

    def fit(events: Any, *args: object, **options: object) -> ist.Estimator:
        trained.append(exact(events, *args, **options))
        return trained[-1]

    monkeypatch.setattr(ist, "fit", fit)
    monkeypatch.setattr(ist, "cross_fit", cross_fit)
    # The exact potential is no network that a file could hold.
    monkeypatch.setattr(ist, "load", lambda _: trained[-1])
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, Any] = {}
    for number, block in enumerate(python_blocks(ROOT / name)):
        for large, small in SMALLER.items():
            block = block.replace(large, small)
        exec(compile(block, f"{name}, block {number}", "exec"), names)  # noqa: S102


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
    roots.append(ROOT / "examples" / "many_events")
    paths = set(re.findall(r"`([\w/]+\.(?:py|md|txt|json))", read(page)))
    missing = []
    for path in sorted(paths):
        beside = "/" not in path and list((ROOT / "src").rglob(path))
        if not beside and not any((root / path).is_file() for root in roots):
            missing.append(path)
    assert missing == []
