"""What results show of themselves: `summary()` as text, and the same as HTML in a notebook.

A record states its title, lines and tables once, in `_summarise`. Names and other texts of the user
are cleaned of control characters in text, and escaped in HTML.
"""

import abc
import dataclasses
import html
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from .tables import format_table

#: Names that a line lists at most.
SHOWN_NAMES = 8
#: Characters of a name that a line shows at most.
SHOWN_CHARACTERS = 40
#: Rows of a table that grows with the data, at most.
SHOWN_ROWS = 20
#: HTML that inherits colours and font of the page, in light and dark themes alike.
CELL = '<{tag} style="text-align: {side}">{text}</{tag}>'


@dataclasses.dataclass(frozen=True)
class SummaryTable:
    """A table of a summary.

    Attributes:
        columns: cells of each column by its heading. Without any text in the headings, no line is
            made of them.
        left: headings of left-aligned columns; default the first one.
        indent: spaces before each line of the text.
    """

    columns: Mapping[str, Sequence[str]]
    left: Collection[str] | None = None
    indent: int = 0

    def lines(self) -> list[str]:
        """As text."""
        left = None if self.left is None else [clean(heading) for heading in self.left]
        columns: dict[str, list[str]] = {}
        for name, cells in self.columns.items():
            heading = clean(name)
            while heading in columns:  # names that differ only in what was cleaned
                heading += " "
            columns[heading] = [*map(clean, cells)]
        lines = format_table(columns, left=left)
        return [" " * self.indent + line for line in (lines if self._headed else lines[1:])]

    def html(self) -> str:
        """As HTML."""
        left = tuple(self.columns)[:1] if self.left is None else self.left
        sides = ["left" if heading in left else "right" for heading in self.columns]
        rows = [_row("td", cells, sides) for cells in zip(*self.columns.values(), strict=True)]
        head = f"<thead>{_row('th', self.columns, sides)}</thead>" if self._headed else ""
        return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"

    @property
    def _headed(self) -> bool:
        return any(heading.strip() for heading in self.columns)


@dataclasses.dataclass(frozen=True)
class Summary:
    """A title, then lines of text and tables in their order."""

    title: str
    parts: tuple[str | SummaryTable, ...] = ()

    def text(self) -> str:
        """For a terminal."""
        lines = [clean(self.title)]
        for part in self.parts:
            lines += [clean(part)] if isinstance(part, str) else part.lines()
        return "\n".join(line.rstrip() for line in lines)

    def html(self) -> str:
        """For a notebook: no scripts, no colours of its own."""
        parts = [
            f"<div>{escape(part)}</div>" if isinstance(part, str) else part.html()
            for part in self.parts
        ]
        return f"<div><div><strong>{escape(self.title)}</strong></div>{''.join(parts)}</div>"


class AbstractSummarised(abc.ABC):
    """A record that people look at."""

    @abc.abstractmethod
    def _summarise(self) -> Summary:
        """All that is worth showing."""

    def summary(self) -> str:
        """What is worth knowing about it, in a few lines."""
        return self._summarise().text()

    def _repr_html_(self) -> str:
        """The summary, in a notebook."""
        return self._summarise().html()


def tabulate_facts(facts: Mapping[str, str]) -> SummaryTable:
    """A table without headings: names, and what is to be said of each."""
    return SummaryTable({"": list(facts), " ": list(facts.values())}, left=("", " "))


def tabulate_first(
    columns: Mapping[str, Sequence[str]], left: Collection[str] | None = None
) -> tuple[SummaryTable | str, ...]:
    """A table of the first rows, and a line on the others where there are any."""
    rest = len(next(iter(columns.values()))) - SHOWN_ROWS
    first = SummaryTable({name: cells[:SHOWN_ROWS] for name, cells in columns.items()}, left=left)
    return (first,) if rest <= 0 else (first, f"… and {rest:,} more")


def tabulate_arrays(
    kind: str, names: Sequence[str], values: np.ndarray
) -> tuple[SummaryTable | str, ...]:
    """Moments and range of each column of an array, shape (n, k), without weights."""
    shown = [np.asarray(values[:, i], np.float64) for i in range(len(names[:SHOWN_ROWS]))]
    columns = {
        kind: list(names),
        "mean": [f"{column.mean():.4g}" for column in shown],
        "standard deviation": [f"{column.std():.4g}" for column in shown],
        "from": [f"{column.min():.4g}" for column in shown],
        "to": [f"{column.max():.4g}" for column in shown],
    }
    return tabulate_first(columns)


def clean(text: str) -> str:
    """Text in one line, without characters that would move a terminal's cursor or colour it."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "�" for one in text)


def escape(text: str) -> str:
    """Text that HTML shows as it is."""
    return html.escape(clean(text))


def shorten(text: str, most: int = SHOWN_CHARACTERS) -> str:
    """The beginning of a text in one line."""
    text = clean(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def list_names(names: Iterable[str]) -> str:
    """Names in a line, the first few of many.

    >>> list_names(["a", "b"]), list_names([f"x{i}" for i in range(100)])
    ('a, b', 'x0, x1, x2, x3, x4, x5, x6, x7, … (100)')
    """
    names = list(names)
    text = ", ".join(map(shorten, names[:SHOWN_NAMES]))
    return text if len(names) <= SHOWN_NAMES else f"{text}, … ({len(names)})"


def list_estimates(names: Sequence[str], values: Iterable[float], errors: Iterable[float]) -> str:
    """Values with errors in a line; an error of 0 is that of a fixed parameter.

    >>> list_estimates(["a", "b"], [1.23456, 2], [0.123, 0])
    'a = 1.235 ± 0.12, b = 2 (fixed)'
    """
    return list_parts(
        f"{shorten(name)} = {value:.4g} {f'± {error:.2g}' if error != 0 else '(fixed)'}"
        for name, value, error in zip(names, values, errors, strict=True)
    )


def list_ranges(names: Sequence[str], ends: Iterable[Sequence[float]]) -> str:
    """Ranges in a line, such as `a from 0.5 to 2`."""
    each = zip(names, ends, strict=True)
    return list_parts(f"{shorten(name)} from {low:.4g} to {high:.4g}" for name, (low, high) in each)


def list_parts(parts: Iterable[str]) -> str:
    """Phrases in a line, the first few of many."""
    parts = list(parts)
    rest = len(parts) - SHOWN_NAMES
    return ", ".join(parts) if rest <= 0 else f"{', '.join(parts[:SHOWN_NAMES])}, … and {rest} more"


def count(number: int, noun: str) -> str:
    """A number with its noun, in the singular or the plural.

    >>> count(1, "event"), count(12_000, "event")
    ('1 event', '12,000 events')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _row(tag: str, cells: Iterable[str], sides: Sequence[str]) -> str:
    each = zip(cells, sides, strict=True)
    made = (CELL.format(tag=tag, side=side, text=escape(text)) for text, side in each)
    return f"<tr>{''.join(made)}</tr>"
