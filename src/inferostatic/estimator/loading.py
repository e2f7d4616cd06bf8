"""Reading trained artefacts back from files that `save` wrote, and from pickles."""

import copyreg
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..archive import read_archive
from ..inputs import as_path, in_short, kind_of
from ..models.architecture import AbstractArchitecture, PairChoice, Shapes
from ..models.flows.flow import MixtureFlow
from ..models.members import with_centring
from ..models.networks.networks import MLP, NetworkChoice, Residual
from ..models.potential import WITHOUT_DENSITY, PotentialModel
from ..serial import Absent, UserObject, absent_names, restore
from ..streams import Purpose, Stream
from ..supervision.records import Capability
from .density import DensityEstimator
from .estimator import RECORDS, AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from .history import HISTORY, REGION, History, Region
from .matrix_element import MatrixElement
from .provenance import Provenance
from .soundness import (
    require_estimator,
    require_matrix_element,
    require_names,
    require_range,
    require_shapes,
)

KINDS: dict[str, type[AbstractEstimator]] = {
    kind.__name__: kind for kind in (Estimator, DensityEstimator, ScoreEstimator, RatioEstimator)
}
#: What the model of each kind can be asked for.
_CAPABILITIES: dict[type[AbstractEstimator], frozenset[Capability]] = {
    Estimator: WITHOUT_DENSITY,
    DensityEstimator: frozenset(Capability),
    ScoreEstimator: frozenset({Capability.SCORE}),
    RatioEstimator: frozenset({Capability.LOG_RATIO}),
}
#: What is wrong with weights that another network left.
MISFIT = (
    "do not fit the network that was described or supplied; supply the same network that was "
    "trained."
)
#: Records that a user may have written.
USERS = ("method", "prior")
#: Layers that each choice of network has at least; every one has arrays of its own.
_LAYERS: dict[type, Callable[[Any], int]] = {
    MLP: lambda mlp: len(mlp.widths),
    Residual: lambda residual: 2 * residual.blocks,
    MixtureFlow: lambda flow: (flow.layers + 1) * flow.depth,
}


def load(
    path: str | Path,
    network: NetworkChoice | PairChoice | None = None,
    *,
    supplied: Mapping[str, object] | None = None,
) -> Any:  # noqa: ANN401
    """Read an estimator that `save` wrote.

    Args:
        path: the file.
        network: the user's own network function, if the model was built with one.
        supplied: the user's own prior or width functions by the names under which they were
            stored (their `__qualname__`); the error for a missing one names it.
    """
    path = as_path(path)
    if supplied is not None and not isinstance(supplied, Mapping):
        raise TypeError(
            "supplied must be a dictionary of functions by the names under which they were stored; "
            f"got {kind_of(supplied)}."
        )
    header, arrays = read_archive(path)
    return read_described(header, arrays, str(path), network, supplied)


def unpickle(
    header: dict[str, Any], arrays: dict[str, np.ndarray], users: dict[str, UserObject]
) -> Any:  # noqa: ANN401
    """The estimator that was pickled."""
    supplied = {name: user.thing for name, user in users.items()}
    return read_described(header, arrays, "the pickled estimator", None, supplied)


def _reduce(estimator: AbstractEstimator | MatrixElement) -> tuple[Any, ...]:
    """Pickled as it is saved, with what a user wrote beside it."""
    users: dict[str, UserObject] = {}
    return unpickle, (*estimator.described(users), users)


for _kind in (*KINDS.values(), MatrixElement):
    copyreg.pickle(_kind, _reduce)


def read_described(
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    origin: str,
    network: NetworkChoice | PairChoice | None = None,
    supplied: Mapping[str, object] | None = None,
) -> Any:  # noqa: ANN401
    """What was `described`; `origin` is where that was read."""
    left, supplied = dict(arrays), dict(supplied or {})
    try:
        if header["kind"] == MatrixElement.__name__:
            made = _read_matrix_element(header, left, supplied)
        else:
            made = _read_estimator(header, left, network, supplied)
        if left:
            raise ValueError(f"its array {min(left)!r} belongs to no part of it")
    except _Misfit as error:
        raise ValueError(f"the weights in {origin} {error}") from error
    except _Missing as error:
        raise ValueError(f"{origin}: {error}") from error
    except ImportError:
        raise
    except Exception as error:  # whatever the parts of a malformed description raise
        raise ValueError(
            f"{origin} is an inferostatic model file, but parts of it are missing or malformed "
            f"({in_short(error).removeprefix('ValueError: ')}); save it again."
        ) from error
    return made


class _Misfit(ValueError):
    """The weights do not fit the network."""


class _Missing(ValueError):
    """Something that the user has to supply."""


def _read_estimator(
    header: Mapping[str, Any],
    arrays: dict[str, np.ndarray],
    network: NetworkChoice | PairChoice | None,
    supplied: Mapping[str, object],
) -> Any:  # noqa: ANN401
    """The estimator; what it uses is taken out of `arrays`."""
    kind = KINDS[header["kind"]]
    x_names = require_names(header["x_names"], "names of observables")
    theta_names = require_names(header["theta_names"], "names of parameters")
    architecture = _architecture(header["architecture"], network, supplied)
    if architecture.capabilities != _CAPABILITIES[kind]:
        raise TypeError(f"a {kind.__name__} cannot have a {type(architecture).__name__}")
    region = Region(**{field: arrays.pop(f"region/{field}") for field in REGION})
    # The range of the observables bounds the sizes of everything that follows.
    require_range(region.x_low, region.x_high, (len(x_names),), "its range of observables")
    shapes = restore(header["shapes"], supplied)
    shapes = require_shapes(shapes, len(x_names), len(theta_names))
    history = History(
        **{field: arrays.pop(f"history/{field}") for field in HISTORY},
        stopped=header["stopped"],
        warnings=_remarks(header["warnings"]),
        choices=_remarks(header.get("choices", [])),
        resumed=header.get("resumed", False) is True,
    )
    # A user's own network may need values to be built, which ours never do.
    values = bool(absent_names(header["architecture"]))
    weights = _fill(architecture, shapes, list(_take_weights(arrays)), values=values)
    model = architecture.place_network(shapes, weights)
    centring = _record(header.get("centring"), "centring", "ThetaPotential", supplied)
    if centring is not None and not isinstance(model, PotentialModel):
        raise TypeError(f"a {kind.__name__} has no centring")
    records = {name: _record(header.get(name), name, of, supplied) for name, of in RECORDS.items()}
    if records["provenance"] is None:
        # Files of earlier versions say at least by which packages they were written.
        records["provenance"] = Provenance(packages=header.get("packages", {}))
    estimator = kind(
        model=with_centring(model, centring),
        architecture=architecture,
        shapes=shapes,
        region=region,
        x_names=x_names,
        theta_names=theta_names,
        history=history,
        **records,
    )
    require_estimator(estimator)
    return estimator


def _remarks(listed: object) -> tuple[Any, ...]:
    if not isinstance(listed, list | tuple):
        raise TypeError(f"remarks of its history are {kind_of(listed)}")
    return tuple(listed)


def _read_matrix_element(
    header: Mapping[str, Any], arrays: dict[str, np.ndarray], supplied: Mapping[str, object]
) -> MatrixElement:
    """What `MatrixElement.save` wrote."""
    parts = {}
    for name in [name for name in ("proposal", "transfer") if name in header]:
        keys = [key for key in arrays if key.startswith(f"{name}/")]
        inner = {key.removeprefix(f"{name}/"): arrays.pop(key) for key in keys}
        parts[name] = _read_estimator(header[name], inner, None, supplied)
        if inner:
            raise ValueError(f"its array {min(inner)!r} of the {name} belongs to no part of it")
        if not isinstance(parts[name], DensityEstimator):
            raise TypeError(f"its {name} is {kind_of(parts[name])}")
    element = MatrixElement(
        method=_record(header["method"], "method", "MEM", supplied),
        transfer=parts.get("transfer"),
        proposal=parts["proposal"],
        x_names=require_names(header["x_names"], "names of observables"),
        theta_names=require_names(header["theta_names"], "names of parameters"),
        theta_low=arrays.pop("low"),
        theta_high=arrays.pop("high"),
        prior=_record(header.get("prior"), "prior", "AbstractPrior", supplied),
        provenance=_record(header.get("provenance"), "provenance", "Provenance", supplied)
        or parts["proposal"].provenance,
    )
    require_matrix_element(element)
    return element


def _record(described: object, name: str, of: str, supplied: Mapping[str, object]) -> Any:  # noqa: ANN401
    """A described record; None where there is none, and what a user wrote is taken as it is."""
    record = restore(described, supplied)
    if record is None and name != "method":
        return None
    names = {kind.__name__ for kind in type(record).__mro__}
    ours = name not in USERS or not _is_user_written(described)
    if of not in names and not isinstance(record, Absent) and ours:
        raise TypeError(f"its {name} is {kind_of(record)}")
    return record


def _is_user_written(described: object) -> bool:
    return isinstance(described, dict) and "user" in described


def _architecture(
    described: object, network: NetworkChoice | PairChoice | None, supplied: Mapping[str, object]
) -> AbstractArchitecture:
    """The stored architecture, with user-written parts of its network supplied again."""
    architecture = restore(described, supplied)
    missing = [name for name in absent_names(described) if name not in supplied]
    if missing and network is not None:
        return dataclasses.replace(architecture, network=network)
    if missing:
        raise _Missing(
            f"the model's network was built with the user-written {missing[0]!r}, which a file "
            "cannot hold; supply it again: ist.load(path, network=…) or "
            f"ist.load(path, supplied={{{missing[0]!r}: …}})."
        )
    if not isinstance(architecture, AbstractArchitecture):
        raise TypeError(f"its architecture is {kind_of(architecture)}")
    return architecture


def _take_weights(arrays: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    """The arrays network/0, network/1, … as long as there are any."""
    for i in range(len(arrays)):
        if f"network/{i}" not in arrays:
            return
        yield arrays.pop(f"network/{i}")


def _fill(
    architecture: AbstractArchitecture, shapes: Shapes, stored: list[np.ndarray], *, values: bool
) -> Any:  # noqa: ANN401
    """The architecture's network with the stored weights.

    It is first built by its shapes alone, which takes no memory however large it is said to be.
    """

    def build(key: Any) -> Any:  # noqa: ANN401
        return architecture.build_network(shapes, key=key)

    key = Stream(0, Purpose.TRY_MODEL).key()
    if _count_layers(architecture) > len(stored):
        raise _Misfit(MISFIT)
    try:
        _check_fit(eqx.filter_eval_shape(build, key), stored)
    except Exception as error:
        causes = (error, error.__cause__)
        if not values or not any(isinstance(e, jax.errors.JAXTypeError) for e in causes):
            raise
    # With values as well: functions inside a flow may hold arrays of their own.
    network = build(key)
    structure = _check_fit(network, stored)
    filled = jax.tree.unflatten(structure, [jnp.asarray(value) for value in stored])
    return eqx.combine(filled, eqx.filter(network, eqx.is_array, inverse=True))


def _check_fit(network: Any, stored: list[np.ndarray]) -> Any:  # noqa: ANN401
    """The structure of a network's arrays, or of their shapes, which the stored ones must have."""
    arrays = eqx.filter(network, lambda leaf: isinstance(leaf, jax.Array | jax.ShapeDtypeStruct))
    leaves, structure = jax.tree.flatten(arrays)
    if [_outline(leaf) for leaf in leaves] != [_outline(value, 1) for value in stored]:
        raise _Misfit(MISFIT)
    return structure


def _outline(array: Any, first: int = 0) -> tuple[Any, ...]:  # noqa: ANN401
    """Kind of number and axes, without those of members."""
    return np.dtype(array.dtype).kind, *array.shape[first:]


def _count_layers(architecture: AbstractArchitecture) -> int:
    """Layers of our own networks, before any is built."""
    choices = jax.tree.leaves(architecture, is_leaf=lambda node: type(node) in _LAYERS)
    return sum(_LAYERS[type(choice)](choice) for choice in choices if type(choice) in _LAYERS)
