"""After a build: every link leads to a file and an anchor, as when the site is opened from disk."""

import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

#: What a browser loads with a page; none of it may come from elsewhere.
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
#: Links of this page are absolute, for a server that shows it under any address.
NOT_FOUND = "404.html"


class Page(HTMLParser):
    """Anchors and links of a page; formulas that are not drawn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.formulas = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self.formulas += "arithmatex" in found.get("class", "").split()
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loaded.append(found[LOADED[tag]])


def find_problems(site: Path) -> Iterator[str]:
    """Links that lead nowhere, what would be loaded from elsewhere, formulas left as LaTeX."""
    files = [path for path in sorted(site.rglob("*.html")) if path.name != NOT_FOUND]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in files}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if page.formulas:
            yield f"{name}: {page.formulas} formulas are not MathML"
        for link in [*page.links, *page.loaded]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{name}: {link} is loaded from elsewhere"
                continue
            target = path
            if parts.path:
                target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if link.startswith("/") or not target.is_file():
                yield f"{name}: {link} is no file"
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{name}: {link} has no such anchor"


def on_post_build(config: Any, **_: Any) -> None:  # noqa: ANN401
    """Called by MkDocs; a problem ends the build."""
    problems = list(find_problems(Path(config["site_dir"])))
    if problems:
        raise PluginError("the site does not work from disk:\n" + "\n".join(problems[:50]))
