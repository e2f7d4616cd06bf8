"""Densities of the Dirichlet toy (the first figure of the paper's experiment)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Polygon
from numpy.typing import NDArray
from scipy.special import gammaln

from ..inputs import as_count
from .arrays import Numbers, as_finite, require_names
from .style import HEAT, INK, add_colour_bar, make_panels, use_style

#: Height of a triangle whose sides have length 1.
HEIGHT = float(np.sqrt(3.0) / 2.0)
#: Most pixels along the base of a triangle.
MOST_PIXELS = 10_000


def dirichlet_triangles(
    thetas: Numbers = ((1.0, 2.0, 2.0), (1.5, 3.0, 5.0), (3.0, 3.0, 3.0)),
    *,
    names: Sequence[str] = ("$x_1$", "$x_2$", "$x_3$"),
    resolution: int = 400,
) -> Figure:
    """Densities of three-dimensional Dirichlet distributions on their triangle.

    Each point of the triangle is one x with x1 + x2 + x3 = 1; at the corner called xi that
    component is 1. The colour is the density with respect to dx1 dx2,
    Γ(Σθ) ∏ xᵢ^(θᵢ-1) / Γ(θᵢ), on one scale for all panels.

    Args:
        thetas: Parameter points, shape (n, 3) or (3,), all positive; one panel each.
        names: Labels of the three corners.
        resolution: Pixels along the base of a triangle.
    """
    points = np.atleast_2d(as_finite(thetas, "thetas"))
    if points.ndim != 2 or points.shape[1] != 3 or points.shape[0] == 0 or (points <= 0).any():
        raise ValueError(
            "expected parameter points of three positive numbers each, shape (n, 3); "
            f"got shape {np.shape(thetas)} with values {points.tolist()}"
        )
    names = require_names(names, 3, "three corner")
    resolution = as_count(resolution, "resolution", least=10, most=MOST_PIXELS)

    simplex = _make_pixels(resolution)
    inside = (simplex > 0).all(axis=0)
    # Pixels cut by an edge have their centre just outside; they take the density on the edge, so
    # that the clipped image has no dark rim.
    log_x = np.log(np.clip(simplex, 1e-6, None))
    densities = [_compute_density(log_x, theta) for theta in points]
    # Below θ = 1 the density diverges at an edge: the scale then ends at a high quantile.
    diverges = bool((points < 1).any())
    tops = [
        np.quantile(density[inside], 0.99) if (theta < 1).any() else density[inside].max()
        for theta, density in zip(points, densities, strict=True)
    ]
    norm = Normalize(0.0, float(max(tops)))
    with use_style():
        width = 2.55 * len(points) + 0.9
        figure, panels = make_panels(len(points), width=width, height=2.95, fixed_aspect=True)
        images = []
        for axes, theta, density in zip(panels, points, densities, strict=True):
            images.append(_draw_triangle(axes, density, norm, names))
            axes.set_title(rf"$\theta = ({', '.join(f'{t:g}' for t in theta)})$", fontsize=11)
        extend = "max" if diverges else "neither"
        label = r"density $p(x;\theta)$"
        add_colour_bar(figure, images[-1], panels, label=label, shrink=0.8, extend=extend)
    return figure


def _make_pixels(resolution: int) -> NDArray[np.float64]:
    """x1, x2 and x3 at the centre of each pixel of the triangle's bounding box."""
    rows = round(resolution * HEIGHT)
    across = (np.arange(resolution) + 0.5) / resolution
    up = (np.arange(rows) + 0.5) / rows
    x3 = np.broadcast_to(up[:, None], (up.size, across.size))
    x2 = across[None, :] - x3 / 2.0
    return np.stack([1.0 - x2 - x3, x2, x3])


def _compute_density(log_x: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    log_norm = gammaln(theta.sum()) - gammaln(theta).sum()
    return np.exp(log_norm + np.tensordot(theta - 1.0, log_x, axes=1))


def _draw_triangle(
    axes: Axes, density: NDArray[np.float64], norm: Normalize, names: Sequence[str]
) -> AxesImage:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, HEIGHT]])
    outline = Polygon(corners, closed=True, fill=False, edgecolor=INK, linewidth=0.9)
    axes.add_patch(outline)
    box = (0.0, 1.0, 0.0, HEIGHT)
    image = axes.imshow(
        density, origin="lower", extent=box, norm=norm, cmap=HEAT, interpolation="bilinear"
    )
    image.set_clip_path(outline)
    for corner, name, side in zip(corners, names, ("top", "top", "bottom"), strict=True):
        height = corner[1] + (0.025 if side == "bottom" else -0.03)
        axes.text(corner[0], height, name, ha="center", va=side, fontsize=12)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.12, HEIGHT + 0.1), aspect="equal")
    axes.set_axis_off()
    return image
