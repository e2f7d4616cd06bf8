"""What every result must show of itself, on a terminal and in a notebook."""

import re
from html.parser import HTMLParser
from typing import Any

#: Characters of a repr, at most: a few lines of a terminal.
LONGEST_REPR = 500
#: Elements that a table in a notebook is made of; none of them can run anything.
HARMLESS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
#: Arrays as NumPy, JAX and Equinox write them.
ARRAY = re.compile(r"array\(|\(numpy\)|dtype=|\bf32\[|\[\s*-?\d+\.\d*\s+-?\d")


class Elements(HTMLParser):
    """The elements of a piece of HTML, which must be closed in their order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def check_manners(result: Any) -> None:
    """A short repr in one line, a summary in lines, and HTML that says the same."""
    shown = repr(result)
    assert "\n" not in shown
    assert len(shown) <= LONGEST_REPR, shown
    assert shown.startswith(f"{type(result).__name__}(")
    assert not ARRAY.search(shown), shown
    text = result.summary()
    assert text.strip()
    assert not ARRAY.search(text), text
    assert all(line == line.rstrip() for line in text.splitlines())
    html = Elements(result._repr_html_())
    assert not html.open
    assert html.seen <= HARMLESS
    assert html.attributes <= {"style"}
    # Every word of the summary is in the HTML.
    assert set(text.split()) <= set(re.sub(r"\s+", " ", _spaced(result._repr_html_())).split())


def _spaced(html: str) -> str:
    return Elements(
        html.replace("</td>", " </td>")
        .replace("</th>", " </th>")
        .replace("</div>", " </div>")
        .replace("</strong>", " </strong>")
    ).text
