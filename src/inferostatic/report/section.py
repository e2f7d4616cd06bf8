"""The parts of a report as plain records: sections with a verdict, text, tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from matplotlib.figure import Figure

#: First bytes of every PNG file.
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: First bytes of an SVG file, with or without the declaration of XML.
SVG_BEGINS = (b"<?xml", b"<svg")

Scalar = str | bool | int | float | np.generic | None


class Mark(Enum):
    """How a cell is set off from the others: by a colour and by a sign that survives print."""

    GOOD = "good"
    BAD = "bad"
    NOTE = "note"


class Level(Enum):
    """How far a result can be relied on."""

    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"


@dataclass(frozen=True)
class Verdict:
    """What a section amounts to.

    Args:
        level: how far the result can be relied on.
        text: why, and what to do about it, in a sentence or two.
    """

    level: Level
    text: str


@dataclass(frozen=True)
class Cell:
    """One table entry that is marked or has its own number format.

    Args:
        value: Text, a number, a truth value or None (shown as a dash).
        mark: How to set the cell off, for example `Mark.GOOD` for a value within its tolerance.
        number_format: Format specification for this number, in place of the table's.
    """

    value: Scalar
    mark: Mark | None = None
    number_format: str | None = None


@dataclass(frozen=True)
class Table:
    """A table with one header row.

    Args:
        header: Column titles.
        rows: Rows of as many entries as the header: plain values or `Cell` records.
        caption: Text shown above the table.
        number_format: Format specification for floating-point numbers, such as ".3f".
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Scalar | Cell]]
    caption: str = ""
    number_format: str = ".4g"

    def __post_init__(self) -> None:
        """Check that the rows fit the header."""
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise ValueError(
                    f"table {self.caption!r}: row {number} has {len(row)} entries but the header "
                    f"has {len(self.header)} columns {list(self.header)}"
                )


@dataclass(frozen=True)
class FigureItem:
    """A figure with its caption.

    A matplotlib figure is inlined as SVG, or as PNG where its vector form would be large.

    Args:
        figure: A matplotlib figure, or the bytes of a PNG or SVG file.
        caption: Text shown below the figure.
        alt: What the figure shows, for readers who cannot see it; the caption by default.
        width: Of bytes on the page, in CSS pixels; by default as wide as the file says.
    """

    figure: Figure | bytes
    caption: str = ""
    alt: str = ""
    width: int | None = None

    def __post_init__(self) -> None:
        """Check that bytes are a picture."""
        begins = (PNG_SIGNATURE, *SVG_BEGINS)
        if isinstance(self.figure, bytes) and not self.figure.startswith(begins):
            raise ValueError(
                f"figure {self.caption!r}: expected a matplotlib figure or the bytes of a PNG or "
                f"SVG file, got {len(self.figure)} bytes that begin with {self.figure[:8]!r}"
            )


@dataclass(frozen=True)
class Section:
    """One part of a report: a verdict, text, then tables, then figures.

    Args:
        title: Heading.
        text: Plain text; a blank line begins a new paragraph.
        tables: Tables, in order.
        figures: Figures, in order.
        verdict: What the section amounts to; the page repeats all verdicts at its top.
    """

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[FigureItem] = ()
    verdict: Verdict | None = None


def worst_level(sections: Sequence[Section]) -> Level | None:
    """The worst verdict of some sections; None where none has one."""
    order = list(Level)
    found = [order.index(one.verdict.level) for one in sections if one.verdict is not None]
    return order[max(found)] if found else None
