"""Reports: one HTML file that holds its text, tables, figures and style.

A report is a title, a table of settings and a sequence of sections, all plain records. The file it
becomes needs nothing else: figures are inlined, there is no script and nothing is loaded from
elsewhere, which a content security policy also forbids, so it can be mailed, archived or printed.
All text is escaped, and characters that hide or reverse text are shown by their number. Files
appear whole or not at all: a failure while rendering or writing leaves an older report as it was.
"""

import base64
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import numpy as np
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from ..files import write_whole

#: First bytes of every PNG file.
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: What a missing value is shown as.
_EMPTY = "—"
#: Resolution of figures with a heat map: sharp on screens, a tenth of the size of their SVG.
_PNG_DPI = 160
#: What text must look like to be set as a number: "15.515", "0.049 ± 0.002", "12%", "<1e-3".
_NUMERIC = re.compile(r"[<>≈~]?\s*[-+−]?\s*(\d|\.\d)[\d.,eE%±+\-−×()\s]*|[-−+]?(inf|nan)|—|")
#: Characters that are shown by their number: those that reverse the text around them, so that a
#: page reads differently from what it says, halves of surrogate pairs, which UTF-8 cannot hold,
#: and control characters other than tab and line ends.
_HIDDEN = re.compile(
    "[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
    "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]"
)

_Scalar = str | bool | int | float | np.generic | None


class Mark(Enum):
    """How a cell is set off from the others: by a colour and by a sign that survives print."""

    GOOD = "good"
    BAD = "bad"
    NOTE = "note"


@dataclass(frozen=True)
class Cell:
    """One table entry that is marked or has its own number format.

    Args:
        value: Text, a number, a truth value or None (shown as a dash).
        mark: How to set the cell off, for example `Mark.GOOD` for a value within its tolerance.
        number_format: Format specification for this number, in place of the table's.
    """

    value: _Scalar
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
    rows: Sequence[Sequence[_Scalar | Cell]]
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

    A matplotlib figure is inlined as SVG, or as PNG where it holds a heat map, whose vector form
    would be large.

    Args:
        figure: A matplotlib figure, or the bytes of a PNG file.
        caption: Text shown below the figure, and its alternative for screen readers.
    """

    figure: Figure | bytes
    caption: str = ""

    def __post_init__(self) -> None:
        """Check that bytes are a PNG file."""
        if isinstance(self.figure, bytes) and not self.figure.startswith(_PNG_SIGNATURE):
            raise ValueError(
                f"figure {self.caption!r}: expected a matplotlib figure or the bytes of a PNG "
                f"file, got {len(self.figure)} bytes that begin with {self.figure[:8]!r}"
            )


@dataclass(frozen=True)
class Section:
    """One part of a report: text, then tables, then figures.

    Args:
        title: Heading.
        text: Plain text; a blank line begins a new paragraph.
        tables: Tables, in order.
        figures: Figures, in order.
    """

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[FigureItem] = ()


def write_report(
    path: str | os.PathLike[str],
    *,
    title: str,
    sections: Sequence[Section],
    settings: Mapping[str, object] | None = None,
    summary: str = "",
) -> Path:
    """Write a self-contained HTML file, replacing an older one only when complete; its path.

    Args:
        path: File to write; missing folders are made.
        title: Title of the page.
        sections: The parts, in order.
        settings: Names and values of what was run, shown as a table at the end.
        summary: Plain text below the title; a blank line begins a new paragraph.
    """
    page = render_report(title=title, sections=sections, settings=settings, summary=summary)
    return _write(path, page.encode("utf-8"))


def render_report(
    *,
    title: str,
    sections: Sequence[Section],
    settings: Mapping[str, object] | None = None,
    summary: str = "",
) -> str:
    """The HTML text that `write_report` writes, for showing in a notebook or serving."""
    source = resources.files("inferostatic.report") / "templates" / "report.html.j2"
    environment = jinja2.Environment(
        autoescape=True,
        finalize=_show_hidden,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string(source.read_text(encoding="utf-8"))
    return template.render(
        title=title,
        summary=_paragraphs(summary),
        sections=[_section_view(section) for section in sections],
        settings=[(str(name), _setting(value)) for name, value in (settings or {}).items()],
        version=_version(),
    )


def _show_hidden(value: object) -> object:
    """Text in which characters that deceive, or that no file can hold, are named: "[U+202E]"."""
    # Not the template's own text, which Jinja marks by a class of its own.
    if type(value) is not str:
        return value
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", value)


def save_png(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> Path:
    """Save a figure as a PNG file, replacing an older one only when complete; its path.

    Args:
        figure: A matplotlib figure.
        path: File to write; missing folders are made.
        dpi: Pixels per inch.
    """
    return _write(path, _png(figure, dpi=dpi))


def _write(path: str | os.PathLike[str], content: bytes) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, content)


def _version() -> str:
    try:
        return metadata.version("inferostatic")
    except metadata.PackageNotFoundError:
        # A source tree on the path that was never installed.
        return ""


def _section_view(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "paragraphs": _paragraphs(section.text),
        "tables": [_table_view(table) for table in section.tables],
        "figures": [_figure_view(item) for item in section.figures],
    }


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _table_view(table: Table) -> dict[str, Any]:
    rows = [[_cell_view(entry, table.number_format) for entry in row] for row in table.rows]
    header = []
    for column, text in enumerate(table.header):
        cells = [row[column] for row in rows]
        numeric = bool(cells) and all(cell["numeric"] for cell in cells)
        marked = any(cell["mark"] for cell in cells)
        for cell in cells:
            cell["room"] = marked and cell["numeric"] and not cell["mark"]
        header.append({"text": text, "numeric": numeric, "room": marked and numeric, "mark": ""})
    return {"caption": table.caption, "header": header, "rows": rows}


def _cell_view(entry: _Scalar | Cell, number_format: str) -> dict[str, Any]:
    cell = entry if isinstance(entry, Cell) else Cell(entry)
    text = _scalar_text(cell.value, cell.number_format or number_format)
    return {
        "text": text,
        "room": False,
        "numeric": _NUMERIC.fullmatch(text.strip()) is not None,
        "mark": cell.mark.value if cell.mark is not None else "",
    }


def _scalar_text(value: object, number_format: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return _EMPTY
        case bool():
            return "yes" if value else "no"
        case float():
            return format(value, number_format)
        case _:
            return str(value)


def _setting(value: object) -> str:
    """A setting in full: rounding would hide what was run."""
    match value:
        case np.ndarray():
            return _setting(value.tolist())
        case list() | tuple():
            return ", ".join(
                f"({_setting(v)})" if isinstance(v, list | tuple) else _setting(v) for v in value
            )
        case _:
            return _scalar_text(value, "")


def _figure_view(item: FigureItem) -> dict[str, Any]:
    if isinstance(item.figure, bytes):
        return {"source": _inline("image/png", item.figure), "width": "", "caption": item.caption}
    if _has_heat_map(item.figure):
        source = _inline("image/png", _png(item.figure, dpi=_PNG_DPI))
    else:
        source = _inline("image/svg+xml", _svg(item.figure))
    # CSS inches are 96 pixels: the page shows the figure at the size it was designed for.
    width = round(float(item.figure.get_size_inches()[0]) * 96)
    return {"source": source, "width": width, "caption": item.caption}


def _has_heat_map(figure: Figure) -> bool:
    return bool(figure.findobj(lambda artist: isinstance(artist, AxesImage | QuadMesh)))


def _inline(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _png(figure: Figure, *, dpi: int) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def _svg(figure: Figure) -> bytes:
    stream = io.BytesIO()
    # A fixed salt and no date make equal figures equal bytes, so reports can be compared.
    with mpl.rc_context({"svg.hashsalt": "inferostatic", "svg.fonttype": "path"}):
        blank = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(stream, format="svg", metadata=blank)
    return stream.getvalue()
