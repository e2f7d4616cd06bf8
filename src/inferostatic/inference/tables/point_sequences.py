"""Points spread evenly in a box, a cube or a ball, without randomness."""

import numpy as np
from scipy.special import ndtri


def scatter_points(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """Evenly spread points in a box, without randomness: multiples of irrational numbers."""
    free = np.flatnonzero(high > low)
    points = np.repeat(low[None], count, axis=0)
    if len(free) == 1:
        unit = (np.arange(count)[:, None] + 0.5) / max(count, 1)
    else:
        unit = kronecker_sequence(count, len(free))
    points[:, free] = low[free] + unit * (high - low)[free]
    return points


def kronecker_sequence(count: int, dim: int, first: int = 0) -> np.ndarray:
    """The additive sequence of the generalised golden ratio in the unit cube, (count, dim)."""
    ratio = 1.5
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (dim + 1))
    steps = ratio ** -np.arange(1.0, dim + 1)
    return (0.5 + np.arange(first, first + count)[:, None] * steps) % 1.0


def map_to_ball(cube: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions (n, d) and radii (n,) uniform in the unit ball, of points in the cube (n, d+1)."""
    dim = cube.shape[1] - 1
    cube = np.clip(cube, 1e-6, 1 - 1e-6)
    normal = ndtri(cube[:, :dim])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return normal / np.maximum(length, 1e-9), cube[:, dim] ** (1 / dim)
