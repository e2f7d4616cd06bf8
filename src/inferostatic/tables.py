"""Tables of text, as every `summary()` shows them."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence

#: Spaces between columns.
GAP = "  "


def format_table(
    columns: Mapping[str, Sequence[str]], *, left: Collection[str] | None = None
) -> list[str]:
    r"""Lines of a table: the headings and one line for each row.

    Columns are as wide as their widest cell, separated by two spaces. Numbers should be right
    aligned, names and words left; the first column is left aligned by default.

    Args:
        columns: cells of each column by its heading, all of the same number.
        left: headings of left-aligned columns; default the first one.

    Examples:
        >>> table = {"parameter": ["a", "b"], "error": ["0.12", "fixed"]}
        >>> print("\n".join(format_table(table)))
        parameter  error
        a           0.12
        b          fixed
    """
    counts = {heading: len(cells) for heading, cells in columns.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"every column needs the same number of cells; got {counts}.")
    left = tuple(columns)[:1] if left is None else left
    aligned = []
    for heading, cells in columns.items():
        texts = [heading, *cells]
        widest = max(map(display_width, texts))
        pads = [" " * (widest - display_width(text)) for text in texts]
        pairs = zip(texts, pads, strict=True)
        aligned.append([text + pad if heading in left else pad + text for text, pad in pairs])
    return [GAP.join(line).rstrip() for line in zip(*aligned, strict=True)]


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal: accents take none, wide characters two."""
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )
