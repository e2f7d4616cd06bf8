import base64
import dataclasses
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from inferostatic.report.html import render_report, write_report
from inferostatic.report.pictures import save_png
from inferostatic.report.section import (
    Cell,
    FigureItem,
    Level,
    Mark,
    Section,
    Table,
    Verdict,
)

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """The elements of a page, refusing one whose tags do not nest."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("th", "td"):
            self.cells.append((tag, dict(attrs).get("class") or "", ""))

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag

    def handle_data(self, data: str):
        if self.open and self.open[-1] in ("th", "td"):
            tag, classes, text = self.cells[-1]
            self.cells[-1] = (tag, classes, text + data)
        if not {"style", "script"} & set(self.open):
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def line_figure() -> Figure:
    figure = Figure(figsize=(4, 3))
    figure.subplots().plot([0.0, 1.0], [0.0, 1.0])
    return figure


def heat_map() -> Figure:
    figure = Figure(figsize=(4, 3))
    figure.subplots().pcolormesh(np.arange(9.0).reshape(3, 3))
    return figure


def page_of(*sections: Section, **options) -> Page:
    return Page(render_report(title="A report", sections=sections, **options))


def image_of(item: FigureItem) -> tuple[str, bytes]:
    (image,) = page_of(Section("Figures", figures=[item])).named("img")
    kind, _, content = (image["src"] or "").partition(";base64,")
    return kind, base64.b64decode(content)


def test_page_is_self_contained():
    table = Table(["network", "error"], [["KSE", 0.28]], "Errors")
    items = [FigureItem(line_figure(), "A line."), FigureItem(heat_map(), "A heat map.")]
    text = render_report(
        title="A report",
        sections=[Section(name, "Text.", [table], items) for name in "ABC"],
        settings={"seed": 1},
    )
    page = Page(text)
    for _, attributes in page.elements:
        for name, value in attributes.items():
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                assert (value or "").startswith(("data:image/", "#"))
    assert "http:" not in text
    assert "https" not in text
    assert "url(" not in text
    assert "@import" not in text
    # Data of the tables and of the settings, and one script.
    kinds = [attributes.get("type") for attributes in page.named("script")]
    assert kinds == ["application/json"] * 4 + [None]
    assert not page.named("link")
    assert len(page.named("img")) == 6


def test_links_lead_to_sections():
    page = page_of(Section("One"), Section("Two"), Section("Three"), settings={"seed": 1})
    names = {attributes.get("id") for _, attributes in page.elements}
    targets = [(attributes["href"] or "").lstrip("#") for attributes in page.named("a")]
    assert targets[0] == "content"  # for those who come by keyboard
    assert len(targets) == 5
    assert set(targets) <= names


def test_a_short_report_has_no_contents():
    assert not page_of(Section("Only")).named("nav")


def test_text_is_escaped_everywhere():
    evil = '<script>alert("&")</script>'
    section = Section(
        evil,
        evil,
        [Table([evil], [[evil], [Cell(evil, Mark.BAD)]], evil)],
        [FigureItem(line_figure(), evil)],
    )
    text = render_report(title=evil, sections=[section] * 3, settings={evil: evil}, summary=evil)
    assert "<script>alert" not in text
    page = Page(text)
    assert page.named("img")[0]["alt"] == evil
    # Title twice, summary once, settings twice; in each section the contents, heading, paragraph,
    # table caption, header, two cells and the figure caption.
    assert page.text.count(evil) == 5 + 3 * 8


def test_a_browser_is_told_to_load_nothing():
    """And this before anything else in the page that it could concern."""
    text = render_report(title="A", sections=[Section("A", figures=[FigureItem(line_figure())])])
    page = Page(text)
    (policy,) = (a["content"] or "" for a in page.named("meta") if "http-equiv" in a)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    def hash_of(begin: str, end: str) -> str:
        (content,) = re.findall(f"{begin}(.*?){end}", text, flags=re.DOTALL)
        digest = hashlib.sha256(content.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": hash_of("<style>", "</style>"),
        "script-src": hash_of("<script>", "</script>"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    tags = [tag for tag, _ in page.elements]
    assert tags.index("meta") < tags.index("style") < tags.index("img")


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [("\u202e", "[U+202E]"), ("\u2066", "[U+2066]"), ("\udcff", "[U+DCFF]"), ("\0", "[U+0000]")],
)
def test_hidden_characters_are_shown_everywhere(hidden, shown, tmp_path):
    text = f"limit {hidden}59.0"
    section = Section(
        text, text, [Table([text], [[text]], text)], [FigureItem(line_figure(), text)]
    )
    path = tmp_path / "report.html"
    write_report(path, title=text, sections=[section], settings={text: text}, summary=text)
    page = path.read_text(encoding="utf-8")
    assert hidden not in page
    # Title and heading, summary, section, paragraph, caption, header, cell, figure twice, settings
    # twice.
    assert page.count(f"limit {shown}59.0") == 12


def test_ordinary_text_of_all_scripts_is_left_alone():
    text = "Größe θ ± 0.1\tשלום مرحبا 数\n👩‍🔬 zero\u200dwidth"
    assert text in render_report(title="A", sections=[Section("A", text)])


def test_blank_lines_separate_paragraphs():
    page = page_of(Section("A", "One\nstill one.\n\n\nTwo.\n \nThree."))
    assert len(page.named("p")) == 3


def test_line_figures_become_svg_and_heat_maps_png():
    kind, content = image_of(FigureItem(line_figure()))
    assert kind == "data:image/svg+xml"
    assert b"<svg" in content
    kind, content = image_of(FigureItem(heat_map()))
    assert kind == "data:image/png"
    assert content.startswith(b"\x89PNG")


def test_png_bytes_are_inlined_as_they_are(tmp_path):
    given = save_png(line_figure(), tmp_path / "figure.png", dpi=50).read_bytes()
    assert image_of(FigureItem(given)) == ("data:image/png", given)


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="bytes of a PNG or SVG"):
        FigureItem(b"GIF89a", "An animation")


def test_equal_reports_are_equal_bytes():
    sections = [Section("A", figures=[FigureItem(line_figure()), FigureItem(heat_map())])]
    again = [Section("A", figures=[FigureItem(line_figure()), FigureItem(heat_map())])]
    assert render_report(title="A", sections=sections) == render_report(title="A", sections=again)


def test_numbers_are_formatted_and_right_aligned():
    table = Table(
        ["name", "value", "mixed"],
        [
            ["a", 0.27891, "text"],
            ["b", None, np.float64(2.0)],
            ["c", Cell(0.27891, number_format=".1f"), True],
            ["d", "0.049 ± 0.002", np.int64(7)],
        ],
        number_format=".3f",
    )
    cells = page_of(Section("A", tables=[table])).cells
    assert cells == [
        ("th", "", "name"),
        ("th", "number", "value"),
        ("th", "", "mixed"),
        ("td", "", "a"),
        ("td", "number", "0.279"),
        ("td", "", "text"),
        ("td", "", "b"),
        ("td", "number", "—"),
        ("td", "number", "2.000"),
        ("td", "", "c"),
        ("td", "number", "0.3"),
        ("td", "", "yes"),
        ("td", "", "d"),
        ("td", "number", "0.049 ± 0.002"),
        ("td", "number", "7"),
    ]


@pytest.mark.parametrize(
    ("text", "numeric"),
    [
        ("-1.5e-3", True),
        ("< 0.01", True),
        ("12%", True),
        ("nan", True),
        ("0.5 (3)", True),
        ("8-16-8", True),
        ("3 networks", False),
        ("T1", False),
        ("e", False),
    ],
)
def test_what_counts_as_a_number(text, numeric):
    (_, cell) = page_of(Section("A", tables=[Table(["h"], [[text]])])).cells
    assert ("number" in cell[1]) is numeric


def test_marked_cells_and_room_for_their_sign():
    table = Table(["ours", "theirs"], [[Cell(1.0, Mark.GOOD), 1.0], [2.0, 2.0]])
    cells = page_of(Section("A", tables=[table])).cells
    assert [classes for _, classes, _ in cells] == [
        "number room",
        "number",
        "number good",
        "number",
        "number room",
        "number",
    ]


def test_rows_must_fit_the_header():
    with pytest.raises(ValueError, match="row 1 has 1 entries but the header has 2 columns"):
        Table(["a", "b"], [[1, 2], [1]])


def test_settings_are_shown_in_full():
    settings = {
        "learning rate": 1e-7,
        "width": 0.1 + 0.2,
        "layers": (8, 16, 8),
        "weights": {"ISN": 344, "direct": [363, 378]},
        "points": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "standardised": False,
        "clip": None,
    }
    cells = page_of(Section("A"), settings=settings).cells
    texts = [text for _, _, text in cells]
    assert list(zip(texts[::2], texts[1::2], strict=True)) == [
        ("learning rate", "1e-07"),
        ("width", "0.30000000000000004"),
        ("layers", "8, 16, 8"),
        ("weights", "ISN 344, direct 363, 378"),
        ("points", "(1.0, 2.0), (3.0, 4.0)"),
        ("standardised", "no"),
        ("clip", "—"),
    ]


def data_of(text: str, name: str) -> dict:
    (found,) = re.findall(f'<script[^>]* id="{name}-data">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(found)


def test_every_table_has_a_twin_in_json():
    rows = [["<b>", 0.27891], [Cell(float("nan"), Mark.BAD), np.int64(3)], [None, True]]
    text = render_report(
        title="A",
        sections=[Section("A"), Section("B", tables=[Table(["a & b", "c"], rows, "Errors")])],
        settings={"seed": 1},
    )
    assert data_of(text, "table-2-1") == {
        "caption": "Errors",
        "columns": ["a & b", "c"],
        "rows": [["<b>", 0.27891], ["nan", 3], [None, True]],
    }
    assert data_of(text, "settings")["rows"] == [["seed", "1"]]


def test_the_worst_verdict_stands_first():
    sections = [
        Section("One", verdict=Verdict(Level.GOOD, "All is well.")),
        Section("Two"),
        Section("Three", verdict=Verdict(Level.BAD, "All is lost.")),
        Section("Four", verdict=Verdict(Level.CAUTION, "Some is lost.")),
    ]
    page = page_of(*sections)
    kinds = [a.get("class") for tag, a in page.elements if tag in ("section", "li", "p")]
    headline = ["verdict bad", "good", "bad", "caution"]
    assert [k for k in kinds if k] == [*headline, "verdict good", "verdict bad", "verdict caution"]
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links[1:4] == ["#section-1", "#section-3", "#section-4"]
    assert page.text.index("Not to be relied on") < page.text.index("One")
    assert page.text.count("All is lost.") == 2


def test_without_a_verdict_nothing_is_said():
    assert "verdict" not in [a.get("id") for _, a in page_of(Section("A")).elements]


def test_records_are_frozen():
    for entry in (Section("A"), Table([], []), FigureItem(line_figure()), Cell(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(entry, dataclasses.fields(entry)[0].name, None)


# Writing -----------------------------------------------------------------------------------------


def test_report_is_written_and_replaced(tmp_path):
    path = tmp_path / "new" / "report.html"
    assert write_report(path, title="First θ", sections=[]) == path
    assert "First θ" in path.read_text(encoding="utf-8")
    write_report(str(path), title="Second", sections=[])
    assert "First" not in path.read_text(encoding="utf-8")
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_failing_render_leaves_the_old_file(tmp_path):
    path = write_report(tmp_path / "report.html", title="Old", sections=[])
    old = path.read_bytes()

    class Broken(Figure):
        def savefig(self, *args, **options):
            raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        write_report(path, title="New", sections=[Section("A", figures=[FigureItem(Broken())])])
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["report.html"]


def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_report(tmp_path / "report.html", title="Old", sections=[])
    old = path.read_bytes()

    def full(descriptor: int):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_report(path, title="New", sections=[])
    with pytest.raises(OSError, match="disk full"):
        save_png(line_figure(), path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_report_has_ordinary_permissions(tmp_path):
    beside = tmp_path / "beside"
    beside.touch()
    path = write_report(tmp_path / "report.html", title="A", sections=[])
    assert path.stat().st_mode == beside.stat().st_mode


def test_png_has_the_resolution_asked_for(tmp_path):
    path = save_png(line_figure(), tmp_path / "figure.png", dpi=50)
    header = path.read_bytes()[:24]
    assert int.from_bytes(header[16:20], "big") == 4 * 50
    assert int.from_bytes(header[20:24], "big") == 3 * 50


def test_template_is_part_of_the_package():
    import inferostatic.report.html as module

    template = Path(module.__file__).parent / "templates" / "report.html.j2"
    assert re.search(r"<!DOCTYPE html>", template.read_text(encoding="utf-8"))
