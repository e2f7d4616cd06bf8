"""Reading trained artefacts back from files that `save` wrote."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..archive import read_archive
from ..inputs import kind_of
from ..models.architecture import AbstractArchitecture, PairChoice, Shapes
from ..models.members import with_centring, with_network
from ..models.networks.networks import NetworkChoice
from ..models.potential import AbstractModel
from ..serial import absent_names, restore
from ..streams import Purpose, Stream
from .density import DensityEstimator
from .estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from .history import HISTORY, REGION, History, Region
from .matrix_element import MatrixElement

KINDS: dict[str, type[AbstractEstimator]] = {
    kind.__name__: kind for kind in (Estimator, DensityEstimator, ScoreEstimator, RatioEstimator)
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
    header, arrays = read_archive(path)
    if header.get("kind") == MatrixElement.__name__:
        return _read_matrix_element(header, arrays, Path(path), dict(supplied or {}))
    return read_estimator(header, arrays, path, network, supplied)


def read_estimator(
    header: Mapping[str, Any],
    arrays: Mapping[str, Any],
    path: str | Path,
    network: NetworkChoice | PairChoice | None = None,
    supplied: Mapping[str, object] | None = None,
) -> Any:  # noqa: ANN401
    """The estimator that was `described`; `path` is where that was read."""
    supplied = dict(supplied or {})
    try:
        kind = KINDS[header["kind"]]
        architecture = _architecture(header["architecture"], network, supplied)
        shapes = restore(header["shapes"])
        if not isinstance(shapes, Shapes):
            raise TypeError(f"its shapes are {kind_of(shapes)}")
        region = Region(**{field: arrays[f"region/{field}"] for field in REGION})
        history = History(
            **{field: arrays[f"history/{field}"] for field in HISTORY},
            stopped=header["stopped"],
            warnings=tuple(header["warnings"]),
            choices=tuple(header.get("choices", ())),
        )
        model = _filled(architecture, shapes, arrays, path)
        model = with_centring(model, restore(header.get("centring")))
        return kind(
            model=model,
            architecture=architecture,
            shapes=shapes,
            method=restore(header["method"], supplied),
            prior=restore(header["prior"], supplied),
            region=region,
            x_names=tuple(header["x_names"]),
            theta_names=tuple(header["theta_names"]),
            history=history,
            training=restore(header.get("training")),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} is an inferostatic model file, but parts of it are missing or malformed "
            f"({type(error).__name__}: {error}); save it again."
        ) from error


def _read_matrix_element(
    header: dict[str, Any], arrays: dict[str, Any], path: Path, supplied: Mapping[str, object]
) -> MatrixElement:
    """What `MatrixElement.save` wrote."""
    try:
        parts = {
            name: read_estimator(
                header[name],
                {
                    key.removeprefix(f"{name}/"): array
                    for key, array in arrays.items()
                    if key.startswith(f"{name}/")
                },
                path,
                supplied=supplied,
            )
            for name in ("proposal", "transfer")
            if name in header
        }
        return MatrixElement(
            method=restore(header["method"], supplied),
            transfer=parts.get("transfer"),
            proposal=parts["proposal"],
            x_names=tuple(header["x_names"]),
            theta_names=tuple(header["theta_names"]),
            theta_low=arrays["low"],
            theta_high=arrays["high"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is an inferostatic model file, but parts of it are missing or malformed "
            f"({type(error).__name__}: {error}); save it again."
        ) from error


def _architecture(
    described: object,
    network: NetworkChoice | PairChoice | None,
    supplied: Mapping[str, object],
) -> AbstractArchitecture:
    """The stored architecture, with user-written parts of its network supplied again."""
    architecture = restore(described, supplied)
    missing = [name for name in absent_names(described) if name not in supplied]
    if missing and network is not None:
        return dataclasses.replace(architecture, network=network)
    if missing:
        raise ValueError(
            f"the model's network was built with the user-written {missing[0]!r}, which a file "
            "cannot hold; supply it again: ist.load(path, network=…) or "
            f"ist.load(path, supplied={{{missing[0]!r}: …}})."
        )
    if not isinstance(architecture, AbstractArchitecture):
        raise TypeError(f"its architecture is {kind_of(architecture)}")
    return architecture


def _filled(
    architecture: AbstractArchitecture, shapes: Shapes, arrays: Mapping[str, Any], path: str | Path
) -> AbstractModel:
    """The architecture's model with the stored weights in place."""
    model = architecture.build(shapes, key=Stream(0, Purpose.TRY_MODEL).key())
    dynamic, static = eqx.partition(model.network, eqx.is_array)
    leaves, structure = jax.tree.flatten(dynamic)
    stored = [arrays.get(f"network/{i}") for i in range(len(leaves))]
    count = sum(name.startswith("network/") for name in arrays)
    fits = count == len(leaves) and all(
        value is not None
        and value.shape[1:] == leaf.shape
        and np.issubdtype(value.dtype, np.number)
        for value, leaf in zip(stored, leaves, strict=True)
    )
    if not fits:
        raise ValueError(
            f"the weights in {path} do not fit the network that was described or supplied; "
            "supply the same network that was trained."
        )
    filled = jax.tree.unflatten(structure, [jnp.asarray(value) for value in stored])
    return with_network(model, eqx.combine(filled, static))
