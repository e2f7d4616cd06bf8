"""What is done to the pages while they are built: formulas, examples of docstrings, links."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("latex2mathml")
PluginError = pytest.importorskip("mkdocs.exceptions").PluginError

HOOKS = Path(__file__).parents[1] / "docs" / "hooks"


def read_hook(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"hook_{name}", HOOKS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


formulas, doctests, site_check = map(read_hook, ("formulas", "doctests", "site_check"))


def test_formulas_become_mathml() -> None:
    page = (
        r'<p>a <span class="arithmatex">\(x &lt; \theta\)</span></p>'
        r'<div class="arithmatex">\[' + "\n" + r"\frac{1}{2}" + "\n" + r"\]</div>"
    )
    shown = formulas.on_page_content(page)
    assert shown.count("<math") == 2
    assert shown.count('display="block"') == 1
    assert "<mfrac>" in shown
    assert "arithmatex" not in shown
    assert "&lt;" in shown or "&#x0003C;" in shown


def test_names_of_functions_keep_their_distance() -> None:
    shown = formulas.on_page_content(r'<span class="arithmatex">\(\ln p(x; \theta)\)</span>')
    assert '<mi>ln</mi><mspace width="0.167em"/><mi>p</mi>' in shown
    assert "<mo>;</mo>" in shown
    assert "mspace" not in formulas.on_page_content(r'<span class="arithmatex">\(\ln(x)\)</span>')


@pytest.mark.parametrize("environment", ["aligned", "gathered"])
def test_lines_stay_apart(environment: str) -> None:
    latex = rf"\begin{{{environment}}} a = b \\ c = d \end{{{environment}}}"
    shown = formulas.on_page_content(rf'<div class="arithmatex">\[{latex}\]</div>')
    assert shown.count("<mtr>") == 2


def test_lines_that_run_together_end_the_build() -> None:
    with pytest.raises(PluginError, match="run together"):
        formulas.on_page_content(r'<span class="arithmatex">\(a \\ b\)</span>')


def test_a_formula_that_cannot_be_drawn_ends_the_build() -> None:
    with pytest.raises(PluginError, match="nosuchcommand"):
        formulas.on_page_content(r'<span class="arithmatex">\(\nosuchcommand x\)</span>')


def test_examples_get_a_fence() -> None:
    text = "Sum.\n\n>>> 1 + 1\n2\n>>> 2\n2\n\nMore.\n\n    >>> 3\n    3\n"
    fenced = "Sum.\n\n```pycon\n>>> 1 + 1\n2\n>>> 2\n2\n```\n\nMore.\n\n"
    assert doctests.fence(text) == fenced + "    ```pycon\n    >>> 3\n    3\n    ```\n"


def test_examples_under_a_heading_stay() -> None:
    text = "Sum.\n\nExample:\n    >>> 1 + 1\n    2\n"
    assert doctests.fence(text) == text


def problems(tmp_path: Path, body: str) -> list[str]:
    (tmp_path / "other.html").write_text('<h2 id="here">Here</h2>')
    (tmp_path / "index.html").write_text(f'<img src="other.html"><p id="top">{body}</p>')
    return list(site_check.find_problems(tmp_path))


@pytest.mark.parametrize(
    "body",
    [
        '<a href="other.html">x</a>',
        '<a href="other.html#here">x</a>',
        '<a href="#top">x</a>',
        '<a href="https://arxiv.org/abs/2210.01680">x</a>',
        '<img src="data:image/png;base64,AA==">',
    ],
)
def test_good_links(tmp_path: Path, body: str) -> None:
    assert problems(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="nothing.html">x</a>', "no file"),
        ('<a href="/other.html">x</a>', "no file"),
        ('<a href="./">x</a>', "no file"),
        ('<a href="other.html#there">x</a>', "no such anchor"),
        ('<a href="#bottom">x</a>', "no such anchor"),
        ('<script src="https://cdn.example/x.js"></script>', "loaded from elsewhere"),
        (r'<span class="arithmatex">\(x\)</span>', "not MathML"),
    ],
)
def test_bad_links(tmp_path: Path, body: str, problem: str) -> None:
    found = problems(tmp_path, body)
    assert len(found) == 1
    assert problem in found[0]
