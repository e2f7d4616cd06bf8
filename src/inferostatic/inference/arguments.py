"""What inference functions ask of their input: events, one θ, weights of either sign."""

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..inputs import (
    Input,
    as_floats,
    as_rows,
    column_names,
    require_finite,
    require_float32,
    require_order,
)


def checked_events(
    estimator: AbstractEstimator, x: Input, name: str = "x", what: str = "events"
) -> np.ndarray:
    """Events with the estimator's columns; a warning where they lie outside the trained range."""
    require_order(column_names(x), estimator.x_names, name)
    rows = as_rows(x, name, columns=len(estimator.x_names), of="observables")
    if len(rows) == 0:
        raise ValueError(f"there are no {what}: {name} has no rows.")
    require_finite(rows, name, "Remove or repair these events.")
    require_float32(rows, estimator.x_names, name)
    estimator.warn_outside(rows)
    return rows


def observed_rows(estimator: AbstractEstimator, x: Input, name: str = "x") -> np.ndarray:
    """The same, of events that were observed."""
    return checked_events(estimator, x, name, "observed events")


def checked_point(estimator: AbstractEstimator, theta: Input, name: str = "theta") -> np.ndarray:
    """One θ inside the trained region."""
    names, region = estimator.theta_names, estimator.region
    require_order(column_names(theta), names, name)
    point = as_floats(theta, name).astype(np.float64)
    point = point[0] if point.ndim == 2 and len(point) == 1 else point
    if point.shape != (len(names),):
        raise ValueError(
            f"{name} must be one point with a value for each of {', '.join(names)}; got shape "
            f"{point.shape}."
        )
    if not np.isfinite(point).all():
        raise ValueError(f"{name} must be finite; got {point.tolist()}.")
    slack = 1e-6 * (np.abs(region.theta_low) + np.abs(region.theta_high))
    inside = (point >= region.theta_low - slack) & (point <= region.theta_high + slack)
    if not inside.all():
        raise ValueError(
            f"{name} must lie in the trained region, {np.round(region.theta_low, 4).tolist()} to "
            f"{np.round(region.theta_high, 4).tolist()}; got {point.tolist()}. Simulate wider and "
            "train again."
        )
    return point


def checked_weight(weight: Input | None, n: int, name: str = "weight") -> np.ndarray:
    """One weight for each of `n` events, of either sign, with a positive sum; 1 when omitted."""
    if weight is None:
        return np.ones(n)
    values = as_floats(weight, name).astype(np.float64)
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each event; got {values.shape}.")
    require_finite(values, name, "Give every event a finite weight.")
    if values.sum() <= 0:
        raise ValueError(
            f"{name} adds up to {values.sum():.4g}; negative weights are allowed, but their sum "
            "must be positive."
        )
    return values


def effective_size(weight: np.ndarray) -> float:
    """(Σw)²/Σw²: how many events of weight 1 would know a mean as well."""
    # Scaled first, so that weights of any size have squares.
    scaled = weight / np.abs(weight).max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())
