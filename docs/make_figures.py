"""Makes the pictures of `docs/figures.md` by running the code on that page.

Run `python docs/make_figures.py`. Each picture is the `figure` of the block above it.
"""

import re
from pathlib import Path
from typing import Any

from inferostatic.report.pictures import save_png

DOCS = Path(__file__).parent
#: A block of code, and the picture below it, if there is one.
BLOCK = re.compile(
    r"^```python\n(.*?)^```$(?:\s*!\[[^\]]*\]\(([^)]+)\))?", re.DOTALL | re.MULTILINE
)
#: Pixels per inch: sharp enough for screens, tens of kilobytes each.
DPI = 110


def main() -> None:
    """Run the page from the top to its end."""
    page = (DOCS / "figures.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for number, (code, picture) in enumerate(BLOCK.findall(page)):
        exec(compile(code, f"figures.md, block {number}", "exec"), names)
        if picture:
            save_png(names["figure"], DOCS / picture, dpi=DPI)


if __name__ == "__main__":
    main()
