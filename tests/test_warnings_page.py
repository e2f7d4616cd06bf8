"""Every warning in the source is explained on the page of warnings, and each of those exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "howto" / "warnings.md").read_text(encoding="utf-8")
#: Stands for a value, in the messages of the source as on the page.
VALUE = "…"


def text_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else VALUE for v in node.values]
        return "".join(map(str, parts))
    return None


def strings() -> Iterator[str]:
    """All strings of the package, with a mark in place of each value."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = text_of(node) if isinstance(node, ast.expr) else None
            if text:
                yield text


def warnings() -> Iterator[tuple[str, str]]:
    """Place and text of every warning that is written where it is given."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and node.args and ast.unparse(node.func)
            if called in ("warn_user", "warnings.warn"):
                assert isinstance(node, ast.Call)
                text = text_of(node.args[0])
                if text and re.search(r"\w+ \w+ \w+", text.replace(VALUE, "")):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def phrases() -> list[str]:
    """The warnings on the page: the first cells of its tables, and quoted ones."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| (?!warning |-)", line)]
    cells = [re.split(r"(?<!\\) \| ", row.removeprefix("| "))[0] for row in rows]
    quoted = re.findall(r"^> (.+)$", PAGE, re.MULTILINE)
    return [text.replace(r"\|", "|").strip() for text in [*cells, *quoted]]


def pieces(text: str) -> list[str]:
    """What is written between the values; messages are put together at these marks as well."""
    return [piece.strip() for piece in re.split(rf"{VALUE}|[:;.] ", text) if len(piece.strip()) > 3]


def is_telling(piece: str) -> bool:
    """Whether a piece says enough to find the message by."""
    return len(piece.split()) >= 4


WARNINGS = list(warnings())
SOURCE = "\n".join(strings())
PHRASES = phrases()


def test_there_are_warnings() -> None:
    assert len(WARNINGS) > 30
    assert len(PHRASES) > 40


@pytest.mark.parametrize(("place", "text"), WARNINGS, ids=[place for place, _ in WARNINGS])
def test_every_warning_is_on_the_page(place: str, text: str) -> None:
    del place
    explained = [
        phrase for phrase in PHRASES if any(is_telling(p) and p in text for p in pieces(phrase))
    ]
    assert explained, f"docs/howto/warnings.md does not explain: {text}"


@pytest.mark.parametrize("phrase", PHRASES)
def test_every_warning_of_the_page_exists(phrase: str) -> None:
    assert [piece for piece in pieces(phrase) if piece not in SOURCE] == []
