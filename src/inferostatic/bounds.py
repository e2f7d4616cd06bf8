"""Boxes in θ or x: which values lie between two edges, to rounding."""

import numpy as np

#: Part of the edges' size by which a value may lie beyond them: priors and networks know their
#: edges in float32, whose relative precision is 6e-8.
ROUNDING = 1e-6


def rounding_slack(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far beyond the edges rounding may carry a value; edges at infinity add nothing."""
    below, above = (np.where(np.isfinite(edge), np.abs(edge), 0.0) for edge in (low, high))
    return ROUNDING * (below + above)


def within(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether each value lies between its edges, to rounding; NaN does not.

    The shape is that of `values`: for whole rows, follow it with `.all(axis=-1)`.
    """
    slack = rounding_slack(low, high)
    return np.asarray((values >= low - slack) & (values <= high + slack))
