"""Every example in a docstring runs and prints what it says.

Docstrings are read from the source, since doctest overlooks functions that are wrapped, as the type
checks of these tests wrap them.
"""

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "inferostatic"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def with_examples() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            yield path.relative_to(PACKAGE).as_posix()


def find_examples(path: Path, globs: dict[str, object]) -> Iterator[doctest.DocTest]:
    parser = doctest.DocTestParser()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text and ">>> " in text:
            name = getattr(node, "name", path.stem)
            yield parser.get_doctest(text, dict(globs), name, str(path), 0)


def test_there_are_examples() -> None:
    assert len(list(with_examples())) >= 6


@pytest.mark.parametrize("file", list(with_examples()))
def test_examples(file: str) -> None:
    module = importlib.import_module(f"inferostatic.{file.removesuffix('.py').replace('/', '.')}")
    examples = list(find_examples(PACKAGE / file, vars(module)))
    assert sum(len(example.examples) for example in examples) == (PACKAGE / file).read_text(
        encoding="utf-8"
    ).count(">>> ")
    runner = doctest.DocTestRunner()
    report: list[str] = []
    for example in examples:
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)
