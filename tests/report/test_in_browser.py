"""The page in a real browser: it opens, its buttons work, and nothing runs or overflows."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inferostatic as ist
from browser import list_requests, open_browser, show_page
from inferostatic.report.section import Cell, Level, Mark, Section, Table, Verdict
from report_results import EVIL

#: Columns whose order as text and as numbers differ.
SORTED = Table(
    ["name", "value", "note"],
    [["b", 10.0, None], ["a", 1e-5, Cell("<1e-06", Mark.BAD)], ["c", 0.5, "0.03"]],
    "Unsorted",
)
#: Reports that are part of the documentation.
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LONG = "averylongnamewithoutanyspace" * 4
#: Smallest ratio of luminances of text and background (WCAG 2.1, level AA).
CONTRAST = 4.5

#: Ratios of luminances of all elements with text of their own, the smallest first.
CONTRASTS = """
const luminance = (colour) => {
  const [r, g, b] = colour.map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = parse(getComputedStyle(one).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = [];
document.querySelectorAll("body *").forEach((element) => {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !element.checkVisibility() || element.tagName === "SCRIPT") return;
  const inks = [null, "::before", "::after"].map((p) => getComputedStyle(element, p))
    .filter((s, i) => i === 0 || !["none", "normal", '""'].includes(s.content));
  for (const ink of inks) {
    const pair = [luminance(parse(ink.color).slice(0, 3)), luminance(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    found.push([ratio, element.tagName, element.className, element.textContent.slice(0, 40)]);
  }
});
return found.sort((a, b) => a[0] - b[0]);
"""


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[Any]:
    with open_browser(downloads) as found:
        yield found


@pytest.fixture(scope="module")
def page(results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    levels = [Section(level.value, verdict=Verdict(level, f"{EVIL} {LONG}")) for level in Level]
    marks = Table([m.value for m in Mark], [[Cell(m.value, m) for m in Mark]], LONG)
    extra = Section(EVIL, f"{EVIL}\n\n{LONG}", [SORTED, marks])
    path = tmp_path_factory.mktemp("page") / "report.html"
    return ist.report(path, *results.values(), extra, *levels, title=EVIL)


def find_table(driver: Any) -> Any:
    """That of the unsorted rows, the only one with a cell like this."""
    (table,) = [one for one in elements(driver, "table.sortable") if "<1e-06" in one.text]
    return table


def elements(driver: Any, selector: str) -> list[Any]:
    return driver.find_elements("css selector", selector)


def test_it_opens_without_errors_and_asks_for_nothing(driver, page) -> None:
    for width, dark in ((1200, False), (390, True)):
        show_page(driver, page, width=width, dark=dark)
        assert driver.get_log("browser") == []
        asked = list_requests(driver)
        assert page.as_uri() in asked
        assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
        assert len([url for url in asked if url.startswith("file:")]) == 1


def test_every_picture_is_shown(driver, page) -> None:
    show_page(driver, page)
    sizes = driver.execute_script(
        "return [...document.images].map((i) => [i.complete, i.naturalWidth, i.alt])"
    )
    shown = [size for size in sizes if size[2]]
    assert len(shown) > 10
    assert all(complete and width > 0 for complete, width, _ in shown)


def test_names_with_markup_are_text(driver, page) -> None:
    show_page(driver, page)
    assert driver.title == EVIL
    assert elements(driver, "h1")[0].text == EVIL
    assert EVIL in elements(driver, "body")[0].text


def test_the_policy_stops_what_got_through(driver, page, tmp_path) -> None:
    """Even a page with markup of a user in it runs nothing and loads nothing."""
    attack = "<script>document.title='owned'</script><img src='https://example.org/x.png'>"
    text = page.read_text(encoding="utf-8").replace("<main", f"{attack}<main", 1)
    changed = tmp_path / "changed.html"
    changed.write_text(text, encoding="utf-8")
    show_page(driver, changed)
    assert driver.title == EVIL
    said = [entry["message"] for entry in driver.get_log("browser")]
    assert len([message for message in said if "Content Security Policy" in message]) == 2


def test_links_lead_somewhere(driver, page) -> None:
    show_page(driver, page)
    broken = driver.execute_script(
        "return [...document.links].filter((a) => !a.hash || !document.querySelector(a.hash))"
        ".map((a) => a.outerHTML)"
    )
    assert broken == []
    elements(driver, "nav a")[4].click()
    top = driver.execute_script(
        "return document.querySelector(location.hash).getBoundingClientRect().top"
    )
    assert abs(top) < 60


def test_tables_sort_by_number_and_by_text(driver, page) -> None:
    show_page(driver, page)
    table = find_table(driver)
    heads = table.find_elements("css selector", "th")
    buttons = table.find_elements("css selector", "th button")

    def order() -> str:
        rows = table.find_elements("css selector", "tbody tr")
        return "".join(row.find_element("css selector", "td").text for row in rows)

    assert order() == "bac"
    for button, orders in ((1, ("acb", "bca")), (0, ("abc", "cba")), (2, ("acb", "cab"))):
        for expected, said in zip(orders, ("ascending", "descending"), strict=True):
            buttons[button].click()
            assert order() == expected
            assert [h.get_attribute("aria-sort") for h in heads].count(said) == 1
            assert heads[button].get_attribute("aria-sort") == said


def test_sorting_works_by_keyboard(driver, page) -> None:
    from selenium.webdriver.common.keys import Keys

    show_page(driver, page)
    button = find_table(driver).find_elements("css selector", "th button")[0]
    button.send_keys(Keys.ENTER)
    first = find_table(driver).find_element("css selector", "tbody td").text
    assert first == "a"


def test_colours_follow_the_system_and_the_button(driver, page) -> None:
    def is_dark() -> bool:
        colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        return colour != "rgb(255, 255, 255)"

    for dark in (False, True):
        show_page(driver, page, dark=dark)
        assert is_dark() is dark
        (button,) = elements(driver, "#theme")
        assert button.text == ("Light" if dark else "Dark")
        button.click()
        assert is_dark() is not dark
        button.click()
        assert is_dark() is dark


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out(driver, page, dark) -> None:
    show_page(driver, page, dark=dark)
    found = driver.execute_script(CONTRASTS)
    assert len(found) > 100
    assert [entry for entry in found if entry[0] < CONTRAST] == []


def test_a_figure_opens_large_and_closes(driver, page) -> None:
    from selenium.webdriver.common.keys import Keys

    show_page(driver, page, width=390)
    button = elements(driver, "button.picture")[0]
    small = button.find_element("css selector", "img")
    driver.execute_script("arguments[0].scrollIntoView()", button)
    button.click()
    (dialog,) = elements(driver, "dialog")
    large = dialog.find_element("css selector", "img")
    assert dialog.is_displayed()
    assert large.get_attribute("src") == small.get_attribute("src")
    assert large.get_attribute("alt")
    assert large.size["width"] > 1.3 * small.size["width"]
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert driver.switch_to.active_element == button
    button.send_keys(Keys.ENTER)
    assert dialog.is_displayed()
    dialog.find_element("css selector", "button").click()
    assert not dialog.is_displayed()


def require_no_overflow(driver: Any, width: int) -> None:
    wide = driver.execute_script(
        "const width = document.documentElement.clientWidth;"
        "const inner = (e) => e.closest('.scroll') && !e.matches('.scroll');"
        "const skipped = (e) => e.matches('.skip, script') || e.closest('dialog') || inner(e);"
        "return [...document.querySelectorAll('body *')].filter((e) => !skipped(e)"
        " && e.getBoundingClientRect().right > width + 1).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows(driver, page, width) -> None:
    show_page(driver, page, width=width)
    require_no_overflow(driver, width)


def test_the_examples_of_the_documentation(driver) -> None:
    """They are small, linked, and open as new ones do."""
    examples = sorted(EXAMPLES.glob("*.html"))
    assert [path.stem for path in examples] == ["paper", "pythia", "study"]
    pages = (EXAMPLES.parent / "report.md").read_text(encoding="utf-8")
    for path in examples:
        assert f"(examples/{path.name})" in pages
        assert path.stat().st_size < 1_500_000
        for width, dark in ((1200, True), (390, False)):
            show_page(driver, path, width=width, dark=dark)
            assert driver.get_log("browser") == []
            assert [url for url in list_requests(driver) if url.startswith("http")] == []
            require_no_overflow(driver, width)


def test_wide_tables_scroll_instead_of_breaking_words(driver, page) -> None:
    show_page(driver, page, width=390)
    regions = elements(driver, ".scroll.wide")
    assert regions
    assert {region.get_attribute("tabindex") for region in regions} == {"0"}
    broken = driver.execute_script(
        "return [...document.querySelectorAll('.scroll th, .scroll td')]"
        ".filter((e) => getComputedStyle(e).overflowWrap !== 'normal').length"
    )
    assert broken == 0


def test_a_table_can_be_saved(driver, page, downloads) -> None:
    show_page(driver, page)
    asked = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", asked)
    data = elements(driver, "script.data")[0]
    name = data.get_attribute("id").removesuffix("-data")
    elements(driver, "button.save")[0].click()
    target = downloads / f"{name}.json"
    for _ in range(50):
        if target.exists():
            break
        time.sleep(0.1)
    saved = json.loads(target.read_text(encoding="utf-8"))
    assert saved["columns"][0] == "column"
    assert EVIL in [row[0] for row in saved["rows"]]
    assert driver.get_log("browser") == []


def test_headings_are_in_order(driver, page) -> None:
    show_page(driver, page)
    levels = driver.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert set(levels) == {1, 2}


def test_print_hides_what_paper_cannot_do(driver, page) -> None:
    show_page(driver, page, dark=True)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for selector in ("nav", "#theme", "button.save"):
        assert not elements(driver, selector)[0].is_displayed()
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    shades = driver.execute_script(
        "return [...document.querySelectorAll('.scroll')].map((e) => getComputedStyle(e).boxShadow)"
    )
    assert set(shades) == {"none"}  # which says on a screen that there is more to the right
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
