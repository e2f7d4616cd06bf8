"""What no training leaves behind: numbers that are none, and parts that do not fit together.

`save` refuses to write it and `load` refuses to read it. Every function raises a `ValueError` that
names the part; the caller adds the file.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..models.architecture import Shapes
from ..models.features.coordinates import NaturalMap
from ..models.features.feature_map import AbstractFeatureMap, Affine, Chained
from ..models.features.features import QuantileMap
from ..models.features.per_particle import Layout, PerParticleMap
from ..models.theta_potential import ThetaPotential
from ..world.priors.prior import AbstractPrior
from .history import HISTORY, REGION, History, Region

#: Degrees of a centring polynomial, far above those that are ever chosen.
HIGHEST_DEGREE = 64
#: Terms of a natural coordinate that are there or not.
FACTORS = ("sign", "linear", "lower", "upper", "curved")
#: Features of a particle, at most: putting particles in order compiles an operation for each.
MOST_FEATURES = 10_000


def require_estimator(estimator: Any) -> None:  # noqa: ANN401
    """An estimator, whichever kind it is."""
    x_dim, theta_dim = len(estimator.x_names), len(estimator.theta_names)
    require_names(estimator.x_names, "names of observables")
    require_names(estimator.theta_names, "names of parameters")
    require_shapes(estimator.shapes, x_dim, theta_dim)
    members = _require_network(estimator.model.network)
    _require_region(estimator.region, x_dim, theta_dim)
    _require_history(estimator.history, members)
    _require_centring(getattr(estimator.model, "centring", None), theta_dim)
    _require_prior(estimator.prior, theta_dim)


def require_matrix_element(element: Any) -> None:  # noqa: ANN401
    """A matrix element and the flows inside."""
    x_dim, proposal, transfer = len(element.x_names), element.proposal, element.transfer
    for part in (proposal, transfer):
        if part is not None:
            require_estimator(part)
    require_range(
        element.theta_low, element.theta_high, (len(element.theta_names),), "its range of θ"
    )
    _require_prior(element.prior, len(element.theta_names))
    if len(proposal.theta_names) != x_dim:
        raise ValueError("its proposal is for another number of observables")
    if (transfer is None) == (element.method.transfer is None):
        raise ValueError("its transfer density must be either learned or given")
    if transfer is not None:
        sizes = len(transfer.x_names), len(transfer.theta_names)
        if sizes != (x_dim, len(proposal.x_names)):
            raise ValueError("its transfer density does not fit its proposal")


def require_names(names: Any, what: str) -> tuple[str, ...]:  # noqa: ANN401
    """Names of columns: different strings, and at least one."""
    given = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not given or not names or len(set(names)) < len(names):
        raise ValueError(f"its {what} are not a list of different names")
    return tuple(names)


def require_shapes(shapes: Any, x_dim: int, theta_dim: int) -> Shapes:  # noqa: ANN401
    """Features of so many observables and parameters."""
    if not isinstance(shapes, Shapes):
        raise TypeError(f"its shapes are {type(shapes).__name__}")
    if shapes.x_dim != x_dim or isinstance(shapes.x_dim, bool):
        raise ValueError(f"it has {x_dim} names of observables and features of {shapes.x_dim}")
    _require_numbers(shapes.theta_centre, (theta_dim,), "the centre of its parameters")
    _require_positive(shapes.theta_scale, (theta_dim,), "the scale of its parameters")
    _require_map(shapes.x_features, x_dim)
    return shapes


def _require_prior(prior: object, theta_dim: int) -> None:
    """Of so many parameters, where it is one of ours."""
    if isinstance(prior, AbstractPrior) and prior.dim != theta_dim:
        raise ValueError(f"it has {theta_dim} names of parameters and a prior of another number")


def _require_map(features: Any, dim: int) -> None:  # noqa: ANN401
    """A feature map of `dim` columns; maps that a user wrote are taken as they are."""
    if not isinstance(features, AbstractFeatureMap):
        raise TypeError(f"its features are {type(features).__name__}")
    if isinstance(features, Chained):
        _require_map(features.first, dim)
        _require_map(features.second, dim)
    elif isinstance(features, Affine | NaturalMap):
        for name in features.__dataclass_fields__:
            check = _require_positive if name in ("scale", "spread") else _require_numbers
            check(getattr(features, name), (dim,), f"{name} of its features")
            if name in FACTORS and (np.abs(getattr(features, name)) > 1).any():
                raise ValueError(f"{name} of its features must be a factor from -1 to 1")
    elif isinstance(features, QuantileMap):
        segments = np.shape(features.slope)[-1:]
        _require_numbers(features.start, (dim,), "start of its features")
        for name in ("origin", "slope"):
            _require_numbers(getattr(features, name), (dim, *segments), f"{name} of its features")
        require_range(features.lower, features.upper, (dim, *segments), "segments of its features")
        if (np.asarray(features.slope) < 0).any():
            raise ValueError("the slopes of its features are negative")
    elif isinstance(features, PerParticleMap):
        layout = features.layout
        sizes = isinstance(layout, Layout) and (layout.particles, layout.features, layout.columns)
        fits = sizes and all(type(size) is int and 1 <= size <= dim for size in sizes)
        if not fits or layout.features > MOST_FEATURES:
            raise ValueError(f"its layout of particles does not fit {dim} observables")
        _require_positive(features.presence, (), "presence of its features")
        _require_map(features.each, layout.width)
        _require_map(features.event, dim - layout.columns + 1)


def _require_network(network: Any) -> int:  # noqa: ANN401
    """Finite weights, of the same number of members; that number."""
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_array))
    counts = {leaf.shape[:1] for leaf in leaves}
    if len(counts) != 1 or counts & {(), (0,)}:
        raise ValueError("its weights are not all of the same number of members")
    if not all(np.isfinite(leaf).all() for leaf in leaves if eqx.is_inexact_array(leaf)):
        raise ValueError("its weights hold NaN or infinite numbers")
    return int(leaves[0].shape[0])


def _require_region(region: Region, x_dim: int, theta_dim: int) -> None:
    """Two boxes, one in θ and one in x."""
    theta_low, theta_high, x_low, x_high = (getattr(region, field) for field in REGION)
    require_range(theta_low, theta_high, (theta_dim,), "its trained region")
    require_range(x_low, x_high, (x_dim,), "its range of observables")


def _require_history(history: History, members: int) -> None:
    """Losses for every epoch and member."""
    arrays = {field: np.asarray(getattr(history, field)) for field in HISTORY}
    epochs = arrays["seconds"].shape
    expected = dict.fromkeys(HISTORY, (*epochs, members)) | {
        "seconds": epochs[:1],
        "best_epoch": (members,),
    }
    for field, array in arrays.items():
        if array.shape != expected[field] or array.dtype.kind not in "iuf":
            raise ValueError(f"{field} of its history does not fit {members} members")
    texts = (history.stopped, *history.warnings, *history.choices)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("the remarks of its history are no texts")


def _require_centring(centring: ThetaPotential | None, theta_dim: int) -> None:
    """A polynomial of so many parameters."""
    if centring is None:
        return
    degrees = np.asarray(centring.degrees)
    if degrees.dtype.kind not in "iu" or degrees.shape[1:] != (theta_dim,) or not degrees.size:
        raise ValueError("the degrees of its centring do not fit its parameters")
    if degrees.min() < 0 or degrees.max() > HIGHEST_DEGREE:
        raise ValueError(f"a degree of its centring is not one of 0 to {HIGHEST_DEGREE}")
    _require_numbers(centring.coefficients, (len(degrees),), "coefficients of its centring")
    for edge in (centring.low, centring.high):
        _require_numbers(edge, (theta_dim,), "the box of its centring")
    require_range(centring.low, centring.high, (theta_dim,), "the box of its centring")


def require_range(low: Any, high: Any, shape: tuple[int, ...], what: str) -> None:  # noqa: ANN401
    """Lower edges that are not above the upper ones; infinite ones are allowed."""
    low, high = np.asarray(low), np.asarray(high)
    if low.shape != shape or high.shape != shape or {low.dtype.kind, high.dtype.kind} - set("iuf"):
        raise ValueError(f"{what} must be numbers of shape {shape}; got {low.shape}, {high.shape}")
    if not (low <= high).all():
        raise ValueError(f"{what} has NaN, or lower edges above the upper ones")


def _require_numbers(value: Any, shape: tuple[int, ...], what: str) -> None:  # noqa: ANN401
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "iuf":
        raise ValueError(f"{what} must be numbers of shape {shape}; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} has NaN or infinite numbers")


def _require_positive(value: Any, shape: tuple[int, ...], what: str) -> None:  # noqa: ANN401
    _require_numbers(value, shape, what)
    if not (np.asarray(value) > 0).all():
        raise ValueError(f"{what} has numbers that are not positive")
