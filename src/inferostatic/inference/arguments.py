"""Arguments of the inference functions: events, points, weights, levels and parameter names.

Every check of user input that several functions of `inference/` share stands here, once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..inputs import (
    FLOAT32_MAX,
    Input,
    as_event_rows,
    as_floats,
    as_rows,
    column_names,
    kind_of,
    require_finite,
    require_float32,
    require_order,
    rounded,
)
from ..weights import require_weights, warn_few_effective

#: Default confidence level: the probability within one standard deviation of a normal variable.
ONE_SIGMA = 0.6826894921370859
#: Levels below this one are no sets but points.
SMALLEST_LEVEL = 1e-6
#: Rounding allowed at an edge of a region, as a part of the edge's own size (float32).
EDGE_ROUNDING = 1e-6

#: A parameter by its name or its index.
Parameter = str | int | np.integer


def as_events(
    estimator: AbstractEstimator,
    x: Input,
    name: str = "x",
    what: str = "events",
    *,
    may_be_empty: bool = False,
) -> np.ndarray:
    """Events with the estimator's columns; one event may come with shape (D,).

    Warns where they lie outside the trained range.
    """
    rows = as_event_rows(x, estimator.x_names, name)
    rows = as_rows(rows, name, columns=len(estimator.x_names), of="observables")
    if len(rows) == 0:
        if may_be_empty:
            return rows
        raise ValueError(f"there are no {what}: {name} has no rows.")
    require_finite(rows, name, "Remove or repair these events.")
    require_float32(rows, estimator.x_names, name)
    estimator.warn_outside(rows)
    return rows


def as_observed(
    estimator: AbstractEstimator, x: Input, name: str = "x", *, may_be_empty: bool = False
) -> np.ndarray:
    """Observed events."""
    return as_events(estimator, x, name, "observed events", may_be_empty=may_be_empty)


def as_point(
    theta: Input,
    names: Sequence[str],
    box: tuple[np.ndarray, np.ndarray],
    name: str = "theta",
    *,
    axes: tuple[int, ...] = (1, 2),
) -> np.ndarray:
    """One θ of shape (d,) in a box, in float64; `axes` as for `read_point`."""
    return as_points(read_point(theta, names, name, axes=axes)[None], names, box, name)[0]


def read_point(
    theta: Input, names: Sequence[str], name: str = "theta", *, axes: tuple[int, ...] = (1,)
) -> np.ndarray:
    """One finite θ of shape (d,), in float64; a number or a row too where `axes` has 0 or 2."""
    require_order(column_names(theta), names, name)
    values = as_floats(theta, name).astype(np.float64)
    point = values[0] if values.ndim == 2 and len(values) == 1 else np.atleast_1d(values)
    if values.ndim not in axes or point.shape != (len(names),):
        raise ValueError(
            f"{name} must be one point with a value for each of {', '.join(names)}; got shape "
            f"{values.shape}."
        )
    if not (np.abs(point) <= FLOAT32_MAX).all():
        raise ValueError(f"{name} must be finite in float32; got {point.tolist()}.")
    return point


def as_points(
    points: np.ndarray, names: Sequence[str], box: tuple[np.ndarray, np.ndarray], name: str
) -> np.ndarray:
    """Points of shape (m, k) in a box of k parameters; rounding at its edges is undone."""
    require_finite(points, name, "Give finite parameters.")
    slack = EDGE_ROUNDING * (np.abs(box[0]) + np.abs(box[1]) + box[1] - box[0])
    inside = np.all((points >= box[0] - slack) & (points <= box[1] + slack), axis=1)
    if not inside.all():
        raise ValueError(
            f"{name} must lie in the trained region and the bounds, {rounded(box[0])} to "
            f"{rounded(box[1])} for {', '.join(names)}; got {rounded(points[~inside][0])}. "
            "Simulate wider and train again."
        )
    return np.clip(points, *box)


def as_weight(weight: Input | None, count: int, name: str = "weight") -> np.ndarray:
    """One weight for each event, of either sign, with a positive sum; 1 by default."""
    if weight is None:
        return np.ones(count)
    values = as_floats(weight, name).astype(np.float64)
    require_weights(values, count, name)
    warn_few_effective(values, name)
    return values


def as_level(level: object) -> float:
    """A confidence level."""
    real = isinstance(level, int | float | np.integer | np.floating)
    if isinstance(level, bool) or not real or not SMALLEST_LEVEL <= level < 1:
        raise ValueError(f"level must lie between 0 and 1, for example 0.68; got {level!r}.")
    return float(level)


def parameter_index(parameter: object, names: Sequence[str]) -> int:
    """The index of a parameter given by name or index."""
    if isinstance(parameter, str) and parameter in names:
        return list(names).index(parameter)
    if isinstance(parameter, int | np.integer) and -len(names) <= parameter < len(names):
        return int(parameter) % len(names)
    raise ValueError(
        f"{parameter!r} is no parameter; they are {', '.join(names)} (0 to {len(names) - 1})."
    )


def parameter_indices(which: object, names: Sequence[str]) -> list[int]:
    """Indices of different parameters given by name or index, at least one."""
    each = [which]
    listed = isinstance(which, list | tuple | range)
    if listed or (isinstance(which, np.ndarray) and which.ndim == 1):
        each = list(which)
    found = [parameter_index(one, names) for one in each]
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"name at least one parameter of {', '.join(names)}, and each only once; got {each}."
        )
    return found


def values_by_name(given: object, names: Sequence[str], what: str) -> dict[str, Any]:
    """A dictionary whose keys are all parameters; empty by default."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what} must be a dictionary from parameter names to values; got {kind_of(given)}."
        )
    for name in given:
        if name not in names:
            raise ValueError(f"{what} names {name!r}, but the parameters are {', '.join(names)}.")
    return dict(given)


def as_trained_point(estimator: AbstractEstimator, theta: Input, name: str = "theta") -> np.ndarray:
    """One θ of shape (d,) inside the trained region."""
    return as_point(theta, estimator.theta_names, common_region([estimator]), name)


def common_region(estimators: Sequence[AbstractEstimator]) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the region in which all of them were trained, shapes (d,)."""
    low = np.max([np.asarray(one.region.theta_low, np.float64) for one in estimators], axis=0)
    high = np.min([np.asarray(one.region.theta_high, np.float64) for one in estimators], axis=0)
    return low, high


def as_estimators(
    estimator: object, kinds: tuple[type[AbstractEstimator], ...], need: str
) -> tuple[Any, ...]:
    """One estimator or several of the given kinds, with the same observables and parameters."""
    every: Any = estimator if isinstance(estimator, list | tuple) else (estimator,)
    for one in every:
        if not isinstance(one, kinds):
            raise TypeError(
                f"{need} ({' or '.join(f'ist.{kind.__name__}' for kind in kinds)}), which "
                f"ist.fit(events, seed=…) trains by default; got {kind_of(one)}."
            )
    if not every:
        raise ValueError(f"{need}, at least one estimator; got an empty list.")
    for one in every[1:]:
        if (one.x_names, one.theta_names) != (every[0].x_names, every[0].theta_names):
            raise ValueError(
                "the estimators differ in their observables or parameters; give several only if "
                "they were trained on events of the same columns, as ist.cross_fit does."
            )
    return tuple(every)
