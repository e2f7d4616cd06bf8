"""Weights of events: what they must be, and how many events without weights they are worth."""

import numpy as np

from .inputs import require_finite


def require_weights(weight: np.ndarray, n: int, name: str = "weight") -> None:
    """Raise unless there is one finite weight for each of `n` events, with a positive sum."""
    if weight.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each event; got {weight.shape}.")
    require_finite(weight, name, "Give every event a finite weight.")
    total = weight.sum(dtype=np.float64)
    if total <= 0:
        raise ValueError(
            f"{name} adds up to {total:.4g}; negative weights are allowed, but their sum must be "
            "positive."
        )


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


def mean_and_error(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean over events, of values of shape (n,) or (n, k), and its standard error."""
    mean = np.asarray(weight @ values / weight.sum())
    return mean, np.asarray(np.sqrt(weight**2 @ (values - mean) ** 2) / abs(weight.sum()))
