"""Weights of events: what they must be, and how many events without weights they are worth."""

import numpy as np

from .inputs import require_finite, warn_user

#: Effective events below which a warning is due where most of the events do not count.
FEW_EFFECTIVE = 5.0
#: Times that the events exceed them there; exponentially distributed weights make it 2.
FEW_TIMES = 4.0
#: Part of the events that counts at least; with less, single weights decide.
SMALL_PART = 0.01


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


def warn_few_effective(weight: np.ndarray, name: str = "weight") -> None:
    """Warn where a few large weights, or cancelling signs, leave hardly any of the events."""
    size = effective_size(weight)
    few = size < FEW_EFFECTIVE and size < len(weight) / FEW_TIMES
    if few or size < SMALL_PART * len(weight):
        warn_user(
            f"{name}: {len(weight):,} events amount to {size:.3g} effective "
            f"event{'s' if f'{size:.3g}' != '1' else ''}, (Σw)²/Σw², so a few of them decide "
            "everything that follows. Check the weights, remove the events that dominate, or give "
            "more events."
        )


def mean_and_error(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean over events, of values of shape (n,) or (n, k), and its standard error."""
    mean = np.asarray(weight @ values / weight.sum())
    return mean, np.asarray(np.sqrt(weight**2 @ (values - mean) ** 2) / abs(weight.sum()))
