"""Reports: one HTML file that holds its text, tables, figures, style and script.

A report is a title, a table of settings and a sequence of sections, all plain records. The file it
becomes needs nothing else: figures are inlined and nothing is loaded from elsewhere, which a
content security policy also forbids, so it can be mailed, archived or printed. That policy names
the one script and the one style sheet by their hashes: no other runs. All text is escaped, and
characters that hide or reverse text are shown by their number. Files appear whole or not at all: a
failure while rendering or writing leaves an older report as it was.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from ..files import write_whole
from ..versions import __version__
from .pictures import render_figure
from .section import Cell, FigureItem, Level, Section, Table, worst_level
from .section_files import plain_value

#: What a missing value is shown as.
_EMPTY = "—"
#: Characters from which the text of a cell may be broken into lines; shorter ones stay in one.
_LONG = 30
#: What text must look like to be set as a number: "15.515", "0.049 ± 0.002", "12%", "<1e-3".
_NUMERIC = re.compile(r"[<>≈~]?\s*[-+−]?\s*(\d|\.\d)[\d.,eE%±+\-−×()\s]*|[-−+]?(inf|nan)|—|")
#: Characters that are shown by their number: those that reverse the text around them, so that a
#: page reads differently from what it says, halves of surrogate pairs, which UTF-8 cannot hold,
#: and control characters other than tab and line ends.
_HIDDEN = re.compile(
    "[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
    "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]"
)
#: The verdict of a whole report, by the worst of its parts.
_HEADLINES = {
    Level.GOOD: "Nothing was found that speaks against these results.",
    Level.CAUTION: "Use with care: some of this is not proven, or holds only within limits.",
    Level.BAD: "Not to be relied on as it is.",
}
_MEDIA_TYPES = {"png": "image/png", "svg": "image/svg+xml"}


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
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, page.encode("utf-8"))


def render_report(
    *,
    title: str,
    sections: Sequence[Section],
    settings: Mapping[str, object] | None = None,
    summary: str = "",
) -> str:
    """The HTML text that `write_report` writes, for showing in a notebook or serving."""
    environment = jinja2.Environment(
        autoescape=True,
        finalize=_show_hidden,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string(_read("report.html.j2"))
    style, script = _read("report.css"), _read("report.js")
    worst = worst_level(sections)
    rows = [(str(name), _setting(value)) for name, value in (settings or {}).items()]
    return template.render(
        title=title,
        summary=_paragraphs(summary),
        headline=None if worst is None else (worst.value, _HEADLINES[worst]),
        sections=[_section_view(section) for section in sections],
        settings=rows,
        settings_data=_embed({"columns": ["setting", "value"], "rows": rows}),
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _read(name: str) -> str:
    source = resources.files("inferostatic.report") / "templates" / name
    return source.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a content security policy names a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _show_hidden(value: object) -> object:
    """Text in which characters that deceive, or that no file can hold, are named: "[U+202E]"."""
    # Not the template's own text, which Jinja marks by a class of its own.
    if type(value) is not str:
        return value
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", value)


def _embed(data: object) -> Markup:
    """JSON that may stand inside a script element: without < and >, in ASCII."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _section_view(section: Section) -> dict[str, Any]:
    verdict = section.verdict
    return {
        "title": section.title,
        "verdict": None if verdict is None else (verdict.level.value, verdict.text),
        "paragraphs": _paragraphs(section.text),
        "tables": [_table_view(table) for table in section.tables],
        "figures": [_figure_view(item) for item in section.figures],
    }


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _table_view(table: Table) -> dict[str, Any]:
    cells = [[entry if isinstance(entry, Cell) else Cell(entry) for entry in r] for r in table.rows]
    rows = [[_cell_view(cell, table.number_format) for cell in row] for row in cells]
    header = []
    for column, text in enumerate(table.header):
        views = [row[column] for row in rows]
        numeric = bool(views) and all(view["numeric"] for view in views)
        marked = any(view["mark"] for view in views)
        for view in views:
            view["room"] = marked and view["numeric"] and not view["mark"]
        header.append(
            {
                "text": text,
                "numeric": numeric,
                "room": marked and numeric,
                "mark": "",
                "long": len(text) > _LONG,
            }
        )
    data = {
        "caption": table.caption,
        "columns": list(table.header),
        "rows": [[plain_value(cell.value) for cell in row] for row in cells],
    }
    return {"caption": table.caption, "header": header, "rows": rows, "data": _embed(data)}


def _cell_view(cell: Cell, number_format: str) -> dict[str, Any]:
    text = _scalar_text(cell.value, cell.number_format or number_format)
    return {
        "text": text,
        "room": False,
        "numeric": _NUMERIC.fullmatch(text.strip()) is not None,
        "mark": cell.mark.value if cell.mark is not None else "",
        "long": len(text) > _LONG,
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
        case Mapping():
            return ", ".join(f"{name} {_setting(one)}" for name, one in value.items())
        case list() | tuple():
            return ", ".join(
                f"({_setting(v)})" if isinstance(v, list | tuple) else _setting(v) for v in value
            )
        case _:
            return _scalar_text(value, "")


def _figure_view(item: FigureItem) -> dict[str, Any]:
    picture = render_figure(item)
    content = base64.b64encode(picture.content).decode("ascii")
    return {
        "source": f"data:{_MEDIA_TYPES[picture.ending]};base64,{content}",
        "width": picture.width or "",
        "caption": item.caption,
        "alt": item.alt or item.caption,
    }
