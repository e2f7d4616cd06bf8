"""Figures as the bytes of SVG and PNG files, the same bytes for the same figure."""

import io
import os
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import Collection, PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from ..files import write_whole
from .section import PNG_SIGNATURE, FigureItem

#: Resolution of figures that become PNG: sharp on screens, a tenth of the size of their SVG.
PNG_DPI = 160
#: Points of lines and markers from which a figure becomes PNG: more make an SVG too large.
MOST_POINTS = 10_000
#: CSS pixels of an inch.
CSS_PIXELS = 96
#: CSS pixels of the units in which an SVG file gives its width.
UNITS: dict[str, float] = {"pt": CSS_PIXELS / 72, "px": 1.0, "": 1.0, "in": CSS_PIXELS}


class Picture(NamedTuple):
    """The bytes of a file, how its name ends, and its width in CSS pixels, if known."""

    content: bytes
    ending: str
    width: int | None


def render_figure(item: FigureItem) -> Picture:
    """The bytes of a figure: as they are, or SVG, or PNG where that would be large."""
    if isinstance(item.figure, bytes):
        is_png = item.figure.startswith(PNG_SIGNATURE)
        width = item.width if is_png or item.width else _svg_width(item.figure)
        return Picture(item.figure, "png" if is_png else "svg", width)
    # The page shows the figure at the size it was designed for.
    width = round(float(item.figure.get_size_inches()[0]) * CSS_PIXELS)
    if is_dense(item.figure):
        return Picture(as_png(item.figure, dpi=PNG_DPI), "png", width)
    return Picture(as_svg(item.figure), "svg", width)


def is_dense(figure: Figure) -> bool:
    """Whether a figure holds a heat map, or so many points that its SVG would be large."""
    if figure.findobj(lambda artist: isinstance(artist, AxesImage | QuadMesh)):
        return True
    return sum(map(_count_points, figure.findobj())) > MOST_POINTS


def _count_points(artist: Artist) -> int:
    if isinstance(artist, Line2D):
        return len(np.asarray(artist.get_xydata()))
    if isinstance(artist, PathCollection):
        return len(np.asarray(artist.get_offsets()))
    if isinstance(artist, Collection):
        return sum(len(np.asarray(path.vertices)) for path in artist.get_paths())
    return 0


def as_png(figure: Figure, *, dpi: int) -> bytes:
    """A PNG file."""
    stream = io.BytesIO()
    with _quiet():
        figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def as_svg(figure: Figure) -> bytes:
    """An SVG file; letters are paths, so that it looks the same everywhere."""
    stream = io.BytesIO()
    # A fixed salt and no date make equal figures equal bytes, so reports can be compared.
    with mpl.rc_context({"svg.hashsalt": "inferostatic", "svg.fonttype": "path"}), _quiet():
        blank = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(stream, format="svg", metadata=blank)
    return stream.getvalue()


def save_png(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> Path:
    """Save a figure as a PNG file, replacing an older one only when complete; its path.

    Args:
        figure: A matplotlib figure.
        path: File to write; missing folders are made.
        dpi: Pixels per inch.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, as_png(figure, dpi=dpi))


def _svg_width(content: bytes) -> int | None:
    found = re.search(rb'<svg[^>]*?\swidth="([\d.]+)(pt|px|in|)"', content[:4096])
    return None if found is None else round(float(found[1]) * UNITS[found[2].decode()])


def _quiet() -> warnings.catch_warnings:
    """Names of users may have letters that matplotlib's font lacks: they are drawn as boxes."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
