"""Sections as files: `sections.json` and the figures beside it, without pickle.

What a step of a study found is kept like this, and a page is made of it later without running
anything again. The figures are written first, under names that their content gives them, and
`sections.json` last: whoever reads the folder finds the sections of before or those of now.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_whole
from .pictures import render_figure
from .section import Cell, FigureItem, Level, Mark, Scalar, Section, Table, Verdict

#: Version of the format, counted up when older programs could not read it.
FORMAT = 1
#: Name of the file that holds all but the figures.
NAME = "sections.json"
#: Names of figures, and of nothing else in the folder.
FIGURE_NAME = re.compile(r"figure-[0-9a-f]{20}\.(svg|png)")


def save_sections(sections: Sequence[Section], folder: str | os.PathLike[str]) -> Path:
    """Write sections into a folder, replacing those that were there; the path of `sections.json`.

    Equal sections give equal bytes. Figures that no section holds any more are removed.

    Args:
        sections: to be kept.
        folder: made where it is missing.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, bytes] = {}
    held = [_section_to_json(section, pictures) for section in sections]
    for name, content in pictures.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            write_whole(folder / name, content)
    text = json.dumps({"format": FORMAT, "sections": held}, indent=1, ensure_ascii=True)
    path = write_whole(folder / NAME, text.encode("ascii") + b"\n")
    for entry in folder.iterdir():
        if FIGURE_NAME.fullmatch(entry.name) and entry.name not in pictures:
            entry.unlink(missing_ok=True)
    return path


def load_sections(folder: str | os.PathLike[str]) -> list[Section]:
    """The sections that `save_sections` wrote; a figure is now the bytes of its file.

    Args:
        folder: with `sections.json`.
    """
    path = Path(folder) / NAME
    try:
        held = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Run the step that wrote it again.") from None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        version = held.get("format") if isinstance(held, dict) else None
        raise ValueError(
            f"{path} has format {version!r}, and this version of inferostatic reads format "
            f"{FORMAT}; run the step that wrote it again."
        )
    try:
        return [_section_of_json(one, path.parent) for one in held["sections"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path} does not hold sections of a report ({type(error).__name__}: {error}). Run the "
            "step that wrote it again."
        ) from error


def plain_value(value: Scalar) -> str | bool | int | float | None:
    """A value as JSON holds it; NaN and infinities, which it lacks, as their names."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value  # type: ignore[return-value]


def _section_to_json(section: Section, pictures: dict[str, bytes]) -> dict[str, Any]:
    verdict = section.verdict
    return {
        "title": section.title,
        "text": section.text,
        "verdict": None
        if verdict is None
        else {"level": verdict.level.value, "text": verdict.text},
        "tables": [
            {
                "caption": table.caption,
                "header": list(table.header),
                "number_format": table.number_format,
                "rows": [[_entry_to_json(entry) for entry in row] for row in table.rows],
            }
            for table in section.tables
        ],
        "figures": [_figure_to_json(item, pictures) for item in section.figures],
    }


def _entry_to_json(entry: Scalar | Cell) -> object:
    cell = entry if isinstance(entry, Cell) else Cell(entry)
    value = plain_value(cell.value)
    number = isinstance(value, str) and not isinstance(cell.value, str)
    if not number and cell == Cell(cell.value):
        return value
    held: dict[str, object] = {"number" if number else "value": value}
    if cell.mark is not None:
        held["mark"] = cell.mark.value
    if cell.number_format is not None:
        held["number_format"] = cell.number_format
    return held


def _figure_to_json(item: FigureItem, pictures: dict[str, bytes]) -> dict[str, Any]:
    picture = render_figure(item)
    name = f"figure-{hashlib.sha256(picture.content).hexdigest()[:20]}.{picture.ending}"
    pictures[name] = picture.content
    return {"file": name, "caption": item.caption, "alt": item.alt, "width": picture.width}


def _section_of_json(held: dict[str, Any], folder: Path) -> Section:
    verdict = held["verdict"]
    if verdict is not None:
        verdict = Verdict(Level(verdict["level"]), _text(verdict["text"]))
    return Section(
        title=_text(held["title"]),
        text=_text(held["text"]),
        tables=tuple(_table_of_json(table) for table in held["tables"]),
        figures=tuple(_figure_of_json(figure, folder) for figure in held["figures"]),
        verdict=verdict,
    )


def _table_of_json(held: dict[str, Any]) -> Table:
    return Table(
        header=tuple(map(_text, held["header"])),
        rows=tuple(tuple(map(_entry_of_json, row)) for row in held["rows"]),
        caption=_text(held["caption"]),
        number_format=_text(held["number_format"]),
    )


def _entry_of_json(held: object) -> Scalar | Cell:
    if not isinstance(held, dict):
        if not isinstance(held, str | bool | int | float | None):
            raise TypeError(f"a cell holds {held!r}")
        return held
    value = float(held["number"]) if "number" in held else held["value"]
    if set(held) == {"number"}:
        return value
    mark = Mark(held["mark"]) if "mark" in held else None
    return Cell(value, mark, held.get("number_format"))


def _figure_of_json(held: dict[str, Any], folder: Path) -> FigureItem:
    name = held["file"]
    # Only files that `save_sections` writes: never one elsewhere.
    if not isinstance(name, str) or not FIGURE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a figure")
    width = held["width"]
    if not isinstance(width, int | None):
        raise TypeError(f"the width of a figure is {width!r}")
    content = (folder / name).read_bytes()
    return FigureItem(content, _text(held["caption"]), _text(held["alt"]), width)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
