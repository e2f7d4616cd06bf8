"""Weighted events: how many events without weights they are worth."""

import numpy as np


def effective_size(weight: np.ndarray) -> float:
    r"""Effective sample size \((\sum w)^2 / \sum w^2\); 0 if all weights are 0.

    So many events of equal weight would know a mean as well. Weights may have either sign.
    """
    largest = np.abs(weight).max(initial=0.0)
    if largest == 0:
        return 0.0
    # Scaled first, so that the squares of very large and very small weights stay finite.
    scaled = weight / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())
