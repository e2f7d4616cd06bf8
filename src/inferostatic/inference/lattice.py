"""Lattices of points, and the hull of the set where a function on one stays below a threshold."""

import numpy as np

#: Values along each parameter.
Axes = tuple[np.ndarray, ...]
#: Lower and upper edges, shapes (k,).
Box = tuple[np.ndarray, np.ndarray]


def lattice(axes: Axes) -> np.ndarray:
    """All combinations of values on the axes, shape (points, axes), the last axis fastest."""
    mesh = np.meshgrid(*axes, indexing="ij")
    return np.stack([values.ravel() for values in mesh], axis=1)


def hull(axes: Axes, size: np.ndarray, threshold: float, box: Box) -> tuple[np.ndarray, list[int]]:
    """Ends of {size < threshold} along each axis, shape (k, 2), and the axes where it is cut off.

    Between two neighbours on both sides of the threshold the crossing is interpolated linearly.
    """
    values = np.asarray(size, np.float64).reshape([len(axis) for axis in axes])
    values = np.where(np.isfinite(values), values, 1e3)
    ends, cut = np.empty((len(axes), 2)), []
    for i, axis in enumerate(axes):
        lines = np.moveaxis(values, i, 0).reshape(len(axis), -1)
        inside = lines < threshold
        found = np.broadcast_to(axis[:, None], lines.shape)[inside]
        ends[i] = found.min(), found.max()
        tolerance = 1e-9 * (box[1][i] - box[0][i])
        below = inside[0].any() and axis[0] > box[0][i] + tolerance
        above = inside[-1].any() and axis[-1] < box[1][i] - tolerance
        cut += [i] if below or above else []
        a, b = lines[:-1], lines[1:]
        across = inside[:-1] != inside[1:]
        if across.any():
            rise = np.where(across, b - a, 1.0)
            fraction = np.clip((threshold - a) / rise, 0, 1)
            crossing = (axis[:-1, None] + fraction * np.diff(axis)[:, None])[across]
            ends[i] = min(ends[i, 0], crossing.min()), max(ends[i, 1], crossing.max())
    return ends, cut
